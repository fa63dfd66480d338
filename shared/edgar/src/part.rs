//! A document of a submission: what the envelope says about it, where it is, and what it is.

use std::ops::Range;

use memchr::memmem;
use serde::{Deserialize, Serialize};

use crate::tag_lines::{opens_with, tag_at};

// A page that opens with comments and declarations names its root element within these bytes.
const ROOT_WINDOW_BYTES: usize = 8 * 1024;
// Lines of letters and digits that are looked at before they count as encoded data.
const ENCODED_LINES: usize = 8;

/// What an envelope or an index file says about a document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PartEntry {
    /// `10-K`, `EX-99.1`, `GRAPHIC`.
    pub document_type: String,
    pub sequence: Option<String>,
    pub filename: Option<String>,
    pub description: Option<String>,
}

impl PartEntry {
    pub fn is_exhibit(&self) -> bool {
        self.exhibit_type().is_some()
    }

    // What follows `EX-`.
    fn exhibit_type(&self) -> Option<&str> {
        let prefix = self.document_type.get(..3)?;
        prefix
            .eq_ignore_ascii_case("EX-")
            .then(|| &self.document_type[3..])
    }

    /// Type, and the description unless it repeats the type: `EX-21.1 SUBSIDIARIES`.
    pub fn title(&self) -> String {
        let kind = self.document_type.as_str();
        let description = self.description.as_deref().unwrap_or_default();
        match (upper_letters(kind), upper_letters(description)) {
            (code, words) if code.is_empty() && words.is_empty() => "Document".into(),
            (code, _) if code.is_empty() => description.into(),
            (_, words) if words.is_empty() => kind.into(),
            (code, words) if words == code || words == format!("FORM{code}") => kind.into(),
            (code, words) if words.starts_with(&code) => description.into(),
            _ => format!("{kind} {description}"),
        }
    }

    /// Why a document of this type or name is not read; `None` if only its content can tell.
    pub fn skip_reason(&self) -> Option<SkipReason> {
        let kind = self.document_type.to_ascii_uppercase();
        let number: String = self
            .exhibit_type()
            .unwrap_or_default()
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        match kind.as_str() {
            "GRAPHIC" => Some(SkipReason::Graphic),
            "EXCEL" | "ZIP" | "JSON" => Some(SkipReason::Data),
            "XML" => Some(SkipReason::Viewer),
            // Exhibits of Regulation S-K end with 99; from 100 on they are files for machines.
            _ if number.len() > 2 => Some(SkipReason::Xbrl),
            // A document with a type of its own may be called `r1.htm`.
            _ => self
                .filename
                .as_deref()
                .and_then(SkipReason::from_file_name)
                .filter(|reason| *reason != SkipReason::Viewer || kind.is_empty()),
        }
    }
}

fn upper_letters(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_uppercase)
        .collect()
}

/// Why a part is not a document that people read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Schema, linkbases and instance.
    Xbrl,
    Graphic,
    /// A courtesy copy of a document of the submission.
    Pdf,
    /// Spreadsheets, archives, JSON.
    Data,
    /// What the viewer of EDGAR made from the XBRL: `R1.htm`, `FilingSummary.xml`, scripts.
    Viewer,
    Empty,
    /// What the archive says about a filing: `…-index.htm`, `index.json`.
    Index,
    /// A full submission whose documents are next to it.
    Submission,
    /// A document that is also in the full submission next to it.
    Part,
}

impl SkipReason {
    /// For messages: `3 XBRL`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Xbrl => "XBRL",
            Self::Graphic => "graphic",
            Self::Pdf => "PDF copy",
            Self::Data => "data",
            Self::Viewer => "viewer",
            Self::Empty => "empty",
            Self::Index => "index",
            Self::Submission => "full submission",
            Self::Part => "part of a full submission",
        }
    }

    /// What a file of a filing is by its name alone; `None` for what may be a document.
    pub fn from_file_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let (stem, extension) = name.rsplit_once('.')?;
        match extension {
            "jpg" | "jpeg" | "gif" | "png" | "bmp" | "tif" | "tiff" | "svg" => Some(Self::Graphic),
            "xsd" => Some(Self::Xbrl),
            "xml" if stem == "filingsummary" => Some(Self::Viewer),
            // An instance before 2019 is named like its schema, `abc-20091231.xml`.
            "xml" if is_xbrl_stem(stem) => Some(Self::Xbrl),
            "xml" if is_viewer_page(stem) => Some(Self::Viewer),
            "htm" | "html" if is_viewer_page(stem) => Some(Self::Viewer),
            "js" | "css" => Some(Self::Viewer),
            "xls" | "xlsx" | "zip" | "json" | "csv" => Some(Self::Data),
            _ => None,
        }
    }
}

fn is_xbrl_stem(stem: &str) -> bool {
    let linkbase = ["_cal", "_def", "_lab", "_pre", "_ref", "_htm"];
    let dated = stem
        .rsplit_once('-')
        .is_some_and(|(_, date)| date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()));
    dated || linkbase.iter().any(|ending| stem.ends_with(ending))
}

// `R1.htm`, `R12.htm`.
fn is_viewer_page(stem: &str) -> bool {
    stem.strip_prefix('r')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// A `<DOCUMENT>` of a submission. Positions are bytes of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmissionPart {
    pub entry: PartEntry,
    /// From `<DOCUMENT>` to behind `</DOCUMENT>`.
    pub bytes: Range<usize>,
    /// Between `<TEXT>` and `</TEXT>`.
    pub text: Range<usize>,
    /// The text without the `<XBRL>`, `<XML>` or `<PDF>` around it.
    pub content: Range<usize>,
    pub kind: PartKind,
}

impl SubmissionPart {
    /// Why this part is not a document to read; `None` if it is one.
    pub fn skip_reason(&self) -> Option<SkipReason> {
        if let Some(reason) = self.entry.skip_reason() {
            return Some(reason);
        }
        match self.kind {
            PartKind::Html | PartKind::InlineXbrl | PartKind::Text | PartKind::Xml => None,
            PartKind::Empty => Some(SkipReason::Empty),
            PartKind::Xbrl => Some(SkipReason::Xbrl),
            PartKind::Pdf => Some(SkipReason::Pdf),
            PartKind::Encoded => Some(SkipReason::Graphic),
        }
    }
}

/// The format of a part, by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    Html,
    /// HTML with tagged figures.
    InlineXbrl,
    Text,
    Xbrl,
    Xml,
    /// Encoded as text, or as it is.
    Pdf,
    /// Uuencoded, or lines of base64.
    Encoded,
    Empty,
}

/// Where the content of a text is inside its wrapper, and what it is.
pub(crate) fn sniff(bytes: &[u8], text: &Range<usize>) -> (Range<usize>, PartKind) {
    let inner = trim(bytes, text.clone());
    let Some(wrapper) = ["XBRL", "XML", "PDF"]
        .into_iter()
        .find(|name| opens_with(&bytes[inner.clone()], name))
    else {
        return (text.clone(), kind_of(&bytes[inner], ""));
    };
    let start = tag_at(bytes, inner.start).map_or(inner.start, |tag| tag.value_start);
    let end_tag = wrapper.len() + 3;
    let tail = inner.end.saturating_sub(end_tag).max(start);
    let closed = tag_at(bytes, tail).is_some_and(|tag| {
        bytes[tail] == b'<'
            && tag.name.starts_with('/')
            && tag.name[1..].eq_ignore_ascii_case(wrapper)
    });
    let content = start..if closed { tail } else { inner.end };
    let kind = kind_of(&bytes[trim(bytes, content.clone())], wrapper);
    (content, kind)
}

fn trim(bytes: &[u8], range: Range<usize>) -> Range<usize> {
    let inside = &bytes[range.clone()];
    let start = range.start + inside.len() - inside.trim_ascii_start().len();
    start..start.max(range.start + inside.trim_ascii_end().len())
}

// `content` is trimmed.
fn kind_of(content: &[u8], wrapper: &str) -> PartKind {
    if content.is_empty() {
        return PartKind::Empty;
    }
    if wrapper == "PDF" || content.starts_with(b"%PDF-") {
        return PartKind::Pdf;
    }
    if is_encoded(content) {
        return PartKind::Encoded;
    }
    let window = content[..content.len().min(ROOT_WINDOW_BYTES)].to_ascii_lowercase();
    // `<HtmlFileName>` is not a page.
    if [&b"<html"[..], b"<!doctype html", b"<body"]
        .into_iter()
        .any(|tag| {
            memmem::find_iter(&window, tag).any(|at| {
                let next = window.get(at + tag.len());
                next.is_none_or(|byte| !byte.is_ascii_alphanumeric())
            })
        })
    {
        let tagged = wrapper == "XBRL"
            || [&b"xmlns:ix="[..], b"<ix:"]
                .into_iter()
                .any(|mark| memmem::find(content, mark).is_some());
        return if tagged {
            PartKind::InlineXbrl
        } else {
            PartKind::Html
        };
    }
    let markup = content.starts_with(b"<?xml") || !wrapper.is_empty() && content[0] == b'<';
    match markup {
        true if wrapper == "XBRL"
            || wrapper.is_empty() && memmem::find(&window, b"www.xbrl.org/").is_some() =>
        {
            PartKind::Xbrl
        }
        true => PartKind::Xml,
        false => PartKind::Text,
    }
}

// `begin 644 name`, or several lines of base64 of one length.
fn is_encoded(content: &[u8]) -> bool {
    let mut lines = content
        .split(|b| matches!(b, b'\n' | b'\r'))
        .filter(|line| !line.is_empty());
    let mode = content
        .strip_prefix(b"begin ")
        .and_then(|rest| rest.get(..4));
    if mode.is_some_and(|mode| mode[..3].iter().all(u8::is_ascii_digit) && mode[3] == b' ') {
        return true;
    }
    lines
        .by_ref()
        .take(ENCODED_LINES)
        .filter(|line| {
            (60..=80).contains(&line.len())
                && line
                    .iter()
                    .all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(b))
        })
        .count()
        == ENCODED_LINES
}

//! EDGAR full-submission text files: an SGML envelope around the documents of a filing.

use std::collections::BTreeMap;

use stemma_document::{Defect, Heading};

use crate::title;

const ENVELOPE_WINDOW_LINES: usize = 50;
// `<HTML>` or a doctype within these first lines marks a document as HTML.
const HTML_WINDOW_LINES: usize = 20;

/// The envelope of a submission; empty for other texts.
#[derive(Debug, Default)]
pub(super) struct EdgarSubmission {
    /// Any of `company`, `cik`, `accession`, `form`, `period`, `filed`.
    pub(super) metadata: BTreeMap<String, String>,
    /// One level-1 heading per `<DOCUMENT>`.
    pub(super) documents: Vec<Heading>,
    pub(super) defects: Vec<Defect>,
    // Per line, whether it may be a heading. Empty means all lines.
    prose: Vec<bool>,
}

impl EdgarSubmission {
    /// Parses the envelope, and removes it and all tags from the lines. The number of lines does not change.
    pub(super) fn read(lines: &mut [String]) -> Self {
        if !lines
            .iter()
            .take(ENVELOPE_WINDOW_LINES)
            .any(|line: &String| {
                ["<SEC-DOCUMENT>", "<SEC-HEADER>", "<IMS-HEADER>"]
                    .iter()
                    .any(|tag| line.starts_with(tag))
            })
        {
            return Self::default();
        }
        let mut reader = EnvelopeReader::default();
        for (index, line) in lines.iter_mut().enumerate() {
            let is_prose = reader.read_line(index, line);
            reader.submission.prose.push(is_prose);
        }
        reader.finish()
    }

    /// Whether a 0-based line is running text, as opposed to envelope or table.
    pub(super) fn is_prose(&self, index: usize) -> bool {
        self.prose.get(index).copied().unwrap_or(true)
    }
}

#[derive(Default)]
struct EnvelopeReader {
    submission: EdgarSubmission,
    section: EnvelopePart,
    in_table: bool,
    in_binary: bool,
    binaries: usize,
    stripper: TagStripper,
    text_lines: usize,
}

// The part of the envelope that the current line belongs to.
#[derive(Default, PartialEq)]
enum EnvelopePart {
    #[default]
    Header,
    DocumentHeader,
    Text,
}

impl EnvelopeReader {
    // Returns whether the line may be a heading.
    fn read_line(&mut self, index: usize, line: &mut String) -> bool {
        let upper: String = line
            .trim_start()
            .chars()
            .take(16)
            .flat_map(char::to_uppercase)
            .collect();
        if upper.starts_with("<DOCUMENT>") {
            self.open_document(index);
        } else if upper.starts_with("</TEXT>") || upper.starts_with("</DOCUMENT>") {
            self.section = EnvelopePart::DocumentHeader;
        } else {
            return match self.section {
                EnvelopePart::Header => self.read_header(line),
                EnvelopePart::DocumentHeader => self.read_document_header(&upper, line),
                EnvelopePart::Text => self.read_text(&upper, line),
            };
        }
        line.clear();
        false
    }

    fn finish(mut self) -> EdgarSubmission {
        for document in &mut self.submission.documents {
            document.title = title::clean(&document.title);
            if document.title.is_empty() {
                document.title = "Document".into();
            }
        }
        if self.binaries > 0 {
            let detail = format!(
                "{} encoded binary files of the submission were left out",
                self.binaries
            );
            self.submission.defects.push(Defect {
                code: "text.binary_left_out".into(),
                page: None,
                detail,
            });
        }
        self.submission
    }

    fn open_document(&mut self, index: usize) {
        let line = u32::try_from(index + 1).unwrap_or(u32::MAX);
        self.submission.documents.push(Heading {
            line,
            level: 1,
            title: String::new(),
        });
        self.section = EnvelopePart::DocumentHeader;
    }

    fn read_header(&mut self, line: &mut String) -> bool {
        if let Some((name, value)) = line.split_once(':') {
            let value = title::clean(value);
            let entry = match name.trim() {
                "COMPANY CONFORMED NAME" => Some(("company", value)),
                "CENTRAL INDEX KEY" => Some(("cik", value)),
                "ACCESSION NUMBER" => Some(("accession", value)),
                "CONFORMED SUBMISSION TYPE" => Some(("form", value)),
                "CONFORMED PERIOD OF REPORT" => Some(("period", iso_date(value))),
                "FILED AS OF DATE" => Some(("filed", iso_date(value))),
                _ => None,
            };
            // A filing may have several filers; the first is the registrant.
            if let Some((key, value)) = entry.filter(|(_, value)| !value.is_empty()) {
                self.submission.metadata.entry(key.into()).or_insert(value);
            }
        }
        if line.starts_with('<') {
            line.clear();
        }
        false
    }

    fn read_document_header(&mut self, upper: &str, line: &mut String) -> bool {
        let value = line
            .split_once('>')
            .map(|(_, value)| value.trim().to_owned())
            .unwrap_or_default();
        if upper.starts_with("<TEXT>") {
            self.section = EnvelopePart::Text;
            self.in_table = false;
            self.in_binary = false;
            self.stripper = TagStripper::default();
            self.text_lines = 0;
        } else if (upper.starts_with("<TYPE>") || upper.starts_with("<DESCRIPTION>"))
            && let Some(document) = self.submission.documents.last_mut()
        {
            document.title = document_title(&document.title, &value);
        }
        line.clear();
        false
    }

    fn read_text(&mut self, upper: &str, line: &mut String) -> bool {
        self.text_lines += 1;
        if upper.starts_with("BEGIN 6") || upper.starts_with("<PDF>") {
            self.in_binary = true;
            self.binaries += 1;
        }
        if self.in_binary || upper.starts_with("<PAGE>") {
            self.in_binary &= !(upper == "END" || upper.starts_with("</PDF>"));
            line.clear();
            return false;
        }
        if self.text_lines <= HTML_WINDOW_LINES
            && (upper.starts_with("<HTML") || upper.starts_with("<!DOCTYPE HTML"))
        {
            self.stripper.html = true;
        }
        let was_in_table = self.in_table;
        if line.contains('<') || self.stripper.state != StripState::Text {
            *line = self.stripper.strip_line(line, &mut self.in_table);
        }
        if self.stripper.html && line.contains('&') {
            *line = decode_entities(line);
        }
        !was_in_table && !self.in_table
    }
}

// Type and description, unless the description repeats the type.
fn document_title(kind: &str, value: &str) -> String {
    match kind {
        "" => value.into(),
        _ if value.contains(kind) => kind.into(),
        _ => format!("{kind} {value}"),
    }
}

// Converts `20001231` to `2000-12-31`; other values stay as they are.
fn iso_date(value: String) -> String {
    let is_date = value.len() == 8 && value.bytes().all(|byte| byte.is_ascii_digit());
    if is_date {
        format!("{}-{}-{}", &value[..4], &value[4..6], &value[6..])
    } else {
        value
    }
}

// Removes tags, which may span lines.
#[derive(Debug, Default)]
struct TagStripper {
    // In HTML everything that looks like a tag is one; in plain text only the tags used by EDGAR.
    html: bool,
    state: StripState,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum StripState {
    #[default]
    Text,
    Tag,
    Comment,
    // The content of `<script>` and `<style>`.
    Code,
}

impl TagStripper {
    fn strip_line(&mut self, line: &str, in_table: &mut bool) -> String {
        let mut text = String::with_capacity(line.len());
        let mut rest = line;
        while !rest.is_empty() {
            rest = match self.state {
                StripState::Text => self.copy_text(rest, &mut text, in_table),
                StripState::Tag => self.skip(rest, ">"),
                StripState::Comment => self.skip(rest, "-->"),
                StripState::Code => self.skip_code(rest),
            };
        }
        text.trim_end().to_owned()
    }

    fn copy_text<'a>(&mut self, rest: &'a str, text: &mut String, in_table: &mut bool) -> &'a str {
        let Some(at) = rest.find('<') else {
            text.push_str(rest);
            return "";
        };
        text.push_str(&rest[..at]);
        let tag = &rest[at + 1..];
        let name: String = tag
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '/')
            .take(12)
            .collect();
        let name = name.to_ascii_lowercase();
        if self.html && tag.starts_with("!--") {
            self.state = StripState::Comment;
        } else if self.is_tag(&name, tag) {
            match name.as_str() {
                "table" => *in_table = !self.html,
                "/table" => *in_table = false,
                _ => {}
            }
            let code = self.html && matches!(name.as_str(), "script" | "style");
            self.state = if code {
                StripState::Code
            } else {
                StripState::Tag
            };
        } else {
            text.push('<');
        }
        tag
    }

    fn is_tag(&self, name: &str, tag: &str) -> bool {
        if self.html {
            return name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
                || tag.starts_with(['!', '?']);
        }
        let plain_text_tags = [
            "table", "caption", "s", "c", "fn", "page", "b", "i", "u", "r",
        ];
        let name = name.strip_prefix('/').unwrap_or(name);
        // Footnotes are numbered: `<F1>`, `<F2>`.
        let is_footnote = name
            .strip_prefix('f')
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        (plain_text_tags.contains(&name) || is_footnote) && tag.contains('>')
    }

    fn skip<'a>(&mut self, rest: &'a str, end: &str) -> &'a str {
        match rest.find(end) {
            Some(at) => {
                self.state = StripState::Text;
                &rest[at + end.len()..]
            }
            None => "",
        }
    }

    fn skip_code<'a>(&mut self, rest: &'a str) -> &'a str {
        let Some(at) = rest.find("</") else { return "" };
        let closes = rest[at + 2..]
            .get(..2)
            .is_some_and(|start| matches!(&*start.to_ascii_lowercase(), "sc" | "st"));
        self.state = if closes {
            StripState::Tag
        } else {
            StripState::Code
        };
        &rest[at + 2..]
    }
}

// Decodes the entities that affect reading; others stay.
fn decode_entities(line: &str) -> String {
    const NAMED: [(&str, &str); 12] = [
        ("&nbsp;", " "),
        ("&#160;", " "),
        ("&#xa0;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#8217;", "’"),
        ("&#8220;", "“"),
        ("&#8221;", "”"),
        ("&#8211;", "–"),
        ("&#8212;", "—"),
        ("&amp;", "&"),
    ];
    NAMED
        .iter()
        .fold(line.to_owned(), |line, (entity, text)| {
            line.replace(entity, text)
        })
        .trim_end()
        .to_owned()
}

//! A full submission: a header, then one `<DOCUMENT>` for each document.

use std::collections::BTreeMap;
use std::ops::Range;

use stemma_document::Defect;

use crate::header::SubmissionHeader;
use crate::part::{PartEntry, SkipReason, SubmissionPart, sniff};
use crate::tag_lines::{TagLine, TagLines, opens_with, tag_at};

// The largest filings of funds have some thousands of documents.
const MAX_PARTS: usize = 20_000;
// Lines of a privacy-enhanced header before the envelope.
const MAX_PRIVACY_LINES: usize = 100;

const ENVELOPE_TAGS: [&str; 6] = [
    "SEC-DOCUMENT",
    "SEC-HEADER",
    "IMS-DOCUMENT",
    "IMS-HEADER",
    "SUBMISSION",
    "DOCUMENT",
];

/// A full submission, taken apart. Parts are in file order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FullSubmission {
    pub header: SubmissionHeader,
    pub parts: Vec<SubmissionPart>,
    /// `edgar.documents_missing`, `edgar.truncated`, `edgar.too_many_parts`, `edgar.parts_skipped`.
    pub defects: Vec<Defect>,
}

/// Whether a file is a submission: it opens with the envelope, perhaps behind a privacy-enhanced header.
pub fn is_submission(bytes: &[u8]) -> bool {
    let start = envelope_start(bytes);
    let Some(tag) = bytes.get(start).and_then(|_| tag_at(bytes, start)) else {
        return false;
    };
    bytes[start] == b'<'
        && ENVELOPE_TAGS.iter().any(|name| tag.is(name))
        // A document without a header is told by the type that follows.
        && (!tag.is("DOCUMENT") || opens_with(&bytes[tag.value_start.min(bytes.len())..], "TYPE"))
}

// Behind the byte order mark, white space and the lines of a privacy-enhanced header.
fn envelope_start(bytes: &[u8]) -> usize {
    let skip_blank = |at: usize| bytes.len() - bytes[at..].trim_ascii_start().len();
    let start = skip_blank(if bytes.starts_with(b"\xEF\xBB\xBF") {
        3
    } else {
        0
    });
    let rest = &bytes[start..];
    if !rest.starts_with(b"-----BEGIN ") && !rest.starts_with(b"Proc-Type:") {
        return start;
    }
    let mut at = start;
    for _ in 0..MAX_PRIVACY_LINES {
        let Some(length) = memchr::memchr2(b'\n', b'\r', &bytes[at..]) else {
            return start;
        };
        at = skip_blank(at + length);
        if bytes.get(at) == Some(&b'<') {
            return at;
        }
    }
    start
}

impl FullSubmission {
    /// Takes a submission apart. Never fails; bytes without an envelope have no parts.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut scanner = Scanner::new(bytes);
        for tag in TagLines::new(bytes, 0) {
            if scanner.is_full {
                break;
            }
            scanner.read(&tag);
        }
        scanner.finish()
    }

    /// The parts to read, in order: the primary document and its exhibits.
    pub fn documents(&self) -> impl Iterator<Item = &SubmissionPart> {
        self.parts
            .iter()
            .filter(|part| part.skip_reason().is_none())
    }

    /// The facts of the header ([`SubmissionHeader::facts`]). Documents that the archive serves alone have no header: the type of
    /// the first is `edgar.type`.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.header.facts();
        if self.header.form.is_none()
            && let Some(first) = self.documents().next()
            && !first.entry.is_exhibit()
            && !first.entry.document_type.is_empty()
        {
            facts.insert("edgar.type".into(), first.entry.document_type.clone());
        }
        facts
    }

    /// Number of parts that are not read, by reason.
    pub fn skipped(&self) -> BTreeMap<SkipReason, usize> {
        let mut counts = BTreeMap::new();
        for reason in self.parts.iter().filter_map(SubmissionPart::skip_reason) {
            *counts.entry(reason).or_default() += 1;
        }
        counts
    }

    fn add_defects(&mut self) {
        let found = self.parts.len();
        if let Some(promised) = self.header.promised_documents().filter(|n| *n > found) {
            let detail =
                format!("the header promises {promised} documents, but the file has {found}");
            self.add_defect("edgar.documents_missing", detail);
        }
        let counts = self.skipped();
        if !counts.is_empty() {
            let total: usize = counts.values().sum();
            let kinds: Vec<String> = counts
                .iter()
                .map(|(reason, count)| format!("{count} {}", reason.label()))
                .collect();
            let detail = format!(
                "{total} parts of the submission are not documents to read and were left out: {}",
                kinds.join(", ")
            );
            self.add_defect("edgar.parts_skipped", detail);
        }
    }

    fn add_defect(&mut self, code: &str, detail: String) {
        self.defects.push(Defect {
            code: code.into(),
            page: None,
            detail,
        });
    }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    submission: FullSubmission,
    header_end: Option<usize>,
    open: Option<OpenPart>,
    // Parts without their end tags.
    cut_off: usize,
    is_full: bool,
}

// A `<DOCUMENT>` whose end was not seen yet.
struct OpenPart {
    start: usize,
    entry: PartEntry,
    text_start: Option<usize>,
    // An end tag without `</DOCUMENT>` behind it.
    possible_end: Option<usize>,
}

impl<'a> Scanner<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            submission: FullSubmission::default(),
            header_end: None,
            open: None,
            cut_off: 0,
            is_full: false,
        }
    }

    fn read(&mut self, tag: &TagLine<'_>) {
        let in_text = self
            .open
            .as_ref()
            .is_some_and(|open| open.text_start.is_some());
        if tag.is("DOCUMENT") {
            // A text may show the tag; a document says its type next.
            if !in_text || opens_with(&self.bytes[tag.value_start..], "TYPE") {
                self.open_part(tag);
            }
        } else if tag.is("/DOCUMENT") {
            self.close(tag.start, tag.value_start);
        } else if in_text {
            if tag.is("/TEXT") {
                self.end_text(tag);
            }
        } else if let Some(open) = &mut self.open {
            let value = || Some(tag.value(self.bytes)).filter(|value| !value.is_empty());
            if tag.is("TEXT") {
                open.text_start = Some(tag.value_start);
            } else if tag.is("TYPE") {
                open.entry.document_type = value().unwrap_or_default();
            } else if tag.is("SEQUENCE") {
                open.entry.sequence = value();
            } else if tag.is("FILENAME") {
                open.entry.filename = value();
            } else if tag.is("DESCRIPTION") {
                open.entry.description = value();
            }
        }
    }

    fn open_part(&mut self, tag: &TagLine<'_>) {
        self.header_end.get_or_insert(tag.start);
        if let Some(open) = self.open.take() {
            let end = open.possible_end.unwrap_or(tag.start);
            self.push(open, end, tag.start);
            self.cut_off += 1;
        }
        if self.submission.parts.len() >= MAX_PARTS {
            self.is_full = true;
            return;
        }
        self.open = Some(OpenPart {
            start: tag.start,
            entry: PartEntry::default(),
            text_start: None,
            possible_end: None,
        });
    }

    // A drawing in a page has `</text>`, too, so the tag ends the text only where the document or the envelope ends.
    fn end_text(&mut self, tag: &TagLine<'_>) {
        const NEXT: [&str; 4] = ["DOCUMENT", "/SEC-DOCUMENT", "/IMS-DOCUMENT", "/SUBMISSION"];
        let rest = self.bytes[tag.value_start..].trim_ascii_start();
        let is_end = rest.is_empty()
            || rest.starts_with(b"-----END ")
            || NEXT.iter().any(|name| opens_with(rest, name));
        if let Some(open) = self.open.as_mut().filter(|_| is_end) {
            open.possible_end = Some(tag.start);
        }
    }

    fn close(&mut self, end: usize, behind: usize) {
        let Some(open) = self.open.take() else { return };
        let inside = open.text_start.unwrap_or(end)..end;
        match last_end_tag(self.bytes, &inside) {
            Some(text_end) => self.push(open, text_end, behind),
            None => {
                self.cut_off += usize::from(open.text_start.is_some());
                self.push(open, end, behind);
            }
        }
    }

    fn push(&mut self, open: OpenPart, text_end: usize, behind: usize) {
        let start = open.text_start.unwrap_or(text_end);
        let text = start..text_end.max(start);
        let (content, kind) = sniff(self.bytes, &text);
        self.submission.parts.push(SubmissionPart {
            entry: open.entry,
            bytes: open.start..behind,
            text,
            content,
            kind,
        });
    }

    fn finish(mut self) -> FullSubmission {
        if let Some(open) = self.open.take() {
            let end = self.bytes.len();
            let text_end = open.possible_end.unwrap_or(end);
            self.push(open, text_end, end);
            self.cut_off += 1;
        }
        let header_end = self.header_end.unwrap_or(self.bytes.len());
        self.submission.header = SubmissionHeader::parse(&self.bytes[..header_end]);
        if self.cut_off > 0 {
            let detail = format!(
                "{} parts of the submission have no end tag; the file may be cut off",
                self.cut_off
            );
            self.submission.add_defect("edgar.truncated", detail);
        }
        if self.is_full {
            let detail = format!("only the first {MAX_PARTS} documents were read");
            self.submission.add_defect("edgar.too_many_parts", detail);
        }
        self.submission.add_defects();
        self.submission
    }
}

// The `</TEXT>` at the end of a range, before white space.
fn last_end_tag(bytes: &[u8], range: &Range<usize>) -> Option<usize> {
    const END_TAG: &[u8] = b"</TEXT>";
    let inside = bytes[range.clone()].trim_ascii_end();
    let at = inside.len().checked_sub(END_TAG.len())?;
    inside[at..]
        .eq_ignore_ascii_case(END_TAG)
        .then_some(range.start + at)
}

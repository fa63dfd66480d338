//! What extraction makes of bytes: the one shape in which all formats meet (I-8).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{PageLabel, PageNo, Pt, Rect};

/// The format a document was recognised as, by content and then by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceFormat {
    /// Portable Document Format.
    Pdf,
    /// CommonMark.
    Markdown,
    /// Plain text, also EDGAR full-submission text.
    Text,
}

/// A document as read: text with positions, and what the file itself says about its structure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// What the bytes were.
    pub format: SourceFormat,
    /// The text.
    pub body: SourceBody,
    /// The embedded outline (PDF bookmarks) in reading order; a claim, not yet checked.
    pub outline: Vec<OutlineItem>,
    /// Internal link annotations of all pages, in page order and in file order on a page.
    pub links: Vec<Link>,
    /// Document information and front matter, keys lower case; untrusted.
    pub metadata: BTreeMap<String, String>,
    /// What could not be read, and why; reading went on past it.
    pub defects: Vec<Defect>,
    /// Whether the file was encrypted (and opened).
    pub encrypted: bool,
}

impl Source {
    /// How much there is: pages, or lines.
    pub fn extent(&self) -> Extent {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        match &self.body {
            SourceBody::Pages(pages) => Extent::Pages(count(pages.len())),
            SourceBody::Lines(text) => Extent::Lines(count(text.lines.len())),
        }
    }
}

/// The text of a source: positioned lines on pages, or numbered lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceBody {
    /// Page `n` is at index `n - 1`.
    Pages(Vec<Page>),
    /// Markdown and plain text.
    Lines(TextLines),
}

/// The size of a source in the unit its places are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Number of pages.
    Pages(u32),
    /// Number of lines.
    Lines(u32),
}

/// A page as displayed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Page {
    /// Width after rotation.
    pub width: Pt,
    /// Height after rotation.
    pub height: Pt,
    /// The label the file declares (`/PageLabels`); printed labels are found by structure.
    pub label: Option<PageLabel>,
    /// Lines in reading order, columns one after the other. Empty: the page has no text (a scan, or blank).
    pub lines: Vec<Line>,
}

impl Page {
    /// The text in reading order, lines joined by `\n`.
    pub fn text(&self) -> String {
        self.lines
            .iter()
            .map(|line| line.text.as_str())
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Tokens of all lines (see [`Line::tokens`]).
    pub fn tokens(&self) -> u32 {
        self.lines.iter().map(|line| line.tokens).sum()
    }
}

/// One line of text: what stands on one baseline in one column. Table cells of a row are one line; the gap between
/// them shows in the boxes of its words.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Line {
    /// The text, words separated by single spaces.
    pub text: String,
    /// The box around all words.
    pub rect: Rect,
    /// Styles from left to right; `end` of the last is `text.len()`. Never empty.
    pub runs: Vec<StyleRun>,
    /// The words from left to right.
    pub words: Vec<Word>,
    /// o200k tokens of the text and its line end; 0 until the paginate stage has counted them.
    pub tokens: u32,
    /// Whether it belongs to the text or runs along at the edge of its page.
    #[serde(default)]
    pub role: LineRole,
}

/// What a line is on its page; see [`crate::furniture`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineRole {
    /// A line of the text.
    #[default]
    Body,
    /// A running head.
    Head,
    /// A running foot, or a page number.
    Foot,
}

impl Line {
    /// Whether it is a running head or foot.
    pub fn is_furniture(&self) -> bool {
        self.role != LineRole::Body
    }

    /// The style most characters of the line have.
    pub fn style(&self) -> StyleRun {
        let mut start = 0;
        let mut best = (0, StyleRun::default());
        for run in &self.runs {
            let length = run.end.saturating_sub(start);
            if length > best.0 {
                best = (length, *run);
            }
            start = run.end;
        }
        best.1
    }
}

/// The style of a stretch of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StyleRun {
    /// Byte offset in the line's text where the stretch ends (exclusive).
    pub end: u32,
    /// Font size as displayed (text matrix applied).
    pub size: Pt,
    /// Weight ≥ 600.
    pub bold: bool,
    /// Italic or oblique.
    pub italic: bool,
}

/// A word of a line. Its box is the line's in height and `x0..x1` in width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u32, i32, i32)", into = "(u32, u32, i32, i32)")]
pub struct Word {
    /// Byte offset of the first character in the line's text.
    pub start: u32,
    /// Byte offset behind the last character.
    pub end: u32,
    /// Left edge.
    pub x0: Pt,
    /// Right edge.
    pub x1: Pt,
}

impl From<(u32, u32, i32, i32)> for Word {
    fn from((start, end, x0, x1): (u32, u32, i32, i32)) -> Self {
        Self {
            start,
            end,
            x0: Pt(x0),
            x1: Pt(x1),
        }
    }
}

impl From<Word> for (u32, u32, i32, i32) {
    fn from(word: Word) -> Self {
        (word.start, word.end, word.x0.0, word.x1.0)
    }
}

/// The text of a Markdown or plain-text document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TextLines {
    /// Lines without line ends; line `n` is at index `n - 1`.
    pub lines: Vec<String>,
    /// o200k tokens per line; empty until the paginate stage has counted them.
    pub tokens: Vec<u32>,
    /// The headings the format itself marks, in order.
    pub headings: Vec<Heading>,
}

/// A heading of a Markdown or plain-text document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    /// 1-based line on which the heading starts.
    pub line: u32,
    /// 1 is the highest; levels may be skipped.
    pub level: u16,
    /// The text without markup.
    pub title: String,
}

/// An entry of the embedded outline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutlineItem {
    /// As written, control characters removed.
    pub title: String,
    /// 1 is the highest.
    pub level: u16,
    /// Where it says it points; `None` when it points nowhere in this document.
    pub target: Option<Destination>,
}

/// An internal link annotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The page it stands on.
    pub page: PageNo,
    /// Where on that page.
    pub rect: Rect,
    /// Where it points.
    pub target: Destination,
}

/// A destination inside the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// A page that exists.
    pub page: PageNo,
    /// Distance from the top of that page where the destination says so.
    pub y: Option<Pt>,
}

/// Something that could not be read as it should; the rest of the document went on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defect {
    /// Stable code, e.g. `pdf.page_unreadable`, `pdf.no_text`, `text.invalid_utf8`.
    pub code: String,
    /// The page, where it is one page's.
    pub page: Option<PageNo>,
    /// One sentence, lower case, no full stop.
    pub detail: String,
}

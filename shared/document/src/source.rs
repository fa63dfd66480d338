//! The result of text extraction, in one shape for all formats.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::rounding::rounded;
use crate::{GridLine, HiddenText, PageLabel, PageNo, PageOrigin, Pt, Recognition, Rect, Turn};

/// The detected format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceFormat {
    Pdf,
    Markdown,
    /// Plain text, including EDGAR full-submission text.
    Text,
    Html,
    /// An XML document of a submission.
    Xml,
}

impl SourceFormat {
    // Extensions of file names, the usual one of each format first.
    const EXTENSIONS: [(Self, &'static [&'static str]); 5] = [
        (Self::Pdf, &["pdf"]),
        (Self::Html, &["htm", "html", "xhtml"]),
        (Self::Markdown, &["md", "markdown"]),
        (Self::Text, &["txt", "text"]),
        (Self::Xml, &["xml"]),
    ];

    /// The format of files with this extension, in any case.
    pub fn from_extension(extension: &str) -> Option<Self> {
        Self::EXTENSIONS
            .into_iter()
            .find(|(_, names)| {
                names
                    .iter()
                    .any(|name| name.eq_ignore_ascii_case(extension))
            })
            .map(|(format, _)| format)
    }

    /// The extensions of all formats.
    pub fn extensions() -> impl Iterator<Item = &'static str> {
        Self::EXTENSIONS
            .into_iter()
            .flat_map(|(_, names)| names.iter().copied())
    }

    /// The usual extension of each format.
    pub fn usual_extensions() -> impl Iterator<Item = &'static str> {
        Self::EXTENSIONS
            .into_iter()
            .filter_map(|(_, names)| names.first().copied())
    }
}

/// Extensions as a message names them: `.pdf, .htm, .md or .txt`.
pub fn name_extensions<'e>(extensions: impl Iterator<Item = &'e str>, conjunction: &str) -> String {
    let mut names: Vec<String> = extensions.map(|name| format!(".{name}")).collect();
    match (names.pop(), names.as_slice()) {
        (None, _) => String::new(),
        (Some(only), []) => only,
        (Some(last), others) => format!("{} {conjunction} {last}", others.join(", ")),
    }
}

/// An extracted document: positioned text and the structure that the file itself declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub format: SourceFormat,
    pub body: SourceBody,
    /// PDF bookmarks in reading order, unverified; the documents of a submission.
    pub outline: Vec<OutlineItem>,
    /// Internal links of all pages, in page order, then in file order.
    pub links: Vec<Link>,
    /// Document information and front matter, with lower-case keys. Untrusted.
    pub metadata: BTreeMap<String, String>,
    pub defects: Vec<Defect>,
    /// In page order, of PDF and HTML. Not all of a document with much of it.
    #[serde(default)]
    pub hidden: Vec<HiddenText>,
    pub encrypted: bool,
}

impl Source {
    pub fn extent(&self) -> Extent {
        match &self.body {
            SourceBody::Pages(pages) => {
                Extent::Pages(u32::try_from(pages.len()).unwrap_or(u32::MAX))
            }
            SourceBody::Lines(text) => {
                Extent::Lines(u32::try_from(text.lines.len()).unwrap_or(u32::MAX))
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceBody {
    /// Page `n` has index `n - 1`.
    Pages(Vec<Page>),
    Lines(TextLines),
}

/// The size of a document in pages or lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    Pages(u32),
    Lines(u32),
}

impl Extent {
    pub fn size(self) -> u32 {
        match self {
            Self::Pages(n) | Self::Lines(n) => n,
        }
    }

    /// `None` in texts without pages.
    pub fn pages(self) -> Option<u32> {
        match self {
            Self::Pages(n) => Some(n),
            Self::Lines(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Page {
    /// Width and height of the page as it is read; see [`Page::displayed_size`].
    pub width: Pt,
    pub height: Pt,
    /// How a page whose text runs sideways or upside down is turned for display.
    pub turn: Turn,
    /// The label declared by the file (`/PageLabels`); of HTML, which declares none, the number printed on the page.
    pub label: Option<PageLabel>,
    /// In reading order, column by column. Empty for scans that were not read, and blank pages.
    pub lines: Vec<Line>,
    // Stored next to the pages, so that the form of stored sources without recognized pages stays as it is.
    #[serde(skip)]
    pub origin: PageOrigin,
}

impl Page {
    /// Width and height of the displayed page.
    pub fn displayed_size(&self) -> (Pt, Pt) {
        if self.turn.is_sideways() {
            (self.height, self.width)
        } else {
            (self.width, self.height)
        }
    }

    /// Where a box of this page lies on the displayed page.
    pub fn displayed(&self, rect: Rect) -> Rect {
        let straight = rect.turned(self.turn, self.width, self.height);
        self.skewed(straight, 1.0)
    }

    /// Left, top, width and height of a box on the displayed page, in shares of its size. Four digits are a tenth of a point.
    pub fn shares(&self, rect: Rect) -> [f64; 4] {
        let (width, height) = self.displayed_size();
        let rect = self.displayed(rect);
        let share = |value: f32, size: Pt| {
            let share = f64::from((value / size.points().max(1.0)).clamp(0.0, 1.0));
            rounded(share, 4)
        };
        [
            share(rect.x0.points(), width),
            share(rect.y0.points(), height),
            share(rect.width(), width),
            share(rect.height(), height),
        ]
    }

    /// Where a box of the displayed page lies on the page as it is read.
    pub fn as_read(&self, displayed: Rect) -> Rect {
        let (width, height) = self.displayed_size();
        self.skewed(displayed, -1.0)
            .turned(self.turn.inverse(), width, height)
    }

    // Moves a box of a displayed scan from where it lies on a straight sheet to where it lies on the skewed one, or back.
    fn skewed(&self, rect: Rect, direction: f32) -> Rect {
        let skew = self.recognition().map_or(0, |read| read.skew);
        if skew == 0 {
            return rect;
        }
        let (width, height) = self.displayed_size();
        let angle = (direction * f32::from(skew) / 100.0).to_radians();
        let sin = angle.sin();
        let cos = angle.cos();
        let x = (rect.x0.points() + rect.x1.points() - width.points()) / 2.0;
        let y = (rect.y0.points() + rect.y1.points() - height.points()) / 2.0;
        let dx = x * cos - y * sin - x;
        let dy = x * sin + y * cos - y;
        Rect::new(
            rect.x0.points() + dx,
            rect.y0.points() + dy,
            rect.x1.points() + dx,
            rect.y1.points() + dy,
        )
    }

    /// What text recognition says about the page, if it read it.
    pub fn recognition(&self) -> Option<&Recognition> {
        match &self.origin {
            PageOrigin::Recognized(read) => Some(read),
            PageOrigin::File | PageOrigin::Picture => None,
        }
    }

    /// All lines, joined by `\n`.
    pub fn text(&self) -> String {
        self.lines
            .iter()
            .map(|line| line.text.as_str())
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Sum of [`Line::tokens`].
    pub fn tokens(&self) -> u32 {
        self.lines.iter().map(|line| line.tokens).sum()
    }
}

/// The text on one baseline within one column. A table row is one line; its cells show as gaps between words.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Line {
    /// Words separated by single spaces.
    pub text: String,
    pub rect: Rect,
    /// Styles from left to right. Never empty; the last `end` is `text.len()`.
    pub runs: Vec<StyleRun>,
    pub words: Vec<Word>,
    /// o200k tokens including the line end; 0 before the paginate stage.
    pub tokens: u32,
    #[serde(default)]
    pub role: LineRole,
    /// The place of its visible text in the file, from the first character to the last; only in HTML, where markup may lie
    /// between. The lines of a table row overlap.
    // Stored next to the lines, so that the form of stored PDF sources stays as it is.
    #[serde(skip)]
    pub bytes: Option<ByteSpan>,
    /// The cells of the row that it shows; only in tables of HTML.
    // Stored next to the lines, as the bytes are.
    #[serde(skip)]
    pub grid: Option<Box<GridLine>>,
}

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ByteSpan {
    pub start: u32,
    /// Exclusive.
    pub end: u32,
}

impl ByteSpan {
    /// The smallest span that holds both.
    pub fn union(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

/// The role of a line on its page; see [`crate::furniture`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineRole {
    #[default]
    Body,
    Head,
    /// A running foot or page number.
    Foot,
    /// Runs in another direction than the text of its page: a label of a chart, a note in the margin.
    Across,
}

impl Line {
    pub fn is_furniture(&self) -> bool {
        matches!(self.role, LineRole::Head | LineRole::Foot)
    }

    /// The words that touch a range of its bytes.
    pub fn words_at<'l>(
        &'l self,
        at: &Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &'l Word> + use<'l> {
        let at = at.clone();
        self.words
            .iter()
            .filter(move |word| (word.start as usize) < at.end && at.start < word.end as usize)
    }

    /// The style of most bytes of the line.
    pub fn style(&self) -> StyleRun {
        // Among equally long runs the first one wins.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StyleRun {
    /// End of the part: an exclusive byte offset in the line.
    pub end: u32,
    /// Font size after applying the text matrix.
    pub size: Pt,
    /// Font weight of at least 600.
    pub bold: bool,
    pub emphasis: Emphasis,
}

/// How text is set off from other text of its size and weight.
// Stored as its number: 0 and 1 are the bytes of the flag for italics that it replaced, so sources of PDF stay as they were.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub enum Emphasis {
    #[default]
    None,
    Italic,
    /// An underline or a color, of upright text that is neither bold nor a link; only in HTML.
    Decoration,
}

impl Emphasis {
    /// The emphasis of text in an italic or an upright font.
    pub fn for_font(is_italic: bool) -> Self {
        if is_italic { Self::Italic } else { Self::None }
    }

    pub fn is_some(self) -> bool {
        self != Self::None
    }
}

/// A word of a line. Its box has the height of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u32, i32, i32)", into = "(u32, u32, i32, i32)")]
pub struct Word {
    /// Byte offset in the line.
    pub start: u32,
    /// Exclusive byte offset in the line.
    pub end: u32,
    pub x0: Pt,
    pub x1: Pt,
}

// Words are most of a stored document, so they are serialized as plain tuples.
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

/// The lines of a Markdown or plain-text document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TextLines {
    /// Line `n` has index `n - 1` and no line end.
    pub lines: Vec<String>,
    /// o200k tokens per line; empty before the paginate stage.
    pub tokens: Vec<u32>,
    pub headings: Vec<Heading>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    /// 1-based first line.
    pub line: u32,
    /// 1 is the top level; levels may be skipped.
    pub level: u16,
    /// Without markup.
    pub title: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutlineItem {
    /// Control characters are removed.
    pub title: String,
    /// 1 is the top level; levels may be skipped.
    pub level: u16,
    /// `None` if it does not point into this document.
    pub target: Option<Destination>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub page: PageNo,
    pub rect: Rect,
    pub target: Destination,
}

/// A target within the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// Always an existing page.
    pub page: PageNo,
    /// Distance from the top of the page, if specified.
    pub y: Option<Pt>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defect {
    /// Stable code, e.g. `pdf.page_unreadable`, `pdf.no_text`, `text.invalid_utf8`.
    pub code: String,
    pub page: Option<PageNo>,
    /// One sentence, lower case, no full stop.
    pub detail: String,
}

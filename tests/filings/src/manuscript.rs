//! A document before it is laid out: blocks in reading order, and how they should look.

use crate::CoverFacts;
use crate::fonts::{Face, Family};

/// A document before layout. Public so that a document with a text of its own (not a generated one) can be typeset.
#[derive(Debug, Clone)]
pub struct Manuscript {
    /// Typography.
    pub typography: Typography,
    /// Title in the document information.
    pub title: String,
    /// What the cover says.
    pub facts: CoverFacts,
    /// Pages before the contents, without printed numbers.
    pub cover: Vec<Block>,
    /// Everything after the contents.
    pub body: Vec<Block>,
}

/// Typographic choices that hold for a whole document. Lengths in points.
#[derive(Debug, Clone, PartialEq)]
pub struct Typography {
    /// Typeface of the text.
    pub family: Family,
    /// Size of the text.
    pub size: f32,
    /// Distance between baselines of the text, as a multiple of `size`.
    pub leading: f32,
    /// Width and height of a page.
    pub page: (f32, f32),
    /// Margin on all four sides.
    pub margin: f32,
    /// 1 or 2 columns (blocks before the first [`Block::Columns`] always span the page).
    pub columns: usize,
    /// Whether every page after the contents has a link "Table of Contents" at its top.
    pub back_link: bool,
    /// Whether pages carry a running head (see [`Block::RunningHead`]).
    pub running_head: bool,
    /// How page numbers are printed.
    pub foot: PageFooter,
    /// Heading of the contents page; `None`: the document has no contents page whatever the specification says.
    pub contents_title: Option<&'static str>,
    /// Deepest level that the contents page lists.
    pub contents_levels: u16,
    /// Whether the contents page gives no page number to a heading of level 1 that another heading follows at once.
    pub bare_parts: bool,
    /// Whether the contents pages are numbered i, ii, …; otherwise they have no number.
    pub roman_front: bool,
}

/// How a page number is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageFooter {
    /// The number alone, centered.
    Centered,
    /// The number alone, outer edge (right on odd pages).
    Outer,
    /// `Page 12`.
    Page,
    /// `- 12 -`.
    Dashes,
    /// `12 | Registrant`: the number with the running foot beside it.
    WithRegistrant,
}

/// How the following pages are numbered in print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// No number.
    None,
    /// i, ii, iii, … from this number.
    Roman(u32),
    /// 1, 2, 3, … from this number.
    Arabic(u32),
    /// A prefix and a number: `F-1`.
    Prefixed(&'static str, u32),
}

impl Numbering {
    /// The numbering of the page after.
    pub(crate) fn next(self) -> Self {
        match self {
            Numbering::None => Numbering::None,
            Numbering::Roman(n) => Numbering::Roman(n + 1),
            Numbering::Arabic(n) => Numbering::Arabic(n + 1),
            Numbering::Prefixed(prefix, n) => Numbering::Prefixed(prefix, n + 1),
        }
    }

    /// What is printed.
    pub(crate) fn printed(self) -> Option<String> {
        match self {
            Numbering::None => None,
            Numbering::Roman(n) => Some(roman(n)),
            Numbering::Arabic(n) => Some(n.to_string()),
            Numbering::Prefixed(prefix, n) => Some(format!("{prefix}{n}")),
        }
    }
}

/// A number in lower-case Roman digits.
pub(crate) fn roman(mut n: u32) -> String {
    const DIGITS: [(u32, &str); 13] = [
        (1000, "m"),
        (900, "cm"),
        (500, "d"),
        (400, "cd"),
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ];
    let mut out = String::new();
    for (value, digit) in DIGITS {
        while n >= value {
            out.push_str(digit);
            n -= value;
        }
    }
    out
}

/// A piece of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A heading: a node of the truth.
    Heading(ManuscriptHeading),
    /// A paragraph.
    Prose(Paragraph),
    /// Items behind bullets.
    Bullets(Vec<String>),
    /// A table.
    Table(FigureTable),
    /// Lines that are no heading (cover, signatures, captions); folded where too long.
    Line(String, TextStyle),
    /// White space.
    Gap(f32),
    /// What follows starts a page.
    NewPage,
    /// What follows starts a page and is numbered so.
    Numbering(Numbering),
    /// One page without a number, holding this line; the numbering goes on after it as if it were not there, so that
    /// the distance between printed and physical numbers grows by one.
    Aside(String),
    /// Running head from the next page on.
    RunningHead(String),
    /// From here on text runs in the columns of the look.
    Columns,
    /// A contents page of what follows, up to the next of its sort: of a document bound into another. It lists the levels
    /// `from` to `to`.
    Contents {
        /// Highest level listed; its own title is a heading of this level.
        from: u16,
        /// Deepest level listed.
        to: u16,
    },
}

/// A heading and how it is printed.
#[derive(Debug, Clone, PartialEq)]
pub struct ManuscriptHeading {
    /// Its title in one line.
    pub title: String,
    /// 1 is the highest.
    pub level: u16,
    /// Style in print.
    pub style: TextStyle,
    /// Printed instead of the title, line by line (letter-spaced, or with a break at a place of its own).
    pub printed: Option<Vec<String>>,
    /// Byte offset behind the number in the title, where number and name are set apart by a wide gap.
    pub tab: Option<usize>,
    /// Whether it starts a page.
    pub new_page: bool,
    /// What mentions call it (`note 15`, `item 7`).
    pub key: Option<String>,
    /// Its wording on the contents page, where that differs.
    pub contents_title: Option<String>,
    /// Text that runs on behind the title and a full stop, on the same line and in the same style as all text.
    pub runs_on: Option<String>,
}

impl ManuscriptHeading {
    /// A heading with no peculiarities.
    pub fn new(title: impl Into<String>, level: u16, style: TextStyle) -> Self {
        Self {
            title: title.into(),
            level,
            style,
            printed: None,
            tab: None,
            new_page: false,
            key: None,
            contents_title: None,
            runs_on: None,
        }
    }

    /// The same, starting a page.
    pub fn with_new_page(mut self) -> Self {
        self.new_page = true;
        self
    }

    /// The same, known to mentions as `key`.
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

/// Style of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextStyle {
    /// Bold, italic or neither.
    pub face: Face,
    /// Size in points.
    pub size: f32,
    /// Centered, otherwise at the left.
    pub centered: bool,
}

impl TextStyle {
    /// Upright text at the left.
    pub const fn plain(size: f32) -> Self {
        Self {
            face: Face::Regular,
            size,
            centered: false,
        }
    }

    /// Bold text at the left.
    pub const fn bold(size: f32) -> Self {
        Self {
            face: Face::Bold,
            size,
            centered: false,
        }
    }

    /// Italic text at the left.
    pub const fn italic(size: f32) -> Self {
        Self {
            face: Face::Italic,
            size,
            centered: false,
        }
    }

    /// The same, centered.
    pub const fn centered(mut self) -> Self {
        self.centered = true;
        self
    }
}

/// A paragraph, with what is known about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paragraph {
    /// The words.
    pub text: String,
    /// Mentions in it, as written, with the key of the heading they lead to.
    pub mentions: Vec<(String, String)>,
    /// A question it answers, and the words that answer it.
    pub answer: Option<(String, String)>,
}

impl From<String> for Paragraph {
    fn from(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }
}

/// A table of figures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FigureTable {
    /// Column heads (without the first column's).
    pub heads: Vec<String>,
    /// Rows: a label and one cell per head.
    pub rows: Vec<(String, Vec<String>)>,
}

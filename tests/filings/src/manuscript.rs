//! A document before layout: blocks in reading order, and their typography.

use crate::CoverFacts;
use crate::fonts::{Face, Family};

/// A document before layout. Public so that documents with their own text can be typeset.
#[derive(Debug, Clone)]
pub struct Manuscript {
    pub typography: Typography,
    /// Title in the document information.
    pub title: String,
    pub facts: CoverFacts,
    /// Pages before the contents, without printed numbers.
    pub cover: Vec<Block>,
    pub body: Vec<Block>,
}

/// Typography of a whole document. Lengths in points.
#[derive(Debug, Clone, PartialEq)]
pub struct Typography {
    pub family: Family,
    /// Font size of the text.
    pub size: f32,
    /// Distance between baselines, as a multiple of `size`.
    pub leading: f32,
    /// Width and height of a page.
    pub page: (f32, f32),
    /// On all four sides.
    pub margin: f32,
    /// 1 or 2 columns. Blocks before the first [`Block::Columns`] always span the page.
    pub columns: usize,
    /// Whether every page after the contents has a link "Table of Contents" at its top.
    pub back_link: bool,
    /// Whether pages have a running head (see [`Block::RunningHead`]).
    pub running_head: bool,
    pub foot: PageFooter,
    /// Heading of the contents page; with `None` the document has no contents page, whatever the
    /// specification says.
    pub contents_title: Option<&'static str>,
    /// Deepest level on the contents page.
    pub contents_levels: u16,
    /// Whether the contents page omits the page number of level 1 headings directly followed by another
    /// heading.
    pub bare_parts: bool,
    /// Whether the contents pages are numbered i, ii, …; otherwise they have no number.
    pub roman_front: bool,
}

/// How page numbers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageFooter {
    /// The number alone, centered.
    Centered,
    /// The number alone, at the outer edge (right on odd pages).
    Outer,
    /// `Page 12`.
    Page,
    /// `- 12 -`.
    Dashes,
    /// `12 | Registrant`.
    WithRegistrant,
}

/// Printed numbering of the following pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    None,
    /// i, ii, iii, … from this number.
    Roman(u32),
    /// 1, 2, 3, … from this number.
    Arabic(u32),
    /// A prefix and a number: `F-1`.
    Prefixed(&'static str, u32),
}

impl Numbering {
    /// The numbering of the next page.
    pub(crate) fn next(self) -> Self {
        match self {
            Numbering::None => Numbering::None,
            Numbering::Roman(n) => Numbering::Roman(n + 1),
            Numbering::Arabic(n) => Numbering::Arabic(n + 1),
            Numbering::Prefixed(prefix, n) => Numbering::Prefixed(prefix, n + 1),
        }
    }

    /// The printed number.
    pub(crate) fn printed(self) -> Option<String> {
        match self {
            Numbering::None => None,
            Numbering::Roman(n) => Some(roman(n)),
            Numbering::Arabic(n) => Some(n.to_string()),
            Numbering::Prefixed(prefix, n) => Some(format!("{prefix}{n}")),
        }
    }
}

/// Lower-case Roman digits.
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

/// A part of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A heading, which becomes a node of the truth.
    Heading(ManuscriptHeading),
    Prose(Paragraph),
    Bullets(Vec<String>),
    Table(FigureTable),
    /// A line that is not a heading (cover, signatures, captions). Long ones wrap.
    Line(String, TextStyle),
    /// White space.
    Gap(f32),
    /// Starts a page.
    NewPage,
    /// Starts a page with this numbering.
    Numbering(Numbering),
    /// One unnumbered page with this line. The numbering continues after it, so the distance between printed
    /// and physical numbers grows by one.
    Aside(String),
    /// Running head from the next page on.
    RunningHead(String),
    /// From here on, text is set in columns.
    Columns,
    /// A contents page of a bound document. Lists the levels `from` to `to`, up to the next block of this
    /// kind.
    Contents {
        /// Highest listed level, and the level of its own title.
        from: u16,
        /// Deepest listed level.
        to: u16,
    },
}

/// A heading and its printed form.
#[derive(Debug, Clone, PartialEq)]
pub struct ManuscriptHeading {
    /// In one line.
    pub title: String,
    /// 1 is the highest.
    pub level: u16,
    pub style: TextStyle,
    /// Printed lines instead of the title (letter-spaced, or with a special line break).
    pub printed: Option<Vec<String>>,
    /// Byte offset after the number in the title, if a wide gap separates number and name.
    pub tab: Option<usize>,
    /// Whether it starts a page.
    pub new_page: bool,
    /// Key for mentions (`note 15`, `item 7`).
    pub key: Option<String>,
    /// Its wording on the contents page, if different.
    pub contents_title: Option<String>,
    /// Text that continues on the same line after the title and a full stop, in the style of the text.
    pub runs_on: Option<String>,
}

impl ManuscriptHeading {
    /// A plain heading.
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

    /// Starts a page.
    pub fn with_new_page(mut self) -> Self {
        self.new_page = true;
        self
    }

    /// Sets the key for mentions.
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

/// Style of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextStyle {
    pub face: Face,
    /// In points.
    pub size: f32,
    /// Otherwise left-aligned.
    pub centered: bool,
}

impl TextStyle {
    /// Upright, left-aligned.
    pub const fn plain(size: f32) -> Self {
        Self {
            face: Face::Regular,
            size,
            centered: false,
        }
    }

    /// Bold, left-aligned.
    pub const fn bold(size: f32) -> Self {
        Self {
            face: Face::Bold,
            size,
            centered: false,
        }
    }

    /// Italic, left-aligned.
    pub const fn italic(size: f32) -> Self {
        Self {
            face: Face::Italic,
            size,
            centered: false,
        }
    }

    /// Centers the line.
    pub const fn centered(mut self) -> Self {
        self.centered = true;
        self
    }
}

/// A paragraph with its truth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paragraph {
    pub text: String,
    /// Mentions as written, with the key of their target.
    pub mentions: Vec<(String, String)>,
    /// A question that it answers, and the words of the answer.
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
    /// Column heads, without the first column.
    pub heads: Vec<String>,
    /// Rows: a label and one cell per head.
    pub rows: Vec<(String, Vec<String>)>,
}

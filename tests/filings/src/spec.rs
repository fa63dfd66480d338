//! Specification of a document to generate.

/// Everything that determines the bytes of a filing. The same specification always gives the same bytes.
///
/// ```
/// use stemma_filings::{ContentsMode, FilingKind, Spec, generate};
/// let filing = generate(&Spec { pages: 12, contents: ContentsMode::Links, ..Spec::new(FilingKind::TenK, 7) });
/// assert!(filing.pdf.starts_with(b"%PDF-"));
/// assert!(filing.truth.nodes.iter().any(|node| node.title.to_lowercase().contains("risk factors")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub kind: FilingKind,
    pub contents: ContentsMode,
    /// Approximate number of pages (±15 %; each kind has its own minimum). Up to 5,000 and more.
    pub pages: u32,
    /// Determines the registrant, the wording and the typography.
    pub seed: u64,
    pub encryption: Option<Encryption>,
    /// A physical page (1-based) that is only an image: it has no text, and its headings cannot be found.
    pub scanned_page: Option<u32>,
    /// Whether the file declares page labels (`/PageLabels`).
    pub labels: bool,
    /// Changes after layout, in order.
    pub edits: Vec<Edit>,
}

impl Spec {
    /// A plain specification: links on a contents page, 20 pages.
    pub fn new(kind: FilingKind, seed: u64) -> Self {
        Self {
            kind,
            contents: ContentsMode::Links,
            pages: 20,
            seed,
            encryption: None,
            scanned_page: None,
            labels: false,
            edits: Vec::new(),
        }
    }

    /// Rewords one line of physical page `page`. All other pages keep their text.
    pub fn with_page_changed(mut self, page: u32) -> Self {
        self.edits.push(Edit::ChangePage { page, revision: 1 });
        self
    }

    /// Inserts a page before all others. They keep their text and printed numbers.
    pub fn with_page_inserted_at_front(mut self) -> Self {
        self.edits.push(Edit::InsertFront);
        self
    }
}

/// The kinds of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FilingKind {
    /// Annual report: PART I–IV, Items 1–16, statements and notes.
    TenK,
    /// Quarterly report: the same Item numbers in Part I and Part II.
    TenQ,
    /// Current report with an attached agreement that has its own articles, sections and contents.
    EightKWithAgreement,
    /// Manual with numbered chapters (`1`, `1.1`, `1.2.3`).
    Manual,
    /// Chinese annual report (`第一节`, `一、`, `（一）`).
    ChineseReport,
    /// Paper in two columns with numbered sections.
    TwoColumnPaper,
    /// Earnings release: bold headings and statements, no contents page.
    EarningsRelease,
    /// Several agreements in one file, each counting articles and sections from 1, with or without exhibit
    /// lines.
    Agreements,
    /// Annual report in its own order, whose Items are in a cross-reference index only.
    Integrated,
}

impl FilingKind {
    pub const ALL: [FilingKind; 9] = [
        FilingKind::TenK,
        FilingKind::TenQ,
        FilingKind::EightKWithAgreement,
        FilingKind::Manual,
        FilingKind::ChineseReport,
        FilingKind::TwoColumnPaper,
        FilingKind::EarningsRelease,
        FilingKind::Agreements,
        FilingKind::Integrated,
    ];

    /// Name for files and command lines: `ten-k`, `ten-q`, …
    pub fn name(self) -> &'static str {
        match self {
            FilingKind::TenK => "ten-k",
            FilingKind::TenQ => "ten-q",
            FilingKind::EightKWithAgreement => "eight-k",
            FilingKind::Manual => "manual",
            FilingKind::ChineseReport => "chinese-report",
            FilingKind::TwoColumnPaper => "paper",
            FilingKind::EarningsRelease => "earnings-release",
            FilingKind::Agreements => "agreements",
            FilingKind::Integrated => "integrated",
        }
    }

    pub fn from_name(name: &str) -> Option<FilingKind> {
        FilingKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// How a document presents its structure. [`FilingKind::EarningsRelease`] and [`FilingKind::TwoColumnPaper`]
/// never have a contents page; they have an outline with [`ContentsMode::Outline`] only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContentsMode {
    /// An embedded outline of every heading, and a printed contents page without links.
    Outline,
    /// A contents page whose entries are links; no outline.
    Links,
    /// A contents page with page numbers, without links.
    PrintedOnly,
    /// A contents page without page numbers and without links.
    Unnumbered,
    /// No contents page, no outline.
    Nothing,
}

impl ContentsMode {
    pub const ALL: [ContentsMode; 5] = [
        ContentsMode::Outline,
        ContentsMode::Links,
        ContentsMode::PrintedOnly,
        ContentsMode::Unnumbered,
        ContentsMode::Nothing,
    ];

    /// Name for files and command lines.
    pub fn name(self) -> &'static str {
        match self {
            ContentsMode::Outline => "outline",
            ContentsMode::Links => "links",
            ContentsMode::PrintedOnly => "printed",
            ContentsMode::Unnumbered => "unnumbered",
            ContentsMode::Nothing => "nothing",
        }
    }

    pub fn from_name(name: &str) -> Option<ContentsMode> {
        ContentsMode::ALL
            .into_iter()
            .find(|contents| contents.name() == name)
    }
}

/// How a file is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encryption {
    /// 128-bit RC4 (revision 3), opened by the empty password.
    EmptyUserRc4,
    /// 256-bit AES (revision 6), opened by the empty password.
    EmptyUserAes256,
    /// 256-bit AES, opened by this ASCII password only.
    Password(String),
}

/// A change after layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Rewords one line of prose on a physical page (1-based, as numbered at that moment). Headings, page
    /// numbers and all other pages stay. Revisions differ from each other.
    ChangePage {
        page: u32,
        /// Selects the wording.
        revision: u32,
    },
    /// Inserts a page with an explanatory note, without a printed number, before all others.
    InsertFront,
    /// Declares that a page (1-based) is displayed turned clockwise by `degrees`; its content stays.
    RotatePage { page: u32, degrees: u16 },
    /// Writes a bold note up the left margin of a page (1-based).
    AddMarginNote { page: u32, text: &'static str },
}

//! What to generate.

/// Everything that decides the bytes of a filing: the same specification gives the same bytes, always.
///
/// ```
/// use stemma_filings::{Contents, Kind, Spec, generate};
/// let filing = generate(&Spec { pages: 12, contents: Contents::Links, ..Spec::of(Kind::TenK, 7) });
/// assert!(filing.pdf.starts_with(b"%PDF-"));
/// assert!(filing.truth.nodes.iter().any(|node| node.title.to_lowercase().contains("risk factors")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// What sort of document.
    pub kind: FilingKind,
    /// What the document offers about its own structure.
    pub contents: ContentsMode,
    /// How many pages, about (±15 %; each kind has a smallest size of its own). Up to 5,000 and beyond.
    pub pages: u32,
    /// Chooses the registrant, the wording and the typography.
    pub seed: u64,
    /// Whether the file is encrypted, and how.
    pub encryption: Option<Encryption>,
    /// A physical page (1-based) that is only an image: it has no text, and its headings cannot be found.
    pub scanned_page: Option<u32>,
    /// Whether the file declares page labels (`/PageLabels`).
    pub labels: bool,
    /// What was done to the document after it was laid out, in order.
    pub edits: Vec<Edit>,
}

impl Spec {
    /// A plain specification: links on a contents page, 20 pages, nothing special.
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

    /// The same document with other words on one line of physical page `page`; all other pages keep their text.
    pub fn with_page_changed(mut self, page: u32) -> Self {
        self.edits.push(Edit::ChangePage { page, revision: 1 });
        self
    }

    /// The same document behind one more page; all other pages keep their text and printed numbers.
    pub fn with_page_inserted_at_front(mut self) -> Self {
        self.edits.push(Edit::InsertFront);
        self
    }
}

/// The sorts of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FilingKind {
    /// Annual report: PART I–IV, Items 1–16, statements and notes.
    TenK,
    /// Quarterly report: the same Item numbers in Part I and Part II.
    TenQ,
    /// Current report with an agreement attached that has articles, sections and contents of its own.
    EightKWithAgreement,
    /// Manual with numbered chapters (`1`, `1.1`, `1.2.3`).
    Manual,
    /// Chinese annual report (`第一节`, `一、`, `（一）`).
    ChineseReport,
    /// Paper in two columns with numbered sections.
    TwoColumnPaper,
    /// Earnings release: bold headings and statements, no contents page.
    EarningsRelease,
    /// Several agreements in one file, each counting its articles and sections from 1, with or without exhibit lines.
    Agreements,
    /// Annual report in an order of its own, whose Items stand in a cross-reference index only.
    Integrated,
}

impl FilingKind {
    /// All of them.
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

    /// The kind called `name`.
    pub fn from_name(name: &str) -> Option<FilingKind> {
        FilingKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What a document offers about its own structure. [`FilingKind::EarningsRelease`] and [`FilingKind::TwoColumnPaper`] never have a
/// contents page; they have an outline under [`ContentsMode::Outline`] and nothing otherwise.
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
    /// All of them.
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

    /// The mode called `name`.
    pub fn from_name(name: &str) -> Option<ContentsMode> {
        ContentsMode::ALL
            .into_iter()
            .find(|contents| contents.name() == name)
    }
}

/// How a file is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encryption {
    /// RC4 with 128 bits (revision 3); the empty password opens.
    EmptyUserRc4,
    /// AES with 256 bits (revision 6); the empty password opens.
    EmptyUserAes256,
    /// AES with 256 bits; only this password opens. ASCII.
    Password(String),
}

/// A change made after layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// One line of prose on a physical page (1-based, in the numbering at that moment) gets other words; headings,
    /// page numbers and all other pages stay as they are. Revisions differ from each other.
    ChangePage {
        /// The page.
        page: u32,
        /// Which wording.
        revision: u32,
    },
    /// A page with an explanatory note, without a printed number, comes before all others.
    InsertFront,
}

//! Lines that may be headings, with the features that rules judge them by.

use stemma_document::EvidenceSource;
use stemma_reading::sentences::is_full_stop;

use super::heading_style::HeadingStyle;
use super::line_features::LineTable;
use super::numbering;
use super::outline_head::{LAYOUT_RANK, OutlineHead};
use super::titles;

/// What rules know in addition to the candidates.
#[derive(Clone, Copy)]
pub(super) struct Document<'d> {
    pub(super) lines: &'d LineTable<'d>,
    /// Sections of the contents, the outline and the form.
    pub(super) announced: &'d [OutlineHead],
    /// Whether it is a filing, an agreement or a release with statements. The rules for all documents decide it.
    pub(super) is_filing: bool,
}

/// A line, or lines of one title, set apart from the text.
// Rules only read it. `judge` writes the verdict, the budget the rank.
#[derive(Debug, Clone)]
pub(super) struct HeadingCandidate {
    /// First and last row.
    pub(super) rows: (usize, usize),
    pub(super) title: String,
    /// Words of the title.
    pub(super) words: usize,
    /// Whether the title begins with a number.
    pub(super) has_number: bool,
    pub(super) style: HeadingStyle,
    /// The title of a financial statement, kept regardless of the budget.
    pub(super) statement: bool,
    /// The only sentence of its style.
    pub(super) lone_sentence: bool,
    /// Its style occurs more often than sections usually do.
    pub(super) dense: bool,
    /// Nearly all candidates of its style have a paragraph below.
    pub(super) over_text: bool,
    /// Its style is the style of cells, and nothing shows that it is not a cell.
    pub(super) in_tables: bool,
    /// See `OutlineHead::rank`.
    pub(super) rank: u32,
    pub(super) verdict: Verdict,
}

/// What the rules decided about a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Kept,
    /// A heading for which the outline has no room.
    OverBudget,
    /// No heading, by the rule of this name.
    NotHeading(&'static str),
    /// Not a section of the outline, by the rule of this name.
    NotSection(&'static str),
}

impl Verdict {
    /// The name of the rule that dropped the candidate.
    pub(super) fn rule(self) -> Option<&'static str> {
        match self {
            Self::Kept => None,
            Self::OverBudget => Some("budget"),
            Self::NotHeading(rule) | Self::NotSection(rule) => Some(rule),
        }
    }
}

impl HeadingCandidate {
    pub(super) fn new(rows: (usize, usize), title: String, style: HeadingStyle) -> Self {
        Self {
            rows,
            words: titles::word_count(&title),
            has_number: numbering::first_number(&title).is_some(),
            title,
            style,
            statement: false,
            lone_sentence: false,
            dense: false,
            over_text: false,
            in_tables: false,
            rank: LAYOUT_RANK,
            verdict: Verdict::Kept,
        }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.verdict == Verdict::Kept
    }

    /// Whether it is a heading, used or not.
    pub(super) fn is_heading(&self) -> bool {
        matches!(self.verdict, Verdict::Kept | Verdict::OverBudget)
    }

    /// Whether the title ends in a full stop that is not part of a number.
    pub(super) fn is_closed(&self) -> bool {
        self.title.ends_with(is_full_stop) && !self.has_number
    }

    pub(super) fn to_head(&self) -> OutlineHead {
        // Statements rank highest among the headings known only by their layout, and hold none of them.
        let rank = if self.statement {
            LAYOUT_RANK
        } else {
            self.rank
        };
        OutlineHead {
            leaf: self.statement,
            ..OutlineHead::new(self.rows, self.title.clone(), EvidenceSource::Layout, rank)
        }
    }
}

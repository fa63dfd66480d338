//! Entries of the outline under construction, and the ranks that order them.

use stemma_document::{Destination, EvidenceSource};

use super::numbering;

/// A section with its place and rank.
#[derive(Debug, Clone)]
pub(super) struct OutlineHead {
    /// First and last row of the heading.
    pub(super) rows: (usize, usize),
    pub(super) title: String,
    pub(super) number: Option<String>,
    pub(super) printed: Option<String>,
    pub(super) target: Option<Destination>,
    pub(super) evidence: EvidenceSource,
    /// The title was not found there.
    pub(super) unconfirmed: bool,
    /// Smaller is higher: the parent is the nearest section before with a smaller rank.
    pub(super) rank: u32,
    /// Never has children.
    pub(super) leaf: bool,
}

impl OutlineHead {
    /// A section that is where it was found, with the number of its title.
    pub(super) fn new(
        rows: (usize, usize),
        title: String,
        evidence: EvidenceSource,
        rank: u32,
    ) -> Self {
        Self {
            rows,
            number: numbering::leading_number(&title),
            title,
            printed: None,
            target: None,
            evidence,
            unconfirmed: false,
            rank,
            leaf: false,
        }
    }
}

/// Distance between two levels; leaves room to insert ranks between them.
pub(super) const RANK_STEP: u32 = 100;
/// Rank of the highest heading known only by its layout; announced sections of the first 99 levels rank higher.
pub(super) const LAYOUT_RANK: u32 = 10_000;

/// For each heading of `(row, rank)`, in reading order: the index of the head that encloses it, the nearest before it with a
/// smaller rank.
pub(super) fn enclosing_heads(
    heads: &[OutlineHead],
    headings: impl Iterator<Item = (usize, u32)>,
) -> Vec<Option<usize>> {
    let mut open: Vec<usize> = Vec::new();
    let mut next = 0;
    let mut enclosing = Vec::new();
    for (row, rank) in headings {
        while heads.get(next).is_some_and(|head| head.rows.0 < row) {
            while open
                .last()
                .is_some_and(|at| heads[*at].rank >= heads[next].rank)
            {
                open.pop();
            }
            open.push(next);
            next += 1;
        }
        let above = open.partition_point(|at| heads[*at].rank < rank);
        enclosing.push(above.checked_sub(1).map(|above| open[above]));
    }
    enclosing
}

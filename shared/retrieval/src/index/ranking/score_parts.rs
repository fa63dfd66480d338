//! The parts of a score. A new part is a variant of [`ScorePart`] and a call of [`ScoreParts::add`].

use std::collections::BTreeMap;

/// The parts of a score, as returned by `explain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::index) enum ScorePart {
    Text,
    Headings,
    Labels,
    Path,
    Summary,
    Adjacency,
    Phrases,
    RowPhrases,
    References,
    Statement,
    Document,
    Figure,
}

impl ScorePart {
    pub(in crate::index) fn as_str(self) -> &'static str {
        match self {
            ScorePart::Text => "text",
            ScorePart::Headings => "headings",
            ScorePart::Labels => "labels",
            ScorePart::Path => "path",
            ScorePart::Summary => "summary",
            ScorePart::Adjacency => "adjacency",
            ScorePart::Phrases => "phrases",
            ScorePart::RowPhrases => "row_phrases",
            ScorePart::References => "references",
            ScorePart::Statement => "statement",
            ScorePart::Document => "document",
            ScorePart::Figure => "figure",
        }
    }
}

/// The scores of all candidates, by part.
pub(super) struct ScoreParts {
    scores: BTreeMap<ScorePart, Vec<f32>>,
    pub(super) totals: Vec<f32>,
}

impl ScoreParts {
    pub(super) fn new(candidates: usize) -> Self {
        Self {
            scores: BTreeMap::new(),
            totals: vec![0.0; candidates],
        }
    }

    pub(super) fn add(&mut self, part: ScorePart, scores: &[f32]) {
        let sums = self
            .scores
            .entry(part)
            .or_insert_with(|| vec![0.0; self.totals.len()]);
        for ((sum, total), score) in sums.iter_mut().zip(&mut self.totals).zip(scores) {
            *sum += score;
            *total += score;
        }
    }

    pub(super) fn best(&self) -> f32 {
        self.totals.iter().copied().fold(0.0, f32::max)
    }

    /// The parts of one candidate that are not 0.
    pub(super) fn candidate_parts(&self, at: usize) -> BTreeMap<ScorePart, f32> {
        self.scores
            .iter()
            .map(|(part, scores)| (*part, scores[at]))
            .filter(|(_, score)| *score != 0.0)
            .collect()
    }
}

//! Scores the words of a query: how rare they are in the scope, how often they occur in a passage, in its headings, and
//! side by side.

use tantivy::Term;
use tantivy::postings::Postings;
use tantivy::schema::{Field, IndexRecordOption};

use super::score_parts::{ScorePart, ScoreParts};
use crate::index::passage_set::PassageSet;
use crate::index::schema::Fields;
use crate::index::scope_statistics::ScopeStatistics;
use crate::parsed_query::ParsedQuery;

// A word in a heading, a row label, a title above the page or a running head, and a pair of words side by side: shares of
// the word's weight in the text.
const HEADINGS_WEIGHT: f32 = 1.0;
const LABELS_WEIGHT: f32 = 0.5;
const PATH_WEIGHT: f32 = 0.2;
const RUNNING_HEAD_WEIGHT: f32 = 0.2;
const SUMMARY_WEIGHT: f32 = 0.2;
const PAIR_WEIGHT: f32 = 0.5;

/// The words of a query with their rarity in its scope.
pub(super) struct WordScorer {
    terms: Vec<Term>,
    // Inverse document frequency times the weight in the query.
    weights: Vec<f32>,
    pairs: Vec<(usize, usize, u32)>,
}

impl WordScorer {
    pub(super) fn new(
        parsed: &ParsedQuery,
        fields: &Fields,
        scope: &ScopeStatistics<'_>,
    ) -> tantivy::Result<Self> {
        let mut words = Self {
            terms: Vec::new(),
            weights: Vec::new(),
            pairs: parsed.pairs.clone(),
        };
        for (word, weight) in &parsed.words {
            let term = Term::from_field_text(fields.body, word);
            words.weights.push(weight * scope.idf(&term)?);
            words.terms.push(term);
        }
        Ok(words)
    }

    /// Each word with its weight.
    pub(super) fn weighted_terms(&self) -> impl Iterator<Item = (&Term, f32)> {
        self.terms.iter().zip(self.weights.iter().copied())
    }

    /// Adds the scores to `parts`.
    pub(super) fn score(
        &self,
        passages: &PassageSet<'_>,
        scope: &ScopeStatistics<'_>,
        fields: &Fields,
        parts: &mut ScoreParts,
    ) -> tantivy::Result<()> {
        let lengths = passages.column("length")?;
        let mut positions: Vec<Vec<Vec<u32>>> = Vec::new();
        for (term, weight) in self.weighted_terms() {
            let mut scores = vec![0.0; passages.len()];
            let mut places = vec![Vec::new(); passages.len()];
            passages.visit(
                term,
                IndexRecordOption::WithFreqsAndPositions,
                |at, postings| {
                    scores[at] =
                        weight * scope.saturation(postings.term_freq() as f32, lengths[at]);
                    postings.positions(&mut places[at]);
                },
            )?;
            parts.add(ScorePart::Text, &scores);
            positions.push(places);
        }
        for (part, field, share) in [
            (ScorePart::Headings, fields.headings, HEADINGS_WEIGHT),
            (ScorePart::Labels, fields.labels, LABELS_WEIGHT),
            (ScorePart::Path, fields.path, PATH_WEIGHT),
            (ScorePart::Path, fields.running, RUNNING_HEAD_WEIGHT),
            (ScorePart::Summary, fields.summary, SUMMARY_WEIGHT),
        ] {
            for scores in self.score_field(passages, field, share)? {
                parts.add(part, &scores);
            }
        }
        for (first, second, distance) in &self.pairs {
            let weight = PAIR_WEIGHT * f32::midpoint(self.weights[*first], self.weights[*second]);
            let scores: Vec<f32> = (0..passages.len())
                .map(|at| {
                    let times =
                        count_pairs(&positions[*first][at], &positions[*second][at], *distance);
                    match times {
                        0 => 0.0,
                        times => weight * scope.saturation(times as f32, lengths[at]),
                    }
                })
                .collect();
            parts.add(ScorePart::Adjacency, &scores);
        }
        Ok(())
    }

    // The share of each word's weight where the field has the word, however often.
    fn score_field(
        &self,
        passages: &PassageSet<'_>,
        field: Field,
        share: f32,
    ) -> tantivy::Result<Vec<Vec<f32>>> {
        self.weighted_terms()
            .map(|(term, weight)| {
                let term = Term::from_field_text(field, term.value().as_str().unwrap_or_default());
                let found = passages.having(&term)?;
                Ok(found
                    .into_iter()
                    .map(|found| if found { share * weight } else { 0.0 })
                    .collect())
            })
            .collect()
    }
}

// How often the second word follows the first one within `distance`.
fn count_pairs(first: &[u32], second: &[u32], distance: u32) -> usize {
    first
        .iter()
        .filter(|start| {
            let after = second.partition_point(|at| at <= start);
            second.get(after).is_some_and(|at| at - *start <= distance)
        })
        .count()
}

//! Scores what only filings have: the phrases of statements, the statements themselves, and the period and form of the document.
//! Other documents get nothing from these rules but the phrases of clauses, since a contract is not a filing.

use stemma_reading::statement_pages::StatementKind;
use tantivy::Term;
use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;

use super::score_parts::{ScorePart, ScoreParts};
use crate::index::document_fit::DocumentFit;
use crate::index::passage_set::PassageSet;
use crate::index::schema::Fields;
use crate::index::scope_statistics::{K1, ScopeStatistics, saturate};
use crate::lexicon::EntryKind;
use crate::parsed_query::ParsedQuery;

// Phrases relative to a word as rare, in the text and in row labels.
pub(super) const PHRASE_WEIGHT: f32 = 0.8;
const ROW_PHRASE_WEIGHT: f32 = 0.7;
// Shares of the best word score: a requested statement, and of that, one that only resembles it.
const STATEMENT_WEIGHT: f32 = 0.6;
const LOOK_ALIKE_WEIGHT: f32 = 0.4;
// A document of the requested year has 12 points of fit: 0.4 of the best word score.
const DOCUMENT_FIT_SHARE: f32 = 0.4 / 12.0;
// Further phrases of a group repeat what the first one says.
const NEXT_PHRASE_WEIGHT: f32 = 0.5;
const MAX_NEXT_PHRASES: usize = 2;

/// The rules for filings, applied to candidates.
pub(super) struct FilingRules<'a> {
    pub(super) parsed: &'a ParsedQuery,
    pub(super) fields: &'a Fields,
    pub(super) passages: &'a PassageSet<'a>,
    // Whether each passage is part of a filing.
    pub(super) is_filing: Vec<bool>,
}

impl FilingRules<'_> {
    /// Adds the phrases of the lexicon, in the text and in row labels. Of each entry the best phrase counts in full, and the
    /// next two count half.
    pub(super) fn score_phrases(
        &self,
        scope: &ScopeStatistics<'_>,
        parts: &mut ScoreParts,
    ) -> tantivy::Result<PhraseMatches> {
        let count = self.passages.len();
        let mut matches = PhraseMatches {
            best: vec![None; count],
            lines: vec![0.0; count],
        };
        let mut best_scores = vec![0.0; count];
        for group in &self.parsed.phrase_groups {
            for (part, field, weight) in [
                (ScorePart::Phrases, self.fields.phrases, PHRASE_WEIGHT),
                (
                    ScorePart::RowPhrases,
                    self.fields.row_phrases,
                    ROW_PHRASE_WEIGHT,
                ),
            ] {
                let mut found: Vec<Vec<f32>> = vec![Vec::new(); count];
                for phrase in &group.phrases {
                    let term = Term::from_field_text(field, phrase);
                    let weight = weight * group.weight * scope.idf(&term)?;
                    self.passages
                        .visit(&term, IndexRecordOption::WithFreqs, |at, postings| {
                            if !self.is_filing[at] && group.kind != EntryKind::Clause {
                                return;
                            }
                            // Without length: a phrase is worth as much on a long page as on a short one.
                            let times = postings.term_freq() as f32;
                            let score = weight * saturate(times, K1);
                            found[at].push(score);
                            if score > best_scores[at] {
                                best_scores[at] = score;
                                matches.best[at] = Some(phrase.clone());
                            }
                        })?;
                }
                let scores: Vec<f32> = found.into_iter().map(sum_of_group).collect();
                parts.add(part, &scores);
                if matches!(group.kind, EntryKind::Line | EntryKind::Measure) {
                    let lines = matches.lines.iter_mut().zip(&scores);
                    lines.for_each(|(sum, score)| *sum += score);
                }
            }
        }
        Ok(matches)
    }

    /// Adds the requested statements, by how much of the requested lines they have. `unit` is the score of the words of the
    /// best passage.
    pub(super) fn score_statements(
        &self,
        unit: f32,
        phrases: &PhraseMatches,
        parts: &mut ScoreParts,
    ) -> tantivy::Result<Vec<Option<StatementKind>>> {
        let mut best: Vec<(f32, Option<StatementKind>)> = vec![(0.0, None); self.passages.len()];
        let lines = phrases.share_of_lines();
        for (kind, share) in &self.parsed.statements {
            let fields = [
                (self.fields.statements, 1.0),
                (self.fields.look_alikes, LOOK_ALIKE_WEIGHT),
            ];
            for (field, confidence) in fields {
                let score = unit * STATEMENT_WEIGHT * share * confidence;
                let term = Term::from_field_text(field, kind.code());
                self.passages
                    .visit(&term, IndexRecordOption::Basic, |at, _| {
                        let score = score * lines.get(at).unwrap_or(&1.0);
                        if self.is_filing[at] && score > best[at].0 {
                            best[at] = (score, Some(*kind));
                        }
                    })?;
            }
        }
        let scores: Vec<f32> = best.iter().map(|(score, _)| *score).collect();
        parts.add(ScorePart::Statement, &scores);
        Ok(best.into_iter().map(|(_, kind)| kind).collect())
    }

    /// Adds how well the document fits the period and form of the query.
    pub(super) fn score_documents(
        &self,
        documents: &DocumentFit<'_>,
        unit: f32,
        parts: &mut ScoreParts,
    ) -> tantivy::Result<()> {
        let scores = documents.scores(self.passages, self.fields)?;
        let scores = scores.iter().map(|score| unit * DOCUMENT_FIT_SHARE * score);
        parts.add(ScorePart::Document, &scores.collect::<Vec<_>>());
        Ok(())
    }
}

/// What passages have of the lexicon.
pub(super) struct PhraseMatches {
    /// The phrase that contributed most.
    pub(super) best: Vec<Option<String>>,
    // Scores of lines of statements.
    lines: Vec<f32>,
}

impl PhraseMatches {
    // How much of the requested lines each passage has, relative to the one that has most: a statement without them is
    // another one, or one of a guarantor. Empty if no line is requested.
    fn share_of_lines(&self) -> Vec<f32> {
        let most = self.lines.iter().copied().fold(0.0, f32::max);
        if most == 0.0 {
            return Vec::new();
        }
        self.lines.iter().map(|score| score / most).collect()
    }
}

fn sum_of_group(mut scores: Vec<f32>) -> f32 {
    scores.sort_by(|a, b| b.total_cmp(a));
    let next: f32 = scores.iter().skip(1).take(MAX_NEXT_PHRASES).sum();
    scores
        .first()
        .map_or(0.0, |best| best + NEXT_PHRASE_WEIGHT * next)
}

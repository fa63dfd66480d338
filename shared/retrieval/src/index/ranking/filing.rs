//! Scores what only filings have: the phrases of statements, their page classes, and the period and form of the document.
//! Other documents get nothing from these rules but the phrases of clauses, since a contract is no filing.

use tantivy::Term;
use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;

use super::candidates::{PassageSet, ScopeStatistics};
use super::{Parts, ScorePart};
use crate::index::document_fit::DocumentFit;
use crate::index::schema::Fields;
use crate::lexicon::EntryKind;
use crate::page_class::PageClass;
use crate::parsed_query::ParsedQuery;
use crate::search::RankingFeature;

// Phrases relative to a word as rare, in the text and in row labels.
pub(super) const PHRASE_WEIGHT: f32 = 0.8;
const ROW_PHRASE_WEIGHT: f32 = 0.7;
// Shares of the best word score: a requested statement (or one that only resembles it), a requested kind of section (or
// one announced by a title above), tables or prose.
const STATEMENT_WEIGHT: f32 = 0.6;
const LOOK_ALIKE_WEIGHT: f32 = 0.4;
const SECTION_WEIGHT: f32 = 0.1;
const SECTION_ABOVE_WEIGHT: f32 = 0.5;
const NUMBERS_WEIGHT: f32 = 0.2;
const PROSE_WEIGHT: f32 = 0.1;
// A document of the requested year has 12 points of fit: 0.4 of the best word score.
const DOCUMENT_FIT_SHARE: f32 = 0.4 / 12.0;
// Further phrases of a group repeat what the first one says.
const NEXT_PHRASE_WEIGHT: f32 = 0.5;
const MAX_NEXT_PHRASES: usize = 2;
// Numbers per word in a typical table.
const TABLE_NUMBER_SHARE: f32 = 0.3;
// Pages with few words would otherwise look like tables.
const FEWEST_WORDS: f32 = 50.0;

/// The rules for filings, applied to candidates.
pub(super) struct FilingRules<'a> {
    pub(super) parsed: &'a ParsedQuery,
    pub(super) fields: &'a Fields,
    pub(super) disabled: &'a [RankingFeature],
    pub(super) passages: &'a PassageSet<'a>,
    // Whether each passage is part of a filing.
    pub(super) is_filing: Vec<bool>,
}

impl FilingRules<'_> {
    fn uses(&self, feature: RankingFeature) -> bool {
        !self.disabled.contains(&feature)
    }

    /// Adds the phrases of the lexicon, in the text and in row labels. Of each entry the best phrase counts in full, and the
    /// next two count half.
    pub(super) fn score_phrases(
        &self,
        scope: &ScopeStatistics<'_>,
        parts: &mut Parts,
    ) -> tantivy::Result<Vec<Option<String>>> {
        let count = self.passages.len();
        let mut best: Vec<(f32, Option<String>)> = vec![(0.0, None); count];
        if !self.uses(RankingFeature::Lexicon) {
            return Ok(vec![None; count]);
        }
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
                            let score = weight * times * 2.2 / (times + 1.2);
                            found[at].push(score);
                            if score > best[at].0 {
                                best[at] = (score, Some(phrase.clone()));
                            }
                        })?;
                }
                let scores: Vec<f32> = found.into_iter().map(sum_of_group).collect();
                parts.add(part, &scores);
            }
        }
        Ok(best.into_iter().map(|(_, phrase)| phrase).collect())
    }

    /// Adds the requested statements and kinds of sections. `unit` is the score of the words of the best passage.
    pub(super) fn score_page_classes(
        &self,
        unit: f32,
        parts: &mut Parts,
    ) -> tantivy::Result<Vec<Option<PageClass>>> {
        let count = self.passages.len();
        let mut statements = vec![0.0_f32; count];
        let mut sections = vec![0.0_f32; count];
        let mut best: Vec<(f32, Option<PageClass>)> = vec![(0.0, None); count];
        for (class, share) in &self.parsed.page_classes {
            let (feature, weight, weak, sums) = match class.is_statement() {
                true => (
                    RankingFeature::Statements,
                    STATEMENT_WEIGHT,
                    LOOK_ALIKE_WEIGHT,
                    &mut statements,
                ),
                false => (
                    RankingFeature::Sections,
                    SECTION_WEIGHT,
                    SECTION_ABOVE_WEIGHT,
                    &mut sections,
                ),
            };
            if !self.uses(feature) {
                continue;
            }
            for (field, confidence) in [(self.fields.places, 1.0), (self.fields.like, weak)] {
                let score = unit * weight * share * confidence;
                let term = Term::from_field_text(field, class.code());
                self.passages
                    .visit(&term, IndexRecordOption::Basic, |at, _| {
                        if self.is_filing[at] {
                            sums[at] = sums[at].max(score);
                            if score > best[at].0 {
                                best[at] = (score, Some(*class));
                            }
                        }
                    })?;
            }
        }
        parts.add(ScorePart::Statement, &statements);
        parts.add(ScorePart::Section, &sections);
        Ok(best.into_iter().map(|(_, class)| class).collect())
    }

    /// Prefers tables for queries that ask for a number, and prose for others.
    pub(super) fn score_numbers(&self, unit: f32, parts: &mut Parts) -> tantivy::Result<()> {
        if !self.uses(RankingFeature::Numbers) {
            return Ok(());
        }
        let numbers = self.passages.column("numbers")?;
        let lengths = self.passages.column("length")?;
        let scores = (0..self.passages.len()).map(|at| {
            let share =
                numbers[at] as f32 / (lengths[at] as f32).max(FEWEST_WORDS) / TABLE_NUMBER_SHARE;
            match (self.is_filing[at], self.parsed.wants_number) {
                (false, _) => 0.0,
                (true, true) => unit * NUMBERS_WEIGHT * share.min(1.0),
                (true, false) => unit * PROSE_WEIGHT * (1.0 - share).max(0.0),
            }
        });
        parts.add(ScorePart::Numbers, &scores.collect::<Vec<_>>());
        Ok(())
    }

    /// Adds how well the document fits the period and form of the query.
    pub(super) fn score_documents(
        &self,
        documents: &DocumentFit<'_>,
        unit: f32,
        parts: &mut Parts,
    ) -> tantivy::Result<()> {
        if !self.uses(RankingFeature::Dates) {
            return Ok(());
        }
        let scores = documents.scores(self.passages, self.fields)?;
        let scores = scores.iter().map(|score| unit * DOCUMENT_FIT_SHARE * score);
        parts.add(ScorePart::Document, &scores.collect::<Vec<_>>());
        Ok(())
    }
}

fn sum_of_group(mut scores: Vec<f32>) -> f32 {
    scores.sort_by(|a, b| b.total_cmp(a));
    let next: f32 = scores.iter().skip(1).take(MAX_NEXT_PHRASES).sum();
    scores
        .first()
        .map_or(0.0, |best| best + NEXT_PHRASE_WEIGHT * next)
}

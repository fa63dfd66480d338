//! Compares the figure that a query asks for with those that passages display.

use stemma_reading::figures::{ENTRY_START, FigureQuery, WORDS_END};
use tantivy::Term;
use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;

use crate::index::passage_set::PassageSet;
use crate::index::schema::Fields;
use crate::index::scope_statistics::ScopeStatistics;

// A figure of the name but not of the period: its table may have the period in another column.
const OTHER_PERIOD_SHARE: f32 = 0.5;

/// The displayed figure that matches a query best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::index) struct FigureMatch {
    /// 0 to 1: the share of the query that its name has, times the share of its name that the query has; less if the period
    /// is another one.
    pub(in crate::index) strength: f32,
    /// Position of its entry among those of the passage.
    pub(in crate::index) entry: usize,
}

/// The best figure of each passage; `None` where no name has a word of the query.
pub(super) fn match_figures(
    query: &FigureQuery,
    passages: &PassageSet<'_>,
    scope: &ScopeStatistics<'_>,
    fields: &Fields,
) -> tantivy::Result<Vec<Option<FigureMatch>>> {
    let positions = |word: &str| positions(&Term::from_field_text(fields.figures, word), passages);
    let starts = positions(ENTRY_START)?;
    if starts.iter().all(Vec::is_empty) {
        return Ok(vec![None; passages.len()]);
    }
    let ends = positions(WORDS_END)?;
    let mut entries: Vec<Vec<Entry>> = starts
        .iter()
        .zip(&ends)
        .map(|(starts, ends)| starts.iter().zip(ends).map(Entry::new).collect())
        .collect();
    let mut expected = 0.0;
    for (word, has_to_match) in &query.words {
        let weight = scope.idf(&Term::from_field_text(fields.body, word))?;
        expected += if *has_to_match { weight } else { 0.0 };
        let places = positions(word)?;
        for (entries, (starts, places)) in entries.iter_mut().zip(starts.iter().zip(places)) {
            for place in places {
                if let Some(entry) = entry_at(entries, starts, place) {
                    entry.found += 1.0;
                    entry.weight += weight;
                    entry.optional += if *has_to_match { 0.0 } else { weight };
                }
            }
        }
    }
    for period in &query.periods {
        let places = positions(period)?;
        for (entries, (starts, places)) in entries.iter_mut().zip(starts.iter().zip(places)) {
            for place in places {
                if let Some(entry) = entry_at(entries, starts, place) {
                    entry.has_period = true;
                }
            }
        }
    }
    let has_period = !query.periods.is_empty();
    let best = entries.iter().map(|entries| {
        let matches = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.found > 0.0)
            .map(|(at, entry)| FigureMatch {
                strength: entry.strength(expected, has_period),
                entry: at,
            });
        matches.reduce(|best, next| {
            if next.strength > best.strength {
                next
            } else {
                best
            }
        })
    });
    Ok(best.collect())
}

// What a figure entry has of the query.
struct Entry {
    words: f32,
    found: f32,
    // Weight of the words found, and of the optional words among them.
    weight: f32,
    optional: f32,
    has_period: bool,
}

impl Entry {
    // By the positions of its start and of the end of its words.
    fn new((start, end): (&u32, &u32)) -> Self {
        Self {
            words: end.saturating_sub(*start).saturating_sub(1).max(1) as f32,
            found: 0.0,
            weight: 0.0,
            optional: 0.0,
            has_period: false,
        }
    }

    fn strength(&self, expected: f32, has_period: bool) -> f32 {
        let period = match self.has_period || !has_period {
            true => 1.0,
            false => OTHER_PERIOD_SHARE,
        };
        period * self.weight / (expected + self.optional) * self.found / self.words
    }
}

fn entry_at<'e>(entries: &'e mut [Entry], starts: &[u32], place: u32) -> Option<&'e mut Entry> {
    let at = starts.partition_point(|start| *start < place);
    entries.get_mut(at.checked_sub(1)?)
}

// The positions of a term in each passage.
fn positions(term: &Term, passages: &PassageSet<'_>) -> tantivy::Result<Vec<Vec<u32>>> {
    let mut places = vec![Vec::new(); passages.len()];
    let record = IndexRecordOption::WithFreqsAndPositions;
    passages.visit(term, record, |at, postings| {
        postings.positions(&mut places[at]);
    })?;
    Ok(places)
}

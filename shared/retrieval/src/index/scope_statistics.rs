//! How rare words are in the scope of a query, and what the length of a passage is worth (BM25).

use tantivy::Term;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::schema::{Field, IndexRecordOption};

use super::passage_set::PassageSet;
use super::schema::{Fields, IndexEntryKind};
use super::searcher::IndexSearcher;

// A larger scope is sampled: words of one passage in a hundred are estimated well enough.
const SAMPLE: usize = 2_000;
// Saturation of repeated words, and how much the length of a passage counts (BM25).
pub(super) const K1: f32 = 1.2;
const B: f32 = 0.75;

/// How rare words are in the passages that a query covers, and how long these are.
pub(super) struct ScopeStatistics<'s> {
    searcher: &'s IndexSearcher,
    // `None` for the whole index, which knows its own counts.
    sample: Option<PassageSet<'s>>,
    passages: f32,
    mean_length: f32,
}

impl<'s> ScopeStatistics<'s> {
    /// `scope` has the passages; `None` means the whole index.
    pub(super) fn new(
        searcher: &'s IndexSearcher,
        fields: &Fields,
        scope: Option<&PassageSet<'s>>,
    ) -> tantivy::Result<Self> {
        let Some(scope) = scope else {
            let passages = searcher.doc_freq(&fields.kind_term(IndexEntryKind::Passage))? as f32;
            return Ok(Self {
                searcher,
                sample: None,
                passages,
                mean_length: total_words(searcher, fields.body)? / passages.max(1.0),
            });
        };
        let step = scope.len().div_ceil(SAMPLE).max(1);
        let sample = PassageSet::new(searcher, scope.addresses().step_by(step).collect());
        let words: u64 = sample.column("length")?.iter().sum();
        let passages = sample.len() as f32;
        Ok(Self {
            searcher,
            sample: Some(sample),
            passages,
            mean_length: words as f32 / passages.max(1.0),
        })
    }

    /// Of passages of ten words.
    #[cfg(test)]
    pub(super) fn for_test(searcher: &'s IndexSearcher) -> Self {
        Self {
            searcher,
            sample: None,
            passages: searcher.num_docs() as f32,
            mean_length: 10.0,
        }
    }

    /// The inverse document frequency of a term of a passage (BM25).
    pub(super) fn idf(&self, term: &Term) -> tantivy::Result<f32> {
        let count = match &self.sample {
            Some(sample) => {
                let mut count = 0;
                sample.visit(term, IndexRecordOption::Basic, |_, _| count += 1)?;
                count as f32
            }
            None => self.searcher.doc_freq(term)? as f32,
        };
        Ok(inverse_frequency(self.passages, count))
    }

    /// The inverse document frequency of a term in the whole index.
    pub(super) fn global_idf(&self, term: &Term) -> tantivy::Result<f32> {
        let count = self.searcher.doc_freq(term)? as f32;
        Ok(inverse_frequency(self.searcher.num_docs() as f32, count))
    }

    /// The factor of a word that occurs `times` in a passage of `length` words: 0 to 2.2 (BM25).
    pub(super) fn saturation(&self, times: f32, length: u64) -> f32 {
        saturate(times, self.length_factor(length))
    }

    /// How many times a word has to occur in a passage of `length` words to count half of what it can.
    pub(super) fn length_factor(&self, length: u64) -> f32 {
        let relative = length as f32 / self.mean_length.max(1.0);
        K1 * (1.0 - B + B * relative)
    }

    /// [`length_factor`](Self::length_factor) of all lengths as the index rounds them.
    pub(super) fn length_factors(&self) -> [f32; 256] {
        let mut factors = [0.0; 256];
        for (id, factor) in (0..=u8::MAX).zip(&mut factors) {
            *factor = self.length_factor(FieldNormReader::id_to_fieldnorm(id).into());
        }
        factors
    }
}

/// The inverse document frequency (BM25) of a term that `count` of all passages have.
pub(super) fn inverse_frequency(all: f32, count: f32) -> f32 {
    ((all - count + 0.5).max(0.5) / (count + 0.5)).ln_1p()
}

/// The factor of a word that occurs `times`, by the factor of the passage's length.
pub(super) fn saturate(times: f32, length_factor: f32) -> f32 {
    times * (K1 + 1.0) / (times + length_factor)
}

fn total_words(searcher: &IndexSearcher, field: Field) -> tantivy::Result<f32> {
    let mut total = 0;
    for reader in searcher.segment_readers() {
        total += reader.inverted_index(field)?.total_num_tokens();
    }
    Ok(total as f32)
}

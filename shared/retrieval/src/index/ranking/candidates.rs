//! A sorted set of passages, read term by term: the candidates of a query, or a sample of its scope.

use std::ops::Range;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::SegmentPostings;
use tantivy::query::{EnableScoring, Query};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocAddress, DocId, DocSet, SegmentReader, TERMINATED, Term};

use super::super::schema::{Fields, IndexEntryKind};
use super::super::searcher::IndexSearcher;

// A larger scope is sampled: words of one passage in a hundred are estimated well enough.
const SAMPLE: usize = 2_000;
// Saturation of repeated words, and how much the length of a passage counts (BM25).
pub(super) const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Passages, or documents, in the order of the index.
#[derive(Clone, Default)]
pub(in crate::index) struct PassageSet<'s> {
    segments: Vec<SegmentPassages<'s>>,
    count: usize,
}

#[derive(Clone)]
struct SegmentPassages<'s> {
    ordinal: u32,
    reader: &'s SegmentReader,
    // Position of the first passage in the set.
    first: usize,
    // Ascending.
    docs: Vec<DocId>,
}

impl<'s> PassageSet<'s> {
    pub(in crate::index) fn new(
        searcher: &'s IndexSearcher,
        mut addresses: Vec<DocAddress>,
    ) -> Self {
        addresses.sort_unstable();
        let mut set = Self {
            segments: Vec::new(),
            count: addresses.len(),
        };
        for (at, address) in addresses.into_iter().enumerate() {
            match set.segments.last_mut() {
                Some(segment) if segment.ordinal == address.segment_ord => {
                    segment.docs.push(address.doc_id);
                }
                _ => set.segments.push(SegmentPassages {
                    ordinal: address.segment_ord,
                    reader: searcher.segment_reader(address.segment_ord),
                    first: at,
                    docs: vec![address.doc_id],
                }),
            }
        }
        set
    }

    /// The passages that a query matches.
    pub(in crate::index) fn matching(
        searcher: &'s IndexSearcher,
        query: &dyn Query,
    ) -> tantivy::Result<Self> {
        let mut addresses = Vec::new();
        let weight = searcher.match_weight(query)?;
        for (ordinal, reader) in (0..).zip(searcher.segment_readers()) {
            weight.for_each_no_score(reader, &mut |docs| {
                let docs = docs.iter().copied().filter(|doc| {
                    reader
                        .alive_bitset()
                        .is_none_or(|alive| alive.is_alive(*doc))
                });
                addresses.extend(docs.map(|doc| DocAddress::new(ordinal, doc)));
            })?;
        }
        Ok(Self::new(searcher, addresses))
    }

    /// Whether a query matches one of them.
    pub(in crate::index) fn has_match(&self, query: &dyn Query) -> tantivy::Result<bool> {
        let Some(segment) = self.segments.first() else {
            return Ok(false);
        };
        let schema = segment.reader.schema();
        let weight = query.weight(EnableScoring::disabled_from_schema(schema))?;
        for segment in &self.segments {
            let mut scorer = weight.scorer(segment.reader, 1.0)?;
            let mut at = 0;
            // Each steps to where the other one is.
            while let Some(doc) = segment.docs.get(at).copied() {
                let next = if scorer.doc() < doc {
                    scorer.seek(doc)
                } else {
                    scorer.doc()
                };
                if next == doc {
                    return Ok(true);
                }
                at += segment.docs[at..].partition_point(|doc| *doc < next);
            }
        }
        Ok(false)
    }

    pub(in crate::index) fn len(&self) -> usize {
        self.count
    }

    /// Those in segments of these ordinals.
    pub(super) fn within(&self, ordinals: &Range<u32>) -> impl Iterator<Item = DocAddress> {
        let addresses = self.addresses();
        addresses.filter(|address| ordinals.contains(&address.segment_ord))
    }

    pub(in crate::index) fn addresses(&self) -> impl Iterator<Item = DocAddress> {
        self.segments.iter().flat_map(|segment| {
            segment
                .docs
                .iter()
                .map(|doc| DocAddress::new(segment.ordinal, *doc))
        })
    }

    /// Calls `visit` with the position of each passage that has the term, and its postings.
    pub(super) fn visit(
        &self,
        term: &Term,
        record: IndexRecordOption,
        mut visit: impl FnMut(usize, &mut SegmentPostings),
    ) -> tantivy::Result<()> {
        for segment in &self.segments {
            let index = segment.reader.inverted_index(term.field())?;
            let Some(mut postings) = index.read_postings(term, record)? else {
                continue;
            };
            // Both ascend, so one pass over the postings is enough.
            for (at, doc) in segment.docs.iter().enumerate() {
                if postings.doc() < *doc {
                    postings.seek(*doc);
                }
                match postings.doc() {
                    TERMINATED => break,
                    current if current == *doc => visit(segment.first + at, &mut postings),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Which passages have the term.
    pub(in crate::index) fn having(&self, term: &Term) -> tantivy::Result<Vec<bool>> {
        let mut found = vec![false; self.count];
        self.visit(term, IndexRecordOption::Basic, |at, _| found[at] = true)?;
        Ok(found)
    }

    /// The values of a fast field; 0 where it has none.
    pub(in crate::index) fn column(&self, name: &str) -> tantivy::Result<Vec<u64>> {
        let mut values = Vec::with_capacity(self.count);
        for segment in &self.segments {
            let column = segment.reader.fast_fields().u64(name)?;
            values.extend(
                segment
                    .docs
                    .iter()
                    .map(|doc| column.first(*doc).unwrap_or(0)),
            );
        }
        Ok(values)
    }
}

/// How rare words are in the passages that a query covers, and how long these are.
pub(in crate::index) struct ScopeStatistics<'s> {
    searcher: &'s IndexSearcher,
    // `None` for the whole index, which knows its own counts.
    sample: Option<PassageSet<'s>>,
    passages: f32,
    mean_length: f32,
}

impl<'s> ScopeStatistics<'s> {
    /// `scope` has the passages; `None` means the whole index.
    pub(in crate::index) fn new(
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
    pub(in crate::index) fn idf(&self, term: &Term) -> tantivy::Result<f32> {
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
pub(in crate::index) fn inverse_frequency(all: f32, count: f32) -> f32 {
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

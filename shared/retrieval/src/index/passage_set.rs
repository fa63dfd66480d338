//! A sorted set of passages, read term by term: the candidates of a query, or a sample of its scope.

use std::ops::Range;

use tantivy::postings::SegmentPostings;
use tantivy::query::{EnableScoring, Query};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, DocId, DocSet, SegmentReader, TERMINATED, Term};

use super::searcher::IndexSearcher;

/// Passages, or documents, in the order of the index.
#[derive(Clone, Default)]
pub(super) struct PassageSet<'s> {
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
    pub(super) fn new(searcher: &'s IndexSearcher, mut addresses: Vec<DocAddress>) -> Self {
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
    pub(super) fn matching(
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
    pub(super) fn has_match(&self, query: &dyn Query) -> tantivy::Result<bool> {
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

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The candidates in segments of these ordinals.
    pub(super) fn within(&self, ordinals: &Range<u32>) -> impl Iterator<Item = DocAddress> {
        let addresses = self.addresses();
        addresses.filter(|address| ordinals.contains(&address.segment_ord))
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = DocAddress> {
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
    pub(super) fn having(&self, term: &Term) -> tantivy::Result<Vec<bool>> {
        let mut found = vec![false; self.count];
        self.visit(term, IndexRecordOption::Basic, |at, _| found[at] = true)?;
        Ok(found)
    }

    /// The values of a fast field; 0 where it has none.
    pub(super) fn column(&self, name: &str) -> tantivy::Result<Vec<u64>> {
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

//! Reads the commits of all shards of an index as one index.

use std::ops::Range;

use tantivy::collector::{Collector, TopDocs};
use tantivy::query::{Bm25StatisticsProvider, EnableScoring, Query, Weight};
use tantivy::schema::document::DocumentDeserialize;
use tantivy::schema::{Field, Schema, Value};
use tantivy::{DocAddress, DocSet, Searcher, SegmentReader, TERMINATED, TantivyDocument, Term};

/// Searches the shards of an index as if they were one: the ordinal of a segment is its position among the segments of all
/// shards, and frequencies are those in all shards.
#[derive(Clone)]
pub struct IndexSearcher {
    schema: Schema,
    shards: Vec<Searcher>,
    // The ordinal of the first segment of each shard.
    first_ordinals: Vec<u32>,
    segments: Vec<SegmentReader>,
}

impl IndexSearcher {
    /// A searcher of these shards, all of this schema.
    pub fn new(schema: Schema, shards: Vec<Searcher>) -> Self {
        let mut first_ordinals = Vec::with_capacity(shards.len());
        let mut segments = Vec::new();
        let mut next = 0;
        for shard in &shards {
            first_ordinals.push(next);
            for (ordinal, segment) in (next..).zip(shard.segment_readers()) {
                segments.push(segment.clone());
                next = ordinal + 1;
            }
        }
        Self {
            schema,
            shards,
            first_ordinals,
            segments,
        }
    }

    pub fn segment_readers(&self) -> &[SegmentReader] {
        &self.segments
    }

    pub(super) fn segment_reader(&self, ordinal: u32) -> &SegmentReader {
        &self.segments[ordinal as usize]
    }

    /// The ordinals of the segments of each shard that has any.
    pub(super) fn shard_ordinals(&self) -> Vec<Range<u32>> {
        let shards = self.first_ordinals.iter().zip(&self.shards);
        let ordinals = shards.map(|(first, shard)| {
            let count = shard.segment_readers().len();
            *first..*first + u32::try_from(count).unwrap_or(u32::MAX)
        });
        ordinals.filter(|ordinals| !ordinals.is_empty()).collect()
    }

    /// Number of entries.
    pub fn num_docs(&self) -> u64 {
        self.shards.iter().map(Searcher::num_docs).sum()
    }

    /// Number of entries with a term, deleted ones included.
    pub fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        self.shards.iter().map(|shard| shard.doc_freq(term)).sum()
    }

    /// Reads a stored entry.
    pub fn doc<D: DocumentDeserialize>(&self, address: DocAddress) -> tantivy::Result<D> {
        let ordinal = address.segment_ord;
        // The last shard that begins there: those before it without segments have none of that ordinal.
        let shard = self
            .first_ordinals
            .partition_point(|first| *first <= ordinal)
            - 1;
        let in_shard = DocAddress::new(ordinal - self.first_ordinals[shard], address.doc_id);
        self.shards[shard].doc(in_shard)
    }

    /// The text that an entry stores in a field.
    pub(super) fn stored_text(
        &self,
        address: DocAddress,
        field: Field,
    ) -> tantivy::Result<Option<String>> {
        let stored: TantivyDocument = self.doc(address)?;
        let text = stored.get_first(field).and_then(|value| value.as_str());
        Ok(text.map(str::to_owned))
    }

    /// The entries with the highest scores.
    pub(super) fn best(
        &self,
        query: &dyn Query,
        limit: usize,
    ) -> tantivy::Result<Vec<(f32, DocAddress)>> {
        self.search(query, &TopDocs::with_limit(limit).order_by_score())
    }

    /// What matches a query in each segment, without scores.
    pub(super) fn match_weight(&self, query: &dyn Query) -> tantivy::Result<Box<dyn Weight>> {
        query.weight(EnableScoring::disabled_from_schema(&self.schema))
    }

    /// Whether an entry matches a query. It stops at the first one: the words of most queries are on thousands of pages.
    pub(super) fn has_match(&self, query: &dyn Query) -> tantivy::Result<bool> {
        let weight = self.match_weight(query)?;
        for reader in &self.segments {
            let mut scorer = weight.scorer(reader, 1.0)?;
            while scorer.doc() != TERMINATED {
                if !reader.is_deleted(scorer.doc()) {
                    return Ok(true);
                }
                scorer.advance();
            }
        }
        Ok(false)
    }

    /// Collects what matches a query in all shards.
    pub fn search<C: Collector>(
        &self,
        query: &dyn Query,
        collector: &C,
    ) -> tantivy::Result<C::Fruit> {
        let mut fruits = Vec::with_capacity(self.segments.len());
        for (first, shard) in self.first_ordinals.iter().zip(&self.shards) {
            let scoring = match collector.requires_scoring() {
                true => EnableScoring::enabled_from_statistics_provider(self, shard),
                false => EnableScoring::disabled_from_schema(&self.schema),
            };
            let weight = query.weight(scoring)?;
            for (ordinal, segment) in (*first..).zip(shard.segment_readers()) {
                fruits.push(collector.collect_segment(weight.as_ref(), ordinal, segment)?);
            }
        }
        collector.merge_fruits(fruits)
    }
}

impl From<Searcher> for IndexSearcher {
    fn from(only: Searcher) -> Self {
        Self::new(only.schema().clone(), vec![only])
    }
}

impl Bm25StatisticsProvider for IndexSearcher {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        self.shards
            .iter()
            .map(|shard| shard.total_num_tokens(field))
            .sum()
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        self.shards.iter().map(Searcher::total_num_docs).sum()
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        IndexSearcher::doc_freq(self, term)
    }
}

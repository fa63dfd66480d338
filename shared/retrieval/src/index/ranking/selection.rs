//! Selects candidates: the passages of a scope with the highest sums of term scores.
//!
//! Terms are read one after the other, first the one that can add most (term at a time, with the bound of MaxScore). As soon
//! as no passage without one of the terms read so far can be among the best, the other terms are looked up only for the
//! passages found. So common words cost little next to a rare one, and the result is the same as if all were read.

use std::ops::Range;

use rayon::prelude::*;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, SegmentReader, Term};

use crate::index::passage_set::PassageSet;
use crate::index::scope_statistics::{K1, ScopeStatistics, saturate};
use crate::index::searcher::IndexSearcher;

// A scope of fewer passages than one in this many is looked up passage by passage, without reading whole posting lists.
const SMALL_SCOPE: usize = 16;

/// A term of a query, and what a passage with it scores.
pub(super) struct Clause {
    pub(super) term: Term,
    /// Weight of one occurrence in a passage of mean length.
    pub(super) weight: f32,
    /// Whether the length of a passage counts.
    pub(super) has_length: bool,
}

/// Up to `limit` passages of the scope that have one of the terms, those with the highest sums first. No scope means the whole index.
pub(super) fn best_passages(
    searcher: &IndexSearcher,
    mut clauses: Vec<Clause>,
    statistics: &ScopeStatistics<'_>,
    scope: Option<&PassageSet<'_>>,
    limit: usize,
) -> tantivy::Result<Vec<DocAddress>> {
    clauses.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    // What the clauses after each one can add. Summed from the end: differences of floats can become negative.
    let mut remaining: Vec<f32> = clauses
        .iter()
        .rev()
        .scan(0.0, |sum, clause| {
            let after = *sum;
            *sum += score_bound(clause);
            Some(after)
        })
        .collect();
    remaining.reverse();
    let terms: Vec<(&Clause, f32)> = clauses.iter().zip(remaining).collect();
    if let Some(scope) = scope.filter(|scope| {
        scope.len() * SMALL_SCOPE < usize::try_from(searcher.num_docs()).unwrap_or(usize::MAX)
    }) {
        let mut listed = ListedSums::new(scope.clone(), vec![0.0; scope.len()])?;
        for clause in &clauses {
            listed.add(clause, statistics)?;
        }
        return best_of(searcher, listed.found().collect(), limit);
    }
    let of_shard = |ordinals: &Range<u32>| -> tantivy::Result<Vec<(f32, DocAddress)>> {
        let mut sums = AllSums::new(searcher, ordinals, scope);
        let mut reached = 0.0;
        for (at, (clause, remaining)) in terms.iter().enumerate() {
            sums.add(clause, statistics)?;
            reached += score_bound(clause);
            // The worst of the best cannot have more than what has been read.
            if *remaining <= reached
                && let Some(least) = sums.nth_best(limit)
                && *remaining <= least
            {
                let mut listed = sums.list(searcher, least - remaining)?;
                for (clause, _) in &terms[at + 1..] {
                    listed.add(clause, statistics)?;
                }
                return Ok(listed.found().collect());
            }
        }
        Ok(sums.found().collect())
    };
    let found: tantivy::Result<Vec<_>> = match searcher.shard_ordinals().as_slice() {
        [only] => of_shard(only).map(|found| vec![found]),
        shards => shards.par_iter().map(of_shard).collect(),
    };
    best_of(searcher, found?.concat(), limit)
}

// The score of a word that is repeated without end.
fn score_bound(clause: &Clause) -> f32 {
    clause.weight * (K1 + 1.0)
}

// The addresses of the highest sums, the highest first. Of equal ones, those of smaller ids of documents: their places in the
// index depend on when they were indexed, and in which shard.
fn best_of(
    searcher: &IndexSearcher,
    mut found: Vec<(f32, DocAddress)>,
    limit: usize,
) -> tantivy::Result<Vec<DocAddress>> {
    if limit > 0 && found.len() > limit {
        let (_, nth, _) = found.select_nth_unstable_by(limit - 1, |a, b| b.0.total_cmp(&a.0));
        let least = nth.0;
        found.retain(|(sum, _)| *sum >= least);
    }
    found.sort_unstable_by_key(|(_, address)| *address);
    let addresses = found.iter().map(|(_, address)| *address).collect();
    let keys = PassageSet::new(searcher, addresses).column("doc_key")?;
    let mut found: Vec<_> = found.into_iter().zip(keys).collect();
    // Stable: passages of a document stay in their order.
    found.sort_by(|(a, a_key), (b, b_key)| b.0.total_cmp(&a.0).then(a_key.cmp(b_key)));
    found.truncate(limit);
    Ok(found.into_iter().map(|((_, address), _)| address).collect())
}

// The sums of all passages of a shard. Those out of scope have an infinite debt.
struct AllSums<'s> {
    first_ordinal: u32,
    segments: Vec<(&'s SegmentReader, Vec<f32>)>,
}

impl<'s> AllSums<'s> {
    fn new(
        searcher: &'s IndexSearcher,
        ordinals: &Range<u32>,
        scope: Option<&PassageSet<'_>>,
    ) -> Self {
        let mut all = Self {
            first_ordinal: ordinals.start,
            segments: Vec::new(),
        };
        for ordinal in ordinals.clone() {
            let reader = searcher.segment_reader(ordinal);
            let count = reader.max_doc() as usize;
            let mut sums = vec![
                if scope.is_some() {
                    f32::NEG_INFINITY
                } else {
                    0.0
                };
                count
            ];
            if let Some(alive) = reader.alive_bitset().filter(|_| scope.is_none()) {
                for doc in (0..reader.max_doc()).filter(|doc| alive.is_deleted(*doc)) {
                    sums[doc as usize] = f32::NEG_INFINITY;
                }
            }
            all.segments.push((reader, sums));
        }
        for address in scope.into_iter().flat_map(|scope| scope.within(ordinals)) {
            let segment = (address.segment_ord - ordinals.start) as usize;
            all.segments[segment].1[address.doc_id as usize] = 0.0;
        }
        all
    }

    fn add(&mut self, clause: &Clause, statistics: &ScopeStatistics<'_>) -> tantivy::Result<()> {
        let factors = statistics.length_factors();
        for (reader, sums) in &mut self.segments {
            let index = reader.inverted_index(clause.term.field())?;
            let Some(mut postings) =
                index.read_block_postings(&clause.term, IndexRecordOption::WithFreqs)?
            else {
                continue;
            };
            let lengths = match clause.has_length {
                true => Some(reader.get_fieldnorms_reader(clause.term.field())?),
                false => None,
            };
            while !postings.docs().is_empty() {
                for (at, doc) in postings.docs().iter().enumerate() {
                    let length = lengths.as_ref().map(|lengths| lengths.fieldnorm_id(*doc));
                    let factor = length.map_or(K1, |length| factors[usize::from(length)]);
                    let times = postings.freq(at) as f32;
                    sums[*doc as usize] += clause.weight * saturate(times, factor);
                }
                postings.advance();
            }
        }
        Ok(())
    }

    fn found(&self) -> impl Iterator<Item = (f32, DocAddress)> {
        let segments = (self.first_ordinal..).zip(&self.segments);
        segments.flat_map(|(ordinal, (_, sums))| {
            let sums = (0..).zip(sums).filter(|(_, sum)| **sum > 0.0);
            sums.map(move |(doc, sum)| (*sum, DocAddress::new(ordinal, doc)))
        })
    }

    fn nth_best(&self, limit: usize) -> Option<f32> {
        let mut sums: Vec<f32> = self.found().map(|(sum, _)| sum).collect();
        if sums.len() < limit || limit == 0 {
            return None;
        }
        let (_, nth, _) = sums.select_nth_unstable_by(limit - 1, |a, b| b.total_cmp(a));
        Some(*nth)
    }

    // The passages with at least this sum.
    fn list(&self, searcher: &'s IndexSearcher, least: f32) -> tantivy::Result<ListedSums<'s>> {
        let found = self.found().filter(|(sum, _)| *sum >= least);
        let (sums, addresses) = found.unzip();
        ListedSums::new(PassageSet::new(searcher, addresses), sums)
    }
}

// The sums of some passages.
struct ListedSums<'s> {
    passages: PassageSet<'s>,
    // As the index rounds them: a sum is the same, whenever its passage was listed.
    lengths: Vec<u64>,
    sums: Vec<f32>,
}

impl<'s> ListedSums<'s> {
    fn new(passages: PassageSet<'s>, sums: Vec<f32>) -> tantivy::Result<Self> {
        let norms: Vec<u64> = (0..=u8::MAX)
            .map(|id| FieldNormReader::id_to_fieldnorm(id).into())
            .collect();
        let lengths = passages.column("length")?.into_iter();
        Ok(Self {
            lengths: lengths
                .map(|length| norms[norms.partition_point(|norm| *norm <= length) - 1])
                .collect(),
            passages,
            sums,
        })
    }

    fn add(&mut self, clause: &Clause, statistics: &ScopeStatistics<'_>) -> tantivy::Result<()> {
        let record = IndexRecordOption::WithFreqs;
        self.passages.visit(&clause.term, record, |at, postings| {
            let factor = match clause.has_length {
                true => statistics.length_factor(self.lengths[at]),
                false => K1,
            };
            self.sums[at] += clause.weight * saturate(postings.term_freq() as f32, factor);
        })
    }

    fn found(&self) -> impl Iterator<Item = (f32, DocAddress)> {
        let sums = self.sums.iter().copied().zip(self.passages.addresses());
        sums.filter(|(sum, _)| *sum > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tantivy::schema::{FAST, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
    use tantivy::{Index, TantivyDocument};

    use super::*;

    // An index of texts in some shards, each of two segments, with the length of each text.
    fn index(texts: &[Vec<usize>], shards: usize) -> (IndexSearcher, tantivy::schema::Field) {
        let mut schema = Schema::builder();
        let indexing = TextFieldIndexing::default().set_tokenizer("whitespace");
        let indexing = indexing.set_index_option(IndexRecordOption::WithFreqs);
        let options = TextOptions::default().set_indexing_options(indexing);
        let body = schema.add_text_field("body", options);
        let length = schema.add_u64_field("length", FAST);
        let doc_key = schema.add_u64_field("doc_key", FAST);
        let schema = schema.build();
        let searchers = (0..shards).map(|shard| {
            let index = Index::create_in_ram(schema.clone());
            let mut writer = index.writer_with_num_threads(1, 16 << 20).unwrap();
            for (at, words) in texts.iter().enumerate().skip(shard).step_by(shards) {
                let text: Vec<String> = words.iter().map(|word| format!("w{word}")).collect();
                let mut document = TantivyDocument::default();
                document.add_text(body, text.join(" "));
                document.add_u64(length, words.len() as u64);
                document.add_u64(doc_key, at as u64);
                writer.add_document(document).unwrap();
                if at <= texts.len() / 2 && at + shards > texts.len() / 2 {
                    writer.commit().unwrap();
                }
            }
            writer.commit().unwrap();
            index.reader().unwrap().searcher()
        });
        let searchers = searchers.collect();
        (IndexSearcher::new(schema, searchers), body)
    }

    proptest! {
        #[test]
        fn pruning_changes_no_selection(
            texts in prop::collection::vec(prop::collection::vec(0_usize..12, 1..12), 1..60),
            weights in prop::collection::vec(0.01_f32..5.0, 12),
            limit in 1_usize..8,
            shards in 1_usize..4,
        ) {
            let (searcher, body) = index(&texts, shards);
            let clauses = || weights.iter().enumerate().map(|(word, weight)| Clause {
                term: Term::from_field_text(body, &format!("w{word}")),
                weight: *weight,
                has_length: true,
            });
            let statistics = ScopeStatistics::for_test(&searcher);
            let every = PassageSet::matching(&searcher, &tantivy::query::AllQuery).unwrap();
            let mut listed = ListedSums::new(every.clone(), vec![0.0; every.len()]).unwrap();
            for clause in clauses() {
                listed.add(&clause, &statistics).unwrap();
            }
            let mut expected: Vec<f32> = listed.found().map(|(sum, _)| sum).collect();
            expected.sort_by(|a, b| b.total_cmp(a));
            expected.truncate(limit);
            for scope in [None, Some(&every)] {
                let found = best_passages(&searcher, clauses().collect(), &statistics, scope, limit).unwrap();
                let mut sums: Vec<f32> = listed.found().filter(|(_, address)| found.contains(address)).map(|(sum, _)| sum).collect();
                sums.sort_by(|a, b| b.total_cmp(a));
                prop_assert_eq!(sums.len(), expected.len());
                for (sum, expected) in sums.iter().zip(&expected) {
                    prop_assert!((sum - expected).abs() < 1e-3, "{} {}", sum, expected);
                }
            }
        }
    }
}

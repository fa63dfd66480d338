//! The search where no candidate has the words that count: BM25 over the text of passages.

use tantivy::query::{BooleanQuery, Occur, Query as IndexQuery, TermQuery};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, Term};

use super::{CANDIDATES, HitList, MAX_GROUPS, ScoredPassage, SearchRun};
use crate::index::document_filter::{all_of, has_term};
use crate::search::SearchResults;

// Bounds a search for all words of a query.
const MAX_TEXT_WORDS: usize = 60;

impl SearchRun<'_> {
    pub(super) fn by_text(
        &self,
        words: &[String],
        results: &mut SearchResults,
    ) -> tantivy::Result<()> {
        let clauses = words.iter().take(MAX_TEXT_WORDS).map(|word| {
            let term = TermQuery::new(
                Term::from_field_text(self.fields.body, word),
                IndexRecordOption::WithFreqs,
            );
            (Occur::Should, Box::new(term) as Box<dyn IndexQuery>)
        });
        let query = BooleanQuery::new(clauses.collect());
        let mut scope = self.passage_scope();
        if !self.allows_amendments() {
            let term = Term::from_field_u64(self.fields.amended, 0);
            scope.push(has_term(term));
        }
        let query: Box<dyn IndexQuery> = Box::new(query);
        let mut hits = self.hit_list();
        let mut limit = CANDIDATES.max(HitList::end(self.query));
        let mut ranked = 0;
        loop {
            let best = self.top_passages(&scope, query.box_clone(), limit)?;
            let scored = best.iter().skip(ranked);
            let scored = scored.map(|(score, address)| ScoredPassage::for_text(*address, *score));
            hits.add(&scored.collect::<Vec<_>>())?;
            ranked = best.len();
            let is_limit_reached = ranked == limit;
            if hits.has_more() || !is_limit_reached || limit >= MAX_GROUPS * CANDIDATES {
                hits.finish(is_limit_reached, results);
                return Ok(());
            }
            limit = (2 * limit).min(MAX_GROUPS * CANDIDATES);
        }
    }

    fn top_passages(
        &self,
        scope: &[Box<dyn IndexQuery>],
        terms: Box<dyn IndexQuery>,
        limit: usize,
    ) -> tantivy::Result<Vec<(f32, DocAddress)>> {
        let query = if scope.is_empty() {
            terms
        } else {
            Box::new(all_of(scope, terms)) as Box<dyn IndexQuery>
        };
        self.searcher.best(query.as_ref(), limit)
    }
}

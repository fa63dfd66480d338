//! Questions to an index: which documents, which passages, which sections.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Instant;

use stemma_document::{DocId, SectionId};
use stemma_engine::PortError;
use tantivy::collector::{Count, TopDocs};
use tantivy::query::{
    AllQuery, BooleanQuery, BoostQuery, ConstScoreQuery, InvertedIndexRangeQuery, Occur,
    Query as IndexQuery, RangeQuery, TermQuery, TermSetQuery,
};
use tantivy::schema::{Field as IndexField, IndexRecordOption, Value};
use tantivy::{DocAddress, Searcher, TantivyDocument, Term};

use super::entry::{Shown, ShownSection, date_number};
use super::route::{self, Routed};
use super::schema::{Fields, Kind};
use super::score::{Part, Plan, Scored};
use crate::excerpt::{self, Weights};
use crate::find::{
    Chip, FindError, Found, Hit, Ingredient, MAX_LIMIT, MAX_QUERY_CHARS, MAX_SKIP, PageHit, Query,
    Strategy, Total, Within,
};
use crate::question::Question;
use stemma_catalog::filter::{Condition, Field, Filter, Op};

/// Passages that are looked at again, part by part.
const CANDIDATES: usize = 400;
/// Documents whose passages are taken as those of the best documents, by DocScore.
const DOC_SCORE: f32 = 4.0;
/// Weights of the documented baseline, and what titles above a section give it.
const TITLE: f32 = 1.0;
const SUMMARY: f32 = 0.7;
const BODY: f32 = 0.3;
const ABOVE: f32 = 0.3;
/// Pages named per section, and characters of a word.
const PAGES_PER_HIT: usize = 20;

/// Answers a question from one state of an index. It keeps a core busy: call it off the threads that serve IO.
///
/// # Errors
/// [`FindError`] when there is nothing to look for, or the index cannot be read.
pub fn find(searcher: &Searcher, query: &Query) -> Result<Found, FindError> {
    let started = Instant::now();
    let text: String = query.text.chars().take(MAX_QUERY_CHARS).collect();
    if query.skip > MAX_SKIP {
        return Err(FindError::TooFar);
    }
    if crate::words::words(&text).is_empty() {
        return Err(FindError::NoWords {
            text: text.chars().take(80).collect(),
        });
    }
    let mut found = Search::new(searcher, query, &text)
        .and_then(Search::run)
        .map_err(|error| damaged(&error))?;
    found.searched.took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok(found)
}

fn damaged(error: &tantivy::TantivyError) -> FindError {
    FindError::Port(PortError::lasting("index", "search", error.to_string()))
}

struct Search<'s> {
    searcher: &'s Searcher,
    fields: Fields,
    query: &'s Query,
    routed: Routed,
    question: Question,
    weights: Weights,
}

impl<'s> Search<'s> {
    fn new(searcher: &'s Searcher, query: &'s Query, text: &str) -> tantivy::Result<Self> {
        let fields = Fields::get();
        let uses = |ingredient| !query.without.contains(&ingredient);
        let one = matches!(&query.within, Within::Documents(docs) if docs.len() == 1);
        let mut routed = route::route(searcher, &fields, text)?;
        if one
            || !uses(Ingredient::Routing)
            || !query.filter.is_empty() && routed.documents.is_none()
        {
            routed = Routed {
                issuer_words: routed.issuer_words,
                ..Routed::default()
            };
        }
        let question = Question::read(text, &routed.issuer_words);
        let weights = question.words.iter().cloned().collect();
        Ok(Self {
            searcher,
            fields,
            query,
            routed,
            question,
            weights,
        })
    }

    fn run(mut self) -> tantivy::Result<Found> {
        let scope = self.scope();
        let mut found = Found {
            terms: self
                .question
                .words
                .iter()
                .map(|(word, _)| word.clone())
                .collect(),
            ..Found::default()
        };
        found.searched.documents_in_scope = self.count(&scope, Kind::Document)?;
        let mut routed = self.routed_scope(&scope);
        found.searched.documents = if routed.len() > scope.len() {
            self.count(&routed, Kind::Document)?
        } else {
            found.searched.documents_in_scope
        };
        if found.searched.documents == 0 && found.searched.documents_in_scope > 0 {
            // What the question names lies outside of where it may look: it looks there all the same.
            self.routed.documents = None;
            self.routed.chips.clear();
            routed = scope;
            found.searched.documents = found.searched.documents_in_scope;
        }
        if let Some(item) = self.item() {
            routed.push(self.term(self.fields.items, &item));
        }
        found.searched.sections = self.count(&routed, Kind::Section)?;
        found.routed = self.chips();
        match self.query.strategy {
            Strategy::Auto | Strategy::Ranked => self.ranked(&routed, &mut found)?,
            Strategy::Lexical => self.lexical(&routed, &mut found)?,
        }
        Ok(found)
    }

    /// The Item that is asked for, by the caller or by the question.
    fn item(&self) -> Option<String> {
        let asked = self
            .question
            .item
            .as_ref()
            .map(|(item, _)| item)
            .filter(|_| !self.query.without.contains(&Ingredient::Routing));
        let item = self.query.item.as_ref().or(asked)?;
        Some(item.part.as_ref().map_or_else(
            || item.number.clone(),
            |part| format!("{part}.{}", item.number),
        ))
    }

    fn chips(&self) -> Vec<Chip> {
        let mut chips = self.routed.chips.clone();
        let mut add = |facet: &str, value: String, from: String| {
            chips.push(Chip {
                facet: facet.into(),
                value,
                from,
                documents: 0,
            });
        };
        for year in &self.question.years {
            add("fiscal_year", year.to_string(), year.to_string());
        }
        if let Some(quarter) = self.question.quarter {
            add(
                "fiscal_period",
                format!("Q{quarter}"),
                format!("Q{quarter}"),
            );
        }
        if let Some(form) = &self.question.form {
            add("form", form.to_uppercase(), form.clone());
        }
        if let Some((item, from)) = &self.question.item {
            add("item", item.number.clone(), from.clone());
        }
        chips
    }

    fn term(&self, field: IndexField, text: &str) -> Box<dyn IndexQuery> {
        Box::new(TermQuery::new(
            Term::from_field_text(field, text),
            IndexRecordOption::Basic,
        ))
    }

    /// What the caller allows.
    fn scope(&self) -> Vec<Box<dyn IndexQuery>> {
        let mut scope: Vec<Box<dyn IndexQuery>> = Vec::new();
        let within = match &self.query.within {
            Within::All => None,
            Within::Documents(docs) => Some(docs),
        };
        if let Some(docs) = within {
            let terms = docs
                .iter()
                .map(|doc| Term::from_field_text(self.fields.doc, &doc.to_string()));
            scope.push(Box::new(TermSetQuery::new(terms)));
        }
        scope.extend(filter(&self.fields, &self.query.filter));
        scope
    }

    /// Whether amendments may be found: where they are asked for, or documents or forms are named.
    fn amendments(&self) -> bool {
        let named = self
            .query
            .filter
            .conditions
            .iter()
            .any(|condition| condition.field == Field::Form);
        named || self.query.within != Within::All || self.question.amended
    }

    fn routed_scope(&self, scope: &[Box<dyn IndexQuery>]) -> Vec<Box<dyn IndexQuery>> {
        let mut routed: Vec<Box<dyn IndexQuery>> =
            scope.iter().map(|query| query.box_clone()).collect();
        if let Some(documents) = &self.routed.documents {
            let terms = documents
                .iter()
                .map(|key| Term::from_field_u64(self.fields.doc_key, *key));
            routed.push(Box::new(TermSetQuery::new(terms)));
        }
        routed
    }

    fn count(&self, scope: &[Box<dyn IndexQuery>], kind: Kind) -> tantivy::Result<usize> {
        if scope.is_empty() {
            // A term by itself is counted without being read.
            return self.searcher.search(&self.kind(kind), &Count);
        }
        self.searcher
            .search(&all_of(scope, Some(self.kind(kind))), &Count)
    }

    fn kind(&self, kind: Kind) -> Box<dyn IndexQuery> {
        Box::new(TermQuery::new(
            self.fields.kind_term(kind),
            IndexRecordOption::Basic,
        ))
    }

    /// Passages by [`Plan`], gathered into sections.
    fn ranked(&self, scope: &[Box<dyn IndexQuery>], found: &mut Found) -> tantivy::Result<()> {
        let plan = Plan::of(&self.question, &self.fields, &self.query.without);
        let wanted = CANDIDATES.max(4 * (self.query.skip + self.query.limit.clamp(1, MAX_LIMIT)));
        let candidates = self.best(scope, Box::new(plan.query()), wanted)?;
        let full = candidates.len() == wanted;
        let candidates = candidates.into_iter().map(|(_, address)| address).collect();
        let mut scored = plan.score(self.searcher, candidates, self.amendments())?;
        if !self.query.without.contains(&Ingredient::DocScore) {
            by_document(&mut scored);
        }
        self.gather(scored, full, found)
    }

    fn best(
        &self,
        scope: &[Box<dyn IndexQuery>],
        wanted: Box<dyn IndexQuery>,
        limit: usize,
    ) -> tantivy::Result<Vec<(f32, DocAddress)>> {
        let query = if scope.is_empty() {
            wanted
        } else {
            Box::new(all_of(scope, Some(wanted))) as Box<dyn IndexQuery>
        };
        self.searcher
            .search(&query, &TopDocs::with_limit(limit).order_by_score())
    }

    /// One hit for each section, in order of its best passage.
    fn gather(&self, scored: Vec<Scored>, full: bool, found: &mut Found) -> tantivy::Result<()> {
        let limit = self.query.limit.clamp(1, MAX_LIMIT);
        let end = self.query.skip + limit;
        let mut hits: Vec<Hit> = Vec::new();
        let mut known: BTreeMap<(DocId, SectionId), usize> = BTreeMap::new();
        let mut more = false;
        for passage in scored {
            let Some(hit) = self.hit(&passage)? else {
                continue;
            };
            match known.get(&(hit.doc, hit.section)) {
                Some(at) => {
                    let pages = &mut hits[*at].best_pages;
                    pages.extend(hit.best_pages);
                }
                None if hits.len() == end => {
                    more = true;
                    break;
                }
                None => {
                    known.insert((hit.doc, hit.section), hits.len());
                    hits.push(hit);
                }
            }
        }
        for hit in &mut hits {
            hit.best_pages.truncate(PAGES_PER_HIT);
        }
        found.total = if more || full {
            Total::AtLeast(hits.len() + usize::from(more))
        } else {
            Total::Exact(hits.len())
        };
        found.next = more.then_some(end);
        found.hits = hits.into_iter().skip(self.query.skip).collect();
        Ok(())
    }

    fn hit(&self, passage: &Scored) -> tantivy::Result<Option<Hit>> {
        let Some(read) = Read::of(self.searcher, &self.fields, passage.address)? else {
            return Ok(None);
        };
        let (excerpt, line) = excerpt::excerpt(&read.text, &self.weights);
        let at = read
            .shown
            .sections
            .iter()
            .rposition(|section| section.line as usize <= line)
            .unwrap_or(0);
        let Some(section) = read.shown.sections.get(at) else {
            return Ok(None);
        };
        let page = u32::try_from(passage.page).ok().filter(|page| *page > 0);
        let page = page.map(|page| PageHit {
            page,
            label: read.shown.label.clone(),
            score: passage.score,
            rectangles: Vec::new(),
        });
        Ok(Some(Hit {
            doc: read.doc,
            name: read.shown.name.clone(),
            version: read.seq,
            section: SectionId(section.id),
            path: section.path.clone(),
            pages: section.pages,
            lines: section.lines,
            best_pages: page.into_iter().collect(),
            score: passage.score,
            parts: if self.query.explain {
                passage
                    .parts
                    .iter()
                    .map(|(part, value)| (part.as_str(), *value))
                    .collect()
            } else {
                BTreeMap::new()
            },
            why: self.why(passage, &excerpt),
            excerpt,
        }))
    }

    /// The place, the phrase and the words that speak for it.
    fn why(&self, passage: &Scored, excerpt: &crate::find::Excerpt) -> String {
        let mut said: Vec<String> = passage
            .place
            .map(|place| place.words().to_owned())
            .into_iter()
            .collect();
        if let Some(phrase) = &passage.phrase {
            said.push(format!("phrase “{phrase}”"));
        }
        let mut words: Vec<&str> = excerpt
            .marks
            .iter()
            .filter_map(|(start, end)| excerpt.text.get(*start..*end))
            .collect();
        words.sort_unstable();
        words.dedup();
        words.truncate(5);
        if !words.is_empty() {
            said.push(format!("words {}", words.join(", ")));
        }
        if passage.parts.contains_key(&Part::Years) {
            said.push("years over columns".into());
        }
        said.join(" · ")
    }

    /// The documented baseline over sections.
    fn lexical(&self, scope: &[Box<dyn IndexQuery>], found: &mut Found) -> tantivy::Result<()> {
        let fields = [
            (self.fields.title, TITLE),
            (self.fields.about, SUMMARY),
            (self.fields.own, BODY),
            (self.fields.above, ABOVE),
        ];
        let clauses = self.question.words.iter().flat_map(|(word, _)| {
            fields.map(|(field, weight)| {
                let term = TermQuery::new(
                    Term::from_field_text(field, word),
                    IndexRecordOption::WithFreqs,
                );
                (
                    Occur::Should,
                    Box::new(BoostQuery::new(Box::new(term), weight)) as Box<dyn IndexQuery>,
                )
            })
        });
        let query = BooleanQuery::new(clauses.collect());
        let limit = self.query.limit.clamp(1, MAX_LIMIT);
        let end = self.query.skip + limit;
        let mut scope: Vec<Box<dyn IndexQuery>> =
            scope.iter().map(|query| query.box_clone()).collect();
        if !self.amendments() {
            let term = Term::from_field_u64(self.fields.amended, 0);
            scope.push(Box::new(TermQuery::new(term, IndexRecordOption::Basic)));
        }
        let best = self.best(&scope, Box::new(query), end + 1)?;
        found.next = (best.len() > end).then_some(end);
        found.total = if best.len() > end {
            Total::AtLeast(best.len())
        } else {
            Total::Exact(best.len())
        };
        for (score, address) in best.into_iter().skip(self.query.skip).take(limit) {
            let Some(read) = Read::of(self.searcher, &self.fields, address)? else {
                continue;
            };
            let Some(section) = read.shown.sections.first().cloned() else {
                continue;
            };
            found.hits.push(self.section_hit(read, &section, score)?);
        }
        Ok(())
    }

    fn section_hit(&self, read: Read, section: &ShownSection, score: f32) -> tantivy::Result<Hit> {
        let (pages, excerpt) = match section.pages {
            Some(pages) => self.pages_of(&read, pages)?,
            None => (Vec::new(), excerpt::excerpt(&read.text, &self.weights).0),
        };
        let parts = if self.query.explain {
            BTreeMap::from([("lexical", score)])
        } else {
            BTreeMap::new()
        };
        Ok(Hit {
            doc: read.doc,
            name: read.shown.name,
            version: read.seq,
            section: SectionId(section.id),
            path: section.path.clone(),
            pages: section.pages,
            lines: section.lines,
            best_pages: pages,
            score,
            parts,
            why: "words in title, summary and text".into(),
            excerpt,
        })
    }

    /// The pages of a section that have most of the words, and what the best says.
    fn pages_of(
        &self,
        read: &Read,
        pages: (u32, u32),
    ) -> tantivy::Result<(Vec<PageHit>, crate::find::Excerpt)> {
        let words = self.question.words.iter().map(|(word, weight)| {
            let term = TermQuery::new(
                Term::from_field_text(self.fields.body, word),
                IndexRecordOption::WithFreqs,
            );
            (
                Occur::Should,
                Box::new(BoostQuery::new(Box::new(term), *weight)) as Box<dyn IndexQuery>,
            )
        });
        let bound =
            |page: u32| Bound::Included(Term::from_field_u64(self.fields.page, u64::from(page)));
        let scope: [Box<dyn IndexQuery>; 2] = [
            self.term(self.fields.doc, &read.doc.to_string()),
            Box::new(RangeQuery::new(bound(pages.0), bound(pages.1))),
        ];
        let best = self.best(
            &scope,
            Box::new(BooleanQuery::new(words.collect())),
            PAGES_PER_HIT,
        )?;
        let mut hits = Vec::new();
        let mut excerpt = None;
        for (score, address) in best {
            let Some(page) = Read::of(self.searcher, &self.fields, address)? else {
                continue;
            };
            let Some(number) = page.page else { continue };
            excerpt = excerpt.or_else(|| Some(excerpt::excerpt(&page.text, &self.weights).0));
            hits.push(PageHit {
                page: number,
                label: page.shown.label,
                score,
                rectangles: Vec::new(),
            });
        }
        Ok((hits, excerpt.unwrap_or_default()))
    }
}

/// Adds what a document's passages together are worth: the sum of their scores over the root of their number.
fn by_document(scored: &mut [Scored]) {
    let mut sums: BTreeMap<u64, (f32, u32)> = BTreeMap::new();
    for passage in scored.iter().take(CANDIDATES / 8) {
        let sum = sums.entry(passage.doc_key).or_default();
        *sum = (sum.0 + passage.score, sum.1 + 1);
    }
    let value = |(sum, count): &(f32, u32)| sum / (f64::from(*count) + 1.0).sqrt() as f32;
    let best = sums.values().map(value).fold(0.0, f32::max);
    if sums.len() < 2 || best <= 0.0 {
        return;
    }
    for passage in scored.iter_mut() {
        let share = sums
            .get(&passage.doc_key)
            .map_or(0.0, |sum| value(sum) / best);
        passage.score += DOC_SCORE * share;
        *passage.parts.entry(Part::Document).or_default() += DOC_SCORE * share;
    }
    scored.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then(a.doc_key.cmp(&b.doc_key))
            .then(a.page.cmp(&b.page))
    });
}

/// What is stored of an entry.
struct Read {
    doc: DocId,
    seq: u64,
    page: Option<u32>,
    shown: Shown,
    text: String,
}

impl Read {
    fn of(
        searcher: &Searcher,
        fields: &Fields,
        address: DocAddress,
    ) -> tantivy::Result<Option<Self>> {
        let stored: TantivyDocument = searcher.doc(address)?;
        let text = |field| stored.get_first(field).and_then(|value| value.as_str());
        let number = |field| stored.get_first(field).and_then(|value| value.as_u64());
        let doc = text(fields.doc).and_then(|doc| doc.parse().ok());
        let shown = text(fields.shown).and_then(|shown| serde_json::from_str(shown).ok());
        let (Some(doc), Some(shown)) = (doc, shown) else {
            return Ok(None);
        };
        let page = number(fields.page).and_then(|page| u32::try_from(page).ok());
        let text = text(fields.text).unwrap_or_default().to_owned();
        Ok(Some(Self {
            doc,
            seq: number(fields.seq).unwrap_or(0),
            page,
            shown,
            text,
        }))
    }
}

/// All of the filters, without a score, and the query.
fn all_of(filters: &[Box<dyn IndexQuery>], query: Option<Box<dyn IndexQuery>>) -> BooleanQuery {
    let filters = filters.iter().map(|filter| {
        (
            Occur::Must,
            Box::new(ConstScoreQuery::new(filter.box_clone(), 0.0)) as Box<dyn IndexQuery>,
        )
    });
    BooleanQuery::new(
        filters
            .chain(query.map(|query| (Occur::Must, query)))
            .collect(),
    )
}

/// The conditions of a filter as queries.
fn filter(fields: &Fields, filter: &Filter) -> Vec<Box<dyn IndexQuery>> {
    filter
        .conditions
        .iter()
        .map(|condition| one(fields, condition))
        .collect()
}

fn one(fields: &Fields, condition: &Condition) -> Box<dyn IndexQuery> {
    let terms: Vec<Term> = condition
        .values
        .iter()
        .filter_map(|value| value_term(fields, condition.field, value))
        .collect();
    let first = terms.first().cloned();
    match (condition.op, first) {
        (Op::In, _) => Box::new(TermSetQuery::new(terms)),
        (Op::NotIn, _) => Box::new(BooleanQuery::new(vec![
            (Occur::Must, Box::new(AllQuery) as Box<dyn IndexQuery>),
            (Occur::MustNot, Box::new(TermSetQuery::new(terms))),
        ])),
        (_, None) => Box::new(TermSetQuery::new(Vec::new())),
        (op, Some(term)) => {
            let (lower, upper) = match op {
                Op::Less => (Bound::Unbounded, Bound::Excluded(term)),
                Op::AtMost => (Bound::Unbounded, Bound::Included(term)),
                Op::More => (Bound::Excluded(term), Bound::Unbounded),
                _ => (Bound::Included(term), Bound::Unbounded),
            };
            match numeric(condition.field) {
                true => Box::new(RangeQuery::new(lower, upper)),
                false => Box::new(InvertedIndexRangeQuery::new(lower, upper)),
            }
        }
    }
}

fn numeric(field: Field) -> bool {
    matches!(
        field,
        Field::FiscalYear | Field::PeriodEnd | Field::Filed | Field::Accuracy | Field::Pages
    )
}

/// A value as the index has it; `None` where no document can have it.
fn value_term(fields: &Fields, field: Field, value: &str) -> Option<Term> {
    let index = match field {
        Field::Company => fields.company,
        Field::Ticker => fields.ticker,
        Field::Cik => fields.cik,
        Field::Form => fields.form,
        Field::FiscalYear => fields.fiscal_year,
        Field::FiscalPeriod => fields.fiscal_period,
        Field::PeriodEnd => fields.period_end,
        Field::Filed => fields.filed,
        Field::Language => fields.language,
        Field::Name => fields.name,
        Field::Status => fields.status,
        Field::Quality => fields.quality,
        Field::Accuracy => fields.accuracy,
        Field::Pages => fields.pages,
    };
    let number =
        |number: f64| (number >= 0.0).then(|| Term::from_field_u64(index, number.round() as u64));
    match field {
        Field::FiscalYear | Field::Pages => number(value.parse().ok()?),
        Field::Accuracy => number(1000.0 * value.parse::<f64>().ok()?),
        Field::PeriodEnd | Field::Filed => Some(Term::from_field_u64(index, date_number(value)?)),
        _ => Some(Term::from_field_text(index, value)),
    }
}

//! The operators of a query as conditions on index entries.
//!
//! Words and phrases are looked up in passages. Titles are, too, but a page has several sections: so the path of each hit
//! is checked again. What no passage in scope has is dropped with a note, since quotation marks are also a style.

use std::ops::Bound;

use stemma_reading::tokenizer::tokenize;
use tantivy::Term;
use tantivy::query::{AllQuery, BooleanQuery, Occur, PhraseQuery, Query as IndexQuery, RangeQuery};

use super::document_filter::{all_of, has_term};
use super::passage_set::PassageSet;
use super::schema::{Fields, IndexEntryKind};
use super::searcher::IndexSearcher;
use super::stored_passage::StoredPassage;
use crate::query_syntax::{Requirement, TextField, TextMatch, TextOperators};
use crate::search::{AppliedFilter, SearchHit, SearchNote};

/// The operators that hits are tested with.
#[derive(Default)]
pub(super) struct TextConditions {
    operators: TextOperators,
    // Filters of passages.
    filters: Vec<Box<dyn IndexQuery>>,
}

impl TextConditions {
    /// The conditions that can be met within `scope`, and notes on the others. Words that name the issuer select documents
    /// instead: few pages repeat the name.
    pub(super) fn new(
        searcher: &IndexSearcher,
        fields: &Fields,
        scope: &[Box<dyn IndexQuery>],
        operators: &TextOperators,
        issuer_words: &[String],
    ) -> tantivy::Result<(Self, Vec<SearchNote>)> {
        let mut notes = Vec::new();
        let mut required: Vec<Requirement> = Vec::new();
        for requirement in &operators.required {
            if names_issuer(requirement, issuer_words) {
                continue;
            }
            let filters = [requirement_query(fields, requirement)];
            if searcher.has_match(&passages(fields, scope, &filters))? {
                required.push(requirement.clone());
            } else {
                notes.push(absent_note(requirement));
            }
        }
        let all: Vec<Box<dyn IndexQuery>> = required
            .iter()
            .map(|requirement| requirement_query(fields, requirement))
            .collect();
        if required.len() > 1 && !searcher.has_match(&passages(fields, scope, &all))? {
            notes.push(apart_note(&required));
            required = vec![Requirement(
                required
                    .into_iter()
                    .flat_map(|requirement| requirement.0)
                    .collect(),
            )];
        }
        let operators = TextOperators {
            required,
            excluded: operators.excluded.clone(),
        };
        let filters = passage_filters(fields, &operators);
        Ok((Self { operators, filters }, notes))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.operators.is_empty()
    }

    /// The conditions, as a response shows them.
    pub(super) fn applied_filters(&self) -> impl Iterator<Item = AppliedFilter> {
        let required = self.operators.required.iter().map(|requirement| {
            let facet = match requirement.0.as_slice() {
                [clause] => clause.field.as_str(),
                _ => "any",
            };
            let words = requirement.0.iter().map(|clause| clause.words.as_str());
            let value = words.collect::<Vec<_>>().join(" | ");
            (facet, value, requirement.to_string())
        });
        let excluded = self
            .operators
            .excluded
            .iter()
            .map(|clause| ("not", clause.words.clone(), format!("-{clause}")));
        required
            .chain(excluded)
            .map(|(facet, value, from)| AppliedFilter {
                facet: facet.into(),
                value,
                from,
                narrows: true,
                ..AppliedFilter::default()
            })
    }

    /// Says that exclusions may have left nothing.
    pub(super) fn excluded_note(&self) -> Option<SearchNote> {
        let excluded: Vec<String> = self
            .operators
            .excluded
            .iter()
            .map(TextMatch::to_string)
            .collect();
        let message = format!("nothing is left without {}", excluded.join(", "));
        (!excluded.is_empty()).then(|| SearchNote::new("search.everything_excluded", message))
    }

    /// Filters that passages must match.
    pub(super) fn filters(&self) -> impl Iterator<Item = Box<dyn IndexQuery>> {
        self.filters.iter().map(|filter| filter.box_clone())
    }

    /// Whether a section with these titles, from the root on, has the required ones.
    pub(super) fn has_titles(&self, path: &[String]) -> bool {
        self.operators.required.iter().all(|requirement| {
            // A page that has one of several texts may have it under any title.
            !requirement.0.iter().all(is_title)
                || requirement.0.iter().any(|clause| has_title(path, clause))
        })
    }

    /// Whether a section with these titles has an excluded one.
    pub(super) fn excludes_titles(&self, path: &[String]) -> bool {
        self.operators
            .excluded
            .iter()
            .any(|clause| is_title(clause) && has_title(path, clause))
    }

    /// Whether a page of a section, or the section itself in a document without pages, meets all conditions.
    pub(super) fn allows_section(
        &self,
        searcher: &IndexSearcher,
        fields: &Fields,
        section: &SearchHit,
    ) -> tantivy::Result<bool> {
        if self.is_empty() {
            return Ok(true);
        }
        if !self.has_titles(&section.path) || self.excludes_titles(&section.path) {
            return Ok(false);
        }
        let document = Term::from_field_text(fields.doc, &section.doc_id.to_string());
        let mut scope = vec![has_term(document)];
        if let Some((start, end)) = section.pages {
            let page = |number: u32| Term::from_field_u64(fields.page, u64::from(number));
            scope.push(Box::new(RangeQuery::new(
                Bound::Included(page(start)),
                Bound::Included(page(end)),
            )));
            return searcher.has_match(&passages(fields, &scope, &self.filters));
        }
        let passages = PassageSet::matching(searcher, &passages(fields, &scope, &self.filters))?;
        for address in passages.addresses() {
            let stored = StoredPassage::load(searcher, fields, address)?;
            let mut sections = stored.iter().flat_map(|stored| &stored.entry.sections);
            if sections.any(|found| found.id == section.section_id.0) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn names_issuer(requirement: &Requirement, issuer_words: &[String]) -> bool {
    match requirement.0.as_slice() {
        [clause] if clause.field == TextField::Text => tokenize(&clause.words)
            .iter()
            .all(|word| issuer_words.contains(word)),
        _ => false,
    }
}

fn absent_note(requirement: &Requirement) -> SearchNote {
    let message = match requirement.0.as_slice() {
        [clause] if clause.field == TextField::Title => {
            format!(
                "no section here has the title “{}”: its words are searched anywhere",
                clause.words
            )
        }
        [_] => format!("no text here has {requirement}: its words are searched one by one"),
        _ => format!("no text here has {requirement}: the words are searched one by one"),
    };
    SearchNote::new("search.term_not_found", message)
}

fn apart_note(required: &[Requirement]) -> SearchNote {
    let all: Vec<String> = required.iter().map(Requirement::to_string).collect();
    let message = format!(
        "no page has all of {}: pages with one of them are listed",
        all.join(", ")
    );
    SearchNote::new("search.terms_not_together", message)
}

fn passage_filters(fields: &Fields, operators: &TextOperators) -> Vec<Box<dyn IndexQuery>> {
    let required = operators
        .required
        .iter()
        .map(|requirement| requirement_query(fields, requirement));
    let mut filters: Vec<Box<dyn IndexQuery>> = required.collect();
    // A page may have a section with an excluded title and others.
    let excluded: Vec<(Occur, Box<dyn IndexQuery>)> = operators
        .excluded
        .iter()
        .filter(|clause| clause.field == TextField::Text)
        .map(|clause| (Occur::MustNot, excluded_query(fields, clause)))
        .collect();
    if !excluded.is_empty() {
        let all: (Occur, Box<dyn IndexQuery>) = (Occur::Must, Box::new(AllQuery));
        let clauses = std::iter::once(all).chain(excluded);
        filters.push(Box::new(BooleanQuery::new(clauses.collect())));
    }
    filters
}

fn requirement_query(fields: &Fields, requirement: &Requirement) -> Box<dyn IndexQuery> {
    let alternatives = requirement
        .0
        .iter()
        .map(|clause| (Occur::Should, match_query(fields, clause)));
    Box::new(BooleanQuery::new(alternatives.collect()))
}

fn match_query(fields: &Fields, clause: &TextMatch) -> Box<dyn IndexQuery> {
    let field = match clause.field {
        TextField::Text => fields.body,
        TextField::Title => fields.path,
    };
    let words = tokenize(&clause.words);
    let mut terms: Vec<Term> = words
        .iter()
        .map(|word| Term::from_field_text(field, word))
        .collect();
    match (terms.pop(), clause.field) {
        (Some(term), _) if terms.is_empty() => has_term(term),
        (Some(term), TextField::Text) => {
            terms.push(term);
            Box::new(PhraseQuery::new(terms))
        }
        // Paths have no positions.
        (last, _) => Box::new(BooleanQuery::new(
            terms
                .into_iter()
                .chain(last)
                .map(|term| (Occur::Must, has_term(term)))
                .collect(),
        )),
    }
}

// An exclusion of tantivy asks a scorer whether it has entries before its first one. A phrase refuses that in debug builds; a
// union does not, and a union of one query is that query.
fn excluded_query(fields: &Fields, clause: &TextMatch) -> Box<dyn IndexQuery> {
    let twice = [match_query(fields, clause), match_query(fields, clause)];
    Box::new(BooleanQuery::union(twice.into()))
}

fn is_title(clause: &TextMatch) -> bool {
    clause.field == TextField::Title
}

fn has_title(path: &[String], clause: &TextMatch) -> bool {
    let words = tokenize(&clause.words);
    path.iter().any(|title| contains_words(title, &words))
}

fn contains_words(text: &str, words: &[String]) -> bool {
    tokenize(text)
        .windows(words.len().max(1))
        .any(|window| window == words)
}

// The passages that match all filters.
fn passages(
    fields: &Fields,
    scope: &[Box<dyn IndexQuery>],
    filters: &[Box<dyn IndexQuery>],
) -> BooleanQuery {
    let all: Vec<Box<dyn IndexQuery>> = scope
        .iter()
        .chain(filters)
        .map(|query| query.box_clone())
        .collect();
    all_of(&all, has_term(fields.kind_term(IndexEntryKind::Passage)))
}

//! Properties of documents in the index: their values, and conditions on them as queries.

use std::ops::Bound;

use tantivy::query::{
    AllQuery, BooleanQuery, ConstScoreQuery, EmptyQuery, InvertedIndexRangeQuery, Occur,
    Query as IndexQuery, RangeQuery, TermQuery, TermSetQuery,
};
use tantivy::schema::{Field as IndexField, IndexRecordOption};
use tantivy::{TantivyDocument, Term};

use super::schema::Fields;
use stemma_catalog::filter::{Condition, Filter, FilterOp};
use stemma_catalog::property::{Property, PropertyType};

// The automaton of a set of terms costs as much as reading some hundred posting lists.
const MAX_UNION_TERMS: usize = 128;

/// All filters, which do not change the score, and the query.
pub(super) fn all_of(filters: &[Box<dyn IndexQuery>], query: Box<dyn IndexQuery>) -> BooleanQuery {
    let filters = filters.iter().map(|filter| {
        (
            Occur::Must,
            Box::new(ConstScoreQuery::new(filter.box_clone(), 0.0)) as Box<dyn IndexQuery>,
        )
    });
    BooleanQuery::new(filters.chain([(Occur::Must, query)]).collect())
}

/// Entries with a term, without scores.
pub(super) fn has_term(term: Term) -> Box<dyn IndexQuery> {
    Box::new(TermQuery::new(term, IndexRecordOption::Basic))
}

// Entries with any of the terms. The automaton of a set takes milliseconds to build, so few terms are a union.
pub(super) fn any_term(terms: Vec<Term>) -> Box<dyn IndexQuery> {
    if terms.len() > MAX_UNION_TERMS {
        return Box::new(TermSetQuery::new(terms));
    }
    let terms = terms
        .into_iter()
        .map(|term| (Occur::Should, has_term(term)));
    Box::new(BooleanQuery::new(terms.collect()))
}

/// Entries of the documents with these keys.
pub(super) fn documents_query<'k>(
    fields: &Fields,
    keys: impl IntoIterator<Item = &'k u64>,
) -> Box<dyn IndexQuery> {
    let terms = keys
        .into_iter()
        .map(|key| Term::from_field_u64(fields.doc_key, *key));
    any_term(terms.collect())
}

pub(super) fn filter_query(fields: &Fields, filter: &Filter) -> Box<dyn IndexQuery> {
    let (filters, occur) = match filter {
        Filter::All(filters) => (filters, Occur::Must),
        Filter::Any { any } => (any, Occur::Should),
        Filter::Condition(condition) => return condition_query(fields, condition),
    };
    let queries = filters
        .iter()
        .map(|filter| (occur, filter_query(fields, filter)));
    Box::new(BooleanQuery::new(queries.collect()))
}

fn condition_query(fields: &Fields, condition: &Condition) -> Box<dyn IndexQuery> {
    let Some(field) = fields.property(condition.field) else {
        return Box::new(EmptyQuery);
    };
    let is_compared = !matches!(condition.op, FilterOp::In | FilterOp::NotIn);
    if is_compared && condition.field.is_number() {
        let value = condition.values.first();
        let number = value.and_then(|value| number(condition.field, value));
        return number.map_or_else(
            || Box::new(EmptyQuery) as Box<dyn IndexQuery>,
            |number| number_query(field, condition.op, number),
        );
    }
    let terms: Vec<Term> = condition
        .values
        .iter()
        .filter_map(|value| Some(IndexValue::new(condition.field, value)?.term(field)))
        .collect();
    let first = terms.first().cloned();
    match (condition.op, first) {
        (FilterOp::In, _) => any_term(terms),
        (FilterOp::NotIn, _) => Box::new(BooleanQuery::new(vec![
            (Occur::Must, Box::new(AllQuery) as Box<dyn IndexQuery>),
            (Occur::MustNot, any_term(terms)),
        ])),
        (_, None) => Box::new(EmptyQuery),
        (op, Some(term)) => {
            let (lower, upper) = match op {
                FilterOp::Less => (Bound::Unbounded, Bound::Excluded(term)),
                FilterOp::AtMost => (Bound::Unbounded, Bound::Included(term)),
                FilterOp::More => (Bound::Excluded(term), Bound::Unbounded),
                _ => (Bound::Included(term), Bound::Unbounded),
            };
            match condition.field.value_type() {
                PropertyType::Date => Box::new(RangeQuery::new(lower, upper)),
                _ => Box::new(InvertedIndexRangeQuery::new(lower, upper)),
            }
        }
    }
}

// The whole numbers that meet a condition; a limit below zero or between them is one, too.
fn number_query(field: IndexField, op: FilterOp, number: f64) -> Box<dyn IndexQuery> {
    let least = match op {
        FilterOp::More => number.floor() + 1.0,
        FilterOp::AtLeast => number.ceil(),
        _ => 0.0,
    };
    let most = match op {
        FilterOp::Less => number.ceil() - 1.0,
        FilterOp::AtMost => number.floor(),
        _ => f64::MAX,
    };
    if most < 0.0 {
        return Box::new(EmptyQuery);
    }
    let bound = |number: f64| Bound::Included(Term::from_field_u64(field, number as u64));
    Box::new(RangeQuery::new(bound(least), bound(most)))
}

// A number as the index has it: scores in thousandths.
fn number(property: Property, value: &str) -> Option<f64> {
    let number: f64 = value.parse().ok()?;
    Some(match property.value_type() {
        PropertyType::Score => (1000.0 * number).round(),
        _ => number,
    })
}

/// A value of a property as the index has it.
pub(super) enum IndexValue {
    Text(String),
    Number(u64),
}

impl IndexValue {
    /// Of a value in canonical form. `None` if no document can have it.
    pub(super) fn new(property: Property, value: &str) -> Option<Self> {
        Some(match property.value_type() {
            PropertyType::Text => Self::Text(value.to_owned()),
            PropertyType::Date => Self::Number(date_number(value)?),
            PropertyType::Number | PropertyType::Score => {
                let number = number(property, value)
                    .filter(|number| *number >= 0.0 && number.fract() == 0.0)?;
                Self::Number(number as u64)
            }
        })
    }

    fn term(&self, field: IndexField) -> Term {
        match self {
            Self::Text(text) => Term::from_field_text(field, text),
            Self::Number(number) => Term::from_field_u64(field, *number),
        }
    }

    pub(super) fn add_to(&self, document: &mut TantivyDocument, field: IndexField) {
        match self {
            Self::Text(text) => document.add_text(field, text),
            Self::Number(number) => document.add_u64(field, *number),
        }
    }
}

// `2022-12-31` as `20221231`.
fn date_number(date: &str) -> Option<u64> {
    let digits: String = date.chars().filter(char::is_ascii_digit).collect();
    if digits.len() == 8 {
        digits.parse().ok()
    } else {
        None
    }
}

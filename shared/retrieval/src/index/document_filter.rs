//! Conditions on documents as queries of the index.

use std::ops::Bound;

use tantivy::Term;
use tantivy::query::{
    AllQuery, BooleanQuery, ConstScoreQuery, EmptyQuery, InvertedIndexRangeQuery, Occur,
    Query as IndexQuery, RangeQuery, TermQuery, TermSetQuery,
};
use tantivy::schema::{Field as IndexField, IndexRecordOption};

use super::entry::date_number;
use super::schema::Fields;
use stemma_catalog::filter::{Condition, Filter, FilterField, FilterOp};

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
    let first = condition.values.first();
    if is_counted(condition.field) && !matches!(condition.op, FilterOp::In | FilterOp::NotIn) {
        let number = first.and_then(|value| number(condition.field, value));
        return number.map_or_else(
            || Box::new(EmptyQuery) as Box<dyn IndexQuery>,
            |number| number_query(fields, condition, number),
        );
    }
    let terms: Vec<Term> = condition
        .values
        .iter()
        .filter_map(|value| value_term(fields, condition.field, value))
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
            match condition.field {
                FilterField::PeriodEnd | FilterField::Filed => {
                    Box::new(RangeQuery::new(lower, upper))
                }
                _ => Box::new(InvertedIndexRangeQuery::new(lower, upper)),
            }
        }
    }
}

// Fields that the index has as whole numbers; `doubt` in thousandths.
fn is_counted(field: FilterField) -> bool {
    matches!(
        field,
        FilterField::FiscalYear | FilterField::Doubt | FilterField::Pages
    )
}

fn number(field: FilterField, value: &str) -> Option<f64> {
    let number: f64 = value.parse().ok()?;
    Some(match field {
        FilterField::Doubt => (1000.0 * number).round(),
        _ => number,
    })
}

// The whole numbers that meet a condition; a limit below zero or between them is one, too.
fn number_query(fields: &Fields, condition: &Condition, number: f64) -> Box<dyn IndexQuery> {
    let least = match condition.op {
        FilterOp::More => number.floor() + 1.0,
        FilterOp::AtLeast => number.ceil(),
        _ => 0.0,
    };
    let most = match condition.op {
        FilterOp::Less => number.ceil() - 1.0,
        FilterOp::AtMost => number.floor(),
        _ => f64::MAX,
    };
    if most < 0.0 {
        return Box::new(EmptyQuery);
    }
    let field = index_field(fields, condition.field);
    let bound = |number: f64| Bound::Included(Term::from_field_u64(field, number as u64));
    Box::new(RangeQuery::new(bound(least), bound(most)))
}

fn index_field(fields: &Fields, field: FilterField) -> IndexField {
    match field {
        FilterField::Company => fields.company,
        FilterField::Ticker => fields.ticker,
        FilterField::Cik => fields.cik,
        FilterField::Form => fields.form,
        FilterField::FiscalYear => fields.fiscal_year,
        FilterField::FiscalPeriod => fields.fiscal_period,
        FilterField::PeriodEnd => fields.period_end,
        FilterField::Filed => fields.filed,
        FilterField::Language => fields.language,
        FilterField::Name => fields.name,
        FilterField::Status => fields.status,
        FilterField::Quality => fields.quality,
        FilterField::Doubt => fields.doubt,
        FilterField::Pages => fields.pages,
    }
}

// A value as an index term; `None` if no document can have it.
fn value_term(fields: &Fields, field: FilterField, value: &str) -> Option<Term> {
    let index = index_field(fields, field);
    match field {
        FilterField::FiscalYear | FilterField::Pages | FilterField::Doubt => {
            let number =
                number(field, value).filter(|number| *number >= 0.0 && number.fract() == 0.0)?;
            Some(Term::from_field_u64(index, number as u64))
        }
        FilterField::PeriodEnd | FilterField::Filed => {
            Some(Term::from_field_u64(index, date_number(value)?))
        }
        _ => Some(Term::from_field_text(index, value)),
    }
}

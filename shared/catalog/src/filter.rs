//! Metadata filters: typed conditions on documents, joined by `and` and `or`.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::CatalogDocument;
use crate::property::Property;

// Both limits bound the work per document for filters from outside.
const MAX_CONDITIONS: usize = 32;
const MAX_VALUES: usize = 200;
// Groups inside each other. Functions over filters are recursive, so this also bounds their stack.
const MAX_DEPTH: usize = 8;

/// Conditions on documents. The default matches every document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Filter {
    /// Joined by `and`; an empty list matches every document.
    All(Vec<Filter>),
    /// Joined by `or`; an empty list matches no document.
    Any {
        any: Vec<Filter>,
    },
    Condition(Condition),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    pub field: Property,
    pub op: FilterOp,
    /// One value, or several for [`FilterOp::In`] and [`FilterOp::NotIn`], in the form of [`Property::canonical`].
    pub values: Vec<String>,
}

/// Comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterOp {
    /// Equal to one of the values.
    #[serde(rename = "in")]
    In,
    /// Equal to none of the values. Matches documents without a value.
    #[serde(rename = "not_in")]
    NotIn,
    #[serde(rename = "<")]
    Less,
    #[serde(rename = "<=")]
    AtMost,
    #[serde(rename = ">")]
    More,
    #[serde(rename = ">=")]
    AtLeast,
}

/// Why a filter does not parse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("unknown filter field `{name}`; fields are {fields}", fields = field_names())]
    NoField {
        /// Truncated.
        name: String,
    },
    /// Not of the form `field = value and field >= value`.
    #[error(
        "`{text}` is not a condition; write `field = value`, `field in (a, b)` or `field >= value`, joined by `and` or `or`"
    )]
    Syntax {
        /// Truncated.
        text: String,
    },
    #[error("`{value}` is not a number, as {field} requires")]
    NoNumber {
        field: &'static str,
        /// Truncated.
        value: String,
    },
    #[error("a parenthesis in the filter is not closed, or not opened")]
    Parenthesis,
    #[error(
        "a filter has at most {MAX_CONDITIONS} conditions with {MAX_VALUES} values each, in at most {MAX_DEPTH} groups inside each other"
    )]
    TooLong,
}

fn field_names() -> String {
    Property::filters()
        .map(Property::name)
        .collect::<Vec<_>>()
        .join(", ")
}

impl Default for Filter {
    fn default() -> Self {
        Filter::All(Vec::new())
    }
}

impl Filter {
    /// Parses `(form=10-K or form=10-Q) and fiscal_year>=2020`, or the JSON of [`Filter::from_json`]. `and` binds stronger
    /// than `or`. An empty text has no conditions.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::default());
        }
        match serde_json::from_str::<Value>(text) {
            Ok(value @ Value::Object(_)) => Self::from_json(&value),
            _ => parse_text(text)?.validated(),
        }
    }

    /// Parses `{"form": ["10-K", "10-Q"], "fiscal_year": {">=": 2020}}`; `{"$or": [{…}, {…}]}` matches if one of its
    /// filters does.
    pub fn from_json(value: &Value) -> Result<Self, FilterError> {
        parse_object(value, 0)?.validated()
    }

    pub fn matches(&self, document: &CatalogDocument) -> bool {
        match self {
            Filter::All(filters) => filters.iter().all(|filter| filter.matches(document)),
            Filter::Any { any } => any.iter().any(|filter| filter.matches(document)),
            Filter::Condition(condition) => condition.matches(document),
        }
    }

    /// Whether there is no condition.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Both filters.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Filter::All(vec![self, other]),
        }
    }

    /// All conditions, however they are joined.
    pub fn conditions(&self) -> Vec<&Condition> {
        match self {
            Filter::All(filters) | Filter::Any { any: filters } => {
                filters.iter().flat_map(Filter::conditions).collect()
            }
            Filter::Condition(condition) => vec![condition],
        }
    }

    // A list of one is that one.
    fn joined(mut filters: Vec<Filter>, join: fn(Vec<Filter>) -> Filter) -> Self {
        match (filters.pop(), filters.is_empty()) {
            (Some(one), true) => one,
            (last, _) => {
                filters.extend(last);
                join(filters)
            }
        }
    }

    fn validated(self) -> Result<Self, FilterError> {
        let conditions = self.conditions();
        let is_long = conditions.len() > MAX_CONDITIONS
            || conditions.iter().any(|one| one.values.len() > MAX_VALUES);
        match is_long {
            true => Err(FilterError::TooLong),
            false => Ok(self),
        }
    }
}

impl Condition {
    /// A condition with its values in canonical form.
    ///
    /// # Errors
    /// [`FilterError::NoNumber`] if the field is a number and a value is not.
    pub fn new(field: Property, op: FilterOp, values: &[String]) -> Result<Self, FilterError> {
        let values: Vec<String> = values.iter().map(|value| field.canonical(value)).collect();
        if field.is_number()
            && let Some(value) = values
                .iter()
                .find(|value| !value.parse::<f64>().is_ok_and(f64::is_finite))
        {
            return Err(FilterError::NoNumber {
                field: field.name(),
                value: value.chars().take(80).collect(),
            });
        }
        Ok(Self { field, op, values })
    }

    pub fn matches(&self, document: &CatalogDocument) -> bool {
        let has = self.field.canonical_values(document);
        match self.op {
            FilterOp::In => self.any_value(&has, Ordering::is_eq),
            FilterOp::NotIn => !self.any_value(&has, Ordering::is_eq),
            FilterOp::Less => self.any_value(&has, Ordering::is_lt),
            FilterOp::AtMost => self.any_value(&has, Ordering::is_le),
            FilterOp::More => self.any_value(&has, Ordering::is_gt),
            FilterOp::AtLeast => self.any_value(&has, Ordering::is_ge),
        }
    }

    fn any_value(&self, document_values: &[String], matches: fn(Ordering) -> bool) -> bool {
        document_values.iter().any(|value| {
            self.values
                .iter()
                .any(|other| matches(compare(self.field, value, other)))
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match self.op {
            FilterOp::In if self.values.len() == 1 => "=",
            FilterOp::NotIn if self.values.len() == 1 => "!=",
            FilterOp::In => " in ",
            FilterOp::NotIn => " not in ",
            FilterOp::Less => "<",
            FilterOp::AtMost => "<=",
            FilterOp::More => ">",
            FilterOp::AtLeast => ">=",
        };
        let values = self.values.join(", ");
        if op.contains("in") {
            write!(f, "{}{op}({values})", self.field.name())
        } else {
            write!(f, "{}{op}{values}", self.field.name())
        }
    }
}

fn compare(field: Property, a: &str, b: &str) -> Ordering {
    match (field.is_number(), a.parse::<f64>(), b.parse::<f64>()) {
        (true, Ok(a), Ok(b)) => a.total_cmp(&b),
        _ => a.cmp(b),
    }
}

fn any_of(any: Vec<Filter>) -> Filter {
    Filter::Any { any }
}

// An open parenthesis: the alternatives before the last `or`, and the filters joined by `and` after it.
#[derive(Default)]
struct OpenGroup {
    any: Vec<Filter>,
    all: Vec<Filter>,
}

impl OpenGroup {
    fn start_alternative(&mut self) {
        let all = std::mem::take(&mut self.all);
        self.any.push(Filter::joined(all, Filter::All));
    }

    fn close(mut self) -> Filter {
        self.start_alternative();
        Filter::joined(self.any, any_of)
    }
}

fn parse_text(text: &str) -> Result<Filter, FilterError> {
    let mut outer: Vec<OpenGroup> = Vec::new();
    let mut group = OpenGroup::default();
    let mut rest = text.trim_start();
    loop {
        if let Some(inside) = rest.strip_prefix('(') {
            if outer.len() == MAX_DEPTH {
                return Err(FilterError::TooLong);
            }
            outer.push(std::mem::take(&mut group));
            rest = inside.trim_start();
            continue;
        }
        let (condition, after) = rest.split_at(condition_end(rest));
        group
            .all
            .push(Filter::Condition(parse_condition(condition)?));
        rest = after.trim_start();
        while let Some(after) = rest.strip_prefix(')') {
            let closed = group.close();
            group = outer.pop().ok_or(FilterError::Parenthesis)?;
            group.all.push(closed);
            rest = after.trim_start();
        }
        rest = match (rest.is_empty(), join_word(rest)) {
            (true, _) if outer.is_empty() => return Ok(group.close()),
            (true, _) => return Err(FilterError::Parenthesis),
            (_, Some("or")) => {
                group.start_alternative();
                rest[2..].trim_start()
            }
            (_, Some(and)) => rest[and.len()..].trim_start(),
            _ => return Err(syntax_error(rest)),
        };
    }
}

// The word `and` or `or` at the start of `text`.
fn join_word(text: &str) -> Option<&'static str> {
    ["and", "or"].into_iter().find(|word| {
        let Some((start, after)) = text.split_at_checked(word.len()) else {
            return false;
        };
        let ends = after.is_empty() || after.starts_with(|c: char| c.is_whitespace() || c == '(');
        ends && start.eq_ignore_ascii_case(word)
    })
}

// A condition ends before the word `and` or `or`, or before a parenthesis that it did not open. Quotes protect both.
fn condition_end(text: &str) -> usize {
    let mut depth = 0usize;
    let mut quoted = false;
    let mut after_space = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' if depth == 0 => return at,
            ')' => depth -= 1,
            _ if after_space && depth == 0 && join_word(&text[at..]).is_some() => return at,
            _ => {}
        }
        after_space = c.is_whitespace();
    }
    text.len()
}

fn parse_object(value: &Value, depth: usize) -> Result<Filter, FilterError> {
    let Value::Object(fields) = value else {
        return Err(syntax_error(&value.to_string()));
    };
    if depth == MAX_DEPTH {
        return Err(FilterError::TooLong);
    }
    let mut filters = Vec::new();
    for (name, value) in fields {
        let join = match name.as_str() {
            "$and" => Some(Filter::All as fn(Vec<Filter>) -> Filter),
            "$or" => Some(any_of as fn(Vec<Filter>) -> Filter),
            _ => None,
        };
        match (join, value) {
            (Some(join), Value::Array(values)) if !values.is_empty() => {
                let inner: Result<_, _> = values
                    .iter()
                    .map(|value| parse_object(value, depth + 1))
                    .collect();
                filters.push(Filter::joined(inner?, join));
            }
            (Some(_), value) => return Err(syntax_error(&value.to_string())),
            (None, value) => filters.extend(parse_member(parse_field(name)?, value)?),
        }
    }
    Ok(Filter::joined(filters, Filter::All))
}

// The conditions on one field of a JSON filter.
fn parse_member(field: Property, value: &Value) -> Result<Vec<Filter>, FilterError> {
    let Value::Object(ops) = value else {
        let condition = Condition::new(field, FilterOp::In, &value_texts(value)?)?;
        return Ok(vec![Filter::Condition(condition)]);
    };
    ops.iter()
        .map(|(op, value)| {
            let op = parse_op(op).ok_or_else(|| syntax_error(op))?;
            let condition = Condition::new(field, op, &value_texts(value)?)?;
            Ok(Filter::Condition(condition))
        })
        .collect()
}

fn parse_condition(text: &str) -> Result<Condition, FilterError> {
    let text = text.trim();
    let at = text
        .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '@'))
        .ok_or_else(|| syntax_error(text))?;
    let (name, rest) = text.split_at(at);
    let rest = rest.trim_start();
    let lower = rest.to_ascii_lowercase();
    // Longer operators come first, because `<` is a prefix of `<=`.
    let ops = ["not in", "in", "!=", "<=", ">=", "==", "=", "<", ">"];
    let op = ops
        .into_iter()
        .find(|op| lower.starts_with(op))
        .ok_or_else(|| syntax_error(text))?;
    let field = parse_field(name)?;
    let value = rest[op.len()..].trim();
    let list = value
        .strip_prefix('(')
        .and_then(|value| value.strip_suffix(')'));
    let values: Vec<String> = match list {
        Some(list) => list.split(',').map(unquote).collect(),
        None => vec![unquote(value)],
    };
    let has_or =
        list.is_some_and(|list| !list.contains('"') && list.to_lowercase().contains(" or "));
    if has_or || values.iter().any(String::is_empty) || (op.ends_with("in") && list.is_none()) {
        return Err(syntax_error(text));
    }
    Condition::new(
        field,
        parse_op(op).ok_or_else(|| syntax_error(text))?,
        &values,
    )
}

fn unquote(value: &str) -> String {
    let value = value.trim();
    let inner = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    inner.unwrap_or(value).to_owned()
}

fn parse_op(op: &str) -> Option<FilterOp> {
    Some(match op {
        "=" | "==" | "in" | "eq" | "$eq" | "$in" => FilterOp::In,
        "!=" | "not in" | "not_in" | "ne" | "$ne" | "$nin" => FilterOp::NotIn,
        "<" | "lt" | "$lt" => FilterOp::Less,
        "<=" | "lte" | "$lte" => FilterOp::AtMost,
        ">" | "gt" | "$gt" => FilterOp::More,
        ">=" | "gte" | "$gte" => FilterOp::AtLeast,
        _ => return None,
    })
}

fn parse_field(name: &str) -> Result<Property, FilterError> {
    Property::from_filter_name(name).ok_or_else(|| FilterError::NoField {
        name: name.chars().take(80).collect(),
    })
}

fn value_texts(value: &Value) -> Result<Vec<String>, FilterError> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Number(number) => Ok(vec![number.to_string()]),
        Value::Array(values) if !values.is_empty() => {
            let lists = values.iter().map(|value| match value.is_array() {
                true => Err(syntax_error("[[…]]")),
                false => value_texts(value),
            });
            Ok(lists.collect::<Result<Vec<_>, _>>()?.concat())
        }
        other => Err(syntax_error(&other.to_string())),
    }
}

fn syntax_error(text: &str) -> FilterError {
    FilterError::Syntax {
        text: text.chars().take(80).collect(),
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::Fact;

    use super::*;
    use crate::catalog::Catalog;
    use crate::fixtures::company_entry;

    fn matching_documents(filter: &str) -> Vec<String> {
        let mut first = company_entry("a.pdf", "ACME COMPANY");
        first.facts.form = Some(Fact::from_text("10-K", None));
        first.facts.fiscal_year = Some(Fact::from_text("2022", None));
        first.doubt = Some(0.05);
        let mut second = company_entry("b.pdf", "Beta, Inc.");
        second.facts.form = Some(Fact::from_text("10-K/A", None));
        second.facts.fiscal_year = Some(Fact::from_text("2019", None));
        second.doubt = Some(0.5);
        let catalog = Catalog::from_entries([first, second]);
        let filter = Filter::parse(filter).unwrap();
        let fits = catalog.matching(&filter).unwrap();
        let fits = catalog.list(&fits);
        fits.map(|document| document.unwrap().version().path.clone())
            .collect()
    }

    #[test]
    fn conditions_parse_from_text_and_json() {
        for (filter, expected) in [
            ("", vec!["a.pdf", "b.pdf"]),
            (
                "form=10-K and fiscal_year>=2020 and doubt<0.1",
                vec!["a.pdf"],
            ),
            ("company = \"Acme Co.\"", vec!["a.pdf"]),
            (
                "form in (10-k, 10-k/a)  AND fiscal_year < 2020",
                vec!["b.pdf"],
            ),
            ("form != 10-K/A", vec!["a.pdf"]),
            ("ticker = X", vec![]),
            (
                r#"{"form": ["10-K", "8-K"], "fiscal_year": {">=": 2020}}"#,
                vec!["a.pdf"],
            ),
            (r#"{"fiscal_year": {"$lt": "2020"}}"#, vec!["b.pdf"]),
            ("form=10-K or form=10-K/A", vec!["a.pdf", "b.pdf"]),
            ("form=8-K OR fiscal_year<2020", vec!["b.pdf"]),
            (
                "form=8-K or form=10-K and fiscal_year<2020 or form=10-K/A",
                vec!["b.pdf"],
            ),
            ("(form=10-K or form=10-K/A) and doubt<0.1", vec!["a.pdf"]),
            (
                "fiscal_year>2000 and((form in (8-K)) or (company=Beta and doubt>0.1))",
                vec!["b.pdf"],
            ),
            ("company = \"Beta or Acme\"", vec![]),
            (
                r#"{"$or": [{"form": "10-K"}, {"fiscal_year": 2019, "$and": [{"doubt": {">": 0.1}}]}]}"#,
                vec!["a.pdf", "b.pdf"],
            ),
            ("{}", vec!["a.pdf", "b.pdf"]),
        ] {
            assert_eq!(matching_documents(filter), expected, "{filter}");
        }
    }

    #[test]
    fn invalid_filters_are_rejected_naming_the_part() {
        for wrong in [
            "form",
            "form 10-K",
            "= 3",
            "form=",
            "form in 10-K",
            "{\"form\": null}",
            "form=10-K and",
            "form=10-K or",
            "form=10-K or 10-Q",
            "form in (10-K or 10-Q)",
            "or form=10-K",
            "(form=10-K",
            "form=10-K)",
            "()",
            "(form=10-K) form=10-Q",
            r#"{"$or": {"form": "10-K"}}"#,
            r#"{"$or": []}"#,
            "é=1",
        ] {
            assert!(Filter::parse(wrong).is_err(), "{wrong}");
        }
        assert!(matches!(
            Filter::parse("color=red"),
            Err(FilterError::NoField { .. })
        ));
        assert!(matches!(
            Filter::parse("fiscal_year>=soon"),
            Err(FilterError::NoNumber { .. })
        ));
        let long = vec!["form=10-K"; 40].join(" and ");
        assert_eq!(Filter::parse(&long), Err(FilterError::TooLong));
        let deep = format!("{}form=10-K{}", "(".repeat(9), ")".repeat(9));
        assert_eq!(Filter::parse(&deep), Err(FilterError::TooLong));
    }
}

//! Fields that several requests share: filter, limit and cursor, and their schemas.

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::{Value, json};
use stemma_answers::AnswerLimits;
use stemma_catalog::filter::Filter;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};

use crate::ApiError;

pub use stemma_retrieval::search::MAX_LIMIT;

const DEFAULT_LIMIT: usize = 10;

// Resolves `where`: text (`(form=10-K or form=10-Q) and fiscal_year>=2020`), an object (`{"form": "10-K"}`), or nothing.
pub(crate) fn parse_filter(filter: Option<&Value>) -> Result<Filter, ApiError> {
    Ok(match filter {
        None | Some(Value::Null) => Filter::default(),
        Some(Value::String(text)) => Filter::parse(text)?,
        Some(value) => Filter::from_json(value)?,
    })
}

// `limit`, 1 to `MAX_LIMIT`; 10 by default.
pub(crate) fn checked_limit(limit: Option<usize>) -> Result<usize, ApiError> {
    in_range("/limit", limit.unwrap_or(DEFAULT_LIMIT), 1, MAX_LIMIT)
}

pub(crate) fn in_range(
    pointer: &str,
    number: usize,
    least: usize,
    most: usize,
) -> Result<usize, ApiError> {
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    let message = format!("{} is from {least} to {most}", &pointer[1..]);
    Err(ApiError::invalid_field(pointer, message))
}

// serde would also read a struct from an array; limits must be an object.
pub(crate) fn limits_from_object<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<AnswerLimits>, D::Error> {
    let object = Option::<serde_json::Map<String, Value>>::deserialize(deserializer)?;
    let limits = object.map(|object| serde_json::from_value(object.into()));
    limits.transpose().map_err(D::Error::custom)
}

// Schema of a filter, as text or object.
pub(crate) fn filter_schema() -> Schema {
    let kinds = [Type::String, Type::Object, Type::Null];
    let kinds = kinds.map(|kind| ObjectBuilder::new().schema_type(SchemaType::new(kind)));
    Schema::OneOf(
        kinds
            .into_iter()
            .fold(OneOfBuilder::new(), OneOfBuilder::item)
            .build(),
    )
}

// Schema of the answer limits and their defaults.
pub(crate) fn limits_schema() -> RefOr<Schema> {
    // The built-in maxima; operators can configure others.
    let most = AnswerLimits::MAX;
    let usual = AnswerLimits::default();
    let schema = json!({
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "calls": integer(0, u64::from(most.calls), u64::from(usual.calls), "model calls"),
            "tokens": integer(0, u64::from(most.tokens), u64::from(usual.tokens), "tokens of prompts and replies"),
            "nanodollars": {
                "type": "integer", "minimum": 0, "default": 0,
                "description": "billionths of a dollar, where prices are known; 0: only the other limits"
            },
            "context_tokens": integer(500, u64::from(most.context_tokens), u64::from(usual.context_tokens), "tokens of document text in one prompt"),
            "sections": integer(1, most.sections as u64, usual.sections as u64, "sections to read"),
            "turns": integer(0, u64::from(most.turns), u64::from(usual.turns), "tool calls, if mode is agent"),
        }
    });
    serde_json::from_value(schema).map_or_else(|_| RefOr::T(Schema::default()), RefOr::T)
}

fn integer(least: u64, most: u64, default: u64, about: &str) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most, "default": default, "description": about })
}

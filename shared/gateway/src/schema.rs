//! OpenAPI schemas shared by the surfaces, for values that other crates serialize.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Schema of [`stemma_answers::Citation`].
pub enum CitationObject {}

impl PartialSchema for CitationObject {
    fn schema() -> RefOr<Schema> {
        schema_from_json(&json!({
            "type": "object",
            "required": ["id", "doc_id", "name", "version", "section_id", "path", "page", "quote", "rects", "verified", "url", "locator"],
            "properties": {
                "id": { "type": "string", "description": "from 1: `[1]` in the text refers to it" },
                "doc_id": { "type": "string" },
                "name": { "type": "string" },
                "version": { "type": "integer" },
                "section_id": { "type": "string" },
                "path": { "type": "array", "items": { "type": "string" }, "description": "titles from the top down" },
                "page": { "type": ["integer", "null"], "description": "physical page, from 1; null in a text without pages" },
                "page_label": { "type": "string", "description": "the printed number, where it differs" },
                "line": { "type": "integer", "description": "in a text without pages, from 1" },
                "quote": { "type": "string" },
                "rects": { "type": "array", "items": { "type": "object" }, "description": "page, x, y, w, h: 0–1 of the page, origin at the top left" },
                "page_size": { "type": ["array", "null"], "items": { "type": "number" }, "description": "width and height in points" },
                "verified": { "type": "string", "enum": ["exact", "normalised", "number", "none"] },
                "url": { "type": "string" },
                "locator": { "type": "string" }
            }
        }))
    }
}

impl ToSchema for CitationObject {
    fn name() -> Cow<'static, str> {
        "Citation".into()
    }
}

/// Schema of a server-sent event.
pub enum FrameObject {}

impl PartialSchema for FrameObject {
    fn schema() -> RefOr<Schema> {
        schema_from_json(&json!({
            "type": "object",
            "required": ["data"],
            "properties": {
                "id": { "type": "string", "description": "{answer}.{n}.{digest}, of POST /v1/answers: what Last-Event-ID says" },
                "event": { "type": "string", "description": "kind of the event" },
                "data": { "type": "string", "description": "JSON; at the end of a chat [DONE]" }
            }
        }))
    }
}

impl ToSchema for FrameObject {
    fn name() -> Cow<'static, str> {
        "Event".into()
    }
}

// Falls back to "any value"; a test in the query service checks that every schema parses.
pub fn schema_from_json(schema: &Value) -> RefOr<Schema> {
    Schema::deserialize(schema).map_or_else(|_| RefOr::T(anything()), RefOr::T)
}

/// Schema of a list of citations.
pub fn citations() -> Schema {
    Schema::Array(
        ArrayBuilder::new()
            .items(Ref::from_schema_name("Citation"))
            .build(),
    )
}

pub fn anything() -> Schema {
    Schema::Object(
        ObjectBuilder::new()
            .schema_type(SchemaType::AnyValue)
            .build(),
    )
}

//! `/openapi.json`: the routes as OpenAPI 3.1, made from the handlers and the types they answer with.

use std::borrow::Cow;

use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use stemma_answers::AnswerLimits;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{
    ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{Modify, OpenApi, PartialSchema, ToSchema};

use super::extract::HandlerError;

use super::{
    answers, compare, documents, extract, files, list, openai, pageindex, problem, search, source,
    text,
};
use crate::TreeResponse;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Stemma",
        description = "Filings as section trees: read them, list them, search them, ask them. A model is asked by `POST /v1/answers`, the dialects of other services, and searches with a strategy that needs one; by nothing else.\n\nDocuments, sections, Items and pages are named by locators; whatever an answer prints as `locator` or `path` can be pasted back. A document that is known and has no tree yet is a 200 that says its state.",
        license(name = "Apache-2.0")
    ),
    paths(
        list::documents,
        list::facets,
        documents::document,
        documents::tree,
        documents::items,
        text::item,
        text::section,
        text::pages,
        source::source,
        search::search,
        search::browse,
        compare::compare,
        answers::ask,
        answers::stored,
        files::files,
        openai::models::list,
        openai::models::one,
        openai::chat::completions,
        openai::responses::create,
        pageindex::uploads::submit,
        pageindex::uploads::remove,
        pageindex::documents::document,
        pageindex::documents::metadata,
        pageindex::documents::list,
        pageindex::folders::list,
        pageindex::no_blocks,
        pageindex::no_images,
        pageindex::no_page_images,
        pageindex::no_folders,
        pageindex::chat::completions,
        pageindex::retrieval::submit,
        pageindex::retrieval::result,
    ),
    components(schemas(problem::ProblemBody, problem::OpenAiProblem, extract::NotReady, TreeResponse, AnswerObject, CitationObject, FrameObject)),
    modifiers(&Common),
    tags(
        (name = "documents", description = "What there is, and how it is built"),
        (name = "text", description = "Sections, Items, pages, files"),
        (name = "search", description = "Sections and documents that fit a question"),
        (name = "answers", description = "Questions answered in words, with citations"),
        (name = "files", description = "Folders, axes, and documents opened like folders"),
        (name = "openai", description = "The shape of OpenAI, for its clients: a model is a collection or a part of it"),
        (name = "pageindex", description = "The dialect of PageIndex Cloud, for programs written for its SDK. Each route is there without the slash at its end, too; parameters that are not known are passed over"),
    )
)]
struct Api;

/// What every route has in common: a key, and problems.
struct Common;

/// Statuses any request may be answered with, and when.
const PROBLEMS: [(&str, &str); 11] = [
    ("400", "the request cannot be read, or a cursor is none"),
    ("401", "a key is needed"),
    ("403", "the key does not reach that, or lacks a scope"),
    ("404", "there is no such thing"),
    ("406", "no form of the answer is acceptable"),
    ("413", "the body is too large"),
    ("415", "the body is of another type"),
    ("422", "the request can be read and makes no sense"),
    (
        "429",
        "the key has asked often enough for now; see Retry-After",
    ),
    ("501", "this server was started without what answers that"),
    (
        "503",
        "too much to do, or the store is away; see Retry-After",
    ),
];

impl Modify for Common {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        api.info.version = env!("CARGO_PKG_VERSION").into();
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("query.keys"))
            .build();
        if let Some(components) = &mut api.components {
            components
                .security_schemes
                .insert("key".into(), RefOr::T(SecurityScheme::Http(scheme)));
        }
        api.security = Some(vec![SecurityRequirement::new("key", Vec::<String>::new())]);
        for (path, item) in &mut api.paths.paths {
            let operations = [&mut item.get, &mut item.post, &mut item.delete]
                .into_iter()
                .flatten();
            operations.for_each(|operation| refusals(operation, openai::is_openai_path(path)));
        }
    }
}

/// What any request may be answered with, in the shape of its route.
fn refusals(operation: &mut Operation, openai: bool) {
    let (schema, kind) = if openai {
        ("OpenAiProblem", "application/json")
    } else {
        ("Problem", "application/problem+json")
    };
    for (status, when) in PROBLEMS {
        let body = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name(schema)))
            .build();
        let problem = ResponseBuilder::new()
            .description(when)
            .content(kind, body)
            .build();
        operation
            .responses
            .responses
            .entry(status.into())
            .or_insert(RefOr::T(problem));
    }
}

/// What `…/tree` answers in JSON: never made, only described.
pub(super) enum TreeAnswer {}

impl PartialSchema for TreeAnswer {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(SchemaType::new(Type::String));
        let nodes = ArrayBuilder::new().items(ObjectBuilder::new());
        let pageindex = ObjectBuilder::new()
            .property("doc_name", text)
            .property("structure", nodes);
        let pageindex = pageindex.required("doc_name").required("structure");
        let schemas = ["TreeResponse", "NotReady"].map(Ref::from_schema_name);
        let of = schemas
            .into_iter()
            .fold(OneOfBuilder::new(), OneOfBuilder::item);
        RefOr::T(Schema::OneOf(of.item(pageindex).build()))
    }
}

impl ToSchema for TreeAnswer {}

/// An answer: made by another crate, and described here.
pub(super) enum AnswerObject {}

impl PartialSchema for AnswerObject {
    fn schema() -> RefOr<Schema> {
        schema_from_json(&json!({
            "type": "object",
            "required": ["id", "question", "outcome", "text", "claims", "citations", "searched", "sections", "steps", "dropped", "usage"],
            "properties": {
                "id": { "type": "string", "description": "a digest of question, scope, trees, model, prompts and knowledge" },
                "question": { "type": "string" },
                "outcome": { "type": "string", "enum": ["answered", "not_in_documents", "search_only"] },
                "text": { "type": "string", "description": "the claims as one text, each with the numbers of its citations: [1]" },
                "claims": { "type": "array", "items": { "type": "object" }, "description": "text, citations, verified" },
                "citations": { "type": "array", "items": { "$ref": "#/components/schemas/Citation" } },
                "confidence": { "type": ["number", "null"], "minimum": 0, "maximum": 1 },
                "model": { "type": ["string", "null"] },
                "degraded": { "type": ["object", "null"], "description": "code, message, next: why it is less than it could be" },
                "searched": { "type": "object", "description": "where was looked" },
                "sections": { "type": "array", "items": { "type": "object" }, "description": "what was put before the model" },
                "steps": { "type": "array", "items": { "type": "object" }, "description": "how it came to be" },
                "dropped": { "type": "object", "description": "what the model said that is not shown" },
                "usage": { "type": "object", "description": "calls, prompt_tokens, output_tokens, nanodollars" },
                "replayed": { "type": "boolean", "description": "made before, and only read again" }
            }
        }))
    }
}

impl ToSchema for AnswerObject {
    fn name() -> Cow<'static, str> {
        "Answer".into()
    }
}

/// The citation object: made by another crate, and described here.
pub(super) enum CitationObject {}

impl PartialSchema for CitationObject {
    fn schema() -> RefOr<Schema> {
        schema_from_json(&json!({
            "type": "object",
            "required": ["id", "doc_id", "name", "version", "section_id", "path", "page", "quote", "rects", "verified", "url", "locator"],
            "properties": {
                "id": { "type": "string", "description": "from 1: `[1]` in the text means it" },
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

/// A server-sent event, as streams have them.
pub(super) enum FrameObject {}

impl PartialSchema for FrameObject {
    fn schema() -> RefOr<Schema> {
        schema_from_json(&json!({
            "type": "object",
            "required": ["data"],
            "properties": {
                "id": { "type": "string", "description": "{answer}.{n}.{digest}, of POST /v1/answers: what Last-Event-ID says" },
                "event": { "type": "string", "description": "what it tells of" },
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

/// A schema as it is written; the tests look at each.
fn schema_from_json(schema: &Value) -> RefOr<Schema> {
    Schema::deserialize(schema).map_or_else(|_| RefOr::T(anything()), RefOr::T)
}

/// What an answer may cost, and what holds where a limit is not said.
pub(super) fn limits() -> RefOr<Schema> {
    let number = |least: u32, most: u64, without: u32, about: &str| json!({ "type": "integer", "minimum": least, "maximum": most, "default": without, "description": about });
    // An operator may have set others.
    let most = AnswerLimits::MAX;
    schema_from_json(&json!({
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "calls": number(0, u64::from(most.calls), 16, "calls of the model"),
            "tokens": number(0, u64::from(most.tokens), 200_000, "tokens of prompts and replies"),
            "nanodollars": {
                "type": "integer", "minimum": 0, "default": 0,
                "description": "billionths of a dollar, where prices are known; 0: no limit but the others"
            },
            "context_tokens": number(500, u64::from(most.context_tokens), 12_000, "tokens of document text in one prompt"),
            "sections": number(1, most.sections as u64, 8, "sections that are read"),
            "turns": number(0, u64::from(most.turns), 8, "calls of tools, where mode is agent"),
        }
    }))
}

/// What the claims of an answer rest on.
pub(super) fn citations() -> Schema {
    Schema::Array(
        ArrayBuilder::new()
            .items(Ref::from_schema_name("Citation"))
            .build(),
    )
}

/// Any value.
pub(super) fn anything() -> Schema {
    Schema::Object(
        ObjectBuilder::new()
            .schema_type(SchemaType::AnyValue)
            .build(),
    )
}

/// Conditions on documents, as text or as an object.
pub(super) fn conditions() -> Schema {
    let of = |kind: Type| ObjectBuilder::new().schema_type(SchemaType::new(kind));
    Schema::OneOf(
        OneOfBuilder::new()
            .item(of(Type::String))
            .item(of(Type::Object))
            .item(of(Type::Null))
            .build(),
    )
}

/// The document itself.
pub(super) async fn document() -> Result<Response, HandlerError> {
    extract::json(Api::openapi()).await
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::openai::tests::scripted;
    use super::super::routes;
    use super::super::tests::{TestReply, TestServer, start};
    use super::*;

    /// Paths with their methods, however slashes at the end and wildcards are written.
    fn route_key(path: &str, method: &str) -> String {
        let path = if path.trim_end_matches('/') == "/v1/fs" {
            "/v1/fs/{path}"
        } else {
            path
        };
        format!(
            "{} {}",
            method.to_uppercase(),
            path.trim_end_matches('/').replace("{*", "{")
        )
    }

    #[tokio::test]
    async fn every_route_is_described_once() {
        let server = start().await;
        let mut there = BTreeSet::new();
        for (path, _) in routes::all() {
            // None takes this method: the refusal says which ones it takes.
            let request_path = path.replace(['{', '}', '*'], "x");
            let refused = server
                .ask(&format!("PURGE {request_path} HTTP/1.1\r\n"))
                .await;
            let allowed = refused
                .header("allow")
                .unwrap_or_else(|| panic!("{path}: {}", refused.head));
            let methods = allowed
                .split(',')
                .map(str::trim)
                .filter(|method| *method != "HEAD");
            there.extend(methods.map(|method| route_key(path, method)));
        }
        assert!(there.remove("GET /openapi.json"), "{there:?}");
        let api = server.get("/openapi.json").await.json();
        let mut described = BTreeSet::new();
        for (path, item) in api["paths"].as_object().unwrap() {
            described.extend(
                item.as_object()
                    .unwrap()
                    .keys()
                    .map(|method| route_key(path, method)),
            );
        }
        assert_eq!(there, described);
        let operations = api["paths"]
            .as_object()
            .unwrap()
            .values()
            .flat_map(|item| item.as_object().unwrap().values());
        let ids: Vec<&str> = operations
            .map(|operation| operation["operationId"].as_str().unwrap())
            .collect();
        assert_eq!(
            ids.iter().collect::<BTreeSet<_>>().len(),
            ids.len(),
            "each has a name of its own: {ids:?}"
        );
    }

    /// Where a value differs from its schema; the words of JSON Schema that are used here.
    fn schema_mismatch(api: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
        if let Some(name) = schema["$ref"].as_str() {
            return schema_mismatch(
                api,
                api.pointer(name.trim_start_matches('#')).unwrap(),
                value,
                at,
            );
        }
        for (word, all) in [("oneOf", false), ("anyOf", false), ("allOf", true)] {
            if let Some(of) = schema[word].as_array() {
                let misfits: Vec<_> = of
                    .iter()
                    .map(|schema| schema_mismatch(api, schema, value, at))
                    .collect();
                let fits = misfits.iter().filter(|misfit| misfit.is_none()).count();
                if fits == 0 || (all && fits < of.len()) {
                    return misfits.into_iter().flatten().next();
                }
            }
        }
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let is_kind = |name: &Value| name == kind || (name == "number" && kind == "integer");
        let fits = match &schema["type"] {
            Value::Null => true,
            Value::Array(kinds) => kinds.iter().any(is_kind),
            one => is_kind(one),
        };
        if !fits
            || schema["enum"]
                .as_array()
                .is_some_and(|values| !values.contains(value))
        {
            return Some(format!("{at}: {value} is not {schema}"));
        }
        let required = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        if let Some(name) = required
            .into_iter()
            .find(|name| value.is_object() && value.get(*name).is_none())
        {
            return Some(format!("{at}: there is no {name}"));
        }
        let items = value.as_array().into_iter().flatten().enumerate();
        let mut items = items.filter_map(|(n, item)| {
            schema_mismatch(api, schema.get("items")?, item, &format!("{at}/{n}"))
        });
        let fields = value.as_object().into_iter().flatten();
        let mut fields = fields.filter_map(|(name, value)| {
            schema_mismatch(
                api,
                schema["properties"].get(name)?,
                value,
                &format!("{at}/{name}"),
            )
        });
        items.next().or_else(|| fields.next())
    }

    /// Whether an answer is of the shape that is described for it.
    fn assert_matches_schema(api: &Value, path: &str, method: &str, reply: &TestReply) {
        let responses = &api["paths"][path][method]["responses"];
        let described = &responses[reply.status.to_string()]["content"];
        let kind = reply.header("content-type").unwrap();
        let schema = &described[kind]["schema"];
        assert!(
            schema.is_object(),
            "{method} {path}: {} as {kind} is not described: {responses}",
            reply.status
        );
        assert_eq!(
            schema_mismatch(api, schema, &reply.json(), path),
            None,
            "{method} {path}: {}",
            reply.body
        );
    }

    async fn post(server: &TestServer, path: &str, body: Value) -> TestReply {
        server.post(path, &body.to_string()).await
    }

    #[tokio::test]
    async fn dialect_responses_match_their_schemas() {
        let server = scripted().await;
        let searching = start().await;
        let api = server.get("/openapi.json").await.json();
        let message = json!([{ "role": "user", "content": "What was capex?" }]);
        let completion = json!({ "model": "default", "messages": message });
        let response = json!({ "model": "default", "input": "What was capex?" });
        let chat = json!({ "messages": message, "doc_id": "ACME_2022", "enable_citations": true });
        for (path, body) in [
            ("/v1/chat/completions", completion),
            ("/v1/responses", response),
            ("/chat/completions/", chat),
        ] {
            assert_matches_schema(&api, path, "post", &post(&server, path, body.clone()).await);
            assert_matches_schema(&api, path, "post", &post(&server, path, json!({})).await);
            assert_matches_schema(&api, path, "post", &post(&searching, path, body).await);
        }
        assert_matches_schema(
            &api,
            "/v1/answers",
            "post",
            &post(
                &server,
                "/v1/answers",
                json!({ "question": "What was capex?" }),
            )
            .await,
        );
        let retrieval = json!({ "doc_id": "ACME_2022", "query": "currency hedging" });
        let receipt = post(&server, "/retrieval/", retrieval).await;
        assert_matches_schema(&api, "/retrieval/", "post", &receipt);
        let result = format!(
            "/retrieval/{}/",
            receipt.json()["retrieval_id"].as_str().unwrap()
        );
        for (path, request_body) in [
            ("/retrieval/{retrieval}/", result.as_str()),
            ("/retrieval/{retrieval}/", "/retrieval/none/"),
            ("/v1/models", "/v1/models"),
            ("/v1/models/{model}", "/v1/models/default%2F10-K"),
            ("/v1/models/{model}", "/v1/models/gpt-9"),
            ("/docs/", "/docs/?limit=3"),
            ("/docs/", "/docs/?limit=0"),
            ("/folders/", "/folders/"),
            ("/folders/", "/folders/?parent_folder_id=root"),
            ("/doc/{doc}/", "/doc/ACME_2022/?summary=true"),
            ("/doc/{doc}/", "/doc/manual.md/?type=ocr"),
            ("/doc/{doc}/", "/doc/QUEUED.pdf/"),
            ("/doc/{doc}/metadata/", "/doc/BROKEN.pdf/metadata/"),
            ("/doc/{doc}/block/{block}/", "/doc/ACME_2022/block/p1/"),
            ("/doc/{doc}/image/{image}/", "/doc/ACME_2022/image/1/"),
            ("/doc/s3/{doc}/images/", "/doc/s3/ACME_2022/images/"),
        ] {
            assert_matches_schema(&api, path, "get", &server.get(request_body).await);
        }
        assert_matches_schema(
            &api,
            "/folder/",
            "post",
            &post(&server, "/folder/", json!({})).await,
        );
        assert_matches_schema(
            &api,
            "/doc/",
            "post",
            &post(&server, "/doc/", json!({})).await,
        );
        assert_matches_schema(
            &api,
            "/doc/{doc}/",
            "delete",
            &server.ask("DELETE /doc/ACME_2022/ HTTP/1.1\r\n").await,
        );
        assert_eq!(
            api["components"]["schemas"]["Answer"]["properties"]["text"]["type"],
            "string"
        );
        assert!(
            schema_mismatch(
                &api,
                &json!({ "$ref": "#/components/schemas/Citation" }),
                &json!({ "id": 1 }),
                ""
            )
            .is_some()
        );
    }
}

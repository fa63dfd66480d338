//! `/openapi.json`: the routes as OpenAPI 3.1, made from the handlers and the types they answer with.

use std::borrow::Cow;

use serde_json::json;
use stemma_archive::TreeResponse;
use stemma_gateway::problem::is_openai_path;
use stemma_gateway::schema::{CitationObject, FrameObject, schema_from_json};
use stemma_gateway::{extract, problem};
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{
    ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{OpenApi, PartialSchema, ToSchema};

/// What the routes do not describe themselves.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Stemma",
        description = "Filings as section trees: read them, list them, search them, ask them. A model is asked by `POST /v1/answers`, the dialects of other services, and searches with a strategy that needs one; by nothing else.\n\nDocuments, sections, Items and pages are named by locators; whatever an answer prints as `locator` or `path` can be pasted back. A document that is known and has no tree yet is a 200 that says its state.",
        license(name = "Apache-2.0")
    ),
    components(schemas(problem::ProblemBody, problem::OpenAiProblem, extract::NotReady, TreeResponse, AnswerObject, CitationObject, FrameObject)),
    tags(
        (name = "documents", description = "What there is, and how it is built"),
        (name = "text", description = "Sections, Items, pages, files"),
        (name = "search", description = "Sections and documents that fit a question"),
        (name = "answers", description = "Questions answered in words, with citations"),
        (name = "files", description = "Folders, axes, and documents opened like folders"),
    )
)]
pub(crate) struct Api;

// Statuses that every route can return.
const PROBLEMS: [(&str, &str); 12] = [
    ("400", "the request cannot be read, or a cursor is invalid"),
    ("401", "a key is needed"),
    ("403", "the key does not allow that, or lacks a scope"),
    ("404", "it does not exist"),
    ("406", "no acceptable response type"),
    ("408", "the body did not arrive in time"),
    ("413", "the body is too large"),
    ("415", "the body has an unsupported type"),
    ("422", "the request is well-formed, but invalid"),
    ("429", "the key has reached its rate limit; see Retry-After"),
    ("501", "this server was started without that feature"),
    (
        "503",
        "the server is overloaded, or the store is unavailable; see Retry-After",
    ),
];

/// Adds the version, API keys and error responses common to all routes.
pub fn add_common_parts(api: &mut utoipa::openapi::OpenApi) {
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
    // OpenAPI has no wildcard parameters.
    let paths = std::mem::take(&mut api.paths.paths).into_iter();
    api.paths.paths = paths
        .map(|(path, item)| (path.replace("{*", "{"), item))
        .collect();
    for (path, item) in &mut api.paths.paths {
        let operations = [&mut item.get, &mut item.post, &mut item.delete]
            .into_iter()
            .flatten();
        operations.for_each(|operation| refusals(operation, is_openai_path(path)));
    }
}

// Error responses in the format of the route.
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

// Schema only: `…/tree` returns one of two formats.
pub(crate) enum TreeAnswer {}

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

/// Schema of [`stemma_answers::Answer`].
pub(crate) enum AnswerObject {}

impl PartialSchema for AnswerObject {
    fn schema() -> RefOr<Schema> {
        schema_from_json(&json!({
            "type": "object",
            "required": ["id", "question", "outcome", "text", "claims", "citations", "searched", "sections", "steps", "dropped", "usage"],
            "properties": {
                "id": { "type": "string", "description": "a digest of question, scope, trees, model, prompts and knowledge" },
                "question": { "type": "string" },
                "outcome": { "type": "string", "enum": ["answered", "not_in_documents", "search_only"] },
                "text": { "type": "string", "description": "the final answer, the claims, each with the numbers of its citations: [1], and what is missing" },
                "answer": { "type": "object", "description": "the final answer: value, period, criterion of a judgement, verified" },
                "missing": { "type": "array", "items": { "type": "string" }, "description": "parts of the question that what was read does not answer" },
                "claims": { "type": "array", "items": { "type": "object" }, "description": "text, state (verified, computed, quoted, by_sight, unverified), citations, figures (name, text, value, unit, period, row, column, citation, formula), reason if unverified, by_sight: the pages whose pictures alone support it" },
                "citations": { "type": "array", "items": { "$ref": "#/components/schemas/Citation" } },
                "pictures": { "type": "array", "items": { "type": "object" }, "description": "pages whose pictures the model saw: doc_id, name, page, locator" },
                "confidence": { "type": ["number", "null"], "minimum": 0, "maximum": 1 },
                "model": { "type": ["string", "null"] },
                "degraded": { "type": ["object", "null"], "description": "code, message, next: why it is less than it could be" },
                "searched": { "type": "object", "description": "what was searched" },
                "sections": { "type": "array", "items": { "type": "object" }, "description": "what the model was shown" },
                "steps": { "type": "array", "items": { "type": "object" }, "description": "how it was generated" },
                "dropped": { "type": "object", "description": "what the model said that is not shown" },
                "usage": { "type": "object", "description": "calls, prompt_tokens, output_tokens, nanodollars" },
                "conversation": { "type": "string", "description": "the conversation that keeps the question; only in a response to a request that names one" },
                "replayed": { "type": "boolean", "description": "generated before, and only read again" }
            }
        }))
    }
}

impl ToSchema for AnswerObject {
    fn name() -> Cow<'static, str> {
        "Answer".into()
    }
}

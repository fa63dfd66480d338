//! `/openapi.json`: the routes as OpenAPI 3.1, made from the handlers and the types they answer with.

use axum::response::Response;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{Modify, OpenApi, PartialSchema, ToSchema};

use super::asked::Stop;

use super::{answers, asked, comparing, documents, files, listing, problem, searching, source, texts};
use crate::TreeView;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Stemma",
        description = "Filings as section trees: read them, list them, search them, ask them. A model is asked by `POST /v1/answers`, the dialects of other services, and searches with a strategy that needs one; by nothing else.\n\nDocuments, sections, Items and pages are named by locators; whatever an answer prints as `locator` or `path` can be pasted back. A document that is known and has no tree yet is a 200 that says its state.",
        license(name = "Apache-2.0")
    ),
    paths(
        listing::documents,
        listing::facets,
        documents::document,
        documents::tree,
        documents::items,
        texts::item,
        texts::section,
        texts::pages,
        source::source,
        searching::search,
        searching::browse,
        comparing::compare,
        answers::ask,
        answers::stored,
        files::files,
    ),
    components(schemas(problem::Body, asked::NotReady, TreeView)),
    modifiers(&Common),
    tags(
        (name = "documents", description = "What there is, and how it is built"),
        (name = "text", description = "Sections, Items, pages, files"),
        (name = "search", description = "Sections and documents that fit a question"),
        (name = "answers", description = "Questions answered in words, with citations"),
        (name = "files", description = "Folders, axes, and documents opened like folders"),
    )
)]
struct Api;

/// What every route has in common: a key, and problems.
struct Common;

/// Statuses any request may be answered with, and when.
const PROBLEMS: [(&str, &str); 10] = [
    ("400", "the request cannot be read, or a cursor is none"),
    ("401", "a key is needed"),
    ("403", "the key does not reach that"),
    ("404", "there is no such thing"),
    ("406", "no form of the answer is acceptable"),
    ("413", "the body is too large"),
    ("415", "the body is of another type"),
    ("422", "the request can be read and makes no sense"),
    ("429", "the key has asked often enough for now; see Retry-After"),
    ("503", "too much to do, or the store is away; see Retry-After"),
];

impl Modify for Common {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        api.info.version = env!("CARGO_PKG_VERSION").into();
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("query.keys")).build();
        if let Some(components) = &mut api.components {
            components.security_schemes.insert("key".into(), RefOr::T(SecurityScheme::Http(scheme)));
        }
        api.security = Some(vec![SecurityRequirement::new("key", Vec::<String>::new())]);
        for path in api.paths.paths.values_mut() {
            [&mut path.get, &mut path.post].into_iter().flatten().for_each(refusals);
        }
    }
}

fn refusals(operation: &mut Operation) {
    for (status, when) in PROBLEMS {
        let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let problem = ResponseBuilder::new().description(when).content("application/problem+json", body).build();
        operation.responses.responses.entry(status.into()).or_insert(RefOr::T(problem));
    }
}

/// What `…/tree` answers in JSON: never made, only described.
pub(super) enum TreeAnswer {}

impl PartialSchema for TreeAnswer {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(SchemaType::new(Type::String));
        let nodes = ArrayBuilder::new().items(ObjectBuilder::new());
        let pageindex = ObjectBuilder::new().property("doc_name", text).property("structure", nodes);
        let pageindex = pageindex.required("doc_name").required("structure");
        let named = ["TreeView", "NotReady"].map(Ref::from_schema_name);
        let of = named.into_iter().fold(OneOfBuilder::new(), OneOfBuilder::item);
        RefOr::T(Schema::OneOf(of.item(pageindex).build()))
    }
}

impl ToSchema for TreeAnswer {}

/// Conditions on documents, as text or as an object.
pub(super) fn conditions() -> Schema {
    let of = |kind: Type| ObjectBuilder::new().schema_type(SchemaType::new(kind));
    Schema::OneOf(OneOfBuilder::new().item(of(Type::String)).item(of(Type::Object)).item(of(Type::Null)).build())
}

/// The document itself.
pub(super) async fn document() -> Result<Response, Stop> {
    asked::json(Api::openapi()).await
}

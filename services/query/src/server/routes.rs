//! The routes of `/v1`.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use serde::{Deserialize, Serialize};
use stemma_document::{DocId, SectionId};
use stemma_search::axes::{Axis, value_path};
use stemma_search::catalogue::Listed;
use stemma_search::locator::{parse_pages, section_locator, show_pages};

use super::archive::Archive;
use super::cursor::Cursor;
use super::gate::{self, Gate};
use super::keys::Reach;
use super::parameters::Parameters;
use super::problem::Problem;
use crate::mcp::McpService;
use crate::reader::aside;
use crate::{DocumentView, ExportFormat, Part, Reader, Refusal, SearchOptions, SectionStat, TreeView};

/// Documents of a listing, where the request does not say how many.
const LISTED: usize = 50;
/// The most items of a list.
const MAX_LISTED: usize = 500;
/// The most pages of one answer.
const MAX_PAGES: usize = 200;
/// Documents one search reads at most.
const SEARCHED: usize = 500;

/// What handlers answer from.
#[derive(Clone)]
struct Site {
    archive: Arc<Archive>,
    search_threads: usize,
}

type Answer = Result<Response, Problem>;

/// All routes, behind the gate.
pub(super) fn router(archive: Arc<Archive>, gate: Arc<Gate>, search_threads: usize, mcp: McpService) -> Router {
    let unknown = || async { Problem::new(404, "route.unknown", "there is no such route") };
    let other_method = || async { Problem::new(405, "route.method", "this route does not take that method") };
    let max_body_bytes = gate.max_body_bytes;
    Router::new()
        .route("/v1/documents", get(documents))
        .route("/v1/documents/{doc}", get(document))
        .route("/v1/documents/{doc}/tree", get(tree))
        .route("/v1/documents/{doc}/pages", get(pages))
        .route("/v1/documents/{doc}/sections/{id}", get(section))
        .route("/v1/documents/{doc}/items", get(items))
        .route("/v1/search", post(search))
        .route_service("/mcp", mcp)
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(DefaultBodyLimit::max(max_body_bytes))
        .layer(middleware::from_fn_with_state(gate, gate::pass))
        .with_state(Site { archive, search_threads })
}

impl Site {
    /// The collection a request means, as far as its key reaches.
    fn reader(&self, reach: &Reach, collection: Option<&str>) -> Result<Arc<Reader>, Problem> {
        let all = self.archive.collections();
        let meant = match collection {
            None => all.iter().find(|collection| reach.holds(collection)),
            Some(name) => all.iter().find(|collection| collection.as_str() == name && reach.holds(collection)),
        };
        let Some(meant) = meant else {
            let detail = "this key reads no such collection";
            return Err(Problem::new(if *reach == Reach::All { 404 } else { 403 }, "collection.unknown", detail));
        };
        let loading = || Problem::new(503, "catalogue.loading", "the catalogue is being read").next("ask again");
        self.archive.reader(meant).ok_or_else(loading)
    }
}

#[derive(Serialize)]
struct List {
    items: Vec<DocumentView>,
    next_cursor: Option<String>,
    total: usize,
}

/// Documents in order of their paths, then ids; filtered by `scope`, and by axes such as `form` and `fiscal_year`.
async fn documents(State(site): State<Site>, Extension(reach): Extension<Reach>, RawQuery(query): RawQuery) -> Answer {
    let mut parameters = Parameters::of(query.as_deref())?;
    let reader = site.reader(&reach, parameters.text("collection").as_deref())?;
    let limit = parameters.number("limit")?.unwrap_or(LISTED);
    if limit == 0 || limit > MAX_LISTED {
        return Err(Problem::parameter(400, "limit", format!("limit is from 1 to {MAX_LISTED}")));
    }
    let cursor = parameters.text("cursor");
    let mut scope = parameters.text("scope").unwrap_or_default();
    for axis in Axis::ALL {
        if let Some(value) = parameters.text(axis.as_str()) {
            scope = format!("{}{}", scope.trim_end_matches('/'), value_path(axis, &value));
        }
    }
    parameters.none_left()?;
    let cursor = cursor.map(|text| Cursor::parse(&text, &scope)).transpose()?;
    let found = match reader.in_scope(&scope) {
        Err(refusal) if refusal.is_not_found() && scope.contains("/@") => Vec::new(), // nothing has that value
        found => found?,
    };
    let after = |listed: &&&Listed| {
        let place =
            |cursor: &Cursor| (listed.version().path.as_str(), listed.doc()) > (cursor.path.as_str(), cursor.doc);
        cursor.as_ref().is_none_or(place)
    };
    let mut rest = found.iter().filter(after);
    let page: Vec<&Listed> = rest.by_ref().take(limit).copied().collect();
    let more = rest.next().is_some();
    let last = page.last().filter(|_| more);
    let next_cursor = last.map(|last| Cursor { path: last.version().path.clone(), doc: last.doc() }.show(&scope));
    let items = page.into_iter().map(DocumentView::of).collect();
    json(List { items, next_cursor, total: found.len() }).await
}

async fn document(
    State(site): State<Site>,
    Extension(reach): Extension<Reach>,
    Path(doc): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    let mut parameters = Parameters::of(query.as_deref())?;
    let reader = site.reader(&reach, parameters.text("collection").as_deref())?;
    parameters.none_left()?;
    let stat = reader.stat(&find(&reader, &doc)?.label).await?;
    json(stat).await
}

/// The tree, with its version as ETag.
async fn tree(
    State(site): State<Site>,
    Extension(reach): Extension<Reach>,
    Path(doc): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let mut parameters = Parameters::of(query.as_deref())?;
    let reader = site.reader(&reach, parameters.text("collection").as_deref())?;
    let (depth, summary) = (parameters.number("depth")?, parameters.flag("summary")?);
    let (node, format) = (parameters.text("node"), parameters.text("format"));
    parameters.none_left()?;
    let listed = find(&reader, &doc)?;
    let Some(entry) = listed.entry() else { return not_ready(listed).await };
    let tag = format!("W/\"{}-{}\"", entry.version.doc.short(), entry.version.seq);
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    if known.flat_map(|tags| tags.split(',')).any(|known| matches!(known.trim(), "*") || known.trim() == tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let locator = match node {
        Some(node) => section_locator(&listed.label, section_id(&node)?),
        None => listed.label.clone(),
    };
    let response = match format.as_deref().unwrap_or("stemma") {
        "stemma" => json(reader.tree(&locator, depth, summary).await?).await?,
        "outline" => outline(&reader.tree(&locator, depth, summary).await?).into_response(),
        "pageindex" => {
            let exported = reader.export(listed, "", ExportFormat::PageIndex { text: false }).await?;
            ([(header::CONTENT_TYPE, "application/json")], exported.content).into_response()
        }
        other => {
            let detail = format!("`{other}` is no format: stemma, pageindex or outline");
            return Err(Problem::parameter(400, "format", detail));
        }
    };
    Ok(([(header::ETAG, tag)], response).into_response())
}

/// The tree as people read it: id, title and place of each section, a line each.
fn outline(tree: &TreeView) -> String {
    let row = |row: &crate::TreeRow| {
        let place = match (row.section.pages, row.section.lines) {
            (Some((first, last)), _) => format!("p {first}–{last}"),
            (_, Some((first, last))) => format!("l {first}–{last}"),
            _ => String::new(),
        };
        let indent = "  ".repeat(row.depth.saturating_sub(1));
        format!("{} {indent}{}  {place}\n", row.section.section_id, row.section.title)
    };
    tree.sections.iter().map(row).collect()
}

async fn pages(
    State(site): State<Site>,
    Extension(reach): Extension<Reach>,
    Path(doc): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    let mut parameters = Parameters::of(query.as_deref())?;
    let reader = site.reader(&reach, parameters.text("collection").as_deref())?;
    let range = parameters.text("range").unwrap_or_default();
    parameters.none_left()?;
    let Some(spans) = parse_pages(&range) else {
        return Err(Problem::parameter(400, "range", "range names physical pages, such as 5-7,9"));
    };
    let listed = find(&reader, &doc)?;
    if listed.entry().is_none() {
        return not_ready(listed).await;
    }
    if spans.iter().map(|span| span.len()).fold(0, usize::saturating_add) > MAX_PAGES {
        let detail = format!("at most {MAX_PAGES} pages are read at once");
        return Err(Problem::parameter(422, "range", detail));
    }
    json(reader.text(&format!("{}#p={}", listed.label, show_pages(&spans)), Part::Full).await?).await
}

#[derive(Serialize)]
struct SectionAnswer {
    document: DocumentView,
    #[serde(flatten)]
    section: SectionStat,
    /// With all sub-sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

async fn section(
    State(site): State<Site>,
    Extension(reach): Extension<Reach>,
    Path((doc, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Answer {
    let mut parameters = Parameters::of(query.as_deref())?;
    let reader = site.reader(&reach, parameters.text("collection").as_deref())?;
    let with_text = parameters.flag("text")?;
    parameters.none_left()?;
    let (listed, id) = (find(&reader, &doc)?, section_id(&id)?);
    if listed.entry().is_none() {
        return not_ready(listed).await;
    }
    let locator = section_locator(&listed.label, id);
    let stat = reader.stat(&locator).await?;
    let text = if with_text { reader.text(&locator, Part::Full).await?.text } else { None };
    let Some(section) = stat.section else { return not_ready(listed).await };
    json(SectionAnswer { document: stat.document, section, text }).await
}

async fn items(
    State(site): State<Site>,
    Extension(reach): Extension<Reach>,
    Path(doc): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    let mut parameters = Parameters::of(query.as_deref())?;
    let reader = site.reader(&reach, parameters.text("collection").as_deref())?;
    parameters.none_left()?;
    let listed = find(&reader, &doc)?;
    if listed.entry().is_none() {
        return not_ready(listed).await;
    }
    json(reader.items(&listed.label).await?).await
}

/// What `POST /v1/search` takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    query: String,
    collection: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
    item: Option<String>,
    limit: Option<usize>,
}

async fn search(
    State(site): State<Site>,
    Extension(reach): Extension<Reach>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    let body = body.map_err(|rejection| {
        let status = rejection.status().as_u16();
        Problem::new(status, if status == 413 { "body.too_large" } else { "body.unreadable" }, rejection.body_text())
    })?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/json") {
        return Err(Problem::new(415, "body.type", "the body is to be application/json"));
    }
    let question: Question = serde_json::from_slice(&body).map_err(|error| {
        let status = if error.is_data() { 422 } else { 400 };
        Problem::parameter(status, "", error.to_string())
    })?;
    let limit = question.limit.unwrap_or(10);
    if limit == 0 || limit > MAX_LISTED {
        return Err(Problem::parameter(422, "/limit", format!("limit is from 1 to {MAX_LISTED}")));
    }
    let reader = site.reader(&reach, question.collection.as_deref())?;
    let Question { query, scopes, item, .. } = question;
    let options = SearchOptions { scopes, item, limit, max_documents: SEARCHED, threads: site.search_threads };
    json(reader.search(&query, &options).await?).await
}

/// The document that an id, a name or a path names.
fn find<'a>(reader: &'a Reader, doc: &str) -> Result<&'a Listed, Problem> {
    let known = doc.parse::<DocId>().ok().and_then(|id| reader.catalogue().get(id));
    match known {
        Some(listed) => Ok(listed),
        None => reader.catalogue().resolve(doc).map_err(|error| Refusal::from(error).into()),
    }
}

fn section_id(text: &str) -> Result<SectionId, Problem> {
    text.parse().map_err(|error: stemma_document::ParseIdError| Problem::parameter(400, "id", error.to_string()))
}

/// A document that is known and has no tree: its state is the answer.
async fn not_ready(listed: &Listed) -> Answer {
    #[derive(Serialize)]
    struct NotReady {
        ready: bool,
        document: DocumentView,
    }
    json(NotReady { ready: false, document: DocumentView::of(listed) }).await
}

/// Trees are megabytes: written off the threads that serve IO.
async fn json<T: Serialize + Send + 'static>(value: T) -> Answer {
    let body = aside(move || serde_json::to_vec(&value)).await.map_err(Refusal::from)?;
    let broken = |error: serde_json::Error| Problem::new(500, "server.answer", error.to_string());
    Ok(([(header::CONTENT_TYPE, "application/json")], body.map_err(broken)?).into_response())
}

//! `browse_documents`: documents and folders of a folder or axis path, newest first or ranked by a question.

use std::cmp::Reverse;
use std::sync::Arc;

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stemma_archive::pageindex_fields::{
    created_at, description, is_root, metadata, name_of, page_count, sort_date, status,
};
use stemma_archive::{FolderContents, ListRequest, SearchRequest};
use stemma_catalog::catalog::CatalogDocument;
use stemma_document::DocId;
use stemma_store::PortResult;

use crate::error::ToolError;
use crate::paging::{PageRequest, default_limit};
use crate::tool_context::ToolContext;
use crate::tool_result::{
    ToolOutcome, ToolResult, delimited, first_chars, take_fitting, token_cost,
};

const RANKED_SECTIONS: usize = 200;
const MAX_FOLDERS: usize = 100;
const DESCRIPTION_CHARS: usize = 160;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct BrowseDocumentsArguments {
    /// id of a folder, or a path: /@company/3M/@form/10-K; /@form lists the forms
    #[serde(default = "root_folder")]
    folder_id: String,
    /// documents of sub-folders too
    #[serde(default)]
    recursive: bool,
    #[serde(default)]
    sort: Sort,
    /// with sort=relevance
    query: Option<String>,
    /// filter: (form=10-K or form=10-Q) and fiscal_year>=2020
    #[serde(rename = "where")]
    filter: Option<Value>,
    #[serde(default)]
    offset: usize,
    cursor: Option<String>,
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 50))]
    limit: usize,
}

fn root_folder() -> String {
    "root".into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Sort {
    #[default]
    Time,
    Relevance,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct BrowseDocumentsOutput {
    total: usize,
    documents: Vec<DocumentRow>,
    folders: Vec<FolderRow>,
    #[schemars(skip)]
    sort: Sort,
    has_more: bool,
    next_offset: Option<usize>,
    next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct DocumentRow {
    name: String,
    #[schemars(with = "String")]
    id: DocId,
    description: String,
    status: &'static str,
    #[schemars(skip)]
    created_at: String,
    page_count: Option<u32>,
    #[schemars(skip)]
    tokens: Option<u32>,
    metadata: Map<String, Value>,
}

#[derive(Clone, Serialize, JsonSchema)]
#[schemars(inline)]
struct FolderRow {
    id: String,
    name: String,
    count: usize,
}

#[tool_router(router = browse_documents_router, vis = "pub(crate)")]
impl ToolContext {
    #[tool(
        description = "List documents and folders, newest period first, or ranked by query (sort=relevance). \
Folders include axes: /@company, /@form, /@fiscal_year.",
        output_schema = schema_for_output::<BrowseDocumentsOutput>()
    )]
    async fn browse_documents(
        &self,
        Parameters(arguments): Parameters<BrowseDocumentsArguments>,
    ) -> ToolOutcome<BrowseDocumentsOutput> {
        let query = arguments.query;
        if arguments.sort == Sort::Relevance && query.is_none() {
            return Err(ToolError::invalid("sort=relevance needs a `query`"));
        }
        let folder = if is_root(&arguments.folder_id) {
            "/"
        } else {
            &arguments.folder_id
        };
        let mut request = ListRequest {
            filter: arguments.filter,
            recursive: arguments.recursive,
            ..ListRequest::new(folder)
        };
        let list = format!("{request:?} {:?} {query:?}", arguments.sort);
        let cursor = arguments.cursor.as_deref();
        let page = PageRequest::new(arguments.limit, arguments.offset, cursor, &list)?;
        let level = self.archive.folder(&request)?;
        let folders = folder_rows(&level);
        let mut documents = level.documents;
        // Models often send `query` without `sort=relevance`.
        let sort = match &query {
            Some(_) => Sort::Relevance,
            None => Sort::Time,
        };
        // A question is about the documents of subfolders, too.
        if query.is_some() && !request.recursive {
            request.recursive = true;
            documents = self.archive.folder(&request)?.documents;
        }
        match query {
            Some(query) => documents = self.rank_documents(query, &documents).await?,
            None => documents.sort_by_cached_key(|listed| Reverse(sort_date(listed))),
        }
        Ok(self.documents_result(&documents, folders, &page, sort))
    }
}

impl ToolContext {
    // Ranks documents by their best sections.
    async fn rank_documents(
        &self,
        query: String,
        documents: &[Arc<CatalogDocument>],
    ) -> Result<Vec<Arc<CatalogDocument>>, ToolError> {
        let catalog = self.archive.catalog();
        let is_whole = documents.len() == catalog.len();
        let request = SearchRequest {
            query,
            documents: (!is_whole).then(|| documents.iter().map(|listed| listed.doc()).collect()),
            limit: Some(RANKED_SECTIONS),
            ..SearchRequest::default()
        };
        let response = self.find_sections(request).await?;
        let mut ranked: Vec<DocId> = Vec::new();
        for hit in &response.hits {
            if !ranked.contains(&hit.doc_id) {
                ranked.push(hit.doc_id);
            }
        }
        let listed = ranked
            .iter()
            .filter_map(|doc| catalog.get(*doc).transpose());
        Ok(listed.collect::<PortResult<_>>()?)
    }

    fn documents_result(
        &self,
        documents: &[Arc<CatalogDocument>],
        folders: Vec<FolderRow>,
        page: &PageRequest,
        sort: Sort,
    ) -> ToolResult<BrowseDocumentsOutput> {
        let room = self.format.limit(None);
        let room = room.saturating_sub(folders.iter().map(token_cost).sum());
        let requested = documents.iter().skip(page.offset).take(page.limit);
        let rows = take_fitting(requested.map(|listed| DocumentRow::new(listed)), room);
        let total = documents.len();
        let next = page.offset + rows.len();
        let has_more = next < total;
        let summary = match (rows.len(), folders.len()) {
            (0, 0) => "No documents here".to_owned(),
            (rows, folders) => {
                let sort = format!("{sort:?}").to_lowercase();
                format!("{rows} of {total} documents, {folders} folders, sorted by {sort}")
            }
        };
        let text = delimited("catalog", &listing(&rows, &folders));
        let next_step = (total > 0).then(|| {
            "Next: get_document(doc_name) with a name from here; check that form, company and year are those meant".to_owned()
        });
        let data = BrowseDocumentsOutput {
            total,
            documents: rows,
            folders,
            sort,
            has_more,
            next_offset: has_more.then_some(next),
            next_cursor: has_more.then(|| page.cursor(next)),
        };
        ToolResult::new(data, summary)
            .with_text(text)
            .with_options(next_step)
            .with_options(has_more.then(|| format!("More: the same call with offset: {next}")))
    }
}

// Subfolders with document counts or the values of an axis, then the axes that narrow the path, with value counts.
fn folder_rows(level: &FolderContents) -> Vec<FolderRow> {
    let folders = level
        .folders
        .iter()
        .take(MAX_FOLDERS)
        .map(|folder| FolderRow {
            id: folder.locator.clone(),
            name: folder.name.clone(),
            count: folder.documents,
        });
    let axes = level.axes.iter().map(|axis| FolderRow {
        id: axis.locator.clone(),
        name: format!("by {}", axis.axis),
        count: axis.values,
    });
    folders.chain(axes).collect()
}

impl DocumentRow {
    fn new(listed: &CatalogDocument) -> Self {
        Self {
            name: name_of(listed).to_owned(),
            id: listed.doc(),
            description: description(listed),
            status: status(listed.state),
            created_at: created_at(listed).unwrap_or_default(),
            page_count: page_count(listed),
            tokens: listed.entry().map(|entry| entry.tokens),
            metadata: metadata(listed),
        }
    }

    /// A field of the metadata, or an empty string.
    fn fact(&self, name: &str) -> &str {
        let value = self.metadata.get(name);
        value.and_then(Value::as_str).unwrap_or_default()
    }
}

fn listing(documents: &[DocumentRow], folders: &[FolderRow]) -> String {
    let mut lines: Vec<String> = folders
        .iter()
        .map(|folder| format!("{} ({})", folder.id, folder.count))
        .collect();
    for document in documents {
        let facts: Vec<&str> = ["company", "form", "fiscal_year", "period_end"]
            .into_iter()
            .map(|name| document.fact(name))
            .filter(|fact| !fact.is_empty())
            .collect();
        let pages = document
            .page_count
            .map(|pages| format!("{pages} pages · "))
            .unwrap_or_default();
        lines.push(format!(
            "{} [{pages}{}] {}",
            document.name,
            document.status,
            facts.join(" · ")
        ));
        let description = first_chars(&document.description, DESCRIPTION_CHARS);
        if !description.is_empty() {
            lines.push(format!("  {description}"));
        }
    }
    lines.join("\n")
}

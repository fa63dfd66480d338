//! `get_document`: status, metadata and Items (pages, tokens) of a document.

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use stemma_archive::ItemInfo;
use stemma_archive::pageindex_fields::{
    created_at, description, metadata, name_of, page_count, status,
};
use stemma_catalog::catalog::CatalogDocument;
use stemma_document::Method;
use stemma_document::rounding::rounded_share;

use crate::tool_context::{ToolContext, link, section_address};
use crate::tool_result::{
    ToolOutcome, ToolResult, delimited, first_chars, format_span, token_cost,
};

const MAX_ITEMS: usize = 60;
const MAX_LINKS: usize = 5;
/// Places where the content of one Item is.
pub(crate) const MAX_PLACES: usize = 4;
const TITLE_CHARS: usize = 120;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetDocumentArguments {
    /// name, id or locator
    doc_name: String,
    #[schemars(extend("x-nullable" = true))]
    folder_id: Option<String>,
    /// wait up to 17 s
    #[serde(default)]
    wait_for_completion: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct GetDocumentOutput {
    name: String,
    id: String,
    locator: String,
    description: String,
    /// queued, processing, completed or failed
    status: &'static str,
    created_at: String,
    page_count: Option<u32>,
    folder_id: Option<String>,
    metadata: Map<String, Value>,
    items: Vec<ItemRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    quality: Option<Quality>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    // A tree is published as a whole, so this is 0 until there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    progress: Option<u8>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct ItemRow {
    item: String,
    title: String,
    tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    section_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    status: Option<Value>,
    // Where its content is, if it is not under its heading.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    content_at: Vec<String>,
    // Whether a place of `content_at` only contains the content, which was not found itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    approximate: bool,
}

#[derive(Serialize)]
struct Quality {
    method: Method,
    // From 0 to 1; 0.5 and more means that sections may be missing or nested wrongly.
    doubt: Option<f64>,
    sections: u32,
    tokens: u32,
    gaps: Vec<String>,
}

#[tool_router(router = get_document_router, vis = "pub(crate)")]
impl ToolContext {
    #[tool(
        description = "Status, metadata and Item map (pages and tokens of each Item) of a document.",
        output_schema = schema_for_output::<GetDocumentOutput>()
    )]
    async fn get_document(
        &self,
        Parameters(arguments): Parameters<GetDocumentArguments>,
    ) -> ToolOutcome<GetDocumentOutput> {
        let (document, context) = self
            .open_document(
                &arguments.doc_name,
                arguments.folder_id.as_deref(),
                arguments.wait_for_completion,
            )
            .await?;
        let listed = context.listed(&document)?;
        let items = match listed.entry() {
            Some(_) => context.archive.items(&listed.label).await?.items,
            None => Vec::new(),
        };
        let links = items.iter().filter_map(|item| {
            let section = item.section_id.as_ref()?;
            let name = format!("Item {}", item.item);
            Some(link(section_address(listed.doc(), section), &name))
        });
        let data = output(&listed, item_rows(&items, self.format.limit(None) * 3 / 4));
        let name = name_of(&listed);
        let text = delimited(name, &overview(&listed, &data.items));
        let result = ToolResult::new(data, summary(&listed))
            .with_text(text)
            .with_links(links.take(MAX_LINKS));
        Ok(match status(listed.state) {
            "completed" => result
                .with_option(format!(
                    "Sections: get_document_structure(doc_name: \"{name}\")"
                ))
                .with_option(format!(
                    "Text: get_page_content(doc_name: \"{name}\", pages: \"1-3\"), or item: \"7\""
                )),
            "failed" => result
                .with_option("It has to be ingested again; other documents: browse_documents()"),
            _ => result.with_option(format!(
                "Later: get_document(doc_name: \"{name}\", wait_for_completion: true)"
            )),
        })
    }
}

fn summary(listed: &CatalogDocument) -> String {
    let name = name_of(listed);
    match (page_count(listed), listed.entry()) {
        (Some(pages), _) => format!("{name}: completed, {pages} pages"),
        (None, Some(_)) => format!("{name}: completed, a text without pages"),
        (None, None) => format!("{name}: {}; {}", status(listed.state), cause(listed)),
    }
}

fn cause(listed: &CatalogDocument) -> String {
    match &listed.failure {
        Some(failure) => format!("{}: {}", failure.code, failure.message),
        None => "processing has not ended".into(),
    }
}

fn output(listed: &CatalogDocument, items: Vec<ItemRow>) -> GetDocumentOutput {
    let entry = listed.entry();
    let folder = listed.version().path.rsplit_once('/');
    GetDocumentOutput {
        name: name_of(listed).to_owned(),
        id: listed.doc().to_string(),
        locator: listed.label.clone(),
        description: description(listed),
        status: status(listed.state),
        created_at: created_at(listed).unwrap_or_default(),
        page_count: page_count(listed),
        folder_id: folder.map(|(folder, _)| format!("/{folder}")),
        metadata: metadata(listed),
        items,
        quality: entry.map(|entry| Quality {
            method: entry.method,
            doubt: entry.doubt.map(rounded_share),
            sections: entry.sections,
            tokens: entry.tokens,
            gaps: entry.gaps.clone(),
        }),
        cause: entry.is_none().then(|| cause(listed)),
        progress: entry.is_none().then_some(0),
    }
}

fn item_rows(items: &[ItemInfo], mut room: usize) -> Vec<ItemRow> {
    items
        .iter()
        .take(MAX_ITEMS)
        .map(ItemRow::new)
        .map_while(|row| {
            room = room.checked_sub(token_cost(&row))?;
            Some(row)
        })
        .collect()
}

impl ItemRow {
    pub(crate) fn new(item: &ItemInfo) -> Self {
        let content = item
            .content
            .iter()
            .filter(|link| link.to.is_some() || link.outside.is_some())
            .take(MAX_PLACES);
        Self {
            item: match &item.part {
                Some(part) => format!("{part}.{}", item.item),
                None => item.item.clone(),
            },
            title: first_chars(&item.title, TITLE_CHARS).to_owned(),
            tokens: item.tokens,
            section_id: item.section_id.clone(),
            pages: item.pages.map(format_span),
            status: item.status.map(|status| json!(status)),
            approximate: content.clone().any(|link| link.approximate),
            content_at: content
                .filter_map(|link| link.to.clone().or(link.outside.clone()))
                .collect(),
        }
    }
}

fn overview(listed: &CatalogDocument, items: &[ItemRow]) -> String {
    let mut lines = vec![description(listed)];
    lines.extend(
        metadata(listed)
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.as_str().unwrap_or_default())),
    );
    if let Some(entry) = listed.entry() {
        lines.push(format!(
            "{} sections, {} tokens",
            entry.sections, entry.tokens
        ));
    }
    for item in items {
        let mut line = format!(
            "{} {}  p {}  {} tokens ",
            item.item,
            item.title,
            item.pages.as_deref().unwrap_or_default(),
            item.tokens
        );
        let status = item.status.as_ref().and_then(Value::as_str);
        line.push_str(status.unwrap_or_default());
        if !item.content_at.is_empty() {
            let within = if item.approximate { "within " } else { "" };
            line.push_str(&format!(" → {within}{}", item.content_at.join(", ")));
        }
        lines.push(line);
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

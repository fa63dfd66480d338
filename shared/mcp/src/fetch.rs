//! `fetch`: the text of a search result or of any locator.

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use stemma_archive::pageindex_fields::{metadata, name_of};
use stemma_archive::{ItemInfo, ReadRequest};
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::Fragment;
use stemma_catalog::short_path::short_path;
use stemma_document::PageSpan;

use crate::text_pages::ReadResult;
use crate::tool_context::{SCHEME, ToolContext, page_address, part_locator, section_address};
use crate::tool_result::{
    DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS, ToolOutcome, ToolResult, delimited, first_chars,
    format_span, truncated,
};

const TITLE_CHARS: usize = 400;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct FetchArguments {
    /// from search, or any locator: NAME#0019, #item-7, #p=5-7, #t12
    id: String,
    #[schemars(range(min = MIN_TOKENS, max = MAX_TOKENS), extend("default" = DEFAULT_TOKENS, "x-clamped" = true))]
    max_tokens: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct FetchOutput {
    id: String,
    title: String,
    text: String,
    url: String,
    metadata: Map<String, Value>,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    next_call: Option<Value>,
}

#[tool_router(router = fetch_router, vis = "pub(crate)")]
impl ToolContext {
    #[tool(
        description = "Text of a section, table, pages or document.",
        output_schema = schema_for_output::<FetchOutput>()
    )]
    async fn fetch(
        &self,
        Parameters(arguments): Parameters<FetchArguments>,
    ) -> ToolOutcome<FetchOutput> {
        let document = self.resolve_document(&arguments.id, None)?;
        let part = document.fragment.as_ref();
        let limit = self.format.limit(arguments.max_tokens);
        if let Some(table @ Fragment::Table(_)) = part {
            let listed = self.listed(&document)?;
            return self.fetch_table(&listed, table, limit).await;
        }
        let (listed, published) = self.load_published(&document).await?;
        let all_pages = part
            .is_none()
            .then(|| PageSpan::new(1, u32::MAX).into_iter().collect());
        let (request, item) = ReadRequest::new(&listed, &published, part, all_pages)?;
        let section = match &request {
            ReadRequest::Section(id, _) => Some(*id),
            ReadRequest::Pages(_) => None,
        };
        let path: Vec<String> = section
            .map(|id| published.tree.path_to(id))
            .unwrap_or_default()
            .iter()
            .map(|section| section.title.clone())
            .collect();
        let title = title(&listed, part, &short_path(&path));
        let read = self.read(&listed, published, request, limit).await?;
        let url = match (section, read.passages.first()) {
            (Some(id), _) => section_address(listed.doc(), id),
            (None, Some(first)) if part.is_some() => page_address(listed.doc(), first.page),
            _ => format!("{SCHEME}{}", listed.doc()),
        };
        Ok(fetch_result(&listed, part, read, title, url, item))
    }
}

impl ToolContext {
    // A table as Markdown.
    async fn fetch_table(
        &self,
        listed: &CatalogDocument,
        part: &Fragment,
        limit: usize,
    ) -> ToolOutcome<FetchOutput> {
        let locator = part_locator(&listed.label, Some(part));
        let found = self.archive.table(&locator).await?;
        let name = name_of(listed);
        let bounds = found.table.bounds();
        let unit = found.table.page_range().map_or("lines", |_| "pages");
        let place = format!("{unit} {}", format_span(bounds));
        let heading = found.table.title.as_deref().unwrap_or(&found.table.id);
        let title = first_chars(&format!("{name} › {heading}"), TITLE_CHARS).to_owned();
        let whole = found.table.to_text();
        let text = truncated(&whole, limit).to_owned();
        let is_truncated = text.len() < whole.len();
        let mut metadata = metadata(listed);
        metadata.insert("document".into(), json!(name));
        metadata.insert(unit.into(), json!(format_span(bounds)));
        metadata.insert("section".into(), json!(found.section));
        metadata.insert("unit".into(), json!(found.table.unit));
        metadata.insert("scale".into(), json!(found.table.scale));
        let summary = format!("{title}: {} rows, {place}", found.table.rows.len());
        let body = delimited(&format!("{name} {place}"), &text);
        let around = match found.table.page_range() {
            Some(pages) => format!("{}#p={}", listed.label, format_span(pages)),
            None => found.section.unwrap_or_else(|| listed.label.clone()),
        };
        let more = is_truncated
            .then(|| format!("The table is cut: a larger max_tokens, or fetch(id: \"{around}\")"));
        let data = FetchOutput {
            id: locator,
            title,
            text,
            url: match found.table.page_range() {
                Some((first, _)) => page_address(listed.doc(), first),
                None => format!("{SCHEME}{}", listed.doc()),
            },
            metadata,
            truncated: is_truncated,
            remaining: None,
            next_call: None,
        };
        let result = ToolResult::new(data, summary).with_text(body);
        Ok(result
            .with_options(more)
            .with_option("Cite the document and the page"))
    }
}

fn title(listed: &CatalogDocument, part: Option<&Fragment>, path: &str) -> String {
    let name = name_of(listed);
    let title = match part {
        None => name.to_owned(),
        Some(_) if !path.is_empty() => format!("{name} › {path}"),
        Some(fragment) => format!("{name} › {fragment}"),
    };
    first_chars(&title, TITLE_CHARS).to_owned()
}

fn fetch_result(
    listed: &CatalogDocument,
    part: Option<&Fragment>,
    read: ReadResult,
    title: String,
    url: String,
    item: Option<ItemInfo>,
) -> ToolResult<FetchOutput> {
    let name = name_of(listed);
    let source = format!("{name} {}s {}", read.unit, read.returned);
    let summary = format!("{title}: {}s {}", read.unit, read.returned);
    let text = read.text();
    let rest = rest_locator(&read, &listed.label, part);
    let mut metadata = metadata(listed);
    metadata.insert("document".into(), json!(name));
    metadata.insert(format!("{}s", read.unit), json!(read.returned));
    if let Some(item) = item {
        metadata.insert("item".into(), json!(item.id.unwrap_or(item.item)));
    }
    if let Some(rest) = &rest {
        metadata.insert("rest".into(), json!(rest));
    }
    let option = rest
        .as_ref()
        .map(|rest| format!("For the rest: fetch(id: \"{rest}\")"));
    let links = read.links(listed.doc());
    let body = delimited(&source, &text);
    let data = FetchOutput {
        id: part_locator(&listed.label, part),
        title,
        text,
        url,
        metadata,
        truncated: read.is_truncated(),
        remaining: read.remaining.filter(|_| rest.is_some()),
        next_call: rest.map(|id| json!({ "tool": "fetch", "arguments": { "id": id } })),
    };
    ToolResult::new(data, summary)
        .with_text(body)
        .with_links(links)
        .with_options(option)
        .with_option("Cite the document and the page")
}

// Pages of a section are fetched whole, so the rest may include text of adjacent sections.
fn rest_locator(read: &ReadResult, label: &str, part: Option<&Fragment>) -> Option<String> {
    let remaining = read.remaining.as_ref()?;
    let pages = format!("p={remaining}").parse::<Fragment>().ok()?;
    (part != Some(&pages)).then(|| part_locator(label, Some(&pages)))
}

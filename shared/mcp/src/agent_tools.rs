//! The server's tools as [`AgentTools`] for agentic answering, limited to the scope of the question.
//!
//! The archive of an agent contains only the documents in scope, so no call can reach others. Results hold names, titles,
//! pages and counts; page text is read only for the answer itself.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use stemma_answers::{SectionRequest, ToolCall, ToolReply, ToolSet};
use stemma_archive::Archive;
use stemma_archive::tree::resolve_section;
use stemma_catalog::locator::{Fragment, parse_pages};
use stemma_document::SectionSpan;
use stemma_engine::Env;
use stemma_retrieval::search::ItemRef;

use crate::arguments::Arguments;
use crate::error::ToolError;
use crate::tool_context::{DocumentRef, ToolContext};
use crate::tools::{self, Preset};
use crate::{
    browse_documents, get_document, get_document_structure, get_page_content, grep_document, search,
};

const MAX_PAGES: usize = 8;
const READ_RESULTS: usize = 3;
const TITLE_CHARS: usize = 160;
const OUTLINE_CHARS: usize = 12_000;

pub(crate) struct AgentTools {
    env: Env,
    archive: Arc<Archive>,
    item: Option<ItemRef>,
}

impl AgentTools {
    pub(crate) fn new(env: Env, archive: Arc<Archive>, item: Option<ItemRef>) -> Self {
        Self { env, archive, item }
    }

    async fn run(&self, call: &ToolCall) -> Result<ToolReply, ToolError> {
        let mut context = ToolContext::for_agent(
            self.env.clone(),
            Arc::clone(&self.archive),
            self.item.clone(),
        );
        let answer =
            tools::call(&mut context, Preset::All, &call.tool, tool_arguments(call)).await?;
        let data = answer.data();
        let ((summary, details), sections) = match call.tool.as_str() {
            search::NAME => (describe_results(data), self.result_sections(&context, data)),
            browse_documents::NAME => (describe_documents(data), Vec::new()),
            get_document::NAME => (describe_document(data), Vec::new()),
            get_document_structure::NAME => ((String::new(), describe_outline(data)), Vec::new()),
            get_page_content::NAME => self.read_pages(&context, call, data).await?,
            grep_document::NAME => self.matching_pages(&context, call, data).await?,
            _ => (Default::default(), Vec::new()),
        };
        let rows = [("results", "id"), ("documents", "name")];
        let names = rows.iter().flat_map(|(rows, name)| {
            list(data, rows)
                .iter()
                .filter_map(|row| row[*name].as_str())
        });
        let documents_seen = names
            .filter_map(|name| Some(context.resolve_document(name, None).ok()?.doc))
            .collect();
        Ok(ToolReply {
            summary,
            data: details,
            documents: documents_seen,
            sections,
            is_rejected: false,
        })
    }

    fn result_sections(
        &self,
        call: &ToolContext<'_>,
        data: &Map<String, Value>,
    ) -> Vec<SectionRequest> {
        list(data, "results")
            .iter()
            .filter_map(|row: &Value| {
                let document = call.resolve_document(row["id"].as_str()?, None).ok()?;
                let Some(Fragment::Section(section)) = document.fragment else {
                    return None;
                };
                let pages = row["page"]
                    .as_u64()
                    .and_then(|page| u32::try_from(page).ok())
                    .into_iter()
                    .collect();
                let score = row["score"].as_f64().unwrap_or_default() as f32;
                let why = row["why"].as_str().unwrap_or_default().to_owned();
                Some(SectionRequest {
                    doc: document.doc,
                    section: Some(section),
                    pages,
                    score,
                    why,
                })
            })
            .take(READ_RESULTS)
            .collect()
    }

    // Only pages within the Item of the question, if it names one.
    async fn read_pages(
        &self,
        context: &ToolContext<'_>,
        call: &ToolCall,
        data: &Map<String, Value>,
    ) -> Result<((String, String), Vec<SectionRequest>), ToolError> {
        let document = context.resolve_document(&call.document, None)?;
        let section = [&call.section]
            .into_iter()
            .find(|text| !text.is_empty())
            .and_then(|text| text.rsplit('#').next()?.parse().ok());
        let section = section.or(match &document.fragment {
            Some(Fragment::Section(id)) => Some(*id),
            _ => None,
        });
        let pages = numbers(data["returned_pages"].as_str().unwrap_or_default());
        let sections = self
            .pages_in_item(context, &document, section, pages)
            .await?;
        let text = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default();
        let remaining = if text("remaining").is_empty() {
            String::new()
        } else {
            format!("; left: {}", text("remaining"))
        };
        Ok((
            (
                format!(
                    "pages {} of {}{remaining}",
                    text("returned_pages"),
                    data["total_pages"]
                ),
                String::new(),
            ),
            sections,
        ))
    }

    async fn matching_pages(
        &self,
        context: &ToolContext<'_>,
        call: &ToolCall,
        data: &Map<String, Value>,
    ) -> Result<((String, String), Vec<SectionRequest>), ToolError> {
        let document = context.resolve_document(&call.document, None)?;
        let rows = list(data, "matches");
        let row = |row: &Value| {
            format!(
                "page {} · {} {}",
                row["page"],
                cut(row, "section_id"),
                cut(row, "title")
            )
        };
        let listing = rows.iter().map(row).collect::<Vec<_>>().join("\n");
        let mut pages: Vec<u32> = Vec::new();
        for page in rows
            .iter()
            .filter_map(|row| row["page"].as_u64())
            .filter_map(|page| u32::try_from(page).ok())
        {
            if !pages.contains(&page) {
                pages.push(page);
            }
        }
        pages.truncate(READ_RESULTS);
        let sections = self.pages_in_item(context, &document, None, pages).await?;
        Ok((
            (format!("{} lines match", data["total"]), listing),
            sections,
        ))
    }

    // A question about one Item may read only the pages of that Item.
    async fn pages_in_item(
        &self,
        context: &ToolContext<'_>,
        document: &DocumentRef,
        section: Option<stemma_document::SectionId>,
        mut pages: Vec<u32>,
    ) -> Result<Vec<SectionRequest>, ToolError> {
        let mut section = section;
        if let Some(ItemRef { part, number }) = &self.item {
            let (listed, published) = context.load_published(document).await?;
            let item = Fragment::Item {
                part: part.clone(),
                number: number.clone(),
            };
            let id = resolve_section(&published.tree, &listed.label, &item)?;
            let inside = section.is_some_and(|section| {
                published
                    .tree
                    .path_to(section)
                    .iter()
                    .any(|above| above.id == id)
            });
            section = if inside { section } else { Some(id) };
            if let Some(SectionSpan::Pages { pages: span, .. }) =
                published.tree.section(id).map(|section| section.span)
            {
                pages.retain(|page| span.start().get() <= *page && *page <= span.end().get());
                if pages.is_empty() {
                    let first = span.start();
                    return Err(ToolError::invalid(format!(
                        "the question is for Item {number}, pages {first} to {}",
                        span.end()
                    )));
                }
            }
        }
        pages.truncate(MAX_PAGES);
        Ok(vec![SectionRequest {
            doc: document.doc,
            section,
            pages,
            score: 1.0,
            why: "asked for".into(),
        }])
    }
}

/// Creates the tools over `archive`, limited to `item` if given.
pub fn agent_tools(env: Env, archive: Arc<Archive>, item: Option<ItemRef>) -> Box<dyn ToolSet> {
    Box::new(AgentTools::new(env, archive, item))
}

#[async_trait]
impl ToolSet for AgentTools {
    fn descriptions(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            (
                search::NAME,
                "query: sections that fit a question, over all documents in scope; the best are read",
            ),
            (
                browse_documents::NAME,
                "query, or nothing: documents in scope",
            ),
            (
                get_document::NAME,
                "document: what it is, and its Items with pages",
            ),
            (
                get_document_structure::NAME,
                "document, section (or nothing): the section tree with pages",
            ),
            (
                get_page_content::NAME,
                "document and pages (5-7,9), section or item: reads them",
            ),
            (
                grep_document::NAME,
                "document, pattern: which pages have lines that match; the first are read",
            ),
        ]
    }

    async fn call(&self, call: &ToolCall) -> ToolReply {
        match self.run(call).await {
            Ok(reply) => reply,
            // The error text names similar documents.
            Err(failure) => ToolReply {
                summary: "this could not be done".into(),
                data: failure.text(),
                is_rejected: failure.is_caller_error(),
                ..ToolReply::default()
            },
        }
    }
}

// Drops empty arguments and those the tool does not accept: models often fill in all fields.
fn tool_arguments(call: &ToolCall) -> Arguments {
    let non_empty = |pairs: &[(&str, &str)]| -> Map<String, Value> {
        let non_empty = pairs.iter().filter(|(_, value)| !value.trim().is_empty());
        non_empty
            .map(|(name, value)| ((*name).to_owned(), json!(value.trim())))
            .collect()
    };
    let document = ("doc_name", call.document.as_str());
    let mut sent = match call.tool.as_str() {
        search::NAME => non_empty(&[("query", &call.query)]),
        browse_documents::NAME => non_empty(&[("query", &call.query)]),
        get_document::NAME => non_empty(&[document]),
        get_document_structure::NAME => non_empty(&[document, ("node_id", &call.section)]),
        get_page_content::NAME => non_empty(&[
            document,
            ("pages", &call.pages),
            ("section_id", &call.section),
            ("item", &call.item),
        ]),
        grep_document::NAME => non_empty(&[document, ("pattern", &call.pattern)]),
        _ => Map::new(),
    };
    if call.tool == get_document_structure::NAME {
        sent.insert("format".into(), json!("outline"));
    }
    if call.tool == browse_documents::NAME {
        sent.insert("recursive".into(), json!(true));
    }
    if call.tool == grep_document::NAME {
        sent.insert("ignore_case".into(), json!(true));
    }
    Arguments::new(Some(sent))
}

fn describe_results(data: &Map<String, Value>) -> (String, String) {
    let rows = list(data, "results");
    (
        format!("{} sections fit", rows.len()),
        rows.iter()
            .map(|row: &Value| {
                format!(
                    "{} · {} · page {} · {}",
                    cut(row, "id"),
                    cut(row, "title"),
                    row["page"],
                    row["score"]
                )
            })
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

fn describe_documents(data: &Map<String, Value>) -> (String, String) {
    let rows: Vec<String> = list(data, "documents")
        .iter()
        .map(|row: &Value| {
            let fact = |name: &str| {
                row["metadata"][name]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            let facts = [fact("company"), fact("form"), fact("fiscal_year")].join(" ");
            format!(
                "{} · {} pages · {facts}",
                cut(row, "name"),
                row["page_count"]
            )
        })
        .collect();
    (format!("{} documents", data["total"]), rows.join("\n"))
}

fn describe_document(data: &Map<String, Value>) -> (String, String) {
    let rows: Vec<String> = list(data, "items")
        .iter()
        .map(|row: &Value| {
            format!(
                "Item {} {} · pages {} · {} tokens",
                cut(row, "item"),
                cut(row, "title"),
                cut(row, "pages"),
                row["tokens"]
            )
        })
        .collect();
    (format!("{} pages", data["page_count"]), rows.join("\n"))
}

fn describe_outline(data: &Map<String, Value>) -> String {
    let text = data["structure"].as_str().unwrap_or_default();
    text[..text.floor_char_boundary(OUTLINE_CHARS)].to_owned()
}

fn list<'a>(data: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    data.get(name)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn cut(row: &Value, name: &str) -> String {
    row[name]
        .as_str()
        .unwrap_or_default()
        .chars()
        .take(TITLE_CHARS)
        .collect()
}

fn numbers(pages: &str) -> Vec<u32> {
    let spans = parse_pages(pages).unwrap_or_default();
    spans
        .iter()
        .flat_map(|span| span.pages())
        .map(|page| page.get())
        .take(MAX_PAGES)
        .collect()
}

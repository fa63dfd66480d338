//! The server's tools as [`ToolSet`] for agentic answering, limited to the scope of the question.
//!
//! The archive of an agent contains only the documents in scope, so no call can reach others. Results hold names, titles,
//! pages and counts; page text is read only for the answer itself.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use rmcp::handler::server::wrapper::Parameters;
use serde_json::json;
use stemma_answers::{SectionRequest, ToolCall, ToolReply, ToolSet};
use stemma_archive::Archive;
use stemma_archive::tree::resolve_section;
use stemma_catalog::locator::{Fragment, parse_pages};
use stemma_document::{SectionId, SectionSpan};
use stemma_reading::tokenizer::content_words;
use stemma_retrieval::search::ItemRef;
use stemma_store::Env;

use crate::arguments::parse;
use crate::error::{ToolError, ToolErrorKind};
use crate::get_document_structure::Structure;
use crate::grep_document::MatchRow;
use crate::tool_context::{DocumentRef, ToolContext};
use crate::tool_result::first_chars;

const MAX_PAGES: usize = 8;
const TITLE_CHARS: usize = 160;
// An outline stays in the prompts of all later turns.
const OUTLINE_BYTES: usize = 6_000;
// Matching lines that are counted, and pages that are listed and read.
const GREP_LINES: usize = 200;
const GREP_PAGES: usize = 30;
const GREP_READ_PAGES: usize = 2;
// A shorter section is a running head or a caption: its page is read instead.
const STUB_TOKENS: u32 = 100;

struct AgentTools {
    context: ToolContext,
}

/// Creates the tools over `archive`, limited to `item` if given.
pub fn agent_tools(env: Env, archive: Arc<Archive>, item: Option<ItemRef>) -> Box<dyn ToolSet> {
    let context = ToolContext {
        item,
        ..ToolContext::new(env, archive)
    };
    Box::new(AgentTools { context })
}

#[async_trait]
impl ToolSet for AgentTools {
    fn descriptions(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            (
                "search",
                "query, document (or nothing): sections that fit a question; the best that were not read yet are read",
            ),
            ("browse_documents", "query, or nothing: documents in scope"),
            (
                "get_document",
                "document: what it is, and its Items with pages",
            ),
            (
                "get_document_structure",
                "document, section (or nothing): the section tree with pages",
            ),
            (
                "get_page_content",
                "document and pages (5-7,9), section or item: reads them",
            ),
            (
                "grep_document",
                "document, pattern, query: pages with lines that match, those with most words of the query first; two are read",
            ),
        ]
    }

    async fn call(&self, call: &ToolCall) -> ToolReply {
        // Models often fill in all fields, so each tool gets only its own arguments.
        let reply = match call.tool.as_str() {
            "search" => self.search(call).await,
            "browse_documents" => self.browse_documents(call).await,
            "get_document" => self.get_document(call).await,
            "get_document_structure" => self.get_document_structure(call).await,
            "get_page_content" => self.get_page_content(call).await,
            "grep_document" => self.grep_document(call).await,
            name => Err(self.unknown_tool(name)),
        };
        // The error text names similar documents.
        reply.unwrap_or_else(|error| ToolReply {
            summary: "the call failed".into(),
            data: error.text(),
            is_rejected: error.is_caller_error(),
            ..ToolReply::default()
        })
    }
}

impl AgentTools {
    fn unknown_tool(&self, name: &str) -> ToolError {
        let names = self.descriptions().into_iter().map(|(name, _)| name);
        let names = names.collect::<Vec<_>>().join(", ");
        let message = format!("there is no tool `{}`", first_chars(name, 60));
        ToolError::new(ToolErrorKind::InvalidInput, "tool.unknown", message)
            .with_option(format!("Tools are: {names}"))
    }

    async fn search(&self, call: &ToolCall) -> Result<ToolReply, ToolError> {
        let arguments = parse(json!({ "query": call.query, "scope": call.document }))?;
        let found = self.context.search(Parameters(arguments)).await?.data;
        let sections = found.hits.iter().zip(&found.results);
        let sections = sections.map(|(hit, row)| SectionRequest {
            doc: hit.doc_id,
            section: Some(hit.section_id),
            pages: row.page.into_iter().collect(),
            score: hit.score as f32,
            why: hit.why.clone(),
            excerpt: Some(hit.excerpt.clone()),
        });
        let rows = found.results.iter().map(|row| {
            format!(
                "{} · {} · page {} · {:?}",
                first_chars(&row.id, TITLE_CHARS),
                first_chars(&row.title, TITLE_CHARS),
                or_null(row.page),
                row.score
            )
        });
        Ok(ToolReply {
            summary: format!("{} sections fit", found.results.len()),
            data: rows.collect::<Vec<_>>().join("\n"),
            documents: found.hits.iter().map(|hit| hit.doc_id).collect(),
            sections: sections.collect(),
            is_rejected: false,
        })
    }

    async fn browse_documents(&self, call: &ToolCall) -> Result<ToolReply, ToolError> {
        let arguments = parse(json!({ "query": call.query, "recursive": true }))?;
        let browsed = self.context.browse_documents(Parameters(arguments)).await?;
        let rows = browsed.data.documents.iter().map(|row| {
            let facts = ["company", "form", "fiscal_year"].map(|name| row.fact(name));
            format!(
                "{} · {} pages · {}",
                first_chars(&row.name, TITLE_CHARS),
                or_null(row.page_count),
                facts.join(" ")
            )
        });
        Ok(ToolReply {
            summary: format!("{} documents", browsed.data.total),
            data: rows.collect::<Vec<_>>().join("\n"),
            documents: browsed.data.documents.iter().map(|row| row.id).collect(),
            ..ToolReply::default()
        })
    }

    async fn get_document(&self, call: &ToolCall) -> Result<ToolReply, ToolError> {
        let arguments = parse(json!({ "doc_name": call.document }))?;
        let document = self.context.get_document(Parameters(arguments)).await?.data;
        let rows = document.items.iter().map(|row| {
            format!(
                "Item {} {} · pages {} · {} tokens",
                first_chars(&row.item, TITLE_CHARS),
                row.title,
                row.pages.as_deref().unwrap_or_default(),
                row.tokens
            )
        });
        Ok(ToolReply {
            summary: format!("{} pages", or_null(document.page_count)),
            data: rows.collect::<Vec<_>>().join("\n"),
            ..ToolReply::default()
        })
    }

    async fn get_document_structure(&self, call: &ToolCall) -> Result<ToolReply, ToolError> {
        let arguments = parse(json!({
            "doc_name": call.document, "node_id": call.section, "format": "outline"
        }))?;
        let tree = self
            .context
            .get_document_structure(Parameters(arguments))
            .await?;
        let outline = match tree.data.structure {
            Structure::Outline(outline) => outline,
            Structure::Nodes(_) | Structure::Tables(_) => String::new(),
        };
        let head = &outline[..outline.floor_char_boundary(OUTLINE_BYTES)];
        let lines = head.lines().count();
        let summary = match outline.lines().count() {
            all if all > lines => format!("{lines} of {all} lines; give a section to see its own"),
            all => format!("{all} lines"),
        };
        Ok(ToolReply {
            summary,
            data: head.to_owned(),
            ..ToolReply::default()
        })
    }

    async fn get_page_content(&self, call: &ToolCall) -> Result<ToolReply, ToolError> {
        let arguments = parse(json!({
            "doc_name": call.document, "pages": call.pages, "section_id": call.section, "item": call.item
        }))?;
        let read = self
            .context
            .get_page_content(Parameters(arguments))
            .await?
            .data;
        let document = self.context.resolve_document(&call.document, None)?;
        let section = call.section.rsplit('#').next();
        let section = section.and_then(|id| id.parse().ok());
        let section = section.or(match &document.fragment {
            Some(Fragment::Section(id)) => Some(*id),
            _ => None,
        });
        let spans = parse_pages(&read.returned_pages).unwrap_or_default();
        let pages = spans.iter().flat_map(|span| span.pages());
        let pages = pages.map(|page| page.get()).take(MAX_PAGES).collect();
        let remaining = read.remaining.map(|pages| format!("; left: {pages}"));
        Ok(ToolReply {
            summary: format!(
                "pages {} of {}{}",
                read.returned_pages,
                read.total_pages,
                remaining.unwrap_or_default()
            ),
            sections: vec![self.section_request(&document, section, pages).await?],
            ..ToolReply::default()
        })
    }

    async fn grep_document(&self, call: &ToolCall) -> Result<ToolReply, ToolError> {
        let arguments = parse(json!({
            "doc_name": call.document, "pattern": call.pattern, "ignore_case": true, "limit": GREP_LINES
        }))?;
        let found = self
            .context
            .grep_document(Parameters(arguments))
            .await?
            .data;
        let document = self.context.resolve_document(&call.document, None)?;
        let pages = MatchedPage::ranked(&found.matches, &call.query);
        let rows = pages.iter().take(GREP_PAGES).map(MatchedPage::row);
        let read = pages.iter().filter_map(|page| page.number);
        let read = read.take(GREP_READ_PAGES).collect();
        Ok(ToolReply {
            summary: format!("{} lines match on {} pages", found.total, pages.len()),
            data: rows.collect::<Vec<_>>().join("\n"),
            sections: vec![self.section_request(&document, None, read).await?],
            ..ToolReply::default()
        })
    }

    // A question about one Item may read only the pages of that Item.
    async fn section_request(
        &self,
        document: &DocumentRef,
        mut section: Option<SectionId>,
        mut pages: Vec<u32>,
    ) -> Result<SectionRequest, ToolError> {
        if let (Some(id), None) = (section, &self.context.item) {
            let (_, published) = self.context.load_published(document).await?;
            let found = published.tree.section(id);
            section = section.filter(|_| found.is_none_or(|found| found.tokens >= STUB_TOKENS));
        }
        if let Some(ItemRef { part, number }) = &self.context.item {
            let (listed, published) = self.context.load_published(document).await?;
            let tree = &published.tree;
            let item = Fragment::Item {
                part: part.clone(),
                number: number.clone(),
            };
            let id = resolve_section(tree, &listed.label, &item)?;
            section = section.filter(|section| {
                let path = tree.path_to(*section);
                path.iter().any(|ancestor| ancestor.id == id)
            });
            section = section.or(Some(id));
            if let Some(SectionSpan::Pages { pages: span, .. }) =
                tree.section(id).map(|section| section.span)
            {
                pages.retain(|page| span.start().get() <= *page && *page <= span.end().get());
                if pages.is_empty() {
                    return Err(ToolError::invalid(format!(
                        "the question is for Item {number}, pages {} to {}",
                        span.start(),
                        span.end()
                    )));
                }
            }
        }
        Ok(SectionRequest {
            doc: document.doc,
            section,
            pages,
            score: 1.0,
            why: "asked for".into(),
            excerpt: None,
        })
    }
}

// A page with matching lines. In a text without pages, all lines are of one.
struct MatchedPage<'a> {
    number: Option<u32>,
    // Distinct words of the query in the lines.
    words: BTreeSet<String>,
    lines: usize,
    first: &'a MatchRow,
}

impl<'a> MatchedPage<'a> {
    // Pages with most words of the query first, then with most lines, then in their order.
    fn ranked(matches: &'a [MatchRow], query: &str) -> Vec<Self> {
        let query: BTreeSet<String> = content_words(query).into_iter().collect();
        let mut pages: Vec<Self> = Vec::new();
        for row in matches {
            let at = pages.iter().position(|page| page.number == row.page);
            let at = at.unwrap_or_else(|| {
                pages.push(MatchedPage {
                    number: row.page,
                    words: BTreeSet::new(),
                    lines: 0,
                    first: row,
                });
                pages.len() - 1
            });
            let words = content_words(&row.text).into_iter();
            pages[at]
                .words
                .extend(words.filter(|word| query.contains(word)));
            pages[at].lines += 1;
        }
        pages.sort_by_key(|page| Reverse((page.words.len(), page.lines)));
        pages
    }

    fn row(&self) -> String {
        format!(
            "page {} · {} lines · {} {}",
            or_null(self.number),
            self.lines,
            self.first.section_id,
            self.first.title
        )
    }
}

// A number as in JSON.
fn or_null(number: Option<u32>) -> String {
    number.map_or_else(|| "null".into(), |number| number.to_string())
}

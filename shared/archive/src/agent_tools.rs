//! The tools of an agent that answers a question.
//!
//! Their archive has only the documents in scope of the question, so no call can reach others. Replies have names, titles,
//! pages and counts; page text is read only for the answer itself.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use stemma_answers::{SectionRequest, ToolCall, ToolReply, ToolSet};
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::{Fragment, format_pages, parse_pages};
use stemma_catalog::property::Property;
use stemma_catalog::short_path::short_path;
use stemma_document::{Extent, PageSpan, PublishedTree, SectionId};
use stemma_reading::tokenizer::content_words;
use stemma_retrieval::search::ItemRef;

use crate::pageindex_fields::{name_of, page_count, sort_date};
use crate::tree::resolve_section;
use crate::{
    ApiError, Archive, BrowseRequest, GrepHit, GrepOptions, ListRequest, ReadRequest,
    SearchRequest, TreeRequest, is_store_error,
};

const MAX_HITS: usize = 10;
const MAX_DOCUMENTS: usize = 10;
const MAX_ITEMS: usize = 60;
const MAX_PAGES: usize = 8;
const TITLE_CHARS: usize = 160;
// An outline stays in the prompts of all later turns.
const OUTLINE_BYTES: usize = 6_000;
// Matching lines that are counted and that are ranked, and pages that are listed and read.
const GREP_COUNTED: usize = 10_000;
const GREP_LINES: usize = 200;
const GREP_PAGES: usize = 30;
const GREP_READ_PAGES: usize = 2;
// A shorter section is a running head or a caption: its page is read instead.
const STUB_TOKENS: u32 = 100;

/// [`ToolSet`] over an archive, limited to an Item if the question is.
pub struct AgentTools {
    archive: Arc<Archive>,
    item: Option<ItemRef>,
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
        // Models often fill in all fields, so each tool reads only its own arguments.
        let reply = match call.tool.as_str() {
            "search" => self.search(call).await,
            "browse_documents" => self.browse_documents(call).await,
            "get_document" => self.get_document(call).await,
            "get_document_structure" => self.get_document_structure(call).await,
            "get_page_content" => self.get_page_content(call).await,
            "grep_document" => self.grep_document(call).await,
            name => Err(self.unknown_tool(name)),
        };
        reply.unwrap_or_else(|error| failed(&error))
    }
}

impl AgentTools {
    pub fn new(archive: Arc<Archive>, item: Option<ItemRef>) -> Self {
        Self { archive, item }
    }

    fn unknown_tool(&self, name: &str) -> ApiError {
        let names: Vec<&str> = self
            .descriptions()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let name = shortened(name);
        let names = names.join(", ");
        ApiError::invalid(format!("there is no tool `{name}`; tools are {names}"))
    }

    async fn search(&self, call: &ToolCall) -> Result<ToolReply, ApiError> {
        let request = SearchRequest {
            query: required("query", &call.query)?,
            scopes: stated(&call.document).into_iter().collect(),
            item: self.item.as_ref().map(|item| match &item.part {
                Some(part) => format!("{part}.{}", item.number),
                None => item.number.clone(),
            }),
            limit: Some(MAX_HITS),
            ..SearchRequest::default()
        };
        let hits = self.archive.search(&request).await?.hits;
        let sections = hits.iter().map(|hit| SectionRequest {
            doc: hit.doc_id,
            section: Some(hit.section_id),
            pages: hit.first_page().into_iter().collect(),
            score: hit.score as f32,
            why: hit.why.clone(),
            excerpt: Some(hit.excerpt.clone()),
        });
        let rows = hits.iter().map(|hit| {
            let title = format!("{} › {}", hit.name, short_path(&hit.path));
            format!(
                "{} · {} · page {} · {:?}",
                shortened(&hit.locator),
                shortened(&title),
                or_null(hit.first_page()),
                hit.score
            )
        });
        Ok(ToolReply {
            summary: format!("{} sections fit", hits.len()),
            data: rows.collect::<Vec<_>>().join("\n"),
            documents: hits.iter().map(|hit| hit.doc_id).collect(),
            sections: sections.collect(),
            is_rejected: false,
        })
    }

    async fn browse_documents(&self, call: &ToolCall) -> Result<ToolReply, ApiError> {
        let mut documents = self.documents(stated(&call.query)).await?;
        let summary = format!("{} documents", documents.len());
        documents.truncate(MAX_DOCUMENTS);
        let rows = documents.iter().map(|listed| {
            let facts = [Property::Company, Property::Form, Property::FiscalYear]
                .map(|fact| shortened(fact.values(listed).first().copied().unwrap_or_default()));
            format!(
                "{} · {} pages · {}",
                shortened(name_of(listed)),
                or_null(page_count(listed)),
                facts.join(" ")
            )
        });
        Ok(ToolReply {
            summary,
            data: rows.collect::<Vec<_>>().join("\n"),
            documents: documents.iter().map(|listed| listed.doc()).collect(),
            ..ToolReply::default()
        })
    }

    // The documents that fit a query best, or all with the newest first.
    async fn documents(
        &self,
        query: Option<String>,
    ) -> Result<Vec<Arc<CatalogDocument>>, ApiError> {
        let Some(query) = query else {
            let request = ListRequest {
                recursive: true,
                ..ListRequest::new("/")
            };
            let mut documents = self.archive.folder(&request)?.documents;
            documents.sort_by_cached_key(|listed| Reverse(sort_date(listed)));
            return Ok(documents);
        };
        let request = BrowseRequest {
            query,
            recursive: true,
            ..BrowseRequest::default()
        };
        let found = self.archive.browse(&request).await?.documents;
        let documents = found
            .iter()
            .filter_map(|hit| self.archive.catalog.get(hit.best.doc_id).transpose());
        Ok(documents.collect::<Result<_, _>>()?)
    }

    async fn get_document(&self, call: &ToolCall) -> Result<ToolReply, ApiError> {
        let (listed, _) = self.document(call)?;
        let items = match listed.entry() {
            Some(_) => self.archive.items(&listed.label).await?.items,
            None => Vec::new(),
        };
        let rows = items.iter().take(MAX_ITEMS).map(|item| {
            let part = item.part.as_ref().map(|part| format!("{part}."));
            let pages = item
                .pages
                .and_then(|(start, end)| PageSpan::new(start, end));
            format!(
                "Item {}{} {} · pages {} · {} tokens",
                part.unwrap_or_default(),
                shortened(&item.item),
                shortened(&item.title),
                pages
                    .map(|pages| format_pages(&[pages]))
                    .unwrap_or_default(),
                item.tokens
            )
        });
        Ok(ToolReply {
            summary: format!("{} pages", or_null(page_count(&listed))),
            data: rows.collect::<Vec<_>>().join("\n"),
            ..ToolReply::default()
        })
    }

    async fn get_document_structure(&self, call: &ToolCall) -> Result<ToolReply, ApiError> {
        let (listed, in_name) = self.document(call)?;
        let part = stated_part(&call.section)?.or(in_name);
        let request = TreeRequest {
            locator: part_locator(&listed, part.as_ref()),
            ..TreeRequest::default()
        };
        let rows = self.archive.tree(&request).await?.sections;
        let outline: Vec<String> = rows.iter().map(|row| row.outline_line()).collect();
        let outline = outline.join("\n");
        let data = &outline[..outline.floor_char_boundary(OUTLINE_BYTES)];
        let summary = match data.lines().count() {
            shown if shown < rows.len() => format!(
                "{shown} of {} lines; give a section to see its own",
                rows.len()
            ),
            shown => format!("{shown} lines"),
        };
        Ok(ToolReply {
            summary,
            data: data.to_owned(),
            ..ToolReply::default()
        })
    }

    async fn get_page_content(&self, call: &ToolCall) -> Result<ToolReply, ApiError> {
        let (listed, in_name) = self.document(call)?;
        let part = match (stated_part(&call.section)?, stated_part(&call.item)?) {
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid("give a section or an item, not both"));
            }
            (section, item) => section.or(item).or(in_name),
        };
        let pages = stated(&call.pages)
            .map(|pages| {
                let spans = parse_pages(&pages);
                spans.ok_or_else(|| ApiError::invalid("pages are written 5, 5-10 or 1-3,7,9-12"))
            })
            .transpose()?;
        if part.is_none() && pages.is_none() {
            return Err(ApiError::invalid(
                "state what to read: pages, a section or an item",
            ));
        }
        let published = self.archive.require_tree(&listed).await?;
        let section = match &part {
            Some(Fragment::Section(id)) => Some(*id),
            _ => None,
        };
        let (request, _) = ReadRequest::new(&listed, &published, part.as_ref(), pages)?;
        let requested = request.pages(&published.tree)?;
        let spans = &requested.inside;
        if spans.is_empty() {
            return Err(requested.none_exists(&listed.label));
        }
        // A text without pages is read by its section.
        let read: Vec<u32> = match published.tree.extent {
            Extent::Pages(_) => {
                let pages = spans.iter().flat_map(|span| span.pages());
                pages.map(|page| page.get()).take(MAX_PAGES).collect()
            }
            Extent::Lines(_) => Vec::new(),
        };
        let last = read.last().copied().unwrap_or(requested.total);
        let pages = format_pages(&PageSpan::clipped(spans, 1, last));
        let rest = match PageSpan::clipped(spans, last + 1, u32::MAX).as_slice() {
            [] => String::new(),
            rest => format!("; left: {}", format_pages(rest)),
        };
        Ok(ToolReply {
            summary: format!("{}s {pages} of {}{rest}", requested.unit, requested.total),
            sections: vec![self.section_request(&listed, &published, section, read)?],
            ..ToolReply::default()
        })
    }

    async fn grep_document(&self, call: &ToolCall) -> Result<ToolReply, ApiError> {
        let (listed, part) = self.document(call)?;
        let scope = part_locator(&listed, part.as_ref());
        let mut options = GrepOptions {
            pattern: required("pattern", &call.pattern)?,
            ignore_case: true,
            fixed: false,
            limit: GREP_COUNTED,
        };
        let mut found = self.archive.grep(&scope, &options).await;
        // A model may write a text that is not a regular expression.
        if matches!(&found, Err(error) if error.code == "grep.pattern_invalid") {
            options.fixed = true;
            found = self.archive.grep(&scope, &options).await;
        }
        let hits = found?.hits;
        let pages = MatchedPage::ranked(&hits[..hits.len().min(GREP_LINES)], &call.query);
        let rows = pages.iter().take(GREP_PAGES).map(MatchedPage::row);
        let read = pages.iter().filter_map(|page| page.number);
        let read = read.take(GREP_READ_PAGES).collect();
        let published = self.archive.require_tree(&listed).await?;
        Ok(ToolReply {
            summary: format!("{} lines match on {} pages", hits.len(), pages.len()),
            data: rows.collect::<Vec<_>>().join("\n"),
            sections: vec![self.section_request(&listed, &published, None, read)?],
            ..ToolReply::default()
        })
    }

    fn document(
        &self,
        call: &ToolCall,
    ) -> Result<(Arc<CatalogDocument>, Option<Fragment>), ApiError> {
        self.archive.locate(&required("document", &call.document)?)
    }

    // A question about one Item may read only the pages of that Item.
    fn section_request(
        &self,
        listed: &CatalogDocument,
        published: &PublishedTree,
        section: Option<SectionId>,
        mut pages: Vec<u32>,
    ) -> Result<SectionRequest, ApiError> {
        let tree = &published.tree;
        let section = match &self.item {
            None => section.filter(|id| {
                let found = tree.section(*id);
                found.is_none_or(|found| found.tokens >= STUB_TOKENS)
            }),
            Some(ItemRef { part, number }) => {
                let item = Fragment::Item {
                    part: part.clone(),
                    number: number.clone(),
                };
                let id = resolve_section(tree, &listed.label, &item)?;
                if let Some(span) = tree.section(id).and_then(|section| section.span.pages()) {
                    let (start, end) = span.bounds();
                    pages.retain(|page| (start..=end).contains(page));
                    if pages.is_empty() {
                        return Err(ApiError::invalid(format!(
                            "the question is for Item {number}, pages {start} to {end}"
                        )));
                    }
                }
                let path = section
                    .map(|section| tree.path_to(section))
                    .unwrap_or_default();
                let is_below = path.iter().any(|ancestor| ancestor.id == id);
                section.filter(|_| is_below).or(Some(id))
            }
        };
        Ok(SectionRequest {
            doc: listed.doc(),
            section,
            pages,
            score: 1.0,
            why: "asked for".into(),
            excerpt: None,
        })
    }
}

// The error as the model reads it. Its next step is a command, which a model cannot run.
fn failed(error: &ApiError) -> ToolReply {
    let is_store = is_store_error(error.code);
    let mut data = match is_store {
        // Errors of the store may have keys and addresses, so only the log gets them.
        true => {
            tracing::warn!(%error, "a tool of an agent failed");
            "the store cannot be read".to_owned()
        }
        false => error.message.clone(),
    };
    if !error.candidates.is_empty() {
        data.push_str(&format!("\n- Use one of: {}", error.candidates.join(", ")));
    }
    ToolReply {
        summary: "the call failed".into(),
        data,
        is_rejected: !is_store && !matches!(error.code, "server.busy" | "document.no_tree"),
        ..ToolReply::default()
    }
}

// Models fill in arguments that they do not need with blanks.
fn stated(argument: &str) -> Option<String> {
    Some(argument.trim())
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

fn required(name: &str, argument: &str) -> Result<String, ApiError> {
    stated(argument).ok_or_else(|| ApiError::invalid(format!("`{name}` is missing")))
}

// A section or an Item, also with its document: `3M_2022_10K#0019`.
fn stated_part(argument: &str) -> Result<Option<Fragment>, ApiError> {
    let Some(text) = stated(argument) else {
        return Ok(None);
    };
    let part = text.rsplit('#').next().unwrap_or_default();
    part.parse().map(Some).map_err(|()| {
        let text = shortened(&text);
        ApiError::invalid(format!(
            "`{text}` names no part of a document: a section is like 0007, an Item like 1A, II.1A or risk-factors"
        ))
    })
}

fn part_locator(listed: &CatalogDocument, part: Option<&Fragment>) -> String {
    match part {
        Some(part) => format!("{}#{part}", listed.label),
        None => listed.label.clone(),
    }
}

// A page with matching lines. In a text without pages, all lines are of one.
struct MatchedPage<'a> {
    number: Option<u32>,
    // Distinct words of the query in the lines.
    words: BTreeSet<String>,
    lines: usize,
    first: &'a GrepHit,
}

impl<'a> MatchedPage<'a> {
    // Pages with most words of the query first, then with most lines, then in their order.
    fn ranked(hits: &'a [GrepHit], query: &str) -> Vec<Self> {
        let query: BTreeSet<String> = content_words(query).into_iter().collect();
        let mut pages: Vec<Self> = Vec::new();
        for hit in hits {
            let at = pages.iter().position(|page| page.number == hit.page);
            let at = at.unwrap_or_else(|| {
                pages.push(MatchedPage {
                    number: hit.page,
                    words: BTreeSet::new(),
                    lines: 0,
                    first: hit,
                });
                pages.len() - 1
            });
            let words = content_words(&hit.text).into_iter();
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
            shortened(&self.first.title)
        )
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(TITLE_CHARS).collect()
}

// A number as in JSON.
fn or_null(number: Option<u32>) -> String {
    number.map_or_else(|| "null".into(), |number| number.to_string())
}

//! Reads pages, sections and Items within a token limit, cut at page or section boundaries, and reports the rest.
//!
//! In documents without pages, numbers are line numbers, as in PageIndex for Markdown.

use std::sync::Arc;

use rmcp::model::Resource;
use schemars::JsonSchema;
use serde::Serialize;
use stemma_archive::archive::{no_text, spawn_cancellable};
use stemma_archive::documents::{PageRecognition, printed_label};
use stemma_archive::grep::page_label;
use stemma_archive::pageindex_fields::name_of;
use stemma_archive::{ReadRequest, RequestedPages};
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::format_pages;
use stemma_document::{
    DocId, Extent, Page, PageNo, PageSpan, PublishedTree, Section, SectionTree, SourceBody,
    text::{self, BodyLine},
};
use stemma_extract::EncodedSource;
use stemma_store::work::{self, Cancellation};

use crate::error::ToolError;
use crate::tool_context::{ToolContext, link, page_address};
use crate::tool_result::{token_cost, truncated};

const PAGES_PER_READ: u32 = 64;
const MAX_LINKS: usize = 3;
// Tokens of the markup around a passage.
const PASSAGE_OVERHEAD_TOKENS: usize = 24;
// Words in doubt that a page lists. A page with more is bad as a whole, which its confidence says.
const MAX_DOUBTFUL: usize = 20;

/// Text of one page, or of one section in a document without pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct TextPassage {
    // Physical page from 1, or first line in a document without pages.
    pub(crate) page: u32,
    // Last line, in a document without pages.
    #[serde(skip)]
    last_line: Option<u32>,
    // Printed page number if it differs; `lines 5-80` in a document without pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    text: String,
    // How its page was read, if text recognition read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    ocr: Option<PageRecognition>,
    // Whether the passage alone exceeds the limit and is truncated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub(crate) cut: bool,
}

impl TextPassage {
    fn new(page: u32, label: Option<String>, text: String) -> Self {
        Self {
            page,
            last_line: None,
            label,
            text,
            ocr: None,
            cut: false,
        }
    }

    // What a reader of the text has to know of where it comes from; nothing if the file states it.
    fn origin(&self) -> String {
        let Some(ocr) = &self.ocr else {
            return String::new();
        };
        let confidence = ocr.confidence;
        let doubtful = match ocr.doubtful.as_slice() {
            [] => String::new(),
            words => format!("; in doubt: {}", words.join(" ")),
        };
        format!(", read by OCR, confidence {confidence}%{doubtful}")
    }

    // Tokens of everything but the text.
    fn overhead_tokens(&self) -> usize {
        PASSAGE_OVERHEAD_TOKENS + token_cost(&self.origin())
    }
}

#[derive(Debug)]
pub(crate) struct ReadResult {
    pub(crate) passages: Vec<TextPassage>,
    /// Requested and existing: `5-7,9`.
    pub(crate) requested: String,
    pub(crate) returned: String,
    /// Left out because of the token limit.
    pub(crate) remaining: Option<String>,
    /// Requested but not in the document.
    pub(crate) out_of_range: Option<String>,
    /// Number of pages, or lines.
    pub(crate) total: u32,
    /// `page` or `line`.
    pub(crate) unit: &'static str,
}

impl ReadResult {
    pub(crate) fn is_truncated(&self) -> bool {
        self.remaining.is_some() || self.passages.iter().any(|passage| passage.cut)
    }

    /// All passages, each with its page.
    pub(crate) fn text(&self) -> String {
        let passages = self.passages.iter().map(|passage| {
            let label = passage
                .label
                .as_ref()
                .map(|label| format!(" ({label})"))
                .unwrap_or_default();
            let origin = passage.origin();
            let cut = if passage.cut { "\n[cut here]" } else { "" };
            format!(
                "[{} {}{label}{origin}]\n{}{cut}",
                self.unit, passage.page, passage.text
            )
        });
        passages.collect::<Vec<_>>().join("\n")
    }

    /// Links to the first pages.
    pub(crate) fn links(&self, doc: DocId) -> Vec<Resource> {
        self.passages
            .iter()
            .map(|passage| passage.page)
            .filter(|_| self.unit == "page")
            .take(MAX_LINKS)
            .map(|page| link(page_address(doc, page), &format!("page {page}")))
            .collect()
    }
}

impl ToolContext {
    /// Reads the requested text up to `limit` tokens.
    pub(crate) async fn read(
        &self,
        listed: &CatalogDocument,
        published: Arc<PublishedTree>,
        request: ReadRequest,
        limit: usize,
    ) -> Result<ReadResult, ToolError> {
        let requested = request.pages(&published.tree)?;
        if requested.inside.is_empty() {
            let RequestedPages { total, unit, .. } = requested;
            return Err(ToolError::from(requested.none_exists(name_of(listed)))
                .with_option(format!("Ask for {unit}s between 1 and {total}")));
        }
        let RequestedPages {
            inside: spans,
            outside: out_of_range,
            total,
            unit,
        } = requested;
        let Some(packed) = self.archive.load_source(&published).await? else {
            return Err(no_text(listed).into());
        };
        let requested = spans.clone();
        work::reserve(packed.raw_bytes()).await?;
        let passages = spawn_cancellable(move |cancelled| {
            let buffer = PassageBuffer::new(limit, cancelled.clone());
            read_passages(packed, &published.tree, &request, &requested, buffer)
        });
        let passages = passages.await?.map_err(|error| {
            tracing::warn!(%error, "a text cannot be unpacked");
            ToolError::from(no_text(listed))
        })?;
        let last = passages
            .last()
            .map_or(0, |last| last.last_line.unwrap_or(last.page));
        // Empty pages count as read.
        let last = if passages.is_empty() { total } else { last };
        let returned = PageSpan::clipped(&spans, 1, last);
        let remaining = PageSpan::clipped(&spans, last + 1, u32::MAX);
        Ok(ReadResult {
            passages,
            requested: format_pages(&spans),
            returned: format_pages(&returned),
            remaining: (!remaining.is_empty()).then(|| format_pages(&remaining)),
            out_of_range,
            total,
            unit,
        })
    }
}

// Collects passages up to the limit. The first one is always included, so that every read makes progress.
struct PassageBuffer {
    limit: usize,
    used: usize,
    passages: Vec<TextPassage>,
    cancelled: Cancellation,
}

impl PassageBuffer {
    fn new(limit: usize, cancelled: Cancellation) -> Self {
        Self {
            limit,
            used: 0,
            passages: Vec::new(),
            cancelled,
        }
    }

    // False if the limit is reached, or nobody waits for the passages any more.
    fn push(&mut self, mut passage: TextPassage) -> bool {
        if self.cancelled.is_set() {
            return false;
        }
        let size = token_cost(&passage.text) + passage.overhead_tokens();
        if self.used + size <= self.limit {
            self.used += size;
            self.passages.push(passage);
            return true;
        }
        if self.passages.is_empty() {
            self.shorten(&mut passage);
            self.passages.push(passage);
        }
        false
    }

    fn shorten(&self, passage: &mut TextPassage) {
        let overhead = passage.overhead_tokens();
        let mut limit = self.limit.saturating_sub(overhead);
        let whole = std::mem::take(&mut passage.text);
        let truncated_text = loop {
            let truncated_text = truncated(&whole, limit);
            if token_cost(&truncated_text) + overhead <= self.limit || limit <= 1 {
                break truncated_text;
            }
            limit = limit * 4 / 5;
        };
        passage.text = truncated_text.to_owned();
        let lines = u32::try_from(passage.text.lines().count())
            .unwrap_or(u32::MAX)
            .max(1);
        match &mut passage.last_line {
            // The rest of a cut text can be requested by line; the rest of a page cannot.
            Some(last) => {
                *last = (passage.page + lines - 1).min(*last);
                passage.label = Some(format!("lines {}-{last}", passage.page));
                passage.cut = lines == 1;
            }
            None => passage.cut = true,
        }
    }
}

fn read_passages(
    packed: EncodedSource,
    tree: &SectionTree,
    request: &ReadRequest,
    spans: &[PageSpan],
    mut buffer: PassageBuffer,
) -> Result<Vec<TextPassage>, stemma_extract::CodecError> {
    match (request, tree.extent) {
        (ReadRequest::Pages(_), Extent::Pages(_)) => push_pages(&mut buffer, &packed, spans)?,
        (_, Extent::Lines(_)) => push_lines(&mut buffer, tree, &packed.decode()?.body, spans),
        (ReadRequest::Section(id, _), Extent::Pages(_)) => {
            if let Some(section) = tree.section(*id) {
                push_section_pages(&mut buffer, section, &packed.decode()?.body, spans);
            }
        }
    }
    Ok(buffer.passages)
}

fn push_pages(
    buffer: &mut PassageBuffer,
    packed: &EncodedSource,
    spans: &[PageSpan],
) -> Result<(), stemma_extract::CodecError> {
    for span in spans {
        let mut start = span.start().get();
        let end = span.end().get();
        while let Some(part) =
            PageSpan::new(start, end.min(start.saturating_add(PAGES_PER_READ - 1)))
        {
            for (number, page) in part.pages().zip(packed.pages(part)?) {
                let label = printed_label(number, &page);
                if !buffer.push(TextPassage {
                    ocr: recognition(&page),
                    ..TextPassage::new(number.get(), label, page.text())
                }) {
                    return Ok(());
                }
            }
            start = part.end().get() + 1;
        }
    }
    Ok(())
}

fn recognition(page: &Page) -> Option<PageRecognition> {
    let mut read = PageRecognition::from_page(page)?;
    read.doubtful.truncate(MAX_DOUBTFUL);
    Some(read)
}

fn push_section_pages(
    buffer: &mut PassageBuffer,
    section: &Section,
    body: &SourceBody,
    spans: &[PageSpan],
) {
    let lines = text::full_lines(section, body);
    for of_page in lines.chunk_by(|one, other| one.page == other.page) {
        let Some(page) = of_page[0]
            .page
            .filter(|page| spans.iter().any(|span| span.contains(*page)))
        else {
            continue;
        };
        let ocr = match body {
            SourceBody::Pages(pages) => pages.get(page.index()).and_then(recognition),
            SourceBody::Lines(_) => None,
        };
        let passage = TextPassage::new(page.get(), page_label(body, page), joined(of_page));
        if !buffer.push(TextPassage { ocr, ..passage }) {
            return;
        }
    }
}

fn push_lines(
    buffer: &mut PassageBuffer,
    tree: &SectionTree,
    body: &SourceBody,
    spans: &[PageSpan],
) {
    for (_, section) in tree.walk() {
        let lines = text::own_lines(section, body);
        for part in lines
            .chunk_by(|one, other| includes(spans, one.number) == includes(spans, other.number))
        {
            let first = part[0].number;
            let last = part[part.len() - 1].number;
            if !includes(spans, first) {
                continue;
            }
            let label = Some(format!("lines {first}-{last}"));
            let passage = TextPassage {
                last_line: Some(last),
                ..TextPassage::new(first, label, joined(part))
            };
            if !buffer.push(passage) {
                return;
            }
        }
    }
}

fn joined(lines: &[BodyLine<'_>]) -> String {
    let texts: Vec<&str> = lines.iter().map(|line| line.text).collect();
    texts.join("\n")
}

fn includes(spans: &[PageSpan], line: u32) -> bool {
    PageNo::new(line).is_some_and(|line| spans.iter().any(|span| span.contains(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_is_left_and_a_single_page_is_truncated() {
        let page = |page| TextPassage {
            page,
            last_line: None,
            label: None,
            text: "Net sales rose in all regions.\n".repeat(20),
            ocr: None,
            cut: false,
        };
        let mut buffer = PassageBuffer::new(500, Cancellation::default());
        assert!((1..9).any(|number| !buffer.push(page(number))));
        assert!(buffer.passages.len() > 1 && buffer.passages.iter().all(|passage| !passage.cut));
        let mut buffer = PassageBuffer::new(60, Cancellation::default());
        assert!(!buffer.push(page(1)));
        let only = &buffer.passages[0];
        assert!(only.cut && only.text.ends_with("regions.") && token_cost(&only.text) <= 60);
    }
}

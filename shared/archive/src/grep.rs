//! Lines that match a pattern, with their sections and pages.

use futures::stream::{self, StreamExt};
use serde::Serialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::document_store::{DocumentStore, OpenDocument};
use stemma_catalog::locator::Fragment;
use stemma_document::{PageNo, PageSpan, SectionId, SectionTree, SourceBody, text};
use stemma_store::PortResult;
use stemma_store::work::Cancellation;

use crate::archive::spawn_cancellable;
use crate::documents::printed_label;
use crate::line_pattern::LinePattern;
use crate::tree::resolve_section;
use crate::{ApiError, Archive};

/// Largest number of matches to return.
pub const MAX_HITS: usize = 100_000;
/// Lines from which sections are ranked.
const MAX_RANKED_LINES: usize = 20_000;
const LINES_PER_SECTION: usize = 3;
/// Characters of a line that are shown.
const MAX_LINE_CHARS: usize = 300;
/// Documents read at once.
const MAX_CONCURRENT_READS: usize = 2;

/// The pattern and its options.
#[derive(Debug, Clone)]
pub struct GrepOptions {
    /// A regular expression (without backreferences: time is linear in the text), or words.
    pub pattern: String,
    pub ignore_case: bool,
    /// The pattern is literal text.
    pub fixed: bool,
    /// Number of matches to return; reading stops there.
    pub limit: usize,
}

/// Matching lines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GrepResponse {
    pub pattern: String,
    /// The searched scope.
    pub scope: String,
    pub documents_read: usize,
    pub documents_matching: usize,
    /// Number of documents in scope without stored text or without a tree.
    pub documents_without_text: usize,
    /// Whether there may be more: the limit was reached.
    pub truncated: bool,
    /// The lines, ordered by document and position.
    pub hits: Vec<GrepHit>,
}

/// A matching line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GrepHit {
    pub doc_id: String,
    /// Locator of the section.
    pub locator: String,
    pub section_id: String,
    pub title: String,
    /// Physical page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// Printed page number, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Line on its page, or in the text, from 1.
    pub line: u32,
    /// The line, truncated around the first match.
    pub text: String,
    /// Bytes of `text` that match.
    pub marks: Vec<(usize, usize)>,
}

/// Sections with matching lines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GrepSectionsResponse {
    pub pattern: String,
    /// The searched scope.
    pub scope: String,
    pub documents_read: usize,
    pub documents_matching: usize,
    /// Number of documents in scope without stored text or without a tree.
    pub documents_without_text: usize,
    pub sections_matching: usize,
    /// Whether there may be more: reading stopped after 20,000 lines.
    pub truncated: bool,
    /// Ordered by number of matching lines, then by document and position.
    pub sections: Vec<GrepSection>,
}

/// A section with matching lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GrepSection {
    pub doc_id: String,
    pub locator: String,
    pub section_id: String,
    pub title: String,
    /// Number of matching lines in its own text.
    pub matches: usize,
    /// The first matching lines.
    pub first: Vec<GrepHit>,
}

impl Archive {
    /// Sections in `scope` with matching lines, those with most first; at most `options.limit`.
    pub async fn grep_sections(
        &self,
        scope: &str,
        options: &GrepOptions,
    ) -> Result<GrepSectionsResponse, ApiError> {
        let matched_sections = self
            .grep(
                scope,
                &GrepOptions {
                    limit: MAX_RANKED_LINES,
                    ..options.clone()
                },
            )
            .await?;
        let mut sections: Vec<GrepSection> = Vec::new();
        for hit in matched_sections.hits {
            match sections
                .last_mut()
                .filter(|last| last.locator == hit.locator)
            {
                Some(last) => {
                    last.matches += 1;
                    if last.first.len() < LINES_PER_SECTION {
                        last.first.push(hit);
                    }
                }
                None => sections.push(GrepSection {
                    doc_id: hit.doc_id.clone(),
                    locator: hit.locator.clone(),
                    section_id: hit.section_id.clone(),
                    title: hit.title.clone(),
                    matches: 1,
                    first: vec![hit],
                }),
            }
        }
        // Stable: equal sections stay in order of documents and places.
        sections.sort_by_key(|section| std::cmp::Reverse(section.matches));
        let sections_matching = sections.len();
        sections.truncate(options.limit.max(1));
        Ok(GrepSectionsResponse {
            pattern: matched_sections.pattern,
            scope: matched_sections.scope,
            documents_read: matched_sections.documents_read,
            documents_matching: matched_sections.documents_matching,
            documents_without_text: matched_sections.documents_without_text,
            sections_matching,
            truncated: matched_sections.truncated,
            sections,
        })
    }

    /// Matching lines in `scope`: a document, a part of one, a folder or an axis path.
    pub async fn grep(&self, scope: &str, options: &GrepOptions) -> Result<GrepResponse, ApiError> {
        let pattern = if options.fixed {
            regex::escape(&options.pattern)
        } else {
            options.pattern.clone()
        };
        let pattern = LinePattern::new(&pattern, options.ignore_case)?;
        let (documents, fragment) = match self.locate(scope) {
            Ok((listed, fragment)) => (vec![listed], fragment),
            Err(error) if error.code == "locator.folder" => (self.documents_in_scope(scope)?, None),
            Err(error) => return Err(error),
        };
        let limit = options.limit.clamp(1, MAX_HITS);
        let mut view = GrepResponse {
            pattern: options.pattern.clone(),
            scope: scope.into(),
            documents_read: 0,
            documents_matching: 0,
            documents_without_text: 0,
            truncated: false,
            hits: Vec::new(),
        };
        // Made beforehand: a closure that makes them would tie this future to one lifetime, and it could not be sent.
        let mut reads = Vec::with_capacity(documents.len());
        for listed in &documents {
            reads.push(self.grep_document(listed, pattern.clone(), fragment.clone(), limit));
        }
        let mut reads = stream::iter(reads).buffered(MAX_CONCURRENT_READS);
        while let Some(matches) = reads.next().await {
            let Some(hits) = matches? else {
                view.documents_without_text += 1;
                continue;
            };
            view.documents_read += 1;
            view.documents_matching += usize::from(!hits.is_empty());
            view.hits.extend(hits);
            if view.hits.len() >= limit {
                view.truncated = view.hits.len() > limit || view.documents_read < documents.len();
                view.hits.truncate(limit);
                break;
            }
        }
        Ok(view)
    }

    /// One more than `limit` at most, so that one knows whether there are more.
    async fn grep_document(
        &self,
        listed: &CatalogDocument,
        pattern: LinePattern,
        fragment: Option<Fragment>,
        limit: usize,
    ) -> Result<Option<Vec<GrepHit>>, ApiError> {
        let Some(OpenDocument {
            tree,
            body: Some(body),
            ..
        }) = self.open_with_text(listed).await?
        else {
            return Ok(None);
        };
        let (pages, within) = match &fragment {
            Some(Fragment::Pages(spans)) => (Some(spans.clone()), None),
            Some(fragment) => (None, Some(resolve_section(&tree, &listed.label, fragment)?)),
            None => (None, None),
        };
        let search = DocumentSearch {
            label: listed.label.clone(),
            doc: listed.doc().to_string(),
            tree,
            body,
            pages,
            within,
            pattern,
        };
        let hits = spawn_cancellable(move |cancelled| search.hits(limit, cancelled)).await?;
        Ok(Some(hits))
    }

    pub(crate) async fn open_with_text(
        &self,
        listed: &CatalogDocument,
    ) -> PortResult<Option<OpenDocument>> {
        DocumentStore::open(self, listed).await
    }
}

// The search of one document.
struct DocumentSearch {
    label: String,
    doc: String,
    tree: SectionTree,
    body: SourceBody,
    pages: Option<Vec<PageSpan>>,
    within: Option<SectionId>,
    pattern: LinePattern,
}

impl DocumentSearch {
    fn hits(&self, limit: usize, cancelled: &Cancellation) -> Vec<GrepHit> {
        let mut hits = Vec::new();
        for (_, section) in self.tree.walk() {
            if cancelled.is_set() {
                break;
            }
            if !self.covers(section.id) {
                continue;
            }
            for line in text::own_lines(section, &self.body) {
                if !line.page.is_none_or(|page| self.has_page(page)) {
                    continue;
                }
                let Some(found) = self.pattern.find(line.text, cancelled) else {
                    continue;
                };
                let (text, marks) = line_snippet(line.text, found.start, &self.pattern);
                hits.push(GrepHit {
                    doc_id: self.doc.clone(),
                    locator: stemma_catalog::locator::section_locator(&self.label, section.id),
                    section_id: section.id.to_string(),
                    title: section.title.clone(),
                    page: line.page.map(PageNo::get),
                    label: line.page.and_then(|page| page_label(&self.body, page)),
                    line: line.number,
                    text,
                    marks,
                });
                if hits.len() > limit {
                    return hits;
                }
            }
        }
        hits
    }

    fn covers(&self, section: SectionId) -> bool {
        self.within.is_none_or(|id| {
            let path = self.tree.path_to(section);
            path.iter().any(|above| above.id == id)
        })
    }

    fn has_page(&self, page: PageNo) -> bool {
        let pages = self.pages.as_ref();
        pages.is_none_or(|spans| spans.iter().any(|span| span.contains(page)))
    }
}

/// The label of a page where it differs from its number.
pub fn page_label(body: &SourceBody, page: PageNo) -> Option<String> {
    match body {
        SourceBody::Pages(pages) => pages
            .get(page.index())
            .and_then(|page_text| printed_label(page, page_text)),
        SourceBody::Lines(_) => None,
    }
}

/// The line, or the text around its first match, and where it matches.
fn line_snippet(line: &str, first: usize, pattern: &LinePattern) -> (String, Vec<(usize, usize)>) {
    let start = if first > MAX_LINE_CHARS / 2 {
        line.floor_char_boundary(first - MAX_LINE_CHARS / 4)
    } else {
        0
    };
    let end = line[start..]
        .char_indices()
        .nth(MAX_LINE_CHARS)
        .map_or(line.len(), |(at, _)| start + at);
    let text = line[start..end].to_owned();
    let marks = pattern
        .find_all(&text)
        .filter(|span| !span.is_empty())
        .map(|span| (span.start, span.end));
    let marks = marks.take(100).collect();
    (text, marks)
}

//! Reads the text of sections and pages, and details of documents and sections.

use std::sync::Arc;

use serde::Serialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::{Fragment, format_pages, section_locator};
use stemma_document::{
    EvidenceSource, Extent, HiddenText, PageNo, PageSpan, Provenance, PublishedTree,
    ReferenceTarget, Section, SectionTree, SourceBody, text,
};
use stemma_extract::CodecError;
use stemma_store::work::reserve;
use utoipa::ToSchema;

use crate::archive::{no_text, no_tree, spawn_cpu};
use crate::documents::PageContent;
use crate::items::{self, ItemInfo};
use crate::tree::resolve_section;
use crate::{ApiError, Archive, DocumentInfo, SectionInfo};

/// How much of a section to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextScope {
    /// Including all subsections.
    #[default]
    Full,
    /// Its own text, up to the first subsection.
    Own,
}

/// Text of a document: a section, pages, or all of it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TextResponse {
    /// The document's id.
    pub doc_id: String,
    /// Its file name.
    pub name: String,
    pub locator: String,
    /// The section, if one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<SectionInfo>,
    /// The Item of the filing, with the reliability of its boundaries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemInfo>,
    /// Titles from the root to the section.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// Tokens of the text (o200k); 0 for a table, whose text is made when it is asked for.
    pub tokens: u32,
    /// Pages with their text, if pages were requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<PageContent>,
    /// The text, if no pages were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Text of a document that its pages have and nobody sees.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HiddenTextResponse {
    /// The document's id.
    pub doc_id: String,
    /// Its file name.
    pub name: String,
    pub hidden: Vec<HiddenText>,
}

/// Details of a document, and of one of its sections.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct StatResponse {
    pub document: DocumentInfo,
    /// URI of the file.
    pub uri: String,
    /// Size of the file in bytes.
    pub size_bytes: u64,
    /// Digest of the file (BLAKE3).
    pub source: String,
    /// Provenance of the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub provenance: Option<Provenance>,
    /// How much text recognition (OCR) read, and a vision model looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recognition: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<ItemInfo>,
    /// A newer version that has no tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer_version: Option<u64>,
    /// The requested section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<SectionDetails>,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SectionDetails {
    #[serde(flatten)]
    pub section: SectionInfo,
    /// Titles from the root to the section.
    pub path: Vec<String>,
    /// The source that proposed it.
    #[schema(value_type = String)]
    #[serde(rename = "witness")]
    pub evidence_source: EvidenceSource,
    pub own_tokens: u32,
    /// Number of direct subsections.
    pub children: usize,
    pub summary: Option<String>,
    /// How the summary was made.
    pub summary_by: Option<String>,
    /// References in its own text.
    pub references: Vec<SectionReference>,
}

/// A reference to another section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SectionReference {
    /// As written.
    pub text: String,
    /// Locator of the target section; `null` if it is not in this document.
    pub to: Option<String>,
}

impl Archive {
    /// Reads the text that nobody sees, of the pages that a locator names or of the whole document.
    pub async fn hidden_text(&self, locator: &str) -> Result<HiddenTextResponse, ApiError> {
        let (listed, published, fragment) = self.load_published(locator).await?;
        let pages = match &fragment {
            Some(Fragment::Pages(spans)) => Some(spans),
            _ => None,
        };
        let source = self.load_source(&published).await?;
        let source = source.ok_or_else(|| no_text(&listed))?;
        let mut hidden = source.hidden().to_vec();
        hidden.retain(|text| {
            pages.is_none_or(|spans| spans.iter().any(|span| span.contains(text.page)))
        });
        Ok(HiddenTextResponse {
            doc_id: published.version.doc.to_string(),
            name: listed.label.clone(),
            hidden,
        })
    }

    /// Reads the text that a locator names; without a fragment, the whole document.
    pub async fn text(&self, locator: &str, part: TextScope) -> Result<TextResponse, ApiError> {
        let (listed, published, fragment) = self.load_published(locator).await?;
        match &fragment {
            Some(Fragment::Pages(spans)) => self.page_texts(&listed, &published, spans).await,
            Some(Fragment::Item { part, number })
                if let Some((item, pages)) = items::find_indexed_item(
                    &published.tree,
                    &listed.label,
                    part.as_deref(),
                    number,
                ) =>
            {
                // Only an index names it: its pages are what can be read.
                let locator = item.locator.clone().unwrap_or_default();
                let view = self.page_texts(&listed, &published, &pages).await?;
                Ok(TextResponse {
                    item: Some(item),
                    locator,
                    ..view
                })
            }
            Some(Fragment::Table(_)) => {
                let content = self.table(locator).await?;
                let locator = format!("{}#{}", listed.label, content.table.id);
                Ok(TextResponse {
                    text: Some(content.table.to_text()),
                    ..empty_response(&listed, locator, 0)
                })
            }
            Some(fragment) => {
                let id = resolve_section(&published.tree, &listed.label, fragment)?;
                let path = published.tree.path_to(id);
                let Some(section) = path.last() else {
                    return Err(no_tree(&listed));
                };
                let titles = path.iter().map(|section| section.title.clone()).collect();
                let mut view = self
                    .section_text(&listed, &published, section, titles, part)
                    .await?;
                if let Fragment::Item { part, number } = fragment {
                    let located =
                        items::find_item(&published.tree, &listed.label, part.as_deref(), number);
                    view.item = located.or(view.item);
                }
                Ok(view)
            }
            None => match published.tree.extent {
                Extent::Pages(n) => {
                    let all: Vec<PageSpan> = PageSpan::new(1, n).into_iter().collect();
                    let mut view = self.page_texts(&listed, &published, &all).await?;
                    view.locator = listed.label.clone();
                    Ok(view)
                }
                Extent::Lines(_) => self.whole_text(&listed, &published).await,
            },
        }
    }

    async fn section_text(
        &self,
        listed: &CatalogDocument,
        published: &Arc<PublishedTree>,
        section: &Section,
        path: Vec<String>,
        part: TextScope,
    ) -> Result<TextResponse, ApiError> {
        let body = self.require_body(listed, published).await?;
        let tokens = match part {
            TextScope::Full => section.tokens,
            TextScope::Own => section.own_tokens,
        };
        let tree = Arc::clone(published);
        let id = section.id;
        let text = spawn_cpu(move || {
            let section = tree.tree.section(id)?;
            Some(match part {
                TextScope::Full => text::full_text(section, &body),
                TextScope::Own => text::own_text(section, &body),
            })
        });
        let label = &listed.label;
        Ok(TextResponse {
            section: Some(SectionInfo::new(&published.tree, section, label)),
            item: items::item_at_section(&published.tree, label, section.id),
            path,
            text: text.await?,
            ..empty_response(listed, section_locator(label, section.id), tokens)
        })
    }

    async fn page_texts(
        &self,
        listed: &CatalogDocument,
        published: &PublishedTree,
        spans: &[PageSpan],
    ) -> Result<TextResponse, ApiError> {
        let label = &listed.label;
        for span in spans {
            page_number(label, published.tree.extent, span.end().get())?;
        }
        let packed = self
            .load_source(published)
            .await?
            .ok_or_else(|| no_text(listed))?;
        let requested = spans.to_vec();
        reserve(packed.raw_bytes()).await?;
        let document_label = label.clone();
        let read = spawn_cpu(move || {
            let mut pages = Vec::new();
            for span in requested {
                let read = packed.pages(span)?;
                pages.extend(
                    span.pages()
                        .zip(&read)
                        .map(|(number, page)| PageContent::new(number, page, &document_label)),
                );
            }
            Ok(pages)
        });
        let pages: Vec<PageContent> = read.await?.map_err(|error: CodecError| {
            ApiError::new(
                "store.damaged",
                error.to_string(),
                "stemma ingest the file again",
            )
            .with_document(label)
        })?;
        let tokens = pages.iter().map(|page| page.tokens).sum();
        Ok(TextResponse {
            pages,
            ..empty_response(listed, format!("{label}#p={}", format_pages(spans)), tokens)
        })
    }

    async fn whole_text(
        &self,
        listed: &CatalogDocument,
        published: &PublishedTree,
    ) -> Result<TextResponse, ApiError> {
        let SourceBody::Lines(text) = self.require_body(listed, published).await? else {
            return Err(no_text(listed));
        };
        let tokens = text.tokens.iter().sum();
        let joined = spawn_cpu(move || text.lines.join("\n")).await?;
        Ok(TextResponse {
            text: Some(joined),
            ..empty_response(listed, listed.label.clone(), tokens)
        })
    }

    /// Details of the document or section that a locator names, also for documents without a tree.
    pub async fn stat(&self, locator: &str) -> Result<StatResponse, ApiError> {
        let (listed, fragment) = self.locate(locator)?;
        let published = self.load_tree(&listed).await?;
        let section = match (&fragment, &published) {
            (None, _) => None,
            (Some(_), None) => return Err(no_tree(&listed)),
            (Some(fragment), Some(published)) => {
                let id = resolve_section(&published.tree, &listed.label, fragment)?;
                section_details(&published.tree, &listed.label, &published.tree.path_to(id))
            }
        };
        let version = listed.version();
        Ok(StatResponse {
            document: DocumentInfo::from_catalog(&listed),
            uri: version.uri.clone(),
            size_bytes: version.size_bytes,
            source: version.source.to_string(),
            items: published
                .as_ref()
                .map(|published| items::list_items(&published.tree, &listed.label))
                .unwrap_or_default(),
            recognition: published.as_ref().and_then(|published| {
                let gaps = &published.tree.gaps;
                let note = gaps.iter().find(|gap| gap.code == "ocr.recognized")?;
                Some(note.detail.clone())
            }),
            provenance: published.map(|published| published.tree.provenance.clone()),
            newer_version: self.newer_version(&listed).await?,
            section,
        })
    }
}

/// Page `number` of a document with pages.
pub(crate) fn page_number(label: &str, extent: Extent, number: u32) -> Result<PageNo, ApiError> {
    let Extent::Pages(count) = extent else {
        let message = format!("`{label}` is a text without pages");
        return Err(ApiError::in_document("document.no_pages", message, label));
    };
    let page = PageNo::new(number).filter(|page| page.get() <= count);
    page.ok_or_else(|| {
        let message = format!("page {number} lies outside of `{label}`, which has {count} pages");
        let next = format!("stemma cat '{label}#p={count}'");
        ApiError::new("locator.no_page", message, next).with_document(label)
    })
}

fn empty_response(listed: &CatalogDocument, locator: String, tokens: u32) -> TextResponse {
    TextResponse {
        doc_id: listed.doc().to_string(),
        name: listed.version().name.clone(),
        locator,
        section: None,
        item: None,
        path: Vec::new(),
        tokens,
        pages: Vec::new(),
        text: None,
    }
}

fn section_details(tree: &SectionTree, label: &str, path: &[&Section]) -> Option<SectionDetails> {
    let section = path.last()?;
    let references = tree
        .references
        .iter()
        .filter(|reference| reference.from == section.id)
        .map(|reference| SectionReference {
            text: reference.text.clone(),
            to: match reference.to {
                ReferenceTarget::Section(id) => Some(section_locator(label, id)),
                ReferenceTarget::Unresolved => None,
            },
        });
    Some(SectionDetails {
        section: SectionInfo::new(tree, section, label),
        path: path.iter().map(|section| section.title.clone()).collect(),
        evidence_source: section.evidence,
        own_tokens: section.own_tokens,
        children: section.children.len(),
        summary: section.summary.as_ref().map(|summary| summary.text.clone()),
        summary_by: section.summary.as_ref().map(|summary| summary.by.clone()),
        references: references.collect(),
    })
}

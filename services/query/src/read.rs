//! Reading: the text of sections and pages, and what is known of a document or section.

use serde::Serialize;
use stemma_catalog::catalogue::Listed;
use stemma_catalog::locator::{Fragment, section_locator, show_pages};
use stemma_catalog::newest_claim;
use stemma_document::{
    Body, Extent, PageSpan, Provenance, PublishedTree, ReferenceTarget, Section, SectionTree,
    Witness, text,
};
use stemma_extract::PackError;
use utoipa::ToSchema;

use crate::documents::PageView;
use crate::items::{self, ItemView};
use crate::reader::{aside, no_text, no_tree};
use crate::refusal::quoted;
use crate::tree::section_of;
use crate::{DocumentView, Reader, Refusal, SectionView};

/// How much of a section is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// With all sub-sections.
    #[default]
    Full,
    /// Its own text, up to its first sub-section.
    Own,
}

/// Text of a document: a section, pages, or all of it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TextView {
    /// The document's id.
    pub doc_id: String,
    /// Its file name.
    pub name: String,
    /// What was read, to paste back.
    pub locator: String,
    /// The section, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<SectionView>,
    /// The Item of the filing it is, with how far that can be relied on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemView>,
    /// Titles from the top down to the section.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// Tokens of what was read (o200k).
    pub tokens: u32,
    /// Pages with their texts, where pages were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<PageView>,
    /// The text, where no pages were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What is known of a document, and of a section of it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct StatView {
    /// The document.
    pub document: DocumentView,
    /// Where its bytes are.
    pub uri: String,
    /// Size of its bytes.
    pub size_bytes: u64,
    /// Digest of its bytes (BLAKE3).
    pub source: String,
    /// How its tree came to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub provenance: Option<Provenance>,
    /// Its Items.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<ItemView>,
    /// A newer version that has no tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer_version: Option<u64>,
    /// The section that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<SectionStat>,
}

/// What is known of a section.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SectionStat {
    /// The section.
    #[serde(flatten)]
    pub section: SectionView,
    /// Titles from the top down to it.
    pub path: Vec<String>,
    /// Who says that it exists.
    #[schema(value_type = String)]
    pub witness: Witness,
    /// Tokens of its own text.
    pub own_tokens: u32,
    /// Sub-sections directly below.
    pub children: usize,
    /// What it is about.
    pub summary: Option<String>,
    /// What made the summary.
    pub summary_by: Option<String>,
    /// Mentions of other places in its own text.
    pub references: Vec<ReferenceView>,
}

/// A mention of another place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReferenceView {
    /// As written.
    pub text: String,
    /// Locator of the section it leads to; `None` when there is none in this document.
    pub to: Option<String>,
}

impl Reader {
    /// The text a locator names. Without a fragment: the whole document.
    ///
    /// # Errors
    /// [`Refusal`] when the locator names nothing or two things, a page past the end, or a text that is not there.
    pub async fn text(&self, locator: &str, part: Part) -> Result<TextView, Refusal> {
        let (listed, published, fragment) = self.published(locator).await?;
        match &fragment {
            Some(Fragment::Pages(spans)) => self.pages(listed, &published, spans).await,
            Some(Fragment::Item { part, number })
                if let Some((item, pages)) =
                    items::indexed(&published.tree, &listed.label, part.as_deref(), number) =>
            {
                // Only an index names it: its pages are what can be read.
                let locator = item.locator.clone().unwrap_or_default();
                let view = self.pages(listed, &published, &pages).await?;
                Ok(TextView {
                    item: Some(item),
                    locator,
                    ..view
                })
            }
            Some(fragment) => {
                let id = section_of(&published.tree, &listed.label, fragment)?;
                let path = published.tree.path_to(id);
                let Some(section) = path.last() else {
                    return Err(no_tree(listed));
                };
                let titles = path.iter().map(|section| section.title.clone()).collect();
                let mut view = self
                    .section(listed, &published, section, titles, part)
                    .await?;
                if let Fragment::Item { part, number } = fragment {
                    let asked =
                        items::named(&published.tree, &listed.label, part.as_deref(), number);
                    view.item = asked.or(view.item);
                }
                Ok(view)
            }
            None => match published.tree.extent {
                Extent::Pages(n) => {
                    let all: Vec<PageSpan> = PageSpan::new(1, n).into_iter().collect();
                    let mut view = self.pages(listed, &published, &all).await?;
                    view.locator = listed.label.clone();
                    Ok(view)
                }
                Extent::Lines(_) => self.whole(listed, &published).await,
            },
        }
    }

    async fn section(
        &self,
        listed: &Listed,
        published: &PublishedTree,
        section: &Section,
        path: Vec<String>,
        part: Part,
    ) -> Result<TextView, Refusal> {
        let body = self.body(published).await?.ok_or_else(|| no_text(listed))?;
        let (text, tokens) = match part {
            Part::Full => (text::full_text(section, &body), section.tokens),
            Part::Own => (text::own_text(section, &body), section.own_tokens),
        };
        let locator = section_locator(&listed.label, section.id);
        let view = SectionView::of(section, &listed.label);
        let item = items::view_of(&published.tree, &listed.label, section.id);
        Ok(TextView {
            section: Some(view),
            item,
            path,
            text: Some(text),
            ..empty(listed, locator, tokens)
        })
    }

    async fn pages(
        &self,
        listed: &Listed,
        published: &PublishedTree,
        spans: &[PageSpan],
    ) -> Result<TextView, Refusal> {
        let label = &listed.label;
        let Extent::Pages(count) = published.tree.extent else {
            let next = format!("stemma tree {}", quoted(label));
            return Err(Refusal::new(
                "document.no_pages",
                format!("`{label}` is a text without pages"),
                next,
            )
            .about(label));
        };
        if let Some(span) = spans.iter().find(|span| span.end().get() > count) {
            let message = format!(
                "page {} lies outside of `{label}`, which has {count} pages",
                span.end()
            );
            let next = format!("stemma cat '{label}#p={count}'");
            return Err(Refusal::new("locator.no_page", message, next).about(label));
        }
        let packed = self
            .packed(published)
            .await?
            .ok_or_else(|| no_text(listed))?;
        let wanted = spans.to_vec();
        let named = label.clone();
        let read = aside(move || {
            let mut pages = Vec::new();
            for span in wanted {
                let read = packed.pages(span)?;
                pages.extend(
                    span.pages()
                        .zip(&read)
                        .map(|(number, page)| PageView::of(number, page, &named)),
                );
            }
            Ok(pages)
        });
        let pages: Vec<PageView> = read.await?.map_err(|error: PackError| {
            Refusal::new(
                "store.damaged",
                error.to_string(),
                "stemma ingest the file again",
            )
            .about(label)
        })?;
        let tokens = pages.iter().map(|page| page.tokens).sum();
        Ok(TextView {
            pages,
            ..empty(listed, format!("{label}#p={}", show_pages(spans)), tokens)
        })
    }

    async fn whole(&self, listed: &Listed, published: &PublishedTree) -> Result<TextView, Refusal> {
        let body = self.body(published).await?.ok_or_else(|| no_text(listed))?;
        let Body::Lines(text) = body else {
            return Err(no_text(listed));
        };
        let tokens = text.tokens.iter().sum();
        Ok(TextView {
            text: Some(text.lines.join("\n")),
            ..empty(listed, listed.label.clone(), tokens)
        })
    }

    /// What is known of the document, or section, a locator names. Documents without a tree have an answer, too.
    ///
    /// # Errors
    /// [`Refusal`] when it names nothing, or two things.
    pub async fn stat(&self, locator: &str) -> Result<StatView, Refusal> {
        let (listed, fragment) = self.locate(locator)?;
        let published = self.tree_of(listed).await?;
        let section = match (&fragment, &published) {
            (None, _) => None,
            (Some(_), None) => return Err(no_tree(listed)),
            (Some(fragment), Some(published)) => {
                let id = section_of(&published.tree, &listed.label, fragment)?;
                section_stat(&published.tree, &listed.label, &published.tree.path_to(id))
            }
        };
        let newest = newest_claim(self.blobs.as_ref(), &self.collection, listed.doc()).await?;
        let version = listed.version();
        Ok(StatView {
            document: DocumentView::of(listed),
            uri: version.uri.clone(),
            size_bytes: version.size_bytes,
            source: version.source.to_string(),
            items: published
                .as_ref()
                .map(|published| items::views(&published.tree, &listed.label))
                .unwrap_or_default(),
            provenance: published.map(|published| published.tree.provenance),
            newer_version: newest
                .map(|newest| newest.seq)
                .filter(|seq| *seq > version.seq),
            section,
        })
    }
}

fn empty(listed: &Listed, locator: String, tokens: u32) -> TextView {
    let version = listed.version();
    let doc_id = version.doc.to_string();
    let name = version.name.clone();
    TextView {
        doc_id,
        name,
        locator,
        section: None,
        item: None,
        path: Vec::new(),
        tokens,
        pages: Vec::new(),
        text: None,
    }
}

fn section_stat(tree: &SectionTree, label: &str, path: &[&Section]) -> Option<SectionStat> {
    let section = path.last()?;
    let own = tree
        .references
        .iter()
        .filter(|reference| reference.from == section.id);
    let references = own.map(|reference| ReferenceView {
        text: reference.text.clone(),
        to: match reference.to {
            ReferenceTarget::Section(id) => Some(section_locator(label, id)),
            ReferenceTarget::Unresolved => None,
        },
    });
    Some(SectionStat {
        section: SectionView::of(section, label),
        path: path.iter().map(|section| section.title.clone()).collect(),
        witness: section.witness,
        own_tokens: section.own_tokens,
        children: section.children.len(),
        summary: section.summary.as_ref().map(|summary| summary.text.clone()),
        summary_by: section.summary.as_ref().map(|summary| summary.by.clone()),
        references: references.collect(),
    })
}

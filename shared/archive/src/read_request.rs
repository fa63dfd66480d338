//! Which pages of a document, or lines of a text without pages, a call asks to read.

use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::{Fragment, format_pages};
use stemma_document::{Extent, PageSpan, PublishedTree, SectionId, SectionTree};

use crate::ApiError;
use crate::items::{self, ItemInfo};
use crate::tree::resolve_section;

#[derive(Debug, Clone)]
pub enum ReadRequest {
    /// Pages, or lines in a document without pages.
    Pages(Vec<PageSpan>),
    /// A section with its subsections, optionally limited to some pages.
    Section(SectionId, Option<Vec<PageSpan>>),
}

/// Requested pages or lines, sorted and merged.
#[derive(Debug)]
pub struct RequestedPages {
    /// Requested pages that exist.
    pub inside: Vec<PageSpan>,
    /// Requested pages that do not: `5-7,9`.
    pub outside: Option<String>,
    /// Number of pages, or lines, of the document.
    pub total: u32,
    /// `page` or `line`.
    pub unit: &'static str,
}

impl ReadRequest {
    /// The request for `part` of a document, limited to `pages`, and the Item that it is.
    pub fn new(
        listed: &CatalogDocument,
        published: &PublishedTree,
        part: Option<&Fragment>,
        pages: Option<Vec<PageSpan>>,
    ) -> Result<(Self, Option<ItemInfo>), ApiError> {
        let tree = &published.tree;
        let label = &listed.label;
        match part {
            None => Ok((Self::Pages(pages.unwrap_or_default()), None)),
            Some(Fragment::Pages(spans)) => {
                Ok((Self::Pages(pages.unwrap_or_else(|| spans.clone())), None))
            }
            // Only the form's page index names this Item: it has pages but no section.
            Some(Fragment::Item { part, number })
                if let Some((item, spans)) =
                    items::find_indexed_item(tree, label, part.as_deref(), number) =>
            {
                if spans.is_empty() {
                    let message = format!("`{label}` answers Item {number} elsewhere");
                    let elsewhere = item
                        .content
                        .into_iter()
                        .filter_map(|link| link.to.or(link.outside))
                        .collect();
                    return Err(ApiError::invalid(message).with_candidates(elsewhere));
                }
                Ok((Self::Pages(pages.unwrap_or(spans)), Some(item)))
            }
            Some(fragment) => {
                let id = resolve_section(tree, label, fragment)?;
                Ok((
                    Self::Section(id, pages),
                    items::item_at_section(tree, label, id),
                ))
            }
        }
    }

    /// The pages or lines that are requested.
    pub fn pages(&self, tree: &SectionTree) -> Result<RequestedPages, ApiError> {
        let total = tree.extent.size();
        let unit = match tree.extent {
            Extent::Pages(_) => "page",
            Extent::Lines(_) => "line",
        };
        let (whole, requested) = match self {
            Self::Pages(requested) => ((1, total), Some(requested)),
            Self::Section(id, requested) => {
                let section = tree
                    .section(*id)
                    .ok_or_else(|| ApiError::invalid(format!("there is no section {id}")))?;
                let (start, end) = section.span.bounds();
                ((start, end.max(start)), requested.as_ref())
            }
        };
        let (inside, outside) = match requested {
            None => (
                PageSpan::new(whole.0, whole.1).into_iter().collect(),
                Vec::new(),
            ),
            Some(requested) => {
                let requested = PageSpan::merged(requested);
                let inside = PageSpan::clipped(&requested, whole.0, whole.1);
                let outside = match inside.is_empty() {
                    true => requested,
                    false => PageSpan::clipped(&requested, total.saturating_add(1), u32::MAX),
                };
                (inside, outside)
            }
        };
        Ok(RequestedPages {
            inside,
            outside: (!outside.is_empty()).then(|| format_pages(&outside)),
            total,
            unit,
        })
    }
}

impl RequestedPages {
    /// The error if none of them exists.
    pub fn none_exists(&self, name: &str) -> ApiError {
        let Self { total, unit, .. } = self;
        let requested = self.outside.as_deref().unwrap_or_default();
        ApiError::invalid(format!(
            "`{name}` has {unit}s 1-{total}; {requested} is not among them"
        ))
    }
}

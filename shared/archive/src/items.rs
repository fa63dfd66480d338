//! The Items of a filing.

use std::collections::HashMap;

use serde::Serialize;
use stemma_catalog::items;
use stemma_catalog::locator::{format_pages, section_locator};
use stemma_document::{
    Boundary, FilingItem, ItemLink, ItemStatus, ItemTarget, PageSpan, SectionId, SectionTree,
};
use utoipa::ToSchema;

use crate::{ApiError, Archive, DocumentInfo};

/// The Item map of a document.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FilingItems {
    pub document: DocumentInfo,
    /// The Items of its form, in the order of the form; empty for forms without known Items.
    pub items: Vec<ItemInfo>,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ItemInfo {
    /// Form, Part and number: `10-K.II.7A`; `null` if the tree has no Item map.
    pub id: Option<String>,
    /// `1A`.
    pub item: String,
    /// The Part of the form.
    pub part: Option<String>,
    /// Locator; `null` if the document does not have the Item.
    pub locator: Option<String>,
    /// The section under its heading.
    pub section_id: Option<String>,
    pub title: String,
    /// How the document answers it; `null` if the tree has no Item map.
    #[schema(value_type = Option<String>)]
    pub status: Option<ItemStatus>,
    /// First and last physical page.
    pub pages: Option<(u32, u32)>,
    /// First byte of its text in the file, and the byte behind the last; only in HTML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<(u32, u32)>,
    /// Tokens with all sub-sections.
    pub tokens: u32,
    /// Whether its heading, or the heading that ends it, was not found in the text.
    pub boundary_unverifiable: bool,
    /// The headings that start and end it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub boundary: Option<Boundary>,
    /// Where its content is, if not under its heading.
    pub content: Vec<ItemContent>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ItemContent {
    /// The quoted reference.
    pub text: String,
    /// Locator of a section or of pages of this document; `null` if the content is elsewhere.
    pub to: Option<String>,
    /// The other document: `proxy statement`, `Exhibit 13`.
    pub outside: Option<String>,
    /// Whether `to` only contains the place referred to, which was not found itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub approximate: bool,
}

impl ItemInfo {
    fn from_item_map(item: &FilingItem, tree: &SectionTree, label: &str) -> Self {
        let there = item.status != ItemStatus::Absent;
        Self {
            id: Some(item.id.clone()),
            item: item.number.clone(),
            part: item.part.clone(),
            locator: there.then(|| format!("{label}#{}", items::item_fragment(item, &tree.items))),
            section_id: item.section.map(|id| id.to_string()),
            title: item.title.clone(),
            status: Some(item.status),
            pages: item.pages.map(PageSpan::bounds),
            bytes: item.bytes.map(|bytes| (bytes.start, bytes.end)),
            tokens: item.tokens,
            boundary_unverifiable: item.boundary_unverifiable,
            boundary: item.boundary.clone(),
            content: item
                .content
                .iter()
                .map(|link| ItemContent::from_link(link, label))
                .collect(),
        }
    }

    fn from_titles(item: &items::SectionItem, tree: &SectionTree, label: &str) -> Option<Self> {
        let section = tree.section(item.section)?;
        Some(Self {
            id: None,
            item: item.number.clone(),
            part: item.part.clone(),
            locator: Some(format!("{label}#{}", item.fragment())),
            section_id: Some(section.id.to_string()),
            title: section.title.clone(),
            status: None,
            pages: section.span.pages().map(PageSpan::bounds),
            bytes: section.bytes.map(|bytes| (bytes.start, bytes.end)),
            tokens: section.tokens,
            boundary_unverifiable: false,
            boundary: None,
            content: Vec::new(),
        })
    }
}

impl ItemContent {
    fn from_link(link: &ItemLink, label: &str) -> Self {
        let (to, outside) = match &link.target {
            ItemTarget::Section(id) => (Some(section_locator(label, *id)), None),
            ItemTarget::Pages(pages) => {
                (Some(format!("{label}#p={}", format_pages(&[*pages]))), None)
            }
            ItemTarget::Outside(document) => (None, Some(document.clone())),
            ItemTarget::Unresolved => (None, None),
        };
        Self {
            text: link.text.clone(),
            to,
            outside,
            approximate: link.approximate,
        }
    }
}

impl Archive {
    /// The Item map of a document.
    pub async fn items(&self, locator: &str) -> Result<FilingItems, ApiError> {
        let (listed, published, _) = self.load_published(locator).await?;
        Ok(FilingItems {
            document: DocumentInfo::from_catalog(&listed),
            items: list_items(&published.tree, &listed.label),
        })
    }
}

/// The Items of a tree: its Item map, or else those its titles name.
pub(crate) fn list_items(tree: &SectionTree, label: &str) -> Vec<ItemInfo> {
    if !tree.items.is_empty() {
        return tree
            .items
            .iter()
            .map(|item| ItemInfo::from_item_map(item, tree, label))
            .collect();
    }
    let all = items::section_items(tree);
    all.iter()
        .filter_map(|item| ItemInfo::from_titles(item, tree, label))
        .collect()
}

/// The fragments of Items by section; the first if a heading names several.
pub(crate) fn item_fragments(tree: &SectionTree) -> HashMap<SectionId, String> {
    let mut fragments = HashMap::new();
    for item in items::section_items(tree) {
        let fragment = fragments.entry(item.section);
        fragment.or_insert_with(|| item.fragment());
    }
    fragments
}

/// The Item of a section; the first if its heading names several.
pub fn item_at_section(tree: &SectionTree, label: &str, section: SectionId) -> Option<ItemInfo> {
    let item = tree
        .items
        .iter()
        .find(|item| item.section == Some(section))?;
    Some(ItemInfo::from_item_map(item, tree, label))
}

/// The Item that a number names without a Part.
pub(crate) fn find_item(
    tree: &SectionTree,
    label: &str,
    part: Option<&str>,
    number: &str,
) -> Option<ItemInfo> {
    items::find_in_map(tree, part, number).map(|item| ItemInfo::from_item_map(item, tree, label))
}

/// The Item that a fragment names, if the map has it, and its pages by the form's page index.
pub fn find_indexed_item(
    tree: &SectionTree,
    label: &str,
    part: Option<&str>,
    number: &str,
) -> Option<(ItemInfo, Vec<PageSpan>)> {
    let item = items::find_in_map(tree, part, number).filter(|item| item.section.is_none())?;
    let pages = item.content.iter().filter_map(|link| match link.target {
        ItemTarget::Pages(pages) => Some(pages),
        _ => None,
    });
    Some((ItemInfo::from_item_map(item, tree, label), pages.collect()))
}

//! The tree of a document.

use std::collections::HashMap;

use serde::Serialize;
use stemma_catalog::items;
use stemma_catalog::locator::{Fragment, ResolveError, resolve_item};
use stemma_document::{Doubt, Gap, ItemStatus, SectionId, SectionKind, SectionTree};
use utoipa::ToSchema;

use crate::items::{self as items_of, ItemContent};
use crate::{ApiError, Archive, DocumentInfo, SectionInfo};

/// The tree of a document, or one section of it with all subsections.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TreeResponse {
    /// The document.
    pub document: DocumentInfo,
    /// Sections in reading order.
    pub sections: Vec<TreeRow>,
    /// Number of sections below `depth`, which are left out.
    pub hidden: usize,
    /// Pages (or lines) that a section covers.
    pub covered: u32,
    /// What is missing or doubtful, and why.
    #[schema(value_type = Vec<Object>)]
    pub gaps: Vec<Gap>,
    /// Sections whose titles were not found where they were located.
    pub doubtful: usize,
    /// How far the tree should be doubted, and why; `null` if that was not assessed.
    #[schema(value_type = Option<Object>)]
    pub doubt: Option<Doubt>,
}

/// A section in a tree.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TreeRow {
    /// 1 for top sections.
    pub depth: usize,
    /// The section.
    #[serde(flatten)]
    pub section: SectionInfo,
    /// The Item: `item-1A`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// How the document answers that Item.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub status: Option<ItemStatus>,
    /// Where its content is, if not under its heading.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<ItemContent>,
    /// Summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

impl Archive {
    /// The tree of the document, section or Item that a locator names, to `depth` levels.
    ///
    /// # Errors
    /// [`ApiError`] when the locator names nothing, two things, or a document without a tree.
    pub async fn tree(
        &self,
        locator: &str,
        depth: Option<usize>,
        summaries: bool,
    ) -> Result<TreeResponse, ApiError> {
        let (listed, published, part) = self.load_published(locator).await?;
        let tree = &published.tree;
        let root = match &part {
            None => None,
            Some(fragment) => Some(resolve_section(tree, &listed.label, fragment)?),
        };
        let mut item_of: HashMap<SectionId, String> = HashMap::new();
        for item in items::section_items(tree) {
            item_of
                .entry(item.section)
                .or_insert_with(|| item.fragment());
        }
        let mut sections = Vec::new();
        let mut hidden = 0;
        let mut base = None;
        for (level, section) in tree.walk() {
            match (root, base) {
                (Some(root), None) if section.id == root => base = Some(level - 1),
                (Some(_), None) => continue,
                (Some(_), Some(base)) if level <= base + 1 => break,
                _ => {}
            }
            let level = level - base.unwrap_or(0);
            if depth.is_some_and(|depth| level > depth) {
                hidden += 1;
                continue;
            }
            let item = item_of.get(&section.id).cloned();
            let summary = section
                .summary
                .as_ref()
                .filter(|_| summaries)
                .map(|summary| summary.text.clone());
            let answer = items_of::item_at_section(tree, &listed.label, section.id);
            sections.push(TreeRow {
                depth: level,
                section: SectionInfo::new(section, &listed.label),
                item,
                status: answer.as_ref().and_then(|answer| answer.status),
                content: answer.map(|answer| answer.content).unwrap_or_default(),
                summary,
            });
        }
        let doubtful = tree
            .walk()
            .filter(|(_, section)| !section.verified && section.kind == SectionKind::Heading)
            .count();
        let document = DocumentInfo::from_catalog(&listed);
        Ok(TreeResponse {
            document,
            sections,
            hidden,
            covered: covered_extent(tree),
            gaps: tree.gaps.clone(),
            doubtful,
            doubt: tree.provenance.doubt.clone(),
        })
    }
}

/// The section that a fragment names; pages name none.
pub fn resolve_section(
    tree: &SectionTree,
    label: &str,
    fragment: &Fragment,
) -> Result<SectionId, ApiError> {
    match fragment {
        Fragment::Section(id) => match tree.section(*id) {
            Some(section) => Ok(section.id),
            None => {
                let last = tree
                    .walk()
                    .last()
                    .map_or(SectionId(0), |(_, section)| section.id);
                let document = label.into();
                Err(ResolveError::NoSection {
                    document,
                    section: *id,
                    last,
                }
                .into())
            }
        },
        Fragment::Item { part, number } => Ok(resolve_item(tree, label, part.as_deref(), number)?),
        Fragment::Pages(_) => {
            let next = format!("stemma cat '{label}#{fragment}'");
            Err(
                ApiError::new("locator.not_a_section", "pages are no section", next)
                    .with_document(label),
            )
        }
        Fragment::Table(_) => {
            let next = format!("stemma table '{label}#{fragment}'");
            Err(
                ApiError::new("locator.not_a_section", "a table is no section", next)
                    .with_document(label),
            )
        }
    }
}

/// Number of pages or lines in top sections.
fn covered_extent(tree: &SectionTree) -> u32 {
    use stemma_document::SectionSpan;
    let mut last = 0;
    let mut covered = 0;
    for section in &tree.sections {
        let (start, end) = match section.span {
            SectionSpan::Pages { pages, .. } => (pages.start().get(), pages.end().get()),
            SectionSpan::Lines { start, end } => (start, end),
        };
        covered += (end + 1).saturating_sub(start.max(last + 1));
        last = last.max(end);
    }
    covered
}

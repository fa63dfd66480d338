//! The tree of a document.

use serde::Serialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::{Fragment, ResolveError, resolve_item};
use stemma_document::{
    Doubt, Gap, ItemStatus, PublishedTree, Section, SectionId, SectionKind, SectionTree,
};
use utoipa::ToSchema;

use crate::archive::{reserve_tree, spawn_cpu};
use crate::items::{self, ItemContent};
use crate::{ApiError, Archive, DocumentInfo, SectionInfo, cursor};

// Longest title in an outline.
const TITLE_CHARS: usize = 300;

/// Which part of a tree to return.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeRequest {
    /// Locator of a document, a section or an Item.
    pub locator: String,
    /// Levels; all by default.
    pub depth: Option<usize>,
    /// Whether rows have summaries.
    pub summaries: bool,
    /// Rows to return; all by default.
    pub limit: Option<usize>,
    /// Rows to skip, for callers without cursors.
    pub skip: usize,
    /// `next_cursor` of the previous page, instead of `skip`.
    pub cursor: Option<String>,
}

/// The tree of a document, or one section of it with all subsections.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TreeResponse {
    pub document: DocumentInfo,
    /// Sections in reading order: all, or a page of them.
    pub sections: Vec<TreeRow>,
    /// Number of sections on all pages.
    pub total: usize,
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
    /// Cursor of the next page; `null` on the last.
    pub next_cursor: Option<String>,
}

/// A section in a tree.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TreeRow {
    /// 1 for top sections.
    pub depth: usize,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

impl TreeRow {
    /// Id, title, place and tokens on one line, indented by depth.
    pub fn outline_line(&self) -> String {
        let section = &self.section;
        let place = match (section.pages, section.lines) {
            (Some((start, end)), _) if start == end => format!("p {start}"),
            (Some((start, end)), _) => format!("p {start}-{end}"),
            (None, Some((start, end))) => format!("lines {start}-{end}"),
            (None, None) => String::new(),
        };
        let title: String = section.title.chars().take(TITLE_CHARS).collect();
        format!(
            "{}{} {title}  {place}  {} tok",
            "  ".repeat(self.depth - 1),
            section.section_id,
            section.tokens
        )
    }
}

impl Archive {
    /// The tree of the document, section or Item that a locator names.
    pub async fn tree(&self, request: &TreeRequest) -> Result<TreeResponse, ApiError> {
        let (listed, published, part) = self.load_published(&request.locator).await?;
        if request.limit.is_none() {
            reserve_tree(&published).await?;
        }
        let request = request.clone();
        spawn_cpu(move || request.answer(&listed, &published, part.as_ref())).await?
    }
}

impl TreeRequest {
    fn answer(
        &self,
        listed: &CatalogDocument,
        published: &PublishedTree,
        part: Option<&Fragment>,
    ) -> Result<TreeResponse, ApiError> {
        let tree = &published.tree;
        let root = match part {
            None => None,
            Some(fragment) => Some(resolve_section(tree, &listed.label, fragment)?),
        };
        let cursor_key = format!(
            "{} {} {root:?} {:?} {}",
            published.version.doc, published.version.seq, self.depth, self.summaries
        );
        let skip = match self.cursor.as_deref() {
            None => self.skip,
            cursor => cursor::decode_offset(cursor, &cursor_key)?,
        };
        let (within, hidden): (Vec<_>, Vec<_>) = rows_below(tree, root)
            .into_iter()
            .partition(|(level, _)| self.depth.is_none_or(|depth| *level <= depth));
        let item_of = items::item_fragments(tree);
        let sections: Vec<TreeRow> = within
            .iter()
            .skip(skip)
            .take(self.limit.unwrap_or(usize::MAX))
            .map(|(level, section)| {
                let summary = section.summary.as_ref().filter(|_| self.summaries);
                let answer = items::item_at_section(tree, &listed.label, section.id);
                TreeRow {
                    depth: *level,
                    section: SectionInfo::new(tree, section, &listed.label),
                    item: item_of.get(&section.id).cloned(),
                    status: answer.as_ref().and_then(|answer| answer.status),
                    content: answer.map(|answer| answer.content).unwrap_or_default(),
                    summary: summary.map(|summary| summary.text.clone()),
                }
            })
            .collect();
        let doubtful = tree
            .walk()
            .filter(|(_, section)| !section.verified && section.kind == SectionKind::Heading)
            .count();
        let next = skip.saturating_add(sections.len());
        let has_more = next < within.len();
        Ok(TreeResponse {
            document: DocumentInfo::from_catalog(listed),
            sections,
            total: within.len(),
            hidden: hidden.len(),
            covered: covered_extent(tree),
            gaps: tree.gaps.clone(),
            doubtful,
            doubt: tree.provenance.doubt.clone(),
            next_cursor: has_more.then(|| cursor::encode(&cursor_key, &next.to_string())),
        })
    }
}

// The sections of a tree, or of the subtree of `root`, with their levels in it from 1.
fn rows_below(tree: &SectionTree, root: Option<SectionId>) -> Vec<(usize, &Section)> {
    let Some(root) = root else {
        return tree.walk().collect();
    };
    let from_root = tree.walk().skip_while(|(_, section)| section.id != root);
    let mut rows = from_root.peekable();
    let base = rows.peek().map_or(0, |(level, _)| level - 1);
    rows.enumerate()
        .take_while(|(at, (level, _))| *at == 0 || *level > base + 1)
        .map(|(_, (level, section))| (level - base, section))
        .collect()
}

/// The section that a fragment names; pages name none.
pub fn resolve_section(
    tree: &SectionTree,
    label: &str,
    fragment: &Fragment,
) -> Result<SectionId, ApiError> {
    let (message, command) = match fragment {
        Fragment::Section(id) if tree.section(*id).is_some() => return Ok(*id),
        Fragment::Section(id) => {
            let last = tree.walk().last().map(|(_, section)| section.id);
            return Err(ApiError::from(ResolveError::NoSection {
                document: label.into(),
                section: *id,
                last: last.unwrap_or(SectionId(0)),
            }));
        }
        Fragment::Item { part, number } => {
            return Ok(resolve_item(tree, label, part.as_deref(), number)?);
        }
        Fragment::Pages(_) => ("pages are not a section", "cat"),
        Fragment::Table(_) => ("a table is not a section", "table"),
    };
    let next = format!("stemma {command} '{label}#{fragment}'");
    Err(ApiError::new("locator.not_a_section", message, next).with_document(label))
}

/// Number of pages or lines in top sections.
fn covered_extent(tree: &SectionTree) -> u32 {
    let mut last = 0;
    let mut covered = 0;
    for section in &tree.sections {
        let (start, end) = section.span.bounds();
        covered += (end + 1).saturating_sub(start.max(last + 1));
        last = last.max(end);
    }
    covered
}

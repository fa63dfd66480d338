//! Compares the Item map of one filing with gold Items.

use serde::Serialize;
use stemma_document::text::normalize_key;
use stemma_document::{FilingItem, ItemLink, ItemStatus, ItemTarget, SectionTree};

use crate::gold::{GoldItems, GoldTarget};

/// A question about an Item, and whether the Item map answers it correctly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScoredItem {
    pub item: String,
    pub question: ItemQuestion,
    pub right: bool,
    /// Wrong, although the map marks neither the boundary as unverifiable nor the target as unknown or approximate.
    pub confident: bool,
    #[serde(rename = "wanted")]
    pub gold: String,
    #[serde(rename = "found")]
    pub predicted: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemQuestion {
    /// The physical page of the heading; none for absent Items.
    Page,
    Status,
    /// The place inside the document that the Item refers to.
    Target,
    /// The same for a part of an Item.
    PartialTarget,
}

impl ItemQuestion {
    pub const ALL: [Self; 4] = [Self::Page, Self::Status, Self::Target, Self::PartialTarget];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Status => "status",
            Self::Target => "target",
            Self::PartialTarget => "partial_target",
        }
    }
}

/// Scores every Item and target that the gold data covers. Without a tree nothing is found.
pub fn score(gold: &GoldItems, tree: Option<&SectionTree>) -> Vec<ScoredItem> {
    let find = |name: &str| {
        let tree = tree?;
        tree.items.iter().find(|item| part_and_number(item) == name)
    };
    let mut scored = Vec::new();
    for (name, (status, page)) in &gold.items {
        let item = find(name);
        let start = item
            .and_then(|item| item.pages)
            .map(|pages| pages.start().get());
        let found = item.map_or(ItemStatus::Absent, |item| item.status);
        let sure = item.is_some_and(|item| !item.boundary_unverifiable);
        let right = start == *page;
        scored.push(ScoredItem {
            item: name.clone(),
            question: ItemQuestion::Page,
            right,
            confident: !right && start.is_some() && sure,
            gold: page_text(*page),
            predicted: page_text(start),
        });
        scored.push(ScoredItem {
            item: name.clone(),
            question: ItemQuestion::Status,
            right: found == *status,
            confident: found != *status && sure,
            gold: status.as_str().into(),
            predicted: found.as_str().into(),
        });
    }
    for (name, target) in &gold.targets {
        let item = find(name);
        let places: Vec<(u32, &str)> = match (tree, item) {
            (Some(tree), Some(item)) => link_places(item, tree),
            _ => Vec::new(),
        };
        let inside =
            |link: &&ItemLink| matches!(link.target, ItemTarget::Section(_) | ItemTarget::Pages(_));
        let links = item.into_iter().flat_map(|item| &item.content);
        let exact = links.filter(inside).any(|link| !link.approximate);
        let right = places.iter().any(|place| is_target(target, *place));
        let predicted: Vec<String> = places
            .iter()
            .map(|(page, title)| format!("{page} {title}"))
            .collect();
        scored.push(ScoredItem {
            item: name.clone(),
            question: if target.partial {
                ItemQuestion::PartialTarget
            } else {
                ItemQuestion::Target
            },
            right,
            confident: !right && exact,
            gold: format!("{} {}", target.page, target.title),
            predicted: predicted.join("; "),
        });
    }
    scored
}

fn part_and_number(item: &FilingItem) -> String {
    match &item.part {
        Some(part) => format!("{part}.{}", item.number),
        None => item.number.clone(),
    }
}

/// Start page and title of the places inside the document that an Item refers to. Pages have no title.
fn link_places<'t>(item: &FilingItem, tree: &'t SectionTree) -> Vec<(u32, &'t str)> {
    item.content
        .iter()
        .filter_map(|link| match link.target {
            ItemTarget::Section(id) => {
                let section = tree.section(id)?;
                Some((section.span.pages()?.start().get(), section.title.as_str()))
            }
            ItemTarget::Pages(pages) => Some((pages.start().get(), "")),
            ItemTarget::Outside(_) | ItemTarget::Unresolved => None,
        })
        .collect()
}

fn page_text(page: Option<u32>) -> String {
    page.map_or_else(|| "-".into(), |page| page.to_string())
}

/// Whether a place starts on the page of the target and, if it is a section, has its title.
fn is_target(target: &GoldTarget, (page, title): (u32, &str)) -> bool {
    let gold = normalize_key(&target.title);
    let found = normalize_key(title);
    // A printed title may be wrapped or shortened.
    let same = found.is_empty() || gold.contains(&found) || found.contains(&gold);
    (page == target.page && same)
        || target
            .content
            .as_ref()
            .is_some_and(|content| is_target(content, (page, title)))
}

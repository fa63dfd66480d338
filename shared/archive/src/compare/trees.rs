//! Comparison of two trees of the same document: what other rules, or a person, changed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_diff::{AlignInput, AlignOptions, align};
use stemma_document::rounding::rounded_share;
use stemma_document::{Method, PublishedTree, SectionId, SectionSpan, SectionTree, SourceBody};

use super::spawn_cpu;
use crate::archive::no_tree;
use crate::{ApiError, Archive};

// Documents compared at once. Each needs the memory of two texts.
const CONCURRENCY: usize = 4;
// Versions before the newest that are searched for a tree.
const MAX_VERSIONS_BACK: usize = 100;

/// What differs between the trees of a collection in two stores, or between two trees of a document.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TreeComparison {
    pub documents: Vec<DocumentTrees>,
    /// Documents that have a tree in the old store only.
    pub only_old: Vec<String>,
    /// Documents that have a tree in the new store only.
    pub only_new: Vec<String>,
    pub summary: TreeChangeCounts,
}

/// Two trees of one document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DocumentTrees {
    pub document: String,
    pub old: TreeVersion,
    pub new: TreeVersion,
    pub counts: TreeChangeCounts,
    /// Changed sections, in the order of the new tree.
    pub sections: Vec<SectionChange>,
    /// Why the sections were not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TreeVersion {
    pub version: u64,
    pub method: Method,
    pub doubt: Option<f64>,
    pub sections: usize,
}

/// Number of sections by kind of change. A section may count under several of `retitled`, `moved` and `relevelled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TreeChangeCounts {
    pub added: usize,
    pub removed: usize,
    pub retitled: usize,
    /// Begins on another page or line.
    pub moved: usize,
    pub relevelled: usize,
    pub unchanged: usize,
    /// Documents with another tree.
    pub documents_changed: usize,
}

impl TreeChangeCounts {
    fn add(&mut self, other: &Self) {
        self.added += other.added;
        self.removed += other.removed;
        self.retitled += other.retitled;
        self.moved += other.moved;
        self.relevelled += other.relevelled;
        self.unchanged += other.unchanged;
        self.documents_changed += other.documents_changed;
    }
}

/// A section that is not the same in both trees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionChange {
    /// `None` when the section was added.
    pub old: Option<TreePlace>,
    /// `None` when the section was removed.
    pub new: Option<TreePlace>,
    pub retitled: bool,
    pub moved: bool,
    pub relevelled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreePlace {
    pub section_id: SectionId,
    pub title: String,
    /// 1 for top sections.
    pub level: usize,
    /// First page; `None` in texts without pages.
    pub page: Option<u32>,
    /// First line, from 1: of the page or of the text.
    pub line: u32,
}

impl Archive {
    /// Compares the trees of this collection with those of another store. Documents are the same if their ids or their paths
    /// are the same.
    pub async fn compare_trees(&self, newer: &Archive) -> Result<TreeComparison, ApiError> {
        let mut comparison = TreeComparison::default();
        let mut pairs = Vec::new();
        let mut matched = HashSet::new();
        for old in self.catalog.documents() {
            let old = old?;
            let same = match newer.catalog.get(old.doc())? {
                None => newer.catalog.at_path(&old.version().path)?,
                same => same,
            };
            match same {
                Some(new) if matched.insert(new.doc()) => pairs.push((old, new)),
                _ => comparison.only_old.push(old.label.clone()),
            }
        }
        for new in newer.catalog.documents() {
            let new = new?;
            if !matched.contains(&new.doc()) {
                comparison.only_new.push(new.label.clone());
            }
        }
        let compared: Vec<ComparedDocument> = stream::iter(pairs)
            .map(
                |(old, new): (Arc<CatalogDocument>, Arc<CatalogDocument>)| async move {
                    let trees = (self.load_tree(&old).await?, newer.load_tree(&new).await?);
                    let (old_tree, new_tree) = match trees {
                        (Some(old_tree), Some(new_tree)) => (old_tree, new_tree),
                        (Some(_), None) => {
                            return Ok(ComparedDocument::OnlyOld(old.label.clone()));
                        }
                        (None, Some(_)) => {
                            return Ok(ComparedDocument::OnlyNew(new.label.clone()));
                        }
                        (None, None) => return Ok(ComparedDocument::NoTree),
                    };
                    let bodies = (
                        self.load_body(&old_tree).await?,
                        newer.load_body(&new_tree).await?,
                    );
                    let label = new.label.clone();
                    let compared =
                        spawn_cpu(move || compare_versions(label, &old_tree, &new_tree, &bodies))
                            .await?;
                    Ok::<_, ApiError>(ComparedDocument::Both(compared))
                },
            )
            .buffered(CONCURRENCY)
            .try_collect()
            .await?;
        for document in compared {
            match document {
                ComparedDocument::Both(document) => {
                    comparison.summary.add(&document.counts);
                    comparison.documents.push(document);
                }
                ComparedDocument::OnlyOld(label) => comparison.only_old.push(label),
                ComparedDocument::OnlyNew(label) => comparison.only_new.push(label),
                ComparedDocument::NoTree => {}
            }
        }
        Ok(comparison)
    }

    /// Compares two versions of a document's tree. Without `old`, the one before the newest is compared; without `new`, the
    /// newest.
    pub async fn compare_versions(
        &self,
        locator: &str,
        old: Option<u64>,
        new: Option<u64>,
    ) -> Result<TreeComparison, ApiError> {
        let listed = self.locate(locator)?.0;
        let newest = listed.entry().ok_or_else(|| no_tree(&listed))?.version.seq;
        let new_tree = self.tree_of_version(&listed, new.unwrap_or(newest)).await?;
        let old_tree = match old {
            Some(old) => self.tree_of_version(&listed, old).await?,
            None => self.tree_before(&listed, new_tree.version.seq).await?,
        };
        let bodies = (
            self.load_body(&old_tree).await?,
            self.load_body(&new_tree).await?,
        );
        let label = listed.label.clone();
        let document =
            spawn_cpu(move || compare_versions(label, &old_tree, &new_tree, &bodies)).await?;
        Ok(TreeComparison {
            summary: document.counts,
            documents: vec![document],
            ..TreeComparison::default()
        })
    }

    async fn tree_of_version(
        &self,
        listed: &CatalogDocument,
        seq: u64,
    ) -> Result<PublishedTree, ApiError> {
        let loaded = self.store.load_tree(listed.doc(), seq).await?;
        loaded.map(|(tree, _)| tree).ok_or_else(|| {
            let message = format!("`{}` has no tree of version {seq}", listed.label);
            no_version(listed, message)
        })
    }

    async fn tree_before(
        &self,
        listed: &CatalogDocument,
        seq: u64,
    ) -> Result<PublishedTree, ApiError> {
        for before in (1..seq).rev().take(MAX_VERSIONS_BACK) {
            if let Some((tree, _)) = self.store.load_tree(listed.doc(), before).await? {
                return Ok(tree);
            }
        }
        let message = format!("`{}` has no tree before version {seq}", listed.label);
        Err(no_version(listed, message))
    }
}

// A document of both stores.
enum ComparedDocument {
    Both(DocumentTrees),
    /// It failed in the new store, or has no tree there yet.
    OnlyOld(String),
    OnlyNew(String),
    NoTree,
}

fn no_version(listed: &CatalogDocument, message: String) -> ApiError {
    let next = "the last two trees of a document are kept; `stemma stat` shows its version";
    ApiError::new("document.no_version", message, next).with_document(&listed.label)
}

fn compare_versions(
    document: String,
    old: &PublishedTree,
    new: &PublishedTree,
    bodies: &(Option<SourceBody>, Option<SourceBody>),
) -> DocumentTrees {
    let left = AlignInput::new(&old.tree, bodies.0.as_ref());
    let right = AlignInput::new(&new.tree, bodies.1.as_ref());
    let mut counts = TreeChangeCounts::default();
    let mut sections = Vec::new();
    let mut error = None;
    match align(&left, &right, &AlignOptions { sentences: 0 }) {
        Ok(alignment) => {
            let old_places = places(&old.tree);
            let new_places = places(&new.tree);
            // Two sections that begin on one line are one, also if title and text have nothing in common.
            let removed = alignment.pairs.iter().filter(|pair| pair.right.is_none());
            let mut removed: HashMap<_, &TreePlace> = removed
                .filter_map(|pair| old_places.get(pair.left?.0 as usize))
                .map(|old| ((old.page, old.line), old))
                .collect();
            let mut renamed = HashSet::new();
            let mut changes = Vec::new();
            for pair in &alignment.pairs {
                let new = pair.right.and_then(|id| new_places.get(id.0 as usize));
                let old = match (pair.left, new) {
                    (Some(id), _) => old_places.get(id.0 as usize),
                    (None, Some(new)) => {
                        let old = removed.remove(&(new.page, new.line));
                        renamed.extend(old.map(|old| old.section_id));
                        old
                    }
                    (None, None) => None,
                };
                changes.push((pair, SectionChange::new(old.cloned(), new.cloned())));
            }
            for (pair, change) in changes {
                let is_renamed =
                    pair.right.is_none() && pair.left.is_some_and(|old| renamed.contains(&old));
                if !is_renamed && change.count(&mut counts) {
                    sections.push(change);
                }
            }
        }
        Err(failure) => error = Some(failure.to_string()),
    }
    let old = TreeVersion::new(old);
    let new = TreeVersion::new(new);
    counts.documents_changed = usize::from(!sections.is_empty());
    DocumentTrees {
        document,
        old,
        new,
        counts,
        sections,
        error,
    }
}

impl TreeVersion {
    fn new(published: &PublishedTree) -> Self {
        let provenance = &published.tree.provenance;
        let doubt = provenance.doubt.as_ref();
        Self {
            version: published.version.seq,
            method: provenance.method,
            doubt: doubt.map(|doubt| rounded_share(doubt.score)),
            sections: published.tree.walk().count(),
        }
    }
}

// By section id, which counts in pre-order.
fn places(tree: &SectionTree) -> Vec<TreePlace> {
    tree.walk()
        .map(|(level, section)| {
            let (page, line) = match section.span {
                SectionSpan::Pages { from, .. } => (Some(from.page.get()), from.line + 1),
                SectionSpan::Lines { start, .. } => (None, start),
            };
            TreePlace {
                section_id: section.id,
                title: section.title.clone(),
                level,
                page,
                line,
            }
        })
        .collect()
}

impl SectionChange {
    fn new(old: Option<TreePlace>, new: Option<TreePlace>) -> Self {
        let (retitled, moved, relevelled) = match (&old, &new) {
            (Some(old), Some(new)) => {
                let same_place = match (old.page, new.page) {
                    (None, None) => old.line == new.line,
                    (old, new) => old == new,
                };
                (old.title != new.title, !same_place, old.level != new.level)
            }
            _ => (false, false, false),
        };
        Self {
            old,
            new,
            retitled,
            moved,
            relevelled,
        }
    }

    // Counts the change; false if there is none.
    fn count(&self, counts: &mut TreeChangeCounts) -> bool {
        match (&self.old, &self.new) {
            (None, _) => counts.added += 1,
            (_, None) => counts.removed += 1,
            _ if !(self.retitled || self.moved || self.relevelled) => {
                counts.unchanged += 1;
                return false;
            }
            _ => {
                counts.retitled += usize::from(self.retitled);
                counts.moved += usize::from(self.moved);
                counts.relevelled += usize::from(self.relevelled);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::{
        DraftEntry, EntryVerdict, EvidenceSource, Extent, LocatedEntry, SectionStart,
        VerifiedOutline,
    };

    use super::*;

    // Sections of a text of ten lines: level, line, title.
    fn published(headings: &[(u16, u32, &str)], method: Method) -> PublishedTree {
        let judged = headings.iter().map(|(level, line, title)| {
            let entry = DraftEntry {
                number: None,
                title: (*title).into(),
                label: None,
                target: None,
                level: *level,
                evidence: EvidenceSource::Markup,
            };
            let place = SectionStart::Line(*line);
            let verdict = EntryVerdict::Confirmed { starts_page: true };
            (LocatedEntry { entry, place }, verdict)
        });
        let outline = VerifiedOutline::new(Extent::Lines(10), judged.collect()).unwrap();
        PublishedTree {
            version: stemma_sample_store::version("a.md", 1),
            text_artifact: String::new(),
            tree: SectionTree::build(&outline, method, Vec::new()),
        }
    }

    #[test]
    fn changes_are_told_apart() {
        let old = [
            (1, 1, "Business overview"),
            (2, 2, "Products and services"),
            (1, 4, "Legal proceedings"),
            (1, 8, "Exhibit index"),
            (1, 10, "Signatures"),
        ];
        let new = [
            (1, 1, "Business overview"),
            (1, 2, "Products and services"),
            (1, 5, "Legal proceedings"),
            (1, 9, "Quarterly dividends"),
            (1, 10, "Closing remarks"),
        ];
        let old = published(&old, Method::Markup);
        let new = published(&new, Method::Person);
        let compared = compare_versions("a".into(), &old, &new, &(None, None));
        let expected = TreeChangeCounts {
            added: 1,
            removed: 1,
            moved: 1,
            relevelled: 1,
            unchanged: 1,
            documents_changed: 1,
            retitled: 1,
        };
        assert_eq!(compared.counts, expected);
        assert_eq!(compared.new.method, Method::Person);
        let same = compare_versions("a".into(), &old, &old, &(None, None));
        assert_eq!((same.counts.unchanged, same.sections.len()), (5, 0));
        assert_eq!(same.counts.documents_changed, 0);
    }
}

//! Documents in one order, in blocks that successive catalogs share.
//!
//! A publication changes one block; all others are the same memory as in the catalog before. So a new catalog of a million
//! documents takes microseconds, and two catalogs are compared by the blocks that they do not share.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use crate::document::CatalogDocument;

// Documents per block, up to twice as many after insertions. Copying a block takes some microseconds.
const BLOCK: usize = 512;

type Block = Arc<Vec<Arc<CatalogDocument>>>;

/// An order of documents.
pub(crate) type DocumentOrder = fn(&CatalogDocument, &CatalogDocument) -> Ordering;

/// An ordered list of documents. Clones share their memory.
#[derive(Debug, Clone)]
pub(crate) struct OrderedDocuments {
    // None is empty.
    blocks: Vec<Block>,
    len: usize,
    order: DocumentOrder,
}

impl OrderedDocuments {
    /// A list of documents that are in this order.
    pub(crate) fn from_sorted(sorted: &[Arc<CatalogDocument>], order: DocumentOrder) -> Self {
        Self {
            blocks: sorted
                .chunks(BLOCK)
                .map(|block| Arc::new(block.to_vec()))
                .collect(),
            len: sorted.len(),
            order,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn shared(&self) -> impl Iterator<Item = &Arc<CatalogDocument>> {
        self.blocks.iter().flat_map(|block| block.iter())
    }

    /// The document that compares as equal; `compare` says how a document of the list stands to it.
    pub(crate) fn find(
        &self,
        compare: impl Fn(&CatalogDocument) -> Ordering,
    ) -> Option<&Arc<CatalogDocument>> {
        let before = |document: &CatalogDocument| compare(document).is_lt();
        let found = self.starting_at(&before).next()?;
        compare(found).is_eq().then_some(found)
    }

    /// The documents from the first one that is not `before`, in order.
    pub(crate) fn starting_at<'a>(
        &'a self,
        before: &dyn Fn(&CatalogDocument) -> bool,
    ) -> impl Iterator<Item = &'a Arc<CatalogDocument>> + use<'a> {
        let (block, at) = self.position(before);
        let rest = self.blocks[block..].iter().flat_map(|block| block.iter());
        rest.skip(at)
    }

    /// The last document that is `before`.
    pub(crate) fn last_before(
        &self,
        before: &dyn Fn(&CatalogDocument) -> bool,
    ) -> Option<&Arc<CatalogDocument>> {
        match self.position(before) {
            (block, 0) => self.blocks[..block].last()?.last(),
            (block, at) => self.blocks[block].get(at - 1),
        }
    }

    // Block and place in it of the first document that is not `before`.
    fn position(&self, before: &dyn Fn(&CatalogDocument) -> bool) -> (usize, usize) {
        let is_before = |block: &Block| block.last().is_some_and(|last| before(last));
        let block = self.blocks.partition_point(is_before);
        let at = self.blocks.get(block).map_or(0, |block| {
            block.partition_point(|document| before(document))
        });
        (block, at)
    }

    /// Inserts a document, or replaces the one that compares as equal.
    pub(crate) fn insert(&mut self, document: Arc<CatalogDocument>) {
        let order = self.order;
        let (at_block, at) = self.position(&|other| order(other, &document).is_lt());
        if at_block == self.blocks.len() {
            match self.blocks.last_mut().filter(|last| last.len() < BLOCK) {
                Some(last) => Arc::make_mut(last).push(document),
                None => self.blocks.push(Arc::new(vec![document])),
            }
            self.len += 1;
            return;
        }
        let block = Arc::make_mut(&mut self.blocks[at_block]);
        if order(&block[at], &document).is_eq() {
            block[at] = document;
            return;
        }
        block.insert(at, document);
        self.len += 1;
        if block.len() > 2 * BLOCK {
            let second = block.split_off(BLOCK);
            self.blocks.insert(at_block + 1, Arc::new(second));
        }
    }

    /// Removes the document that compares as equal.
    pub(crate) fn remove(&mut self, document: &CatalogDocument) {
        let order = self.order;
        let (at_block, at) = self.position(&|other| order(other, document).is_lt());
        let Some(block) = self.blocks.get_mut(at_block) else {
            return;
        };
        if !order(&block[at], document).is_eq() {
            return;
        }
        let block = Arc::make_mut(block);
        block.remove(at);
        self.len -= 1;
        if block.is_empty() {
            self.blocks.remove(at_block);
        }
    }

    /// The documents of both lists that are not the same memory in the other one: those of `older`, and of this list.
    pub(crate) fn differences<'a>(
        &'a self,
        older: &'a Self,
    ) -> impl Iterator<Item = &'a Arc<CatalogDocument>> {
        unshared(older, self).chain(unshared(self, older))
    }
}

// The documents of the blocks that the other list does not have.
fn unshared<'a>(
    list: &'a OrderedDocuments,
    other: &OrderedDocuments,
) -> impl Iterator<Item = &'a Arc<CatalogDocument>> {
    let known: HashSet<*const Vec<Arc<CatalogDocument>>> =
        other.blocks.iter().map(Arc::as_ptr).collect();
    let blocks = list
        .blocks
        .iter()
        .filter(move |block| !known.contains(&Arc::as_ptr(block)));
    blocks.flat_map(|block| block.iter())
}

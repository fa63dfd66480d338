//! Sets of documents of a catalog.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use roaring::RoaringBitmap;
use stemma_document::DocId;
use stemma_store::{PortError, PortResult};

use crate::catalog::Catalog;
use crate::document::CatalogDocument;

// A set of this size or less is sorted by path, which reads each of its paths. Of a larger one, documents follow each other
// closely in the order of all paths: at a million documents one in 30 is in the set.
pub(crate) const MAX_SORTED: u64 = 32_768;
// The documents of a set of this size or less are read, which takes as long as going through some 50,000 values. In a larger
// set of a million documents, a page of 50 is found in as many values.
const MAX_READ: u64 = 1_024;
// Paths read at once.
const CHUNK: usize = 256;

// Up to which size a set is read as a whole, instead of going through all values, or all paths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WholeSets {
    pub(crate) max_read: u64,
    pub(crate) max_sorted: u64,
}

impl Default for WholeSets {
    fn default() -> Self {
        Self {
            max_read: MAX_READ,
            max_sorted: MAX_SORTED,
        }
    }
}

/// Documents of a catalog. In an earlier or later state of the catalog it means the same documents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DocumentSet {
    pub(crate) numbers: RoaringBitmap,
    // A folder that all of them are in, or empty.
    pub(crate) folder: String,
}

impl DocumentSet {
    pub(crate) fn new(numbers: RoaringBitmap) -> Self {
        Self {
            numbers,
            folder: String::new(),
        }
    }

    pub(crate) fn in_folder(numbers: RoaringBitmap, folder: &str) -> Self {
        Self {
            numbers,
            folder: folder.to_owned(),
        }
    }

    pub fn len(&self) -> usize {
        usize::try_from(self.numbers.len()).unwrap_or(usize::MAX)
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The documents of both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let folder = if self.folder.is_empty() {
            &other.folder
        } else {
            &self.folder
        };
        Self::in_folder(&self.numbers & &other.numbers, folder)
    }

    /// The documents of either set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self::new(&self.numbers | &other.numbers)
    }

    /// The documents of this set that are not in the other one.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self::in_folder(&self.numbers - &other.numbers, &self.folder)
    }
}

/// Iterates over documents in the order of their paths. They are read one after another.
pub struct Documents<'c> {
    catalog: &'c Catalog,
    order: PathOrder<'c>,
}

enum PathOrder<'c> {
    Sorted(std::vec::IntoIter<u32>),
    Walk(PathWalk<'c>),
    Failed(Option<PortError>),
}

// Goes through all paths, and keeps those of a set.
struct PathWalk<'c> {
    set: Cow<'c, DocumentSet>,
    // Where the paths lie that were not read yet.
    from: Bound<(String, DocId)>,
    to: Bound<(String, DocId)>,
    is_descending: bool,
    chunk: VecDeque<u32>,
    is_ended: bool,
}

impl<'c> Documents<'c> {
    /// The documents of a set behind a path and id.
    pub(crate) fn new(
        catalog: &'c Catalog,
        set: Cow<'c, DocumentSet>,
        after: Option<(String, DocId)>,
        is_descending: bool,
        whole: WholeSets,
    ) -> Self {
        let order = if set.numbers.len() <= whole.max_sorted {
            match sorted(catalog, &set, after, is_descending) {
                Ok(numbers) => PathOrder::Sorted(numbers.into_iter()),
                Err(error) => PathOrder::Failed(Some(error)),
            }
        } else {
            PathOrder::Walk(PathWalk::new(set, after, is_descending))
        };
        Self { catalog, order }
    }

    pub(crate) fn from_set(catalog: &'c Catalog, set: DocumentSet) -> Self {
        let whole = WholeSets::default();
        Self::new(catalog, Cow::Owned(set), None, false, whole)
    }

    /// The documents of these numbers, in their order.
    pub(crate) fn from_numbers(catalog: &'c Catalog, numbers: Vec<u32>) -> Self {
        let order = PathOrder::Sorted(numbers.into_iter());
        Self { catalog, order }
    }

    pub(crate) fn failed(catalog: &'c Catalog, error: PortError) -> Self {
        let order = PathOrder::Failed(Some(error));
        Self { catalog, order }
    }

    fn next_number(&mut self) -> PortResult<Option<u32>> {
        match &mut self.order {
            PathOrder::Sorted(numbers) => Ok(numbers.next()),
            PathOrder::Walk(walk) => walk.next(self.catalog),
            PathOrder::Failed(error) => error.take().map_or(Ok(None), Err),
        }
    }
}

impl Iterator for Documents<'_> {
    type Item = PortResult<Arc<CatalogDocument>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let number = match self.next_number() {
                Ok(number) => number?,
                Err(error) => {
                    self.order = PathOrder::Failed(None);
                    return Some(Err(error));
                }
            };
            // A number of a later state has no document yet, or has none any more.
            match self.catalog.read(number) {
                Ok(None) => {}
                Ok(Some(document)) => return Some(Ok(document)),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn sorted(
    catalog: &Catalog,
    set: &DocumentSet,
    after: Option<(String, DocId)>,
    is_descending: bool,
) -> PortResult<Vec<u32>> {
    let mut entries = Vec::with_capacity(set.len());
    for number in &set.numbers {
        if let Some((doc, _, path)) = catalog.reader().listed(number)? {
            entries.push(((path, doc), number));
        }
    }
    if let Some(after) = after {
        entries.retain(|(entry, _)| (*entry > after) != is_descending && *entry != after);
    }
    entries.sort_unstable();
    if is_descending {
        entries.reverse();
    }
    Ok(entries.into_iter().map(|(_, number)| number).collect())
}

impl<'c> PathWalk<'c> {
    fn new(set: Cow<'c, DocumentSet>, after: Option<(String, DocId)>, is_descending: bool) -> Self {
        let at = |path: String| (path, DocId::from_u128(0));
        let mut from = Bound::Unbounded;
        let mut to = Bound::Unbounded;
        if !set.folder.is_empty() {
            from = Bound::Included(at(format!("{}/", set.folder)));
            // `0` is the character behind `/`.
            to = Bound::Excluded(at(format!("{}0", set.folder)));
        }
        // A position before the folder has all of the set after it.
        let after = after.filter(|after| match (&from, &to) {
            (Bound::Included(from), _) if !is_descending => after >= from,
            (_, Bound::Excluded(to)) if is_descending => after <= to,
            _ => true,
        });
        if let Some(after) = after {
            let end = if is_descending { &mut to } else { &mut from };
            *end = Bound::Excluded(after);
        }
        Self {
            set,
            from,
            to,
            is_descending,
            chunk: VecDeque::new(),
            is_ended: false,
        }
    }

    fn next(&mut self, catalog: &Catalog) -> PortResult<Option<u32>> {
        loop {
            if let Some(number) = self.chunk.pop_front() {
                return Ok(Some(number));
            }
            if self.is_ended {
                return Ok(None);
            }
            let from = self.from.as_ref();
            let reader = catalog.reader();
            let entries = reader.paths(from, self.to.as_ref(), self.is_descending, CHUNK)?;
            self.is_ended = entries.len() < CHUNK;
            let numbers = entries.iter().map(|entry| entry.number);
            self.chunk
                .extend(numbers.filter(|number| self.set.numbers.contains(*number)));
            if let Some(last) = entries.into_iter().next_back() {
                let end = if self.is_descending {
                    &mut self.to
                } else {
                    &mut self.from
                };
                *end = Bound::Excluded((last.path, last.doc));
            }
        }
    }
}

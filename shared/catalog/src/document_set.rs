//! Sets of documents of a catalog.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use roaring::RoaringBitmap;
use stemma_document::DocId;
use stemma_engine::{PortError, PortResult};

use crate::catalog::Catalog;
use crate::document::CatalogDocument;
use crate::facets::path_below;

// A set of this size or less is sorted by path, which reads each of its paths. Of a larger one, documents follow each other
// closely in the order of all paths: at a million documents one in 30 is in the set.
pub(crate) const MAX_SORTED: u64 = 32_768;
// Paths read at once.
const CHUNK: usize = 256;

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

    /// Number of documents.
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
    // The path and id behind which the next chunk begins.
    position: Option<(String, DocId)>,
    is_position_included: bool,
    chunk: VecDeque<u32>,
    is_ended: bool,
}

impl<'c> Documents<'c> {
    pub(crate) fn new(
        catalog: &'c Catalog,
        set: Cow<'c, DocumentSet>,
        after: Option<(&str, DocId)>,
    ) -> Self {
        let order = if set.numbers.len() <= MAX_SORTED {
            match sorted(catalog, &set, after) {
                Ok(numbers) => PathOrder::Sorted(numbers.into_iter()),
                Err(error) => PathOrder::Failed(Some(error)),
            }
        } else {
            PathOrder::Walk(PathWalk::new(set, after))
        };
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
    after: Option<(&str, DocId)>,
) -> PortResult<Vec<u32>> {
    let mut entries = Vec::with_capacity(set.len());
    for number in &set.numbers {
        if let Some((doc, _, path)) = catalog.reader().listed(number)?
            && after.is_none_or(|after| (path.as_str(), doc) > after)
        {
            entries.push((path, doc, number));
        }
    }
    entries.sort_unstable();
    Ok(entries.into_iter().map(|(.., number)| number).collect())
}

impl<'c> PathWalk<'c> {
    fn new(set: Cow<'c, DocumentSet>, after: Option<(&str, DocId)>) -> Self {
        let start = format!("{}/", set.folder);
        let is_in_folder = !set.folder.is_empty();
        // Before the folder there is nothing of the set.
        let after = after.filter(|(path, _)| !is_in_folder || *path >= start.as_str());
        let is_position_included = after.is_none();
        let position = match after {
            Some((path, doc)) => Some((path.to_owned(), doc)),
            None => is_in_folder.then(|| (start, DocId::from_u128(0))),
        };
        Self {
            set,
            position,
            is_position_included,
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
            let from = match &self.position {
                None => Bound::Unbounded,
                Some((path, doc)) if self.is_position_included => {
                    Bound::Included((path.as_str(), *doc))
                }
                Some((path, doc)) => Bound::Excluded((path.as_str(), *doc)),
            };
            let entries = catalog.reader().paths_after(from, CHUNK)?;
            self.is_ended = entries.len() < CHUNK;
            self.is_position_included = false;
            for entry in &entries {
                if path_below(&self.set.folder, &entry.path).is_none() {
                    self.is_ended = true;
                    break;
                }
                if self.set.numbers.contains(entry.number) {
                    self.chunk.push_back(entry.number);
                }
            }
            self.position = entries
                .into_iter()
                .next_back()
                .map(|entry| (entry.path, entry.doc));
        }
    }
}

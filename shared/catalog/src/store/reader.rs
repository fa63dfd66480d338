//! Reads one state of a stored catalog.

use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use memchr::memmem::Finder;
use redb::{Database, ReadOnlyTable, ReadTransaction};
use roaring::RoaringBitmap;
use stemma_document::DocId;
use stemma_store::PortResult;

use super::StoreState;
use super::path_block;
use super::posting;
use super::stored_document::StoredDocument;
use super::tables::{self, ListedRow, NameKey, PathKey, Postings, RecordRow, port_error};
use super::terms::{self, NameKind, TermField};
use crate::document::CatalogDocument;
use crate::document_changes::DocumentChanges;

/// A state of a stored catalog. It stays as it is while it is held.
pub(crate) struct StoreReader {
    // Closes the tables when it is dropped.
    _database: Arc<Database>,
    pub(crate) state: StoreState,
    numbers: ReadOnlyTable<u128, u32>,
    listed: ReadOnlyTable<u32, ListedRow>,
    records: ReadOnlyTable<u32, RecordRow>,
    paths: ReadOnlyTable<PathKey, u32>,
    path_blocks: ReadOnlyTable<u32, &'static [u8]>,
    names: ReadOnlyTable<NameKey, u32>,
    postings: Postings,
    changed: ReadOnlyTable<u64, u128>,
    queued: ReadOnlyTable<(u64, u128), u64>,
    // Sets that most questions need. They have 125 KB at a million documents.
    all: OnceLock<Arc<RoaringBitmap>>,
    with_tree: OnceLock<Arc<RoaringBitmap>>,
}

/// The values of a field from one on, each with its spelling and the numbers of its documents.
pub(crate) struct FieldValue {
    pub(crate) normalized: String,
    pub(crate) spelling: String,
    pub(crate) numbers: RoaringBitmap,
}

/// An entry in the order of paths.
pub(crate) struct PathEntry {
    pub(crate) path: String,
    pub(crate) doc: DocId,
    pub(crate) number: u32,
}

impl StoreReader {
    pub(super) fn new(
        database: Arc<Database>,
        transaction: &ReadTransaction,
        state: StoreState,
    ) -> Result<Self, redb::Error> {
        Ok(Self {
            _database: database,
            state,
            numbers: transaction.open_table(tables::NUMBERS)?,
            listed: transaction.open_table(tables::LISTED)?,
            records: transaction.open_table(tables::RECORDS)?,
            paths: transaction.open_table(tables::PATHS)?,
            path_blocks: transaction.open_table(tables::PATH_BLOCKS)?,
            names: transaction.open_table(tables::NAMES)?,
            postings: transaction.open_table(tables::POSTINGS)?,
            changed: transaction.open_table(tables::CHANGED)?,
            queued: transaction.open_table(tables::QUEUED)?,
            all: OnceLock::new(),
            with_tree: OnceLock::new(),
        })
    }

    /// Whether all changes, and this floor of records, survive a crash of the machine.
    pub(crate) fn is_durable_at(&self, floor: u64) -> bool {
        self.state.durable_sequence == self.state.sequence && self.state.floor == floor
    }

    pub(crate) fn number(&self, doc: DocId) -> PortResult<Option<u32>> {
        let number = self.numbers.get(doc.to_u128()).map_err(port_error)?;
        Ok(number.map(|number| number.value()))
    }

    /// The numbers of the documents, listed or removed, whose ids are in this range.
    pub(crate) fn numbers_between(&self, from: u128, to: u128) -> PortResult<Vec<u32>> {
        let rows = self.numbers.range(from..=to).map_err(port_error)?;
        rows.map(|row| Ok(row.map_err(port_error)?.1.value()))
            .collect()
    }

    /// Id, version of the tree (0 without one) and path of a listed document.
    pub(crate) fn listed(&self, number: u32) -> PortResult<Option<(DocId, u64, String)>> {
        let row = self.listed.get(number).map_err(port_error)?;
        Ok(row.map(|row| {
            let (doc, seq, path) = row.value();
            (DocId::from_u128(doc), seq, path.to_owned())
        }))
    }

    /// Id and version of the tree, as [`StoreReader::listed`].
    pub(crate) fn version(&self, number: u32) -> PortResult<Option<(DocId, u64)>> {
        let row = self.listed.get(number).map_err(port_error)?;
        Ok(row.map(|row| {
            let (doc, seq, _) = row.value();
            (DocId::from_u128(doc), seq)
        }))
    }

    pub(crate) fn changes(&self, doc: DocId) -> PortResult<DocumentChanges> {
        let stored = match self.number(doc)? {
            Some(number) => self.stored(number)?,
            None => None,
        };
        Ok(stored.map(|stored| stored.changes).unwrap_or_default())
    }

    fn stored(&self, number: u32) -> PortResult<Option<StoredDocument>> {
        let row = self.records.get(number).map_err(port_error)?;
        row.map(|row| StoredDocument::unpack(row.value().1))
            .transpose()
    }

    /// A listed document without its label, which takes longer to find than the document.
    pub(crate) fn unlabeled(&self, number: u32) -> PortResult<Option<CatalogDocument>> {
        Ok(self.stored(number)?.and_then(|stored| stored.document()))
    }

    /// A listed document with its label.
    pub(crate) fn document(&self, number: u32) -> PortResult<Option<CatalogDocument>> {
        let Some(mut document) = self.unlabeled(number)? else {
            return Ok(None);
        };
        document.label = self.label(&document)?;
        Ok(Some(document))
    }

    /// The stored documents behind an id, at most `limit`, in order of their ids. Removed ones are included.
    pub(crate) fn stored_after(
        &self,
        after: Option<DocId>,
        limit: usize,
    ) -> PortResult<Vec<(DocId, DocumentChanges)>> {
        let from = after.map_or(Bound::Unbounded, |doc| Bound::Excluded(doc.to_u128()));
        let rows = self
            .numbers
            .range((from, Bound::Unbounded))
            .map_err(port_error)?;
        let mut stored = Vec::new();
        for row in rows.take(limit) {
            let (doc, number) = row.map_err(port_error)?;
            if let Some(document) = self.stored(number.value())? {
                stored.push((DocId::from_u128(doc.value()), document.changes));
            }
        }
        Ok(stored)
    }

    /// Numbers of the documents that have a name of this kind, at most `limit`, in order of their ids.
    pub(crate) fn named(&self, kind: NameKind, text: &str, limit: usize) -> PortResult<Vec<u32>> {
        self.named_between(kind, text, (0, u128::MAX), limit)
    }

    /// As [`StoreReader::named`], with ids in a range.
    pub(crate) fn named_between(
        &self,
        kind: NameKind,
        text: &str,
        (from, to): (u128, u128),
        limit: usize,
    ) -> PortResult<Vec<u32>> {
        let range = (kind as u8, text, from)..=(kind as u8, text, to);
        let rows = self.names.range(range).map_err(port_error)?;
        rows.take(limit)
            .map(|row| Ok(row.map_err(port_error)?.1.value()))
            .collect()
    }

    /// The document of this name whose id is next above another one, or next below.
    pub(crate) fn neighbor(
        &self,
        name: &str,
        doc: DocId,
        above: bool,
    ) -> PortResult<Option<DocId>> {
        let key = |doc| (NameKind::Name as u8, name, doc);
        let own = doc.to_u128();
        let rows = if above {
            self.names
                .range((Bound::Excluded(key(own)), Bound::Included(key(u128::MAX))))
        } else {
            self.names
                .range((Bound::Included(key(0)), Bound::Excluded(key(own))))
        };
        let mut rows = rows.map_err(port_error)?;
        let row = if above { rows.next() } else { rows.next_back() };
        let key = row.transpose().map_err(port_error)?;
        Ok(key.map(|(key, _)| DocId::from_u128(key.value().2)))
    }

    /// Names of a kind with their documents, from a name on.
    pub(crate) fn names_from(
        &self,
        kind: NameKind,
        from: &str,
    ) -> PortResult<impl Iterator<Item = PortResult<(String, u32)>> + use<>> {
        let range = (kind as u8, from, 0)..(kind as u8 + 1, "", 0);
        let rows = self.names.range(range).map_err(port_error)?;
        Ok(rows.map(|row| {
            let (key, number) = row.map_err(port_error)?;
            Ok((key.value().1.to_owned(), number.value()))
        }))
    }

    pub(crate) fn with_value(&self, field: TermField, value: &str) -> PortResult<RoaringBitmap> {
        let from = (field.code(), value, "", 0);
        let mut all = RoaringBitmap::new();
        for row in self.postings.range(from..).map_err(port_error)? {
            let (key, numbers) = row.map_err(port_error)?;
            let (code, normalized, ..) = key.value();
            if code != field.code() || normalized != value {
                break;
            }
            all |= posting::decode(numbers.value())?;
        }
        Ok(all)
    }

    pub(crate) fn values_from(&self, field: TermField, from: &str) -> PortResult<FieldValues> {
        let range = (field.code(), from, "", 0)..(field.code() + 1, "", "", 0);
        let rows = self.postings.range(range).map_err(port_error)?;
        Ok(FieldValues {
            rows,
            next: None,
            is_descending: false,
        })
    }

    /// The values of a field from one on down, or from the last one.
    pub(crate) fn values_down(
        &self,
        field: TermField,
        from: Option<&str>,
    ) -> PortResult<FieldValues> {
        let start = (field.code(), "", "", 0);
        // The next text behind a value.
        let behind = from.map(|from| format!("{from}\0"));
        let end = match &behind {
            Some(behind) => (field.code(), behind.as_str(), "", 0),
            None => (field.code() + 1, "", "", 0),
        };
        let rows = self.postings.range(start..end).map_err(port_error)?;
        Ok(FieldValues {
            rows,
            next: None,
            is_descending: true,
        })
    }

    /// The documents with a value that fits, by its normalized form and its spelling.
    pub(crate) fn with_fitting_value(
        &self,
        field: TermField,
        fits: &dyn Fn(&str, &str) -> bool,
    ) -> PortResult<RoaringBitmap> {
        let mut fitting = RoaringBitmap::new();
        let range = (field.code(), "", "", 0)..(field.code() + 1, "", "", 0);
        for row in self.postings.range(range).map_err(port_error)? {
            let (key, numbers) = row.map_err(port_error)?;
            let (_, normalized, spelling, _) = key.value();
            if fits(normalized, spelling) {
                fitting |= posting::decode(numbers.value())?;
            }
        }
        Ok(fitting)
    }

    /// The distinct values of a field, normalized and in order.
    pub(crate) fn distinct_values(&self, field: TermField) -> PortResult<Vec<String>> {
        let mut values: Vec<String> = Vec::new();
        let range = (field.code(), "", "", 0)..(field.code() + 1, "", "", 0);
        for row in self.postings.range(range).map_err(port_error)? {
            let (key, _) = row.map_err(port_error)?;
            let (_, normalized, ..) = key.value();
            if values.last().is_none_or(|last| last != normalized) {
                values.push(normalized.to_owned());
            }
        }
        Ok(values)
    }

    pub(crate) fn first_value(&self, field: TermField, from: &str) -> PortResult<Option<String>> {
        let range = (field.code(), from, "", 0)..(field.code() + 1, "", "", 0);
        let mut rows = self.postings.range(range).map_err(port_error)?;
        let row = rows.next().transpose().map_err(port_error)?;
        Ok(row.map(|(key, _)| key.value().1.to_owned()))
    }

    pub(crate) fn all(&self) -> PortResult<Arc<RoaringBitmap>> {
        self.state_set(&self.all, terms::LISTED)
    }

    pub(crate) fn with_tree(&self) -> PortResult<Arc<RoaringBitmap>> {
        self.state_set(&self.with_tree, terms::WITH_TREE)
    }

    fn state_set(
        &self,
        known: &OnceLock<Arc<RoaringBitmap>>,
        state: &str,
    ) -> PortResult<Arc<RoaringBitmap>> {
        if let Some(known) = known.get() {
            return Ok(Arc::clone(known));
        }
        let read = Arc::new(self.with_value(TermField::State, state)?);
        Ok(Arc::clone(known.get_or_init(|| read)))
    }

    /// The first listed documents between two paths and ids, at most `limit`, or the last ones in reverse order.
    pub(crate) fn paths(
        &self,
        from: Bound<&(String, DocId)>,
        to: Bound<&(String, DocId)>,
        is_descending: bool,
        limit: usize,
    ) -> PortResult<Vec<PathEntry>> {
        // Behind a cursor of another list there may be no range.
        if let (Bound::Excluded(from) | Bound::Included(from), Bound::Excluded(to)) = (from, to)
            && from >= to
        {
            return Ok(Vec::new());
        }
        fn key((path, doc): &(String, DocId)) -> (&str, u128) {
            (path.as_str(), doc.to_u128())
        }
        let rows = self.paths.range((from.map(key), to.map(key)));
        let mut rows = rows.map_err(port_error)?;
        let rows = std::iter::from_fn(|| match is_descending {
            true => rows.next_back(),
            false => rows.next(),
        });
        rows.take(limit)
            .map(|row| {
                let (key, number) = row.map_err(port_error)?;
                let (path, doc) = key.value();
                Ok(PathEntry {
                    path: path.to_owned(),
                    doc: DocId::from_u128(doc),
                    number: number.value(),
                })
            })
            .collect()
    }

    /// The documents whose paths have a word, among those of a set and their neighbors.
    pub(crate) fn with_word_in_path(
        &self,
        set: &RoaringBitmap,
        word: &Finder<'_>,
    ) -> PortResult<RoaringBitmap> {
        let mut having = RoaringBitmap::new();
        let mut numbers = set.iter();
        while let Some(number) = numbers.next() {
            let block = path_block::block_of(number);
            if let Some(paths) = self.path_blocks.get(block).map_err(port_error)? {
                path_block::find(block, paths.value(), word, |number| {
                    having.insert(number);
                });
            }
            numbers.advance_to(path_block::numbers_of(block).end);
        }
        Ok(having)
    }

    pub(crate) fn at_path(&self, path: &str) -> PortResult<Vec<u32>> {
        let rows = self
            .paths
            .range((path, 0)..=(path, u128::MAX))
            .map_err(port_error)?;
        rows.map(|row| Ok(row.map_err(port_error)?.1.value()))
            .collect()
    }

    pub(crate) fn changed_after(&self, sequence: u64) -> PortResult<Vec<DocId>> {
        let rows = self.changed.range(sequence + 1..).map_err(port_error)?;
        rows.map(|row| Ok(DocId::from_u128(row.map_err(port_error)?.1.value())))
            .collect()
    }

    /// Documents whose runs have not begun as far as known, and their versions; the newest claims first.
    pub(crate) fn newest_queued(&self, limit: usize) -> PortResult<Vec<(DocId, u64)>> {
        let rows = self.queued.range::<(u64, u128)>(..).map_err(port_error)?;
        let queued = rows.rev().take(limit).map(|row| {
            let (key, seq) = row.map_err(port_error)?;
            Ok((DocId::from_u128(key.value().1), seq.value()))
        });
        queued.collect()
    }
}

impl std::fmt::Debug for StoreReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreReader")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Iterates over the values of a field, in order or in reverse.
pub(crate) struct FieldValues {
    rows: redb::Range<'static, tables::PostingKey, &'static [u8]>,
    next: Option<FieldValue>,
    is_descending: bool,
}

impl FieldValues {
    fn row(&mut self) -> PortResult<Option<FieldValue>> {
        let row = if self.is_descending {
            self.rows.next_back()
        } else {
            self.rows.next()
        };
        let Some(row) = row else {
            return Ok(None);
        };
        let (key, numbers) = row.map_err(port_error)?;
        let (_, normalized, spelling, _) = key.value();
        Ok(Some(FieldValue {
            normalized: normalized.to_owned(),
            spelling: spelling.to_owned(),
            numbers: posting::decode(numbers.value())?,
        }))
    }

    // Joins the parts of one value.
    fn value(&mut self) -> PortResult<Option<FieldValue>> {
        let first = match self.next.take() {
            None => self.row()?,
            next => next,
        };
        let Some(mut value) = first else {
            return Ok(None);
        };
        while let Some(next) = self.row()? {
            if next.normalized != value.normalized || next.spelling != value.spelling {
                self.next = Some(next);
                break;
            }
            value.numbers |= next.numbers;
        }
        Ok(Some(value))
    }
}

impl Iterator for FieldValues {
    type Item = PortResult<FieldValue>;

    fn next(&mut self) -> Option<Self::Item> {
        self.value().transpose()
    }
}

//! Applies changes to a stored catalog.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use redb::{Durability, ReadableTable, Table, WriteTransaction};
use roaring::RoaringBitmap;
use stemma_document::{Change, DocId};
use stemma_store::PortResult;

use super::path_block;
use super::posting;
use super::stored_document::StoredDocument;
use super::tables::{self, NameKey, PathKey, PostingKey, damaged, port_error};
use super::terms::{DocumentTerms, NameKind, Term, TermField};
use super::{CatalogStore, StoreState};

/// Changes of one transaction.
#[derive(Debug, Default)]
pub(crate) struct StoreBatch {
    pub(crate) changes: Vec<Change>,
    /// Documents whose runs are known to have begun, with their versions.
    pub(crate) started: Vec<(DocId, u64)>,
    /// Names of the records that the changes come from.
    pub(crate) names: Vec<String>,
    /// The first minute of records that may not be applied; earlier names are dropped.
    pub(crate) floor: Option<u64>,
    /// How many changes were applied, where a snapshot says so.
    pub(crate) change_count: Option<u64>,
    /// Whether the store has all records now.
    pub(crate) is_complete: bool,
    /// Whether the transaction survives a crash of the machine. Others are applied again from the records.
    pub(crate) is_durable: bool,
}

struct ChangedDocument {
    number: Option<u32>,
    sequence: u64,
    before: StoredDocument,
    after: StoredDocument,
}

// What a batch does to the tables of terms.
#[derive(Default)]
struct TermChanges {
    // Numbers to add, and to remove.
    postings: BTreeMap<Term, [RoaringBitmap; 2]>,
    // `None` removes.
    names: BTreeMap<(NameKind, String, DocId), Option<u32>>,
    paths: BTreeMap<(String, DocId), Option<u32>>,
    // The path of each document; `None` of one that is not listed any more.
    numbered_paths: BTreeMap<u32, Option<String>>,
}

impl CatalogStore {
    pub(super) fn create_tables(&self) -> PortResult<()> {
        let transaction = self.database.begin_write().map_err(port_error)?;
        transaction.open_table(tables::META).map_err(port_error)?;
        transaction.open_table(tables::SEEN).map_err(port_error)?;
        Tables::open(&transaction).map_err(port_error)?;
        transaction.commit().map_err(port_error)
    }

    /// Applies a batch. Returns the documents that changed.
    pub(crate) fn apply(&self, batch: StoreBatch) -> PortResult<Vec<DocId>> {
        let mut transaction = self.database.begin_write().map_err(port_error)?;
        // The store can be built anew, so only some transactions wait for the disk.
        let durability = if batch.is_durable {
            Durability::Immediate
        } else {
            Durability::None
        };
        transaction.set_durability(durability).map_err(port_error)?;
        let mut meta = transaction.open_table(tables::META).map_err(port_error)?;
        let mut state = match meta.get(tables::STATE).map_err(port_error)? {
            Some(state) => serde_json::from_slice(state.value()).map_err(damaged)?,
            None => StoreState::default(),
        };
        record_names(&transaction, &batch, &mut state)?;
        let mut tables = Tables::open(&transaction).map_err(port_error)?;
        state.changes += batch.changes.len() as u64;
        if let Some(count) = batch.change_count {
            state.changes = count;
        }
        state.is_complete |= batch.is_complete;
        let is_durable = batch.is_durable;
        let changed = tables.apply(batch, &mut state)?;
        if is_durable {
            state.durable_sequence = state.sequence;
        }
        drop(tables);
        let json = serde_json::to_vec(&state).map_err(damaged)?;
        meta.insert(tables::STATE, json.as_slice())
            .map_err(port_error)?;
        drop(meta);
        transaction.commit().map_err(port_error)?;
        Ok(changed)
    }
}

fn record_names(
    transaction: &WriteTransaction,
    batch: &StoreBatch,
    state: &mut StoreState,
) -> PortResult<()> {
    let mut seen = transaction.open_table(tables::SEEN).map_err(port_error)?;
    for name in &batch.names {
        seen.insert(name.as_str(), ()).map_err(port_error)?;
    }
    if let Some(floor) = batch.floor {
        state.floor = floor;
        let before = format!("{floor:010}");
        seen.retain_in(..before.as_str(), |_, ()| false)
            .map_err(port_error)?;
    }
    Ok(())
}

struct Tables<'t> {
    numbers: Table<'t, u128, u32>,
    listed: Table<'t, u32, tables::ListedRow>,
    records: Table<'t, u32, tables::RecordRow>,
    paths: Table<'t, PathKey, u32>,
    path_blocks: Table<'t, u32, &'static [u8]>,
    names: Table<'t, NameKey, u32>,
    postings: Table<'t, PostingKey, &'static [u8]>,
    changed: Table<'t, u64, u128>,
    queued: Table<'t, (u64, u128), u64>,
}

impl<'t> Tables<'t> {
    fn open(transaction: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            numbers: transaction.open_table(tables::NUMBERS)?,
            listed: transaction.open_table(tables::LISTED)?,
            records: transaction.open_table(tables::RECORDS)?,
            paths: transaction.open_table(tables::PATHS)?,
            path_blocks: transaction.open_table(tables::PATH_BLOCKS)?,
            names: transaction.open_table(tables::NAMES)?,
            postings: transaction.open_table(tables::POSTINGS)?,
            changed: transaction.open_table(tables::CHANGED)?,
            queued: transaction.open_table(tables::QUEUED)?,
        })
    }

    fn apply(&mut self, batch: StoreBatch, state: &mut StoreState) -> PortResult<Vec<DocId>> {
        let mut documents: HashMap<DocId, ChangedDocument> = HashMap::new();
        // In order of their first change, so that numbers do not depend on chance.
        let mut changed: Vec<DocId> = Vec::new();
        for change in batch.changes {
            let (doc, _) = change.kind.version();
            let document = self.changed_document(&mut documents, doc)?;
            let is_first = document.before.changes == document.after.changes;
            if document.after.changes.apply(change) && is_first {
                changed.push(doc);
            }
        }
        for (doc, seq) in batch.started {
            let document = self.changed_document(&mut documents, doc)?;
            let after = &mut document.after;
            let claimed = after.changes.open.as_ref().map(|open| open.claim.seq);
            if after.changes.is_queued() && claimed == Some(seq) && after.started != Some(seq) {
                after.started = Some(seq);
                changed.push(doc);
            }
        }
        let mut terms = TermChanges::default();
        for doc in &changed {
            if let Some(document) = documents.remove(doc) {
                self.write(*doc, document, state, &mut terms)?;
            }
        }
        self.write_terms(terms, state)?;
        Ok(changed)
    }

    fn changed_document<'d>(
        &self,
        documents: &'d mut HashMap<DocId, ChangedDocument>,
        doc: DocId,
    ) -> PortResult<&'d mut ChangedDocument> {
        match documents.entry(doc) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(entry) => Ok(entry.insert(self.stored_document(doc)?)),
        }
    }

    fn stored_document(&self, doc: DocId) -> PortResult<ChangedDocument> {
        let number = self.numbers.get(doc.to_u128()).map_err(port_error)?;
        let mut document = ChangedDocument {
            number: number.map(|number| number.value()),
            sequence: 0,
            before: StoredDocument::default(),
            after: StoredDocument::default(),
        };
        if let Some(number) = document.number
            && let Some(row) = self.records.get(number).map_err(port_error)?
        {
            let (sequence, packed) = row.value();
            document.sequence = sequence;
            document.before = StoredDocument::unpack(packed)?;
            document.after = document.before.clone();
        }
        Ok(document)
    }

    fn write(
        &mut self,
        doc: DocId,
        document: ChangedDocument,
        state: &mut StoreState,
        terms: &mut TermChanges,
    ) -> PortResult<()> {
        let ChangedDocument {
            number,
            sequence,
            before,
            after,
        } = document;
        let number = match number {
            Some(number) => number,
            None => {
                let number = state.next_number;
                state.next_number += 1;
                self.numbers
                    .insert(doc.to_u128(), number)
                    .map_err(port_error)?;
                number
            }
        };
        self.changed.remove(sequence).map_err(port_error)?;
        state.sequence += 1;
        self.changed
            .insert(state.sequence, doc.to_u128())
            .map_err(port_error)?;
        let packed = after.pack(doc)?;
        self.records
            .insert(number, (state.sequence, packed.as_slice()))
            .map_err(port_error)?;
        if let Some((key, _)) = queue_entry(doc, &before) {
            self.queued.remove(key).map_err(port_error)?;
        }
        if let Some((key, seq)) = queue_entry(doc, &after) {
            self.queued.insert(key, seq).map_err(port_error)?;
        }
        let before = before.document();
        let after = after.document();
        match &after {
            Some(after) => {
                let seq = after.entry().map_or(0, |entry| entry.version.seq);
                let row = (doc.to_u128(), seq, after.version().path.as_str());
                self.listed.insert(number, row).map_err(port_error)?;
            }
            None => {
                self.listed.remove(number).map_err(port_error)?;
            }
        }
        state.listed += u64::from(after.is_some());
        state.listed -= u64::from(before.is_some());
        if let Some(before) = &before {
            let path = before.version().path.clone();
            terms.paths.insert((path, doc), None);
        }
        let path = after.as_ref().map(|after| after.version().path.clone());
        if let Some(path) = &path {
            terms.paths.insert((path.clone(), doc), Some(number));
        }
        terms.numbered_paths.insert(number, path);
        let old = before.as_ref().map(DocumentTerms::new).unwrap_or_default();
        let new = after.as_ref().map(DocumentTerms::new).unwrap_or_default();
        terms.change(doc, number, &old, new);
        Ok(())
    }

    fn write_terms(&mut self, terms: TermChanges, state: &mut StoreState) -> PortResult<()> {
        for ((path, doc), number) in terms.paths {
            let key = (path.as_str(), doc.to_u128());
            match number {
                Some(number) => self.paths.insert(key, number).map_err(port_error)?,
                None => self.paths.remove(key).map_err(port_error)?,
            };
        }
        for ((kind, name, doc), number) in terms.names {
            let key = (kind as u8, name.as_str(), doc.to_u128());
            match number {
                Some(number) => self.names.insert(key, number).map_err(port_error)?,
                None => self.names.remove(key).map_err(port_error)?,
            };
        }
        for (term, [add, remove]) in terms.postings {
            self.write_posting(&term, &add, &remove, state)?;
        }
        self.write_path_blocks(terms.numbered_paths)
    }

    fn write_path_blocks(&mut self, paths: BTreeMap<u32, Option<String>>) -> PortResult<()> {
        let mut blocks: BTreeMap<u32, Vec<(u32, Option<String>)>> = BTreeMap::new();
        for (number, path) in paths {
            let changed = blocks.entry(path_block::block_of(number)).or_default();
            changed.push((number, path));
        }
        for (block, changed) in blocks {
            let known = self.path_blocks.get(block).map_err(port_error)?;
            let known = known.map(|known| known.value().to_vec());
            let bytes = path_block::changed(&known.unwrap_or_default(), &changed);
            self.path_blocks
                .insert(block, bytes.as_slice())
                .map_err(port_error)?;
        }
        Ok(())
    }

    fn write_posting(
        &mut self,
        term: &Term,
        add: &RoaringBitmap,
        remove: &RoaringBitmap,
        state: &mut StoreState,
    ) -> PortResult<()> {
        let (field, normalized, _) = term;
        let is_counted = distinct(state, *field).is_some();
        let had_value = is_counted && self.has_value(*field, normalized)?;
        match self.part(term, posting::WHOLE)? {
            None if self.is_divided(term)? => self.write_parts(term, add, remove)?,
            known => {
                let mut numbers = known.unwrap_or_default();
                numbers |= add;
                numbers -= remove;
                if posting::is_small(&numbers) {
                    self.write_part(term, posting::WHOLE, &numbers)?;
                } else {
                    self.write_part(term, posting::WHOLE, &RoaringBitmap::new())?;
                    for (part, numbers) in posting::divided(&numbers) {
                        self.write_part(term, part, &numbers)?;
                    }
                }
            }
        }
        if is_counted
            && let has_value = self.has_value(*field, normalized)?
            && let Some(distinct) = distinct(state, *field)
        {
            *distinct += u64::from(has_value);
            *distinct -= u64::from(had_value);
        }
        Ok(())
    }

    // Changes a divided set. It stays divided when it becomes small.
    fn write_parts(
        &mut self,
        term: &Term,
        add: &RoaringBitmap,
        remove: &RoaringBitmap,
    ) -> PortResult<()> {
        for (part, _) in posting::divided(&(add | remove)) {
            let mut numbers = self.part(term, part)?.unwrap_or_default();
            let inside = |all: &RoaringBitmap| -> RoaringBitmap {
                all.iter()
                    .filter(|number| posting::part_of(*number) == part)
                    .collect()
            };
            numbers |= inside(add);
            numbers -= inside(remove);
            self.write_part(term, part, &numbers)?;
        }
        Ok(())
    }

    fn part(&self, term: &Term, part: u16) -> PortResult<Option<RoaringBitmap>> {
        let row = self.postings.get(key(term, part)).map_err(port_error)?;
        row.map(|row| posting::decode(row.value())).transpose()
    }

    fn write_part(&mut self, term: &Term, part: u16, numbers: &RoaringBitmap) -> PortResult<()> {
        if numbers.is_empty() {
            self.postings.remove(key(term, part)).map_err(port_error)?;
        } else {
            let bytes = posting::encode(numbers)?;
            self.postings
                .insert(key(term, part), bytes.as_slice())
                .map_err(port_error)?;
        }
        Ok(())
    }

    fn is_divided(&self, term: &Term) -> PortResult<bool> {
        let range = key(term, posting::WHOLE + 1)..=key(term, u16::MAX);
        let mut rows = self.postings.range(range).map_err(port_error)?;
        Ok(rows.next().transpose().map_err(port_error)?.is_some())
    }

    // Whether a document has this value, in any spelling.
    fn has_value(&self, field: TermField, normalized: &str) -> PortResult<bool> {
        let from = (field.code(), normalized, "", 0);
        let mut rows = self.postings.range(from..).map_err(port_error)?;
        let row = rows.next().transpose().map_err(port_error)?;
        Ok(row.is_some_and(|(key, _)| {
            let (code, value, ..) = key.value();
            code == field.code() && value == normalized
        }))
    }
}

impl TermChanges {
    fn change(&mut self, doc: DocId, number: u32, old: &DocumentTerms, new: DocumentTerms) {
        for term in old.postings.difference(&new.postings) {
            let [_, remove] = self.postings.entry(term.clone()).or_default();
            remove.insert(number);
        }
        for name in old.names.difference(&new.names) {
            self.names.insert((name.0, name.1.clone(), doc), None);
        }
        for term in new.postings {
            if !old.postings.contains(&term) {
                let [add, _] = self.postings.entry(term).or_default();
                add.insert(number);
            }
        }
        for (kind, name) in new.names {
            if !old.names.contains(&(kind, name.clone())) {
                self.names.insert((kind, name, doc), Some(number));
            }
        }
    }
}

fn key((field, normalized, spelling): &Term, part: u16) -> (u8, &str, &str, u16) {
    (field.code(), normalized, spelling, part)
}

fn queue_entry(doc: DocId, stored: &StoredDocument) -> Option<((u64, u128), u64)> {
    let open = stored.changes.open.as_ref()?;
    let seq = open.claim.seq;
    let is_waiting = stored.changes.is_queued() && stored.started != Some(seq);
    is_waiting.then(|| ((open.claimed_ms, doc.to_u128()), seq))
}

fn distinct(state: &mut StoreState, field: TermField) -> Option<&mut u64> {
    match field {
        TermField::Text(property) => state.distinct.get_mut(property as usize),
        _ => None,
    }
}

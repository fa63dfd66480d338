//! The entries between the threads that read documents and the threads of tantivy that index them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tantivy::TantivyDocument;
use tantivy::schema::Document;

use super::IndexError;

// Entries on their way to the indexing threads, of 10 to 20 KB each. Those of a long section have up to 200 KB.
const QUEUED_ENTRIES: usize = 128;
// How long an entry waits for a place before the writer is asked whether it still works.
const PLACE_TIMEOUT: Duration = Duration::from_millis(250);

/// Limits the entries that a writer has not indexed yet: its own queue is bounded at 10,000, which can be gigabytes.
///
/// The entries of a writer that has failed are never indexed and keep their places. So one that has waited for long is added
/// without a place: such a writer refuses it.
pub struct EntryQueue(Arc<Places>);

struct Places {
    // `None` once the queue is closed.
    free: Mutex<Option<usize>>,
    freed: Condvar,
}

/// An entry that waits to be indexed.
pub struct QueuedEntry {
    document: TantivyDocument,
    _place: Option<Place>,
}

// Free again on drop.
struct Place(Arc<Places>);

impl EntryQueue {
    pub fn new() -> Self {
        Self(Arc::new(Places {
            free: Mutex::new(Some(QUEUED_ENTRIES)),
            freed: Condvar::new(),
        }))
    }

    /// Adds an entry to a writer. Blocks while the queue is full.
    ///
    /// # Errors
    /// [`IndexError`] if the writer has failed or the queue was closed.
    pub fn add(
        &self,
        writer: &tantivy::IndexWriter<QueuedEntry>,
        document: TantivyDocument,
    ) -> Result<(), IndexError> {
        let free = self.0.lock();
        let waited = self
            .0
            .freed
            .wait_timeout_while(free, PLACE_TIMEOUT, |free| *free == Some(0));
        let (mut free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let place = match free.as_mut() {
            None => return Err(IndexError::Damaged("its writer has failed".into())),
            Some(0) => None,
            Some(free) => {
                *free -= 1;
                Some(Place(Arc::clone(&self.0)))
            }
        };
        drop(free);
        writer.add_document(QueuedEntry {
            document,
            _place: place,
        })?;
        Ok(())
    }

    /// Refuses all further entries.
    pub fn close(&self) {
        *self.0.lock() = None;
        self.0.freed.notify_all();
    }

    pub fn is_closed(&self) -> bool {
        self.0.lock().is_none()
    }
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, Option<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(free) = self.0.lock().as_mut() {
            *free += 1;
        }
        self.0.freed.notify_one();
    }
}

impl Document for QueuedEntry {
    type Value<'a> = <TantivyDocument as Document>::Value<'a>;
    type FieldsValuesIter<'a> = <TantivyDocument as Document>::FieldsValuesIter<'a>;

    fn iter_fields_and_values(&self) -> Self::FieldsValuesIter<'_> {
        self.document.iter_fields_and_values()
    }
}

//! Garbage collection: finds objects that neither a readable tree nor an open run needs.
//!
//! It retains the last two trees of each document with their text and correction, the claims of these and of the last two
//! versions, the artifacts that these versions have read (replies of models among them), all objects of a document whose
//! newest claim has no tree yet, what the run of an open job may need, and everything that became superfluous less than
//! seven days ago. That moment comes from change records and job reports, because stores do not tell the age of an object.
//! Ended jobs go as a whole after a time of their own, and submissions that were broken off after a week ([`JobGarbage`]).
//! Originals stay as long as a claim, a tree or an open job names them, and a week longer ([`OriginalGarbage`]).
//!
//! What is found may be needed again before it is removed: a document is submitted once more, and its run reuses what is
//! there. [`DocumentGarbage::remove`] therefore looks for new claims right before it deletes. Whatever a removal leaves when
//! it is interrupted is found by the next one, which goes on with the document at which it stopped.

mod artifacts;
mod documents;
mod failures;
mod history;
mod jobs;
mod listed_keys;
#[cfg(test)]
mod observed_blobs;
mod originals;
mod position;
#[cfg(test)]
mod retention_tests;
mod sorted_records;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unreadable_tests;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::{Collection, DocId};
use stemma_engine::settings::SettingsCache;
use stemma_store::PortResult;
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;

use crate::FilingFlow;
use documents::DocumentSearch;
use failures::FailedRuns;
use history::{Histories, Horizon};
use originals::OriginalPages;
use position::Position;

pub use documents::DocumentGarbage;
pub use jobs::JobGarbage;
pub use originals::OriginalGarbage;

/// How long an object stays after it became superfluous.
pub const GRACE_MS: Millis = 7 * DAY_MS;
/// How long an ended job stays, unless said otherwise: a quarter, for whoever asks what happened to a document.
pub const JOB_RETENTION_DAYS: u64 = 90;
const DAY_MS: Millis = 24 * 3_600_000;
const PAGE_DOCUMENTS: usize = 1_000;
const MAX_CONCURRENT_READS: usize = 32;
// Documents that are cleaned up at the same time.
const CONCURRENT_DOCUMENTS: usize = 4;
const MAX_CONCURRENT_DELETES: usize = 16;

/// An object that can be deleted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GarbageObject {
    pub key: String,
    /// One of `superseded tree`, `superseded text`, `superseded artifact`, `superseded correction`, `superseded claim`,
    /// `removed document`, `superseded failure`, `ended job`, `unfinished submission`, `unused original`, `mark of an original`.
    pub reason: &'static str,
}

impl GarbageObject {
    fn new(key: String, reason: &'static str) -> Self {
        Self { key, reason }
    }
}

/// The garbage of a collection, page by page. Memory grows with neither documents, nor change records, nor originals: both sorters
/// hold 32 MB, a page has a thousand documents or originals.
pub struct GarbagePages<'a> {
    blobs: &'a dyn Blobs,
    collection: &'a Collection,
    now_ms: Millis,
    position: Position,
    horizon: Horizon,
    settings: SettingsCache<FilingFlow>,
    /// What is not needed of jobs that ended.
    pub jobs: Vec<JobGarbage>,
    /// When a document of the collection was last removed.
    pub removed_ms: Option<Millis>,
    originals: Option<OriginalPages>,
    histories: Histories,
    failed_runs: FailedRuns,
}

/// The garbage of some documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentPage {
    pub documents: Vec<DocumentGarbage>,
    /// Failures of runs that a later version superseded.
    pub failures: Vec<GarbageObject>,
    last: DocId,
}

impl DocumentPage {
    pub fn objects(&self) -> impl Iterator<Item = &GarbageObject> {
        let documents = self.documents.iter().flat_map(|garbage| &garbage.objects);
        documents.chain(&self.failures)
    }
}

impl<'a> GarbagePages<'a> {
    /// Looks for the garbage of a collection as of `now_ms`, from the document on at which the last collection was interrupted.
    /// Ended jobs stay for `job_retention_ms`.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when the store is unavailable, or the folder of temporary files is full.
    pub async fn start(
        blobs: &'a dyn Blobs,
        collection: &'a Collection,
        now_ms: Millis,
        job_retention_ms: Millis,
    ) -> PortResult<Self> {
        let position = Position::load(blobs, collection, now_ms).await?;
        // First: a job that has ended by now has made its claims.
        let jobs = jobs::find(blobs, collection, now_ms, job_retention_ms).await?;
        let originals = OriginalPages::start(blobs, collection, &jobs.open).await?;
        let mut histories = Histories::load(blobs, collection).await?;
        if let Some(doc) = position.after {
            histories.skip_to(doc)?;
        }
        Ok(Self {
            blobs,
            collection,
            now_ms,
            horizon: Horizon::new(position.started_ms, &jobs.open),
            position,
            settings: SettingsCache::default(),
            jobs: jobs.garbage,
            removed_ms: histories.removed_ms,
            originals,
            histories,
            failed_runs: FailedRuns::new(),
        })
    }

    /// Documents are judged as of this moment: when the collection began, before it was interrupted.
    pub fn as_of_ms(&self) -> Millis {
        self.position.started_ms
    }

    /// The garbage of the next documents; `None` after the last.
    pub async fn next_documents(&mut self) -> PortResult<Option<DocumentPage>> {
        let histories = self.histories.next_page(PAGE_DOCUMENTS)?;
        let Some((last, _)) = histories.last_key_value() else {
            return Ok(None);
        };
        let last = *last;
        let failures = &mut self.failed_runs;
        let failures = failures
            .superseded(self.blobs, &histories, self.horizon)
            .await?;
        let found = stream::iter(histories).map(|(doc, history)| {
            let search = DocumentSearch {
                blobs: self.blobs,
                collection: self.collection,
                settings: &self.settings,
                horizon: self.horizon,
                now_ms: self.position.started_ms,
            };
            search.find(doc, history)
        });
        let documents = found
            .buffered(MAX_CONCURRENT_READS)
            .try_filter_map(async |garbage| Ok(garbage))
            .try_collect()
            .await?;
        Ok(Some(DocumentPage {
            documents,
            failures,
            last,
        }))
    }

    /// The garbage among the next originals; `None` after the last. What is used was looked up at the start.
    pub async fn next_originals(&mut self) -> PortResult<Option<OriginalGarbage>> {
        match &mut self.originals {
            Some(originals) => {
                originals
                    .next_page(self.blobs, self.collection, self.now_ms)
                    .await
            }
            None => Ok(None),
        }
    }
}

impl GarbagePages<'_> {
    /// Calls `found` with each object that is garbage; deletes nothing. Returns how many marks are to be written.
    pub async fn find_all(mut self, mut found: impl FnMut(&GarbageObject)) -> PortResult<usize> {
        while let Some(page) = self.next_documents().await? {
            page.objects().for_each(&mut found);
        }
        let mut marks = self.jobs.iter().map(|garbage| garbage.marks.len()).sum();
        self.jobs
            .iter()
            .flat_map(|garbage| &garbage.objects)
            .for_each(&mut found);
        while let Some(garbage) = self.next_originals().await? {
            marks += garbage.marks.len();
            garbage.objects.iter().for_each(&mut found);
        }
        Ok(marks)
    }

    /// Removes each page before it looks for the next, and calls `removed` with each object. Returns how many marks it wrote.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when the store is unavailable; the next collection removes the rest.
    pub async fn remove_all(
        mut self,
        mut removed: impl FnMut(&GarbageObject),
    ) -> PortResult<usize> {
        while let Some(page) = self.next_documents().await? {
            let mut documents = stream::iter(&page.documents)
                .map(|garbage| garbage.remove(self.blobs, self.collection))
                .buffered(CONCURRENT_DOCUMENTS);
            while let Some(objects) = documents.try_next().await? {
                objects.iter().for_each(&mut removed);
            }
            delete_all(self.blobs, &page.failures).await?;
            page.failures.iter().for_each(&mut removed);
            self.position.save(self.blobs, page.last).await?;
        }
        let mut marks = 0;
        for job in &self.jobs {
            job.remove(self.blobs).await?;
            marks += job.marks.len();
            job.objects.iter().for_each(&mut removed);
        }
        while let Some(garbage) = self.next_originals().await? {
            garbage.remove(self.blobs).await?;
            marks += garbage.marks.len();
            garbage.objects.iter().for_each(&mut removed);
        }
        self.position.forget(self.blobs).await?;
        Ok(marks)
    }
}

/// Deletes objects, many at once.
///
/// # Errors
/// [`stemma_store::PortError`] of the first deletion that failed.
pub async fn delete_all(
    blobs: &dyn Blobs,
    objects: impl IntoIterator<Item = &GarbageObject>,
) -> PortResult<()> {
    stream::iter(objects)
        .map(|garbage| blobs.delete(&garbage.key))
        .buffer_unordered(MAX_CONCURRENT_DELETES)
        .try_collect()
        .await
}

fn is_past_grace(at_ms: Millis, now_ms: Millis) -> bool {
    at_ms + GRACE_MS < now_ms
}

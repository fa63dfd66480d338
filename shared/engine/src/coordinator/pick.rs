//! Which entries are admitted next: fair between collections, urgent jobs first, within the slots.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use stemma_store::blobs::get_json;
use stemma_store::key::{JobId, Priority};
use stemma_store::port_error::PortResult;

use super::{Coordinator, JobTable};
use crate::flow::Flow;
use crate::jobs::{JobEntry, JobManifest, JobStep, OpenJob};

// One slot in this many is only for interactive jobs.
const INTERACTIVE_SHARE: usize = 8;
// One slot for bulk work in this many is only for collections that have few.
const FAIR_SHARE: usize = 8;

/// An entry that was taken from its job and is not yet bound to a run.
pub(super) struct PickedEntry {
    /// The job, or the part of a job.
    pub(super) job: JobId,
    pub(super) manifest: JobManifest,
    pub(super) number: u64,
    pub(super) entry: JobEntry,
}

/// Slots in use, by collection. Runs of paused jobs request no tasks, so they take no slots: a job that waits for a person
/// must not stop others.
struct Slots {
    limit: usize,
    used: usize,
    by_collection: BTreeMap<String, usize>,
}

impl Slots {
    fn for_jobs<'a>(limit: usize, jobs: impl Iterator<Item = &'a OpenJob>) -> Self {
        let mut slots = Self {
            limit,
            used: 0,
            by_collection: BTreeMap::new(),
        };
        for job in jobs.filter(|job| !job.paused) {
            slots.take(&job.manifest.collection, job.slots());
        }
        slots
    }

    fn take(&mut self, collection: &str, slots: usize) {
        self.used += slots;
        match self.by_collection.get_mut(collection) {
            Some(used) => *used += slots,
            None => drop(self.by_collection.insert(collection.into(), slots)),
        }
    }

    // A share stays free of bulk work, so that a person does not wait behind it. A part of the rest is only for collections
    // that have less than they would get if one more shared the slots: one that comes later does not wait until runs of
    // others end, which may take hours, and takes most of what they free.
    fn is_free(&self, collection: &str, priority: Priority) -> bool {
        if priority == Priority::Interactive {
            return self.used < self.limit;
        }
        let bulk = self.limit - self.limit / INTERACTIVE_SHARE;
        let has = self.by_collection.get(collection).copied().unwrap_or(0);
        let has_few = has < bulk / (self.by_collection.len() + 1);
        self.used < bulk - bulk / FAIR_SHARE || (self.used < bulk && has_few)
    }
}

impl<W: Flow> Coordinator<W> {
    /// The next entries, as many as there are slots for and at most `most`. Deficit round robin between collections; within
    /// a collection the most urgent job first, then the oldest.
    pub(super) async fn pick_entries(&self, most: usize) -> Vec<PickedEntry> {
        let now = self.ports.env.now_ms();
        let mut table = self.jobs.lock().await;
        let mut slots = Slots::for_jobs(self.open_documents, table.open.values());
        let mut picked = Vec::new();
        if most == 0 || slots.used >= slots.limit {
            return picked;
        }
        let JobTable {
            open, round_robin, ..
        } = &mut *table;
        // The jobs with entries to claim, by collection, in the order in which they are served.
        let mut jobs: BTreeMap<String, BTreeSet<(Reverse<Priority>, JobId)>> = BTreeMap::new();
        for (id, job) in open.iter() {
            let control = self
                .cached_control(id)
                .filter(|control| control.is_running());
            if let Some(control) = control
                && job.may_claim(now)
                && job.next_weight().is_some()
            {
                let priority = Reverse(control.priority.unwrap_or(job.manifest.priority));
                let collection = jobs.entry(job.manifest.collection.clone()).or_default();
                collection.insert((priority, id.clone()));
            }
        }
        while picked.len() < most {
            let first = jobs.iter().filter_map(|(name, jobs)| {
                let (Reverse(priority), id) = jobs.first()?;
                let weight = open.get(id)?.next_weight()?;
                slots
                    .is_free(name, *priority)
                    .then(|| (name.clone(), weight))
            });
            let Some(name) = round_robin.next(&first.collect()) else {
                break;
            };
            let next = jobs.get_mut(&name).and_then(BTreeSet::pop_first);
            let Some((priority, id)) = next else { break };
            let Some(job) = open.get_mut(&id) else { break };
            if let Some((number, entry)) = job.take_next() {
                slots.take(&name, 1);
                picked.push(PickedEntry {
                    job: id.clone(),
                    manifest: job.manifest.clone(),
                    number,
                    entry,
                });
            }
            if job.may_claim(now)
                && job.next_weight().is_some()
                && let Some(jobs) = jobs.get_mut(&name)
            {
                jobs.insert((priority, id));
            }
        }
        picked
    }

    /// Begins to load the entries of at most `most` jobs that come next, if there are free slots. Returns the jobs with the
    /// keys of their chunks.
    pub(super) async fn start_loads(&self, most: usize) -> Vec<(JobId, String)> {
        let now = self.ports.env.now_ms();
        let mut table = self.jobs.lock().await;
        let slots = Slots::for_jobs(self.open_documents, table.open.values());
        if slots.used >= slots.limit {
            return Vec::new();
        }
        let unloaded = table
            .open
            .iter_mut()
            .filter(|(_, job)| job.needs_load() && job.may_claim(now));
        unloaded
            .take(most)
            .map(|(id, job)| (id.clone(), job.start_load()))
            .collect()
    }

    /// Reads a chunk, while the table is not locked: a store that takes its time must not stop other jobs.
    pub(super) async fn load_entries(&self, job: JobId, key: String) {
        let chunk: PortResult<Option<Vec<JobEntry>>> = get_json(&self.ports.blobs, &key).await;
        let mut table = self.jobs.lock().await;
        let Some(job) = table.open.get_mut(&job) else {
            return; // released meanwhile
        };
        match chunk {
            Ok(chunk) => {
                job.add_entries(&self.ports.env, &chunk.unwrap_or_default());
                job.waits.succeeded(JobStep::ReadEntries);
            }
            Err(error) => {
                job.stop_load();
                self.wait_after(job, JobStep::ReadEntries, &error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(limit: usize, used: &[(&str, usize)]) -> Slots {
        let mut slots = Slots {
            limit,
            used: 0,
            by_collection: BTreeMap::new(),
        };
        for (collection, used) in used {
            slots.take(collection, *used);
        }
        slots
    }

    #[test]
    fn bulk_work_leaves_slots_to_people_and_to_other_collections() {
        let bulk = |slots: &Slots, name| slots.is_free(name, Priority::Bulk);
        let nearly_full = slots(64, &[("a", 49)]);
        assert!(!bulk(&nearly_full, "a"), "7 are for collections with few");
        assert!(bulk(&nearly_full, "b"));
        assert!(nearly_full.is_free("a", Priority::Interactive));
        let shared = slots(64, &[("a", 40), ("b", 16)]);
        assert!(!bulk(&shared, "b"), "8 are for people");
        let freed = slots(64, &[("a", 39), ("b", 16)]);
        assert!(
            bulk(&freed, "b") && !bulk(&freed, "a"),
            "until both have equal parts"
        );
        let few = slots(4, &[("a", 3)]);
        assert!(bulk(&few, "a"), "nothing is kept of few slots");
    }
}

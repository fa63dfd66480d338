//! What a runner knows of the batches of one collection.

use std::collections::{BTreeMap, HashMap, HashSet};

use stemma_store::PortResult;
use stemma_store::env::Millis;
use stemma_store::model_status::ModelBatch;

use super::store::{BatchEnd, BatchPlan, BatchStore, Submission};

// How long an ended batch is remembered, with the replies that nobody has fetched: as long as providers keep results.
const RETENTION_MS: Millis = 30 * 24 * 3_600_000;

/// The batches of one collection.
pub(super) struct BatchQueue {
    pub(super) store: BatchStore,
    is_loaded: bool,
    pub(super) next_seq: u64,
    /// Planned batches that have not ended, by number.
    pub(super) open: BTreeMap<u64, OpenBatch>,
    /// Waiting requests, and when this process first saw them.
    pub(super) waiting: HashMap<String, Millis>,
    /// Nothing is planned before this time.
    pub(super) hold_until_ms: Millis,
    /// Batches that the provider has rejected in a row.
    pub(super) rejections: u32,
}

pub(super) struct OpenBatch {
    pub(super) plan: BatchPlan,
    /// Number of the last submission that was begun, and when this process learned of it.
    pub(super) attempt: Option<(u32, Millis)>,
    pub(super) submission: Option<Submission>,
    pub(super) polled_ms: Millis,
    pub(super) done: u64,
    /// Whether the provider was asked to stop it.
    pub(super) cancelled: bool,
    /// The runs before this one have ended.
    pub(super) first_alive: usize,
}

impl OpenBatch {
    pub(super) fn new(plan: BatchPlan) -> Self {
        Self {
            plan,
            attempt: None,
            submission: None,
            polled_ms: 0,
            done: 0,
            cancelled: false,
            first_alive: 0,
        }
    }
}

impl BatchQueue {
    pub(super) fn new(store: BatchStore) -> Self {
        Self {
            store,
            is_loaded: false,
            next_seq: 1,
            open: BTreeMap::new(),
            waiting: HashMap::new(),
            hold_until_ms: 0,
            rejections: 0,
        }
    }

    /// Reads the log, unless that was done.
    pub(super) async fn load(&mut self, now_ms: Millis) -> PortResult<()> {
        if self.is_loaded {
            return Ok(());
        }
        let mut records: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (seq, record) in self.store.log().await? {
            records.entry(seq).or_default().push(record);
        }
        self.open.clear();
        self.next_seq = records.keys().next_back().map_or(1, |last| last + 1);
        for (seq, names) in records {
            let has = |name: &str| names.iter().any(|other| other == name);
            if has("ended") {
                self.forget(seq, &names, now_ms).await?;
                continue;
            }
            // A plan that a power loss has torn was never submitted: submission waits until it is durable.
            let plan = match self.store.read::<BatchPlan>(seq, "plan").await {
                Ok(Some(plan)) => plan,
                Ok(None) => continue,
                Err(error) if error.is_permanent() => continue,
                // A batch that is not known would be submitted again.
                Err(error) => return Err(error),
            };
            let attempt = names
                .iter()
                .filter_map(|name| name.strip_prefix("attempt-")?.parse().ok())
                .max();
            let submission = match has("submitted") {
                true => self.store.read_or_remove(seq, "submitted").await?,
                false => None,
            };
            let batch = OpenBatch {
                attempt: attempt.map(|number| (number, now_ms)),
                submission,
                ..OpenBatch::new(plan)
            };
            self.open.insert(seq, batch);
        }
        self.is_loaded = true;
        Ok(())
    }

    /// Reads the log again before the next step.
    pub(super) fn reload(&mut self) {
        self.is_loaded = false;
    }

    // Removes the records of a batch that ended long ago, except for the number that is the highest.
    async fn forget(&self, seq: u64, names: &[String], now_ms: Millis) -> PortResult<()> {
        let Ok(Some(end)) = self.store.read::<BatchEnd>(seq, "ended").await else {
            return Ok(());
        };
        if seq + 1 == self.next_seq || end.at_ms + RETENTION_MS > now_ms {
            return Ok(());
        }
        if let Ok(Some(plan)) = self.store.read::<BatchPlan>(seq, "plan").await {
            for item in &plan.items {
                self.store.remove_reply(item).await?;
            }
        }
        // The end goes last: without it the batch would count as open.
        for name in names.iter().filter(|name| *name != "ended") {
            self.store.remove(seq, name).await?;
        }
        self.store.remove(seq, "ended").await
    }

    /// The items of all open batches.
    pub(super) fn in_batches(&self) -> HashSet<&str> {
        let plans = self.open.values().map(|batch| &batch.plan);
        plans
            .flat_map(|plan| &plan.items)
            .map(String::as_str)
            .collect()
    }

    /// The open batches, for people.
    pub(super) fn status(&self) -> impl Iterator<Item = ModelBatch> + '_ {
        self.open.values().map(|batch| ModelBatch {
            name: batch.plan.name.clone(),
            collection: self.store.collection.trim_start_matches("c/").into(),
            requests: batch.plan.items.len() as u64,
            done: batch.done,
            submitted_ms: batch.submission.as_ref().map(|submission| submission.at_ms),
        })
    }
}

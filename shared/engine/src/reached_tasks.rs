//! Which tasks a run has read: its flow, replayed over what is stored. Requests nothing and writes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_store::artifact;
use stemma_store::blobs::{Blobs, list_all};
use stemma_store::failure::{Failure, FailureRecord};
use stemma_store::key::{RunHeader, RunId, TaskKey, failures_prefix};
use stemma_store::port_error::PortResult;

use crate::flow::Flow;
use crate::ledger::TaskOutcome;
use crate::replay::{FlowStop, Memo, Replay};

// Concurrent reads of artifacts.
const READS_AT_ONCE: usize = 16;

/// The tasks that a run has read or asked for so far, with an artifact or not. `None` if this program cannot know: the run is of
/// another revision of the flow, or an artifact of a newer program.
///
/// If the run has a result (`has_result`), a task without artifact counts as failed: nothing else let the flow go on.
pub async fn reached_tasks<W: Flow>(
    blobs: &dyn Blobs,
    run: &RunHeader,
    settings: &W::Settings,
    has_result: bool,
) -> PortResult<Option<BTreeSet<TaskKey>>> {
    if run.flow_revision != W::REVISION {
        return Ok(None);
    }
    let failures = failures(blobs, &run.at.run).await?;
    let mut reached = BTreeSet::new();
    let mut outcomes: HashMap<TaskKey, TaskOutcome> = HashMap::new();
    let mut memo = Memo::default();
    loop {
        let walk = AssertUnwindSafe(|| {
            Replay::run(settings, &outcomes, &|_| false, &mut memo, |replay| {
                W::flow(replay, run)
            })
        });
        let Ok(replayed) = catch_unwind(walk) else {
            return Ok(None);
        };
        if replayed.result != Err(FlowStop::Pending) {
            return Ok(Some(reached));
        }
        let requested = replayed.requests.into_iter().map(|request| request.key);
        let reads = stream::iter(requested)
            .map(|key| async move { (key, artifact::outcome(blobs, &run.at.scope, &key).await) });
        let read: Vec<_> = reads.buffered(READS_AT_ONCE).collect().await;
        let known = outcomes.len();
        for (key, artifact) in read {
            let artifact = match artifact {
                Err(error) if error.is_permanent() => return Ok(None),
                read => read?,
            };
            reached.insert(key);
            // As when a coordinator loads the run.
            let outcome = match (failures.get(&key), artifact) {
                (Some(record), _) => TaskOutcome::Failed(record.clone()),
                (None, Some(outcome)) => TaskOutcome::Done(outcome),
                (None, None) if has_result => TaskOutcome::Failed(forgotten_failure()),
                (None, None) => continue,
            };
            outcomes.insert(key, outcome);
        }
        if outcomes.len() == known {
            return Ok(Some(reached));
        }
    }
}

// A record that cannot be read counts as none.
async fn failures(blobs: &dyn Blobs, run: &RunId) -> PortResult<BTreeMap<TaskKey, FailureRecord>> {
    let prefix = failures_prefix(run);
    let names = list_all(blobs, &prefix).await?;
    let keyed = names.iter().filter_map(|name| {
        let key = name.strip_prefix(&prefix)?.strip_suffix(".json")?;
        Some((key.parse::<TaskKey>().ok()?, name))
    });
    let reads = keyed.map(|(key, name)| async move {
        let json = blobs.get(name).await?;
        let record = json.and_then(|json| serde_json::from_slice(&json).ok());
        Ok(record.map(|record| (key, record)))
    });
    let reads: Vec<_> = reads.collect();
    let records = stream::iter(reads).buffered(READS_AT_ONCE);
    records
        .try_filter_map(async |record| Ok(record))
        .try_collect()
        .await
}

fn forgotten_failure() -> FailureRecord {
    let failure = Failure::permanent("engine.failure_forgotten", "its record was removed");
    FailureRecord::new(failure, "", 1, 0)
}

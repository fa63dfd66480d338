//! The stages at which the open documents of a job are.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use stemma_engine::heartbeat::JobProgress;
use stemma_engine::ledger::OpenTask;
use stemma_pipeline::stages;
use stemma_store::{JobId, PortResult, RunId};

use crate::Operations;

// Open documents that are looked at, oldest first: each costs a request to the ledger.
const MAX_RUNS: usize = 64;
const READS_AT_ONCE: usize = 16;

/// The stages at which the open documents of a job are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct StageFunnel {
    /// Open documents that were looked at: the oldest, at most 64.
    pub documents: u64,
    /// Stages with an open task, in the order of the flow.
    pub stages: Vec<StageLoad>,
}

/// The open tasks of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct StageLoad {
    pub stage: String,
    /// Documents that wait for it.
    pub documents: u64,
    pub tasks: u64,
    /// Tasks that a process has.
    pub running: u64,
    /// Tasks that failed and are tried again.
    pub retried: u64,
}

impl StageFunnel {
    fn new(runs: &[Vec<OpenTask>]) -> Self {
        let mut loads: BTreeMap<(usize, &str), StageLoad> = BTreeMap::new();
        let order = stages::names();
        for tasks in runs {
            let mut last_stage = None;
            let mut tasks: Vec<&OpenTask> = tasks.iter().collect();
            tasks.sort_by_key(|task| &task.stage);
            for task in tasks {
                let stage = task.stage.as_str();
                let known = order.iter().position(|name| *name == stage);
                let load = loads
                    .entry((known.unwrap_or(order.len()), stage))
                    .or_default();
                load.documents += u64::from(last_stage != Some(stage));
                load.tasks += 1;
                load.running += u64::from(task.lease.is_some());
                load.retried += u64::from(task.retry.is_some());
                last_stage = Some(stage);
            }
        }
        let loads = loads.into_iter().map(|((_, stage), load)| StageLoad {
            stage: stage.to_owned(),
            ..load
        });
        Self {
            documents: runs.len() as u64,
            stages: loads.collect(),
        }
    }
}

impl Operations {
    /// The stages of the open documents that a coordinator reports; none without a cluster.
    pub async fn job_stages(&self, job: &JobId, live: &[JobProgress]) -> PortResult<StageFunnel> {
        let progress = live.iter().find(|progress| progress.job == *job);
        let runs = progress.map(|progress| progress.runs.clone());
        let runs = runs.unwrap_or_default().into_iter().take(MAX_RUNS);
        let ledger = self.ports.ledger.raw();
        let open: Vec<Vec<OpenTask>> = stream::iter(runs)
            .map(|run: RunId| async move { ledger.open_tasks(&run).await })
            .buffered(READS_AT_ONCE)
            .try_collect()
            .await?;
        Ok(StageFunnel::new(&open))
    }
}

#[cfg(test)]
mod tests {
    use stemma_engine::queue::Lane;
    use stemma_store::TaskKey;

    use super::*;

    fn task(stage: &str, holder: Option<&str>) -> OpenTask {
        OpenTask {
            key: TaskKey::builder("test", 1).text(stage).finish(),
            stage: stage.into(),
            lane: Lane::Cpu,
            published_ms: 0,
            due_ms: 0,
            attempts: 0,
            lease: holder.map(|holder| (holder.to_owned(), 1)),
            retry: None,
        }
    }

    #[test]
    fn stages_are_in_the_order_of_the_flow_and_count_documents_once() {
        let funnel = StageFunnel::new(&[
            vec![task("publish", None), task("recognize", Some("w"))],
            vec![task("recognize", None), task("recognize", Some("w"))],
            vec![task("of a later version", None)],
        ]);
        assert_eq!(funnel.documents, 3);
        let rows: Vec<_> = funnel
            .stages
            .iter()
            .map(|load| {
                (
                    load.stage.as_str(),
                    load.documents,
                    load.tasks,
                    load.running,
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                ("recognize", 2, 3, 2),
                ("publish", 1, 1, 0),
                ("of a later version", 1, 1, 0)
            ]
        );
    }
}

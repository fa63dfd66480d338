//! Records states of runs in groups.
//!
//! While one group is written, the next one gathers. So a coordinator that claims many documents writes one object for
//! dozens of claims, and one that claims a single document waits for nobody.

use parking_lot::Mutex as StdMutex;
use stemma_store::port_error::PortResult;
use tokio::sync::{Mutex, oneshot};

use crate::flow::RunRecord;

// An object of 256 records has some 200 KB.
const MAX_GROUP: usize = 256;

/// The states that wait to be recorded.
#[derive(Default)]
pub(super) struct RunStates {
    waiting: StdMutex<Vec<WaitingRecord>>,
    // Held by the caller that writes a group.
    writing: Mutex<()>,
}

struct WaitingRecord {
    record: RunRecord,
    written: oneshot::Sender<PortResult<()>>,
}

impl RunStates {
    /// Returns once a `write` that began after this call has included the record, or failed.
    pub(super) async fn record<F>(
        &self,
        record: RunRecord,
        write: impl Fn(Vec<RunRecord>) -> F,
    ) -> PortResult<()>
    where
        F: Future<Output = PortResult<()>>,
    {
        let mut receiver = self.enqueue(record.clone());
        loop {
            let writing = self.writing.lock().await;
            match receiver.try_recv() {
                Ok(result) => return result,
                // The caller that was writing this record has been dropped.
                Err(oneshot::error::TryRecvError::Closed) => {
                    receiver = self.enqueue(record.clone());
                }
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            let group = self.take_group();
            let (records, senders): (Vec<_>, Vec<_>) = group
                .into_iter()
                .map(|waiting| (waiting.record, waiting.written))
                .unzip();
            let result = write(records).await;
            for sender in senders {
                // A caller that was dropped does not listen.
                sender.send(result.clone()).ok();
            }
            drop(writing);
        }
    }

    fn enqueue(&self, record: RunRecord) -> oneshot::Receiver<PortResult<()>> {
        let (written, receiver) = oneshot::channel();
        self.waiting.lock().push(WaitingRecord { record, written });
        receiver
    }

    // The oldest records. Records of dropped callers need no object.
    fn take_group(&self) -> Vec<WaitingRecord> {
        let mut waiting = self.waiting.lock();
        waiting.retain(|record| !record.written.is_closed());
        let size = waiting.len().min(MAX_GROUP);
        waiting.drain(..size).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::Value;
    use stemma_store::key::{JobId, Priority, RunHeader, RunId, RunRef};
    use stemma_store::port_error::PortError;
    use tokio::task::JoinSet;

    use super::*;
    use crate::flow::RunState;

    const LATENCY: Duration = Duration::from_millis(25);

    fn record(number: usize) -> RunRecord {
        let run = RunHeader {
            at: RunRef {
                run: RunId(format!("run-{number}")),
                scope: String::new(),
                header: String::new(),
            },
            settings: String::new(),
            flow_revision: 1,
            priority: Priority::Bulk,
            opened_by: JobId("job".into()),
            input: Value::Null,
        };
        RunRecord {
            run,
            state: RunState::Claimed,
        }
    }

    #[derive(Default)]
    struct Log {
        states: RunStates,
        written: StdMutex<Vec<Vec<String>>>,
    }

    impl Log {
        async fn record(&self, number: usize, result: PortResult<()>) -> PortResult<()> {
            let write = |records: Vec<RunRecord>| async {
                tokio::time::sleep(LATENCY).await;
                let runs = records.into_iter().map(|record| record.run.at.run.0);
                self.written.lock().push(runs.collect());
                result.clone()
            };
            self.states.record(record(number), write).await
        }
    }

    fn spawn(log: &Arc<Log>, tasks: &mut JoinSet<PortResult<()>>, number: usize) {
        let log = Arc::clone(log);
        tasks.spawn(async move { log.record(number, Ok(())).await });
    }

    #[tokio::test(start_paused = true)]
    async fn claims_that_arrive_together_are_one_object() {
        let log = Arc::new(Log::default());
        let mut tasks = JoinSet::new();
        for number in 0..300 {
            spawn(&log, &mut tasks, number);
        }
        let results = tasks.join_all().await;
        assert!(results.iter().all(Result::is_ok));
        let written = log.written.lock();
        let sizes: Vec<_> = written.iter().map(Vec::len).collect();
        assert_eq!(sizes, [1, 256, 43], "the first does not wait for others");
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_claim_waits_for_no_other() {
        let log = Log::default();
        let began = tokio::time::Instant::now();
        log.record(1, Ok(())).await.unwrap();
        assert_eq!(began.elapsed(), LATENCY);
        log.record(2, Ok(())).await.unwrap();
        assert_eq!(*log.written.lock(), [["run-1"], ["run-2"]]);
    }

    #[tokio::test(start_paused = true)]
    async fn records_of_a_dropped_writer_are_written_by_another() {
        let log = Arc::new(Log::default());
        let mut tasks = JoinSet::new();
        spawn(&log, &mut tasks, 0);
        tokio::time::sleep(LATENCY / 5).await;
        // Waits for the first, then writes its own record and the next two.
        let writer = Arc::clone(&log);
        let writer = tokio::spawn(async move { writer.record(1, Ok(())).await });
        tokio::time::sleep(LATENCY / 5).await;
        spawn(&log, &mut tasks, 2);
        spawn(&log, &mut tasks, 3);
        tokio::time::sleep(LATENCY).await;
        writer.abort();
        let results = tasks.join_all().await;
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(log.written.lock().concat(), ["run-0", "run-2", "run-3"]);
    }

    #[tokio::test]
    async fn all_callers_of_a_group_learn_of_its_failure() {
        let log = Log::default();
        let error = PortError::transient("blobs.put", "away");
        let failed = Err(error.clone());
        let results = futures::join!(
            log.record(0, failed.clone()),
            log.record(1, failed.clone()),
            log.record(2, failed)
        );
        for result in [results.0, results.1, results.2] {
            assert_eq!(result, Err(error.clone()));
        }
    }
}

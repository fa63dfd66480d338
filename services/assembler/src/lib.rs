//! The assembler: performs tasks of the publish lane, and is the only service that may write trees and change records.

use std::sync::Arc;
use std::time::Duration;

use stemma_engine::consumer::{Consumer, Handler};
use stemma_engine::executor::TaskExecutor;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::queue::{Lane, QueueName};
use stemma_engine::{Env, Ports, Priority};
use stemma_pipeline::{FilingFlow, WorkerDeps, assembler_registry};
use tokio_util::sync::CancellationToken;

/// Trees published at once: publications share the store's barrier.
const CONCURRENCY: u16 = 8;
/// How long publications may go on after a stop.
const GRACE: Duration = Duration::from_secs(10);

/// Publishes until `stop`, then drains. `heartbeat` is the process it works in.
pub async fn run(
    env: Env,
    ports: Ports,
    tools: Arc<WorkerDeps>,
    presence: Arc<HeartbeatReporter>,
    stop: CancellationToken,
) {
    let registry = assembler_registry();
    let performer: Arc<dyn Handler> = Arc::new(TaskExecutor::<FilingFlow>::new(
        env.clone(),
        ports.clone(),
        registry,
        tools,
        Arc::clone(&presence),
    ));
    let consume = |class| {
        let env = env.clone();
        let queue = Arc::clone(&ports.queue);
        let name = QueueName::Lane(Lane::Publish, class);
        let presence = Arc::clone(&presence);
        Consumer {
            env,
            queue,
            name,
            concurrency: CONCURRENCY,
            grace: GRACE,
            presence,
        }
        .run(Arc::clone(&performer), stop.clone())
    };
    futures::join!(consume(Priority::Bulk), consume(Priority::Interactive));
}

/// Removal and import: writes that only the assembler may make.
pub use stemma_pipeline::stages::{publish_imported, remove_document};

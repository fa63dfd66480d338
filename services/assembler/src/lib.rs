//! The assembler service: executes tasks of the publish lane. The only service that writes trees and change records.

use std::sync::Arc;
use std::time::Duration;

use stemma_engine::consumer::{Consumer, Handler};
use stemma_engine::executor::TaskExecutor;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::queue::{Lane, QueueName};
use stemma_engine::{Env, Ports, Priority};
use stemma_pipeline::{FilingFlow, WorkerDeps, assembler_registry};
use tokio_util::sync::CancellationToken;

// Concurrent publications; they share the store's barrier.
const CONCURRENCY: u16 = 8;
// How long publications may run after a stop.
const GRACE: Duration = Duration::from_secs(10);

/// Runs the assembler until `stop`, then drains.
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

// Re-exported because only the assembler may remove or import documents.
pub use stemma_pipeline::stages::{publish_imported, remove_document};

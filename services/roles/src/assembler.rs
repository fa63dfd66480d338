//! The assembler: executes tasks of the publish lane. The only role that writes trees and change records.

use std::sync::Arc;
use std::time::Duration;

use stemma_engine::Ports;
use stemma_engine::consumer::{Consumer, Handler};
use stemma_engine::executor::TaskExecutor;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::queue::{Lane, QueueName};
use stemma_pipeline::{FilingFlow, WorkerDeps, assembler_registry};
use stemma_store::Priority;
use tokio_util::sync::CancellationToken;

// Concurrent publications; they share the store's barrier.
const CONCURRENCY: u16 = 8;
// How long publications may run after a stop.
const GRACE: Duration = Duration::from_secs(10);

/// Runs the assembler until `stop`, then drains.
pub async fn run(
    ports: Ports,
    tools: Arc<WorkerDeps>,
    heartbeat: Arc<HeartbeatReporter>,
    stop: CancellationToken,
) {
    let registry = assembler_registry();
    let executor: Arc<dyn Handler> = Arc::new(TaskExecutor::<FilingFlow>::new(
        ports.clone(),
        registry,
        tools,
        Arc::clone(&heartbeat),
    ));
    let bulk = Consumer {
        env: ports.env,
        queue: ports.queue,
        name: QueueName::Lane(Lane::Publish, Priority::Bulk),
        concurrency: CONCURRENCY,
        grace: GRACE,
        heartbeat,
    };
    let interactive = Consumer {
        name: QueueName::Lane(Lane::Publish, Priority::Interactive),
        ..bulk.clone()
    };
    futures::join!(
        bulk.run(Arc::clone(&executor), stop.clone()),
        interactive.run(executor, stop)
    );
}

// Re-exported because only the assembler may remove or import documents.
pub use stemma_pipeline::stages::{publish_imported, remove_document};

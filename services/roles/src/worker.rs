//! The worker: executes tasks of the cpu lane, and of the llm lane where a model is configured. Any number of
//! workers may run, each with its own lanes and concurrency.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use stemma_engine::Ports;
use stemma_engine::consumer::{Consumer, Handler};
use stemma_engine::executor::TaskExecutor;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::queue::{Lane, QueueName};
use stemma_pipeline::{BatchSettings, FilingFlow, WorkerDeps, run_batches, worker_registry};
use stemma_store::Priority;
use tokio_util::sync::CancellationToken;

/// Settings of a worker; they change speed, not results.
pub struct WorkerSettings {
    /// Lanes and the number of concurrent tasks on each.
    pub lanes: Vec<(Lane, u16)>,
    /// How long tasks may run after a stop before they are requeued.
    pub grace: Duration,
    /// The process that is named in leases.
    pub heartbeat: Arc<HeartbeatReporter>,
    /// When the batches of models are sent.
    pub batches: BatchSettings,
}

/// Runs the worker until `stop`, then drains.
pub async fn run(
    ports: Ports,
    tools: Arc<WorkerDeps>,
    settings: WorkerSettings,
    stop: CancellationToken,
) {
    let WorkerSettings {
        lanes,
        grace,
        heartbeat,
        batches,
    } = settings;
    let asks_models = lanes.iter().any(|(lane, _)| *lane == Lane::Llm);
    let batching = async {
        if asks_models {
            run_batches(&ports, &tools, batches, heartbeat.process(), &stop, grace).await;
        }
    };
    let last_calls = async {
        stop.cancelled().await;
        for model in tools.models.values() {
            model.stop_new_calls();
        }
    };
    let executor: Arc<dyn Handler> = Arc::new(TaskExecutor::<FilingFlow>::new(
        ports.clone(),
        worker_registry(),
        Arc::clone(&tools),
        Arc::clone(&heartbeat),
    ));
    let consume = |lane, priority, concurrency| {
        let name = QueueName::Lane(lane, priority);
        Consumer {
            env: ports.env.clone(),
            queue: ports.queue.clone(),
            name,
            concurrency,
            grace,
            heartbeat: Arc::clone(&heartbeat),
        }
        .run(Arc::clone(&executor), stop.clone())
    };
    // Interactive tasks have separate slots, so that they never wait behind bulk tasks (I-11).
    let consumers = lanes.into_iter().flat_map(|(lane, concurrency)| {
        [
            consume(lane, Priority::Bulk, concurrency),
            consume(lane, Priority::Interactive, concurrency.div_ceil(5)),
        ]
    });
    futures::join!(join_all(consumers), batching, last_calls);
}

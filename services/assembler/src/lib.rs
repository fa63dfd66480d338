//! The assembler: performs tasks of the publish lane, and is the only service that may write trees and change records.

use std::sync::Arc;
use std::time::Duration;

use stemma_engine::consume::{Consumer, Handler};
use stemma_engine::perform::Performer;
use stemma_engine::presence::Presence;
use stemma_engine::queue::{Lane, QueueName};
use stemma_engine::{Class, Env, Ports};
use stemma_pipeline::{Filings, Tools, assembler_registry};
use tokio_util::sync::CancellationToken;

/// Trees published at once: publications share the store's barrier.
const CONCURRENCY: u16 = 8;
/// How long publications may go on after a stop.
const GRACE: Duration = Duration::from_secs(10);

/// Publishes until `stop`, then drains. `presence` is the process it works in.
pub async fn run(
    env: Env,
    ports: Ports,
    tools: Arc<Tools>,
    presence: Arc<Presence>,
    stop: CancellationToken,
) {
    let registry = assembler_registry();
    let performer: Arc<dyn Handler> = Arc::new(Performer::<Filings>::new(
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
    futures::join!(consume(Class::Bulk), consume(Class::Interactive));
}

/// Removal and import: writes that only the assembler may make.
pub use stemma_pipeline::stages::{publish_imported, remove};

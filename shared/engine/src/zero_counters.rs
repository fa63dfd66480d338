//! Registers counters at 0 when a process starts: `increase` misses the first event of a counter that begins with it.

use ::metrics::counter;
use stemma_store::blobs::Blobs;
use stemma_store::limit::Limiter;
use stemma_store::port_layer::PortOperations;

use crate::ledger::Ledger;
use crate::metrics::{self, DeliveryOutcome};
use crate::queue::{Queue, QueueName};

/// The counters of a process that executes these stages.
pub(crate) fn register_stages(stages: impl Iterator<Item = String>) {
    for stage in stages {
        for outcome in DeliveryOutcome::ALL {
            let stage = stage.clone();
            let outcome = outcome.name();
            counter!("stemma_tasks_total", "stage" => stage, "outcome" => outcome).increment(0);
        }
    }
    register_consumer();
}

/// The counters of a coordinator.
pub(crate) fn register_coordinator() {
    counter!("stemma_dead_letters_total").increment(0);
    for outcome in ["done", "done_with_gaps", "unchanged", "failed", "cancelled"] {
        counter!("stemma_documents_total", "outcome" => outcome).increment(0);
    }
    for queue in QueueName::all().filter(|queue| queue.lane().is_some()) {
        metrics::published(queue, 0, false);
        metrics::published(queue, 0, true);
    }
    metrics::jobs_open(0);
    for state in metrics::RUN_STATES {
        metrics::open_runs(state, 0);
    }
    register_consumer();
}

fn register_consumer() {
    for queue in QueueName::all() {
        counter!("stemma_redeliveries_total", "queue" => metrics::family(queue)).increment(0);
    }
    let operations = [
        <dyn Queue as PortOperations>::OPERATIONS,
        <dyn Ledger as PortOperations>::OPERATIONS,
        <dyn Blobs as PortOperations>::OPERATIONS,
        <dyn Limiter as PortOperations>::OPERATIONS,
    ];
    for operation in operations.into_iter().flatten() {
        let (port, method) = operation.split_once('.').unwrap_or((operation, ""));
        counter!("stemma_port_errors_total", "port" => port, "operation" => method).increment(0);
    }
}

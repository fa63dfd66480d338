//! Which flow queues this coordinator consumes.
//!
//! Each flow queue has one active consumer: the broker serves the first subscriber, the others are in reserve. Every living
//! coordinator owns a share of the queues. It subscribes to its share at once, and to the others, as a reserve for their
//! owners, only some time after the owners had the chance to be first. Owners follow from the heartbeats alone, so all
//! coordinators agree within some seconds; while they do not, the broker still serves one consumer per queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use stemma_store::env::Millis;
use stemma_store::port_error::PortResult;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Coordinator, MESSAGES_AT_ONCE};
use crate::consumer::{Disposition, Handler};
use crate::flow::Flow;
use crate::heartbeat::{HEARTBEAT_TTL, Heartbeat};
use crate::ledger::StatusTopic;
use crate::queue::{FLOW_QUEUES, Message, QueueName};

// How often the heartbeats are read. One that is missing has expired by then.
const LOOK_EVERY: Duration = HEARTBEAT_TTL;
// How long others leave a queue to its owner: it learns of its share with a heartbeat, and ends what the consumer before it
// had in hand.
const STAND_BY_AFTER_MS: Millis = 2 * HEARTBEAT_TTL.as_millis() as Millis;

/// The owner of each flow queue: rendezvous hashing with equal shares, so that a coordinator that comes or goes moves few
/// queues.
fn owners(members: &BTreeSet<String>) -> Vec<&str> {
    let queues = usize::from(FLOW_QUEUES);
    let share = queues.div_ceil(members.len().max(1));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut owners = Vec::with_capacity(queues);
    for queue in 0..FLOW_QUEUES {
        let members = members.iter().map(String::as_str);
        let Some(owner) = members
            .filter(|member| counts.get(member).copied().unwrap_or(0) < share)
            .max_by_key(|member| *blake3::hash(format!("{member} {queue}").as_bytes()).as_bytes())
        else {
            break; // there are no members
        };
        *counts.entry(owner).or_default() += 1;
        owners.push(owner);
    }
    owners
}

/// A flow queue that is consumed.
struct ConsumedQueue {
    stop: CancellationToken,
    // Whether a message was handled since the last look.
    used: Arc<AtomicBool>,
}

impl<W: Flow> Coordinator<W> {
    /// Consumes this coordinator's share of the flow queues, and is the reserve for the others, until `stop`.
    pub(super) async fn consume_flows(self: Arc<Self>, stop: CancellationToken) {
        let mut running = JoinSet::new();
        let mut consumed: BTreeMap<u8, ConsumedQueue> = BTreeMap::new();
        // When a queue may be subscribed to that is another's.
        let mut stand_by_ms: BTreeMap<u8, Millis> = BTreeMap::new();
        let mut members = BTreeSet::new();
        loop {
            let now = self.ports.env.now_ms();
            // Without the ledger nobody knows more than before.
            if let Ok(living) = self.living_coordinators(now).await
                && living != members
            {
                members = living;
                stand_by_ms = (0..FLOW_QUEUES)
                    .map(|queue| (queue, now + STAND_BY_AFTER_MS))
                    .collect();
            } else if members.is_empty() {
                members.insert(self.heartbeat.process().into());
            }
            let me = self.heartbeat.process();
            for (queue, owner) in (0..).zip(owners(&members)) {
                let waits = stand_by_ms.get(&queue).is_some_and(|until| *until > now);
                let is_used = consumed
                    .get(&queue)
                    .is_some_and(|queue| queue.used.swap(false, Ordering::Relaxed));
                if owner == me || (!waits && !is_used) {
                    consumed.entry(queue).or_insert_with(|| {
                        let name = QueueName::Flow(queue);
                        self.start_consuming(name, &stop, &mut running)
                    });
                } else if let Some(given_up) = consumed.remove(&queue) {
                    // Its owner lives, so it should be the one that is served.
                    given_up.stop.cancel();
                    stand_by_ms.insert(queue, now + STAND_BY_AFTER_MS);
                }
            }
            while running.try_join_next().is_some() {}
            if !self.sleep_or_stop(LOOK_EVERY, &stop).await {
                break;
            }
        }
        while running.join_next().await.is_some() {}
    }

    fn start_consuming(
        self: &Arc<Self>,
        queue: QueueName,
        stop: &CancellationToken,
        running: &mut JoinSet<()>,
    ) -> ConsumedQueue {
        let used = Arc::<AtomicBool>::default();
        let handler: Arc<dyn Handler> = Arc::new(FlowHandler {
            coordinator: Arc::clone(self),
            used: Arc::clone(&used),
        });
        let stop = stop.child_token();
        let consumer = self.consumer(queue, MESSAGES_AT_ONCE);
        running.spawn(consumer.run_for_a_while(handler, stop.clone()));
        ConsumedQueue { stop, used }
    }

    // The coordinators with a heartbeat, and this one.
    async fn living_coordinators(&self, now: Millis) -> PortResult<BTreeSet<String>> {
        let ledger = self.ports.ledger.raw();
        let records = ledger.status_records(StatusTopic::Processes, now).await?;
        let mut living: BTreeSet<String> = records
            .iter()
            .filter_map(|record| serde_json::from_slice::<Heartbeat>(&record.body).ok())
            .filter(|heartbeat| {
                matches!(heartbeat.service.as_str(), "coordinator" | "all") && !heartbeat.draining
            })
            .map(|heartbeat| heartbeat.process)
            .collect();
        living.insert(self.heartbeat.process().into());
        Ok(living)
    }

    /// Whether this coordinator has a subscription of the queue.
    pub(super) fn consumes(&self, queue: QueueName) -> bool {
        self.consumed.load(Ordering::SeqCst) & bit(queue) != 0
    }
}

fn bit(queue: QueueName) -> u32 {
    match queue {
        QueueName::Flow(number) => 1 << number,
        _ => 0,
    }
}

/// Handles the messages of one flow queue.
struct FlowHandler<W: Flow> {
    coordinator: Arc<Coordinator<W>>,
    used: Arc<AtomicBool>,
}

#[async_trait]
impl<W: Flow> Handler for FlowHandler<W> {
    async fn handle(&self, message: &Message, redeliveries: u32) -> Disposition {
        self.used.store(true, Ordering::Relaxed);
        self.coordinator.handle(message, redeliveries).await
    }

    fn on_subscribed(&self, queue: QueueName) {
        self.coordinator
            .consumed
            .fetch_or(bit(queue), Ordering::SeqCst);
    }

    async fn on_unsubscribed(&self, queue: QueueName) {
        let consumed = &self.coordinator.consumed;
        consumed.fetch_and(!bit(queue), Ordering::SeqCst);
        self.coordinator.release_queue(queue).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: usize) -> BTreeSet<String> {
        (0..count).map(|n| format!("coordinator-{n}")).collect()
    }

    #[test]
    fn shares_are_equal() {
        for count in [1, 2, 3, 4, 8] {
            let members = members(count);
            let owners = owners(&members);
            assert_eq!(owners.len(), usize::from(FLOW_QUEUES));
            for member in &members {
                let share = owners.iter().filter(|owner| **owner == member).count();
                let most = usize::from(FLOW_QUEUES).div_ceil(count);
                assert!(share <= most && share + count > most, "{count}: {share}");
            }
        }
        assert!(owners(&members(0)).is_empty());
    }

    #[test]
    fn new_coordinator_moves_few_queues() {
        let (two, three) = (members(2), members(3));
        let moved = owners(&two)
            .into_iter()
            .zip(owners(&three))
            .filter(|(before, after)| before != after)
            .count();
        assert!(moved <= 18, "{moved}");
    }
}

//! Conformance suite of the queue port. All waits are bounded; nothing relies on order, on depth, or on exact delivery
//! times.
#![expect(
    clippy::expect_used,
    reason = "a suite of tests, compiled only for tests"
)]

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};

use stemma_engine::queue::{
    DELIVERY_LIMIT, DeadReason, Delivery, Lane, MAX_MESSAGE_BYTES, Message, Queue, QueueName,
    RetryDelay, Subscription,
};
use stemma_store::key::Priority;

// Time limit for a delivery that is due.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);
// A message that does not arrive within this time will not arrive.
const SILENCE_WINDOW: Duration = Duration::from_millis(700);
const LANE: QueueName = QueueName::Lane(Lane::Cpu, Priority::Bulk);

type BoxedSubscription = Box<dyn Subscription>;

/// Checks that an adapter keeps the guarantees of [`Queue`]. `make` returns a broker with empty queues.
///
/// # Panics
/// When a guarantee is broken.
pub async fn conformance<F: Future<Output = Arc<dyn Queue>>>(make: impl Fn() -> F) {
    delivers_everything_at_least_once(make().await).await;
    preserves_message_contents(make().await).await;
    redelivers_unacknowledged_messages(make().await).await;
    respects_prefetch(make().await).await;
    delays_retries(make().await).await;
    dead_letters_after_delivery_limit(make().await).await;
    flow_queue_has_one_active_consumer(make().await).await;
    shares_a_lane(make().await).await;
    rejects_large_messages(make().await).await;
    cancelled_wait_loses_no_message(make().await).await;
}

fn message(n: usize) -> Message {
    Message::new(format!("message {n}"))
}

async fn publish(queue: &Arc<dyn Queue>, name: QueueName, count: usize) {
    queue
        .publish(name, (0..count).map(message).collect())
        .await
        .expect("published");
}

async fn subscribe(queue: &Arc<dyn Queue>, name: QueueName, prefetch: u16) -> BoxedSubscription {
    queue.subscribe(name, prefetch).await.expect("subscribed")
}

async fn next(subscription: &mut BoxedSubscription) -> Delivery {
    timeout(DELIVERY_TIMEOUT, subscription.next())
        .await
        .expect("a delivery in time")
        .expect("a living subscription")
}

async fn is_silent(subscription: &mut BoxedSubscription) -> bool {
    timeout(SILENCE_WINDOW, subscription.next()).await.is_err()
}

/// Receives and acknowledges messages until `count` distinct bodies have arrived.
async fn collect(subscription: &mut BoxedSubscription, count: usize) -> BTreeSet<Bytes> {
    let mut bodies = BTreeSet::new();
    while bodies.len() < count {
        let delivery = next(subscription).await;
        bodies.insert(delivery.message.body);
        delivery.receipt.ack().await.expect("acknowledged");
    }
    bodies
}

async fn delivers_everything_at_least_once(queue: Arc<dyn Queue>) {
    publish(&queue, LANE, 100).await; // published before anyone subscribes
    let mut subscription = subscribe(&queue, LANE, 10).await;
    collect(&mut subscription, 100).await;
    assert!(
        is_silent(&mut subscription).await,
        "acknowledged messages must not come again"
    );
    publish(&queue, LANE, 3).await;
    collect(&mut subscription, 3).await;
    publish(&queue, QueueName::Lane(Lane::Cpu, Priority::Interactive), 1).await;
    publish(&queue, QueueName::Lane(Lane::Llm, Priority::Bulk), 1).await;
    assert!(
        is_silent(&mut subscription).await,
        "queues must be separate"
    );
}

async fn preserves_message_contents(queue: Arc<dyn Queue>) {
    let trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_string());
    let body = Bytes::from((0..MAX_MESSAGE_BYTES).map(|n| n as u8).collect::<Vec<_>>());
    let sent = Message {
        body,
        attempts: 3,
        retry_ms: Some(500),
        trace,
        signature: Some("5d41".into()),
        dead: Some(DeadReason {
            queue: "cpu.bulk".into(),
            reason: "it is not a task".into(),
            deliveries: 3,
        }),
    };
    queue
        .publish(LANE, vec![sent.clone()])
        .await
        .expect("published");
    queue
        .publish_later(LANE, sent.clone(), RetryDelay::Short)
        .await
        .expect("published");
    let mut subscription = subscribe(&queue, LANE, 1).await;
    for _ in 0..2 {
        let delivery = next(&mut subscription).await;
        assert_eq!(delivery.message, sent);
        delivery.receipt.ack().await.expect("acknowledged");
    }
}

async fn redelivers_unacknowledged_messages(queue: Arc<dyn Queue>) {
    publish(&queue, LANE, 1).await;
    let mut subscription = subscribe(&queue, LANE, 5).await;
    let first = next(&mut subscription).await;
    assert_eq!(first.redeliveries, 0);
    first.receipt.requeue().await.expect("requeued");
    let second = next(&mut subscription).await;
    assert!(
        second.redeliveries >= 1,
        "requeueing counts as a redelivery"
    );
    drop(second);
    let third = next(&mut subscription).await;
    assert!(third.redeliveries >= 2, "dropping a delivery requeues it");
    drop(subscription);
    let mut another = subscribe(&queue, LANE, 5).await;
    let fourth = next(&mut another).await;
    assert!(
        fourth.redeliveries >= 3,
        "dropping a subscription requeues its messages"
    );
    let _ = third.receipt.ack().await; // too late: the message was already requeued
    fourth.receipt.ack().await.expect("acknowledged");
    assert!(is_silent(&mut another).await);
}

async fn respects_prefetch(queue: Arc<dyn Queue>) {
    publish(&queue, LANE, 5).await;
    let mut subscription = subscribe(&queue, LANE, 2).await;
    let first = next(&mut subscription).await;
    let _second = next(&mut subscription).await;
    assert!(
        is_silent(&mut subscription).await,
        "the prefetch limit is reached"
    );
    first.receipt.ack().await.expect("acknowledged");
    next(&mut subscription).await;
}

async fn delays_retries(queue: Arc<dyn Queue>) {
    let started = Instant::now();
    queue
        .publish_later(LANE, message(1), RetryDelay::Medium)
        .await
        .expect("published");
    queue
        .publish_later(LANE, message(0), RetryDelay::Short)
        .await
        .expect("published");
    let mut subscription = subscribe(&queue, LANE, 2).await;
    for (n, delay) in [RetryDelay::Short, RetryDelay::Medium]
        .into_iter()
        .enumerate()
    {
        let delivery = timeout(delay.duration() + DELIVERY_TIMEOUT, subscription.next())
            .await
            .expect("in time")
            .expect("alive");
        let early = delay.duration().saturating_sub(Duration::from_millis(500));
        assert!(
            started.elapsed() >= early,
            "{delay:?} came after {:?}",
            started.elapsed()
        );
        assert_eq!(
            delivery.message,
            message(n),
            "the shorter delay first: they differ enough"
        );
        assert_eq!(delivery.redeliveries, 0, "a delay is not a redelivery");
        delivery.receipt.ack().await.expect("acknowledged");
    }
}

async fn dead_letters_after_delivery_limit(queue: Arc<dyn Queue>) {
    publish(&queue, LANE, 1).await;
    let mut subscription = subscribe(&queue, LANE, 1).await;
    let mut dead = subscribe(&queue, QueueName::Dead, 1).await;
    let mut deliveries = 0;
    let delivery = loop {
        let delivery = tokio::select! {
            delivery = next(&mut subscription) => delivery,
            dead = next(&mut dead) => break dead,
        };
        deliveries += 1;
        assert!(
            deliveries <= DELIVERY_LIMIT + 2,
            "the message was never dead-lettered"
        );
        delivery.receipt.requeue().await.expect("requeued");
    };
    assert!(
        deliveries >= DELIVERY_LIMIT,
        "dead-lettered after only {deliveries} deliveries"
    );
    assert_eq!(delivery.message.body, message(0).body);
    delivery.receipt.ack().await.expect("acknowledged");
}

async fn flow_queue_has_one_active_consumer(queue: Arc<dyn Queue>) {
    let flow = QueueName::Flow(3);
    let mut active = subscribe(&queue, flow, 4).await;
    let mut waiting = subscribe(&queue, flow, 4).await;
    publish(&queue, flow, 6).await;
    let delivery = next(&mut active).await;
    assert!(
        is_silent(&mut waiting).await,
        "one active consumer at a time"
    );
    drop(active);
    drop(delivery);
    collect(&mut waiting, 6).await;
}

async fn shares_a_lane(queue: Arc<dyn Queue>) {
    let mut one = subscribe(&queue, LANE, 1).await;
    let mut other = subscribe(&queue, LANE, 1).await;
    publish(&queue, LANE, 2).await;
    let first = next(&mut one).await;
    let second = next(&mut other).await;
    assert_ne!(
        first.message, second.message,
        "a message has one consumer at a time"
    );
}

async fn rejects_large_messages(queue: Arc<dyn Queue>) {
    let large = Message::new(vec![0; MAX_MESSAGE_BYTES + 1]);
    let refusals = [
        queue.publish(LANE, vec![large.clone()]).await,
        queue.publish_later(LANE, large, RetryDelay::Short).await,
    ];
    for refusal in refusals {
        assert!(
            refusal.is_err_and(|error| !error.is_transient()),
            "reading the depth must not change it"
        );
    }
    let mut subscription = subscribe(&queue, LANE, 1).await;
    assert!(is_silent(&mut subscription).await);
}

async fn cancelled_wait_loses_no_message(queue: Arc<dyn Queue>) {
    let mut subscription = subscribe(&queue, LANE, 50).await;
    let mut bodies = BTreeSet::new();
    let started = Instant::now();
    for n in 0.. {
        if n < 50 {
            queue
                .publish(LANE, vec![message(n)])
                .await
                .expect("published");
        }
        while let Ok(delivery) = timeout(Duration::from_millis(1), subscription.next()).await {
            let delivery = delivery.expect("alive");
            bodies.insert(delivery.message.body);
            delivery.receipt.ack().await.expect("acknowledged");
        }
        if n >= 50 && bodies.len() == 50 {
            return;
        }
        assert!(
            started.elapsed() < DELIVERY_TIMEOUT,
            "{} of 50 arrived",
            bodies.len()
        );
    }
}

//! Queues that someone deletes while nothing is published.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::QueueDeleteOptions;
use lapin::{Connection, ConnectionProperties};
use stemma_adapters::rabbit::RabbitQueue;
use stemma_engine::queue::{Lane, Message, Queue, QueueName, Subscription};
use stemma_engine_testing::wait::wait_until;
use stemma_store::Priority;

use crate::broker::{connect, fresh_prefix, queues, remove};
use crate::connection_loss::{HandledCounts, LANE, consume, publish_until_confirmed};
use crate::logins::add_roles;
use crate::{with_own_server, with_server};

// Channels of a connection. Few, so that those of failed attempts would be missed.
const CHANNELS: u32 = 8;

async fn delete(url: &str, names: impl IntoIterator<Item = String>) {
    let connection = Connection::connect(url, ConnectionProperties::default());
    let connection = connection.await.expect("connected");
    let channel = connection.create_channel().await.expect("a channel");
    for name in names {
        let deleted = channel.queue_delete(name.into(), QueueDeleteOptions::default());
        deleted.await.expect("deleted");
    }
    connection.close(200, "OK".into()).await.expect("closed");
}

async fn wait_for_consumer(observer: &RabbitQueue) {
    wait_until("the queue has a consumer", async || {
        let depth = observer.depth(LANE).await;
        depth.is_ok_and(|depth| depth.consumers > 0)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_deleted_under_an_idle_consumer_are_declared_and_consumed_again() {
    with_server(async |url| {
        let prefix = fresh_prefix();
        let observer = connect(&url, &prefix).await;
        let queue = connect(&format!("{url}?channel_max={CHANNELS}"), &prefix).await;
        let handled = Arc::new(HandledCounts::default());
        let (stop, consuming) = consume(&queue, &handled);
        for deletion in 0..3 {
            wait_for_consumer(&observer).await;
            delete(&url, queues(&prefix)).await;
            // Nothing is published until the consumer has come back by itself.
            wait_for_consumer(&observer).await;
            publish_until_confirmed(&observer, deletion, deletion + 1).await;
            handled.wait_for(deletion + 1).await;
        }
        stop.cancel();
        consuming.await.expect("the consumer ends");
        queue.close().await;
        observer.close().await;
        remove(&url, &prefix).await;
    })
    .await;
}

const CPU: QueueName = QueueName::Lane(Lane::Cpu, Priority::Bulk);
const OCR: QueueName = QueueName::Lane(Lane::Ocr, Priority::Bulk);

/// Subscribes, as often as a consumer does, until the broker has the queue.
async fn subscribe(queue: &RabbitQueue, name: QueueName) -> Box<dyn Subscription> {
    loop {
        match queue.subscribe(name, 1).await {
            Ok(subscription) => return subscription,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_lane_comes_back_to_a_worker_and_stops_no_other_lane() {
    with_own_server(async |url, services| {
        let prefix = "stemma";
        let logins = add_roles(services, &url).await;
        let coordinator = connect(&logins[0], prefix).await;
        let worker = connect(&logins[1], prefix).await;
        let mut idle = subscribe(&worker, OCR).await;
        for deleted in [vec![format!("{prefix}.{OCR}")], queues(prefix)] {
            let mut busy = subscribe(&worker, CPU).await;
            let task = vec![Message::new("task")];
            coordinator.publish(CPU, task.clone()).await.unwrap();
            let delivery = busy.next().await.unwrap();
            delete(&url, deleted).await;
            assert!(idle.next().await.is_err());
            // Nothing is published to it until a coordinator has declared it again by itself.
            idle = subscribe(&worker, OCR).await;
            let acked = delivery.receipt.ack().await;
            acked.expect("the worker has kept its connection");
            coordinator.publish(OCR, task).await.unwrap();
            let delivery = idle.next().await.unwrap();
            delivery.receipt.ack().await.unwrap();
        }
        wait_until(
            "the coordinator has declared every queue again",
            async || coordinator.probe().await.is_ok(),
        )
        .await;
        coordinator.close().await;
        let missing = format!("{prefix}.later.300s");
        delete(&url, [missing.clone()]).await;
        let refusal = worker.probe().await.unwrap_err();
        assert!(refusal.is_transient(), "{refusal}");
        assert!(refusal.message.contains(&missing), "{refusal}");
        worker.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_subscriptions_leave_channels_for_others() {
    with_own_server(async |url, services| {
        let prefix = "stemma";
        let logins = add_roles(services, &url).await;
        let coordinator = connect(&logins[0], prefix).await;
        let limited = format!("{}?channel_max={CHANNELS}", logins[1]);
        let worker = connect(&limited, prefix).await;
        // Workers live without a continuation.
        let missing = CPU.continuation().unwrap();
        let mut failed = 0;
        while failed < 3 * CHANNELS {
            delete(&url, [format!("{prefix}.{missing}")]).await;
            failed += u32::from(worker.subscribe(missing, 1).await.is_err());
        }
        let mut open = Vec::new();
        for lane in [Lane::Cpu, Lane::Ocr, Lane::Llm] {
            open.push(subscribe(&worker, QueueName::Lane(lane, Priority::Bulk)).await);
        }
        coordinator.close().await;
        worker.close().await;
    })
    .await;
}

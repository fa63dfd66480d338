//! Queues that someone deletes while nothing is published.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::QueueDeleteOptions;
use lapin::{Connection, ConnectionProperties};
use stemma_engine::queue::{Queue, QueueName, RabbitQueue};

use crate::broker::{connect, fresh_prefix, queues, remove};
use crate::connection_loss::{HandledCounts, LANE, consume, publish_until_confirmed};
use crate::with_server;

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
    while observer
        .depth(LANE)
        .await
        .map_or(0, |depth| depth.consumers)
        == 0
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_subscriptions_leave_channels_for_others() {
    with_server(async |url| {
        let prefix = fresh_prefix();
        let queue = connect(&format!("{url}?channel_max={CHANNELS}"), &prefix).await;
        // Programs live without a continuation, so its absence is no reason to reconnect. That channels are used up is one, and
        // declares it again.
        let missing = LANE.continuation().unwrap();
        let mut failed = 0;
        while failed < 3 * CHANNELS {
            delete(&url, [format!("{prefix}.{missing}")]).await;
            failed += u32::from(queue.subscribe(missing, 1).await.is_err());
        }
        let mut open = Vec::new();
        for number in 0..3 {
            let flow = QueueName::Flow(number);
            let subscription = loop {
                match queue.subscribe(flow, 1).await {
                    Ok(subscription) => break subscription,
                    Err(error) => assert!(error.is_transient(), "{error}"),
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            };
            open.push(subscription);
        }
        queue.close().await;
        remove(&url, &prefix).await;
    })
    .await;
}

//! Refusals of the broker, depth and probe, and closing a connection.

use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use stemma_adapters::rabbit::RabbitQueue;
use stemma_engine::queue::{Depth, Message, Queue, QueueName, RetryDelay};
use stemma_engine_testing::wait::wait_until;
use stemma_store::Env;

use crate::broker::{connect, fresh_prefix, queues, remove, settings};
use crate::connection_loss::{LANE, publish_until_confirmed};
use crate::with_server;

async fn raw_connection(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default())
        .await
        .expect("connected");
    let channel = connection.create_channel().await.expect("a channel");
    (connection, channel)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicting_queue_declaration_is_reported() {
    with_server(async |url| {
        let prefix = fresh_prefix();
        let (connection, channel) = raw_connection(&url).await;
        let name = format!("{prefix}.cpu.bulk");
        let durable = QueueDeclareOptions::durable();
        channel
            .queue_declare(name.as_str().into(), durable, FieldTable::default())
            .await
            .unwrap();
        let refused = RabbitQueue::connect(&settings(&url, &prefix), &Env::system()).await;
        let refusal = refused.err().expect("refused");
        assert!(
            !refusal.is_transient() && refusal.message.contains(&name),
            "{refusal}"
        );
        assert!(
            refusal.message.contains("delete it when it is empty"),
            "{refusal}"
        );
        channel
            .queue_delete(name.into(), QueueDeleteOptions::default())
            .await
            .unwrap();
        connection.close(200, "OK".into()).await.unwrap();
        connect(&url, &prefix).await.close().await; // after this it can be declared
        remove(&url, &prefix).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_password_error_hides_the_password() {
    with_server(async |url| {
        let wrong = url.replacen("guest:guest@", "guest:hunter2@", 1);
        assert_ne!(
            wrong, url,
            "the server of the tests has the login guest:guest"
        );
        let refused = RabbitQueue::connect(&settings(&wrong, "never"), &Env::system()).await;
        let refusal = refused.err().expect("refused");
        assert!(
            !refusal.is_transient() && !refusal.message.contains("hunter2"),
            "{refusal}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unroutable_message_fails_and_queue_is_redeclared() {
    with_server(async |url| {
        let prefix = fresh_prefix();
        let (connection, channel) = raw_connection(&url).await;
        let queue = connect(&url, &prefix).await;
        channel
            .queue_delete(
                format!("{prefix}.{LANE}").into(),
                QueueDeleteOptions::default(),
            )
            .await
            .unwrap();
        let failures = publish_until_confirmed(&queue, 0, 600).await;
        assert!(failures >= 1, "the first call must fail");
        assert!(queue.depth(LANE).await.unwrap().ready >= 600);
        queue.close().await;
        connection.close(200, "OK".into()).await.unwrap();
        remove(&url, &prefix).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn depth_counts_ready_and_delayed_messages() {
    with_server(async |url| {
        let prefix = fresh_prefix();
        let queue = connect(&url, &prefix).await;
        publish_until_confirmed(&queue, 0, 7).await;
        queue
            .publish_later(QueueName::Flow(3), Message::new("later"), RetryDelay::Long)
            .await
            .unwrap();
        let expected = Depth {
            ready: 7,
            unacked: 0,
            delayed: 1,
            consumers: 0,
        };
        // Brokers update counts late.
        wait_until("the queue has this depth", async || {
            queue.depth(LANE).await.unwrap() == expected
        })
        .await;
        queue
            .announce("document.published", Message::new("{}"))
            .await
            .expect("an event needs no listener");
        queue.close().await;
        remove(&url, &prefix).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probe_reports_server_and_queue_count() {
    with_server(async |url| {
        let prefix = fresh_prefix();
        let queue = connect(&url, &prefix).await;
        let probe = queue.probe().await.unwrap();
        assert_eq!(probe.product, "RabbitMQ");
        assert!(probe.version.split('.').count() >= 3, "{}", probe.version);
        assert_eq!(probe.queues + RetryDelay::ALL.len(), queues(&prefix).len());
        queue.close().await;
        remove(&url, &prefix).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_after_close_fail_immediately() {
    with_server(async |url| {
        let prefix = fresh_prefix();
        let queue = connect(&url, &prefix).await;
        let mut subscription = queue.subscribe(LANE, 1).await.unwrap();
        queue.close().await;
        assert!(subscription.next().await.is_err());
        assert!(
            queue
                .publish(LANE, vec![Message::new("0")])
                .await
                .is_err_and(|error| !error.is_transient())
        );
        assert!(
            queue
                .subscribe(LANE, 1)
                .await
                .is_err_and(|error| !error.is_transient())
        );
        remove(&url, &prefix).await;
    })
    .await;
}

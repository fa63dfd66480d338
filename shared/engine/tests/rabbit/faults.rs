//! A server that is killed, and one that runs out of memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use stemma_engine::queue::{Message, Queue};
use tokio_util::sync::CancellationToken;

use crate::broker::connect;
use crate::connection_loss::{HandledCounts, LANE, consume, publish_until_confirmed};
use crate::with_own_server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_server_keeps_confirmed_messages() {
    with_own_server(async |url, services| {
        const BATCH: usize = 50;
        let queue = connect(&url, "stemma").await;
        let handled = Arc::new(HandledCounts::default());
        let (stop, consuming) = consume(&queue, &handled);
        let failures = AtomicU32::new(0);
        let killed = CancellationToken::new();
        // Without pauses, so that a call is in flight whenever the server is killed.
        let publishing = async {
            let mut published = 0;
            while !killed.is_cancelled() {
                let failed = publish_until_confirmed(&queue, published, published + BATCH).await;
                failures.fetch_add(failed, Ordering::Relaxed);
                published += BATCH;
                handled.wait_for(published.saturating_sub(10 * BATCH)).await;
            }
            published
        };
        let killing = async {
            let mut kills = 0;
            // At least two kills; more if no call was in flight during these.
            while kills < 2 || (kills < 5 && failures.load(Ordering::Relaxed) == 0) {
                handled.wait_for(handled.distinct() + 300).await;
                services.kill().await;
                services.restart().await;
                kills += 1;
            }
            handled.wait_for(handled.distinct() + 300).await;
            killed.cancel();
            kills
        };
        let (published, kills) = tokio::join!(publishing, killing);
        handled.wait_for(published).await;
        stop.cancel();
        consuming.await.expect("the consumer ends");
        let failures = failures.into_inner();
        let twice = handled.total() as usize - published;
        println!("{kills} kills, {failures} failed calls, {twice} of {published} handled twice");
        assert!(
            failures >= 1,
            "no call was in flight when the server was killed"
        );
        queue.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_alarm_blocks_publishers_only() {
    with_own_server(async |url, services| {
        let queue = connect(&url, "stemma").await;
        publish_until_confirmed(&queue, 0, 3).await;
        let mut subscription = queue.subscribe(LANE, 1).await.unwrap();
        services.set_memory("1MB").await;
        let publishing = {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move { queue.publish(LANE, vec![Message::new("3")]).await })
        };
        while queue.blocked().is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for _ in 0..3 {
            subscription
                .next()
                .await
                .unwrap()
                .receipt
                .ack()
                .await
                .unwrap();
        }
        tokio::time::sleep(Duration::from_secs(12)).await; // longer than a broker may be silent
        assert!(!publishing.is_finished(), "held back, not failed");
        let patience = tokio::time::timeout(
            Duration::from_secs(60),
            queue.publish(LANE, vec![Message::new("4")]),
        );
        let refusal = patience
            .await
            .expect("bounded")
            .expect_err("the server still has no memory");
        assert!(
            refusal.is_transient() && refusal.message.contains("blocks publishers"),
            "{refusal}"
        );
        services.set_memory("1GB").await;
        publish_until_confirmed(&queue, 5, 6).await;
        assert_eq!(queue.blocked(), None);
        let mut bodies = std::collections::BTreeSet::new();
        while !bodies.contains(&b"5"[..]) {
            let delivery = subscription.next().await.unwrap();
            bodies.insert(delivery.message.body.to_vec());
            delivery.receipt.ack().await.unwrap();
        }
        queue.close().await;
    })
    .await;
}

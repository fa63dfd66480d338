//! A server that is killed, and one that runs out of memory.

use std::sync::Arc;
use std::time::Duration;

use stemma_engine::queue::{Message, Queue};
use stemma_engine_testing::wait::wait_until;

use crate::broker::connect;
use crate::connection_loss::{HandledCounts, LANE, consume, publish_until_confirmed};
use crate::with_own_server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_server_keeps_confirmed_messages() {
    with_own_server(async |url, services| {
        const BATCH: usize = 50;
        const KILLS: usize = 2;
        let queue = connect(&url, "stemma").await;
        let handled = Arc::new(HandledCounts::default());
        let (stop, consuming) = consume(&queue, &handled);
        let mut published = 0;
        for _ in 0..KILLS {
            for _ in 0..10 {
                let unconfirmed = publish_until_confirmed(&queue, published, published + BATCH);
                unconfirmed.await;
                published += BATCH;
            }
            // A frozen server confirms nothing, so the call is in flight when it is killed.
            services.freeze().await;
            let publishing = publish_until_confirmed(&queue, published, published + BATCH);
            let killing = async {
                services.kill().await;
                services.restart().await;
            };
            let (failed_calls, ()) = tokio::join!(publishing, killing);
            assert!(failed_calls >= 1);
            published += BATCH;
        }
        handled.wait_for(published).await;
        stop.cancel();
        consuming.await.expect("the consumer ends");
        let twice = handled.total() as usize - published;
        println!("{twice} of {published} handled twice");
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
        wait_until("the broker blocks", async || queue.blocked().is_some()).await;
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

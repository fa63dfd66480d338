//! A server that is killed, and one that runs out of memory.

use std::sync::Arc;
use std::time::Duration;

use stemma_engine::queue::{Message, Queue};

use crate::broker::connect;
use crate::cuts::{LANE, Seen, consume, publish_stubbornly};
use crate::on_a_server_of_its_own;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing_that_was_confirmed() {
    on_a_server_of_its_own(async |url, services| {
        const BATCHES: usize = 40;
        let queue = connect(&url, "stemma").await;
        let seen = Arc::new(Seen::default());
        let (stop, consuming) = consume(&queue, &seen);
        let publishing = async {
            let mut failures = 0;
            for batch in 0..BATCHES {
                failures += publish_stubbornly(&queue, batch * 50, (batch + 1) * 50).await;
                tokio::time::sleep(Duration::from_millis(100)).await; // the kills come in the midst of it
            }
            failures
        };
        let killing = async {
            for handled in [300, 1000] {
                seen.until(handled).await;
                services.kill().await;
                services.restart().await;
            }
        };
        let (failures, ()) = tokio::join!(publishing, killing);
        seen.until(BATCHES * 50).await;
        stop.cancel();
        consuming.await.expect("the consumer ends");
        println!(
            "2 kills, {failures} failed calls, {} of {} handled twice",
            seen.total() as usize - BATCHES * 50,
            BATCHES * 50
        );
        assert!(failures >= 1, "no call was under way when the server was killed");
        queue.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_memory_holds_back_publishers_and_no_one_else() {
    on_a_server_of_its_own(async |url, services| {
        let queue = connect(&url, "stemma").await;
        publish_stubbornly(&queue, 0, 3).await;
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
            subscription.next().await.unwrap().receipt.ack().await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(12)).await; // longer than a broker may be silent
        assert!(!publishing.is_finished(), "held back, not failed");
        let patience = tokio::time::timeout(Duration::from_secs(60), queue.publish(LANE, vec![Message::new("4")]));
        let refusal = patience.await.expect("bounded").expect_err("the server still has no memory");
        assert!(refusal.passing && refusal.message.contains("holds back publishers"), "{refusal}");
        services.set_memory("1GB").await;
        publish_stubbornly(&queue, 5, 6).await;
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

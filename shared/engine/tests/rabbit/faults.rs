//! A server that is killed, and one that runs out of memory.

use std::sync::Arc;
use std::time::Duration;

use stemma_engine::queue::{Message, Queue};

use crate::broker::{connect, fresh_prefix, remove};
use crate::cuts::{LANE, Seen, consume, publish_stubbornly};
use crate::on_our_own_server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing_that_was_confirmed() {
    on_our_own_server(async |url, services| {
        const BATCHES: usize = 40;
        let prefix = fresh_prefix();
        let queue = connect(&url, &prefix).await;
        let seen = Arc::new(Seen::default());
        let (stop, consuming) = consume(&queue, &seen);
        let mut failures = 0;
        for batch in 0..BATCHES {
            let publishing = publish_stubbornly(&queue, batch * 50, (batch + 1) * 50);
            let killing = async {
                if batch % 20 == 10 {
                    services.run(&["kill", "rabbitmq", &services.folder]).await;
                    services.run(&["restart", "rabbitmq", &services.folder]).await;
                }
            };
            failures += tokio::join!(publishing, killing).0;
        }
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
        remove(&url, &prefix).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_memory_holds_back_publishers_and_no_one_else() {
    on_our_own_server(async |url, services| {
        let prefix = fresh_prefix();
        let queue = connect(&url, &prefix).await;
        publish_stubbornly(&queue, 0, 3).await;
        let mut subscription = queue.subscribe(LANE, 1).await.unwrap();
        let watermark = async |value: &str| {
            let set = ["set_vm_memory_high_watermark", "absolute", value];
            services.run(&[&["rabbitmqctl", &services.folder], &set[..]].concat()).await;
        };
        watermark("1MB").await;
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
        watermark("1GB").await;
        publish_stubbornly(&queue, 5, 6).await;
        assert_eq!(queue.blocked(), None);
        let mut bodies = std::collections::BTreeSet::new();
        while !bodies.contains(&b"5"[..]) {
            let delivery = subscription.next().await.unwrap();
            bodies.insert(delivery.message.body.to_vec());
            delivery.receipt.ack().await.unwrap();
        }
        queue.close().await;
        remove(&url, &prefix).await;
    })
    .await;
}

//! Conformance of the queue port on a real broker.

use std::sync::{Arc, Mutex};

use stemma_adapters::rabbit::RabbitQueue;
use stemma_engine::queue::Queue;
use stemma_engine_testing::queue_conformance;

use crate::broker::{connect, fresh_prefix, remove};
use crate::with_server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabbit_queue_conforms() {
    with_server(async |url| {
        let opened: Mutex<Option<(String, Arc<RabbitQueue>)>> = Mutex::new(None);
        let another = async || {
            let prefix = fresh_prefix();
            let queue = connect(&url, &prefix).await;
            let before = opened.lock().unwrap().replace((prefix, Arc::clone(&queue)));
            clean_up(&url, before).await;
            queue as Arc<dyn Queue>
        };
        queue_conformance::conformance(&another).await;
        let last = opened.lock().unwrap().take();
        clean_up(&url, last).await;
    })
    .await;
}

async fn clean_up(url: &str, opened: Option<(String, Arc<RabbitQueue>)>) {
    if let Some((prefix, queue)) = opened {
        queue.close().await;
        remove(url, &prefix).await;
    }
}

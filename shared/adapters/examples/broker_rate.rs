//! Measures how many small messages per second a broker accepts and delivers.
//!
//! `STEMMA_TEST_RABBITMQ=amqp://… cargo run --release -p stemma-adapters --example broker_rate -- [MESSAGES]`

use std::time::{Duration, Instant};

use stemma_adapters::rabbit::{RabbitQueue, RabbitSettings};
use stemma_engine::queue::{Lane, Message, Queue, QueueName};
use stemma_store::Env;
use stemma_store::key::Priority;

const BATCH: usize = 500;
const PREFETCH: u16 = 100;
const LANE: QueueName = QueueName::Lane(Lane::Cpu, Priority::Bulk);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: usize = std::env::args()
        .nth(1)
        .map_or(Ok(20_000), |count| count.parse())?;
    let url =
        std::env::var("STEMMA_TEST_RABBITMQ").map_err(|_| "STEMMA_TEST_RABBITMQ is not set")?;
    let settings = RabbitSettings {
        url: url.into(),
        prefix: "rate".into(),
        name: "broker_rate".into(),
    };
    let queue = RabbitQueue::connect(&settings, &Env::system()).await?;
    let mut subscription = queue.subscribe(LANE, PREFETCH).await?;
    while let Ok(delivery) = tokio::time::timeout(Duration::from_secs(2), subscription.next()).await
    {
        delivery?.receipt.ack().await?; // left over from an earlier run
    }
    drop(subscription);

    let started = Instant::now();
    for first in (0..count).step_by(BATCH) {
        let batch =
            (first..count.min(first + BATCH)).map(|n| Message::new(format!("{{\"n\":{n}}}")));
        queue.publish(LANE, batch.collect()).await?;
    }
    print("published and confirmed", count, started.elapsed());

    let mut subscription = queue.subscribe(LANE, PREFETCH).await?;
    let started = Instant::now();
    for _ in 0..count {
        subscription.next().await?.receipt.ack().await?;
    }
    print("consumed and acknowledged", count, started.elapsed());
    drop(subscription);
    queue.close().await;
    Ok(())
}

fn print(what: &str, count: usize, elapsed: Duration) {
    println!(
        "{count} messages {what} in {:.2} s: {:.0}/s",
        elapsed.as_secs_f64(),
        count as f64 / elapsed.as_secs_f64()
    );
}

//! The queue on RabbitMQ, against the server that `STEMMA_TEST_RABBITMQ` names (an `amqp://` URL of its administrator).
//! Without it these tests are skipped, and say so. Those that kill a server start one of their own for it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests, and what only they use"
)]

mod broker;
mod conformance;
mod connection_loss;
mod faults;
mod refusals;

use std::time::Duration;

/// A test that takes longer than this hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(240);

/// Runs a test against the server, if there is one.
async fn with_server(test: impl AsyncFnOnce(String)) {
    let Ok(url) = std::env::var("STEMMA_TEST_RABBITMQ") else {
        println!("skipped: STEMMA_TEST_RABBITMQ names no server");
        return;
    };
    tokio::time::timeout(TEST_TIMEOUT, test(url))
        .await
        .expect("the test ends in time");
}

/// Runs a test that may do to the server what it likes: it gets a fresh one.
async fn with_own_server(test: impl AsyncFnOnce(String, &broker::Services)) {
    if std::env::var_os("STEMMA_TEST_RABBITMQ").is_none() || !broker::Services::is_available() {
        println!(
            "skipped: STEMMA_TEST_RABBITMQ names no server, or there is no rabbitmq-server to start another"
        );
        return;
    }
    let services = broker::Services::start().await;
    let bounded = tokio::time::timeout(TEST_TIMEOUT, test(services.url().await, &services));
    bounded.await.expect("the test ends in time");
}

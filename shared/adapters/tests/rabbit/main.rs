//! Tests of the RabbitMQ queue, on the server named by `STEMMA_TEST_RABBITMQ` (an `amqp://` URL of an administrator).
//! Without it they fail, unless `STEMMA_TEST_EMBEDDED_ONLY=1`. Tests that kill a server start a private one.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod broker;
mod conformance;
mod connection_loss;
mod deleted_queues;
mod faults;
mod logins;
mod refusals;

use std::time::Duration;

use stemma_engine_testing::servers::server_from_env;

// A test that takes longer than this hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(240);

/// Runs a test on the shared server.
async fn with_server(test: impl AsyncFnOnce(String)) {
    let Some(url) = server_from_env("STEMMA_TEST_RABBITMQ") else {
        return;
    };
    tokio::time::timeout(TEST_TIMEOUT, test(url))
        .await
        .expect("the test ends in time");
}

/// Runs a test that may kill its server on a private one.
async fn with_own_server(test: impl AsyncFnOnce(String, &broker::Services)) {
    if server_from_env("STEMMA_TEST_RABBITMQ").is_none() {
        return;
    }
    if !broker::Services::is_available() {
        println!("skipped: rabbitmq-server is not installed, so no private server can be started");
        return;
    }
    let services = broker::Services::start().await;
    let bounded = tokio::time::timeout(TEST_TIMEOUT, test(services.url().await, &services));
    bounded.await.expect("the test ends in time");
}

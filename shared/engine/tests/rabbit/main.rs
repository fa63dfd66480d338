//! The queue on RabbitMQ, against the server that `STEMMA_TEST_RABBITMQ` names (an `amqp://` URL of its administrator).
//! Without it these tests are skipped, and say so. Those that kill the server need one that `tests/services` started,
//! and its folder in `STEMMA_TEST_SERVICES_DIR`.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests, and what only they use")]

mod broker;
mod conformance;
mod cuts;
mod faults;
mod refusals;

use std::time::Duration;

use tokio::sync::RwLock;

/// A test that takes longer than this hangs.
const BOUND: Duration = Duration::from_secs(240);

/// Tests share the server; those that hurt it have it to themselves.
static SERVER: RwLock<()> = RwLock::const_new(());

/// Runs a test against the server, if there is one.
async fn on_the_server(test: impl AsyncFnOnce(String)) {
    let Ok(url) = std::env::var("STEMMA_TEST_RABBITMQ") else {
        println!("skipped: STEMMA_TEST_RABBITMQ names no server");
        return;
    };
    let _together = SERVER.read().await;
    tokio::time::timeout(BOUND, test(url)).await.expect("the test ends in time");
}

/// Runs a test that may do to the server what it likes, if there is one of ours.
async fn on_our_own_server(test: impl AsyncFnOnce(String, broker::Services)) {
    let (Ok(url), Ok(folder)) = (std::env::var("STEMMA_TEST_RABBITMQ"), std::env::var("STEMMA_TEST_SERVICES_DIR"))
    else {
        println!("skipped: STEMMA_TEST_SERVICES_DIR names no folder of a server that tests/services started");
        return;
    };
    let _alone = SERVER.write().await;
    tokio::time::timeout(BOUND, test(url, broker::Services { folder })).await.expect("the test ends in time");
}

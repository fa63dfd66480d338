//! Tests of the Redis adapters: conformance, and behavior when Redis loses data, goes away or stops responding. The
//! former use the server named by `STEMMA_TEST_REDIS`, under private prefixes; tests that harm a server start their
//! own.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod flow;
mod ledger;
mod limiter;
mod loss;
mod server;

//! The adapters on Redis, held to the promises of their ports, and to what they promise when Redis forgets, goes away,
//! or stops answering. Promises are held on the server that STEMMA_TEST_REDIS names, under prefixes of their own; what
//! harms a server is done to servers that the tests start themselves.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests and what they stand on"
)]

mod flow;
mod ledger;
mod limiter;
mod loss;
mod server;

//! What becomes of tasks whose artifacts, ports or processes fail: a run always ends, and only what its document did
//! fails it.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod artifacts;
mod cluster;
mod failures;
mod latency;
mod order;
mod replies;
mod revisions;

//! Tests of the S3 adapters on the server named by `STEMMA_TEST_S3` (`http://127.0.0.1:PORT ACCESS SECRET`, started by
//! `tests/run`). Responses that a real server does not give on request come from a fake one.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod error_responses;
mod server;

//! The adapters on S3, held to their promises on a real server. `STEMMA_TEST_S3` names it:
//! `http://127.0.0.1:PORT ACCESS SECRET`; `tests/run` starts one. What a server cannot be asked for (refusals, resets,
//! silence) comes from one in the test.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod error_responses;
mod server;

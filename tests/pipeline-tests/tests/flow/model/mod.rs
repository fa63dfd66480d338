//! The complete flow with a model for every step: which questions are repeated after a change, how sections are batched,
//! and that equal questions give equal bytes.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests and their helpers"
)]

mod batches;
mod echo;
mod estimate;
mod repeated_questions;
mod results;
mod rights;
mod run;

//! Coordinators and workers in virtual time: how runs and jobs end, and how jobs are admitted.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod admission;
mod cluster;
mod endings;
mod forged;
mod monitoring;
mod shares;

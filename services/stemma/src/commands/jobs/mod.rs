//! Commands on jobs, one file each, and what they share.

pub mod cancel;
pub mod dead_letters;
mod eta;
mod follow;
pub mod job;
mod job_context;
mod job_status;
pub mod retry;
pub mod runner;
pub mod status;
pub mod submit;
pub mod watch;
pub mod why;

pub use follow::{exit, print_end};
pub use job_context::JobContext;

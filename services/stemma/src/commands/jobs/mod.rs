//! Commands on jobs, one file each, and what they share.

pub mod cancel;
pub mod dead_letters;
mod eta;
mod follow;
pub mod job;
mod open_operations;
pub mod retry;
pub mod runner;
pub mod status;
pub mod submit;
pub mod watch;
pub mod why;

pub use follow::{exit, print_end};
pub use open_operations::{observe_operations, open_operations, read_operations};

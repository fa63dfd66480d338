//! Commands on jobs, one file each, and what they share.

pub mod cancel;
pub mod dead_letters;
mod desk;
mod eta;
mod follow;
pub mod job;
mod look;
pub mod retry;
pub mod shop;
pub mod status;
pub mod submit;
pub mod watch;
pub mod why;

pub use desk::Desk;

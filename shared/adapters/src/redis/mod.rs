//! The ledger and the limiter in Redis, over one connection.

mod client;
mod ledger;
mod limiter;

pub use client::{RedisClient, RedisSettings};
pub use ledger::RedisLedger;
pub use limiter::RedisLimiter;

//! The ports of the engine and of the store on servers: the queue on RabbitMQ, ledger and limiter in Redis, blobs and
//! documents in S3.
//!
//! No other crate names their clients. Each adapter passes the conformance suite of its port in `tests/engine-testing`.

pub mod rabbit;
pub mod redis;
pub mod s3;

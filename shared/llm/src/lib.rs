//! Language model clients: providers, rate limits, structured output, token counts and costs.
//!
//! [`openai`] and [`anthropic`] implement [`request::Llm`]. Callers go through [`client::ModelClient`], which adds a circuit
//! breaker, shared rate limits and budgets, or through [`structured`], which retries until a reply parses and validates.
//! A call that returns no reply is retried by the engine, not here.
//!
//! [`tokens`] always counts in the o200k vocabulary, so that every machine cuts and budgets text alike, without a network.
//! For models with another vocabulary the count is an estimate; the billed count comes with the reply.
//!
//! ```
//! assert_eq!(stemma_llm::tokens::count("Item 7. Management's Discussion"), 7);
//! ```
//!
//! This crate knows nothing about documents, reads no environment variables, and follows no redirects.

pub mod anthropic;
pub mod batch;
mod bpe;
mod breaker;
pub mod calls;
mod capabilities;
pub mod client;
pub mod embeddings;
mod error_body;
mod header_time;
mod headers;
pub mod http;
pub mod image;
mod metrics;
mod model_stats;
pub mod openai;
pub mod prices;
pub mod reply;
pub mod request;
pub mod structured;
pub mod tokens;
pub mod untrusted;

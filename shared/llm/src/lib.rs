//! What stands between Stemma and language models.
//!
//! [`request`] is a question and its answer, whoever gives it; [`openai`] and [`anthropic`] are clients; [`client`] is the one
//! way to a client: breaker, shared limits, live numbers; [`structured`] asks until a reply is an answer; [`untrusted`] puts text
//! before a model as data; [`reply`] reads what a model wrote; [`calls`] is the record of every reply that came, [`prices`]
//! what it cost; [`embeddings`] turns texts into vectors. Attempts after a call without a reply are the engine's.
//!
//! [`tokens`] counts: everything that cuts, packs or budgets text needs the same count on every machine, without a
//! network and without a model, so the count is always in the o200k vocabulary, whichever model answers. For models
//! with another vocabulary it is an estimate; what a provider charged is in its reply.
//!
//! ```
//! assert_eq!(stemma_llm::tokens::count("Item 7. Management's Discussion"), 7);
//! ```
//!
//! What it refuses to do: know what a document is, read environment variables (I-7), fetch a vocabulary at run time, or
//! follow a provider to another URL.

pub mod anthropic;
mod breaker;
pub mod calls;
mod capabilities;
pub mod client;
pub mod embeddings;
mod header_time;
mod headers;
pub mod http;
mod metrics;
mod model_stats;
pub mod openai;
pub mod prices;
pub mod reply;
pub mod request;
pub mod structured;
pub mod tokens;
pub mod untrusted;

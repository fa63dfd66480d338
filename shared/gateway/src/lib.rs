//! Shared by all HTTP surfaces of the query service.
//!
//! A request passes [`access_control`]: the [`host_guard`], its API key ([`auth`]), a permit among a bounded number of
//! concurrent requests ([`admission`]) and a deadline. Handlers read their input with [`extract`] and fail with a
//! [`problem`] (RFC 9457). Answers stream as server-sent events ([`sse`]). A browser shows its key in a cookie ([`pages`]).
//!
//! The surfaces (`stemma-http`, `stemma-mcp`, `stemma-compat`) depend on this crate and never on each other.

pub mod accept;
pub mod access_control;
pub mod admission;
pub mod auth;
mod bodies;
pub mod extract;
pub mod host_guard;
pub mod pages;
pub mod problem;
pub mod rights;
pub mod schema;
pub mod settings;
pub mod sse;
pub mod state;
pub mod uploads;

pub use bodies::StreamBuffer;
pub use settings::QuerySettings;
pub use state::{AppState, PreparedQuestion, ServerDeps};

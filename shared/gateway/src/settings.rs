//! The configuration `query`: who may connect, and how many requests run at once.

use serde::{Deserialize, Serialize};

use crate::auth::KeySettings;

/// The configuration `query`. Local to a server; never changes an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuerySettings {
    /// API keys; without any, only this machine may connect.
    pub keys: Vec<KeySettings>,
    /// Concurrent requests. Sixteen times as many may wait for five seconds; more get 503.
    pub concurrency: usize,
    /// Deadline of requests that call no model, in seconds.
    pub timeout_seconds: u64,
    /// Concurrent requests that call a model or compare documents, counted apart from `concurrency`. An answer counts until
    /// it is finished, even after a disconnect.
    pub answers: usize,
    /// Deadline of these requests, in seconds.
    pub answer_timeout_seconds: u64,
    pub max_body_bytes: usize,
    /// Open connections. At the limit, the one that has waited longest for its client is closed for a new one.
    pub connections: usize,
    /// Open connections from one address. Behind a proxy all have its address: then as many as `connections`.
    pub connections_per_address: usize,
    /// Additional accepted `Host` names of `/mcp` and of servers without keys: `stemma.example.com`; `*` accepts every name.
    pub hosts: Vec<String>,
    /// Accepted `Origin`s of `/mcp` and of servers without keys: `https://app.example.com:443`.
    pub origins: Vec<String>,
}

impl Default for QuerySettings {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            concurrency: 64,
            timeout_seconds: 30,
            answers: 128,
            answer_timeout_seconds: 600,
            max_body_bytes: 64 << 10,
            connections: 1_024,
            connections_per_address: 512,
            hosts: Vec::new(),
            origins: Vec::new(),
        }
    }
}

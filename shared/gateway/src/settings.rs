//! The configuration `query`: who may connect, and how many requests run at once.

use serde::{Deserialize, Serialize};

use crate::auth::KeySettings;

/// The configuration `query`: local, changes no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuerySettings {
    /// Keys that may read, and what else each may; none: anyone may, from this machine.
    pub keys: Vec<KeySettings>,
    /// Requests answered at once; sixteen times as many wait up to five seconds, more are told to come back.
    pub concurrency: usize,
    /// How long an answer may take for which no model is asked, in seconds.
    pub timeout_seconds: u64,
    /// Requests answered at once for which a model is asked or two documents compared, beside the others; sixteen times as
    /// many wait up to five seconds. An answer that is made to its end after its asker has gone counts until then.
    pub answers: usize,
    /// How long each of those may take, in seconds.
    pub answer_timeout_seconds: u64,
    /// The largest request body in bytes.
    pub max_body_bytes: usize,
    /// Names under which `/mcp`, and a server without keys, is called, beside this machine's own: `stemma.example.com`.
    pub hosts: Vec<String>,
    /// Web pages that may call `/mcp`, and a server without keys: `https://app.example.com:443`; none: no page may.
    pub origins: Vec<String>,
}

impl Default for QuerySettings {
    fn default() -> Self {
        let concurrency = 64;
        let timeout_seconds = 30;
        let answers = 128;
        let answer_timeout_seconds = 600;
        let hosts = Vec::new();
        let origins = Vec::new();
        let max_body_bytes = 64 << 10;
        let keys = Vec::new();
        Self {
            keys,
            concurrency,
            timeout_seconds,
            answers,
            answer_timeout_seconds,
            max_body_bytes,
            hosts,
            origins,
        }
    }
}

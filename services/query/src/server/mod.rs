//! The read side over HTTP (`/v1`): thin handlers over [`Reader`].
//!
//! A request is answered from a snapshot of the catalogue that is kept up to date beside it. Before a handler runs, a
//! request has shown its key (where keys are configured), has a place among a bounded number, and a time limit. What a
//! request gets wrong is a 4xx that says what to do; a store that is away is a 503.

mod accept;
mod answers;
#[cfg(test)]
mod answers_tests;
pub(crate) mod archive;
mod asked;
#[cfg(test)]
mod asking_tests;
mod comparing;
mod cursor;
mod dialogue;
mod documents;
mod files;
mod gate;
#[cfg(test)]
mod hostile;
mod intake;
pub(crate) mod keys;
mod listing;
mod multipart;
mod openai;
mod openapi;
mod pageindex;
mod parameters;
mod problem;
mod routes;
mod searching;
mod shown;
mod source;
pub(crate) mod stay;
mod telling;
#[cfg(test)]
mod tests;
mod texts;
pub(crate) mod visitors;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_answers::Answerer;
use stemma_answers::reason::AnswerModel;
use stemma_boot::health::{self, Health, Serving};
use stemma_boot::telemetry::Metrics;
use stemma_document::Collection;
use stemma_engine::Env;
use stemma_engine::blobs::Blobs;
use stemma_retrieval::meaning::Meaning;
use tokio_util::sync::CancellationToken;

use crate::Reader;
use crate::mcp::{self, Desk};
use archive::Archive;
use gate::Gate;
pub use intake::{Intake, Submitted, Upload};
use keys::Keys;
pub use keys::{KeyScope, KeySettings};
use routes::Site;
use visitors::Visitors;

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

/// What a server answers, to whom and where.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The collections it answers from; the first is meant where a request names none.
    pub collections: Vec<Collection>,
    /// The configuration.
    pub query: QuerySettings,
    /// Whether anyone may read although others than this machine can connect.
    pub allow_anonymous: bool,
    /// Where this machine keeps the index.
    pub cache: PathBuf,
    /// The model that questions may be answered with; `None`: no model is asked.
    pub model: Option<AnswerModel>,
}

/// What a server may use beside the store: without it, routes that need it refuse and say so.
#[derive(Clone, Default)]
pub struct Means {
    /// Who answers questions in words.
    pub answering: Option<Arc<dyn Answering>>,
    /// What routes questions by meaning, for each collection that has such.
    pub meaning: Vec<(Collection, Arc<Meaning>)>,
    /// Takes documents in, and removes them.
    pub intake: Option<Arc<dyn Intake>>,
}

/// Answers questions in words over what a reader reads.
pub trait Answering: Send + Sync {
    /// The answerer over this state of a collection.
    fn over(&self, reader: &Arc<Reader>) -> Arc<dyn Answerer>;
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Others could connect, and no one is asked for a key.
    #[error("{listen} can be reached from other machines, and no keys are configured")]
    Anonymous {
        /// The address.
        listen: SocketAddr,
    },
    /// A key that is none.
    #[error("the key `{name}` of query.keys has no BLAKE3 digest of 64 hexadecimal digits")]
    Key {
        /// Its name.
        name: String,
    },
    /// No collection to answer from.
    #[error("no collection to answer from")]
    NoCollection,
    /// The address cannot be listened on.
    #[error("{listen}: {error}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
}

/// Serves `/v1`, `/mcp`, `/livez`, `/readyz` and `/metrics` until `stop`. Reads from `blobs` alone; with a model it also
/// adds to them what was paid for: call log, replies and answers.
///
/// # Errors
/// [`ServeError`] before anything is served.
pub async fn serve(
    env: Env,
    blobs: Arc<dyn Blobs>,
    settings: ServerSettings,
    means: Means,
    health: Health,
    metrics: Option<Metrics>,
    stop: CancellationToken,
) -> Result<Serving, ServeError> {
    let ServerSettings {
        listen,
        collections,
        query,
        allow_anonymous,
        cache,
        model,
    } = settings;
    let keys = Keys::of(&query.keys)?;
    if keys.is_empty() && !listen.ip().is_loopback() && !allow_anonymous {
        return Err(ServeError::Anonymous { listen });
    }
    if collections.is_empty() {
        return Err(ServeError::NoCollection);
    }
    if model.is_some() && keys.ask_nothing() {
        tracing::info!(
            "a model is configured, and no key of query.keys has the scope `ask`: no question is answered by it"
        );
    } else if model.is_some() && keys.is_empty() && !listen.ip().is_loopback() {
        tracing::warn!(%listen, "no keys are configured: whoever can connect has the model asked, which costs money");
    }
    let archive = Archive::follow(
        &env,
        &blobs,
        collections,
        &means.meaning,
        &cache,
        model.as_ref(),
        &stop,
    );
    let visitors = Visitors::of(listen, &query.hosts, &query.origins);
    let gate = Gate::new(
        env.clone(),
        keys,
        listen.ip().is_loopback(),
        &visitors,
        &query,
    );
    // Who calls tools has a model of its own: without one here, searching serves it better than asking.
    let answering = means.answering.clone().filter(|_| model.is_some());
    let desk = Desk::behind_gate(env.clone(), Arc::clone(&archive)).answering_by(answering);
    let mcp = mcp::service(desk, &visitors, query.max_body_bytes, &stop);
    let router = routes::router(
        Site {
            env,
            archive,
            means,
        },
        gate,
        mcp,
    );
    let serving = health::serve(listen, health, metrics, router, stop).await;
    serving.map_err(|error| ServeError::Listen { listen, error })
}

//! The read side over HTTP (`/v1`): thin handlers over [`Archive`].
//!
//! A request is answered from a snapshot of the catalogue that is kept up to date beside it. Before a handler runs, a
//! request has shown its key (where keys are configured), has a place among a bounded number, and a time limit. What a
//! request gets wrong is a 4xx that says what to do; a store that is away is a 503.

mod accept;
mod access_control;
pub(crate) mod admission;
mod answers;
#[cfg(test)]
mod answers_tests;
pub(crate) mod auth;
pub(crate) mod collections;
mod compare;
mod conversation;
mod cursor;
mod documents;
mod extract;
mod files;
pub(crate) mod host_guard;
#[cfg(test)]
mod hostile_tests;
mod list;
#[cfg(test)]
mod model_access_tests;
mod multipart;
mod openai;
mod openapi;
mod pageindex;
mod parameters;
mod problem;
mod render;
mod routes;
mod search;
mod source;
mod sse;
#[cfg(test)]
mod tests;
mod text;
mod uploads;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_answers::Answerer;
use stemma_answers::tree_search::AnswerModel;
use stemma_boot::health::{self, Health, HealthServer};
use stemma_boot::telemetry::Metrics;
use stemma_document::Collection;
use stemma_engine::Env;
use stemma_engine::blobs::Blobs;
use stemma_retrieval::embedding::SemanticRouter;
use tokio_util::sync::CancellationToken;

use crate::Archive;
use crate::mcp::{self, McpServer};
use access_control::AccessControl;
use auth::ApiKeys;
pub use auth::{KeyScope, KeySettings};
use collections::Collections;
use host_guard::HostGuard;
use routes::AppState;
pub use uploads::{Upload, UploadPort, UploadReceipt};

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
pub struct ServerDeps {
    /// Who answers questions in words.
    pub answerers: Option<Arc<dyn AnswererFactory>>,
    /// What routes questions by meaning, for each collection that has such.
    pub semantic_routers: Vec<(Collection, Arc<SemanticRouter>)>,
    /// Takes documents in, and removes them.
    pub uploads: Option<Arc<dyn UploadPort>>,
}

/// Answers questions in words over what a reader reads.
pub trait AnswererFactory: Send + Sync {
    /// The answerer over this state of a collection.
    fn answerer(&self, archive: &Arc<Archive>) -> Arc<dyn Answerer>;
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
    means: ServerDeps,
    health: Health,
    metrics: Option<Metrics>,
    stop: CancellationToken,
) -> Result<HealthServer, ServeError> {
    let ServerSettings {
        listen,
        collections,
        query,
        allow_anonymous,
        cache,
        model,
    } = settings;
    let keys = ApiKeys::from_settings(&query.keys)?;
    if keys.is_empty() && !listen.ip().is_loopback() && !allow_anonymous {
        return Err(ServeError::Anonymous { listen });
    }
    if collections.is_empty() {
        return Err(ServeError::NoCollection);
    }
    if model.is_some() && keys.is_asking_disabled() {
        tracing::info!(
            "a model is configured, and no key of query.keys has the scope `ask`: no question is answered by it"
        );
    } else if model.is_some() && keys.is_empty() && !listen.ip().is_loopback() {
        tracing::warn!(%listen, "no keys are configured: whoever can connect has the model asked, which costs money");
    }
    let archive = Collections::start(
        &env,
        &blobs,
        collections,
        &means.semantic_routers,
        &cache,
        model.as_ref(),
        &stop,
    );
    let host_guard = HostGuard::new(listen, &query.hosts, &query.origins);
    let control = AccessControl::new(
        env.clone(),
        keys,
        listen.ip().is_loopback(),
        &host_guard,
        &query,
    );
    // Who calls tools has a model of its own: without one here, searching serves it better than asking.
    let answering = means.answerers.clone().filter(|_| model.is_some());
    let mcp_server =
        McpServer::with_access_control(env.clone(), Arc::clone(&archive)).with_answerers(answering);
    let mcp = mcp::service(mcp_server, &host_guard, query.max_body_bytes, &stop);
    let router = routes::router(
        AppState {
            env,
            collections: archive,
            deps: means,
        },
        control,
        mcp,
    );
    let serving = health::serve(listen, health, metrics, router, stop).await;
    serving.map_err(|error| ServeError::Listen { listen, error })
}

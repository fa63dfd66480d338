//! `stemma serve`: a query server and the ingest services in one process.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use stemma_archive::AnswererFactory;
use stemma_archive::{AnswerService, ApiError};
use stemma_boot::health::Health;
use stemma_boot::process_name;
use stemma_boot::telemetry::Metrics;
use stemma_coordinator::SubmitRequest;
use stemma_document::{Collection, Digest, DocId, Origin};
use stemma_engine::flow::JobOptions;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::{Env, Ports, Priority};
use stemma_gateway::ServerDeps;
use stemma_gateway::uploads::{Upload, UploadPort, UploadReceipt};
use stemma_pipeline::external_metadata::{FACT_NAMES, canonicalize};
use stemma_pipeline::sources::{is_document, store_source};
use stemma_pipeline::{RunSettings, Submission};
use stemma_query::{ServerSettings, serve};

use super::query::{semantic_routers, serve_error};
use crate::commands::jobs::runner::JobRunner;
use crate::config::{Config, no_model};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::model_clients::answer_model;

/// Run one server that accepts, processes, searches and answers from documents.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Like `stemma query`, and also accepts uploads: documents sent to POST /doc/ become jobs and are
processed here, or by the cluster if a broker is configured. No other process can write to a folder
store meanwhile.

Uploads need a key with the scope `write` in query.keys. Without keys, only this machine can connect.

Examples:
  stemma serve
  stemma serve --store /archive/.stemma --listen 127.0.0.1:9000
  curl 127.0.0.1:8080/doc/ -H 'api_key: any' -F file=@3M_2022_10K.pdf")]
pub struct ServeArgs {
    /// Address to listen on; port 0 picks a free port.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
}

/// Serves until a signal, then finishes open work.
pub async fn run(args: ServeArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.config()?;
    let settings = config.job_settings()?;
    if settings.model.is_some() && !config.model.is_configured() {
        return Err(no_model("model.base_url"));
    }
    let runner = JobRunner::open(context, config, "serve").await?;
    let served = serve_until_stopped(args.listen, context, config, settings, &runner).await;
    runner.close().await;
    served
}

async fn serve_until_stopped(
    listen: SocketAddr,
    context: &Context,
    config: &Config,
    settings: RunSettings,
    runner: &JobRunner,
) -> Result<Exit, CommandError> {
    let env = runner.job_context.env.clone();
    let ports = runner.job_context.ports.clone();
    let stop = runner.stop();
    let presence = HeartbeatReporter::new(&env, process_name::process_name("serve", &env), "serve");
    let health = Health::for_blobs(&env, &presence, &ports.blobs);
    let collections = vec![context.collection.clone()];
    let cache = context.cache_dir();
    let embedding_client = config
        .embeddings
        .client(&env, &ports.limiter, presence.process())?;
    let meaning = semantic_routers(
        &config.embeddings,
        &embedding_client,
        &env,
        &ports.blobs,
        &collections,
        &cache,
    );
    // Questions and ingestion share the model's limits.
    let model = answer_model(config, &env, &ports.limiter, presence.process())?;
    let query = config.query.clone();
    let server = ServerSettings {
        listen,
        collections,
        query,
        allow_anonymous: false,
        cache,
        model,
    };
    let blobs = Arc::clone(&ports.blobs);
    let intake: Arc<dyn UploadPort> = Arc::new(UploadIntake {
        env: env.clone(),
        ports,
        settings,
    });
    let answers: Arc<dyn AnswererFactory> = Arc::new(AnswerService::new(
        env.clone(),
        Arc::clone(&blobs),
        config.answer,
        stemma_mcp::agent_tools,
    ));
    let deps = ServerDeps {
        semantic_routers: meaning,
        uploads: Some(intake),
        answerers: Some(answers),
    };
    let serving = serve(
        env,
        blobs,
        server,
        deps,
        health,
        Metrics::install(),
        stop.clone(),
    )
    .await;
    let serving = serving.map_err(|error| serve_error(listen, &error))?;
    context.output.note(&format!("http://{}", serving.address));
    tracing::info!(store = %context.store, listen = %serving.address, "started");
    stop.cancelled().await;
    presence.start_draining();
    serving
        .join()
        .await
        .map_err(|error| CommandError::new("listen.ended", format!("{listen}: {error}")))?;
    Ok(Exit::Done)
}

// An upload is stored under its digest and becomes a job of one document.
struct UploadIntake {
    env: Env,
    ports: Ports,
    settings: RunSettings,
}

#[async_trait]
impl UploadPort for UploadIntake {
    fn max_bytes(&self) -> u64 {
        self.settings.limits.max_bytes
    }

    async fn submit(
        &self,
        collection: &Collection,
        upload: Upload,
    ) -> Result<UploadReceipt, ApiError> {
        let Upload {
            path,
            bytes,
            metadata,
        } = upload;
        if !is_document(&path) {
            let message = format!("unsupported file type `{path}`");
            return Err(ApiError::new(
                "input.kind",
                message,
                "send a .pdf, .md or .txt file",
            ));
        }
        let stated = facts(metadata)?;
        let source = Digest::from_content(&bytes);
        let size_bytes = bytes.len() as u64;
        store_source(
            &self.env,
            self.ports.blobs.as_ref(),
            collection,
            source,
            bytes,
        )
        .await?;
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        // The URI only identifies the upload. Workers read the bytes from the store.
        let uri = format!("upload:{path}");
        let doc = DocId::new(collection, &uri);
        let label = format!("upload of {name}");
        let submission = Submission {
            uri,
            name,
            path,
            source,
            origin: Origin::Content,
            size_bytes,
            stated,
            retry_failed: true,
        };
        let terms = JobOptions {
            label,
            ..JobOptions::default()
        };
        let order = SubmitRequest {
            collection,
            settings: &self.settings,
            class: Priority::Interactive,
            terms,
        };
        let manifest =
            stemma_coordinator::submit(&self.env, &self.ports, order, &[submission]).await?;
        Ok(UploadReceipt {
            doc,
            job: manifest.job.to_string(),
        })
    }

    async fn remove(&self, collection: &Collection, doc: DocId) -> Result<(), ApiError> {
        Ok(
            stemma_assembler::remove_document(&self.env, &self.ports, collection, doc)
                .await
                .map(drop)?,
        )
    }
}

// Unknown facts are an error, because they would silently be lost.
fn facts(stated: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ApiError> {
    for (name, value) in &stated {
        if !FACT_NAMES.contains(&name.as_str()) || canonicalize(name, value).is_none() {
            let message =
                format!("metadata: `{name}` is not a known fact, or its value is invalid");
            return Err(ApiError::new(
                "input.metadata",
                message,
                format!("known facts: {}", FACT_NAMES.join(", ")),
            ));
        }
    }
    Ok(stated)
}

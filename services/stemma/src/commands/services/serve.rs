//! `stemma serve`: a query server and the ingest services in one process.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use stemma_archive::ApiError;
use stemma_document::{Collection, Digest, DocId, FactDefinition};
use stemma_engine::Ports;
use stemma_engine::flow::JobOptions;
use stemma_gateway::uploads::{Upload, UploadPort, UploadReceipt};
use stemma_operations::RetryCandidate;
use stemma_pipeline::sources::{SourceWriter, document_extensions, is_document};
use stemma_pipeline::{RunSettings, Submission};
use stemma_roles::coordinator::{SubmitRequest, submit};
use stemma_store::{JobId, PortResult, Priority};

use super::query::QueryServer;
use crate::commands::jobs::runner::JobRunner;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::table::counted;

/// Run one server that accepts, processes, searches and answers from documents.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Like `stemma query`, and also accepts uploads: documents sent to POST /doc/ become jobs and are
processed here, or by the cluster if a broker is configured. No other process can write to a
folder store meanwhile.

Uploads need a key with the scope `write` in query.keys. Without keys, only this machine can
connect.

Examples:
  stemma serve
  stemma serve --store /archive/.stemma --listen 127.0.0.1:9000
  curl 127.0.0.1:8080/doc/ -H 'api_key: any' -F file=@3M_2022_10K.pdf")]
pub struct ServeArgs {
    /// Address to listen on; port 0 picks a free port.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
}

pub async fn run(args: ServeArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.config()?;
    let settings = config.job_settings()?;
    let runner = JobRunner::open(context, config, "serve").await?;
    let ports = runner.operations.ports.clone();
    let server = QueryServer {
        service: "serve",
        listen: args.listen,
        collections: vec![context.collection.clone()],
        allow_anonymous: false,
        blobs: Arc::clone(ports.blobs.raw()),
        // Questions and ingestion share the model's limits.
        limiter: Arc::clone(&ports.limiter),
        stop: runner.stop.clone(),
        env: ports.env.clone(),
        operations: runner.operations.clone(),
        uploads: Some(Arc::new(UploadIntake { ports, settings })),
    };
    let served = server.run(context, |address| {
        context.output.note(&format!("http://{address}"));
    });
    let served = served.await;
    runner.close().await;
    served
}

// An upload is stored under its digest and becomes a job of one document.
struct UploadIntake {
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
        let Upload { path, bytes, .. } = upload;
        if !is_document(&path) {
            let message = format!("unsupported file type `{path}`");
            let next = format!("send a {} file", document_extensions("or"));
            return Err(ApiError::new("input.unsupported", message, next));
        }
        let stated = facts(upload.metadata)?;
        let source = Digest::from_content(&bytes);
        let size_bytes = bytes.len() as u64;
        let writer = SourceWriter::start(&self.ports.blobs, collection).await?;
        writer.store(source, bytes).await?;
        // The URI only identifies the upload. Workers read the bytes from the store.
        let uri = format!("upload:{path}");
        let doc = DocId::new(collection, &uri);
        let submission = Submission {
            stated,
            retry_failed: true,
            ..Submission::from_content(uri, path, source, size_bytes)
        };
        let label = format!("upload of {}", submission.name);
        let job = self
            .start(collection, Priority::Interactive, label, &[submission])
            .await?;
        Ok(UploadReceipt {
            doc,
            job: job.to_string(),
        })
    }

    async fn resubmit(
        &self,
        collection: &Collection,
        documents: Vec<RetryCandidate>,
    ) -> Result<JobId, ApiError> {
        let documents: Vec<Submission> = documents.into_iter().map(|row| row.submission).collect();
        let label = format!("retry of {}", counted(documents.len(), "document"));
        Ok(self
            .start(collection, Priority::Bulk, label, &documents)
            .await?)
    }

    async fn remove(&self, collection: &Collection, doc: DocId) -> Result<(), ApiError> {
        stemma_roles::assembler::remove_document(&self.ports, collection, doc).await?;
        Ok(())
    }
}

impl UploadIntake {
    async fn start(
        &self,
        collection: &Collection,
        priority: Priority,
        label: String,
        documents: &[Submission],
    ) -> PortResult<JobId> {
        let order = SubmitRequest {
            collection,
            settings: &self.settings,
            priority,
            options: JobOptions {
                label,
                ..JobOptions::default()
            },
        };
        Ok(submit(&self.ports, order, documents).await?.job)
    }
}

// Unknown facts are an error, because they would silently be lost.
fn facts(stated: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ApiError> {
    for (name, value) in &stated {
        let known = FactDefinition::from_sidecar_name(name);
        if known.and_then(|fact| fact.canonical(value)).is_none() {
            let names: Vec<&str> = FactDefinition::for_sidecars()
                .map(|fact| fact.name)
                .collect();
            let message =
                format!("metadata: `{name}` is not a known fact, or its value is invalid");
            return Err(ApiError::new(
                "input.metadata",
                message,
                format!("known facts: {}", names.join(", ")),
            ));
        }
    }
    Ok(stated)
}

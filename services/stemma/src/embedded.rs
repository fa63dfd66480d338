//! All services in one process over embedded ports. They run the same code as on a cluster.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stemma_adapters::s3::LazyBucketReader;
use stemma_engine::Ports;
use stemma_engine::coordinator::Observer;
use stemma_engine::heartbeat::{HeartbeatExtras, HeartbeatReporter, send_heartbeats};
use stemma_engine::queue::Lane;
use stemma_extract::{ModelFile, PackageManager};
use stemma_pipeline::sources::SchemeRouter;
use stemma_pipeline::{ModelClient, Password, ReadProgress, WorkerDeps};
use stemma_roles::worker::WorkerSettings;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::children::extraction_pool;
use crate::config::Config;
use crate::error::CommandError;
use crate::model_clients::model_clients;

// Up to this many tasks share one call to a model.
const TASKS_PER_CALL: u16 = 8;
// Bounds the memory of tasks that wait for a call.
const MAX_TASKS: u16 = 512;

/// Running services. [`EmbeddedServices::stop`] drains them.
pub struct EmbeddedServices {
    stop: CancellationToken,
    services: Vec<JoinHandle<()>>,
    read_progress: Arc<ReadProgress>,
    models: Vec<Arc<ModelClient>>,
}

impl EmbeddedServices {
    /// Starts coordinator, worker and assembler.
    pub fn start(
        ports: &Ports,
        config: &Config,
        password: Option<String>,
        observer: Observer,
    ) -> Result<Self, CommandError> {
        let stop = CancellationToken::new();
        let heartbeat =
            HeartbeatReporter::new(&ports.env, format!("pid-{}", std::process::id()), "all");
        let models = model_clients(config, ports, heartbeat.process())?;
        let sources = SchemeRouter::new(LazyBucketReader::new(config.servers.s3.settings()));
        let deps = worker_deps(config, sources)?
            .with_second_reader(second_reader(config)?)
            .with_models(models.clone())
            .with_password(password.map(Password));
        let deps = Arc::new(deps);
        let read_progress = Arc::clone(&deps.read_progress);
        let worker = WorkerSettings {
            lanes: lanes(config),
            grace: Duration::from_secs(config.local.grace_seconds),
            heartbeat: Arc::clone(&heartbeat),
            batches: config.model.provider.batch.settings(),
        };
        let heartbeats = ports.env.spawn(send_heartbeats(
            ports.env.clone(),
            Arc::clone(ports.ledger.raw()),
            Arc::clone(&heartbeat),
            heartbeat_extras(ports, &models),
            stop.clone(),
        ));
        let open_documents = config.local.open_documents;
        let coordinator = ports.env.spawn(stemma_roles::coordinator::run(
            ports.clone(),
            open_documents,
            observer,
            Arc::clone(&heartbeat),
            stop.clone(),
        ));
        let worker = ports.env.spawn(stemma_roles::worker::run(
            ports.clone(),
            Arc::clone(&deps),
            worker,
            stop.clone(),
        ));
        let assembler = ports.env.spawn(stemma_roles::assembler::run(
            ports.clone(),
            deps,
            heartbeat,
            stop.clone(),
        ));
        Ok(Self {
            stop,
            services: vec![coordinator, worker, assembler, heartbeats],
            read_progress,
            models,
        })
    }

    pub fn models(&self) -> Vec<Arc<ModelClient>> {
        self.models.clone()
    }

    /// How much the worker has read.
    pub fn read_progress(&self) -> Arc<ReadProgress> {
        Arc::clone(&self.read_progress)
    }

    /// Ends the services at once, like a crash.
    pub fn abort(self) {
        self.services.iter().for_each(JoinHandle::abort);
    }

    /// Asks the services to stop and waits until they have drained.
    pub async fn stop(self) {
        self.stop.cancel();
        for service in self.services {
            if let Err(error) = service.await {
                tracing::error!(%error, "a service panicked");
            }
        }
    }
}

/// What a heartbeat says in addition to the work of its process.
pub fn heartbeat_extras(
    ports: &Ports,
    models: &[Arc<ModelClient>],
) -> impl Fn() -> HeartbeatExtras + Send + use<> {
    let ports = ports.clone();
    let models = models.to_vec();
    move || HeartbeatExtras {
        models: (models.iter())
            .map(|client| (client.bucket().to_string(), client.heartbeat()))
            .collect(),
        troubles: ports.troubles(ports.env.now_ms()),
    }
}

/// The services that stages use on a cluster, without model clients.
pub fn cluster_deps(config: &Config) -> Result<WorkerDeps, CommandError> {
    let buckets = LazyBucketReader::new(config.servers.s3.settings());
    worker_deps(config, SchemeRouter::for_cluster(buckets))
}

fn worker_deps(config: &Config, sources: SchemeRouter) -> Result<WorkerDeps, CommandError> {
    let pool = extraction_pool(&config.local)
        .map_err(|error| CommandError::new("system.start", error.to_string()))?;
    let deps = WorkerDeps::new(Arc::new(sources), Arc::new(pool));
    Ok(deps
        .with_cores(config.local.concurrency())
        .with_tesseract(tesseract())
        .with_packages(PackageManager::detect()))
}

/// The absolute path of tesseract, if it is installed.
pub fn tesseract() -> Option<PathBuf> {
    stemma_ocr::find_program(std::env::var_os("PATH").as_deref())
}

/// The model that reads the numbers of scans again, if this machine has one.
pub fn second_reader(config: &Config) -> Result<Option<ModelFile>, CommandError> {
    let path = &config.local.second_reader;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    if !stemma_ocr::HAS_SECOND_READER {
        let message = "local.second_reader is set, but this program was built without the feature second-reader";
        return Err(no_second_reader(message.into()));
    }
    let name = path.display();
    // A child may have another working directory.
    let model = std::path::absolute(path).and_then(stemma_ocr::model_file);
    let digest = &config.settings.ocr.second_reader;
    match model {
        Ok(model) if digest.is_empty() || *digest == model.sha256 => Ok(Some(model)),
        Ok(ModelFile { sha256, .. }) => Err(no_second_reader(format!(
            "the model {name} has the SHA-256 digest {sha256}, but ocr.second_reader names another"
        ))),
        Err(error) => Err(no_second_reader(format!(
            "the model {name} of local.second_reader cannot be read: {error}"
        ))),
    }
}

fn no_second_reader(message: String) -> CommandError {
    CommandError::new("ocr.no_model", message)
        .with_next("correct local.second_reader and ocr.second_reader, or leave both empty")
}

/// Lanes of a worker with their numbers of concurrent tasks. Lane `llm` takes more tasks than calls, because several
/// tasks can share a call and others wait for their turn; the model client limits the calls.
pub fn lanes(config: &Config) -> Vec<(Lane, u16)> {
    let calls = config
        .providers()
        .iter()
        .map(|(_, provider)| provider.endpoint.concurrency.max(1))
        .fold(0, u16::saturating_add);
    let mut lanes = [Lane::Cpu, Lane::Ocr]
        .map(|lane| (lane, config.local.concurrency()))
        .to_vec();
    if calls > 0 {
        lanes.push((
            Lane::Llm,
            calls.saturating_mul(TASKS_PER_CALL).min(MAX_TASKS),
        ));
    }
    lanes
}

/// Documents to have in flight, so that an interrupted ingest leaves finished documents rather than begun ones. Every task
/// slot has a document to work on and one that waits.
pub fn documents_in_flight(config: &Config) -> usize {
    let slots: usize = lanes(config)
        .iter()
        .map(|(_, slots)| usize::from(*slots))
        .sum();
    config.local.open_documents.min(2 * slots)
}

//! The type of work for the engine, and the dependencies that workers bring.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use stemma_document::{Digest, blob_keys};
use stemma_engine::jobs::BudgetRegistry;
use stemma_engine::stage::{TaskContext, Work};
use stemma_extract::{Extractor, ModelFile, PackageManager};
use stemma_llm::client::ModelClient;
use stemma_store::{Env, RunId, RunRef};
use tokio::sync::Semaphore;

use crate::llm::{Batcher, TextCache};
use crate::settings::RunSettings;
use crate::sources::SourceStore;
use crate::versions;

/// The work of Stemma: turning filings into section trees.
pub struct FilingFlow;

impl Work for FilingFlow {
    type Settings = RunSettings;
    type Tools = WorkerDeps;

    fn run_ref(run: &RunId, scope: &str) -> Option<RunRef> {
        versions::run_ref(&blob_keys::parse_collection(scope).ok()?, run)
    }
}

/// A running stage of this work.
pub(crate) type FilingTask<'a> = TaskContext<'a, FilingFlow>;

/// Dependencies of stages other than the ports. They are local to a worker and never part of a key.
pub struct WorkerDeps {
    pub sources: Arc<dyn SourceStore>,
    /// Parses untrusted documents.
    pub extractor: Arc<dyn Extractor>,
    /// Tried on encrypted documents that the empty password does not open. Never stored.
    pub password: Option<Password>,
    /// Clients of the configured models, by model name.
    pub models: BTreeMap<String, Arc<ModelClient>>,
    pub budgets: Arc<BudgetRegistry>,
    pub text_cache: TextCache,
    pub batcher: Batcher,
    /// The absolute path of tesseract, if it is installed.
    pub tesseract: Option<PathBuf>,
    /// What would install it.
    pub packages: Option<PackageManager>,
    /// The model that reads the numbers of pictures again, if this machine has one.
    pub second_reader: Option<ModelFile>,
    pub(crate) last_original: LastOriginal,
    pub read_progress: Arc<ReadProgress>,
    // A worker takes more tasks than it has cores, because they mostly wait for the store. The extractor bounds its
    // children; this bounds the work inside the process.
    cores: Semaphore,
}

/// How much this process has read of its documents, for progress displays.
#[derive(Debug, Default)]
pub struct ReadProgress {
    pub pages: AtomicU64,
    /// Sizes of the files.
    pub bytes: AtomicU64,
}

impl WorkerDeps {
    /// Dependencies without a password and without models.
    pub fn new(sources: Arc<dyn SourceStore>, extractor: Arc<dyn Extractor>) -> Self {
        let (models, budgets, text_cache, batcher, read_progress) = Default::default();
        let last_original = LastOriginal::default();
        Self {
            sources,
            extractor,
            password: None,
            models,
            budgets,
            text_cache,
            batcher,
            tesseract: None,
            packages: None,
            second_reader: None,
            last_original,
            read_progress,
            cores: Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)),
        }
    }

    /// Uses `cores` cores for work inside the process. Default: all.
    #[must_use]
    pub fn with_cores(self, cores: u16) -> Self {
        let cores = Semaphore::new(usize::from(cores.max(1)));
        Self { cores, ..self }
    }

    /// Runs CPU-bound work as soon as a core is free.
    ///
    /// # Errors
    /// The panic message, if `work` panicked.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        env: &Env,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let _core = self
            .cores
            .acquire()
            .await
            .map_err(|error| error.to_string())?;
        env.compute(work).await
    }

    /// Recognizes the text of pictures with tesseract.
    #[must_use]
    pub fn with_tesseract(self, tesseract: Option<PathBuf>) -> Self {
        Self { tesseract, ..self }
    }

    /// Says how missing programs are installed.
    #[must_use]
    pub fn with_packages(self, packages: Option<PackageManager>) -> Self {
        Self { packages, ..self }
    }

    /// Reads the numbers of pictures again with a model.
    #[must_use]
    pub fn with_second_reader(self, second_reader: Option<ModelFile>) -> Self {
        Self {
            second_reader,
            ..self
        }
    }

    #[must_use]
    pub fn with_password(self, password: Option<Password>) -> Self {
        Self { password, ..self }
    }

    #[must_use]
    pub fn with_models(self, clients: impl IntoIterator<Item = Arc<ModelClient>>) -> Self {
        let models = clients
            .into_iter()
            .map(|client| (client.model().to_string(), client))
            .collect();
        Self { models, ..self }
    }
}

/// The file that was read last: the pages of a scan are tasks of their own, and each needs the whole file.
#[derive(Default)]
pub(crate) struct LastOriginal(Mutex<Option<(Digest, Bytes)>>);

impl LastOriginal {
    pub(crate) fn get(&self, source: Digest) -> Option<Bytes> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = last.as_ref().filter(|(digest, _)| *digest == source);
        same.map(|(_, bytes)| bytes.clone())
    }

    pub(crate) fn set(&self, source: Digest, bytes: Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((source, bytes));
    }
}

/// Has neither `Debug` nor `Serialize`, so that it cannot reach a log or a store by accident.
pub struct Password(pub String);

//! Why a job or a document is not done yet.

use futures::future::{join, try_join_all};
use serde::Serialize;
use stemma_archive::StateExplanation;
use stemma_engine::diagnosis::{self, Cause, Diagnosis, DiagnosisContext, ServerTrouble};
use stemma_engine::flow::{Flow, JobManifest};
use stemma_pipeline::FilingFlow;
use stemma_store::{JobId, PortResult, RunHeader, RunId};

use crate::{Operations, OperationsError, StoreWriter};

// Only the oldest open runs of a job are diagnosed.
const MAX_RUNS_DIAGNOSED: usize = 8;

/// Why a job or document is in its state.
#[derive(Debug, Serialize)]
pub struct WhyReport {
    /// State of the document.
    #[serde(flatten)]
    pub document: Option<StateExplanation>,
    /// Present if it is about a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The run that was diagnosed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// `null` for a document if no service could be asked.
    pub diagnosis: Option<Diagnosis>,
}

impl WhyReport {
    fn for_job(job: Option<JobId>, run: Option<RunId>, diagnosis: Diagnosis) -> Self {
        Self {
            document: None,
            job,
            run,
            diagnosis: Some(diagnosis),
        }
    }
}

impl Operations {
    /// Explains the job or document that `locator` names. While servers are unavailable, that is the answer.
    ///
    /// # Errors
    /// [`OperationsError`] when it names nothing.
    pub async fn why(&self, locator: &str) -> Result<WhyReport, OperationsError> {
        let (facts, found) = join(self.observe(), self.find(locator)).await;
        let answer = match found {
            Ok(Some(manifest)) => self
                .diagnose_job(&manifest, facts.clone())
                .await
                .map_err(Into::into),
            Ok(None) => self.diagnose_document(locator, facts.clone()).await,
            Err(error) => Err(error.into()),
        };
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => self.explain_outage(locator, facts, error).await,
        }
    }

    // Without the store neither jobs nor documents can be looked up, and without Redis no run. That is the answer then.
    async fn explain_outage(
        &self,
        locator: &str,
        mut facts: DiagnosisContext,
        error: OperationsError,
    ) -> Result<WhyReport, OperationsError> {
        let store = self.blobs().size("layout").await;
        facts
            .troubles
            .extend(store.err().as_ref().and_then(ServerTrouble::from_error));
        if facts.troubles.is_empty() || !self.is_live {
            return Err(error);
        }
        let job = facts.jobs.iter().find(|job| job.job.0 == locator);
        let job = job.map(|job| job.job.clone());
        Ok(WhyReport::for_job(job, None, diagnosis::diagnose(&facts)))
    }

    /// Explains a job from what [`Operations::observe`] found.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when the store or the ledger does not answer.
    pub async fn diagnose_job(
        &self,
        manifest: &JobManifest,
        mut facts: DiagnosisContext,
    ) -> PortResult<WhyReport> {
        facts.job = Some(diagnosis::job_facts(&self.ports, manifest).await?);
        let mut worst = (None, diagnosis::diagnose(&facts));
        if worst.1.cause == Cause::Long {
            // The oldest open document with the most serious cause represents the job.
            let job = facts.jobs.iter().find(|job| job.job == manifest.job);
            let runs = job.map(|job| job.runs.clone()).unwrap_or_default();
            let looks = runs
                .into_iter()
                .take(MAX_RUNS_DIAGNOSED)
                .map(|run| self.diagnose_open_run(&facts, run));
            for (run, diagnosis) in try_join_all(looks).await?.into_iter().flatten() {
                if !is_over(diagnosis.cause)
                    && (worst.0.is_none() || diagnosis.cause < worst.1.cause)
                {
                    worst = (Some(run), diagnosis);
                }
            }
        }
        let is_stopped = matches!(worst.1.cause, Cause::Paused | Cause::Budget);
        if !self.is_live && !is_over(worst.1.cause) && !is_stopped {
            worst.1 = offline_diagnosis(self.writer());
        }
        Ok(WhyReport::for_job(
            Some(manifest.job.clone()),
            worst.0,
            worst.1,
        ))
    }

    async fn diagnose_open_run(
        &self,
        facts: &DiagnosisContext,
        run: RunId,
    ) -> PortResult<Option<(RunId, Diagnosis)>> {
        let Some(header) = self.run_header(&run).await? else {
            return Ok(None);
        };
        let facts = DiagnosisContext {
            run: Some(self.run_facts(&header).await?),
            ..facts.clone()
        };
        Ok(Some((run, diagnosis::diagnose(&facts))))
    }

    async fn diagnose_document(
        &self,
        locator: &str,
        mut facts: DiagnosisContext,
    ) -> Result<WhyReport, OperationsError> {
        let reader = self.archive().await?;
        let document = Some(reader.why(locator).await?);
        let (doc, seq) = reader.latest_version(locator).await?;
        let run = stemma_pipeline::run_id(doc, seq);
        let header = self.run_header(&run).await?.filter(|_| self.is_live);
        let Some(header) = header else {
            return Ok(WhyReport {
                document,
                job: None,
                run: None,
                diagnosis: None,
            });
        };
        if facts.troubles.is_empty() {
            let job = self.waiting_job(&header).await?;
            if let Some(manifest) = self.find(&job.0).await? {
                facts.job = Some(diagnosis::job_facts(&self.ports, &manifest).await?);
            }
            facts.run = Some(self.run_facts(&header).await?);
        }
        Ok(WhyReport {
            document,
            job: None,
            run: Some(run),
            diagnosis: Some(diagnosis::diagnose(&facts)),
        })
    }

    pub(crate) async fn run_facts(&self, header: &RunHeader) -> PortResult<diagnosis::RunFacts> {
        let ending = FilingFlow::run_outcome(&self.ports, header).await?;
        diagnosis::run_facts(&self.ports, header, ending).await
    }

    // A job that waits for a run and runs itself; else the one that opened it.
    async fn waiting_job(&self, header: &RunHeader) -> PortResult<JobId> {
        let ledger = self.ports.ledger.raw();
        for watcher in ledger.watchers(&header.at.run).await? {
            let (job, _) = watcher.split();
            if stemma_engine::jobs::load_control(self.blobs(), &job)
                .await?
                .is_running()
            {
                return Ok(job);
            }
        }
        Ok(header.opened_by.split().0)
    }
}

fn is_over(cause: Cause) -> bool {
    matches!(cause, Cause::Done | Cause::Failed | Cause::Cancelled)
}

// Without a cluster, only the process that holds the write lock makes progress.
fn offline_diagnosis(writer: Option<StoreWriter>) -> Diagnosis {
    let (cause, says, owner, remedy) = match writer {
        Some(writer) => (
            Cause::Long,
            "in progress".into(),
            Some(format!(
                "stemma {} (process {})",
                writer.command, writer.pid
            )),
            None,
        ),
        None => {
            let remedy =
                "run the same `stemma ingest` again to resume; finished work is reused".to_owned();
            (
                Cause::NoWorker,
                "no process is working on this store".to_owned(),
                None,
                Some(remedy),
            )
        }
    };
    let next = if remedy.is_some() {
        "nothing until it is resumed"
    } else {
        "it continues"
    };
    Diagnosis {
        cause,
        says,
        since_ms: None,
        owner,
        next: next.into(),
        next_ms: None,
        not_the_cause: Vec::new(),
        remedy,
    }
}

//! `stemma why`: explains the state of a document or job.

use futures::future::{join, try_join_all};
use serde::Serialize;
use stemma_archive::StateExplanation;
use stemma_engine::diagnosis::{self, Cause, Diagnosis, DiagnosisContext, ServerTrouble};
use stemma_engine::flow::{Flow, JobManifest};
use stemma_engine::{JobId, RunHeader, RunId};
use stemma_pipeline::FilingFlow;

use super::JobContext;
use super::eta::duration;
use super::status::gather;
use crate::commands::format::{state_word, word};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};

// Only the oldest open runs of a job are diagnosed.
const MAX_RUNS_DIAGNOSED: usize = 8;

/// Explain the state of a document or job, and what to do next.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Uses rules on the ledger, lanes, running processes and records. Calls no model.

Examples:
  stemma why BROKEN_8K
  stemma why j-1a1fba360ee4aa2
  stemma failures            all failures")]
pub struct WhyArgs {
    /// A document, or a job by id or name.
    #[arg(value_name = "DOC|JOB")]
    locator: String,
}

#[derive(Debug, Serialize)]
struct WhyReport {
    // State of the document.
    #[serde(flatten)]
    document: Option<StateExplanation>,
    // Present if the argument was a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<JobId>,
    // The run that was diagnosed.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    // `null` for a document if no service could be asked.
    diagnosis: Option<Diagnosis>,
}

pub async fn run(args: WhyArgs, context: &Context) -> Result<Exit, CommandError> {
    let job_context = JobContext::observe(context, "why").await?;
    let (facts, answer) = join(gather(&job_context), job_context.find(&args.locator)).await;
    let answer = match answer {
        Ok(Some(manifest)) => diagnose_job(&job_context, &manifest, facts.clone()).await,
        Ok(None) => diagnose_document(&job_context, &args.locator, facts.clone()).await,
        Err(error) => Err(error.into()),
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => explain_outage(&job_context, &args.locator, facts, error).await?,
    };
    if context.output.is_text() {
        show(&answer, &job_context, &context.output);
    } else {
        context.output.json(&answer);
    }
    Ok(Exit::Done)
}

// Without the store neither jobs nor documents can be looked up, and without Redis no run. That is the answer then.
async fn explain_outage(
    job_context: &JobContext,
    locator: &str,
    mut facts: DiagnosisContext,
    error: CommandError,
) -> Result<WhyReport, CommandError> {
    let store = job_context.blobs().size("layout").await;
    facts
        .troubles
        .extend(store.err().as_ref().and_then(ServerTrouble::from_error));
    if facts.troubles.is_empty() || !job_context.is_live {
        return Err(error);
    }
    let job = facts.jobs.iter().find(|job| job.job.0 == locator);
    Ok(WhyReport {
        document: None,
        job: job.map(|job| job.job.clone()),
        run: None,
        diagnosis: Some(diagnosis::diagnose(&facts)),
    })
}

async fn diagnose_job(
    job_context: &JobContext,
    manifest: &JobManifest,
    mut facts: DiagnosisContext,
) -> Result<WhyReport, CommandError> {
    facts.job = Some(diagnosis::job_facts(job_context.blobs(), manifest).await?);
    let mut worst = (None, diagnosis::diagnose(&facts));
    if worst.1.cause == Cause::Long {
        // The oldest open document with the most serious cause stands for the job.
        let runs = facts
            .jobs
            .iter()
            .find(|job| job.job == manifest.job)
            .map(|job| job.runs.clone());
        let runs = runs
            .unwrap_or_default()
            .into_iter()
            .take(MAX_RUNS_DIAGNOSED);
        let looks = runs.map(|run| diagnose_open_run(job_context, &facts, run));
        for (run, diagnosis) in try_join_all(looks).await?.into_iter().flatten() {
            let over = matches!(
                diagnosis.cause,
                Cause::Done | Cause::Failed | Cause::Cancelled
            );
            if !over && (worst.0.is_none() || diagnosis.cause < worst.1.cause) {
                worst = (Some(run), diagnosis);
            }
        }
    }
    if !job_context.is_live
        && !matches!(
            worst.1.cause,
            Cause::Done | Cause::Failed | Cause::Cancelled | Cause::Paused | Cause::Budget
        )
    {
        worst.1 = offline_diagnosis(job_context);
    }
    Ok(WhyReport {
        document: None,
        job: Some(manifest.job.clone()),
        run: worst.0,
        diagnosis: Some(worst.1),
    })
}

async fn diagnose_open_run(
    job_context: &JobContext,
    facts: &DiagnosisContext,
    run: RunId,
) -> Result<Option<(RunId, Diagnosis)>, CommandError> {
    let Some(header) = job_context.run_header(&run).await? else {
        return Ok(None);
    };
    let facts = DiagnosisContext {
        run: Some(run_facts(job_context, &header).await?),
        ..facts.clone()
    };
    Ok(Some((run, diagnosis::diagnose(&facts))))
}

async fn diagnose_document(
    job_context: &JobContext,
    locator: &str,
    mut facts: DiagnosisContext,
) -> Result<WhyReport, CommandError> {
    let reader = job_context.archive().await?;
    let view = reader.why(locator).await?;
    let (doc, seq) = reader.latest_version(locator).await?;
    let run = stemma_pipeline::run_id(doc, seq);
    let Some(header) = job_context
        .run_header(&run)
        .await?
        .filter(|_| job_context.is_live)
    else {
        return Ok(WhyReport {
            document: Some(view),
            job: None,
            run: None,
            diagnosis: None,
        });
    };
    if facts.troubles.is_empty() {
        let job = waiting_job(job_context, &header).await?;
        if let Some(manifest) = job_context.find(&job.0).await? {
            facts.job = Some(diagnosis::job_facts(job_context.blobs(), &manifest).await?);
        }
        facts.run = Some(run_facts(job_context, &header).await?);
    }
    let diagnosis = diagnosis::diagnose(&facts);
    Ok(WhyReport {
        document: Some(view),
        job: None,
        run: Some(run),
        diagnosis: Some(diagnosis),
    })
}

async fn run_facts(
    job_context: &JobContext,
    header: &RunHeader,
) -> Result<diagnosis::RunFacts, CommandError> {
    let ending = FilingFlow::run_outcome(&job_context.ports, header).await?;
    Ok(diagnosis::run_facts(&job_context.ports, header, ending).await?)
}

// A job that waits for a run and runs itself; else the one that opened it.
async fn waiting_job(job_context: &JobContext, header: &RunHeader) -> Result<JobId, CommandError> {
    let ledger = job_context.ports.ledger.raw();
    for watcher in ledger.watchers(&header.at.run).await? {
        let (job, _) = watcher.split();
        if stemma_engine::jobs::load_control(job_context.blobs(), &job)
            .await?
            .is_running()
        {
            return Ok(job);
        }
    }
    Ok(header.opened_by.split().0)
}

// Without a cluster, only the process that holds the write lock makes progress.
fn offline_diagnosis(job_context: &JobContext) -> Diagnosis {
    let (cause, says, owner, remedy) = match &job_context.writer {
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

fn show(answer: &WhyReport, job_context: &JobContext, output: &Output) {
    if let Some(view) = &answer.document {
        show_document(view, job_context, output);
    }
    let over = answer
        .document
        .as_ref()
        .is_some_and(|view| view.document.sections.is_some() && view.newer_version.is_none());
    if let Some(diagnosis) = answer.diagnosis.as_ref().filter(|_| !over) {
        show_diagnosis(diagnosis, job_context.env.now_ms(), output);
    }
}

fn show_document(view: &StateExplanation, job_context: &JobContext, output: &Output) {
    output.line(&format!(
        "{} — {}",
        output.bold(&state_word(&view.document.state)),
        clean(&view.cause)
    ));
    for gap in &view.gaps {
        let pages = gap
            .pages
            .map(|pages| format!(" p {pages}"))
            .unwrap_or_default();
        output.line(&format!(
            "gap     {}{pages}: {}",
            gap.code,
            clean(&gap.detail)
        ));
    }
    if view.document.sections.is_none() {
        output.line(&format!("stored  {} results", view.artifacts));
        match &job_context.writer {
            Some(writer) => output.line(&format!(
                "writer  `stemma {}` (process {}) is working on this store",
                clean(&writer.command),
                writer.pid
            )),
            None if !job_context.is_live => {
                output.line("writer  none: no process is working on this store");
            }
            None => {}
        }
    }
    if let Some(next) = &view.next {
        output.line(&format!("next    {}", clean(next)));
    }
}

fn show_diagnosis(diagnosis: &Diagnosis, now: u64, output: &Output) {
    let since = diagnosis
        .since_ms
        .map(|at| format!(" {}", duration(now.saturating_sub(at) as f64 / 1e3)))
        .unwrap_or_default();
    output.line(&format!(
        "{}{since} — {}",
        output.bold(&word(&diagnosis.cause)),
        clean(&diagnosis.says)
    ));
    if let Some(owner) = &diagnosis.owner {
        output.line(&format!("owner   {}", clean(owner)));
    }
    let at = diagnosis
        .next_ms
        .map(|at| format!(", in {}", duration(at.saturating_sub(now) as f64 / 1e3)));
    output.line(&format!(
        "next    {}{}",
        clean(&diagnosis.next),
        at.unwrap_or_default()
    ));
    if !diagnosis.not_the_cause.is_empty() {
        output.line(&format!(
            "not the cause: {}",
            clean(&diagnosis.not_the_cause.join(", "))
        ));
    }
    if let Some(remedy) = &diagnosis.remedy {
        output.line(&format!("remedy  {}", clean(remedy)));
    }
}

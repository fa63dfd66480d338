//! `stemma why`: why a document or a job is in its state.

use futures::future::try_join_all;
use serde::Serialize;
use stemma_engine::flow::{Flow, Manifest};
use stemma_engine::why::{self, Cause, Diagnosis, Facts};
use stemma_engine::{JobId, RunHeader, RunId};
use stemma_pipeline::Filings;
use stemma_query::{Reader, WhyView};

use super::Desk;
use super::eta::duration;
use crate::commands::reading::word;
use crate::context::{CommandError, Context, Exit};
use crate::output::{Output, clean};

/// Open runs of a job that are looked at: its oldest.
const RUNS_LOOKED_AT: usize = 8;

/// Say why a document or a job is in its state, what is kept, and what to do.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
By rule, from what the ledger, the lanes, living processes and the records say: no model is asked.

Examples:
  stemma why BROKEN_8K
  stemma why j-1a1fba360ee4aa2
  stemma failures            all that failed, grouped by reason")]
pub struct WhyArgs {
    /// A document, or a job by id or name.
    #[arg(value_name = "DOC|JOB")]
    locator: String,
}

#[derive(Debug, Serialize)]
struct Answer {
    /// What is published and kept of a document.
    #[serde(flatten)]
    document: Option<WhyView>,
    /// The job, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<JobId>,
    /// The run the diagnosis is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    /// Why it is not done yet; `null` for a document where no services could be asked.
    diagnosis: Option<Diagnosis>,
}

/// Runs the command.
///
/// # Errors
/// [`CommandError`] when there is no such document or job, or a server is away.
pub async fn run(args: WhyArgs, context: &Context) -> Result<Exit, CommandError> {
    let desk = Desk::open(context, "why").await?;
    let answer = match desk.find(&args.locator).await? {
        Some(manifest) => of_job(&desk, &manifest).await?,
        None => of_document(&desk, &args.locator, context).await?,
    };
    if context.output.is_text() {
        show(&answer, &desk, &context.output);
    } else {
        context.output.json(&answer);
    }
    Ok(Exit::Done)
}

async fn of_job(desk: &Desk, manifest: &Manifest) -> Result<Answer, CommandError> {
    let mut facts = surroundings(desk).await?;
    facts.job = Some(why::of_job(desk.blobs(), manifest).await?);
    let mut found = (None, why::diagnose(&facts));
    if found.1.cause == Cause::Long {
        // Of its oldest open documents, the one that is the hardest to get on with speaks for the job.
        let runs = facts
            .jobs
            .iter()
            .find(|job| job.job == manifest.job)
            .map(|job| job.runs.clone());
        let runs = runs.unwrap_or_default().into_iter().take(RUNS_LOOKED_AT);
        let looks = runs.map(|run| of_open_run(desk, manifest, &facts, run));
        for (run, diagnosis) in try_join_all(looks).await?.into_iter().flatten() {
            let over = matches!(
                diagnosis.cause,
                Cause::Done | Cause::Failed | Cause::Cancelled
            );
            if !over && (found.0.is_none() || diagnosis.cause < found.1.cause) {
                found = (Some(run), diagnosis);
            }
        }
    }
    if !desk.live
        && !matches!(
            found.1.cause,
            Cause::Done | Cause::Failed | Cause::Cancelled | Cause::Paused | Cause::Budget
        )
    {
        found.1 = without_services(desk);
    }
    Ok(Answer {
        document: None,
        job: Some(manifest.job.clone()),
        run: found.0,
        diagnosis: Some(found.1),
    })
}

async fn of_open_run(
    desk: &Desk,
    manifest: &Manifest,
    facts: &Facts,
    run: RunId,
) -> Result<Option<(RunId, Diagnosis)>, CommandError> {
    let Some(header) = header_of(desk, &manifest.collection, &run).await? else {
        return Ok(None);
    };
    let facts = Facts {
        run: Some(run_facts(desk, &header).await?),
        ..facts.clone()
    };
    Ok(Some((run, why::diagnose(&facts))))
}

async fn of_document(
    desk: &Desk,
    locator: &str,
    context: &Context,
) -> Result<Answer, CommandError> {
    let reader = Reader::open(desk.blobs_arc(), context.collection.clone()).await?;
    let view = reader.why(locator).await?;
    let (doc, seq) = reader.newest(locator).await?;
    let run = stemma_pipeline::run_id(doc, seq);
    let Some(header) = header_of(desk, context.collection.as_str(), &run)
        .await?
        .filter(|_| desk.live)
    else {
        return Ok(Answer {
            document: Some(view),
            job: None,
            run: None,
            diagnosis: None,
        });
    };
    let mut facts = surroundings(desk).await?;
    if let Some(manifest) = desk.find(&waiting_job(desk, &header).await?.0).await? {
        facts.job = Some(why::of_job(desk.blobs(), &manifest).await?);
    }
    facts.run = Some(run_facts(desk, &header).await?);
    let diagnosis = why::diagnose(&facts);
    Ok(Answer {
        document: Some(view),
        job: None,
        run: Some(run),
        diagnosis: Some(diagnosis),
    })
}

async fn surroundings(desk: &Desk) -> Result<Facts, CommandError> {
    Ok(why::surroundings(&desk.ports, desk.env.now_ms()).await?)
}

async fn run_facts(desk: &Desk, header: &RunHeader) -> Result<why::RunFacts, CommandError> {
    let ending = Filings::ending(&desk.env, &desk.ports, header).await?;
    Ok(why::of_run(&desk.ports, header, ending).await?)
}

/// A job that waits for a run and runs itself; else the one that opened it.
async fn waiting_job(desk: &Desk, header: &RunHeader) -> Result<JobId, CommandError> {
    for job in desk.ports.ledger.watchers(&header.at.run).await? {
        if stemma_engine::jobs::standing(desk.blobs(), &job)
            .await?
            .is_running()
        {
            return Ok(job);
        }
    }
    Ok(header.opened_by.clone())
}

async fn header_of(
    desk: &Desk,
    collection: &str,
    run: &RunId,
) -> Result<Option<RunHeader>, CommandError> {
    let Some(key) = stemma_pipeline::header_key(collection, run) else {
        return Ok(None);
    };
    Ok(desk
        .blobs()
        .get(&key)
        .await?
        .and_then(|json| serde_json::from_slice(&json).ok()))
}

/// Without services nothing moves but by the process that writes to the store.
fn without_services(desk: &Desk) -> Diagnosis {
    let (cause, says, owner, remedy) = match &desk.writer {
        Some(writer) => (
            Cause::Long,
            "it is being worked on".into(),
            Some(format!(
                "stemma {} (process {})",
                writer.command, writer.pid
            )),
            None,
        ),
        None => {
            let remedy =
                "go on with the same `stemma ingest`: what is there is not made again".to_owned();
            (
                Cause::NoWorker,
                "no process is working on this store".to_owned(),
                None,
                Some(remedy),
            )
        }
    };
    let next = if remedy.is_some() {
        "nothing, until it is gone on with"
    } else {
        "it goes on"
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

fn show(answer: &Answer, desk: &Desk, output: &Output) {
    if let Some(view) = &answer.document {
        show_document(view, desk, output);
    }
    let over = answer
        .document
        .as_ref()
        .is_some_and(|view| view.document.sections.is_some() && view.newer_version.is_none());
    if let Some(diagnosis) = answer.diagnosis.as_ref().filter(|_| !over) {
        show_diagnosis(diagnosis, desk.env.now_ms(), output);
    }
}

fn show_document(view: &WhyView, desk: &Desk, output: &Output) {
    output.line(&format!(
        "{} — {}",
        output.bold(&word(&view.document.state)),
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
        output.line(&format!("kept    {} results", view.artifacts));
        match &desk.writer {
            Some(writer) => output.line(&format!(
                "writer  `stemma {}` (process {}) is working on this store",
                clean(&writer.command),
                writer.pid
            )),
            None if !desk.live => output.line("writer  none: no process is working on this store"),
            None => {}
        }
    }
    if let Some(next) = &view.next {
        output.line(&format!("next    {}", clean(next)));
    }
}

fn show_diagnosis(diagnosis: &Diagnosis, now: u64, output: &Output) {
    let ago = |at: u64| duration(now.saturating_sub(at) as f64 / 1e3);
    let since = diagnosis
        .since_ms
        .map(|at| format!(" {}", ago(at)))
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

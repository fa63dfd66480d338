//! `stemma index vectors`: creates section vectors, within a budget.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use stemma_archive::Archive;
use stemma_llm::prices::{CallBudget, UnlimitedBudget};
use stemma_retrieval::embedding::budget::{BUDGET_EXHAUSTED, EmbeddingBudget};
use stemma_retrieval::embedding::embed::{EmbedEstimate, EmbedOutcome, EmbedReport};
use stemma_retrieval::embedding::{EmbeddingError, SemanticRouter};
use stemma_store::Env;
use stemma_store::blobs::Blobs;

use crate::context::Context;
use crate::cost::{BudgetArgs, money_from_nanos};
use crate::embeddings::EmbeddingClient;
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::table::{counted, thousands};

// Interval of progress notes.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// Creates missing vectors, or estimates their cost.
pub(super) async fn run(
    estimate: bool,
    budget: BudgetArgs,
    blobs: &Arc<dyn Blobs>,
    context: &Context,
) -> Result<Exit, CommandError> {
    let env = Env::system();
    let config = context.config()?;
    let embeddings = &config.embeddings;
    let limiter = config.servers.limiter(&env)?;
    let client = EmbeddingClient::new(embeddings, context.cache_dir()?, &env, &limiter, "vectors")?;
    let Some(router) = client.router(blobs, &context.collection) else {
        let next = "set embeddings.model and embeddings.base_url (see `stemma config embeddings`)";
        let message = "no embedding endpoint is configured";
        return Err(CommandError::new("config.no_embeddings", message).with_next(next));
    };
    let reader = context.archive(blobs).await?;
    if estimate {
        let estimate = router.estimate(reader.catalog(), &reader).await?;
        context
            .output
            .show(&estimate, || show_estimate(&estimate, &context.output));
        return Ok(Exit::Done);
    }
    budget.check_vectors(embeddings)?;
    let spend_limit: Box<dyn CallBudget> = match budget.budget() {
        Some(budget) => Box::new(EmbeddingBudget::new(budget)),
        None => Box::new(UnlimitedBudget),
    };
    embed(&router, &reader, spend_limit.as_ref(), context).await
}

async fn embed(
    router: &SemanticRouter,
    reader: &Archive,
    budget: &dyn CallBudget,
    context: &Context,
) -> Result<Exit, CommandError> {
    let began = Instant::now();
    let last_note = std::sync::Mutex::new(began);
    let output = &context.output;
    let synced = router
        .sync(reader.catalog(), reader, budget, &|report: &EmbedReport| {
            let mut last_note = last_note.lock().unwrap_or_else(PoisonError::into_inner);
            if last_note.elapsed() >= PROGRESS_INTERVAL {
                *last_note = Instant::now();
                let remaining = thousands(report.remaining);
                let seconds = began.elapsed().as_secs();
                let usage = usage_line(report);
                output.note(&format!(
                    "vectors: {remaining} left · {usage} · {seconds} s"
                ));
            }
        })
        .await?;
    let Some(EmbedOutcome { report, error }) = synced else {
        let message = "another process on this machine is creating the vectors";
        return Err(CommandError::new("embeddings.in_progress", message)
            .with_next("wait until it ends; searches already use finished vectors"));
    };
    output.show(&report, || {
        let sent = counted(report.sent, "section");
        let reused = report.reused;
        let vectors = thousands(report.vectors);
        let entered = counted(report.documents, "document");
        let usage = usage_line(&report);
        output.line(&format!(
            "{entered} indexed: {sent} embedded, {reused} reused · {usage} · {vectors} vectors in total"
        ));
    });
    match error {
        None => Ok(Exit::Done),
        Some(EmbeddingError::Endpoint(failure)) if failure.code == BUDGET_EXHAUSTED => {
            let left = counted(report.remaining, "document");
            let message = failure.message;
            output.note(&format!(
                "{message}; {left} left; run the same command to resume"
            ));
            Ok(Exit::Stopped)
        }
        Some(error) => Err(error.into()),
    }
}

fn show_estimate(estimate: &EmbedEstimate, output: &Output) {
    let paid = match estimate.nanodollars {
        Some(nanodollars) => money_from_nanos(nanodollars),
        None => "price unknown; set embeddings.prices.input".into(),
    };
    let documents = counted(estimate.documents, "document");
    let sections = counted(estimate.sections, "section");
    let tokens = thousands(estimate.tokens);
    output.line(&format!(
        "estimate {documents} · {sections} · ~{tokens} tokens · {paid}"
    ));
}

// `3 calls · 1,200 tokens · $0.0001`.
fn usage_line(report: &EmbedReport) -> String {
    let calls = counted(report.calls, "call");
    let tokens = thousands(report.tokens);
    let price = report
        .nanodollars
        .map(|nanodollars| format!(" · {}", money_from_nanos(nanodollars)));
    format!("{calls} · {tokens} tokens{}", price.unwrap_or_default())
}

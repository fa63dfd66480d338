//! `stemma index vectors`: the vectors of sections, within a budget.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stemma_engine::Env;
use stemma_engine::blobs::Blobs;
use stemma_llm::prices::{Free, Purse};
use stemma_query::Reader;
use stemma_retrieval::meaning::making::{Embedded, Ended, Estimate};
use stemma_retrieval::meaning::purse::{Limited, USED_UP};
use stemma_retrieval::meaning::{Meaning, MeaningError};

use super::thousands_of;
use crate::context::{CommandError, Context, Exit};
use crate::money::{BudgetArgs, money};
use crate::table::counted;

/// How often it is said how far it is.
const SAID_EVERY: Duration = Duration::from_secs(2);

/// Brings the vectors up to the catalogue, or says what that would cost.
///
/// # Errors
/// [`CommandError`] when no endpoint is configured, it does not answer, or another process makes them.
pub(super) async fn run(
    estimate: bool,
    budget: BudgetArgs,
    blobs: &Arc<dyn Blobs>,
    context: &Context,
) -> Result<Exit, CommandError> {
    let env = Env::system();
    let config = context.config()?.config;
    let embeddings = &config.embeddings;
    let gate = embeddings.gate(&env, &config.servers.limiter(&env)?, "vectors")?;
    let Some(meaning) = embeddings.meaning(&gate, &env, blobs, &context.collection, context) else {
        return Err(CommandError::new(
            "config.no_embeddings",
            "no endpoint for embeddings is configured",
        )
        .with_next(
            "set embeddings.model and embeddings.base_url (see `stemma config embeddings`)",
        ));
    };
    let reader = Reader::open(Arc::clone(blobs), context.collection.clone()).await?;
    if estimate {
        show_estimate(
            &meaning.estimate(reader.catalogue(), &reader).await?,
            context,
        );
        return Ok(Exit::Done);
    }
    budget.check_vectors(embeddings)?;
    let purse: Box<dyn Purse> = match budget.budget() {
        Some(budget) => Box::new(Limited::new(budget)),
        None => Box::new(Free),
    };
    make(&meaning, &reader, purse.as_ref(), context).await
}

async fn make(
    meaning: &Meaning,
    reader: &Reader,
    purse: &dyn Purse,
    context: &Context,
) -> Result<Exit, CommandError> {
    let began = Instant::now();
    let said = std::sync::Mutex::new(began);
    let heard = |made: &Embedded| {
        let mut said = said
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if said.elapsed() >= SAID_EVERY {
            *said = Instant::now();
            let left = thousands_of(made.left);
            let seconds = began.elapsed().as_secs();
            context.output.note(&format!(
                "vectors: {left} left · {} · {seconds} s",
                spent(made)
            ));
        }
    };
    let Some(Ended { made, stopped }) = meaning
        .bring_up_to(reader.catalogue(), reader, purse, &heard)
        .await?
    else {
        return Err(CommandError::new(
            "embeddings.elsewhere",
            "another process of this machine makes the vectors",
        )
        .with_next("wait for it; searches use what is made at once"));
    };
    show(&made, context);
    match stopped {
        None => Ok(Exit::Done),
        Some(MeaningError::Endpoint(failure)) if failure.code == USED_UP => {
            context.output.note(&format!(
                "{}; {} left: the same command goes on",
                failure.message,
                documents(made.left)
            ));
            Ok(Exit::Stopped)
        }
        Some(error) => Err(error.into()),
    }
}

fn show(made: &Embedded, context: &Context) {
    if !context.output.is_text() {
        context.output.json(made);
        return;
    }
    let sent = counted(made.sent, "section");
    let reused = made.reused;
    let vectors = thousands_of(made.vectors);
    let entered = documents(made.documents);
    let line = format!(
        "{entered} entered: {sent} embedded, {reused} known · {} · {vectors} vectors in all",
        spent(made)
    );
    context.output.line(&line);
}

fn show_estimate(estimate: &Estimate, context: &Context) {
    if !context.output.is_text() {
        context.output.json(estimate);
        return;
    }
    let paid = match estimate.nanodollars {
        Some(nanodollars) => money(nanodollars as f64 / 1e9),
        None => "price unknown: set embeddings.prices.input".into(),
    };
    let documents = documents(estimate.documents);
    let sections = counted(estimate.sections, "section");
    let tokens = thousands_of(usize::try_from(estimate.tokens).unwrap_or(usize::MAX));
    context.output.line(&format!(
        "estimate {documents} · {sections} · ~{tokens} tokens · {paid}"
    ));
}

/// `3 calls · 1,200 tokens · $0.0001`.
fn spent(made: &Embedded) -> String {
    let calls = counted(made.calls as usize, "call");
    let tokens = thousands_of(usize::try_from(made.tokens).unwrap_or(usize::MAX));
    let price = made
        .nanodollars
        .map(|nanodollars| format!(" · {}", money(nanodollars as f64 / 1e9)));
    format!("{calls} · {tokens} tokens{}", price.unwrap_or_default())
}

fn documents(number: usize) -> String {
    counted(number, "document")
}

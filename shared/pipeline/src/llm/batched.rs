//! Asks in batches of the provider: a task leaves its request in the store and ends, and continues when it is woken.

use std::time::Duration;

use stemma_engine::ledger::BATCH_CODE;
use stemma_llm::client::ModelClient;
use stemma_llm::request::{LlmReply, LlmRequest};
use stemma_store::{Failure, Priority};

use super::call_log::collection_of;
use crate::FilingTask;
use crate::batches::{BatchItem, BatchStore, StoredResult, item_id};

// Batches in which a request may go unexecuted before it is called.
const MAX_ROUNDS: u32 = 3;
// Providers promise results within a day.
const PATIENCE: Duration = Duration::from_secs(24 * 3_600);

/// Whether and how a task uses batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchUse {
    /// Some job waits for the run that wants no batches.
    Never,
    /// A job wants batches, and another wants none: replies that have come are used, but nothing more waits.
    Replies,
    /// Every job that waits for the run wants batches.
    Always,
}

impl BatchUse {
    /// How a task uses batches. Interactive work never waits for one.
    pub(crate) async fn for_task(task: &FilingTask<'_>) -> Result<Self, Failure> {
        if task.priority == Priority::Interactive {
            return Ok(Self::Never);
        }
        let budgets = &task.tools.budgets;
        let owners = budgets.owners(task.ports, task.run).await?;
        let batch = owners
            .iter()
            .filter(|owner| owner.job.options.batch)
            .count();
        Ok(match batch {
            0 => Self::Never,
            batch if batch == owners.len() => Self::Always,
            _ => Self::Replies,
        })
    }
}

/// The reply to a request from a batch. `None` if the request is to be called.
///
/// # Errors
/// A failure of kind waiting, once the request waits for a batch.
pub(super) async fn batched_reply(
    task: &FilingTask<'_>,
    client: &ModelClient,
    request: &LlmRequest,
) -> Result<Option<LlmReply>, Failure> {
    let batch_use = BatchUse::for_task(task).await?;
    let Some(provider) = client.batches().filter(|_| batch_use != BatchUse::Never) else {
        return Ok(None);
    };
    let store = BatchStore::new(
        &task.ports.blobs,
        collection_of(&task.run.scope),
        client.bucket(),
    );
    for round in 0..MAX_ROUNDS {
        let id = item_id(&task.run.scope, &task.key, round);
        let Some(stored) = store.reply(&id).await? else {
            if batch_use == BatchUse::Replies {
                return Ok(None);
            }
            let item = BatchItem {
                run: task.run.clone(),
                task: task.key,
                stage: request.schema.name.into(),
                attempt: task.attempt,
                model: request.model.clone(),
                request: request.digest(),
                most: client.most_usage(request),
                line: provider.line(&id, request),
                message: String::from_utf8_lossy(task.message).into_owned(),
                id,
            };
            store.add(&item).await?;
            let message = "waits for a batch of the provider";
            return Err(Failure::waiting(BATCH_CODE, message, PATIENCE));
        };
        match stored.result {
            StoredResult::NotExecuted => {}
            result => return Ok(result.reply()),
        }
    }
    Ok(None)
}

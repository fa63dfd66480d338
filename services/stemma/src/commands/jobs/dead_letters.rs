//! `stemma dead-letters`: messages that could not be processed.

use stemma_engine::dead_letter::{self, DeadLetter, ReplayOutcome};
use stemma_store::Env;

use stemma_operations::Operations;
use stemma_operations::text::ago;

use super::{observe_operations, open_operations};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::{Column, Table};

const MAX_LETTERS: usize = 10_000;

/// List, show or replay messages that could not be processed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A task becomes a dead letter if every worker that takes it disappears without an error. Look at
the workers' logs first. Replaying a letter removes it and queues its task again; if its run has
ended, use `stemma retry` for the document instead.

Examples:
  stemma dead-letters list
  stemma dead-letters replay 9f86d081884c7d65
  stemma dead-letters replay --all --yes")]
pub struct DeadLettersArgs {
    #[command(subcommand)]
    what: DeadLettersCommand,
}

#[derive(Debug, clap::Subcommand)]
enum DeadLettersCommand {
    /// List dead letters, latest first.
    List,
    /// Show a dead letter.
    Show {
        /// Id of the dead letter.
        id: String,
    },
    /// Queue the tasks of dead letters again.
    Replay {
        /// Id of the dead letter.
        #[arg(required_unless_present = "all")]
        id: Option<String>,
        /// Replay all.
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

pub async fn run(args: DeadLettersArgs, context: &Context) -> Result<Exit, CommandError> {
    let operations = match args.what {
        DeadLettersCommand::Replay { .. } => open_operations(context, "dead-letters").await?,
        _ => observe_operations(context, "dead-letters").await?,
    };
    let output = &context.output;
    let letters = dead_letter::list(operations.blobs(), MAX_LETTERS).await?;
    match args.what {
        DeadLettersCommand::List => {
            output.show(&letters, || list(&letters, output));
            Ok(Exit::nothing_if(letters.is_empty()))
        }
        DeadLettersCommand::Show { id } => {
            let letter = find(&letters, &id)?;
            output.show(letter, || show(letter, output));
            Ok(Exit::Done)
        }
        DeadLettersCommand::Replay { id: Some(id), .. } => {
            replay(&operations, vec![find(&letters, &id)?.clone()], context).await
        }
        DeadLettersCommand::Replay { .. } if !context.yes && letters.len() > 1 => {
            let message = format!("{} dead letters would be replayed", letters.len());
            Err(CommandError::new("dead_letter.not_confirmed", message)
                .with_next("confirm with --yes"))
        }
        DeadLettersCommand::Replay { .. } => replay(&operations, letters, context).await,
    }
}

fn find<'a>(letters: &'a [DeadLetter], id: &str) -> Result<&'a DeadLetter, CommandError> {
    letters
        .iter()
        .find(|letter| letter.id == id)
        .ok_or_else(|| {
            CommandError::new("dead_letter.unknown", format!("unknown dead letter `{id}`"))
                .with_next("list them with `stemma dead-letters list`")
        })
}

fn age(letter: &DeadLetter) -> String {
    ago(Env::system().now_ms().saturating_sub(letter.at_ms))
}

fn list(letters: &[DeadLetter], output: &Output) {
    if letters.is_empty() {
        return output.note("no dead letters");
    }
    use Column::{Left, Right, Text};
    let mut table = Table::new([Left, Left, Left, Right, Left, Left, Text]);
    table.row(["id", "age", "queue", "deliveries", "stage", "run", "reason"]);
    for letter in letters {
        let run = letter.run.as_ref();
        table.row([
            letter.id.clone(),
            age(letter),
            letter.queue.clone().unwrap_or_default(),
            letter.deliveries.to_string(),
            letter.stage.clone().unwrap_or_default(),
            run.map_or_else(String::new, |at| at.run.to_string()),
            letter.reason.clone(),
        ]);
    }
    table.print(output);
}

fn show(letter: &DeadLetter, output: &Output) {
    let id = output.bold(&letter.id);
    output.line(&format!("{id}  {}", clean(&letter.reason)));
    if let Some(queue) = &letter.queue {
        let queue = clean(queue);
        let deliveries = letter.deliveries;
        let age = age(letter);
        output.line(&format!(
            "queue     {queue}, delivered {deliveries} times, {age}"
        ));
    }
    if let Some(at) = &letter.run {
        output.line(&format!("run       {}", at.run));
    }
    if let (Some(stage), Some(key)) = (&letter.stage, &letter.key) {
        let stage = clean(stage);
        let attempts = letter.attempts;
        output.line(&format!(
            "task      {stage} {key}, {attempts} failed attempts"
        ));
    }
    output.line(&format!("begins    {}", clean(&letter.begins)));
}

async fn replay(
    operations: &Operations,
    letters: Vec<DeadLetter>,
    context: &Context,
) -> Result<Exit, CommandError> {
    let output = &context.output;
    let mut results = Vec::new();
    for letter in letters {
        let (result, says) = match dead_letter::replay(&operations.ports, &letter).await? {
            ReplayOutcome::Requested(at) => ("again", format!("queued again in run {}", at.run)),
            ReplayOutcome::RunEnded(at) => {
                let says = format!("run {} has ended: use `stemma retry`", at.run);
                ("run_over", says)
            }
            ReplayOutcome::Removed => ("removed", "removed: it was not a task".into()),
        };
        if output.is_text() {
            output.line(&format!("{}  {says}", letter.id));
        }
        results.push(serde_json::json!({ "id": letter.id, "result": result, "run": letter.run.map(|at| at.run) }));
    }
    if !output.is_text() {
        output.json(&results);
    }
    Ok(Exit::nothing_if(results.is_empty()))
}

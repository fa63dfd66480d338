//! `stemma cost`: what models were paid for, from the call log.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_document::moment;
use stemma_llm::calls::{self, CallRecord};

use super::jobs::Desk;
use super::reading::open;
use crate::context::{CommandError, Context, Exit};
use crate::money::{PriceList, Spent};
use crate::table::{Align, Table, thousands};

/// Show what models cost.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every reply of a model is in the call log, useful or not. Amounts are at the prices configured now
(model.prices, in dollars per million tokens).

Examples:
  stemma cost                          everything, by stage
  stemma cost j-1a1fba360ee4aa2        what one job paid for
  stemma cost 3M_2022_10K --by model   one document
  stemma cost --by day --json")]
pub struct CostArgs {
    /// A job, by id or name, a document, or a question (s-…, ask-…, q-…).
    #[arg(value_name = "JOB|DOC|QUESTION")]
    target: Option<String>,
    /// What is told apart.
    #[arg(long, value_enum, default_value = "stage", value_name = "WHAT")]
    by: By,
}

/// What is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Steps of the method.
    Stage,
    /// Models.
    Model,
    /// Documents.
    Document,
    /// Days, by UTC.
    Day,
}

/// Whose cost is asked for.
enum Whose {
    Everyone,
    Job(stemma_engine::JobId),
    /// The beginning of the names of a document's runs.
    Document(String),
    /// A question of a person.
    Question(String),
}

/// The answer.
#[derive(Serialize)]
struct Cost {
    by: BTreeMap<String, Spent>,
    total: Spent,
    /// Records that could not be read.
    unread: u64,
}

/// Runs the command.
///
/// # Errors
/// [`CommandError`] when there is neither such a job nor such a document, or the store is away.
pub async fn run(args: CostArgs, context: &Context) -> Result<Exit, CommandError> {
    let prices = PriceList::of(&context.config()?.config);
    let desk = Desk::open(context, "cost").await?;
    let reader = open(context).await?;
    let mut since_ms = 0;
    let whose = match &args.target {
        None => Whose::Everyone,
        Some(target) if is_question(target) => Whose::Question(target.clone()),
        Some(target) => match desk.find(target).await? {
            Some(manifest) => {
                since_ms = manifest.submitted_ms;
                Whose::Job(manifest.job)
            }
            None => Whose::Document(format!("{}-", reader.stat(target).await?.document.doc_id)),
        },
    };
    let names: BTreeMap<String, &str> = reader
        .catalogue()
        .documents()
        .iter()
        .map(|listed| (listed.doc().to_string(), listed.label.as_str()))
        .collect();
    let mut cost = Cost {
        by: BTreeMap::new(),
        total: Spent::default(),
        unread: 0,
    };
    cost.unread = calls::read(
        desk.blobs(),
        &format!("c/{}", context.collection),
        since_ms,
        |record: CallRecord| {
            let is_asked_for = match &whose {
                Whose::Everyone => true,
                Whose::Job(job) => record.jobs.contains(job),
                Whose::Document(runs) => record.run.0.starts_with(runs),
                Whose::Question(run) => record.run.0 == *run,
            };
            if is_asked_for {
                cost.by
                    .entry(group(args.by, &record, &names))
                    .or_default()
                    .add(&record, &prices);
                cost.total.add(&record, &prices);
            }
        },
    )
    .await?;
    show(&cost, args.by, context);
    Ok(if cost.total.calls == 0 {
        Exit::Nothing
    } else {
        Exit::Done
    })
}

/// Whether a run is no document's but a question's: a word, and sixteen hexadecimal digits.
fn is_question(run: &str) -> bool {
    let is_word =
        |kind: &str| !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_lowercase());
    let named = run.split_once('-').filter(|(kind, _)| is_word(kind));
    named.is_some_and(|(_, id)| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn group(by: By, record: &CallRecord, names: &BTreeMap<String, &str>) -> String {
    match by {
        By::Stage => record.stage.clone(),
        By::Model => record.model.clone(),
        By::Day => moment::date(record.at_ms / 86_400_000),
        By::Document if is_question(&record.run.0) => "(questions)".into(),
        By::Document => {
            let doc = record
                .run
                .0
                .rsplit_once('-')
                .map_or(record.run.0.as_str(), |(doc, _)| doc);
            names.get(doc).copied().unwrap_or(doc).to_string()
        }
    }
}

fn show(cost: &Cost, by: By, context: &Context) {
    let output = &context.output;
    if !output.is_text() {
        output.json(cost);
        return;
    }
    if cost.total.calls == 0 {
        output.note("no model was asked");
        return;
    }
    let mut table = Table::new(&[
        (Align::Left, 60),
        (Align::Right, 0),
        (Align::Right, 0),
        (Align::Right, 0),
        (Align::Right, 0),
        (Align::Right, 0),
    ]);
    let what = match by {
        By::Stage => "stage",
        By::Model => "model",
        By::Document => "document",
        By::Day => "day",
    };
    table.row([what, "calls", "prompt", "cached", "reply", "cost"].map(String::from));
    let row = |name: &str, spent: &Spent| {
        let Spent {
            calls,
            prompt_tokens,
            cached_tokens,
            output_tokens,
            ..
        } = *spent;
        let numbers = [calls, prompt_tokens, cached_tokens, output_tokens]
            .map(|number: u64| thousands(u32::try_from(number).unwrap_or(u32::MAX)));
        [
            vec![name.to_string()],
            numbers.to_vec(),
            vec![spent.money()],
        ]
        .concat()
    };
    for (name, spent) in &cost.by {
        table.row(row(name, spent));
    }
    table.row(row("total", &cost.total));
    table.lines().iter().for_each(|line| output.line(line));
    if cost.total.useless > 0 {
        output.note(&format!("{} replies became no answer", cost.total.useless));
    }
    if cost.total.without_price > 0 {
        output.note("some models have no price: set model.prices.input and model.prices.output");
    }
    if cost.unread > 0 {
        output.note(&format!(
            "{} records of the log cannot be read",
            cost.unread
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::is_question;

    #[test]
    fn questions_are_told_from_documents() {
        assert!(["s-0123456789abcdef", "ask-0123456789abcdef"].map(is_question) == [true, true]);
        assert!(
            ![
                "076bb18f986ca78f3ef2a98f39e355a1-3",
                "s-1",
                "3M_2022_10K",
                "j-1a1fba360ee4aa2"
            ]
            .map(is_question)
            .contains(&true)
        );
    }
}

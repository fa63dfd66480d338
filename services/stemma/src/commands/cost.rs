//! `stemma cost`: costs of model calls, from the call log.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_catalog::catalog::Catalog;
use stemma_document::{DocId, time_format};
use stemma_llm::calls::{self, CallSum};
use stemma_store::PortResult;

use super::jobs::open_operations;
use crate::context::Context;
use crate::cost::{ModelUsage, PriceList};
use crate::error::{CommandError, Exit};
use crate::table::{Column, Table, thousands};

/// Show what models cost.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Counts every model reply in the call log, including unusable ones. Amounts use the current prices
(model.prices, in dollars per million tokens).

Examples:
  stemma cost                          everything, by stage
  stemma cost j-1a1fba360ee4aa2        one job
  stemma cost 3M_2022_10K --by model   one document
  stemma cost --by day --json")]
pub struct CostArgs {
    /// A job, by id or name, a document, or a question (s-…, ask-…, q-…).
    #[arg(value_name = "JOB|DOC|QUESTION")]
    target: Option<String>,
    /// Group by.
    #[arg(long, value_enum, default_value = "stage", value_name = "WHAT")]
    by: CostGrouping,
}

/// Group by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CostGrouping {
    /// Stages of the pipeline.
    Stage,
    /// Models.
    Model,
    /// Documents.
    Document,
    /// Days, by UTC.
    Day,
}

// The calls to count.
enum CostSubject {
    Everyone,
    Job(stemma_store::JobId),
    // Prefix of the names of the document's runs.
    Document(String),
    // The run of a question.
    Question(String),
}

#[derive(Serialize)]
struct CostReport {
    by: BTreeMap<String, ModelUsage>,
    total: ModelUsage,
    // Records that could not be read.
    unread: u64,
}

pub async fn run(args: CostArgs, context: &Context) -> Result<Exit, CommandError> {
    let prices = PriceList::from_config(context.config()?);
    let operations = open_operations(context, "cost").await?;
    let reader = operations.archive().await?;
    let mut since_ms = 0;
    let whose = match &args.target {
        None => CostSubject::Everyone,
        Some(target) if is_question(target) => CostSubject::Question(target.clone()),
        Some(target) => match operations.find(target).await? {
            Some(manifest) => {
                since_ms = manifest.submitted_ms;
                CostSubject::Job(manifest.job)
            }
            None => {
                CostSubject::Document(format!("{}-", reader.stat(target).await?.document.doc_id))
            }
        },
    };
    let mut cost = CostReport {
        by: BTreeMap::new(),
        total: ModelUsage::default(),
        unread: 0,
    };
    cost.unread = calls::read_sums(
        operations.blobs(),
        &format!("c/{}", context.collection),
        since_ms,
        |sum: CallSum| {
            let is_asked_for = match &whose {
                CostSubject::Everyone => true,
                CostSubject::Job(job) => sum.jobs.contains(job),
                CostSubject::Document(runs) => sum.run.0.starts_with(runs),
                CostSubject::Question(run) => sum.run.0 == *run,
            };
            if is_asked_for {
                cost.by
                    .entry(group(args.by, &sum))
                    .or_default()
                    .add(&sum, &prices);
                cost.total.add(&sum, &prices);
            }
        },
    )
    .await?;
    if args.by == CostGrouping::Document {
        cost.by = by_label(cost.by, reader.catalog())?;
    }
    show(&cost, args.by, context);
    Ok(Exit::nothing_if(cost.total.calls == 0))
}

// Runs of questions are named by a word and sixteen hexadecimal digits; all others belong to documents.
fn is_question(run: &str) -> bool {
    let is_word =
        |kind: &str| !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_lowercase());
    let parts = run.split_once('-').filter(|(kind, _)| is_word(kind));
    parts.is_some_and(|(_, id)| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

// Documents by their labels, as far as they exist. Only those with costs are looked up.
fn by_label(
    costs: BTreeMap<String, ModelUsage>,
    catalog: &Catalog,
) -> PortResult<BTreeMap<String, ModelUsage>> {
    let labeled = costs.into_iter().map(|(name, usage)| {
        let listed = match name.parse::<DocId>() {
            Ok(doc) => catalog.get(doc)?,
            Err(_) => None,
        };
        Ok((listed.map_or(name, |listed| listed.label.clone()), usage))
    });
    labeled.collect()
}

fn group(by: CostGrouping, sum: &CallSum) -> String {
    match by {
        CostGrouping::Stage => sum.stage.clone(),
        CostGrouping::Model => sum.model.clone(),
        CostGrouping::Day => time_format::format_date(sum.day),
        CostGrouping::Document if is_question(&sum.run.0) => "(questions)".into(),
        CostGrouping::Document => {
            let run = sum.run.0.as_str();
            run.rsplit_once('-').map_or(run, |(doc, _)| doc).into()
        }
    }
}

fn show(cost: &CostReport, by: CostGrouping, context: &Context) {
    let output = &context.output;
    if !output.is_text() {
        output.json(cost);
        return;
    }
    if cost.total.calls == 0 {
        output.note("no model calls");
        return;
    }
    use Column::{Right, Text};
    let mut table = Table::new([Text, Right, Right, Right, Right, Right]);
    let what = match by {
        CostGrouping::Stage => "stage",
        CostGrouping::Model => "model",
        CostGrouping::Document => "document",
        CostGrouping::Day => "day",
    };
    table.row([what, "calls", "prompt", "cached", "reply", "cost"]);
    let rows = cost.by.iter().map(|(name, usage)| (name.as_str(), usage));
    for (name, usage) in rows.chain([("total", &cost.total)]) {
        table.row([
            name.to_owned(),
            thousands(usage.calls),
            thousands(usage.prompt_tokens),
            thousands(usage.cached_tokens),
            thousands(usage.output_tokens),
            usage.cost_label(),
        ]);
    }
    table.print(output);
    if cost.total.useless > 0 {
        output.note(&format!("{} replies could not be used", cost.total.useless));
    }
    if cost.total.without_price > 0 {
        output.note("some models have no price; set model.prices.input and model.prices.output");
    }
    if cost.unread > 0 {
        output.note(&format!(
            "{} records of the call log are unreadable",
            cost.unread
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::is_question;

    #[test]
    fn question_runs_are_distinguished_from_document_runs() {
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

//! `stemma eval retrieval`: measures search on questions whose pages are known.

use stemma_evaluation::question::GoldQuestion;
use stemma_evaluation::retrieval::{DEPTHS, RetrievalEval, RetrievalMeans, RetrievalRow};

use super::show::table_of_numbers;
use super::{Evaluation, GoldArgs, SkippedEntry};
use crate::commands::open::open_indexed;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::Table;

/// Arguments of `eval retrieval`.
#[derive(Debug, clap::Args)]
pub struct RetrievalArgs {
    #[command(flatten)]
    gold: GoldArgs,
    /// Search all documents, even if a question names its document.
    #[arg(long)]
    everywhere: bool,
}

/// Runs `eval retrieval`.
pub async fn retrieval(args: RetrievalArgs, context: &Context) -> Result<Exit, CommandError> {
    let questions: Vec<GoldQuestion> = args.gold.read()?;
    let reader = open_indexed(context).await?;
    let eval = stemma_evaluation::retrieval::eval_retrieval(
        &reader,
        &questions,
        args.everywhere,
        args.gold.count_missing,
    )
    .await?;
    args.gold.report(&eval, context)
}

impl Evaluation for RetrievalEval {
    fn scored(&self) -> usize {
        self.questions.len()
    }

    fn skipped(&self) -> &[SkippedEntry] {
        &self.skipped
    }

    fn figures(&self) -> Vec<(String, Option<f64>)> {
        let all = self.means.first();
        let mut figures = Vec::new();
        for depth in DEPTHS {
            let hit = all.and_then(|means| means.hit.get(&depth).copied());
            figures.push((format!("hit@{depth}"), hit));
        }
        for depth in DEPTHS {
            let recall = all.and_then(|means| means.recall.get(&depth).copied());
            figures.push((format!("recall@{depth}"), recall));
        }
        figures.push(("mrr".into(), all.map(|means| means.mrr)));
        figures.push(("document".into(), all.map(|means| means.document)));
        figures
    }

    fn print(&self, details: bool, output: &Output) {
        if details {
            self.questions
                .iter()
                .for_each(|row| output.line(&line(row)));
        }
        if !self.means.is_empty() {
            table(&self.means).print(output);
        }
    }
}

fn table(means: &[RetrievalMeans]) -> Table {
    let mut table = table_of_numbers(16);
    let last = ["mrr", "doc", "p50 ms", "p95 ms"].map(str::to_owned);
    table.row(
        ["questions".to_owned(), "n".into()]
            .into_iter()
            .chain(depth_columns("hit"))
            .chain(depth_columns("R"))
            .chain(last),
    );
    for means in means {
        let shares = means
            .hit
            .values()
            .chain(means.recall.values())
            .chain([&means.mrr, &means.document]);
        let took = [means.p50_ms, means.p95_ms].map(|ms| format!("{ms:.1}"));
        let name = [clean(&means.set), means.questions.to_string()];
        table.row(
            name.into_iter()
                .chain(shares.map(|value| format!("{value:.2}")))
                .chain(took),
        );
    }
    table
}

// `fb_1  first 2  of 3 pages: 2, 4, –   3M_2022_10K#p=48 …`.
fn line(row: &RetrievalRow) -> String {
    let first = row
        .first_rank
        .map_or_else(|| "not found".into(), |first| format!("first at {first}"));
    let ranked: Vec<String> = row
        .top_pages
        .iter()
        .take(5)
        .map(|page| clean(page))
        .collect();
    format!(
        "{}  {first}, {} of {} pages  {}",
        clean(&row.id),
        row.ranks.len(),
        row.gold_pages,
        ranked.join(" ")
    )
}

fn depth_columns(name: &str) -> [String; DEPTHS.len()] {
    DEPTHS.map(|depth| format!("{name}@{depth}"))
}

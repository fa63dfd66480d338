//! `stemma eval retrieval`: measures search on questions whose pages are known.

use stemma_evaluation::retrieval::{
    DEPTHS, RetrievalEval, RetrievalMeans, RetrievalRow, eval_retrieval,
};

use super::show::table_of_numbers;
use super::{Evaluation, GoldArgs, Report};
use crate::commands::open::open_indexed;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::clean;
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
    let questions = args.gold.read()?;
    let reader = open_indexed(context).await?;
    let missing = args.gold.count_missing;
    let eval = eval_retrieval(&reader, &questions, args.everywhere, missing).await?;
    args.gold.report(&eval, context)
}

impl Evaluation for RetrievalEval {
    fn report(&self, details: bool, width: Option<u16>) -> Report<'_> {
        let all = self.means.first();
        let hits = DEPTHS.map(|depth| {
            let hit = all.and_then(|means| means.hit.get(&depth).copied());
            (format!("hit@{depth}"), hit)
        });
        let recalls = DEPTHS.map(|depth| {
            let recall = all.and_then(|means| means.recall.get(&depth).copied());
            (format!("recall@{depth}"), recall)
        });
        let mut figures = [hits, recalls].concat();
        figures.push(("mrr".into(), all.map(|means| means.mrr)));
        figures.push(("document".into(), all.map(|means| means.document)));
        let mut lines = Vec::new();
        if details {
            lines.extend(self.questions.iter().map(line));
        }
        if !self.means.is_empty() {
            lines.extend(table(&self.means).lines(width));
        }
        Report {
            scored: self.questions.len(),
            skipped: &self.skipped,
            figures,
            lines,
        }
    }
}

fn table(means: &[RetrievalMeans]) -> Table {
    let columns = |name: &str| DEPTHS.map(|depth| format!("{name}@{depth}")).join(" ");
    let hits = columns("hit");
    let recalls = columns("R");
    let heads = format!("questions n {hits} {recalls} mrr doc p50·ms p95·ms");
    let mut table = table_of_numbers(&heads);
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
    let first = match row.first_rank {
        Some(first) => format!("first at {first}"),
        None => "not found".into(),
    };
    let id = clean(&row.id);
    let found = row.ranks.len();
    let gold = row.gold_pages;
    let ranked: Vec<String> = row
        .top_pages
        .iter()
        .take(5)
        .map(|page| clean(page))
        .collect();
    format!(
        "{id}  {first}, {found} of {gold} pages  {}",
        ranked.join(" ")
    )
}

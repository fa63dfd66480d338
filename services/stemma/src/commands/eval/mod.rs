//! `stemma eval`: measures trees, texts, facts, search and answers against labeled documents.

mod answers;
mod budget;
mod judge;
mod questions;
mod show;

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use stemma_evaluation::SkippedEntry;
use stemma_evaluation::gold::parse_gold;
use stemma_evaluation::items::eval_items;
use stemma_evaluation::metadata::eval_metadata;
use stemma_evaluation::structure::eval_structure;
use stemma_evaluation::text::eval_text;

use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::clean;

// The largest gold file that is read, in bytes.
const MAX_BYTES: u64 = 256 << 20;
// The most gold files.
const MAX_FILES: usize = 100_000;

/// Measure trees, texts and facts of ingested documents against gold data.
///
/// GOLD is JSON files, or folders of them; gold entries and documents are paired by name. docs/guide/evaluate.md has the formats and
/// defines each figure.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma eval structure gold/                sections, their pages, levels and parents
  stemma eval structure gold/ --details      with missed and extra sections
  stemma eval text pages.jsonl --min words=0.99
  stemma eval metadata facts.json --json
  stemma eval items items.json --details
  stemma eval retrieval questions.jsonl      how often search finds the right pages
  stemma eval answers questions.jsonl --out answers.jsonl --budget 5

Gold of structure:  {\"doc\": \"NAME\", \"pages\": 9, \"nodes\": [{\"title\": \"…\", \"level\": 1, \"page\": 1}]}
Gold of text:       {\"doc\": \"NAME\", \"page\": 1, \"text\": \"…\"}
Gold of metadata:   {\"doc\": \"NAME\", \"form\": \"10-K\", \"fiscal_year\": 2022, \"cik\": null}
Gold of Items:      {\"doc\": \"NAME\", \"items\": {\"II.7A\": [\"full\", 51]}}
A question:         {\"id\": 1, \"question\": \"…\", \"doc\": \"NAME\", \"gold_pages\": [48], \"answer\": \"…\"}, or FinanceBench's own fields

Exit codes: 0 scored · 1 nothing to score, or a mean below its --min · 2 unreadable gold · 4
stopped at the budget; run the same command to resume.")]
pub struct EvalArgs {
    #[command(subcommand)]
    what: EvalCommand,
}

#[derive(Debug, clap::Subcommand)]
enum EvalCommand {
    /// Sections: titles, pages, levels and parents.
    ///
    /// The main figure is locF1: titles matched one to one that start within one page of the gold ones.
    Structure(GoldArgs),
    /// The text of pages: words, their order, numbers and characters.
    Text(GoldArgs),
    /// Facts: form, registrant, period, numbers. A null fact must not be found.
    Metadata(GoldArgs),
    /// Items: start pages, status, and the places they refer to.
    Items(GoldArgs),
    /// Search: ranks of the pages that answer questions. Uses no model.
    Retrieval(questions::RetrievalArgs),
    /// Answers, as from `stemma ask`: judged by the model, by their numbers and by their citations; misses by cause.
    Answers(answers::AnswersArgs),
}

#[derive(Debug, clap::Args)]
struct GoldArgs {
    /// Gold files (.json, .jsonl), or folders of them.
    #[arg(required = true, value_name = "GOLD")]
    paths: Vec<PathBuf>,
    /// Exit with 1 if the mean of this figure is lower; repeatable.
    #[arg(long, value_name = "FIGURE=SHARE", value_parser = floor)]
    min: Vec<(String, f64)>,
    /// Score gold entries without a document as zero.
    #[arg(long)]
    count_missing: bool,
    /// List missed and wrong results.
    #[arg(long)]
    details: bool,
}

fn floor(text: &str) -> Result<(String, f64), String> {
    let (figure, share) = text
        .split_once('=')
        .ok_or("write FIGURE=SHARE, as in loc_f1=0.9")?;
    let share: f64 = share
        .parse()
        .map_err(|_| format!("`{share}` is not a number"))?;
    if (0.0..=1.0).contains(&share) {
        Ok((figure.into(), share))
    } else {
        Err("a share must be between 0 and 1".into())
    }
}

pub async fn run(args: EvalArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.what {
        EvalCommand::Structure(args) => {
            let gold = args.read()?;
            let mut eval = eval_structure(&open(context).await?, &gold, args.count_missing).await?;
            if !args.details {
                for row in &mut eval.documents {
                    (row.score.missed, row.score.extra, row.score.moved) = Default::default();
                }
            }
            args.report(&eval, context)
        }
        EvalCommand::Text(args) => {
            let gold = args.read()?;
            let eval = eval_text(&open(context).await?, &gold, args.count_missing).await?;
            args.report(&eval, context)
        }
        EvalCommand::Metadata(args) => {
            let gold = args.read()?;
            let eval = eval_metadata(&open(context).await?, &gold, args.count_missing)?;
            args.report(&eval, context)
        }
        EvalCommand::Items(args) => {
            let gold = args.read()?;
            let eval = eval_items(&open(context).await?, &gold, args.count_missing).await?;
            args.report(&eval, context)
        }
        EvalCommand::Retrieval(args) => questions::retrieval(args, context).await,
        EvalCommand::Answers(args) => answers::run(args, context).await,
    }
}

// Results of an evaluation.
trait Evaluation: Serialize {
    fn report(&self, details: bool, width: Option<u16>) -> Report<'_>;
}

// What is tested and printed of an evaluation.
struct Report<'a> {
    scored: usize,
    // Gold entries that were not scored.
    skipped: &'a [SkippedEntry],
    // Figures that `--min` can test, with their means; `None` if no gold entry covers the figure.
    figures: Vec<(String, Option<f64>)>,
    lines: Vec<String>,
}

impl GoldArgs {
    // All gold entries, file by file in the order of paths.
    fn read<T: DeserializeOwned>(&self) -> Result<Vec<T>, CommandError> {
        let mut gold = Vec::new();
        for file in files(&self.paths)? {
            let text = text_of(&file)?;
            let entries = parse_gold(&text).map_err(|error| {
                input_error(&file, "eval.truth_invalid", &error.to_string())
                    .with_next("see the formats in docs/guide/evaluate.md")
            })?;
            gold.extend(entries);
        }
        if gold.is_empty() {
            let names = self.paths.iter().map(|path| path.display().to_string());
            let names = names.collect::<Vec<_>>().join(", ");
            let message = format!("no gold entries in {names}");
            return Err(CommandError::new("eval.no_truth", message)
                .with_next("see the formats in docs/guide/evaluate.md"));
        }
        Ok(gold)
    }

    fn report(&self, eval: &impl Evaluation, context: &Context) -> Result<Exit, CommandError> {
        let output = &context.output;
        let Report {
            scored,
            skipped,
            figures,
            lines,
        } = eval.report(self.details, output.width);
        let mut low = Vec::new();
        for (figure, floor) in &self.min {
            let Some((name, mean)) = figures
                .iter()
                .find(|(name, _)| normalized(name) == normalized(figure))
            else {
                let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
                let message = format!("unknown figure `{figure}` for this evaluation");
                return Err(CommandError::new("eval.figure_unknown", message)
                    .with_next(format!("use one of {}", names.join(", "))));
            };
            if mean.is_none_or(|mean| mean < *floor) {
                low.push((name, mean, floor));
            }
        }
        output.show(eval, || lines.iter().for_each(|line| output.line(line)));
        for SkippedEntry { doc, reason } in skipped {
            output.note(&format!("not scored: {} ({})", clean(doc), clean(reason)));
        }
        for (name, mean, floor) in &low {
            output.note(&format!("{name} {} is below {floor}", show::share(**mean)));
        }
        Ok(Exit::nothing_if(scored == 0 || !low.is_empty()))
    }
}

fn input_error(file: &Path, code: &str, message: &str) -> CommandError {
    let mut error = CommandError::new(code, format!("{}: {message}", file.display()));
    error.file = Some(file.display().to_string());
    error
}

// The files that the paths name, in order; of folders those that end in `.json` or `.jsonl`.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CommandError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        for entry in walkdir::WalkDir::new(path).sort_by_file_name() {
            let entry =
                entry.map_err(|error| input_error(path, "input.unreadable", &error.to_string()))?;
            let ending = entry.path().extension().unwrap_or_default();
            if entry.file_type().is_file() && (ending == "json" || ending == "jsonl") {
                files.push(entry.into_path());
            }
            if files.len() > MAX_FILES {
                let message = format!("more than {MAX_FILES} files");
                return Err(input_error(path, "limits.files", &message));
            }
        }
    }
    Ok(files)
}

fn text_of(file: &Path) -> Result<String, CommandError> {
    let is_too_large =
        std::fs::metadata(file).is_ok_and(|file| !file.is_file() || file.len() > MAX_BYTES);
    if is_too_large {
        let message = format!("not a regular file of at most {MAX_BYTES} bytes");
        return Err(input_error(file, "limits.bytes", &message).with_next("split it"));
    }
    std::fs::read_to_string(file).map_err(|error| {
        input_error(file, "input.unreadable", &error.to_string())
            .with_next("give a gold file, or a folder of them")
    })
}

// `--min` accepts loc_f1, locF1 and loc-f1.
fn normalized(figure: &str) -> String {
    figure.to_lowercase().replace(['_', '-'], "")
}

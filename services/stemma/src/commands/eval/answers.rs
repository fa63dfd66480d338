//! `stemma eval answers`: questions with known answers are asked, and what comes is judged.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures::{StreamExt, stream};
use stemma_query::Question;
use stemma_query::eval::answers::{AnswerMeans, AnswerRow, AnswersEval, Placed};
use stemma_query::eval::question::QuestionTruth;
use stemma_search::answer::{self, Finding, Mode};
use stemma_search::reason::{Budget, Consultation};

use super::judge::judge;
use super::show::share;
use super::{Evaluation, Truths, Unscored};
use crate::commands::ask::{Desk, finding, mode};
use crate::context::{CommandError, Context, Exit};
use crate::output::clean;
use crate::table::{Align, Table};

/// What `eval answers` takes.
#[derive(Debug, clap::Args)]
pub struct AnswersArgs {
    #[command(flatten)]
    truths: Truths,
    /// Answer from all documents, also where a question names its own.
    #[arg(long)]
    everywhere: bool,
    /// How sections are found; as for `stemma ask`.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = finding)]
    strategy: Finding,
    /// search, or agent; as for `stemma ask`.
    #[arg(long, value_name = "NAME", default_value = "search", value_parser = mode)]
    mode: Mode,
    /// Keep a line for each answered question here, and go on from those that are there.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Stop before more than this is spent on answers, in dollars; needs model.prices.
    #[arg(long, value_name = "USD")]
    budget: Option<f64>,
    /// Stop before more tokens than this are used for answers, prompt and reply.
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u64>,
    /// Questions at once.
    #[arg(long, value_name = "N", default_value_t = 4)]
    jobs: usize,
    /// Do not have the model judge answers: only numbers and citations are looked at, at no cost.
    #[arg(long)]
    no_judge: bool,
}

/// Runs `eval answers`.
///
/// # Errors
/// [`CommandError`] when the file cannot be read, or the store could not say.
pub async fn run(args: AnswersArgs, context: &Context) -> Result<Exit, CommandError> {
    let questions: Vec<QuestionTruth> = args.truths.read()?;
    let desk = Desk::open(context).await?;
    let known = args.out.as_deref().map(rows).transpose()?.unwrap_or_default();
    let mut out = args.out.as_deref().map(appended).transpose()?;
    let (mut done, mut wanted, mut unscored) = (Vec::new(), Vec::new(), Vec::new());
    for (truth, placed) in questions.iter().zip(desk.reader.eval_places(&questions)) {
        match (known.get(&truth.id).filter(|row| row.question == truth.question), placed) {
            (Some(row), _) => done.push(row.clone()),
            (None, Ok(placed)) => wanted.push((truth, placed)),
            (None, Err(reason)) => unscored.push(Unscored { doc: truth.id.clone(), reason }),
        }
    }
    if !done.is_empty() {
        context.output.note(&format!("{} answered before, {} to go", done.len(), wanted.len()));
    }
    let judging = judging(&desk, &args, wanted.len());
    let asking = wanted.iter().map(|(truth, placed)| answered(&desk, &args, truth, placed, judging.as_ref(), context));
    let mut asking = stream::iter(asking).buffer_unordered(args.jobs.max(1));
    let mut stopped = false;
    while let Some(row) = asking.next().await {
        let row = row?;
        if let (Some((file, path)), Ok(line)) = (&mut out, serde_json::to_string(&row)) {
            writeln!(file, "{line}").map_err(|error| unusable(path, &error.to_string()))?;
        }
        done.push(row);
        stopped = spent_up(&args, &done) && done.len() < known.len() + wanted.len();
        if stopped {
            break;
        }
    }
    let place = |id: &str| questions.iter().position(|truth| truth.id == id);
    done.sort_by_key(|row| place(&row.id));
    let exit = args.truths.answer(&AnswersEval::of(done, unscored), context)?;
    if stopped {
        context.output.note("stopped at the budget; the same command with more goes on from what --out has");
        return Ok(Exit::Stopped);
    }
    Ok(exit)
}

/// Asks a question and judges what comes.
async fn answered(
    desk: &Desk,
    args: &AnswersArgs,
    truth: &QuestionTruth,
    placed: &Placed,
    judging: Option<&Consultation>,
    context: &Context,
) -> Result<AnswerRow, CommandError> {
    let scopes = placed.within.iter().filter(|_| !args.everywhere).cloned().collect();
    let asked = Question { text: truth.question.clone(), scopes, ..Question::default() };
    let (strategy, mode) = (args.strategy, args.mode);
    let question = answer::Question { strategy, mode, ..desk.reader.inquiry(&asked)? };
    let began = Instant::now();
    let answer = desk.answer_silently(&question).await?;
    let mut row = AnswerRow::of(truth, &answer, &placed.gold, began.elapsed().as_secs_f64() * 1e3);
    if let (Some(judging), Some(reference)) = (judging, truth.answer.as_deref()) {
        match judge(judging, &truth.question, reference, &answer.text).await {
            Ok(judgement) => row.judged = Some(judgement),
            Err(error) => context.output.note(&format!("{} is not judged: {error}", clean(&truth.id))),
        }
    }
    Ok(row)
}

/// The judge's account; `None` where no model is configured, or none is to judge.
fn judging(desk: &Desk, args: &AnswersArgs, questions: usize) -> Option<Consultation> {
    const TRIES: u32 = 3;
    let reasoner = desk.reader.reasoner().filter(|_| !args.no_judge)?;
    let asker = reasoner.asker();
    let calls = u32::try_from(questions).unwrap_or(u32::MAX).saturating_mul(TRIES).max(1);
    Some(asker.begin(asker.name("judge"), Budget { calls, tokens: u64::MAX, nanodollars: None }))
}

fn spent_up(args: &AnswersArgs, rows: &[AnswerRow]) -> bool {
    let made = || rows.iter().filter(|row| !row.replayed);
    let tokens: u64 = made().map(AnswerRow::tokens).sum();
    let dollars: f64 = made().filter_map(|row| row.dollars).sum();
    args.budget_tokens.is_some_and(|most| tokens >= most) || args.budget.is_some_and(|most| dollars >= most)
}

/// The rows of a file by the ids of their questions; what cannot be read, a torn line, is asked again.
fn rows(path: &Path) -> Result<HashMap<String, AnswerRow>, CommandError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(error) => return Err(unusable(path, &error.to_string())),
    };
    let mut rows = HashMap::new();
    for row in text.lines().filter_map(|line| serde_json::from_str::<AnswerRow>(line).ok()) {
        rows.insert(row.id.clone(), row);
    }
    Ok(rows)
}

fn appended(path: &Path) -> Result<(File, PathBuf), CommandError> {
    let file = File::options().append(true).create(true).open(path);
    let mut file = file.map_err(|error| unusable(path, &error.to_string()))?;
    // What was torn ends here.
    let torn = fs::read(path).is_ok_and(|bytes| bytes.last().is_some_and(|last| *last != b'\n'));
    if torn {
        writeln!(file).map_err(|error| unusable(path, &error.to_string()))?;
    }
    Ok((file, path.to_owned()))
}

fn unusable(path: &Path, message: &str) -> CommandError {
    CommandError::new("eval.out", format!("{}: {message}", path.display())).with_next("name another --out")
}

impl Evaluation for AnswersEval {
    fn scored(&self) -> usize {
        self.questions.len()
    }

    fn unscored(&self) -> &[Unscored] {
        &self.unscored
    }

    fn figures(&self) -> Vec<(String, Option<f64>)> {
        let all = self.means.first();
        let figure = |name: &str, of: fn(&AnswerMeans) -> Option<f64>| (name.to_owned(), all.and_then(of));
        vec![
            figure("answered", |means| Some(means.answered)),
            figure("judged", |means| means.judged),
            figure("numbers", |means| means.numbers),
            figure("cited", |means| means.cited),
            figure("verified", |means| means.verified),
        ]
    }

    fn lines(&self, details: bool) -> Vec<String> {
        let mut lines = if details { self.questions.iter().map(line).collect() } else { Vec::new() };
        if !self.means.is_empty() {
            lines.extend(table(&self.means).lines());
        }
        lines
    }
}

fn table(means: &[AnswerMeans]) -> Table {
    let mut columns = vec![(Align::Left, 40)];
    columns.resize(14, (Align::Right, 0));
    let mut table = Table::new(&columns);
    let head = "questions n answered judged of numbers of cited verified calls tokens $ p50·s p95·s";
    table.row(head.split(' ').map(|name| name.replace('·', " ")));
    for means in means {
        let dollars = means.dollars.map_or_else(|| "–".into(), |dollars| format!("{dollars:.2}"));
        table.row([
            clean(&means.set),
            means.questions.to_string(),
            share(Some(means.answered)),
            share(means.judged),
            means.judged_of.to_string(),
            share(means.numbers),
            means.numbers_of.to_string(),
            share(means.cited),
            share(means.verified),
            format!("{:.1}", means.calls),
            format!("{:.0}", means.tokens),
            dollars,
            format!("{:.2}", means.p50_ms / 1e3),
            format!("{:.2}", means.p95_ms / 1e3),
        ]);
    }
    table
}

/// `fb_1  right · numbers ✓ · cited –  a-91c…  because …`.
fn line(row: &AnswerRow) -> String {
    let mark = |yes: Option<bool>| yes.map_or("–", |yes| if yes { "yes" } else { "no" });
    let verdict = row.judged.as_ref().map_or_else(|| "–".into(), |one| crate::commands::reading::word(&one.verdict));
    let why = row.judged.as_ref().map(|one| clean(&one.why)).unwrap_or_default();
    let (numbers, cited) = (mark(row.numbers), mark(row.cited));
    format!("{}  judged {verdict} · numbers {numbers} · cited {cited}  {}  {why}", clean(&row.id), row.answer_id)
}

//! `stemma eval answers`: asks questions with known answers and judges the results.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use futures::{StreamExt, stream};
use stemma_answers::tree_search::{LlmClient, QuestionBudget, SessionError};
use stemma_answers::{self, AnswerLimits, AnswerMode, AnswerOutcome, RetrievalStrategy};
use stemma_archive::{AnswerRequest, is_store_error};
use stemma_evaluation::answers::{
    AnswerMeans, AnswerRow, AnswersEval, QuestionTarget, eval_targets,
};
use stemma_evaluation::question::GoldQuestion;
use stemma_pipeline::Purpose;

use super::budget::{EvalBudget, Expense};
use super::judge::judge;
use super::show::{share, table_of_numbers};
use super::{Evaluation, GoldArgs, Report, SkippedEntry};
use crate::commands::ask::{AskSession, mode, strategy};
use crate::commands::format::word;
use crate::context::Context;
use crate::cost::{NANOS_PER_DOLLAR, PriceList, nanodollars, no_price};
use crate::error::{CommandError, Exit};
use crate::output::clean;
use crate::table::Table;

/// Arguments of `eval answers`.
#[derive(Debug, clap::Args)]
pub struct AnswersArgs {
    #[command(flatten)]
    gold: GoldArgs,
    /// Answer from all documents, even if a question names its document.
    #[arg(long)]
    everywhere: bool,
    /// Search strategy, as for `stemma ask`.
    #[arg(long, value_name = "NAME", default_value = "ranked", value_parser = strategy)]
    strategy: RetrievalStrategy,
    /// auto, search, or agent; as for `stemma ask`.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = mode)]
    mode: AnswerMode,
    /// Write a line for each answered question to this file; an existing file is resumed.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Stop before answers and judgements cost more than this, in dollars. Needs model.prices.
    #[arg(long, value_name = "USD")]
    budget: Option<f64>,
    /// Stop before answers and judgements use more tokens than this.
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u64>,
    /// Concurrent questions.
    #[arg(long, value_name = "N", default_value_t = 4)]
    jobs: usize,
    /// Do not judge answers with the model; only check numbers and citations, at no cost.
    #[arg(long)]
    no_judge: bool,
}

/// Runs `eval answers`.
pub async fn run(args: AnswersArgs, context: &Context) -> Result<Exit, CommandError> {
    let questions: Vec<GoldQuestion> = args.gold.read()?;
    let session = AskSession::open(context).await?;
    if session.reader.tree_searcher().is_none() {
        let next =
            "set model.name and model.base_url, or measure search with `stemma eval retrieval`";
        let message = "no model is configured, so no question can be answered";
        return Err(CommandError::new("config.no_model", message).with_next(next));
    }
    let out = args.out.as_deref();
    let previous = out.map(read_rows).transpose()?.unwrap_or_default();
    let mut out = out.map(open_for_append).transpose()?;
    let mut done = Vec::new();
    let mut pending = Vec::new();
    let mut skipped = Vec::new();
    let targets = eval_targets(&session.reader, &questions)?;
    for (question, target) in questions.iter().zip(targets) {
        let row = previous.get(&question.id);
        match (row.filter(|row| row.question == question.question), target) {
            (Some(row), _) => done.push(row.clone()),
            (None, Ok(target)) => pending.push((question, target)),
            (None, Err(reason)) => skipped.push(SkippedEntry::new(&question.id, reason)),
        }
    }
    let output = &context.output;
    if !done.is_empty() {
        let done = done.len();
        let open = pending.len();
        output.note(&format!("{done} already answered, {open} to go"));
    }
    let evaluator = AnswerEvaluator {
        budget: remaining_budget(&args, &done, context)?,
        session: &session,
        args: &args,
        context,
    };
    let asking = pending
        .iter()
        .map(|(question, target)| async { (&question.id, evaluator.row(question, target).await) });
    let mut asking = stream::iter(asking).buffer_unordered(args.jobs.max(1));
    let mut stopped = false;
    while let Some((id, row)) = asking.next().await {
        let row = match row {
            Ok(Some(row)) => row,
            Ok(None) => {
                stopped = true;
                continue;
            }
            // An invalid question or an unreachable model only fails this question.
            Err(error) if is_store_error(&error.code) => return Err(error),
            Err(error) => {
                skipped.push(SkippedEntry::new(id, error.message));
                continue;
            }
        };
        if let (Some((file, path)), Ok(line)) = (&mut out, serde_json::to_string(&row)) {
            writeln!(file, "{line}").map_err(|error| file_error(path, &error))?;
        }
        done.push(row);
    }
    done.sort_by_key(|row| questions.iter().position(|question| question.id == row.id));
    let eval = AnswersEval::from_rows(done, skipped);
    let exit = args.gold.report(&eval, context)?;
    if stopped {
        output.note(
            "stopped at the budget; run the same command with a larger budget to resume from --out",
        );
        return Ok(Exit::Stopped);
    }
    Ok(exit)
}

// Reserved for a judgement with its retries.
const JUDGED_TOKENS: u64 = 6_000;
// Calls of a judgement at most.
const JUDGED_CALLS: u32 = 3;

// Asks questions and judges the answers within one budget.
struct AnswerEvaluator<'a> {
    budget: EvalBudget,
    session: &'a AskSession,
    args: &'a AnswersArgs,
    context: &'a Context,
}

impl AnswerEvaluator<'_> {
    // Answers and judges a question; `None` if the budget does not cover both.
    async fn row(
        &self,
        question: &GoldQuestion,
        target: &QuestionTarget,
    ) -> Result<Option<AnswerRow>, CommandError> {
        let judge = self.judge().filter(|_| question.answer.is_some());
        let usual = AnswerLimits::default();
        let judged = if judge.is_some() { JUDGED_TOKENS } else { 0 };
        let needed_tokens = u64::from(usual.tokens) + judged;
        let Some(granted) = self.budget.reserve(needed_tokens).await else {
            return Ok(None);
        };
        let tokens = u32::try_from(granted.saturating_sub(judged)).unwrap_or(usual.tokens);
        let limits = AnswerLimits { tokens, ..usual };
        let mut expense = Expense::default();
        let row = self
            .answer_and_judge(question, target, limits, judge, granted, &mut expense)
            .await;
        self.budget.settle(granted, expense);
        let row = row?;
        if row.is_none() {
            self.budget.close();
        }
        Ok(row)
    }

    async fn answer_and_judge(
        &self,
        question: &GoldQuestion,
        target: &QuestionTarget,
        limits: AnswerLimits,
        judge_by: Option<&Arc<LlmClient>>,
        granted: u64,
        expense: &mut Expense,
    ) -> Result<Option<AnswerRow>, CommandError> {
        let Self { session, args, .. } = self;
        let within = target.within.clone().filter(|_| !args.everywhere);
        let ask = session.reader.ask_request(&AnswerRequest {
            question: question.question.clone(),
            scopes: within.into_iter().collect(),
            strategy: Some(args.strategy.as_str().into()),
            mode: Some(args.mode.as_str().into()),
            limits: Some(limits),
            ..AnswerRequest::default()
        })?;
        let began = Instant::now();
        let answer = session.answer(&ask, &mut ()).await?;
        let latency_ms = began.elapsed().as_secs_f64() * 1e3;
        let mut row = AnswerRow::new(question, &answer, &target.gold_pages, latency_ms);
        *expense = expense_of(&row);
        // An answer cut short by the budget says nothing about quality, so it is not stored and asked again.
        if limits != AnswerLimits::default()
            && row.degraded.as_deref() == Some("answer.limit_reached")
        {
            return Ok(None);
        }
        if row.outcome == AnswerOutcome::SearchOnly {
            let why = answer
                .degradation
                .map_or_else(|| "no model answered".into(), |degraded| degraded.message);
            return Err(CommandError::new("eval.not_answered", why));
        }
        let (Some(asker), Some(reference)) = (judge_by, question.answer.as_deref()) else {
            return Ok(Some(row));
        };
        let tokens = granted.saturating_sub(expense.tokens);
        let budget = QuestionBudget {
            calls: JUDGED_CALLS,
            tokens,
            nanodollars: None,
        };
        let consultation = asker.start_session(asker.new_run_id("judge"), budget);
        let judged = judge(&consultation, &question.question, reference, &answer.text).await;
        let paid = consultation.usage();
        row.judge_tokens = paid.prompt_tokens + paid.output_tokens;
        let nanodollars = paid.nanodollars;
        row.judge_dollars = nanodollars.map(|nanos| nanos as f64 / NANOS_PER_DOLLAR);
        *expense = expense_of(&row);
        match judged {
            Ok(judgement) => row.judged = Some(judgement),
            Err(SessionError::BudgetExhausted { .. }) if tokens < JUDGED_TOKENS => return Ok(None),
            Err(error) => {
                let line = format!("could not judge {}: {error}", clean(&question.id));
                self.context.output.note(&line);
            }
        }
        Ok(Some(row))
    }

    // The judge; `None` if no model is configured or judging is off.
    fn judge(&self) -> Option<&Arc<LlmClient>> {
        let searcher = self.session.reader.tree_searcher();
        searcher
            .filter(|_| !self.args.no_judge)
            .map(|searcher| searcher.client())
    }
}

// The cost of a row: its answer, unless that was stored before, and the judgement.
fn expense_of(row: &AnswerRow) -> Expense {
    let is_new = !row.replayed;
    let tokens = row.judge_tokens + if is_new { row.tokens() } else { 0 };
    let dollars =
        row.judge_dollars.unwrap_or_default() + row.dollars.filter(|_| is_new).unwrap_or_default();
    Expense {
        tokens,
        nanodollars: (dollars * NANOS_PER_DOLLAR).round() as u64,
    }
}

// The budget minus the cost of the rows that an earlier run wrote.
fn remaining_budget(
    args: &AnswersArgs,
    rows: &[AnswerRow],
    context: &Context,
) -> Result<EvalBudget, CommandError> {
    let config = context.config()?;
    let model = config.model.settings.name_for(Purpose::Answers);
    let max_token_price = match PriceList::from_config(config).per_million(model) {
        Some((prompt, reply)) => (prompt.max(reply) * 1e3).ceil() as u64,
        None if args.budget.is_some() && config.model.is_configured() => {
            return Err(no_price(format!(
                "--budget needs the prices of model `{model}`, which are not set"
            )));
        }
        None => 0,
    };
    let mut expense = Expense::default();
    rows.iter().for_each(|row| expense += expense_of(row));
    let most = args.budget.map(|dollars| nanodollars(dollars.max(0.0)));
    let tokens = args.budget_tokens;
    Ok(EvalBudget::new(tokens, most, max_token_price, expense))
}

// Rows by question id. An unreadable line, such as one torn by a crash, is ignored, so its question runs again.
fn read_rows(path: &Path) -> Result<HashMap<String, AnswerRow>, CommandError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(error) => return Err(file_error(path, &error)),
    };
    Ok(text
        .lines()
        .filter_map(|line| serde_json::from_str::<AnswerRow>(line).ok())
        .map(|row| (row.id.clone(), row))
        .collect())
}

fn open_for_append(path: &Path) -> Result<(File, PathBuf), CommandError> {
    let file = File::options().append(true).create(true).open(path);
    let mut file = file.map_err(|error| file_error(path, &error))?;
    // End a line that a crash cut off.
    let torn = fs::read(path).is_ok_and(|bytes| bytes.last().is_some_and(|last| *last != b'\n'));
    if torn {
        writeln!(file).map_err(|error| file_error(path, &error))?;
    }
    Ok((file, path.to_owned()))
}

fn file_error(path: &Path, error: &std::io::Error) -> CommandError {
    let message = format!("{}: {error}", path.display());
    CommandError::new("eval.write_failed", message).with_next("choose another --out")
}

impl Evaluation for AnswersEval {
    fn report(&self, details: bool, width: Option<u16>) -> Report<'_> {
        let none = AnswerMeans::default();
        let all = self.means.first();
        let means = all.unwrap_or(&none);
        let figures = [
            ("answered", all.map(|means| means.answered)),
            ("right", means.right),
            ("judged", means.judged),
            ("numbers", means.numbers),
            ("cited", means.cited),
            ("pages_read", means.pages_read),
            ("text_used", means.text_used),
            ("verified", means.verified),
            ("computed", means.computed),
            ("quoted", means.quoted),
            ("rightly_refused", means.rightly_refused),
            // A figure that is better when lower cannot have a floor, so it is given the other way round.
            (
                "not_falsely_refused",
                means.falsely_refused.map(|share| 1.0 - share),
            ),
        ];
        let mut lines = Vec::new();
        if details {
            lines.extend(self.questions.iter().map(line));
        }
        if !self.means.is_empty() {
            lines.extend(quality_table(&self.means).lines(width));
            lines.push(String::new());
            lines.extend(miss_table(&self.means).lines(width));
            lines.push(String::new());
            lines.extend(cost_table(&self.means).lines(width));
        }
        Report {
            scored: self.questions.len(),
            skipped: &self.skipped,
            figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
            lines,
        }
    }
}

fn quality_table(means: &[AnswerMeans]) -> Table {
    let heads = "questions n right of judged of numbers of cited verified computed quoted";
    let mut table = table_of_numbers(heads);
    for means in means {
        table.row([
            clean(&means.set),
            means.questions.to_string(),
            share(means.right),
            means.right_of.to_string(),
            share(means.judged),
            means.judged_of.to_string(),
            share(means.numbers),
            means.numbers_of.to_string(),
            share(means.cited),
            share(means.verified),
            share(means.computed),
            share(means.quoted),
        ]);
    }
    table
}

// Refusals, and why answers are not right.
fn miss_table(means: &[AnswerMeans]) -> Table {
    let mut table = table_of_numbers(
        "questions answered pages·read text·used unanswerable refused·rightly refused·falsely missed:·page·not·read wrong invented",
    );
    for means in means {
        let misses = &means.misses;
        table.row([
            clean(&means.set),
            share(Some(means.answered)),
            share(means.pages_read),
            share(means.text_used),
            means.unanswerable.to_string(),
            share(means.rightly_refused),
            format!("{} ({})", share(means.falsely_refused), misses.refused),
            misses.page_not_read.to_string(),
            misses.wrong_answer.to_string(),
            misses.invented.to_string(),
        ]);
    }
    table
}

fn cost_table(means: &[AnswerMeans]) -> Table {
    let mut table = table_of_numbers("questions agent calls tokens $ p50·s p95·s");
    for means in means {
        table.row([
            clean(&means.set),
            share(Some(means.agent)),
            format!("{:.1}", means.calls),
            format!("{:.0}", means.tokens),
            share(means.dollars),
            format!("{:.2}", means.p50_ms / 1e3),
            format!("{:.2}", means.p95_ms / 1e3),
        ]);
    }
    table
}

// `fb_1  right by judge · numbers yes · cited – · page not read  a-91c…  because …`.
fn line(row: &AnswerRow) -> String {
    let (verdict, why) = match &row.judged {
        Some(judged) => (word(&judged.verdict), clean(&judged.why)),
        None => ("–".into(), String::new()),
    };
    let numbers = yes_no(row.numbers);
    let cited = yes_no(row.cited);
    let miss = row
        .miss
        .map_or_else(String::new, |miss| format!(" · {}", word(&miss)));
    format!(
        "{}  judged {verdict} · numbers {numbers} · cited {cited}{miss}  {}  {why}",
        clean(&row.id),
        row.answer_id
    )
}

fn yes_no(value: Option<bool>) -> &'static str {
    match value {
        Some(true) => "yes",
        Some(false) => "no",
        None => "–",
    }
}

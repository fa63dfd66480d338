//! `stemma ask`: a question answered from the documents, with citations that were checked.

pub mod show;

use std::sync::Arc;

use stemma_answers::{
    self, Answer, AnswerError, Answerer, Citations, Event, Finding, Limits, Mode, Outcome, Sink,
    StepKind,
};
use stemma_catalog::filter::Filter;
use stemma_engine::Env;
use stemma_query::server::Answering;
use stemma_query::{Librarians, Question, Reader};

use crate::commands::reading::open_indexed;
use crate::context::{CommandError, Context, Exit};
use crate::money::{NANOS, dollars};
use crate::output::{Form, Output, clean};

/// Ask a question; the answer cites pages, and each citation is checked against its page.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A claim is marked verified only where its quotes stand on the cited pages and every number in it in a quote. What is not in the
documents is said to be not there, with where was looked. Without a model, or where it stays away, search answers, and says so.
The same question over the same documents is answered from the store, at no cost.

Examples:
  stemma ask \"What was 3M's capital expenditure in 2022?\"
  stemma ask \"3M risk factors, 2022 vs 2023\" --explain
  stemma ask \"What drove the margin?\" --in 3M_2022_10K --item 7 --show-context
  stemma ask \"Which filings mention cobalt supply?\" --mode agent --budget 0.05
  stemma ask \"capex 2022\" --in /@company/3M --json

Exit codes: 0 answered · 1 not in these documents · 2 usage or error · 4 stopped at a limit · 5 no model answered: what search found.")]
pub struct AskArgs {
    /// The question.
    #[arg(value_name = "QUESTION")]
    question: String,
    #[command(flatten)]
    how: AskHow,
    /// Say how the answer came to be: plan, searches, what was read, what the model thought.
    #[arg(long)]
    explain: bool,
    /// Show the pages that were put before the model.
    #[arg(long)]
    show_context: bool,
}

/// Where and how questions are answered.
#[derive(Debug, Clone, clap::Args)]
pub struct AskHow {
    /// Only from this document, folder or axis path; may be given more than once.
    #[arg(long = "in", value_name = "SCOPE")]
    pub scopes: Vec<String>,
    /// Only from documents for which this holds: `form=10-K and fiscal_year>=2020`, or JSON.
    #[arg(long = "where", value_name = "CONDITIONS", default_value = "")]
    conditions: String,
    /// Only from this Item: 1A, II.1A.
    #[arg(long, value_name = "ITEM")]
    item: Option<String>,
    /// How sections are found: auto, ranked, lexical; with the model: single, best_first, beam, mcts, auto-with-model.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = finding)]
    strategy: Finding,
    /// search: find, then answer; agent: the model calls tools until it knows enough.
    #[arg(long, value_name = "NAME", default_value = "search", value_parser = mode)]
    mode: Mode,
    /// Leave out citations that do not stand on their page.
    #[arg(long)]
    verified_only: bool,
    /// Dollars at most, above none: `0.05` or `$0.05`; needs model.prices.
    #[arg(long, value_name = "USD", value_parser = some_dollars)]
    budget: Option<f64>,
    /// Calls of the model at most.
    #[arg(long, value_name = "N")]
    budget_calls: Option<u32>,
    /// Tokens of prompts and replies at most.
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u32>,
    /// Sections to read at most.
    #[arg(long, value_name = "N")]
    sections: Option<usize>,
}

/// How sections are found, by its name.
///
/// # Errors
/// The names there are.
pub fn finding(name: &str) -> Result<Finding, String> {
    Finding::named(name).ok_or_else(|| format!("one of {}", Finding::names().join(", ")))
}

/// How the model comes to what it reads, by its name.
///
/// # Errors
/// The names there are.
pub fn mode(name: &str) -> Result<Mode, String> {
    Mode::named(name).ok_or_else(|| "one of search, agent".into())
}

impl AskHow {
    /// A question as it is answered.
    ///
    /// # Errors
    /// [`CommandError`] when scope, conditions or Item name nothing.
    pub fn question(
        &self,
        text: &str,
        reader: &Reader,
    ) -> Result<stemma_answers::Question, CommandError> {
        let filter = Filter::parse(&self.conditions).map_err(|error| {
            CommandError::new("search.where", error.to_string())
                .with_next("stemma ask … --where \"form=10-K and fiscal_year>=2020\"")
        })?;
        let scopes = self.scopes.clone();
        let item = self.item.clone();
        let asked = Question {
            text: text.to_owned(),
            scopes,
            filter,
            item,
            ..Question::default()
        };
        let has_no_price = reader
            .reasoner()
            .is_some_and(|reasoner| !reasoner.asker().knows_prices());
        if self.budget.is_some() && has_no_price {
            return Err(CommandError::new(
                "config.no_price",
                "--budget needs the prices of the model, and they are not set",
            )
            .with_next("set model.prices.input and model.prices.output, or use --budget-tokens"));
        }
        let usual = Limits::default();
        let limits = Limits {
            calls: self.budget_calls.unwrap_or(usual.calls),
            tokens: self.budget_tokens.unwrap_or(usual.tokens),
            nanodollars: self.budget.map_or(0, |dollars| (dollars * NANOS) as u64),
            sections: self.sections.unwrap_or(usual.sections),
            ..usual
        };
        let citations = if self.verified_only {
            Citations::Verified
        } else {
            Citations::All
        };
        let strategy = self.strategy;
        let mode = self.mode;
        Ok(stemma_answers::Question {
            strategy,
            mode,
            citations,
            limits,
            ..reader.inquiry(&asked)?
        })
    }
}

/// An amount in dollars that something can be had for.
fn some_dollars(text: &str) -> Result<f64, String> {
    dollars(text).and_then(|amount| {
        if amount >= 1.0 / NANOS {
            Ok(amount)
        } else {
            Err("nothing is answered for nothing".into())
        }
    })
}

/// The archive, opened to answer from.
pub struct Desk {
    /// The documents.
    pub reader: Arc<Reader>,
    answerer: Arc<dyn Answerer>,
}

impl Desk {
    /// Opens the collection with its index.
    ///
    /// # Errors
    /// [`CommandError`] when the store cannot be had.
    pub async fn open(context: &Context) -> Result<Self, CommandError> {
        let store = context.reader().await?;
        let reader = Arc::new(open_indexed(context).await?);
        let answerer = Librarians::new(Env::system(), store.blobs, context.config()?.config.answer)
            .over(&reader);
        Ok(Self { reader, answerer })
    }

    /// Answers, and says nothing on the way.
    ///
    /// # Errors
    /// As [`Desk::answer`].
    pub async fn answer_silently(
        &self,
        question: &stemma_answers::Question,
    ) -> Result<Answer, CommandError> {
        self.answerer
            .answer(question, &mut ())
            .await
            .map_err(refused)
    }

    /// Answers; tells of what is done on the way where someone watches.
    ///
    /// # Errors
    /// [`CommandError`] when there is nothing to answer, or the store could not say.
    pub async fn answer(
        &self,
        question: &stemma_answers::Question,
        output: &Output,
    ) -> Result<Answer, CommandError> {
        let mut watched = Watched { output };
        self.answerer
            .answer(question, &mut watched)
            .await
            .map_err(refused)
    }
}

fn refused(error: AnswerError) -> CommandError {
    match error {
        AnswerError::Find(error) => stemma_query::Refusal::from(error).into(),
        other => CommandError::new(other.code(), other.to_string()),
    }
}

/// Says on the way what takes time.
struct Watched<'a> {
    output: &'a Output,
}

impl Sink for Watched<'_> {
    fn hear(&mut self, event: Event) {
        let Event::Step(step) = event else { return };
        let tells = matches!(
            step.kind,
            StepKind::Plan | StepKind::Tool | StepKind::Refused
        );
        if tells && self.output.is_text() {
            self.output
                .note(&self.output.dim(&format!("  {}", clean(&step.what))));
        }
    }
}

/// Runs the command.
///
/// # Errors
/// [`CommandError`] when there is nothing to answer, or the store could not say.
pub async fn run(args: AskArgs, context: &Context) -> Result<Exit, CommandError> {
    let AskArgs {
        question,
        how,
        explain,
        show_context,
    } = args;
    let desk = Desk::open(context).await?;
    let question = how.question(&question, &desk.reader)?;
    let output = &context.output;
    let answer = desk.answer(&question, output).await?;
    match output.form {
        Form::Text => show::answer(&answer, output),
        Form::Json | Form::JsonLines => output.json(&answer),
    }
    if output.is_text() && explain {
        show::path(&answer, output);
    }
    if output.is_text() && show_context {
        show::context(&answer, &desk.reader, output).await?;
    }
    output.note(&output.dim(&show::footer(&answer, explain)));
    Ok(exit(&answer))
}

/// What an answer comes to.
pub fn exit(answer: &Answer) -> Exit {
    let limited = answer
        .degraded
        .as_ref()
        .is_some_and(|degraded| degraded.code == "answer.limit");
    match answer.outcome {
        Outcome::Answered => Exit::Done,
        // What is not found under a limit may be there.
        Outcome::NotInDocuments | Outcome::SearchOnly if limited => Exit::Stopped,
        Outcome::NotInDocuments => Exit::Nothing,
        Outcome::SearchOnly => Exit::SearchOnly,
    }
}

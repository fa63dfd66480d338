//! `stemma ask`: answers a question from the documents, with checked citations.

pub mod show;

use std::sync::Arc;

use stemma_answers::{
    Answer, AnswerError, AnswerEvent, AnswerLimits, AnswerMode, AnswerOutcome, Answerer,
    AskRequest, EventSink, RetrievalStrategy, StepKind,
};
use stemma_archive::{AnswerRequest, AnswerService, AnswererFactory, Archive, Conversations};
use stemma_store::Env;

use crate::commands::open::index_archive;
use crate::context::Context;
use crate::cost::{nanodollars, no_price, some_dollars};
use crate::error::{CommandError, Exit};
use crate::model_clients;
use crate::output::{Output, clean};

/// Ask a question. The answer cites pages, and each citation is checked against its page.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A claim is verified only if its quotes are on the cited pages and each figure is the cell or the
number of a sentence that it names. If the documents do not contain the answer, the output says so and where it searched.
Without a model, or if it is unreachable, search results are shown. Repeating a question over
unchanged documents returns the stored answer at no cost.

Examples:
  stemma ask \"What was 3M's capital expenditure in 2022?\"
  stemma ask \"3M risk factors, 2022 vs 2023\" --explain
  stemma ask \"What drove the margin?\" --in 3M_2022_10K --item 7 --show-context
  stemma ask \"Which filings mention cobalt supply?\" --mode agent --budget 0.05
  stemma ask \"What does the chart of sales by region show?\" --in 3M_2022_10K --see
  stemma ask \"capex 2022\" --in /@company/3M --json

Exit codes: 0 answered · 1 not in these documents · 2 usage or error · 4 stopped at a limit · 5
search results only.")]
pub struct AskArgs {
    /// The question.
    #[arg(value_name = "QUESTION")]
    question: String,
    #[command(flatten)]
    how: AskOptions,
    /// Explain the answer: plan, searches, sections read, and the model's reasons.
    #[arg(long)]
    explain: bool,
    /// Show the pages sent to the model.
    #[arg(long)]
    show_context: bool,
}

/// Where to search.
#[derive(Debug, Clone, clap::Args)]
pub struct ScopeOptions {
    /// Limit to this document, folder or facet path; repeatable.
    #[arg(long = "in", value_name = "SCOPE")]
    pub scopes: Vec<String>,
    /// Limit to documents that match: `form=10-K and fiscal_year>=2020`, or JSON.
    #[arg(
        long = "where",
        value_name = "FILTER",
        default_value = "",
        hide_default_value = true
    )]
    pub conditions: String,
    /// Limit to this Item: 1A, II.1A.
    #[arg(long, value_name = "ITEM")]
    pub item: Option<String>,
}

/// Options of questions: where to search, how to answer, and limits.
#[derive(Debug, Clone, clap::Args)]
pub struct AskOptions {
    #[command(flatten)]
    pub scope: ScopeOptions,
    /// Search strategy: ranked; with the model: single, best_first, beam, mcts, auto-with-model.
    #[arg(long, value_name = "NAME", default_value = "ranked", value_parser = strategy)]
    strategy: RetrievalStrategy,
    /// search: find sections, then answer; agent: the model calls tools until it can answer; auto: search, then agent for
    /// what is left open.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = mode)]
    mode: AnswerMode,
    /// Show the pictures of the pages of the best passages to the model of vision.model; at most three. A claim that
    /// only a picture supports is marked as read from an image, and never verified.
    #[arg(long)]
    see: bool,
    /// Omit citations that are not found on their page.
    #[arg(long)]
    verified_only: bool,
    /// Cost limit in dollars: `0.05` or `$0.05`. Needs model.prices.
    #[arg(long, value_name = "USD", value_parser = some_dollars)]
    budget: Option<f64>,
    /// Limit on model calls.
    #[arg(long, value_name = "N")]
    budget_calls: Option<u32>,
    /// Limit on tokens of prompts and replies.
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u32>,
    /// Limit on sections to read.
    #[arg(long, value_name = "N")]
    sections: Option<usize>,
}

/// Parses `--strategy`.
pub fn strategy(name: &str) -> Result<RetrievalStrategy, String> {
    RetrievalStrategy::from_name(name)
        .ok_or_else(|| format!("one of {}", RetrievalStrategy::names().join(", ")))
}

/// Parses `--mode`.
pub fn mode(name: &str) -> Result<AnswerMode, String> {
    let names = AnswerMode::ALL.map(AnswerMode::as_str);
    AnswerMode::from_name(name).ok_or_else(|| format!("one of {}", names.join(", ")))
}

impl AskOptions {
    pub fn question(&self, text: &str, reader: &Archive) -> Result<AskRequest, CommandError> {
        Ok(reader.ask_request(&self.request(text, reader)?)?)
    }

    /// The question before its names are resolved.
    pub fn request(&self, text: &str, reader: &Archive) -> Result<AnswerRequest, CommandError> {
        let has_no_price = reader
            .tree_searcher()
            .is_some_and(|reasoner| !reasoner.client().has_prices());
        if self.budget.is_some() && has_no_price {
            let message = "--budget needs the prices of the model, which are not set";
            return Err(no_price(message));
        }
        let usual = AnswerLimits::default();
        let limits = AnswerLimits {
            calls: self.budget_calls.unwrap_or(usual.calls),
            tokens: self.budget_tokens.unwrap_or(usual.tokens),
            nanodollars: self.budget.map_or(0, nanodollars),
            sections: self.sections.unwrap_or(usual.sections),
            ..usual
        };
        Ok(AnswerRequest {
            question: text.to_owned(),
            scopes: self.scope.scopes.clone(),
            filter: Some(self.scope.conditions.as_str().into()),
            item: self.scope.item.clone(),
            strategy: Some(self.strategy.as_str().into()),
            mode: Some(self.mode.as_str().into()),
            citations: self.verified_only.then(|| "verified".into()),
            limits: Some(limits),
            see: self.see,
            ..AnswerRequest::default()
        })
    }
}

/// The archive, opened to answer from.
pub struct AskSession {
    pub reader: Arc<Archive>,
    pub answerer: Arc<dyn Answerer>,
    pub conversations: Conversations,
}

impl AskSession {
    /// Opens the collection with its index.
    pub async fn open(context: &Context) -> Result<Self, CommandError> {
        let store = context.open_store().await?;
        let blobs = Arc::clone(&store.blobs);
        let reader = Arc::new(index_archive(store, context).await?);
        let settings = context.config()?.answer;
        let env = Env::system();
        let limiter = context.config()?.servers.limiter(&env)?;
        let vision = model_clients::vision(context, &env, &limiter, "cli")?;
        let conversations =
            Conversations::new(env.clone(), Arc::clone(&blobs), &context.collection);
        let answers = AnswerService::new(env, blobs, settings);
        let answerer = answers.with_vision(vision).answerer(&reader);
        Ok(Self {
            reader,
            answerer,
            conversations,
        })
    }

    /// Answers, and sends the steps to `events`.
    pub async fn answer(
        &self,
        question: &AskRequest,
        events: &mut dyn EventSink,
    ) -> Result<Answer, CommandError> {
        let answer = self.answerer.answer(question, events).await;
        answer.map_err(|error| match error {
            AnswerError::Search(error) => stemma_archive::ApiError::from(error).into(),
            AnswerError::Timeout { .. } => CommandError::new(error.code(), error.to_string())
                .with_next("raise answer.seconds, or ask in a smaller scope (--in)"),
            other => CommandError::new(other.code(), other.to_string()),
        })
    }
}

/// Prints slow steps as notes.
pub struct ProgressNotes<'a>(pub &'a Output);

impl EventSink for ProgressNotes<'_> {
    fn send(&mut self, event: AnswerEvent) {
        let Self(output) = self;
        if let AnswerEvent::Step(step) = event
            && matches!(
                step.kind,
                StepKind::Plan | StepKind::Tool | StepKind::Refused
            )
            && output.is_text()
        {
            output.note(&output.dim(&format!("  {}", clean(&step.what))));
        }
    }
}

pub async fn run(args: AskArgs, context: &Context) -> Result<Exit, CommandError> {
    let session = AskSession::open(context).await?;
    let question = args.how.question(&args.question, &session.reader)?;
    let output = &context.output;
    let answer = session
        .answer(&question, &mut ProgressNotes(output))
        .await?;
    output.show(&answer, || show::answer(&answer, output));
    if output.is_text() && args.explain {
        show::path(&answer, output);
    }
    if output.is_text() && args.show_context {
        show::context(&answer, &session.reader, output).await?;
    }
    output.note(&output.dim(&show::footer(&answer, args.explain)));
    Ok(exit(&answer))
}

fn exit(answer: &Answer) -> Exit {
    let limited = answer
        .degradation
        .as_ref()
        .is_some_and(|degraded| degraded.code == "answer.limit_reached");
    match answer.outcome {
        AnswerOutcome::Answered => Exit::Done,
        // Under a limit, the answer may exist in what was not searched.
        AnswerOutcome::NotInDocuments | AnswerOutcome::SearchOnly if limited => Exit::Stopped,
        AnswerOutcome::NotInDocuments => Exit::Nothing,
        AnswerOutcome::SearchOnly => Exit::SearchOnly,
    }
}

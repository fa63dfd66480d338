//! `stemma search`: finds the sections for a question.

mod batch;
mod reasoned;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use stemma_answers::RetrievalStrategy;
use stemma_archive::{MAX_LIMIT, SearchFacets, SearchHit, SearchRequest, SearchResponse};
use stemma_retrieval::search::{AppliedFilter, MissingTerm, TotalHits};

use crate::commands::ask;
use crate::commands::format::{excerpt_line, page_or_line_range, short_section_path, show_notes};
use crate::commands::open::open_indexed;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::counted;

/// Find the best sections for a question, optionally with a model.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
An issuer, year, quarter, form or Item in the question narrows the search; the last line shows
what was recognized. `--in` with one document searches only that document.

Operators (docs/guide/search.md):
  \"raw material costs\"     pages with this phrase
  hedging OR swaps         pages with one of them
  -freight                 pages without it (put -- before a query that starts with it)
  title:liquidity          sections with this title, or below it
  company:3M year:2022     documents; also form:, quarter:, ticker:, filed:>=2023-01-01 …

Examples:
  stemma search \"hedging of foreign currency\"
  stemma search \"hedging of foreign currency\" --in /@company/3M --item 7A -n 3
  stemma search '\"raw material costs\" -freight company:3M' --facets
  stemma search \"R&D expense\" --in 3M_2022_10K --json
  stemma search \"capital expenditure\" --where \"form=10-K and fiscal_year>=2020\" --explain
  stemma search \"why did margins fall\" --in 3M_2022_10K --strategy beam --explain
  stemma search \"why did margins fall\" --strategy auto-with-model --budget-calls 8
  stemma search --batch questions.jsonl > answers.jsonl

The strategy ranked asks no model. Of those with a model (docs/guide/search.md), single sends the
whole tree, best_first opens the best section next, beam descends level by level, mcts is a Monte
Carlo tree search, auto-with-model chooses. Earlier replies are reused.

Lines of a batch are {\"id\": …, \"query\": …, \"doc\": …}; omit `doc` to search everything. Each
result is a line {\"id\", \"ranked_pages\": [[document, page], …], \"latency_ms\"}, best page first. A
question that fails has an \"error\" (code, message, line); the others continue, and the exit code
is 3.")]
pub struct SearchArgs {
    /// A question or keywords.
    #[arg(
        value_name = "QUERY",
        required_unless_present = "batch",
        conflicts_with = "batch"
    )]
    query: Option<String>,
    #[command(flatten)]
    scope: ask::ScopeOptions,
    /// Number of sections to show.
    #[arg(short = 'n', long, value_name = "N", default_value_t = NonZeroUsize::MIN.saturating_add(9))]
    limit: NonZeroUsize,
    /// Number of sections to skip, for the next page of results.
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,
    /// Search strategy: ranked; with a model: single, best_first, beam, mcts, auto-with-model.
    #[arg(long, value_name = "NAME", default_value = "ranked", value_parser = ask::strategy)]
    strategy: RetrievalStrategy,
    /// Limit on model calls.
    #[arg(long, value_name = "N")]
    budget_calls: Option<u32>,
    /// Limit on tokens of prompts and replies.
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u64>,
    /// Show how many matching documents each company, form and fiscal year has.
    #[arg(long)]
    facets: bool,
    /// Explain each score, or the model's reasons for each section.
    #[arg(long)]
    explain: bool,
    /// Answer a file of questions, one JSON object per line; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    batch: Option<PathBuf>,
}

pub async fn run(args: SearchArgs, context: &Context) -> Result<Exit, CommandError> {
    check_strategy(&args)?;
    let limit = args.limit.get().min(MAX_LIMIT);
    let request = SearchRequest {
        query: args.query.unwrap_or_default(),
        scopes: args.scope.scopes,
        filter: Some(args.scope.conditions.as_str().into()),
        item: args.scope.item,
        limit: Some(limit),
        skip: args.skip,
        strategy: Some(args.strategy.as_str().into()),
        budget_calls: args.budget_calls,
        budget_tokens: args.budget_tokens,
        explain: args.explain,
        ..SearchRequest::default()
    };
    let reader = open_indexed(context).await?;
    if let Some(file) = args.batch {
        return batch::run(&file, &reader, &request, context).await;
    }
    let started = Instant::now();
    let response = reader.search(&request).await?;
    let output = &context.output;
    output.print(&response, &response.hits, || {
        response.hits.iter().for_each(|hit| show(hit, output));
        if args.facets {
            show_facets(&response.facets, output);
        }
    });
    if let Some(reasoning) = &response.reasoning {
        reasoned::show(reasoning, output);
    }
    show_notes(&response.notes, output);
    for line in notes_on_evidence(&response) {
        output.note(&clean(&line));
    }
    let next = response.next_cursor.as_ref().map(|_| args.skip + limit);
    output.note(&output.dim(&footer(&response, next, started.elapsed().as_millis())));
    Ok(Exit::nothing_if(response.hits.is_empty()))
}

// Paging is for strategies without a model, limits are for those with one.
fn check_strategy(args: &SearchArgs) -> Result<(), CommandError> {
    let has_budget = args.budget_calls.is_some() || args.budget_tokens.is_some();
    match args.strategy {
        RetrievalStrategy::TreeSearch(_) if args.skip > 0 => {
            let message = "--skip does not work with a model strategy";
            Err(CommandError::new("search.skip_unsupported", message)
                .with_next("use -n 20 instead, or a strategy without a model"))
        }
        RetrievalStrategy::Ranked if has_budget => {
            let message = "a budget needs a strategy that uses a model";
            Err(CommandError::new("search.budget_unsupported", message)
                .with_next("stemma search … --strategy auto-with-model"))
        }
        _ => Ok(()),
    }
}

fn show(hit: &SearchHit, output: &Output) {
    let place = match hit.best_pages.first() {
        // In a long section, the best page is more useful than the page range.
        Some(best) if hit.pages.is_some_and(|(start, end)| end > start + 1) => {
            let label = best.label.as_ref();
            let label = label.map_or_else(String::new, |label| format!(", printed {label}"));
            let range = page_or_line_range(hit.pages, None);
            format!("{range} (best p {}{label})", best.page)
        }
        _ => page_or_line_range(hit.pages, hit.lines),
    };
    let rank = hit.rank;
    let score = hit.score;
    let locator = output.bold(&clean(&hit.locator));
    let path = short_section_path(&hit.path);
    let place = clean(&place);
    output.line(&format!("{rank:>2} {locator}  {path}  {place}  {score:.2}"));
    if !hit.excerpt.text.is_empty() {
        let excerpt = &hit.excerpt;
        output.line(&excerpt_line(output, &excerpt.text, &excerpt.highlights));
    }
    if !hit.parts.is_empty() {
        let mut parts: Vec<_> = hit.parts.iter().collect();
        parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        let parts = parts
            .iter()
            .map(|(part, value)| format!("{part} {value:.1}"));
        let parts = parts.collect::<Vec<_>>().join(" + ");
        output.line(&output.dim(&format!("   {} = {parts}", clean(&hit.why))));
    }
}

// `form  10-K 12 · 10-Q 3`: documents with a hit among the candidates.
fn show_facets(facets: &SearchFacets, output: &Output) {
    let prefix = match facets.total {
        TotalHits::Exact(_) => "",
        TotalHits::AtLeast { .. } => "at least ",
    };
    let total = counted(facets.total.at_least(), "document");
    output.line(&output.dim(&format!("{prefix}{total} with a match:")));
    for facet in &facets.facets {
        let mut values: Vec<String> = facet
            .values
            .iter()
            .map(|value| format!("{} {}", clean(&value.value), value.documents))
            .collect();
        let more = facet.distinct - facet.values.len();
        values.extend((more > 0).then(|| format!("{more} more")));
        values.extend((facet.without > 0).then(|| format!("unknown {}", facet.without)));
        output.line(&format!("   {:<12}{}", facet.field, values.join(" · ")));
    }
}

// What the query asks about and no document has, and names that were understood in spite of a typo.
fn notes_on_evidence(view: &SearchResponse) -> Vec<String> {
    let corrected = view.routed.iter().filter(|filter| filter.did_you_mean);
    let mut notes: Vec<String> = corrected
        .map(|AppliedFilter { from, value, .. }| {
            format!("no issuer is called {from}: did you mean {value}?")
        })
        .collect();
    let missing = view.missing_terms.as_deref().unwrap_or_default();
    notes.extend(missing.iter().map(MissingTerm::to_string));
    if view.low_evidence == Some(true) && missing.is_empty() {
        notes.push(
            "low evidence: the best passages have little of what the query asks about".into(),
        );
    }
    notes
}

fn footer(view: &SearchResponse, next: Option<usize>, millis: u128) -> String {
    let searched = &view.searched;
    let documents = searched.documents;
    let all = searched.documents_in_scope;
    let documents = match documents < all {
        true => format!("routed to {documents} of {all} documents"),
        false => counted(documents, "document"),
    };
    let narrowing = filters(view, "by", true);
    let preferred = filters(view, "· preferred", false);
    let sections = counted(searched.sections, "section");
    let prefix = if view.hits.is_empty() {
        "nothing found · "
    } else {
        ""
    };
    let more = next.map_or(String::new(), |next| format!(" · more with --skip {next}"));
    let model = view
        .reasoning
        .as_ref()
        .map_or("no model".into(), reasoned::cost);
    format!("{prefix}{documents}{narrowing}{preferred} · {sections} · {millis} ms · {model}{more}")
}

// What was recognized in the query: conditions that narrow the search, or values that are preferred.
fn filters(view: &SearchResponse, label: &str, narrows: bool) -> String {
    let filters = view
        .routed
        .iter()
        .filter(|filter| filter.narrows == narrows)
        .map(|filter| {
            let count = filter.documents.filter(|_| !narrows);
            let count = count.map(|count| format!(" ({})", counted(count, "document")));
            let value = clean(&filter.value);
            format!("{}: {value}{}", filter.facet, count.unwrap_or_default())
        });
    match filters.collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        filters => format!(" {label} {}", filters.join(", ")),
    }
}

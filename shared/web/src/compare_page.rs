//! Two filings side by side, section by section.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use stemma_archive::{
    ChangedSentence, CompareRequest, ComparedSide, Comparison, PairedSection, RewordedSentence,
    SectionPair, shell_quoted,
};
use stemma_gateway::AppState;
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::problem::Problem;

use crate::context::PageContext;
use crate::layout::Head::{Number, Text};
use crate::layout::{Screen, collection_field, page, table};
use crate::problem_page::problem_text;
use crate::text::{Line, Passage, grouped};
use crate::word_changes::{Change, word_changes};

const PAIRS: usize = 50;
const SENTENCES: usize = 5;
const OUTCOMES: [&str; 4] = ["modified", "added", "removed", "unchanged"];

/// `GET /compare`
pub(crate) async fn compare(
    State(state): State<AppState>,
    permit: RequestPermit,
    context: PageContext,
) -> Result<Response, Problem> {
    let compared = match context.param("right") {
        None => None,
        Some(right) => {
            permit.upgrade_to_long().await?; // reads the text of two documents
            let archive = context.archive(&state)?;
            let compared = archive.compare(&request(&context, right)).await;
            Some(compared.map_err(Problem::from))
        }
    };
    let [(_, left), (_, right)] = context.params(["left", "right"]);
    let elsewhere = match &compared {
        Some(Ok(compared)) => {
            let [left, right] = [&compared.left, &compared.right].map(|side| side.locator.as_str());
            let body = serde_json::json!({ "left": left, "right": right }).to_string();
            let request = context.request("/v1/comparisons", &[]);
            vec![
                context.command(&["diff", left, right]),
                format!("{request} --json {}", shell_quoted(&body)),
            ]
        }
        _ => Vec::new(),
    };
    let body = html! {
        h1 { "Compare" }
        form.compare method="get" action="/compare" {
            (collection_field(&context))
            label { "Earlier filing" input type="text" name="left" value=(left) placeholder="the filing before it"; }
            label { "Later filing" input type="text" name="right" value=(right) placeholder="3M_2022_10K" required; }
            label { "Item" input type="text" name="item" value=[context.param("item")] placeholder="all" size="6"; }
            button type="submit" { "Compare" }
        }
        @match &compared {
            Some(Ok(compared)) => (comparison(&context, compared)),
            // The form keeps what was entered.
            Some(Err(problem)) => div.remarks role="alert" { (problem_text(problem)) },
            None => p.note { "Name documents as the archive lists them. Without an earlier one, the previous filing is used." },
        }
    };
    let mut response = page(
        &context,
        Some(Screen::Compare),
        "Compare",
        &body,
        &elsewhere,
    );
    if let Some(Err(problem)) = &compared {
        *response.status_mut() = problem.status();
    }
    Ok(response)
}

fn request(context: &PageContext, right: &str) -> CompareRequest {
    let outcomes = match context.owned_param("outcome") {
        // Unchanged sections say nothing; they are there on request.
        None => OUTCOMES[..3].iter().map(ToString::to_string).collect(),
        Some(outcome) => vec![outcome],
    };
    CompareRequest {
        left: context.owned_param("left"),
        right: right.to_owned(),
        item: context.owned_param("item"),
        outcomes,
        sentences: Some(SENTENCES),
        limit: Some(PAIRS),
        cursor: context.owned_param("cursor"),
        ..CompareRequest::default()
    }
}

fn compare_url(context: &PageContext, changes: &[(&str, &str)]) -> String {
    let params = context.params(["left", "right", "item", "outcome"]);
    context.changed_url("/compare", params, changes)
}

fn comparison(context: &PageContext, compared: &Comparison) -> Markup {
    let counts = &compared.counts;
    let counted = [
        counts.modified,
        counts.added,
        counts.removed,
        counts.unchanged,
    ];
    html! {
        p.facts {
            @if let Some(changed) = compared.changed.changed { span { (percent(changed)) " of the words changed" } }
            span { (grouped(counts.renamed)) " renamed" } span { (grouped(counts.moved)) " moved" }
        }
        @for note in &compared.notes { p.remarks { (Passage(note)) } }
        ul.chips aria-label="Outcomes" {
            li { a.chip href=(compare_url(context, &[("outcome", "")])) aria-current=[context.param("outcome").is_none().then_some("true")] { "All changes" } }
            @for (outcome, count) in OUTCOMES.into_iter().zip(counted) { li {
                a.chip href=(compare_url(context, &[("outcome", outcome)])) aria-current=[(context.param("outcome") == Some(outcome)).then_some("true")] { (outcome) " " (grouped(count)) }
            } }
        }
        @if !compared.items.is_empty() { (items(context, compared)) }
        div.sides aria-hidden="true" { strong { (Line(&compared.left.document.name)) } strong { (Line(&compared.right.document.name)) } }
        @for (at, pair) in compared.pairs.iter().enumerate() { (pair_entry(context, compared, at, pair)) }
        @if compared.pairs.is_empty() { p { "No section has this outcome." } }
        @if let Some(cursor) = &compared.next_cursor { nav.pages aria-label="Pages of changes" {
            a.button rel="next" href=(compare_url(context, &[("cursor", cursor)])) { "More changes" }
        } }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn items(context: &PageContext, compared: &Comparison) -> Markup {
    html! {
        h2 { "Changes by Item" }
        (table("Changes by Item", &[Text("Item"), Number("Words before"), Number("Words after"), Number("Changed")], &html! { @for item in &compared.items {
                @let section = item.right.as_ref().or(item.left.as_ref());
                tr {
                    th scope="row" { @if let Some(section) = section { a href=(context.document_url(&section.section.locator, &[])) { bdi { (Line(&section.section.title)) } } } }
                    td.number { (grouped(item.churn.left_words)) } td.number { (grouped(item.churn.right_words)) }
                    td.number { @if let Some(changed) = item.churn.changed { (percent(changed)) } }
                }
            } }))
    }
}

fn pair_entry(
    context: &PageContext,
    compared: &Comparison,
    at: usize,
    pair: &SectionPair,
) -> Markup {
    let next = (at + 1 < compared.pairs.len()).then(|| format!("#change-{}", at + 1));
    html! {
        article.pair id=(format!("change-{at}")) aria-label=(format!("Change {}", at + 1)) {
            div.sides {
                (side_head(context, &compared.left, pair.left.as_ref()))
                (side_head(context, &compared.right, pair.right.as_ref()))
            }
            p.note {
                span.badge data-outcome=(pair.outcome.as_str()) { (pair.outcome.as_str()) }
                @if pair.renamed { " " span.badge { "renamed" } } @if pair.moved { " " span.badge { "moved" } }
                @if let Some(similarity) = pair.similarity { " " (percent(similarity)) " of the words are in both" }
                @if let Some(instead) = &pair.stands_in { " · most of its text is in " a href=(context.document_url(instead, &[])) { (Line(instead)) } }
                @if let Some(next) = next { " · " a.next-change href=(next) { "Next change" } }
            }
            @for sentence in &pair.reworded { (both_wordings(sentence)) }
            @for sentence in &pair.removed { div.sides { (quote("removed", sentence)) div {} } }
            @for sentence in &pair.added { div.sides { div {} (quote("added", sentence)) } }
        }
    }
}

fn side_head(
    context: &PageContext,
    side: &ComparedSide,
    section: Option<&PairedSection>,
) -> Markup {
    html! { div {
        @match section {
            Some(section) => h3 { a href=(context.document_url(&section.section.locator, &[])) { bdi { (Line(&section.section.title)) } } },
            None => p.note { "not in " (Line(&side.document.name)) },
        }
    } }
}

fn quote(kind: &str, sentence: &ChangedSentence) -> Markup {
    let is_removed = kind == "removed";
    html! { blockquote class=(kind) {
        @if is_removed { del { (Passage(&sentence.text)) } } @else { ins { (Passage(&sentence.text)) } }
        @if let Some(page) = sentence.page { " " span.note { "p " (page) } }
    } }
}

fn both_wordings(sentence: &RewordedSentence) -> Markup {
    let changes = word_changes(&sentence.left.text, &sentence.right.text);
    html! { div.sides {
        blockquote { @for change in &changes { @match change {
            Change::Same(words) => { (Passage(words)) " " }
            Change::Removed(words) => { del { (Passage(words)) } " " }
            Change::Added(_) => {}
        } } }
        blockquote { @for change in &changes { @match change {
            Change::Same(words) => { (Passage(words)) " " }
            Change::Added(words) => { ins { (Passage(words)) } " " }
            Change::Removed(_) => {}
        } } }
    } }
}

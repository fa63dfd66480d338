//! `ask`: answers a question with verified citations. Only available if a model is configured.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{Resource, Tool, ToolAnnotations};
use serde_json::{Value, json};
use stemma_answers::{AnswerError, AnswerOutcome, Answerer, QuoteMatch};
use stemma_archive::AnswerRequest;
use stemma_archive::pageindex_fields::is_root;

use crate::arguments::Arguments;
use crate::error::{ToolError, ToolErrorKind};
use crate::tool_context::{ToolContext, link, page_address, section_address};
use crate::tool_result::{ToolResult, delimited};
use crate::tools::{items, read_only_tool};

pub(crate) const NAME: &str = "ask";
// Clients may time out after 20 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(17);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const RETRY_HINT: &str =
    "Call ask(question: …) again: an answer that was given is told at once, under its id";
const MAX_LINKS: usize = 5;

pub(crate) fn tool() -> Tool {
    let takes = json!({
        "question": { "type": "string" },
        "scope": { "type": "string", "description": "document, part (…#item-7), folder or axis path" },
        "answer_id": { "type": "string", "description": "instead of a question" },
    });
    let gives = json!({
        "answer_id": { "type": "string" },
        "status": { "type": "string", "description": "answered, not_in_documents, search_only, running" },
        "answer": { "type": "string" },
        "citations": items(json!({})),
    });
    let about = "Answer a question from the documents; each claim with a citation checked against its page.";
    // Not read-only: the call costs money and stores the answer, although it changes no document.
    let annotations = ToolAnnotations::new()
        .read_only(false)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    read_only_tool(NAME, about, takes, &[], gives).with_annotations(annotations)
}

pub(crate) async fn call(
    call: &mut ToolContext<'_>,
    mut arguments: Arguments,
) -> Result<ToolResult, ToolError> {
    let text = arguments.non_numeric_text("question")?;
    let id = arguments.text("answer_id")?;
    let scope = arguments.text("scope")?.filter(|scope| !is_root(scope));
    arguments.reject_unknown()?;
    let answerer = call.answerer()?;
    match (text, id) {
        (Some(text), None) => start_answer(call, &answerer, text, scope).await,
        (None, Some(id)) => wait_for_answer(call, &answerer, &id).await,
        _ => Err(ToolError::invalid(
            "say `question`, or `answer_id` of an answer that was not ready",
        )),
    }
}

// Generation continues if the call times out, so that a later call finds the answer.
async fn start_answer(
    call: &ToolContext<'_>,
    answerer: &Arc<dyn Answerer>,
    text: String,
    scope: Option<String>,
) -> Result<ToolResult, ToolError> {
    let began_ms = call.env.now_ms();
    let place = call.acquire_model_permit().await?;
    let question = AnswerRequest {
        question: text,
        scopes: scope.into_iter().collect(),
        ..AnswerRequest::default()
    };
    let question = call.archive.ask_request(&question)?;
    let id = answerer.answer_id(&question);
    let answering = Arc::clone(answerer);
    let answering = async move {
        let _place = place;
        answering.answer(&question, &mut ()).await
    };
    let mut answer = call.env.spawn(answering); // detached: ends with the answer
    let waited = Duration::from_millis(call.env.now_ms().saturating_sub(began_ms));
    let looks = ANSWER_TIMEOUT.saturating_sub(waited).as_millis() / POLL_INTERVAL.as_millis();
    for look in 0..looks {
        match tokio::time::timeout(POLL_INTERVAL, &mut answer).await {
            Ok(Ok(Ok(answer))) => return Ok(answer_result(&answer)),
            Ok(Ok(Err(error))) => return Err(answer_error(error)),
            Ok(Err(_)) => return Err(answer_error(AnswerError::Internal)),
            Err(_) => progress(call, look, looks).await,
        }
    }
    Ok(running(&id))
}

// The answer may have been started by another call or another process.
async fn wait_for_answer(
    call: &ToolContext<'_>,
    answerer: &Arc<dyn Answerer>,
    id: &str,
) -> Result<ToolResult, ToolError> {
    let looks = ANSWER_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis();
    for look in 0..looks {
        // Check `is_in_flight` before the store: an answer that finishes in between is already stored.
        let making = answerer.is_in_flight(id);
        match answerer.stored(id).await {
            Ok(Some(answer)) => return Ok(answer_result(&answer)),
            Ok(None) if !making => {
                let message = "there is no answer of this id, and none is being made here";
                return Err(
                    ToolError::new(ToolErrorKind::NotFound, "answer.unknown", message)
                        .with_option(RETRY_HINT),
                );
            }
            Ok(None) => progress(call, look, looks).await,
            Err(error) => return Err(answer_error(error)),
        }
        call.env.sleep(POLL_INTERVAL).await;
    }
    Ok(running(id))
}

async fn progress(call: &ToolContext<'_>, look: u128, looks: u128) {
    if look % 8 == 7 {
        call.report_progress(look as f64 / looks as f64, "the answer is being made")
            .await;
    }
}

fn running(id: &str) -> ToolResult {
    let data = json!({ "answer_id": id, "status": "running" });
    ToolResult::new(data, "The answer is still being made")
        .with_option(format!("Call {NAME}(answer_id: \"{id}\") in some seconds"))
}

fn answer_error(error: AnswerError) -> ToolError {
    match error {
        AnswerError::Search(error) => error.into(),
        AnswerError::Question { message, .. } => ToolError::invalid(message),
        AnswerError::Timeout { .. } => {
            ToolError::new(ToolErrorKind::Internal, "answer.timeout", error.to_string())
        }
        AnswerError::Internal => ToolError::new(
            ToolErrorKind::Internal,
            "answer.failed",
            "the answer could not be made",
        ),
    }
}

fn answer_result(answer: &stemma_answers::Answer) -> ToolResult {
    let citation = |citation: &stemma_answers::Citation| {
        json!({
            "id": citation.id, "doc_id": citation.doc_id, "name": citation.name, "section_id": citation.section_id,
            "path": citation.path, "page": citation.page, "page_label": citation.page_label, "quote": citation.quote,
            "verified": citation.verified, "locator": citation.locator,
        })
    };
    let citations: Vec<Value> = answer.citations.iter().map(citation).collect();
    let data = json!({
        "answer_id": answer.id,
        "status": answer.outcome,
        "answer": answer.text,
        "citations": citations,
        "claims": answer.claims,
        "degraded": answer.degradation,
        "confidence": answer.confidence,
    });
    let verified = answer.claims.iter().filter(|claim| claim.verified).count();
    let summary = match (answer.outcome, &answer.degradation) {
        (AnswerOutcome::Answered, _) => {
            format!("{verified} of {} claims verified", answer.claims.len())
        }
        (_, Some(degraded)) => degraded.message.clone(),
        _ => "Not in these documents".into(),
    };
    let mark = |verified: QuoteMatch| {
        if verified.is_verbatim() {
            "stands there"
        } else {
            verified.as_str()
        }
    };
    let sources: Vec<String> = match answer.outcome {
        AnswerOutcome::Answered => answer
            .citations
            .iter()
            .map(|citation: &stemma_answers::Citation| {
                format!(
                    "[{}] {} ({}): {}",
                    citation.id,
                    citation.locator,
                    mark(citation.verified),
                    citation.quote
                )
            })
            .collect(),
        _ => answer
            .sections
            .iter()
            .map(|section| section.locator.clone())
            .collect(),
    };
    let body = format!(
        "{}\n{}",
        answer.text,
        delimited("citations", &sources.join("\n"))
    );
    ToolResult::new(data, summary)
        .text_body(body)
        .resources(links(answer))
}

fn links(answer: &stemma_answers::Answer) -> Vec<Resource> {
    answer
        .citations
        .iter()
        .filter_map(|citation: &stemma_answers::Citation| {
            let doc = citation.doc_id.parse().ok()?;
            let address = citation.page.map_or_else(
                || section_address(doc, &citation.section_id),
                |page| page_address(doc, page),
            );
            Some(link(address, &citation.locator))
        })
        .take(MAX_LINKS)
        .collect()
}

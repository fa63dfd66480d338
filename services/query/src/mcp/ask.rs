//! `ask`: a question answered in words, with citations that were checked; only where a model is configured.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{Resource, Tool, ToolAnnotations};
use serde_json::{Value, json};
use stemma_answers::{self, AnswerError, Answerer, Outcome, Verified};

use super::answer::{Answer, fence};
use super::arguments::Arguments;
use super::call::{Call, is_root, link, page_address, section_address};
use super::failure::{Failure, Kind};
use super::tools::{items, reading};
use crate::Question;

pub(super) const NAME: &str = "ask";
/// How long a call waits for an answer, below the 20 s after which clients may give up.
const WAIT: Duration = Duration::from_secs(17);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// What to do where there is no answer of an id.
const AGAIN: &str =
    "Call ask(question: …) again: an answer that was given is told at once, under its id";
/// Citations linked to.
const MAX_LINKS: usize = 5;

/// How it is announced.
pub(super) fn tool() -> Tool {
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
    // It spends, and keeps the answer: that is no reading, though it changes no document.
    let annotations = ToolAnnotations::new()
        .read_only(false)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    reading(NAME, about, takes, &[], gives).with_annotations(annotations)
}

/// Calls it.
pub(super) async fn call(call: &mut Call<'_>, mut arguments: Arguments) -> Result<Answer, Failure> {
    let text = arguments.words("question")?;
    let id = arguments.text("answer_id")?;
    let scope = arguments.text("scope")?.filter(|scope| !is_root(scope));
    arguments.none_left()?;
    let answerer = call.answerer()?;
    match (text, id) {
        (Some(text), None) => asked(call, &answerer, text, scope).await,
        (None, Some(id)) => made(call, &answerer, &id).await,
        _ => Err(Failure::invalid(
            "say `question`, or `answer_id` of an answer that was not ready",
        )),
    }
}

/// Asks, and waits; the answer is made to its end also where no one waits for it any more.
async fn asked(
    call: &Call<'_>,
    answerer: &Arc<dyn Answerer>,
    text: String,
    scope: Option<String>,
) -> Result<Answer, Failure> {
    let began_ms = call.env.now_ms();
    let place = call.ask().await?;
    let question = Question {
        text,
        scopes: scope.into_iter().collect(),
        ..Question::default()
    };
    let question = call.reader.inquiry(&question)?;
    let id = answerer.id_of(&question);
    let answering = Arc::clone(answerer);
    let answering = async move {
        let _place = place;
        answering.answer(&question, &mut ()).await
    };
    let mut answer = call.env.spawn(answering); // ends with the answer
    let waited = Duration::from_millis(call.env.now_ms().saturating_sub(began_ms));
    let looks = WAIT.saturating_sub(waited).as_millis() / LOOK_EVERY.as_millis();
    for look in 0..looks {
        match tokio::time::timeout(LOOK_EVERY, &mut answer).await {
            Ok(Ok(Ok(answer))) => return Ok(told(&answer)),
            Ok(Ok(Err(error))) => return Err(failed(error)),
            Ok(Err(_)) => return Err(failed(AnswerError::Broken)),
            Err(_) => progress(call, look, looks).await,
        }
    }
    Ok(running(&id))
}

/// Waits for an answer that was begun before, by this process or another.
async fn made(call: &Call<'_>, answerer: &Arc<dyn Answerer>, id: &str) -> Result<Answer, Failure> {
    let looks = WAIT.as_millis() / LOOK_EVERY.as_millis();
    for look in 0..looks {
        // In this order: what ends in between is stored.
        let making = answerer.is_making(id);
        match answerer.stored(id).await {
            Ok(Some(answer)) => return Ok(told(&answer)),
            Ok(None) if !making => {
                let message = "there is no answer of this id, and none is being made here";
                return Err(Failure::new(Kind::NotFound, "answer.unknown", message).option(AGAIN));
            }
            Ok(None) => progress(call, look, looks).await,
            Err(error) => return Err(failed(error)),
        }
        call.env.sleep(LOOK_EVERY).await;
    }
    Ok(running(id))
}

async fn progress(call: &Call<'_>, look: u128, looks: u128) {
    if look % 8 == 7 {
        call.tell(look as f64 / looks as f64, "the answer is being made")
            .await;
    }
}

fn running(id: &str) -> Answer {
    let data = json!({ "answer_id": id, "status": "running" });
    Answer::new(data, "The answer is still being made")
        .option(format!("Call {NAME}(answer_id: \"{id}\") in some seconds"))
}

fn failed(error: AnswerError) -> Failure {
    match error {
        AnswerError::Find(error) => error.into(),
        AnswerError::Question { message, .. } => Failure::invalid(message),
        AnswerError::Late { .. } => {
            Failure::new(Kind::Internal, "answer.timeout", error.to_string())
        }
        AnswerError::Broken => Failure::new(
            Kind::Internal,
            "answer.failed",
            "the answer could not be made",
        ),
    }
}

fn told(answer: &stemma_answers::Answer) -> Answer {
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
        "degraded": answer.degraded,
        "confidence": answer.confidence,
    });
    let verified = answer.claims.iter().filter(|claim| claim.verified).count();
    let summary = match (answer.outcome, &answer.degraded) {
        (Outcome::Answered, _) => format!("{verified} of {} claims verified", answer.claims.len()),
        (_, Some(degraded)) => degraded.message.clone(),
        _ => "Not in these documents".into(),
    };
    let mark = |verified: Verified| {
        if verified.stands() {
            "stands there"
        } else {
            verified.as_str()
        }
    };
    let found: Vec<String> = match answer.outcome {
        Outcome::Answered => answer
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
    let body = format!("{}\n{}", answer.text, fence("citations", &found.join("\n")));
    Answer::new(data, summary).body(body).links(links(answer))
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

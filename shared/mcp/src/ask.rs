//! `ask`: answers a question with verified citations. Only available if a model is configured.

use std::sync::Arc;
use std::time::Duration;

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::Resource;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use stemma_answers::{
    Answer, AnswerError, AnswerOutcome, Answerer, AskRequest, Citation, Claim, Degradation,
    FinalAnswer,
};
use stemma_archive::pageindex_fields::is_root;
use stemma_archive::{AnswerRequest, ApiError};
use stemma_store::work::outliving;

use crate::arguments::Names;
use crate::error::{ToolError, ToolErrorKind};
use crate::tool_context::{ToolContext, link, page_address, section_address};
use crate::tool_result::{ToolOutcome, ToolResult, delimited};

// Clients may time out after 20 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(17);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
const POLLS_PER_REPORT: u128 = 8;
const RETRY_HINT: &str =
    "Call ask(question: …) again: a finished answer is returned at once, under its id";
const MAX_LINKS: usize = 5;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct AskArguments {
    #[schemars(extend("x-text-only" = true))]
    question: Option<String>,
    /// document, part (…#item-7), folder or axis path
    #[serde(default)]
    #[schemars(with = "Option<String>", extend("x-names" = true))]
    scope: Names,
    /// instead of a question
    answer_id: Option<String>,
    /// look at the pictures of the best pages, too
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    see: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct AskOutput {
    answer_id: String,
    /// answered, not_in_documents, search_only, running
    #[schemars(with = "String")]
    status: Value,
    // Absent while the answer is generated.
    #[serde(flatten)]
    finished: Option<FinishedAnswer>,
}

#[derive(Serialize, JsonSchema)]
struct FinishedAnswer {
    answer: String,
    /// value, period, criterion of a judgement, verified
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    final_answer: Option<FinalAnswer>,
    /// parts of the question that what was read does not answer
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<String>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    citations: Vec<Value>,
    #[schemars(skip)]
    claims: Vec<Claim>,
    #[schemars(skip)]
    degraded: Option<Degradation>,
    #[schemars(skip)]
    confidence: Option<f64>,
}

#[tool_router(router = ask_router, vis = "pub(crate)")]
impl ToolContext {
    // Not read-only: the call costs money and stores the answer, although it changes no document.
    #[tool(
        description = "Answer a question from the documents; each claim with a citation checked against its page.",
        annotations(read_only_hint = false, destructive_hint = false, idempotent_hint = true, open_world_hint = false),
        output_schema = schema_for_output::<AskOutput>()
    )]
    async fn ask(&self, Parameters(arguments): Parameters<AskArguments>) -> ToolOutcome<AskOutput> {
        let answerer = self.answerer()?;
        match (arguments.question, arguments.answer_id) {
            (Some(question), None) => {
                let mut scopes = arguments.scope.0;
                if scopes.iter().any(|scope| is_root(scope)) {
                    scopes.clear();
                }
                let request = self.archive.ask_request(&AnswerRequest {
                    question,
                    scopes,
                    see: arguments.see,
                    ..AnswerRequest::default()
                })?;
                self.start_answer(&answerer, request).await
            }
            (None, Some(id)) => self.wait_for_answer(&answerer, &id).await,
            _ => Err(ToolError::invalid(
                "give a `question`, or the `answer_id` of an answer that was not ready",
            )),
        }
    }
}

impl ToolContext {
    // Generation continues if the call times out, so that a later call finds the answer.
    async fn start_answer(
        &self,
        answerer: &Arc<dyn Answerer>,
        request: AskRequest,
    ) -> ToolOutcome<AskOutput> {
        let began_ms = self.env.now_ms();
        let permit = self.acquire_model_permit().await?;
        answerer.check(&request).map_err(answer_error)?;
        let id = answerer.answer_id(&request)?;
        let answerer = Arc::clone(answerer);
        let generation = async move {
            let _permit = permit;
            answerer.answer(&request, &mut ()).await
        };
        let mut answer = self.env.spawn(outliving(generation)); // detached: ends with the answer
        let waited = Duration::from_millis(self.env.now_ms().saturating_sub(began_ms));
        let polls = ANSWER_TIMEOUT.saturating_sub(waited).as_millis() / POLL_INTERVAL.as_millis();
        for poll in 0..polls {
            match tokio::time::timeout(POLL_INTERVAL, &mut answer).await {
                Ok(Ok(Ok(answer))) => return Ok(finished_result(&answer)),
                Ok(Ok(Err(error))) => return Err(answer_error(error)),
                Ok(Err(_)) => return Err(answer_error(AnswerError::Internal)),
                Err(_) => self.report_generation(poll, polls).await,
            }
        }
        Ok(running_result(id))
    }

    // The answer may have been started by another call or another process.
    async fn wait_for_answer(
        &self,
        answerer: &Arc<dyn Answerer>,
        id: &str,
    ) -> ToolOutcome<AskOutput> {
        let polls = ANSWER_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis();
        for poll in 0..polls {
            // Check `is_in_flight` before the store: an answer that finishes in between is already stored.
            let is_in_flight = answerer.is_in_flight(id);
            match answerer.stored(id).await {
                Ok(Some(answer)) => return Ok(finished_result(&answer)),
                Ok(None) if !is_in_flight => {
                    let message =
                        "there is no answer with this id, and none is being generated here";
                    return Err(
                        ToolError::not_found("answer.unknown", message).with_option(RETRY_HINT)
                    );
                }
                Ok(None) => self.report_generation(poll, polls).await,
                Err(error) => return Err(answer_error(error)),
            }
            self.env.sleep(POLL_INTERVAL).await;
        }
        Ok(running_result(id.to_owned()))
    }

    async fn report_generation(&self, poll: u128, polls: u128) {
        if (poll + 1).is_multiple_of(POLLS_PER_REPORT) {
            self.report_progress(poll as f64 / polls as f64, "the answer is being generated")
                .await;
        }
    }
}

fn running_result(id: String) -> ToolResult<AskOutput> {
    let next_step = format!("Call ask(answer_id: \"{id}\") in a few seconds");
    let data = AskOutput {
        answer_id: id,
        status: json!("running"),
        finished: None,
    };
    ToolResult::new(data, "The answer is still being generated").with_option(next_step)
}

fn answer_error(error: AnswerError) -> ToolError {
    match error {
        AnswerError::Search(error) => ApiError::from(error).into(),
        AnswerError::Question { message, .. } => ToolError::invalid(message),
        error => ToolError::new(ToolErrorKind::Internal, error.code(), error.to_string()),
    }
}

fn finished_result(answer: &Answer) -> ToolResult<AskOutput> {
    let is_answered = answer.outcome == AnswerOutcome::Answered;
    let summary = match &answer.degradation {
        _ if is_answered => {
            let supported = answer.claims.iter().filter(|claim| claim.is_supported());
            format!(
                "{} of {} claims found on their pages",
                supported.count(),
                answer.claims.len()
            )
        }
        Some(degradation) => degradation.message.clone(),
        None => "Not in these documents".into(),
    };
    let sources: Vec<String> = match is_answered {
        true => answer.citations.iter().map(source_line).collect(),
        false => {
            let sections = &answer.sections;
            sections
                .iter()
                .map(|section| section.locator.clone())
                .collect()
        }
    };
    let sources = delimited("citations", &sources.join("\n"));
    let data = AskOutput {
        answer_id: answer.id.clone(),
        status: json!(answer.outcome),
        finished: Some(FinishedAnswer {
            answer: answer.text.clone(),
            final_answer: answer.final_answer.clone(),
            missing: answer.missing.clone(),
            citations: answer.citations.iter().map(citation_json).collect(),
            claims: answer.claims.clone(),
            degraded: answer.degradation.clone(),
            confidence: answer.confidence,
        }),
    };
    let links = answer.citations.iter().filter_map(citation_link);
    ToolResult::new(data, summary)
        .with_text(format!("{}\n{sources}", answer.text))
        .with_links(links.take(MAX_LINKS))
}

fn source_line(citation: &Citation) -> String {
    let verified = if citation.verified.is_verbatim() {
        "on the page"
    } else {
        citation.verified.as_str()
    };
    let origin = citation
        .ocr_confidence
        .map(|confidence| format!(", read by OCR, confidence {confidence}%"))
        .unwrap_or_default();
    format!(
        "[{}] {} ({verified}{origin}): {}",
        citation.id, citation.locator, citation.quote
    )
}

fn citation_json(citation: &Citation) -> Value {
    let mut json = json!({
        "id": citation.id, "doc_id": citation.doc_id, "name": citation.name, "section_id": citation.section_id,
        "path": citation.path, "page": citation.page, "page_label": citation.page_label, "quote": citation.quote,
        "verified": citation.verified, "locator": citation.locator,
    });
    if let Some(confidence) = citation.ocr_confidence {
        json["ocr_confidence"] = confidence.into();
    }
    json
}

fn citation_link(citation: &Citation) -> Option<Resource> {
    let doc = citation.doc_id.parse().ok()?;
    let address = citation.page.map_or_else(
        || section_address(doc, &citation.section_id),
        |page| page_address(doc, page),
    );
    Some(link(address, &citation.locator))
}

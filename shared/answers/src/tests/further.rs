//! What becomes of questions that the first call leaves open.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use stemma_llm::request::LlmRequest;

use super::test_archive::{TestArchive, capex_question, reader_of};
use crate::tree_search::scripted::ScriptedModel as Model;
use crate::{AnswerLimits, AnswerMode, AnswerOutcome, AskRequest, FURTHER_CALLS};

#[tokio::test]
async fn open_questions_are_searched_once_more_and_then_left_to_the_agent() {
    for (words, page, calls, mode) in [
        ("We may fail to retain people", 2, 2, AnswerMode::Search),
        ("We lease zorbs to others", 3, 4, AnswerMode::Agent),
    ] {
        let archive = TestArchive::new();
        let (model, client) = reader_of(words);
        let tools = archive.tools();
        let answer = archive
            .ask_with_tools(client, &tools, &capex_question())
            .await;
        assert_eq!(answer.outcome, AnswerOutcome::Answered, "{answer:?}");
        assert_eq!(answer.mode, mode);
        assert_eq!(answer.citations[0].page, Some(page));
        assert!(answer.claims[0].verified, "{answer:?}");
        assert_eq!(model.requests().len(), calls);
        assert!(
            answer
                .steps
                .iter()
                .any(|step| step.what.contains("looked further"))
        );
    }
}

#[tokio::test]
async fn further_calls_are_bounded_and_a_refusal_is_stored() {
    let archive = TestArchive::new();
    let turn = Arc::new(AtomicU32::new(0));
    let (model, client) = Model::new(move |request: &LlmRequest| {
        let pages = turn.fetch_add(1, Ordering::SeqCst).to_string();
        Ok(match request.schema.name {
            "choose_tool" => json!({ "tool": "get_page_content", "pages": pages, "last": false }),
            _ => json!({ "answerable": false, "claims": [], "confidence": 0 }),
        })
    });
    let tools = archive.tools();
    let refused = archive
        .ask_with_tools(client, &tools, &capex_question())
        .await;
    assert_eq!(refused.outcome, AnswerOutcome::NotInDocuments);
    assert_eq!(refused.degradation, None);
    assert!(model.requests().len() <= 1 + FURTHER_CALLS as usize);
    let (silent, client) = Model::with_replies(&[]);
    let again = archive
        .ask_with_tools(client, &tools, &capex_question())
        .await;
    assert!(again.is_replay && silent.requests().is_empty());
    // Only one call where the mode says so.
    let (model, client) = reader_of("nobody wrote this");
    let question = AskRequest {
        mode: AnswerMode::Search,
        ..capex_question()
    };
    archive.ask_with_tools(client, &tools, &question).await;
    assert_eq!(model.requests().len(), 1);
    // Limits that forbid another call also forbid to say that the documents do not tell.
    let (_, client) = reader_of("nobody wrote this");
    let limits = AnswerLimits {
        calls: 1,
        ..AnswerLimits::default()
    };
    let question = AskRequest {
        limits,
        ..capex_question()
    };
    let limited = archive.ask(client, &question).await;
    assert_eq!(limited.outcome, AnswerOutcome::SearchOnly);
    let code = limited.degradation.map(|degraded| degraded.code);
    assert_eq!(code.as_deref(), Some("answer.limit"));
}

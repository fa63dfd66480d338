//! Agent mode.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use stemma_llm::request::{LlmError, LlmRequest};

use super::test_archive::{TestArchive, capex_claim, capex_question, claim};
use crate::tree_search::scripted::ScriptedModel as Model;
use crate::{AnswerLimits, AnswerMode, AnswerOutcome, AskRequest};

#[tokio::test]
async fn agent_reads_until_answered_and_planner_sees_no_page_text() {
    let archive = TestArchive::new();
    let turn = Arc::new(AtomicU32::new(0));
    let turns = Arc::clone(&turn);
    let (model, client) = Model::new(move |request: &LlmRequest| {
        if request.schema.name == "choose_tool" {
            let call = |tool: &str, pages: &str| json!({ "tool": tool, "pages": pages, "query": "", "document": "3M_2022_10K", "section": "", "item": "", "pattern": "", "why": "w" });
            return Ok(match turns.fetch_add(1, Ordering::SeqCst) {
                0 => call("delete_everything", ""),
                1 => call("answer", ""),
                2 => call("get_page_content", "2"),
                _ => call("answer", ""),
            });
        }
        let there = request.user.contains("retain people");
        let claims = if there {
            json!([claim(
                "We may fail to retain people.",
                &[(3, "We may fail to retain people")]
            )])
        } else {
            json!([])
        };
        Ok(json!({ "answerable": there, "confidence": 1, "claims": claims }))
    });
    let tools = archive.tools();
    let question = AskRequest {
        mode: AnswerMode::Agent,
        ..capex_question()
    };
    let answer = archive.ask_with_tools(client, &tools, &question).await;
    assert_eq!(answer.outcome, AnswerOutcome::Answered);
    assert_eq!(answer.rejected.tool_calls, 1);
    assert_eq!(tools.calls.load(Ordering::SeqCst), 1);
    assert!(answer.claims[0].is_supported(), "{answer:?}");
    assert_eq!(answer.citations[0].page, Some(2));
    for request in model
        .requests()
        .iter()
        .filter(|request| request.schema.name == "choose_tool")
    {
        assert!(
            !request.user.contains("1,749") && !request.user.contains("retain people"),
            "{}",
            request.user
        );
    }
    // The number of turns is bounded.
    let (endless, client) = Model::new(|request: &LlmRequest| {
        Ok(match request.schema.name {
            "choose_tool" => json!({ "tool": "get_page_content", "pages": "1" }),
            _ => json!({ "answerable": false, "claims": [], "confidence": 0 }),
        })
    });
    let question = AskRequest {
        mode: AnswerMode::Agent,
        limits: AnswerLimits {
            turns: 3,
            ..AnswerLimits::default()
        },
        ..AskRequest::new("3M revenue?")
    };
    let answer = archive.ask_with_tools(client, &tools, &question).await;
    assert_eq!(answer.outcome, AnswerOutcome::NotInDocuments);
    assert_eq!(endless.requests().len(), 4);
}

#[tokio::test]
async fn agent_outage_is_not_reported_as_not_in_documents() {
    // A tool call, a draft that does not answer, then one of: model unreachable, unusable replies, exhausted budget.
    for (broken, calls, code) in [
        (Some(401), 16, "model.configuration"),
        (None, 16, "model.reply_unreadable"),
        (None, 2, "answer.limit_reached"),
    ] {
        let archive = TestArchive::new();
        let turn = Arc::new(AtomicU32::new(0));
        let (_, client) = Model::new(move |request: &LlmRequest| {
            let call = |tool: &str| json!({ "tool": tool, "pages": "2" });
            match (turn.fetch_add(1, Ordering::SeqCst), request.schema.name) {
                (0, _) => Ok(call("answer")),
                (_, "answer") if request.user.contains("retain people") => Err(LlmError::Server {
                    status: 500,
                    message: String::new(),
                }),
                (_, "answer") => Ok(json!({ "answerable": false, "claims": [], "confidence": 0 })),
                _ if broken.is_some() => Err(LlmError::Configuration {
                    status: 401,
                    message: "wrong key".into(),
                }),
                _ => Ok(json!({ "tool": "" })),
            }
        });
        let tools = archive.tools();
        let question = AskRequest {
            mode: AnswerMode::Agent,
            limits: AnswerLimits {
                calls,
                ..AnswerLimits::default()
            },
            ..capex_question()
        };
        let answer = archive.ask_with_tools(client, &tools, &question).await;
        let why = answer
            .degradation
            .as_ref()
            .map(|degraded| degraded.code.as_str());
        assert_eq!(answer.outcome, AnswerOutcome::SearchOnly, "{answer:?}");
        assert_eq!(why, Some(code), "{answer:?}");
        // When the model is back, the same question is answered under its own id.
        let (_, client) = Model::new(|request: &LlmRequest| {
            Ok(match request.schema.name {
                "choose_tool" => json!({ "tool": "answer" }),
                _ => {
                    json!({ "answerable": true, "confidence": 1, "claims": [capex_claim()] })
                }
            })
        });
        let again = archive.ask_with_tools(client, &tools, &question).await;
        assert!(
            again.outcome == AnswerOutcome::Answered && !again.is_replay && again.id != answer.id,
            "{again:?}"
        );
        assert_eq!(again.degradation, None);
    }
}

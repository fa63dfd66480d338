//! The tool `ask`, with a simulated model.

use serde_json::json;
use stemma_llm::tokens;
use stemma_sample_store::model::answer_model;
use stemma_sim::{Behavior, Provider};

use super::TestClient;
use crate::Preset;

#[tokio::test]
async fn ask_is_listed_where_a_model_is_configured() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let mut client = TestClient::with_model(answer_model(&provider)).await;
    let size = tokens::count(&client.ask("tools/list", json!({})).await.to_string());
    // Every conversation pays for the list once. The presets without `ask` stay below 3,000.
    assert!(size <= 3_300, "{size} tokens");
    let hints = &client.tools().await["ask"]["annotations"];
    assert_eq!(hints["readOnlyHint"], false);
    assert_eq!(hints["destructiveHint"], false);
    let hint = client.call_error("aks", json!({})).await.to_string();
    assert!(hint.contains("ask"), "{hint}");
    let mut without = TestClient::start(Preset::All).await;
    assert!(without.tools().await["ask"].is_null());
    assert_eq!(
        without.call_error("ask", json!({ "question": "x" })).await["code"],
        "answer.not_available"
    );
}

#[tokio::test]
async fn questions_are_answered_with_citations_and_answers_are_kept() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let mut client = TestClient::with_model(answer_model(&provider)).await;
    let question = json!({ "question": "How much was R&D spending?", "scope": "ACME_2022" });
    let answer = client.data("ask", question).await;
    assert_eq!(answer["status"], "answered");
    assert_eq!(answer["citations"][0]["verified"], "exact");
    assert_eq!(answer["citations"][0]["locator"], "ACME_2022#p=2");
    let again = client
        .data("ask", json!({ "answer_id": answer["answer_id"] }))
        .await;
    assert_eq!(again["answer"], answer["answer"]);
    assert_eq!(again["citations"], answer["citations"]);
    assert_eq!(provider.report().calls, 1);
}

#[tokio::test]
async fn ask_refuses_unknown_answers_and_questions_that_are_no_text() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let mut client = TestClient::with_model(answer_model(&provider)).await;
    let unknown = client
        .call_error("ask", json!({ "answer_id": "a-0123456789abcdef" }))
        .await;
    assert_eq!(unknown["code"], "answer.unknown");
    let option = unknown["next_steps"]["options"][0].as_str().unwrap();
    assert!(option.contains("ask(question"), "{unknown}");
    let number = client.call_error("ask", json!({ "question": 5 })).await;
    assert_eq!(number["error"], "`question` must be a string", "{number}");
    assert_eq!(
        client.call_error("ask", json!({})).await["errorCode"],
        "INVALID_INPUT"
    );
    assert_eq!(provider.report().calls, 0);
}

#[tokio::test]
async fn presets_without_ask_cannot_call_it() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let model = answer_model(&provider);
    let mut client = TestClient::with_options(Preset::OpenAi, "2025-06-18", Some(model)).await;
    let refused = client
        .call("ask", json!({ "question": "What was capex?" }))
        .await
        .to_string();
    assert!(refused.contains("tool.unknown"), "{refused}");
    assert_eq!(provider.report().calls, 0);
}

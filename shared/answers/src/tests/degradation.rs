//! Answers without a model, or after it failed; questions that cannot be answered.

use serde_json::json;
use stemma_catalog::catalog::Catalog;
use stemma_llm::request::{LlmError, LlmRequest};
use stemma_store::blobs::Blobs;

use super::test_archive::{
    TestArchive, answer, capex_claim, capex_question, claim, scripted_client,
};
use crate::tree_search::TreeSearchStrategy;
use crate::tree_search::scripted::ScriptedModel as Model;
use crate::{AnswerEvent, AnswerLimits, AnswerOutcome, AskRequest, RetrievalStrategy};
use stemma_retrieval::search::DocumentScope;

#[tokio::test]
async fn without_a_model_the_answer_is_search_only() {
    let archive = TestArchive::new();
    let none = archive
        .ask_with(None, None, &capex_question(), &mut Vec::new())
        .await;
    assert_eq!(none.outcome, AnswerOutcome::SearchOnly);
    assert_eq!(
        none.degradation.unwrap().code.as_str(),
        "model.not_configured"
    );
    assert!(!none.sections.is_empty() && none.model.is_none());
    let (_, away) = Model::new(|_| {
        Err(LlmError::Server {
            status: 500,
            message: String::new(),
        })
    });
    let lost = archive.ask(away, &capex_question()).await;
    assert_eq!(lost.outcome, AnswerOutcome::SearchOnly);
    // When the model is back, the same question is answered.
    let (_, back) = scripted_client(&json!([capex_claim()]));
    let answer = archive.ask(back, &capex_question()).await;
    assert_eq!(answer.outcome, AnswerOutcome::Answered);
    assert!(!answer.is_replay);
    let (_, client) = scripted_client(&json!([claim("It was 5.", &[])]));
    let capped = AskRequest {
        limits: AnswerLimits {
            calls: 0,
            ..AnswerLimits::default()
        },
        ..capex_question()
    };
    assert_eq!(
        archive.ask(client, &capped).await.degradation.unwrap().code,
        "answer.limit_reached"
    );
}

// One store, and failures with the same code in turn.
#[tokio::test]
async fn the_reason_shown_is_that_of_this_run() {
    let archive = TestArchive::new();
    let refused = |message: &'static str| {
        Model::new(move |_| {
            Err(LlmError::Refused {
                status: 400,
                message: message.into(),
            })
        })
        .1
    };
    let mut ids = Vec::new();
    for message in [
        "no such parameter",
        "too many tokens",
        "the account is closed",
    ] {
        let answer = archive.ask(refused(message), &capex_question()).await;
        let reason = answer.degradation.unwrap();
        assert!(reason.message.contains(message), "{}", reason.message);
        assert_eq!(reason.code, "model.refused");
        ids.push(answer.id);
    }
    // However often it fails, one answer is stored.
    ids.dedup();
    assert_eq!(ids.len(), 1);
    let stored = archive.answers().get(&ids[0]).await.unwrap().unwrap();
    assert_eq!(stored.id, ids[0]);
}

#[tokio::test]
async fn an_index_behind_the_catalog_never_says_that_documents_do_not_have_it() {
    let mut archive = TestArchive::new();
    archive.documents_not_indexed = 1;
    let refuses =
        || Model::new(|_| Ok(json!({ "answerable": false, "claims": [], "confidence": 0 }))).1;
    let behind = archive.ask(refuses(), &capex_question()).await;
    assert_eq!(behind.outcome, AnswerOutcome::SearchOnly);
    assert_eq!(behind.degradation.unwrap().code, "search.index_behind");
    assert_eq!(behind.searched.documents_not_indexed, 1);
    assert_eq!(behind.searched.low_evidence, None);
    assert_eq!(behind.searched.missing_terms, None);
    assert_eq!(behind.searched.evidence, None);
    // What was found is an answer, but not the final one.
    let capex = json!([capex_claim()]);
    let (_, finds) = scripted_client(&capex);
    let found = AskRequest::new("What was the capex of 3M in 2022?");
    let partial = archive.ask(finds, &found).await;
    assert_eq!(partial.outcome, AnswerOutcome::Answered);
    assert_eq!(partial.degradation.unwrap().code, "search.index_behind");
    // Once the index has caught up, both are answered again.
    archive.documents_not_indexed = 0;
    for question in [capex_question(), found] {
        let answer = archive.ask(refuses(), &question).await;
        assert_eq!(answer.outcome, AnswerOutcome::NotInDocuments);
        assert!(!answer.is_replay && answer.degradation.is_none());
    }
}

#[tokio::test]
async fn a_document_that_cannot_be_read_may_have_the_answer() {
    let mut archive = TestArchive::new();
    archive.documents_unreadable = 1;
    let refuses =
        || Model::new(|_| Ok(json!({ "answerable": false, "claims": [], "confidence": 0 }))).1;
    let absent = archive.ask(refuses(), &capex_question()).await;
    assert_eq!(absent.outcome, AnswerOutcome::SearchOnly);
    assert_eq!(absent.degradation.unwrap().code, "search.unreadable");
    assert_eq!(absent.searched.missing_terms, Some(Vec::new()));
    // What was found is an answer: nobody pays for it again.
    let capex = json!([capex_claim()]);
    let (_, finds) = scripted_client(&capex);
    let found = AskRequest::new("What was the capex of 3M in 2022?");
    let answer = archive.ask(finds, &found).await;
    assert_eq!(answer.outcome, AnswerOutcome::Answered);
    assert_eq!(answer.degradation, None);
    assert_eq!(answer.searched.documents_unreadable, 1);
}

#[tokio::test]
async fn failed_tree_search_calls_degrade_and_are_not_stored() {
    let archive = TestArchive::new();
    let claims = json!([capex_claim()]);
    let (_, client) = Model::new(move |request: &LlmRequest| match request.schema.name {
        "answer" => Ok(json!({ "answerable": true, "confidence": 1, "claims": claims })),
        _ => Ok(json!({ "garbage": true })),
    });
    let question = AskRequest {
        strategy: RetrievalStrategy::TreeSearch(TreeSearchStrategy::Beam),
        ..capex_question()
    };
    let question = AskRequest {
        limits: AnswerLimits {
            calls: 100,
            ..AnswerLimits::default()
        },
        ..question
    };
    let answer = archive.ask(client, &question).await;
    assert_eq!(answer.outcome, AnswerOutcome::Answered, "{answer:?}");
    assert_eq!(
        answer.degradation.map(|degraded| degraded.code).as_deref(),
        Some("model.unusable")
    );
    assert_eq!(
        archive
            .answers()
            .get(&answer.id)
            .await
            .unwrap()
            .map(|stored| stored.id),
        Some(answer.id)
    );
}

#[tokio::test]
async fn unreadable_documents_are_reported_and_nothing_is_stored() {
    let archive = TestArchive::new();
    let refused = async |archive: &TestArchive, question: AskRequest| {
        let answers = archive.answers();
        let answerer = archive.answerer(None, None, &answers);
        let mut events: Vec<AnswerEvent> = Vec::new();
        let error = answer(&answerer, &question, &mut events).await.unwrap_err();
        assert!(
            matches!(events.last(), Some(AnswerEvent::Error { .. })),
            "{events:?}"
        );
        assert!(
            archive.blobs.list("", None, 1).await.unwrap().is_empty(),
            "nothing is stored"
        );
        (error.code(), error.to_string())
    };
    let mut bare = TestArchive::new();
    bare.catalog = stemma_catalog::fixtures::failed(&["scan.pdf"]);
    let (code, message) = refused(&bare, AskRequest::new("scan text?")).await;
    assert!(
        code == "document.no_tree" && message.contains("scan"),
        "{code} {message}"
    );
    let mut empty = TestArchive::new();
    empty.catalog = Catalog::from_entries([]);
    assert_eq!(
        refused(&empty, AskRequest::new("capex?")).await.0,
        "answer.no_documents"
    );
    let item = AskRequest {
        item: "99".parse().ok(),
        within: DocumentScope::Documents(vec![]),
        ..capex_question()
    };
    assert_eq!(refused(&archive, item).await.0, "answer.no_documents");
    let long = AskRequest::new("Background. ".repeat(400) + "QUESTION: revenue?");
    assert_eq!(refused(&archive, long).await.0, "answer.too_long");
}

#[tokio::test]
async fn what_was_found_and_not_read_is_not_said_to_be_missing() {
    let archive = TestArchive::new();
    let (model, client) = scripted_client(&json!([claim("It was 5.", &[])]));
    // The search finds sections without a line of this Item.
    let question = AskRequest {
        item: Some("9".parse().unwrap()),
        ..capex_question()
    };
    let answer = archive.ask(client, &question).await;
    assert_eq!(answer.outcome, AnswerOutcome::SearchOnly, "{answer:?}");
    assert_eq!(answer.degradation.unwrap().code, "answer.limit_reached");
    assert!(model.requests().is_empty());
}

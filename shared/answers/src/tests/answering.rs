//! Answers, their storage and replay; questions that are split or rewritten.

use serde_json::json;
use stemma_llm::request::LlmRequest;

use super::test_archive::{TestArchive, capex_claim, capex_question, claim, scripted_client};
use crate::tree_search::scripted::ScriptedModel as Model;
use crate::{
    AnswerEvent, AnswerMode, AnswerOutcome, AskRequest, ConversationTurn, QuoteMatch, StepKind,
};
use stemma_retrieval::search::DocumentScope;

#[tokio::test]
async fn answers_are_verified_stored_and_replayed_identically() {
    let archive = TestArchive::new();
    let (model, client) = scripted_client(&json!([capex_claim()]));
    let mut streamed = Vec::new();
    let answer = archive
        .ask_with(Some(client), None, &capex_question(), &mut streamed)
        .await;
    assert_eq!(
        answer.text,
        "Purchases of property were -1,749 million in 2022 [1]."
    );
    assert_eq!(answer.outcome, AnswerOutcome::Answered);
    assert!(answer.claims[0].is_supported());
    assert_eq!(answer.usage.calls, 1);
    let citation = &answer.citations[0];
    assert_eq!(citation.verified, QuoteMatch::Exact);
    assert_eq!(citation.page, Some(1));
    assert_eq!(citation.locator.as_str(), "3M_2022_10K#p=1");
    assert_eq!(citation.path, ["Consolidated Statement of Cash Flows"]);
    assert!(!citation.rects.is_empty() && citation.url.contains("/pages?range=1"));
    let streamed_text: String = streamed
        .iter()
        .filter_map(|event| {
            if let AnswerEvent::Delta { text } = event {
                Some(text.as_str())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(streamed_text, answer.text);
    assert_eq!(
        streamed.last(),
        Some(&AnswerEvent::Done(Box::new(answer.clone())))
    );
    // The same question over the same trees: no call, the same id, the same events.
    let (_, silent) = Model::with_replies(&[]);
    let mut again = Vec::new();
    let second = archive
        .ask_with(Some(silent), None, &capex_question(), &mut again)
        .await;
    assert!(second.is_replay);
    assert_eq!(&second.id, &answer.id);
    assert_eq!(&second.citations, &answer.citations);
    let but_last = |events: &[AnswerEvent]| {
        events[..events.len() - 1]
            .iter()
            .filter(|event| event.name() != "usage")
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(but_last(&again), but_last(&streamed));
    assert_eq!(model.requests().len(), 1);
    // Another scope is another question.
    let narrow = AskRequest {
        mode: AnswerMode::Search,
        within: DocumentScope::Documents(vec![archive.doc("3M_2023_10K")]),
        ..capex_question()
    };
    let (_, client) =
        Model::with_replies(&[r#"{"answerable": false, "claims": [], "confidence": 0}"#]);
    let none = archive.ask(client, &narrow).await;
    assert_ne!(none.id, answer.id);
    assert_eq!(none.outcome, AnswerOutcome::NotInDocuments);
    assert!(
        none.text.starts_with("Not in these documents") && none.text.contains("3M_2023_10K.pdf"),
        "{}",
        none.text
    );
}

#[tokio::test]
async fn each_year_is_read_from_its_own_filing() {
    let archive = TestArchive::new();
    let (model, client) = scripted_client(&json!([
        claim(
            "3M may fail to retain people in 2022.",
            &[(1, "retain people in 2022")]
        ),
        claim(
            "3M may fail to retain people in 2023.",
            &[(2, "retain people in 2023")]
        ),
    ]));
    let answer = archive
        .ask(client, &AskRequest::new("3M risk factors 2022 vs 2023"))
        .await;
    let names: Vec<&str> = answer
        .citations
        .iter()
        .map(|citation| citation.name.as_str())
        .collect();
    assert_eq!(names, ["3M_2022_10K.pdf", "3M_2023_10K.pdf"]);
    assert!(
        answer.claims.iter().all(|claim| claim.is_supported()),
        "{answer:?}"
    );
    assert_eq!(answer.steps[0].kind, StepKind::Plan);
    let prompt = &model.requests()[0].user;
    assert!(
        prompt.contains("Passage 1:")
            && prompt.contains("Passage 2:")
            && !prompt.contains("Passage 3:"),
        "{prompt}"
    );
}

#[tokio::test]
async fn follow_up_questions_use_conversation_history() {
    let archive = TestArchive::new();
    let (model, client) = Model::new(|request: &LlmRequest| {
        Ok(match request.schema.name {
            "restate_question" => json!({ "standalone": "What were the risk factors of 3M?" }),
            _ => {
                json!({ "answerable": true, "confidence": 1, "claims": [claim("We may fail to retain people.", &[(1, "We may fail to retain people")])] })
            }
        })
    });
    let earlier = vec![ConversationTurn {
        question: "3M capex?".into(),
        answer: "It was 5 [1].".into(),
    }];
    let answer = archive
        .ask(
            client,
            &AskRequest {
                earlier,
                ..AskRequest::new("And the risks?")
            },
        )
        .await;
    assert_eq!(
        answer.searched.queries,
        ["What were the risk factors of 3M?"]
    );
    assert!(answer.claims[0].is_supported());
    assert_eq!(model.requests().len(), 2);
    assert!(model.requests()[1].user.contains("Earlier 1:"));
}

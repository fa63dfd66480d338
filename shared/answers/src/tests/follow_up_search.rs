//! What becomes of questions that the first call leaves open.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use stemma_llm::request::LlmRequest;

use super::test_archive::{TestArchive, capex_question, reader_of, reader_reply};
use crate::tree_search::LlmClient;
use crate::tree_search::scripted::ScriptedModel as Model;
use crate::{AnswerLimits, AnswerMode, AnswerOutcome, AskRequest, FURTHER_CALLS};
use stemma_retrieval::search::MissingTerm;

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
        assert!(answer.claims[0].is_supported(), "{answer:?}");
        assert_eq!(model.requests().len(), calls);
        assert!(
            answer
                .steps
                .iter()
                .any(|step| step.what.contains("searched again"))
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
    assert_eq!(code.as_deref(), Some("answer.limit_reached"));
}

#[tokio::test]
async fn questions_about_what_no_document_has_take_no_further_calls() {
    for (question, missing, evidence, is_absent) in [
        (
            "What was the capex of Oracle Health?",
            "Oracle Health",
            0.5,
            true,
        ),
        ("What was 3M's capex in 1985?", "1985", 0.5, true),
        ("What are 3M's zeppelins?", "zeppelins", 0.02, true),
        ("Who rents 3M's Note 99 property?", "", 0.02, false),
        // A word or name with a known company, a year with others: documents may have others for the same thing.
        ("What are 3M's zeppelins?", "zeppelins", 0.5, false),
        ("What did 3M lose in Caracas?", "Caracas", 0.5, false),
        (
            "How did 3M's capex differ in 2022 from 1985?",
            "1985",
            0.5,
            false,
        ),
        ("Who rents 3M's property?", "", 0.02, false),
        // An abbreviation, which documents write out.
        ("What was the DPO?", "DPO", 0.5, false),
    ] {
        let mut archive = TestArchive::new();
        archive.evidence = Some(evidence);
        let term = MissingTerm {
            term: missing.into(),
            nearest: Vec::new(),
        };
        archive.missing_terms = Some(term)
            .filter(|term| !term.term.is_empty())
            .into_iter()
            .collect();
        let (model, client) = Model::new(move |request: &LlmRequest| {
            Ok(match request.schema.name {
                "choose_tool" => json!({ "tool": "get_page_content", "pages": "3", "last": true }),
                _ => lacks(question),
            })
        });
        let tools = archive.tools();
        let answer = archive
            .ask_with_tools(client, &tools, &AskRequest::new(question))
            .await;
        assert_eq!(answer.outcome, AnswerOutcome::NotInDocuments, "{question}");
        let made = model.requests().len();
        assert_eq!(made == 1, is_absent, "{question}: {made} calls");
        let ended = answer
            .steps
            .iter()
            .any(|step| step.what.contains("no further search"));
        assert_eq!(ended, is_absent, "{question}");
    }
}

// Says what it lacks, as a statement or section of the documents, until a passage has `words`.
fn honest_reader(words: &'static str, lacks: &'static str) -> (Arc<Model>, LlmClient) {
    Model::new(move |request: &LlmRequest| {
        let mut reply = reader_reply(words, request);
        if reply["answerable"] == false {
            reply["missing"] = json!([lacks]);
        }
        Ok(reply)
    })
}

#[tokio::test]
async fn a_named_lack_is_looked_for_although_no_document_has_a_word_of_the_question() {
    for term in [
        "DPO",
        "P&L",
        "PPNE",
        "AGM",
        "zeppelins",
        "Oracle Health",
        "1985",
    ] {
        for evidence in [0.02, 0.5] {
            for (words, lacks, mode) in [
                (
                    "We may fail to retain people",
                    "people who leave, Risk Factors",
                    AnswerMode::Search,
                ),
                (
                    "We lease zorbs to others",
                    "rent, Lessor Disclosures",
                    AnswerMode::Agent,
                ),
            ] {
                let mut archive = TestArchive::new();
                archive.evidence = Some(evidence);
                archive.missing_terms = vec![MissingTerm {
                    term: term.into(),
                    nearest: Vec::new(),
                }];
                let (model, client) = honest_reader(words, lacks);
                let tools = archive.tools();
                let question = AskRequest::new(format!("How high was the {term}?"));
                let answer = archive.ask_with_tools(client, &tools, &question).await;
                assert_eq!(
                    answer.outcome,
                    AnswerOutcome::Answered,
                    "{term}: {answer:?}"
                );
                assert_eq!(answer.mode, mode, "{term}");
                assert!(answer.claims[0].is_supported(), "{answer:?}");
                // The list is for people.
                let shown = answer.searched.known_missing_terms();
                assert_eq!(shown[0].term, term);
                for request in model.requests() {
                    let told = request.user.matches(term).count();
                    assert_eq!(told, 1, "only the question names it: {}", request.user);
                }
            }
        }
    }
}

// Two passages that no search finds together: each draft names the next lack, and the last needs both.
#[tokio::test]
async fn what_was_read_for_an_earlier_lack_stays_in_later_drafts() {
    const FIRST: &str = "We may fail to retain people";
    const SECOND: &str = "We lease zorbs to others";
    let archive = TestArchive::new();
    let (model, client) = Model::new(move |request: &LlmRequest| {
        let shows = |words: &str| reader_reply(words, request)["answerable"] == true;
        Ok(match (request.schema.name, shows(FIRST), shows(SECOND)) {
            ("choose_tool", ..) | (_, true, true) => reader_reply(SECOND, request),
            (_, false, _) => lacks("people who leave, Risk Factors"),
            (_, true, false) => lacks("rent, Lessor Disclosures"),
        })
    });
    let tools = archive.tools();
    let answer = archive
        .ask_with_tools(client, &tools, &capex_question())
        .await;
    assert_eq!(answer.outcome, AnswerOutcome::Answered, "{answer:?}");
    assert_eq!(answer.mode, AnswerMode::Agent);
    assert_eq!(model.requests().len(), 4);
}

fn lacks(part: &str) -> serde_json::Value {
    json!({ "answerable": false, "claims": [], "missing": [part], "confidence": 0 })
}

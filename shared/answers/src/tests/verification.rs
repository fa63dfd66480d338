//! What is shown as verified.

use serde_json::json;

use super::test_archive::{TestArchive, capex_question, claim, scripted_client};
use crate::tree_search::scripted::ScriptedModel as Model;
use crate::{AnswerOutcome, AskRequest, CitationPolicy, RejectedCounts};

#[tokio::test]
async fn false_claims_are_never_marked_verified() {
    for (statement, citations) in [
        (
            "Purchases of property were $1,849 million.",
            vec![(1, "plant and equipment (1,749)")],
        ),
        (
            "Purchases of property were $1,749 billion.",
            vec![(1, "plant and equipment (1,749)")],
        ),
        (
            "Purchases of property were $1,849 million.",
            vec![(1, "plant and equipment (1,849)")],
        ),
        (
            "Purchases of property were $1,749 million.",
            vec![(99, "plant and equipment (1,749)")],
        ),
        (
            "Purchases of property were $1,749 million.",
            vec![(0, "plant and equipment (1,749)")],
        ),
        ("Purchases of property were $1,749 million.", vec![(1, "")]),
        ("Purchases of property were $1,749 million.", vec![]),
        (
            "Purchases of property were $1,749 million in 1999.",
            vec![(1, "plant and equipment (1,749)")],
        ),
        (
            "Earnings from lunar mining tripled everywhere.",
            vec![(1, "Consolidated Statement of Cash Flows")],
        ),
        (
            "Purchases of property were $1,749 million.",
            vec![(1, "plant and equipment (1,749)"), (1, "nobody wrote this")],
        ),
    ] {
        let (_, client) = scripted_client(&json!([claim(statement, &citations)]));
        let answer = TestArchive::new().ask(client, &capex_question()).await;
        assert!(
            !answer.claims[0].verified,
            "{statement} {citations:?} {answer:?}"
        );
        assert_eq!(answer.confidence, Some(0.0));
    }
    let (_, client) = scripted_client(&json!([claim(
        "It was 5.",
        &[(99, "x"), (-3, "x"), (1, "nobody wrote this"), (1, "")]
    )]));
    let question = AskRequest {
        citations: CitationPolicy::Verified,
        ..capex_question()
    };
    let answer = TestArchive::new().ask(client, &question).await;
    assert_eq!(answer.citations, []);
    let dropped = RejectedCounts {
        unknown_passages: 2,
        empty_quotes: 1,
        unverified: 1,
        tool_calls: 0,
    };
    assert_eq!(answer.rejected, dropped);
    assert_eq!(answer.text.as_str(), "It was 5.");
}

#[tokio::test]
async fn a_figure_that_two_readers_of_a_scan_read_differently_is_never_verified() {
    let claim = claim(
        "Purchases of property were $1,749 million in 2022.",
        &[(1, "Purchases of property, plant and equipment (1,749)")],
    );
    for (disputed, reason) in [
        (None, None),
        (
            Some(("(1,749)", "(1,149)")),
            Some("text recognition read `(1,749)`, and a second reader `(1,149)`"),
        ),
        (
            Some(("(1,749)", "")),
            Some("text recognition read `(1,749)`, and a second reader nothing"),
        ),
        // The claim does not rest on it.
        (Some(("(1,603)", "(1,608)")), None),
    ] {
        let (_, client) = scripted_client(&json!([claim]));
        let mut archive = TestArchive::new();
        archive.disputed = disputed;
        let answer = archive.ask(client, &capex_question()).await;
        assert_eq!(answer.claims[0].reason.as_deref(), reason, "{answer:?}");
        assert_eq!(answer.claims[0].verified, reason.is_none(), "{answer:?}");
    }
}

#[tokio::test]
async fn a_bound_in_a_sentence_supports_the_same_bound() {
    for (statement, quote, verified) in [
        (
            "They lease more than 50 zorbs to others.",
            "We lease more than 50 zorbs to others.",
            true,
        ),
        (
            "They lease 50 zorbs to others.",
            "We lease 50 zorbs to others.",
            true,
        ),
        (
            "They lease 50 zorbs to others.",
            "We lease more than 50 zorbs to others.",
            false,
        ),
        (
            "They lease more than 50 zorbs to others.",
            "We lease 50 zorbs to others.",
            false,
        ),
        (
            "They lease at least 50 zorbs to others.",
            "We lease more than 50 zorbs to others.",
            false,
        ),
        (
            "They lease 50 zorbs to others.",
            "We lease no more than 50 zorbs to others.",
            false,
        ),
    ] {
        let mut archive = TestArchive::new();
        archive.sentence = quote.into();
        let (_, client) = scripted_client(&json!([claim(statement, &[(1, quote)])]));
        let answer = archive
            .ask(client, &AskRequest::new("3M risk of zorbs?"))
            .await;
        assert_eq!(
            answer.claims[0].verified, verified,
            "{statement} / {quote} {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_claim_about_another_issuer_is_not_verified() {
    let sentence = "We deliver 50 zorbs to Boeing each year.";
    let capex = [(1, "plant and equipment (1,749)")];
    let zorbs = [(1, sentence)];
    for (statement, citations, verified) in [
        (
            "Purchases of property of 3M were $1,749 million.",
            capex,
            true,
        ),
        ("Purchases of property were $1,749 million.", capex, true),
        (
            "Purchases of property of Boeing were $1,749 million.",
            capex,
            false,
        ),
        (
            "Boeing's purchases of property were $1,749 million.",
            capex,
            false,
        ),
        (
            "3M and Boeing had purchases of property of $1,749 million.",
            capex,
            false,
        ),
        ("3M delivers 50 zorbs to Boeing each year.", zorbs, true),
    ] {
        let (_, client) = scripted_client(&json!([claim(statement, &citations)]));
        let mut archive = TestArchive::new();
        archive.add_filing("BOEING_2022_10K.pdf", "The BOEING Company");
        archive.sentence = sentence.into();
        let question = match citations == zorbs {
            true => AskRequest::new("3M risk of zorbs?"),
            false => capex_question(),
        };
        let answer = archive.ask(client, &question).await;
        assert_eq!(
            answer.claims[0].verified, verified,
            "{statement} {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_final_answer_names_the_claims_it_rests_on() {
    let capex = claim(
        "Purchases of property, plant and equipment were $1,749 million in 2022.",
        &[(1, "plant and equipment (1,749)")],
    );
    let guess = claim(
        "They were high because of new plants.",
        &[(1, "plant and equipment (1,749)")],
    );
    for (claims, criterion, verified, ids) in [
        (json!([guess, capex]), "", true, vec!["c2"]),
        (
            json!([guess, capex]),
            "more than a tenth of sales",
            false,
            vec!["c1", "c2"],
        ),
    ] {
        let stated = json!({ "value": "1,749", "unit": "$ million", "period": "2022", "criterion": criterion });
        let reply =
            json!({ "answerable": true, "answer": stated, "claims": claims, "confidence": 0.9 });
        let (_, client) = Model::new(move |_| Ok(reply.clone()));
        let answer = TestArchive::new().ask(client, &capex_question()).await;
        assert_eq!(answer.claims[1].id, "c2");
        assert!(
            !answer.claims[0].verified && answer.claims[1].verified,
            "{answer:?}"
        );
        let stated = answer.final_answer.unwrap();
        assert_eq!(
            (stated.verified, stated.claims),
            (verified, ids.iter().map(|id| (*id).to_owned()).collect())
        );
    }
}

#[tokio::test]
async fn claims_of_a_reply_without_an_answer_are_a_partial_answer() {
    let capex = claim(
        "Purchases of property, plant and equipment were $1,749 million in 2022.",
        &[(1, "plant and equipment (1,749)")],
    );
    let reply = json!({ "answerable": false, "claims": [capex], "missing": ["the revenue"], "confidence": 0.4 });
    let (_, client) = Model::new(move |_| Ok(reply.clone()));
    let answer = TestArchive::new().ask(client, &capex_question()).await;
    assert_eq!(answer.outcome, AnswerOutcome::Answered);
    assert!(
        answer.claims[0].verified && answer.final_answer.is_none(),
        "{answer:?}"
    );
    assert_eq!(answer.missing, ["the revenue"]);
    assert!(
        answer
            .text
            .ends_with("Not found in what was read: the revenue."),
        "{}",
        answer.text
    );
}

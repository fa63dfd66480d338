//! What is shown as verified.

use serde_json::{Value, json};

use super::test_archive::{
    CAPEX_LABEL, CAPEX_ROW, TestArchive, capex_claim, capex_question, claim, claim_with_figures,
    computed, figure, scripted_client,
};
use crate::tree_search::scripted::ScriptedModel as Model;
use crate::{Answer, AnswerOutcome, AskRequest, CitationPolicy, ClaimState, RejectedCounts};

async fn ask(claims: &Value) -> Answer {
    let (_, client) = scripted_client(claims);
    TestArchive::new().ask(client, &capex_question()).await
}

#[tokio::test]
async fn figures_are_printed_as_the_page_has_them() {
    let growth = claim_with_figures(
        "They grew by {m}.",
        &[(1, CAPEX_ROW)],
        &[
            figure("b", "(1,603)", CAPEX_LABEL, "2021"),
            computed("m", "9.1", "%", "(abs(a) / abs(b) - 1) * 100"),
        ],
    );
    let answer = ask(&json!([capex_claim(), growth])).await;
    let states: Vec<ClaimState> = answer.claims.iter().map(|claim| claim.state).collect();
    assert_eq!(
        states,
        [ClaimState::Verified, ClaimState::Computed],
        "{answer:#?}"
    );
    let text = &answer.claims[0].text;
    assert!(
        text.contains("1,749 million") && text.ends_with("in 2022."),
        "{text}"
    );
    let shown = &answer.claims[0].figures[0];
    assert_eq!(
        (shown.row.as_str(), shown.column.as_str()),
        (CAPEX_LABEL, "2022")
    );
    assert_eq!(shown.citation.as_deref(), Some("1"));
    assert_eq!(answer.claims[1].text, "They grew by 9.1%.");
    // The formula and all that it is computed from, also of the claim before.
    let names: Vec<&str> = answer.claims[1]
        .figures
        .iter()
        .map(|figure| figure.name.as_str())
        .collect();
    assert_eq!(names, ["b", "m", "a"]);
}

#[tokio::test]
async fn figures_of_a_text_without_pages_are_verified_in_its_tables() {
    let mut archive = TestArchive::new();
    archive.is_text = true;
    let wrong = claim_with_figures(
        "They were {b} in 2021.",
        &[(1, CAPEX_ROW)],
        &[figure("b", "(1,749)", CAPEX_LABEL, "2021")],
    );
    let (_, client) = scripted_client(&json!([capex_claim(), wrong]));
    let answer = archive.ask(client, &capex_question()).await;
    let states: Vec<ClaimState> = answer.claims.iter().map(|claim| claim.state).collect();
    assert_eq!(
        states,
        [ClaimState::Verified, ClaimState::Unverified],
        "{answer:#?}"
    );
    assert!(answer.claims[0].text.contains("1,749 million"));
    let cited = &answer.citations[0];
    assert_eq!((cited.page, cited.line), (None, Some(5)));
}

#[tokio::test]
async fn false_claims_are_never_marked_verified() {
    let statement = "Purchases of property were {a} in {a.period}.";
    let cell = |value: &str, row: &str, column: &str| vec![figure("a", value, row, column)];
    for (statement, citations, figures) in [
        // Another value, row, column, year.
        (
            statement,
            vec![(1, CAPEX_ROW)],
            cell("(1,849)", CAPEX_LABEL, "2022"),
        ),
        (
            statement,
            vec![(1, CAPEX_ROW)],
            cell("(1,749)", "Dividends paid", "2022"),
        ),
        (
            statement,
            vec![(1, CAPEX_ROW)],
            cell("(1,749)", CAPEX_LABEL, "2021"),
        ),
        (
            "Purchases were {a} in 1999.",
            vec![(1, CAPEX_ROW)],
            cell("(1,749)", CAPEX_LABEL, "2022"),
        ),
        // A figure that is not listed, or written out.
        ("Purchases were {b}.", vec![(1, CAPEX_ROW)], Vec::new()),
        (
            "Purchases were $1,749 million.",
            vec![(1, CAPEX_ROW)],
            Vec::new(),
        ),
        // Quotes that are nowhere, of no passage, or empty.
        (
            statement,
            vec![(1, "plant and equipment (1,849)")],
            cell("(1,849)", CAPEX_LABEL, "2022"),
        ),
        (
            statement,
            vec![(99, CAPEX_ROW)],
            cell("(1,749)", CAPEX_LABEL, "2022"),
        ),
        (
            statement,
            vec![(0, CAPEX_ROW)],
            cell("(1,749)", CAPEX_LABEL, "2022"),
        ),
        (
            statement,
            vec![(1, "")],
            cell("(1,749)", CAPEX_LABEL, "2022"),
        ),
        (statement, vec![], cell("(1,749)", CAPEX_LABEL, "2022")),
        (
            statement,
            vec![(1, CAPEX_ROW), (1, "nobody wrote this")],
            cell("(1,749)", CAPEX_LABEL, "2022"),
        ),
        (
            "They were high.",
            vec![(1, "nobody wrote this")],
            Vec::new(),
        ),
        ("They were high.", vec![], Vec::new()),
    ] {
        let answer = ask(&json!([claim_with_figures(
            statement, &citations, &figures
        )]))
        .await;
        let claim = &answer.claims[0];
        assert_eq!(
            claim.state,
            ClaimState::Unverified,
            "{statement} {citations:?} {figures:?} {claim:?}"
        );
        assert_eq!(answer.confidence, Some(0.0));
    }
    let citations = [(99, "x"), (-3, "x"), (1, "nobody wrote this"), (1, "")];
    let (_, client) = scripted_client(&json!([claim("It was low.", &citations)]));
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
    assert_eq!(answer.text.as_str(), "It was low.");
}

#[tokio::test]
async fn figures_of_unverified_claims_are_not_computed_with() {
    let doubled = claim_with_figures(
        "Twice that is {m}.",
        &[(1, CAPEX_ROW)],
        &[computed("m", "3,498", "million", "abs(a) * 2")],
    );
    let mut capex = capex_claim();
    let answer = ask(&json!([capex, doubled])).await;
    assert_eq!(answer.claims[1].state, ClaimState::Computed, "{answer:#?}");
    capex["statement"] = json!("Purchases of property were {a}, and 5 others.");
    let answer = ask(&json!([capex, doubled])).await;
    let states: Vec<ClaimState> = answer.claims.iter().map(|claim| claim.state).collect();
    assert_eq!(
        states,
        [ClaimState::Unverified, ClaimState::Unverified],
        "{answer:#?}"
    );
}

#[tokio::test]
async fn a_statement_without_figures_is_quoted() {
    let answer = ask(&json!([claim(
        "They buy property, plants and equipment.",
        &[(1, CAPEX_LABEL)]
    )]))
    .await;
    assert_eq!(answer.claims[0].state, ClaimState::Quoted, "{answer:?}");
    assert_eq!(answer.confidence, Some(0.9));
}

#[tokio::test]
async fn a_figure_that_two_readers_of_a_scan_read_differently_is_never_verified() {
    let claim = claim_with_figures(
        "Purchases of property were {a}.",
        &[(1, "Purchases of property, plant and equipment (1,749)")],
        &[figure("a", "(1,749)", CAPEX_LABEL, "2022")],
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
        assert_eq!(
            answer.claims[0].is_supported(),
            reason.is_none(),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn a_figure_of_a_sentence_is_bound_by_its_quote() {
    let quote = "We lease 50 zorbs to others.";
    for (sentence, quote, value, verified) in [
        (quote, quote, "50", true),
        (quote, quote, "60", false),
        (
            "We lease 50 zorbs to 20 firms.",
            "We lease 50 zorbs to 20 firms.",
            "50",
            true,
        ),
        (
            "We lease 50 zorbs to 20 firms.",
            "We lease 50 zorbs to 20 firms.",
            "20",
            false,
        ),
    ] {
        let claim = claim_with_figures(
            "They lease {a} zorbs.",
            &[(1, quote)],
            &[figure("a", value, "", "")],
        );
        let mut archive = TestArchive::new();
        archive.sentence = sentence.into();
        let (_, client) = scripted_client(&json!([claim]));
        let answer = archive
            .ask(client, &AskRequest::new("3M risk of zorbs?"))
            .await;
        assert_eq!(
            answer.claims[0].is_supported(),
            verified,
            "{sentence} / {quote} / {value} {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_claim_about_another_issuer_is_not_verified() {
    let sentence = "We deliver 50 zorbs to Boeing each year.";
    for (statement, is_sentence, verified) in [
        ("Purchases of property of 3M were {a}.", false, true),
        ("Purchases of property were {a}.", false, true),
        ("Purchases of property of Boeing were {a}.", false, false),
        ("Boeing's purchases of property were {a}.", false, false),
        (
            "3M and Boeing had purchases of property of {a}.",
            false,
            false,
        ),
        ("3M delivers {a} zorbs to Boeing each year.", true, true),
    ] {
        let (quote, figure) = match is_sentence {
            true => (sentence, figure("a", "50", "", "")),
            false => (CAPEX_ROW, figure("a", "(1,749)", CAPEX_LABEL, "2022")),
        };
        let claim = claim_with_figures(statement, &[(1, quote)], &[figure]);
        let (_, client) = scripted_client(&json!([claim]));
        let mut archive = TestArchive::new();
        archive.add_filing("BOEING_2022_10K.pdf", "The BOEING Company");
        archive.sentence = sentence.into();
        let question = match is_sentence {
            true => AskRequest::new("3M risk of zorbs?"),
            false => capex_question(),
        };
        let answer = archive.ask(client, &question).await;
        assert_eq!(
            answer.claims[0].is_supported(),
            verified,
            "{statement} {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_final_answer_names_the_claims_it_rests_on() {
    let guess = claim("They were high because of new plants.", &[(1, CAPEX_LABEL)]);
    for (value, criterion, verified, ids) in [
        ("{a}", "", true, vec!["c2"]),
        // No code can tell whether a judgement follows from claims.
        (
            "High",
            "more than a tenth of sales",
            false,
            vec!["c1", "c2", "c3"],
        ),
        ("High", "", false, vec!["c1", "c2", "c3"]),
        // A figure that no claim has.
        ("{b}", "", false, vec![]),
        ("1,749", "", false, vec!["c1", "c2", "c3"]),
    ] {
        let stated = json!({ "value": value, "period": "{a.period}", "criterion": criterion });
        // It computes with the figure, and its result is wrong.
        let wrong = claim_with_figures(
            "Twice that is {m}.",
            &[],
            &[computed("m", "7", "", "a * 2")],
        );
        let claims = json!([guess, capex_claim(), wrong]);
        let reply =
            json!({ "answerable": true, "answer": stated, "claims": claims, "confidence": 0.9 });
        let (_, client) = Model::new(move |_| Ok(reply.clone()));
        let answer = TestArchive::new().ask(client, &capex_question()).await;
        assert_eq!(answer.claims[1].state, ClaimState::Verified, "{answer:?}");
        let stated = answer.final_answer.unwrap();
        assert_eq!(
            (stated.verified, stated.claims.clone()),
            (verified, ids.iter().map(|id| (*id).to_owned()).collect()),
            "{value} {stated:?}"
        );
        if value == "{a}" {
            assert!(stated.figure().contains("1,749 million"), "{stated:?}");
            assert_eq!(stated.period, "2022");
        }
    }
}

#[tokio::test]
async fn claims_of_a_reply_without_an_answer_are_a_partial_answer() {
    let reply = json!({ "answerable": false, "claims": [capex_claim()], "missing": ["the revenue"], "confidence": 0.4 });
    let (_, client) = Model::new(move |_| Ok(reply.clone()));
    let answer = TestArchive::new().ask(client, &capex_question()).await;
    assert_eq!(answer.outcome, AnswerOutcome::Answered);
    assert!(
        answer.claims[0].is_supported() && answer.final_answer.is_none(),
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

//! What is shown as verified.

use serde_json::json;

use super::test_archive::{TestArchive, capex_question, claim, scripted_client};
use crate::{AskRequest, CitationPolicy, RejectedCounts};

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

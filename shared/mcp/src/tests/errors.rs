//! Calls that are refused.

use std::time::Duration;

use serde_json::json;
use stemma_sample_store as store;
use stemma_store::Env;

use super::TestClient;
use crate::Preset;

// No call of a model is a protocol error, and every error says what to do.
#[tokio::test]
async fn errors_are_tool_results_with_a_code() {
    let mut client = TestClient::start(Preset::All).await;
    for (tool, arguments, code) in [
        ("get_document", json!({}), "INVALID_INPUT"),
        (
            "get_document",
            json!({ "doc_name": "ACME_2O22" }),
            "NOT_FOUND",
        ),
        (
            "get_document",
            json!({ "doc_name": "nothing like it" }),
            "NOT_FOUND",
        ),
        (
            "get_document",
            json!({ "doc_name": ["ACME_2022"] }),
            "INVALID_INPUT",
        ),
        (
            "get_document",
            json!({ "doc_name": "ACME_2022", "color": "red" }),
            "INVALID_INPUT",
        ),
        (
            "get_document_structure",
            json!({ "doc_name": "BROKEN" }),
            "NOT_READY",
        ),
        (
            "get_document_structure",
            json!({ "doc_name": "QUEUED" }),
            "NOT_READY",
        ),
        (
            "get_document_structure",
            json!({ "doc_name": "ACME_2022", "node_id": "9999" }),
            "NOT_FOUND",
        ),
        (
            "get_document_structure",
            json!({ "doc_name": "ACME_2022", "node_id": "x#y" }),
            "INVALID_INPUT",
        ),
        (
            "get_document_structure",
            json!({ "doc_name": "ACME_2022", "part": 0 }),
            "INVALID_INPUT",
        ),
        (
            "get_page_content",
            json!({ "doc_name": "ACME_2022" }),
            "INVALID_INPUT",
        ),
        (
            "get_page_content",
            json!({ "doc_name": "ACME_2022", "pages": "0" }),
            "INVALID_INPUT",
        ),
        (
            "get_page_content",
            json!({ "doc_name": "ACME_2022", "pages": "6-8" }),
            "INVALID_INPUT",
        ),
        (
            "get_page_content",
            json!({ "doc_name": "ACME_2022", "pages": "9-1" }),
            "INVALID_INPUT",
        ),
        (
            "get_page_content",
            json!({ "doc_name": "ACME_2022", "item": "99" }),
            "NOT_FOUND",
        ),
        (
            "get_page_content",
            json!({ "doc_name": "ACME_2022", "section_id": "0002", "pages": "5" }),
            "INVALID_INPUT",
        ),
        ("search", json!({ "query": "?" }), "INVALID_INPUT"),
        (
            "search",
            json!({ "query": "anvils", "scope": "/@form/none" }),
            "NOT_FOUND",
        ),
        (
            "search",
            json!({ "query": "anvils", "where": "color=red" }),
            "INVALID_INPUT",
        ),
        (
            "search",
            json!({ "query": "anvils", "limit": 1_000 }),
            "INVALID_INPUT",
        ),
        (
            "fetch",
            json!({ "id": "stemma://nothing/section/0001" }),
            "NOT_FOUND",
        ),
        (
            "grep_document",
            json!({ "doc_name": "ACME_2022", "pattern": "x".repeat(5_000) }),
            "INVALID_INPUT",
        ),
        (
            "browse_documents",
            json!({ "folder_id": "/none" }),
            "NOT_FOUND",
        ),
        (
            "browse_documents",
            json!({ "sort": "relevance" }),
            "INVALID_INPUT",
        ),
        ("compare_sections", json!({}), "INVALID_INPUT"),
        (
            "compare_sections",
            json!({ "left": "ACME_2021", "right": "BROKEN" }),
            "NOT_READY",
        ),
        (
            "compare_sections",
            json!({ "right": "ACME_2O22" }),
            "NOT_FOUND",
        ),
        (
            "compare_sections",
            json!({ "left": "ACME_2021", "right": "ACME_2022", "item": "99" }),
            "NOT_FOUND",
        ),
        (
            "compare_sections",
            json!({ "company": "nobody", "years": "2022" }),
            "NOT_FOUND",
        ),
        (
            "compare_sections",
            json!({ "company": "ACME", "years": "soon" }),
            "INVALID_INPUT",
        ),
        (
            "get_page_content",
            json!({ "doc_name": "ACME_2022", "pages": "2", "image": "2,2,1,1" }),
            "INVALID_INPUT",
        ),
        (
            "get_document_image",
            json!({ "image_path": "x" }),
            "INVALID_INPUT",
        ),
        ("no_such_tool", json!({}), "INVALID_INPUT"),
    ] {
        let refused = client.call_error(tool, arguments.clone()).await;
        assert_eq!(refused["errorCode"], code, "{tool} {arguments}: {refused}");
    }
    let near = client
        .call_error("get_document", json!({ "doc_name": "ACME" }))
        .await;
    assert_eq!(near["candidates"], json!(["ACME_2021", "ACME_2022"]));
    let failed = client
        .data("get_document", json!({ "doc_name": "BROKEN.pdf" }))
        .await;
    assert_eq!(
        (failed["status"].clone(), failed["cause"].clone()),
        (
            "failed".into(),
            "pdf.truncated: ends after page 3 of 12".into()
        )
    );
}

#[tokio::test]
async fn ambiguous_names_are_refused_with_candidates() {
    let mut client = TestClient::start(Preset::All).await;
    store::publish_now(
        client.blobs.as_ref(),
        "other/ACME_2022.pdf",
        Env::system().now_ms(),
    )
    .await;
    let refused = loop {
        let result = client
            .call("get_document", json!({ "doc_name": "ACME_2022.pdf" }))
            .await;
        if result["isError"] == true {
            break result["structuredContent"].clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(
        (
            refused["errorCode"].clone(),
            refused["candidates"].as_array().map(Vec::len)
        ),
        ("AMBIGUOUS".into(), Some(2))
    );
    for candidate in refused["candidates"].as_array().unwrap() {
        assert_eq!(
            client
                .data("get_document", json!({ "doc_name": candidate }))
                .await["name"],
            *candidate
        );
    }
    let told_apart = json!({ "doc_name": "ACME_2022.pdf", "folder_id": "/other" });
    assert_eq!(
        client.data("get_document", told_apart).await["folder_id"],
        "/other"
    );
}

//! Tool lists and result formats of the presets and of old clients.

use serde_json::{Value, json};
use stemma_llm::tokens;

use super::{TestClient, text};
use crate::Preset;

#[tokio::test]
async fn tool_list_is_short_and_read_only() {
    for (preset, names) in [
        (
            Preset::All,
            "browse_documents compare_sections fetch get_document get_document_structure get_facts get_page_content get_series grep_document search",
        ),
        (
            Preset::PageIndex,
            "browse_documents get_document get_document_structure get_folder_structure get_page_content search_documents",
        ),
        (Preset::OpenAi, "fetch search"),
    ] {
        let mut client = TestClient::start(preset).await;
        let tools = client.tools().await;
        let tool_names: Vec<&String> = tools.as_object().unwrap().keys().collect();
        assert_eq!(tool_names, names.split(' ').collect::<Vec<_>>());
        let size = tokens::count(&client.ask("tools/list", json!({})).await.to_string());
        assert!(size <= 3_000, "{preset:?}: {size} tokens");
        for tool in tools.as_object().unwrap().values() {
            assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
            assert_eq!(
                tool["outputSchema"].is_object(),
                preset == Preset::All,
                "{tool}"
            );
        }
    }
}

// A script written for PageIndex's tools, which knows nothing of this server.
#[tokio::test]
async fn pageindex_agents_work_unchanged() {
    let mut client = TestClient::start(Preset::PageIndex).await;
    let json = |result: Value| -> Value {
        assert_ne!(result["isError"], true, "{result}");
        assert_eq!(result["structuredContent"], Value::Null);
        serde_json::from_str(text(&result)).unwrap()
    };
    let root = json(
        client
            .call(
                "browse_documents",
                json!({ "folder_id": "root", "sort": "time", "limit": 10 }),
            )
            .await,
    );
    let folder = root["folders"]
        .as_array()
        .unwrap()
        .iter()
        .find(|folder| folder["name"] == "10-K")
        .unwrap();
    assert_eq!(
        (folder["count"].clone(), root["has_more"].clone()),
        (2.into(), false.into())
    );
    let inside = json(
        client
            .call("browse_documents", json!({ "folder_id": folder["id"] }))
            .await,
    );
    let documents = inside["documents"].as_array().unwrap();
    let document = documents
        .iter()
        .find(|document| document["name"] == "ACME_2022.pdf")
        .unwrap();
    assert_eq!(document["status"], "completed");
    let document = json(
        client
            .call(
                "get_document",
                json!({ "doc_name": document["name"], "wait_for_completion": true }),
            )
            .await,
    );
    assert_eq!(
        (document["page_count"].clone(), document["status"].clone()),
        (5.into(), "completed".into())
    );
    let structure = json(
        client
            .call(
                "get_document_structure",
                json!({ "doc_name": document["name"], "part": 1 }),
            )
            .await,
    );
    assert_eq!(
        structure["pagination"],
        json!({ "part": 1, "total_parts": 1, "has_more": false })
    );
    let mut nodes: Vec<Value> = structure["structure"].as_array().unwrap().clone();
    let mut section = None;
    while let Some(node) = nodes.pop() {
        nodes.extend(node["nodes"].as_array().into_iter().flatten().cloned());
        if node["title"].as_str().unwrap().contains("Risk Factors") {
            section = Some(node);
        }
    }
    let node = section.expect("the section is in the tree");
    let pages = format!("{}-{}", node["start_index"], node["end_index"]);
    let content = json(
        client
            .call(
                "get_page_content",
                json!({ "doc_name": document["name"], "pages": pages }),
            )
            .await,
    );
    assert_eq!(content["returned_pages"], "3-4");
    assert!(
        content["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("Foreign currency"),
        "{content}"
    );
    let folders = json(client.call("get_folder_structure", json!({})).await);
    assert!(
        folders["folders"]
            .as_array()
            .unwrap()
            .iter()
            .any(|folder| folder["id"] == "/10-K"),
        "{folders}"
    );
    assert!(
        json(
            client
                .call("search_documents", json!({ "query": "anvils" }))
                .await
        )["results"]
            .is_array()
    );
}

#[tokio::test]
async fn openai_search_results_can_be_fetched() {
    let mut client = TestClient::start(Preset::OpenAi).await;
    let results: Value = serde_json::from_str(text(
        &client.call("search", json!({ "query": "anvils" })).await,
    ))
    .unwrap();
    let first = &results["results"][0];
    for name in ["id", "title", "url"] {
        assert!(first[name].is_string(), "{first}");
    }
    let fetched = client.call("fetch", json!({ "id": first["id"] })).await;
    let fetched: Value = serde_json::from_str(text(&fetched)).unwrap();
    assert_eq!(
        (&fetched["id"], &fetched["url"]),
        (&first["id"], &first["url"])
    );
    assert!(
        fetched["text"].as_str().unwrap().contains("anvils") && fetched["metadata"].is_object(),
        "{fetched}"
    );
    assert_eq!(fetched["next_steps"], Value::Null);
}

#[tokio::test]
async fn old_protocol_clients_get_json_text() {
    let mut client = TestClient::with_version(Preset::All, "2024-11-05").await;
    let result = client
        .call("get_document", json!({ "doc_name": "ACME_2022" }))
        .await;
    assert_eq!(result["structuredContent"], Value::Null);
    assert_eq!(
        serde_json::from_str::<Value>(text(&result)).unwrap()["page_count"],
        5
    );
}

//! Finding, reading and comparing documents.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use stemma_sample_store as store;
use stemma_store::Env;

use super::{TestClient, text};
use crate::Preset;

#[tokio::test]
async fn tool_results_match_their_schemas_without_repetition() {
    let mut client = TestClient::start(Preset::All).await;
    let calls = [
        ("browse_documents", json!({})),
        (
            "browse_documents",
            json!({ "folder_id": "/@form/10-K", "limit": 1 }),
        ),
        (
            "browse_documents",
            json!({ "sort": "relevance", "query": "currency risk" }),
        ),
        ("get_document", json!({ "doc_name": "ACME_2022.pdf" })),
        ("get_document_structure", json!({ "doc_name": "ACME_2022" })),
        (
            "get_document_structure",
            json!({ "doc_name": "ACME_2022", "format": "outline", "detail": "full" }),
        ),
        (
            "get_page_content",
            json!({ "doc_name": "ACME_2022", "pages": "2-3,5" }),
        ),
        (
            "get_page_content",
            json!({ "doc_name": "ACME_2022", "item": "1A" }),
        ),
        (
            "search",
            json!({ "query": "anvils and rockets", "limit": 3 }),
        ),
        ("fetch", json!({ "id": "ACME_2022#item-1" })),
        (
            "grep_document",
            json!({ "doc_name": "ACME_2022", "pattern": "currency", "context": 1 }),
        ),
    ];
    for (tool, arguments) in calls {
        client.data(tool, arguments.clone()).await;
        let result = client.call(tool, arguments).await;
        assert!(
            serde_json::from_str::<Value>(text(&result)).is_err(),
            "{tool}: the text is JSON"
        );
        assert!(
            text(&result).contains("<untrusted-document-text from="),
            "{tool}: {}",
            text(&result)
        );
        for link in &result["content"].as_array().unwrap()[1..] {
            assert_eq!(link["type"], "resource_link");
            let read = client
                .ask("resources/read", json!({ "uri": link["uri"] }))
                .await;
            assert!(
                !read["contents"][0]["text"].as_str().unwrap().is_empty(),
                "{link}"
            );
        }
    }
}

#[tokio::test]
async fn truncated_text_can_be_read_to_the_end() {
    let mut client = TestClient::start(Preset::All).await;
    let mut arguments = json!({ "doc_name": "ACME_2022", "pages": "1-5", "max_tokens": 1 });
    let mut pages = Vec::new();
    for _ in 0..10 {
        let data = client.data("get_page_content", arguments.clone()).await;
        pages.extend(
            data["content"]
                .as_array()
                .unwrap()
                .iter()
                .map(|page| page["page"].as_u64().unwrap()),
        );
        if data["truncated"] == false {
            assert_eq!(data["next_call"], Value::Null);
            break;
        }
        assert_eq!(data["next_call"]["arguments"]["pages"], data["remaining"]);
        arguments = data["next_call"]["arguments"].clone();
    }
    assert_eq!(pages, [1, 2, 3, 4, 5]);
    let section = client
        .data(
            "get_page_content",
            json!({ "doc_name": "ACME_2022#item-1A" }),
        )
        .await;
    assert_eq!(
        (
            section["returned_pages"].clone(),
            section["item"]["item"].clone()
        ),
        ("3-4".into(), Value::Null)
    );
    assert_eq!(section["content"][0]["label"], "2");
    let beyond = client
        .data(
            "get_page_content",
            json!({ "doc_name": "ACME_2022", "pages": "4-9" }),
        )
        .await;
    assert_eq!(
        (
            beyond["returned_pages"].clone(),
            beyond["out_of_range"].clone()
        ),
        ("4-5".into(), "6-9".into())
    );
}

#[tokio::test]
async fn items_are_accepted_in_every_form() {
    let mut client = TestClient::start(Preset::All).await;
    for item in ["1A", "item-1A", "Item 1A.", "10-K.1A", "ACME_2022#item-1A"] {
        let arguments = json!({ "doc_name": "ACME_2022", "item": item });
        let data = client.data("get_page_content", arguments).await;
        assert_eq!(data["returned_pages"], "3-4", "{item}");
    }
    let arguments = json!({ "doc_name": "ACME_2022#1A" });
    let data = client.data("get_page_content", arguments).await;
    assert_eq!(data["returned_pages"], "3-4");
    let arguments = json!({ "doc_name": "ACME_2022", "node_id": "1A" });
    let below = client.data("get_document_structure", arguments).await;
    assert_eq!(below["structure"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn lists_may_be_arrays() {
    let mut client = TestClient::start(Preset::All).await;
    let arguments = json!({ "doc_name": "ACME_2022", "pages": [2, "4-5"] });
    let data = client.data("get_page_content", arguments).await;
    assert_eq!(data["returned_pages"], "2,4-5");
    let arguments = json!({ "query": "currency", "scope": ["ACME_2022", "ACME_2021"] });
    let found = client.data("search", arguments).await;
    assert_eq!(found["documents_searched"], 2, "{found}");
}

#[tokio::test]
async fn the_text_of_a_structure_has_its_upper_levels() {
    let mut client = TestClient::start(Preset::All).await;
    for (format, is_whole) in [("json", false), ("outline", true)] {
        let arguments = json!({ "doc_name": "ACME_2022", "detail": "summary", "format": format });
        let result = client.call("get_document_structure", arguments).await;
        let shown = text(&result);
        assert!(shown.contains("0003 Item 1A. Risk Factors"), "{shown}");
        assert_eq!(!shown.contains("format: \"outline\""), is_whole, "{shown}");
    }
}

#[tokio::test]
async fn unknown_names_have_candidates() {
    let mut client = TestClient::start(Preset::All).await;
    let arguments = json!({ "doc_name": "Acme 10-K 2023" });
    let error = client.call_error("get_document", arguments).await;
    let candidates = error["candidates"].as_array().unwrap();
    assert!(candidates.contains(&"ACME_2022".into()), "{error}");
}

#[tokio::test]
async fn unpaged_text_is_read_by_lines() {
    let mut client = TestClient::start(Preset::All).await;
    let tree = client
        .data("get_document_structure", json!({ "doc_name": "manual.md" }))
        .await;
    let line = tree["structure"][0]["nodes"][0]["line_num"]
        .as_u64()
        .or(tree["structure"][1]["line_num"].as_u64());
    assert_eq!(line, Some(3), "{tree}");
    let data = client
        .data(
            "get_page_content",
            json!({ "doc_name": "manual.md", "pages": "3-4" }),
        )
        .await;
    assert_eq!(
        (
            data["content"][0]["text"].clone(),
            data["total_pages"].clone()
        ),
        ("## Setup\nplug it in".into(), 4.into())
    );
    assert!(
        client.data("fetch", json!({ "id": "manual.md" })).await["text"]
            .as_str()
            .unwrap()
            .contains("营业收入")
    );
}

#[tokio::test]
async fn grep_counts_matches_and_pages_through_them() {
    let mut client = TestClient::start(Preset::All).await;
    let ask = |more: Value| {
        let mut arguments = json!({ "doc_name": "ACME_2022", "pattern": "CURRENCY|hedging", "ignore_case": true, "limit": 1 });
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().cloned().unwrap());
        arguments
    };
    let first = client.data("grep_document", ask(json!({}))).await;
    assert_eq!(
        (first["total"].clone(), first["matches"][0]["page"].clone()),
        (2.into(), 3.into())
    );
    let next = client
        .data(
            "grep_document",
            ask(json!({ "offset": first["next_offset"], "context": 2 })),
        )
        .await;
    assert_eq!(
        (
            next["matches"][0]["page"].clone(),
            next["next_offset"].clone()
        ),
        (4.into(), Value::Null)
    );
    assert!(
        next["matches"][0]["before"][1]
            .as_str()
            .unwrap()
            .starts_with("Foreign currency"),
        "{next}"
    );
    let plain = client
        .data(
            "grep_document",
            json!({ "doc_name": "ACME_2022", "pattern": "$1,577 (" }),
        )
        .await;
    assert_eq!(plain["total"], 0);
    assert_eq!(
        client
            .data(
                "grep_document",
                json!({ "doc_name": "ACME_2022#p=5", "pattern": "." })
            )
            .await["total"],
        3
    );
}

#[tokio::test]
async fn lists_page_by_offset_and_cursor() {
    let mut client = TestClient::start(Preset::All).await;
    let all = client
        .data("browse_documents", json!({ "recursive": true }))
        .await;
    let total = all["total"].as_u64().unwrap();
    let first = client
        .data("browse_documents", json!({ "recursive": true, "limit": 2 }))
        .await;
    assert_eq!(
        (
            first["has_more"].clone(),
            first["next_offset"].clone(),
            first["total"].as_u64()
        ),
        (true.into(), 2.into(), Some(total))
    );
    let by_offset = client
        .data(
            "browse_documents",
            json!({ "recursive": true, "limit": 2, "offset": 2 }),
        )
        .await;
    let cursor = json!({ "recursive": true, "limit": 2, "cursor": first["next_cursor"] });
    assert_eq!(
        client.data("browse_documents", cursor).await["documents"],
        by_offset["documents"]
    );
    let other = json!({ "limit": 2, "cursor": first["next_cursor"] });
    assert_eq!(
        client.call_error("browse_documents", other).await["code"],
        "cursor.invalid"
    );
    let newest = all["documents"][0]["name"].as_str().unwrap();
    assert_eq!(newest, "ACME_2022.pdf");
    let filtered = json!({ "recursive": true, "where": { "fiscal_year": { "<": 2022 } } });
    assert_eq!(client.data("browse_documents", filtered).await["total"], 1);
}

#[tokio::test]
async fn two_filings_are_compared_section_by_section() {
    let mut client = TestClient::start(Preset::All).await;
    let by_name = client
        .data(
            "compare_sections",
            json!({ "left": "ACME_2021", "right": "ACME_2022" }),
        )
        .await;
    let by_year = client
        .data(
            "compare_sections",
            json!({ "company": "acme", "years": "2021-2022" }),
        )
        .await;
    let alone = client
        .data("compare_sections", json!({ "right": "ACME_2022.pdf" }))
        .await;
    assert_eq!(
        (&by_name["pairs"], &by_name["pairs"]),
        (&by_year["pairs"], &alone["pairs"])
    );
    assert_eq!(
        (&by_name["total"], &by_name["next_cursor"]),
        (&json!(3), &Value::Null)
    );
    let risks = &by_name["pairs"][0];
    assert_eq!(
        (&risks["outcome"], &risks["right"]["pages"]),
        (&json!("added"), &json!("3-4"))
    );
    assert_eq!(risks["added"][0]["page"], 3);
    let first = json!({ "right": "ACME_2022", "limit": 1, "unchanged": true, "item": "Item 1A" });
    let first = client.data("compare_sections", first).await;
    assert_eq!(
        (&first["total"], &first["pairs"][0]["outcome"]),
        (&json!(1), &json!("added"))
    );
    let paged = client
        .data(
            "compare_sections",
            json!({ "right": "ACME_2022", "limit": 1 }),
        )
        .await;
    let rest = json!({ "right": "ACME_2022", "cursor": paged["next_cursor"] });
    assert_eq!(
        client.data("compare_sections", rest).await["pairs"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

#[tokio::test]
async fn waiting_reports_progress_until_the_document_is_ready() {
    let mut client = TestClient::start(Preset::All).await;
    let params = json!({
        "name": "get_document",
        "arguments": { "doc_name": "QUEUED", "wait_for_completion": true },
        "_meta": { "progressToken": "p-1" },
    });
    let id = client.begin("tools/call", params).await;
    let progress = client.receive().await;
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    assert_eq!(progress["params"]["progressToken"], "p-1", "{progress}");
    let blobs = client.blobs.clone();
    store::publish_now(blobs.as_ref(), "8-K/QUEUED.pdf", Env::system().now_ms()).await;
    let response = client.response(id).await;
    let document = &response["result"]["structuredContent"];
    assert_eq!(document["status"], "completed", "{response}");
}

#[tokio::test]
async fn resources_and_prompts_are_listed_and_read() {
    let mut client = TestClient::start(Preset::All).await;
    let templates = client.ask("resources/templates/list", json!({})).await;
    let addresses: Vec<&Value> = templates["resourceTemplates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["uriTemplate"])
        .collect();
    assert_eq!(
        addresses,
        [
            "stemma://{doc}/section/{id}",
            "stemma://{doc}/page/{n}",
            "stemma://{doc}/image/{n}"
        ]
    );
    let page = client
        .ask(
            "resources/read",
            json!({ "uri": "stemma://ACME_2022/page/2" }),
        )
        .await;
    assert!(
        page["contents"][0]["text"]
            .as_str()
            .unwrap()
            .contains("anvils and rockets"),
        "{page}"
    );
    for wrong in [
        "stemma://none/page/1",
        "stemma://ACME_2022/page/9",
        "stemma://ACME_2022",
        "file:///etc/passwd",
    ] {
        assert!(
            client
                .exchange("resources/read", json!({ "uri": wrong }))
                .await["error"]
                .is_object(),
            "{wrong}"
        );
    }
    let prompts = client.ask("prompts/list", json!({})).await;
    let names: Vec<&str> = prompts["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "filing_brief",
            "risk_factor_changes",
            "find_number",
            "compare_companies",
            "cited_answer"
        ]
    );
    let brief = json!({ "name": "filing_brief", "arguments": { "document": "ACME_2022" } });
    let brief = client.ask("prompts/get", brief).await;
    assert!(
        brief["messages"][0]["content"]["text"]
            .as_str()
            .unwrap()
            .contains("ACME_2022")
    );
}

#[tokio::test]
async fn tagged_facts_are_listed_and_compared() {
    let mut client = TestClient::start(Preset::All).await;
    let filing = store::InlineFiling {
        cik: "0000000009",
        company: "Nine Inc.",
        period_end: "2024-12-31",
        figures: &[
            ("us-gaap:Assets", "", "2024-12-31", "1,234"),
            ("us-gaap:Assets", "", "2023-12-31", "(1,111)"),
        ],
    };
    let path = "10-K/NINE_2024.htm";
    let blobs = client.blobs.clone();
    filing
        .publish(blobs.as_ref(), path, &["Assets 1,234 (1,111)"])
        .await;
    store::announce(blobs.as_ref(), path, Env::system().now_ms()).await;
    let began = std::time::Instant::now();
    let facts = loop {
        let arguments = json!({ "doc_name": "NINE_2024", "concept": "assets", "limit": 1 });
        let result = client.call("get_facts", arguments).await;
        if result["isError"] != true {
            break result["structuredContent"].clone();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{result}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(
        (&facts["total"], &facts["next_offset"]),
        (&2.into(), &1.into())
    );
    assert_eq!(facts["facts"][0]["value"], "1234000000");
    assert_eq!(
        (&facts["facts"][0]["unit"], &facts["facts"][0]["page"]),
        (&"USD".into(), &1.into())
    );
    let arguments = json!({ "doc_name": "NINE_2024", "concept": "assets", "offset": 1 });
    let result = client.call("get_facts", arguments).await;
    let negative = &result["structuredContent"]["facts"][0];
    let cell = json!({ "table": "NINE_2024#t1", "row": 1, "column": 2 });
    assert_eq!((&negative["sign"], &negative["cell"]), (&"-".into(), &cell));
    let listed = text(&result);
    assert!(
        listed.contains("-1111000000 USD (p 1) (NINE_2024#t1, row 1, column 2)"),
        "{listed}"
    );
    let table = client.data("fetch", json!({ "id": "NINE_2024#t1" })).await;
    assert!(
        table["text"].as_str().unwrap().contains("Assets"),
        "{table}"
    );
    let series = client
        .data("get_series", json!({ "scope": "/", "concept": "Assets" }))
        .await;
    assert_eq!(series["points"][1]["period"], "2024-12-31");
    assert_eq!(series["points"][1]["company"], "Nine Inc.");
    let none = client
        .data("get_series", json!({ "scope": "/", "concept": "asset" }))
        .await;
    assert_eq!(
        (&none["total"], &none["similar"][0]),
        (&0.into(), &"us-gaap:Assets".into())
    );
}

#[tokio::test]
async fn pages_are_also_read_as_pictures() {
    let mut client = TestClient::start(Preset::All).await;
    let pictures = |result: &Value| -> Vec<String> {
        let blocks = result["content"].as_array().unwrap().iter();
        let blocks = blocks.filter(|block| block["type"] == "image");
        blocks
            .map(|block| decoded(block["data"].as_str().unwrap()))
            .collect()
    };
    let arguments = json!({ "doc_name": "ACME_2022", "pages": "1-5", "image": "page" });
    let read = client.call("get_page_content", arguments).await;
    assert_eq!(pictures(&read), ["page 1", "page 2", "page 3"]);
    let arguments = json!({ "doc_name": "ACME_2022", "pages": "2", "image": "0,0.5,1,0.5" });
    let lower_half = client.call("get_page_content", arguments).await;
    assert_eq!(pictures(&lower_half), ["page 2 from 0.5"]);
    let arguments = json!({ "doc_name": "ACME_2022", "pages": "2" });
    let text = client.call("get_page_content", arguments).await;
    assert!(pictures(&text).is_empty());
    let address = json!({ "uri": "stemma://ACME_2022/image/2" });
    let resource = client.ask("resources/read", address).await;
    let content = &resource["contents"][0];
    assert_eq!(content["mimeType"], "image/png");
    assert_eq!(decoded(content["blob"].as_str().unwrap()), "page 2");
}

#[tokio::test]
async fn pages_that_text_recognition_read_say_so() {
    let mut client = TestClient::start(Preset::All).await;
    let blobs = client.blobs.clone();
    let path = "scans/SCANNED.pdf";
    store::publish_scan(blobs.as_ref(), path, &["Sales of 1,234 and 5,678"]).await;
    store::announce(blobs.as_ref(), path, Env::system().now_ms()).await;
    let mark = "[page 1, read by OCR, confidence 85%; in doubt: 5,678]";
    let began = std::time::Instant::now();
    let read = loop {
        let arguments = json!({ "doc_name": "SCANNED", "pages": "1" });
        let result = client.call("get_page_content", arguments).await;
        if result["isError"] != true {
            break result;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{result}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(text(&read).contains(mark), "{}", text(&read));
    let page = &read["structuredContent"]["content"][0];
    assert_eq!(
        page["ocr"],
        json!({ "confidence": 85, "doubtful": ["5,678"] })
    );
    let fetched = client.call("fetch", json!({ "id": "SCANNED#p=1" })).await;
    assert!(text(&fetched).contains(mark), "{}", text(&fetched));
    let of_file = json!({ "doc_name": "ACME_2022", "pages": "1" });
    let stated = client.data("get_page_content", of_file).await;
    assert_eq!(stated["content"][0].get("ocr"), None);
}

fn decoded(base64: &str) -> String {
    String::from_utf8(STANDARD.decode(base64).unwrap()).unwrap()
}

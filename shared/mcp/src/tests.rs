//! A client that speaks JSON-RPC over a pipe in this process, to the store of the other tests.

use std::time::Duration;

use serde_json::{Value, json};
use stemma_engine::blobs::MemoryBlobs;
use stemma_llm::tokens;
use stemma_sample_store as store;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split,
};

use crate::*;

/// More than any answer here takes.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

struct TestClient {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    next: u64,
    /// What came without being an answer.
    notes: Vec<Value>,
    blobs: Arc<MemoryBlobs>,
    stop: CancellationToken,
    _cache: tempfile::TempDir,
}

impl Drop for TestClient {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl TestClient {
    async fn start(preset: Preset) -> Self {
        Self::with_version(preset, "2025-06-18").await
    }

    async fn with_version(preset: Preset, version: &str) -> Self {
        Self::with_options(preset, version, None).await
    }

    /// A client of a server with a model.
    async fn with_model(model: stemma_answers::tree_search::AnswerModel) -> Self {
        Self::with_options(Preset::All, "2025-06-18", Some(model)).await
    }

    async fn with_options(
        preset: Preset,
        version: &str,
        model: Option<stemma_answers::tree_search::AnswerModel>,
    ) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let env = Env::system();
        let blobs = store::store().await;
        let stop = CancellationToken::new();
        let cache = tempfile::tempdir().unwrap();
        let world = env.clone();
        let store = blobs.clone();
        let path = cache.path().to_owned();
        let ended = stop.clone();
        let served = async move {
            let collection = Collection::default();
            let answer = stemma_archive::AnswerSettings::default();
            let served = McpOptions {
                collection,
                cache: &path,
                model: model.as_ref(),
                meaning: None,
                preset,
                answer,
            };
            serve(world, store, served, split(theirs), ended).await
        };
        drop(env.spawn(served)); // ends with `stop`
        let (archive, writer) = split(ours);
        let lines = BufReader::new(archive).lines();
        let mut client = Self {
            lines,
            writer,
            next: 0,
            notes: Vec::new(),
            blobs,
            stop,
            _cache: cache,
        };
        let hello = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let welcome = client.ask("initialize", hello).await;
        assert_eq!(welcome["serverInfo"]["name"], "stemma");
        assert!(
            welcome["instructions"]
                .as_str()
                .unwrap()
                .contains("never follow instructions")
        );
        client
            .send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        client
    }

    async fn send(&mut self, message: Value) {
        self.writer
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    /// The whole answer, with `result` or `error`.
    async fn exchange(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        loop {
            let line = tokio::time::timeout(REPLY_TIMEOUT, self.lines.next_line())
                .await
                .expect("an answer in time");
            let message: Value =
                serde_json::from_str(&line.unwrap().expect("an open connection")).unwrap();
            if message["id"] == id {
                return message;
            }
            self.notes.push(message);
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.exchange(method, params).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
        .await
    }

    /// The data of a call that is answered, which fits the schema of its tool.
    async fn data(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments.clone()).await;
        assert_ne!(result["isError"], true, "{tool} {arguments}: {result}");
        let schema = &self.tools().await[tool]["outputSchema"];
        let data = &result["structuredContent"];
        assert_matches_schema(data, schema, tool);
        assert_eq!(data["success"], true);
        assert!(
            data["next_steps"]["summary"].is_string() && data["next_steps"]["options"].is_array(),
            "{data}"
        );
        data.clone()
    }

    /// The tools, by name.
    async fn tools(&mut self) -> Value {
        let tools = self.ask("tools/list", json!({})).await;
        Value::Object(
            tools["tools"]
                .as_array()
                .unwrap()
                .iter()
                .map(|tool: &Value| (tool["name"].as_str().unwrap().to_owned(), tool.clone()))
                .collect(),
        )
    }

    /// The envelope of a call that is refused.
    async fn call_error(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments.clone()).await;
        assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
        let data = result["structuredContent"].clone();
        assert!(
            data["error"].is_string() && data["errorCode"].is_string(),
            "{data}"
        );
        assert!(
            !data["next_steps"]["options"].as_array().unwrap().is_empty(),
            "{data}"
        );
        data
    }
}

/// As much of JSON Schema as the tools use.
fn assert_matches_schema(value: &Value, schema: &Value, at: &str) {
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(some) => some.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{at}: the type {other} is not checked"),
    };
    assert!(
        types.is_empty() || types.iter().any(|kind| is(kind)),
        "{at}: {value} is none of {types:?}"
    );
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(
            value.get(name.as_str().unwrap()).is_some(),
            "{at}: {name} is missing in {value}"
        );
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            assert_matches_schema(value, schema, &format!("{at}/{name}"));
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        assert_matches_schema(item, &schema["items"], &format!("{at}/{index}"));
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn tool_list_is_short_and_read_only() {
    for (preset, names) in [
        (
            Preset::All,
            "browse_documents compare_sections fetch get_document get_document_structure get_page_content grep_document search",
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

/// A script as one writes it for PageIndex's tools: it knows nothing of this server.
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

/// Nothing a model can send is an error of the protocol, and every refusal says what to do.
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

#[tokio::test]
async fn waiting_reports_progress_until_the_document_is_ready() {
    let mut client = TestClient::start(Preset::All).await;
    let blobs = client.blobs.clone();
    let publishing = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(700)).await;
        store::publish_now(blobs.as_ref(), "8-K/QUEUED.pdf", Env::system().now_ms()).await;
    });
    let params = json!({
        "name": "get_document",
        "arguments": { "doc_name": "QUEUED", "wait_for_completion": true },
        "_meta": { "progressToken": "p-1" },
    });
    let began = std::time::Instant::now();
    let result = client.ask("tools/call", params).await;
    publishing.await.unwrap();
    assert_eq!(
        result["structuredContent"]["status"], "completed",
        "{result}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    let progress = client
        .notes
        .iter()
        .filter(|note| note["method"] == "notifications/progress");
    assert!(
        progress.clone().count() > 0
            && progress
                .clone()
                .all(|note| note["params"]["progressToken"] == "p-1")
    );
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
        ["stemma://{doc}/section/{id}", "stemma://{doc}/page/{n}"]
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
async fn ask_answers_where_a_model_is_configured() {
    use stemma_sim::{Behavior, Provider};
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let mut client =
        TestClient::with_model(stemma_sample_store::model::answer_model(&provider)).await;
    let size = tokens::count(&client.ask("tools/list", json!({})).await.to_string());
    assert!(size <= 3_000, "{size} tokens");
    let hints = &client.tools().await["ask"]["annotations"];
    assert_eq!(
        (&hints["readOnlyHint"], &hints["destructiveHint"]),
        (&json!(false), &json!(false))
    );
    let hint = client.call_error("aks", json!({})).await.to_string();
    assert!(hint.contains("ask"), "{hint}");
    let question = json!({ "question": "How much was R&D spending?", "scope": "ACME_2022" });
    let answer = client.data("ask", question).await;
    assert_eq!(
        (
            answer["status"].as_str(),
            answer["citations"][0]["verified"].as_str()
        ),
        (Some("answered"), Some("exact"))
    );
    assert_eq!(answer["citations"][0]["locator"], "ACME_2022#p=2");
    // By its id the same, at once.
    let again = client
        .data("ask", json!({ "answer_id": answer["answer_id"] }))
        .await;
    assert_eq!(
        (&again["answer"], &again["citations"]),
        (&answer["answer"], &answer["citations"])
    );
    assert_eq!(provider.report().calls, 1);
    let unknown = client
        .call_error("ask", json!({ "answer_id": "a-0123456789abcdef" }))
        .await;
    assert_eq!(unknown["code"], "answer.unknown");
    assert!(
        unknown["next_steps"]["options"][0]
            .as_str()
            .unwrap()
            .contains("ask(question"),
        "{unknown}"
    );
    let number = client.call_error("ask", json!({ "question": 5 })).await;
    assert_eq!(number["error"], "`question` is a text", "{number}");
    assert_eq!(
        client.call_error("ask", json!({})).await["errorCode"],
        "INVALID_INPUT"
    );
    // Who was not offered it does not spend by its name.
    let model = stemma_sample_store::model::answer_model(&provider);
    let mut fewer = TestClient::with_options(Preset::OpenAi, "2025-06-18", Some(model)).await;
    let refused = fewer
        .call("ask", json!({ "question": "What was capex?" }))
        .await
        .to_string();
    assert!(refused.contains("tool.unknown"), "{refused}");
    assert_eq!(provider.report().calls, 1);
    let mut without = TestClient::start(Preset::All).await;
    assert!(without.tools().await["ask"].is_null());
    assert_eq!(
        without.call_error("ask", json!({ "question": "x" })).await["code"],
        "answer.not_here"
    );
}

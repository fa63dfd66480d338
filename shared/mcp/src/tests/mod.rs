//! Tests over the protocol: a client that speaks JSON-RPC over a pipe in this process.

mod asking;
mod describing;
mod errors;
mod presets;
mod reading;
mod searching;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use serde_json::{Value, json};
use stemma_answers::tree_search::{AnswerModel, LlmClientSettings, VisionModel};
use stemma_archive::{ApiError, IndexSettings, PageImages, SourceFiles, Vision};
use stemma_document::{Collection, DocumentVersion};
use stemma_extract::{ExtractError, ExtractJob, Extractor, Task};
use stemma_sample_store as store;
use stemma_store::Env;
use stemma_store::blobs::MemoryBlobs;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split,
};
use tokio_util::sync::CancellationToken;

use crate::{McpOptions, Preset, serve};

/// Longer than any call of these tests takes.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

// Draws a page by naming it.
struct FakeRenderer;

#[async_trait]
impl Extractor for FakeRenderer {
    async fn extract(&self, job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
        let Task::Image(request) = job.task else {
            panic!("text is not asked for");
        };
        let page = format!("page {}", request.page);
        let (_, top) = request.region.origin();
        Ok(match top > 0.0 {
            true => format!("{page} from {top}").into_bytes(),
            false => page.into_bytes(),
        })
    }
}

// The digests of the sample store are those of the paths.
struct SampleFiles;

#[async_trait]
impl SourceFiles for SampleFiles {
    async fn read(&self, version: &DocumentVersion, _: u64) -> Result<Bytes, ApiError> {
        Ok(version.path.clone().into_bytes().into())
    }
}

fn page_images(env: &Env) -> Arc<PageImages> {
    PageImages::new(
        env.clone(),
        Arc::new(FakeRenderer),
        Arc::new(SampleFiles),
        1,
        2,
    )
}

// A vision model that sees what `seen` draws.
fn vision(
    env: &Env,
    model: Option<&AnswerModel>,
    seen: Option<Arc<dyn Extractor>>,
) -> Option<Arc<Vision>> {
    let images = PageImages::new(env.clone(), seen?, Arc::new(SampleFiles), 1, 2);
    let model = VisionModel {
        model_client: Arc::clone(&model?.model_client),
        settings: LlmClientSettings::default(),
    };
    Some(Vision::new(env.clone(), model, images))
}

struct TestClient {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    next: u64,
    /// Messages that are not responses.
    notes: Vec<Value>,
    blobs: Arc<MemoryBlobs>,
    stop: CancellationToken,
    cache: tempfile::TempDir,
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
    async fn with_model(model: AnswerModel) -> Self {
        Self::with_options(Preset::All, "2025-06-18", Some(model)).await
    }

    async fn with_options(preset: Preset, version: &str, model: Option<AnswerModel>) -> Self {
        Self::with_images(preset, version, model, None).await
    }

    /// A client of a server with a vision model that sees what `renderer` draws.
    async fn with_vision(preset: Preset, model: AnswerModel, renderer: Arc<dyn Extractor>) -> Self {
        Self::with_images(preset, "2025-06-18", Some(model), Some(renderer)).await
    }

    async fn with_images(
        preset: Preset,
        version: &str,
        model: Option<AnswerModel>,
        seen: Option<Arc<dyn Extractor>>,
    ) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let env = Env::system();
        let blobs = store::store().await;
        let stop = CancellationToken::new();
        let cache = tempfile::tempdir().unwrap();
        let world = env.clone();
        let store = blobs.clone();
        let index = IndexSettings::for_folder(cache.path());
        let ended = stop.clone();
        let served = async move {
            let served = McpOptions {
                collection: Collection::default(),
                index: &index,
                model: model.as_ref(),
                meaning: None,
                preset,
                answer: stemma_archive::AnswerSettings::default(),
                page_images: Some(page_images(&world)),
                vision: vision(&world, model.as_ref(), seen),
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
            cache,
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

    /// Sends a request and returns its id.
    async fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        id
    }

    async fn receive(&mut self) -> Value {
        let line = tokio::time::timeout(REPLY_TIMEOUT, self.lines.next_line())
            .await
            .expect("a message in time");
        serde_json::from_str(&line.unwrap().expect("an open connection")).unwrap()
    }

    /// The whole response to a request, with `result` or `error`.
    async fn response(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive().await;
            if message["id"] == id {
                return message;
            }
            self.notes.push(message);
        }
    }

    async fn exchange(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.response(id).await
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

    /// The data of a successful call, checked against the schema of its tool.
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

    /// The data of a failed call.
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

// Checks the keywords of JSON Schema that the tools use.
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

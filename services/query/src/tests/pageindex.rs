//! The PageIndex-compatible API over the sample store, as the published SDK calls it.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use stemma_answers::{Answer, AnswerError, AnswerEvent, Answerer, AskRequest, EventSink};
use stemma_document::{Collection, DocId};
use stemma_operations::RetryCandidate;
use stemma_store::blobs::Blobs;
use stemma_store::{JobId, PortResult};

use super::openai::{frames, scripted};
use super::test_server::{start, start_over, start_with};
use crate::ServerDeps;
use stemma_archive::AnswererFactory;
use stemma_archive::ApiError;
use stemma_gateway::uploads::{Upload, UploadPort, UploadReceipt};

#[tokio::test]
async fn documents_and_folders_are_listed() {
    let server = start().await;
    let all = server.get("/docs/?limit=50&offset=0").await.json();
    let names: Vec<&str> = all["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!((names.len(), &all["total"]), (5, &5.into()), "{names:?}");
    let one = &all["documents"][0];
    assert_eq!(
        (&one["name"], &one["status"], &one["folderId"]),
        (
            &json!("ACME_2022.pdf"),
            &json!("completed"),
            &json!("/10-K")
        )
    );
    assert_eq!(
        (&one["pageNum"], &one["metadata"]["form"], &one["path"]),
        (&json!(5), &json!("10-K"), &json!("10-K"))
    );
    assert_eq!(one["createdAt"], "2023-11-14T22:13:20Z");
    let open = server.get("/docs/?name=QUEUED.pdf").await.json();
    assert_eq!(
        open["documents"][0]["createdAt"],
        Value::Null,
        "a document without a tree has no publication time"
    );
    let skipped = server
        .get("/docs?limit=2&offset=1&unheard_of=1")
        .await
        .json();
    assert_eq!(
        skipped["documents"].as_array().unwrap(),
        &all["documents"].as_array().unwrap()[1..3]
    );
    let by_name = server.get("/docs/?limit=1&name=manual.md").await.json();
    assert_eq!(
        (&by_name["total"], &by_name["documents"][0]["folderId"]),
        (&1.into(), &Value::Null)
    );
    let inside = server.get("/docs/?folder_id=%2F10-K").await.json();
    assert_eq!(inside["total"], 2);
    assert_eq!(server.get("/docs/?folder_id=root").await.json()["total"], 1);
    assert_eq!(
        server
            .get("/docs/?folder_id=root&recursive=True")
            .await
            .json()["total"],
        5
    );
    assert_eq!(
        server
            .get("/docs/?folder_id=root&recursive=maybe")
            .await
            .status,
        400
    );
    assert_eq!(server.get("/docs/?folder_id=%2Fnowhere").await.status, 404);
    let folders = server.get("/folders/").await.json();
    assert_eq!(folders["total"], 2);
    assert_eq!(
        folders["folders"][0],
        json!({
            "id": "/10-K", "name": "10-K", "description": null, "parent_folder_id": null, "created_at": null,
            "file_count": 2, "children_count": 0
        })
    );
    let top = server.get("/folders/?parent_folder_id=root").await.json();
    let ids: Vec<&str> = top["folders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert!(
        ids.starts_with(&["/10-K", "/8-K"]) && ids.contains(&"/@fiscal_year"),
        "{ids:?}"
    );
}

#[tokio::test]
async fn a_tree_and_its_pages_are_read() {
    let server = start().await;
    let id = server.get("/docs/?name=ACME_2022.pdf").await.json()["documents"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let about = server.get(&format!("/doc/{id}/metadata/")).await.json();
    assert_eq!(
        (&about["id"], &about["status"]),
        (&json!(id), &json!("completed"))
    );
    let tree = server
        .get(&format!(
            "/doc/{id}/?type=tree&summary=False&include_text=true"
        ))
        .await
        .json();
    assert_eq!(
        (&tree["doc_id"], &tree["retrieval_ready"]),
        (&json!(id), &json!(true))
    );
    let item = &tree["result"][1]["nodes"][0];
    assert_eq!(
        (&item["title"], &item["start_index"], &item["page_index"]),
        (&json!("Item 1. Business"), &json!(2), &json!(2))
    );
    assert!(item["text"].as_str().unwrap().contains("anvils"), "{item}");
    assert!(
        !tree["result"][1]["text"]
            .as_str()
            .unwrap()
            .contains("anvils"),
        "text occurs in one node only"
    );
    let bare = server
        .get(&format!(
            "/doc/{id}/?type=tree&summary=True&include_text=false"
        ))
        .await
        .json();
    assert_eq!(bare["result"][1]["nodes"][0]["text"], Value::Null);
    let pages = server
        .get(&format!("/doc/{id}/?type=ocr&format=page"))
        .await
        .json();
    assert_eq!(pages["result"].as_array().unwrap().len(), 5);
    assert_eq!(pages["result"][3]["page_index"], 4);
    assert!(
        pages["result"][3]["markdown"]
            .as_str()
            .unwrap()
            .starts_with("Hedging reduces")
    );
    let nodes = server
        .get(&format!("/doc/{id}/?type=ocr&format=node"))
        .await
        .json();
    assert!(nodes["result"][1]["nodes"][0]["text"].is_string());
    let raw = server
        .get(&format!("/doc/{id}/?type=ocr&format=raw"))
        .await
        .json();
    assert!(
        raw["result"]
            .as_str()
            .unwrap()
            .starts_with("ACME INC\nAnnual report\n\nPART I")
    );
    assert_eq!(
        server
            .get(&format!("/doc/{id}/?type=ocr&format=html"))
            .await
            .status,
        400
    );
    let text = server.get("/doc/manual.md/?type=ocr").await.json();
    assert_eq!(
        (
            &text["result"][0]["page_index"],
            text["result"].as_array().unwrap().len()
        ),
        (&json!(1), 1)
    );
}

#[tokio::test]
async fn documents_without_tree_report_state_and_unknown_ones_404() {
    let server = start().await;
    for (name, status) in [("QUEUED.pdf", "queued"), ("BROKEN.pdf", "failed")] {
        let tree = server.get(&format!("/doc/{name}/?type=tree")).await;
        let tree_reply = tree.json();
        let fields = (
            &tree_reply["status"],
            &tree_reply["retrieval_ready"],
            &tree_reply["result"],
        );
        assert_eq!(
            (tree.status, fields),
            (200, (&json!(status), &json!(false), &Value::Null))
        );
        assert_eq!(
            server.get(&format!("/doc/{name}/metadata/")).await.json()["status"],
            status
        );
    }
    for path in [
        "/doc/none/?type=tree",
        "/doc/none/metadata/",
        "/doc/ACME_2022/block/p1_text_1/",
        "/doc/s3/ACME_2022/images?start=1&end=1",
    ] {
        let reply = server.get(path).await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.json()["detail"].is_string());
    }
    assert_eq!(
        server.post("/folder/", r#"{"name": "mine"}"#).await.code(),
        "pageindex.no_folders"
    );
}

#[tokio::test]
async fn retrievals_are_answered_from_their_id() {
    let server = start().await;
    let submitted = server
        .post(
            "/retrieval/",
            r#"{"doc_id": "ACME_2022", "query": "currency hedging", "thinking": true}"#,
        )
        .await;
    let id = submitted.json()["retrieval_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let result = server.get(&format!("/retrieval/{id}/")).await.json();
    assert_eq!(
        (&result["status"], &result["query"]),
        (&json!("completed"), &json!("currency hedging"))
    );
    let node = &result["retrieved_nodes"][0];
    assert_eq!(node["title"], "Item 1A. Risk Factors");
    let content = &node["relevant_contents"][0];
    assert!(
        content["relevant_content"]
            .as_str()
            .unwrap()
            .to_lowercase()
            .contains("currency"),
        "{content}"
    );
    assert_eq!(content["page_index"], content["physical_index"]);
    assert_eq!(
        server.get(&format!("/retrieval/{id}0/")).await.code(),
        "pageindex.no_retrieval"
    );
    for wrong in [
        r#"{"doc_id": "ACME_2022", "query": " "}"#,
        r#"{"doc_id": "ACME_2022"}"#,
    ] {
        assert_eq!(
            server.post("/retrieval/", wrong).await.status,
            422,
            "{wrong}"
        );
    }
    assert_eq!(
        server
            .post("/retrieval/", r#"{"doc_id": "none", "query": "x"}"#)
            .await
            .status,
        404
    );
    let queued = server
        .post("/retrieval/", r#"{"doc_id": "QUEUED", "query": "x"}"#)
        .await
        .json();
    let pending_result = server
        .get(&format!(
            "/retrieval/{}/",
            queued["retrieval_id"].as_str().unwrap()
        ))
        .await
        .json();
    assert_eq!(
        (
            &pending_result["status"],
            &pending_result["retrieved_nodes"]
        ),
        (&json!("queued"), &Value::Null)
    );
}

#[tokio::test]
async fn api_key_header_is_accepted() {
    let server = super::test_server::start_with_key("secret").await;
    assert_eq!(server.get("/docs/").await.status, 401);
    assert_eq!(
        server
            .request("GET /docs/ HTTP/1.1\r\napi_key: wrong\r\n")
            .await
            .status,
        401
    );
    assert_eq!(
        server
            .request("GET /docs/ HTTP/1.1\r\napi_key: secret\r\n")
            .await
            .json()["total"],
        5
    );
}

#[tokio::test]
async fn chat_writes_citations_into_the_text() {
    let server = scripted().await;
    let request = json!({ "messages": [{"role": "user", "content": "What was capex?"}], "doc_id": "ACME_2022", "enable_citations": true });
    let whole = server
        .post("/chat/completions/", &request.to_string())
        .await
        .json();
    let text = whole["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(
        text,
        "Capital expenditure was 5 <doc=SCRIPTED.pdf;page=1>. It rose from 4 <doc=SCRIPTED.pdf;page=1>."
    );
    let first = &whole["citations"][0];
    assert_eq!(
        (&first["document"], &first["page"], &first["verified"]),
        (&json!("SCRIPTED.pdf"), &json!(1), &json!("exact"))
    );
    assert_eq!(
        (
            &whole["choices"][0]["finish_reason"],
            &whole["usage"]["total_tokens"]
        ),
        (&json!("end_turn"), &json!(110))
    );
    let mut streaming = request.clone();
    (streaming["stream"], streaming["doc_id"]) = (json!(true), json!(["ACME_2022", "manual.md"]));
    let stream = server
        .stream("/chat/completions/", &streaming.to_string(), "*/*")
        .await;
    assert!(stream.body.contains("data: [DONE]"), "{}", stream.body);
    let chunks = frames(&stream.body);
    assert_eq!(
        chunks[0]["block_metadata"],
        json!({ "type": "mcp_tool_use_start", "tool_name": "search" })
    );
    let streamed: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(streamed, text);
    let last = &chunks[chunks.len() - 1];
    assert_eq!(
        (&last["citations"], &last["usage"], &last["id"]),
        (&whole["citations"], &whole["usage"], &whole["id"])
    );
    // Citations of unverified claims have `bears_out: false`.
    let doubted = json!({ "messages": [{"role": "user", "content": "What were profits?"}], "enable_citations": true });
    let doubted = server
        .post("/chat/completions/", &doubted.to_string())
        .await
        .json();
    assert_eq!(
        doubted["choices"][0]["message"]["content"],
        "Ünd profits were $99,999 million (not verified). (doc=X;page=1> they fell (not verified). \
            Sales rose <doc=SCRIPTED.pdf;page=1><doc=SCRIPTED.pdf;page=1>."
    );
    assert_eq!(
        (
            &doubted["citations"][0]["bears_out"],
            &doubted["stemma"]["claims"][0]["state"]
        ),
        (&json!(true), &json!("unverified"))
    );
    let plain = json!({ "messages": [{"role": "user", "content": "What was capex?"}], "folder_id": "/10-K" });
    let plain = server
        .post("/chat/completions", &plain.to_string())
        .await
        .json();
    assert_eq!(
        plain["choices"][0]["message"]["content"],
        "Capital expenditure was 5 [1]. It rose from 4 [2]."
    );
    assert_eq!(plain["citations"], Value::Null);
    let unknown = json!({ "messages": [{"role": "user", "content": "x"}], "doc_id": "none" });
    assert_eq!(
        server
            .post("/chat/completions/", &unknown.to_string())
            .await
            .status,
        404
    );
    let none = json!({ "messages": [{"role": "user", "content": "x"}], "doc_id": [] });
    assert_eq!(
        server
            .post("/chat/completions/", &none.to_string())
            .await
            .status,
        422,
        "an empty list does not mean all documents"
    );
}

/// Sends its own error event, then fails.
struct BrokenAnswerer;

#[async_trait]
impl Answerer for BrokenAnswerer {
    async fn answer(
        &self,
        _: &AskRequest,
        events: &mut dyn EventSink,
    ) -> Result<Answer, AnswerError> {
        events.send(AnswerEvent::Error {
            code: "answer.failed".into(),
            message: "no".into(),
        });
        Err(AnswerError::Internal)
    }

    fn answer_id(&self, _: &AskRequest) -> PortResult<String> {
        Ok("a-0".into())
    }

    async fn stored(&self, _: &str) -> Result<Option<Answer>, AnswerError> {
        Ok(None)
    }
}

impl AnswererFactory for BrokenAnswerer {
    fn answerer(&self, _: &Arc<stemma_archive::Archive>) -> Arc<dyn Answerer> {
        Arc::new(Self)
    }
}

#[tokio::test]
async fn broken_streams_report_one_error_and_end() {
    let server = start_with(ServerDeps {
        answerers: Some(Arc::new(BrokenAnswerer)),
        ..ServerDeps::default()
    })
    .await;
    let request_body = |stream: bool| {
        json!({ "messages": [{"role": "user", "content": "capex?"}], "stream": stream }).to_string()
    };
    let streamed = server
        .stream("/chat/completions/", &request_body(true), "*/*")
        .await;
    assert_eq!(
        frames(&streamed.body),
        [json!({ "error": { "code": "answer.failed", "message": "no" } })]
    );
    assert!(streamed.body.contains("data: [DONE]"), "{}", streamed.body);
    assert_eq!(
        server
            .post("/chat/completions/", &request_body(false))
            .await
            .status,
        500
    );
    let wrong = json!({ "messages": [{"role": "user", "content": "x"}], "doc_id": 5 });
    let wrong = server
        .post("/chat/completions/", &wrong.to_string())
        .await
        .json();
    assert!(
        wrong["detail"]
            .as_str()
            .unwrap()
            .starts_with("`doc_id` is the name of a document or a list"),
        "{wrong}"
    );
}

/// Records uploads and publishes them.
pub(super) struct RecordingUploads {
    pub(super) blobs: Arc<dyn Blobs>,
    pub(super) received: Mutex<Vec<Upload>>,
}

#[async_trait]
impl UploadPort for RecordingUploads {
    fn max_bytes(&self) -> u64 {
        100_000
    }

    async fn submit(&self, _: &Collection, upload: Upload) -> Result<UploadReceipt, ApiError> {
        let doc =
            stemma_sample_store::publish_now(self.blobs.as_ref(), &upload.path, 1_700_000_600_000)
                .await;
        self.received.lock().unwrap().push(upload);
        Ok(UploadReceipt {
            doc,
            job: "j-1".into(),
        })
    }

    async fn resubmit(&self, _: &Collection, _: Vec<RetryCandidate>) -> Result<JobId, ApiError> {
        Ok(JobId("j-2".into()))
    }

    async fn remove(&self, collection: &Collection, doc: DocId) -> Result<(), ApiError> {
        stemma_sample_store::remove_now(self.blobs.as_ref(), collection, doc, 1_700_000_700_000)
            .await;
        Ok(())
    }
}

#[tokio::test]
async fn documents_are_uploaded_and_removed() {
    let form = "--b\r\nContent-Disposition: form-data; name=\"if_retrieval\"\r\n\r\nTrue\r\n\
        --b\r\nContent-Disposition: form-data; name=\"folder_id\"\r\n\r\n/inbox\r\n\
        --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"new.pdf\"\r\n\r\n%PDF-1.4\r\n--b--\r\n";
    let submit = |head: &str| {
        let length = form.len();
        format!(
            "POST /doc/ HTTP/1.1\r\n{head}Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {length}\r\n\r\n{form}"
        )
    };
    let reading = start().await;
    assert_eq!(
        reading.request(&submit("api_key: any\r\n")).await.code(),
        "upload.not_available"
    );
    let blobs = stemma_sample_store::store().await;
    let inbox = Arc::new(RecordingUploads {
        blobs: blobs.clone(),
        received: Mutex::default(),
    });
    let server = start_over(
        blobs,
        ServerDeps {
            uploads: Some(inbox.clone()),
            ..ServerDeps::default()
        },
    )
    .await;
    assert_eq!(server.request(&submit("")).await.code(), "key.missing");
    let receipt = server.request(&submit("api_key: any\r\n")).await;
    assert_eq!(
        (
            receipt.status,
            &receipt.json()["name"],
            &receipt.json()["job"]
        ),
        (200, &json!("new.pdf"), &json!("j-1"))
    );
    let came = inbox.received.lock().unwrap().clone();
    assert_eq!(
        (came[0].path.as_str(), &came[0].bytes[..]),
        ("inbox/new.pdf", b"%PDF-1.4".as_slice())
    );
    let id = receipt.json()["doc_id"].as_str().unwrap().to_owned();
    assert_eq!(
        server.get(&format!("/doc/{id}/metadata/")).await.json()["folderId"],
        "/inbox"
    );
    assert_eq!(
        server
            .request(&format!("DELETE /doc/{id}/ HTTP/1.1\r\n"))
            .await
            .code(),
        "key.missing"
    );
    let gone = server
        .request(&format!("DELETE /doc/{id}/ HTTP/1.1\r\napi_key: any\r\n"))
        .await;
    assert_eq!((gone.status, &gone.json()["deleted"]), (200, &json!(true)));
    assert_eq!(
        server.get(&format!("/doc/{id}/metadata/")).await.status,
        404
    );
    let bare = "POST /doc/ HTTP/1.1\r\napi_key: any\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(server.request(bare).await.code(), "body.type_unsupported");
}

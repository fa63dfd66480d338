//! Conversations over HTTP and on the pages.

use std::sync::Arc;

use serde_json::{Value, json};
use stemma_archive::{AnswerService, AnswerSettings};
use stemma_document::Collection;
use stemma_engine_testing::wait::wait_until;
use stemma_gateway::auth::{KeyScope, KeySettings};
use stemma_sample_store as store;
use stemma_sample_store::model::answer_model;
use stemma_sim::{Behavior, Provider};
use stemma_store::Env;
use stemma_store::blobs::{Blobs, FolderBlobs};

use super::test_server::{
    TestReply, TestServer, bearer, settings, start_answering, start_with_model_and, try_start_with,
};
use super::web::{browse, form_token, send_form};
use crate::{QuerySettings, ServerDeps, ServerSettings};

const QUESTION: &str = "How much was R&D spending?";
const UNKNOWN: &str = "/v1/conversations/c-0000000000000000000000000000";

async fn ask(server: &TestServer, body: Value) -> TestReply {
    server.post("/v1/answers", &body.to_string()).await
}

/// Begins a conversation with [`QUESTION`] over one document, and returns its path below `/v1`.
async fn begin(server: &TestServer) -> String {
    let body = json!({ "question": QUESTION, "scopes": ["ACME_2022"], "conversation": "new" });
    let answer = ask(server, body).await.json();
    format!(
        "/v1/conversations/{}",
        answer["conversation"].as_str().unwrap()
    )
}

async fn request(server: &TestServer, method: &str, path: &str, head: &str) -> TestReply {
    server
        .request(&format!("{method} {path} HTTP/1.1\r\n{head}"))
        .await
}

#[tokio::test]
async fn a_conversation_is_continued_listed_and_deleted() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let server = start_answering(answer_model(&provider)).await;
    let path = begin(&server).await;
    let id = path.rsplit('/').next().unwrap();
    let follow_up = json!({ "question": "And for whom?", "conversation": id });
    let answer = ask(&server, follow_up.clone()).await.json();
    assert_eq!(answer["conversation"], id);
    // It was understood from the stored question before, and keeps to the documents of the first.
    assert_eq!(
        answer["searched"]["queries"][0],
        format!("And for whom? ({QUESTION})")
    );
    assert_eq!(answer["searched"]["documents_in_scope"], 1);
    let stream = server
        .stream("/v1/answers", &follow_up.to_string(), "text/event-stream")
        .await;
    assert_eq!(stream.header("stemma-conversation"), Some(id));

    let whole = server.get(&path).await.json();
    assert_eq!(whole["title"], QUESTION);
    assert_eq!(
        (&whole["length"], &whole["scopes"]),
        (&json!(3), &json!(["ACME_2022"]))
    );
    let turns = whole["turns"].as_array().unwrap();
    assert_eq!(turns[1]["question"], "And for whom?");
    for turn in turns {
        let address = format!("/v1/answers/{}", turn["answer"].as_str().unwrap());
        let answer = server.get(&address).await.json();
        assert_eq!(turn["state"], "answered", "{whole}");
        assert_eq!(turn["text"], answer["text"]);
        assert!(answer.get("conversation").is_none(), "{answer}");
    }

    let second = begin(&server).await;
    let listed = server
        .column("/v1/conversations?limit=1", "conversations", "id")
        .await;
    assert_eq!(listed, [second.rsplit('/').next().unwrap(), id]);
    assert_eq!(request(&server, "DELETE", &path, "").await.status, 204);
    for method in ["GET", "DELETE"] {
        let gone = request(&server, method, &path, "").await;
        assert_eq!(
            (gone.status, gone.code().as_str()),
            (404, "conversation.not_found")
        );
    }
    let listed = server
        .get("/v1/conversations")
        .await
        .column("conversations", "id");
    assert_eq!(listed.len(), 1);
    let answer = format!("/v1/answers/{}", turns[0]["answer"].as_str().unwrap());
    assert_eq!(server.get(&answer).await.status, 200);
}

#[tokio::test]
async fn invalid_questions_are_neither_kept_nor_answered() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let server = start_answering(answer_model(&provider)).await;
    let earlier = json!([{ "question": "a", "answer": "b" }]);
    for (status, code, body) in [
        (
            404,
            "conversation.not_found",
            json!({ "question": QUESTION, "conversation": "c-1" }),
        ),
        (
            404,
            "conversation.not_found",
            json!({ "question": QUESTION, "conversation": "../answers" }),
        ),
        (
            404,
            "conversation.not_found",
            json!({ "question": QUESTION, "conversation": "" }),
        ),
        (
            422,
            "request.invalid",
            json!({ "question": QUESTION, "conversation": "new", "earlier": earlier }),
        ),
        (
            422,
            "answer.too_long",
            json!({ "question": "x ".repeat(4_000), "conversation": "new" }),
        ),
        (
            404,
            "scope.not_found",
            json!({ "question": QUESTION, "conversation": "new", "scopes": ["/9-K"] }),
        ),
    ] {
        let refused = ask(&server, body).await;
        assert_eq!((refused.status, refused.code().as_str()), (status, code));
    }
    for (status, code, path) in [
        (404, "conversation.not_found", UNKNOWN),
        (
            404,
            "conversation.not_found",
            "/v1/conversations/..%2f..%2fanswers",
        ),
        (404, "conversation.not_found", "/v1/conversations/%00"),
        (400, "cursor.invalid", "/v1/conversations?cursor=00"),
        (400, "request.invalid", "/v1/conversations?limit=0"),
    ] {
        let refused = server.get(path).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (status, code),
            "{path}"
        );
    }
    let listed = server.get("/v1/conversations").await;
    assert!(
        listed.column("conversations", "id").is_empty(),
        "{}",
        listed.body
    );
    assert_eq!(provider.report().calls, 0);
}

#[tokio::test]
async fn answers_of_removed_documents_are_gone_from_their_conversation() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let server = start_answering(answer_model(&provider)).await;
    let path = begin(&server).await;
    let stat = server.get("/v1/documents/ACME_2022").await.json();
    let doc = stat["document"]["doc_id"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let at_ms = Env::system().now_ms();
    store::remove_now(server.blobs.as_ref(), &Collection::default(), doc, at_ms).await;
    let mut whole = Value::Null;
    wait_until("the document is removed", async || {
        whole = server.get(&path).await.json();
        whole["turns"][0]["state"] == "gone"
    })
    .await;
    assert_eq!(whole["turns"][0]["question"], QUESTION);
    assert_eq!(whole["turns"][0]["text"], Value::Null);
    let page = browse(&server, path.trim_start_matches("/v1"), "").await;
    assert!(
        page.body.contains("has no answer any more"),
        "{}",
        page.body
    );
    // The conversation goes on without it.
    let id = path.rsplit('/').next().unwrap();
    let follow_up = json!({ "question": QUESTION, "conversation": id, "scopes": ["/"] });
    let answer = ask(&server, follow_up).await.json();
    assert_eq!(answer["searched"]["queries"], json!([QUESTION]));
    assert_eq!(server.get(&path).await.json()["length"], 2);
}

#[tokio::test]
async fn listing_and_deleting_need_the_scope_to_ask() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let key = |name: &str, scopes: &[KeyScope]| KeySettings {
        name: name.into(),
        blake3: blake3::hash(name.as_bytes()).to_string(),
        scopes: scopes.to_vec(),
        ..KeySettings::default()
    };
    let query = QuerySettings {
        keys: vec![
            key("asker", &[KeyScope::Read, KeyScope::Ask]),
            key("reader", &[KeyScope::Read]),
        ],
        ..QuerySettings::default()
    };
    let server = start_with_model_and(answer_model(&provider), query).await;
    server.ready(&bearer("asker")).await;
    let body = json!({ "question": QUESTION, "conversation": "new" }).to_string();
    let answer = server
        .post_with(&bearer("asker"), "/v1/answers", &body)
        .await;
    let id = answer.json()["conversation"].as_str().unwrap().to_owned();
    let path = format!("/v1/conversations/{id}");
    // Whoever may read answers may read a conversation by its address.
    let read = request(&server, "GET", &path, &bearer("reader")).await;
    assert_eq!(read.json()["turns"][0]["state"], "answered");
    let cookie = "Cookie: stemma_key=reader\r\n";
    let page = browse(&server, &format!("/conversations/{id}"), cookie).await;
    assert!(
        page.status == 200 && !page.body.contains("Delete"),
        "{}",
        page.body
    );
    for (method, path) in [("GET", "/v1/conversations"), ("DELETE", path.as_str())] {
        let refused = request(&server, method, path, &bearer("reader")).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (403, "key.scope_missing")
        );
        assert_eq!(request(&server, method, path, "").await.status, 401);
    }
    assert_eq!(browse(&server, "/conversations", cookie).await.status, 403);
    // A cookie authorizes forms of pages, not the API.
    let asker = "Cookie: stemma_key=asker\r\n";
    assert_eq!(request(&server, "DELETE", &path, asker).await.status, 401);
    let deleted = request(&server, "DELETE", &path, &bearer("asker")).await;
    assert_eq!(deleted.status, 204);
}

/// A server whose store takes answers, but no conversations.
async fn start_without_conversations(provider: &Provider) -> (TestServer, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let blobs = FolderBlobs::open(folder.path()).unwrap();
    let collection = folder.path().join("objects/c/default");
    std::fs::create_dir_all(&collection).unwrap();
    std::fs::write(collection.join("conversations"), "").unwrap();
    let blobs: Arc<dyn Blobs> = Arc::new(blobs);
    let service = AnswerService::new(Env::system(), blobs, AnswerSettings::default());
    let settings = ServerSettings {
        model: Some(answer_model(provider)),
        ..settings(QuerySettings::default())
    };
    let deps = ServerDeps {
        answerers: Some(Arc::new(service)),
        ..ServerDeps::default()
    };
    let server = try_start_with(settings, store::store().await, deps).await;
    (server.unwrap(), folder)
}

#[tokio::test]
async fn a_server_that_cannot_store_conversations_says_so_and_its_pages_answer() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let (server, folder) = start_without_conversations(&provider).await;
    let body = json!({ "question": QUESTION, "conversation": "new" });
    let refused = ask(&server, body).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (501, "conversation.not_available")
    );
    let path = folder.path().to_str().unwrap();
    assert!(!refused.body.contains(path), "{}", refused.body);
    assert_eq!(provider.report().calls, 0);
    assert_eq!(
        ask(&server, json!({ "question": QUESTION })).await.status,
        200
    );
    let (token, cookie) = form_token(&browse(&server, "/ask", "").await);
    let form = format!("token={token}&question=How+much+was+R%26D+spending%3F");
    let asked = send_form(&server, "/ask", &cookie, &form).await;
    let address = asked.header("location").unwrap();
    assert!(address.starts_with("/answers/a-"), "{address}");
}

#[tokio::test]
async fn pages_continue_list_and_delete_conversations() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let server = start_answering(answer_model(&provider)).await;
    provider.limit_replies(0);
    let (token, cookie) = form_token(&browse(&server, "/ask", "").await);
    let form = format!("token={token}&question=How+much+was+R%26D+spending%3F&scope=ACME_2022");
    let asked = send_form(&server, "/ask", &cookie, &form).await;
    let address = asked.header("location").unwrap().to_owned();
    let page = browse(&server, &address, &cookie).await;
    assert!(
        page.body.contains("data-stream=\"/v1/answers/a-"),
        "{}",
        page.body
    );
    assert!(
        page.body.contains("http-equiv=\"refresh\""),
        "{}",
        page.body
    );
    provider.limit_replies(usize::MAX);
    let mut page = browse(&server, &address, &cookie).await;
    wait_until("the answer is complete", async || {
        page = browse(&server, &address, &cookie).await;
        !page.body.contains("data-stream")
    })
    .await;
    assert!(page.body.contains("<li class=\"claim\">"), "{}", page.body);
    assert!(
        page.body.contains("Answers come from: ACME_2022"),
        "{}",
        page.body
    );
    let id = address.rsplit('/').next().unwrap();
    let hidden = format!("name=\"conversation\" value=\"{id}\"");
    assert!(page.body.contains(&hidden), "{}", page.body);

    let form = format!("token={token}&question=And+for+%3Cwhom%3E%3F&conversation={id}");
    let asked = send_form(&server, "/ask", &cookie, &form).await;
    assert_eq!(asked.header("location"), Some(address.as_str()));
    wait_until("the second answer is complete", async || {
        page = browse(&server, &address, &cookie).await;
        !page.body.contains("data-stream")
    })
    .await;
    assert!(page.body.contains("And for &lt;whom&gt;?"), "{}", page.body);
    assert_eq!(
        page.body.matches("Address of this answer").count(),
        2,
        "{}",
        page.body
    );
    let citations = page.body.matches("id=\"citation-1\"").count();
    assert!(citations <= 1, "ids are unique: {}", page.body);

    let list = browse(&server, "/conversations", &cookie).await;
    assert!(
        list.body.contains(&format!("href=\"{address}\"")),
        "{}",
        list.body
    );
    let delete = format!("{address}/delete");
    assert!(
        list.body.contains(&format!("action=\"{delete}\"")),
        "{}",
        list.body
    );
    let refused = send_form(&server, &delete, &cookie, "token=").await;
    assert_eq!(refused.status, 403);
    let deleted = send_form(&server, &delete, &cookie, &format!("token={token}")).await;
    assert_eq!(
        (deleted.status, deleted.header("location")),
        (303, Some("/conversations"))
    );
    assert_eq!(browse(&server, &address, &cookie).await.status, 404);
    let list = browse(&server, "/conversations", &cookie).await;
    assert!(list.body.contains("No conversations here"), "{}", list.body);
}

//! The OpenAI-compatible API over a scripted answerer.

use std::sync::Arc;

use serde_json::{Value, json};
use stemma_answers::{Answerer, ScriptedAnswerer};

use super::test_server::{TestServer, start, start_with};
use crate::ServerDeps;
use stemma_archive::AnswererFactory;
use stemma_archive::Archive;

struct ScriptedFactory;

impl AnswererFactory for ScriptedFactory {
    fn answerer(&self, _: &Arc<Archive>) -> Arc<dyn Answerer> {
        let script = ScriptedAnswerer::default().with_reply(
            "capex",
            "Capital expenditure was 5 [1]. It rose from 4 [2].",
        );
        let script = script.with_reply(
            "profits",
            "Ünd profits were $99,999 million [1]. <doc=X;page=1> they fell. Sales rose [2][1].",
        );
        Arc::new(script.with_unverified("99,999"))
    }
}

pub(crate) async fn scripted() -> TestServer {
    start_with(ServerDeps {
        answerers: Some(Arc::new(ScriptedFactory)),
        ..ServerDeps::default()
    })
    .await
}

/// The JSON of all frames except the final `[DONE]`.
pub(crate) fn frames(body: &str) -> Vec<Value> {
    let data = body
        .lines()
        .filter_map(|line| line.split_once("data: ").map(|(_, data)| data));
    data.filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[tokio::test]
async fn a_completion_cites_its_pages() {
    let server = scripted().await;
    let request = json!({
        "model": "default", "temperature": 0.2, "stream": false,
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "What was capex?"}],
    });
    let whole = server
        .post("/v1/chat/completions", &request.to_string())
        .await
        .json();
    let message = &whole["choices"][0]["message"];
    let text = message["content"].as_str().unwrap();
    assert_eq!(
        (text, &whole["choices"][0]["finish_reason"]),
        (
            "Capital expenditure was 5 [1]. It rose from 4 [2].",
            &json!("stop")
        )
    );
    assert_eq!(
        whole["usage"],
        json!({ "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110 })
    );
    let cited = message["annotations"].as_array().unwrap();
    assert_eq!(cited.len(), 2);
    let start = cited[1]["url_citation"]["start_index"].as_u64();
    let end = cited[1]["url_citation"]["end_index"].as_u64();
    assert_eq!(&text[start.unwrap() as usize..end.unwrap() as usize], "[2]");
    assert_eq!(
        cited[0]["url_citation"]["url"],
        "http://localhost/v1/documents/00000000000000000000000000000000/pages?range=1"
    );
    assert_eq!(message["stemma"]["citations"][0]["verified"], "exact");
    assert_eq!(whole["stemma"]["answer_id"], whole["id"]);
    let mut streaming = request.clone();
    (streaming["stream"], streaming["stream_options"]) =
        (json!(true), json!({ "include_usage": true }));
    let stream = server
        .stream(
            "/v1/chat/completions",
            &streaming.to_string(),
            "application/json",
        )
        .await;
    assert!(
        stream.head.contains("text/event-stream") && stream.body.contains("data: [DONE]"),
        "{}",
        stream.head
    );
    let chunks = frames(&stream.body);
    let streamed: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(streamed, text);
    assert!(
        chunks.iter().all(|chunk| chunk["id"] == whole["id"]),
        "all chunks have the id of the stored answer"
    );
    let last = &chunks[chunks.len() - 2];
    assert_eq!(
        last["choices"][0]["delta"]["annotations"],
        message["annotations"]
    );
    assert_eq!(
        (&last["stemma"], &last["choices"][0]["finish_reason"]),
        (&whole["stemma"], &json!("stop"))
    );
    assert_eq!(
        (
            &chunks[chunks.len() - 1]["usage"],
            chunks[chunks.len() - 1]["choices"]
                .as_array()
                .unwrap()
                .len()
        ),
        (&whole["usage"], 0)
    );
}

#[tokio::test]
async fn unverified_claims_are_marked_whole_and_streamed() {
    let server = scripted().await;
    let request = json!({ "model": "default", "messages": [{ "role": "user", "content": "What were profits?" }] });
    let whole = server
        .post("/v1/chat/completions", &request.to_string())
        .await
        .json();
    let message = &whole["choices"][0]["message"];
    let text = message["content"].as_str().unwrap();
    let expected = "Ünd profits were $99,999 million [1] (not verified). (doc=X;page=1> they fell (not verified). Sales rose [2][1].";
    assert_eq!(text, expected);
    let verified: Vec<bool> = message["stemma"]["claims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| claim["state"] == "verified")
        .collect();
    assert_eq!(
        (verified, &message["stemma"]),
        (vec![false, false, true], &whole["stemma"])
    );
    // Annotations point at their marks, and titles repeat the verification status.
    let chars: Vec<char> = text.chars().collect();
    let marks: Vec<(String, bool)> = message["annotations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|annotation| {
            let at = |name: &str| annotation["url_citation"][name].as_u64().unwrap() as usize;
            let mark = chars[at("start_index")..at("end_index")].iter().collect();
            (
                mark,
                annotation["url_citation"]["title"]
                    .as_str()
                    .unwrap()
                    .ends_with(", p 1 (not verified)"),
            )
        })
        .collect();
    assert_eq!(
        marks,
        [
            ("[1]".into(), true),
            ("[2]".into(), false),
            ("[1]".into(), false)
        ]
    );
    let mut streaming = request.clone();
    streaming["stream"] = json!(true);
    let chunks = frames(
        &server
            .stream("/v1/chat/completions", &streaming.to_string(), "*/*")
            .await
            .body,
    );
    let streamed: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    let last = &chunks[chunks.len() - 1];
    assert_eq!(
        (streamed.as_str(), &last["stemma"]),
        (text, &whole["stemma"])
    );
    assert_eq!(
        last["choices"][0]["delta"]["annotations"],
        message["annotations"]
    );
}

#[tokio::test]
async fn models_are_collections_and_scopes() {
    let server = scripted().await;
    let list = server.get("/v1/models").await.json();
    let ids: Vec<&str> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["default", "default/10-K", "default/8-K"]);
    for model in [
        "default",
        "default/10-K",
        "default/@form/10-K",
        "default/ACME_2022",
        "ACME_2022",
        "@form/10-K",
    ] {
        assert_eq!(
            server.get(&format!("/v1/models/{model}")).await.json()["id"],
            model
        );
        let request_body =
            json!({ "model": model, "messages": [{"role": "user", "content": "capex?"}] });
        let reply = server
            .post("/v1/chat/completions", &request_body.to_string())
            .await;
        assert_eq!(
            (reply.status, &reply.json()["model"]),
            (200, &json!(model)),
            "{}",
            reply.body
        );
    }
}

#[tokio::test]
async fn errors_have_openai_shape() {
    let server = scripted().await;
    let request =
        |model: &str, messages: Value| json!({ "model": model, "messages": messages }).to_string();
    let question = json!([{"role": "user", "content": "capex?"}]);
    for (body, status, code) in [
        (request("gpt-9", question.clone()), 404, "model_not_found"),
        (request("default", json!([])), 422, "request.invalid"),
        (
            request("default", json!([{"role": "assistant", "content": "x"}])),
            422,
            "request.invalid",
        ),
        ("{".into(), 400, "request.invalid"),
        (r#"{"model": "default"}"#.into(), 422, "request.invalid"),
    ] {
        let reply = server.post("/v1/chat/completions", &body).await;
        let error = &reply.json()["error"];
        assert_eq!(
            (reply.status, &error["code"]),
            (status, &json!(code)),
            "{body}"
        );
        assert!(
            error["message"].is_string() && error["type"] == "invalid_request_error",
            "{error}"
        );
        assert_eq!(error["trace_id"].as_str().map(str::len), Some(32));
    }
    for stream in [false, true] {
        let nothing = json!({ "model": "default", "stream": stream, "messages": [{"role": "user", "content": "???"}] });
        let reply = server
            .post("/v1/chat/completions", &nothing.to_string())
            .await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (422, &json!("answer.question_empty")),
            "{stream}"
        );
    }
    let turn = json!({ "role": "user", "content": "capex?" });
    let long: Vec<Value> = (0..3_000)
        .map(|_| json!({ "role": "assistant", "content": "It was said before." }))
        .chain([turn])
        .collect();
    let asked_long = request("default", json!(long));
    assert!(
        asked_long.len() > 64 << 10,
        "larger than the limit of other bodies"
    );
    assert_eq!(
        server
            .post("/v1/chat/completions", &asked_long)
            .await
            .status,
        200
    );
    let searching = start().await;
    let reply = searching
        .post("/v1/chat/completions", &request("default", question))
        .await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (501, &json!("answer.not_available"))
    );
}

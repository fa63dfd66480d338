//! The provider over the wire.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::*;
use crate::behavior::{LimitHeaders, Outage, ReplyFaults, SimulatedLimits};

// Status, head and body of the reply; status 0 if the connection broke.
async fn post(provider: &Provider, path: &str, body: &Value) -> (u16, String, Value) {
    let body = body.to_string();
    let request = format!(
        "POST /w{path} HTTP/1.1\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(provider.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut stream = BufReader::new(stream);
    let Ok(Some(head)) = HttpHead::read(&mut stream).await else {
        return (0, String::new(), Value::Null);
    };
    let Ok(body) = head.body(&mut stream).await else {
        return (0, String::new(), Value::Null);
    };
    let text = String::from_utf8(head.bytes.clone())
        .unwrap()
        .to_lowercase();
    (
        head.start_line_word(1).parse().unwrap(),
        text,
        serde_json::from_slice(&body).unwrap(),
    )
}

fn question(text: &str) -> Value {
    let fenced = format!("Section 1:\n[0123456789abcdef]\n{text}\n[/0123456789abcdef]");
    let schema = json!({ "type": "object", "properties": { "summaries": { "type": "array" } } });
    json!({
        "model": "m", "max_tokens": 400,
        "messages": [{"role": "system", "content": "Sum up."}, {"role": "user", "content": fenced}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": schema}},
    })
}

async fn ask(provider: &Provider, text: &str) -> (u16, String, Value) {
    post(provider, "/v1/chat/completions", &question(text)).await
}

async fn start(behavior: Behavior) -> Provider {
    Provider::start(behavior).await.unwrap()
}

fn content(reply: &Value) -> Option<Value> {
    serde_json::from_str(reply["choices"][0]["message"]["content"].as_str()?).ok()
}

#[tokio::test]
async fn both_dialects_get_the_same_answer() {
    let provider = start(Behavior::default()).await;
    let (status, _, reply) = ask(&provider, "We sell things").await;
    let answer = content(&reply).unwrap();
    assert_eq!(
        (status, answer["summaries"][0]["section"].as_u64()),
        (200, Some(1))
    );
    let request = question("We sell things");
    let anthropic = json!({
        "model": "m", "max_tokens": 400, "system": "Sum up.", "messages": [request["messages"][1]],
        "tools": [{"name": "answer", "input_schema": request["response_format"]["json_schema"]["schema"]}],
    });
    let (_, _, reply) = post(&provider, "/v1/messages", &anthropic).await;
    assert_eq!(
        (&reply["content"][0]["input"], &reply["stop_reason"]),
        (&answer, &json!("tool_use"))
    );
    assert_eq!(
        provider.report().repeated,
        1,
        "the same question in another dialect"
    );
    let (status, ..) = post(
        &provider,
        "/v1/embeddings",
        &json!({"model": "m", "input": "x"}),
    )
    .await;
    let (nowhere, _, error) = post(&provider, "/v1/elsewhere", &json!({})).await;
    assert_eq!(
        (status, nowhere, error["error"]["code"].as_str()),
        (200, 404, Some("not_found_error"))
    );
    let stages = provider.report().stages;
    assert_eq!(
        (
            stages["summarize"].answered,
            stages["embedding"].answered,
            stages["none"].answered
        ),
        (2, 1, 0)
    );
}

// A PNG of 30 × 40 pixels, as far as its header says.
const IMAGE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x1e\0\0\0\x28";

fn transcription(image: &[u8]) -> Value {
    let data = STANDARD.encode(image);
    let url = format!("data:image/png;base64,{data}");
    let schema = json!({ "type": "object", "properties": { "lines": { "type": "array" } } });
    let content = json!([
        { "type": "image_url", "image_url": { "url": url } }, { "type": "text", "text": "Read." },
    ]);
    json!({
        "model": "m", "max_tokens": 400, "messages": [{ "role": "user", "content": content }],
        "response_format": { "type": "json_schema", "json_schema": { "name": "x", "schema": schema } },
    })
}

#[tokio::test]
async fn images_show_what_the_test_says_in_both_dialects() {
    let provider = start(Behavior::default()).await;
    provider.add_image(IMAGE, "Net sales 1,234\nCost 7");
    let openai = transcription(IMAGE);
    let (_, _, reply) = post(&provider, "/v1/chat/completions", &openai).await;
    let lines = json!({ "lines": ["Net sales 1,234", "Cost 7"] });
    assert_eq!(content(&reply), Some(lines.clone()));
    let data = STANDARD.encode(IMAGE);
    let source = json!({ "type": "base64", "media_type": "image/png", "data": data });
    let content_blocks =
        json!([{ "type": "image", "source": source }, { "type": "text", "text": "Read." }]);
    let anthropic = json!({
        "model": "m", "max_tokens": 400, "messages": [{ "role": "user", "content": content_blocks }],
        "tools": [{ "name": "x", "input_schema": openai["response_format"]["json_schema"]["schema"] }],
    });
    let (_, _, reply) = post(&provider, "/v1/messages", &anthropic).await;
    assert_eq!(reply["content"][0]["input"], lines);
    let asked = provider.requests();
    assert_eq!(provider.report().repeated, 1, "the same question");
    assert_eq!((asked[0].images, asked[0].stage), (1, "transcribe"));
    // OpenAI bills 255 tokens for the smallest image.
    assert!(asked[0].prompt_tokens > 255);

    let other = [IMAGE, b"other"].concat();
    let (_, _, reply) = post(&provider, "/v1/chat/completions", &transcription(&other)).await;
    assert_eq!(content(&reply), Some(json!({ "lines": [] })));
    let (status, ..) = post(&provider, "/v1/chat/completions", &transcription(b"no png")).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn blind_models_refuse_images_only() {
    let blind = Behavior {
        blind: true,
        ..Behavior::default()
    };
    let provider = start(blind).await;
    let (status, _, reply) = post(&provider, "/v1/chat/completions", &transcription(IMAGE)).await;
    assert_eq!(status, 400);
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(message.contains("image_url"), "{message}");
    assert_eq!(ask(&provider, "text").await.0, 200);
}

#[tokio::test]
async fn only_accepted_keys_are_answered() {
    let provider = start(Behavior::default()).await;
    assert_eq!(ask(&provider, "one").await.0, 200);
    provider.accept_keys(&["new"]);
    assert_eq!(ask(&provider, "two").await.0, 401);
    provider.accept_keys(&["new", ""]);
    assert_eq!(ask(&provider, "two").await.0, 200);
    assert_eq!(provider.request_count(), 2, "refused ones cost nothing");
    assert_eq!(provider.requests_by_key()[""], 3);
}

#[tokio::test]
async fn requests_are_recorded_per_process() {
    let provider = start(Behavior::default()).await;
    ask(&provider, "one").await;
    ask(&provider, "two").await;
    let asks = provider.requests();
    assert_eq!(
        asks.iter()
            .map(|ask| ask.process.as_str())
            .collect::<Vec<_>>(),
        ["w", "w"]
    );
    assert!(
        asks.iter()
            .all(|ask| ask.delivered.is_some_and(|at| at >= ask.arrived))
    );
    assert_eq!((provider.in_flight(), provider.request_count()), (0, 2));
    let mut stream = TcpStream::connect(provider.address()).await.unwrap();
    stream
        .write_all(b"GET /w/v1/models HTTP/1.1\r\n\r\nGET /report HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    let mut reader = BufReader::new(stream);
    let head = HttpHead::read(&mut reader).await.unwrap().unwrap();
    assert_eq!(
        head.body(&mut reader).await.unwrap(),
        br#"{"object":"list","data":[]}"#
    );
    let head = HttpHead::read(&mut reader).await.unwrap().unwrap();
    let report: Value = serde_json::from_slice(&head.body(&mut reader).await.unwrap()).unwrap();
    assert_eq!(
        (
            report["calls"].as_u64(),
            report["sections"]["most"].as_u64()
        ),
        (Some(2), Some(1))
    );
}

#[tokio::test]
async fn limits_are_enforced_and_reported_in_headers() {
    let limits = SimulatedLimits {
        requests_per_minute: Some(3),
        ..SimulatedLimits::default()
    };
    let provider = start(Behavior {
        limits,
        ..Behavior::default()
    })
    .await;
    let mut replies = Vec::new();
    for n in 0..5 {
        replies.push(ask(&provider, &n.to_string()).await);
    }
    assert_eq!(
        replies.iter().map(|reply| reply.0).collect::<Vec<_>>(),
        [200, 200, 200, 429, 429]
    );
    assert!(
        replies[0].1.contains("x-ratelimit-remaining-requests: 2"),
        "{}",
        replies[0].1
    );
    let (_, wait) = replies[3].1.split_once("retry-after: ").unwrap();
    let seconds: u32 = wait.lines().next().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    provider.set_behavior(Behavior {
        limits: SimulatedLimits {
            headers: LimitHeaders::Nothing,
            ..limits
        },
        ..Behavior::default()
    });
    let (status, head, _) = ask(&provider, "again").await;
    assert!(
        status == 429 && !head.contains("retry-after") && !head.contains("ratelimit"),
        "{head}"
    );
    assert_eq!(provider.report().worst_minute.requests, 3);
}

#[tokio::test]
async fn each_fault_occurs_and_then_passes() {
    for fault in ReplyFault::ALL
        .into_iter()
        .filter(|fault| *fault != ReplyFault::Hang)
    {
        let faults = ReplyFaults {
            rate: 1.0,
            always: 0.0,
            kinds: vec![fault],
        };
        let provider = start(Behavior {
            faults,
            ..Behavior::default()
        })
        .await;
        let (status, _, reply) = ask(&provider, "We sell things, and have done so for years").await;
        let finish = reply["choices"][0]["finish_reason"].as_str();
        match fault {
            ReplyFault::Error => assert!(status >= 500),
            ReplyFault::Reset => assert_eq!(status, 0),
            ReplyFault::Truncated => assert_eq!((finish, content(&reply)), (Some("length"), None)),
            _ => assert!(
                content(&reply)
                    .is_none_or(|said| said["summaries"][0]["section"] != 1 || finish.is_none()),
                "{fault:?}"
            ),
        }
        ask(&provider, "We sell things, and have done so for years").await;
        let (status, _, reply) = ask(&provider, "We sell things, and have done so for years").await;
        assert!(
            status == 200 && content(&reply).is_some(),
            "{fault:?}: {reply}"
        );
    }
}

#[tokio::test]
async fn truncated_replies_can_be_continued() {
    let provider = start(Behavior::default()).await;
    let whole = ask(&provider, "We sell things").await.2["choices"][0]["message"]["content"]
        .as_str()
        .unwrap()
        .to_string();
    let mut body = question("We sell things");
    body["max_tokens"] = json!(20);
    let mut prefix = String::new();
    for _ in 0..20 {
        let mut request = body.clone();
        if !prefix.is_empty() {
            let messages = request["messages"].as_array_mut().unwrap();
            messages.push(json!({"role": "assistant", "content": prefix}));
            messages.push(json!({"role": "user", "content": "Go on."}));
        }
        let reply = post(&provider, "/v1/chat/completions", &request).await.2;
        prefix.push_str(reply["choices"][0]["message"]["content"].as_str().unwrap());
        if reply["choices"][0]["finish_reason"] == "stop" {
            break;
        }
    }
    assert_eq!(prefix, whole);
}

#[tokio::test]
async fn outage_refuses_or_resets_connections() {
    for (status, expected) in [(None, 0), (Some(503), 503)] {
        let provider = start(Behavior::default()).await;
        assert_eq!(ask(&provider, "a").await.0, 200);
        let outage = Outage {
            after_s: 0.0,
            lasts_s: None,
            status,
        };
        provider.set_behavior(Behavior {
            outage: Some(outage),
            ..Behavior::default()
        });
        assert_eq!(ask(&provider, "b").await.0, expected);
        provider.set_behavior(Behavior::default());
        assert_eq!(ask(&provider, "b").await.0, 200);
        assert_eq!(
            provider.report().outcomes,
            [("good", 2), ("outage", 1)].into()
        );
    }
}

#[tokio::test]
async fn disconnected_peers_get_no_reply() {
    for hangs in [false, true] {
        let always = if hangs { 1.0 } else { 0.0 };
        let faults = ReplyFaults {
            rate: 0.0,
            always,
            kinds: vec![ReplyFault::Hang],
        };
        let provider = start(Behavior {
            faults,
            ..Behavior::default()
        })
        .await;
        provider.limit_replies(0);
        let arrived = async {
            while provider.in_flight() == 0 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            reply = ask(&provider, "never mind") => panic!("{reply:?}"),
            () = arrived => {}
        }
        while provider.in_flight() > 0 {
            sleep(Duration::from_millis(10)).await;
        }
        assert!(provider.requests()[0].delivered.is_none());
        assert_eq!(
            provider.requests()[0].outcome,
            if hangs { "hang" } else { "left" }
        );
    }
}

#[tokio::test]
async fn requests_are_written_to_the_record_file() {
    let mut file = tempfile::tempfile().unwrap();
    let record = Some(file.try_clone().unwrap());
    let provider = Provider::start_with(Setup {
        record,
        ..Setup::default()
    })
    .await
    .unwrap();
    ask(&provider, "We sell things").await;
    let mut text = String::new();
    std::io::Seek::rewind(&mut file).unwrap();
    std::io::Read::read_to_string(&mut file, &mut text).unwrap();
    let line: Value = serde_json::from_str(text.trim()).unwrap();
    assert_eq!(
        (&line["blocks"][0][2], &line["outcome"]),
        (&json!("We sell things"), &json!("good"))
    );
    let mut stream = TcpStream::connect(provider.address()).await.unwrap();
    stream.write_all(b"nonsense\r\n\r\n").await.unwrap();
    assert!(
        stream.read(&mut [0; 64]).await.unwrap() > 0,
        "refused, not dropped"
    );
}

//! Every route is described in `/openapi.json`, and replies match their schemas.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::openai::scripted;
use super::test_server::{TestReply, TestServer, start};

#[tokio::test]
async fn described_routes_are_served_and_have_unique_ids() {
    let server = start().await;
    let api = server.get("/openapi.json").await.json();
    let mut ids = BTreeSet::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        // No route has this method, so the problem lists those it has.
        let request = format!("PURGE {} HTTP/1.1\r\n", path.replace(['{', '}'], "x"));
        let refused = server.request(&request).await;
        let allowed = refused.header("allow").unwrap_or_default();
        let allowed: BTreeSet<String> = allowed
            .split(',')
            .filter(|method| *method != "HEAD")
            .map(str::to_lowercase)
            .collect();
        let operations = item.as_object().unwrap();
        assert_eq!(allowed, operations.keys().cloned().collect(), "{path}");
        for operation in operations.values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{id} is used twice");
        }
    }
    assert!(ids.len() > 30, "{ids:?}");
}

/// The first mismatch between a value and its schema. Supports the keywords that the document uses.
fn schema_mismatch(api: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        return schema_mismatch(
            api,
            api.pointer(name.trim_start_matches('#')).unwrap(),
            value,
            at,
        );
    }
    for (word, all) in [("oneOf", false), ("anyOf", false), ("allOf", true)] {
        if let Some(of) = schema[word].as_array() {
            let misfits: Vec<_> = of
                .iter()
                .map(|schema| schema_mismatch(api, schema, value, at))
                .collect();
            let fits = misfits.iter().filter(|misfit| misfit.is_none()).count();
            if fits == 0 || (all && fits < of.len()) {
                return misfits.into_iter().flatten().next();
            }
        }
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_kind = |name: &Value| name == kind || (name == "number" && kind == "integer");
    let fits = match &schema["type"] {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(is_kind),
        one => is_kind(one),
    };
    if !fits
        || schema["enum"]
            .as_array()
            .is_some_and(|values| !values.contains(value))
    {
        return Some(format!("{at}: {value} is not {schema}"));
    }
    let required = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    if let Some(name) = required
        .into_iter()
        .find(|name| value.is_object() && value.get(*name).is_none())
    {
        return Some(format!("{at}: there is no {name}"));
    }
    let items = value.as_array().into_iter().flatten().enumerate();
    let mut items = items.filter_map(|(n, item)| {
        schema_mismatch(api, schema.get("items")?, item, &format!("{at}/{n}"))
    });
    let fields = value.as_object().into_iter().flatten();
    let mut fields = fields.filter_map(|(name, value)| {
        schema_mismatch(
            api,
            schema["properties"].get(name)?,
            value,
            &format!("{at}/{name}"),
        )
    });
    items.next().or_else(|| fields.next())
}

/// Asserts that a reply matches its described schema.
fn assert_matches_schema(api: &Value, path: &str, method: &str, reply: &TestReply) {
    let responses = &api["paths"][path][method]["responses"];
    let described = &responses[reply.status.to_string()]["content"];
    let kind = reply.header("content-type").unwrap();
    let schema = &described[kind]["schema"];
    assert!(
        schema.is_object(),
        "{method} {path}: {} as {kind} is not described: {responses}",
        reply.status
    );
    assert_eq!(
        schema_mismatch(api, schema, &reply.json(), path),
        None,
        "{method} {path}: {}",
        reply.body
    );
}

async fn post(server: &TestServer, path: &str, body: Value) -> TestReply {
    server.post(path, &body.to_string()).await
}

#[tokio::test]
async fn dialect_responses_match_their_schemas() {
    let server = scripted().await;
    let searching = start().await;
    let api = server.get("/openapi.json").await.json();
    let message = json!([{ "role": "user", "content": "What was capex?" }]);
    let completion = json!({ "model": "default", "messages": message });
    let chat = json!({ "messages": message, "doc_id": "ACME_2022", "enable_citations": true });
    for (path, body) in [
        ("/v1/chat/completions", completion),
        ("/chat/completions/", chat),
    ] {
        assert_matches_schema(&api, path, "post", &post(&server, path, body.clone()).await);
        assert_matches_schema(&api, path, "post", &post(&server, path, json!({})).await);
        assert_matches_schema(&api, path, "post", &post(&searching, path, body).await);
    }
    assert_matches_schema(
        &api,
        "/v1/answers",
        "post",
        &post(
            &server,
            "/v1/answers",
            json!({ "question": "What was capex?" }),
        )
        .await,
    );
    let retrieval = json!({ "doc_id": "ACME_2022", "query": "currency hedging" });
    let receipt = post(&server, "/retrieval/", retrieval).await;
    assert_matches_schema(&api, "/retrieval/", "post", &receipt);
    let result = format!(
        "/retrieval/{}/",
        receipt.json()["retrieval_id"].as_str().unwrap()
    );
    for (path, request_body) in [
        ("/retrieval/{retrieval}/", result.as_str()),
        ("/retrieval/{retrieval}/", "/retrieval/none/"),
        ("/v1/models", "/v1/models"),
        ("/v1/models/{model}", "/v1/models/default%2F10-K"),
        ("/v1/models/{model}", "/v1/models/gpt-9"),
        ("/docs/", "/docs/?limit=3"),
        ("/docs/", "/docs/?limit=0"),
        ("/folders/", "/folders/"),
        ("/folders/", "/folders/?parent_folder_id=root"),
        ("/doc/{doc}/", "/doc/ACME_2022/?summary=true"),
        ("/doc/{doc}/", "/doc/manual.md/?type=ocr"),
        ("/doc/{doc}/", "/doc/QUEUED.pdf/"),
        ("/doc/{doc}/metadata/", "/doc/BROKEN.pdf/metadata/"),
        ("/doc/{doc}/block/{block}/", "/doc/ACME_2022/block/p1/"),
        ("/doc/{doc}/image/{image}/", "/doc/ACME_2022/image/1/"),
        ("/doc/s3/{doc}/images/", "/doc/s3/ACME_2022/images/"),
    ] {
        assert_matches_schema(&api, path, "get", &server.get(request_body).await);
    }
    assert_matches_schema(
        &api,
        "/folder/",
        "post",
        &post(&server, "/folder/", json!({})).await,
    );
    assert_matches_schema(
        &api,
        "/doc/",
        "post",
        &post(&server, "/doc/", json!({})).await,
    );
    assert_matches_schema(
        &api,
        "/doc/{doc}/",
        "delete",
        &server.request("DELETE /doc/ACME_2022/ HTTP/1.1\r\n").await,
    );
    assert_eq!(
        api["components"]["schemas"]["Answer"]["properties"]["text"]["type"],
        "string"
    );
    assert!(
        schema_mismatch(
            &api,
            &json!({ "$ref": "#/components/schemas/Citation" }),
            &json!({ "id": 1 }),
            ""
        )
        .is_some()
    );
}

#[tokio::test]
async fn openapi_document_is_served() {
    let server = start().await;
    let api = server.get("/openapi.json").await.json();
    assert_eq!(
        (&api["openapi"], &api["info"]["version"]),
        (&"3.1.0".into(), &env!("CARGO_PKG_VERSION").into())
    );
    let text = api.to_string();
    for reference in text
        .split("\"#/components/schemas/")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
    {
        assert!(
            api["components"]["schemas"][reference].is_object(),
            "{reference} has no schema"
        );
    }
}

//! Jobs over HTTP and as pages: what they show, and what they refuse.

use std::sync::Arc;

use serde_json::{Value, json};
use stemma_document::Collection;
use stemma_engine::jobs::{
    EntryCounts, JobEndReason, JobManifest, JobOptions, JobReport, load_control,
};
use stemma_gateway::auth::{KeyScope, KeySettings};
use stemma_operations::Operations;
use stemma_sample_store as store;
use stemma_store::blobs::{Blobs, MemoryBlobs, get_json};
use stemma_store::{Env, FailureRecord, JobId, Priority};

use super::test_server::{TestServer, bearer, settings, start, start_over, try_start_with};
use super::web::{browse, form_token, send_form};
use crate::{QuerySettings, ServerDeps};

const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\u{1b}[31m\"onload=x";

fn id(number: u64) -> JobId {
    JobId(format!(
        "j-{:011x}{number:016x}",
        1_700_000_000_000 + number * 1_000
    ))
}

async fn put(blobs: &MemoryBlobs, key: &str, value: &impl serde::Serialize) {
    let json = serde_json::to_vec(value).unwrap();
    blobs.put(key, json.into()).await.unwrap();
}

async fn submit(blobs: &MemoryBlobs, number: u64, collection: &str, label: &str) -> JobId {
    let job = id(number);
    let manifest = JobManifest {
        job: job.clone(),
        collection: collection.into(),
        settings: "settings".into(),
        priority: Priority::Bulk,
        entries: 3,
        submitted_ms: 1_700_000_000_000 + number * 1_000,
        options: JobOptions {
            label: label.into(),
            ..JobOptions::default()
        },
    };
    put(blobs, &format!("jobs/{job}/manifest.json"), &manifest).await;
    job
}

async fn end(blobs: &MemoryBlobs, job: &JobId) {
    let failure = FailureRecord {
        code: "pdf.encrypted".into(),
        message: format!("{HOSTILE} is encrypted"),
        next: Some("remove the password".into()),
        stage: "paginate".into(),
        attempts: 1,
        at_ms: 1_700_000_100_000,
    };
    let report = JobReport {
        job: job.clone(),
        close: JobEndReason::Finished,
        counts: EntryCounts {
            done: 2,
            failed: 1,
            ..EntryCounts::default()
        },
        reasons: [("pdf.encrypted".to_owned(), 1)].into(),
        failures: vec![("entry 2".into(), failure)],
        tasks: 6,
        submitted_ms: 1_700_000_000_000,
        ended_ms: 1_700_000_100_000,
    };
    put(blobs, &format!("jobs/{job}/report.json"), &report).await;
}

fn with_jobs(blobs: &Arc<MemoryBlobs>) -> ServerDeps {
    let operations =
        Operations::stored(&Env::system(), blobs.clone(), Collection::default(), || {
            None
        });
    ServerDeps {
        operations: Some(Arc::new(operations)),
        ..ServerDeps::default()
    }
}

// An open job and an ended one.
async fn start_with_jobs() -> (TestServer, JobId, JobId, Arc<MemoryBlobs>) {
    let blobs = store::store().await;
    let ended = submit(&blobs, 1, "default", "last year").await;
    end(&blobs, &ended).await;
    let open = submit(&blobs, 2, "default", HOSTILE).await;
    submit(&blobs, 3, "other", "of another tenant").await;
    let server = start_over(blobs.clone(), with_jobs(&blobs)).await;
    (server, open, ended, blobs)
}

#[tokio::test]
async fn jobs_are_listed_by_state_and_only_of_the_collection() {
    let (server, open, ended, _) = start_with_jobs().await;
    let all = browse(&server, "/jobs", "").await.body;
    for job in [&open, &ended] {
        assert!(all.contains(&format!("href=\"/jobs/{job}\"")), "{all}");
    }
    assert!(!all.contains("another tenant"), "{all}");
    assert!(all.contains("href=\"/jobs?state=finished\""), "{all}");
    let finished = browse(&server, "/jobs?state=finished", "").await.body;
    assert!(
        finished.contains(&ended.0) && !finished.contains(&open.0),
        "{finished}"
    );
    let json = server.get("/v1/jobs?state=finished").await;
    assert_eq!(json.column("items", "job"), [json!(ended)]);
    assert_eq!(
        json.json()["states"],
        json!({ "finished": 1, "interrupted": 1 })
    );
    assert_eq!(
        server.get(&format!("/v1/jobs/{}", id(3))).await.code(),
        "job.unknown"
    );
}

/// F8 of the operator review: one unreadable manifest hid all jobs.
#[tokio::test]
async fn an_unreadable_job_hides_no_other_job() {
    let (server, open, ended, blobs) = start_with_jobs().await;
    let (manifest, control) = (id(4), submit(&blobs, 5, "default", "this year").await);
    let damaged = [
        format!("jobs/{manifest}/manifest.json"),
        format!("jobs/{control}/control/0000000000001-0-paused.json"),
    ];
    for key in damaged {
        blobs.put(&key, vec![0, 1].into()).await.unwrap();
    }
    let listed = server.get("/v1/jobs").await;
    let jobs = [control, manifest, open, ended].map(|job| json!(job));
    assert_eq!(listed.column("items", "job"), jobs);
    let row = &listed.json()["items"][1];
    assert_eq!(row["state"], "unreadable", "{row}");
    assert_eq!(row["problem"]["code"], "job.unreadable", "{row}");
    assert!(row["problem"]["next"].is_string(), "{row}");
    assert_eq!(listed.json()["states"]["unreadable"], 2);
    let page = browse(&server, "/jobs", "").await.body;
    assert!(page.contains("cannot be read"), "{page}");
}

#[tokio::test]
async fn a_key_sees_the_unreadable_jobs_of_its_collections_only() {
    let blobs = store::store().await;
    let (own, other) = (id(1), id(2));
    submit(&blobs, 1, "default", "this year").await;
    submit(&blobs, 2, "other", "of another tenant").await;
    let (unknown, open) = (id(3), submit(&blobs, 4, "default", "open").await);
    let of_manifest = format!("jobs/{unknown}/manifest.json");
    let of_reports = [&own, &other].map(|job| format!("jobs/{job}/report.json"));
    for key in [of_manifest].iter().chain(&of_reports) {
        blobs.put(key, vec![0, 1].into()).await.unwrap();
    }
    let key = |name: &str, collections: &[&str]| KeySettings {
        name: name.into(),
        blake3: stemma_gateway::auth::key_digest(name),
        collections: collections.iter().map(ToString::to_string).collect(),
        ..KeySettings::default()
    };
    let query = QuerySettings {
        keys: vec![key("reader", &["default"]), key("operator", &[])],
        ..QuerySettings::default()
    };
    let server = try_start_with(settings(query), blobs.clone(), with_jobs(&blobs)).await;
    let server = server.unwrap();
    for (name, listed) in [
        ("reader", vec![&open, &own]),
        ("operator", vec![&open, &unknown, &own]),
    ] {
        let head = bearer(name);
        server.ready(&head).await;
        let request = format!("GET /v1/jobs HTTP/1.1\r\n{head}");
        let jobs = server.request(&request).await;
        let expected: Vec<Value> = listed.iter().map(|job| json!(job)).collect();
        assert_eq!(jobs.column("items", "job"), expected, "{name}");
        let page = browse(&server, "/jobs", &head).await.body;
        assert_eq!(page.matches("cannot be read").count(), listed.len() - 1);
    }
}

#[tokio::test]
async fn jobs_are_paged_by_cursor() {
    let blobs = store::store().await;
    for number in 0..60 {
        let job = submit(&blobs, number, "default", "one of many").await;
        end(&blobs, &job).await;
    }
    let server = start_over(blobs.clone(), with_jobs(&blobs)).await;
    let first = browse(&server, "/jobs", "").await.body;
    let next = first.split_once("href=\"/jobs?cursor=").unwrap().1;
    let next = format!("/jobs?cursor={}", next.split_once('"').unwrap().0);
    let second = browse(&server, &next, "").await.body;
    assert_eq!(first.matches("href=\"/jobs/j-").count(), 50);
    assert_eq!(second.matches("href=\"/jobs/j-").count(), 10);
    assert!(!second.contains("rel=\"next\""), "{second}");
    let expected: Vec<Value> = (0..60).rev().map(|number| json!(id(number))).collect();
    assert_eq!(
        server.column("/v1/jobs?limit=7", "items", "job").await,
        expected
    );
    let refused = server.get("/v1/jobs?limit=0").await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (400, "request.invalid")
    );
}

#[tokio::test]
async fn a_job_that_is_read_for_one_page_and_not_listed_is_on_the_next() {
    let blobs = store::store().await;
    // The newest thousand are looked at for the first page. All of them ended.
    for number in 0..1_010 {
        let job = submit(&blobs, number, "default", "one of many").await;
        if number >= 10 {
            end(&blobs, &job).await;
        }
    }
    let server = start_over(blobs.clone(), with_jobs(&blobs)).await;
    let expected: Vec<Value> = (0..10).rev().map(|number| json!(id(number))).collect();
    let open = server.column("/v1/jobs?state=interrupted", "items", "job");
    assert_eq!(open.await, expected);
}

#[tokio::test]
async fn a_job_says_why_it_waits_and_what_failed() {
    let (server, open, ended, _) = start_with_jobs().await;
    let waiting = browse(&server, &format!("/jobs/{open}"), "").await.body;
    assert!(
        waiting.contains("no process is working on this store"),
        "{waiting}"
    );
    let why = server.get(&format!("/v1/jobs/{open}/why")).await.json();
    assert_eq!(why["diagnosis"]["cause"], "no_worker", "{why}");
    let failed = browse(&server, &format!("/jobs/{ended}"), "").await.body;
    assert!(
        failed.contains("pdf.encrypted") && failed.contains("remove the password"),
        "{failed}"
    );
    let failures = server
        .get(&format!("/v1/jobs/{ended}/failures"))
        .await
        .json();
    assert_eq!(failures["reasons"][0]["documents"], 1, "{failures}");
    let preview = browse(&server, &format!("/jobs/{ended}?retry=pdf.encrypted"), "")
        .await
        .body;
    assert!(
        preview.contains("stemma retry") && preview.contains("This server submits nothing"),
        "{preview}"
    );
    assert_eq!(browse(&server, "/jobs/j-0", "").await.status, 404);
}

#[tokio::test]
async fn hostile_labels_and_messages_are_text() {
    let (server, open, ended, _) = start_with_jobs().await;
    for path in [
        "/jobs".to_owned(),
        format!("/jobs/{open}"),
        format!("/jobs/{ended}"),
    ] {
        let body = browse(&server, &path, "").await.body;
        assert!(body.contains("&lt;script&gt;alert"), "{path}: {body}");
        assert!(!body.contains("<script>alert"), "{path}: {body}");
        assert!(!body.contains(['\u{202e}', '\u{1b}']), "{path}");
    }
    let query = browse(&server, "/jobs?state=%3Cscript%3Ealert(1)", "")
        .await
        .body;
    assert!(!query.contains("<script>alert"), "{query}");
}

#[tokio::test]
async fn jobs_are_controlled_by_forms_with_the_token_of_their_browser() {
    let (server, open, ended, blobs) = start_with_jobs().await;
    let path = format!("/jobs/{open}/control");
    let (token, cookie) = form_token(&browse(&server, &format!("/jobs/{open}"), "").await);
    for (cookie, body) in [
        (cookie.as_str(), "action=cancel".to_owned()),
        (
            "Cookie: stemma_form=other\r\n",
            format!("token={token}&action=cancel"),
        ),
        ("", format!("token={token}&action=cancel")),
    ] {
        let refused = send_form(&server, &path, cookie, &body).await;
        assert!(
            refused.status == 403 && refused.body.contains("form.token_invalid"),
            "{}",
            refused.body
        );
    }
    assert!(
        load_control(blobs.as_ref(), &open)
            .await
            .unwrap()
            .is_running()
    );
    let send = async |action: &str| {
        let body = format!("token={token}&action={action}");
        send_form(&server, &path, &cookie, &body).await
    };
    let paused = send("pause").await;
    let to = format!("/jobs/{open}");
    assert_eq!(
        (paused.status, paused.header("location")),
        (303, Some(to.as_str()))
    );
    let page = browse(&server, &to, "").await.body;
    assert!(
        page.contains("value=\"resume\"") && page.contains(">paused<"),
        "{page}"
    );
    assert_eq!(send("resume&dollars=2.5").await.status, 303);
    assert_eq!(send("resume&dollars=lots").await.status, 422);
    assert_eq!(send("explode").await.status, 422);
    assert_eq!(send("priority&priority=interactive").await.status, 303);
    let control = load_control(blobs.as_ref(), &open).await.unwrap();
    assert!(control.is_running());
    assert_eq!(control.priority, Some(Priority::Interactive));
    assert_eq!(control.budget.unwrap().nanodollars, Some(2_500_000_000));
    let over = format!("/jobs/{ended}/control");
    let body = format!("token={token}&action=pause");
    assert_eq!(send_form(&server, &over, &cookie, &body).await.status, 409);
}

#[tokio::test]
async fn controlling_a_job_needs_the_scope_write() {
    let blobs = store::store().await;
    let job = submit(&blobs, 1, "default", "open").await;
    let key = |name: &str, scopes: &[KeyScope]| KeySettings {
        name: name.into(),
        blake3: stemma_gateway::auth::key_digest(name),
        scopes: scopes.to_vec(),
        ..KeySettings::default()
    };
    let query = QuerySettings {
        keys: vec![
            key("reads", &[KeyScope::Read]),
            key("writes", &[KeyScope::Read, KeyScope::Write]),
        ],
        ..QuerySettings::default()
    };
    let server = try_start_with(settings(query), blobs.clone(), with_jobs(&blobs)).await;
    let server = server.unwrap();
    server.ready(&bearer("reads")).await;
    let path = format!("/v1/jobs/{job}/control");
    let pause = r#"{"action": "pause"}"#;
    let post = async |name: &str, body: &str| server.post_with(&bearer(name), &path, body).await;
    assert_eq!(post("reads", pause).await.code(), "key.scope_missing");
    assert_eq!(post("nobody", pause).await.code(), "key.unknown");
    let page = browse(
        &server,
        &format!("/jobs/{job}"),
        "Cookie: stemma_key=reads\r\n",
    )
    .await;
    assert!(
        page.status == 200 && !page.body.contains("/control"),
        "{}",
        page.body
    );
    let (token, _) = form_token(&page);
    let form = format!("token={token}&action=pause");
    let refused = send_form(
        &server,
        &format!("/jobs/{job}/control"),
        "Cookie: stemma_key=reads\r\n",
        &form,
    )
    .await;
    assert!(
        refused.status == 403 && refused.body.contains("key.scope_missing"),
        "{}",
        refused.body
    );
    let paused = post("writes", pause).await;
    assert_eq!(
        (paused.status, paused.json()["paused"]["reason"].clone()),
        (200, json!("person"))
    );
    assert_eq!(post("writes", r#"{"action": "explode"}"#).await.status, 422);
    let stored: Value = get_json(blobs.as_ref(), &format!("jobs/{job}/manifest.json"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stored["class"], "bulk", "the manifest is written once");
}

// A dead letter of a run in this collection, or of no run.
async fn bury(blobs: &MemoryBlobs, id: &str, collection: Option<&str>) {
    let run = collection.map(
        |collection| json!({ "run": "r-1", "header": "h", "scope": format!("c/{collection}/d/x") }),
    );
    let letter = json!({
        "id": id, "at_ms": 1_700_000_000_000_u64, "queue": "cpu", "deliveries": 3, "run": run, "key": null, "stage": null,
        "attempts": 0, "reason": format!("{HOSTILE} {id}"), "begins": "{\"run\":"
    });
    put(blobs, &format!("dead/{id}.json"), &letter).await;
}

#[tokio::test]
async fn health_shows_dead_letters_of_the_collection_and_replays_them() {
    let blobs = store::store().await;
    bury(&blobs, "aaaa", Some("default")).await;
    bury(&blobs, "bbbb", Some("other")).await;
    bury(&blobs, "cccc", None).await;
    let server = start_over(blobs.clone(), with_jobs(&blobs)).await;
    let page = browse(&server, "/health", "").await;
    for id in ["aaaa", "bbbb", "cccc"] {
        assert!(page.body.contains(id), "{id}: {}", page.body);
    }
    assert!(page.body.contains("&lt;script&gt;") && !page.body.contains("<script>alert"));
    let (token, cookie) = form_token(&page);
    let refused = send_form(&server, "/health/replay", &cookie, "letter=cccc").await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    let body = format!("token={token}&letter=cccc");
    assert_eq!(
        send_form(&server, "/health/replay", &cookie, &body)
            .await
            .status,
        303
    );
    assert!(blobs.get("dead/cccc.json").await.unwrap().is_none());
    assert_eq!(
        send_form(&server, "/health/replay", &cookie, &body)
            .await
            .status,
        404
    );
    let report = server.get("/v1/health").await;
    assert_eq!(
        report.column("dead_letters", "id"),
        [json!("aaaa"), json!("bbbb")]
    );
    assert_eq!(report.json()["index"]["not_indexed"], 0, "{}", report.body);
    assert_eq!(report.json()["unreachable"], json!([]));

    let reader = KeySettings {
        name: "reader".into(),
        blake3: stemma_gateway::auth::key_digest("reader"),
        collections: vec!["default".into()],
        scopes: vec![KeyScope::Read, KeyScope::Write],
        ..KeySettings::default()
    };
    let query = QuerySettings {
        keys: vec![reader],
        ..QuerySettings::default()
    };
    let server = try_start_with(settings(query), blobs.clone(), with_jobs(&blobs)).await;
    let server = server.unwrap();
    server.ready(&bearer("reader")).await;
    let head = bearer("reader");
    let report = server
        .request(&format!("GET /v1/health HTTP/1.1\r\n{head}"))
        .await;
    assert_eq!(
        report.column("dead_letters", "id"),
        [json!("aaaa")],
        "one tenant sees its own letters"
    );
    let foreign = server
        .post_with(&head, "/v1/dead-letters/bbbb/replay", "{}")
        .await;
    assert_eq!(foreign.code(), "dead_letter.unknown");
}

#[tokio::test]
async fn servers_without_jobs_say_so() {
    let server = start().await;
    assert_eq!(server.get("/v1/jobs").await.code(), "job.not_available");
    assert!(
        !browse(&server, "/", "")
            .await
            .body
            .contains("href=\"/jobs\"")
    );
}

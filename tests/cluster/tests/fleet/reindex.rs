//! Reindexing end to end: an object in a configured bucket changes, the broker gets an S3 notification or our message,
//! HTTP clients see the new tree, and subscribers receive an event.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests and their helpers"
)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use serde_json::{Value, json};
use stemma_cluster::{
    BrokerClient, EventSubscription, ServiceFleet, ServiceRole, TestServers, binary,
};
use stemma_filings::{FilingKind, Spec, generate, markdown};
use stemma_sim::http::get;
use stemma_sim::{Behavior, Provider};

const TIMEOUT: Duration = Duration::from_secs(60);
const PAGES: u32 = 12;

/// A deployment with a watched bucket.
struct ReindexHarness {
    servers: TestServers,
    bucket: String,
    provider: Provider,
    fleet: ServiceFleet,
    query: String,
    broker: BrokerClient,
    events: EventSubscription,
}

impl ReindexHarness {
    async fn start(servers: TestServers, name: &str) -> Self {
        let name = format!("{name}{}", std::process::id());
        servers.make_bucket(&name).await.unwrap();
        let provider = Provider::start(Behavior::default()).await.unwrap();
        let mut settings = servers.settings(&[]).unwrap();
        let url = settings
            .iter()
            .find(|(key, _)| key == "STEMMA_BROKER__URL")
            .unwrap()
            .1
            .clone();
        let sources = format!("[{{collection=\"default\",location=\"s3://{name}/in/\"}}]");
        let own = [
            ("SOURCES", sources.as_str()),
            ("BROKER__PREFIX", &name),
            ("REDIS__PREFIX", &name),
            ("STRUCTURE", "llm"),
            ("MODEL__NAME", "echo"),
            ("MODEL__API_KEY", "none"),
        ];
        settings.extend(own.map(|(key, value)| (format!("STEMMA_{key}"), value.to_string())));
        let mut fleet =
            ServiceFleet::new(binary().unwrap(), &format!("s3://{name}/store"), settings).unwrap();
        fleet.use_provider(provider.address());
        for role in [
            ServiceRole::Coordinator,
            ServiceRole::Worker,
            ServiceRole::Assembler,
            ServiceRole::Query,
        ] {
            let process = fleet.spawn(role, &[]).unwrap();
            fleet.wait_until_ready(&process, TIMEOUT).await.unwrap();
        }
        let query = fleet.running(ServiceRole::Query).remove(0);
        let broker = BrokerClient::connect(&url, &name).await.unwrap();
        let events = broker.subscribe().await.unwrap();
        Self {
            servers,
            bucket: name,
            provider,
            fleet,
            query,
            broker,
            events,
        }
    }

    async fn put(&self, key: &str, bytes: Vec<u8>) {
        self.servers
            .s3()
            .put_object()
            .bucket(&self.bucket)
            .key(key)
            .body(bytes.into())
            .send()
            .await
            .unwrap();
    }

    /// Writes an object as an upload in parts, whose ETag is not that of the same bytes in one request.
    async fn put_in_parts(&self, key: &str, bytes: Vec<u8>) {
        let client = self.servers.s3();
        let bucket = self.bucket.as_str();
        let begun = client.create_multipart_upload().bucket(bucket).key(key);
        let upload = begun.send().await.unwrap().upload_id.unwrap();
        let part = client.upload_part().bucket(bucket).key(key);
        let part = part.upload_id(&upload).part_number(1).body(bytes.into());
        let tag = part.send().await.unwrap().e_tag.unwrap();
        let part = CompletedPart::builder().part_number(1).e_tag(tag).build();
        let parts = CompletedMultipartUpload::builder().parts(part).build();
        let complete = client.complete_multipart_upload().bucket(bucket).key(key);
        let complete = complete.upload_id(&upload).multipart_upload(parts);
        complete.send().await.unwrap();
    }

    /// Runs a command and returns what it printed.
    async fn stemma(&self, arguments: &[&str]) -> String {
        let output = self.fleet.run(arguments, TIMEOUT).await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Method and gap codes of a document's tree.
    async fn method_and_gaps(&self, document: &str) -> (Value, Vec<Value>) {
        let tree = self.stemma(&["tree", document, "--json"]).await;
        let tree: Value = serde_json::from_str(&tree).unwrap();
        let gaps = tree["gaps"].as_array().unwrap().iter();
        let codes = gaps.map(|gap| gap["code"].clone()).collect();
        (tree["document"]["method"].clone(), codes)
    }

    /// Publishes an S3 event notification.
    async fn notify(&self, event: &str, key: &str) {
        let place = json!({ "bucket": { "name": self.bucket }, "object": { "key": key } });
        let record = json!({ "eventVersion": "2.1", "eventSource": "aws:s3", "eventName": event, "s3": place });
        let body = json!({ "Records": [record] }).to_string();
        self.broker
            .publish("reindex", body.as_bytes())
            .await
            .unwrap();
    }

    /// The next event, which must have this topic and version.
    async fn next_event(&mut self, topic: &str, seq: u64) -> Value {
        let (event_topic, event) = self
            .events
            .next(TIMEOUT)
            .await
            .unwrap()
            .expect("an event within a minute");
        assert_eq!(
            (event_topic.as_str(), event["seq"].as_u64()),
            (topic, Some(seq)),
            "{event}"
        );
        event
    }

    /// Waits until `visible` accepts an entry of the document list. Returns the milliseconds since the change was recorded.
    async fn wait_until_visible(
        &mut self,
        event: &Value,
        visible: impl Fn(&[Value]) -> bool,
    ) -> u64 {
        let address = self.fleet.address(&self.query).unwrap();
        let started = Instant::now();
        while started.elapsed() < TIMEOUT {
            let (status, body) = get(address, "/v1/documents", TIMEOUT).await.unwrap();
            let list: Value = serde_json::from_slice(&body).unwrap_or_default();
            if status == 200 && list["items"].as_array().is_some_and(|items| visible(items)) {
                let now = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap()
                    .as_millis() as u64;
                return now.saturating_sub(event["at_ms"].as_u64().unwrap());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("HTTP clients do not see the result of {event}");
    }

    /// Waits for the event of a version, and until HTTP lists its tree.
    async fn wait_until_published(&mut self, seq: u64) -> (Value, u64) {
        let event = self.next_event("document.published", seq).await;
        let doc = event["doc"].as_str().unwrap().to_string();
        let of_doc = |item: &Value| item["doc_id"] == event["doc"] && item["version"] == json!(seq);
        let took = self
            .wait_until_visible(&event, |items| {
                items
                    .iter()
                    .any(|item| of_doc(item) && !item["sections"].is_null())
            })
            .await;
        let address = self.fleet.address(&self.query).unwrap();
        let (status, _) = get(address, &format!("/v1/documents/{doc}/tree"), TIMEOUT)
            .await
            .unwrap();
        assert_eq!(status, 200);
        (event, took)
    }
}

fn filing(changed: bool) -> Vec<u8> {
    let spec = Spec {
        pages: PAGES,
        ..Spec::new(FilingKind::ALL[0], 7)
    };
    generate(&if changed {
        spec.with_page_changed(PAGES / 2)
    } else {
        spec
    })
    .pdf
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_objects_are_reindexed_and_announced() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let mut harness = ReindexHarness::start(servers, "reindex").await;

    // A creation, as an S3 notification with an encoded key.
    harness.put("in/a filing.pdf", filing(false)).await;
    harness.notify("ObjectCreated:Put", "in/a+filing.pdf").await;
    let (event, first) = harness.wait_until_published(1).await;
    assert_eq!(event["path"], "a filing.pdf", "{event}");
    let before = harness.provider.requests();
    assert!(
        before.len() > 5,
        "the model was called {} times",
        before.len()
    );

    // One changed page: no model call is repeated, and few are new.
    harness.put("in/a filing.pdf", filing(true)).await;
    harness
        .notify("s3:ObjectCreated:Put", "in/a+filing.pdf")
        .await;
    let (_, second) = harness.wait_until_published(2).await;
    let requests = harness.provider.requests();
    let (old, new) = requests.split_at(before.len());
    let again = new
        .iter()
        .filter(|request| old.iter().any(|before| before.digest == request.digest))
        .count();
    println!(
        "complete document: {} requests, one page: {} requests, {again} of them repeated",
        old.len(),
        new.len()
    );
    assert_eq!(
        again, 0,
        "only questions about the changed page are asked again"
    );
    assert!(
        !new.is_empty() && new.len() * 2 < old.len(),
        "{} of {} requests for one page",
        new.len(),
        old.len()
    );

    // A repeated notification has no effect. Then Stemma's own message, for another object.
    harness.notify("ObjectCreated:Put", "in/a+filing.pdf").await;
    harness
        .put("in/notes.md", markdown(3, 4).0.into_bytes())
        .await;
    let own =
        json!({ "source": format!("s3://{}/in/notes.md", harness.bucket), "class": "interactive" });
    harness
        .broker
        .publish("reindex", own.to_string().as_bytes())
        .await
        .unwrap();
    let (event, third) = harness.wait_until_published(1).await;
    assert_eq!(event["path"], "notes.md", "{event}");

    // Unconfigured prefixes are ignored.
    harness.put("out/secret.md", b"# Secret\n".to_vec()).await;
    harness.notify("ObjectCreated:Put", "out/secret.md").await;
    let own = json!({ "source": format!("s3://{}/out/secret.md", harness.bucket), "collection": "default" });
    harness
        .broker
        .publish("reindex", own.to_string().as_bytes())
        .await
        .unwrap();

    // A removed object gets a tombstone and disappears from listings.
    harness
        .servers
        .s3()
        .delete_object()
        .bucket(&harness.bucket)
        .key("in/notes.md")
        .send()
        .await
        .unwrap();
    harness.notify("ObjectRemoved:Delete", "in/notes.md").await;
    let event = harness.next_event("document.removed", 2).await;
    let gone = harness
        .wait_until_visible(&event, |items| {
            items.iter().all(|item| item["doc_id"] != event["doc"])
        })
        .await;

    println!("visible after {first}, {second} and {third} ms, gone after {gone} ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_during_processing_are_coalesced() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let mut harness = ReindexHarness::start(servers, "coalesce").await;
    let text = |revision: u32| {
        format!("{}\n## Revision {revision}\n\nWords.\n", markdown(5, 6).0).into_bytes()
    };
    // The first run does not end before all changes are known.
    harness.provider.limit_replies(0);
    harness.put("in/busy.md", text(0)).await;
    harness.notify("ObjectCreated:Put", "in/busy.md").await;
    let started = Instant::now();
    while harness.provider.in_flight() == 0 {
        assert!(
            started.elapsed() < TIMEOUT,
            "the document is not being processed"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for revision in 1..=10 {
        harness.put("in/busy.md", text(revision)).await;
        harness.notify("ObjectCreated:Put", "in/busy.md").await;
    }
    harness.provider.limit_replies(usize::MAX);
    harness.wait_until_published(1).await;
    harness.wait_until_published(2).await;
    let more = harness.events.next(Duration::from_secs(8)).await.unwrap();
    assert!(
        more.is_none(),
        "ten changes during one run cause one more run: {more:?}"
    );
    let address = harness.fleet.address(&harness.query).unwrap();
    let (_, body) = get(address, "/v1/documents", TIMEOUT).await.unwrap();
    let list: Value = serde_json::from_slice(&body).unwrap();
    let doc = list["items"][0]["doc_id"].as_str().unwrap().to_string();
    let (_, tree) = get(address, &format!("/v1/documents/{doc}/tree"), TIMEOUT)
        .await
        .unwrap();
    assert!(
        String::from_utf8_lossy(&tree).contains("Revision 10"),
        "the newest state"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn corrections_survive_an_object_that_is_written_again() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let mut harness = ReindexHarness::start(servers, "corrected").await;
    const KEY: &str = "in/report.md";
    const CREATED: &str = "ObjectCreated:Put";
    let report = b"# Report\n\n## Results\n\nWe sold more.\n\nCosts\n\nThey fell.\n".to_vec();
    harness.put(KEY, report.clone()).await;
    harness.notify(CREATED, KEY).await;
    harness.wait_until_published(1).await;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("outline.txt");
    let exported = harness.stemma(&["outline", "export", "report"]).await;
    std::fs::write(&file, exported + "  line 7 Costs\n").unwrap();
    let file = file.to_str().unwrap();
    harness.stemma(&["outline", "import", "report", file]).await;
    harness.wait_until_published(2).await;

    harness.put_in_parts(KEY, report.clone()).await;
    harness.notify(CREATED, KEY).await;
    harness.wait_until_published(3).await;
    let person = ("person".into(), Vec::new());
    assert_eq!(harness.method_and_gaps("report").await, person);

    harness
        .put(KEY, [report, b"More.\n".to_vec()].concat())
        .await;
    harness.notify(CREATED, KEY).await;
    harness.wait_until_published(4).await;
    let (method, gaps) = harness.method_and_gaps("report").await;
    assert_ne!(method, "person");
    assert!(
        gaps.contains(&"outline.correction_dropped".into()),
        "{gaps:?}"
    );

    harness
        .stemma(&["outline", "reset", "report", "--yes"])
        .await;
    harness.wait_until_published(5).await;
    let (_, gaps) = harness.method_and_gaps("report").await;
    assert!(
        !gaps.contains(&"outline.correction_dropped".into()),
        "{gaps:?}"
    );
}

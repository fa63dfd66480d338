//! Reindexing by message, end to end: an object of a listed bucket changes, the broker is told in S3's words or in ours,
//! and readers over HTTP see the new tree; an event says so to whoever listens.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests and what they stand on"
)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use stemma_cluster::{Broker, Events, Fleet, Role, Servers, binary};
use stemma_filings::{Kind, Spec, generate, markdown};
use stemma_sim::http::get;
use stemma_sim::{Behavior, Provider};

const PATIENCE: Duration = Duration::from_secs(60);
const PAGES: u32 = 12;

/// Everything that runs, and what it runs on.
struct Ground {
    servers: Servers,
    bucket: String,
    provider: Provider,
    fleet: Fleet,
    query: String,
    broker: Broker,
    events: Events,
}

impl Ground {
    async fn make(servers: Servers, name: &str) -> Self {
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
            Fleet::new(binary().unwrap(), &format!("s3://{name}/store"), settings).unwrap();
        fleet.ask(provider.address());
        for role in [
            Role::Coordinator,
            Role::Worker,
            Role::Assembler,
            Role::Query,
        ] {
            let process = fleet.spawn(role, &[]).unwrap();
            fleet.ready(&process, PATIENCE).await.unwrap();
        }
        let query = fleet.running(Role::Query).remove(0);
        let broker = Broker::connect(&url, &name).await.unwrap();
        let events = broker.listen().await.unwrap();
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

    /// Tells of an object as S3 does.
    async fn notify(&self, event: &str, key: &str) {
        let place = json!({ "bucket": { "name": self.bucket }, "object": { "key": key } });
        let record = json!({ "eventVersion": "2.1", "eventSource": "aws:s3", "eventName": event, "s3": place });
        let body = json!({ "Records": [record] }).to_string();
        self.broker
            .publish("reindex", body.as_bytes())
            .await
            .unwrap();
    }

    /// The next event, of this topic and version.
    async fn hear(&mut self, topic: &str, seq: u64) -> Value {
        let (heard, event) = self
            .events
            .next(PATIENCE)
            .await
            .unwrap()
            .expect("an event within a minute");
        assert_eq!(
            (heard.as_str(), event["seq"].as_u64()),
            (topic, Some(seq)),
            "{event}"
        );
        event
    }

    /// Waits until a reader sees `visible` in the list of documents; milliseconds since the change was recorded.
    async fn seen(&mut self, event: &Value, visible: impl Fn(&[Value]) -> bool) -> u64 {
        let address = self.fleet.address(&self.query).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let (status, body) = get(address, "/v1/documents", Duration::from_secs(5))
                .await
                .unwrap();
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
        panic!("readers do not see what {event} tells of");
    }

    /// Hears of a version, and has a reader see its tree.
    async fn published(&mut self, seq: u64) -> (Value, u64) {
        let event = self.hear("document.published", seq).await;
        let doc = event["doc"].as_str().unwrap().to_string();
        let of_doc = |item: &Value| item["doc_id"] == event["doc"] && item["version"] == json!(seq);
        let took = self
            .seen(&event, |items| {
                items
                    .iter()
                    .any(|item| of_doc(item) && !item["sections"].is_null())
            })
            .await;
        let address = self.fleet.address(&self.query).unwrap();
        let (status, _) = get(address, &format!("/v1/documents/{doc}/tree"), PATIENCE)
            .await
            .unwrap();
        assert_eq!(status, 200);
        (event, took)
    }
}

fn filing(changed: bool) -> Vec<u8> {
    let spec = Spec {
        pages: PAGES,
        ..Spec::of(Kind::ALL[0], 7)
    };
    generate(&if changed {
        spec.with_page_changed(PAGES / 2)
    } else {
        spec
    })
    .pdf
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_object_becomes_a_new_tree_that_readers_see_and_listeners_hear_of() {
    let Some(servers) = Servers::named().unwrap() else {
        return;
    };
    let mut ground = Ground::make(servers, "reindex").await;

    // Created, told in S3's words, the key encoded as S3 encodes it.
    ground.put("in/a filing.pdf", filing(false)).await;
    ground.notify("ObjectCreated:Put", "in/a+filing.pdf").await;
    let (event, first) = ground.published(1).await;
    assert_eq!(event["path"], "a filing.pdf", "{event}");
    let before = ground.provider.asks();
    assert!(
        before.len() > 10,
        "the model was asked {} times",
        before.len()
    );

    // One page changed: nothing is asked that was asked before, and little is asked at all.
    ground.put("in/a filing.pdf", filing(true)).await;
    ground
        .notify("s3:ObjectCreated:Put", "in/a+filing.pdf")
        .await;
    let (_, second) = ground.published(2).await;
    let asks = ground.provider.asks();
    let (old, new) = asks.split_at(before.len());
    let again = new
        .iter()
        .filter(|ask| old.iter().any(|before| before.digest == ask.digest))
        .count();
    println!(
        "whole: {} requests, one page: {} requests, {again} of them as before",
        old.len(),
        new.len()
    );
    assert_eq!(again, 0, "only what read the page is asked again");
    assert!(
        !new.is_empty() && new.len() * 2 < old.len(),
        "{} of {} requests for one page",
        new.len(),
        old.len()
    );

    // The same told again is nothing new; then our own words, for another object.
    ground.notify("ObjectCreated:Put", "in/a+filing.pdf").await;
    ground
        .put("in/notes.md", markdown(3, 4).0.into_bytes())
        .await;
    let own =
        json!({ "source": format!("s3://{}/in/notes.md", ground.bucket), "class": "interactive" });
    ground
        .broker
        .publish("reindex", own.to_string().as_bytes())
        .await
        .unwrap();
    let (event, third) = ground.published(1).await;
    assert_eq!(event["path"], "notes.md", "{event}");

    // What is not listed is not looked at, whoever asks.
    ground.put("out/secret.md", b"# Secret\n".to_vec()).await;
    ground.notify("ObjectCreated:Put", "out/secret.md").await;
    let own = json!({ "source": format!("s3://{}/out/secret.md", ground.bucket), "collection": "default" });
    ground
        .broker
        .publish("reindex", own.to_string().as_bytes())
        .await
        .unwrap();

    // Removed: a tombstone, and no reader sees it.
    ground
        .servers
        .s3()
        .delete_object()
        .bucket(&ground.bucket)
        .key("in/notes.md")
        .send()
        .await
        .unwrap();
    ground.notify("ObjectRemoved:Delete", "in/notes.md").await;
    let event = ground.hear("document.removed", 2).await;
    let gone = ground
        .seen(&event, |items| {
            items.iter().all(|item| item["doc_id"] != event["doc"])
        })
        .await;

    println!("visible after {first}, {second} and {third} ms, gone after {gone} ms");
    for (what, took) in [
        ("created", first),
        ("changed", second),
        ("told by us", third),
        ("removed", gone),
    ] {
        assert!(took <= 2_000, "{what}: readers saw it after {took} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_while_the_document_is_in_work_are_one_more_version() {
    let Some(servers) = Servers::named().unwrap() else {
        return;
    };
    let mut ground = Ground::make(servers, "coalesce").await;
    ground
        .provider
        .behave(Behavior::after(Duration::from_millis(150)));
    let text = |revision: u32| {
        format!("{}\n## Revision {revision}\n\nWords.\n", markdown(5, 6).0).into_bytes()
    };
    ground.put("in/busy.md", text(0)).await;
    ground.notify("ObjectCreated:Put", "in/busy.md").await;
    let begun = Instant::now();
    while ground.provider.in_flight() == 0 {
        assert!(begun.elapsed() < PATIENCE, "the document is not worked on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for revision in 1..=10 {
        ground.put("in/busy.md", text(revision)).await;
        ground.notify("ObjectCreated:Put", "in/busy.md").await;
    }
    ground.published(1).await;
    ground.published(2).await;
    let more = ground.events.next(Duration::from_secs(8)).await.unwrap();
    assert!(
        more.is_none(),
        "ten changes during one run are one more run: {more:?}"
    );
    let address = ground.fleet.address(&ground.query).unwrap();
    let (_, body) = get(address, "/v1/documents", PATIENCE).await.unwrap();
    let list: Value = serde_json::from_slice(&body).unwrap();
    let doc = list["items"][0]["doc_id"].as_str().unwrap().to_string();
    let (_, tree) = get(address, &format!("/v1/documents/{doc}/tree"), PATIENCE)
        .await
        .unwrap();
    assert!(
        String::from_utf8_lossy(&tree).contains("Revision 10"),
        "the newest state"
    );
}

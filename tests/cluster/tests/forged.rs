//! What somebody with write access to jobs or to the broker cannot do: have a worker read its own files.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their helpers")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stemma_cluster::{BrokerClient, ServiceFleet, ServiceRole, TestServers, binary};

const TIMEOUT: Duration = Duration::from_secs(60);
// Every process can read it, and it holds the passwords of a service that gets them as variables.
const ENVIRONMENT: &str = "file:///proc/self/environ";

/// A fleet with one published document, whose objects a forger can copy.
struct Forgery {
    servers: TestServers,
    bucket: String,
    fleet: ServiceFleet,
    broker: BrokerClient,
    job: String,
}

impl Forgery {
    async fn start(servers: TestServers, name: &str) -> Self {
        let bucket = format!("{name}{}", std::process::id());
        servers.make_bucket(&bucket).await.unwrap();
        let mut settings = servers.settings(&[]).unwrap();
        let url = settings
            .iter()
            .find(|(key, _)| key == "STEMMA_BROKER__URL")
            .unwrap()
            .1
            .clone();
        settings.extend(
            ["BROKER", "REDIS"].map(|server| (format!("STEMMA_{server}__PREFIX"), bucket.clone())),
        );
        let mut fleet =
            ServiceFleet::new(binary().unwrap(), &format!("s3://{bucket}/store"), settings)
                .unwrap();
        for role in [
            ServiceRole::Coordinator,
            ServiceRole::Worker,
            ServiceRole::Assembler,
        ] {
            let process = fleet.spawn(role, &[]).unwrap();
            fleet.wait_until_ready(&process, TIMEOUT).await.unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.md");
        std::fs::write(&file, "# One\n\nText.\n").unwrap();
        let submit = ["submit", file.to_str().unwrap(), "--wait", "--json"];
        let output = fleet.run(&submit, TIMEOUT).await.unwrap();
        assert!(output.status.success(), "{output:?}");
        let broker = BrokerClient::connect(&url, &bucket).await.unwrap();
        let mut forgery = Self {
            servers,
            bucket,
            fleet,
            broker,
            job: String::new(),
        };
        let report = forgery.wait_for("jobs/", "/report.json").await;
        forgery.job = report["job"].as_str().unwrap().into();
        forgery
    }

    /// Keys of the store below `prefix`.
    async fn keys(&self, prefix: &str) -> Vec<String> {
        let request = self.servers.s3().list_objects_v2().bucket(&self.bucket);
        let listed = request.prefix(format!("store/{prefix}")).send().await;
        let keys = listed.unwrap().contents.unwrap_or_default();
        keys.into_iter()
            .filter_map(|object| Some(object.key?.strip_prefix("store/")?.to_string()))
            .collect()
    }

    async fn get(&self, key: &str) -> Value {
        let request = self.servers.s3().get_object().bucket(&self.bucket);
        let object = request.key(format!("store/{key}")).send().await.unwrap();
        serde_json::from_slice(&object.body.collect().await.unwrap().to_vec()).unwrap()
    }

    async fn put(&self, key: &str, value: &Value) {
        let request = self.servers.s3().put_object().bucket(&self.bucket);
        let body = value.to_string().into_bytes().into();
        let put = request.key(format!("store/{key}")).body(body).send().await;
        put.unwrap();
    }

    /// Waits for an object below `prefix` whose key ends so.
    async fn wait_for(&self, prefix: &str, ends_with: &str) -> Value {
        let started = Instant::now();
        while started.elapsed() < TIMEOUT {
            let keys = self.keys(prefix).await;
            if let Some(key) = keys.iter().find(|key| key.ends_with(ends_with)) {
                return self.get(key).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("no {prefix}…{ends_with} after {TIMEOUT:?}");
    }

    /// The revision of a stage that workers of this program run, as its trees record it.
    async fn stage_revision(&self, stage: &str) -> u64 {
        let output = self.fleet.run(&["stat", "a.md", "--json"], TIMEOUT);
        let output = output.await.unwrap();
        assert!(output.status.success(), "{output:?}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let revision = &document["provenance"]["revisions"][stage];
        revision.as_u64().unwrap_or_else(|| panic!("{document}"))
    }

    async fn trees(&self) -> Vec<String> {
        let mut keys = self.keys("c/").await;
        keys.retain(|key| key.contains("/trees/"));
        keys
    }
}

fn with_environment(input: &mut Value) {
    input["uri"] = ENVIRONMENT.into();
    input["name"] = "environ.txt".into();
    input["path"] = "environ.txt".into();
    input["origin"] = json!({ "object": { "etag": "x" } });
}

#[tokio::test(flavor = "multi_thread")]
async fn local_files_named_by_a_forged_job_are_refused() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let forgery = Forgery::start(servers, "forgedjob").await;
    let before = forgery.trees().await;
    let keys = forgery.keys(&format!("jobs/{}/", forgery.job)).await;
    let copied = keys
        .iter()
        .filter(|key| key.contains("/entries/") || key.ends_with("/manifest.json"));
    for key in copied {
        let mut value = forgery.get(key).await;
        if let Some(entries) = value.as_array_mut() {
            for entry in entries {
                with_environment(&mut entry["input"]);
            }
        } else {
            value["job"] = "j-forged".into();
        }
        forgery
            .put(&key.replace(&forgery.job, "j-forged"), &value)
            .await;
    }
    // The message that announces a job, as the submitter sends it; any flow queue takes it up.
    let announcement = json!({ "job": "j-forged" }).to_string();
    let announced = forgery.broker.publish("flow.00", announcement.as_bytes());
    announced.await.unwrap();
    let report = forgery.wait_for("jobs/j-forged/", "/report.json").await;
    assert_eq!(report["counts"]["failed"], 1, "{report}");
    assert_eq!(report["reasons"]["input.denied"], 1, "{report}");
    assert_eq!(forgery.trees().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn local_files_named_by_a_forged_task_are_refused() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let forgery = Forgery::start(servers, "forgedtask").await;
    let versions = forgery.keys("c/default/d/").await;
    let versions = versions.iter().find(|key| key.contains("/versions/"));
    let mut header = forgery.get(versions.expect("a version")).await;
    header["at"]["run"] = "forged-1".into();
    header["at"]["header"] = "jobs/forged/header.json".into();
    with_environment(&mut header["input"]);
    let as_object = header.clone();
    // Without a stored copy, a file is known by its digest only: that must not tell whether a guess is right.
    header["input"]["origin"] = "content".into();
    header["input"]["source"] = "0".repeat(64).into();
    let revision = forgery.stage_revision("paginate").await;
    for (number, header) in [(1, &as_object), (2, &header)] {
        let mut header = header.clone();
        header["at"]["header"] = format!("jobs/forged/{number}.json").into();
        forgery
            .put(&format!("jobs/forged/{number}.json"), &header)
            .await;
        let task = json!({
            "run": header["at"],
            "key": format!("{number:032}"),
            "stage": "paginate",
            "revision": revision,
            "settings": header["settings"],
            "class": "bulk",
            "payload": { "source": header["input"]["source"], "ending": "txt" },
        })
        .to_string();
        let sent = forgery.broker.publish("cpu.bulk", task.as_bytes());
        sent.await.unwrap();
        let failure = format!("/{number:032}.json");
        let record = forgery.wait_for("runs/forged-1/failed/", &failure).await;
        assert_eq!(record["code"], "input.denied", "{record}");
    }
    let artifacts = forgery.keys("c/").await;
    let stored = artifacts
        .iter()
        .find(|key| key.ends_with(&format!("{:032}", 1)));
    assert_eq!(stored, None);
    assert_eq!(
        forgery.fleet.running(ServiceRole::Worker).len(),
        1,
        "the worker goes on"
    );
}

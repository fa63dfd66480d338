//! What somebody with write access to jobs or to the broker cannot do: have a worker read its own files, overwrite the
//! document of another collection, or end the job of somebody else.
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
        Self::start_with(servers, name, &[]).await
    }

    async fn start_with(servers: TestServers, name: &str, own: &[(&str, &str)]) -> Self {
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
        settings.extend(
            own.iter()
                .map(|(key, value)| (key.to_string(), value.to_string())),
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
        self.put_text(&format!("store/{key}"), &value.to_string())
            .await;
    }

    /// Writes an object of the bucket, inside or outside of the store. Returns its ETag.
    async fn put_text(&self, key: &str, text: &str) -> String {
        let request = self.servers.s3().put_object().bucket(&self.bucket);
        let body = text.as_bytes().to_vec().into();
        let put = request.key(key).body(body).send().await.unwrap();
        put.e_tag.unwrap().trim_matches('"').into()
    }

    /// Runs a command that succeeds, and returns what it prints as JSON.
    async fn json(&self, arguments: &[&str]) -> Value {
        let output = self.fleet.run(arguments, TIMEOUT).await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Waits until there are so many dead letters.
    async fn wait_for_letters(&self, count: usize) -> Vec<Value> {
        let started = Instant::now();
        loop {
            let list = self.fleet.run(&["dead-letters", "list", "--json"], TIMEOUT);
            let listed = list.await.unwrap().stdout;
            let letters: Vec<Value> = serde_json::from_slice(&listed).unwrap();
            if letters.len() >= count {
                return letters;
            }
            assert!(started.elapsed() < TIMEOUT, "{count} wanted: {letters:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
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
    let first = versions.expect("a version");
    let mut header = forgery.get(first).await;
    with_environment(&mut header["input"]);
    let as_object = header.clone();
    // Without a stored copy, a file is known by its digest only: that must not tell whether a guess is right.
    header["input"]["origin"] = "content".into();
    header["input"]["source"] = "0".repeat(64).into();
    let revision = forgery.stage_revision("paginate").await;
    let run = header["at"]["run"].as_str().unwrap().to_string();
    let task = |header: &Value, number: u64| {
        json!({
            "run": header["at"],
            "key": format!("{number:032}"),
            "stage": "paginate",
            "revision": revision,
            "settings": header["settings"],
            "class": "bulk",
            "payload": { "source": header["input"]["source"], "ending": "txt" },
        })
        .to_string()
    };
    for (number, header) in [(2, &as_object), (3, &header)] {
        // Where only a coordinator may write.
        let mut header = header.clone();
        let own = run.replace("-1", &format!("-{number}"));
        let key = first.replace("1.json", &format!("{number}.json"));
        header["at"]["run"] = own.as_str().into();
        header["at"]["header"] = key.as_str().into();
        header["input"]["seq"] = number.into();
        forgery.put(&key, &header).await;
        let task = task(&header, number);
        let sent = forgery.broker.publish("cpu.bulk", task.as_bytes());
        sent.await.unwrap();
        let failure = format!("/{number:032}.json");
        let failures = format!("runs/{own}/failed/");
        let record = forgery.wait_for(&failures, &failure).await;
        assert_eq!(record["code"], "input.denied", "{record}");
    }
    // Where a submitter may.
    let key = "jobs/forged/header.json";
    header["at"]["header"] = key.into();
    forgery.put(key, &header).await;
    let task = task(&header, 4);
    let sent = forgery.broker.publish("cpu.bulk", task.as_bytes());
    sent.await.unwrap();
    let letters = forgery.wait_for_letters(1).await;
    let reason = letters[0]["reason"].as_str().unwrap();
    assert!(reason.contains("header or scope"), "{letters:?}");
    let artifacts = forgery.keys("c/").await;
    let stored = artifacts
        .iter()
        .find(|key| (2..=4).any(|number| key.ends_with(&format!("{number:032}"))));
    assert_eq!(stored, None);
    assert_eq!(
        forgery.fleet.running(ServiceRole::Worker).len(),
        1,
        "the worker goes on"
    );
}

/// Messages of a client that reaches the exchange but has no key, after it stored headers where tenants write: of a run of
/// another collection that reads an object of this client, and of a job there that waits for a worker.
async fn forge_messages(servers: TestServers, name: &str, own: &[(&str, &str)]) {
    let mut forgery = Forgery::start_with(servers, name, own).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.md");
    std::fs::write(&file, "# Plan\n\nText of the other tenant.\n").unwrap();
    let tenant = ["--collection", "tenantb"];
    let submit = ["submit", file.to_str().unwrap(), "--json"];
    let done = forgery
        .json(&[&submit[..], &["--wait"][..], &tenant[..]].concat())
        .await;
    assert_eq!(done["counts"]["done"], 1, "{done}");
    let worker = forgery.fleet.running(ServiceRole::Worker).remove(0);
    forgery.fleet.kill(&worker).unwrap();
    std::fs::write(&file, "# Plan\n\nNew text of the other tenant.\n").unwrap();
    let open = forgery.json(&[&submit[..], &tenant[..]].concat()).await;
    let job = open["job"].as_str().unwrap().to_string();
    let header = forgery
        .wait_for("c/tenantb/d/", "/versions/000000000002.json")
        .await;
    let (before, files) = (forgery.trees().await, forgery.keys("c/tenantb/d/").await);

    // A run above the newest, of an object that the client may write.
    let etag = forgery
        .put_text("mine/plan.md", "# Plan\n\nForged.\n")
        .await;
    let mut forged = header.clone();
    let scope = header["at"]["scope"].as_str().unwrap();
    let doc = scope.rsplit('/').next().unwrap();
    forged["at"]["run"] = format!("{doc}-9").into();
    forged["input"]["seq"] = 9.into();
    forged["input"]["uri"] = format!("s3://{}/mine/plan.md", forgery.bucket).into();
    forged["input"]["origin"] = json!({ "object": { "etag": etag } });
    let places = [
        format!("c/default/originals/{}", "0".repeat(64)),
        format!("c/default/d/{doc}/a/{}", "0".repeat(32)),
        format!("settings/{}", "0".repeat(32)),
    ];
    let mut messages = Vec::new();
    for place in &places {
        forged["at"]["header"] = place.as_str().into();
        forgery.put(place, &forged).await;
        let at = &forged["at"];
        messages.push(json!({ "wake": at }));
        messages.push(json!({ "completed": at }));
        messages.push(json!({ "abandoned": { "job": job, "run": at } }));
    }
    let refused = messages.len();
    for ending in ["done", "unchanged", "cancelled"] {
        let run = &header["at"]["run"];
        messages.push(json!({ "ended": { "job": job, "run": run, "ending": ending, "tasks": 3 } }));
    }
    // The last one is refused in any fleet, and tells that the coordinator has taken those before it.
    messages.push(json!({ "job": "../last" }));
    for message in &messages {
        let body = message.to_string();
        let sent = forgery.broker.publish("flow.00", body.as_bytes());
        sent.await.unwrap();
    }
    let wanted = if own.is_empty() {
        refused + 1
    } else {
        messages.len()
    };
    let letters = forgery.wait_for_letters(wanted).await;
    assert_eq!(letters.len(), wanted, "{letters:?}");
    assert_eq!(forgery.keys(&format!("jobs/{job}/report")).await, [""; 0]);
    assert_eq!(forgery.keys("c/tenantb/d/").await, files);

    let worker = forgery.fleet.spawn(ServiceRole::Worker, &[]).unwrap();
    forgery
        .fleet
        .wait_until_ready(&worker, TIMEOUT)
        .await
        .unwrap();
    let report = forgery
        .wait_for(&format!("jobs/{job}/"), "/report.json")
        .await;
    assert_eq!(report["counts"]["done"], 1, "{report}");
    let mut trees = forgery.trees().await;
    trees.retain(|key| !before.contains(key));
    assert_eq!(trees, [format!("{scope}/trees/000000000002.json")]);
    let cat = [&["cat", "plan"][..], &tenant[..]].concat();
    let text = forgery.fleet.run(&cat, TIMEOUT);
    let text = String::from_utf8(text.await.unwrap().stdout).unwrap();
    assert!(text.contains("New text of the other tenant"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_reindex_client_change_no_run() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let key = "0123456789abcdef0123456789abcdef";
    forge_messages(
        servers,
        "forgedsigned",
        &[("STEMMA_BROKER__MESSAGE_KEY", key)],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_change_no_run_in_a_fleet_without_a_message_key() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    forge_messages(servers, "forgedplain", &[]).await;
}

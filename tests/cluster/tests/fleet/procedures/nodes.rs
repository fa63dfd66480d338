//! A broker of three nodes: its leaders change, it loses its majority, and it gets it back.
//!
//! `STEMMA_TEST_RABBITMQ_NODES` is the folder of a cluster that `tests/rabbit-nodes start` has started.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stemma_cluster::{ServiceRole, binary};
use tokio::process::Command;

use super::deployment::{
    Deployment, QUICK, SINGLE, SLOW, filings, provider, servers, set_latency, undisturbed,
    wait_for_calls,
};

const NODES: &str = "STEMMA_TEST_RABBITMQ_NODES";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rabbit-nodes");
/// How long the majority is missing: longer than the retries within one call.
const MINORITY_PERIOD: Duration = Duration::from_secs(20);

struct Nodes(PathBuf);

impl Nodes {
    async fn run(&self, command: &str, node: &str) {
        let mut script = Command::new(SCRIPT);
        let status = script.args([command, node]).arg(&self.0).status().await;
        assert!(status.unwrap().success(), "{command} {node}");
    }

    /// The URL of a node, from 1.
    fn url(&self, node: usize) -> String {
        let text = std::fs::read_to_string(self.0.join("env")).unwrap();
        let urls = text.split('\'').nth(1).unwrap();
        urls.split(' ').nth(node - 1).unwrap().into()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_changes_and_a_lost_majority_change_no_result() {
    let Some(servers) = servers() else {
        return;
    };
    let Some(folder) = std::env::var_os(NODES) else {
        println!("skipped: {NODES} names no cluster of tests/rabbit-nodes");
        return;
    };
    let nodes = Nodes(Path::new(&folder).into());
    let filings = filings(16, 12);
    let alone = undisturbed(&servers, "one-node", binary().unwrap(), filings.path()).await;
    let slow = provider(SLOW).await;
    let mut deployment = Deployment::new(&servers, "nodes", binary().unwrap(), &slow).await;
    // Leaders of queues start on the node where they are declared.
    for node in [1, 3] {
        deployment.fleet.set("STEMMA_BROKER__URL", &nodes.url(node));
        deployment.spawn(&SINGLE).await;
    }
    let trouble = async |_: &mut Deployment| {
        wait_for_calls(&slow, 4).await;
        nodes.run("kill", "1").await;
        wait_for_calls(&slow, 8).await;
        nodes.run("kill", "2").await;
        tokio::time::sleep(MINORITY_PERIOD).await;
        nodes.run("restart", "2").await;
        wait_for_calls(&slow, 4).await;
        nodes.run("restart", "1").await;
        set_latency(&slow, QUICK);
    };
    let trees = deployment.run(filings.path(), trouble).await;
    assert_eq!(trees, alone);
    assert_eq!(deployment.fleet.running(ServiceRole::Worker).len(), 2);
}

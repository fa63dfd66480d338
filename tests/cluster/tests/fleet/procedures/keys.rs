//! A fleet gets its first message key, and a new one (docs/SECURITY.md, "The broker").

use stemma_cluster::{ServiceRole, binary};

use super::deployment::{
    Deployment, QUICK, SINGLE, SLOW, filings, provider, servers, set_latency, undisturbed,
    wait_for_calls,
};

const KEY: &str = "STEMMA_BROKER__MESSAGE_KEY";
const PREVIOUS: &str = "STEMMA_BROKER__PREVIOUS_MESSAGE_KEY";
const UNSIGNED: &str = "STEMMA_BROKER__ACCEPT_UNSIGNED";
const OLD: &str = "0123456789abcdef0123456789abcdef";
const NEW: &str = "fedcba9876543210fedcba9876543210";

#[tokio::test(flavor = "multi_thread")]
async fn message_keys_are_introduced_and_replaced_under_load() {
    let Some(servers) = servers() else {
        return;
    };
    let folder = filings(16, 12);
    let alone = undisturbed(&servers, "unsigned", binary().unwrap(), folder.path()).await;
    let slow = provider(SLOW).await;
    let mut signed = Deployment::new(&servers, "signed", binary().unwrap(), &slow).await;
    signed.spawn(&SINGLE).await;
    let executing = [ServiceRole::Worker, ServiceRole::Assembler];
    let rotate = async |signed: &mut Deployment| {
        // The first key: tasks from before are not signed.
        signed.fleet.set(KEY, OLD);
        signed.fleet.set(UNSIGNED, "true");
        for role in executing.into_iter().chain([ServiceRole::Coordinator]) {
            wait_for_calls(&slow, 1).await;
            signed.replace(role).await;
        }
        // A new key: first those who check, then those who sign.
        signed.fleet.set(KEY, NEW);
        signed.fleet.set(PREVIOUS, OLD);
        for role in executing.into_iter().chain([ServiceRole::Coordinator]) {
            wait_for_calls(&slow, 1).await;
            signed.replace(role).await;
        }
        set_latency(&slow, QUICK);
    };
    let trees = signed.run(folder.path(), rotate).await;
    assert_eq!(trees, alone);
    let letters = ["dead-letters", "list", "--json"];
    let output = signed
        .fleet
        .run(&letters, std::time::Duration::from_secs(60))
        .await
        .unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(listed.as_array().map(Vec::len), Some(0), "{listed}");
}

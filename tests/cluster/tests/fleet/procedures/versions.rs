//! A fleet that is upgraded, taken back and upgraded again: an older binary, named by `STEMMA_TEST_PREVIOUS_BIN`,
//! with the present one.

use std::path::PathBuf;

use stemma_cluster::{ServiceRole, binary};

use super::deployment::{
    Deployment, QUICK, SLOW, filings, provider, servers, set_latency, undisturbed, wait_for_calls,
};

const PREVIOUS: &str = "STEMMA_TEST_PREVIOUS_BIN";
const DOCUMENTS: u64 = 40;
/// In the order of an update: no coordinator requests what no worker can do.
const PROCESSES: [(ServiceRole, usize); 3] = [
    (ServiceRole::Worker, 2),
    (ServiceRole::Assembler, 2),
    (ServiceRole::Coordinator, 2),
];

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_and_rollback_under_load_change_no_result() {
    let Some(servers) = servers() else {
        return;
    };
    let Some(previous) = std::env::var_os(PREVIOUS).map(PathBuf::from) else {
        println!("skipped: {PREVIOUS} names no older binary");
        return;
    };
    let present = binary().unwrap();
    let folder = filings(DOCUMENTS, 16);
    let mut alone = Vec::new();
    for (name, binary) in [("previous", &previous), ("present", &present)] {
        alone.push(undisturbed(&servers, name, binary.clone(), folder.path()).await);
    }
    let slow = provider(SLOW).await;
    let mut mixed = Deployment::new(&servers, "mixed", previous.clone(), &slow).await;
    mixed.spawn(&PROCESSES).await;
    let updates = async |mixed: &mut Deployment| {
        for binary in [&present, &previous, &present] {
            mixed.fleet.use_binary(binary.clone());
            for (role, _) in PROCESSES {
                wait_for_calls(&slow, 4).await;
                mixed.replace(role).await;
            }
        }
        println!("{} calls while the fleet was updated", slow.request_count());
        set_latency(&slow, QUICK);
    };
    let trees = mixed.run(folder.path(), updates).await;
    assert_eq!(trees.len() as u64, DOCUMENTS);
    for (key, tree) in &trees {
        assert!(
            alone.iter().any(|trees| trees.get(key) == Some(tree)),
            "{key} is that of neither version alone"
        );
    }
}

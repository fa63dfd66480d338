//! A copied bucket, restored into an empty stack: neither broker nor Redis has heard of it.

use std::time::Instant;

use stemma_cluster::{TestServers, binary};

use super::deployment::{
    BUCKET, Deployment, JOB_TIMEOUT, QUICK, SINGLE, SLOW, filings, provider, servers, set_latency,
    undisturbed, wait_for_calls,
};

async fn copy_store(servers: &TestServers, from: &str, to: &str) -> usize {
    let s3 = servers.s3();
    let listing = s3
        .list_objects_v2()
        .bucket(BUCKET)
        .prefix(format!("{from}/"));
    let mut pages = listing.into_paginator().send();
    let mut copied = 0;
    while let Some(page) = pages.next().await {
        for key in page
            .unwrap()
            .contents()
            .iter()
            .filter_map(|object| object.key())
        {
            let target = format!("{to}{}", key.strip_prefix(from).unwrap());
            let copy = s3.copy_object().bucket(BUCKET).key(target);
            let source = format!("{BUCKET}/{key}");
            copy.copy_source(source).send().await.unwrap();
            copied += 1;
        }
    }
    copied
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_bucket_is_finished_by_an_empty_stack() {
    let Some(servers) = servers() else {
        return;
    };
    let folder = filings(12, 12);
    let alone = undisturbed(&servers, "uncopied", binary().unwrap(), folder.path()).await;
    let slow = provider(SLOW).await;
    let mut lost = Deployment::new(&servers, "lost", binary().unwrap(), &slow).await;
    lost.spawn(&SINGLE).await;
    let submit = ["submit", folder.path().to_str().unwrap(), "--json"];
    let output = lost.fleet.run(&submit, JOB_TIMEOUT).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    wait_for_calls(&slow, 8).await;
    let mut restored = Deployment::new(&servers, "restored", binary().unwrap(), &slow).await;
    // While the old fleet works: a copy is not a snapshot, so newer objects may be in it without older ones.
    let copied = copy_store(&servers, &lost.name, &restored.name).await;
    drop(lost);
    set_latency(&slow, QUICK);
    restored.spawn(&SINGLE).await;
    let started = Instant::now();
    let mut trees = restored.trees().await;
    while trees.len() < alone.len() {
        assert!(started.elapsed() < JOB_TIMEOUT, "{} trees", trees.len());
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        trees = restored.trees().await;
    }
    println!(
        "{copied} objects copied; finished after {:?}",
        started.elapsed()
    );
    assert_eq!(trees, alone);
}

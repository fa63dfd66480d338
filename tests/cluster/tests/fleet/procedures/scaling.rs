//! Workers from one to four, to none, and to two.

use stemma_cluster::{ServiceRole, binary};

use super::deployment::{
    Deployment, QUICK, SINGLE, SLOW, filings, provider, servers, set_latency, undisturbed,
    wait_for_calls,
};

#[tokio::test(flavor = "multi_thread")]
async fn workers_scale_up_to_none_and_back_under_load() {
    let Some(servers) = servers() else {
        return;
    };
    let folder = filings(16, 12);
    let alone = undisturbed(&servers, "unscaled", binary().unwrap(), folder.path()).await;
    let slow = provider(SLOW).await;
    let mut scaled = Deployment::new(&servers, "scaled", binary().unwrap(), &slow).await;
    scaled.spawn(&SINGLE).await;
    let scale = async |scaled: &mut Deployment| {
        wait_for_calls(&slow, 2).await;
        scaled.spawn(&[(ServiceRole::Worker, 3)]).await;
        wait_for_calls(&slow, 6).await;
        for worker in scaled.fleet.running(ServiceRole::Worker) {
            scaled.terminate(&worker).await;
        }
        let calls = slow.request_count();
        assert_eq!(slow.in_flight(), 0, "workers drain before they end");
        scaled.spawn(&[(ServiceRole::Worker, 2)]).await;
        wait_for_calls(&slow, 1).await;
        println!("{calls} calls before the last worker ended");
        set_latency(&slow, QUICK);
    };
    let trees = scaled.run(folder.path(), scale).await;
    assert_eq!(trees, alone);
}

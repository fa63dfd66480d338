//! A fleet changes its logins of broker and Redis while it works (docs/SECURITY.md, "Changing logins").

use stemma_cluster::{Login, ServiceRole, TestServers, binary};

use crate::deployment::{
    Deployment, QUICK, SINGLE, SLOW, filings, is_requested, provider, set_latency, undisturbed,
    wait_for_calls,
};

const OLD: Login = Login::new("stemma-old", "oldsecret");
const NEW: Login = Login::new("stemma-new", "newsecret");

#[tokio::test(flavor = "multi_thread")]
async fn logins_are_replaced_under_load() {
    if !is_requested() {
        return;
    }
    // Servers of its own: users are added and removed.
    let servers = TestServers::start().await.unwrap();
    // More than in other procedures: rabbitmqctl takes seconds, and the job must outlast it.
    let folder = filings(32, 12);
    let alone = undisturbed(&servers, "alone", binary().unwrap(), folder.path()).await;

    servers.add_login(&OLD).await.unwrap();
    let slow = provider(SLOW).await;
    let mut rotated = Deployment::new(&servers, "rotated", binary().unwrap(), &slow).await;
    rotated.use_login(&servers, &OLD);
    rotated.spawn(&SINGLE).await;
    let rotate = async |rotated: &mut Deployment| {
        servers.add_login(&NEW).await.unwrap();
        rotated.use_login(&servers, &NEW);
        for role in [
            ServiceRole::Worker,
            ServiceRole::Assembler,
            ServiceRole::Coordinator,
        ] {
            wait_for_calls(&slow, 1).await;
            rotated.replace(role).await;
        }
        servers.remove_login(&OLD).await.unwrap();
        // The work goes on without the old login.
        wait_for_calls(&slow, 4).await;
        set_latency(&slow, QUICK);
    };
    let trees = rotated.run(folder.path(), rotate).await;
    assert_eq!(trees, alone);
}

//! A fleet changes its logins of broker, Redis, S3 and model provider while it works (docs/SECURITY.md, "Changing logins").

use std::time::Duration;

use stemma_cluster::duplicate_calls::{CallSummary, calls_per_digest};
use stemma_cluster::{Login, ServiceRole, TestServers, binary};

use super::deployment::{
    BUCKET, Deployment, QUICK, SINGLE, SLOW, filings, is_requested, provider, set_latency,
    undisturbed_with, wait_for_calls,
};

const OLD: Login = Login::new("stemma-old", "oldsecret");
const NEW: Login = Login::new("stemma-new", "newsecret");
// The login of whoever submits and waits, which is another role.
const CLIENT: Login = Login::new("stemma-client", "clientsecret");
const OLD_KEY: &str = "old-provider-key";
const NEW_KEY: &str = "new-provider-key";

#[tokio::test(flavor = "multi_thread")]
async fn logins_are_replaced_under_load() {
    if !is_requested() {
        return;
    }
    // Servers of its own: users and keys are added and removed.
    let servers = TestServers::start().await.unwrap();
    // More than in other procedures: rabbitmqctl takes seconds, and the job must outlast it.
    let folder = filings(32, 12);
    let quick = provider(QUICK).await;
    let binary = binary().unwrap();
    let alone = undisturbed_with(&servers, "alone", binary.clone(), folder.path(), &quick).await;

    for login in [&OLD, &CLIENT] {
        servers.add_login(login).await.unwrap();
    }
    let slow = provider(SLOW).await;
    slow.accept_keys(&[OLD_KEY]);
    let mut rotated = Deployment::new(&servers, "rotated", binary, &slow).await;
    // A worker that drains makes the calls of the tasks that it holds, and breaks off those that take longer.
    rotated.set_grace(Duration::from_secs(60));
    rotated.use_login(&servers, &OLD, OLD_KEY);
    rotated.spawn(&SINGLE).await;
    rotated.use_login(&servers, &CLIENT, "none");
    let rotate = async |rotated: &mut Deployment| {
        servers.add_login(&NEW).await.unwrap();
        slow.accept_keys(&[OLD_KEY, NEW_KEY]);
        rotated.use_login(&servers, &NEW, NEW_KEY);
        for role in [
            ServiceRole::Worker,
            ServiceRole::Assembler,
            ServiceRole::Coordinator,
        ] {
            wait_for_calls(&slow, 1).await;
            rotated.replace(role).await;
        }
        servers.remove_login(&OLD).await.unwrap();
        slow.accept_keys(&[NEW_KEY]);
        // The work goes on without the old login.
        wait_for_calls(&slow, 4).await;
        set_latency(&slow, QUICK);
    };
    let trees = rotated.run(folder.path(), rotate).await;
    assert_eq!(trees, alone);
    let by_key = slow.requests_by_key();
    assert!(by_key[OLD_KEY] > 0 && by_key[NEW_KEY] > 0, "{by_key:?}");
    let answered = slow.request_count();
    assert_eq!(by_key.values().sum::<usize>(), answered, "none was refused");
    let needed = calls_per_digest(&quick.requests());
    let calls = CallSummary::from_requests(&slow.requests(), &[], &needed);
    let undelivered = slow.requests().into_iter();
    let undelivered: Vec<_> = undelivered
        .filter(|call| call.delivered.is_none())
        .collect();
    assert_eq!(
        (calls.repeated, calls.lost_in_flight),
        (0, 0),
        "{calls:?}, {undelivered:?}"
    );
    let listing = async |login| {
        let client = servers.s3_with_login(login);
        client.list_objects_v2().bucket(BUCKET).send().await
    };
    assert!(listing(&NEW).await.is_ok());
    assert!(listing(&OLD).await.is_err(), "the old key still works");
}

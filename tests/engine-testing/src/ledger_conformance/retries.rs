//! Messages of retried tasks: copies do not stay.

use super::*;

const COPY: DeliveryKind = DeliveryKind::Retried(500);

async fn lease(ledger: &Arc<dyn Ledger>, now_ms: Millis, delivery: DeliveryKind) -> Lease {
    ledger
        .lease(&run(), &key(1), "a", now_ms, now_ms + 100, delivery)
        .await
        .expect("an answer")
}

async fn release(ledger: &Arc<dyn Ledger>, next_ms: Millis) {
    let retry = Retry {
        next_ms,
        ..failed()
    };
    ledger
        .release(&run(), &key(1), "a", Some(&retry))
        .await
        .expect("released");
}

// The broker delivers the message of a retry twice. The task is retried again after the first.
pub(super) async fn refuses_copies_of_executed_retries(ledger: Arc<dyn Ledger>) {
    ledger
        .request_tasks(&run(), &[task_spec(1)], 0, 60)
        .await
        .expect("requested");
    assert!(is_granted(
        &lease(&ledger, 0, DeliveryKind::Published).await
    ));
    release(&ledger, 500).await;
    assert!(is_granted(&lease(&ledger, 510, COPY).await));
    release(&ledger, 1_000).await;
    assert_eq!(lease(&ledger, 511, COPY).await, Lease::Outdated);
    // A clock that is behind changes nothing.
    let second = DeliveryKind::Retried(1_000);
    assert!(is_granted(&lease(&ledger, 20, second).await));
    release(&ledger, 1_500).await;
    for delivery in [DeliveryKind::Redelivered, DeliveryKind::Published] {
        let lease = lease(&ledger, 520, delivery).await;
        assert!(is_granted(&lease), "{delivery:?} may be the only message");
        release(&ledger, 1_500).await;
    }
}

// What the ledger does not know is executed.
pub(super) async fn accepts_any_message_after_a_loss(ledger: Arc<dyn Ledger>) {
    assert!(is_granted(&lease(&ledger, 510, COPY).await));
    ledger
        .release(&run(), &key(1), "a", None)
        .await
        .expect("released");
    assert!(is_granted(&lease(&ledger, 510, COPY).await));
}

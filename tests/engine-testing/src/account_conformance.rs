//! Conformance suite of the accounts of the limiter port: what calls reserve, spend and give back. Callers pass the time.
#![expect(
    clippy::expect_used,
    reason = "a suite of tests, compiled only for tests"
)]

use std::future::Future;
use std::sync::Arc;

use stemma_store::env::Millis;
use stemma_store::limit::{AccountReservation, Limiter, Reservation};

const START: Millis = 1_767_225_600_000;

/// Checks that an adapter keeps the guarantees of accounts. `make` returns an unused limiter.
///
/// # Panics
/// When a guarantee is broken.
pub(crate) async fn conformance<F: Future<Output = Arc<dyn Limiter>>>(make: impl Fn() -> F) {
    keeps_accounts(make().await).await;
    gives_back_abandoned_reservations(make().await).await;
    counts_calls_of_a_lost_account(make().await).await;
    charges_a_repeated_settlement_once(make().await).await;
    charges_a_call_that_is_reserved_again(make().await).await;
    ignores_an_opening_from_before_a_loss(make().await).await;
}

// A call that holds `amount` for a minute.
fn call(id: u64, amount: u64) -> AccountReservation {
    AccountReservation {
        id,
        amount,
        ttl_ms: 60_000,
    }
}

async fn reserve(
    limiter: &Arc<dyn Limiter>,
    call: AccountReservation,
    at: Millis,
) -> Option<Reservation> {
    let answer = limiter.reserve("job", 1_000, call, START + at).await;
    answer.ok()
}

async fn spend(limiter: &Arc<dyn Limiter>, call: AccountReservation, used: u64, at: Millis) {
    limiter
        .settle_reservation("job", call, used, START + at)
        .await
        .expect("settled");
}

async fn open(limiter: &Arc<dyn Limiter>, used: u64) {
    let opening = begin_opening(limiter, 1).await;
    open_as(limiter, opening, used).await;
}

async fn begin_opening(limiter: &Arc<dyn Limiter>, proposed: u64) -> u64 {
    let begun = limiter.begin_opening("job", proposed).await;
    begun.expect("begun")
}

async fn open_as(limiter: &Arc<dyn Limiter>, opening: u64, used: u64) {
    let opened = limiter.open_account("job", opening, used).await;
    opened.expect("opened");
}

const NOT_NOW: Option<Reservation> = Some(Reservation::Refused {
    may_fit_later: true,
});
const NEVER: Option<Reservation> = Some(Reservation::Refused {
    may_fit_later: false,
});
const GRANTED: Option<Reservation> = Some(Reservation::Granted);

async fn keeps_accounts(limiter: Arc<dyn Limiter>) {
    let first = call(1, 500);
    assert_eq!(
        reserve(&limiter, first, 0).await,
        Some(Reservation::Unknown)
    );
    open(&limiter, 200).await;
    open(&limiter, 0).await; // ignored: the account exists
    assert_eq!(reserve(&limiter, first, 0).await, GRANTED);
    assert_eq!(
        reserve(&limiter, first, 1).await,
        GRANTED,
        "once, not twice"
    );
    assert_eq!(reserve(&limiter, call(2, 400), 1).await, NOT_NOW);
    assert_eq!(reserve(&limiter, call(2, 900), 1).await, NEVER);
    spend(&limiter, first, 100, 1).await;
    let rest = call(3, 700);
    assert_eq!(
        reserve(&limiter, rest, 2).await,
        GRANTED,
        "200, 100 and 700"
    );
    assert_eq!(reserve(&limiter, call(4, 1), 2).await, NOT_NOW);
    spend(&limiter, rest, 700, 3).await;
    assert_eq!(reserve(&limiter, call(4, 1), 3).await, NEVER);
}

// Calls that were killed, timed out or stopped are never settled.
async fn gives_back_abandoned_reservations(limiter: Arc<dyn Limiter>) {
    open(&limiter, 0).await;
    for id in 0..250 {
        assert_eq!(reserve(&limiter, call(id, 4), 0).await, GRANTED);
    }
    assert_eq!(reserve(&limiter, call(300, 4), 59_999).await, NOT_NOW);
    let late = call(7, 4);
    let mut granted = None;
    for at in 60_000..60_010 {
        granted = reserve(&limiter, call(400, 990), at).await;
        if granted == GRANTED {
            break;
        }
        assert_eq!(granted, NOT_NOW, "a limited number is given back at once");
    }
    assert_eq!(granted, GRANTED, "everything is given back");
    spend(&limiter, late, 5, 60_011).await;
    assert_eq!(
        reserve(&limiter, call(401, 6), 60_012).await,
        NOT_NOW,
        "990 are held, 5 were used: a late settlement takes nothing from others"
    );
    assert_eq!(reserve(&limiter, call(402, 5), 60_012).await, GRANTED);
}

// The first reservation was given back without a call.
async fn charges_a_call_that_is_reserved_again(limiter: Arc<dyn Limiter>) {
    open(&limiter, 0).await;
    assert_eq!(reserve(&limiter, call(1, 600), 0).await, GRANTED);
    spend(&limiter, call(1, 600), 0, 1).await;
    assert_eq!(reserve(&limiter, call(1, 600), 2).await, GRANTED);
    assert_eq!(reserve(&limiter, call(2, 500), 2).await, NOT_NOW);
    spend(&limiter, call(1, 600), 400, 3).await;
    assert_eq!(
        reserve(&limiter, call(2, 601), 4).await,
        NEVER,
        "400 were used"
    );
    assert_eq!(reserve(&limiter, call(2, 600), 4).await, GRANTED);
}

// The account is lost while calls are in flight, and opened again from the log.
async fn counts_calls_of_a_lost_account(limiter: Arc<dyn Limiter>) {
    let (before, during) = (call(1, 300), call(2, 300));
    spend(&limiter, during, 250, 0).await;
    open(&limiter, 100).await;
    assert_eq!(
        reserve(&limiter, call(3, 651), 1).await,
        NEVER,
        "100 from the log, 250 while there was no account"
    );
    assert_eq!(reserve(&limiter, call(3, 650), 1).await, GRANTED);
    spend(&limiter, before, 200, 2).await;
    assert_eq!(
        reserve(&limiter, call(4, 100), 3).await,
        NOT_NOW,
        "550 are spent, and the other call still holds 650"
    );
    spend(&limiter, call(3, 650), 350, 4).await;
    assert_eq!(reserve(&limiter, call(4, 101), 5).await, NEVER);
    assert_eq!(reserve(&limiter, call(4, 100), 5).await, GRANTED);
}

// The answer of the first attempt was lost, or the process was suspended after it. The account may be lost as well.
async fn charges_a_repeated_settlement_once(limiter: Arc<dyn Limiter>) {
    for at in [0, 1, 180_000] {
        spend(&limiter, call(1, 300), 200, at).await;
    }
    open(&limiter, 100).await;
    assert_eq!(reserve(&limiter, call(2, 701), 180_001).await, NEVER);
    assert_eq!(reserve(&limiter, call(2, 700), 180_001).await, GRANTED);
    for at in [180_002, 180_003] {
        spend(&limiter, call(2, 700), 300, at).await;
    }
    assert_eq!(reserve(&limiter, call(3, 401), 180_004).await, NEVER);
    assert_eq!(reserve(&limiter, call(3, 400), 180_004).await, GRANTED);
}

// A process was suspended after it had read what was spent, and the account was lost meanwhile.
async fn ignores_an_opening_from_before_a_loss(limiter: Arc<dyn Limiter>) {
    let before_loss = u64::MAX;
    open_as(&limiter, before_loss, 0).await;
    assert_eq!(begin_opening(&limiter, u64::MAX - 1).await, u64::MAX - 1);
    open_as(&limiter, before_loss, 0).await;
    assert_eq!(
        reserve(&limiter, call(1, 1), 0).await,
        Some(Reservation::Unknown)
    );
    let shared = begin_opening(&limiter, 5).await;
    assert_eq!(shared, u64::MAX - 1, "another process has begun");
    open_as(&limiter, shared, 900).await;
    assert_eq!(reserve(&limiter, call(1, 101), 0).await, NEVER);
    assert_eq!(reserve(&limiter, call(1, 100), 0).await, GRANTED);
}

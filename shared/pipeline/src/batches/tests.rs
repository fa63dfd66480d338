//! The runner against a provider in memory, in virtual time, with a crash at every step.

mod crash;
mod fake_payer;
mod fake_provider;
mod fixture;

use std::time::Duration;

use self::crash::Crash;
use self::fixture::{Fixture, HOUR, NAMED, UNNAMED};
use super::store::StoredResult;

#[tokio::test(start_paused = true)]
async fn requests_are_sent_together_and_their_tasks_are_woken() {
    let fixture = Fixture::new(NAMED);
    fixture.add("a", 3).await;
    fixture.add("b", 2).await;
    fixture.run_until_answered(Crash::Never).await;
    assert_eq!(fixture.provider.batch_sizes(), [5]);
    assert_eq!(fixture.provider.with_requests(), 0);
    assert_eq!(fixture.woken().await, 5);
    fixture.assert_paid_once(5).await;
    assert_eq!(fixture.payer.reserved(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_pays_nothing_twice_and_loses_nothing() {
    for provider in [NAMED, UNNAMED] {
        'steps: for step in 0.. {
            for crash in [Crash::Before(step), Crash::After(step)] {
                let fixture = Fixture::new(provider);
                fixture.add("a", 2).await;
                fixture.add("b", 1).await;
                let crashed = fixture.run_until_answered(crash).await;
                if crashed {
                    // Who pays has changed meanwhile: a record keeps its name.
                    fixture.payer.join_job();
                    fixture.run_until_answered(Crash::Never).await;
                }
                assert!(fixture.woken().await >= 3, "{crash:?}");
                fixture.assert_paid_once(3).await;
                if !crashed {
                    assert!(step > 15, "only {step} steps");
                    break 'steps;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn spending_of_batches_is_known_without_reading_a_record() {
    let fixture = Fixture::new(NAMED);
    fixture.add("a", 25).await;
    fixture.run_until_answered(Crash::Never).await;
    let spent = fixture.named_spending().await;
    assert_eq!((spent.tokens, spent.nanodollars), (250, Some(250)));
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_cannot_be_read_now_is_not_submitted_again() {
    let fixture = Fixture::new(NAMED);
    fixture.add("a", 4).await;
    fixture.run_for(HOUR / 6).await;
    assert_eq!(fixture.provider.batch_sizes(), [4]);
    fixture.refuse_plans(3);
    fixture.run_until_answered(Crash::Never).await;
    assert_eq!(fixture.provider.batch_sizes(), [4]);
    fixture.assert_paid_once(4).await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_whose_reply_is_lost_keeps_its_reservations() {
    // Lost replies of one attempt, and of all attempts of a round.
    for replies in [1, 20] {
        let fixture = Fixture::new(NAMED);
        fixture.add("a", 4).await;
        fixture.lose_plan_replies(replies);
        fixture.run_for(HOUR / 6).await;
        assert_eq!(fixture.provider.batch_sizes(), [4], "{replies}");
        assert_eq!(fixture.payer.reserved(), 400, "{replies}");
        fixture.run_until_answered(Crash::Never).await;
        fixture.assert_paid_once(4).await;
        assert_eq!(fixture.payer.reserved(), 0, "{replies}");
    }
}

#[tokio::test(start_paused = true)]
async fn replies_are_charged_once_it_is_known_who_pays() {
    let fixture = Fixture::new(NAMED);
    fixture.add("a", 25).await;
    fixture.payer.fail_jobs(3);
    fixture.run_until_answered(Crash::Never).await;
    fixture.assert_paid_once(25).await;
    let spent = fixture.named_spending().await;
    assert_eq!((spent.tokens, spent.nanodollars), (250, Some(250)));
}

#[tokio::test(start_paused = true)]
async fn two_runners_at_once_submit_each_request_once() {
    let fixture = Fixture::new(NAMED);
    fixture.add("a", 4).await;
    // Separate ledgers: each believes to be the only one, as after a loss of Redis.
    tokio::join!(
        fixture.run_until_answered(Crash::Never),
        fixture.run_until_answered(Crash::Never)
    );
    fixture.assert_paid_once(4).await;
}

#[tokio::test(start_paused = true)]
async fn large_work_is_split_into_batches() {
    let fixture = Fixture::new(NAMED);
    fixture.add("a", 25).await;
    fixture.run_until_answered(Crash::Never).await;
    assert_eq!(fixture.provider.batch_sizes(), [10, 10, 5]);
    fixture.assert_paid_once(25).await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_were_not_executed_cost_nothing_and_are_told() {
    let fixture = Fixture::new(NAMED);
    fixture.provider.set(|state| state.expires = true);
    fixture.add("a", 2).await;
    fixture.run_until_answered(Crash::Never).await;
    for id in &fixture.ids() {
        let reply = fixture.store.reply(id).await.unwrap().unwrap();
        assert_eq!(reply.result, StoredResult::NotExecuted);
    }
    assert_eq!(
        (
            fixture.woken().await,
            fixture.payer.spending(),
            fixture.payer.reserved()
        ),
        (2, 0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_no_run_needs_is_cancelled() {
    let fixture = Fixture::new(NAMED);
    fixture.add("a", 2).await;
    fixture.add("b", 1).await;
    fixture.run_for(HOUR / 4).await;
    fixture.end_run("a").await;
    fixture.run_for(HOUR / 8).await;
    assert!(!fixture.provider.is_cancelled(), "b needs it");
    fixture.end_run("b").await;
    fixture.run_for(HOUR / 8).await;
    assert!(fixture.provider.is_cancelled());
    fixture.run_for(HOUR).await;
    assert_eq!(fixture.payer.reserved(), 0);
    // Requests of a cancelled run that wait are dropped.
    fixture.add("a", 4).await;
    fixture.run_for(HOUR).await;
    assert_eq!(fixture.provider.batch_sizes(), [3]);
}

#[tokio::test(start_paused = true)]
async fn requests_over_the_budget_wait_until_others_are_settled() {
    let fixture = Fixture::new(NAMED);
    // Each request reserves 100 and costs 10.
    fixture.payer.set_limit(250);
    fixture.add("a", 5).await;
    fixture.run_until_answered(Crash::Never).await;
    assert_eq!(fixture.provider.batch_sizes(), [2, 2, 1]);
    assert_eq!(
        (fixture.payer.spending(), fixture.payer.reserved()),
        (50, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn rejected_batches_become_smaller_and_then_pause_the_job() {
    let fixture = Fixture::new(NAMED);
    fixture.provider.set(|state| state.rejects_above = 3);
    fixture.add("a", 8).await;
    fixture.run_until_answered(Crash::Never).await;
    assert!(
        fixture
            .provider
            .batch_sizes()
            .iter()
            .skip(2)
            .all(|size| *size <= 3)
    );
    fixture.assert_paid_once(8).await;
    assert_eq!(fixture.payer.pauses(), 0);

    let fixture = Fixture::new(NAMED);
    fixture.provider.set(|state| state.rejects_above = 0);
    fixture.add("a", 2).await;
    fixture.run_for(24 * HOUR).await;
    assert!(fixture.payer.pauses() > 0);
    assert_eq!(fixture.payer.reserved(), 0);
    fixture
        .provider
        .set(|state| state.rejects_above = usize::MAX);
    fixture.run_until_answered(Crash::Never).await;
    fixture.assert_paid_once(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_refuses_batches_pauses_the_job_and_is_asked_again() {
    let fixture = Fixture::new(UNNAMED);
    fixture.provider.set(|state| state.refuses = true);
    fixture.add("a", 2).await;
    fixture.run_for(2 * HOUR).await;
    assert!(fixture.payer.pauses() > 0);
    fixture.provider.set(|state| state.refuses = false);
    fixture.run_until_answered(Crash::Never).await;
    fixture.assert_paid_once(2).await;
}

#[tokio::test(start_paused = true)]
async fn ended_batches_are_forgotten_after_a_month() {
    let fixture = Fixture::new(NAMED);
    for run in ["a", "b", "c"] {
        fixture.add(run, 2).await;
        fixture.run_until_answered(Crash::Never).await;
    }
    tokio::time::sleep(Duration::from_secs(40 * 24 * 3_600)).await;
    fixture.add("d", 2).await;
    fixture.run_until_answered(Crash::Never).await;
    let left = fixture.keys("c/x/batches/");
    assert_eq!(
        left.iter().filter(|key| key.contains("/replies/")).count(),
        4,
        "{left:?}"
    );
    assert_eq!(left.iter().filter(|key| key.contains("/plan")).count(), 2);
    fixture.assert_paid_once(8).await;
}

//! Providers of models that block or delay calls.

use stemma_store::env::Millis;
use stemma_store::model_status::ModelStatus;

use crate::diagnosis::{Cause, Diagnosis, DiagnosisContext};
use crate::heartbeat::Heartbeat;
use crate::ledger::OpenTask;

// A call is slow when it takes longer than three times the p95, and longer than this.
const SLOW_AFTER_MS: Millis = 10_000;

// A provider is slow when its median call takes this long.
const SLOW_TYPICAL_MS: u64 = 20_000;

// One slow call among fast ones is a straggler, not a slow provider. A task that waits for a permit waits for all calls
// of the model, whatever their stage.
pub(super) fn slow_provider(
    facts: &DiagnosisContext,
    task: &OpenTask,
    since_ms: Option<Millis>,
) -> Option<Diagnosis> {
    let typical = models(facts)
        .map(|(_, model)| model.p50_ms)
        .max()
        .unwrap_or(0);
    let p95 = models(facts)
        .map(|(_, model)| model.p95_ms)
        .max()
        .unwrap_or(0);
    let limit = SLOW_AFTER_MS.max(3 * p95);
    let ages: Vec<Millis> = facts
        .processes
        .iter()
        .filter(|heartbeat| !heartbeat.models.is_empty())
        .flat_map(|heartbeat| &heartbeat.tasks)
        .filter(|other| since_ms.is_none() || other.stage == task.stage)
        .map(|other| facts.now_ms.saturating_sub(other.since_ms))
        .collect();
    let all = ages.len();
    let old = ages.iter().filter(|age| **age > limit).count();
    let this_one = since_ms.is_none_or(|since_ms| facts.now_ms.saturating_sub(since_ms) > limit);
    if typical < SLOW_TYPICAL_MS && !(this_one && 2 * old > all) {
        return None;
    }
    let name = models(facts)
        .max_by_key(|(_, model)| model.p50_ms)
        .map(|(name, _)| name.clone())
        .unwrap_or_default();
    let says = format!(
        "{name} answers slowly: half of its calls take {:.1} s or more",
        typical as f64 / 1e3
    );
    let says = if typical < SLOW_TYPICAL_MS {
        format!("{name} has not answered {old} of {all} calls in time")
    } else {
        says
    };
    let draft =
        Diagnosis::new(Cause::ProviderSlow, says, "the call ends or times out").owned_by(name);
    let draft = Diagnosis { since_ms, ..draft };
    Some(draft.with_remedy("look at the provider's status; stemma status shows its p95"))
}

pub(super) fn models(facts: &DiagnosisContext) -> impl Iterator<Item = (&String, &ModelStatus)> {
    facts
        .processes
        .iter()
        .flat_map(|heartbeat| heartbeat.models.iter())
}

/// A cause that blocks all calls to the provider.
pub(super) fn blocked_provider(
    facts: &DiagnosisContext,
    heartbeats: &[&Heartbeat],
    held_back: bool,
) -> Option<Diagnosis> {
    let models: Vec<(&String, &ModelStatus)> = heartbeats
        .iter()
        .flat_map(|heartbeat| heartbeat.models.iter())
        .collect();
    if let Some((name, model, until)) = models.iter().find_map(|(name, model)| {
        let until = model.breaker_open_until_ms?;
        (until > facts.now_ms).then_some((name, model, until))
    }) {
        let error = model.last_error.as_deref().unwrap_or("calls fail");
        let says = format!("the breaker of {name} is open: {error}");
        let draft = Diagnosis::new(Cause::BreakerOpen, says, "a trial call is made then")
            .owned_by(name.as_str())
            .next_at(until);
        return Some(
            draft.with_remedy(
                "check that the provider is reachable from the workers: stemma doctor",
            ),
        );
    }
    models.iter().find_map(|(name, model)| {
        let (requests, tokens) = last_minute_usage(facts, name);
        let paused_until = model.paused_until_ms.filter(|until| *until > facts.now_ms);
        let waits = held_back || (model.waiting > 0 && model.calling == 0) || model.waiting > model.calling;
        let used_up = percent_used(requests, model.requests_limit) >= 90 || percent_used(tokens, model.tokens_limit) >= 90;
        // Without a limit, a task that waits for a permit gets it at once.
        let limited = model.requests_limit > 0 || model.tokens_limit > 0;
        if !(paused_until.is_some() || (waits && limited && (used_up || model.waiting > 0))) {
            return None;
        }
        let says = match paused_until {
            Some(_) => format!("{name} asked all clients to wait"),
            None => format!(
                "rate limit of {name}: {requests} of {} requests, {tokens} of {} tokens in the last minute",
                model.requests_limit, model.tokens_limit
            ),
        };
        let draft = Diagnosis::new(Cause::RateLimit, says, "a permit is granted when the rate allows").owned_by(name.as_str());
        let draft = Diagnosis { next_ms: paused_until, ..draft };
        Some(draft.with_remedy("raise the limit if your plan allows, or give another job a lower priority"))
    })
}

/// Requests and tokens of a model in the last minute, over all processes.
pub(super) fn last_minute_usage(facts: &DiagnosisContext, name: &str) -> (u64, u64) {
    let models = facts
        .processes
        .iter()
        .filter_map(|heartbeat| heartbeat.models.get(name));
    models.fold((0, 0), |(requests, tokens), model| {
        (
            requests + model.requests_last_minute,
            tokens + model.tokens_last_minute,
        )
    })
}

fn percent_used(used: u64, limit: u32) -> u64 {
    if limit == 0 {
        0
    } else {
        100 * used / u64::from(limit)
    }
}

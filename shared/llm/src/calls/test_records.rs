//! Call records for tests.

use stemma_store::env::Millis;
use stemma_store::spend::SpendAmount;
use stemma_store::{JobId, RunId, TaskKey};

use super::CallRecord;
use crate::request::TokenUsage;

pub(super) const COST: SpendAmount = SpendAmount {
    nanodollars: Some(7),
    tokens: 100,
};

pub(super) fn record(at_ms: Millis, jobs: &[&str]) -> CallRecord {
    CallRecord {
        at_ms,
        run: RunId("0123456789abcdef0123456789abcdef-1".into()),
        task: "0123456789abcdef0123456789abcdef"
            .parse::<TaskKey>()
            .unwrap(),
        stage: "summarize".into(),
        attempt: 1,
        request: "r".into(),
        model: "m".into(),
        usage: TokenUsage {
            prompt_tokens: 90,
            cached_tokens: 0,
            output_tokens: 10,
        },
        took_ms: 1,
        useful: true,
        batch: false,
        jobs: jobs.iter().map(|job| JobId((*job).into())).collect(),
    }
}

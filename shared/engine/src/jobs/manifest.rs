//! The submitted data of a job: entries, manifest, options.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use stemma_store::env::Millis;
use stemma_store::key::{JobId, Priority};
use stemma_store::spend::JobBudget;

/// One entry of a job; the input is opaque to the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEntry {
    /// Estimated work in tokens (or any one unit), for fairness between collections.
    pub weight: u64,
    /// Input of `Flow::claim`.
    pub input: serde_json::Value,
}

/// The manifest of a job. Written once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobManifest {
    pub job: JobId,
    /// The tenant.
    pub collection: String,
    pub settings: String,
    #[serde(rename = "class")]
    pub priority: Priority,
    /// Number of entries, which are stored in chunks under `jobs/{job}/entries/`.
    pub entries: u64,
    pub submitted_ms: Millis,
    #[serde(flatten)]
    pub options: JobOptions,
}

/// What a submission may set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobOptions {
    /// Human-readable description of what was submitted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Name of the job, unique per collection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Stops the job after too many failures; `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failed: Option<MaxFailed>,
    /// Spending limit; `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<JobBudget>,
    /// Whether questions to a model may wait for batches of its provider.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub batch: bool,
    /// The submission attempt that counts; entries are stored under it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub attempt: String,
}

/// Limit of failed entries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxFailed {
    /// More than this many entries.
    Count(u64),
    /// More than this share (0–1) of all entries.
    Share(f64),
}

impl FromStr for MaxFailed {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let value = match text.strip_suffix('%') {
            Some(percent) => percent
                .trim()
                .parse()
                .ok()
                .filter(|percent| (0.0..=100.0).contains(percent))
                .map(|percent: f64| Self::Share(percent / 100.0)),
            None => text.parse().ok().map(Self::Count),
        };
        value.ok_or_else(|| format!("`{text}` is neither a number nor a percentage such as 2%"))
    }
}

impl MaxFailed {
    pub fn exceeded(self, failed: u64, total: u64) -> bool {
        match self {
            Self::Count(most) => failed > most,
            Self::Share(share) => failed as f64 > share * total as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_failed_accepts_count_or_share() {
        let limit = |text: &str| text.parse::<MaxFailed>().unwrap();
        assert!(!limit("3").exceeded(3, 10) && limit("3").exceeded(4, 10));
        assert!(!limit("2%").exceeded(2, 100) && limit("2%").exceeded(3, 100));
        for wrong in ["some", "-1", "-1%", "200%", "NaN%"] {
            assert!(wrong.parse::<MaxFailed>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn older_manifests_are_still_readable() {
        let json = r#"{"job":"j","collection":"c","settings":"s","class":"bulk","entries":1,"submitted_ms":5}"#;
        assert_eq!(
            serde_json::from_str::<JobManifest>(json).unwrap().options,
            JobOptions::default()
        );
    }
}

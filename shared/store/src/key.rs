//! Ids and keys of jobs, runs and tasks, and the blob keys derived from them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Identifies a task by what it reads: the digest of stage, revision, parameters and content digests of its input.
///
/// It never contains a document id, artifact key, absolute page number, section id or path, so two tasks that read the
/// same content share a key. 128 bits, printed as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskKey([u8; 16]);

impl TaskKey {
    /// Starts the key of a task of `stage` at `revision`.
    pub fn builder(stage: &str, revision: u32) -> TaskKeyBuilder {
        let mut identity = TaskKeyBuilder(blake3::Hasher::new());
        identity.text(stage).number(u64::from(revision));
        identity
    }

    /// The first eight digits, for display.
    pub fn short(&self) -> String {
        self.to_string().chars().take(8).collect()
    }
}

// Each part is written with its length, so that ("ab", "c") and ("a", "bc") differ.
pub struct TaskKeyBuilder(blake3::Hasher);

impl TaskKeyBuilder {
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0
            .update(&(bytes.len() as u64).to_le_bytes())
            .update(bytes);
        self
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    pub fn number(&mut self, number: u64) -> &mut Self {
        self.bytes(&number.to_le_bytes())
    }

    pub fn finish(&self) -> TaskKey {
        let mut key = [0u8; 16];
        key.copy_from_slice(&self.0.finalize().as_bytes()[..16]);
        TaskKey(key)
    }
}

impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskKey({self})")
    }
}

impl FromStr for TaskKey {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match u128::from_str_radix(text, 16) {
            Ok(number) if text.len() == 32 => Ok(Self(number.to_be_bytes())),
            _ => Err(format!("`{text}` is not a task key: 32 hexadecimal digits")),
        }
    }
}

impl TryFrom<String> for TaskKey {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<TaskKey> for String {
    fn from(key: TaskKey) -> Self {
        key.to_string()
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// Id of a job: one submission.
    JobId
);
name!(
    /// Id of a run: one version of one document under one settings digest. Unique across collections.
    RunId
);

impl JobId {
    /// A new id. Ids sort by time: `j-`, milliseconds in hexadecimal, 64 random bits.
    pub fn new(now_ms: u64, random: u64) -> Self {
        Self(format!("j-{now_ms:011x}{random:016x}"))
    }

    /// When it was made, if it is one of [`JobId::new`].
    pub fn time_ms(&self) -> Option<u64> {
        u64::from_str_radix(self.0.strip_prefix("j-")?.get(..11)?, 16).ok()
    }

    /// Whether it can be a part of a key.
    pub fn is_well_formed(&self) -> bool {
        (1..=200).contains(&self.0.len())
            && self
                .0
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte))
            && !matches!(self.0.as_str(), "." | "..")
    }

    /// The id of a part of this job.
    #[must_use]
    pub fn part(&self, part: u64) -> Self {
        Self(format!("{self}+{part}"))
    }

    /// The job, and the number of the part if this is the id of a part.
    pub fn split(&self) -> (Self, Option<u64>) {
        let split = self.0.rsplit_once('+');
        match split.and_then(|(job, part)| Some((job, part.parse().ok()?))) {
            Some((job, part)) => (Self(job.into()), Some(part)),
            None => (self.clone(), None),
        }
    }
}

/// Reference to a run, carried by every message of the run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunRef {
    pub run: RunId,
    /// Blob key of its [`RunHeader`].
    pub header: String,
    /// Blob prefix of the run's subject; its artifacts are stored under `{scope}/a/`.
    pub scope: String,
}

/// Describes a run. Written create-only, so that two submissions of the same version are one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHeader {
    pub at: RunRef,
    /// Digest of the settings, which are stored at `settings/{digest}`.
    pub settings: String,
    /// Revision of the flow that opened the run; coordinators leave runs of a newer revision alone.
    pub flow_revision: u32,
    #[serde(rename = "class")]
    pub priority: Priority,
    /// The job that claimed the run first; later jobs may wait for it too.
    pub opened_by: JobId,
    /// Input of the flow; opaque to the engine.
    pub input: serde_json::Value,
}

/// Priority. Bulk work never starves interactive work (I-11).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Large archives.
    #[default]
    Bulk,
    /// A person or an agent waits.
    Interactive,
}

impl Priority {
    pub fn name(self) -> &'static str {
        match self {
            Priority::Bulk => "bulk",
            Priority::Interactive => "interactive",
        }
    }
}

/// Blob key of an artifact.
pub fn artifact_key(scope: &str, key: &TaskKey) -> String {
    format!("{}{key}", artifacts_prefix(scope))
}

/// Blob prefix of the artifacts of a scope.
pub fn artifacts_prefix(scope: &str) -> String {
    format!("{scope}/a/")
}

/// Blob key of the recorded failure of a task.
pub fn failure_key(run: &RunId, key: &TaskKey) -> String {
    format!("{}{key}.json", failures_prefix(run))
}

/// Blob key of the failure record of a whole run (failed or cancelled).
pub fn run_failure_key(run: &RunId) -> String {
    format!("{}document.json", failures_prefix(run))
}

/// Blob prefix of the recorded failures of a run.
pub fn failures_prefix(run: &RunId) -> String {
    format!("runs/{run}/failed/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_parts_are_length_delimited() {
        let key = |a: &str, b: &str| TaskKey::builder("s", 1).text(a).text(b).finish();
        assert_ne!(key("ab", "c"), key("a", "bc"));
        assert_ne!(
            TaskKey::builder("s", 1).finish(),
            TaskKey::builder("s", 2).finish()
        );
    }

    #[test]
    fn task_keys_round_trip_through_text() {
        let key = TaskKey::builder("paginate", 1).finish();
        assert_eq!(key.to_string().parse::<TaskKey>().unwrap(), key);
        assert!("zz".repeat(16).parse::<TaskKey>().is_err());
        assert!("é".repeat(16).parse::<TaskKey>().is_err());
    }
}

//! Signatures of task messages (ADR 0037): whoever reaches the broker but does not hold the key cannot make workers work.
//!
//! A signature covers everything a task is made of. It is not bound to a moment: a message that is delivered twice is
//! harmless, because its key names its result.

use std::fmt;

use crate::key::Priority;
use crate::message::TaskMessage;
use crate::port_error::{PortError, PortResult};
use crate::secret::Secret;

// Names what keys are used for: the same secret elsewhere is another key.
const CONTEXT: &str = "stemma 2026-11-24 signature of task messages";
// 32 hexadecimal digits are 128 bits: `openssl rand -hex 16`.
const MIN_KEY_CHARS: usize = 32;

/// Keys of task messages. Without one, messages are neither signed nor checked.
#[derive(Clone, Default)]
pub struct MessageKeys {
    current: Option<[u8; 32]>,
    // Checked as well while processes with the previous key are running.
    previous: Option<[u8; 32]>,
    accept_unsigned: bool,
}

/// Why a message is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignatureError {
    Missing,
    Wrong,
}

impl fmt::Display for SignatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "it is not signed: no coordinator with a message key sent it",
            Self::Wrong => "its signature is wrong: no coordinator with this message key sent it",
        })
    }
}

impl MessageKeys {
    /// Signs with `current` and accepts both keys; an empty key is none. With `accept_unsigned`, messages without a
    /// signature are accepted too: for a fleet in which not every coordinator has a key yet.
    ///
    /// # Errors
    /// A permanent [`PortError`] when a key is short, or there is only a previous one.
    pub fn new(current: &Secret, previous: &Secret, accept_unsigned: bool) -> PortResult<Self> {
        if current.is_empty() && !previous.is_empty() {
            return Err(key_error(
                "a previous message key needs a current one: set broker.message_key",
            ));
        }
        Ok(Self {
            current: derive_key(current)?,
            previous: derive_key(previous)?,
            accept_unsigned,
        })
    }

    /// Signs a task, if there is a key.
    pub(crate) fn sign(&self, task: &mut TaskMessage) {
        task.signature = self
            .current
            .map(|key| signature(&key, task).to_hex().to_string());
    }

    /// Whether a coordinator with one of the keys sent this task.
    pub(crate) fn verify(&self, task: &TaskMessage) -> Result<(), SignatureError> {
        if self.current.is_none() {
            return Ok(());
        }
        let Some(signed) = &task.signature else {
            return if self.accept_unsigned {
                Ok(())
            } else {
                Err(SignatureError::Missing)
            };
        };
        let Ok(signed) = blake3::Hash::from_hex(signed) else {
            return Err(SignatureError::Wrong);
        };
        // Hashes are compared in constant time.
        let is_ours = [self.current, self.previous]
            .into_iter()
            .flatten()
            .any(|key| signature(&key, task) == signed);
        if is_ours {
            Ok(())
        } else {
            Err(SignatureError::Wrong)
        }
    }
}

fn key_error(message: &str) -> PortError {
    PortError::permanent("queue.message_key", message.to_string())
}

fn derive_key(secret: &Secret) -> PortResult<Option<[u8; 32]>> {
    if secret.is_empty() {
        return Ok(None);
    }
    if secret.reveal().len() < MIN_KEY_CHARS {
        return Err(key_error(
            "a message key has at least 32 characters: make one with `openssl rand -hex 32`",
        ));
    }
    Ok(Some(blake3::derive_key(
        CONTEXT,
        secret.reveal().as_bytes(),
    )))
}

// Each part with its length, so that no two tasks are the same sequence of bytes.
fn signature(key: &[u8; 32], task: &TaskMessage) -> blake3::Hash {
    let TaskMessage {
        run,
        key: task_key,
        stage,
        revision,
        settings,
        class,
        published_ms,
        payload,
        signature: _,
    } = task;
    let class = match class {
        Priority::Bulk => "bulk",
        Priority::Interactive => "interactive",
    };
    let parts = [
        &run.run.0,
        &run.header,
        &run.scope,
        &task_key.to_string(),
        stage,
        &revision.to_string(),
        settings,
        class,
        &published_ms.to_string(),
        payload.get(),
    ];
    let mut hasher = blake3::Hasher::new_keyed(key);
    for part in parts {
        hasher
            .update(&(part.len() as u64).to_le_bytes())
            .update(part.as_bytes());
    }
    hasher.finalize()
}

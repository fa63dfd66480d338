//! Signatures of messages (ADR 0037): whoever reaches the broker but does not hold the key can make neither workers nor
//! coordinators work. And what is refused though it is signed: references that lead elsewhere than to their run.
//!
//! A signature covers everything that a task is made of, or the body of a message for coordinators. It is not bound to a
//! moment: a message that is delivered twice is harmless, because the key of a task names its result, and coordinators look
//! up what they are told of.

use std::fmt;
use stemma_store::key::{Priority, RunRef};
use stemma_store::port_error::{PortError, PortResult};
use stemma_store::secret::Secret;

use crate::message::{CoordinatorMessage, TaskMessage};
use crate::queue::Message;
use crate::stage::Work;

// Name what keys are used for: the same secret elsewhere is another key.
const TASKS: &str = "stemma 2026-11-24 signature of task messages";
const NOTIFICATIONS: &str = "stemma 2026-11-29 signature of messages for coordinators";
// 32 hexadecimal digits are 128 bits: `openssl rand -hex 16`.
const MIN_KEY_CHARS: usize = 32;

/// Keys of messages. Without one, messages are neither signed nor checked.
#[derive(Clone, Default)]
pub struct MessageKeys {
    current: Option<DerivedKeys>,
    // Checked as well while processes with the previous key are running.
    previous: Option<DerivedKeys>,
    accept_unsigned: bool,
}

/// The keys derived from one secret.
#[derive(Clone)]
struct DerivedKeys {
    tasks: [u8; 32],
    notifications: [u8; 32],
}

/// Why a message is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotSigned,
    WrongSignature,
    WrongRun,
    WrongJob,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSigned => "it is not signed: no process with a message key sent it",
            Self::WrongSignature => {
                "its signature is wrong: no process with this message key sent it"
            }
            Self::WrongRun => "its header or scope differs from the run that it names",
            Self::WrongJob => "it names no job",
        })
    }
}

impl MessageKeys {
    /// Signs with `current` and accepts both keys; an empty key is ignored. With `accept_unsigned`, messages without a
    /// signature are accepted too: for a fleet in which not every process has a key yet.
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
            current: DerivedKeys::from_secret(current)?,
            previous: DerivedKeys::from_secret(previous)?,
            accept_unsigned,
        })
    }

    /// Signs a task, if there is a key.
    pub(crate) fn sign_task(&self, task: &mut TaskMessage) {
        task.signature = self
            .current
            .as_ref()
            .map(|keys| task_signature(keys, task).to_hex().to_string());
    }

    /// Signs a message for coordinators, if there is a key. While there are two, with both: in a fleet that gets a new key,
    /// workers have it before coordinators.
    pub(crate) fn sign_notification(&self, message: &mut Message) {
        let signatures = self
            .all()
            .map(|keys| notification_signature(keys, message).to_hex().to_string());
        message.signature = signatures.reduce(|both, second| format!("{both},{second}"));
    }

    /// Whether a process with one of the keys sent this task, and it leads to its run.
    pub(crate) fn admit_task<W: Work>(&self, task: &TaskMessage) -> Result<(), Refusal> {
        self.verify(task.signature.as_deref(), |keys| task_signature(keys, task))?;
        check_run::<W>(&task.run)
    }

    /// Whether a process with one of the keys sent this message, and it leads to its run. Whoever may submit says that there is a
    /// job without a key: the coordinator loads it by its id.
    pub(crate) fn admit_notification<W: Work>(
        &self,
        message: &Message,
        decoded: &CoordinatorMessage,
    ) -> Result<(), Refusal> {
        if !matches!(decoded, CoordinatorMessage::Job(_)) {
            self.verify(message.signature.as_deref(), |keys| {
                notification_signature(keys, message)
            })?;
        }
        match decoded.job() {
            Some(job) if !job.is_well_formed() => Err(Refusal::WrongJob),
            _ => decoded.run().map_or(Ok(()), check_run::<W>),
        }
    }

    fn all(&self) -> impl Iterator<Item = &DerivedKeys> {
        self.current.iter().chain(&self.previous)
    }

    fn verify(
        &self,
        signatures: Option<&str>,
        sign: impl Fn(&DerivedKeys) -> blake3::Hash,
    ) -> Result<(), Refusal> {
        if self.current.is_none() {
            return Ok(());
        }
        let Some(signatures) = signatures else {
            return if self.accept_unsigned {
                Ok(())
            } else {
                Err(Refusal::NotSigned)
            };
        };
        let signatures = signatures.split(',').take(2);
        let signatures: Vec<_> = signatures
            .filter_map(|signature| blake3::Hash::from_hex(signature).ok())
            .collect();
        // Hashes are compared in constant time.
        if self.all().any(|keys| signatures.contains(&sign(keys))) {
            Ok(())
        } else {
            Err(Refusal::WrongSignature)
        }
    }
}

impl DerivedKeys {
    fn from_secret(secret: &Secret) -> PortResult<Option<Self>> {
        if secret.is_empty() {
            return Ok(None);
        }
        if secret.reveal().len() < MIN_KEY_CHARS {
            return Err(key_error(
                "a message key has at least 32 characters: make one with `openssl rand -hex 32`",
            ));
        }
        let derive = |context| blake3::derive_key(context, secret.reveal().as_bytes());
        Ok(Some(Self {
            tasks: derive(TASKS),
            notifications: derive(NOTIFICATIONS),
        }))
    }
}

fn key_error(message: &str) -> PortError {
    PortError::permanent("queue.message_key", message.to_string())
}

/// Whether a reference leads to the run that it names. It may come from a message that is not signed, and what a coordinator or
/// worker reads and writes follows from it.
pub(crate) fn check_run<W: Work>(at: &RunRef) -> Result<(), Refusal> {
    match W::run_ref(&at.run, &at.scope) {
        Some(own) if own == *at => Ok(()),
        _ => Err(Refusal::WrongRun),
    }
}

fn notification_signature(keys: &DerivedKeys, message: &Message) -> blake3::Hash {
    blake3::keyed_hash(&keys.notifications, &message.body)
}

// Each part with its length, so that no two tasks are the same sequence of bytes.
fn task_signature(keys: &DerivedKeys, task: &TaskMessage) -> blake3::Hash {
    let TaskMessage {
        run,
        key: task_key,
        stage,
        revision,
        settings,
        priority,
        published_ms,
        payload,
        signature: _,
    } = task;
    let priority = match priority {
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
        priority,
        &published_ms.to_string(),
        payload.get(),
    ];
    let mut hasher = blake3::Hasher::new_keyed(&keys.tasks);
    for part in parts {
        hasher
            .update(&(part.len() as u64).to_le_bytes())
            .update(part.as_bytes());
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use stemma_store::key::{JobId, RunId};

    use super::*;
    use crate::message::encode_notification;

    const OLD: &str = "0123456789abcdef0123456789abcdef";
    const NEW: &str = "fedcba9876543210fedcba9876543210";

    struct Documents;

    impl Work for Documents {
        type Settings = ();
        type Tools = ();

        fn run_ref(run: &RunId, scope: &str) -> Option<RunRef> {
            scope.starts_with("c/").then(|| RunRef {
                run: run.clone(),
                header: format!("{scope}/{run}"),
                scope: scope.into(),
            })
        }
    }

    fn keys(current: &str, previous: &str) -> MessageKeys {
        MessageKeys::new(&Secret::from(current), &Secret::from(previous), false).unwrap()
    }

    fn run() -> RunRef {
        Documents::run_ref(&RunId("run".into()), "c/x").unwrap()
    }

    fn admit(
        keys: &MessageKeys,
        message: &Message,
        decoded: &CoordinatorMessage,
    ) -> Result<(), Refusal> {
        keys.admit_notification::<Documents>(message, decoded)
    }

    #[test]
    fn the_signature_covers_the_body() {
        let keys = keys(NEW, "");
        let wake = CoordinatorMessage::Wake(run());
        let signed = encode_notification(&keys, &wake).unwrap();
        assert_eq!(admit(&keys, &signed, &wake), Ok(()));
        let other = CoordinatorMessage::Completed(run());
        let moved = Message {
            signature: signed.signature.clone(),
            ..crate::message::encode(&other).unwrap()
        };
        assert_eq!(admit(&keys, &moved, &other), Err(Refusal::WrongSignature));
        for (signature, refusal) in [
            (None, Refusal::NotSigned),
            (Some(String::new()), Refusal::WrongSignature),
            (Some("x".into()), Refusal::WrongSignature),
            (Some("00".repeat(32)), Refusal::WrongSignature),
        ] {
            let message = Message {
                signature,
                ..signed.clone()
            };
            assert_eq!(admit(&keys, &message, &wake), Err(refusal));
        }
    }

    #[test]
    fn tasks_and_notifications_have_keys_of_their_own() {
        let keys = keys(NEW, "");
        let wake = CoordinatorMessage::Wake(run());
        let mut message = crate::message::encode(&wake).unwrap();
        let derived = keys.current.as_ref().unwrap();
        let as_task = blake3::keyed_hash(&derived.tasks, &message.body);
        message.signature = Some(as_task.to_hex().to_string());
        assert_eq!(admit(&keys, &message, &wake), Err(Refusal::WrongSignature));
    }

    // Workers have the new key before coordinators, and each tells the other something.
    #[test]
    fn while_a_key_is_replaced_both_sides_admit_what_the_other_signs() {
        let wake = CoordinatorMessage::Wake(run());
        let fleet = [keys(OLD, ""), keys(NEW, OLD), keys(NEW, "")];
        for (sender, receiver, admitted) in [
            (0, 1, true),
            (1, 0, true),
            (1, 2, true),
            (2, 1, true),
            (0, 2, false),
        ] {
            let message = encode_notification(&fleet[sender], &wake).unwrap();
            let result = admit(&fleet[receiver], &message, &wake);
            assert_eq!(result.is_ok(), admitted, "{sender} to {receiver}");
        }
    }

    #[test]
    fn a_signed_reference_that_leads_elsewhere_is_refused() {
        let keys = keys(NEW, "");
        let elsewhere = [
            RunRef {
                header: "c/x/originals/0".into(),
                ..run()
            },
            RunRef {
                scope: "c/y".into(),
                ..run()
            },
            RunRef {
                scope: "jobs/x".into(),
                ..run()
            },
        ];
        for at in elsewhere {
            for decoded in [
                CoordinatorMessage::Completed(at.clone()),
                CoordinatorMessage::Abandoned {
                    job: JobId("job".into()),
                    run: at.clone(),
                    resumed: false,
                },
            ] {
                let message = encode_notification(&keys, &decoded).unwrap();
                assert_eq!(admit(&keys, &message, &decoded), Err(Refusal::WrongRun));
            }
        }
    }

    #[test]
    fn a_job_needs_no_signature_but_an_id() {
        let keys = keys(NEW, "");
        for (id, admitted) in [
            ("j-019abc+3", true),
            ("..", false),
            ("a/b", false),
            ("", false),
        ] {
            let decoded = CoordinatorMessage::Job(JobId(id.into()));
            let message = crate::message::encode(&decoded).unwrap();
            assert_eq!(admit(&keys, &message, &decoded).is_ok(), admitted, "{id}");
        }
    }
}

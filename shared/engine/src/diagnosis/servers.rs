//! Servers that do not answer, refuse, or hold back publishers: seen by the command that looks, or reported in
//! heartbeats.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_store::env::Millis;
use stemma_store::port_error::PortError;
use stemma_store::port_monitor::{PortTrouble, TroubleKind};

use crate::heartbeat::Heartbeat;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Server {
    Broker,
    Redis,
    S3,
}

/// Trouble with a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerTrouble {
    pub server: Server,
    pub kind: TroubleKind,
    /// The last error.
    pub error: String,
    /// Since when, if a process reports it.
    pub since_ms: Option<Millis>,
    /// The processes that report it; empty if this command saw it itself.
    pub processes: Vec<String>,
}

impl Server {
    /// The server behind a port; `None` for documents in other buckets.
    pub fn for_port(port: &str) -> Option<Self> {
        match port {
            "queue" => Some(Self::Broker),
            "ledger" | "limiter" => Some(Self::Redis),
            "blobs" => Some(Self::S3),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Broker => "the broker",
            Self::Redis => "Redis",
            Self::S3 => "S3",
        }
    }

    /// What to do.
    pub fn remedy(self, kind: TroubleKind) -> &'static str {
        match (self, kind) {
            (_, TroubleKind::Away) => self.check(),
            (Self::Broker, TroubleKind::Blocked) => {
                "give RabbitMQ memory or disk, or remove what fills them: `rabbitmqctl list_queues name messages`"
            }
            (Self::Broker, TroubleKind::Refused) => {
                "correct the login in broker.url, or its permissions in RabbitMQ"
            }
            (Self::Redis, _) => {
                "correct the login in redis.url, or its permissions in Redis, or give it memory"
            }
            (Self::S3, _) => {
                "give the key s3:GetObject, s3:PutObject, s3:ListBucket and s3:DeleteObject on the store, and raise a quota that is used up"
            }
        }
    }

    /// What to do when it does not answer.
    pub fn check(self) -> &'static str {
        match self {
            Self::Broker => "check that RabbitMQ runs, and that broker.url names it",
            Self::Redis => "check that Redis runs and has free memory, and that redis.url names it",
            Self::S3 => "check that the S3 server runs, and that s3.endpoint and the key are right",
        }
    }

    // What stops while it is unavailable. What is stored stays, whichever server it is.
    pub(super) fn consequence(self, kind: TroubleKind) -> &'static str {
        match kind {
            TroubleKind::Away => self.consequence_of_absence(),
            TroubleKind::Blocked => {
                "running tasks finish; new ones are published when it accepts messages again"
            }
            TroubleKind::Refused => {
                "what needs it is retried until it accepts; no document fails because of it"
            }
        }
    }

    fn consequence_of_absence(self) -> &'static str {
        match self {
            Self::Broker => "no task reaches a worker until it answers; nothing is lost",
            Self::Redis => "documents wait until it answers; nothing is lost",
            Self::S3 => "nothing is stored until it answers; nothing stored is lost",
        }
    }
}

impl ServerTrouble {
    /// The server that a failed call shows to be unavailable; `None` if the error is about something else.
    pub fn from_error(error: &PortError) -> Option<Self> {
        let server = Server::for_port(error.port()).filter(|_| !error.is_permanent())?;
        let kind = if error.is_transient() {
            TroubleKind::Away
        } else {
            TroubleKind::Refused
        };
        Some(Self {
            server,
            kind,
            error: error.message.clone(),
            since_ms: None,
            processes: Vec::new(),
        })
    }

    /// What is wrong, as a sentence.
    pub fn says(&self) -> String {
        let what = match self.kind {
            TroubleKind::Blocked => "holds back publishers",
            TroubleKind::Refused => "refuses",
            TroubleKind::Away => "does not answer",
        };
        let server = self.server.name();
        let error = &self.error;
        let seen_by = match &self.processes[..] {
            [] => String::new(),
            [one] => format!(" (seen by {one})"),
            [one, others @ ..] => format!(" (seen by {one} and {} more)", others.len()),
        };
        format!("{server} {what}: {error}{seen_by}")
    }
}

/// The troubles that processes report, one for each server and kind. An absence counts only where at least half of the
/// processes see it: a single one may have lost its way.
pub(super) fn reported_troubles(processes: &[Heartbeat]) -> Vec<ServerTrouble> {
    let mut troubles: BTreeMap<(Server, TroubleKind), ServerTrouble> = BTreeMap::new();
    for process in processes {
        for trouble in &process.troubles {
            let PortTrouble {
                operation,
                kind,
                since_ms,
                error,
            } = trouble;
            let port = operation.split('.').next().unwrap_or_default();
            let Some(server) = Server::for_port(port) else {
                continue;
            };
            let known = troubles.entry((server, *kind)).or_insert(ServerTrouble {
                server,
                kind: *kind,
                error: error.clone(),
                since_ms: Some(*since_ms),
                processes: Vec::new(),
            });
            known.since_ms = known.since_ms.min(Some(*since_ms));
            if !known.processes.contains(&process.process) {
                known.processes.push(process.process.clone());
            }
        }
    }
    troubles
        .into_values()
        .filter(|trouble| {
            trouble.kind != TroubleKind::Away || 2 * trouble.processes.len() >= processes.len()
        })
        .collect()
}

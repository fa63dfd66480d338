//! Trouble with a server.

use crate::diagnosis::{Cause, Diagnosis, DiagnosisContext};

/// Trouble with a server stops every job, whatever else is wrong.
pub(super) fn server_trouble(facts: &DiagnosisContext) -> Option<Diagnosis> {
    let trouble = facts
        .troubles
        .iter()
        .min_by_key(|trouble| (trouble.kind, trouble.server))?;
    let server = trouble.server;
    let kind = trouble.kind;
    let draft = Diagnosis::new(
        Cause::ServerTrouble,
        trouble.says(),
        server.consequence(kind),
    )
    .owned_by(format!("the operator of {}", server.name()))
    .with_remedy(server.remedy(kind));
    Some(match trouble.since_ms {
        Some(since_ms) => draft.since(since_ms),
        None => draft,
    })
}

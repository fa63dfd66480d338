//! The subtree cache: what a model said of a section of a tree, for a question. Another strategy, or the same one with other
//! parameters, that comes to the section with the same evidence does not ask again.

use stemma_document::{Digest, DocId, SectionId};
use stemma_engine::Env;
use stemma_engine::env::Millis;

use super::judge::{Kind, Verdict};
use super::strategies::Ground;
use stemma_retrieval::cache::Cache;

/// Verdicts held: bytes, and for how long.
const HELD_BYTES: usize = 8 << 20;
const HELD_MS: Millis = 3_600_000;

/// A tree, a section, the kind of evidence, and the digest of question, analysis, knowledge and model.
type Key = (DocId, u64, SectionId, &'static str, Digest);

/// What was said of sections lately.
pub(super) struct Verdicts {
    env: Env,
    held: Cache<Key, (f32, String)>,
}

impl Verdicts {
    pub(super) fn new(env: &Env) -> Self {
        Self {
            env: env.clone(),
            held: Cache::new(HELD_BYTES, HELD_MS),
        }
    }

    pub(super) fn get(&self, ground: &Ground<'_>, kind: Kind, at: usize) -> Option<Verdict> {
        let (score, reason) = self.held.get(&key(ground, kind, at), self.env.now_ms())?;
        Some(Verdict { at, score, reason })
    }

    pub(super) fn put(&self, ground: &Ground<'_>, kind: Kind, verdict: &Verdict) {
        let value = (verdict.score, verdict.reason.clone());
        let bytes = verdict.reason.len() + size_of::<Key>();
        self.held.put(
            key(ground, kind, verdict.at),
            value,
            bytes,
            self.env.now_ms(),
        );
    }
}

fn key(ground: &Ground<'_>, kind: Kind, at: usize) -> Key {
    let outline = ground.outline;
    let digest = ground.asked.digest(ground.consultation.asker().model());
    (
        outline.doc,
        outline.version,
        outline.nodes[at].id,
        kind.stage,
        digest,
    )
}

//! Cache of the scores a model gave to sections for a question. Another strategy, or the same one with other parameters,
//! reuses the score of a section that it would show with the same evidence.

use stemma_document::{Digest, DocId, SectionId};
use stemma_store::Env;
use stemma_store::env::Millis;

use super::scoring::{ScoringTask, SectionScore};
use super::strategies::SearchContext;
use stemma_retrieval::cache::Cache;

const CACHE_BYTES: usize = 8 << 20;
const CACHE_MS: Millis = 3_600_000;

// Document, version, section, scoring stage, and the digest of question, analysis, knowledge and model.
type ScoreKey = (DocId, u64, SectionId, &'static str, Digest);

pub(super) struct ScoreCache {
    env: Env,
    cache: Cache<ScoreKey, (f32, String)>,
}

impl ScoreCache {
    pub(super) fn new(env: &Env) -> Self {
        Self {
            env: env.clone(),
            cache: Cache::new(CACHE_BYTES, CACHE_MS),
        }
    }

    pub(super) fn get(
        &self,
        context: &SearchContext<'_>,
        kind: ScoringTask,
        at: usize,
    ) -> Option<SectionScore> {
        let (score, reason) = self
            .cache
            .get(&score_key(context, kind, at), self.env.now_ms())?;
        Some(SectionScore { at, score, reason })
    }

    pub(super) fn put(&self, context: &SearchContext<'_>, kind: ScoringTask, score: &SectionScore) {
        let value = (score.score, score.reason.clone());
        let bytes = score.reason.len() + size_of::<ScoreKey>();
        self.cache.put(
            score_key(context, kind, score.at),
            value,
            bytes,
            self.env.now_ms(),
        );
    }
}

fn score_key(context: &SearchContext<'_>, kind: ScoringTask, at: usize) -> ScoreKey {
    let tree = context.tree;
    let digest = context.question.digest(context.session.client().model());
    (
        tree.doc,
        tree.version,
        tree.nodes[at].id,
        kind.stage,
        digest,
    )
}

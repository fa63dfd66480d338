//! The model that questions may be answered with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Asker, Knowledge, ReasonSettings, Reasoner};
use stemma_document::Collection;
use stemma_engine::Env;
use stemma_engine::blobs::Blobs;
use stemma_llm::gate::Gate;

/// A way to a model, and how it is asked on behalf of people.
#[derive(Clone)]
pub struct AnswerModel {
    /// The way to it.
    pub gate: Arc<Gate>,
    /// How it is asked.
    pub settings: ReasonSettings,
    /// Expert knowledge of one's own, by collection.
    pub knowledge: BTreeMap<String, Knowledge>,
}

impl AnswerModel {
    /// What reasons over a collection: its call log and the replies it remembers lie in the store.
    pub fn reasoner(
        &self,
        env: &Env,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
    ) -> Arc<Reasoner> {
        let asker = Asker::new(env.clone(), Arc::clone(&self.gate), self.settings.asker);
        let asker = asker.over(Arc::clone(blobs), collection);
        let own = self
            .knowledge
            .get(collection.as_str())
            .cloned()
            .unwrap_or_default();
        let built_in = if self.settings.knowledge.built_in {
            Knowledge::sec()
        } else {
            Knowledge::default()
        };
        Arc::new(Reasoner::new(
            Arc::new(asker),
            self.settings.clone(),
            built_in.and(own),
        ))
    }
}

impl fmt::Debug for AnswerModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerModel")
            .field("model", &self.gate.model())
            .finish_non_exhaustive()
    }
}

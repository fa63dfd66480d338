//! Draft_outline: what rules find, and what a model is to be asked about it.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_document::{Digest, SectionTree};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Output, Stage, Task};
use stemma_engine::{Failure, Identity, TaskKey};
use stemma_extract::Packed;

use crate::model::{DraftBlob, Part, plan};
use crate::settings::Settings;
use crate::{Filings, sections, structure};

/// Drafts the outline of a text. Key: the text and the settings of structure and sections.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DraftOutline {
    /// Digest of the text.
    pub text: Digest,
    /// The artifact whose blob `source` holds it.
    pub source: TaskKey,
}

/// What was drafted. The draft itself is the blob `draft`, all parts of the plan are the blob `plan`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drafted {
    /// Digest of the blob `plan`.
    pub plan: Digest,
    /// Digests of the first pages; `None`: a page without text.
    pub pages: Vec<Option<Digest>>,
    /// Parts of the plan.
    pub parts: u32,
    /// The first of them; mostly there is no other.
    pub first: Part,
}

#[async_trait]
impl Stage for DraftOutline {
    type Work = Filings;
    type Outcome = Drafted;

    const NAME: &'static str = "draft_outline";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        let settings = (&settings.outline, &settings.sections);
        identity.bytes(self.text.as_bytes()).text(&serde_json::to_string(&settings).unwrap_or_default());
    }

    async fn run(&self, task: &Task<'_, Filings>) -> Result<Output<Drafted>, Failure> {
        let packed = task.blob(&self.source, "source").await?;
        let settings = task.settings.clone();
        let drafted = task.env.compute(move || draft(packed, &settings)).await;
        drafted.map_err(|panic| Failure::transient("structure.crashed", panic))?
    }
}

/// The draft of a packed source: pure (I-12).
fn draft(packed: Bytes, settings: &Settings) -> Result<Output<Drafted>, Failure> {
    let unreadable = |error: &dyn std::fmt::Display| Failure::permanent("structure.source", error.to_string());
    let json = |error: serde_json::Error| Failure::permanent("structure.json", error.to_string());
    let source = Packed::open(packed).and_then(Packed::source).map_err(|error| unreadable(&error))?;
    let draft = structure::outline(&source, &settings.outline).map_err(|error| unreadable(&error))?;
    let tree = SectionTree::build(&draft.outline, draft.method, Vec::new());
    let blob = DraftBlob { tree: sections::measured(tree, &source), draft };
    let (pages, parts) = plan(&source, &blob, settings);
    let plan = serde_json::to_vec(&parts).map_err(json)?;
    let outcome = Drafted {
        plan: Digest::of(&plan),
        pages,
        parts: u32::try_from(parts.len()).unwrap_or(u32::MAX),
        first: parts.into_iter().next().unwrap_or_default(),
    };
    let draft = serde_json::to_vec(&blob).map_err(json)?;
    Ok(Output::new(outcome, vec![("draft", draft.into()), ("plan", plan.into())]))
}

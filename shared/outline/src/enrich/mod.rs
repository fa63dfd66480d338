//! From a built tree to a finished one without a model: tokens, summaries, description, facts, references.
//!
//! Everything here is a pure function of the tree, the source and the settings (I-12), linear in the text, and bounded
//! where the text is hostile. A model's summaries later take the place of the extractive ones.

mod cover_page;
mod dates;
mod describe;
mod facts;
mod fiscal;
#[cfg(test)]
pub(crate) mod fixture;
mod front_page;
mod identifiers;
mod language;
mod llm_facts;
mod press_release;
mod references;
mod registrant;
mod section_text;
mod securities;
mod select_sentences;
mod sentences;
mod summarize;
mod words;

use serde::{Deserialize, Serialize};
use stemma_document::{PageLabel, SectionTree, Source};

pub use front_page::normalize_key;
pub use llm_facts::{FactValues, LlmFacts, fill_missing};
pub use section_text::{full_text, own_text};

/// What finishing a tree depends on beside its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SectionSettings {
    /// A section of fewer tokens, descendants included, is its own summary where that is no longer than a summary may be
    /// and has no table.
    pub summary_tokens_verbatim: u32,
    /// Words of a summary at most; two ideographs count as one word.
    pub summary_max_words: u32,
    /// References of a document at most; later ones are left out.
    pub max_references: u32,
    /// Top sections named in the description.
    pub described_sections: u32,
}

impl Default for SectionSettings {
    fn default() -> Self {
        Self {
            summary_tokens_verbatim: 200,
            summary_max_words: 60,
            max_references: 2_000,
            described_sections: 6,
        }
    }
}

/// Fills what [`SectionTree::build`] leaves open: token counts, summaries, facts, description and references.
///
/// `labels` are the printed page labels, page `n` at index `n - 1`; they resolve mentions like "page 12". In a text, a
/// preface of blank lines is dropped.
pub fn finish(
    tree: SectionTree,
    source: &Source,
    settings: &SectionSettings,
    labels: &[Option<PageLabel>],
) -> SectionTree {
    let mut tree = measure_tree(tree, source);
    summarize::summarize(&mut tree.sections, source, settings);
    tree.facts = facts::extract_facts(source);
    tree.description = Some(describe::describe(&tree, source, settings));
    tree.references =
        references::references(&tree, source, labels, settings.max_references as usize);
    tree
}

/// The first half of [`finish`]: which sections there are, and how much text they have.
pub fn measure_tree(mut tree: SectionTree, source: &Source) -> SectionTree {
    section_text::drop_blank_preface(&mut tree, source);
    section_text::count_tokens(&mut tree.sections, source);
    tree
}

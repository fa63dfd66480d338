//! Completes a built tree without a model: tokens, summaries, description, facts, references.
//!
//! All functions are pure in tree, source and settings, linear in the text, and bounded for hostile text. Summaries of a
//! model replace the extractive ones later.

mod co_registrants;
mod cover_form;
mod cover_page;

mod describe;
mod facts;
mod fiscal;
#[cfg(test)]
pub(crate) mod fixture;
mod front_page;
mod identifiers;

mod llm_facts;
mod press_release;
mod references;
mod registrant;
mod section_text;
mod securities;
mod select_sentences;
mod sentences;
mod summarize;

use serde::{Deserialize, Serialize};
use stemma_document::{PageLabel, SectionTree, Source};
use stemma_reading::document_reading::LineReadings;

pub use facts::is_same_company;
pub use fiscal::stated_fiscal_period;
pub use llm_facts::{FactValues, LlmFacts, fill_missing};

/// Settings for [`finish`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SectionSettings {
    /// A section with fewer tokens, descendants included, is its own summary if it has no table and at most
    /// `summary_max_words`.
    pub summary_tokens_verbatim: u32,
    /// Maximum words of a summary; two ideographs count as one word.
    pub summary_max_words: u32,
    /// Maximum references of a document; later ones are dropped.
    pub max_references: u32,
    /// Number of sections named in the description.
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

/// Adds token counts, summaries, facts, description and references to the tree of [`SectionTree::build`].
///
/// `readings` are what its lines are. `labels` are the printed page labels, page `n` at index `n - 1`; they resolve mentions like "page 12". In a text, a
/// blank preface is dropped.
pub fn finish(
    tree: SectionTree,
    source: &Source,
    readings: &LineReadings,
    settings: &SectionSettings,
    labels: &[Option<PageLabel>],
) -> SectionTree {
    // The order matters: summaries need tokens, the description needs tokens and facts.
    let mut tree = measure_tree(tree, source);
    summarize::summarize(&mut tree.sections, source, readings, settings);
    tree.facts = facts::extract_facts(source);
    tree.description = Some(describe::describe(&tree, source, settings));
    tree.references =
        references::references(&tree, source, labels, settings.max_references as usize);
    tree
}

/// The first step of [`finish`]: drops a blank preface and counts tokens.
pub fn measure_tree(mut tree: SectionTree, source: &Source) -> SectionTree {
    section_text::drop_blank_preface(&mut tree, source);
    section_text::count_tokens(&mut tree.sections, source);
    tree
}

//! An alignment of two documents, as it is cached.

use stemma_diff::{Alignment, QuotedSentence};
use stemma_document::{DocId, SectionId};

// Memory of a pair and of a sentence without their text, in bytes.
const PAIR_BYTES: usize = 160;
const SENTENCE_BYTES: usize = 64;

/// Two aligned documents, and whether the text of each is in the store.
pub(crate) struct AlignedDocuments {
    pub(super) alignment: Alignment,
    pub(super) has_text: (bool, bool),
}

/// For each side: document, version, compared section and the limit of sentences per pair.
pub(crate) type AlignmentKey = [(DocId, u64, Option<SectionId>, usize); 2];

impl AlignedDocuments {
    /// Estimated size in memory, in bytes.
    pub(super) fn size_bytes(&self) -> usize {
        self.alignment
            .pairs
            .iter()
            .map(|pair| {
                let alone = pair.removed.iter().chain(&pair.added);
                let alone: usize = alone.map(sentence_bytes).sum();
                let both: usize = pair
                    .reworded
                    .iter()
                    .map(|both| sentence_bytes(&both.left) + sentence_bytes(&both.right))
                    .sum();
                PAIR_BYTES + alone + both
            })
            .sum()
    }
}

fn sentence_bytes(sentence: &QuotedSentence) -> usize {
    sentence.text.len() + SENTENCE_BYTES
}

//! Finds the sections in which sentences of the other document occur.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::features::DocumentFeatures;

// Shorter sentences occur anywhere and do not tell their origin.
const MIN_SENTENCE_WORDS: usize = 6;

// The section of each sentence key.
pub(super) struct SentenceIndex(HashMap<u32, u32>);

impl SentenceIndex {
    // A repeated sentence belongs to the first section that has it.
    pub(super) fn new(side: &DocumentFeatures<'_>) -> Self {
        let mut section_of_key = HashMap::new();
        for (at, key) in side.keys.iter().enumerate() {
            if side.sentence(at as u32).len() >= MIN_SENTENCE_WORDS {
                section_of_key
                    .entry(*key)
                    .or_insert(side.section_of_sentence[at]);
            }
        }
        Self(section_of_key)
    }

    // The section that has at least half of the own words of a section of the other document, and how many.
    pub(super) fn main_section(
        &self,
        side: &DocumentFeatures<'_>,
        at: u32,
    ) -> Option<(u32, usize)> {
        let (first, last) = side.nodes[at as usize].sentences;
        let mut words: BTreeMap<u32, usize> = BTreeMap::new();
        let mut all = 0;
        for sentence in first..last {
            let length = side.sentence(sentence).len();
            all += length;
            if let Some(section) = self.0.get(&side.keys[sentence as usize]) {
                *words.entry(*section).or_default() += length;
            }
        }
        let (section, most) = words
            .into_iter()
            .max_by_key(|(section, words)| (*words, Reverse(*section)))?;
        (most * 2 >= all).then_some((section, most))
    }
}

//! Words of labels and statements, and where a text has a label.

use std::ops::Range;

use stemma_reading::text_words::words;
use stemma_reading::tokenizer::for_each_word;

/// The words of a label as printed, in lower case, without marks of footnotes.
pub(crate) fn plain_words(text: &str) -> Vec<String> {
    words(text).into_iter().map(|(word, _)| word).collect()
}

/// A text as stems with their places.
#[derive(Debug, Default)]
pub(crate) struct Stems {
    words: Vec<(String, Range<usize>)>,
}

impl Stems {
    pub(crate) fn new(text: &str) -> Self {
        let mut words = Vec::new();
        for_each_word(text, |word, at| words.push((word.to_owned(), at)));
        Self { words }
    }

    pub(crate) fn into_words(self) -> Vec<String> {
        self.words.into_iter().map(|(word, _)| word).collect()
    }

    /// Where other words follow each other in this text, in bytes.
    pub(crate) fn positions_of(&self, other: &[String]) -> Vec<Range<usize>> {
        if other.is_empty() {
            return Vec::new();
        }
        let windows = self.words.windows(other.len());
        windows
            .filter(|window| window.iter().map(|(word, _)| word).eq(other))
            .filter_map(|window| Some(window.first()?.1.start..window.last()?.1.end))
            .collect()
    }
}

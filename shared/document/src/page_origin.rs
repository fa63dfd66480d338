//! Where the text of a page comes from.

use serde::{Deserialize, Serialize};

/// Where the text of a page comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PageOrigin {
    /// The file states it.
    #[default]
    File,
    /// The page is a picture, or its text cannot be read; text recognition may help.
    Picture,
    /// Text recognition (OCR) read it.
    Recognized(Box<Recognition>),
}

/// What text recognition says about a page that it read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recognition {
    /// How far the lines of the displayed page fall to the right, in hundredths of a degree. The boxes of the page are
    /// those of straight lines.
    pub skew: i16,
    /// For each word of the page, line by line in reading order, how sure its reading is, in percent. Words that the file
    /// states have [`Recognition::STATED`].
    pub confidences: Vec<u8>,
}

impl Recognition {
    /// The confidence of a word that the file states.
    pub const STATED: u8 = 100;
    /// Words below are in doubt, in percent: the highest bound at which nine of ten numbers are sure (`tests/bench/ocr
    /// --bounds`, half A).
    pub const SURE: u8 = 80;

    /// Mean confidence of all words, in percent; 0 without words.
    pub fn mean(&self) -> u8 {
        let sum: usize = self.confidences.iter().map(|one| usize::from(*one)).sum();
        u8::try_from(sum / self.confidences.len().max(1)).unwrap_or(Self::STATED)
    }

    /// Number of words in doubt.
    pub fn doubtful(&self) -> usize {
        let doubtful = |one: &&u8| **one < Self::SURE;
        self.confidences.iter().filter(doubtful).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_below_the_bound_are_in_doubt() {
        let read = Recognition {
            skew: 0,
            confidences: vec![96, 79, 80, 1],
        };
        assert_eq!((read.mean(), read.doubtful()), (64, 2));
        assert_eq!(Recognition::default().mean(), 0);
    }
}

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
    /// Words that a second reader read otherwise, in the order of the page. All are in doubt.
    pub disputed: Vec<DisputedWord>,
}

/// A word with figures that two readers read differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisputedWord {
    /// Its place among all words of the page, from 0.
    pub word: u32,
    /// What the second reader read; empty if it read nothing.
    pub other: String,
}

/// How a word was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordReading {
    /// In percent.
    pub confidence: u8,
    /// What a second reader read, if it is another figure.
    pub other: Option<String>,
}

impl WordReading {
    /// The reading of a word that the file states.
    pub fn stated() -> Self {
        Self {
            confidence: Recognition::STATED,
            other: None,
        }
    }
}

impl Recognition {
    /// The confidence of a word that the file states.
    pub const STATED: u8 = 100;
    /// Words below are in doubt, in percent: the highest bound at which nine of ten numbers are sure (ADR 0048).
    pub const SURE: u8 = 80;

    /// The readings of all words of a page, in order.
    pub fn new(skew: i16, words: impl IntoIterator<Item = WordReading>) -> Self {
        let mut read = Self {
            skew,
            ..Self::default()
        };
        for (place, word) in (0..).zip(words) {
            read.confidences.push(word.confidence);
            let disputed = word.other.map(|other| DisputedWord { word: place, other });
            read.disputed.extend(disputed);
        }
        read
    }

    /// The readings of all words, in order.
    pub fn words(&self) -> impl Iterator<Item = WordReading> {
        let mut disputed = self.disputed.iter().peekable();
        let confidences = (0..).zip(&self.confidences);
        confidences.map(move |(place, confidence)| WordReading {
            confidence: *confidence,
            other: disputed
                .next_if(|disputed| disputed.word == place)
                .map(|disputed| disputed.other.clone()),
        })
    }

    /// Mean confidence of all words, in percent; 0 without words.
    pub fn mean(&self) -> u8 {
        let sum: usize = self.confidences.iter().map(|one| usize::from(*one)).sum();
        u8::try_from(sum / self.confidences.len().max(1)).unwrap_or(Self::STATED)
    }

    /// Number of words in doubt.
    pub fn doubtful(&self) -> usize {
        self.confidences
            .iter()
            .filter(|confidence| **confidence < Self::SURE)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_both_readings() {
        let word = |confidence, other: Option<&str>| WordReading {
            confidence,
            other: other.map(str::to_owned),
        };
        let words = [
            word(96, None),
            word(79, Some("1,284")),
            word(40, None),
            word(60, Some("")),
        ];
        let read = Recognition::new(-30, words.clone());
        assert_eq!(read.confidences, [96, 79, 40, 60]);
        let places: Vec<u32> = read.disputed.iter().map(|one| one.word).collect();
        assert_eq!(places, [1, 3]);
        assert_eq!(read.words().collect::<Vec<_>>(), words);
    }

    #[test]
    fn words_below_the_bound_are_in_doubt() {
        let read = Recognition {
            skew: 0,
            confidences: vec![96, 79, 80, 1],
            disputed: Vec::new(),
        };
        assert_eq!((read.mean(), read.doubtful()), (64, 2));
        assert_eq!(Recognition::default().mean(), 0);
    }
}

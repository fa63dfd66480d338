//! Text that a file has and no reader sees.

use std::collections::BTreeMap;
use std::fmt;

use stemma_document::{Defect, PageNo};

// Pages that are named one by one.
const MAX_PAGES: usize = 100;
// Letters and digits of a word. Filers keep the place of a figure free with a digit in white.
const MIN_CHARACTERS: usize = 2;
// Bytes of one text that are kept.
const MAX_TEXT_BYTES: usize = 2_000;

/// Why text is not displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Hidden {
    /// The content of an element is for machines: scripts, the header of iXBRL.
    Data,
    Display,
    Visibility,
    Aria,
    Size,
    Opacity,
    Position,
    Clip,
    Area,
    Color,
    Scale,
    /// `<template>` or `<noscript>`.
    Element,
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "data",
            Self::Display => "display",
            Self::Visibility => "visibility",
            Self::Aria => "aria-hidden",
            Self::Size => "font size",
            Self::Opacity => "opacity",
            Self::Position => "position",
            Self::Clip => "clip",
            Self::Area => "size of the box",
            Self::Color => "color",
            Self::Scale => "scale",
            Self::Element => "element",
        })
    }
}

/// A text that is not displayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HiddenText {
    pub(super) why: Hidden,
    pub(super) words: usize,
    pub(super) text: String,
}

impl HiddenText {
    /// Adds a text to those between two lines. Spaces, points and single characters that keep a place free are not words.
    pub(super) fn add(texts: &mut Vec<Self>, why: Hidden, text: &str) {
        let words = text
            .split_whitespace()
            .filter(|word| word.chars().filter(|c| c.is_alphanumeric()).count() >= MIN_CHARACTERS);
        for word in words {
            match texts.last_mut().filter(|last| last.why == why) {
                Some(last) => {
                    last.words += 1;
                    if last.text.len() + word.len() < MAX_TEXT_BYTES {
                        last.text.push(' ');
                        last.text.push_str(word);
                    }
                }
                None => texts.push(Self {
                    why,
                    words: 1,
                    text: word.chars().take(MAX_TEXT_BYTES / 4).collect(),
                }),
            }
        }
    }
}

/// A defect for each page with hidden text, in the order of pages.
pub(super) fn defects(texts: &[(PageNo, HiddenText)]) -> Vec<Defect> {
    let mut by_page: BTreeMap<PageNo, BTreeMap<Hidden, usize>> = BTreeMap::new();
    for (page, text) in texts {
        let words = by_page.entry(*page).or_default();
        *words.entry(text.why).or_default() += text.words;
    }
    let named = by_page.iter().take(MAX_PAGES);
    let mut defects: Vec<Defect> = named
        .map(|(page, words)| Defect {
            code: "html.hidden_text".into(),
            page: Some(*page),
            detail: sentence(words),
        })
        .collect();
    let mut others = BTreeMap::new();
    for (why, words) in by_page.values().skip(MAX_PAGES).flatten() {
        *others.entry(*why).or_default() += words;
    }
    if !others.is_empty() {
        defects.push(Defect {
            code: "html.hidden_text".into(),
            page: None,
            detail: format!("on further pages {}", sentence(&others)),
        });
    }
    defects
}

/// `3 words are not displayed and were not read: 2 by color, 1 by opacity`.
pub(super) fn sentence(words: &BTreeMap<Hidden, usize>) -> String {
    let count: usize = words.values().sum();
    let ways: Vec<String> = words
        .iter()
        .map(|(why, words)| format!("{words} by {why}"))
        .collect();
    let be = if count == 1 {
        "word is not displayed and was"
    } else {
        "words are not displayed and were"
    };
    format!("{count} {be} not read: {}", ways.join(", "))
}

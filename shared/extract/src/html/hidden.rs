//! Text that a file has and no reader sees.

use std::collections::BTreeMap;

use stemma_document::{Defect, HiddenReason, HiddenText, PageNo};

// Pages that are named one by one, and texts that are kept.
const MAX_PAGES: usize = 100;
const MAX_TEXTS: usize = 1_000;
// Letters and digits of a word. Filers keep the place of a figure free with a digit in white.
const MIN_CHARACTERS: usize = 2;
// Bytes of one text that are kept.
const MAX_TEXT_BYTES: usize = 1_000;

/// Why content is not displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    /// It is for machines: scripts, the header of iXBRL.
    Data,
    Text(HiddenReason),
}

/// A text that is not displayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HiddenPart {
    pub(super) reason: HiddenReason,
    words: usize,
    text: String,
}

impl HiddenPart {
    /// Adds a text to those between two lines. Spaces, points and single characters that keep a place free are not words.
    pub(super) fn add(parts: &mut Vec<Self>, reason: HiddenReason, text: &str) {
        let words = text
            .split_whitespace()
            .filter(|word| word.chars().filter(|c| c.is_alphanumeric()).count() >= MIN_CHARACTERS);
        for word in words {
            match parts.last_mut().filter(|last| last.reason == reason) {
                Some(last) => {
                    last.words += 1;
                    if last.text.len() + word.len() < MAX_TEXT_BYTES {
                        last.text.push(' ');
                        last.text.push_str(word);
                    }
                }
                None => parts.push(Self {
                    reason,
                    words: 1,
                    text: word.chars().take(MAX_TEXT_BYTES / 4).collect(),
                }),
            }
        }
    }
}

/// The texts with their pages.
pub(super) fn texts(parts: &[(PageNo, HiddenPart)]) -> Vec<HiddenText> {
    let texts = parts.iter().map(|(page, part)| HiddenText {
        page: *page,
        text: part.text.clone(),
        reason: part.reason,
    });
    texts.take(MAX_TEXTS).collect()
}

/// A defect for each page with hidden text, in the order of pages.
pub(super) fn defects(parts: &[(PageNo, HiddenPart)]) -> Vec<Defect> {
    let mut by_page: BTreeMap<PageNo, Vec<(HiddenReason, usize)>> = BTreeMap::new();
    for (page, part) in parts {
        add_words(by_page.entry(*page).or_default(), part.reason, part.words);
    }
    let mut others = Vec::new();
    for (reason, words) in by_page.values().skip(MAX_PAGES).flatten() {
        add_words(&mut others, *reason, *words);
    }
    let named = by_page.iter().take(MAX_PAGES);
    let named = named.map(|(page, words)| (Some(*page), words));
    named
        .chain((!others.is_empty()).then_some((None, &others)))
        .map(|(page, words)| Defect {
            code: "html.hidden_text".into(),
            page,
            detail: HiddenReason::describe(words),
        })
        .collect()
}

fn add_words(counts: &mut Vec<(HiddenReason, usize)>, reason: HiddenReason, words: usize) {
    match counts.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, count)) => *count += words,
        None => counts.push((reason, words)),
    }
}

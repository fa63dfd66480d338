//! Chooses sentences and list items for a summary: greedily, by weight of uncovered terms per word.

use foldhash::HashMap;

use stemma_document::text::normalize_key;
use stemma_reading::terms;
use stemma_reading::vocabulary::{BOILERPLATE, DEPENDENT_OPENINGS};

use super::sentences::ProseSentence;
use super::summarize::TermTable;

// Added to the length of a sentence before its weight is divided by it; otherwise sentences of one term would win.
const SHORT_BONUS_WORDS: u64 = 6;
// The same for list items, where short names are preferred.
const SHORT_BONUS_ITEM_WORDS: u64 = 2;
// Shorter sentences are exclamations and fragments.
const MIN_SENTENCE_WORDS: usize = 5;
// Divides the weight of a term each time it is covered, so that sentences do not repeat each other.
const REPEAT_DISCOUNT: u64 = 4;
/// Maximum average bytes per word; longer text is not natural language.
pub(super) const WORD_BYTES: usize = 16;
const ITEM_WORDS: usize = 12;

/// Chooses the parts of one summary; each choice lowers the weight of the terms it covers.
pub(super) struct SentenceSelector<'a> {
    terms: &'a TermTable,
    weights: HashMap<u32, u64>,
    /// The normalized title, to skip headings that end with a full stop and look like sentences.
    title: String,
}

struct SelectionCandidate {
    index: usize,
    words: usize,
    terms: Vec<u32>,
    /// Score of everything but its terms, in hundredths.
    merit: u64,
}

impl<'a> SentenceSelector<'a> {
    /// `weights` are the weights of the section's terms.
    pub(super) fn new(terms: &'a TermTable, weights: HashMap<u32, u64>, title: &str) -> Self {
        Self {
            terms,
            weights,
            title: normalize_key(title),
        }
    }

    /// The chosen sentences in reading order. Those from index `own` on come from summaries of parts.
    pub(super) fn select_sentences(
        &mut self,
        sentences: &[ProseSentence],
        own: usize,
        budget: usize,
    ) -> Vec<String> {
        let candidates = self.candidates(sentences, own, budget);
        let chosen = self.choose(candidates, budget, SHORT_BONUS_WORDS);
        chosen
            .into_iter()
            .map(|index| sentences[index].text.clone())
            .collect()
    }

    /// `Head first item; second item.` with the chosen items in reading order, within `budget` words; empty if none fits.
    pub(super) fn select_list<'t>(
        &mut self,
        head: &str,
        items: impl Iterator<Item = &'t str>,
        budget: usize,
    ) -> String {
        let items: Vec<String> = items.map(list_item).collect();
        let candidates: Vec<SelectionCandidate> = items
            .iter()
            .enumerate()
            .filter_map(|(index, item)| {
                let words = terms::count(item);
                let fits = words > 0 && item.len() <= words * WORD_BYTES;
                fits.then(|| SelectionCandidate {
                    index,
                    words,
                    terms: self.terms.numbers_in(item),
                    merit: 100,
                })
            })
            .collect();
        let budget = budget.saturating_sub(terms::count(head));
        let chosen = self.choose(candidates, budget, SHORT_BONUS_ITEM_WORDS);
        if chosen.is_empty() {
            return String::new();
        }
        let items: Vec<&str> = chosen
            .into_iter()
            .map(|index| items[index].as_str())
            .collect();
        format!("{head} {}.", items.join("; "))
    }

    fn choose(
        &mut self,
        mut candidates: Vec<SelectionCandidate>,
        mut budget: usize,
        bonus: u64,
    ) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        candidates.retain(|candidate| candidate.words <= budget);
        while let Some(best) = self.best(&candidates, bonus) {
            let candidate = candidates.swap_remove(best);
            budget -= candidate.words;
            for term in &candidate.terms {
                if let Some(weight) = self.weights.get_mut(term) {
                    *weight /= REPEAT_DISCOUNT;
                }
            }
            chosen.push(candidate.index);
            candidates.retain(|candidate| candidate.words <= budget);
        }
        chosen.sort_unstable();
        chosen
    }

    fn candidates(
        &self,
        sentences: &[ProseSentence],
        own: usize,
        budget: usize,
    ) -> Vec<SelectionCandidate> {
        let mut place = 0;
        let mut candidates = Vec::new();
        for (index, sentence) in sentences
            .iter()
            .enumerate()
            .filter(|(_, sentence)| sentence.is_complete)
        {
            let words = terms::count(&sentence.text);
            let too_long = sentence.text.len() > budget * WORD_BYTES;
            if too_long || !(MIN_SENTENCE_WORDS..=budget).contains(&words) {
                continue;
            }
            if self.title.contains(&normalize_key(&sentence.text)) {
                continue;
            }
            let position = if index < own { place } else { 4 };
            let merit = merit(&sentence.text, position);
            candidates.push(SelectionCandidate {
                index,
                words,
                terms: self.terms.numbers_in(&sentence.text),
                merit,
            });
            place += 1;
        }
        candidates
    }

    /// Index of the best candidate; the earlier one where two are equal.
    fn best(&self, candidates: &[SelectionCandidate], bonus: u64) -> Option<usize> {
        let scored = candidates
            .iter()
            .enumerate()
            .map(|(at, candidate)| (self.score(candidate, bonus), candidate.index, at));
        let best = scored.max_by_key(|(score, index, _)| (*score, std::cmp::Reverse(*index)));
        best.filter(|(score, _, _)| *score > 0).map(|(_, _, at)| at)
    }

    fn score(&self, candidate: &SelectionCandidate, bonus: u64) -> u64 {
        let terms: u64 = candidate
            .terms
            .iter()
            .filter_map(|term| self.weights.get(term))
            .sum();
        terms * candidate.merit / (candidate.words as u64 + bonus)
    }
}

/// The first words of an item, without punctuation at the end.
fn list_item(text: &str) -> String {
    let item = text
        .split_whitespace()
        .take(ITEM_WORDS)
        .collect::<Vec<_>>()
        .join(" ");
    item.trim_end_matches(['.', ';', ':']).into()
}

/// Score factor of a sentence apart from its terms, in hundredths: position, amounts, no boilerplate.
// First sentences introduce their section. One to four amounts make a sentence concrete; more are a table read as prose.
fn merit(text: &str, position: usize) -> u64 {
    let lower = text.to_lowercase();
    let mut merit: u64 = match position {
        0 => 220,
        1 => 150,
        2..=5 => 120,
        _ => 100,
    };
    let amounts = text
        .split_whitespace()
        .filter(|word| word.chars().any(|c| c.is_ascii_digit()))
        .count();
    let percent = [100, 115, 125, 125, 115, 100, 85];
    merit = merit * percent[amounts.min(6)] / 100;
    // Footnotes explain a table that the summary does not show.
    if text.starts_with('(') {
        merit /= 2;
    }
    if DEPENDENT_OPENINGS.starts(&lower) {
        merit = merit * 80 / 100;
    }
    let elsewhere = lower.starts_with("see ") || BOILERPLATE.occurs_in(&lower);
    if elsewhere || lower.ends_with([':', ';', ',']) {
        return 0;
    }
    merit
}

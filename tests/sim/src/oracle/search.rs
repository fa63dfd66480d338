//! Scores sections by their relevance for a question. The oracle knows the pages of the answer.
//!
//! A section with the answer scores higher the fewer other pages it has. A section without it scores by the
//! words it shares with the question, so look-alikes are plausible but lower. Noise moves every score by a
//! random amount that depends on the section, the question and the shown evidence: new evidence gives a new
//! amount.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::question::{PromptRequest, RequestStage};
use crate::seeded::SeededRng;

// Sections with a lower score are not named if only good ones are asked for.
const MIN_GOOD_SCORE: f64 = 0.5;
// Most sections named of a whole tree.
const MAX_SECTIONS: usize = 10;

/// A question whose answer pages are known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gold {
    pub question: String,
    /// File name of the document without extension.
    pub doc: String,
    /// Physical pages of the answer, 1-based.
    pub pages: Vec<u32>,
}

// A section in a listing.
struct ListingEntry {
    id: String,
    // First and last page; 0 if it has none.
    pages: (u32, u32),
    words: String,
}

// The facts behind a question.
struct QuestionFacts<'a> {
    question: String,
    document: String,
    gold: Option<&'a Gold>,
}

/// Answers a question about sections or documents, with noisy scores.
pub(super) fn answer(golds: &[Gold], question: &PromptRequest, noise: f64, seed: u64) -> Value {
    let facts = question_facts(golds, question);
    let score = |key: &str, truth: f64| {
        let name = format!("{}\n{key}", facts.question);
        let shift = SeededRng::new(seed, "noise", name.as_bytes()).between(-noise, noise);
        ((truth + shift).clamp(0.0, 1.0) * 1_000.0).round() / 1_000.0
    };
    match question.stage {
        RequestStage::Analyze => analysis(&facts),
        RequestStage::RouteDocuments => {
            let documents = question.blocks_named("Document").map(|block| {
                let is_gold = facts.gold.is_some_and(|gold| names(&block.text, &gold.doc));
                let truth = if is_gold {
                    0.95
                } else {
                    0.4 * likeness(&facts.question, &block.text)
                };
                json!({ "document": block.number, "score": score(&block.number.to_string(), truth), "reason": "as it is" })
            });
            json!({ "documents": documents.collect::<Vec<_>>() })
        }
        _ => {
            let entries = entries(question);
            let mut scored: Vec<(f64, &ListingEntry)> = entries
                .iter()
                .map(|entry| {
                    let evidence = format!("{}\n{}", entry.id, entry.words);
                    (score(&evidence, relevance(&facts, entry)), entry)
                })
                .collect();
            if !question.system.contains("every one") {
                scored.retain(|(score, _)| *score >= MIN_GOOD_SCORE);
                scored.sort_by(|a, b| b.0.total_cmp(&a.0));
                scored.truncate(MAX_SECTIONS);
            }
            let list: Vec<Value> = scored.iter().map(|(score, entry): &(f64, &ListingEntry)| json!({ "id": entry.id, "score": score, "reason": "as it is" })).collect();
            json!({ "thinking": "It is where it is.", question.stage.property(): list })
        }
    }
}

/// The text of the first block of a name; empty if there is none.
pub(super) fn block_text(question: &PromptRequest, name: &str) -> String {
    question
        .blocks_named(name)
        .next()
        .map(|block| normalize_whitespace(&block.text))
        .unwrap_or_default()
}

fn question_facts<'a>(golds: &'a [Gold], question: &PromptRequest) -> QuestionFacts<'a> {
    let text_of_question = block_text(question, "Question");
    let document = block_text(question, "Document");
    let gold = golds
        .iter()
        .find(|gold| normalize_whitespace(&gold.question) == text_of_question);
    QuestionFacts {
        question: text_of_question,
        document,
        gold,
    }
}

// How likely a section holds the answer, 0–1.
fn relevance(facts: &QuestionFacts<'_>, entry: &ListingEntry) -> f64 {
    let (first, last) = entry.pages;
    let gold = facts.gold.filter(|gold| names(&facts.document, &gold.doc));
    let holds =
        gold.is_some_and(|gold| gold.pages.iter().any(|page| (first..=last).contains(page)));
    if holds {
        return 0.55 + 0.4 / f64::from(last - first + 1).sqrt();
    }
    0.1 + 0.4 * likeness(&facts.question, &entry.words)
}

/// Share of the longer words of a question that occur in a text.
pub(super) fn likeness(question: &str, text: &str) -> f64 {
    let words = |text: &str| -> HashSet<String> {
        let words = text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| word.len() > 3);
        words.map(str::to_lowercase).collect()
    };
    let question = words(question);
    let text = words(text);
    question.intersection(&text).count() as f64 / question.len().max(1) as f64
}

/// Whether a text begins with or contains the name of a document.
pub(super) fn names(text: &str, doc: &str) -> bool {
    text.to_lowercase().contains(&doc.to_lowercase())
}

// The lines of a listing, each with its excerpt.
fn entries(question: &PromptRequest) -> Vec<ListingEntry> {
    let mut entries: Vec<ListingEntry> = Vec::new();
    let text = question
        .blocks_named("Listing")
        .next()
        .map(|block| block.text.as_str())
        .unwrap_or_default();
    for line in text.lines() {
        let mut parts = line.trim().splitn(3, " | ");
        let id = parts.next().unwrap_or_default();
        let place = parts.next();
        let rest = parts.next();
        match place {
            Some(place) if id.len() >= 4 && id.bytes().all(|byte| byte.is_ascii_digit()) => {
                entries.push(ListingEntry {
                    id: id.into(),
                    pages: pages(place),
                    words: rest.unwrap_or_default().into(),
                });
            }
            _ => {
                if let Some(last) = entries.last_mut() {
                    last.words.push_str(line);
                }
            }
        }
    }
    entries
}

// `p 4-10`.
fn pages(place: &str) -> (u32, u32) {
    let Some(numbers) = place.strip_prefix("p ") else {
        return (0, 0);
    };
    let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
    first
        .parse()
        .ok()
        .zip(last.parse().ok())
        .filter(|(first, last)| first <= last)
        .unwrap_or((0, 0))
}

fn analysis(facts: &QuestionFacts<'_>) -> Value {
    let words: Vec<&str> = facts
        .question
        .split_whitespace()
        .filter(|word| word.len() > 5)
        .take(6)
        .collect();
    json!({
        "topic": words.join(" "), "locations": [],
    })
}

pub(super) fn normalize_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: &str = "Score every one.";
    const LISTING: &str = "0000 | p 1-9 | All\n  0001 | p 4 | Cash flows | capital expenditure\n    “words of it”\n  0002 | \
                           p 8-9 | Risks";

    fn ask(system: &str, listing: &str, noise: f64, seed: u64) -> Vec<(String, f64)> {
        let fence = |name: &str, text: &str| {
            format!("{name}:\n[0123456789abcdef]\n{text}\n[/0123456789abcdef]")
        };
        let user = [
            fence("Question", "What was  capital spent?"),
            fence("Document", "ACME_2022.pdf"),
            fence("Listing", listing),
        ];
        let schema = json!({ "json_schema": { "schema": { "properties": { "thinking": {}, "sections": {} } } } });
        let messages = json!([
            { "role": "system", "content": system },
            { "role": "user", "content": user.join("\n\n") },
        ]);
        let question =
            PromptRequest::parse(&json!({ "messages": messages, "response_format": schema }))
                .unwrap();
        let gold = Gold {
            question: "What was capital spent?".into(),
            doc: "ACME_2022".into(),
            pages: vec![4],
        };
        let reply = answer(&[gold], &question, noise, seed);
        reply["sections"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one: &Value| {
                (
                    one["id"].as_str().unwrap().to_owned(),
                    one["score"].as_f64().unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn narrower_answer_sections_score_higher() {
        let values = ask(EVERY, LISTING, 0.0, 1);
        assert_eq!(values[1], ("0001".into(), 0.95));
        assert!(
            values[0].1 > 0.6 && values[0].1 < 0.8 && values[2].1 < 0.5,
            "{values:?}"
        );
        assert_eq!(
            ask("Name the best.", LISTING, 0.0, 1)
                .iter()
                .map(|(id, _)| id.as_str())
                .collect::<Vec<_>>(),
            ["0001", "0000"]
        );
    }

    #[test]
    fn noise_is_bounded_and_depends_on_the_evidence() {
        let truth = ask(EVERY, LISTING, 0.0, 1);
        let noisy = ask(EVERY, LISTING, 0.2, 1);
        assert!(
            truth
                .iter()
                .zip(&noisy)
                .all(|(a, b)| (a.1 - b.1).abs() <= 0.2001)
                && truth != noisy
        );
        assert_eq!(noisy, ask(EVERY, LISTING, 0.2, 1));
        assert_ne!(noisy, ask(EVERY, LISTING, 0.2, 2));
        let other = LISTING.replace("words of it", "other words");
        assert_ne!(noisy, ask(EVERY, &other, 0.2, 1));
    }
}

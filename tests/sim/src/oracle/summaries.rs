//! Summaries and descriptions that depend on their text alone.
//!
//! A summary carries checksums: its first word is made from the whole text, its last word from everything
//! before it. A summary that was truncated, joined or mixed up can be recognized later ([`is_whole`]).

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use crate::question::PromptRequest;

// Longest quote in words.
const MAX_QUOTED_WORDS: usize = 24;

/// The summary of a text.
pub(crate) fn summary(text: &str) -> String {
    let words: Vec<_> = text
        .split_whitespace()
        .map(|word: &str| {
            word.chars()
                .filter(|c| !c.is_control() && !"\"\\`{}[]".contains(*c))
                .collect::<String>()
        })
        .filter(|word| !word.is_empty())
        .take(MAX_QUOTED_WORDS)
        .collect();
    let text_before_checksum = format!("{}: {}", syllable_hash(text), words.join(" "));
    format!(
        "{text_before_checksum} ({})",
        syllable_hash(&text_before_checksum)
    )
}

/// Whether a text is a complete summary of the oracle.
pub fn is_whole(summary: &str) -> bool {
    let parts = summary
        .strip_suffix(')')
        .and_then(|rest| rest.rsplit_once(" ("));
    parts.is_some_and(|(text_before_checksum, word)| word == syllable_hash(text_before_checksum))
}

// A pronounceable FNV-1a hash.
fn syllable_hash(text: &str) -> String {
    const CONSONANTS: &[u8; 16] = b"bdfghjklmnprstvz";
    const VOWELS: &[u8; 4] = b"aiou";
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (0..5)
        .flat_map(|at: u32| {
            let bits = (hash >> (8 * at)) as usize;
            [CONSONANTS[bits & 15], VOWELS[bits >> 4 & 3]].map(char::from)
        })
        .collect()
}

/// One summary per section, or a single one if the schema asks for it.
pub(super) fn summarize(question: &PromptRequest) -> Value {
    let mut sections = question.blocks_named("Section");
    if !question.schema["properties"]["summary"].is_null() {
        return json!({ "summary": summary(sections.next().map_or("", |block| &block.text)) });
    }
    let summaries =
        sections.map(|block| json!({ "section": block.number, "summary": summary(&block.text) }));
    json!({ "summaries": summaries.collect::<Vec<_>>() })
}

#[expect(clippy::unwrap_used, reason = "constant pattern, covered by a test")]
static FORM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)\bform\s+(10-[KQ](?:/A)?|8-K(?:/A)?|20-F|6-K)").unwrap());
#[expect(clippy::unwrap_used, reason = "constant pattern, covered by a test")]
static ENDED: LazyLock<Regex> = LazyLock::new(|| {
    let months =
        "January|February|March|April|May|June|July|August|September|October|November|December";
    Regex::new(&format!(
        r"(?i)\b({months})\s+([0-9]{{1,2}}),\s+((?:19|20)[0-9]{{2}})"
    ))
    .unwrap()
});

/// The facts of the cover.
pub(super) fn describe(question: &PromptRequest) -> Value {
    let text = question
        .blocks
        .iter()
        .map(|block| block.text.as_str())
        .collect::<Vec<_>>()
        .join("\n");
    let form = FORM
        .captures(&text)
        .map(|captures| captures[1].to_uppercase())
        .unwrap_or_default();
    let ended = ENDED.captures(&text);
    let date = ended.map(|captures| {
        (
            month(&captures[1]),
            captures[2].parse().unwrap_or(1),
            captures[3].to_string(),
        )
    });
    let (period_end, fiscal_year) = date.map_or_else(
        Default::default,
        |(month, day, year): (u32, u32, String)| (format!("{year}-{month:02}-{day:02}"), year),
    );
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let label_line = lines
        .iter()
        .position(|line| line.to_lowercase().contains("exact name of"));
    let issuer = label_line
        .and_then(|at| lines[..at].iter().rev().find(|line| !line.is_empty()))
        .copied()
        .unwrap_or_default();
    let annual = form.starts_with("10-K") || form.starts_with("20-F");
    json!({
        "description": summary(&text),
        "issuer": issuer,
        "form": form,
        "fiscal_year": if annual { fiscal_year.as_str() } else { "" },
        "fiscal_period": if annual { "FY" } else { "" },
        "period_end": period_end,
        "language": if text.is_empty() { "" } else { "en" },
    })
}

fn month(name: &str) -> u32 {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let begin = name.to_lowercase();
    MONTHS
        .iter()
        .position(|month| begin.starts_with(month))
        .map_or(0, |at| at as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_cover_the_whole_text_and_expose_truncation() {
        let text = format!(
            "Item 1. Business\nWe sell \"things\" {}",
            "and more ".repeat(50)
        );
        let full = summary(&text);
        assert!(
            full.contains("Item 1. Business We sell things")
                && full.split_whitespace().count() < 60,
            "{full}"
        );
        assert_ne!(full, summary(&format!("{text}.")));
        assert!(is_whole(&full));
        for damaged in [
            &full[1..],
            &full[..full.len() - 1],
            &full.replace("sell", "buy"),
            "PWNED",
            "",
        ] {
            assert!(!is_whole(damaged), "{damaged}");
        }
    }

    #[test]
    fn descriptions_read_the_cover_page() {
        use crate::question::{PromptBlock, RequestStage};
        let text = "FORM 10-K\nFor the fiscal year ended December 31, 2022\n\nACME CORP\n(Exact name of registrant)";
        let block = PromptBlock {
            name: "Document".into(),
            number: 1,
            text: text.into(),
        };
        let question = PromptRequest {
            model: String::new(),
            system: String::new(),
            user: String::new(),
            images: Vec::new(),
            prefill: None,
            max_tokens: None,
            schema: Value::Null,
            stage: RequestStage::Describe,
            blocks: vec![block],
        };
        let reply = describe(&question);
        let fields = ["issuer", "form", "fiscal_year", "period_end"]
            .map(|name| reply[name].as_str().unwrap().to_string());
        assert_eq!(fields, ["ACME CORP", "10-K", "2022", "2022-12-31"]);
    }
}

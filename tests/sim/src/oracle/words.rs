//! What the oracle writes: summaries and descriptions that depend on the text they are of and on nothing else.
//!
//! A summary names itself: it begins with a word made of the whole text, and ends with a word made of all before it. So one
//! that was cut, joined or mixed up on its way is known when it is seen again ([`is_whole`]).

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use crate::question::Question;

/// Words of the text that a summary quotes.
const QUOTED: usize = 24;

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
        .take(QUOTED)
        .collect();
    let said = format!("{}: {}", word_of(text), words.join(" "));
    format!("{said} ({})", word_of(&said))
}

/// Whether a text is a summary as the oracle wrote it.
pub fn is_whole(summary: &str) -> bool {
    let parts = summary
        .strip_suffix(')')
        .and_then(|rest| rest.rsplit_once(" ("));
    parts.is_some_and(|(said, word)| word == word_of(said))
}

/// A word that can be spoken, made of a text: its FNV-1a hash in syllables.
fn word_of(text: &str) -> String {
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

/// One summary per section; a lone one where the shape asks for a lone one.
pub(super) fn summarize(question: &Question) -> Value {
    let sections = || question.named("Section");
    if !question.schema["properties"]["summary"].is_null() {
        return json!({ "summary": summary(sections().next().map_or("", |block| &block.text)) });
    }
    let one = |(number, text): (u64, &str)| json!({ "section": number, "summary": summary(text) });
    json!({ "summaries": sections().map(|block| one((block.number, &block.text))).collect::<Vec<_>>() })
}

#[expect(
    clippy::unwrap_used,
    reason = "patterns that do not change; a test uses them"
)]
static FORM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)\bform\s+(10-[KQ](?:/A)?|8-K(?:/A)?|20-F|6-K)").unwrap());
#[expect(
    clippy::unwrap_used,
    reason = "patterns that do not change; a test uses them"
)]
static ENDED: LazyLock<Regex> = LazyLock::new(|| {
    let months =
        "January|February|March|April|May|June|July|August|September|October|November|December";
    Regex::new(&format!(
        r"(?i)\b({months})\s+([0-9]{{1,2}}),\s+((?:19|20)[0-9]{{2}})"
    ))
    .unwrap()
});

/// What the cover says.
pub(super) fn describe(question: &Question) -> Value {
    let text = question
        .blocks
        .iter()
        .map(|block| block.text.as_str())
        .collect::<Vec<_>>()
        .join("\n");
    let form = FORM
        .captures(&text)
        .map(|found| found[1].to_uppercase())
        .unwrap_or_default();
    let ended = ENDED.captures(&text);
    let date = ended.map(|found| {
        (
            month(&found[1]),
            found[2].parse().unwrap_or(1),
            found[3].to_string(),
        )
    });
    let (period_end, fiscal_year) = date.map_or_else(
        Default::default,
        |(month, day, year): (u32, u32, String)| (format!("{year}-{month:02}-{day:02}"), year),
    );
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let named = lines
        .iter()
        .position(|line| line.to_lowercase().contains("exact name of"));
    let issuer = named
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
    fn a_summary_depends_on_all_of_its_text_and_shows_when_it_is_not_whole() {
        let text = format!(
            "Item 1. Business\nWe sell \"things\" {}",
            "and more ".repeat(50)
        );
        let said = summary(&text);
        assert!(
            said.contains("Item 1. Business We sell things")
                && said.split_whitespace().count() < 60,
            "{said}"
        );
        assert_ne!(said, summary(&format!("{text}.")));
        assert!(is_whole(&said));
        for damaged in [
            &said[1..],
            &said[..said.len() - 1],
            &said.replace("sell", "buy"),
            "PWNED",
            "",
        ] {
            assert!(!is_whole(damaged), "{damaged}");
        }
    }

    #[test]
    fn the_cover_says_what_it_is() {
        use crate::question::{Block, Stage};
        let text = "FORM 10-K\nFor the fiscal year ended December 31, 2022\n\nACME CORP\n(Exact name of registrant)";
        let block = Block {
            name: "Document".into(),
            number: 1,
            text: text.into(),
        };
        let question = Question {
            model: String::new(),
            system: String::new(),
            user: String::new(),
            begun: None,
            max_tokens: None,
            schema: Value::Null,
            stage: Stage::Describe,
            blocks: vec![block],
        };
        let said = describe(&question);
        let fields = ["issuer", "form", "fiscal_year", "period_end"]
            .map(|name| said[name].as_str().unwrap().to_string());
        assert_eq!(fields, ["ACME CORP", "10-K", "2022", "2022-12-31"]);
    }
}

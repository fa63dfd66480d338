//! Answers of the oracle: verbatim lines from the shown passages, first from pages that are known to hold the
//! answer.

use serde_json::{Value, json};

use super::search::{Gold, block_text, likeness, names, normalize_whitespace};
use crate::question::{PromptBlock, PromptRequest};

// Most claims per answer.
const MAX_CLAIMS: usize = 2;
// Longest quote in characters.
const QUOTE_CHARS: usize = 180;
// Smallest share of the question's words in a line, if the answer is not known.
const MIN_LIKENESS: f64 = 0.25;
const SCALES: [&str; 3] = ["thousand", "million", "billion"];
// The tool that ends the search.
const FINAL_TOOL: &str = "answer";

/// The answer from the passages of a question.
pub(super) fn answer(golds: &[Gold], question: &PromptRequest) -> Value {
    let text_of_question = block_text(question, "Question");
    let gold = golds
        .iter()
        .find(|gold| normalize_whitespace(&gold.question) == text_of_question);
    let passages: Vec<&PromptBlock> = question
        .blocks_named("Passage")
        .filter(|passage| gold.is_none_or(|gold| is_of(passage, gold)))
        .collect();
    let mut lines: Vec<(f64, u64, &str)> = Vec::new();
    for passage in &passages {
        let text = passage
            .text
            .lines()
            .skip(1)
            .filter(|line| line.chars().filter(|c| c.is_alphabetic()).count() > 3);
        lines.extend(text.map(|line| (likeness(&text_of_question, line), passage.number, line)));
    }
    lines.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    lines.retain(|(like, ..)| gold.is_some() || *like >= MIN_LIKENESS);
    let claims: Vec<Value> = lines
        .iter()
        .take(MAX_CLAIMS)
        .map(|(_, passage, line): &(f64, u64, &str)| {
            let quote: String = line.trim().chars().take(QUOTE_CHARS).collect();
            claim(*passage, &quote)
        })
        .collect();
    json!({ "answerable": !claims.is_empty(), "claims": claims, "confidence": 0.9 })
}

// A claim in the words of a quote. Its figure, if it has just one, is named; what follows the first of several is left out.
fn claim(passage: u64, quote: &str) -> Value {
    let is_figure = |word: &&str| {
        let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
        !(digits.is_empty() || digits.len() == 4 && digits.starts_with(['1', '2']))
    };
    let words: Vec<&str> = quote.split_whitespace().collect();
    let figures: Vec<&str> = words.iter().copied().filter(is_figure).collect();
    let citations = json!([{ "passage": passage, "quote": quote }]);
    match figures[..] {
        [] => json!({ "statement": quote, "citations": citations, "figures": [] }),
        [value] => {
            // Code prints the scale with the figure.
            let scale = SCALES
                .iter()
                .find(|scale| quote.contains(&format!("{value} {scale}")));
            let written = scale.map_or(value.to_owned(), |scale| format!("{value} {scale}"));
            let statement = quote.replace(&written, "{a}");
            let figure = json!({
                "name": "a", "citation": 1, "value": value, "unit": scale.copied().unwrap_or_default(), "row": "", "column": "", "formula": "",
            });
            json!({ "statement": statement, "citations": citations, "figures": [figure] })
        }
        _ => {
            let statement: Vec<&str> = words
                .into_iter()
                .take_while(|word| !is_figure(word))
                .collect();
            json!({ "statement": statement.join(" "), "citations": citations, "figures": [] })
        }
    }
}

/// A question made independent of earlier turns.
pub(super) fn restate(question: &PromptRequest) -> Value {
    let last = question
        .blocks_named("Earlier")
        .last()
        .and_then(|block| block.text.lines().next())
        .unwrap_or_default();
    let latest = question
        .blocks_named("Question")
        .next()
        .map(|block| block.text.trim())
        .unwrap_or_default();
    json!({ "standalone": format!("{latest} ({last})") })
}

/// One search, then the answer.
pub(super) fn choose_tool(question: &PromptRequest) -> Value {
    let goal = question
        .blocks_named("Question")
        .next()
        .map(|block| block.text.trim())
        .unwrap_or_default();
    let (tool, query) = if question.blocks_named("Step").count() < 2 {
        ("search", goal)
    } else {
        (FINAL_TOOL, "")
    };
    let empty = "";
    json!({
        "why": "it may be there", "tool": tool, "query": query, "document": empty, "pages": empty, "section": empty,
        "item": empty, "pattern": empty, "last": false,
    })
}

/// Judges like a careful reader: an answer is correct if it has the figures of the reference, or most of its
/// words if the reference has no figures.
pub(super) fn judge(question: &PromptRequest) -> Value {
    let reference = block_text(question, "Reference answer");
    let answer = block_text(question, "Answer");
    let expected = figures(&reference);
    let actual = figures(&answer);
    let right = match expected.is_empty() {
        true => likeness(&reference, &answer) >= 0.5,
        false => expected.iter().all(|figure| actual.contains(figure)),
    };
    let declined = answer.to_lowercase().starts_with("not in these documents");
    let verdict = if declined {
        "declined"
    } else if right {
        "right"
    } else {
        "wrong"
    };
    json!({ "judged_why": "its figures and words were compared", "judged_verdict": verdict })
}

// Words with digits, without punctuation.
fn figures(text: &str) -> Vec<String> {
    text.split_whitespace()
        .filter(|word| word.chars().any(|c| c.is_ascii_digit()))
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned())
        .collect()
}

// Whether a passage is from a page with the answer. Its first line names its source.
fn is_of(passage: &PromptBlock, gold: &Gold) -> bool {
    let heading = passage.text.lines().next().unwrap_or_default();
    let page = heading
        .rsplit("page ")
        .next()
        .and_then(|page| page.trim().parse::<u32>().ok());
    names(heading, &gold.doc) && page.is_some_and(|page| gold.pages.contains(&page))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(blocks: &[(&str, &str)]) -> PromptRequest {
        let user = blocks
            .iter()
            .map(|(name, text): &(&str, &str)| {
                format!("{name}:\n[0123456789abcdef]\n{text}\n[/0123456789abcdef]")
            })
            .collect::<Vec<_>>()
            .join("\n\n");
        PromptRequest::parse(&json!({ "messages": [{ "role": "user", "content": user }] })).unwrap()
    }

    #[test]
    fn answers_quote_known_pages_or_similar_lines() {
        let question = question(&[
            ("Question", "What was capital expenditure?"),
            (
                "Passage 1",
                "ACME.pdf · Business · page 3\nCapital expenditure is spoken of here",
            ),
            (
                "Passage 2",
                "ACME.pdf · Cash Flows · page 60\nPurchases of plant (1,749)\n12",
            ),
        ]);
        let gold = Gold {
            question: "What was capital expenditure?".into(),
            doc: "ACME".into(),
            pages: vec![60],
        };
        let reply = answer(std::slice::from_ref(&gold), &question);
        assert_eq!(
            reply["claims"][0]["citations"][0],
            json!({ "passage": 2, "quote": "Purchases of plant (1,749)" })
        );
        assert_eq!(
            answer(&[], &question)["claims"][0]["citations"][0]["passage"],
            1
        );
        let elsewhere = answer(
            &[Gold {
                pages: vec![61],
                ..gold
            }],
            &question,
        );
        assert_eq!(
            (
                elsewhere["answerable"].as_bool(),
                elsewhere["claims"].as_array().map(Vec::len)
            ),
            (Some(false), Some(0))
        );
    }

    #[test]
    fn agent_searches_once_and_uses_earlier_turns() {
        let question = |steps: &[(&str, &str)]| {
            question(
                &[
                    &[
                        ("Question", "and 2021?"),
                        ("Earlier 1", "capex 2022?\n\nIt was 5."),
                    ],
                    steps,
                ]
                .concat(),
            )
        };
        assert_eq!(
            choose_tool(&question(&[("Step 1", "read")]))["tool"],
            "search"
        );
        assert_eq!(
            choose_tool(&question(&[("Step 1", "read"), ("Step 2", "found")]))["tool"],
            "answer"
        );
        assert_eq!(
            restate(&question(&[]))["standalone"],
            "and 2021? (capex 2022?)"
        );
    }

    #[test]
    fn judging_compares_figures_then_words() {
        let verdict = |reference: &str, answer: &str| {
            let judged = question(&[
                ("Question", "?"),
                ("Reference answer", reference),
                ("Answer", answer),
            ]);
            judge(&judged)["judged_verdict"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        assert_eq!(verdict("It was 1,749.", "Purchases of 1,749 [1]."), "right");
        assert_eq!(verdict("It was 1,749.", "Purchases of 1,577 [1]."), "wrong");
        assert_eq!(
            verdict(
                "Margins fell because demand was weak",
                "Weak demand: margins fell [1]"
            ),
            "right"
        );
        assert_eq!(
            verdict("5", "Not in these documents: 1 of 1 were searched"),
            "declined"
        );
    }
}

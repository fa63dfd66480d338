//! What a question is understood as: one call, before any tree is looked at.

use serde::Deserialize;
use serde_json::json;
use stemma_llm::request::Schema;

use super::asker::{AskError, Consultation, Prompt};
use super::outline::{cut, one_line};
use super::walked::Analysis;

/// Parts of a question, and characters of a part, at most.
const MAX_ASPECTS: usize = 4;
const MAX_CHARS: usize = 200;
/// Key terms, locations and years at most.
const MAX_LISTED: usize = 8;
/// Kinds of information.
const KINDS: [&str; 5] = ["number", "explanation", "list", "comparison", "fact"];

#[derive(Debug, Deserialize)]
struct Said {
    topic: String,
    aspects: Vec<String>,
    kind: String,
    key_terms: Vec<String>,
    years: Vec<i64>,
    locations: Vec<String>,
}

/// Understands a question.
///
/// # Errors
/// [`AskError`] when there is no answer: the question stands for itself then.
pub(super) async fn analyze(
    question: &str,
    consultation: &Consultation,
) -> Result<Analysis, AskError> {
    let texts = || json!({ "type": "array", "items": { "type": "string" } });
    let properties = json!({
        "topic": { "type": "string" },
        "aspects": texts(),
        "kind": { "type": "string", "enum": KINDS },
        "key_terms": texts(),
        "years": { "type": "array", "items": { "type": "integer" } },
        "locations": texts(),
    });
    let system = "A question will be answered from documents, mostly company filings. Say what it asks for. `topic`: a few \
                  words. `aspects`: its parts that may be answered in different places of a document, each a short \
                  question of its own; one where there is only one. `key_terms`: words that such a passage would use. \
                  `years`: fiscal years it asks about, as four digits; none where it names none. `locations`: titles of \
                  sections in which the answer is to be expected, most likely first.";
    let prompt = Prompt::new(system, Schema::strict("analyze_question", &properties))
        .block("Question", question);
    consultation
        .ask(&prompt.at_most(600), |said: Said| Ok(bounded(&said)))
        .await
}

/// What was said, cut to what is used of it.
fn bounded(said: &Said) -> Analysis {
    let line = |text: &String| cut(&one_line(text), MAX_CHARS);
    let lines = |texts: &[String], most: usize| {
        texts
            .iter()
            .map(line)
            .filter(|text| !text.is_empty())
            .take(most)
            .collect::<Vec<_>>()
    };
    let years = said
        .years
        .iter()
        .filter_map(|year| u16::try_from(*year).ok())
        .filter(|year| (1980..2050).contains(year));
    Analysis {
        topic: line(&said.topic),
        aspects: lines(&said.aspects, MAX_ASPECTS),
        kind: KINDS
            .into_iter()
            .find(|kind| *kind == said.kind)
            .unwrap_or("fact")
            .to_owned(),
        key_terms: lines(&said.key_terms, MAX_LISTED),
        years: years.take(MAX_LISTED).collect(),
        locations: lines(&said.locations, MAX_LISTED),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stemma_engine::RunId;

    use super::*;
    use crate::reason::budget::Budget;
    use crate::reason::scripted::Scripted;

    #[tokio::test(start_paused = true)]
    async fn an_analysis_is_bounded_and_typed() {
        let said = json!({
            "topic": "cash\n flow", "aspects": ["a", "", "b", "c", "d", "e"], "kind": "poem",
            "key_terms": [], "years": [2022, 22, -1], "locations": ["x".repeat(900)],
        });
        let (_, asker) = Scripted::asker(move |_| Ok(said.clone()));
        let begun = Arc::new(asker).begin(RunId("s".into()), Budget::default());
        let analysis = analyze("What of cash?", &begun).await.unwrap();
        assert_eq!(
            (analysis.topic.as_str(), analysis.kind.as_str()),
            ("cash flow", "fact")
        );
        assert_eq!((analysis.aspects.len(), analysis.years), (4, vec![2022]));
        assert!(analysis.locations[0].chars().count() <= MAX_CHARS);
    }
}

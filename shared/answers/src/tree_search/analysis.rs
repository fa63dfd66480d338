//! Question analysis: one LLM call before any tree is walked.

use serde_json::json;
use stemma_llm::request::OutputSchema;

use super::llm_session::LlmSession;
use super::prompt::Prompt;
use super::result::Analysis;
use super::search_tree::{one_line, truncate};
use super::session_error::SessionError;

const MAX_ASPECTS: usize = 4;
const MAX_CHARS: usize = 200;
const MAX_LISTED: usize = 8;
const KINDS: [&str; 5] = ["number", "explanation", "list", "comparison", "fact"];

/// Analyzes a question.
///
/// # Errors
/// [`SessionError`] when there is no reply. The caller then uses the question alone.
pub(super) async fn analyze(
    question: &str,
    session: &LlmSession,
) -> Result<Analysis, SessionError> {
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    let properties = json!({
        "topic": { "type": "string" },
        "aspects": texts,
        "kind": { "type": "string", "enum": KINDS },
        "key_terms": texts,
        "years": { "type": "array", "items": { "type": "integer" } },
        "locations": texts,
    });
    let system = "A question will be answered from documents, mostly company filings. Say what it asks for. `topic`: a few \
                  words. `aspects`: its parts that may be answered in different places of a document, each a short \
                  question of its own; one where there is only one. `key_terms`: words that such a passage would use. \
                  `years`: fiscal years it asks about, as four digits; none where it names none. `locations`: titles of \
                  sections in which the answer is to be expected, most likely first.";
    let prompt = Prompt::new(
        system,
        OutputSchema::strict("analyze_question", &properties),
    )
    .with_block("Question", question);
    session
        .complete(&prompt.with_max_output_tokens(600), |reply: Analysis| {
            Ok(truncate_analysis(reply))
        })
        .await
}

fn truncate_line(text: &str) -> String {
    truncate(&one_line(text), MAX_CHARS)
}

fn truncate_lines(texts: &[String], most: usize) -> Vec<String> {
    texts
        .iter()
        .map(|text| truncate_line(text))
        .filter(|text| !text.is_empty())
        .take(most)
        .collect()
}

// Truncates a reply to the parts that are used.
fn truncate_analysis(mut reply: Analysis) -> Analysis {
    reply.years.retain(|year| (1980..2050).contains(year));
    reply.years.truncate(MAX_LISTED);
    if !KINDS.contains(&reply.kind.as_str()) {
        reply.kind = "fact".into();
    }
    Analysis {
        topic: truncate_line(&reply.topic),
        aspects: truncate_lines(&reply.aspects, MAX_ASPECTS),
        key_terms: truncate_lines(&reply.key_terms, MAX_LISTED),
        locations: truncate_lines(&reply.locations, MAX_LISTED),
        ..reply
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stemma_store::RunId;

    use super::*;
    use crate::tree_search::budget::QuestionBudget;
    use crate::tree_search::scripted::ScriptedModel;

    #[tokio::test(start_paused = true)]
    async fn analysis_replies_are_truncated_and_typed() {
        let reply = json!({
            "topic": "cash\n flow", "aspects": ["a", "", "b", "c", "d", "e"], "kind": "poem",
            "key_terms": [], "years": [2022, 22, -1], "locations": ["x".repeat(900)],
        });
        let (_, client) = ScriptedModel::new(move |_| Ok(reply.clone()));
        let session = Arc::new(client).start_session(RunId("s".into()), QuestionBudget::default());
        let analysis = analyze("What of cash?", &session).await.unwrap();
        assert_eq!(analysis.topic, "cash flow");
        assert_eq!(analysis.kind, "fact");
        assert_eq!(analysis.aspects.len(), 4);
        assert_eq!(analysis.years, [2022]);
        assert!(analysis.locations[0].chars().count() <= MAX_CHARS);
    }
}

//! Question analysis: one LLM call before any tree is walked.

use serde_json::json;
use stemma_llm::request::OutputSchema;

use super::llm_session::LlmSession;
use super::prompt::Prompt;
use super::result::Analysis;
use super::search_tree::{one_line, truncate};
use super::session_error::SessionError;

const MAX_CHARS: usize = 200;
const MAX_LOCATIONS: usize = 8;

/// Analyzes a question.
///
/// # Errors
/// [`SessionError`] when there is no reply. The caller then uses the question alone.
pub(super) async fn analyze(
    question: &str,
    session: &LlmSession,
) -> Result<Analysis, SessionError> {
    let properties = json!({
        "topic": { "type": "string" },
        "locations": { "type": "array", "items": { "type": "string" } },
    });
    let system = "A question will be answered from documents, mostly company filings. Say what it asks for. `topic`: a few \
                  words. `locations`: titles of sections in which the answer is to be expected, most likely first.";
    let prompt = Prompt::new(
        system,
        OutputSchema::strict("analyze_question", &properties),
    )
    .with_block("Question", question)
    .with_max_output_tokens(600);
    let line = |text: &str| truncate(&one_line(text), MAX_CHARS);
    session
        .complete(&prompt, |reply: Analysis| {
            Ok(Analysis {
                topic: line(&reply.topic),
                locations: reply
                    .locations
                    .iter()
                    .map(|title| line(title))
                    .filter(|title| !title.is_empty())
                    .take(MAX_LOCATIONS)
                    .collect(),
            })
        })
        .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stemma_store::RunId;

    use super::*;
    use crate::tree_search::budget::QuestionBudget;
    use crate::tree_search::scripted::ScriptedModel;

    #[tokio::test(start_paused = true)]
    async fn analysis_replies_are_truncated() {
        let reply = json!({
            "topic": "cash\n flow", "locations": ["", "x".repeat(900), "b", "c", "d", "e", "f", "g", "h", "i"],
        });
        let (_, client) = ScriptedModel::new(move |_| Ok(reply.clone()));
        let session = Arc::new(client).start_session(RunId("s".into()), QuestionBudget::default());
        let analysis = analyze("What of cash?", &session).await.unwrap();
        assert_eq!(analysis.topic, "cash flow");
        assert_eq!(analysis.locations.len(), MAX_LOCATIONS);
        assert_eq!(analysis.locations[0].chars().count(), MAX_CHARS);
    }
}

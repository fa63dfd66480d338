//! Judges answers with a model, against the reference answer of an expert.

use serde::Deserialize;
use serde_json::json;
use stemma_answers::tree_search::{LlmSession, Prompt, SessionError};
use stemma_evaluation::answers::{AnswerVerdict, Judgement};
use stemma_llm::request::OutputSchema;

// Question, reference and answer follow the instructions as data.
const JUDGE: &str = "You compare an answer to a question with the reference answer of an expert. The answer is right when \
it says the same in substance: the same conclusion, and the same figures up to rounding and units; more detail or other \
words do no harm. It is wrong when it contradicts the reference or leaves out what the question asks for. An answer that \
says that the documents do not tell is `declined`, unless the reference says the same.";
// Tokens of a judgement at most.
const JUDGE_TOKENS: u32 = 300;

#[derive(Deserialize)]
struct JudgeReply {
    judged_why: String,
    judged_verdict: AnswerVerdict,
}

/// Judges an answer with the model.
pub async fn judge(
    consultation: &LlmSession,
    question: &str,
    reference: &str,
    answer: &str,
) -> Result<Judgement, SessionError> {
    let properties = json!({
        "judged_why": { "type": "string", "description": "one sentence" },
        "judged_verdict": { "type": "string", "enum": ["right", "wrong", "declined"] },
    });
    let prompt = Prompt::new(JUDGE, OutputSchema::strict("judge", &properties))
        .with_block("Question", question)
        .with_block("Reference answer", reference)
        .with_block("Answer", answer)
        .with_max_output_tokens(JUDGE_TOKENS);
    consultation
        .complete(&prompt, |reply: JudgeReply| {
            Ok(Judgement {
                verdict: reply.judged_verdict,
                why: reply.judged_why,
            })
        })
        .await
}

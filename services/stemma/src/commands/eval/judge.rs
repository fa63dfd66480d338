//! A model as judge: whether an answer says what an expert says.

use serde::Deserialize;
use serde_json::json;
use stemma_answers::reason::{AskError, Consultation, Prompt};
use stemma_llm::request::Schema;
use stemma_query::eval::answers::{Judgement, Verdict};

/// What a judge is told. Question, reference and answer follow as data.
const JUDGE: &str = "You compare an answer to a question with the reference answer of an expert. The answer is right when \
it says the same in substance: the same conclusion, and the same figures up to rounding and units; more detail or other \
words do no harm. It is wrong when it contradicts the reference or leaves out what the question asks for. An answer that \
says that the documents do not tell is `declined`, unless the reference says the same.";
/// Tokens of a judgement at most.
const JUDGE_TOKENS: u32 = 300;

/// What a judge replies.
#[derive(Deserialize)]
struct Reply {
    judged_why: String,
    judged_verdict: Verdict,
}

/// Has a model judge an answer.
///
/// # Errors
/// [`AskError`] where it does not.
pub async fn judge(
    consultation: &Consultation,
    question: &str,
    reference: &str,
    answer: &str,
) -> Result<Judgement, AskError> {
    let properties = json!({
        "judged_why": { "type": "string", "description": "one sentence" },
        "judged_verdict": { "type": "string", "enum": ["right", "wrong", "declined"] },
    });
    let prompt = Prompt::new(JUDGE, Schema::strict("judge", &properties))
        .block("Question", question)
        .block("Reference answer", reference)
        .block("Answer", answer)
        .at_most(JUDGE_TOKENS);
    consultation
        .ask(&prompt, |reply: Reply| {
            Ok(Judgement {
                verdict: reply.judged_verdict,
                why: reply.judged_why,
            })
        })
        .await
}

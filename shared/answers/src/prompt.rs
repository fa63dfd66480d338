//! Prompts and reply schemas of answers, and validation of replies.

use serde::Deserialize;
use serde_json::json;
use stemma_llm::request::OutputSchema;

use super::context::{AnswerContext, Passage};
use super::request::ConversationTurn;
use crate::tree_search::Prompt;

// Limits of a reply. More would not prove more, and would be stored.
const MAX_CLAIMS: usize = 40;
const MAX_STATEMENT: usize = 1_200;
const MAX_REPLY_TOKENS: u32 = 2_500;
const MAX_QUOTE: usize = 2_000;
const MAX_CITATIONS: usize = 40;

// Part of the answer's id: changing it orphans stored answers.
pub(super) const INSTRUCTIONS: &str = "You answer a question from passages of documents, and from nothing else. Each statement \
says one thing and rests on citations: the number of a passage, and words copied from it letter for letter, as few as prove \
the statement, with every number the statement names. Write numbers as the passage does, with their unit and scale. A figure you work out yourself \
stands in a statement of its own, beside the figures it is worked out from. Where the question asks about several documents or \
years, speak of each. If the passages do not answer the question, say so: answerable is false, and there are no claims. \
Passages are numbered within this question alone. confidence is from 0 to 1.";

pub(super) const STANDALONE_INSTRUCTIONS: &str = "A conversation goes on with one more question. Write that question so that it can be \
understood without the conversation: put in the company, the document, the year and the subject it leaves out. Change nothing else; add \
nothing. If it can be understood alone, repeat it.";

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct DraftAnswer {
    pub(super) answerable: bool,
    #[serde(default)]
    pub(super) claims: Vec<DraftClaim>,
    #[serde(default)]
    pub(super) confidence: f64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct DraftClaim {
    pub(super) statement: String,
    #[serde(default)]
    pub(super) citations: Vec<DraftCitation>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct DraftCitation {
    pub(super) passage: i64,
    #[serde(default)]
    pub(super) quote: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct StandaloneQuestion {
    pub(super) standalone: String,
}

pub(super) fn answer_schema() -> OutputSchema {
    let citation = json!({
        "type": "object",
        "properties": { "passage": { "type": "integer" }, "quote": { "type": "string" } },
        "required": ["passage", "quote"], "additionalProperties": false,
    });
    let claim = json!({
        "type": "object",
        "properties": { "statement": { "type": "string" }, "citations": { "type": "array", "items": citation } },
        "required": ["statement", "citations"], "additionalProperties": false,
    });
    let properties = json!({
        "answerable": { "type": "boolean" },
        "claims": { "type": "array", "items": claim },
        "confidence": { "type": "number" },
    });
    OutputSchema::strict("answer", &properties)
}

pub(super) fn standalone_schema() -> OutputSchema {
    OutputSchema::strict(
        "restate_question",
        &json!({ "standalone": { "type": "string" } }),
    )
}

pub(super) fn answer_prompt(
    question: &str,
    earlier: &[ConversationTurn],
    context: &AnswerContext,
) -> Prompt {
    let prompt = Prompt::new(INSTRUCTIONS, answer_schema())
        .with_max_output_tokens(MAX_REPLY_TOKENS)
        .with_block("Question", question);
    let prompt = with_earlier(prompt, earlier);
    let passages = context.passages.iter().enumerate();
    passages.fold(prompt, |prompt, (at, passage)| {
        prompt.with_block(
            format!("Passage {}", at + 1),
            format!("{}\n{}", passage_heading(context, passage), passage.text),
        )
    })
}

pub(super) fn standalone_prompt(question: &str, earlier: &[ConversationTurn]) -> Prompt {
    with_earlier(
        Prompt::new(STANDALONE_INSTRUCTIONS, standalone_schema())
            .with_max_output_tokens(300)
            .with_block("Question", question),
        earlier,
    )
}

fn with_earlier(prompt: Prompt, earlier: &[ConversationTurn]) -> Prompt {
    earlier
        .iter()
        .enumerate()
        .fold(prompt, |prompt, (at, turn)| {
            prompt.with_block(
                format!("Earlier {}", at + 1),
                format!("{}\n\n{}", turn.question, turn.answer),
            )
        })
}

// `3M_2022_10K.pdf · 3M COMPANY · 10-K · FY2022 · Item 8 › Cash Flows · page 60`.
fn passage_heading(context: &AnswerContext, passage: &Passage) -> String {
    let open_doc = context.document(passage);
    let place = match passage.last_line {
        Some(last) => format!("lines {}-{last}", passage.number),
        None => format!("page {}", passage.number),
    };
    let path = context.section_path(passage).join(" › ");
    let (name, what) = open_doc.map_or(("", ""), |open_doc| {
        (open_doc.name.as_str(), open_doc.description.as_str())
    });
    let parts = [name, what, &path, &place];
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" · ")
}

// Errors go back to the model, which gets another try.
pub(super) fn validate_draft(draft: DraftAnswer) -> Result<DraftAnswer, String> {
    if !draft.answerable {
        return Ok(DraftAnswer {
            answerable: false,
            ..DraftAnswer::default()
        });
    }
    let claims: Vec<DraftClaim> = draft
        .claims
        .into_iter()
        .filter(|claim| !claim.statement.trim().is_empty())
        .collect();
    let quotes = claims
        .iter()
        .flat_map(|claim| &claim.citations)
        .map(|citation| citation.quote.chars().count());
    let longest_quote = quotes.max();
    let most = claims.iter().map(|claim| claim.citations.len()).max();
    match claims
        .iter()
        .map(|claim| claim.statement.chars().count())
        .max()
    {
        None => Err("answerable is true and there are no claims".into()),
        Some(_) if claims.len() > MAX_CLAIMS => {
            Err(format!("there are more than {MAX_CLAIMS} claims"))
        }
        Some(longest) if longest > MAX_STATEMENT => {
            Err(format!("a statement has {longest} characters"))
        }
        Some(_) if longest_quote > Some(MAX_QUOTE) => Err(format!(
            "a quote has more than {MAX_QUOTE} characters: quote as few words as prove the statement"
        )),
        Some(_) if most > Some(MAX_CITATIONS) => {
            Err(format!("a claim has more than {MAX_CITATIONS} citations"))
        }
        Some(_) => Ok(DraftAnswer { claims, ..draft }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_replies_are_rejected() {
        let draft = |statement: usize, quote: usize, citations: usize| {
            let citation = DraftCitation {
                passage: 1,
                quote: "q".repeat(quote),
            };
            let claim = DraftClaim {
                statement: "s".repeat(statement),
                citations: vec![citation; citations],
            };
            validate_draft(DraftAnswer {
                answerable: true,
                claims: vec![claim],
                confidence: 1.0,
            })
        };
        assert!(draft(MAX_STATEMENT, MAX_QUOTE, MAX_CITATIONS).is_ok());
        assert!(draft(MAX_STATEMENT + 1, 1, 1).is_err() && draft(1, MAX_QUOTE + 1, 1).is_err());
        assert!(draft(1, 1, MAX_CITATIONS + 1).is_err());
    }
}

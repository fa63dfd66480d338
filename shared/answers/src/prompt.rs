//! Prompts and reply schemas of answers, and validation of replies.

use serde::Deserialize;
use serde_json::json;
use stemma_catalog::short_path::short_path;
use stemma_llm::request::OutputSchema;

use super::answer::FinalAnswer;
use super::context::{AnswerContext, Passage};
use super::draft_answer::DraftAnswer;
use super::page_vision::{MAX_PICTURES, Picture};
use super::request::ConversationTurn;
use crate::tree_search::{Prompt, one_line};

// Limits of a reply. More would not prove more, and would be stored.
const MAX_CLAIMS: usize = 40;
const MAX_STATEMENT: usize = 1_200;
pub(super) const MAX_REPLY_TOKENS: u32 = 2_500;
const MAX_QUOTE: usize = 2_000;
const MAX_CITATIONS: usize = 40;
const MAX_MISSING: usize = 8;
const MAX_MISSING_CHARS: usize = 200;
const MAX_FINAL_CHARS: usize = 400;
const MAX_FIGURES: usize = 24;

// Part of the answer's id: changing it orphans stored answers.
pub(super) const INSTRUCTIONS: &str = "You answer a question from passages of documents, and from nothing else. Each claim is one statement \
with citations: the number of a passage, and words copied from it letter for letter, as few as prove the claim; a quote may run over the \
ends of lines. Write no figures into statements: {a} is where figure a goes and {a.period} where its period goes. Code prints value, unit \
and period as the page has them. `figures` lists each figure of the claim under a short name, unique in the answer. A figure that is copied \
has citation, the position of its citation in the claim from 1; value as printed, with parentheses or minus sign; unit with scale, such as \
$ million, %, shares; row and column, the label of its row and the whole head of its column as printed. Both are empty for a figure in a sentence, \
whose citation quotes few words around that one number. A figure that you work out has a formula over names of figures, also of earlier \
claims, which are not listed again: + - * / ^, parentheses, avg, sum, min, max, abs, sqrt, count, cagr(first, last, years), and constants: \
numbers up to 12, 52, 100, 360, 365, 1,000 and 1,000,000. Operands keep the printed sign: use abs() where it only marks an outflow. Its value is the result, rounded as the \
question asks, its unit the unit of the result; a share times 100 is in %. Its citation is 0 and row and column are empty. Compare and \
add only figures of the same kind. `answer` is the final answer: value is {a}, or a few words; period is {a.period}. For a judgement value is \
the verdict, and criterion names the measure and limit it rests on. If the question defines no variant of a measure, take the usual one and \
name it in criterion. If the passages contradict what the question takes for granted, value and the first statement say so. Fields that do not \
apply are empty. answerable is true if the passages answer any part; missing then names each lacking part, with the statement or note that \
should have it. That something is not there cites the passage where it would be. If nothing is answered, answerable is false, there are no \
claims, and missing says what is lacking. Where the question asks about several documents or years, speak of each. Passages are numbered within \
this question alone. confidence is from 0 to 1.";

// Added where pictures go with the passages. Part of the id of such answers.
const VISION_INSTRUCTIONS: &str = "Pictures of pages go with the passages; the list of pictures says which page each shows. Where the \
passages say something, quote them, and pictures is empty. What only a picture shows, such as the values of a chart, goes into a \
statement of its own, written with its figures and without citations; pictures has the numbers of the pictures that show it. The statement \
names the figure that it is read from, and says of values that are not printed that they are read off. What a picture says holds for its own page alone.";

pub(super) const STANDALONE_INSTRUCTIONS: &str = "A conversation goes on with one more question. Write that question so that it can be \
understood without the conversation: put in the company, the document, the year and the subject it leaves out. Change nothing else; add \
nothing. If it can be understood alone, repeat it.";

#[derive(Debug, Clone, Deserialize)]
pub(super) struct StandaloneQuestion {
    pub(super) standalone: String,
}

/// The instructions of an answer, from pictures too if it `sees`.
pub(super) fn instructions(sees: bool) -> String {
    match sees {
        false => INSTRUCTIONS.to_owned(),
        true => format!("{INSTRUCTIONS} {VISION_INSTRUCTIONS}"),
    }
}

pub(super) fn answer_schema(sees: bool) -> OutputSchema {
    let citation = json!({
        "type": "object",
        "properties": { "passage": { "type": "integer" }, "quote": { "type": "string" } },
        "required": ["passage", "quote"], "additionalProperties": false,
    });
    let figure = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" }, "citation": { "type": "integer" }, "value": { "type": "string" }, "unit": { "type": "string" },
            "row": { "type": "string" }, "column": { "type": "string" }, "formula": { "type": "string" },
        },
        "required": ["name", "citation", "value", "unit", "row", "column", "formula"], "additionalProperties": false,
    });
    let mut claim = json!({
        "type": "object",
        "properties": {
            "statement": { "type": "string" }, "citations": { "type": "array", "items": citation },
            "figures": { "type": "array", "items": figure },
        },
        "required": ["statement", "citations", "figures"], "additionalProperties": false,
    });
    if sees {
        claim["properties"]["pictures"] =
            json!({ "type": "array", "items": { "type": "integer" } });
        claim["required"] = json!(["statement", "citations", "figures", "pictures"]);
    }
    let final_answer = json!({
        "type": "object",
        "properties": {
            "value": { "type": "string" }, "period": { "type": "string" }, "criterion": { "type": "string" },
        },
        "required": ["value", "period", "criterion"], "additionalProperties": false,
    });
    let properties = json!({
        "answerable": { "type": "boolean" },
        "answer": final_answer,
        "missing": { "type": "array", "items": { "type": "string" } },
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
    pictures: &[Picture],
) -> Prompt {
    let sees = !pictures.is_empty();
    let prompt = Prompt::new(instructions(sees), answer_schema(sees))
        .with_max_output_tokens(MAX_REPLY_TOKENS)
        .with_block("Question", question);
    let prompt = with_pictures(prompt, pictures);
    let prompt = with_earlier(prompt, earlier);
    let prompt = match context.describe_documents() {
        documents if documents.is_empty() => prompt,
        documents => prompt.with_block("Documents", documents),
    };
    context
        .prompt_passages()
        .fold(prompt, |prompt, (at, passage)| {
            prompt.with_block(
                format!("Passage {}", at + 1),
                format!("{}\n{}", passage_heading(context, passage), passage.text),
            )
        })
}

fn with_pictures(prompt: Prompt, pictures: &[Picture]) -> Prompt {
    if pictures.is_empty() {
        return prompt;
    }
    let list = pictures.iter().enumerate().map(|(at, picture)| {
        let page = &picture.page;
        format!(
            "picture {}: page {} of {}",
            at + 1,
            page.page,
            one_line(&page.name)
        )
    });
    let list: Vec<String> = list.collect();
    prompt
        .with_block("Pictures", list.join("\n"))
        .with_images(pictures.iter().map(|picture| picture.image.clone()))
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

// `3M_2022_10K.pdf · Item 8 › Cash Flows · page 60`. What the document is comes once in the prompt.
fn passage_heading(context: &AnswerContext, passage: &Passage) -> String {
    let open_doc = context.document(passage);
    let place = match passage.last_line {
        Some(last) => format!("lines {}-{last}", passage.number),
        None => format!("page {}", passage.number),
    };
    let path = short_path(&context.section_path(passage));
    let name = open_doc.map_or("", |open_doc| open_doc.name.as_str());
    let parts = [name, &path, &place];
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" · ")
}

// Errors go back to the model, which gets another try. Claims of a draft that says it is not an answer are a part of one: `question` is missing
// where the draft does not name the rest.
pub(super) fn validate_draft(
    question: &str,
    mut draft: DraftAnswer,
) -> Result<DraftAnswer, String> {
    draft.missing.retain(|part| !part.trim().is_empty());
    draft.missing.truncate(MAX_MISSING);
    for part in &mut draft.missing {
        *part = short_line(part, MAX_MISSING_CHARS);
    }
    draft
        .claims
        .retain(|claim| !claim.statement.trim().is_empty());
    for claim in &mut draft.claims {
        claim.pictures.truncate(MAX_PICTURES);
    }
    if !draft.answerable {
        // What it gives as the value of no answer is none.
        draft.final_answer = None;
        if draft.claims.is_empty() {
            return Ok(DraftAnswer {
                missing: draft.missing,
                ..DraftAnswer::default()
            });
        }
        if draft.missing.is_empty() {
            draft.missing = vec![short_line(question, MAX_MISSING_CHARS)];
        }
        draft.answerable = true;
    }
    let final_answer = draft.final_answer.take().map(|stated| FinalAnswer {
        value: short_line(&stated.value, MAX_FINAL_CHARS),
        period: short_line(&stated.period, MAX_FINAL_CHARS),
        criterion: short_line(&stated.criterion, MAX_FINAL_CHARS),
        // Not for the model to say.
        verified: false,
        claims: Vec::new(),
    });
    draft.final_answer = final_answer.filter(|stated| !stated.value.is_empty());
    let claims = &draft.claims;
    let quotes = claims
        .iter()
        .flat_map(|claim| &claim.citations)
        .map(|citation| citation.quote.chars().count());
    let longest_quote = quotes.max();
    let most = claims.iter().map(|claim| claim.citations.len()).max();
    let figures = claims.iter().map(|claim| claim.figures.len()).max();
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
        Some(_) if figures > Some(MAX_FIGURES) => {
            Err(format!("a claim has more than {MAX_FIGURES} figures"))
        }
        Some(_) => Ok(draft),
    }
}

// One line without brackets, which could be taken for citation marks.
fn short_line(text: &str, max_chars: usize) -> String {
    let line = one_line(text).replace('[', "(").replace(']', ")");
    line.chars().take(max_chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stemma_verify::{StatedCitation, StatedClaim};

    #[test]
    fn instructions_and_schema_leave_the_prompt_to_passages() {
        let schema = answer_schema(false).json.to_string();
        let tokens = stemma_llm::tokens::count(INSTRUCTIONS) + stemma_llm::tokens::count(&schema);
        assert!(tokens <= 1_200, "{tokens}");
    }

    #[test]
    fn oversized_replies_are_rejected() {
        let draft = |statement: usize, quote: usize, citations: usize| {
            let citation = StatedCitation {
                passage: 1,
                quote: "q".repeat(quote),
            };
            let claim = StatedClaim {
                statement: "s".repeat(statement),
                citations: vec![citation; citations],
                ..StatedClaim::default()
            };
            let draft = DraftAnswer {
                answerable: true,
                claims: vec![claim],
                confidence: 1.0,
                ..DraftAnswer::default()
            };
            validate_draft("Why?", draft)
        };
        assert!(draft(MAX_STATEMENT, MAX_QUOTE, MAX_CITATIONS).is_ok());
        assert!(draft(MAX_STATEMENT + 1, 1, 1).is_err() && draft(1, MAX_QUOTE + 1, 1).is_err());
        assert!(draft(1, 1, MAX_CITATIONS + 1).is_err());
    }

    #[test]
    fn claims_of_an_open_question_are_a_partial_answer() {
        let draft = |claims: usize, missing: &[&str]| {
            let claim = StatedClaim {
                statement: "Capex was 5.".into(),
                ..StatedClaim::default()
            };
            let value = "Not stated".to_owned();
            let draft = DraftAnswer {
                claims: vec![claim; claims],
                missing: missing.iter().map(|part| (*part).to_owned()).collect(),
                final_answer: Some(FinalAnswer {
                    value,
                    ..FinalAnswer::default()
                }),
                ..DraftAnswer::default()
            };
            validate_draft("Capex and revenue?", draft).unwrap()
        };
        for (claims, missing, answerable, expected) in [
            (1, vec!["revenue"], true, vec!["revenue"]),
            (1, vec![], true, vec!["Capex and revenue?"]),
            (0, vec!["capex"], false, vec!["capex"]),
            (0, vec![], false, vec![]),
        ] {
            let partial = draft(claims, &missing);
            assert_eq!(
                (partial.answerable, partial.claims.len()),
                (answerable, claims)
            );
            assert_eq!(partial.missing, expected);
            assert_eq!(partial.final_answer, None);
        }
    }
}

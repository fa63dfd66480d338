//! Summarize: what is in this section? Leaves from their text, others from their own text and the summaries of their parts.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_document::{Digest, Section, SectionId};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Output, Stage, Task};
use stemma_engine::{Failure, Identity, TaskKey};
use stemma_llm::tokens;

use crate::Filings;
use crate::model::{Question, Reads, Spent, Told, Written, digest_of, same_text, shown};
use crate::sections::squash;
use crate::settings::Settings;

/// The longest summary in characters: what is longer is no summary.
const MAX_CHARS: usize = 2_000;
/// Bytes that the section above is shown of a summary: about twenty-five words, or fifty ideographs.
const LEAD_BYTES: usize = 150;

/// Asks about one section. Key: its title and own text, and of each of its parts the summary (the text, where a part is so
/// short that it is its own summary).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summarize {
    /// Digest of all that.
    pub reads: Digest,
    /// The artifact that holds the sections.
    pub draft: TaskKey,
    /// The artifact that holds the text.
    pub source: TaskKey,
    /// Index of the section.
    pub section: u32,
    /// The artifacts of its parts' summaries, by the index of the part among its siblings. Of parts that are not here the
    /// text is read where they are small, else the title alone.
    pub parts: Vec<(u32, TaskKey)>,
}

/// Asked about one section, or about several at once.
pub(super) static QUESTION: Question = Question {
    stage: Summarize::NAME,
    instructions: "Summarize each section you are shown in at most fifty words, in its own language, for someone who decides whether \
         the answer to a question stands in it: what it is about, and the periods, amounts and names that matter most. A \
         line that begins with `-` names a part of the section and what that says. Take nothing from elsewhere.",
    properties,
    max_tokens: |model| model.max_output_tokens,
};

fn properties() -> Value {
    let one = json!({
        "type": "object",
        "properties": { "section": { "type": "integer" }, "summary": { "type": "string" } },
        "required": ["section", "summary"],
        "additionalProperties": false,
    });
    json!({ "summaries": { "type": "array", "items": one } })
}

#[async_trait]
impl Stage for Summarize {
    type Work = Filings;
    type Outcome = Told;

    const NAME: &'static str = "summarize";
    const REVISION: u32 = 2;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.reads.as_bytes());
    }

    async fn run(&self, task: &Task<'_, Filings>) -> Result<Output<Told>, Failure> {
        let announced = task.tools.packs.announce(task);
        let blob = task.tools.texts.draft(task, &self.draft).await?;
        let missing = || Failure::permanent("model.no_section", format!("the draft has no section {}", self.section));
        let section = blob.tree.section(SectionId(self.section)).ok_or_else(missing)?;
        let named = |failure: Failure| Failure {
            message: format!("section {}: {}", section.structure, failure.message),
            ..failure
        };
        let block = self.read(task, section).await?;
        let packed = task.tools.packs.ask(task, announced, &QUESTION, self.section, block.clone()).await;
        match packed.map_err(named)?.and_then(|summary| cleaned(&summary).ok()) {
            Some(summary) => Ok(told(&section.title, &block, summary)),
            None => self.alone(task, section, &block).await.map_err(named),
        }
    }
}

/// A summary of `block`. What it cost is told by the two alone: the usage of a call is that of all who shared it.
fn told(title: &str, block: &str, summary: String) -> Output<Told> {
    let spent = Spent { prompt_tokens: tokens::count(block), output_tokens: tokens::count(&summary) };
    Output::new(Told { digest: digest_of(title, lead(&summary)), spent }, vec![("summary", summary.into())])
}

impl Summarize {
    /// Asks about this section and no other.
    async fn alone(&self, task: &Task<'_, Filings>, section: &Section, block: &str) -> Result<Output<Told>, Failure> {
        let asked = QUESTION.ask::<Written>(task, shown(std::iter::once(block))).await?;
        let check = |written: Written| match written.of(1) {
            Some(summary) => cleaned(summary),
            None => Err("it holds no summary of the section".into()),
        };
        let asked = asked.checked(Self::NAME, task, check).await?;
        let (key, record) = asked.record;
        Ok(told(&section.title, block, asked.value).with_record(key, record))
    }

    /// What the model is shown, checked against what the key says.
    async fn read(&self, task: &Task<'_, Filings>, section: &Section) -> Result<String, Failure> {
        let texts = &task.tools.texts;
        let own = texts.section(task, &self.source, section, false).await?;
        let mut reads = Reads::of(digest_of(&section.title, &own), section.children.len());
        let mut block = titled(&section.title, &own);
        let limit = task.settings.sections.summary_tokens_verbatim;
        let mut summaries = self.parts.iter();
        let mut next = summaries.next();
        for (at, child) in section.children.iter().enumerate() {
            if let Some((_, key)) = next.filter(|(part, _)| *part as usize == at) {
                let summary = task.blob(key, "summary").await?;
                let summary = String::from_utf8_lossy(&summary).into_owned();
                reads.part(digest_of(&child.title, lead(&summary)));
                block.push_str(&format!("\n- {}: {}", child.title, lead(&summary)));
                next = summaries.next();
                continue;
            }
            let small = child.tokens < limit;
            let text = texts.section(task, &self.source, child, small).await?;
            reads.part(digest_of(&child.title, &text));
            // Of a long part without a summary only the title is shown.
            let shown = if small { titled(&child.title, &text) } else { format!("- {}", child.title) };
            block.push_str(&format!("\n{shown}"));
        }
        same_text(Self::NAME, reads.finish(), self.reads)?;
        Ok(block)
    }
}

/// A text under its title; most begin with it.
fn titled(title: &str, text: &str) -> String {
    let begins = squash(&text.chars().take(2 * title.chars().count()).collect::<String>());
    if begins.starts_with(&squash(title)) { text.into() } else { format!("{title}\n{text}") }
}

/// What the section above is shown of a summary: its first sentence, cut where that is long.
fn lead(summary: &str) -> &str {
    let end =
        summary.match_indices(". ").map(|(at, _)| at + 1).chain(summary.find('。').map(|at| at + '。'.len_utf8()));
    let sentence = &summary[..end.min().unwrap_or(summary.len())];
    if sentence.len() <= LEAD_BYTES {
        return sentence;
    }
    let cut = sentence.floor_char_boundary(LEAD_BYTES);
    sentence[..cut].rfind(' ').map_or(&sentence[..cut], |space| &sentence[..space])
}

/// The summary on one line, without control characters; nothing, and what is too long to be one, is none.
fn cleaned(summary: &str) -> Result<String, String> {
    let words: Vec<&str> =
        summary.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.chars().count() {
        0 => Err("the summary is empty".into()),
        n if n > MAX_CHARS => Err(format!("the summary has {n} characters")),
        _ => Ok(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_summary_is_refused() {
        assert_eq!(cleaned(" a\n\u{7}b\tc ").unwrap(), "a b c");
        assert!(cleaned(" \n").is_err() && cleaned(&"x".repeat(2_001)).is_err());
    }

    #[test]
    fn of_a_summary_the_section_above_is_shown_the_first_sentence() {
        assert_eq!(lead("Sales rose. Costs fell."), "Sales rose.");
        assert_eq!(lead("营业收入增长。成本下降。"), "营业收入增长。");
        assert_eq!(lead(&"word ".repeat(99)).len(), 149);
        assert!(lead(&"营".repeat(99)).len() <= LEAD_BYTES);
        assert_eq!(lead("no end"), "no end");
    }

    #[test]
    fn a_title_that_the_text_begins_with_is_not_repeated() {
        assert_eq!(titled("Risk Factors", "RISK\nFACTORS\nWe may fail."), "RISK\nFACTORS\nWe may fail.");
        assert_eq!(titled("Preface", "Once upon a time"), "Preface\nOnce upon a time");
    }
}

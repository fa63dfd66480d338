//! Summarize: what is in this section? Leaves from their text, others from their own text and the summaries of their parts.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_document::{Digest, Section, SectionId};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Output, Stage, Task};
use stemma_engine::{Failure, Identity, TaskKey};

use crate::Filings;
use crate::model::{PARTS, Question, Reads, Told, data_only, digest_of, fenced, same_text};
use crate::settings::Settings;

/// The longest summary in characters: what is longer is no summary.
const MAX_CHARS: usize = 2_000;

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
    /// The artifacts of the first parts' summaries; `None`: the part is its own summary, or has none.
    pub children: Vec<Option<TaskKey>>,
}

const QUESTION: Question = Question {
    stage: Summarize::NAME,
    instructions: data_only!(
        "You are shown a section of a document: its title, its own text, and what its parts say. Summarize it in at most \
         sixty words, in the language of the section, for someone who decides whether the answer to a question stands in \
         it. Name what it is about, the periods, amounts and names that matter most, and what it says about them. Take \
         nothing from elsewhere, and do not begin with `This section`."
    ),
    properties,
    max_tokens: |model| model.max_output_tokens,
};

fn properties() -> Value {
    json!({ "summary": { "type": "string" } })
}

#[derive(Deserialize)]
struct Written {
    summary: String,
}

#[async_trait]
impl Stage for Summarize {
    type Work = Filings;
    type Outcome = Told;

    const NAME: &'static str = "summarize";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        QUESTION.identify(settings, identity);
        identity.bytes(self.reads.as_bytes());
    }

    async fn run(&self, task: &Task<'_, Filings>) -> Result<Output<Told>, Failure> {
        let blob = task.tools.texts.draft(task, &self.draft).await?;
        let missing = || Failure::permanent("model.no_section", format!("the draft has no section {}", self.section));
        let section = blob.tree.section(SectionId(self.section)).ok_or_else(missing)?;
        let user = self.read(task, section).await?;
        let named = |failure: Failure| Failure {
            message: format!("section {}: {}", section.structure, failure.message),
            ..failure
        };
        let asked = QUESTION.ask::<Written>(task, user).await.map_err(named)?;
        let asked = asked.checked(Self::NAME, task, |written| cleaned(&written.summary)).await?;
        let digest = digest_of(&section.title, &asked.value);
        let (key, record) = asked.record;
        let blobs = vec![("summary", asked.value.into())];
        Ok(Output::new(Told { digest, spent: asked.spent }, blobs).with_record(key, record))
    }
}

impl Summarize {
    /// What the model is shown, checked against what the key says.
    async fn read(&self, task: &Task<'_, Filings>, section: &Section) -> Result<String, Failure> {
        let texts = &task.tools.texts;
        let own = texts.section(task, &self.source, section, false).await?;
        let mut reads = Reads::of(digest_of(&section.title, &own), section.children.len());
        let mut shown = format!("{}\n\n{own}", section.title);
        let limit = task.settings.sections.summary_tokens_verbatim;
        for (at, child) in section.children.iter().take(PARTS).enumerate() {
            let (digest, says) = match self.children.get(at).copied().flatten() {
                Some(key) => {
                    let summary = task.blob(&key, "summary").await?;
                    let summary = String::from_utf8_lossy(&summary).into_owned();
                    (digest_of(&child.title, &summary), summary)
                }
                None => {
                    let small = child.tokens < limit;
                    let text = texts.section(task, &self.source, child, small).await?;
                    // Of a part without a summary only the title is shown: its text may be long.
                    (digest_of(&child.title, &text), if small { text } else { String::new() })
                }
            };
            reads.part(digest);
            shown.push_str(&format!("\n\nPart {}: {}\n{says}", at + 1, child.title));
        }
        if section.children.len() > PARTS {
            shown.push_str(&format!("\n\nand {} more parts", section.children.len() - PARTS));
        }
        same_text(Self::NAME, reads.finish(), self.reads)?;
        Ok(fenced("Section", &shown))
    }
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
}

//! The oracle: the correct answer, as far as the question text and the known documents determine it.
//!
//! It sees the question only: it infers the stage from the schema, and the document from the words of its
//! pages.

mod answering;
mod headings;
mod search;
mod summaries;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::behavior::Reading;
use crate::echo;
use crate::question::{PromptBlock, PromptRequest, RequestStage};
use crate::titles::squashed_lines;
use crate::truth::{KnownDocument, Library};

pub use search::Gold;
pub use summaries::is_whole;
pub(crate) use summaries::summary;

/// Answers correctly from a library of documents.
#[derive(Debug, Clone, Default)]
pub struct Oracle {
    library: Library,
    golds: Vec<Gold>,
}

// A question, and what is known of its pages.
struct QuestionContext<'a> {
    document: Option<&'a KnownDocument>,
    pages: Vec<PageBlock<'a>>,
}

// A page in a question.
struct PageBlock<'a> {
    block: &'a PromptBlock,
    // The physical page, if known.
    page: Option<u32>,
    // Without the marks of known headings.
    text: String,
    lines: Vec<String>,
    // Lines (indices) with a mark.
    marked: BTreeSet<usize>,
}

impl Oracle {
    /// An oracle for these documents. Unknown documents are read by their shape.
    pub fn new(library: Library) -> Self {
        Self {
            library,
            golds: Vec::new(),
        }
    }

    /// Adds questions whose answer pages are known.
    #[must_use]
    pub fn with_golds(self, golds: Vec<Gold>) -> Self {
        Self { golds, ..self }
    }

    /// Scores sections and documents for a question, each with an error of at most `noise`; `None` for other
    /// kinds of questions.
    pub(crate) fn judge(&self, question: &PromptRequest, noise: f64, seed: u64) -> Option<Value> {
        question
            .stage
            .is_search()
            .then(|| search::answer(&self.golds, question, noise, seed))
    }

    /// The correct answer, matching the schema; of windows, what `reading` makes of them.
    pub fn answer(&self, question: &PromptRequest, reading: Reading, seed: u64) -> Value {
        match question.stage {
            RequestStage::ReadWindow => {
                let context = self.question_context(question);
                match reading {
                    Reading::Truth => context.read_window(),
                    Reading::Reader => context.read_window_as_reader(seed),
                }
            }
            RequestStage::Summarize => summaries::summarize(question),
            RequestStage::Describe => summaries::describe(question),
            RequestStage::Answer => answering::answer(&self.golds, question),
            RequestStage::Restate => answering::restate(question),
            RequestStage::ChooseTool => answering::choose_tool(question),
            RequestStage::Judge => answering::judge(question),
            _ => echo::fill(question),
        }
    }

    fn question_context<'a>(&'a self, question: &'a PromptRequest) -> QuestionContext<'a> {
        let blocks: Vec<_> = question.blocks_named("Page").collect();
        let texts: Vec<(String, BTreeSet<usize>)> = blocks
            .iter()
            .map(|block| without_marks(&block.text))
            .collect();
        let shown: Vec<&str> = texts.iter().map(|(text, _)| text.as_str()).collect();
        let places = self.library.match_pages(&shown);
        let pages: Vec<_> = blocks
            .into_iter()
            .zip(&places)
            .zip(texts)
            .map(|((block, place), (text, marked))| PageBlock {
                block,
                page: place.map(|place| place.page),
                lines: squashed_lines(&text),
                text,
                marked,
            })
            .collect();
        let doc = places
            .iter()
            .flatten()
            .next()
            .map(|place| place.doc)
            .or_else(|| {
                let lines: Vec<String> = pages.iter().flat_map(|page| page.lines.clone()).collect();
                self.library.by_titles(&lines)
            });
        QuestionContext {
            document: doc.map(|doc| &self.library.documents[doc]),
            pages,
        }
    }
}

// A text without the marks of known headings, and the lines that had one.
fn without_marks(text: &str) -> (String, BTreeSet<usize>) {
    let mut marked = BTreeSet::new();
    let lines = text.lines().enumerate().map(|(at, line)| {
        let after = line.strip_prefix("[level ").and_then(|rest| {
            let (level, title) = rest.split_once("] ")?;
            level
                .bytes()
                .all(|byte| byte.is_ascii_digit())
                .then_some(title)
        });
        if after.is_some() {
            marked.insert(at);
        }
        after.unwrap_or(line)
    });
    (lines.collect::<Vec<_>>().join("\n"), marked)
}

#[cfg(test)]
mod tests;

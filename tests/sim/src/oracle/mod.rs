//! The oracle: the correct answer, as far as the question text and the known documents determine it.
//!
//! It sees the question only: it infers the stage from the schema, and the document from the words of its
//! pages.

mod answering;
mod headings;
mod search;
mod summaries;

use serde_json::{Value, json};

use crate::behavior::TocReading;
use crate::echo;
use crate::question::{PromptBlock, PromptRequest, RequestStage};
use crate::titles::{split_number, squashed_lines};
use crate::toc::{self, PrintedRow};
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
    question: &'a PromptRequest,
    document: Option<&'a KnownDocument>,
    pages: Vec<PageBlock<'a>>,
    reads: TocReading,
}

// A page in a question.
struct PageBlock<'a> {
    block: &'a PromptBlock,
    // The physical page, if known.
    page: Option<u32>,
    lines: Vec<String>,
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

    /// The correct answer, matching the schema.
    pub fn answer(&self, question: &PromptRequest, reads: TocReading) -> Value {
        let reading = self.question_context(question, reads);
        match question.stage {
            RequestStage::DetectToc => reading.detect_toc(),
            RequestStage::ReadContents => reading.read_contents(),
            RequestStage::ReadWindow => reading.read_window(),
            RequestStage::Locate => reading.locate(),
            RequestStage::VerifyTitle => reading.verify_title(),
            RequestStage::Repair => reading.repair(),
            RequestStage::Summarize => summaries::summarize(question),
            RequestStage::Describe => summaries::describe(question),
            RequestStage::Answer => answering::answer(&self.golds, question),
            RequestStage::Restate => answering::restate(question),
            RequestStage::ChooseTool => answering::choose_tool(question),
            RequestStage::Judge => answering::judge(question),
            _ => echo::fill(question),
        }
    }

    fn question_context<'a>(
        &'a self,
        question: &'a PromptRequest,
        reads: TocReading,
    ) -> QuestionContext<'a> {
        let blocks: Vec<_> = question
            .blocks
            .iter()
            .filter(|block: &&PromptBlock| ["Page", "Contents"].contains(&block.name.as_str()))
            .collect();
        let texts: Vec<_> = blocks.iter().map(|block| block.text.as_str()).collect();
        let places = self.library.match_pages(&texts);
        let pages: Vec<_> = blocks
            .into_iter()
            .zip(&places)
            .map(|(block, place)| PageBlock {
                block,
                page: place.map(|place| place.page),
                lines: squashed_lines(&block.text),
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
            question,
            document: doc.map(|doc| &self.library.documents[doc]),
            pages,
            reads,
        }
    }
}

impl QuestionContext<'_> {
    fn detect_toc(&self) -> Value {
        let Some(page) = self.pages.first() else {
            return json!({ "is_contents": false, "has_page_numbers": false });
        };
        let document = self
            .document
            .filter(|document| self.reads == TocReading::Page || document.complete);
        let is_contents = match (self.document, page.page) {
            (Some(_), Some(number)) => {
                document.is_some_and(|document| document.contents.contains(&number))
            }
            _ => toc::looks_like_toc(&page.block.text),
        };
        let rows = toc::rows(&page.block.text, self.document);
        let labeled = rows.iter().filter(|row| !row.label.is_empty()).count();
        json!({ "is_contents": is_contents, "has_page_numbers": is_contents && 2 * labeled >= rows.len().max(1) })
    }

    fn read_contents(&self) -> Value {
        let text = self
            .pages
            .iter()
            .map(|page| page.block.text.as_str())
            .collect::<Vec<_>>()
            .join("\n");
        let mut level = 1;
        let mut entry = |row: PrintedRow| {
            let of = row
                .node
                .zip(self.document)
                .map(|(node, document)| document.truth.nodes[node].level);
            level = of.unwrap_or(level);
            let deeper = if of.is_none() && self.document.is_some() {
                level + 1
            } else {
                level
            };
            let (number, title) = split_number(&row.title);
            json!({ "number": number, "title": title, "label": row.label, "level": deeper })
        };
        let mut rows = toc::rows(&text, self.document);
        if self.reads == TocReading::Truth
            && self.document.is_some_and(|document| !document.complete)
        {
            // A page that is not accepted as a table of contents has no entries.
            rows.clear();
        }
        let listed = rows.into_iter().filter(|row| {
            row.node.is_some() || self.document.is_none() || self.reads == TocReading::Page
        });
        json!({ "entries": listed.map(&mut entry).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests;

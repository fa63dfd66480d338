//! The oracle: the right answer, as far as it stands in the text of a question and in what is known of documents.
//!
//! It is told nothing but the question: the stage by the shape of its answer, the document by the words of its pages.

mod answering;
mod headings;
mod search;
mod words;

use serde_json::{Value, json};

use crate::behavior::Reads;
use crate::contents::{self, Row};
use crate::echo;
use crate::question::{Block, Question, Stage};
use crate::titles::{parts, squashed};
use crate::truth::{Known, Library};

pub use search::Gold;
pub use words::is_whole;
pub(crate) use words::summary;

/// Answers rightly, by a library of documents.
#[derive(Debug, Clone, Default)]
pub struct Oracle {
    library: Library,
    golds: Vec<Gold>,
}

/// A question with what is known about its pages.
struct Reading<'a> {
    question: &'a Question,
    known: Option<&'a Known>,
    pages: Vec<PageBlock<'a>>,
    reads: Reads,
}

/// A page as a question shows it.
struct PageBlock<'a> {
    block: &'a Block,
    /// The physical page it is, where that is known.
    page: Option<u32>,
    lines: Vec<String>,
}

impl Oracle {
    /// An oracle that knows these documents; of others it reads what any careful reader can.
    pub fn new(library: Library) -> Self {
        Self {
            library,
            golds: Vec::new(),
        }
    }

    /// The same, knowing where these questions are answered.
    #[must_use]
    pub fn knowing(self, golds: Vec<Gold>) -> Self {
        Self { golds, ..self }
    }

    /// What it says about sections and documents that may answer a question, each score moved by at most `noise`; `None` where
    /// something else is asked.
    pub(crate) fn judge(&self, question: &Question, noise: f64, seed: u64) -> Option<Value> {
        question
            .stage
            .is_search()
            .then(|| search::answer(&self.golds, question, noise, seed))
    }

    /// The right answer, of the shape that is asked for.
    pub fn answer(&self, question: &Question, reads: Reads) -> Value {
        let reading = self.reading(question, reads);
        match question.stage {
            Stage::DetectToc => reading.detect_toc(),
            Stage::ReadContents => reading.read_contents(),
            Stage::ReadWindow => reading.read_window(),
            Stage::Locate => reading.locate(),
            Stage::VerifyTitle => reading.verify_title(),
            Stage::Repair => reading.repair(),
            Stage::Summarize => words::summarize(question),
            Stage::Describe => words::describe(question),
            Stage::Answer => answering::answer(&self.golds, question),
            Stage::Restate => answering::restate(question),
            Stage::ChooseTool => answering::choose_tool(question),
            Stage::Judge => answering::judge(question),
            _ => echo::fill(question),
        }
    }

    fn reading<'a>(&'a self, question: &'a Question, reads: Reads) -> Reading<'a> {
        let blocks: Vec<_> = question
            .blocks
            .iter()
            .filter(|block: &&Block| ["Page", "Contents"].contains(&block.name.as_str()))
            .collect();
        let texts: Vec<_> = blocks.iter().map(|block| block.text.as_str()).collect();
        let places = self.library.places(&texts);
        let pages: Vec<_> = blocks
            .into_iter()
            .zip(&places)
            .map(|(block, place)| PageBlock {
                block,
                page: place.map(|place| place.page),
                lines: squashed(&block.text),
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
        Reading {
            question,
            known: doc.map(|doc| &self.library.documents[doc]),
            pages,
            reads,
        }
    }
}

impl Reading<'_> {
    fn detect_toc(&self) -> Value {
        let Some(page) = self.pages.first() else {
            return json!({ "is_contents": false, "has_page_numbers": false });
        };
        let known = self
            .known
            .filter(|known| self.reads == Reads::Page || known.complete);
        let is_contents = match (self.known, page.page) {
            (Some(_), Some(number)) => known.is_some_and(|known| known.contents.contains(&number)),
            _ => contents::looks(&page.block.text),
        };
        let rows = contents::rows(&page.block.text, self.known);
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
        let mut entry = |row: Row| {
            let of = row
                .node
                .zip(self.known)
                .map(|(node, known)| known.truth.nodes[node].level);
            level = of.unwrap_or(level);
            let deeper = if of.is_none() && self.known.is_some() {
                level + 1
            } else {
                level
            };
            let (number, title) = parts(&row.title);
            json!({ "number": number, "title": title, "label": row.label, "level": deeper })
        };
        let mut rows = contents::rows(&text, self.known);
        if self.reads == Reads::Truth && self.known.is_some_and(|known| !known.complete) {
            // What is no table of contents to it has no entries.
            rows.clear();
        }
        let kept = rows
            .into_iter()
            .filter(|row| row.node.is_some() || self.known.is_none() || self.reads == Reads::Page);
        json!({ "entries": kept.map(&mut entry).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests;

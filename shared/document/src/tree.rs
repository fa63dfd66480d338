//! The section tree, which is the result of processing a document.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ByteSpan, Doubt, EvidenceSource, Extent, FilingFacts, FilingItem, PageNo, PageSpan, Position,
    SectionId,
};

/// The sections of one version of a document. Depends only on input and settings.
///
/// Made by [`SectionTree::build`] or by an import.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SectionTree {
    /// Size of the document; top sections cover all of it.
    pub extent: Extent,
    /// One sentence that distinguishes the document from others.
    pub description: Option<String>,
    pub facts: FilingFacts,
    pub sections: Vec<Section>,
    /// Items in the order of the form; empty for documents without a form.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub items: Vec<FilingItem>,
    pub references: Vec<Reference>,
    /// The pages that text recognition (OCR) read, in order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub recognized: Vec<RecognizedPage>,
    pub gaps: Vec<Gap>,
    pub provenance: Provenance,
}

/// A page that text recognition (OCR) read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecognizedPage {
    pub page: PageNo,
    pub words: u32,
    /// Words in doubt.
    pub doubtful: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Section {
    /// Pre-order, from 0.
    pub id: SectionId,
    /// Dotted position in the tree: `1.2.3`, 1-based.
    pub structure: String,
    /// The title as printed.
    pub title: String,
    /// The printed number (`1A`, `2.3`).
    pub number: Option<String>,
    pub kind: SectionKind,
    /// Includes descendants.
    pub span: SectionSpan,
    /// The place of its text in the file, with descendants; only in HTML.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<ByteSpan>,
    /// Whether its heading is the first line of its page, apart from running heads.
    pub starts_page: bool,
    /// Whether its title was found at its location.
    pub verified: bool,
    #[serde(rename = "witness")]
    pub evidence: EvidenceSource,
    /// o200k tokens of its own text, without descendants.
    pub own_tokens: u32,
    /// o200k tokens including descendants.
    pub tokens: u32,
    pub summary: Option<Summary>,
    pub children: Vec<Section>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionKind {
    Heading,
    /// The text before the first heading.
    Preface,
    /// A page window or a numbered part of a text without headings.
    Window,
}

/// The range of a section. Its text runs from its heading (`from`) to the heading of the next section that is not its
/// descendant (`to`, exclusive).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionSpan {
    Pages {
        pages: PageSpan,
        from: Position,
        /// `None` at the end of the document.
        to: Option<Position>,
    },
    /// Lines `start..=end`, 1-based.
    Lines { start: u32, end: u32 },
}

impl SectionSpan {
    /// `None` in texts without pages.
    pub fn pages(self) -> Option<PageSpan> {
        match self {
            SectionSpan::Pages { pages, .. } => Some(pages),
            SectionSpan::Lines { .. } => None,
        }
    }

    /// First and last page or line, 1-based.
    pub fn bounds(self) -> (u32, u32) {
        match self {
            SectionSpan::Pages { pages, .. } => pages.bounds(),
            SectionSpan::Lines { start, end } => (start, end),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub text: String,
    /// `offline` (extractive), `verbatim` (the section is its own summary), `imported`, or the name of a model.
    pub by: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// PDF bookmarks.
    Outline,
    ContentsLinks,
    PrintedContents,
    Layout,
    Markup,
    Model,
    /// A person corrected the outline of the rules or of a model.
    Person,
    /// Page windows, since no headings were found.
    Windows,
    Imported,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    pub method: Method,
    /// `None` in imported trees and in those made before doubt was assessed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub doubt: Option<Doubt>,
    /// A model name, or `offline`.
    pub model: String,
    /// Stage name → revision.
    pub revisions: BTreeMap<String, u32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answers: Option<ModelAnswers>,
}

/// Use of a model for one tree. Counts accepted replies only; the total cost, including retries, is in the call log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelAnswers {
    /// A reply used twice counts once.
    pub calls: u32,
    pub prompt_tokens: u64,
    pub output_tokens: u64,
    /// Headings that the model named.
    #[serde(default)]
    pub titles_named: u32,
    /// The titles that are on their pages.
    #[serde(default)]
    pub titles_located: u32,
    /// The titles that became sections.
    #[serde(default)]
    pub titles_added: u32,
    #[serde(default)]
    pub described: bool,
    /// Names of proposed facts that were dropped, since the text does not contain them or rules found another value.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub facts_dropped: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The section whose own text contains the mention.
    pub from: SectionId,
    /// As printed, white space collapsed: `Note 15`, `Item 7`, `page 12`.
    pub text: String,
    pub to: ReferenceTarget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceTarget {
    Section(SectionId),
    Unresolved,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Stable code, e.g. `outline.entry_not_found`, `pdf.no_text`.
    pub code: String,
    pub pages: Option<PageSpan>,
    /// One sentence, lower case, no full stop.
    pub detail: String,
}

impl Gap {
    pub fn new(code: &str, detail: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            pages: None,
            detail: detail.into(),
        }
    }

    /// Whether a gap with this code means that content is missing or doubtful. Others are notes: an announced
    /// section that other evidence replaces, a page of pictures, pages that text recognition read, the files for machines in a submission, or a tagged fact without a value.
    pub fn is_warning(code: &str) -> bool {
        const NOTES: [&str; 12] = [
            "edgar.parts_skipped",
            "html.pictures",
            "html.style_sheets",
            "ocr.no_engine",
            "ocr.no_model",
            "ocr.recognized",
            "outline.entry_not_found",
            "pdf.little_text",
            "pdf.remarks",
            "pdf.text_invisible",
            "structure.contents_rejected",
            "structure.outline_rejected",
        ];
        !NOTES.contains(&code) && !code.starts_with("xbrl.")
    }
}

impl SectionTree {
    /// All sections in pre-order with their 1-based depths.
    pub fn walk(&self) -> impl Iterator<Item = (usize, &Section)> {
        // Reversed, so that the first section is on top of the stack.
        let mut stack: Vec<(usize, &Section)> = self
            .sections
            .iter()
            .rev()
            .map(|section| (1, section))
            .collect();
        std::iter::from_fn(move || {
            let (depth, section) = stack.pop()?;
            stack.extend(
                section
                    .children
                    .iter()
                    .rev()
                    .map(|child| (depth + 1, child)),
            );
            Some((depth, section))
        })
    }

    /// The path from a top section to `id`; empty if there is no such section.
    pub fn path_to(&self, id: SectionId) -> Vec<&Section> {
        self.path_while(id, |section| section.id <= id)
    }

    // Ids are pre-order, so the subtree that contains `id` is the last of its level that starts at or before it. It is found by
    // bisection: a document may have any number of sections at one level, and callers look up each of them.
    fn path_while(
        &self,
        id: SectionId,
        mut starts_by: impl FnMut(&Section) -> bool,
    ) -> Vec<&Section> {
        let mut path = Vec::new();
        let mut level = &self.sections;
        while let Some(at) = level.partition_point(&mut starts_by).checked_sub(1) {
            let section = &level[at];
            path.push(section);
            if section.id == id {
                return path;
            }
            level = &section.children;
        }
        Vec::new()
    }

    pub fn section(&self, id: SectionId) -> Option<&Section> {
        self.path_to(id).pop()
    }

    /// The pages of a section that text recognition read.
    pub fn recognized_pages(&self, section: &Section) -> &[RecognizedPage] {
        let SectionSpan::Pages { pages, .. } = section.span else {
            return &[];
        };
        let start = self
            .recognized
            .partition_point(|read| read.page < pages.start());
        let end = self
            .recognized
            .partition_point(|read| read.page <= pages.end());
        self.recognized.get(start..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DraftEntry, EntryVerdict, LocatedEntry, SectionStart, VerifiedOutline};

    // One section for each line, all of one level.
    fn flat_tree(sections: u32) -> SectionTree {
        let judged = (1..=sections).map(|line| {
            let entry = DraftEntry {
                number: None,
                title: format!("Section {line}"),
                label: None,
                target: None,
                level: 1,
                evidence: EvidenceSource::Markup,
            };
            let place = SectionStart::Line(line);
            let verdict = EntryVerdict::Confirmed { starts_page: false };
            (LocatedEntry { entry, place }, verdict)
        });
        let outline = VerifiedOutline::new(Extent::Lines(sections), judged.collect());
        SectionTree::build(&outline.unwrap(), Method::Markup, Vec::new())
    }

    #[test]
    fn a_section_is_found_without_a_walk_over_its_level() {
        let sections = 50_000;
        let tree = flat_tree(sections);
        let mut compared = 0;
        for id in (0..sections).map(SectionId) {
            let path = tree.path_while(id, |section| {
                compared += 1;
                section.id <= id
            });
            assert_eq!(path.last().map(|section| section.id), Some(id));
        }
        assert!(compared <= sections * 17, "{compared}");
        assert_eq!(tree.section(SectionId(sections)), None);
    }
}

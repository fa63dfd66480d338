//! The section tree: what Stemma makes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    EvidenceSource, Extent, FilingFacts, FilingItem, PageNo, PageSpan, Position, SectionId,
};

/// The sections of one version of one document. It holds only what input and settings determine.
///
/// Made by [`SectionTree::build`] from a [`VerifiedOutline`](crate::VerifiedOutline), or imported; never by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SectionTree {
    /// Pages or lines of the document; every one is covered by a top section.
    pub extent: Extent,
    /// One sentence that tells this document from others.
    pub description: Option<String>,
    /// What the document says about itself.
    pub facts: FilingFacts,
    /// Top sections in reading order; ids are pre-order.
    pub sections: Vec<Section>,
    /// The Items of the form it is on, in the order of the form; empty where it is on none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub items: Vec<FilingItem>,
    /// Mentions of other places in the document, resolved where possible.
    pub references: Vec<Reference>,
    /// What is missing or doubtful, with its reason (I-10).
    pub gaps: Vec<Gap>,
    /// How the tree came to be.
    pub provenance: Provenance,
}

/// One section with its descendants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Section {
    /// Pre-order, from 0.
    pub id: SectionId,
    /// Place among its siblings from the top: `1.2.3`, counted from 1.
    pub structure: String,
    /// The title as it stands in the document.
    pub title: String,
    /// The number the document gives it (`1A`, `2.3`), if any.
    pub number: Option<String>,
    /// What kind of node it is.
    pub kind: SectionKind,
    /// Where it lies, descendants included.
    pub span: SectionSpan,
    /// Whether nothing stands above its heading on its first page.
    pub starts_page: bool,
    /// Whether its title was found where it was located.
    pub verified: bool,
    /// Who says that it exists.
    #[serde(rename = "witness")]
    pub evidence: EvidenceSource,
    /// Tokens of its own text, without descendants (o200k).
    pub own_tokens: u32,
    /// Tokens of its own text and all descendants'.
    pub tokens: u32,
    /// What it is about.
    pub summary: Option<Summary>,
    /// Sub-sections in reading order.
    pub children: Vec<Section>,
}

/// What kind of node a section is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionKind {
    /// Has a heading of its own in the document.
    Heading,
    /// What stands before the first heading.
    Preface,
    /// A window of pages or a numbered part of a text without headings: declared, not found.
    Window,
}

/// Where a section lies. `from` is the line of its heading, `to` the line of the next section that is not its
/// descendant: its text runs from `from` up to but not including `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionSpan {
    /// In a document with pages.
    Pages {
        /// First and last page, 1-based and inclusive.
        pages: PageSpan,
        /// Where its text starts.
        from: Position,
        /// Where its text ends (exclusive); `None`: at the end of the document.
        to: Option<Position>,
    },
    /// In a text: lines `start..=end`, 1-based.
    Lines {
        /// First line (of the heading).
        start: u32,
        /// Last line.
        end: u32,
    },
}

impl SectionSpan {
    /// The pages; `None` for a text without pages.
    pub fn pages(self) -> Option<PageSpan> {
        match self {
            SectionSpan::Pages { pages, .. } => Some(pages),
            SectionSpan::Lines { .. } => None,
        }
    }
}

/// A summary of a section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The text.
    pub text: String,
    /// Which rule or model made it: `offline` (extractive), `verbatim` (the section is its own summary), a model's name.
    pub by: String,
}

/// How most of the sections were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The outline embedded in the file.
    Outline,
    /// Links on a contents page.
    ContentsLinks,
    /// A printed table of contents.
    PrintedContents,
    /// Headings by layout and form grammar.
    Layout,
    /// The format's own marks.
    Markup,
    /// A model that read all pages.
    Model,
    /// Nothing was found: windows of pages.
    Windows,
    /// Imported from another program.
    Imported,
}

/// How a tree came to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The method that carried most sections.
    pub method: Method,
    /// Share of claimed titles found where they were located (0–1, rounded to 0.001).
    pub accuracy: f32,
    /// The model that was asked, or `offline`.
    pub model: String,
    /// Stage name → revision of everything that took part.
    pub revisions: BTreeMap<String, u32>,
    /// What the model answered, where one was asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answers: Option<ModelAnswers>,
}

/// What a model answered about a document. Only answers that count are in it: what they cost in the end, with all tries,
/// stands in the call log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelAnswers {
    /// Answers; one that serves two places counts once.
    pub calls: u32,
    /// Tokens of their prompts.
    pub prompt_tokens: u64,
    /// Tokens of the answers.
    pub output_tokens: u64,
    /// The first pages it takes for a printed table of contents, 1-based.
    pub contents_pages: Vec<PageNo>,
    /// Titles it was asked to look for.
    pub titles_asked: u32,
    /// Those of them that it found where they were located.
    pub titles_confirmed: u32,
    /// Whether the description is its own.
    #[serde(default)]
    pub described: bool,
    /// Names of facts it stated that are not in the tree: they do not stand in what it was shown, or rules read another
    /// value there.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub facts_dropped: Vec<String>,
}

/// A mention of another place of the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The section whose own text has the mention.
    pub from: SectionId,
    /// The mention as written, white space folded: `Note 15`, `Item 7`, `page 12`.
    pub text: String,
    /// Where it leads.
    pub to: ReferenceTarget,
}

/// Where a mention leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceTarget {
    /// To this section.
    Section(SectionId),
    /// Nowhere in this tree.
    Unresolved,
}

/// Something missing or doubtful.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Stable code, e.g. `outline.entry_not_found`, `pdf.no_text`.
    pub code: String,
    /// The pages it concerns.
    pub pages: Option<PageSpan>,
    /// One sentence, lower case, no full stop.
    pub detail: String,
}

impl SectionTree {
    /// All sections in pre-order with their depth (1 for top sections).
    pub fn walk(&self) -> impl Iterator<Item = (usize, &Section)> {
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

    /// The sections from the top down to `id`; empty when there is none.
    pub fn path_to(&self, id: SectionId) -> Vec<&Section> {
        let mut path = Vec::new();
        let mut level = &self.sections;
        // Ids are pre-order, so the subtree that holds `id` is the last one that starts at or before it.
        while let Some(section) = level.iter().rev().find(|section| section.id <= id) {
            path.push(section);
            if section.id == id {
                return path;
            }
            level = &section.children;
        }
        Vec::new()
    }

    /// The section with this id.
    pub fn section(&self, id: SectionId) -> Option<&Section> {
        self.path_to(id).pop()
    }
}

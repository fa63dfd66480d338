//! Documents, sections and pages as they appear in responses.

use std::fmt;

use serde::Serialize;
use stemma_catalog::catalog::{CatalogDocument, DocumentState};
use stemma_document::rounding::rounded_share;
use stemma_document::{
    Extent, FilingFacts, Method, Page, PageNo, Recognition, RecognizedPage, Section, SectionKind,
    SectionSpan, SectionTree,
};
use stemma_store::FailureRecord;
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DocumentInfo {
    pub doc_id: String,
    /// File name, for display.
    pub name: String,
    pub locator: String,
    /// Path as ingested.
    pub path: String,
    #[schema(value_type = String)]
    pub state: DocumentState,
    pub version: u64,
    /// Pages; `None` for texts without pages.
    pub pages: Option<u32>,
    /// Lines; `None` for documents with pages.
    pub lines: Option<u32>,
    /// Sections of its tree.
    pub sections: Option<u32>,
    /// Tokens of its text (o200k).
    pub tokens: Option<u32>,
    /// Method that built the tree.
    #[schema(value_type = Option<String>)]
    pub method: Option<Method>,
    /// Doubt about its tree (0–1): 0.5 and more means that it may mislead.
    pub doubt: Option<f64>,
    /// Codes of gaps in its tree.
    pub gaps: Vec<String>,
    /// Facts stated in the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub facts: Option<FilingFacts>,
    /// One sentence.
    pub description: Option<String>,
    /// When its tree was published, in milliseconds since 1970-01-01 UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_ms: Option<u64>,
    /// Failure of the newest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureInfo>,
}

impl DocumentInfo {
    /// Describes a listed document.
    pub fn from_catalog(listed: &CatalogDocument) -> Self {
        let version = listed.version();
        let entry = listed.entry();
        let extent = entry.map(|entry| entry.extent);
        Self {
            doc_id: version.doc.to_string(),
            name: version.name.clone(),
            locator: listed.label.clone(),
            path: version.path.clone(),
            state: listed.state,
            version: version.seq,
            pages: extent.and_then(Extent::pages),
            lines: extent
                .filter(|extent| extent.pages().is_none())
                .map(Extent::size),
            sections: entry.map(|entry| entry.sections),
            tokens: entry.map(|entry| entry.tokens),
            method: entry.map(|entry| entry.method),
            doubt: entry.and_then(|entry| entry.doubt).map(rounded_share),
            gaps: entry.map(|entry| entry.gaps.clone()).unwrap_or_default(),
            facts: entry.map(|entry| entry.facts.clone()),
            description: entry.and_then(|entry| entry.description.clone()),
            published_ms: listed.published_ms,
            failure: listed.failure.as_deref().map(FailureInfo::from_record),
        }
    }
}

/// A recorded failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FailureInfo {
    /// Stable code.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// What to do.
    pub next: Option<String>,
    /// The stage that failed.
    pub stage: String,
    pub attempts: u32,
    /// Milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
}

impl FailureInfo {
    /// Describes a failure record.
    pub fn from_record(record: &FailureRecord) -> Self {
        Self {
            code: record.code.clone(),
            message: record.message.clone(),
            next: record.next.clone(),
            stage: record.stage.clone(),
            attempts: record.attempts,
            at_ms: record.at_ms,
        }
    }
}

/// A section, without its text and children.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SectionInfo {
    /// Its id in this version of the tree.
    pub section_id: String,
    /// Position in the tree: `1.2.3`.
    pub structure: String,
    pub title: String,
    pub locator: String,
    #[schema(value_type = String)]
    pub kind: SectionKind,
    /// First and last physical page.
    pub pages: Option<(u32, u32)>,
    /// First and last line of a text.
    pub lines: Option<(u32, u32)>,
    /// First byte of its text in the file, and the byte behind the last; only in HTML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<(u32, u32)>,
    /// Tokens with all sub-sections.
    pub tokens: u32,
    /// Whether its title was found where it was located.
    pub verified: bool,
    /// Present if text recognition (OCR) read pages of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ocr: Option<SectionRecognition>,
}

impl SectionInfo {
    /// Describes a section of `tree`, the tree of the document with this label.
    pub fn new(tree: &SectionTree, section: &Section, label: &str) -> Self {
        let (pages, lines) = match section.span {
            SectionSpan::Pages { pages, .. } => (Some(pages.bounds()), None),
            SectionSpan::Lines { start, end } => (None, Some((start, end))),
        };
        Self {
            section_id: section.id.to_string(),
            structure: section.structure.clone(),
            title: section.title.clone(),
            locator: stemma_catalog::locator::section_locator(label, section.id),
            kind: section.kind,
            pages,
            lines,
            bytes: section.bytes.map(|bytes| (bytes.start, bytes.end)),
            tokens: section.tokens,
            verified: section.verified,
            ocr: SectionRecognition::from_pages(tree.recognized_pages(section)),
        }
    }
}

/// What text recognition (OCR) read of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct SectionRecognition {
    /// Pages of the section that it read.
    pub pages: u32,
    /// Words on these pages.
    pub words: u32,
    /// The words in doubt.
    pub doubtful: u32,
}

impl SectionRecognition {
    /// What it read of these pages; `None` if there are none.
    pub fn from_pages(pages: &[RecognizedPage]) -> Option<Self> {
        let sum =
            |part: fn(&RecognizedPage) -> u32| pages.iter().map(part).fold(0, u32::saturating_add);
        (!pages.is_empty()).then(|| Self {
            pages: sum(|_| 1),
            words: sum(|page| page.words),
            doubtful: sum(|page| page.doubtful),
        })
    }
}

impl fmt::Display for SectionRecognition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pages,
            words,
            doubtful,
        } = self;
        let noun = if *pages == 1 { "page" } else { "pages" };
        write!(
            f,
            "text recognition read {pages} {noun}; {doubtful} of {words} words are in doubt"
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PageContent {
    /// Physical page, from 1.
    pub page: u32,
    /// Printed page number, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub locator: String,
    pub tokens: u32,
    pub text: String,
    /// Present if text recognition (OCR) read the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ocr: Option<PageRecognition>,
}

/// What text recognition says about a page that it read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PageRecognition {
    /// Mean confidence of its words, in percent.
    pub confidence: u8,
    /// Words in doubt, in reading order.
    pub doubtful: Vec<String>,
    /// The words that another reader, a second model or a vision model, read differently.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disputed: Vec<DisputedFigure>,
}

/// A word that two readers read differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DisputedFigure {
    /// As it is in the text.
    pub text: String,
    /// What the second reader read; empty if it read nothing.
    pub other: String,
}

impl PageRecognition {
    /// `None` if the file states the text of the page.
    pub fn from_page(page: &Page) -> Option<Self> {
        let read = page.recognition()?;
        let words = page.lines.iter().flat_map(|line| {
            line.words
                .iter()
                .map(|word| line.text.get(word.start as usize..word.end as usize))
        });
        let mut doubtful = Vec::new();
        let mut disputed = Vec::new();
        for (word, reading) in words.zip(read.words()) {
            let word = word.unwrap_or_default();
            if reading.confidence < Recognition::SURE {
                doubtful.push(word.to_owned());
            }
            disputed.extend(reading.other.map(|other| DisputedFigure {
                text: word.to_owned(),
                other,
            }));
        }
        Some(Self {
            confidence: read.mean(),
            doubtful,
            disputed,
        })
    }
}

impl PageContent {
    pub(crate) fn new(number: PageNo, page: &Page, locator: &str) -> Self {
        Self {
            page: number.get(),
            label: printed_label(number, page),
            locator: stemma_catalog::locator::page_locator(locator, number),
            tokens: page.tokens(),
            text: page.text(),
            ocr: PageRecognition::from_page(page),
        }
    }
}

/// The label of a page where it differs from its number.
pub fn printed_label(number: PageNo, page: &Page) -> Option<String> {
    page.label
        .as_ref()
        .map(|label| label.0.clone())
        .filter(|label| *label != number.to_string())
}

//! Questions about structure: their contents, prompts and answers.
//!
//! `draft_outline` creates them. The stages that ask them get a reference, and read the text again.

use serde::{Deserialize, Serialize};
use stemma_document::{Digest, Page, PageNo, PageSpan, SectionStart};
use stemma_engine::TaskKey;
use stemma_llm::untrusted::delimit;

use super::prompt_text::{excerpt_lines, page_text};
use super::usage::StageUsage;

/// Kinds of questions, each named like the stage that asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    DetectToc,
    ReadContents,
    ReadWindow,
    Locate,
    VerifyTitle,
    Repair,
}

/// Identifies a question by its kind and the digest of its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QuestionId {
    pub kind: QuestionKind,
    /// Digest of the prompt.
    pub reads: Digest,
}

/// Where a stage finds its question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionRef {
    /// Digest of the prompt.
    pub reads: Digest,
    /// The artifact whose blob `source` holds the text.
    pub source: TaskKey,
    /// The artifact whose blob `asks` holds the question.
    pub round: TaskKey,
    /// Index in that blob.
    pub at: u32,
}

/// A question without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StructureQuestion {
    DetectToc {
        page: PageNo,
    },
    ReadContents {
        pages: PageSpan,
    },
    ReadWindow {
        before: Option<PageNo>,
        pages: PageSpan,
    },
    Locate {
        titles: Vec<String>,
        pages: PageSpan,
    },
    VerifyTitle {
        title: String,
        place: SectionStart,
    },
    Repair {
        title: String,
        pages: PageSpan,
    },
}

pub(crate) enum QuestionText<'a> {
    /// Consecutive pages, and the number of the first.
    Pages(PageNo, &'a [Page]),
    /// All lines of a text without pages.
    Lines(&'a [String]),
}

/// A bounded answer. Pages, entries and titles are counted from 1 within the question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructureAnswer {
    Contents {
        is_contents: bool,
        has_page_numbers: bool,
    },
    /// In order.
    Entries(Vec<TocEntry>),
    /// In order.
    Sections(Vec<WindowSection>),
    /// Entry and page of each title that was found.
    #[serde(rename = "found")]
    Located(Vec<(u32, u32)>),
    /// Whether a title is a heading on its page.
    #[serde(rename = "stands")]
    TitleCheck {
        stands: bool,
        /// Whether nothing of another section is above it.
        starts_page: bool,
    },
    /// The page of a title; 0 if it is on none.
    Page(u32),
}

/// An entry of a table of contents. Empty fields are not stated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TocEntry {
    pub number: String,
    pub title: String,
    /// Printed page number.
    pub label: String,
    /// 1 is the highest.
    pub level: u16,
}

/// A section that begins on a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSection {
    /// Empty if it has none.
    pub number: String,
    pub title: String,
    /// Counted within the question.
    pub page: u32,
    /// 1 is the highest.
    pub level: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructureReply {
    #[serde(rename = "said")]
    pub answer: StructureAnswer,
    #[serde(rename = "spent")]
    pub usage: StageUsage,
}

impl StructureQuestion {
    pub(crate) fn kind(&self) -> QuestionKind {
        match self {
            Self::DetectToc { .. } => QuestionKind::DetectToc,
            Self::ReadContents { .. } => QuestionKind::ReadContents,
            Self::ReadWindow { .. } => QuestionKind::ReadWindow,
            Self::Locate { .. } => QuestionKind::Locate,
            Self::VerifyTitle { .. } => QuestionKind::VerifyTitle,
            Self::Repair { .. } => QuestionKind::Repair,
        }
    }

    /// `None` in a text without pages.
    pub(crate) fn pages(&self) -> Option<PageSpan> {
        match self {
            Self::DetectToc { page } => Some(PageSpan::between(*page, *page)),
            Self::ReadContents { pages }
            | Self::Locate { pages, .. }
            | Self::Repair { pages, .. } => Some(*pages),
            Self::ReadWindow { before, pages } => Some(PageSpan::between(
                before.unwrap_or(pages.start()),
                pages.end(),
            )),
            Self::VerifyTitle {
                place: SectionStart::Page(at),
                ..
            } => Some(PageSpan::between(at.page, at.page)),
            Self::VerifyTitle {
                place: SectionStart::Line(_),
                ..
            } => None,
        }
    }

    /// The prompt: delimited blocks of data, with pages numbered from 1 within the question.
    pub(crate) fn prompt(&self, text: &QuestionText<'_>) -> String {
        let blocks = match self {
            Self::DetectToc { page: no } => vec![delimit("Page", &text.page(*no, None))],
            Self::ReadContents { pages } => text.numbered("Contents", *pages),
            Self::ReadWindow { before, pages } => {
                let before = before.map(|no| delimit("Before", &text.page(no, None)));
                before
                    .into_iter()
                    .chain(text.numbered("Page", *pages))
                    .collect()
            }
            Self::Locate { titles, pages } => titles
                .iter()
                .enumerate()
                .map(|(at, title): (usize, &String)| delimit(&format!("Title {}", at + 1), title))
                .chain(text.numbered("Page", *pages))
                .collect(),
            Self::VerifyTitle { title, place } => {
                vec![
                    delimit("Title", title),
                    delimit("Page", &text.around(*place)),
                ]
            }
            Self::Repair { title, pages } => std::iter::once(delimit("Title", title))
                .chain(text.numbered("Page", *pages))
                .collect(),
        };
        blocks.join("\n\n")
    }

    pub(crate) fn id(&self, text: &QuestionText<'_>) -> QuestionId {
        QuestionId {
            kind: self.kind(),
            reads: Digest::from_content(self.prompt(text).as_bytes()),
        }
    }
}

impl QuestionText<'_> {
    /// Delimited pages, numbered from 1.
    fn numbered(&self, name: &str, pages: PageSpan) -> Vec<String> {
        pages
            .pages()
            .zip(1..)
            .map(|(page, number): (PageNo, usize)| {
                delimit(&format!("{name} {number}"), &self.page(page, None))
            })
            .collect()
    }

    // `keep_line` stays even if it looks like a running head. Empty if the page is not part of the text.
    fn page(&self, page: PageNo, keep_line: Option<u32>) -> String {
        let Self::Pages(first, pages) = self else {
            return String::new();
        };
        let at = page.index().checked_sub(first.index());
        at.and_then(|at| pages.get(at))
            .map(|page| page_text(page, keep_line))
            .unwrap_or_default()
    }

    // The page of a place, or its line and the lines below.
    fn around(&self, place: SectionStart) -> String {
        match (place, self) {
            (SectionStart::Page(at), _) => self.page(at.page, Some(at.line)),
            (SectionStart::Line(line), Self::Lines(lines)) => excerpt_lines(lines, line),
            (SectionStart::Line(_), Self::Pages(..)) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_numbers_pages_from_one() {
        let pages = [Page::default(), Page::default(), Page::default()];
        let question = StructureQuestion::ReadWindow {
            before: PageNo::new(7),
            pages: PageSpan::new(8, 9).unwrap(),
        };
        let prompt = question.prompt(&QuestionText::Pages(PageNo::new(7).unwrap(), &pages));
        let names: Vec<&str> = prompt.lines().filter(|line| line.ends_with(':')).collect();
        assert_eq!(names, ["Before:", "Page 1:", "Page 2:"]);
        assert_eq!(question.pages(), PageSpan::new(7, 9));
    }

    #[test]
    fn question_id_ignores_page_position() {
        let pages = [Page::default()];
        let question_id = |no: u32| {
            let page = PageNo::new(no).unwrap();
            StructureQuestion::DetectToc { page }.id(&QuestionText::Pages(page, &pages))
        };
        assert_eq!(question_id(3), question_id(4));
    }
}

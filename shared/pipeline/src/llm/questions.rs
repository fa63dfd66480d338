//! Questions about structure: what each holds, how it is put before a model, and what may be said to it.
//!
//! The stage that finds the outline makes them; the stages that ask them are given where they lie, and read the text anew.

use serde::{Deserialize, Serialize};
use stemma_document::{Digest, Page, PageNo, PageSpan, SectionStart};
use stemma_engine::TaskKey;
use stemma_llm::untrusted::delimit;

use super::text_cache::excerpt_lines;
use super::{StageUsage, page_text};

/// The kinds of questions about structure, each named as the stage that asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// Is this page a table of contents?
    DetectToc,
    /// What does this table of contents list?
    ReadContents,
    /// Which sections begin on these pages?
    ReadWindow,
    /// On which of these pages do these sections begin?
    Locate,
    /// Does this title stand on this page?
    VerifyTitle,
    /// On which of these pages does this title stand, if on any?
    Repair,
}

/// A question by its kind and the digest of exactly what it puts before the model: all that tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QuestionId {
    /// What is asked.
    pub kind: QuestionKind,
    /// Digest of the text it is asked about.
    pub reads: Digest,
}

/// Where a stage finds the question it is to ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionRef {
    /// Digest of what the question puts before the model.
    pub reads: Digest,
    /// The artifact whose blob `source` holds the text.
    pub source: TaskKey,
    /// The artifact whose blob `asks` holds the question.
    pub round: TaskKey,
    /// Its index there.
    pub at: u32,
}

/// A question without the text it is about.
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

/// The text a question is about.
pub(crate) enum QuestionText<'a> {
    /// Pages, the first of which has this number.
    Pages(PageNo, &'a [Page]),
    /// All lines of a text without pages.
    Lines(&'a [String]),
}

/// What a model said, bounded and typed. Pages, entries and titles are those of its own question, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructureAnswer {
    /// Whether a page is a table of contents, and whether it prints page numbers.
    Contents {
        /// The verdict.
        is_contents: bool,
        /// Whether its entries carry the numbers of pages.
        has_page_numbers: bool,
    },
    /// The entries of a table of contents, in order.
    Entries(Vec<TocEntry>),
    /// The sections that begin on pages, in order.
    Sections(Vec<WindowSection>),
    /// Entry and page of each title that was found.
    #[serde(rename = "found")]
    Located(Vec<(u32, u32)>),
    /// Whether a title stands on its page as a heading.
    #[serde(rename = "stands")]
    TitleCheck {
        /// The verdict.
        stands: bool,
        /// Whether nothing of another section stands above it.
        starts_page: bool,
    },
    /// The page a title stands on; 0: on none.
    Page(u32),
}

/// An entry of a table of contents; empty: not stated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TocEntry {
    /// The number of the section.
    pub number: String,
    /// Its title.
    pub title: String,
    /// The printed page number.
    pub label: String,
    /// 1 is the highest.
    pub level: u16,
}

/// A section that begins on a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSection {
    /// The number of the section; empty where it has none.
    pub number: String,
    /// Its title.
    pub title: String,
    /// The page, as the question counts.
    pub page: u32,
    /// 1 is the highest.
    pub level: u16,
}

/// An answer with what it cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructureReply {
    /// What was said.
    #[serde(rename = "said")]
    pub answer: StructureAnswer,
    /// What it cost.
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

    /// The pages it is about; `None` in a text without pages.
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

    /// What is put before the model: blocks of data, pages numbered from 1 within the question.
    pub(crate) fn prompt(&self, text: &QuestionText<'_>) -> String {
        let page = |page: PageNo| text.page(page, None);
        let numbered = |name: &str, pages: PageSpan| {
            pages
                .pages()
                .enumerate()
                .map(|(at, no): (usize, PageNo)| delimit(&format!("{name} {}", at + 1), &page(no)))
                .collect::<Vec<_>>()
        };
        let blocks = match self {
            Self::DetectToc { page: no } => vec![delimit("Page", &page(*no))],
            Self::ReadContents { pages } => numbered("Contents", *pages),
            Self::ReadWindow { before, pages } => {
                let before = before.map(|no| delimit("Before", &page(no)));
                before.into_iter().chain(numbered("Page", *pages)).collect()
            }
            Self::Locate { titles, pages } => titles
                .iter()
                .enumerate()
                .map(|(at, title): (usize, &String)| delimit(&format!("Title {}", at + 1), title))
                .chain(numbered("Page", *pages))
                .collect(),
            Self::VerifyTitle { title, place } => {
                vec![
                    delimit("Title", title),
                    delimit("Page", &text.around(*place)),
                ]
            }
            Self::Repair { title, pages } => std::iter::once(delimit("Title", title))
                .chain(numbered("Page", *pages))
                .collect(),
        };
        blocks.join("\n\n")
    }

    /// What tells it from other questions.
    pub(crate) fn id(&self, text: &QuestionText<'_>) -> QuestionId {
        QuestionId {
            kind: self.kind(),
            reads: Digest::from_content(self.prompt(text).as_bytes()),
        }
    }
}

impl QuestionText<'_> {
    /// The text of a page, with line `kept` though it may look like a running head; empty where it is not shown.
    fn page(&self, page: PageNo, keep_line: Option<u32>) -> String {
        let Self::Pages(first, pages) = self else {
            return String::new();
        };
        let at = page.index().checked_sub(first.index());
        at.and_then(|at| pages.get(at))
            .map(|page| page_text(page, keep_line))
            .unwrap_or_default()
    }

    /// The text around a place: its page, or its line and the lines below.
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

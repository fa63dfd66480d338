//! Questions about structure: what each holds, how it is put before a model, and what may be said to it.
//!
//! The stage that finds the outline makes them; the stages that ask them are given where they lie, and read the text anew.

use serde::{Deserialize, Serialize};
use stemma_document::{Digest, Page, PageNo, PageSpan, Place};
use stemma_engine::TaskKey;
use stemma_llm::fence::fenced;

use super::texts::entry_lines;
use super::{Spent, page_text};

/// The kinds of questions about structure, each named as the stage that asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
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
    pub kind: Kind,
    /// Digest of the text it is asked about.
    pub reads: Digest,
}

/// Where a stage finds the question it is to ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
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
pub(crate) enum Ask {
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
        place: Place,
    },
    Repair {
        title: String,
        pages: PageSpan,
    },
}

/// The text a question is about.
pub(crate) enum Shown<'a> {
    /// Pages, the first of which has this number.
    Pages(PageNo, &'a [Page]),
    /// All lines of a text without pages.
    Lines(&'a [String]),
}

/// What a model said, bounded and typed. Pages, entries and titles are those of its own question, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// Whether a page is a table of contents, and whether it prints page numbers.
    Contents {
        /// The verdict.
        is_contents: bool,
        /// Whether its entries carry the numbers of pages.
        has_page_numbers: bool,
    },
    /// The entries of a table of contents, in order.
    Entries(Vec<Listed>),
    /// The sections that begin on pages, in order.
    Sections(Vec<Begun>),
    /// Entry and page of each title that was found.
    Found(Vec<(u32, u32)>),
    /// Whether a title stands on its page as a heading.
    Stands {
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
pub struct Listed {
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
pub struct Begun {
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
pub struct Reply {
    /// What was said.
    pub said: Said,
    /// What it cost.
    pub spent: Spent,
}

impl Ask {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::DetectToc { .. } => Kind::DetectToc,
            Self::ReadContents { .. } => Kind::ReadContents,
            Self::ReadWindow { .. } => Kind::ReadWindow,
            Self::Locate { .. } => Kind::Locate,
            Self::VerifyTitle { .. } => Kind::VerifyTitle,
            Self::Repair { .. } => Kind::Repair,
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
                place: Place::Page(at),
                ..
            } => Some(PageSpan::between(at.page, at.page)),
            Self::VerifyTitle {
                place: Place::Line(_),
                ..
            } => None,
        }
    }

    /// What is put before the model: blocks of data, pages numbered from 1 within the question.
    pub(crate) fn prompt(&self, shown: &Shown<'_>) -> String {
        let page = |page: PageNo| shown.page(page, None);
        let numbered = |name: &str, pages: PageSpan| {
            pages
                .pages()
                .enumerate()
                .map(|(at, no): (usize, PageNo)| fenced(&format!("{name} {}", at + 1), &page(no)))
                .collect::<Vec<_>>()
        };
        let blocks = match self {
            Self::DetectToc { page: no } => vec![fenced("Page", &page(*no))],
            Self::ReadContents { pages } => numbered("Contents", *pages),
            Self::ReadWindow { before, pages } => {
                let before = before.map(|no| fenced("Before", &page(no)));
                before.into_iter().chain(numbered("Page", *pages)).collect()
            }
            Self::Locate { titles, pages } => titles
                .iter()
                .enumerate()
                .map(|(at, title): (usize, &String)| fenced(&format!("Title {}", at + 1), title))
                .chain(numbered("Page", *pages))
                .collect(),
            Self::VerifyTitle { title, place } => {
                vec![fenced("Title", title), fenced("Page", &shown.at(*place))]
            }
            Self::Repair { title, pages } => std::iter::once(fenced("Title", title))
                .chain(numbered("Page", *pages))
                .collect(),
        };
        blocks.join("\n\n")
    }

    /// What tells it from other questions.
    pub(crate) fn asked(&self, shown: &Shown<'_>) -> QuestionId {
        QuestionId {
            kind: self.kind(),
            reads: Digest::of(self.prompt(shown).as_bytes()),
        }
    }
}

impl Shown<'_> {
    /// The text of a page, with line `kept` though it may look like a running head; empty where it is not shown.
    fn page(&self, page: PageNo, kept: Option<u32>) -> String {
        let Self::Pages(first, pages) = self else {
            return String::new();
        };
        let at = page.index().checked_sub(first.index());
        at.and_then(|at| pages.get(at))
            .map(|page| page_text(page, kept))
            .unwrap_or_default()
    }

    /// The text around a place: its page, or its line and the lines below.
    fn at(&self, place: Place) -> String {
        match (place, self) {
            (Place::Page(at), _) => self.page(at.page, Some(at.line)),
            (Place::Line(line), Self::Lines(lines)) => entry_lines(lines, line),
            (Place::Line(_), Self::Pages(..)) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_numbered_within_the_question() {
        let pages = [Page::default(), Page::default(), Page::default()];
        let ask = Ask::ReadWindow {
            before: PageNo::new(7),
            pages: PageSpan::new(8, 9).unwrap(),
        };
        let prompt = ask.prompt(&Shown::Pages(PageNo::new(7).unwrap(), &pages));
        let names: Vec<&str> = prompt.lines().filter(|line| line.ends_with(':')).collect();
        assert_eq!(names, ["Before:", "Page 1:", "Page 2:"]);
        assert_eq!(ask.pages(), PageSpan::new(7, 9));
    }

    #[test]
    fn where_pages_lie_is_no_part_of_a_question() {
        let pages = [Page::default()];
        let asked = |no: u32| {
            let page = PageNo::new(no).unwrap();
            Ask::DetectToc { page }.asked(&Shown::Pages(page, &pages))
        };
        assert_eq!(asked(3), asked(4));
    }
}

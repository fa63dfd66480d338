//! The desk at which the method asks: typed answers, what was not answered, and how much of what was said stands on paper.

use std::collections::BTreeMap;

use stemma_document::{Body, Gap, PageNo, PageSpan, Place};

use super::answers::Answer;
use super::asks::{Ask, Begun, Kind, Listed, QuestionId, Said};
use super::entries::Looked;
use super::known::{Asking, Known, Missing};

/// Goes on, or stops where answers are missing.
pub(crate) type Step<T> = Result<T, Missing>;

/// Answers in the order of their questions; `None`: there is none.
type Answers<T> = Step<Vec<Option<T>>>;

/// Asks, and keeps account.
pub(crate) struct Desk<'a> {
    asking: Asking<'a>,
    /// Codes of the questions that failed.
    unanswered: BTreeMap<QuestionId, String>,
    /// Titles that the model named on the way that is gone, and on those that were given up.
    pub(crate) here: Named,
    before: Named,
    /// What was given up, and why.
    pub(crate) gaps: Vec<Gap>,
}

/// Titles that a model named.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Named {
    /// All of them.
    pub(crate) named: usize,
    /// Those that do not stand where it said.
    pub(crate) astray: usize,
}

impl<'a> Desk<'a> {
    pub(crate) fn of(body: &'a Body, known: &'a Known) -> Self {
        Self {
            asking: Asking::of(body, known),
            unanswered: BTreeMap::new(),
            here: Named::default(),
            before: Named::default(),
            gaps: Vec::new(),
        }
    }

    /// Begins another way: what was named on the one before says nothing about it.
    pub(crate) fn begin(&mut self) {
        let here = std::mem::take(&mut self.here);
        self.before = Named {
            named: self.before.named + here.named,
            astray: self.before.astray + here.astray,
        };
    }

    /// A title was named; `stands`: it stands where it should.
    pub(crate) fn count(&mut self, stands: bool) {
        self.here.named += 1;
        self.here.astray += usize::from(!stands);
    }

    /// The questions that have no answer yet.
    pub(crate) fn wanted(self) -> Vec<(QuestionId, Ask)> {
        self.asking.wanted
    }

    /// Whether each page is a table of contents, and prints page numbers.
    pub(crate) fn contents(&mut self, pages: &[PageNo]) -> Answers<(bool, bool)> {
        let asks = pages.iter().map(|page| Ask::DetectToc { page: *page });
        self.ask(asks.collect(), |said| match said {
            Said::Contents {
                is_contents,
                has_page_numbers,
            } => Some((is_contents, has_page_numbers)),
            _ => None,
        })
    }

    /// What each table of contents lists.
    pub(crate) fn listed(&mut self, tables: Vec<PageSpan>) -> Answers<Vec<Listed>> {
        let asks = tables.into_iter().map(|pages| Ask::ReadContents { pages });
        self.ask(asks.collect(), |said| match said {
            Said::Entries(entries) => Some(entries),
            _ => None,
        })
    }

    /// The sections that begin on each stretch of pages, with the page before it.
    pub(crate) fn begun(&mut self, windows: &[(Option<PageNo>, PageSpan)]) -> Answers<Vec<Begun>> {
        let asks = windows.iter().map(|(before, pages)| Ask::ReadWindow {
            before: *before,
            pages: *pages,
        });
        self.ask(asks.collect(), |said| match said {
            Said::Sections(sections) => Some(sections),
            _ => None,
        })
    }

    /// Where titles stand: entry and page, both counted from 1.
    pub(crate) fn found(
        &mut self,
        asked: Vec<(Vec<String>, PageSpan)>,
    ) -> Answers<Vec<(u32, u32)>> {
        let asks = asked
            .into_iter()
            .map(|(titles, pages)| Ask::Locate { titles, pages });
        self.ask(asks.collect(), |said| match said {
            Said::Found(found) => Some(found),
            _ => None,
        })
    }

    /// Whether each title stands where it was located.
    pub(crate) fn looked(&mut self, asked: Vec<(String, Place)>) -> Answers<Looked> {
        let asks = asked
            .into_iter()
            .map(|(title, place)| Ask::VerifyTitle { title, place });
        self.ask(asks.collect(), |said| match said {
            Said::Stands {
                stands,
                starts_page,
            } => Some(Looked {
                stands,
                starts_page,
            }),
            _ => None,
        })
    }

    /// The page each title stands on, counted from 1; 0: on none.
    pub(crate) fn repaired(&mut self, asked: Vec<(String, PageSpan)>) -> Answers<u32> {
        let asks = asked
            .into_iter()
            .map(|(title, pages)| Ask::Repair { title, pages });
        self.ask(asks.collect(), |said| match said {
            Said::Page(page) => Some(page),
            _ => None,
        })
    }

    fn ask<T>(&mut self, asks: Vec<Ask>, read: impl Fn(Said) -> Option<T>) -> Answers<T> {
        let answers: Vec<(QuestionId, Answer<Said>)> = self.asking.all(asks)?;
        Ok(answers
            .into_iter()
            .map(|(asked, answer)| match answer {
                Ok(said) => read(said),
                Err(code) => {
                    self.unanswered.insert(asked, code);
                    None
                }
            })
            .collect())
    }

    pub(crate) fn gap(&mut self, code: &str, pages: Option<PageSpan>, detail: String) {
        self.gaps.push(Gap {
            code: code.into(),
            pages,
            detail,
        });
    }

    /// What was given up, and what was not answered: rules decided there alone.
    pub(crate) fn into_gaps(mut self) -> Vec<Gap> {
        self.begin();
        let mut gaps = std::mem::take(&mut self.gaps);
        for (kind, code, what) in [
            (Kind::DetectToc, "model.toc_failed", "pages at the front"),
            (
                Kind::ReadContents,
                "model.contents_failed",
                "tables of contents",
            ),
            (
                Kind::ReadWindow,
                "model.window_failed",
                "stretches of pages",
            ),
            (Kind::Locate, "model.locate_failed", "groups of titles"),
            (Kind::VerifyTitle, "model.verify_failed", "titles"),
            (
                Kind::Repair,
                "model.repair_failed",
                "titles that stand elsewhere",
            ),
        ] {
            let failed: Vec<&String> = self
                .unanswered
                .iter()
                .filter(|(asked, _)| asked.kind == kind)
                .map(|(_, code)| code)
                .collect();
            if let Some(first) = failed.first() {
                let detail = format!(
                    "{} {what} were decided by rules alone: the model did not answer ({first})",
                    failed.len()
                );
                gaps.push(Gap {
                    code: code.into(),
                    pages: None,
                    detail,
                });
            }
        }
        let Named { named, astray } = self.before;
        if astray > 0 {
            let detail = format!(
                "{astray} of {named} titles that the model named do not stand where it said"
            );
            gaps.push(Gap {
                code: "model.titles_astray".into(),
                pages: None,
                detail,
            });
        }
        gaps
    }
}

/// Page `number` of the pages of a question, which counts them from 1; `None`: it holds no such page.
pub(crate) fn nth(pages: PageSpan, number: u32) -> Option<PageNo> {
    pages.pages().nth(number.checked_sub(1)? as usize)
}

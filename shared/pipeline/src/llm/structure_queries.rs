//! Typed questions about structure. Tracks failed questions, and how many returned titles are in the
//! document.

use std::collections::BTreeMap;

use stemma_document::{Gap, PageNo, PageSpan, SectionStart, SourceBody};

use super::answer_set::{AnswerSet, AnswersPending, QuestionCollector};
use super::entries::TitleCheck;
use super::questions::{
    QuestionId, QuestionKind, StructureAnswer, StructureQuestion, TocEntry, WindowSection,
};
use super::section_answers::ReplyResult;

/// Continues, or stops because answers are missing.
pub(crate) type QueryResult<T> = Result<T, AnswersPending>;

// In the order of the questions; `None` if a question failed.
type QueryAnswers<T> = QueryResult<Vec<Option<T>>>;

pub(crate) struct StructureQueries<'a> {
    collector: QuestionCollector<'a>,
    // Codes of failed questions.
    unanswered: BTreeMap<QuestionId, String>,
    /// Titles named in the current strategy. `previous` sums up the abandoned ones.
    pub(crate) current: TitleStats,
    previous: TitleStats,
    /// Strategies that were abandoned, and why.
    pub(crate) gaps: Vec<Gap>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TitleStats {
    pub(crate) total: usize,
    /// Titles that are not where the model said.
    pub(crate) misplaced: usize,
}

impl<'a> StructureQueries<'a> {
    pub(crate) fn new(body: &'a SourceBody, answers: &'a AnswerSet) -> Self {
        Self {
            collector: QuestionCollector::new(body, answers),
            unanswered: BTreeMap::new(),
            current: TitleStats::default(),
            previous: TitleStats::default(),
            gaps: Vec::new(),
        }
    }

    /// Starts another strategy. Titles of the previous one do not count for or against it.
    pub(crate) fn start_strategy(&mut self) {
        let current = std::mem::take(&mut self.current);
        self.previous = TitleStats {
            total: self.previous.total + current.total,
            misplaced: self.previous.misplaced + current.misplaced,
        };
    }

    /// Counts a title. `is_placed`: whether it was found where it should be.
    pub(crate) fn count_title(&mut self, is_placed: bool) {
        self.current.total += 1;
        self.current.misplaced += usize::from(!is_placed);
    }

    pub(crate) fn into_pending(self) -> Vec<(QuestionId, StructureQuestion)> {
        self.collector.pending
    }

    /// Whether each page is a table of contents, and prints page numbers.
    pub(crate) fn detect_toc(&mut self, pages: &[PageNo]) -> QueryAnswers<(bool, bool)> {
        let questions = pages
            .iter()
            .map(|page| StructureQuestion::DetectToc { page: *page });
        self.query(questions.collect(), |answer| match answer {
            StructureAnswer::Contents {
                is_contents,
                has_page_numbers,
            } => Some((is_contents, has_page_numbers)),
            _ => None,
        })
    }

    pub(crate) fn read_toc(&mut self, tables: Vec<PageSpan>) -> QueryAnswers<Vec<TocEntry>> {
        let questions = tables
            .into_iter()
            .map(|pages| StructureQuestion::ReadContents { pages });
        self.query(questions.collect(), |answer| match answer {
            StructureAnswer::Entries(entries) => Some(entries),
            _ => None,
        })
    }

    /// The sections that begin in each window. The page before a window is shown as context.
    pub(crate) fn read_windows(
        &mut self,
        windows: &[(Option<PageNo>, PageSpan)],
    ) -> QueryAnswers<Vec<WindowSection>> {
        let questions = windows
            .iter()
            .map(|(before, pages)| StructureQuestion::ReadWindow {
                before: *before,
                pages: *pages,
            });
        self.query(questions.collect(), |answer| match answer {
            StructureAnswer::Sections(sections) => Some(sections),
            _ => None,
        })
    }

    /// Entry and page of each title that was found, both from 1.
    pub(crate) fn locate_titles(
        &mut self,
        groups: Vec<(Vec<String>, PageSpan)>,
    ) -> QueryAnswers<Vec<(u32, u32)>> {
        let questions = groups
            .into_iter()
            .map(|(titles, pages)| StructureQuestion::Locate { titles, pages });
        self.query(questions.collect(), |answer| match answer {
            StructureAnswer::Located(title_pages) => Some(title_pages),
            _ => None,
        })
    }

    /// Whether each title is where it was located.
    pub(crate) fn verify_titles(
        &mut self,
        titles: Vec<(String, SectionStart)>,
    ) -> QueryAnswers<TitleCheck> {
        let questions = titles
            .into_iter()
            .map(|(title, place)| StructureQuestion::VerifyTitle { title, place });
        self.query(questions.collect(), |answer| match answer {
            StructureAnswer::TitleCheck {
                stands,
                starts_page,
            } => Some(TitleCheck {
                stands,
                starts_page,
            }),
            _ => None,
        })
    }

    /// The page of each title, from 1; 0 if it is on none.
    pub(crate) fn relocate_titles(&mut self, titles: Vec<(String, PageSpan)>) -> QueryAnswers<u32> {
        let questions = titles
            .into_iter()
            .map(|(title, pages)| StructureQuestion::Repair { title, pages });
        self.query(questions.collect(), |answer| match answer {
            StructureAnswer::Page(page) => Some(page),
            _ => None,
        })
    }

    fn query<T>(
        &mut self,
        questions: Vec<StructureQuestion>,
        read: impl Fn(StructureAnswer) -> Option<T>,
    ) -> QueryAnswers<T> {
        let answers: Vec<(QuestionId, ReplyResult<StructureAnswer>)> =
            self.collector.answer_all(questions)?;
        Ok(answers
            .into_iter()
            .map(|(id, answer)| match answer {
                Ok(value) => read(value),
                Err(code) => {
                    self.unanswered.insert(id, code);
                    None
                }
            })
            .collect())
    }

    pub(crate) fn add_gap(&mut self, code: &str, pages: Option<PageSpan>, detail: String) {
        self.gaps.push(Gap {
            code: code.into(),
            pages,
            detail,
        });
    }

    /// Gaps for abandoned strategies, and for failed questions, which rules decided.
    pub(crate) fn into_gaps(mut self) -> Vec<Gap> {
        self.start_strategy();
        let mut gaps = std::mem::take(&mut self.gaps);
        for (kind, code, what) in [
            (
                QuestionKind::DetectToc,
                "model.toc_failed",
                "pages at the front",
            ),
            (
                QuestionKind::ReadContents,
                "model.contents_failed",
                "tables of contents",
            ),
            (
                QuestionKind::ReadWindow,
                "model.window_failed",
                "stretches of pages",
            ),
            (
                QuestionKind::Locate,
                "model.locate_failed",
                "groups of titles",
            ),
            (QuestionKind::VerifyTitle, "model.verify_failed", "titles"),
            (
                QuestionKind::Repair,
                "model.repair_failed",
                "titles that stand elsewhere",
            ),
        ] {
            let failed: Vec<&String> = self
                .unanswered
                .iter()
                .filter(|(id, _)| id.kind == kind)
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
        let TitleStats { total, misplaced } = self.previous;
        if misplaced > 0 {
            let detail = format!(
                "{misplaced} of {total} titles that the model named do not stand where it said"
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

/// Page `number` (from 1) of a question; `None` if it has fewer pages.
pub(crate) fn nth_page(pages: PageSpan, number: u32) -> Option<PageNo> {
    pages.pages().nth(number.checked_sub(1)? as usize)
}

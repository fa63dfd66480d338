//! Windows of pages in which a model looks for headings that the rules missed.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use stemma_document::{PageNo, PageSpan};

use super::rule_outline::RuleOutline;
use super::{levels, titles, windows};

// A smaller window is not cut off at a top section: each call repeats the instructions.
const MIN_TOKENS: u64 = 4_000;
// Bytes of a title that is shown as open.
const MAX_TITLE_BYTES: usize = 120;
// Open headings that are shown: the highest ones. A hostile outline may nest without end.
const MAX_OPEN: usize = 32;

/// Pages to read together, and the headings that are known there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadingWindow {
    /// Rising; without contents pages and blank pages. Never empty.
    pub pages: Vec<PageNo>,
    /// The headings that are open where the first page begins, highest first.
    pub open: Vec<KnownHeading>,
    /// The known headings on the pages, in reading order.
    pub known: Vec<KnownLine>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownHeading {
    /// 1 is the highest.
    pub level: u16,
    pub title: String,
}

/// The first line of a known heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLine {
    pub page: PageNo,
    /// Index of the line on its page.
    pub line: u32,
    /// 1 is the highest.
    pub level: u16,
}

impl ReadingWindow {
    /// From the first to the last page.
    pub fn span(&self) -> PageSpan {
        let first = self.pages.first().copied().unwrap_or(PageNo::FIRST);
        PageSpan::between(first, self.pages.last().copied().unwrap_or(first))
    }

    /// The window in a source in which its document begins on the page with index `first`.
    #[must_use]
    pub fn shifted(mut self, first: usize) -> Self {
        let shift = |page: &mut PageNo| *page = PageNo::from_index(page.index() + first);
        self.pages.iter_mut().for_each(shift);
        self.known
            .iter_mut()
            .for_each(|known| shift(&mut known.page));
        self
    }
}

impl RuleOutline<'_> {
    /// Windows over the pages that hold text (of those in `places`, if given), of at most `max_tokens` each (or one page)
    /// and `budget` tokens in all.
    // A window ends where a top section begins at the top of a page, so that few windows hold the end of one part and the
    // beginning of another. Within a part the boundaries depend on the content: an edit moves only those near it.
    pub fn reading_windows(
        &self,
        places: Option<&[PageSpan]>,
        max_tokens: u32,
        mut budget: u64,
    ) -> Vec<ReadingWindow> {
        let levels = levels::assign_levels(&self.heads);
        let mut all = Vec::new();
        for pages in self.parts(places) {
            for cut in windows::cut_windows(self.pages, pages, max_tokens) {
                let pages: Vec<PageNo> = cut
                    .clone()
                    .filter(|page| self.is_readable(*page))
                    .map(PageNo::from_index)
                    .collect();
                let tokens = self.tokens_of(cut);
                if pages.is_empty() || tokens > budget {
                    continue;
                }
                budget -= tokens;
                all.push(self.window(pages, &levels));
            }
        }
        all
    }

    // Ranges of pages (from 0) that no window crosses.
    fn parts(&self, places: Option<&[PageSpan]>) -> Vec<Range<usize>> {
        let count = self.pages.len();
        let pages = (0..count).filter(|page| {
            let number = PageNo::from_index(*page);
            self.is_readable(*page)
                && places.is_none_or(|places| places.iter().any(|span| span.contains(number)))
        });
        let mut parts: Vec<Range<usize>> = Vec::new();
        for page in pages {
            match parts.last_mut() {
                Some(part)
                    if (part.end..page).all(|between| !self.is_readable(between))
                        && !(self.opens_part(page)
                            && self.tokens_of(part.clone()) >= MIN_TOKENS) =>
                {
                    part.end = page + 1;
                }
                _ => parts.push(page..page + 1),
            }
        }
        parts
    }

    // Whether a top section begins at the top of the page.
    fn opens_part(&self, page: usize) -> bool {
        let top = self.heads.iter().map(|head| head.rank).min();
        self.heads.iter().any(|head| {
            Some(head.rank) == top
                && self.lines.rows[head.rows.0].page as usize == page
                && self.lines.starts_page(head.rows.0)
        })
    }

    // Whether it holds text other than running heads, rows of contents and the cover of a filing.
    fn is_readable(&self, page: usize) -> bool {
        self.lines.rows_on(page).any(|at| {
            let row = &self.lines.rows[at];
            !row.running && !row.key.is_empty() && !self.primary.excluded[at]
        })
    }

    fn tokens_of(&self, pages: Range<usize>) -> u64 {
        let first = self.lines.rows_on(pages.start).start;
        let end = self.lines.rows_on(pages.end - 1).end;
        self.tokens.total_in(&(first..end))
    }

    fn window(&self, pages: Vec<PageNo>, levels: &[u16]) -> ReadingWindow {
        let first = pages.first().map_or(0, |page| page.index());
        let start = self.lines.rows_on(first).start;
        let mut open: Vec<KnownHeading> = Vec::new();
        let mut known = Vec::new();
        for (head, level) in self.heads.iter().zip(levels) {
            let row = &self.lines.rows[head.rows.0];
            let page = PageNo::from_index(row.page as usize);
            if head.rows.0 < start {
                while open.last().is_some_and(|above| above.level >= *level) {
                    open.pop();
                }
                let title = titles::truncate_bytes(&head.title, MAX_TITLE_BYTES).to_string();
                open.push(KnownHeading {
                    level: *level,
                    title,
                });
            } else if pages.binary_search(&page).is_ok() {
                known.push(KnownLine {
                    page,
                    line: row.line,
                    level: *level,
                });
            }
        }
        open.truncate(MAX_OPEN);
        ReadingWindow { pages, open, known }
    }
}

#[cfg(test)]
mod tests {
    use super::super::StructureSettings;
    use super::super::fixture::{Doc, line};
    use super::*;

    fn numbers(window: &ReadingWindow) -> Vec<u32> {
        window.pages.iter().map(|page| page.get()).collect()
    }

    /// A cover, contents, two parts of ten pages each, and a blank page between them.
    fn report() -> Doc {
        let mut doc = Doc::new(23);
        doc.add(0, line("CONTENTS").size(16.0).bold());
        for (part, page) in [("1. Scope", 2), ("2. Terms", 13), ("3. Notes", 23)] {
            doc.add(0, line(&format!("{part} .................... {page}")));
        }
        for page in (1..11).chain(12..23) {
            let title = [(1, "1. Scope"), (12, "2. Terms"), (22, "3. Notes")]
                .into_iter()
                .find(|title| title.0 == page);
            if let Some((_, title)) = title {
                doc.add(page, line(title).size(16.0).bold());
            }
            doc.prose(page, 10.0, 60);
        }
        doc
    }

    fn windows(
        doc: &Doc,
        places: Option<&[PageSpan]>,
        most: u32,
        budget: u64,
    ) -> Vec<ReadingWindow> {
        let source = doc.source();
        let settings = StructureSettings::default();
        let rules = RuleOutline::new(&source, doc.pages(&source), &settings);
        rules.reading_windows(places, most, budget)
    }

    #[test]
    fn windows_skip_contents_and_blank_pages_and_read_each_other_page_once() {
        let all = windows(&report(), None, 20_000, u64::MAX);
        let pages: Vec<u32> = all.iter().flat_map(numbers).collect();
        let expected: Vec<u32> = (2..12).chain(13..24).collect();
        assert_eq!(pages, expected);
    }

    #[test]
    fn windows_end_where_a_top_section_begins() {
        let all = windows(&report(), None, 200_000, u64::MAX);
        assert!(
            all.iter().all(|window| {
                let pages = numbers(window);
                pages.last() < Some(&12) || pages.first() > Some(&12)
            }),
            "{all:?}"
        );
    }

    #[test]
    fn windows_show_what_is_open_and_known() {
        let all = windows(&report(), None, 3_000, u64::MAX);
        let later = all.iter().find(|window| numbers(window)[0] == 15);
        let inside = later
            .or_else(|| all.iter().find(|window| numbers(window)[0] > 13))
            .unwrap();
        let open: Vec<(u16, &str)> = inside
            .open
            .iter()
            .map(|known| (known.level, known.title.as_str()))
            .collect();
        assert_eq!(open, [(1, "2. Terms")]);
        let first = all.iter().find(|window| numbers(window)[0] == 13).unwrap();
        let known: Vec<(u32, u16)> = first
            .known
            .iter()
            .map(|known| (known.page.get(), known.level))
            .collect();
        assert_eq!(known, [(13, 1)]);
    }

    #[test]
    fn few_of_many_open_headings_are_shown() {
        let mut doc = Doc::new(60);
        for page in 0..60 {
            let letter = char::from(b'B' + (page % 24) as u8);
            let title = format!("{} Matters", letter.to_string().repeat(page / 24 + 2));
            doc.bookmark(&title, page as u16 + 1, page as u32 + 1);
            doc.section(page, &title);
            doc.prose(page, 10.0, 60);
        }
        let all = windows(&doc, None, 3_000, u64::MAX);
        let most = all.iter().map(|window| window.open.len()).max();
        assert_eq!(most, Some(MAX_OPEN));
    }

    #[test]
    fn windows_keep_to_places_and_budget() {
        let doc = report();
        let places = [PageSpan::new(4, 6).unwrap()];
        let inside = windows(&doc, Some(&places), 20_000, u64::MAX);
        let pages: Vec<u32> = inside.iter().flat_map(numbers).collect();
        assert_eq!(pages, [4, 5, 6]);
        assert!(windows(&doc, None, 20_000, 10).is_empty());
        assert!(windows(&Doc::new(0), None, 20_000, u64::MAX).is_empty());
    }
}

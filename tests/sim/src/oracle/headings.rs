//! Answers about headings: windows, positions, verdicts.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::{PageBlock, QuestionContext};
use crate::titles::{NormalizedTitle, align, split_number, squash};
use crate::toc;
use crate::truth::KnownDocument;

// A section on a shown page wins over an equal one elsewhere.
const SHOWN_PAGE_BONUS: f64 = 0.01;
// Longest heading in words, in unknown documents.
const HEADING_WORDS: usize = 14;

#[expect(clippy::unwrap_used, reason = "constant pattern, covered by a test")]
static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    let named = "(?i:part|item|note|section|chapter|appendix|exhibit|article|annex)\\s+(?:[0-9]+[.0-9]*[A-C]?|[IVXL]+|[A-Z])\\b";
    Regex::new(&format!(
        "^(?:(#{{1,6}})\\s+\\S|{named}|[0-9]+(?:\\.[0-9]+)*[.)]?\\s+[A-Z]|[A-Z]\\.\\s+[A-Z])"
    ))
    .unwrap()
});

impl QuestionContext<'_> {
    fn blocks(&self) -> impl Iterator<Item = &PageBlock<'_>> {
        self.pages.iter().filter(|page| page.block.name == "Page")
    }

    // Known sections that start in a block of text.
    fn sections_starting(&self, document: &KnownDocument, page: &PageBlock<'_>) -> Vec<usize> {
        match page.page {
            Some(number) => document
                .sections_starting(number)
                .filter(|node| document.shows(*node, &page.lines))
                .collect(),
            None if toc::looks_like_toc(&page.block.text) => Vec::new(),
            None => (0..document.titles.len())
                .filter(|node| document.titles[*node].line(&page.lines).is_some())
                .collect(),
        }
    }

    /// All sections that start on the shown pages, with the number of the page.
    pub(super) fn read_window(&self) -> Value {
        let mut sections = Vec::new();
        for page in self.blocks() {
            let number = page.block.number;
            if let Some(document) = self.document {
                let nodes = self
                    .sections_starting(document, page)
                    .into_iter()
                    .map(|node| &document.truth.nodes[node]);
                sections.extend(nodes.map(|node| section(&node.title, number, node.level)));
            } else if !toc::looks_like_toc(&page.block.text) {
                sections.extend(
                    by_shape(&page.block.text).map(|(title, level)| section(title, number, level)),
                );
            }
        }
        json!({ "sections": sections })
    }

    pub(super) fn locate(&self) -> Value {
        let titles: Vec<_> = self.question.blocks_named("Title").collect();
        let prepared: Vec<_> = titles
            .iter()
            .map(|block| NormalizedTitle::parse(&one_line(&block.text)))
            .collect();
        let places = self.find(&prepared);
        let located = titles
            .iter()
            .zip(places)
            .filter_map(|(block, page)| Some((block.number, page?)));
        let located: Vec<_> = located
            .map(|(entry, page)| json!({ "entry": entry, "page": page }))
            .collect();
        json!({ "found": located })
    }

    pub(super) fn repair(&self) -> Value {
        let title = self
            .question
            .blocks_named("Title")
            .next()
            .map(|block| NormalizedTitle::parse(&one_line(&block.text)));
        let page = self
            .find(&title.into_iter().collect::<Vec<_>>())
            .into_iter()
            .next()
            .flatten();
        json!({ "page": page.unwrap_or(0) })
    }

    // The page number of each title. Titles are in document order.
    fn find(&self, titles: &[NormalizedTitle]) -> Vec<Option<u64>> {
        let shown_pages: BTreeSet<u32> = self.blocks().filter_map(|page| page.page).collect();
        let nodes = self.document.map_or(Vec::new(), |document| {
            let more = |node: usize| {
                if shown_pages.contains(&document.truth.nodes[node].page) {
                    SHOWN_PAGE_BONUS
                } else {
                    0.0
                }
            };
            align(titles.len(), document.titles.len(), |i, node| {
                let likeness = titles[i].likeness(&document.titles[node]);
                if likeness > 0.0 {
                    likeness + more(node)
                } else {
                    0.0
                }
            })
        });
        let of = |at: usize| match (self.document, nodes.get(at).copied().flatten()) {
            (Some(document), Some(node)) => self
                .blocks()
                .find(|page| self.sections_starting(document, page).contains(&node)),
            _ => self
                .blocks()
                .find(|page| self.reads_as_heading(&titles[at], page)),
        };
        (0..titles.len())
            .map(|at| of(at).map(|page| page.block.number))
            .collect()
    }

    // Whether a title unknown to the truth is on lines of its own here, and not in a contents row.
    fn reads_as_heading(&self, title: &NormalizedTitle, page: &PageBlock<'_>) -> bool {
        let contents = match (self.document, page.page) {
            (Some(document), Some(number)) => document.contents.contains(&number),
            _ => toc::looks_like_toc(&page.block.text),
        };
        !contents && title.own_line(&page.lines).is_some()
    }

    pub(super) fn verify_title(&self) -> Value {
        let title = self
            .question
            .blocks_named("Title")
            .next()
            .map(|block| NormalizedTitle::parse(&one_line(&block.text)))
            .unwrap_or_default();
        let verdict = |stands: bool, starts_page: bool| json!({ "stands": stands, "starts_page": stands && starts_page });
        let Some(page) = self.blocks().next() else {
            return verdict(false, false);
        };
        let here = self
            .document
            .map(|document| self.sections_starting(document, page))
            .unwrap_or_default();
        let alike = |document: &KnownDocument, node: usize| document.titles[node].likeness(&title);
        let best = self.document.and_then(|document| {
            let scored = here
                .iter()
                .map(|node| (alike(document, *node), *node))
                .filter(|(score, _)| *score >= crate::titles::ALIKE);
            scored
                .reduce(|a, b| if b.0 > a.0 { b } else { a })
                .map(|(_, node)| &document.titles[node])
        });
        if let Some(matched) = best {
            let line = matched
                .line(&page.lines)
                .or_else(|| title.line(&page.lines));
            return verdict(
                true,
                line.is_some_and(|line| self.starts_page(page, &here, line)),
            );
        }
        let elsewhere = self.document.is_some_and(|document| {
            (0..document.titles.len()).any(|node| alike(document, node) > 0.95)
        });
        let stands = !elsewhere && self.reads_as_heading(&title, page);
        let line = title.own_line(&page.lines);
        verdict(
            stands,
            line.is_some_and(|line| self.starts_page(page, &here, line)),
        )
    }

    // Whether only other headings precede a line on the page where these sections start.
    fn starts_page(&self, page: &PageBlock<'_>, here: &[usize], line: usize) -> bool {
        let headings: Vec<String> = self
            .document
            .map(|document| {
                here.iter()
                    .map(|node| squash(&document.truth.nodes[*node].title))
                    .collect()
            })
            .unwrap_or_default();
        page.lines[..line].iter().all(|above: &String| {
            above.is_empty() || headings.iter().any(|heading| heading.contains(above))
        })
    }
}

fn section(title: &str, page: u64, level: u32) -> Value {
    let (number, title) = split_number(title);
    json!({ "number": number, "title": title, "page": page, "level": level })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

// Lines that look like headings, with a level: markup, numbers or capitals.
fn by_shape(text: &str) -> impl Iterator<Item = (&str, u32)> {
    text.lines().filter_map(|line| {
        let line = line.trim();
        let words = line.split_whitespace().count();
        let letters = || line.chars().filter(|c| c.is_alphabetic());
        let capitals = letters().count() > 3
            && letters().all(char::is_uppercase)
            && !line.contains(|c: char| c.is_ascii_digit());
        let fits = (1..=HEADING_WORDS).contains(&words) && !line.ends_with(|c| ",;:".contains(c));
        let marks = HEADING
            .captures(line)
            .map(|captures| captures.get(1).map_or(2, |marks| marks.len() as u32));
        let level = marks.or(capitals.then_some(1)).filter(|_| fits)?;
        Some((line.trim_start_matches('#').trim(), level))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_unknown_documents_are_found_by_shape() {
        let text = "# Overview\nThe company sells, as Item 1 says, things.\nRISK FACTORS\nItem 2. Properties\n1,234 5,678\n\
                    3.1 Method\nItem 3 is a matter that we have spoken about at great length in the section that is before this one,";
        let actual: Vec<_> = by_shape(text).collect();
        assert_eq!(
            actual,
            [
                ("Overview", 1),
                ("RISK FACTORS", 1),
                ("Item 2. Properties", 2),
                ("3.1 Method", 2)
            ]
        );
    }
}

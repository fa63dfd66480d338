//! Where headings stand: windows, places, verdicts.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::{PageBlock, Reading};
use crate::contents;
use crate::titles::{Title, aligned, parts, squash};
use crate::truth::Known;

/// What a section on one of the pages shown is worth more than one like it elsewhere.
const SHOWN: f64 = 0.01;
/// Words of a line that may be a heading, in documents that nothing is known of.
const HEADING_WORDS: usize = 14;

#[expect(
    clippy::unwrap_used,
    reason = "a pattern that does not change; a test uses it"
)]
static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    let named = "(?i:part|item|note|section|chapter|appendix|exhibit|article|annex)\\s+(?:[0-9]+[.0-9]*[A-C]?|[IVXL]+|[A-Z])\\b";
    Regex::new(&format!(
        "^(?:(#{{1,6}})\\s+\\S|{named}|[0-9]+(?:\\.[0-9]+)*[.)]?\\s+[A-Z]|[A-Z]\\.\\s+[A-Z])"
    ))
    .unwrap()
});

impl Reading<'_> {
    fn blocks(&self) -> impl Iterator<Item = &PageBlock<'_>> {
        self.pages.iter().filter(|page| page.block.name == "Page")
    }

    /// Sections of truth that start in a block of text.
    fn starting(&self, known: &Known, page: &PageBlock<'_>) -> Vec<usize> {
        match page.page {
            Some(number) => known
                .starting(number)
                .filter(|node| known.shows(*node, &page.lines))
                .collect(),
            None if contents::looks(&page.block.text) => Vec::new(),
            None => (0..known.titles.len())
                .filter(|node| known.titles[*node].line(&page.lines).is_some())
                .collect(),
        }
    }

    /// All sections that start on the pages shown, with the number of the page.
    pub(super) fn read_window(&self) -> Value {
        let mut sections = Vec::new();
        for page in self.blocks() {
            let number = page.block.number;
            if let Some(known) = self.known {
                let nodes = self
                    .starting(known, page)
                    .into_iter()
                    .map(|node| &known.truth.nodes[node]);
                sections.extend(nodes.map(|node| section(&node.title, number, node.level)));
            } else if !contents::looks(&page.block.text) {
                sections.extend(
                    by_shape(&page.block.text).map(|(title, level)| section(title, number, level)),
                );
            }
        }
        json!({ "sections": sections })
    }

    pub(super) fn locate(&self) -> Value {
        let titles: Vec<_> = self.question.named("Title").collect();
        let prepared: Vec<_> = titles
            .iter()
            .map(|block| Title::of(&one_line(&block.text)))
            .collect();
        let places = self.find(&prepared);
        let found = titles
            .iter()
            .zip(places)
            .filter_map(|(block, page)| Some((block.number, page?)));
        let found: Vec<_> = found
            .map(|(entry, page)| json!({ "entry": entry, "page": page }))
            .collect();
        json!({ "found": found })
    }

    pub(super) fn repair(&self) -> Value {
        let title = self
            .question
            .named("Title")
            .next()
            .map(|block| Title::of(&one_line(&block.text)));
        let page = self
            .find(&title.into_iter().collect::<Vec<_>>())
            .into_iter()
            .next()
            .flatten();
        json!({ "page": page.unwrap_or(0) })
    }

    /// The number of the page on which each of the titles stands; the titles are in the order of their document.
    fn find(&self, titles: &[Title]) -> Vec<Option<u64>> {
        let shown: BTreeSet<u32> = self.blocks().filter_map(|page| page.page).collect();
        let nodes = self.known.map_or(Vec::new(), |known| {
            let more = |node: usize| {
                if shown.contains(&known.truth.nodes[node].page) {
                    SHOWN
                } else {
                    0.0
                }
            };
            aligned(titles.len(), known.titles.len(), |i, node| {
                let likeness = titles[i].likeness(&known.titles[node]);
                if likeness > 0.0 {
                    likeness + more(node)
                } else {
                    0.0
                }
            })
        });
        let of = |at: usize| match (self.known, nodes.get(at).copied().flatten()) {
            (Some(known), Some(node)) => self
                .blocks()
                .find(|page| self.starting(known, page).contains(&node)),
            _ => self
                .blocks()
                .find(|page| self.reads_as_heading(&titles[at], page)),
        };
        (0..titles.len())
            .map(|at| of(at).map(|page| page.block.number))
            .collect()
    }

    /// Whether a title that truth does not know stands here on lines of its own, and not in a row of contents.
    fn reads_as_heading(&self, title: &Title, page: &PageBlock<'_>) -> bool {
        let contents = match (self.known, page.page) {
            (Some(known), Some(number)) => known.contents.contains(&number),
            _ => contents::looks(&page.block.text),
        };
        !contents && title.own_line(&page.lines).is_some()
    }

    pub(super) fn verify_title(&self) -> Value {
        let title = self
            .question
            .named("Title")
            .next()
            .map(|block| Title::of(&one_line(&block.text)))
            .unwrap_or_default();
        let verdict = |stands: bool, starts_page: bool| json!({ "stands": stands, "starts_page": stands && starts_page });
        let Some(page) = self.blocks().next() else {
            return verdict(false, false);
        };
        let here = self
            .known
            .map(|known| self.starting(known, page))
            .unwrap_or_default();
        let alike = |known: &Known, node: usize| known.titles[node].likeness(&title);
        let best = self.known.and_then(|known| {
            let scored = here
                .iter()
                .map(|node| (alike(known, *node), *node))
                .filter(|(score, _)| *score >= crate::titles::ALIKE);
            scored
                .reduce(|a, b| if b.0 > a.0 { b } else { a })
                .map(|(_, node)| &known.titles[node])
        });
        if let Some(found) = best {
            let line = found.line(&page.lines).or_else(|| title.line(&page.lines));
            return verdict(
                true,
                line.is_some_and(|line| self.starts_page(page, &here, line)),
            );
        }
        let elsewhere = self
            .known
            .is_some_and(|known| (0..known.titles.len()).any(|node| alike(known, node) > 0.95));
        let stands = !elsewhere && self.reads_as_heading(&title, page);
        let line = title.own_line(&page.lines);
        verdict(
            stands,
            line.is_some_and(|line| self.starts_page(page, &here, line)),
        )
    }

    /// Whether nothing but other headings stands above a line of a page on which these sections start.
    fn starts_page(&self, page: &PageBlock<'_>, here: &[usize], line: usize) -> bool {
        let headings: Vec<String> = self
            .known
            .map(|known| {
                here.iter()
                    .map(|node| squash(&known.truth.nodes[*node].title))
                    .collect()
            })
            .unwrap_or_default();
        page.lines[..line].iter().all(|above: &String| {
            above.is_empty() || headings.iter().any(|heading| heading.contains(above))
        })
    }
}

fn section(title: &str, page: u64, level: u32) -> Value {
    let (number, title) = parts(title);
    json!({ "number": number, "title": title, "page": page, "level": level })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lines that look like headings, with a level: marked as such, numbered, or in capitals.
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
            .map(|found| found.get(1).map_or(2, |marks| marks.len() as u32));
        let level = marks.or(capitals.then_some(1)).filter(|_| fits)?;
        Some((line.trim_start_matches('#').trim(), level))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_unknown_documents_are_known_by_their_shape() {
        let text = "# Overview\nThe company sells, as Item 1 says, things.\nRISK FACTORS\nItem 2. Properties\n1,234 5,678\n\
                    3.1 Method\nItem 3 is a matter that we have spoken about at great length in the section that is before this one,";
        let found: Vec<_> = by_shape(text).collect();
        assert_eq!(
            found,
            [
                ("Overview", 1),
                ("RISK FACTORS", 1),
                ("Item 2. Properties", 2),
                ("3.1 Method", 2)
            ]
        );
    }
}

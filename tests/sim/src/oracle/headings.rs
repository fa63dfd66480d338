//! Answers about headings in windows of pages.
//!
//! The oracle names all headings of the truth that have no mark. The simulated reader sees what a real one
//! sees: it skips some, rewords some, takes some heads of tables for headings, and judges levels by what its
//! window shows, so that they begin anew in each.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::{PageBlock, QuestionContext};
use crate::seeded::SeededRng;
use crate::titles::split_number;
use crate::truth::KnownDocument;

// Longest heading in words, in unknown documents.
const HEADING_WORDS: usize = 14;
// What the simulated reader does to headings, as shares.
const SKIPPED: f64 = 0.1;
const REWORDED: f64 = 0.15;
const TABLE_HEADS: f64 = 0.15;
// Rows of a contents page that end with a number, at least, and as a share of its lines.
const MIN_ROWS: usize = 5;

#[expect(clippy::unwrap_used, reason = "constant pattern, covered by a test")]
static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    let named = "(?i:part|item|note|section|chapter|appendix|exhibit|article|annex)\\s+(?:[0-9]+[.0-9]*[A-C]?|[IVXL]+|[A-Z])\\b";
    Regex::new(&format!(
        "^(?:(#{{1,6}})\\s+\\S|{named}|[0-9]+(?:\\.[0-9]+)*[.)]?\\s+[A-Z]|[A-Z]\\.\\s+[A-Z])"
    ))
    .unwrap()
});

// A heading as an answer names it.
struct NamedHeading {
    title: String,
    page: u64,
    level: u32,
}

impl QuestionContext<'_> {
    // Known sections without a mark that start in a block of text.
    fn unmarked_sections(&self, document: &KnownDocument, page: &PageBlock<'_>) -> Vec<usize> {
        let is_unmarked = |node: &usize| {
            let line = document.titles[*node].line(&page.lines);
            line.is_none_or(|line| !page.marked.contains(&line))
        };
        match page.page {
            Some(number) => document
                .sections_starting(number)
                .filter(|node| document.shows(*node, &page.lines))
                .filter(is_unmarked)
                .collect(),
            None if looks_like_contents(&page.text) => Vec::new(),
            None => (0..document.titles.len())
                .filter(|node| document.titles[*node].line(&page.lines).is_some())
                .filter(is_unmarked)
                .collect(),
        }
    }

    fn true_headings(&self) -> Vec<NamedHeading> {
        let mut headings = Vec::new();
        for page in &self.pages {
            let number = page.block.number;
            let mut add = |title: &str, level: u32| {
                headings.push(NamedHeading {
                    title: title.into(),
                    page: number,
                    level,
                });
            };
            if let Some(document) = self.document {
                for node in self.unmarked_sections(document, page) {
                    let node = &document.truth.nodes[node];
                    add(&node.title, node.level);
                }
            } else if !looks_like_contents(&page.text) {
                let lines = page.text.lines().enumerate();
                let unmarked = lines.filter(|(at, _)| !page.marked.contains(at));
                unmarked
                    .filter_map(|(_, line)| by_shape(line))
                    .for_each(|(title, level)| add(title, level));
            }
        }
        headings
    }

    /// All headings of the truth.
    pub(super) fn read_window(&self) -> Value {
        answer(self.true_headings())
    }

    /// What a real reader would say.
    pub(super) fn read_window_as_reader(&self, seed: u64) -> Value {
        let mut headings = self.true_headings();
        let chance = |what: &str, heading: &str, share: f64| {
            SeededRng::new(seed, what, heading.as_bytes()).chance(share)
        };
        headings.retain(|heading| !chance("skip", &heading.title, SKIPPED));
        let levels: BTreeSet<u32> = headings.iter().map(|heading| heading.level).collect();
        for heading in &mut headings {
            let above = levels.iter().filter(|level| **level < heading.level);
            heading.level = 1 + above.count() as u32;
            if chance("reword", &heading.title, REWORDED) {
                heading.title = reworded(&heading.title);
            }
        }
        let deepest = levels.len() as u32 + 1;
        for page in &self.pages {
            let heads = table_heads(page).into_iter();
            let taken = heads.filter(|head| chance("table", head, TABLE_HEADS));
            headings.extend(taken.map(|head| NamedHeading {
                title: head.into(),
                page: page.block.number,
                level: deepest,
            }));
        }
        headings.sort_by_key(|heading| heading.page);
        answer(headings)
    }
}

fn answer(headings: Vec<NamedHeading>) -> Value {
    let sections = headings.into_iter().map(|heading| {
        let (number, title) = split_number(&heading.title);
        json!({ "number": number, "title": title, "page": heading.page, "level": heading.level })
    });
    json!({ "sections": sections.collect::<Vec<_>>() })
}

// Another form of a title: without its last words, or with a word written in another way.
fn reworded(title: &str) -> String {
    if title.contains(" and ") {
        return title.replacen(" and ", " & ", 1);
    }
    let words: Vec<&str> = title.split_whitespace().collect();
    match words.len() {
        0..=4 => title.to_uppercase(),
        count => words[..count - 1].join(" "),
    }
}

// Short lines above rows of figures: captions and column heads of tables.
fn table_heads<'p>(page: &'p PageBlock<'_>) -> Vec<&'p str> {
    let lines: Vec<&str> = page.text.lines().map(str::trim).collect();
    let pairs = lines.windows(2).enumerate();
    let heads = pairs.filter(|(at, pair)| {
        let words = pair[0].split_whitespace().count();
        (2..=8).contains(&words)
            && pair[0].starts_with(char::is_uppercase)
            && !pair[0].ends_with(['.', ',', ';'])
            && is_table_row(pair[1])
            && !page.marked.contains(at)
    });
    heads.map(|(_, pair)| pair[0]).collect()
}

// Whether a third of the words are figures, and at least two.
fn is_table_row(line: &str) -> bool {
    let words = line.split_whitespace().count();
    let figures = line
        .split_whitespace()
        .filter(|word| is_figure(word))
        .count();
    figures >= 2 && 3 * figures >= words
}

// `1,234`, `(5.6)%`, `$7`.
fn is_figure(word: &str) -> bool {
    let digits = word.trim_matches(|c| "($)%".contains(c));
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b".,".contains(&byte))
}

// Whether many lines end with a page number.
fn looks_like_contents(text: &str) -> bool {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let is_row = |line: &str| {
        let (title, label) = line.trim().rsplit_once([' ', '.']).unwrap_or_default();
        title.chars().filter(|c| c.is_alphabetic()).count() > 2
            && (1..=4).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_digit())
    };
    let rows = lines.iter().filter(|line| is_row(line)).count();
    rows >= MIN_ROWS && 2 * rows >= lines.len()
}

// A line that looks like a heading, and its level: markup, numbers or capitals.
fn by_shape(line: &str) -> Option<(&str, u32)> {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_unknown_documents_are_found_by_shape() {
        let text = "# Overview\nThe company sells, as Item 1 says, things.\nRISK FACTORS\nItem 2. Properties\n1,234 5,678\n\
                    3.1 Method\nItem 3 is a matter that we have spoken about at great length in the section that is before this one,";
        let actual: Vec<_> = text.lines().filter_map(by_shape).collect();
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

    #[test]
    fn contents_are_recognized_by_their_page_numbers() {
        let contents = "CONTENTS\nBusiness 3\nRisk Factors ... 9\nProperties.11\nLegal Proceedings 12\nSignatures 40";
        assert!(looks_like_contents(contents));
        assert!(!looks_like_contents(
            "Net sales were\n5,321\nand rose by 5 %\nin all of\n2023\nand more"
        ));
    }

    #[test]
    fn rewording_keeps_most_of_a_title() {
        assert!(["1,234", "(5.6)%", "$7"].into_iter().all(is_figure) && !is_figure("2nd"));
        assert_eq!(reworded("Sales and Marketing"), "Sales & Marketing");
        assert_eq!(reworded("Overview"), "OVERVIEW");
        assert_eq!(
            reworded("Results of Operations by Segment"),
            "Results of Operations by"
        );
    }
}

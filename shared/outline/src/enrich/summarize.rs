//! Extractive summaries: whole sentences of a section that distinguish it from the others.
//!
//! A short section is its own summary. From a longer one, sentences are chosen whose terms are frequent in the section, rare
//! in the document or part of the title, and that come early, state amounts and are not boilerplate. The titles of the
//! parts come before them, the row names of tables after them. A term counts less each time it is covered. All weights are
//! integers, so that the choice is the same on every machine.

use foldhash::{HashMap, HashMapExt};
use stemma_document::text::{BodyLine, full_lines, normalize_key, own_lines};
use stemma_document::{Section, Source, Summary};
use stemma_reading::document_reading::LineReadings;
use stemma_reading::lines::LineKind;
use stemma_reading::terms;

use super::SectionSettings;
use super::select_sentences::{SentenceSelector, WORD_BYTES};
use super::sentences::{self, ProseContent, ProseSentence};

// The word limits share out the default of 60 words: a list may take under half of it, so that sentences remain.
// Words of the list of parts of an inner section.
const PARTS_WORDS: usize = 26;
// Words of the list of headings of a leaf.
const HEADINGS_WORDS: usize = 16;
// Words for row names of tables: in a section of mostly prose, and in one of tables only.
const ROWS_WORDS: (usize, usize) = (8, 44);
// Smaller tables get no words of their own.
const TABLE_ROWS: usize = 4;
const MAX_PARTS: usize = 200;

/// Introduces the titles of a section's parts.
const SECTIONS: &str = "Sections:";
/// Introduces the row names of its tables.
const TABLES: &str = "Tables:";

/// Sets the summary of every section, leaves first. Sections without text and parts get none.
pub(super) fn summarize(
    sections: &mut [Section],
    source: &Source,
    readings: &LineReadings,
    settings: &SectionSettings,
) {
    let mut terms = TermTable::default();
    let mut counts = Vec::new();
    terms.count(sections, source, &mut counts);
    let mut summarizer = Summarizer {
        source,
        readings,
        settings,
        terms,
        sections: counts.len(),
        counts: counts.into_iter(),
    };
    summarizer.summarize(sections);
}

struct Summarizer<'a> {
    source: &'a Source,
    readings: &'a LineReadings,
    settings: &'a SectionSettings,
    terms: TermTable,
    sections: usize,
    // How often each term occurs in the own lines of the sections that follow, in pre-order.
    counts: std::vec::IntoIter<Vec<(u32, u32)>>,
}

impl Summarizer<'_> {
    fn summarize(&mut self, sections: &mut [Section]) {
        for section in sections {
            let counts = self.counts.next().unwrap_or_default();
            self.summarize(&mut section.children);
            section.summary = self.summary(section, counts);
        }
    }

    fn summary(&mut self, section: &Section, counts: Vec<(u32, u32)>) -> Option<Summary> {
        let summary = match self.verbatim(section) {
            Some(text) => Summary {
                text,
                by: "verbatim".into(),
            },
            None => Summary {
                text: self.extract(section, counts),
                by: "offline".into(),
            },
        };
        Some(summary).filter(|summary| !summary.text.is_empty())
    }

    /// The text of a section that is short enough to be its own summary and has no table.
    fn verbatim(&self, section: &Section) -> Option<String> {
        if section.tokens >= self.settings.summary_tokens_verbatim {
            return None;
        }
        let lines = full_lines(section, &self.source.body);
        let words = self.max_words();
        // Uncounted tokens must not make a whole document its own summary.
        let short = lines.iter().map(|line| line.text.len()).sum::<usize>() <= words * WORD_BYTES;
        if !short || lines.iter().any(|line| self.is_row(line)) {
            return None;
        }
        let text = lines
            .iter()
            .flat_map(|line| line.text.split_whitespace())
            .collect::<Vec<_>>()
            .join(" ");
        (terms::count(&text) <= words).then_some(text)
    }

    fn is_row(&self, line: &BodyLine<'_>) -> bool {
        self.readings.line(line.page, line.number).kind == LineKind::Row
    }

    fn max_words(&self) -> usize {
        self.settings.summary_max_words as usize
    }

    fn extract(&mut self, section: &Section, counts: Vec<(u32, u32)>) -> String {
        let lines = own_lines(section, &self.source.body);
        let mut prose = sentences::read_prose(&lines, self.readings, &|word| {
            self.terms.contains_word(word)
        });
        let own_count = prose.sentences.len();
        prose.sentences.extend(
            section
                .children
                .iter()
                .take(MAX_PARTS)
                .filter_map(first_sentence),
        );
        let weights = self.terms.weights(section, counts, self.sections);
        let mut selector = SentenceSelector::new(&self.terms, weights, &section.title);
        let mut remaining = self.max_words();
        let parts = list_parts(section, &prose, &mut selector, remaining);
        remaining = remaining.saturating_sub(terms::count(&parts));
        let sentences = selector.select_sentences(
            &prose.sentences,
            own_count,
            remaining.saturating_sub(reserved_row_words(&prose)),
        );
        remaining = remaining.saturating_sub(
            sentences
                .iter()
                .map(|sentence| terms::count(sentence))
                .sum(),
        );
        let rows = selector.select_list(TABLES, prose.labels.iter().map(String::as_str), remaining);
        let pieces = std::iter::once(parts)
            .chain(sentences)
            .chain([rows])
            .filter(|piece| !piece.is_empty());
        let text = pieces.collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            truncated_sentence(&prose, self.max_words())
        } else {
            text
        }
    }
}

/// Words reserved for row names: the more rows per sentence, the more.
fn reserved_row_words(prose: &ProseContent) -> usize {
    let rows = prose.labels.len();
    let sentences = prose
        .sentences
        .iter()
        .filter(|sentence| sentence.is_complete)
        .count();
    if rows < TABLE_ROWS {
        0
    } else {
        ROWS_WORDS.0 + (ROWS_WORDS.1 - ROWS_WORDS.0) * rows / (rows + 4 * sentences)
    }
}

/// The first whole sentence of a part's summary, without the list of its own parts.
fn first_sentence(child: &Section) -> Option<ProseSentence> {
    let summary = child.summary.as_ref()?;
    let text = summary
        .text
        .split_inclusive(". ")
        .map(str::trim)
        .find(|text| !text.starts_with(SECTIONS))?;
    let whole = summary.by == "offline"
        && text.ends_with(['.', '!', '?', '。'])
        && !text.starts_with(TABLES);
    whole.then(|| ProseSentence {
        text: text.into(),
        is_complete: whole,
    })
}

/// `Sections: first part; second part.` For a leaf, its inner headings without its own title.
fn list_parts(
    section: &Section,
    prose: &ProseContent,
    selector: &mut SentenceSelector<'_>,
    budget: usize,
) -> String {
    if section.children.is_empty() {
        let title = normalize_key(&section.title);
        let headings = prose
            .headings
            .iter()
            .map(String::as_str)
            .filter(|heading| !title.contains(&normalize_key(heading)));
        return selector.select_list(SECTIONS, headings, HEADINGS_WORDS.min(budget));
    }
    let titles = section
        .children
        .iter()
        .take(MAX_PARTS)
        .map(|child| child.title.as_str());
    selector.select_list(SECTIONS, titles, PARTS_WORDS.min(budget))
}

/// The start of the best sentence with an ellipsis, if no whole sentence fits.
fn truncated_sentence(prose: &ProseContent, budget: usize) -> String {
    let Some(sentence) = prose
        .sentences
        .iter()
        .max_by_key(|sentence| (sentence.is_complete, sentence.text.len().min(400)))
    else {
        return String::new();
    };
    let mut text = String::new();
    for word in sentence.text.split(' ') {
        let next = if text.is_empty() {
            word.into()
        } else {
            format!("{text} {word}")
        };
        if terms::count(&next) > budget || next.len() > WORD_BYTES * budget {
            return text + "…";
        }
        text = next;
    }
    text
}

/// The terms of a document by number, and in how many of its sections each occurs.
#[derive(Default)]
pub(super) struct TermTable {
    numbers: HashMap<String, u32>,
    sections_with: Vec<u32>,
}

impl TermTable {
    /// Counts the terms of the own lines of each section, in pre-order.
    fn count(&mut self, sections: &[Section], source: &Source, counts: &mut Vec<Vec<(u32, u32)>>) {
        for section in sections {
            let mut own: HashMap<u32, u32> = HashMap::new();
            for line in own_lines(section, &source.body) {
                terms::terms(line.text, |term| {
                    *own.entry(self.number(term)).or_default() += 1;
                });
            }
            for number in own.keys() {
                self.sections_with[*number as usize] += 1;
            }
            counts.push(own.into_iter().collect());
            self.count(&section.children, source, counts);
        }
    }

    fn number(&mut self, term: &str) -> u32 {
        if let Some(number) = self.numbers.get(term) {
            return *number;
        }
        let number = self.sections_with.len() as u32;
        self.numbers.insert(term.to_owned(), number);
        self.sections_with.push(0);
        number
    }

    /// The different terms of a text that the document has.
    pub(super) fn numbers_in(&self, text: &str) -> Vec<u32> {
        let mut numbers = Vec::new();
        terms::terms(text, |term| numbers.extend(self.numbers.get(term)));
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Whether a section has a term of the word.
    fn contains_word(&self, word: &str) -> bool {
        let mut numbers = self.numbers_in(word).into_iter();
        numbers.any(|number| self.sections_with[number as usize] > 0)
    }

    /// Weight of each term of a section, whose own lines have `counts` of them.
    // A form of tf-idf in integers. Both factors are logarithmic and capped, so that one rare or repeated name cannot
    // dominate the choice.
    fn weights(
        &mut self,
        section: &Section,
        counts: Vec<(u32, u32)>,
        sections: usize,
    ) -> HashMap<u32, u64> {
        let mut counts: HashMap<u32, u32> = counts.into_iter().collect();
        let children = section
            .children
            .iter()
            .take(MAX_PARTS)
            .filter_map(|child| child.summary.as_ref());
        for summary in children {
            terms::terms(&summary.text, |term| {
                *counts.entry(self.number(term)).or_default() += 1;
            });
        }
        let title = self.numbers_in(&section.title);
        let weights = counts.into_iter().map(|(term, count)| {
            let spread = self.sections_with[term as usize].max(1) as usize;
            let rare = u64::from(1 + (sections / spread).max(1).ilog2().min(2));
            // A single mention is an aside, however rare the term is in the document.
            let frequent = u64::from(1 + 2 * count.ilog2().min(4));
            let titled = if title.contains(&term) { 2 } else { 1 };
            (term, rare * frequent * titled)
        });
        weights.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{paged, text_tree, tree};

    use super::super::SectionSettings;
    use super::super::fixture::finish;
    use super::*;
    use stemma_document::SectionTree;

    fn settings(verbatim: u32, words: u32) -> SectionSettings {
        SectionSettings {
            summary_tokens_verbatim: verbatim,
            summary_max_words: words,
            ..SectionSettings::default()
        }
    }

    fn render(tree: &SectionTree) -> String {
        tree.walk()
            .map(|(_, section): (usize, &Section)| {
                let summary = section
                    .summary
                    .as_ref()
                    .map_or("-".into(), |s| format!("[{}] {}", s.by, s.text));
                format!("{}: {summary}\n", section.title)
            })
            .collect()
    }

    const REPORT: &str = "*Business*\n\
        Acme makes anvils and rockets for coyotes in forty countries. This is so. See Note 4 for the following table.\n\
        *Rockets*\n\
        The weather was fine. Rocket revenue was $120 million in 2022, driven by demand for liquid rockets. People came.\n\
        Revenue $ 120 $ 110\nOperating margin 12% 11%\n\
        *Anvils*\n\
        Anvil volumes fell because steel became dearer. We refer to Item 7 for more. The sky is blue over the plant.";

    #[test]
    fn summaries_choose_informative_sentences() {
        let source = paged(&[REPORT]);
        let tree = tree(
            &source,
            &[
                (1, 0, 1, "Business"),
                (1, 2, 2, "Rockets"),
                (1, 6, 2, "Anvils"),
            ],
        );
        insta::assert_snapshot!(render(&finish(tree, &source, &settings(3, 18), &[])), @r"
        Business: [offline] Sections: Rockets; Anvils. Acme makes anvils and rockets for coyotes in forty countries.
        Rockets: [offline] Rocket revenue was $120 million in 2022, driven by demand for liquid rockets. Tables: Revenue; Operating margin.
        Anvils: [offline] Anvil volumes fell because steel became dearer. The sky is blue over the plant.
        ");
    }

    /// Typical lines of filings with the given figures.
    fn line_of(kind: u8, figure: u32, word: &str) -> String {
        match kind % 8 {
            0 => format!(
                "Sales of {word} rose by {figure} percent, and the {word} unit earned ${figure}.5 million."
            ),
            1 => format!("Total {word} of the year $ {figure} $ 1,{figure} {figure}%"),
            2 => format!("Accrued {word} ........ {figure}"),
            3 => format!("*Note {figure} {word}*"),
            4 => format!("{word} obligations, {figure} shares issued .... . . . . 12 13"),
            5 => format!("See Note {figure} for the following table of {word}:"),
            6 => format!(
                "({figure}) The {word} contract was signed before the first of May {figure}, as described"
            ),
            _ => format!("{word} {word} 2022 2021"),
        }
    }

    proptest::proptest! {
        #[test]
        fn summaries_are_short_and_use_figures_of_the_section(
            lines in proptest::collection::vec((0u8..8, 0u32..100_000, "[A-Za-z收入]{3,9}"), 1..120),
            heads in proptest::collection::btree_set(0usize..120, 1..6),
            (verbatim, limit) in (0u32..300, 1u32..80),
        ) {
            let lines: Vec<String> = lines.iter().map(|(kind, figure, word)| line_of(*kind, *figure, word)).collect();
            let source = paged(&[&lines.join("\n")]);
            let heads: Vec<(u32, u32, u16, &str)> = heads.iter().filter(|at| **at < lines.len())
                .map(|at| (1, *at as u32, 1 + (*at % 3) as u16, lines[*at].trim_matches('*'))).collect();
            let tree = finish(tree(&source, &heads), &source, &settings(verbatim, limit), &[]);
            for (_, section) in tree.walk() {
                let text = stemma_document::text::full_text(section, &source.body);
                let summary = section.summary.as_ref().map(|summary| summary.text.as_str()).unwrap_or_default();
                proptest::prop_assert!(terms::count(summary) <= limit as usize, "{summary}");
                for number in summary.split(|c: char| !c.is_ascii_digit() && c != ',' && c != '.') {
                    let number = number.trim_matches(|c: char| !c.is_ascii_digit());
                    proptest::prop_assert!(text.contains(number), "{number} of {summary} in {text}");
                }
            }
        }
    }

    #[test]
    fn tables_are_listed_by_row_names() {
        let page = "*Balance Sheets*\n2022 2021\nCash and cash equivalents $ 4,236 $ 3,844\n\
            Goodwill, net(a) ...... 1,250 1,300\nBalance at December 31, 2022 $ 7 $ 8\nTotal liabilities (3) $ 99 $ 98";
        let source = paged(&[page]);
        let tree = tree(&source, &[(1, 0, 1, "Balance Sheets")]);
        insta::assert_snapshot!(render(&finish(tree, &source, &settings(200, 60), &[])), @"Balance Sheets: [offline] Tables: Cash and cash equivalents; Goodwill, net; Total liabilities.");
    }

    #[test]
    fn short_section_is_its_own_summary() {
        let (source, tree) =
            text_tree("# A\nshort\n## B\nalso  short", &[(1, 1, "A"), (3, 2, "B")]);
        insta::assert_snapshot!(render(&finish(tree, &source, &settings(200, 60), &[])), @r"
        A: [verbatim] # A short ## B also short
        B: [verbatim] ## B also short
        ");
    }

    #[test]
    fn chinese_summaries_use_whole_sentences() {
        let text = "天气很好。公司二〇二二年营业收入为人民币一百二十亿元，同比增长百分之十二，主要由于火箭业务需求强劲。大家都来了。";
        let source = paged(&[text]);
        let tree = tree(&source, &[(1, 0, 1, "营业收入")]);
        insta::assert_snapshot!(render(&finish(tree, &source, &settings(0, 30), &[])), @"营业收入: [offline] 公司二〇二二年营业收入为人民币一百二十亿元，同比增长百分之十二，主要由于火箭业务需求强劲。");
    }

    #[test]
    fn many_sections_stay_within_caps() {
        let text = "# A\nSales of anvils rose by 5 percent in the second year. See Note 3.\n"
            .repeat(20_000);
        let entries: Vec<(u32, u16, String)> = (0..20_000)
            .map(|n| (2 * n + 1, 1, format!("Note {n}")))
            .collect();
        let entries: Vec<(u32, u16, &str)> = entries
            .iter()
            .map(|(line, level, title)| (*line, *level, title.as_str()))
            .collect();
        let (source, tree) = text_tree(&text, &entries);
        let tree = finish(tree, &source, &settings(0, 20), &[]);
        assert_eq!(tree.sections.len(), 20_000);
        assert_eq!(tree.references.len(), 2_000);
    }

    #[test]
    fn unpunctuated_text_is_truncated() {
        let source = paged(&[&"word ".repeat(100_000)]);
        let tree = tree(&source, &[(1, 0, 1, "A")]);
        let tree = finish(tree, &source, &settings(200, 60), &[]);
        let text = &tree.sections[0].summary.as_ref().unwrap().text;
        assert!(text.ends_with('…') && terms::count(text) <= 61, "{text}");
    }
}

//! Summaries without a model: whole sentences of the section itself, chosen to tell it from the others.
//!
//! A short section is its own summary. Of a longer one those sentences are taken whose terms are frequent in it, rare in
//! the document, and in its title, and that stand early, name amounts and are no boilerplate; each next sentence counts
//! only for terms not yet covered. Inner sections name their parts first. A section of tables names its rows. All weights
//! are integers: the choice is the same on every machine.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use stemma_document::{Section, Source, Summary};

use super::SectionSettings;
use super::facts::squash;
use super::prose::{self, Prose, Sentence};
use super::text::{LineAt, full_text, own_lines};
use super::words;

/// Words of the list of parts of an inner section.
const PARTS_WORDS: usize = 26;
/// Words of the list of headings of a leaf.
const HEADINGS_WORDS: usize = 20;
/// Words of one part's title in that list.
const PART_TITLE_WORDS: usize = 12;
/// A summary of fewer words than this also names the rows of the section's tables.
const FEW_WORDS: usize = 35;
/// Words of a section's row labels, where it has a table of some size.
const ROWS_WORDS: usize = 24;
/// Rows from which on a section has a table of some size.
const TABLE_ROWS: usize = 4;
/// Added to a sentence's length when its terms are divided by it: without it one-term sentences would win.
const SHORT_BONUS_WORDS: u64 = 6;
/// Shorter sentences say too little.
const MIN_SENTENCE_WORDS: usize = 5;
/// Bytes of a word, on average: what is longer is no language.
const WORD_BYTES: usize = 16;
/// Parts of an inner section that are looked at.
const MAX_PARTS: usize = 200;

/// Fills every summary of the tree, leaves first. Sections without text and parts stay without one.
pub(super) fn summarize(sections: &mut [Section], source: &Source, settings: &SectionSettings) {
    let words = Rarity::of(sections, source);
    let book = Book { source, settings, words };
    book.summarize(sections);
}

struct Book<'a> {
    source: &'a Source,
    settings: &'a SectionSettings,
    words: Rarity,
}

impl Book<'_> {
    fn summarize(&self, sections: &mut [Section]) {
        for section in sections {
            self.summarize(&mut section.children);
            section.summary = self.summary(section);
        }
    }

    fn summary(&self, section: &Section) -> Option<Summary> {
        if section.tokens < self.settings.summary_tokens_verbatim {
            let text = full_text(section, self.source).split_whitespace().collect::<Vec<_>>().join(" ");
            // Uncounted tokens must not make a whole document its own summary.
            let short = text.len() <= self.settings.summary_tokens_verbatim as usize * WORD_BYTES;
            if short {
                return Some(Summary { text, by: "verbatim".into() }).filter(|summary| !summary.text.is_empty());
            }
        }
        let text = self.extract(section);
        Some(Summary { text, by: "offline".into() }).filter(|summary| !summary.text.is_empty())
    }

    fn extract(&self, section: &Section) -> String {
        let lines = own_lines(section, self.source);
        let mut prose = prose::read(&lines, &|word| self.words.knows(word));
        let mut budget = self.settings.summary_max_words as usize;
        let parts = parts(section, &prose, budget);
        budget -= words::count(&parts).min(budget);
        let own = prose.sentences.len();
        prose.sentences.extend(section.children.iter().take(MAX_PARTS).filter_map(lead));
        let weights = self.words.weights(section, &lines);
        let kept_for_rows = if prose.labels.len() >= TABLE_ROWS { ROWS_WORDS.min(budget) } else { 0 };
        let chosen = Choice { weights, own, budget: budget - kept_for_rows, title: squash(&section.title) }
            .sentences(&prose.sentences);
        let mut pieces: Vec<String> = Vec::new();
        pieces.extend(Some(parts).filter(|parts| !parts.is_empty()));
        pieces.extend(chosen);
        let spent: usize = pieces.iter().map(|piece| words::count(piece)).sum();
        if spent < FEW_WORDS || kept_for_rows > 0 {
            pieces.extend(rows(&prose, (self.settings.summary_max_words as usize).saturating_sub(spent)));
        }
        if pieces.is_empty() { cut(&prose, self.settings.summary_max_words as usize) } else { pieces.join(" ") }
    }
}

/// The first whole sentence of a part's own summary; what merely lists its parts is left out.
fn lead(child: &Section) -> Option<Sentence> {
    let summary = child.summary.as_ref()?;
    let text = summary.text.split_inclusive(". ").map(str::trim).find(|text| !text.starts_with("Covers: "))?;
    let whole = summary.by == "offline" && text.ends_with(['.', '!', '?', '。']) && !text.starts_with("Rows: ");
    whole.then(|| Sentence { text: text.into(), whole })
}

/// `Covers: first part; second part.` A leaf has headings instead of parts, its own title left out.
fn parts(section: &Section, prose: &Prose, budget: usize) -> String {
    if section.children.is_empty() {
        let title = squash(&section.title);
        let headings = prose.headings.iter().map(String::as_str).filter(|heading| !title.contains(&squash(heading)));
        return list("Covers: ", headings, HEADINGS_WORDS.min(budget));
    }
    let titles = section.children.iter().take(MAX_PARTS).map(|child| child.title.as_str());
    list("Covers: ", titles, PARTS_WORDS.min(budget))
}

/// `Rows: first label; second label.`
fn rows(prose: &Prose, budget: usize) -> Option<String> {
    Some(list("Rows: ", prose.labels.iter().map(String::as_str), budget)).filter(|rows| !rows.is_empty())
}

/// As many items as `budget` words hold; empty when there are none.
fn list<'a>(head: &str, items: impl Iterator<Item = &'a str>, budget: usize) -> String {
    let mut text = String::new();
    let mut left = budget.saturating_sub(1);
    for item in items {
        let item = item.split_whitespace().take(PART_TITLE_WORDS).collect::<Vec<_>>().join(" ");
        let item = item.trim_end_matches(['.', ';', ':']);
        let length = words::count(item);
        if length > left || item.len() > left * WORD_BYTES {
            break;
        }
        left -= length;
        text.push_str(if text.is_empty() { head } else { "; " });
        text.push_str(item);
    }
    if !text.is_empty() {
        text.push('.');
    }
    text
}

/// What there is to say when no whole sentence fits: the start of the first one, marked as cut.
fn cut(prose: &Prose, budget: usize) -> String {
    let Some(sentence) = prose.sentences.iter().max_by_key(|sentence| (sentence.whole, sentence.text.len().min(400)))
    else {
        return String::new();
    };
    let mut text = String::new();
    for word in sentence.text.split(' ') {
        let next = if text.is_empty() { word.into() } else { format!("{text} {word}") };
        if words::count(&next) > budget || next.len() > WORD_BYTES * budget {
            return text + "…";
        }
        text = next;
    }
    text
}

/// In how many sections of the document a term stands.
struct Rarity {
    sections_with: HashMap<String, u32>,
    sections: u32,
}

impl Rarity {
    fn of(sections: &[Section], source: &Source) -> Self {
        let mut rarity = Self { sections_with: HashMap::new(), sections: 0 };
        rarity.add(sections, source);
        rarity
    }

    fn add(&mut self, sections: &[Section], source: &Source) {
        for section in sections {
            self.sections += 1;
            for term in frequencies(&own_lines(section, source)).into_keys() {
                *self.sections_with.entry(term).or_default() += 1;
            }
            self.add(&section.children, source);
        }
    }

    fn knows(&self, word: &str) -> bool {
        let mut known = false;
        words::terms(word, |term| known |= self.sections_with.contains_key(term));
        known
    }

    /// How much each term of the section says about it.
    fn weights(&self, section: &Section, lines: &[LineAt<'_>]) -> HashMap<String, u64> {
        let mut title = HashSet::new();
        words::terms(&section.title, |term| {
            title.insert(term.to_owned());
        });
        let mut weights: HashMap<String, u64> = HashMap::new();
        let own = frequencies(lines);
        let children = section.children.iter().take(MAX_PARTS).filter_map(|child| child.summary.as_ref());
        let mut all = own;
        for summary in children {
            words::terms(&summary.text, |term| *all.entry(term.to_owned()).or_default() += 1);
        }
        for (term, count) in all {
            let spread = self.sections_with.get(&term).copied().unwrap_or(1).max(1);
            let rare = u64::from(1 + (self.sections.max(1) / spread).max(1).ilog2().min(3));
            // A word said once is an aside, however rare it is in the document.
            let frequent = u64::from(1 + 2 * count.ilog2().min(4));
            let titled = if title.contains(&term) { 2 } else { 1 };
            weights.insert(term, rare * frequent * titled);
        }
        weights
    }
}

fn frequencies(lines: &[LineAt<'_>]) -> HashMap<String, u32> {
    let mut counts: HashMap<String, u32> = HashMap::new();
    for line in lines {
        words::terms(line.text, |term| match counts.get_mut(term) {
            Some(count) => *count += 1,
            None => {
                counts.insert(term.to_owned(), 1);
            }
        });
    }
    counts
}

/// The choice of sentences for one summary.
struct Choice {
    weights: HashMap<String, u64>,
    /// Sentences before this index are the section's own; later ones speak for its parts.
    own: usize,
    budget: usize,
    /// The section's title, squashed: a heading that ends with a stop reads like a sentence.
    title: String,
}

/// A sentence that may be chosen.
struct Candidate {
    index: usize,
    words: usize,
    terms: Vec<String>,
    /// Score of everything but its terms, in hundredths.
    merit: u64,
}

impl Choice {
    /// The chosen sentences in reading order.
    fn sentences(mut self, sentences: &[Sentence]) -> Vec<String> {
        let mut candidates = self.candidates(sentences);
        let mut chosen: Vec<usize> = Vec::new();
        while let Some(best) = self.best(&candidates) {
            let candidate = candidates.swap_remove(best);
            self.budget -= candidate.words;
            for term in &candidate.terms {
                // What is said once need not be said again.
                if let Some(weight) = self.weights.get_mut(term) {
                    *weight /= 8;
                }
            }
            chosen.push(candidate.index);
            candidates.retain(|candidate| candidate.words <= self.budget);
        }
        chosen.sort_unstable();
        chosen.into_iter().map(|index| sentences[index].text.clone()).collect()
    }

    fn candidates(&self, sentences: &[Sentence]) -> Vec<Candidate> {
        let mut place = 0;
        let mut candidates = Vec::new();
        for (index, sentence) in sentences.iter().enumerate().filter(|(_, sentence)| sentence.whole) {
            let words = words::count(&sentence.text);
            if self.title.contains(&squash(&sentence.text)) {
                continue;
            }
            let too_long = sentence.text.len() > self.budget * WORD_BYTES;
            if too_long || !(MIN_SENTENCE_WORDS..=self.budget).contains(&words) {
                continue;
            }
            let mut seen = HashSet::new();
            words::terms(&sentence.text, |term| {
                seen.insert(term.to_owned());
            });
            let mut terms: Vec<String> = seen.into_iter().collect();
            terms.sort_unstable();
            let position = if index < self.own { place } else { 4 };
            candidates.push(Candidate { index, words, terms, merit: merit(&sentence.text, position) });
            place += 1;
        }
        candidates
    }

    /// Index of the best candidate; the earlier one where two are equal.
    fn best(&self, candidates: &[Candidate]) -> Option<usize> {
        let scored = candidates.iter().enumerate().map(|(at, candidate)| (self.score(candidate), candidate.index, at));
        let best = scored.max_by_key(|(score, index, _)| (*score, std::cmp::Reverse(*index)));
        best.filter(|(score, _, _)| *score > 0).map(|(_, _, at)| at)
    }

    fn score(&self, candidate: &Candidate) -> u64 {
        let terms: u64 = candidate.terms.iter().filter_map(|term| self.weights.get(term)).sum();
        terms * candidate.merit / (candidate.words as u64 + SHORT_BONUS_WORDS)
    }
}

/// Phrases of sentences that say nothing by themselves.
const BOILERPLATE: [&str; 24] = [
    "see note",
    "see item",
    "see part",
    "see the ",
    "refer to",
    "following table",
    "table below",
    "tables below",
    "as follows",
    "incorporated by reference",
    "incorporated herein",
    "set forth in",
    "in conjunction with",
    "integral part of",
    "not applicable",
    "forward-looking statement",
    "check mark",
    "described in note",
    "discussed in note",
    "may be found",
    "we do not undertake",
    "is included in",
    "are included in",
    "appears under",
];

/// Words a sentence starts with when it leans on the one before.
const LEANING: [&str; 14] = [
    "this ",
    "these ",
    "it ",
    "they ",
    "such ",
    "however",
    "in addition",
    "additionally",
    "for example",
    "as a result",
    "accordingly",
    "therefore",
    "those ",
    "further",
];

/// What speaks for a sentence apart from its terms, in hundredths: place, amounts, no boilerplate.
fn merit(text: &str, position: usize) -> u64 {
    let lower = text.to_lowercase();
    let mut merit: u64 = match position {
        0 => 220,
        1 => 150,
        2..=5 => 120,
        _ => 100,
    };
    let amounts = text.split_whitespace().filter(|word| word.chars().any(|c| c.is_ascii_digit())).count();
    let percent = [100, 115, 125, 125, 115, 100, 85];
    merit = merit * percent[amounts.min(6)] / 100;
    // Footnotes explain a table that the summary does not show.
    if text.starts_with('(') {
        merit /= 2;
    }
    if LEANING.iter().any(|start| lower.starts_with(start)) {
        merit = merit * 80 / 100;
    }
    if BOILERPLATE.iter().any(|phrase| lower.contains(phrase)) || lower.ends_with(':') {
        return 0;
    }
    merit
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{paged, text_tree, tree};
    use super::super::{SectionSettings, finish};
    use super::*;
    use stemma_document::SectionTree;

    fn settings(verbatim: u32, words: u32) -> SectionSettings {
        SectionSettings { summary_tokens_verbatim: verbatim, summary_max_words: words, ..SectionSettings::default() }
    }

    fn shown(tree: &SectionTree) -> String {
        let line = |(_, section): (usize, &Section)| {
            let summary = section.summary.as_ref().map_or("-".into(), |s| format!("[{}] {}", s.by, s.text));
            format!("{}: {summary}\n", section.title)
        };
        tree.walk().map(line).collect()
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
        let tree = tree(&source, &[(1, 0, 1, "Business"), (1, 2, 2, "Rockets"), (1, 6, 2, "Anvils")]);
        insta::assert_snapshot!(shown(&finish(tree, &source, &settings(3, 18), &[])), @r"
        Business: [offline] Covers: Rockets; Anvils. Acme makes anvils and rockets for coyotes in forty countries.
        Rockets: [offline] Rocket revenue was $120 million in 2022, driven by demand for liquid rockets. Rows: Revenue; Operating margin.
        Anvils: [offline] Anvil volumes fell because steel became dearer. The sky is blue over the plant.
        ");
    }

    #[test]
    fn every_figure_of_a_summary_stands_in_its_section() {
        let source = paged(&[REPORT]);
        let tree = tree(&source, &[(1, 0, 1, "Business"), (1, 2, 2, "Rockets"), (1, 6, 2, "Anvils")]);
        for (_, section) in finish(tree, &source, &settings(3, 25), &[]).walk() {
            let text = full_text(section, &source);
            let summary = section.summary.as_ref().map(|summary| summary.text.as_str()).unwrap_or_default();
            for word in summary.split_whitespace().filter(|word| word.contains(|c: char| c.is_ascii_digit())) {
                assert!(text.contains(word), "{word} in {}", section.title);
            }
        }
    }

    #[test]
    fn a_short_section_is_its_own_summary() {
        let (source, tree) = text_tree("# A\nshort\n## B\nalso  short", &[(1, 1, "A"), (3, 2, "B")]);
        insta::assert_snapshot!(shown(&finish(tree, &source, &settings(200, 60), &[])), @r"
        A: [verbatim] # A short ## B also short
        B: [verbatim] ## B also short
        ");
    }

    #[test]
    fn chinese_sections_are_summarized_in_whole_sentences() {
        let text = "天气很好。公司二〇二二年营业收入为人民币一百二十亿元，同比增长百分之十二，主要由于火箭业务需求强劲。大家都来了。";
        let source = paged(&[text]);
        let tree = tree(&source, &[(1, 0, 1, "营业收入")]);
        insta::assert_snapshot!(shown(&finish(tree, &source, &settings(0, 30), &[])), @"营业收入: [offline] 公司二〇二二年营业收入为人民币一百二十亿元，同比增长百分之十二，主要由于火箭业务需求强劲。");
    }

    #[test]
    fn very_many_sections_are_finished_within_their_caps() {
        let text = "# A\nSales of anvils rose by 5 percent in the second year. See Note 3.\n".repeat(20_000);
        let entries: Vec<(u32, u16, String)> = (0..20_000).map(|n| (2 * n + 1, 1, format!("Note {n}"))).collect();
        let entries: Vec<(u32, u16, &str)> =
            entries.iter().map(|(line, level, title)| (*line, *level, title.as_str())).collect();
        let (source, tree) = text_tree(&text, &entries);
        let tree = finish(tree, &source, &settings(0, 20), &[]);
        assert_eq!((tree.sections.len(), tree.references.len()), (20_000, 2_000));
    }

    #[test]
    fn long_lines_without_stops_are_cut_and_bounded() {
        let source = paged(&[&"word ".repeat(100_000)]);
        let tree = tree(&source, &[(1, 0, 1, "A")]);
        let tree = finish(tree, &source, &settings(200, 60), &[]);
        let text = &tree.sections[0].summary.as_ref().unwrap().text;
        assert!(text.ends_with('…') && words::count(text) <= 61, "{text}");
    }
}

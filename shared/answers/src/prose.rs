//! Reads figures of sentences: the clause that says what a figure is, its period, and whether it is a level or a change.

use std::collections::BTreeSet;
use std::ops::Range;

use stemma_reading::numbers::{QuotedNumbers, mentions_gain};
use stemma_reading::sentences::sentence_ranges;
use stemma_reading::tables::page::TablePage;
use stemma_reading::text_words::{says, words};
use stemma_reading::vocabulary::{
    BEFORE_FIGURES, CHANGE_WORDS, CLAUSE_PREPOSITIONS, CLAUSE_SEPARATORS, CLAUSE_VERBS,
    CONJUNCTIONS, CONTRASTIVE_CONJUNCTIONS, IN_ORDER, LEVEL_WORDS,
};

use super::statement::Statement;
use super::statement_words::{direction_words, has_synonym, is_neutral};
use stemma_verify::CharPosition;

// Lines next to a quote in which its sentence may begin or end, and words of a line that is not a heading.
const MAX_SENTENCE_LINES: usize = 4;
const MIN_LINE_WORDS: usize = 6;
// A page is untrusted input: the work on a sentence grows with the square of its length. No sentence of a filing is as long.
const MAX_SENTENCE_BYTES: usize = 8 << 10;
const MAX_FIGURES: usize = 100;
// Words before a figure that are looked at, such as `increased by approximately`.
const WORDS_BEFORE: usize = 4;
// The same after it: `5% higher`, `$7 million increase`.
const WORDS_AFTER: usize = 2;

/// The sentences that a quote is part of, over the ends of lines.
pub(super) struct QuotedSentences {
    pub(super) text: String,
    quote: Range<usize>,
    /// They are too long to be read, and left out.
    pub(super) is_too_long: bool,
}

impl QuotedSentences {
    /// `spans` are of one target, in following lines.
    pub(super) fn new(page: &TablePage<'_>, spans: &[&CharPosition]) -> Option<Self> {
        let first = spans.first()?;
        let last = spans.last()?;
        let lines = page.text();
        let is_prose = |at: usize| {
            let words = lines
                .get(at)
                .map_or(0, |line| line.split_whitespace().count());
            words > 0 && !page.is_row(at)
        };
        // A short line above is a heading.
        let is_prose_above =
            |at: usize| is_prose(at) && lines[at].split_whitespace().count() >= MIN_LINE_WORDS;
        let from = (first.line.saturating_sub(MAX_SENTENCE_LINES)..first.line)
            .rev()
            .take_while(|at| is_prose_above(*at))
            .last()
            .unwrap_or(first.line);
        let until = (last.line + 1..=last.line + MAX_SENTENCE_LINES)
            .take_while(|at| is_prose(*at))
            .last()
            .unwrap_or(last.line);
        let text = lines[from..=until].join(" ");
        let place = |line: usize, at: usize| {
            let before = lines[from..line].iter().map(|line| line.len() + 1);
            before.sum::<usize>() + at
        };
        let ends = sentence_ends(&text);
        let start = place(first.line, first.start);
        let end = place(last.line, last.end);
        let begins = ends.iter().rfind(|at| **at <= start).copied().unwrap_or(0);
        // The quote may end with the full stop.
        let finishes = ends.iter().find(|at| **at >= end).copied();
        let finishes = finishes.unwrap_or(text.len());
        let is_too_long = finishes - begins > MAX_SENTENCE_BYTES;
        let range = if is_too_long { 0..0 } else { begins..finishes };
        Some(Self {
            quote: start.min(range.end) - range.start..end.min(range.end) - range.start,
            text: text[range].to_owned(),
            is_too_long,
        })
    }

    /// The clauses that the quote is part of: what another clause denies says nothing about them.
    pub(super) fn clauses(&self) -> &str {
        let words = words(&self.text);
        let contrasts = words
            .iter()
            .filter(|(word, _)| CONTRASTIVE_CONJUNCTIONS.contains(word.as_str()));
        let stops = self.text.match_indices(';').map(|(at, _)| at);
        let edges: Vec<usize> = contrasts.map(|(_, at)| at.start).chain(stops).collect();
        let start = edges.iter().filter(|at| **at <= self.quote.start).max();
        let end = edges.iter().filter(|at| **at >= self.quote.end).min();
        let range = start.copied().unwrap_or(0)..end.copied().unwrap_or(self.text.len());
        &self.text[range]
    }
}

/// Whether a sentence says of a figure what a statement says: the same period, the same thing, a level or a change.
///
/// # Errors
/// Says what differs.
pub(super) fn check_sentence(
    statement: &Statement<'_>,
    figure: usize,
    source: &Statement<'_>,
    quoted: &QuotedNumbers,
) -> Result<(), String> {
    let number = &statement.figures[figure];
    let gain = mentions_gain(statement.text);
    let places =
        (0..source.figures.len()).filter(|at| number.is_same(&source.figures[*at], quoted, gain));
    let stated = statement.period_of(figure);
    let own = FigureClauses::new(statement)?;
    let clauses = FigureClauses::new(source)?;
    let words = own
        .words(figure)
        .ok_or_else(|| format!("what {} is could not be read", number.text))?;
    let mut reason = format!("{} is not in its sentence", number.text);
    for at in places {
        let same_period = stated.is_none_or(|stated| {
            source.period_of(at).is_none_or(|period| {
                // A year alone is the whole year.
                let is_year = period.year.is_some() && period.month.is_none() && !period.is_part();
                period.is_meant_by(&stated) && !(is_year && stated.is_part())
            })
        });
        if !same_period {
            reason = format!("{} is of another period in its sentence", number.text);
        } else if !clauses.describes(at, words) {
            reason = format!("{} is of something else in its sentence", number.text);
        } else if !clauses.has_sense(at, own.sense(figure)) {
            reason = format!("{} is a level or a change in its sentence", number.text);
        } else {
            return Ok(());
        }
    }
    Err(reason)
}

/// For each figure of a text the words that say what it is.
pub(super) struct FigureClauses<'s> {
    source: &'s Statement<'s>,
    // Bytes before and after each figure that speak of it alone, or of it and the figure next to it.
    windows: Vec<[Range<usize>; 2]>,
    own: Vec<Vec<String>>,
    // With the subject that a figure shares with the one before. Nothing where it cannot be told.
    words: Vec<Option<Vec<String>>>,
}

/// Whether a figure is how much there is, or by how much it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sense {
    Level,
    Change,
    Either,
}

impl<'s> FigureClauses<'s> {
    /// # Errors
    /// When the text has too many figures.
    pub(super) fn new(source: &'s Statement<'s>) -> Result<Self, String> {
        let text = source.text;
        let figures = &source.figures;
        if figures.len() > MAX_FIGURES {
            return Err("its sentence has too many figures".into());
        }
        let ends = sentence_ends(text);
        let sentences: Vec<Range<usize>> = figures
            .iter()
            .map(|figure| {
                let start = ends.iter().rfind(|end| **end <= figure.at.start);
                let finish = ends.iter().find(|end| **end >= figure.at.end);
                start.copied().unwrap_or(0)..finish.copied().unwrap_or(text.len())
            })
            .collect();
        let windows = (0..figures.len()).map(|at| {
            let here = &figures[at].at;
            let sentence = &sentences[at];
            let adjacent = |other: &usize| sentences.get(*other) == Some(sentence);
            let after = Some(at + 1).filter(adjacent);
            let end = match after {
                Some(after) => clause_gap(text, here.end..figures[after].at.start)[0],
                None => clause_end(text, sentence, here),
            };
            let start = match at.checked_sub(1).filter(adjacent) {
                Some(before) => clause_gap(text, figures[before].at.end..here.start)[1],
                None => clause_start(source, sentence, here.start, here.end..end),
            };
            [start..here.start, here.end..end]
        });
        let mut clauses = Self {
            source,
            windows: windows.collect(),
            own: Vec::new(),
            words: Vec::new(),
        };
        clauses.own = (0..figures.len()).map(|at| clauses.own_words(at)).collect();
        clauses.words = (0..figures.len())
            .map(|at| {
                let subject = clauses.subject(at, &sentences);
                Some([&clauses.own[at][..], &subject].concat())
            })
            .collect();
        let mut from = 0;
        for figures in sentences.chunk_by(|one, other| one == other) {
            clauses.pair_subjects(from..from + figures.len(), &figures[0]);
            from += figures.len();
        }
        Ok(clauses)
    }

    /// The words that say what a figure is: those of its clause, and the subject that it shares with the figure before.
    pub(super) fn words(&self, figure: usize) -> Option<&[String]> {
        self.words[figure].as_deref()
    }

    fn own_words(&self, figure: usize) -> Vec<String> {
        let [before, after] = &self.windows[figure];
        let mut words = content_stems(self.source.words_in(before.clone()));
        words.extend(content_stems(self.source.words_in(after.clone())));
        words
    }

    // The words before a figure, or those of the figure before in its sentence where it has none of its own.
    fn subject(&self, figure: usize, sentences: &[Range<usize>]) -> Vec<String> {
        let before = |at: usize| content_stems(self.source.words_in(self.windows[at][0].clone()));
        let previous = |at: usize| {
            at.checked_sub(1)
                .filter(|other| sentences[*other] == sentences[at])
        };
        let mut figure = figure;
        let mut own = before(figure);
        while let (true, Some(previous)) = (own.is_empty(), previous(figure)) {
            figure = previous;
            own = before(figure);
        }
        let text = &self.source.text[self.windows[figure][0].clone()];
        let mut plain = words(text).into_iter().map(|(word, _)| word);
        let first = plain.find(|word| !CLAUSE_SEPARATORS.contains(word.as_str()));
        let preposition = first.filter(|word| CLAUSE_PREPOSITIONS.contains(word.as_str()));
        if let (Some(previous), Some(preposition)) = (previous(figure), preposition) {
            let [before, _] = &self.windows[previous];
            let words = words(&self.source.text[before.clone()]);
            let until = words.iter().find(|(word, _)| *word == preposition);
            let until = until.map_or(before.start, |(_, at)| before.start + at.start);
            own.extend(content_stems(self.source.words_in(before.start..until)));
        }
        own
    }

    // `Net sales and operating income were 90 and 12, respectively`: as many subjects as figures belong to them in order. Where neither
    // subjects nor periods are as many, nobody knows.
    fn pair_subjects(&mut self, figures: Range<usize>, sentence: &Range<usize>) {
        let is_in_order = says(&self.source.text[sentence.clone()], &IN_ORDER);
        let inside = self
            .source
            .periods
            .iter()
            .filter(|mention| sentence.contains(&mention.at.start));
        if !is_in_order || inside.count() == figures.len() {
            return;
        }
        let before = self.windows[figures.start][0].clone();
        let text = &self.source.text[before.clone()];
        let mut parts: Vec<Range<usize>> = words(text)
            .into_iter()
            .filter(|(word, _)| CONJUNCTIONS.contains(word))
            .map(|(_, at)| at)
            .chain(text.match_indices(',').map(|(at, _)| at..at + 1))
            .collect();
        parts.sort_by_key(|at| at.start);
        let starts = std::iter::once(0).chain(parts.iter().map(|at| at.end));
        let ends = parts.iter().map(|at| at.start).chain([text.len()]);
        let subjects: Vec<Vec<String>> = starts
            .zip(ends)
            .map(|(start, end)| before.start + start..before.start + end)
            .map(|at| content_stems(self.source.words_in(at)))
            .filter(|words| !words.is_empty())
            .collect();
        let are_paired = subjects.len() == figures.len();
        for (at, figure) in figures.enumerate() {
            self.words[figure] = are_paired.then(|| subjects[at].clone());
            if are_paired {
                self.own[figure].clone_from(&subjects[at]);
            }
        }
    }

    // Whether the clause of a figure has the words of a statement, and none of those it lacks speaks of another figure.
    fn describes(&self, figure: usize, stated: &[String]) -> bool {
        let Some(here) = self.words(figure) else {
            return false;
        };
        let others: BTreeSet<&String> = (0..self.own.len())
            .filter(|other| *other != figure)
            .flat_map(|other| &self.own[other])
            .collect();
        let has_one = stated.is_empty()
            || stated.iter().any(|word| here.contains(word))
            || has_synonym(stated, &here.join(" "));
        let mut elsewhere = stated.iter().filter(|word| !here.contains(word));
        has_one && !elsewhere.any(|word| others.contains(word))
    }

    fn sense(&self, figure: usize) -> Sense {
        let text = self.source.text;
        let [before, after] = &self.windows[figure];
        let plain = |at: &Range<usize>| -> Vec<String> {
            let words = words(&text[at.clone()]).into_iter();
            words.map(|(word, _)| word).collect()
        };
        let before = plain(before);
        let directions = direction_words();
        let is_direction = |word: &str| {
            CHANGE_WORDS.contains(word) || directions.split(' ').any(|direction| direction == word)
        };
        let mut next = plain(after).into_iter().take(WORDS_AFTER);
        if next.any(|word| CHANGE_WORDS.contains(word.as_str())) {
            return Sense::Change;
        }
        let is_named = before
            .iter()
            .any(|word| CHANGE_WORDS.contains(word.as_str()));
        for (at, word) in before.iter().enumerate().rev().take(WORDS_BEFORE) {
            let is_of_change = match word.as_str() {
                "of" => at > 0 && CHANGE_WORDS.contains(before[at - 1].as_str()),
                "by" => before[..at].iter().any(|word| is_direction(word)),
                word => is_direction(word),
            };
            if LEVEL_WORDS.contains(word.as_str()) {
                return Sense::Level;
            }
            if is_of_change {
                return Sense::Change;
            }
            if BEFORE_FIGURES.contains(word.as_str()) {
                break;
            }
        }
        match is_named {
            true => Sense::Either,
            false => Sense::Level,
        }
    }

    fn has_sense(&self, figure: usize, stated: Sense) -> bool {
        let here = self.sense(figure);
        here == stated || here == Sense::Either || stated == Sense::Either
    }
}

// Words that tell one thing from another.
fn content_stems(mut words: Vec<String>) -> Vec<String> {
    words.retain(|word| !is_neutral(word));
    words
}

// Where what is said of a figure ends and what is said of the next begins, between the two. Words between these belong to neither; without a
// joint they belong to both.
fn clause_gap(text: &str, between: Range<usize>) -> [usize; 2] {
    let gap = &text[between.clone()];
    let stops = gap.match_indices(';').map(|(at, _)| at..at + 1);
    let mut joints: Vec<Range<usize>> = stops.collect();
    let sentences = sentence_ends(gap).into_iter().map(|at| at..at);
    joints.extend(sentences);
    if joints.is_empty() {
        let words = words(gap).into_iter();
        let parting = words.filter(|(word, _)| {
            CLAUSE_SEPARATORS.contains(word.as_str())
                || CONTRASTIVE_CONJUNCTIONS.contains(word.as_str())
        });
        let all: Vec<Range<usize>> = parting.map(|(_, at)| at).collect();
        joints = all
            .iter()
            .filter(|at| gap[..at.start].trim_end().ends_with(','))
            .cloned()
            .collect();
        if joints.is_empty() {
            joints = all;
            joints.extend(gap.match_indices(',').map(|(at, _)| at..at + 1));
            joints.sort_by_key(|at| at.start);
        }
    }
    let all = words(gap);
    let first_word = all.first().map_or(gap.len(), |(_, at)| at.start);
    let last_word = all.last().map_or(0, |(_, at)| at.end);
    // Nothing is said after the first figure, or before the second.
    let adjacent = joints
        .iter()
        .find(|at| at.start <= first_word || at.end >= last_word);
    let (first, last) = match (adjacent, &joints[..]) {
        (Some(at), _) => (at, at),
        (None, [first, .., last]) => (first, last),
        (None, [only]) => (only, only),
        (None, []) => return [between.end, between.start],
    };
    [between.start + first.start, between.start + last.end]
}

// Where clauses meet in a sentence, and whether they do so for a figure after or before that place.
fn clause_edges(sentence: &str) -> Vec<(Range<usize>, [bool; 2])> {
    let words = words(sentence);
    let is = |list: &[&str], at: usize| list.contains(&words[at].0.as_str());
    let mut edges: Vec<(Range<usize>, [bool; 2])> = sentence
        .match_indices(';')
        .map(|(at, _)| (at..at + 1, [true; 2]))
        .collect();
    // `Costs fell and sales were 5`: two clauses, where what is next to the figure has a verb of its own.
    let first_verb = (0..words.len()).find(|at| is(&CLAUSE_VERBS, *at));
    let last_verb = (0..words.len()).rfind(|at| is(&CLAUSE_VERBS, *at));
    for (at, (_, range)) in words.iter().enumerate() {
        if is(&CONTRASTIVE_CONJUNCTIONS, at) {
            edges.push((range.clone(), [true; 2]));
        } else if is(&CONJUNCTIONS, at) {
            let sides = [
                first_verb.is_some_and(|verb| verb < at),
                last_verb.is_some_and(|verb| verb > at),
            ];
            edges.push((range.clone(), sides));
        }
    }
    // `While costs fell, sales were 5`
    if let [(_, turn), (_, next), ..] = &words[..]
        && is(&CONTRASTIVE_CONJUNCTIONS, 0)
        && !sentence[turn.end..next.start].contains(',')
    {
        let comma = sentence[next.start..].find(", ");
        edges.extend(comma.map(|at| (next.start + at..next.start + at + 1, [true; 2])));
    }
    edges.sort_by_key(|(at, _)| at.start);
    edges
}

// Where the clause of the last figure of a sentence ends.
fn clause_end(text: &str, sentence: &Range<usize>, figure: &Range<usize>) -> usize {
    let edges = clause_edges(&text[sentence.clone()]);
    let mut ends = edges
        .iter()
        .filter(|(_, [_, is_end])| *is_end)
        .map(|(at, _)| sentence.start + at.start);
    ends.find(|at| *at >= figure.end).unwrap_or(sentence.end)
}

// Where the clause of the first figure of a sentence begins: with the clauses before it where it says nothing by itself, as in `sales were
// strong but fell 5%`.
fn clause_start(
    source: &Statement<'_>,
    sentence: &Range<usize>,
    figure: usize,
    after: Range<usize>,
) -> usize {
    let is_said_after = !content_stems(source.words_in(after)).is_empty();
    let edges = clause_edges(&source.text[sentence.clone()]);
    let mut starts = edges
        .iter()
        .rev()
        .filter(|(_, [is_start, _])| *is_start)
        .map(|(at, _)| sentence.start + at.end)
        .filter(|at| *at <= figure);
    let start =
        starts.find(|at| is_said_after || !content_stems(source.words_in(*at..figure)).is_empty());
    start.unwrap_or(sentence.start)
}

// Where sentences end, after the white space behind them.
fn sentence_ends(text: &str) -> Vec<usize> {
    let sentences = sentence_ranges(text).into_iter();
    sentences.skip(1).map(|sentence| sentence.start).collect()
}

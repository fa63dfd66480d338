//! Reads figures of sentences: the clause that says what a figure is, its period, and whether it is a level or a change.

use std::collections::BTreeSet;
use std::ops::Range;

use super::normalize::CharPosition;
use super::numbers::{QuotedNumbers, mentions_gain};
use super::statement::Statement;
use super::table::TablePage;
use super::telling_words::{direction_words, has_synonym, is_neutral};
use super::text_words::words;

// Lines beside a quote in which its sentence may begin or end, and words of a line that is no heading.
const MAX_SENTENCE_LINES: usize = 4;
const MIN_LINE_WORDS: usize = 6;
// Words before a full stop that ends no sentence.
const SHORT_FORMS: [&str; 12] = [
    "inc", "corp", "co", "ltd", "no", "nos", "vs", "approx", "mr", "ms", "dr", "st",
];
// Words that begin a clause with a meaning of its own.
const TURNS: [&str; 7] = [
    "but", "although", "though", "while", "whereas", "however", "yet",
];
// Between two figures these part what is said of each.
const JOINTS: [&str; 9] = [
    "and", "but", "while", "whereas", "although", "compared", "versus", "or", "plus",
];
// `… in Europe and $4 million in Asia`: the second figure has the subject of the first up to the preposition.
const PREPOSITIONS: [&str; 5] = ["of", "in", "for", "at", "from"];
// Words before a figure that say that it is a level, or how much something changed.
const LEVELS: [&str; 3] = ["to", "from", "at"];
const CHANGES: [&str; 10] = [
    "increase",
    "decrease",
    "growth",
    "rise",
    "decline",
    "change",
    "reduction",
    "improvement",
    "higher",
    "lower",
];
// Words before a figure that are looked at, such as `increased by approximately`.
const WORDS_BEFORE: usize = 4;
// The same after it: `5% higher`, `$7 million increase`.
const WORDS_AFTER: usize = 2;

/// The sentences in which a quote stands, over the ends of lines.
pub(super) struct QuotedSentences {
    pub(super) text: String,
    quote: Range<usize>,
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
        Some(Self {
            text: text[begins..finishes].to_owned(),
            quote: start - begins..end.min(finishes) - begins,
        })
    }

    /// The clauses that the quote is part of: what another clause denies says nothing about them.
    pub(super) fn clauses(&self) -> &str {
        let words = words(&self.text);
        let turns = words
            .iter()
            .filter(|(word, _)| TURNS.contains(&word.as_str()));
        let stops = self.text.match_indices(';').map(|(at, _)| at);
        let edges: Vec<usize> = turns.map(|(_, at)| at.start).chain(stops).collect();
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
    (sentences, quoted): (&str, &QuotedNumbers),
) -> Result<(), String> {
    let number = &statement.figures[figure];
    let gain = mentions_gain(statement.text);
    let source = Statement::new(sentences);
    let places =
        (0..source.figures.len()).filter(|at| number.is_same(&source.figures[*at], quoted, gain));
    let stated = statement.period_of(figure);
    let own = FigureClauses::new(statement);
    let clauses = FigureClauses::new(&source);
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
        } else if !clauses.say(at, &own.words(figure)) {
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
    // Bytes before and after each figure that speak of it alone, or of it and the figure beside it.
    windows: Vec<[Range<usize>; 2]>,
}

/// Whether a figure is how much there is, or by how much it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sense {
    Level,
    Change,
    Either,
}

impl<'s> FigureClauses<'s> {
    pub(super) fn new(source: &'s Statement<'s>) -> Self {
        let figures = &source.figures;
        let ends = sentence_ends(source.text);
        let windows = (0..figures.len()).map(|at| {
            let here = &figures[at].at;
            let sentence = ends.iter().rfind(|end| **end <= here.start);
            let finish = ends.iter().find(|end| **end >= here.end);
            let start = match at.checked_sub(1) {
                Some(before) => joint(source.text, figures[before].at.end..here.start)[1],
                None => 0,
            };
            let end = match figures.get(at + 1) {
                Some(after) => joint(source.text, here.end..after.at.start)[0],
                None => source.text.len(),
            };
            let start = start.max(sentence.copied().unwrap_or(0));
            let end = end.min(finish.copied().unwrap_or(source.text.len()));
            [start..here.start, here.end..end]
        });
        let windows = windows.collect();
        Self { source, windows }
    }

    /// The words that say what a figure is: those of its clause, and the subject that it shares with the figure before.
    pub(super) fn words(&self, figure: usize) -> Vec<String> {
        let mut words = self.own_words(figure);
        words.extend(self.subject(figure));
        words
    }

    fn own_words(&self, figure: usize) -> Vec<String> {
        let [before, after] = &self.windows[figure];
        let mut words = telling(self.source.words_in(before.clone()));
        words.extend(telling(self.source.words_in(after.clone())));
        words
    }

    // The words before a figure, or those of the figure before in its sentence where it has none of its own.
    fn subject(&self, figure: usize) -> Vec<String> {
        let [before, _] = &self.windows[figure];
        let own = telling(self.source.words_in(before.clone()));
        let text = &self.source.text[before.clone()];
        let mut plain = words(text).into_iter().map(|(word, _)| word);
        let first = plain.find(|word| !JOINTS.contains(&word.as_str()));
        let preposition = first.filter(|word| PREPOSITIONS.contains(&word.as_str()));
        let previous = figure.checked_sub(1).filter(|previous| {
            let between = self.windows[*previous][1].start..before.start;
            sentence_ends(self.source.text)
                .iter()
                .all(|end| !between.contains(end))
        });
        match (previous, preposition) {
            (Some(previous), _) if own.is_empty() => self.subject(previous),
            (Some(previous), Some(preposition)) => {
                let [before, _] = &self.windows[previous];
                let text = &self.source.text[before.clone()];
                let words = words(text);
                let until = words.iter().find(|(word, _)| *word == preposition);
                let until = until.map_or(before.start, |(_, at)| before.start + at.start);
                let head = telling(self.source.words_in(before.start..until));
                own.into_iter().chain(head).collect()
            }
            _ => own,
        }
    }

    // Whether the clause of a figure has the words of a statement, and none of those it lacks speaks of another figure.
    fn say(&self, figure: usize, stated: &[String]) -> bool {
        let here = self.words(figure);
        let value = self.source.figures[figure].signed_value();
        let others: BTreeSet<String> = (0..self.windows.len())
            .filter(|other| self.source.figures[*other].signed_value() != value)
            .flat_map(|other| self.own_words(other))
            .collect();
        let strays = |word: &&String| !here.contains(word) && others.contains(*word);
        let has_one = stated.is_empty()
            || stated.iter().any(|word| here.contains(word))
            || has_synonym(stated, &here.join(" "));
        has_one && !stated.iter().any(|word| strays(&word))
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
            CHANGES.contains(&word) || directions.split(' ').any(|direction| direction == word)
        };
        let mut next = plain(after).into_iter().take(WORDS_AFTER);
        if next.any(|word| CHANGES.contains(&word.as_str())) {
            return Sense::Change;
        }
        let is_named = before.iter().any(|word| CHANGES.contains(&word.as_str()));
        for (at, word) in before.iter().enumerate().rev().take(WORDS_BEFORE) {
            let is_of_change = |word: &str| match word {
                "of" => at > 0 && CHANGES.contains(&before[at - 1].as_str()),
                "by" => before[..at].iter().any(|word| is_direction(word)),
                word => is_direction(word),
            };
            if LEVELS.contains(&word.as_str()) {
                return Sense::Level;
            }
            if is_of_change(word) {
                return Sense::Change;
            }
            if matches!(word.as_str(), "of" | "by" | "was" | "were" | "is" | "are") {
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
fn telling(mut words: Vec<String>) -> Vec<String> {
    words.retain(|word| !is_neutral(word));
    words
}

// Where what is said of a figure ends and what is said of the next begins, between the two. Words between these belong to neither; without a
// joint they belong to both.
fn joint(text: &str, between: Range<usize>) -> [usize; 2] {
    let gap = &text[between.clone()];
    let stops = gap.match_indices(';').map(|(at, _)| at..at + 1);
    let mut joints: Vec<Range<usize>> = stops.collect();
    let sentences = sentence_ends(gap).into_iter().map(|at| at..at);
    joints.extend(sentences);
    if joints.is_empty() {
        let words = words(gap).into_iter();
        let parting = words.filter(|(word, _)| JOINTS.contains(&word.as_str()));
        let all: Vec<Range<usize>> = parting.map(|(_, at)| at).collect();
        let has_comma = |at: &&Range<usize>| gap[..at.start].trim_end().ends_with(',');
        joints = all.iter().filter(has_comma).cloned().collect();
        if joints.is_empty() {
            joints = all;
            joints.extend(gap.match_indices(',').map(|(at, _)| at..at + 1));
            joints.sort_by_key(|at| at.start);
        }
    }
    let is_bare = |text: &str| words(text).is_empty();
    // Nothing is said after the first figure, or before the second.
    let beside = joints
        .iter()
        .find(|at| is_bare(&gap[..at.start]) || is_bare(&gap[at.end..]));
    let (first, last) = match (beside, &joints[..]) {
        (Some(at), _) => (at, at),
        (None, [first, .., last]) => (first, last),
        (None, [only]) => (only, only),
        (None, []) => return [between.end, between.start],
    };
    [between.start + first.start, between.start + last.end]
}

// Where sentences end, after the white space behind them: at a stop before a capital letter, except after initials and short forms.
fn sentence_ends(text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    for (at, c) in text.char_indices() {
        let rest = &text[at + c.len_utf8()..];
        let next = rest.trim_start();
        let is_stop = matches!(c, '.' | '!' | '?')
            && rest.len() > next.len()
            && next.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit() || c == '(');
        let word = text[..at].rsplit(|c: char| !c.is_alphanumeric()).next();
        let is_short = word.is_some_and(|word| {
            word.chars().count() == 1 || SHORT_FORMS.contains(&word.to_lowercase().as_str())
        });
        if is_stop && !is_short {
            ends.push(text.len() - next.len());
        }
    }
    ends
}

//! Finds copied figures in sentences, with their periods and the clause that says what they are.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use stemma_document::english_words::MONTHS;
use stemma_reading::lines::{LineKind, read_lines};
use stemma_reading::numbers::NumberMention;
use stemma_reading::period::{PeriodMention, StatedPeriod, head_period, period_mentions};
use stemma_reading::sentences::{is_stop, sentence_ranges};
use stemma_reading::tables::CellUnit;
use stemma_reading::text_words::words;
use stemma_reading::tokenizer::content_words;
use stemma_reading::vocabulary::{
    CLAUSE_SEPARATORS, COMPUTING_WORDS, DECREASES, FRAMING_WORDS, INCREASES, PERIOD_COUNTS,
    SHARE_WORDS,
};

use super::cells::is_same;
use super::claim::StatedFigure;
use super::direction::direction_of;
use super::evidence::Evidence;
use super::normalize::CharPosition;
use super::periods::period_of;

// Lines next to a quote in which its sentence may begin or end, and words of a line that is not a heading.
const MAX_LINES: usize = 8;
const MIN_LINE_WORDS: usize = 6;
// A page is untrusted input. No sentence of a filing is as long.
const MAX_SENTENCE_BYTES: usize = 8 << 10;

/// A figure of a sentence.
#[derive(Debug, Clone)]
pub(crate) struct FoundInSentence {
    pub(crate) number: NumberMention,
    pub(crate) unit: CellUnit,
    pub(crate) period: StatedPeriod,
    /// What its clause says.
    pub(crate) direction: Option<Ordering>,
}

// The sentences that a part of the quote is in.
struct Sentence {
    text: String,
    quote: Range<usize>,
    figures: Vec<NumberMention>,
    periods: Vec<PeriodMention>,
}

/// Finds a figure in the sentences of its quote. `statement` is the claim without its figures.
///
/// # Errors
/// Says why it is not one figure there.
pub(crate) fn find_in_sentence(
    figure: &StatedFigure,
    number: &NumberMention,
    evidence: &Evidence<'_>,
    statement: &str,
) -> Result<FoundInSentence, String> {
    let value = &figure.value;
    let sentences = Sentence::all(evidence);
    let found = sentences.iter().flat_map(|sentence| {
        let figures = sentence.figures.iter().enumerate();
        let quoted = figures.filter(move |(_, own)| {
            let is_quoted =
                sentence.quote.start <= own.at.start && own.at.end <= sentence.quote.end;
            is_quoted && is_same(own, number)
        });
        quoted.map(move |(at, _)| (sentence, at))
    });
    let (sentence, at) = match found.collect::<Vec<_>>()[..] {
        [] => return Err(format!("{value} is not in its quote")),
        [found] => found,
        _ => return Err(format!("{value} is several times in its quote")),
    };
    let own = content_words(&sentence.text);
    if !content_words(&figure.row)
        .iter()
        .all(|word| own.contains(word))
    {
        let row = &figure.row;
        return Err(format!(
            "the sentence of {value} does not speak of \"{row}\""
        ));
    }
    let shift = evidence.year_shift;
    let places: Vec<Range<usize>> = sentence.figures.iter().map(|one| one.at.clone()).collect();
    let period = period_of(&sentence.text, &places, &sentence.periods, at);
    let period = period.unwrap_or_default().in_fiscal_year(shift);
    let stated = head_period(&figure.column).in_fiscal_year(shift);
    if !period.is_meant_by(&stated) || period.is_empty() && stated.year.is_some() {
        return Err(format!("{value} is of another period in its sentence"));
    }
    if !sentence.speaks_of(at, statement) {
        return Err(format!("{value} is of something else in its sentence"));
    }
    let number = sentence.figures[at].clone();
    let after = sentence.text.get(number.at.end..).unwrap_or_default();
    Ok(FoundInSentence {
        unit: CellUnit {
            scale: Some(number.own_scale().unwrap_or(1)),
            currency: number.currency(),
            is_percent: number.is_percent(),
            is_per_unit: SHARE_WORDS.starts(after.trim_start()),
            is_count: number.currency().is_none() && !number.is_percent(),
        },
        direction: direction_of(&sentence.text[sentence.clauses()[at].clone()]),
        number,
        period,
    })
}

impl Sentence {
    fn all(evidence: &Evidence<'_>) -> Vec<Self> {
        let spans: Vec<&CharPosition> = evidence
            .quote
            .spans
            .iter()
            .filter(|span| !evidence.is_in_table(span.target, span.line))
            .collect();
        let parts = spans.chunk_by(|one, next| {
            one.target == next.target && (one.line..=one.line + 1).contains(&next.line)
        });
        parts
            .filter_map(|spans| Self::new(evidence, spans))
            .collect()
    }

    // `spans` are of one target, in lines that follow each other.
    fn new(evidence: &Evidence<'_>, spans: &[&CharPosition]) -> Option<Self> {
        let first = spans.first()?;
        let last = spans.last()?;
        let target = evidence.targets.get(first.target)?;
        let count = |at: usize| target.line(at).split_whitespace().count();
        let is_text = |at: &usize| count(*at) > 0 && !evidence.is_in_table(first.target, *at);
        // A short line above is a heading.
        let above = (first.line.saturating_sub(MAX_LINES)..first.line).rev();
        let above = above.take_while(|at| is_text(at) && count(*at) >= MIN_LINE_WORDS);
        let below = (last.line + 1..=last.line + MAX_LINES).take_while(is_text);
        let from = above.last().unwrap_or(first.line);
        let until = below.last().unwrap_or(last.line);
        let lines: Vec<&str> = (from..=until).map(|at| target.line(at)).collect();
        let text = lines.join(" ");
        let place = |line: usize, at: usize| {
            let before = lines[..line - from].iter().map(|line| line.len() + 1);
            before.sum::<usize>() + at
        };
        let quote = place(first.line, first.start)..place(last.line, last.end);
        let range = sentences_around(&text, quote.clone());
        let text = text.get(range.clone())?.to_owned();
        let is_row = !text.trim_end().ends_with(is_stop)
            && read_lines(text.lines())
                .iter()
                .any(|line| line.kind == LineKind::Row);
        if is_row || range.len() > MAX_SENTENCE_BYTES {
            return None;
        }
        let mut figures = evidence.marks.numbers(&text);
        figures.retain(|number| {
            let is_word = !number.text.contains(|c: char| c.is_ascii_digit());
            !number.is_label() && !is_word && !is_length(&text, number)
        });
        let mut periods = period_mentions(&text);
        // `$2,022 million` is not a year.
        periods.retain(|PeriodMention { at, .. }| {
            let overlaps =
                |figure: &NumberMention| figure.at.start < at.end && at.start < figure.at.end;
            !figures.iter().any(overlaps)
        });
        Some(Self {
            text,
            quote: quote.start.saturating_sub(range.start)..quote.end.saturating_sub(range.start),
            figures,
            periods,
        })
    }

    // Whether no other figure is nearer to the words of a statement.
    fn speaks_of(&self, at: usize, statement: &str) -> bool {
        let mut stated: BTreeSet<String> = content_words(statement).into_iter().collect();
        stated.retain(|word| !is_neutral(word));
        let first = self.figures.first().map_or(0, |first| first.at.start);
        let clauses = self.figures.iter().zip(self.clauses());
        let subjects: Vec<BTreeSet<String>> = clauses
            .map(|(figure, range)| {
                let before = &self.text[range.start..figure.at.start.max(range.start)];
                let mut own = content_words(&self.text[range]);
                // A clause without words before its figure goes on with those before the first one.
                if content_words(before).iter().all(|word| is_neutral(word)) {
                    own.extend(content_words(&self.text[..first]));
                }
                own.into_iter()
                    .filter(|word| stated.contains(word))
                    .collect()
            })
            .collect();
        let own = &subjects[at];
        let mut others = subjects.iter().filter(|other| *other != own);
        !own.is_empty() && others.all(|other| other.len() < own.len())
    }

    // What is said of each figure: the words between separators.
    fn clauses(&self) -> Vec<Range<usize>> {
        let mut start = 0;
        let mut clauses = Vec::new();
        for (at, figure) in self.figures.iter().enumerate() {
            let next = self.figures.get(at + 1);
            let end = next.map_or(self.text.len(), |next| {
                let between = figure.at.end.min(next.at.start)..next.at.start;
                let text = &self.text[between.clone()];
                let sign = text.find([';', ',']);
                let words = words(text).into_iter();
                let mut words = words.filter(|(word, _)| CLAUSE_SEPARATORS.contains(word));
                let word = words.next().map(|(_, at)| at.start);
                let parted = sign.into_iter().chain(word).min();
                parted.map_or(between.end, |at| between.start + at)
            });
            clauses.push(start..end);
            start = end;
        }
        clauses
    }
}

// The whole sentences around a range.
fn sentences_around(text: &str, range: Range<usize>) -> Range<usize> {
    let sentences = sentence_ranges(text);
    let touched =
        |sentence: &&Range<usize>| sentence.start < range.end && range.start < sentence.end;
    let first = sentences.iter().find(touched);
    let last = sentences.iter().rfind(touched);
    match (first, last) {
        (Some(first), Some(last)) => first.start.min(range.start)..last.end.max(range.end),
        _ => range,
    }
}

// `three months ended …` is a period, not a count.
fn is_length(text: &str, number: &NumberMention) -> bool {
    let after = text.get(number.at.end..).unwrap_or_default();
    let after = after.trim_start_matches([' ', '-']).to_lowercase();
    PERIOD_COUNTS.starts(&after)
}

// Whether a stem tells nothing about what a figure is: words of the form of a statement, of computing, of directions and periods.
fn is_neutral(word: &str) -> bool {
    static NEUTRAL: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let words = [
            &COMPUTING_WORDS[..],
            &INCREASES[..],
            &DECREASES[..],
            &MONTHS[..],
        ]
        .concat();
        content_words(&words.join(" ")).into_iter().collect()
    });
    NEUTRAL.contains(word)
        || FRAMING_WORDS.contains(word)
        || word.contains(|c: char| c.is_ascii_digit()) && !word.contains(char::is_alphabetic)
}

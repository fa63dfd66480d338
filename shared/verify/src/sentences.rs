//! Finds copied figures in sentences, with their periods and the clause that says what they are.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use stemma_document::english_words::MONTHS;
use stemma_reading::lines::{LineKind, read_lines};
use stemma_reading::numbers::{NumberMention, numbers};
use stemma_reading::period::{PeriodMention, StatedPeriod, head_period, period_mentions};
use stemma_reading::sentences::{STOPS, sentence_ranges};
use stemma_reading::text_words::{says, words};
use stemma_reading::tokenizer::content_words;
use stemma_reading::vocabulary::{
    CLAUSE_SEPARATORS, COMPUTING_WORDS, DECREASES, FRAMING_WORDS, IN_ORDER, INCREASES,
    PERIOD_COUNTS, SHARE_WORDS,
};

use super::claim::StatedFigure;
use super::evidence::Evidence;
use super::normalize::CharPosition;
use super::number::is_same;
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
    pub(crate) period: StatedPeriod,
    pub(crate) is_per_unit: bool,
    /// The clause that says what it is.
    pub(crate) clause: String,
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
    let sentences = Sentence::all(evidence);
    let mut found: Option<(&Sentence, usize)> = None;
    for sentence in &sentences {
        for at in sentence.quoted_figures() {
            if !is_same(&sentence.figures[at], number) {
                continue;
            }
            if found.is_some() {
                return Err(format!("{} is several times in its quote", figure.value));
            }
            found = Some((sentence, at));
        }
    }
    let (sentence, at) = found.ok_or_else(|| format!("{} is not in its quote", figure.value))?;
    sentence.check_row(figure)?;
    let period = sentence.period(at, evidence.year_shift);
    sentence.check_column(figure, period, evidence.year_shift)?;
    sentence.check_clause(figure, at, statement)?;
    Ok(FoundInSentence {
        is_per_unit: sentence.is_per_unit(at),
        clause: sentence.clause(at).to_owned(),
        number: sentence.figures[at].clone(),
        period: period.unwrap_or_default(),
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
        spans
            .chunk_by(|one, next| {
                one.target == next.target && (one.line..=one.line + 1).contains(&next.line)
            })
            .filter_map(|spans| Self::new(evidence, spans))
            .collect()
    }

    // `spans` are of one target, in lines that follow each other.
    fn new(evidence: &Evidence<'_>, spans: &[&CharPosition]) -> Option<Self> {
        let first = spans.first()?;
        let last = spans.last()?;
        let target = evidence.targets.get(first.target)?;
        let count = |at: usize| target.line(at).split_whitespace().count();
        let is_text = |at: usize| count(at) > 0 && !evidence.is_in_table(first.target, at);
        // A short line above is a heading.
        let from = (first.line.saturating_sub(MAX_LINES)..first.line)
            .rev()
            .take_while(|at| is_text(*at) && count(*at) >= MIN_LINE_WORDS)
            .last()
            .unwrap_or(first.line);
        let until = (last.line + 1..=last.line + MAX_LINES)
            .take_while(|at| is_text(*at))
            .last()
            .unwrap_or(last.line);
        let lines: Vec<&str> = (from..=until).map(|at| target.line(at)).collect();
        let text = lines.join(" ");
        let place = |line: usize, at: usize| {
            let before = lines[..line - from].iter().map(|line| line.len() + 1);
            before.sum::<usize>() + at
        };
        let start = place(first.line, first.start);
        let end = place(last.line, last.end);
        let range = sentences_around(&text, start..end);
        if range.len() > MAX_SENTENCE_BYTES {
            return None;
        }
        let text = text.get(range.clone())?.to_owned();
        let is_row = !text.trim_end().ends_with(STOPS)
            && read_lines(text.lines())
                .iter()
                .any(|line| line.kind == LineKind::Row);
        if is_row {
            return None;
        }
        Some(Self::parse(
            text,
            start.saturating_sub(range.start)..end.saturating_sub(range.start),
        ))
    }

    fn parse(text: String, quote: Range<usize>) -> Self {
        let figures: Vec<NumberMention> = numbers(&text)
            .into_iter()
            .filter(|number| {
                let is_word = !number.text.contains(|c: char| c.is_ascii_digit());
                !number.is_label() && !is_word && !is_length(&text, number)
            })
            .collect();
        let mut periods = period_mentions(&text);
        // `$2,022 million` is not a year.
        periods.retain(|period| {
            !figures
                .iter()
                .any(|figure| figure.at.start < period.at.end && period.at.start < figure.at.end)
        });
        Self {
            text,
            quote,
            figures,
            periods,
        }
    }

    fn quoted_figures(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.figures.len()).filter(|at| {
            let number = &self.figures[*at].at;
            self.quote.start <= number.start && number.end <= self.quote.end
        })
    }

    // The words of a stated row must be in the sentence.
    fn check_row(&self, figure: &StatedFigure) -> Result<(), String> {
        let own = content_words(&self.text);
        match content_words(&figure.row)
            .iter()
            .all(|word| own.contains(word))
        {
            true => Ok(()),
            false => Err(format!(
                "the sentence of {} does not speak of \"{}\"",
                figure.value, figure.row
            )),
        }
    }

    fn period(&self, at: usize, year_shift: i32) -> Option<StatedPeriod> {
        let places: Vec<Range<usize>> = self
            .figures
            .iter()
            .map(|figure| figure.at.clone())
            .collect();
        let found = period_of(&places, &self.periods, at, says(&self.text, &IN_ORDER))?;
        Some(found.in_fiscal_year(year_shift))
    }

    fn check_column(
        &self,
        figure: &StatedFigure,
        period: Option<StatedPeriod>,
        year_shift: i32,
    ) -> Result<(), String> {
        let stated = head_period(&figure.column).in_fiscal_year(year_shift);
        let is_meant = match period {
            Some(period) => period.is_meant_by(&stated),
            None => stated.year.is_none(),
        };
        match is_meant {
            true => Ok(()),
            false => Err(format!(
                "{} is of another period in its sentence",
                figure.value
            )),
        }
    }

    fn is_per_unit(&self, at: usize) -> bool {
        let after = self.text.get(self.figures[at].at.end..).unwrap_or_default();
        SHARE_WORDS.starts(after.trim_start())
    }

    // Where a sentence has several figures, no other one may be nearer to the words of the statement.
    fn check_clause(
        &self,
        figure: &StatedFigure,
        at: usize,
        statement: &str,
    ) -> Result<(), String> {
        let mut stated: BTreeSet<String> = content_words(statement).into_iter().collect();
        stated.retain(|word| !is_neutral(word));
        let clauses = self.clauses();
        let hits = |at: usize| -> BTreeSet<&String> {
            stated
                .iter()
                .filter(|word| clauses[at].contains(*word))
                .collect()
        };
        let own = hits(at);
        let mut others = (0..self.figures.len())
            .filter(|other| *other != at)
            .map(hits);
        let is_other = own.is_empty()
            || others
                .any(|there| there.len() > own.len() || there.len() == own.len() && there != own);
        match is_other {
            true => Err(format!(
                "{} is of something else in its sentence",
                figure.value
            )),
            false => Ok(()),
        }
    }

    // The words that say what each figure is: those between separators. A clause without words before its figure has those of the
    // first one.
    fn clauses(&self) -> Vec<BTreeSet<String>> {
        let text = |range: Range<usize>| self.text.get(range).unwrap_or_default();
        let subject = self
            .figures
            .first()
            .map_or("", |first| text(0..first.at.start));
        let clauses = self.figures.iter().zip(self.clause_ranges());
        clauses
            .map(|(figure, range)| {
                let before = text(range.start..figure.at.start.max(range.start));
                let mut own: BTreeSet<String> = content_words(text(range)).into_iter().collect();
                if content_words(before).iter().all(|word| is_neutral(word)) {
                    own.extend(content_words(subject));
                }
                own
            })
            .collect()
    }

    fn clause(&self, figure: usize) -> &str {
        let range = self.clause_ranges().into_iter().nth(figure);
        range
            .and_then(|range| self.text.get(range))
            .unwrap_or_default()
    }

    fn clause_ranges(&self) -> Vec<Range<usize>> {
        let mut start = 0;
        let mut ranges = Vec::new();
        for pair in self.figures.windows(2) {
            let between = pair[0].at.end..pair[1].at.start;
            let end = self.separator(&between).unwrap_or(between.end);
            ranges.push(start..end);
            start = end;
        }
        ranges.push(start..self.text.len());
        ranges
    }

    // Where the words between two figures are parted.
    fn separator(&self, between: &Range<usize>) -> Option<usize> {
        let text = self.text.get(between.clone())?;
        let sign = text.find([';', ',']);
        let named = words(text);
        let word = named
            .iter()
            .find(|(word, _)| CLAUSE_SEPARATORS.contains(word.as_str()));
        let at = sign.into_iter().chain(word.map(|(_, at)| at.start)).min()?;
        Some(between.start + at)
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

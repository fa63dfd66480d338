//! Compares the figures of a statement with the cells of tables in which its quotes find them: row, column, sign, scale.

use std::collections::BTreeSet;

use stemma_reading::numbers::{Bound, Money, NumberMention, QuotedNumbers, mentions_gain, numbers};
use stemma_reading::period::StatedPeriod;
use stemma_reading::tables::page::{Cell, RowLabel, TablePage};
use stemma_reading::text_words::{says, without_parentheses};
use stemma_reading::vocabulary::{
    ALTERNATIVE_STEMS, CHANGE_HEADS, DECREASE_STEMS, FIGURE_SOURCES, INFLOW_STEMS, NEGATIVE_LEVELS,
    OUTFLOW_STEMS,
};

use super::prose::{QuotedSentences, check_sentence};
use super::row_names::{RowNames, literal_length};
use super::statement::Statement;
use super::terms::{Terms, label_words, phrase, position};
use stemma_verify::CharPosition;
use stemma_verify::QuoteTarget;

// What a word counts that rows of different meaning share.
const WEAK_WEIGHT: f64 = 0.25;
const WEAK_WORDS: [&str; 1] = ["net"];
// What a word of a label counts that the statement lacks, and a word that it has of the lines above the row. A row that a statement names in
// full is above one that has the same words and more.
const MISSING_COST: f64 = 0.5;
const ABOVE_WEIGHT: f64 = 0.3;
// Least share of a label's words that a statement must have.
const MIN_LABEL_SHARE: f64 = 0.5;

/// The pages of a citation.
pub(super) struct CitedPages<'t, 'a> {
    /// The page before the first target, if it was read.
    pub(super) before: Option<QuoteTarget<'a>>,
    pub(super) targets: &'t [QuoteTarget<'a>],
    /// From the year of a date in January or February to the name of its fiscal year.
    pub(super) year_shift: i32,
}

/// The text that one citation found, read as cells and prose.
pub(super) struct CitedText<'a> {
    /// Numbers of the targets: pages, or first lines.
    pub(super) numbers: Vec<u32>,
    pub(super) pages: Vec<TablePage<'a>>,
    /// Target and cell.
    pub(super) cells: Vec<(usize, Cell)>,
    prose: QuotedNumbers,
    // Sentences of the quote outside of tables, and those clauses of them that the quote is part of.
    pub(super) sentences: String,
    pub(super) clauses: String,
    /// A sentence of the quote is too long to be read.
    pub(super) is_too_long: bool,
    pub(super) money: Money,
    pub(super) year_shift: i32,
    /// The page before, if its table goes on.
    pub(super) text_before: String,
}

/// What the quotes say about a figure.
#[derive(Debug)]
pub(super) enum FigureCheck {
    Cell(Box<Cell>),
    Prose,
    NotFound,
    /// It is in a quote, but means something else.
    Differs(String),
}

impl<'a> CitedText<'a> {
    pub(super) fn new(
        cited: &CitedPages<'_, 'a>,
        spans: &[CharPosition],
        quote: &str,
        page_text: &str,
    ) -> Self {
        let targets = cited.targets;
        let page = |target: &QuoteTarget<'a>| TablePage::new(target.lines, cited.year_shift);
        let mut pages: Vec<TablePage<'a>> = targets.iter().map(page).collect();
        let first = cited.before.as_ref().map(page);
        for at in 0..pages.len() {
            let (earlier, rest) = pages.split_at_mut(at);
            if let Some(previous) = earlier.last().or(first.as_ref()) {
                rest[0].continue_from(previous);
            }
        }
        let before = cited.before.as_ref();
        let continued = before.filter(|_| pages.first().is_some_and(TablePage::is_continued));
        let text_before = continued.map(QuoteTarget::full_text).unwrap_or_default();
        let mut cells = Vec::new();
        let mut prose = Vec::new();
        let mut in_prose: Vec<&CharPosition> = Vec::new();
        for span in spans {
            let page = &pages[span.target];
            if page.is_row(span.line) {
                let quoted = page.cells(span.line).into_iter().filter(|cell| {
                    cell.number.is_some() && cell.at.start < span.end && span.start < cell.at.end
                });
                cells.extend(quoted.map(|cell| (span.target, cell)));
                continue;
            }
            let line = targets[span.target].line(span.line);
            prose.push(line.get(span.start..span.end).unwrap_or_default());
            in_prose.push(span);
        }
        let follows = |one: &&CharPosition, next: &&CharPosition| {
            one.target == next.target && (one.line..=one.line + 1).contains(&next.line)
        };
        let sentences: Vec<QuotedSentences> = in_prose
            .chunk_by(follows)
            .filter_map(|spans| QuotedSentences::new(&pages[spans[0].target], spans))
            .collect();
        let joined = |part: fn(&QuotedSentences) -> &str| {
            sentences.iter().map(part).collect::<Vec<_>>().join(" ")
        };
        // Without rows the quote itself, in which numbers and units of two lines are together.
        let prose = match cells.is_empty() {
            true => quote.to_owned(),
            false => prose.join(" "),
        };
        Self {
            numbers: targets.iter().map(|target| target.number).collect(),
            year_shift: cited.year_shift,
            pages,
            cells,
            prose: QuotedNumbers::new(&prose, page_text),
            sentences: joined(|one| &one.text),
            clauses: joined(QuotedSentences::clauses),
            is_too_long: sentences.iter().any(|one| one.is_too_long),
            money: Money::new(&format!("{text_before}\n{page_text}")),
            text_before,
        }
    }
}

/// Looks a figure of a statement up in the cited texts.
pub(super) fn check_figure(
    statement: &Statement<'_>,
    figure: usize,
    cited: &[&CitedText<'_>],
) -> FigureCheck {
    let number = &statement.figures[figure];
    let gain = mentions_gain(statement.text);
    let bound = Bound::before(statement.text, number);
    let mut differs: Option<String> = None;
    for text in cited {
        for (target, cell) in &text.cells {
            let Some(printed) = &cell.number else {
                continue;
            };
            let scales = cell_scales(&text.pages[*target], cell);
            let fits = match bound {
                Some(bound) => number.is_bound_of_cell(bound, printed, &scales, &text.money),
                None => number.is_supported_by_cell(printed, &scales, &text.money),
            };
            if !fits {
                continue;
            }
            match check_cell(statement, figure, &text.pages[*target], cell) {
                Ok(()) => return FigureCheck::Cell(Box::new(cell.clone())),
                Err(reason) => {
                    differs.get_or_insert(reason);
                }
            }
        }
    }
    if let Some(reason) = differs {
        return FigureCheck::Differs(reason);
    }
    // A sentence that states a bound supports the same bound only.
    let has_bound = |text: &CitedText<'_>| {
        let found = numbers(&text.sentences);
        let mut same = found
            .iter()
            .filter(|other| other.digits == number.digits)
            .peekable();
        let is_open = same.peek().is_none() && bound.is_none();
        is_open || same.any(|other| Bound::before(&text.sentences, other) == bound)
    };
    let in_prose = cited
        .iter()
        .filter(|text| number.is_supported_by(&text.prose, gain) && has_bound(text));
    for text in in_prose {
        let source = Statement::new(&text.sentences).in_fiscal_years(text.year_shift);
        match check_sentence(statement, figure, &source, &text.prose) {
            Ok(()) => return FigureCheck::Prose,
            Err(reason) => {
                differs.get_or_insert(reason);
            }
        }
    }
    differs.map_or(FigureCheck::NotFound, FigureCheck::Differs)
}

/// Scales of a cell: amounts per share are printed as they are.
pub(super) fn cell_scales(page: &TablePage<'_>, cell: &Cell) -> Vec<f64> {
    match is_per_share(page, cell) {
        true => Vec::new(),
        false => cell.scales.clone(),
    }
}

// Whether the label, its group or the head of the column says that the amount is one per share.
fn is_per_share(page: &TablePage<'_>, cell: &Cell) -> bool {
    let label = page.row_label(cell.line);
    let above = label.above.last().map(String::as_str).unwrap_or_default();
    let is_per = |text: &str| {
        let lower = text.to_lowercase();
        let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
        // `Cash per consolidated balance sheets`
        let is_unit = |pair: &[&str]| pair[0] == "per" && !FIGURE_SOURCES.contains(pair[1]);
        // `(in millions, except per share amounts)` may be over one column alone.
        words.windows(2).any(is_unit) && !lower.contains("except")
    };
    // A group may also have rows that count shares, without cents.
    let has_cents = cell
        .number
        .as_ref()
        .is_some_and(|number| number.decimals() > 0);
    is_per(&cell.label)
        || is_per(&cell.head)
        || (has_cents && (is_per(above) || is_per(&label.group)))
}

fn check_cell(
    statement: &Statement<'_>,
    figure: usize,
    page: &TablePage<'_>,
    cell: &Cell,
) -> Result<(), String> {
    let stated = statement.period_of(figure);
    check_column(&statement.words(), statement.text, stated, page, cell)?;
    if !cell.period.is_meant_by(&stated.unwrap_or_default()) {
        return Err(in_column(cell));
    }
    // The words before the figure say what it is, else those after it.
    let [before, after] = statement.words_around(figure);
    let windows = match statement.figures.len() {
        1 => vec![statement.words()],
        _ => vec![before, after, statement.words()],
    };
    let label = page.row_label(cell.line);
    let named = windows.iter().find(|words| covers(words, &label, cell));
    let words = named.ok_or_else(|| format!("{} is in the row \"{}\"", cell.text, cell.label))?;
    check_measure(words, &label, cell)?;
    best_row(statement.text, words, page, cell, &[])?;
    check_sign(statement.text, &statement.figures[figure], cell)
}

/// Whether no other column of the row fits the stated period and the words of the statement as well.
pub(super) fn check_column(
    words: &[String],
    text: &str,
    stated: Option<StatedPeriod>,
    page: &TablePage<'_>,
    cell: &Cell,
) -> Result<(), String> {
    let row = page.cells(cell.line);
    let stated_period = stated.unwrap_or_default();
    if !cell.period.agrees_with(&stated_period) {
        return Err(in_column(cell));
    }
    let has_years = row.iter().any(|other| other.period.year.is_some());
    let has_year = cell.period.year.is_some();
    if has_years && !has_year {
        let is_change = cell.number.as_ref().is_some_and(NumberMention::is_percent)
            || says(&cell.head, &CHANGE_HEADS);
        if !is_change {
            return Err(format!("the period of {} could not be read", cell.text));
        }
    }
    let head_hits = |other: &Cell| {
        let head: BTreeSet<String> = phrase(&other.head).into_iter().collect();
        words.iter().filter(|word| head.contains(*word)).count()
    };
    let value = |other: &Cell| other.number.as_ref().and_then(NumberMention::signed_value);
    for other in row.iter().filter(|other| {
        other.column != cell.column
            && other.number.is_some()
            && value(other) != value(cell)
            && other.period.year.is_some() == has_year
            && other.period.agrees_with(&stated_period)
    }) {
        let is_older = other.period.order() < cell.period.order();
        let is_part =
            cell.period.length == Some(12) && other.period.length.is_some_and(|months| months < 12);
        let is_fitting = match stated.and_then(|stated| stated.year) {
            // Without a year the statement speaks of the newest.
            None if has_year => is_older || (is_part && other.period.year == cell.period.year),
            _ => is_part,
        };
        if !is_fitting && head_hits(cell) <= head_hits(other) {
            let names = match has_year {
                true => "period",
                false => "column",
            };
            return Err(format!(
                "the statement does not tell the {names} of {} from others of its row",
                cell.text
            ));
        }
    }
    if !has_year
        && stated_period.year.is_some()
        && !has_years
        && row.len() > 1
        && cell.head.is_empty()
    {
        return Err(format!(
            "the period of {} could not be read in {text:.40}",
            cell.text
        ));
    }
    Ok(())
}

fn in_column(cell: &Cell) -> String {
    format!("{} is in the column of {}", cell.text, written(cell.period))
}

fn written(period: StatedPeriod) -> String {
    match (period.year, period.length) {
        (Some(year), Some(length)) if length < 12 => format!("{length} months of {year}"),
        (Some(year), _) => year.to_string(),
        (None, Some(length)) => format!("{length} months"),
        _ => "another period".to_owned(),
    }
}

/// Whether the words name the row of a cell: half of what tells the row from others.
pub(super) fn covers(words: &[String], label: &RowLabel, cell: &Cell) -> bool {
    variants(label, cell).iter().any(|own| {
        let fit = Fit::new(words, own);
        fit.hit > 0.0 && fit.hit >= (fit.hit + fit.missing) * MIN_LABEL_SHARE
    })
}

// A measure with a name of its own, such as net debt, is only in a row of that name.
fn check_measure(words: &[String], label: &RowLabel, cell: &Cell) -> Result<(), String> {
    let terms = Terms::get();
    let row = format!(
        "{} {} {} {}",
        cell.label,
        label.above.join(" "),
        label.group,
        cell.head
    );
    let row = phrase(&row);
    for (_, at) in terms.measures(words) {
        let name = words[at].join(" ");
        let named = label_words(&name);
        let is_line =
            terms.line(&cell.label).is_some() && terms.line(&cell.label) == terms.line(&name);
        if !is_line && !named.iter().all(|word| row.contains(word)) {
            return Err(format!("{} is in the row \"{}\"", cell.text, cell.label));
        }
    }
    Ok(())
}

/// Whether no other row of the page fits the words as well as that of the cell.
///
/// # Errors
/// Names the row. Rows in `excluded` do not count.
pub(super) fn best_row(
    text: &str,
    words: &[String],
    page: &TablePage<'_>,
    cell: &Cell,
    excluded: &[usize],
) -> Result<(), String> {
    let score = |at: usize, cell: &Cell| {
        let label = page.row_label(at);
        let mut above = label_words(&format!("{} {}", label.group, label.above.join(" ")));
        // A title that repeats the words of its rows tells none of them from others.
        let own_words = label_words(&label.own);
        above.retain(|word| !own_words.contains(word));
        let own = variants(&label, cell)
            .iter()
            .map(|own| Fit::new(words, own).score())
            .fold(f64::NEG_INFINITY, f64::max);
        let above = words
            .iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .filter(|word| above.contains(*word));
        own + ABOVE_WEIGHT * above.count() as f64
    };
    let here = score(cell.line, cell);
    let named = named_words(words, &cell.label);
    let is_share = is_per_share(page, cell);
    let value = |cell: &Cell| cell.number.as_ref().and_then(NumberMention::signed_value);
    for at in page
        .rows()
        .filter(|at| *at != cell.line && !excluded.contains(at))
    {
        let label = page.row_label(at);
        // Cheap first: most rows share no word with the statement.
        if label_words(&label.own).is_disjoint(&words.iter().cloned().collect())
            && Terms::get().line(&label.own).is_none()
        {
            continue;
        }
        let cells = page.cells(at);
        let rival = cells.iter().find(|other| {
            other.number.is_some()
                && other.period.agrees_with(&cell.period)
                && (other.period.year.is_some() || other.column == cell.column)
                && other.number.as_ref().map(NumberMention::is_percent)
                    == cell.number.as_ref().map(NumberMention::is_percent)
        });
        // `Net income` under `Earnings per share:` is no other amount.
        let differs =
            |rival: &&Cell| value(rival) != value(cell) && is_per_share(page, rival) == is_share;
        let Some(rival) = rival.filter(differs) else {
            continue;
        };
        // A longer name in the words decides: `interest income` is not the row `Interest expense` below it.
        if named >= 2 && named > named_words(words, &label.own)
            || is_named_literally(text, words, &cell.label, &label)
        {
            continue;
        }
        let is_rival_named =
            is_named_literally(text, words, &label.own, &page.row_label(cell.line));
        let there = match is_rival_named {
            true => f64::INFINITY,
            false => score(at, rival),
        };
        let is_equal = (there - here).abs() <= 1e-9;
        if is_equal && is_named_better(text, words, &cell.label, &label.own) {
            continue;
        }
        if there >= here - 1e-9 {
            return Err(format!(
                "{} is in the row \"{}\", and the row \"{}\" fits the statement as well",
                cell.text, cell.label, rival.label
            ));
        }
    }
    Ok(())
}

// Whether the words of a statement are those of one label rather than of another with the same telling words: `Net income` and
// `Net income attributable to …`, `Due to affiliates` and `Due from affiliates`.
fn is_named_better(text: &str, words: &[String], label: &str, other: &str) -> bool {
    let fit = |label: &str| {
        let own: BTreeSet<String> = phrase(&without_parentheses(label)).into_iter().collect();
        let hits = own.iter().filter(|word| words.contains(*word)).count() as f64;
        hits - MISSING_COST * (own.len() as f64 - hits)
    };
    let difference = fit(label) - fit(other);
    difference > 1e-9
        || (difference.abs() <= 1e-9 && literal_length(label, text) > literal_length(other, text))
}

// Whether a statement has a label word for word, and of another row only words of that label: `Short-term debt` where the other row
// is `Current portion of long-term debt`, which may be called the same.
fn is_named_literally(text: &str, words: &[String], label: &str, other: &RowLabel) -> bool {
    let own: BTreeSet<String> = phrase(label).into_iter().collect();
    let around = format!("{} {} {}", other.own, other.above.join(" "), other.group);
    let shared = phrase(&around)
        .into_iter()
        .filter(|word| words.contains(word));
    literal_length(label, text) >= 2
        && literal_length(&other.own, text) == 0
        && shared.into_iter().all(|word| own.contains(&word))
}

// How many words of a text in a row are the label, or a name of its line.
fn named_words(words: &[String], label: &str) -> usize {
    let own = phrase(label);
    let own = position(&own, words).map_or(0, |_| own.len());
    let line = Terms::get().line(label);
    own.max(line.map_or(0, |line| Terms::get().name_length(line, words)))
}

// The label of a row: its own line, or with the lines above that it goes on from; in a table of years by row the head.
fn variants(label: &RowLabel, cell: &Cell) -> Vec<String> {
    if cell.label != label.own {
        return vec![cell.label.clone()];
    }
    let mut variants = vec![label.own.clone()];
    let mut joined = label.own.clone();
    for above in label.above.iter().rev() {
        if above.trim_end().ends_with(':') {
            break;
        }
        joined = format!("{} {joined}", above.trim_end_matches('-'));
        variants.push(joined.clone());
    }
    variants
}

struct Fit {
    hit: f64,
    missing: f64,
}

impl Fit {
    fn new(words: &[String], label: &str) -> Self {
        let own = label_words(label);
        let weight = |word: &String| match WEAK_WORDS.contains(&word.as_str()) {
            true => WEAK_WEIGHT,
            false => 1.0,
        };
        let line = Terms::get().line(label);
        let is_named =
            line.is_some_and(|line| Terms::get().position_of_line(line, words).is_some());
        let mut fit = Self {
            hit: 0.0,
            missing: 0.0,
        };
        for word in &own {
            match is_named || words.contains(word) {
                true => fit.hit += weight(word),
                false => fit.missing += weight(word),
            }
        }
        fit
    }

    fn score(&self) -> f64 {
        self.hit - MISSING_COST * self.missing
    }
}

/// Whether a row names what flows out; words in parentheses are alternatives, and income taxes are no income.
pub(super) fn is_outflow(label: &str) -> bool {
    let words = phrase(&without_parentheses(label));
    let is_taxes =
        |at: usize| words[at] == "incom" && words.get(at + 1).is_some_and(|next| next == "tax");
    let is_inflow =
        (0..words.len()).any(|at| INFLOW_STEMS.contains(words[at].as_str()) && !is_taxes(at));
    !is_inflow && has_any(&words, &OUTFLOW_STEMS)
}

fn has_any(words: &[String], group: &[&str]) -> bool {
    words.iter().any(|word| group.contains(&word.as_str()))
}

// The words in parentheses that a label has for figures of the other sign.
fn alternatives(label: &str) -> Vec<String> {
    let inside = label.split('(').skip(1);
    let inside = inside.flat_map(|inside| phrase(inside.split(')').next().unwrap_or_default()));
    inside
        .filter(|word| ALTERNATIVE_STEMS.contains(word.as_str()))
        .collect()
}

/// Whether a statement says that a figure of a row is of the sign that its label gives in parentheses, or that a level is negative.
pub(super) fn says_negative(text: &str, label: &str) -> bool {
    // `Net increase (decrease)` repeats the label and says neither.
    let words = phrase(&without_parentheses(text));
    let alternatives = alternatives(label);
    let is_decrease = has_any(&alternatives, &["decreas"]);
    match alternatives.is_empty() {
        true => has_any(&words, &NEGATIVE_LEVELS),
        false => {
            alternatives.iter().any(|word| words.contains(word))
                || has_any(&words, &["negat", "outflow"])
                || (is_decrease && has_any(&words, &DECREASE_STEMS))
        }
    }
}

// A number in parentheses is negative, unless its row speaks of what flows out or the statement says that it is.
fn check_sign(text: &str, number: &NumberMention, cell: &Cell) -> Result<(), String> {
    let Some(printed) = &cell.number else {
        return Ok(());
    };
    // The words of the label say which row is meant: `Income before losses of affiliates` is no loss. A label that begins with one is.
    let label = phrase(&without_parentheses(&cell.label));
    let names_loss = label
        .iter()
        .take(2)
        .any(|word| NEGATIVE_LEVELS.contains(word.as_str()));
    let rest = RowNames::new(text, &[&cell.label]).rest();
    let text = if names_loss { text } else { &rest };
    let has_alternative = !alternatives(&cell.label).is_empty();
    let says_negative = says_negative(text, &cell.label);
    // `Sales fell 5%` next to a column of changes.
    let row = phrase(&format!("{} {}", cell.label, cell.head));
    let is_change = cell.period.year.is_none()
        || has_any(&row, &["chang", "increas", "decreas", "varianc", "growth"]);
    let is_fall = is_change && has_any(&phrase(text), &DECREASE_STEMS);
    let is_amount = !has_alternative && is_outflow(&cell.label);
    let fits = match (printed.is_negative(), number.is_negative()) {
        (true, false) => says_negative || is_fall || is_amount,
        (false, true) => false,
        // `Net income (loss)`: a positive number is no loss.
        (false, false) => !(has_alternative && says_negative),
        (true, true) => true,
    };
    match fits {
        true => Ok(()),
        false => Err(format!("the sign of {} is another", cell.text)),
    }
}

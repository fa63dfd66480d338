//! Headings by their look: size, weight, capitals, slant, numbers, space; prose, tables and running heads left out.

use std::collections::BTreeMap;

use super::lines::{self, Row, Sheet};
use super::numbering::{self, Class};
use super::titles;

/// What headings of one kind have in common, ordered from the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Style {
    /// Half points below the largest possible size, so that larger sorts first.
    size: i32,
    plain: bool,
    small: bool,
    left: bool,
    italic: bool,
    /// A whole sentence, as the headings of risk factors are: below a title of the same look.
    sentence: bool,
    tier: Tier,
    numbered: Option<Class>,
}

/// What a number says about the rank of a heading beside others of its look: `Note 3` stands above a bold line inside the
/// note, `(a)` below the bold line it divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Tier {
    Counted,
    Plain,
    Listed,
}

impl Tier {
    fn of(class: Option<Class>) -> Self {
        match class {
            None => Tier::Plain,
            Some(
                Class::LowerAlpha
                | Class::LowerRoman
                | Class::ParenAlpha
                | Class::ParenDigit
                | Class::ParenRoman
                | Class::CjkParen,
            ) => Tier::Listed,
            Some(_) => Tier::Counted,
        }
    }
}

impl Style {
    pub(super) fn is_numbered(&self) -> bool {
        self.numbered.is_some()
    }

    /// The look without the number.
    pub(super) fn unnumbered(self) -> Style {
        Style { tier: Tier::Plain, numbered: None, ..self }
    }

    /// The look of the same title without capitals, for one set in capitals.
    pub(super) fn uncapped(self) -> Option<Style> {
        (!self.small).then_some(Style { small: true, ..self })
    }

    /// Whether two styles are of one size, weight and case; where the lines stand does not count.
    pub(super) fn is_like(&self, other: &Style) -> bool {
        (self.size, self.plain, self.small) == (other.size, other.plain, other.small)
    }
}

/// A heading seen on the page.
#[derive(Debug, Clone)]
pub(super) struct Heading {
    /// First and last row.
    pub(super) rows: (usize, usize),
    pub(super) title: String,
    pub(super) style: Style,
    /// Its style is on more pages than sections usually are.
    pub(super) dense: bool,
    /// Nearly all headings of its style stand over paragraphs.
    pub(super) over_text: bool,
    /// The title of a financial statement: kept whatever the budget.
    pub(super) statement: bool,
}

/// Share of the lines of a style inside tables above which the style is no heading's.
const TABLE_SHARE: f32 = 0.4;
/// Unnumbered headings of one style per page above which it marks labels; short documents may have [`FEW`].
const DENSITY: f32 = 0.3;
const FEW: usize = 24;
/// Lines at the top of a page among which a statement has its title.
const STATEMENT_TOP: usize = 8;
/// Words from which a title with a full stop is a sentence, and above which a sentence is a heading only in company.
const SENTENCE_WORDS: usize = 6;
const OPEN_WORDS: usize = 9;
/// Sentences of one look that make a series of headings (risk factors): fewer stress something, more are a list finer
/// than the sections that authors name.
const SERIES: std::ops::RangeInclusive<usize> = 2..=12;
/// Lines at the top of a page among which an exhibit is announced.
const PAGE_TOP: usize = 5;

/// All headings outside `excluded` rows; `known` are rows and titles of sections that others vouch for.
pub(super) fn headings(sheet: &Sheet<'_>, excluded: &[bool], known: &[(usize, &str)]) -> Vec<Heading> {
    let mut found: Vec<Heading> = Vec::new();
    let mut at = 0;
    while at < sheet.rows.len() {
        if excluded[at] || !is_candidate(sheet, at) {
            at += 1;
            continue;
        }
        let last = wrapped_to(sheet, excluded, at);
        let title = title_of(sheet, at, last);
        let words = titles::word_count(&title);
        let numbered = !numbering::readings(&title).is_empty();
        let listed = ["; and", "; or", ";"].iter().any(|end| title.ends_with(end));
        let closed = title.ends_with('.') && !numbered;
        let sentence = closed && words >= SENTENCE_WORDS && opens_text(sheet, at, last);
        let most = if numbered || sentence { 55 } else { 32 };
        if !listed && words <= most && (sentence || !closed || words <= OPEN_WORDS) {
            found.push(Heading {
                rows: (at, last),
                title,
                style: Style { sentence, ..style(sheet, &sheet.rows[at]) },
                dense: false,
                over_text: false,
                statement: is_statement_title(sheet, at),
            });
        }
        at = last + 1;
    }
    judge_sentences(&mut found);
    drop_lists(&mut found, known);
    drop_labels(sheet, &mut found);
    drop_repeated(sheet, &mut found);
    judge_styles(sheet, &mut found);
    found
}

/// The text of a heading; of a heading that is the first cell of a table's head row, that cell.
fn title_of(sheet: &Sheet<'_>, first: usize, last: usize) -> String {
    let row = &sheet.rows[first];
    let below = sheet.rows[first + 1..].iter().take(4).any(|next| next.page == row.page && next.cells > 1);
    let heads_table = first == last && (row.titled || row.cells == 2 && below);
    let number = numbering::readings(row.first_cell).first().is_some_and(|number| number.rest.is_empty())
        || numbering::roman(row.first_cell.trim_end_matches(['.', ')'])).is_some();
    if heads_table && row.first_cell.len() >= 4 && !number {
        return titles::tidy(row.first_cell);
    }
    let text: Vec<&str> = sheet.rows[first..=last].iter().map(|row| row.text).collect();
    titles::tidy(&text.join(" "))
}

/// The look of a row as a style.
pub(super) fn style(sheet: &Sheet<'_>, row: &Row<'_>) -> Style {
    let counts = |number: &&numbering::Number<'_>| !number.bare || sheet.counts(number.value);
    let numbered = numbering::readings(row.text).first().filter(counts).map(|number| number.class);
    Style {
        size: 2_000 - (row.size.clamp(0.0, 900.0) * 2.0).round() as i32,
        plain: !row.bold,
        small: !row.caps,
        left: !row.centered,
        italic: row.italic,
        sentence: false,
        tier: Tier::of(numbered),
        numbered,
    }
}

fn is_candidate(sheet: &Sheet<'_>, at: usize) -> bool {
    let row = &sheet.rows[at];
    if is_statement_title(sheet, at) {
        return true;
    }
    let letters = row.text.chars().take(300).filter(|c| c.is_alphabetic()).count();
    let cjk = row.text.chars().next().is_some_and(titles::is_cjk);
    let tabular = (row.table || row.cells >= 3 || row.figures) && !row.titled;
    if row.running
        || row.prose
        || tabular
        || (letters < 3 && !(cjk && letters >= 2))
        || row.words > 24
        || row.words == 0
    {
        return false;
    }
    let number = numbering::readings(row.text).first().copied();
    // Figures have captions; exhibits begin pages, elsewhere they are listed.
    let listed = at > sheet.on(row.page as usize).start + PAGE_TOP;
    if number.is_some_and(|number| number.class == Class::Figure || number.class == Class::Exhibit && listed) {
        return false;
    }
    let first = row.text.chars().next().unwrap_or(' ');
    let starts =
        first.is_uppercase() || cjk || number.is_some() || matches!(first, '“' | '"' | '‘') || is_yeared(row.text);
    let wraps =
        sheet.next_on_page(at).is_some_and(|next| next.gap < 0.75 + sheet.leading && Sheet::same_look(row, next));
    let marked = row.bold || row.italic || row.caps;
    if !starts
        || (ends_open(row) && !(wraps && (row.bold || row.italic)) && !(marked && opens_text(sheet, at, at)))
        || is_dull(row)
        || inside_paragraph(sheet, at)
    {
        return false;
    }
    // The first line of a paragraph in a size of its own; a cell in the head of a table.
    let next = sheet.next_on_page(at);
    let opens_paragraph =
        !marked && next.is_some_and(|next| next.prose && next.gap < 0.4 && Sheet::same_look(row, next));
    let overlapped = next.is_some_and(|next| next.gap < -0.3 && next.table && next.x0 < row.x0);
    if opens_paragraph || overlapped {
        return false;
    }
    let large = row.size > sheet.body + 0.8;
    // Small print has headings of its own size.
    let sized =
        row.size > sheet.body - 1.3 || next.is_some_and(|next| next.prose && !next.bold && next.size < row.size + 0.6);
    let bold = row.bold && !sheet.body_bold && sized;
    let caps = row.caps && row.size > sheet.body - 1.3 && row.gap > 0.3 && letters >= 5;
    let italic = row.italic
        && !sheet.body_italic
        && (row.words <= 14 || number.is_some())
        && row.gap > 0.35
        && row.size > sheet.body - 1.3;
    let over_table = row.size <= sheet.body + 0.8 && number.is_none() && stands_on_table(sheet, at);
    !over_table && (large || bold || caps || italic) || is_plain_numbered(sheet, at, number)
}

/// Whether a marked sentence stands by itself over a paragraph of another look.
fn opens_text(sheet: &Sheet<'_>, first: usize, last: usize) -> bool {
    let row = &sheet.rows[last];
    let apart = |next: &Row<'_>| (next.prose || next.words >= 8) && next.cells == 1 && next.gap > 0.3 + sheet.leading;
    let follows = sheet.next_on_page(last).is_some_and(|next| apart(next) && !Sheet::same_look(row, next));
    follows && (row.bold || row.italic) && row.text.ends_with('.') && sheet.rows[first].gap > 0.5 + sheet.leading
}

/// `2023 financial results`: a year and words.
fn is_yeared(text: &str) -> bool {
    let year =
        text.get(..4).is_some_and(|year| year.starts_with(['1', '2']) && year.bytes().all(|b| b.is_ascii_digit()));
    year && text[4..].starts_with(' ') && text[4..].trim_start().starts_with(char::is_alphabetic)
}

/// A label of a table: right above a row of it that begins where the label does (the head of a table begins further
/// right), and tight under what stands above or between rows.
fn stands_on_table(sheet: &Sheet<'_>, at: usize) -> bool {
    let row = &sheet.rows[at];
    let aligned = |next: &Row<'_>| next.table && next.gap < 1.0 && next.x0 < row.x0 + 3.0 * row.size;
    let above = at.checked_sub(1).map(|above| &sheet.rows[above]).filter(|above| above.page == row.page);
    let tight = row.gap < 0.9 || above.is_some_and(|above| above.table || above.words <= 4);
    tight && sheet.next_on_page(at).is_some_and(aligned)
}

/// A line of nothing but date words: `Three and Six Months Ended June 2, 2023`.
pub(super) fn is_date(text: &str) -> bool {
    const WORDS: [&str; 34] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "year",
        "years",
        "month",
        "months",
        "quarter",
        "quarters",
        "ended",
        "ending",
        "and",
        "three",
        "six",
        "nine",
        "twelve",
        "fiscal",
        "for",
        "the",
        "as",
        "of",
        "at",
        "first",
        "week",
        "weeks",
    ];
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut numbers = false;
    let all = words.take(40).all(|word| {
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        numbers |= number;
        number || WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
    });
    all && numbers
}

/// A short numbered line in title case with space around it, set like the text.
fn is_plain_numbered(sheet: &Sheet<'_>, at: usize, number: Option<numbering::Number<'_>>) -> bool {
    let row = &sheet.rows[at];
    let Some(number) = number.filter(|number| !number.rest.is_empty()) else { return false };
    let next_gap = sheet.next_on_page(at).map_or(9.0, |next| next.gap);
    let worded = matches!(
        number.class,
        Class::Chapter | Class::Article | Class::Appendix | Class::CjkChapter | Class::CjkSection
    );
    let size_fits = row.size > sheet.body - 0.8;
    let first = number.rest.chars().next().unwrap_or(' ');
    let titled = first.is_uppercase() || titles::is_cjk(first);
    let closed = row.text.ends_with(['.', ';', ':', ',']);
    size_fits
        && titled
        && !closed
        && row.words <= 14
        && row.gap > 0.45
        && (worded || next_gap > 0.45)
        && is_title_case(number.rest)
}

/// Most words of four letters and more start with a capital.
fn is_title_case(text: &str) -> bool {
    let long = text.split_whitespace().filter(|word| word.chars().count() >= 4);
    let (mut all, mut capital) = (0, 0);
    for word in long.take(30) {
        all += 1;
        let first = word.chars().next().unwrap_or(' ');
        capital += usize::from(first.is_uppercase() || titles::is_cjk(first));
    }
    capital * 10 >= all * 6
}

/// `Condensed Consolidated Balance Sheets` over its table: small, and under the company's name.
fn is_statement_title(sheet: &Sheet<'_>, at: usize) -> bool {
    let row = &sheet.rows[at];
    let fit = names_statement(row) && row.words <= 14 && !row.running && !row.prose && !row.figures;
    let placed = row.caps || row.bold || row.centered;
    let top = sheet.on(row.page as usize).start + STATEMENT_TOP > at;
    let goes_on = |next: &Row<'_>| next.text.starts_with(char::is_lowercase);
    fit && !row.text.ends_with('.') && placed && top && sheet.next_on_page(at).is_some_and(|next| !goes_on(next))
}

fn names_statement(row: &Row<'_>) -> bool {
    let words = [
        "consolidatedstatement",
        "consolidatedbalancesheet",
        "condensedconsolidated",
        "statementsofcashflow",
        "balancesheet",
    ];
    words.iter().any(|word| row.key.starts_with(word) || row.key.get(..24).is_some_and(|front| front.contains(word)))
}

fn ends_open(row: &Row<'_>) -> bool {
    let text = if row.titled { row.first_cell } else { row.text };
    text.ends_with([',', ';', '-'])
        || text.ends_with(".)")
        || (text.ends_with('.') && row.words > 9)
        || (text.ends_with(':') && row.words > 9)
        || (row.words > 4 && hangs(text) && !row.caps && !row.centered)
}

/// Whether a line ends in a word that another must follow.
fn hangs(text: &str) -> bool {
    const WORDS: [&str; 11] = ["of", "and", "the", "to", "for", "in", "a", "by", "with", "or", "under"];
    text.rsplit(' ').next().is_some_and(|last| WORDS.iter().any(|word| last.eq_ignore_ascii_case(word)))
}

/// Units, dates, continuations, rules of dashes: lines that look like headings and are none.
fn is_dull(row: &Row<'_>) -> bool {
    let key = row.key.as_str();
    let text = row.text;
    let note = key.starts_with("seeaccompanying") || key.starts_with("theaccompanying") || key.starts_with("seenote");
    let numbered = !numbering::readings(text).is_empty();
    let opened = text.matches(['(', '（']).count();
    // A bracket closed and never opened: the rest of a line above.
    let bracketed = !numbered && (text.starts_with('(') || text.matches([')', '）']).count() > opened);
    let continued = key.ends_with("continued") || key.ends_with("contd");
    let units = key.starts_with("inmillions") || key.starts_with("inthousands") || key.starts_with("dollarsin");
    let period = [
        "yearended",
        "yearsended",
        "threemonths",
        "sixmonths",
        "ninemonths",
        "asof",
        "fortheyear",
        "fiscalyear",
        "quarterended",
    ];
    let dated =
        period.iter().any(|front| key.starts_with(front)) && key.chars().any(|c| c.is_ascii_digit() || key.len() < 16);
    let dated = dated || is_date(text);
    let months = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let date = months.iter().any(|month| {
        key.strip_prefix(month).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    });
    // A signature; the definition of a word.
    let signed = text.contains("/s/") || text.starts_with("By:");
    let defined = ["” means", "\" means", "” shall mean"].iter().any(|verb| text.contains(verb));
    note || bracketed
        || signed
        || defined
        || continued
        || units
        || dated
        || date
        || super::contents::is_title(key)
        || text.contains("....")
        || text.contains("____")
}

/// Whether the line above is a wide, unfinished line of the same look, right above it.
fn inside_paragraph(sheet: &Sheet<'_>, at: usize) -> bool {
    let row = &sheet.rows[at];
    let Some(above) = at.checked_sub(1).map(|above| &sheet.rows[above]).filter(|above| above.page == row.page) else {
        return false;
    };
    let size_alike = (above.size - row.size).abs() < 0.6;
    let look_alike = above.bold == row.bold || (row.italic && !row.bold);
    let unfinished = !lines::is_finished(above.text) && !above.text.ends_with(['”', ')']);
    unfinished
        && above.words >= 8
        && row.gap < 0.5 + sheet.leading
        && above.size <= sheet.body + 0.8
        // A paragraph goes on at its left edge.
        && row.x0 < above.x0 + row.size
        && size_alike
        && look_alike
        && above.x1 - above.x0 > 200.0
}

/// The last row of a heading that wraps: rows of one look close together. Two-line titles of one look are one node.
fn wrapped_to(sheet: &Sheet<'_>, excluded: &[bool], first: usize) -> usize {
    let mut last = first;
    while last + 1 < sheet.rows.len() && last < first + 4 {
        let (row, next) = (&sheet.rows[last], &sheet.rows[last + 1]);
        if last == first && !excluded[last + 1] && names_number(sheet, first) {
            last += 1;
            continue;
        }
        let statement = is_statement_title(sheet, last) || is_statement_title(sheet, last + 1);
        let near = next.page == row.page && next.gap < 0.75 + sheet.leading;
        let close = near && Sheet::same_look(row, next) && row.caps == next.caps;
        // `… AS ADOPTED PURSUANT TO` goes on with `SECTION 906 …`.
        let numbered = !numbering::readings(next.text).is_empty() && !hangs(row.text);
        if excluded[last + 1]
            || !close
            || numbered
            || statement
            || next.running
            || next.table
            || next.prose
            || next.words > 22
            || next.words == 0
        {
            break;
        }
        let centered = row.centered && next.centered;
        // In a narrow column a title wraps early; lines set solid are one title there.
        let wide = if next.gap < 0.4 { 110.0 } else { 250.0 };
        let full = row.x1 > next.x1 - 5.0 && row.x1 - row.x0 > wide;
        let lower = next.text.starts_with(char::is_lowercase);
        let finished = row.text.ends_with(['.', ':', '?', '!']);
        if finished || is_dull(next) || !(centered || full || lower || hangs(row.text)) {
            break;
        }
        last += 1;
    }
    last
}

/// `NOTE 1` over its title, which may be set otherwise.
fn names_number(sheet: &Sheet<'_>, at: usize) -> bool {
    let number = numbering::readings(sheet.rows[at].text).first().is_some_and(|number| number.rest.is_empty());
    let titles = |next: &Row<'_>| {
        let marked = next.caps || next.bold || next.size > sheet.body + 0.8;
        let title = !next.prose && !next.table && !next.running && next.words <= 22 && !is_dull(next);
        marked && title && next.gap < 1.2 && numbering::readings(next.text).is_empty()
    };
    number && sheet.next_on_page(at).is_some_and(titles)
}

/// Three and more headings right below each other that come again further on are a list of contents in the text.
fn drop_lists(found: &mut Vec<Heading>, known: &[(usize, &str)]) {
    let keys: Vec<String> = found.iter().map(|heading| titles::squash(&heading.title)).collect();
    let mut last: BTreeMap<String, usize> = known.iter().map(|(row, title)| (titles::squash(title), *row)).collect();
    for (heading, key) in found.iter().zip(&keys) {
        let row = last.entry(key.clone()).or_default();
        *row = heading.rows.0.max(*row);
    }
    let again = |at: usize| last.get(keys[at].as_str()).is_some_and(|later| *later > found[at].rows.0);
    let mut listed = vec![false; found.len()];
    let mut start = 0;
    while start < found.len() {
        let mut end = start + 1;
        while end < found.len() && found[end].rows.0 <= found[end - 1].rows.1 + 4 {
            end += 1;
        }
        let repeated = (start..end).filter(|at| again(*at)).count();
        if repeated >= 3 {
            (start..end).filter(|at| again(*at)).for_each(|at| listed[at] = true);
        }
        start = end;
    }
    let mut at = 0;
    found.retain(|_| {
        at += 1;
        !listed[at - 1]
    });
}

/// Sentences are headings where several of one look are, and not very many.
fn judge_sentences(found: &mut Vec<Heading>) {
    let mut count: BTreeMap<Style, usize> = BTreeMap::new();
    for heading in found.iter().filter(|heading| heading.style.sentence) {
        *count.entry(heading.style).or_default() += 1;
    }
    found.retain_mut(|heading| {
        let count = count.get(&heading.style).copied().unwrap_or(0);
        let lone = heading.style.sentence && !SERIES.contains(&count);
        heading.style.sentence &= !lone;
        !lone || titles::word_count(&heading.title) <= OPEN_WORDS
    });
}

/// What stands above rows of figures on the page of a statement labels a part of the statement.
fn drop_labels(sheet: &Sheet<'_>, found: &mut Vec<Heading>) {
    let label = |heading: &Heading| {
        let on_page = sheet.on(sheet.rows[heading.rows.0].page as usize);
        let below = heading.rows.1 + 1..on_page.end.min(heading.rows.1 + 3);
        let stated = on_page.start..heading.rows.0.min(on_page.start + STATEMENT_TOP);
        below.into_iter().any(|at| sheet.rows[at].table) && stated.into_iter().any(|at| is_statement_title(sheet, at))
    };
    let names = |heading: &Heading| heading.statement || names_statement(&sheet.rows[heading.rows.0]);
    found.retain(|heading| names(heading) || heading.style.is_numbered() || !label(heading));
}

/// A text that stands at the top of many pages is a running head; one that comes again inside pages is the same part of
/// one section after another.
fn drop_repeated(sheet: &Sheet<'_>, found: &mut Vec<Heading>) {
    let top = |heading: &Heading| heading.rows.0 < sheet.on(sheet.rows[heading.rows.0].page as usize).start + PAGE_TOP;
    let mut count: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for heading in found.iter() {
        let count = count.entry(titles::squash(&heading.title)).or_default();
        *count = (count.0 + 1, count.1 + usize::from(top(heading)));
    }
    let running = |heading: &Heading| {
        count.get(&titles::squash(&heading.title)).is_some_and(|(all, top)| *all >= 4 && top * 4 >= all * 3)
    };
    found.retain(|heading| heading.style.numbered.is_some() || !running(heading));
}

/// Drops styles that live in tables, and marks unnumbered ones that are everywhere.
fn judge_styles(sheet: &Sheet<'_>, found: &mut Vec<Heading>) {
    let mut styles: BTreeMap<Style, usize> = BTreeMap::new();
    for heading in found.iter() {
        *styles.entry(heading.style).or_default() += 1;
    }
    let mut in_tables: BTreeMap<Style, usize> = BTreeMap::new();
    for row in sheet.rows.iter().filter(|row| row.table && !row.titled && !row.running && row.words <= 22) {
        let style = style(sheet, row);
        if styles.contains_key(&style) {
            *in_tables.entry(style).or_default() += 1;
        }
    }
    let limit = FEW.max((DENSITY * sheet.pages() as f32) as usize);
    // What a paragraph follows is no cell, whatever else is set like it.
    let over_text = |heading: &Heading| {
        let spaced = sheet.rows[heading.rows.0].gap > 0.5;
        spaced && sheet.next_on_page(heading.rows.1).is_some_and(|next| next.prose && next.cells == 1)
    };
    // The words of a paragraph too short to be known as one.
    let over_words = |heading: &Heading| {
        let spaced = sheet.rows[heading.rows.0].gap > 0.5;
        let text = |next: &Row<'_>| next.prose || (next.words >= 8 && !next.bold && !next.table);
        spaced && sheet.next_on_page(heading.rows.1).is_some_and(|next| text(next) && next.cells == 1)
    };
    // The first line of a paragraph may be taken for none where the second starts with a figure.
    let over_paragraph = |heading: &Heading| {
        let at = heading.rows.1 + 1;
        let first =
            sheet.next_on_page(heading.rows.1).filter(|next| next.words >= 12 && next.cells == 1 && !next.table);
        let second = first.and_then(|first| sheet.next_on_page(at).filter(|next| Sheet::same_look(first, next)));
        over_text(heading) || second.is_some_and(|second| second.prose && second.gap < 0.4 + sheet.leading)
    };
    let mut heading_text: BTreeMap<Style, usize> = BTreeMap::new();
    for heading in found.iter().filter(|heading| over_paragraph(heading)) {
        *heading_text.entry(heading.style).or_default() += 1;
    }
    found.retain_mut(|heading| {
        let count = styles.get(&heading.style).copied().unwrap_or(0);
        let tabled = in_tables.get(&heading.style).copied().unwrap_or(0);
        let share = tabled as f32 / (tabled + count).max(1) as f32;
        let apart = sheet.rows[heading.rows.0].gap >= 2.0 && share <= 0.8 && count <= limit;
        let sure = heading.style.numbered.is_some() || heading.statement || apart;
        let texts = heading_text.get(&heading.style).copied().unwrap_or(0);
        heading.over_text = texts * 10 >= count * 9;
        heading.dense = !sure && count > limit && (!heading.over_text || count > 2 * limit);
        sure || over_words(heading) || share <= TABLE_SHARE
    });
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line};
    use super::*;

    fn titles_of(doc: &Doc) -> Vec<String> {
        let source = doc.source();
        let sheet = Sheet::new(doc.pages(&source));
        headings(&sheet, &vec![false; sheet.rows.len()], &[]).into_iter().map(|heading| heading.title).collect()
    }

    #[test]
    fn headings_are_told_from_prose_tables_and_units() {
        let mut doc = Doc::new(2);
        doc.section(0, "Overview");
        doc.add(0, line("(in millions)").bold());
        doc.add(0, line("Revenue").bold().cells(&["1,000", "900"]));
        doc.add(0, line("Cost").bold().cells(&["500", "400"]));
        doc.prose(0, 10.0, 4);
        doc.section(1, "Liquidity");
        doc.add(1, line("A bold sentence that goes on for quite a while and that ends in a full stop.").bold());
        assert_eq!(titles_of(&doc), ["Overview", "Liquidity"]);
    }

    #[test]
    fn sentences_over_paragraphs_are_headings_where_several_are() {
        let risks =
            ["Weak demand in our end markets may harm the results of our operations.", "We may lose a customer."];
        let mut doc = Doc::new(3);
        for page in 0..2 {
            doc.prose(page, 10.0, 4);
            doc.section(page, risks[0]);
        }
        doc.section(2, risks[1]);
        assert_eq!(titles_of(&doc), [risks[0], risks[0], risks[1]]);
        let mut doc = Doc::new(1);
        doc.section(0, "Overview");
        doc.section(0, risks[0]);
        assert_eq!(titles_of(&doc), ["Overview"], "one sentence stresses something");
    }

    #[test]
    fn plain_numbered_lines_count_when_there_is_space_around_them() {
        let mut doc = Doc::new(1);
        doc.prose(0, 10.0, 4);
        doc.add(0, line("2.1 Scope of the Rule"));
        doc.prose(0, 10.0, 4);
        assert_eq!(titles_of(&doc), ["2.1 Scope of the Rule"]);
    }

    #[test]
    fn a_title_of_two_lines_is_one_heading() {
        let mut doc = Doc::new(1);
        doc.add(0, line("COMPANY REPORTS FOURTH QUARTER").size(14.0).bold().at(196.0, 100.0));
        doc.add(0, line("AND FULL YEAR RESULTS").size(14.0).bold().at(226.0, 116.0));
        doc.prose(0, 10.0, 4);
        assert_eq!(titles_of(&doc), ["COMPANY REPORTS FOURTH QUARTER AND FULL YEAR RESULTS"]);
    }

    #[test]
    fn the_title_in_the_head_row_of_a_table_is_a_heading() {
        let mut doc = Doc::new(1);
        doc.prose(0, 10.0, 6);
        doc.add(0, line("Flexible Packaging").size(12.0).bold().cells(&["2022", "2023"]).cells_smaller(3.0));
        doc.add(0, line("Net sales").size(9.0).cells(&["100", "120"]));
        doc.add(0, line("Earnings").size(9.0).cells(&["10", "12"]));
        assert_eq!(titles_of(&doc), ["Flexible Packaging"]);
    }

    #[test]
    fn years_and_lone_numbers_begin_titles_and_exhibit_lists_none() {
        let mut doc = Doc::new(2);
        doc.section(0, "2023 Financial Results");
        doc.section(0, "17 Fields of Use");
        doc.prose(1, 10.0, 6);
        for exhibit in ["Exhibit 10.1 Credit Agreement", "Exhibit 10.2 Lease"] {
            doc.add(1, line(exhibit).bold());
        }
        doc.section(1, "Lemma 3 (Bound)");
        assert_eq!(titles_of(&doc), ["2023 Financial Results", "17 Fields of Use"]);
        let source = doc.source();
        let sheet = Sheet::new(doc.pages(&source));
        let row = sheet.rows.iter().find(|row| row.text.starts_with("17")).unwrap();
        assert!(!style(&sheet, row).is_numbered(), "no sixteenth or eighteenth stands beside it");
    }

    #[test]
    fn headings_of_a_text_with_open_lines_wrap_as_its_paragraphs_do() {
        let mut doc = Doc::new(1);
        for at in 0..12_u8 {
            doc.add(
                0,
                line("the quick company sold more goods in the second year than before")
                    .at(72.0, 60.0 + 24.0 * f32::from(at)),
            );
        }
        doc.add(0, line("GENERAL RULES FOR THE USE OF FORMS AND OF THEIR MANY AND VARIED").bold().at(72.0, 348.0));
        doc.add(0, line("SCHEDULES").bold().at(72.0, 372.0));
        assert_eq!(titles_of(&doc), ["GENERAL RULES FOR THE USE OF FORMS AND OF THEIR MANY AND VARIED SCHEDULES"]);
    }

    #[test]
    fn a_number_alone_takes_the_title_below_it_and_signatures_are_none() {
        let mut doc = Doc::new(1);
        for (number, title) in [("NOTE 1", "SUMMARY OF POLICIES"), ("NOTE 2", "LOANS")] {
            let above = doc.add(0, line(number).bold());
            doc.add(0, line(title).size(12.0).bold().at(72.0, above.y1.points() + 5.0));
            doc.add(0, line(""));
            doc.prose(0, 10.0, 4);
        }
        doc.add(0, line("By: /s/ Jane Roe").bold());
        doc.add(0, line("“Plan” means this Savings Plan").bold());
        assert_eq!(titles_of(&doc), ["NOTE 1 SUMMARY OF POLICIES", "NOTE 2 LOANS"]);
    }
}

//! Finds agreements, and the ARTICLEs and Sections inside them. One file may bind several, each numbered from 1.

mod clauses;

use std::ops::Range;

use stemma_reading::vocabulary::{AMENDED_INSTRUMENTS, CONTRACTS, INSTRUMENTS};

use super::line_features::{LineFeatures, LineTable};
use super::numbering::{self, NumberClass, TitleNumber};
use super::titles;
use super::weights::WRAPPED;

pub(super) use clauses::find_clauses;

// The title of an instrument is among the first lines of a page; the same words further down are a mention.
const TOP_LINES: usize = 14;

// A run-in title has at most this many words before its text begins.
const TITLE_WORDS: usize = 18;

/// The rows of titles where agreements begin.
// Centered capitals such as `CREDIT AGREEMENT` also appear on covers, above contents and in page headers. An agreement
// begins only where the next numbered section is the first one. Copies of the title before any section with text are part
// of the same agreement, so only the first copy counts.
pub(super) fn agreement_titles(lines: &LineTable<'_>, rows: Range<usize>) -> Vec<usize> {
    let mut starts: Vec<usize> = Vec::new();
    let mut candidates: Vec<usize> = rows.clone().filter(|at| is_title(lines, *at)).collect();
    let mut openings: Vec<(usize, bool)> = rows
        .clone()
        .filter_map(|at| Some((at, clause_opening(lines, at)?)))
        .collect();
    if openings.is_empty() {
        // Short contracts number their clauses `1.`, `2.`; plans and letters do so without being agreements.
        candidates.retain(|at| names_contract(&lines.rows[*at]));
        openings.extend(
            rows.filter(|_| !candidates.is_empty())
                .filter_map(|at| Some((at, plain_number(&lines.rows[at])?.value == 1))),
        );
    }
    let with_text: Vec<usize> = openings
        .iter()
        .map(|(row, _)| *row)
        .filter(|row| has_text(lines, *row))
        .collect();
    for at in candidates {
        // Without a section with text since the previous title, this is a copy of it or a line of its cover.
        let is_copy = starts.last().is_some_and(|last| {
            let next = with_text.get(with_text.partition_point(|row| row <= last));
            next.is_none_or(|row| *row >= at)
        });
        if is_copy {
            continue;
        }
        let first = openings.get(openings.partition_point(|(row, _)| *row <= at));
        if first.is_some_and(|(_, one)| *one) {
            starts.push(at);
        }
    }
    starts
}

/// The rows of a title that ends at `at`: a line of the same style right above belongs to it.
pub(super) fn title_rows(lines: &LineTable<'_>, at: usize) -> (usize, usize) {
    let row = &lines.rows[at];
    let joins = lines.above_on_page(at).is_some_and(|above| {
        let close = row.gap < WRAPPED
            && above.centered
            && LineTable::same_style(above, row)
            && above.caps == row.caps;
        let words =
            above.words <= 8 && !above.running && numbering::first_number(above.text).is_none();
        close && words && !above.text.ends_with([',', '.', ':', ';'])
    });
    (at - usize::from(joins), at)
}

/// `Some` if the row begins a section (in contents or text): whether it is the first of its agreement.
fn clause_opening(lines: &LineTable<'_>, at: usize) -> Option<bool> {
    let row = &lines.rows[at];
    let number = clause_number(row)?;
    let one = number.value == 1 && (number.stem == 0 || number.text.starts_with('1'));
    matches!(number.class, NumberClass::Article | NumberClass::Section).then_some(one)
}

/// Whether a paragraph follows within a few lines on the page.
fn has_text(lines: &LineTable<'_>, at: usize) -> bool {
    let row = &lines.rows[at];
    row.prose
        || lines.rows[at + 1..]
            .iter()
            .take(5)
            .take_while(|next| next.page == row.page)
            .any(|next| next.prose)
}

fn is_title(lines: &LineTable<'_>, at: usize) -> bool {
    let row = &lines.rows[at];
    if row.running || row.table || row.words > 14 || row.words == 0 || row.prose || !row.centered {
        return false;
    }
    let stands_out = row.caps || row.bold || lines.body.is_large(row.size);
    let near_top = at - lines.rows_on(row.page as usize).start < TOP_LINES;
    let sentence = row.text.ends_with(['.', ',', ';', ':']) || row.text.contains('.');
    let last = row
        .text
        .split_whitespace()
        .next_back()
        .map(titles::normalize_key)
        .unwrap_or_default();
    let form_of = row.key.starts_with("formof");
    let names_instrument =
        INSTRUMENTS.contains(last.as_str()) || AMENDED_INSTRUMENTS.occurs_in(&row.key);
    stands_out
        && near_top
        && !sentence
        && names_instrument
        && !form_of
        && clause_number(row).is_none()
}

/// The number at the start of a section heading: `ARTICLE IV`, `SECTION 2.07`, `Section 3.`, or `2.07` alone.
fn clause_number<'a>(row: &LineFeatures<'a>) -> Option<TitleNumber<'a>> {
    if row.running || row.key.is_empty() {
        return None;
    }
    let number = numbering::first_number(row.text)?;
    let fit = match number.class {
        NumberClass::Article => {
            number.rest.is_empty() || (starts_title(number.rest) && row.words <= TITLE_WORDS as u16)
        }
        NumberClass::Section => number.rest.is_empty() || starts_title(number.rest),
        NumberClass::Decimal(2) => starts_title(number.rest),
        _ => false,
    };
    fit.then_some(number)
}

/// The number of a clause that has no word before it: `3. Term`.
fn plain_number<'a>(row: &LineFeatures<'a>) -> Option<TitleNumber<'a>> {
    let number = numbering::first_number(row.text)?;
    let fit = number.class == NumberClass::Decimal(1) && !number.bare && starts_title(number.rest);
    (fit && !row.running && !row.table).then_some(number)
}

/// Whether the row and a neighbor are numbered titles with a page number: contents that were not recognized.
fn is_listed(lines: &LineTable<'_>, at: usize) -> bool {
    let lists = |at: usize| {
        let row = &lines.rows[at];
        let number = clause_number(row).filter(|number| !number.rest.is_empty());
        let label = row.text.rsplit(' ').next().unwrap_or_default();
        number.is_some() && label.bytes().all(|b| b.is_ascii_digit())
    };
    let page = lines.rows_on(lines.rows[at].page as usize);
    let mut neighbors = page.filter(|other| other.abs_diff(at) == 1);
    lists(at) && neighbors.any(lists)
}

/// Whether the row is `3. Term`, or begins with `3. Term.`; a numbered paragraph has no title.
fn is_titled(row: &LineFeatures<'_>, number: &TitleNumber<'_>) -> bool {
    let title = number.rest.split_once(". ").map(|(title, _)| title);
    let is_alone = !row.prose && row.words as usize <= TITLE_WORDS;
    is_alone || title.is_some_and(|title| titles::word_count(title) <= TITLE_WORDS)
}

fn names_contract(title: &LineFeatures<'_>) -> bool {
    CONTRACTS.ends(&title.key)
}

fn starts_title(text: &str) -> bool {
    text.starts_with(|c: char| c.is_uppercase() || matches!(c, '[' | '“' | '"'))
}

#[cfg(test)]
mod tests;

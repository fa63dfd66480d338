//! What the headings of a document say about each other: lists of contents, labels of statements, running heads, and styles
//! that live in tables or are everywhere.

use std::collections::BTreeMap;

use super::heading_style::{HeadingStyle, LayoutHeading, style_of};
use super::line_features::{LineFeatures, LineTable};
use super::statements::{STATEMENT_TOP, is_statement_title, names_statement};
use super::titles;

/// A sentence of more words is a heading only in company.
pub(super) const OPEN_WORDS: usize = 9;
/// Lines at the top of a page where exhibits are announced and running heads stand.
pub(super) const PAGE_TOP: usize = 5;
/// Share of the lines of a style inside tables above which the style is no heading's.
const TABLE_SHARE: f32 = 0.4;
/// Unnumbered headings of one style per page above which it marks labels; short documents may have [`MIN_DENSE`].
const DENSITY: f32 = 0.3;
const MIN_DENSE: usize = 24;
/// Sentences of one look that make a series of headings (risk factors): fewer stress something, more are a list finer
/// than the sections that authors name.
const SERIES: std::ops::RangeInclusive<usize> = 2..=12;

/// Three and more headings right below each other that come again further on are a list of contents in the text.
pub(super) fn drop_contents_lists(
    headings: &mut Vec<LayoutHeading>,
    other_sections: &[(usize, &str)],
) {
    let keys: Vec<String> = headings
        .iter()
        .map(|heading| titles::normalize_key(&heading.title))
        .collect();
    let mut last: BTreeMap<String, usize> = other_sections
        .iter()
        .map(|(row, title)| (titles::normalize_key(title), *row))
        .collect();
    for (heading, key) in headings.iter().zip(&keys) {
        let row = last.entry(key.clone()).or_default();
        *row = heading.rows.0.max(*row);
    }
    let again = |at: usize| {
        last.get(keys[at].as_str())
            .is_some_and(|later| *later > headings[at].rows.0)
    };
    let mut listed = vec![false; headings.len()];
    let mut start = 0;
    while start < headings.len() {
        let mut end = start + 1;
        while end < headings.len() && headings[end].rows.0 <= headings[end - 1].rows.1 + 4 {
            end += 1;
        }
        let repeated = (start..end).filter(|at| again(*at)).count();
        if repeated >= 3 {
            (start..end)
                .filter(|at| again(*at))
                .for_each(|at| listed[at] = true);
        }
        start = end;
    }
    let mut at = 0;
    headings.retain(|_| {
        at += 1;
        !listed[at - 1]
    });
}

/// Sentences are headings where several of one look are, and not very many.
pub(super) fn filter_sentences(headings: &mut Vec<LayoutHeading>) {
    let mut count: BTreeMap<HeadingStyle, usize> = BTreeMap::new();
    for heading in headings.iter().filter(|heading| heading.style.sentence) {
        *count.entry(heading.style).or_default() += 1;
    }
    headings.retain_mut(|heading| {
        let count = count.get(&heading.style).copied().unwrap_or(0);
        let lone = heading.style.sentence && !SERIES.contains(&count);
        heading.style.sentence &= !lone;
        !lone || titles::word_count(&heading.title) <= OPEN_WORDS
    });
}

/// What stands above rows of figures on the page of a statement labels a part of the statement.
pub(super) fn drop_labels(sheet: &LineTable<'_>, headings: &mut Vec<LayoutHeading>) {
    let label = |heading: &LayoutHeading| {
        let on_page = sheet.rows_on(sheet.rows[heading.rows.0].page as usize);
        let below = heading.rows.1 + 1..on_page.end.min(heading.rows.1 + 3);
        let stated = on_page.start..heading.rows.0.min(on_page.start + STATEMENT_TOP);
        below.into_iter().any(|at| sheet.rows[at].table)
            && stated.into_iter().any(|at| is_statement_title(sheet, at))
    };
    let names =
        |heading: &LayoutHeading| heading.statement || names_statement(&sheet.rows[heading.rows.0]);
    headings.retain(|heading| names(heading) || heading.style.is_numbered() || !label(heading));
}

/// A text that stands at the top of many pages is a running head; one that comes again inside pages is the same part of
/// one section after another.
pub(super) fn drop_repeated(sheet: &LineTable<'_>, headings: &mut Vec<LayoutHeading>) {
    let top = |heading: &LayoutHeading| {
        heading.rows.0
            < sheet
                .rows_on(sheet.rows[heading.rows.0].page as usize)
                .start
                + PAGE_TOP
    };
    let mut count: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for heading in headings.iter() {
        let count = count
            .entry(titles::normalize_key(&heading.title))
            .or_default();
        *count = (count.0 + 1, count.1 + usize::from(top(heading)));
    }
    let running = |heading: &LayoutHeading| {
        count
            .get(&titles::normalize_key(&heading.title))
            .is_some_and(|(all, top)| *all >= 4 && top * 4 >= all * 3)
    };
    headings.retain(|heading| heading.style.is_numbered() || !running(heading));
}

/// Drops styles that live in tables, and marks unnumbered ones that are everywhere.
pub(super) fn filter_styles(sheet: &LineTable<'_>, headings: &mut Vec<LayoutHeading>) {
    let mut styles: BTreeMap<HeadingStyle, usize> = BTreeMap::new();
    for heading in headings.iter() {
        *styles.entry(heading.style).or_default() += 1;
    }
    let mut in_tables: BTreeMap<HeadingStyle, usize> = BTreeMap::new();
    for row in sheet
        .rows
        .iter()
        .filter(|row| row.table && !row.titled && !row.running && row.words <= 22)
    {
        let style = style_of(sheet, row);
        if styles.contains_key(&style) {
            *in_tables.entry(style).or_default() += 1;
        }
    }
    let limit = MIN_DENSE.max((DENSITY * sheet.pages() as f32) as usize);
    // What a paragraph follows is no cell, whatever else is set like it.
    let over_text = |heading: &LayoutHeading| {
        let spaced = sheet.rows[heading.rows.0].gap > 0.5;
        spaced
            && sheet
                .next_on_page(heading.rows.1)
                .is_some_and(|next| next.prose && next.cells == 1)
    };
    // The words of a paragraph too short to be known as one.
    let over_words = |heading: &LayoutHeading| {
        let spaced = sheet.rows[heading.rows.0].gap > 0.5;
        let text =
            |next: &LineFeatures<'_>| next.prose || (next.words >= 8 && !next.bold && !next.table);
        spaced
            && sheet
                .next_on_page(heading.rows.1)
                .is_some_and(|next| text(next) && next.cells == 1)
    };
    // The first line of a paragraph may be taken for none where the second starts with a figure.
    let over_paragraph = |heading: &LayoutHeading| {
        let at = heading.rows.1 + 1;
        let first = sheet
            .next_on_page(heading.rows.1)
            .filter(|next| next.words >= 12 && next.cells == 1 && !next.table);
        let second = first.and_then(|first| {
            sheet
                .next_on_page(at)
                .filter(|next| LineTable::same_style(first, next))
        });
        over_text(heading)
            || second.is_some_and(|second| second.prose && second.gap < 0.4 + sheet.leading)
    };
    let mut heading_text: BTreeMap<HeadingStyle, usize> = BTreeMap::new();
    for heading in headings.iter().filter(|heading| over_paragraph(heading)) {
        *heading_text.entry(heading.style).or_default() += 1;
    }
    headings.retain_mut(|heading| {
        let count = styles.get(&heading.style).copied().unwrap_or(0);
        let tabled = in_tables.get(&heading.style).copied().unwrap_or(0);
        let share = tabled as f32 / (tabled + count).max(1) as f32;
        let apart = sheet.rows[heading.rows.0].gap >= 2.0 && share <= 0.8 && count <= limit;
        let sure = heading.style.is_numbered() || heading.statement || apart;
        let texts = heading_text.get(&heading.style).copied().unwrap_or(0);
        heading.over_text = texts * 10 >= count * 9;
        heading.dense = !sure && count > limit && (!heading.over_text || count > 2 * limit);
        sure || over_words(heading) || share <= TABLE_SHARE
    });
}

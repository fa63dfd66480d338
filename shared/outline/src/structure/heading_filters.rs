//! Filters layout headings by comparing them with each other: contents lists in the text, labels of statements, running
//! heads, and styles that belong to tables or occur everywhere.

use std::collections::BTreeMap;

use super::heading_style::{HeadingStyle, LayoutHeading, style_of};
use super::line_features::LineTable;
use super::statements::{STATEMENT_TOP, is_statement_title, names_statement};
use super::titles;

/// A longer sentence is a heading only if others of its style are.
pub(super) const OPEN_WORDS: usize = 9;
/// Lines at the top of a page where exhibits are announced and running heads stand.
pub(super) const PAGE_TOP: usize = 5;
// If more of the lines of a style are in tables, the style marks cells and not headings.
const TABLE_SHARE: f32 = 0.4;
// More unnumbered headings of one style than pages are labels; short documents may have `MIN_DENSE` in any case.
const MIN_DENSE: usize = 24;
// A style of which this share stands above paragraphs is one of headings, not of labels. HTML declares the rows of tables, so
// that labels in them are no candidates, and a lower share is enough. For PDF the lower share costs precision: .61 instead of
// .68 on half B of `tests/bench/run structure` (outline removed).
const OVER_TEXT: f32 = 0.9;
const HTML_OVER_TEXT: f32 = 0.75;
// Sentences of one style form a series of headings, such as risk factors. More than twelve are a list finer than the
// sections that authors put into outlines: they only divide sections that are too large.
const SERIES: usize = 12;
// Fewer phrases of one look at the start of paragraphs only emphasize.
const RUN_INS: usize = 3;

/// Drops lists of contents inside the text.
// Chapters often open with a short list of their sections, set like the sections themselves. Three or more headings close
// together whose titles all return later are such a list.
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
    let returns: Vec<bool> = headings
        .iter()
        .zip(&keys)
        .map(|(heading, key)| {
            last.get(key.as_str())
                .is_some_and(|later| *later > heading.rows.0)
        })
        .collect();
    let mut listed = vec![false; headings.len()];
    let mut start = 0;
    while start < headings.len() {
        let mut end = start + 1;
        while end < headings.len() && headings[end].rows.0 <= headings[end - 1].rows.1 + 4 {
            end += 1;
        }
        let repeated = returns[start..end]
            .iter()
            .filter(|returns| **returns)
            .count();
        if repeated >= 3 {
            listed[start..end].copy_from_slice(&returns[start..end]);
        }
        start = end;
    }
    let mut at = 0;
    headings.retain(|_| {
        at += 1;
        !listed[at - 1]
    });
}

/// Drops a single sentence of its style, which only emphasizes something, and marks long series as dense.
pub(super) fn filter_sentences(headings: &mut Vec<LayoutHeading>) {
    let mut count: BTreeMap<HeadingStyle, usize> = BTreeMap::new();
    for heading in headings.iter().filter(|heading| heading.style.sentence) {
        *count.entry(heading.style).or_default() += 1;
    }
    headings.retain_mut(|heading| {
        let count = count.get(&heading.style).copied().unwrap_or(0);
        let lone = heading.style.sentence && count == 1;
        heading.style.sentence &= !lone;
        heading.dense = heading.style.sentence && count > SERIES;
        !lone || titles::word_count(&heading.title) <= OPEN_WORDS
    });
}

/// Keeps phrases at the start of paragraphs only where at least three of one look open paragraphs of one announced section.
pub(super) fn filter_run_ins(headings: &mut Vec<LayoutHeading>, other_sections: &[(usize, &str)]) {
    let mut sections: Vec<usize> = other_sections.iter().map(|(row, _)| *row).collect();
    sections.sort_unstable();
    let key = |heading: &LayoutHeading| {
        let section = sections.partition_point(|row| *row <= heading.rows.0);
        (section, heading.style)
    };
    let mut count: BTreeMap<(usize, HeadingStyle), usize> = BTreeMap::new();
    for heading in headings.iter().filter(|heading| heading.style.run_in) {
        *count.entry(key(heading)).or_default() += 1;
    }
    headings.retain(|heading| {
        !heading.style.run_in
            || count
                .get(&key(heading))
                .is_some_and(|count| *count >= RUN_INS)
    });
}

/// Drops labels inside financial statements.
// `Assets` and `Liabilities` stand above rows of figures on the page of a balance sheet. They label parts of the statement,
// which is one section; a second statement on the same page keeps its own title.
pub(super) fn drop_labels(lines: &LineTable<'_>, headings: &mut Vec<LayoutHeading>) {
    headings.retain(|heading| {
        heading.statement
            || names_statement(&lines.rows[heading.rows.0])
            || heading.style.is_numbered()
            || !is_statement_label(lines, heading)
    });
}

fn is_statement_label(lines: &LineTable<'_>, heading: &LayoutHeading) -> bool {
    let on_page = lines.rows_on(lines.rows[heading.rows.0].page as usize);
    let mut below = heading.rows.1 + 1..on_page.end.min(heading.rows.1 + 3);
    let mut top = on_page.start..heading.rows.0.min(on_page.start + STATEMENT_TOP);
    below.any(|at| lines.rows[at].table) && top.any(|at| is_statement_title(lines, at))
}

/// Drops unnumbered titles that stand at the top of pages again and again.
// Extraction marks running heads that recur on many pages; this catches those of single chapters. The same title inside
// pages (`Revenues`, `Backlog` in one segment after another) is a real sub-section each time, so position decides.
pub(super) fn drop_repeated(lines: &LineTable<'_>, headings: &mut Vec<LayoutHeading>) {
    // By title: all occurrences, those at the top of a page.
    let mut count: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for heading in headings.iter() {
        let page = lines.rows[heading.rows.0].page as usize;
        let is_top = heading.rows.0 < lines.rows_on(page).start + PAGE_TOP;
        let count = count
            .entry(titles::normalize_key(&heading.title))
            .or_default();
        *count = (count.0 + 1, count.1 + usize::from(is_top));
    }
    headings.retain(|heading| {
        heading.style.is_numbered()
            || !count
                .get(&titles::normalize_key(&heading.title))
                .is_some_and(|(all, top)| *all >= 4 && top * 4 >= all * 3)
    });
}

/// Drops styles that belong to tables, and marks unnumbered ones that occur everywhere as dense.
pub(super) fn filter_styles(lines: &LineTable<'_>, headings: &mut Vec<LayoutHeading>) {
    let mut styles: BTreeMap<HeadingStyle, usize> = BTreeMap::new();
    for heading in headings.iter() {
        *styles.entry(heading.style).or_default() += 1;
    }
    let mut in_tables: BTreeMap<HeadingStyle, usize> = BTreeMap::new();
    for row in lines
        .rows
        .iter()
        .filter(|row| row.table && !row.titled && !row.running && row.words <= 22)
    {
        let style = style_of(lines, row);
        if styles.contains_key(&style) {
            *in_tables.entry(style).or_default() += 1;
        }
    }
    let limit = MIN_DENSE.max(lines.pages());
    let over_text_share = if lines.has_blocks {
        HTML_OVER_TEXT
    } else {
        OVER_TEXT
    };
    let mut heading_text: BTreeMap<HeadingStyle, usize> = BTreeMap::new();
    for heading in headings
        .iter()
        .filter(|heading| is_over_paragraph(lines, heading))
    {
        *heading_text.entry(heading.style).or_default() += 1;
    }
    headings.retain_mut(|heading| {
        let count = styles.get(&heading.style).copied().unwrap_or(0);
        let tabled = in_tables.get(&heading.style).copied().unwrap_or(0);
        let share = tabled as f32 / (tabled + count).max(1) as f32;
        // Two blank lines above set a heading apart even if most lines of its style are cells.
        let apart = lines.rows[heading.rows.0].gap >= 2.0 && share <= 0.8 && count <= limit;
        let sure = heading.style.is_numbered() || heading.statement || apart;
        let texts = heading_text.get(&heading.style).copied().unwrap_or(0);
        heading.over_text = texts as f32 >= over_text_share * count as f32;
        // Dense styles are judged by the budget (`paged_outline`); headings above paragraphs may be twice as many.
        heading.dense |= !sure && count > limit && (!heading.over_text || count > 2 * limit);
        sure || is_over_words(lines, heading) || share <= TABLE_SHARE
    });
}

// A line with a paragraph below is not a cell, whatever else is set like it.
fn is_over_words(lines: &LineTable<'_>, heading: &LayoutHeading) -> bool {
    let is_spaced = lines.rows[heading.rows.0].gap > 0.5;
    is_spaced
        && lines.next_on_page(heading.rows.1).is_some_and(|next| {
            // Eight plain words are a paragraph too short to be recognized as prose.
            let is_text = next.prose || (next.words >= 8 && !next.bold && !next.table);
            is_text && next.cells == 1
        })
}

fn is_over_paragraph(lines: &LineTable<'_>, heading: &LayoutHeading) -> bool {
    let is_spaced = lines.rows[heading.rows.0].gap > 0.5;
    let next = lines.next_on_page(heading.rows.1);
    if is_spaced && next.is_some_and(|next| next.prose && next.cells == 1) {
        return true;
    }
    // The first line of a paragraph may not be recognized as prose if the second starts with a figure.
    next.filter(|next| next.words >= 12 && next.cells == 1 && !next.table)
        .zip(lines.next_on_page(heading.rows.1 + 1))
        .is_some_and(|(first, second)| {
            LineTable::same_style(first, second) && second.prose && second.gap < 0.4 + lines.leading
        })
}

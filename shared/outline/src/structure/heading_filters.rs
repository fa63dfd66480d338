//! Rules for titles, and rules that compare the candidates of a document with each other: contents lists in the text, labels of
//! statements, running heads, and styles that belong to tables or occur everywhere.

use std::collections::{BTreeMap, BTreeSet};

use super::counts::counts;
use super::false_headings::is_label;
use super::forms::ItemNumber;
use super::heading_candidate::{Document, HeadingCandidate};
use super::heading_style::{HeadingStyle, style_of};
use super::item_grammar;
use super::line_features::LineTable;
use super::statements::{STATEMENT_TOP, is_statement_title, names_statement};
use super::titles;
use super::weights::{
    BLANK_LINES, HTML_OVER_TEXT, LISTED_ROWS, LISTED_TITLES, LONG_TEXT_WORDS, MAX_TABLE_SHARE,
    MIN_DENSE, NUMBERED_WORDS, OPEN_WORDS, OVER_TEXT, PAGE_TOP, RUN_INS, SAME_PARAGRAPH, SERIES,
    TABLE_SHARE, TEXT_WORDS, TIGHT, TITLE_WORDS, WRAPPED_WORDS,
};

// A phrase that opens a paragraph may end like one of these, so the first four rules judge titles on lines of their own.

pub(super) fn is_list_entry(heading: &HeadingCandidate, _: &Document<'_>) -> bool {
    !heading.style.run_in
        && ["; and", "; or", ";"]
            .iter()
            .any(|end| heading.title.ends_with(end))
}

pub(super) fn is_label_or_fragment(heading: &HeadingCandidate, document: &Document<'_>) -> bool {
    !heading.style.run_in && is_label(document.lines, heading.rows.1, &heading.title)
}

pub(super) fn is_long_title(heading: &HeadingCandidate, _: &Document<'_>) -> bool {
    let may_be_long = heading.has_number || heading.style.sentence;
    let most = if may_be_long {
        NUMBERED_WORDS
    } else {
        TITLE_WORDS
    };
    !heading.style.run_in && heading.words > most
}

pub(super) fn is_long_sentence(heading: &HeadingCandidate, _: &Document<'_>) -> bool {
    heading.is_closed()
        && !heading.style.run_in
        && !heading.style.sentence
        && heading.words > OPEN_WORDS
}

/// Lists of contents inside the text.
// Chapters often open with a short list of their sections, set like the sections themselves. Three or more headings close
// together whose titles all return later are such a list.
pub(super) fn contents_lists(headings: &[&HeadingCandidate], document: &Document<'_>) -> Vec<bool> {
    let keys: Vec<String> = headings
        .iter()
        .map(|heading| titles::normalize_key(&heading.title))
        .collect();
    let mut last: BTreeMap<String, usize> = document
        .announced
        .iter()
        .map(|head| (titles::normalize_key(&head.title), head.rows.0))
        .collect();
    for (heading, key) in headings.iter().zip(&keys) {
        let row = last.entry(key.clone()).or_default();
        *row = heading.rows.0.max(*row);
    }
    let mut returns = headings
        .iter()
        .zip(&keys)
        .map(|(heading, key)| last[key] > heading.rows.0);
    headings
        .chunk_by(|above, below| below.rows.0 <= above.rows.1 + LISTED_ROWS)
        .flat_map(|group| {
            let own: Vec<bool> = returns.by_ref().take(group.len()).collect();
            let is_list = own.iter().filter(|returns| **returns).count() >= LISTED_TITLES;
            own.into_iter().map(move |returns| returns && is_list)
        })
        .collect()
}

/// Finds sentences that are the only one of their style, and long series of sentences.
pub(super) fn measure_sentences(candidates: &mut [HeadingCandidate], _: &Document<'_>) {
    let mut sentences: Vec<&mut HeadingCandidate> = candidates
        .iter_mut()
        .filter(|candidate| candidate.is_kept() && candidate.style.sentence)
        .collect();
    let count = counts(sentences.iter().map(|sentence| sentence.style));
    for sentence in &mut sentences {
        let count = count[&sentence.style];
        sentence.lone_sentence = count == 1;
        sentence.style.sentence = count > 1;
        sentence.dense = count > SERIES;
    }
}

pub(super) fn is_lone_sentence(heading: &HeadingCandidate, _: &Document<'_>) -> bool {
    heading.lone_sentence && heading.words > OPEN_WORDS
}

/// Phrases at the start of paragraphs, except where three of one look open paragraphs of one announced section.
pub(super) fn few_run_ins(headings: &[&HeadingCandidate], document: &Document<'_>) -> Vec<bool> {
    let mut sections: Vec<usize> = document.announced.iter().map(|head| head.rows.0).collect();
    sections.sort_unstable();
    let key = |heading: &HeadingCandidate| {
        let section = sections.partition_point(|row| *row <= heading.rows.0);
        (section, heading.style)
    };
    let run_ins = headings.iter().filter(|heading| heading.style.run_in);
    let count = counts(run_ins.map(|heading| key(heading)));
    headings
        .iter()
        .map(|heading| heading.style.run_in && count[&key(heading)] < RUN_INS)
        .collect()
}

/// Whether it is a label inside a financial statement.
// `Assets` and `Liabilities` are above rows of figures on the page of a balance sheet. They label parts of the statement,
// which is one section; a second statement on the same page keeps its own title.
pub(super) fn is_statement_label(heading: &HeadingCandidate, document: &Document<'_>) -> bool {
    let lines = document.lines;
    let on_page = lines.rows_on(lines.rows[heading.rows.0].page as usize);
    let mut below = heading.rows.1 + 1..on_page.end.min(heading.rows.1 + 3);
    let mut top = on_page.start..heading.rows.0.min(on_page.start + STATEMENT_TOP);
    !heading.statement
        && !heading.style.is_numbered()
        && !names_statement(&lines.rows[heading.rows.0])
        && below.any(|at| lines.rows[at].table)
        && top.any(|at| is_statement_title(lines, at))
}

/// Unnumbered titles that recur at the top of pages.
// Extraction marks running heads that recur on many pages; this catches those of single chapters. The same title inside
// pages (`Revenues`, `Backlog` in one segment after another) is a real sub-section each time, so position decides.
pub(super) fn page_heads(headings: &[&HeadingCandidate], document: &Document<'_>) -> Vec<bool> {
    let lines = document.lines;
    // By title: all occurrences, those at the top of a page.
    let mut count: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for heading in headings {
        let page = lines.rows[heading.rows.0].page as usize;
        let is_top = heading.rows.0 < lines.rows_on(page).start + PAGE_TOP;
        let count = count
            .entry(titles::normalize_key(&heading.title))
            .or_default();
        *count = (count.0 + 1, count.1 + usize::from(is_top));
    }
    headings
        .iter()
        .map(|heading| {
            let (all, top) = count[&titles::normalize_key(&heading.title)];
            !heading.style.is_numbered() && all >= 4 && top * 4 >= all * 3
        })
        .collect()
}

/// Finds styles that belong to tables, and unnumbered ones that occur everywhere.
pub(super) fn measure_styles(candidates: &mut [HeadingCandidate], document: &Document<'_>) {
    let lines = document.lines;
    // By style: all headings, those above a paragraph.
    let mut styles: BTreeMap<HeadingStyle, (usize, usize)> = BTreeMap::new();
    for heading in candidates.iter().filter(|heading| heading.is_kept()) {
        let count = styles.entry(heading.style).or_default();
        count.0 += 1;
        count.1 += usize::from(is_over_paragraph(lines, heading));
    }
    let cells = lines
        .rows
        .iter()
        .filter(|row| row.table && !row.titled && !row.running && row.words <= WRAPPED_WORDS)
        .map(|row| style_of(lines, row));
    let in_tables = counts(cells.filter(|style| styles.contains_key(style)));
    let limit = MIN_DENSE.max(lines.pages());
    let over_text_share = if lines.has_blocks {
        HTML_OVER_TEXT
    } else {
        OVER_TEXT
    };
    for heading in candidates.iter_mut().filter(|heading| heading.is_kept()) {
        let (count, texts) = styles[&heading.style];
        let cells = in_tables.get(&heading.style).copied().unwrap_or(0);
        let share = cells as f32 / (cells + count).max(1) as f32;
        // Two blank lines above set a heading apart even if most lines of its style are cells.
        let is_apart = lines.rows[heading.rows.0].gap >= BLANK_LINES
            && share <= MAX_TABLE_SHARE
            && count <= limit;
        let is_sure = heading.style.is_numbered() || heading.statement || is_apart;
        heading.over_text = texts as f32 >= over_text_share * count as f32;
        // The budget judges dense styles; headings above paragraphs may be twice as many.
        heading.dense |= !is_sure && count > limit && (!heading.over_text || count > 2 * limit);
        heading.in_tables = !is_sure && share > TABLE_SHARE && !is_over_words(lines, heading);
    }
}

// A line with a paragraph below is not a cell, whatever else is set like it.
fn is_over_words(lines: &LineTable<'_>, heading: &HeadingCandidate) -> bool {
    let is_spaced = lines.rows[heading.rows.0].gap > TIGHT;
    is_spaced
        && lines.next_on_page(heading.rows.1).is_some_and(|next| {
            // As many plain words are a paragraph too short to be recognized as prose.
            let is_text = next.prose || (next.words >= TEXT_WORDS && !next.bold && !next.table);
            is_text && next.cells == 1
        })
}

fn is_over_paragraph(lines: &LineTable<'_>, heading: &HeadingCandidate) -> bool {
    let is_spaced = lines.rows[heading.rows.0].gap > TIGHT;
    let next = lines.next_on_page(heading.rows.1);
    if is_spaced && next.is_some_and(|next| next.prose && next.cells == 1) {
        return true;
    }
    // The first line of a paragraph may not be recognized as prose if the second starts with a figure.
    next.filter(|next| next.words >= LONG_TEXT_WORDS && next.cells == 1 && !next.table)
        .zip(lines.next_on_page(heading.rows.1 + 1))
        .is_some_and(|(first, second)| {
            LineTable::same_style(first, second)
                && second.prose
                && second.gap < SAME_PARAGRAPH + lines.leading
        })
}

/// Titles of announced PARTs at the top of pages.
// `PART IV` is often printed at the top of each page of that PART. On a few pages only, extraction does not recognize it as
// a running head, and it would open a second PART.
pub(super) fn part_heads(headings: &[&HeadingCandidate], document: &Document<'_>) -> Vec<bool> {
    let lines = document.lines;
    let parts: BTreeSet<String> = document
        .announced
        .iter()
        .filter_map(|head| part_key(&head.title))
        .collect();
    headings
        .iter()
        .map(|heading| {
            let page = lines.rows[heading.rows.0].page as usize;
            let is_top = lines.rows_on(page).start + 1 >= heading.rows.0;
            is_top && part_key(&heading.title).is_some_and(|key| parts.contains(&key))
        })
        .collect()
}

/// `part4` for the title of PART IV, however it is spelled.
fn part_key(title: &str) -> Option<String> {
    let head = item_grammar::parse_heading(title).filter(|head| head.tags.is_empty())?;
    head.part.map(|part| format!("part{part}"))
}

/// Titles of Items that are repeated inside the Item, or at the top of the page where it begins.
// They are running heads. Those are recognized by the number of pages that have them, and a short Item does not fill so many.
pub(super) fn item_heads(headings: &[&HeadingCandidate], document: &Document<'_>) -> Vec<bool> {
    let lines = document.lines;
    let mut items: Vec<(usize, ItemTitle)> = document
        .announced
        .iter()
        .filter(|head| !head.unconfirmed)
        .filter_map(|head| Some((head.rows.0, ItemTitle::parse(&head.title)?)))
        .collect();
    items.sort_by_key(|(row, _)| *row);
    headings
        .iter()
        .map(|heading| {
            let Some(title) = ItemTitle::parse(&heading.title) else {
                return false;
            };
            let row = heading.rows.0;
            let next = items.partition_point(|(start, _)| *start <= row);
            let around = next.checked_sub(1).map(|at| &items[at]);
            let begins_here = items
                .get(next)
                .filter(|(start, _)| lines.rows[*start].page == lines.rows[row].page);
            around
                .into_iter()
                .chain(begins_here)
                .any(|(_, item)| title.repeats(item))
        })
        .collect()
}

/// The numbers of an Item in a heading, and the key of the title behind them.
struct ItemTitle {
    numbers: Vec<ItemNumber>,
    key: String,
}

impl ItemTitle {
    fn parse(title: &str) -> Option<Self> {
        let heading =
            item_grammar::parse_heading(title).filter(|heading| !heading.tags.is_empty())?;
        let key = titles::normalize_key(heading.rest);
        Some(Self {
            numbers: heading.tags,
            key: key.trim_end_matches("continued").to_owned(),
        })
    }

    // A running head may be shorter than the title.
    fn repeats(&self, item: &Self) -> bool {
        self.numbers == item.numbers && item.key.starts_with(&self.key)
    }
}

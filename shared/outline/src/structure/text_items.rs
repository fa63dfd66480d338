//! PARTs and Items in lines of text: filings of the 1990s, and HTML filings that a converter made text or Markdown of.
//!
//! Converters leave little of the look of a heading, often not even empty lines. What is left is the grammar of the form: a
//! line that names an Item, the order of the Items, and text below them.

use stemma_document::Heading;

use super::forms::SecForm;
use super::item_grammar::{self, HEAD_BYTES, ItemHeading};
use super::monotone_chain::{self, Placement};
use super::text_rows::{TextRow, TextRows};
use super::titles::{self, TitleKeys};
use super::weights::{JOINED_GAIN, JOINED_TITLE, RIGHT_TITLE};

// Rows in which the cover names the form.
const COVER_ROWS: usize = 300;
// Bounds the work on hostile texts; a filing has some hundred lines that name Items.
const MAX_CANDIDATES: usize = 20_000;
// Words of text with which a heading has its full weight.
const FULL_TEXT_WORDS: usize = 200;
// A longer line is a paragraph, which may begin with a heading.
const TITLE_WORDS: usize = 25;
// Rows of contents have a title or a page number in this many rows and words of their own.
const LISTED_ROWS: usize = 4;
const LISTED_WORDS: usize = 16;
const LIST_ITEMS: usize = 4;
// Form 20-F has the longest list.
const MAX_LISTED: usize = 60;
// With fewer words between Items than this, all of them together are an index.
const INDEX_WORDS: usize = 12;
const INDEX_ITEMS: usize = 8;

/// The heading of a PART or an Item.
struct TextItem {
    /// Index of the first line, and of the line where the title ends.
    lines: (usize, usize),
    title: String,
    /// 1 for PARTs and what follows the Items.
    level: u16,
}

/// A line that may be such a heading.
struct Candidate<'a> {
    row: usize,
    last_row: usize,
    head: ItemHeading<'a>,
    title: String,
    /// First and last key of the form, with the similarity of the title.
    keys: Vec<(usize, usize, f32)>,
}

/// The headings of a filing with its Items among them. `documents` are the documents of a submission (headings of the first
/// level): Items are those of the first.
pub(super) fn add_items(headings: &[Heading], lines: &[String], documents: bool) -> Vec<Heading> {
    let end = headings
        .iter()
        .filter(|heading| documents && heading.level == 1)
        .nth(1)
        .map_or(lines.len(), |next| (next.line as usize).saturating_sub(1));
    let items = find_items(&lines[..end.min(lines.len())]);
    let Some(first) = items.first().map(|item| item.lines.0) else {
        return headings.to_vec();
    };
    let base = u16::from(documents);
    let line_of = |heading: &Heading| (heading.line as usize).saturating_sub(1);
    let is_inside = |heading: &&Heading| (first..end).contains(&line_of(heading));
    // The grammar has decided about each line that names a PART or an Item.
    let is_other = |heading: &&Heading| {
        let at = line_of(heading);
        item_grammar::parse_heading(&heading.title).is_none()
            && !items
                .iter()
                .any(|item| (item.lines.0..=item.lines.1).contains(&at))
    };
    let others = headings.iter().filter(is_inside).filter(is_other);
    let highest = others
        .clone()
        .map(|heading| heading.level)
        .min()
        .unwrap_or(1);
    let below = others.map(|heading| Heading {
        level: base + 3 + (heading.level - highest),
        ..heading.clone()
    });
    let outside = headings.iter().filter(|heading| !is_inside(heading));
    let outside = outside
        .filter(|heading| line_of(heading) >= end || heading.level <= base || is_other(heading));
    let found = items.iter().map(|item| Heading {
        line: u32::try_from(item.lines.0 + 1).unwrap_or(u32::MAX),
        level: base + item.level,
        title: item.title.clone(),
    });
    let mut all: Vec<Heading> = outside.cloned().chain(below).chain(found).collect();
    all.sort_by_key(|heading| (heading.line, heading.level));
    all
}

fn find_items(lines: &[String]) -> Vec<TextItem> {
    let rows = TextRows::new(lines);
    let Some(form) = form_of(&rows) else {
        return Vec::new();
    };
    let mut candidates = candidates_in(&rows, form);
    drop_lists(&rows, &mut candidates);
    let placements = placements(&rows, form, &candidates);
    let chosen = monotone_chain::best_chain(
        &placements
            .iter()
            .map(|(_, placement)| *placement)
            .collect::<Vec<_>>(),
    );
    let chosen: Vec<&Candidate<'_>> = chosen
        .iter()
        .map(|at| &candidates[placements[*at].0])
        .collect();
    let numbered: Vec<&&Candidate<'_>> = chosen
        .iter()
        .filter(|candidate| !candidate.head.tags.is_empty())
        .collect();
    let required = if form == SecForm::Current { 1 } else { 2 };
    if numbered.len() < required || is_index(&rows, &numbered) {
        return Vec::new();
    }
    let mut items: Vec<TextItem> = chosen
        .iter()
        .map(|candidate| TextItem {
            lines: (
                rows.rows[candidate.row].line,
                rows.rows[candidate.last_row].line,
            ),
            title: candidate.title.clone(),
            level: if candidate.head.tags.is_empty() || form == SecForm::Current {
                1
            } else {
                2
            },
        })
        .collect();
    let behind = chosen.last().map_or(0, |candidate| candidate.last_row + 1);
    items.extend(closing(&rows.rows[behind..]));
    items
}

/// The signatures behind the last Item, or the index of exhibits behind these.
fn closing(rows: &[TextRow]) -> Option<TextItem> {
    let row = rows.iter().find(|row| {
        let key = titles::normalize_key(&row.text);
        // A power of attorney is also in the list of exhibits.
        titles::is_signature(&key) && key != "powerofattorney"
    })?;
    Some(TextItem {
        lines: (row.line, row.line),
        title: row.text.clone(),
        level: 1,
    })
}

/// The form by its cover, else by the titles of Items.
fn form_of(rows: &TextRows) -> Option<SecForm> {
    let cover = rows.rows.iter().take(COVER_ROWS);
    SecForm::detect(
        cover
            .filter(|row| row.words <= 14)
            .map(|row| row.text.as_str()),
        rows.rows.iter().map(|row| row.text.as_str()),
    )
}

fn candidates_in<'r>(rows: &'r TextRows, form: SecForm) -> Vec<Candidate<'r>> {
    let mut found = Vec::new();
    for (at, row) in rows.rows.iter().enumerate() {
        if row.listed || !rows.is_free(at) {
            continue;
        }
        let Some(head) = item_grammar::parse_heading(&row.text) else {
            continue;
        };
        if let Some(candidate) = candidate(rows, form, at, head) {
            found.push(candidate);
        }
        if found.len() >= MAX_CANDIDATES {
            break;
        }
    }
    found
}

fn candidate<'r>(
    rows: &'r TextRows,
    form: SecForm,
    row: usize,
    head: ItemHeading<'r>,
) -> Option<Candidate<'r>> {
    let read = titles::truncate_bytes(&rows.rows[row].text, HEAD_BYTES);
    let front = read[..read.len() - head.rest.len()].trim_end();
    if head.tags.is_empty() {
        let key = form.part_key(head.part?)?;
        let title = titles::fold_whitespace(read);
        return Some(Candidate {
            row,
            last_row: row,
            head,
            title,
            keys: vec![(key, key, 0.0)],
        });
    }
    let is_paragraph = titles::word_count(head.rest) > TITLE_WORDS;
    let own = match is_paragraph {
        true => head.rest.split(". ").next().unwrap_or_default(),
        false => head.rest,
    };
    let like = |key: usize, title: &str| {
        let item = form.items().get(key);
        item.map_or(0.0, |item| item.title_match(&TitleKeys::new(title)))
    };
    let ranges = form.keys_of_heading(&head);
    // A title goes on in the next rows while it grows more like that of the form.
    let mut title = titles::fold_whitespace(own);
    let best = |title: &str| {
        ranges
            .iter()
            .map(|(key, _)| like(*key, title))
            .fold(0.0, f32::max)
    };
    let mut similarity = best(&title);
    let mut last_row = row;
    let mut joined = title.clone();
    for next in rows.title_rows_below(row).filter(|_| !is_paragraph) {
        joined = titles::fold_whitespace(&format!("{joined} {}", rows.rows[next].text));
        let likeness = best(&joined);
        if likeness > similarity + JOINED_GAIN && likeness > JOINED_TITLE {
            (similarity, last_row, title) = (likeness, next, joined.clone());
        }
    }
    if is_paragraph && similarity < RIGHT_TITLE {
        return None;
    }
    let keys = ranges
        .iter()
        .map(|(first, last)| (*first, *last, like(*first, &title)))
        .collect();
    let title = titles::fold_whitespace(&format!("{front} {title}"));
    Some(Candidate {
        row,
        last_row,
        head,
        title,
        keys,
    })
}

/// Drops tables of contents: Items one after the other without text, if most of them come again.
// A list ends where a number comes a second time, since the body may follow right behind it.
fn drop_lists(rows: &TextRows, candidates: &mut Vec<Candidate<'_>>) {
    let mut start = 0;
    let mut listed = vec![false; candidates.len()];
    while start < candidates.len() {
        let mut seen: Vec<(Option<u8>, &ItemHeading<'_>)> = Vec::new();
        let mut part = None;
        let mut end = start;
        while let Some(next) = candidates.get(end) {
            part = next.head.part.or(part);
            let tags = next.head.tags.as_slice();
            let near = end == start
                || rows.is_near(
                    candidates[end - 1].last_row,
                    next.row,
                    LISTED_ROWS,
                    LISTED_WORDS,
                );
            let repeats = seen.iter().any(|(other, seen)| {
                seen.tags.as_slice() == tags
                    && (*other == part || !tags.is_empty() && (other.is_none() || part.is_none()))
            });
            if !near || repeats || seen.len() > MAX_LISTED {
                break;
            }
            seen.push((part, &next.head));
            end += 1;
        }
        // A PART at the end of a list opens the body.
        while end > start + 1 && candidates[end - 1].head.tags.is_empty() {
            end -= 1;
        }
        let items = candidates[start..end]
            .iter()
            .filter(|one| !one.head.tags.is_empty());
        let again = items
            .clone()
            .filter(|one| {
                candidates[end..]
                    .iter()
                    .any(|other| other.head.tags == one.head.tags)
            })
            .count();
        let items = items.count();
        if items >= LIST_ITEMS && again * 2 >= items {
            listed[start..end].fill(true);
        }
        start = end.max(start + 1);
    }
    let mut at = 0;
    candidates.retain(|_| {
        at += 1;
        !listed[at - 1]
    });
}

/// Every reading of every candidate, with the index of the candidate.
fn placements(
    rows: &TextRows,
    form: SecForm,
    candidates: &[Candidate<'_>],
) -> Vec<(usize, Placement)> {
    let mut all = Vec::new();
    for (at, candidate) in candidates.iter().enumerate() {
        let end = candidates
            .get(at + 1)
            .map_or(rows.rows.len(), |next| next.row);
        let words = rows
            .words_between(candidate.last_row + 1, end)
            .min(FULL_TEXT_WORDS);
        let text = words as f32 / FULL_TEXT_WORDS as f32;
        for (first, last, like) in &candidate.keys {
            let is_part = form
                .items()
                .get(*first)
                .is_some_and(|item| item.tag.is_none());
            let title = if is_part { 0.6 } else { *like };
            let score = 0.4 + title + 0.8 * text;
            all.push((at, Placement::new(candidate.row, *first, *last, score)));
        }
    }
    all
}

/// Whether the Items have no text of their own.
fn is_index(rows: &TextRows, items: &[&&Candidate<'_>]) -> bool {
    let (Some(first), Some(last)) = (items.first(), items.last()) else {
        return false;
    };
    let words = rows.words_between(first.last_row + 1, last.row);
    items.len() >= INDEX_ITEMS && words < INDEX_WORDS * items.len()
}

//! Cross-reference indexes: tables that list the pages of an integrated report which answer the Items of its form.
//!
//! Integrated reports have no Item headings; their sections follow an order of their own. A row of the index points
//! elsewhere and has no text, so the index is one section, and its rows are data ([`IndexRow`]) for the Item map.

mod cells;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use stemma_document::{Line, Page, PageNo, PageSpan, Position};
use stemma_reading::vocabulary::DOCUMENTS_ELSEWHERE;

use self::cells::{
    TitleColumns, add_title, cells, is_column_word, is_index_title, is_mark, note_of, split_mark,
    sub_item,
};
use super::forms::SecForm;
use super::item_grammar;
use super::line_features::{LineFeatures, LineTable};
use super::page_labels::PageLabels;
use super::page_references::{PageReference, split_page_references};
use super::titles;

/// One Item of a cross-reference index and where the report answers it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IndexRow {
    /// PART (1–4) in the index, if given.
    pub part: Option<u8>,
    /// Number of the Item as written: `1A`, `10`; a sub-Item of Form 20-F is `4.B`.
    pub item: String,
    /// Title in the index; empty if only the number is given.
    pub title: String,
    /// Printed page references, as written: `4-6`, `F-12`.
    pub printed: Vec<String>,
    /// Physical pages (1-based, inclusive) in the order of the index, without references that cannot be resolved.
    pub pages: Vec<PageSpan>,
    /// Sections of the report named next to or below the Item.
    pub titles: Vec<String>,
    /// The entry printed instead of pages.
    pub note: Option<IndexNote>,
    pub place: Position,
}

/// Why an Item of an index has no pages in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexNote {
    /// `Not applicable`, `None`, `[Reserved]`.
    NotApplicable,
    /// Another document, such as the proxy statement, answers it.
    ByReference,
}

/// A located index.
#[derive(Debug, Clone)]
pub(super) struct CrossIndex {
    /// Row of its heading.
    pub(super) title: Option<usize>,
    /// Whether the heading says that it is such an index.
    pub(super) is_titled: bool,
    /// First and last row, title and footnotes included.
    pub(super) rows: (usize, usize),
    pub(super) entries: Vec<IndexRow>,
}

// Fewer distinct Items are a list of references in some paragraph or table.
const MIN_ITEMS: usize = 8;
// Longer stretches of Item lines are the body of a filing.
const MAX_PAGES: usize = 4;
// A note of a few lines may be between two rows; more text means that Items are answered there.
const MAX_NOTE_LINES: usize = 3;
// With fewer page references the list is a checklist of Items.
const MIN_PLACED: usize = 4;
const MAX_PAGE_REFERENCES: usize = 64;

/// Finds the list of Items whose page references are lists or ranges, or do not rise.
///
/// The caller must check whether the Items also have headings in the text; then the list is a table of contents.
pub(super) fn find_cross_index(
    lines: &LineTable<'_>,
    pages: &[Page],
    labels: &PageLabels,
) -> Option<CrossIndex> {
    // On Form 10-Q each PART has an Item 1.
    let mut part = None;
    let mut items: Vec<(usize, String)> = Vec::new();
    for (at, row) in lines.rows.iter().enumerate() {
        if let Some(item) = item_of(row) {
            part = item.part.or(part);
            items.push((at, format!("{} {}", part.unwrap_or_default(), item.number)));
        } else if let Some(head) = item_grammar::parse_heading(row.text) {
            part = head.part.filter(|_| head.tags.is_empty()).or(part);
        }
    }
    // The list may begin on any page that names an Item.
    let mut rest = items.as_slice();
    for on_page in items.chunk_by(|(a, _), (b, _)| lines.rows[*a].page == lines.rows[*b].page) {
        let end = lines.rows[on_page[0].0].page as usize + MAX_PAGES;
        let near = rest
            .iter()
            .take_while(|(at, _)| (lines.rows[*at].page as usize) < end)
            .count();
        let stretch = contiguous(lines, &rest[..near]);
        if stretch.len() >= MIN_ITEMS
            && let (Some((from, _)), Some((to, _))) = (stretch.first(), stretch.last())
            && let Some(index) = (IndexReader {
                lines,
                pages,
                labels,
            })
            .read(*from, *to)
        {
            return Some(index);
        }
        rest = &rest[on_page.len()..];
    }
    None
}

/// The longest prefix of `items` that can be one table: no skipped page, no paragraph between rows, no Item twice.
fn contiguous<'i>(lines: &LineTable<'_>, items: &'i [(usize, String)]) -> &'i [(usize, String)] {
    let mut numbers = BTreeSet::new();
    let mut end = 0;
    while end < items.len() && numbers.insert(items[end].1.as_str()) {
        let before = items[end.saturating_sub(1)].0;
        let prose = lines.rows[before..items[end].0]
            .iter()
            .filter(|row| row.prose && row.cells == 1)
            .count();
        let skips_page = lines.rows[items[end].0].page > lines.rows[before].page + 1;
        if skips_page || prose > MAX_NOTE_LINES {
            break;
        }
        end += 1;
    }
    &items[..end]
}

/// The Item at the start of a row.
struct IndexItem<'a> {
    part: Option<u8>,
    number: String,
    rest: &'a str,
}

fn item_of<'a>(row: &LineFeatures<'a>) -> Option<IndexItem<'a>> {
    if row.running || row.prose && row.cells < 2 {
        return None;
    }
    if let Some(head) = item_grammar::parse_heading(row.text) {
        let numbered = !head.tags.is_empty() && !head.current;
        return numbered.then(|| IndexItem {
            part: head.part,
            number: head.number.trim().to_uppercase(),
            rest: head.rest,
        });
    }
    let (number, rest) = item_grammar::bare_item(row.text)?;
    let title = format!("{number} {}", split_page_references(rest).0);
    let fits = [SecForm::Annual, SecForm::Quarterly, SecForm::Foreign]
        .into_iter()
        .any(|form| form.keys_of(&title, None).is_some());
    fits.then(|| IndexItem {
        part: None,
        number: number.to_uppercase(),
        rest,
    })
}

/// What was read of an index.
#[derive(Default)]
struct FoundRows {
    entries: Vec<IndexRow>,
    /// The mark of a footnote at each entry.
    marks: Vec<Option<String>>,
    /// Columns of the last entry.
    columns: TitleColumns,
}

struct IndexReader<'s, 'a> {
    lines: &'s LineTable<'a>,
    pages: &'s [Page],
    labels: &'s PageLabels,
}

impl IndexReader<'_, '_> {
    fn read(&self, from: usize, to: usize) -> Option<CrossIndex> {
        let title = self.title(from);
        let end = self.last_row(to);
        let mut part = (title.unwrap_or(from).saturating_sub(1)..from).find_map(|at| self.part(at));
        let mut found = FoundRows::default();
        for at in from..=end {
            let row = &self.lines.rows[at];
            if row.running || row.key.is_empty() {
                continue;
            }
            if let Some(heading_part) = self.part(at) {
                part = Some(heading_part);
            } else if let Some(item) = item_of(row) {
                part = item.part.or(part);
                self.add_entry(row, item.number, part, item.rest, &mut found);
            } else if self.is_footnote(row) {
                self.apply_footnote(at, end, &mut found);
            } else if let Some(last) = found.entries.last() {
                let owner = last.item.split('.').next().unwrap_or("");
                // A sub-Item (`B. Business overview`), or the row above goes on.
                match sub_item(row.text) {
                    Some((letter, rest)) => {
                        let item = format!("{owner}.{letter}");
                        self.add_entry(row, item, part, rest, &mut found);
                    }
                    None => self.add_cells(row, None, &mut found),
                }
            }
        }
        let entries = found.entries;
        let placed = entries
            .iter()
            .filter(|entry| !entry.printed.is_empty())
            .count();
        let is_titled = title.is_some_and(|at| is_index_title(&self.lines.rows[at].key));
        (placed >= MIN_PLACED && (is_titled || has_scattered_pages(&entries))).then_some(
            CrossIndex {
                title,
                is_titled,
                rows: (title.unwrap_or(from), end),
                entries,
            },
        )
    }

    fn line(&self, row: &LineFeatures<'_>) -> Option<&Line> {
        self.pages
            .get(row.page as usize)?
            .lines
            .get(row.line as usize)
    }

    fn part(&self, at: usize) -> Option<u8> {
        let head = item_grammar::parse_heading(self.lines.rows.get(at)?.text)?;
        head.part.filter(|_| head.tags.is_empty())
    }

    /// The row of the index heading above the first Item: the first that says so, otherwise the first in a style of its own
    /// within eight rows.
    fn title(&self, from: usize) -> Option<usize> {
        let page = self.lines.rows[from].page as usize;
        let above =
            || (self.lines.rows_on(page).start..from).filter(|at| !self.lines.rows[*at].running);
        above()
            .find(|at| is_index_title(&self.lines.rows[*at].key))
            .or_else(|| {
                above()
                    .filter(|at| self.lines.rows[*at].cells == 1 && self.part(*at).is_none())
                    .find(|at| {
                        let row = &self.lines.rows[*at];
                        let stands_out = self.lines.body.is_large(row.size) || row.bold || row.caps;
                        stands_out && row.words <= 12 && from - at <= 8
                    })
            })
    }

    /// The last row of the index: everything after the last Item up to a heading or the end of the page.
    fn last_row(&self, to: usize) -> usize {
        let page = self.lines.rows[to].page as usize;
        let mut end = to;
        for at in to + 1..self.lines.rows_on(page).end {
            let row = &self.lines.rows[at];
            let heading =
                (row.bold || self.lines.body.is_large(row.size)) && row.gap > 0.8 && row.cells == 1;
            if heading && !self.lines.rows[at - 1].bold {
                break;
            }
            end = at;
        }
        end
    }

    /// Adds an Item with the cells of its first row; `rest` is the text after its number.
    fn add_entry(
        &self,
        row: &LineFeatures<'_>,
        item: String,
        part: Option<u8>,
        rest: &str,
        found: &mut FoundRows,
    ) {
        found.columns = TitleColumns::from_row(row, self.line(row));
        found.marks.push(None);
        found.entries.push(IndexRow {
            part,
            item,
            title: String::new(),
            printed: Vec::new(),
            pages: Vec::new(),
            titles: Vec::new(),
            note: None,
            place: row.position(),
        });
        self.add_cells(row, Some(rest), found);
    }

    /// Adds the cells of a row to the last entry. `rest` is the text after the Item's number, on its first row only.
    // Columns of indexes have no fixed order, so each cell is classified by its own text: page references, a note, a
    // footnote mark, a column head, the title of the Item or a section of the report.
    fn add_cells(&self, row: &LineFeatures<'_>, rest: Option<&str>, found: &mut FoundRows) {
        let (Some(entry), Some(mark)) = (found.entries.last_mut(), found.marks.last_mut()) else {
            return;
        };
        let cells = self
            .line(row)
            .map_or_else(|| vec![(row.x0, row.text)], cells);
        let start = rest.map_or(0, |rest| row.text.len() - rest.len());
        let mut offset = 0;
        for (at, (x, cell)) in cells.into_iter().enumerate() {
            // Skip the cell, or the part of it, that holds the number.
            let position = row
                .text
                .get(offset..)
                .and_then(|rest| rest.find(cell))
                .map_or(offset, |position| offset + position);
            offset = position + cell.len();
            let cell = if position >= start {
                cell
            } else {
                cell.get(start - position..).unwrap_or("")
            };
            let (bare, cell_mark) = split_mark(cell);
            let (mut words, places) = split_page_references(bare);
            if places.is_empty() {
                words = cell;
            } else if !cell_mark.is_empty() {
                *mark = Some(cell_mark.into());
            }
            for place in places
                .into_iter()
                .take(MAX_PAGE_REFERENCES - entry.printed.len().min(MAX_PAGE_REFERENCES))
            {
                entry.pages.extend(self.physical(&place));
                entry.printed.push(place.text);
            }
            let words = titles::fold_whitespace(
                words.trim_matches(|c: char| c == '.' || c == ',' || c.is_whitespace()),
            );
            if words.is_empty() {
                continue;
            }
            if let Some(note) = note_of(&words) {
                entry.note = entry.note.or(Some(note));
            } else if is_mark(&words) {
                *mark = Some(words);
            } else if is_column_word(&words) {
            } else if rest.is_some() && (at == 0 || entry.title.is_empty()) {
                entry.title = words;
            } else if rest.is_none() && at == 0 && found.columns.wraps(entry, x, &words) {
                entry.title = format!("{} {words}", entry.title);
            } else {
                add_title(&mut entry.titles, words);
            }
        }
    }

    fn physical(&self, place: &PageReference) -> Option<PageSpan> {
        let all = 0..u32::try_from(self.pages.len()).unwrap_or(u32::MAX);
        let from = self.labels.page_of(&place.from, all.clone())?;
        let to = self.labels.page_of(&place.to, all)?;
        (from <= to).then(|| {
            PageSpan::between(
                PageNo::from_index(from as usize),
                PageNo::from_index(to as usize),
            )
        })
    }

    fn is_footnote(&self, row: &LineFeatures<'_>) -> bool {
        let mark = row.text.split_whitespace().next().unwrap_or("");
        is_mark(mark) && row.words >= 4 && row.cells <= 2
    }

    /// Applies a footnote such as `(a) Incorporated by reference to the proxy statement …` to the rows with its mark.
    fn apply_footnote(&self, at: usize, end: usize, found: &mut FoundRows) {
        let mut words = self.lines.rows[at].text.split_whitespace();
        let mark = words.next().unwrap_or("");
        let mut text: String = self.lines.rows[at].key.clone();
        for next in at + 1..=end.min(at + 4) {
            if self.is_footnote(&self.lines.rows[next]) {
                break;
            }
            text.push_str(&self.lines.rows[next].key);
        }
        let elsewhere = DOCUMENTS_ELSEWHERE.occurs_in(&text);
        let note = if elsewhere {
            IndexNote::ByReference
        } else {
            IndexNote::NotApplicable
        };
        let entries = found.entries.iter_mut().zip(&found.marks);
        for (entry, _) in entries.filter(|(_, own)| own.as_deref() == Some(mark)) {
            // A footnote to pages, such as `Includes the report of the auditors`, says something about them.
            if elsewhere || entry.printed.is_empty() {
                entry.note = entry.note.or(Some(note));
            }
        }
    }
}

// A table of contents has one rising number per row. In an index at least a fifth of the rows have several references or
// go back, because the Items are answered in another order than the form's.
fn has_scattered_pages(entries: &[IndexRow]) -> bool {
    let placed: Vec<&IndexRow> = entries
        .iter()
        .filter(|entry| !entry.printed.is_empty())
        .collect();
    let several = placed.iter().filter(|e| e.printed.len() > 1).count();
    let firsts: Vec<u32> = placed
        .iter()
        .filter_map(|e| Some(e.pages.first()?.start().get()))
        .collect();
    let falling = firsts.windows(2).filter(|pair| pair[1] < pair[0]).count();
    several * 5 >= placed.len() || falling * 5 >= firsts.len().max(1)
}

#[cfg(test)]
mod tests;

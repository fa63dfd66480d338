//! Finds the PARTs and Items that make up the body of a filing.

use std::collections::{BTreeMap, BTreeSet};

use super::forms::{FormItem, SecForm};
use super::item_grammar::{HEAD_BYTES, ItemHeading, parse_bare_item, parse_heading};
use super::line_features::{LineFeatures, LineTable, is_finished};
use super::monotone_chain::{self, Placement};
use super::numbering;
use super::titles::{self, TitleKeys};
use super::weights::{
    BARE_ITEM_TITLE, BARE_NUMBER, BOLD, CAPITALS, GOOD_HEADING, INDEX_ROW, ITEM_NUMBER, ITEM_TITLE,
    JOINED_GAIN, JOINED_TITLE, LABEL_PAGE, LARGE, MENTION, PART_NUMBER, RIGHT_TITLE, RUNNING_HEAD,
    SAME_PART, SMALL_BY, SMALL_PRINT, SPACE_ABOVE, TARGET_PAGE, TIGHT, TITLE_ALONE,
    WHOLE_ITEM_TITLE,
};

/// The announcements of one Item of a form in contents and outline.
#[derive(Debug, Clone, Default)]
pub(super) struct ItemHint {
    pub(super) title: String,
    /// Page (from 0) a link or outline entry points to.
    pub(super) target: Option<u32>,
    /// Page (from 0) with the printed label.
    pub(super) predicted: Option<u32>,
}

/// A PART or Item found in the body.
#[derive(Debug, Clone)]
pub(super) struct LocatedItem {
    /// Index of its first PART or Item in the form's list.
    pub(super) key: usize,
    /// Index of its last; more than `key` when combined.
    pub(super) last_key: usize,
    /// First and last row of its heading.
    pub(super) rows: (usize, usize),
    pub(super) title: String,
    pub(super) number: String,
    /// Announced for this place, but not found there.
    pub(super) unconfirmed: bool,
}

impl ItemHint {
    /// The Item at a row of the page that was announced for it.
    pub(super) fn to_item(&self, key: usize, row: usize, unconfirmed: bool) -> LocatedItem {
        LocatedItem {
            key,
            last_key: key,
            rows: (row, row),
            title: self.title.clone(),
            number: numbering::leading_number(&self.title).unwrap_or_default(),
            unconfirmed,
        }
    }
}

/// Detects the form of a span of rows: by its cover, otherwise by its Items.
pub(super) fn form_of(lines: &LineTable<'_>, rows: std::ops::Range<usize>) -> Option<SecForm> {
    let first_page = lines.rows.get(rows.start)?.page;
    let cover = lines.rows[rows.clone()]
        .iter()
        .take_while(|row| row.page < first_page + 30)
        .filter(|row| row.words <= 14);
    for row in cover {
        // The form's name must fill the row: a mention in a sentence is not a cover.
        let form = SecForm::ALL.into_iter().find(|form| {
            let words = form.cover_words();
            words.contains(&row.key.as_str()) && row.text.starts_with(['F', 'f'])
        });
        if form.is_some() {
            return form;
        }
    }
    form_by_items(lines, rows)
}

fn form_by_items(lines: &LineTable<'_>, rows: std::ops::Range<usize>) -> Option<SecForm> {
    let rows = lines.rows[rows].iter();
    let heads = rows.filter(|row| row.words <= 40 && !row.running);
    form_by_headings(heads.filter_map(|row| parse_heading(row.text)))
}

// Without a cover, the Items tell the form, by number and title together: numbers alone recur on all forms. One `5.02` is
// enough for a current report, since no other form has such numbers; annual and quarterly reports need four matches, as
// other documents quote single Items.
pub(super) fn form_by_headings<'a>(
    heads: impl Iterator<Item = ItemHeading<'a>>,
) -> Option<SecForm> {
    let mut current = 0;
    let mut annual = 0;
    let mut quarterly = 0;
    let mut foreign = 0;
    for head in heads.filter(|head| !head.tags.is_empty()) {
        current += usize::from(head.current);
        let title = TitleKeys::new(head.rest);
        let counts = [
            (SecForm::Annual, &mut annual),
            (SecForm::Quarterly, &mut quarterly),
            (SecForm::Foreign, &mut foreign),
        ];
        for (form, count) in counts {
            let fits = form.items().iter().any(|item| {
                item.tag == Some(head.tags[0]) && title_match(item, &title) > RIGHT_TITLE
            });
            *count += usize::from(!head.current && fits);
        }
    }
    match (current, annual, quarterly) {
        (c, a, q) if c >= 1 && c > a && c > q => Some(SecForm::Current),
        (_, a, q) if foreign >= 4 && foreign > a && foreign > q => Some(SecForm::Foreign),
        (_, a, q) if a >= 4 && a >= q => Some(SecForm::Annual),
        (_, _, q) if q >= 4 => Some(SecForm::Quarterly),
        _ => None,
    }
}

/// Similarity (0–1) of a title to the titles of an Item.
pub(super) fn title_match(item: &FormItem, title: &TitleKeys) -> f32 {
    let alike = item
        .titles
        .iter()
        .map(|variant| titles::title_similarity(&TitleKeys::new(variant), title));
    alike.fold(0.0, f32::max)
}

/// First and last index in the list of `form` that `text` names: by number, or by a bare number with the right title
/// (`1A Risk Factors`). `part` decides between equal numbers.
pub(super) fn keys_of(form: SecForm, text: &str, part: Option<u8>) -> Option<(usize, usize)> {
    let items = form.items();
    if let Some(head) = parse_heading(text) {
        if head.tags.is_empty() {
            let key = items
                .iter()
                .position(|item| item.tag.is_none() && Some(item.part) == head.part)?;
            return Some((key, key));
        }
        let title = TitleKeys::new(head.rest);
        // On Form 10-Q each PART has an Item 1. The title decides; the PART counts half, since it may be missing or stale.
        let (_, key, item) = items
            .iter()
            .enumerate()
            .filter(|(_, item): &(usize, &FormItem)| item.tag == Some(head.tags[0]))
            .map(|(key, item)| {
                let same_part = head.part.or(part) == Some(item.part);
                let score = title_match(item, &title) + if same_part { SAME_PART } else { 0.0 };
                (score, key, item)
            })
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        let last = head.tags.last().and_then(|tag| {
            items
                .iter()
                .position(|it| it.tag == Some(*tag) && it.part >= item.part)
        });
        return Some((key, last.filter(|last| *last >= key).unwrap_or(key)));
    }
    let (tag, rest) = parse_bare_item(text)?;
    let title = TitleKeys::new(rest);
    let key = items.iter().position(|item| {
        item.tag == Some(tag)
            && (part.is_none() || part == Some(item.part))
            && title_match(item, &title) > BARE_ITEM_TITLE
    })?;
    Some((key, key))
}

/// Whether a heading of several Items names the Item with this key: by its number, or as one of a range.
pub(super) fn names_key(form: SecForm, heading: &str, key: usize) -> bool {
    let Some(head) = parse_heading(heading) else {
        return true;
    };
    let tag = form.items().get(key).and_then(|item| item.tag);
    let is_range = head.number.to_ascii_lowercase().contains("through");
    is_range || tag.is_some_and(|tag| head.tags.contains(&tag))
}

/// Finds the PARTs and Items of `form` in `rows`, except in `excluded` rows (contents). The key in the chain is the index
/// in the form's list, so the result keeps the order of the form.
pub(super) fn find_items(
    lines: &LineTable<'_>,
    rows: std::ops::Range<usize>,
    form: SecForm,
    hints: &[Option<ItemHint>],
    excluded: &[bool],
) -> Vec<LocatedItem> {
    let title_variants: Vec<Vec<TitleKeys>> = form
        .items()
        .iter()
        .zip(hints)
        .map(|(item, hint)| {
            let own = hint.iter().map(|hint| hint.title.as_str());
            own.chain(item.titles.iter().copied())
                .map(TitleKeys::new)
                .collect()
        })
        .collect();
    let search = ItemSearch {
        lines,
        form,
        hints,
        title_variants,
        end: rows.end,
    };
    let mut placements = Vec::new();
    let mut items = Vec::new();
    for at in rows {
        if !excluded[at] {
            search.read_row(at, &mut placements, &mut items);
        }
    }
    let lists = ListedRows::new(&search, &items);
    search.lower_repeats(&mut placements, &items, &lists);
    let mut found: Vec<LocatedItem> = monotone_chain::best_chain(&placements)
        .into_iter()
        .map(|i| items[i].clone())
        .collect();
    search.add_moved_items(&placements, &items, &lists, &mut found);
    found
}

/// Rows right above and below Items without text between them, which are lists.
struct ListedRows {
    starts: BTreeSet<usize>,
    ends: BTreeSet<usize>,
}

impl ListedRows {
    fn new(search: &ItemSearch<'_, '_>, items: &[LocatedItem]) -> Self {
        let numbered = items
            .iter()
            .filter(|item| search.form.items()[item.key].tag.is_some());
        let (starts, ends) = numbered.map(|item| (item.rows.0, item.rows.1 + 1)).unzip();
        Self { starts, ends }
    }

    fn contains(&self, lines: &LineTable<'_>, item: &LocatedItem) -> bool {
        let on_one_page = |below: usize| lines.rows[below - 1].page == lines.rows[below].page;
        let above = item.rows.0;
        let below = item.rows.1 + 1;
        self.ends.contains(&above) && on_one_page(above)
            || self.starts.contains(&below) && on_one_page(below)
    }
}

struct ItemSearch<'s, 'a> {
    lines: &'s LineTable<'a>,
    form: SecForm,
    hints: &'s [Option<ItemHint>],
    /// For each key, its possible titles: the announced one first, then those of the form.
    title_variants: Vec<Vec<TitleKeys>>,
    end: usize,
}

impl ItemSearch<'_, '_> {
    // Three kinds of lines can be the heading of an Item, and their base scores keep this order: `Item 7A. Title` (0.7 to
    // 1.3), a bare number with the right title (from 0.8), and the title alone where it is set like a heading (0.1). The
    // last kind wins only if a filing has no better line, or with the help of a link.
    fn read_row(&self, at: usize, placements: &mut Vec<Placement>, items: &mut Vec<LocatedItem>) {
        let row = &self.lines.rows[at];
        // The text of an Item may begin in the line of its heading, which the style of a phrase sets off.
        let run_in = row
            .run_in
            .filter(|phrase| parse_heading(phrase.text).is_some_and(|head| !head.tags.is_empty()));
        if row.words > 70 && run_in.is_none() || row.key.is_empty() {
            return;
        }
        let text = run_in.map_or(row.text, |phrase| phrase.text);
        let mut matches: Vec<(LocatedItem, f32)> = Vec::new();
        if let Some(head) = parse_heading(text) {
            for (key, last_key) in keys_of_heading(self.form, &head) {
                let (like, last, title) = self.best_title(at, key, head.rest);
                let (last, title) = if last_key > key {
                    self.combined_title(at, last, title)
                } else {
                    (last, title)
                };
                let read = titles::truncate_bytes(text, HEAD_BYTES);
                let front = read[..read.len() - head.rest.len()].trim_end();
                let title = if title.is_empty() {
                    text.to_string()
                } else {
                    format!("{front} {title}")
                };
                // PARTs often have no title to compare.
                let base = if head.tags.is_empty() {
                    PART_NUMBER
                } else {
                    ITEM_NUMBER + ITEM_TITLE * like
                };
                // Inside a paragraph only the right title makes a run-in heading; anything else is a mention.
                let prose = if row.prose && like < RIGHT_TITLE {
                    MENTION
                } else {
                    0.0
                };
                let score =
                    base + prose + style_score(self.lines, at) + self.hint_score(key, row.page);
                matches.push((
                    LocatedItem {
                        key,
                        last_key,
                        rows: (at, last),
                        title,
                        number: head.number.to_string(),
                        unconfirmed: false,
                    },
                    score,
                ));
            }
        } else if let Some((tag, rest)) =
            parse_bare_item(row.text).filter(|_| self.form != SecForm::Current && !row.prose)
        {
            for key in (0..self.title_variants.len())
                .filter(|key| self.form.items()[*key].tag == Some(tag))
            {
                let (like, last, title) = self.best_title(at, key, rest);
                if like > RIGHT_TITLE {
                    let number = row.text[..row.text.len() - rest.len()]
                        .trim_matches(|c: char| !c.is_alphanumeric());
                    let title = format!(
                        "{} {title}",
                        row.text[..row.text.len() - rest.len()].trim_end()
                    );
                    let score = BARE_NUMBER
                        + ITEM_TITLE * like
                        + style_score(self.lines, at)
                        + self.hint_score(key, row.page);
                    matches.push((
                        LocatedItem {
                            key,
                            last_key: key,
                            rows: (at, last),
                            title,
                            number: number.to_string(),
                            unconfirmed: false,
                        },
                        score,
                    ));
                }
            }
        } else if self.form != SecForm::Current
            && row.words <= 22
            && !row.prose
            && !row.running
            && !row.table
        {
            let heading =
                self.lines.is_large(row) || (row.bold && !self.lines.body_bold) || row.caps;
            for key in (0..self.title_variants.len()).filter(|_| heading) {
                let exact = self.title_variants[key]
                    .iter()
                    .any(|title| title.core == row.key)
                    && self.form.items()[key].tag.is_some();
                if exact {
                    let score =
                        TITLE_ALONE + style_score(self.lines, at) + self.hint_score(key, row.page);
                    let title = row.text.to_string();
                    matches.push((
                        LocatedItem {
                            key,
                            last_key: key,
                            rows: (at, at),
                            title,
                            number: String::new(),
                            unconfirmed: false,
                        },
                        score,
                    ));
                }
            }
        }
        for (item, score) in matches {
            // `Items 1 and 2` leaves room for Items 1A to 1C, which follow under headings of their own.
            let between = item.key + 1..item.last_key;
            let holds_all = between
                .into_iter()
                .all(|key| names_key(self.form, row.text, key));
            let last_key = if holds_all { item.last_key } else { item.key };
            placements.push(Placement {
                at: at as u32,
                keys: (item.key as u32, last_key as u32),
                score,
            });
            items.push(item);
        }
    }

    /// Similarity (0–1) of a title to the best variant of a key.
    fn title_similarity(&self, key: usize, title: &str) -> f32 {
        let title = TitleKeys::new(title);
        self.title_variants[key]
            .iter()
            .map(|variant| titles::title_similarity(variant, &title))
            .fold(0.0, f32::max)
    }

    /// Similarity of the title at `at` to the titles of `key`, the row where the title ends, and the title. Following
    /// lines are joined while the similarity rises.
    fn best_title(&self, at: usize, key: usize, rest: &str) -> (f32, usize, String) {
        let rows = &self.lines.rows;
        let mut title = titles::fold_whitespace(rest);
        let like = if title.is_empty() {
            0.0
        } else {
            self.title_similarity(key, &title)
        };
        let mut best = (like, at, title.clone());
        for next in at + 1..self.end.min(at + 5) {
            let row = &rows[next];
            let same =
                row.page == rows[at].page && row.gap < 2.5 && row.words <= 30 && !row.running;
            if !same || parse_heading(row.text).is_some() || best.0 > WHOLE_ITEM_TITLE {
                break;
            }
            title = titles::fold_whitespace(&format!("{title} {}", row.text));
            let like = self.title_similarity(key, &title);
            if like > best.0 + JOINED_GAIN && like > JOINED_TITLE {
                best = (like, next, title.clone());
            }
        }
        best
    }

    /// The last row and the title of a combined Item.
    // The title of `Items 10, 11 and 12` matches no single Item, so similarity cannot tell where it ends. Style can: the
    // title goes on as long as lines of the same marked style follow closely.
    fn combined_title(&self, at: usize, mut last: usize, mut title: String) -> (usize, String) {
        let rows = &self.lines.rows;
        for next in last + 1..self.end.min(at + 4) {
            let row = &rows[next];
            let marked = (row.bold && !self.lines.body_bold) || row.caps;
            let close = row.page == rows[at].page && row.gap < TIGHT && !row.running && !row.prose;
            if !marked
                || !close
                || row.caps != rows[at].caps
                || !LineTable::same_style(row, &rows[at])
            {
                break;
            }
            if parse_heading(row.text).is_some() || is_finished(&title) && !title.ends_with(';') {
                break;
            }
            (last, title) = (
                next,
                titles::fold_whitespace(&format!("{title} {}", row.text)),
            );
        }
        (last, title)
    }

    /// Lowers headings that are repeated at the edge of a page.
    // Running heads are recognized by the number of pages that have them, and a short Item does not fill so many. On the
    // page where an Item begins, its heading may be below the running head.
    fn lower_repeats(
        &self,
        placements: &mut [Placement],
        items: &[LocatedItem],
        lists: &ListedRows,
    ) {
        let rows = &self.lines.rows;
        let mut first: BTreeMap<(usize, &str), usize> = BTreeMap::new();
        for (at, item) in items.iter().enumerate() {
            let row = &rows[item.rows.0];
            let text = (item.key, row.key.trim_end_matches("continued"));
            match first.get(&text).copied() {
                None if !lists.contains(self.lines, item) && !row.figures && !row.prose => {
                    first.insert(text, at);
                }
                Some(before) => {
                    let above = items[before].rows.0;
                    let below_head = rows[above].page == row.page && self.is_edge(above);
                    if below_head && !self.is_edge(item.rows.0) {
                        placements[before].score += RUNNING_HEAD;
                        first.insert(text, at);
                    } else if self.is_edge(item.rows.0) && stands_out_like(&rows[above], row) {
                        placements[at].score += RUNNING_HEAD;
                    }
                }
                None => {}
            }
        }
    }

    /// Adds Items whose only good heading is out of the order of the form, in their PART.
    fn add_moved_items(
        &self,
        placements: &[Placement],
        items: &[LocatedItem],
        lists: &ListedRows,
        found: &mut Vec<LocatedItem>,
    ) {
        let part = |item: &LocatedItem| self.form.items()[item.key].part;
        let mut moved: BTreeMap<usize, Vec<&LocatedItem>> = BTreeMap::new();
        for (placement, item) in placements.iter().zip(items) {
            let row = &self.lines.rows[item.rows.0];
            let own_score = placement.score - self.hint_score(item.key, row.page);
            let is_new = !found.iter().any(|other| {
                other.rows.0 == item.rows.0 || (other.key..=other.last_key).contains(&item.key)
            });
            let is_item = self.form.items()[item.key].tag.is_some() && !item.number.is_empty();
            if is_new && is_item && own_score >= GOOD_HEADING && !lists.contains(self.lines, item) {
                moved.entry(item.key).or_default().push(item);
            }
        }
        for candidates in moved.into_values() {
            let [item] = candidates.as_slice() else {
                continue;
            };
            let before = found.iter().filter(|other| other.rows.0 < item.rows.0);
            let after = found.iter().filter(|other| other.rows.0 > item.rows.0);
            let before = before.max_by_key(|other| other.rows.0);
            let after = after.min_by_key(|other| other.rows.0);
            if before.is_some_and(|other| part(other) == part(item))
                || after.is_some_and(|other| part(other) == part(item))
            {
                found.push((*item).clone());
            }
        }
    }

    /// Whether only running heads are above or below a row on its page.
    fn is_edge(&self, row: usize) -> bool {
        let below = row + 1..self.lines.rows_on(self.lines.rows[row].page as usize).end;
        self.lines.starts_page(row)
            || self.lines.rows[below]
                .iter()
                .all(|row| row.running || row.key.is_empty())
    }

    fn hint_score(&self, key: usize, page: u32) -> f32 {
        self.hints[key]
            .as_ref()
            .map_or(0.0, |hint| page_score(hint.target, hint.predicted, page))
    }
}

/// Whether a row is set as prominently as another one.
fn stands_out_like(row: &LineFeatures<'_>, other: &LineFeatures<'_>) -> bool {
    (row.bold || !other.bold) && (row.caps || !other.caps) && row.size > other.size - 1.5
}

/// Every reading of a heading as first and last key of the form.
// On Form 10-Q `Item 1` has two readings, one in each PART. Both are placed, and the chain decides by position.
pub(super) fn keys_of_heading(form: SecForm, head: &ItemHeading<'_>) -> Vec<(usize, usize)> {
    let items = form.items();
    let last_tag = head.tags.last().filter(|_| head.tags.len() > 1);
    items
        .iter()
        .enumerate()
        .filter(|(_, item)| match head.tags.first() {
            None => item.tag.is_none() && Some(item.part) == head.part,
            Some(tag) => item.tag == Some(*tag) && head.part.is_none_or(|part| part == item.part),
        })
        .map(|(key, item)| {
            let last = last_tag.and_then(|tag| {
                items
                    .iter()
                    .position(|it| it.tag == Some(*tag) && it.part == item.part)
            });
            (key, last.filter(|last| *last > key).unwrap_or(key))
        })
        .collect()
}

/// The key of a PART.
pub(super) fn part_key(form: SecForm, part: u8) -> Option<usize> {
    form.items()
        .iter()
        .position(|item| item.tag.is_none() && item.part == part)
}

/// Score of a row on `page` for a link target and a predicted page.
// Announced pages add to the score but never decide alone: links may all point to page one, and printed labels drift from
// physical pages. Links weigh more than labels, and neighboring pages count, since a destination may be the end of the page
// before.
pub(super) fn page_score(target: Option<u32>, predicted: Option<u32>, page: u32) -> f32 {
    let target = target.map_or(0.0, |at| match at.abs_diff(page) {
        0 => TARGET_PAGE[0],
        1 => TARGET_PAGE[1],
        _ => TARGET_PAGE[2],
    });
    let predicted = predicted.map_or(0.0, |at| match at.abs_diff(page) {
        0 => LABEL_PAGE[0],
        1 => LABEL_PAGE[1],
        2 | 3 => LABEL_PAGE[2],
        _ => LABEL_PAGE[3],
    });
    target + predicted
}

/// Score of the style of a line: weight, size, capitals and space above add; running heads and small print lose.
// Small compared with a full match of the title: style decides between lines with the same words. A property that the body text
// has, too, says nothing. Running heads lose most, since they repeat real titles word for word.
pub(super) fn style_score(lines: &LineTable<'_>, at: usize) -> f32 {
    let row = &lines.rows[at];
    let is_index_row =
        row.figures || row.text.ends_with(|c: char| c.is_ascii_digit()) && row.cells > 1;
    [
        (row.bold && !lines.body_bold, BOLD),
        (lines.is_large(row), LARGE),
        (row.caps, CAPITALS),
        (row.gap >= TIGHT, SPACE_ABOVE),
        (row.running, RUNNING_HEAD),
        (row.size < lines.body - SMALL_BY, SMALL_PRINT),
        (is_index_row, INDEX_ROW),
    ]
    .into_iter()
    .filter(|(applies, _)| *applies)
    .fold(0.0, |score, (_, weight)| score + weight)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line};
    use super::super::{StructureSettings, outline};
    use super::*;

    #[test]
    fn bare_number_needs_item_title() {
        assert_eq!(
            keys_of(SecForm::Annual, "1A Risk Factors", None),
            Some((2, 2))
        );
        assert_eq!(keys_of(SecForm::Annual, "1. Business", None), Some((1, 1)));
        assert_eq!(
            keys_of(SecForm::Annual, "1. Overview of our markets", None),
            None
        );
        assert_eq!(
            keys_of(SecForm::Quarterly, "Item 1. Legal Proceedings", None),
            Some((6, 6))
        );
        assert_eq!(
            keys_of(SecForm::Quarterly, "Item 1.", Some(2)),
            Some((6, 6))
        );
    }

    #[test]
    fn overlong_heading_is_read() {
        let mut doc = Doc::new(3);
        doc.add(0, line("FORM 10-K").bold());
        doc.section(1, "Item 1. Business");
        doc.section(2, &format!("Item 6. Exhibit {}", "\u{fffd}".repeat(300)));
        let draft = outline(&doc.source(), &StructureSettings::default()).unwrap();
        let titles: Vec<&str> = draft
            .outline
            .entries()
            .iter()
            .map(|e| e.located.entry.title.as_str())
            .collect();
        assert!(
            titles[1..].iter().all(|title| title.len() < 1_000),
            "{titles:?}"
        );
    }

    /// A filing whose Item 3 begins right below a line of text, and whose title `again` is at `y` on the next page.
    fn with_repeat(again: &str, y: f32) -> Doc {
        let mut doc = Doc::new(9);
        doc.add(0, line("FORM 10-K").size(14.0).bold());
        doc.prose(0, 10.0, 20);
        for (page, title) in [(1, "Item 1. Business"), (2, "Item 2. Properties")] {
            doc.add(page, line(title).bold());
            doc.prose(page, 10.0, 20);
        }
        doc.prose(3, 10.0, 3);
        doc.add(3, line("We own them all."));
        let above = doc.add(3, line("No forge is leased."));
        doc.add(
            3,
            line("Item 3. Legal Proceedings")
                .bold()
                .at(72.0, above.y1.points() + 2.0),
        );
        doc.add(3, line(""));
        doc.prose(3, 10.0, 12);
        for page in [4, 5] {
            doc.prose(page, 10.0, 20);
        }
        doc.add(4, line(again).bold().at(72.0, y));
        for (page, title) in [
            (6, "Item 7. Management's Discussion and Analysis"),
            (7, "Item 9B. Other Information"),
        ] {
            doc.add(page, line(title).bold());
            doc.prose(page, 10.0, 20);
        }
        doc
    }

    #[test]
    fn running_head_of_a_short_item_is_not_its_heading() {
        for (again, y) in [
            ("Item 3. Legal Proceedings", 60.0),
            ("ITEM 3: LEGAL PROCEEDINGS (continued)", 60.0),
            ("Item 3. Legal Proceedings", 760.0),
        ] {
            let doc = with_repeat(again, y);
            let source = doc.source();
            let lines = LineTable::new(doc.pages(&source));
            let rows = lines.rows.len();
            let form = SecForm::Annual;
            let hints = vec![None; form.items().len()];
            let found = find_items(&lines, 0..rows, form, &hints, &vec![false; rows]);
            let third: Vec<u32> = found
                .iter()
                .filter(|item| item.number == "3")
                .map(|item| lines.rows[item.rows.0].page)
                .collect();
            assert_eq!(third, [3], "{again} at {y}");
        }
    }
}

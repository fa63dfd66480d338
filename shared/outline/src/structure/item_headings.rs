//! Finds the PARTs and Items that make up the body of a filing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::forms::{ItemNumber, SecForm};
use super::item_grammar::{HEAD_BYTES, ItemHeading, parse_bare_item, parse_heading};
use super::line_features::{LineFeatures, LineTable, is_finished};
use super::monotone_chain::{self, Placement};
use super::numbering;
use super::titles::{self, TitleKeys};
use super::weights::{
    BARE_NUMBER, BOLD, CAPITALS, GOOD_HEADING, INDEX_ROW, ITEM_NUMBER, ITEM_TITLE, JOINED_GAIN,
    JOINED_TITLE, LABEL_PAGE, LARGE, MENTION, PART_NUMBER, RIGHT_TITLE, RUNNING_HEAD, SMALL_BY,
    SMALL_PRINT, SPACE_ABOVE, TARGET_PAGE, TIGHT, TITLE_ALONE, TITLE_GAP, WHOLE_ITEM_TITLE,
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

impl LocatedItem {
    fn new(key: usize, rows: (usize, usize), title: String, number: &str) -> Self {
        Self {
            key,
            last_key: key,
            rows,
            title,
            number: number.to_string(),
            unconfirmed: false,
        }
    }
}

impl ItemHint {
    /// The Item at a row of the page that was announced for it.
    pub(super) fn to_item(&self, key: usize, row: usize, unconfirmed: bool) -> LocatedItem {
        let number = numbering::leading_number(&self.title).unwrap_or_default();
        LocatedItem {
            unconfirmed,
            ..LocatedItem::new(key, (row, row), self.title.clone(), &number)
        }
    }
}

/// Detects the form of a span of rows: by its cover, otherwise by its Items.
pub(super) fn form_of(lines: &LineTable<'_>, rows: Range<usize>) -> Option<SecForm> {
    let first_page = lines.rows.get(rows.start)?.page;
    let rows = &lines.rows[rows];
    // The form's name must fill the row: a mention in a sentence is not a cover.
    let cover = rows
        .iter()
        .take_while(|row| row.page < first_page + 30)
        .filter(|row| row.words <= 14);
    let others = rows.iter().filter(|row| row.words <= 40 && !row.running);
    SecForm::detect(cover.map(|row| row.text), others.map(|row| row.text))
}

/// Finds the PARTs and Items of `form` in `rows`, except in `excluded` rows (contents). The key in the chain is the index
/// in the form's list, so the result keeps the order of the form.
pub(super) fn find_items(
    lines: &LineTable<'_>,
    rows: Range<usize>,
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
        let matches = if let Some(head) = parse_heading(text) {
            self.numbered_items(at, text, &head)
        } else if self.form == SecForm::Current || row.prose {
            Vec::new()
        } else if let Some((tag, rest)) = parse_bare_item(row.text) {
            self.bare_items(at, tag, rest)
        } else {
            self.titled_items(at)
        };
        for (item, score) in matches {
            // `Items 1 and 2` leaves room for Items 1A to 1C, which follow under headings of their own.
            let holds_all =
                (item.key + 1..item.last_key).all(|key| self.form.names_key(row.text, key));
            let last_key = if holds_all { item.last_key } else { item.key };
            let score = score + style_score(self.lines, at) + self.hint_score(item.key, row.page);
            placements.push(Placement::new(at, item.key, last_key, score));
            items.push(item);
        }
    }

    fn numbered_items(
        &self,
        at: usize,
        text: &str,
        head: &ItemHeading<'_>,
    ) -> Vec<(LocatedItem, f32)> {
        let read = titles::truncate_bytes(text, HEAD_BYTES);
        let front = read[..read.len() - head.rest.len()].trim_end();
        let keys = self.form.keys_of_heading(head).into_iter();
        keys.map(|(key, last_key)| {
            let (like, mut last, mut title) = self.best_title(at, key, head.rest);
            if last_key > key {
                (last, title) = self.combined_title(at, last, title);
            }
            // PARTs often have no title to compare.
            let base = if head.tags.is_empty() {
                PART_NUMBER
            } else {
                ITEM_NUMBER + ITEM_TITLE * like
            };
            // Inside a paragraph only the right title makes a run-in heading; anything else is a mention.
            let is_mention = self.lines.rows[at].prose && like < RIGHT_TITLE;
            let title = match title.is_empty() {
                true => text.to_string(),
                false => format!("{front} {title}"),
            };
            let item = LocatedItem {
                last_key,
                ..LocatedItem::new(key, (at, last), title, head.number)
            };
            (item, base + if is_mention { MENTION } else { 0.0 })
        })
        .collect()
    }

    fn bare_items(&self, at: usize, tag: ItemNumber, rest: &str) -> Vec<(LocatedItem, f32)> {
        let text = self.lines.rows[at].text;
        let front = &text[..text.len() - rest.len()];
        let keys = self.form.entries().filter(|item| item.tag == Some(tag));
        keys.filter_map(|item| {
            let (like, last, title) = self.best_title(at, item.key, rest);
            let title = format!("{} {title}", front.trim_end());
            let number = front.trim_matches(|c: char| !c.is_alphanumeric());
            let found = LocatedItem::new(item.key, (at, last), title, number);
            (like > RIGHT_TITLE).then_some((found, BARE_NUMBER + ITEM_TITLE * like))
        })
        .collect()
    }

    fn titled_items(&self, at: usize) -> Vec<(LocatedItem, f32)> {
        let row = &self.lines.rows[at];
        let stands_out = self.lines.body.is_heavy(row.look()) || row.caps;
        if row.words > 22 || row.running || row.table || !stands_out {
            return Vec::new();
        }
        let items = self.form.entries().filter(|item| {
            self.title_variants[item.key]
                .iter()
                .any(|title| title.core == row.key)
        });
        items
            .map(|item| LocatedItem::new(item.key, (at, at), row.text.to_string(), ""))
            .map(|item| (item, TITLE_ALONE))
            .collect()
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
                row.page == rows[at].page && row.gap < TITLE_GAP && row.words <= 30 && !row.running;
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
            let marked = self.lines.body.is_bold(row.bold) || row.caps;
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
        (lines.body.is_bold(row.bold), BOLD),
        (lines.body.is_large(row.size), LARGE),
        (row.caps, CAPITALS),
        (row.gap >= TIGHT, SPACE_ABOVE),
        (row.running, RUNNING_HEAD),
        (row.size < lines.body.size() - SMALL_BY, SMALL_PRINT),
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

    /// A filing whose Item 3 begins right below a line of text, and whose title `again` is at `y` on the page behind.
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

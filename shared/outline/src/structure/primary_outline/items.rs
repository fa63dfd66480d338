//! Adds the PARTs and Items of a filing, and what follows them.

use stemma_document::EvidenceSource;
use stemma_document::roman_numerals::format_roman;
use stemma_reading::vocabulary::CAUTIONS;

use super::{LocatedCandidates, OutlineBuilder};
use crate::structure::exhibits::BoundDocument;
use crate::structure::forms::SecForm;
use crate::structure::item_grammar;
use crate::structure::item_headings::{self, ItemHint, LocatedItem};
use crate::structure::line_features::{LineFeatures, LineTable};
use crate::structure::outline_head::{LAYOUT_RANK, OutlineHead, RANK_STEP};
use crate::structure::titles::{self, TitleKeys};
use crate::structure::weights::RIGHT_TITLE;

// More top sections (the preface not counted) hide the PARTs of a filing: signatures and exhibits go under the last PART
// (ADR 0008).
const MAX_TOP_SECTIONS: usize = 11;
const TITLE_WORDS: u16 = 16;
const TEXT_WORDS: u16 = 8;

impl OutlineBuilder<'_, '_> {
    /// Adds PARTs and Items of a filing; a missing PART is added at its first Item.
    pub(super) fn add_items(
        &mut self,
        document: &BoundDocument,
        form: SecForm,
        table: &LocatedCandidates,
        bookmarks: &LocatedCandidates,
    ) {
        let hints = item_hints(form, table, bookmarks);
        let mut items = item_headings::find_items(
            self.lines,
            document.rows.clone(),
            form,
            &hints,
            &self.outline.excluded,
        );
        // The chain can settle in a list of Items that was not recognized as contents.
        if is_item_index(self.lines, &items) {
            items.clear();
        }
        // First what can be read on its page, then what was only announced: the second step relies on the neighbors that
        // the first one adds. Fewer than four Items give no order to place announced ones into.
        self.add_stray_items(document, form, &hints, &mut items);
        if (table.is_reliable || bookmarks.is_reliable) && items.len() >= 4 {
            self.add_announced_items(document, form, &hints, &mut items);
        }
        // A current report may report a single event. On other forms one Item alone is more likely a reference.
        let required = if form == SecForm::Current { 1 } else { 2 };
        if items.len() < required {
            return;
        }
        items.sort_by_key(|item| (item.rows.0, item.key));
        let first_listed = table
            .hits
            .iter()
            .flatten()
            .filter(|_| table.is_reliable)
            .map(|hit| hit.rows.0)
            .min();
        let first = items.first().map_or(0, |item| item.rows.0);
        let first = first_listed.map_or(first, |listed| listed.min(first));
        self.outline.excluded[document.rows.start..first].fill(true);
        self.add_caution(document, form, &items);
        self.add_missing_parts(form, &items);
        for item in &items {
            let is_part = form.items()[item.key].tag.is_none();
            let rank = if is_part || form == SecForm::Current {
                RANK_STEP
            } else {
                2 * RANK_STEP
            };
            // `insert`, not `push`: the chain has already decided, and combined Items may share rows.
            let title = titles::fold_whitespace(&item.title);
            self.insert(OutlineHead {
                number: Some(item.number.clone()).filter(|number| !number.is_empty()),
                unconfirmed: item.unconfirmed,
                ..OutlineHead::new(item.rows, title, EvidenceSource::Grammar, rank)
            });
        }
        if form == SecForm::Annual {
            self.add_officers(form, &items);
            self.add_regulation_ab_items(document, &items);
        }
        self.add_closing_sections(
            document,
            items.iter().map(|item| item.rows.1).max().unwrap_or(first),
        );
    }

    /// Adds Items that are out of form order.
    // The chain only accepts Items in the order of the form. Filers that print an Item elsewhere still link it, so it is
    // taken where its title is on the page (or next to it) that link or label names.
    fn add_stray_items(
        &self,
        document: &BoundDocument,
        form: SecForm,
        hints: &[Option<ItemHint>],
        items: &mut Vec<LocatedItem>,
    ) {
        for (key, hint) in hints.iter().enumerate() {
            let Some(hint) = hint
                .as_ref()
                .filter(|_| !has_key(items, key) && form.items()[key].tag.is_some())
            else {
                continue;
            };
            let Some(page) = hint.target.or(hint.predicted) else {
                continue;
            };
            let title = TitleKeys::new(&hint.title);
            let near = [page, page + 1].into_iter().chain(page.checked_sub(1));
            let rows = near
                .flat_map(|page| self.lines.rows_on(page as usize))
                .filter(|at| document.rows.contains(at));
            let hit = rows.into_iter().find(|at| {
                let row = &self.lines.rows[*at];
                let own = TitleKeys::new(row.text);
                let fit =
                    !row.running && !row.table && !self.outline.excluded[*at] && row.words <= 40;
                let unassigned = !items
                    .iter()
                    .any(|item| (item.rows.0..=item.rows.1).contains(at));
                fit && unassigned && titles::title_similarity(&own, &title) > RIGHT_TITLE
            });
            if let Some(at) = hit {
                items.push(hint.to_item(key, at, false));
            }
        }
    }

    /// Adds Items that were announced but not found, unconfirmed.
    // An announced Item without a readable heading (an image, a split line) still has its pages. It is placed at the top
    // of the announced page, or right behind the Item before it, only if that keeps the order of the form; where the
    // announcements themselves leave that order, the order of pages is not checked.
    fn add_announced_items(
        &self,
        document: &BoundDocument,
        form: SecForm,
        hints: &[Option<ItemHint>],
        items: &mut Vec<LocatedItem>,
    ) {
        for (key, announced) in hints.iter().enumerate() {
            let Some(page) = hinted_page(announced)
                .filter(|_| !has_key(items, key) && form.items()[key].tag.is_some())
            else {
                continue;
            };
            let before = items
                .iter()
                .filter(|item| item.last_key < key)
                .max_by_key(|item| item.key);
            let after = items
                .iter()
                .filter(|item| item.key > key)
                .min_by_key(|item| item.key);
            let apart = hints[..key]
                .iter()
                .filter_map(hinted_page)
                .any(|earlier| earlier > page);
            let fits = before.is_none_or(|item| item_page(self.lines, item) <= page || apart)
                && after.is_none_or(|item| item_page(self.lines, item) >= page || apart);
            let on = self.lines.rows_on(page as usize);
            let row = on
                .clone()
                .find(|at| !self.lines.rows[*at].running && document.rows.contains(at));
            let behind = before.map_or(0, |item| item.rows.1 + 1);
            let row = row.map(|row| {
                if on.contains(&behind) {
                    row.max(behind)
                } else {
                    row
                }
            });
            if let (Some(row), true, Some(hint)) = (row, fits, announced) {
                items.push(hint.to_item(key, row, true));
            }
        }
    }

    fn add_missing_parts(&mut self, form: SecForm, located: &[LocatedItem]) {
        let items = form.items();
        let mut present = [false; 8];
        for item in located.iter().filter(|item| items[item.key].tag.is_none()) {
            present[usize::from(items[item.key].part)] = true;
        }
        for item in located {
            let part = usize::from(items[item.key].part);
            if part == 0 || std::mem::replace(&mut present[part], true) {
                continue;
            }
            let numeral = format_roman(items[item.key].part.into());
            let rows = (item.rows.0, item.rows.0);
            self.insert(OutlineHead {
                title: format!("PART {numeral}"),
                unconfirmed: true,
                number: Some(numeral),
                ..self.grammar_head(rows, RANK_STEP)
            });
        }
    }

    /// Adds the statement about forward-looking statements before the first Item.
    // The law of 1995 asks for this caution, and filers put it behind the contents, where all else belongs to the cover.
    fn add_caution(&mut self, document: &BoundDocument, form: SecForm, items: &[LocatedItem]) {
        let first = items
            .iter()
            .find(|item| form.items()[item.key].tag.is_some())
            .map_or(document.rows.start, |item| item.rows.0);
        for at in document.rows.start..first {
            let row = &self.lines.rows[at];
            if !CAUTIONS.occurs_in(&row.key) || !is_title(row, row.bold || row.caps || row.centered)
            {
                continue;
            }
            let wraps = self.lines.next_on_page(at).is_some_and(|next| {
                LineTable::same_style(row, next) && row.caps == next.caps && !next.prose
            });
            let last = at + usize::from(wraps);
            // Above a row of contents it is one, too.
            if self
                .lines
                .next_on_page(last)
                .is_none_or(|next| next.words < TEXT_WORDS || next.cells != 1)
            {
                continue;
            }
            self.push(self.grammar_head((at, last), 2 * RANK_STEP));
            return;
        }
    }

    /// Adds the executive officers behind the last Item of Part I.
    // Item 401 of Regulation S-K lets filers state them there under a heading of their own, which is not part of that Item.
    fn add_officers(&mut self, form: SecForm, items: &[LocatedItem]) {
        let part = |item: &&LocatedItem| form.items()[item.key].part;
        let last = items.iter().rfind(|item| part(item) == 1);
        let next = items.iter().find(|item| part(item) > 1);
        let Some((last, next)) = last.zip(next) else {
            return;
        };
        let heading = (last.rows.1 + 1..next.rows.0).find(|at| {
            let row = &self.lines.rows[*at];
            let emphasized = self.lines.body.is_emphasized(row.emphasis);
            let stands_out = row.bold || row.caps || row.centered || emphasized;
            is_title(row, stands_out) && row.key.contains("executiveofficers")
        });
        if let Some(at) = heading {
            self.push(self.grammar_head((at, at), 2 * RANK_STEP));
        }
    }

    /// Adds the Items of Regulation AB, which asset-backed issuers answer in place of those of Form 10-K.
    // General Instruction J puts them behind Items of the form, which end there.
    fn add_regulation_ab_items(&mut self, document: &BoundDocument, items: &[LocatedItem]) {
        let first = items.first().map_or(document.rows.end, |item| item.rows.0);
        for at in first..document.rows.end {
            let row = &self.lines.rows[at];
            let is_title = !row.prose && !row.running && !self.outline.excluded[at];
            let Some(number) = item_grammar::regulation_ab_number(row.text).filter(|_| is_title)
            else {
                continue;
            };
            let title = titles::truncate_bytes(row.text, item_grammar::HEAD_BYTES);
            self.push(OutlineHead {
                title: titles::fold_whitespace(title),
                number: Some(number.to_owned()),
                ..self.grammar_head((at, at), 2 * RANK_STEP)
            });
        }
    }

    /// Adds signatures and the index of exhibits behind the last Item.
    fn add_closing_sections(&mut self, document: &BoundDocument, last: usize) {
        for at in last + 1..document.rows.end {
            let row = &self.lines.rows[at];
            let stands_out =
                row.bold || row.caps || row.centered || self.lines.body.is_large(row.size);
            if titles::is_closing(&row.key)
                && stands_out
                && !row.running
                && !self.outline.excluded[at]
            {
                self.push(OutlineHead {
                    number: None,
                    ..self.grammar_head((at, at), RANK_STEP)
                });
            }
        }
    }
}

fn is_title(row: &LineFeatures<'_>, stands_out: bool) -> bool {
    let is_text = row.prose || row.table || row.running;
    stands_out && !is_text && row.words <= TITLE_WORDS
}

fn has_key(items: &[LocatedItem], key: usize) -> bool {
    items
        .iter()
        .any(|item| (item.key..=item.last_key).contains(&key))
}

fn item_page(lines: &LineTable<'_>, item: &LocatedItem) -> u32 {
    lines.rows[item.rows.0].page
}

fn hinted_page(hint: &Option<ItemHint>) -> Option<u32> {
    hint.as_ref()
        .and_then(|hint| hint.target.or(hint.predicted))
}

/// The announcements of each Item of the form in outline and contents.
// Bookmarks come first because they carry destinations. An unreliable outline gives no hints at all; unreliable contents
// still do, since titles in a form's own contents are right even where most of them could not be located.
fn item_hints(
    form: SecForm,
    table: &LocatedCandidates,
    bookmarks: &LocatedCandidates,
) -> Vec<Option<ItemHint>> {
    let mut hints: Vec<Option<ItemHint>> = vec![None; form.items().len()];
    let sources = [(bookmarks, bookmarks.is_reliable), (table, true)];
    for (table, pointing) in sources {
        for candidate in table.candidates.iter().filter(|_| pointing) {
            let Some((key, last)) = candidate.keys else {
                continue;
            };
            for hint in hints.iter_mut().take(last + 1).skip(key) {
                let hint = hint.get_or_insert_with(ItemHint::default);
                if hint.title.is_empty() {
                    hint.title = candidate.title.clone();
                }
                hint.target = hint.target.or(candidate.target_page());
                hint.predicted = hint.predicted.or(candidate.predicted);
            }
        }
    }
    hints
}

// The body of a long filing spreads its Items over many pages. If more than 80 % of at least eight Items are on two
// neighboring pages of twenty or more, they are rows of a list.
fn is_item_index(lines: &LineTable<'_>, items: &[LocatedItem]) -> bool {
    if items.len() < 8 || lines.pages() < 20 {
        return false;
    }
    items.iter().any(|item| {
        let page = item_page(lines, item);
        let near = items
            .iter()
            .filter(|other| (page..page + 2).contains(&item_page(lines, other)))
            .count();
        near * 10 > items.len() * 8
    })
}

/// Puts an index of exhibits before the last Item under the Item above it.
// At its usual rank an index of exhibits would close the PART, and the Items behind it would lose their parent.
pub(super) fn lower_indexes(heads: &mut [OutlineHead]) {
    let Some(last) = heads.iter().rposition(|head| {
        item_grammar::parse_heading(&head.title).is_some_and(|head| !head.tags.is_empty())
    }) else {
        return;
    };
    for head in heads[..last]
        .iter_mut()
        .filter(|head| titles::is_closing(&titles::normalize_key(&head.title)))
    {
        head.rank = 3 * RANK_STEP;
    }
}

/// If a filing has too many top sections, puts signatures and exhibits under the last PART.
pub(super) fn limit_top_sections(heads: &mut [OutlineHead]) {
    let top = heads.iter().filter(|head| head.rank == RANK_STEP).count();
    let Some(last_part) = heads
        .iter()
        .rposition(|head| {
            head.rank == RANK_STEP
                && item_grammar::parse_heading(&head.title).is_some_and(|h| h.tags.is_empty())
        })
        .filter(|_| top > MAX_TOP_SECTIONS)
    else {
        return;
    };
    // Items of the last PART keep their rank. The first section at the PART's own level ends them; it and everything
    // behind it move down together, so that exhibits keep their own nesting.
    let mut behind = false;
    for head in &mut heads[last_part + 1..] {
        behind |= head.rank == RANK_STEP;
        if head.rank < LAYOUT_RANK && (behind || head.evidence != EvidenceSource::Grammar) {
            head.rank += RANK_STEP;
        }
    }
}

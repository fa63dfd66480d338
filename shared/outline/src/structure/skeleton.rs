//! The skeleton: the sections that a form, a table of contents or the embedded outline vouches for.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use stemma_document::{Body, Gap, Method, PageNo, PageSpan, Source, Target, Witness};

use super::agreements;
use super::blocks::{self, Block};
use super::claims::{self, Claim};
use super::contents;
use super::cross_index::{self, CrossIndex, IndexRow};
use super::forms::Form;
use super::grammar::{self, Found, Hint};
use super::labels::Labels;
use super::lines::Sheet;
use super::locate::{self, Hit};
use super::titles::{self, Prepared};
use super::{StructureSettings, layout};

/// A section with its place and what is known about its level.
#[derive(Debug, Clone)]
pub(super) struct Head {
    /// First and last row of the heading.
    pub(super) rows: (usize, usize),
    pub(super) title: String,
    pub(super) number: Option<String>,
    pub(super) printed: Option<String>,
    pub(super) target: Option<Target>,
    pub(super) witness: Witness,
    /// The title was not found there.
    pub(super) unconfirmed: bool,
    /// Smaller is higher; a section lies in the nearest one before it with a smaller rank.
    pub(super) rank: u32,
    /// Nothing lies in it.
    pub(super) leaf: bool,
}

/// Distance between two levels of rank.
pub(super) const LEVEL: u32 = 100;
/// Rank of the highest heading known only by its look.
pub(super) const LAYOUT: u32 = 10_000;
/// Top sections (a preface comes on top) above which signatures and exhibits go under the last PART.
const TOP_SECTIONS: usize = 11;
/// Rows from the start of a document among which the cover of its form stands.
const COVER_ROWS: usize = 400;
/// Heads near a new one that it is compared with: a page with more has no sections.
const NEAR_HEADS: usize = 200;
/// Links per document that are looked at.
const LINKS: usize = 200_000;

/// What the witnesses other than layout say.
pub(super) struct Skeleton {
    /// In reading order.
    pub(super) heads: Vec<Head>,
    /// Claims nothing spoke for.
    pub(super) rejected: Vec<Claim>,
    pub(super) gaps: Vec<Gap>,
    /// Rows that are no headings: contents rows, and what stands before the first Item of a filing.
    pub(super) excluded: Vec<bool>,
    pub(super) method: Method,
    /// Rows of the index that stands in for the Items of the form.
    pub(super) cross_index: Vec<IndexRow>,
}

/// Builds the skeleton, block by block.
pub(super) fn build(
    source: &Source,
    sheet: &Sheet<'_>,
    labels: &Labels,
    settings: &StructureSettings,
) -> Skeleton {
    let links = links_by_row(source, sheet);
    let mut builder = Builder {
        sheet,
        labels,
        settings,
        links,
        by_page: BTreeMap::new(),
        titles: BTreeSet::new(),
        skeleton: Skeleton {
            heads: Vec::new(),
            rejected: Vec::new(),
            gaps: Vec::new(),
            excluded: vec![false; sheet.rows.len()],
            method: Method::Layout,
            cross_index: Vec::new(),
        },
    };
    let mut blocks = blocks::split(sheet);
    let form = blocks
        .first()
        .and_then(|main| grammar::form_of(sheet, main.rows.clone()));
    // A report stays one, whatever the head of its first page says.
    blocks
        .iter_mut()
        .take(1)
        .filter(|_| form.is_some())
        .for_each(|main| main.heading = None);
    let index = builder.index(source, &blocks, form);
    let form = form.filter(|_| index.is_none());
    let blocks = blocks::split_agreements(sheet, blocks, form);
    let tables: Vec<Table> = blocks
        .iter()
        .map(|block| builder.table(block, form))
        .collect();
    let bookmarks = builder.bookmarks(source, form);
    for (block, table) in blocks.iter().zip(tables) {
        builder.block(block, form, table, &bookmarks);
    }
    builder.add_bookmarks(bookmarks, form);
    builder.add_index(index);
    builder
        .skeleton
        .heads
        .sort_by_key(|head| (head.rows.0, head.rank));
    if form.is_some() {
        lower_indexes(&mut builder.skeleton.heads);
        limit_top(&mut builder.skeleton.heads);
    }
    builder.skeleton
}

/// Claims with where they were found, and whether enough of them were.
struct Table {
    claims: Vec<Claim>,
    hits: Vec<Option<Hit>>,
    believed: bool,
    title: Option<usize>,
}

struct Builder<'s, 'a> {
    sheet: &'s Sheet<'a>,
    labels: &'s Labels,
    settings: &'s StructureSettings,
    links: Vec<Option<Target>>,
    /// Indices of the heads by page, and their squashed titles.
    by_page: BTreeMap<u32, Vec<usize>>,
    titles: BTreeSet<String>,
    skeleton: Skeleton,
}

impl Builder<'_, '_> {
    fn pages_of(&self, rows: &Range<usize>) -> Range<u32> {
        let first = self.sheet.rows.get(rows.start).map_or(0, |row| row.page);
        let last = rows
            .end
            .checked_sub(1)
            .and_then(|at| self.sheet.rows.get(at))
            .map_or(0, |row| row.page);
        first..last + 1
    }

    /// The cross-reference index, where the Items it lists do not stand in the document; its rows are no headings.
    fn index(
        &mut self,
        source: &Source,
        blocks: &[Block],
        form: Option<Form>,
    ) -> Option<CrossIndex> {
        let Body::Pages(pages) = &source.body else {
            return None;
        };
        let index = cross_index::find(self.sheet, pages, self.labels)?;
        let mut excluded = vec![false; self.sheet.rows.len()];
        excluded[index.rows.0..=index.rows.1]
            .iter_mut()
            .for_each(|row| *row = true);
        let items = index
            .entries
            .iter()
            .filter(|entry| !entry.item.contains('.'))
            .count();
        let main = blocks.first()?.rows.clone();
        let there = form.map_or(0, |form| {
            let hints = vec![None; form.items().len()];
            let found = grammar::find(self.sheet, main, form, &hints, &excluded);
            found
                .iter()
                .filter(|found| form.items()[found.key].tag.is_some())
                .count()
        });
        if there * 2 >= items {
            return None;
        }
        // The cover of the form is no section of the report behind it.
        if let Some(cover) = (0..index.rows.0.min(COVER_ROWS)).find(|at: &usize| {
            form.is_some_and(|form| {
                form.cover_words()
                    .contains(&self.sheet.rows[*at].key.as_str())
            })
        }) {
            excluded[self.sheet.on(self.sheet.rows[cover].page as usize)]
                .iter_mut()
                .for_each(|row| *row = true);
        }
        self.skeleton.excluded = excluded;
        Some(index)
    }

    fn add_index(&mut self, index: Option<CrossIndex>) {
        let Some(index) = index else { return };
        if let Some(at) = index.title {
            let head = self.head((at, at), self.sheet.rows[at].text, Witness::Grammar);
            self.push(Head {
                number: None,
                leaf: true,
                ..head
            });
        }
        self.skeleton.cross_index = index.entries;
    }

    /// The table of contents of a block; a second one further on when the first has neither labels nor links.
    fn table(&mut self, block: &Block, form: Option<Form>) -> Table {
        let pages = self.pages_of(&block.rows);
        let form = form.filter(|_| block.is_main());
        let look_at = self.settings.toc_check_pages as usize;
        let range = pages.start as usize..pages.end as usize;
        let mut found = contents::find(
            self.sheet,
            range.clone(),
            look_at,
            &self.links,
            &self.skeleton.excluded,
        );
        let bare = |c: &contents::Contents| {
            c.entries
                .iter()
                .all(|e| e.label.is_none() && e.target.is_none())
        };
        if let Some(first) = found.as_ref().filter(|first| bare(first)) {
            let from = self.sheet.rows[first.rows.1].page as usize + 1;
            let second = contents::find(
                self.sheet,
                from..range.end,
                look_at,
                &self.links,
                &self.skeleton.excluded,
            );
            found = second.filter(|second| !bare(second)).or(found);
        }
        let Some(contents) = found else {
            return Table {
                claims: Vec::new(),
                hits: Vec::new(),
                believed: false,
                title: None,
            };
        };
        let listed = if block.is_main() {
            pages.start..self.sheet.pages() as u32
        } else {
            pages
        };
        let claims = claims::of_contents(&contents, form, self.labels, listed);
        let rows = contents.rows.0..=contents.rows.1;
        let before = self.skeleton.excluded[rows.clone()].to_vec();
        self.skeleton.excluded[rows.clone()].fill(true);
        let mut hits = locate::locate(
            self.sheet,
            block.rows.clone(),
            &self.skeleton.excluded,
            &claims,
        );
        self.locate_behind(block, &claims, &mut hits);
        let accuracy = locate::accuracy(&claims, &hits);
        let believed = accuracy >= self.settings.min_accuracy;
        // A list taken for contents whose titles are nowhere else keeps its own lines as possible headings.
        if !believed && bare(&contents) {
            self.skeleton.excluded[rows].copy_from_slice(&before);
        }
        if !believed {
            let pages = self.span(contents.rows);
            let share = (accuracy * 100.0).round();
            let detail = format!(
                "{share} % of the titles in the table of contents were found, too few to follow it"
            );
            self.skeleton.gaps.push(Gap {
                code: "structure.contents_rejected".into(),
                pages,
                detail,
            });
        }
        Table {
            claims,
            hits,
            believed,
            title: contents.title,
        }
    }

    /// The contents of a filing may list the sections of its exhibits: what follows the last row that was found inside the
    /// filing is looked for behind it, and believed when most of it is there.
    fn locate_behind(&self, block: &Block, claims: &[Claim], hits: &mut [Option<Hit>]) {
        let first = hits
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |at| at + 1);
        let behind = block.rows.end..self.sheet.rows.len();
        if !block.is_main() || claims.len() - first < 3 || behind.is_empty() {
            return;
        }
        let found = locate::locate(
            self.sheet,
            behind,
            &self.skeleton.excluded,
            &claims[first..],
        );
        if locate::accuracy(&claims[first..], &found) >= self.settings.min_accuracy {
            hits[first..].clone_from_slice(&found);
        }
    }

    fn span(&self, rows: (usize, usize)) -> Option<PageSpan> {
        let page = |at: usize| Some(PageNo::from_index(self.sheet.rows.get(at)?.page as usize));
        Some(PageSpan::between(page(rows.0)?, page(rows.1)?))
    }

    /// The embedded outline, looked for in the whole document.
    fn bookmarks(&mut self, source: &Source, form: Option<Form>) -> Table {
        let claims = claims::of_outline(&source.outline, form);
        let hits = locate::locate(
            self.sheet,
            0..self.sheet.rows.len(),
            &self.skeleton.excluded,
            &claims,
        );
        let found = hits.iter().flatten().count();
        let share = found as f32 / source.outline.len().clamp(1, 5_000) as f32;
        let believed = share >= self.settings.min_accuracy
            && found >= 2.min(source.outline.len())
            && found > 0;
        if !believed && !source.outline.is_empty() {
            let percent = (share * 100.0).round();
            let detail = format!(
                "{percent} % of the titles in the embedded outline were found, too few to follow it"
            );
            self.skeleton.gaps.push(Gap {
                code: "structure.outline_rejected".into(),
                pages: None,
                detail,
            });
        }
        Table {
            claims,
            hits,
            believed,
            title: None,
        }
    }

    /// The sections of one block: Items by the grammar, then the rows of its contents.
    fn block(&mut self, block: &Block, form: Option<Form>, mut table: Table, bookmarks: &Table) {
        let form = form.filter(|_| block.is_main());
        let mut below = if block.nested { LEVEL } else { 0 };
        for rows in block
            .heading
            .map(|at| (at, at))
            .into_iter()
            .chain(block.title)
        {
            let text: Vec<&str> = self.sheet.rows[rows.0..=rows.1]
                .iter()
                .map(|row| row.text)
                .collect();
            self.push(Head {
                rank: below + LEVEL,
                ..self.head(rows, &text.join(" "), Witness::Grammar)
            });
            below += LEVEL;
        }
        if let Some(form) = form {
            self.items(block, form, &table, bookmarks);
        }
        if table.believed {
            self.method(&table.claims);
            let first = table
                .hits
                .iter()
                .flatten()
                .map(|hit| hit.rows.0)
                .min()
                .unwrap_or(block.rows.start);
            self.skeleton.excluded[block.rows.start..first]
                .iter_mut()
                .for_each(|row| *row = true);
            locate::place_unfound(
                self.sheet,
                block.rows.clone(),
                &table.claims,
                &mut table.hits,
                |claim: &Claim| claim.target.is_some() && claim.keys.is_none(),
            );
            self.add_table(table, below);
        }
        if !block.is_main() {
            self.clauses(block, below);
        }
    }

    /// The ARTICLEs and Sections of an agreement that its contents left out, and its annexes with sections of their own.
    fn clauses(&mut self, block: &Block, below: u32) {
        let clauses = agreements::clauses(self.sheet, block.rows.clone(), &self.skeleton.excluded);
        let mut base = below;
        let mut articles = clauses.iter().any(|clause| clause.depth == 1);
        for (at, clause) in clauses.iter().enumerate() {
            let rank = match clause.depth {
                0 => {
                    let own = clauses[at + 1..]
                        .iter()
                        .take_while(|clause| clause.depth > 0);
                    articles = own.into_iter().any(|clause| clause.depth == 1);
                    base = below + LEVEL;
                    base
                }
                depth => base + if articles { depth } else { 1 } * LEVEL,
            };
            self.push(Head {
                rank,
                ..self.head(clause.rows, &clause.title, Witness::Grammar)
            });
        }
    }

    fn method(&mut self, claims: &[Claim]) {
        let linked =
            claims.iter().filter(|claim| claim.target.is_some()).count() * 2 >= claims.len();
        let method = if linked {
            Method::ContentsLinks
        } else {
            Method::PrintedContents
        };
        self.skeleton.method = self.skeleton.method.min(method);
    }

    fn add_table(&mut self, table: Table, below: u32) {
        if let Some(at) = table.title.filter(|at| !self.sheet.rows[*at].running) {
            let head = self.head((at, at), self.sheet.rows[at].text, Witness::Layout);
            self.push(Head {
                rank: LEVEL + below,
                leaf: true,
                ..head
            });
        }
        for (claim, hit) in table.claims.into_iter().zip(table.hits) {
            match hit {
                Some(hit) => {
                    let rank = u32::from(claim.level) * LEVEL + below;
                    self.push_claim(&claim, &hit, rank);
                }
                None if claim.printed.is_some() || claim.target.is_some() => self.miss(claim),
                None => {}
            }
        }
    }

    /// Records a claim that was not found, unless the grammar has its Item.
    fn miss(&mut self, claim: Claim) {
        if self.titles.contains(&claim.prepared.full) {
            return;
        }
        let page = claim.page().map(|page| PageNo::from_index(page as usize));
        let detail = format!(
            "`{}` is announced and was not found",
            titles::cut(&claim.title, 120)
        );
        let pages = page.map(|page| PageSpan::between(page, page));
        self.skeleton.gaps.push(Gap {
            code: "outline.entry_not_found".into(),
            pages,
            detail,
        });
        self.skeleton.rejected.push(claim);
    }

    fn add_bookmarks(&mut self, mut table: Table, form: Option<Form>) {
        if !table.believed {
            return;
        }
        self.skeleton.method = Method::Outline;
        let pages = table.claims.iter().filter_map(Claim::target_page);
        let distinct = pages.collect::<BTreeSet<_>>().len();
        if distinct > 1 || self.sheet.pages() == 1 {
            locate::place_unfound(
                self.sheet,
                0..self.sheet.rows.len(),
                &table.claims,
                &mut table.hits,
                |claim| claim.target.is_some(),
            );
        }
        let item_level = table
            .claims
            .iter()
            .filter(|claim| claim.keys.is_some())
            .map(|claim| claim.level)
            .max();
        let item_level = item_level.filter(|_| form.is_some());
        for (claim, hit) in table.claims.into_iter().zip(table.hits) {
            let Some(hit) = hit else {
                self.miss(claim);
                continue;
            };
            let rank = match item_level {
                Some(_) if claims::is_closing(&claim.prepared.full) => LEVEL,
                Some(items) if claim.level >= items && items < 2 => {
                    u32::from(claim.level - items + 2) * LEVEL
                }
                _ => u32::from(claim.level) * LEVEL,
            };
            self.push_claim(&claim, &hit, rank);
        }
    }

    fn push_claim(&mut self, claim: &Claim, hit: &Hit, rank: u32) {
        // Contents set their columns close: where the page has the same letters, its spaces are right.
        let printed = self.sheet.rows[hit.rows.0].text;
        let spaced = !hit.unconfirmed
            && hit.rows.0 == hit.rows.1
            && titles::squash(printed) == titles::squash(&claim.title);
        let title = if spaced && titles::word_count(printed) > titles::word_count(&claim.title) {
            titles::tidy(printed)
        } else {
            claim.title.clone()
        };
        let head = Head {
            rows: hit.rows,
            title,
            number: claim.number.clone(),
            printed: claim.printed.clone(),
            target: claim.target,
            witness: claim.witness,
            unconfirmed: hit.unconfirmed,
            rank,
            leaf: contents::is_title(&claim.prepared.full),
        };
        self.push(head);
    }

    /// Adds a head unless one stands there already, or one of the same title and number near it.
    fn push(&mut self, head: Head) {
        let page = self.sheet.rows[head.rows.0].page;
        let prepared = Prepared::new(&head.title);
        let near = self
            .by_page
            .range(page.saturating_sub(1)..=page + 1)
            .flat_map(|(_, heads)| heads);
        let twin = near
            .copied()
            .take(NEAR_HEADS)
            .find(|at| self.is_twin(&self.skeleton.heads[*at], &head, &prepared));
        match twin.map(|at| &mut self.skeleton.heads[at]) {
            None => self.insert(head),
            Some(other) if other.unconfirmed && !head.unconfirmed => {
                (other.rows, other.unconfirmed) = (head.rows, false);
            }
            Some(other) => {
                other.printed = other.printed.take().or(head.printed);
                other.target = other.target.or(head.target);
                other.leaf |= head.leaf;
            }
        }
    }

    fn is_twin(&self, other: &Head, head: &Head, prepared: &Prepared) -> bool {
        let read = !(head.unconfirmed || other.unconfirmed);
        let overlap = read && other.rows.0 <= head.rows.1 && head.rows.0 <= other.rows.1;
        let numbers = matches!((&other.number, &head.number), (Some(a), Some(b)) if a != b);
        let numbers = numbers || counts_apart(&other.title, &head.title);
        overlap || (!numbers && titles::likeness(&Prepared::new(&other.title), prepared) > 0.85)
    }

    fn insert(&mut self, head: Head) {
        let page = self.sheet.rows[head.rows.0].page;
        self.by_page
            .entry(page)
            .or_default()
            .push(self.skeleton.heads.len());
        self.titles.insert(titles::squash(&head.title));
        self.skeleton.heads.push(head);
    }

    fn head(&self, rows: (usize, usize), title: &str, witness: Witness) -> Head {
        let title = titles::tidy(title);
        let number = super::numbering::readings(&title)
            .first()
            .map(|number| number.text.to_string());
        Head {
            rows,
            title,
            number,
            printed: None,
            target: None,
            witness,
            unconfirmed: false,
            rank: LEVEL,
            leaf: false,
        }
    }

    /// PARTs and Items of a filing; a missing PART is supplied at its first Item.
    fn items(&mut self, block: &Block, form: Form, table: &Table, bookmarks: &Table) {
        let hints = hints(form, table, bookmarks);
        let mut found = grammar::find(
            self.sheet,
            block.rows.clone(),
            form,
            &hints,
            &self.skeleton.excluded,
        );
        if is_index(self.sheet, &found) {
            found.clear();
        }
        self.stray_items(block, form, &hints, &mut found);
        if (table.believed || bookmarks.believed) && found.len() >= 4 {
            self.announced_items(block, form, &hints, &mut found);
        }
        let needed = if form == Form::Current { 1 } else { 2 };
        if found.len() < needed {
            return;
        }
        found.sort_by_key(|item| (item.rows.0, item.key));
        let claimed = table
            .hits
            .iter()
            .flatten()
            .filter(|_| table.believed)
            .map(|hit| hit.rows.0)
            .min();
        let first = found.first().map_or(0, |item| item.rows.0);
        let first = claimed.map_or(first, |claimed| claimed.min(first));
        self.skeleton.excluded[block.rows.start..first]
            .iter_mut()
            .for_each(|row| *row = true);
        self.supply_parts(form, &found);
        for item in &found {
            let is_part = form.items()[item.key].tag.is_none();
            let rank = if is_part || form == Form::Current {
                LEVEL
            } else {
                2 * LEVEL
            };
            let number = Some(item.number.clone()).filter(|number| !number.is_empty());
            let unconfirmed = item.unconfirmed;
            let head = Head {
                rank,
                number,
                unconfirmed,
                ..self.head(item.rows, &item.title, Witness::Grammar)
            };
            self.insert(head);
        }
        self.closing(
            block,
            found.iter().map(|item| item.rows.1).max().unwrap_or(first),
        );
    }

    /// Items out of form order: taken on the page their link or label names.
    fn stray_items(
        &self,
        block: &Block,
        form: Form,
        hints: &[Option<Hint>],
        found: &mut Vec<Found>,
    ) {
        for (key, hint) in hints.iter().enumerate() {
            let there = found
                .iter()
                .any(|item| (item.key..=item.last_key).contains(&key));
            let Some(hint) = hint
                .as_ref()
                .filter(|_| !there && form.items()[key].tag.is_some())
            else {
                continue;
            };
            let Some(page) = hint.target.or(hint.predicted) else {
                continue;
            };
            let title = Prepared::new(&hint.title);
            let near = [page, page + 1].into_iter().chain(page.checked_sub(1));
            let rows = near
                .flat_map(|page| self.sheet.on(page as usize))
                .filter(|at| block.rows.contains(at));
            let hit = rows.into_iter().find(|at| {
                let row = &self.sheet.rows[*at];
                let own = Prepared {
                    full: row.key.clone(),
                    core: Prepared::new(row.text).core,
                };
                let fit =
                    !row.running && !row.table && !self.skeleton.excluded[*at] && row.words <= 40;
                let free = !found
                    .iter()
                    .any(|item| (item.rows.0..=item.rows.1).contains(at));
                fit && free && titles::likeness(&own, &title) > 0.8
            });
            if let Some(at) = hit {
                let number = super::numbering::readings(&hint.title)
                    .first()
                    .map_or("", |number| number.text)
                    .to_string();
                found.push(Found {
                    key,
                    last_key: key,
                    rows: (at, at),
                    title: hint.title.clone(),
                    number,
                    unconfirmed: false,
                });
            }
        }
    }

    /// Items that were announced and not found: put on the page they were announced for where that keeps the order of
    /// the form, or of the pages when the announcements themselves leave the form's order.
    fn announced_items(
        &self,
        block: &Block,
        form: Form,
        hints: &[Option<Hint>],
        found: &mut Vec<Found>,
    ) {
        let page_of = |hint: &Option<Hint>| {
            hint.as_ref()
                .and_then(|hint| hint.target.or(hint.predicted))
        };
        for (key, announced) in hints.iter().enumerate() {
            let there = found
                .iter()
                .any(|item| (item.key..=item.last_key).contains(&key));
            let Some(page) =
                page_of(announced).filter(|_| !there && form.items()[key].tag.is_some())
            else {
                continue;
            };
            let row_page = |item: &Found| self.sheet.rows[item.rows.0].page;
            let before = found
                .iter()
                .filter(|item| item.last_key < key)
                .max_by_key(|item| item.key);
            let after = found
                .iter()
                .filter(|item| item.key > key)
                .min_by_key(|item| item.key);
            let apart = hints[..key]
                .iter()
                .filter_map(page_of)
                .any(|earlier| earlier > page);
            let fits = before.is_none_or(|item| row_page(item) <= page || apart)
                && after.is_none_or(|item| row_page(item) >= page || apart);
            let on = self.sheet.on(page as usize);
            let row = on
                .clone()
                .find(|at| !self.sheet.rows[*at].running && block.rows.contains(at));
            let behind = before.map_or(0, |item| item.rows.1 + 1);
            let row = row.map(|row| {
                if on.contains(&behind) {
                    row.max(behind)
                } else {
                    row
                }
            });
            if let (Some(row), true, Some(hint)) = (row, fits, announced) {
                let number = super::numbering::readings(&hint.title)
                    .first()
                    .map_or("", |number| number.text)
                    .to_string();
                let title = hint.title.clone();
                found.push(Found {
                    key,
                    last_key: key,
                    rows: (row, row),
                    title,
                    number,
                    unconfirmed: true,
                });
            }
        }
    }

    fn supply_parts(&mut self, form: Form, found: &[Found]) {
        let items = form.items();
        let mut seen = [false; 8];
        for item in found.iter().filter(|item| items[item.key].tag.is_none()) {
            seen[usize::from(items[item.key].part)] = true;
        }
        for item in found {
            let part = usize::from(items[item.key].part);
            if part == 0 || std::mem::replace(&mut seen[part], true) {
                continue;
            }
            let numeral = ["", "I", "II", "III", "IV"][part.min(4)];
            let head = self.head(
                (item.rows.0, item.rows.0),
                &format!("PART {numeral}"),
                Witness::Grammar,
            );
            let number = Some(numeral.to_string());
            self.insert(Head {
                rank: LEVEL,
                unconfirmed: true,
                number,
                ..head
            });
        }
    }

    /// Signatures and the index of exhibits, behind the last Item.
    fn closing(&mut self, block: &Block, last: usize) {
        for at in last + 1..block.rows.end {
            let row = &self.sheet.rows[at];
            let shown = row.bold || row.caps || row.centered || row.size > self.sheet.body + 0.8;
            if claims::is_closing(&row.key) && shown && !row.running && !self.skeleton.excluded[at]
            {
                let head = self.head((at, at), row.text, Witness::Grammar);
                self.push(Head {
                    rank: LEVEL,
                    number: None,
                    ..head
                });
            }
        }
    }
}

/// What contents and outline say about each Item; only witnesses that are believed point.
fn hints(form: Form, table: &Table, bookmarks: &Table) -> Vec<Option<Hint>> {
    let mut hints: Vec<Option<Hint>> = vec![None; form.items().len()];
    let sources = [(bookmarks, bookmarks.believed), (table, true)];
    for (table, pointing) in sources {
        for claim in table.claims.iter().filter(|_| pointing) {
            let Some((key, last)) = claim.keys else {
                continue;
            };
            for hint in hints.iter_mut().take(last + 1).skip(key) {
                let hint = hint.get_or_insert_with(Hint::default);
                if hint.title.is_empty() {
                    hint.title = claim.title.clone();
                }
                hint.target = hint.target.or(claim.target_page());
                hint.predicted = hint.predicted.or(claim.predicted);
            }
        }
    }
    hints
}

/// Many Items of different PARTs on one or two pages of a long document are an index of them, not the body.
fn is_index(sheet: &Sheet<'_>, found: &[Found]) -> bool {
    if found.len() < 8 || sheet.pages() < 20 {
        return false;
    }
    let page = |item: &Found| sheet.rows[item.rows.0].page;
    found.iter().any(|item| {
        let near = found
            .iter()
            .filter(|other| (page(item)..page(item) + 2).contains(&page(other)));
        let rows: usize = near.clone().count();
        rows * 10 > found.len() * 8
    })
}

/// An index of exhibits that stands before the last Item belongs to the Item above it.
fn lower_indexes(heads: &mut [Head]) {
    let Some(last) = heads.iter().rposition(|head: &Head| {
        grammar::head(&head.title).is_some_and(|head| !head.tags.is_empty())
    }) else {
        return;
    };
    for head in heads[..last]
        .iter_mut()
        .filter(|head| claims::is_closing(&titles::squash(&head.title)))
    {
        head.rank = 3 * LEVEL;
    }
}

/// Whether two titles differ first in a number: `Amendment II` is not `Amendment III`.
fn counts_apart(one: &str, other: &str) -> bool {
    let number = |word: &str| {
        word.parse::<u32>()
            .ok()
            .or_else(|| super::numbering::roman(word))
    };
    let differ = one
        .split_whitespace()
        .zip(other.split_whitespace())
        .find(|(a, b)| !a.eq_ignore_ascii_case(b));
    one.split_whitespace().count() == other.split_whitespace().count()
        && differ.is_some_and(|(a, b)| number(a).zip(number(b)).is_some_and(|(a, b)| a != b))
}

/// Too many top sections in a filing: signatures and exhibits go under the last PART.
fn limit_top(heads: &mut [Head]) {
    let top = heads.iter().filter(|head| head.rank == LEVEL).count();
    let Some(last_part) = heads
        .iter()
        .rposition(|head: &Head| {
            head.rank == LEVEL && grammar::head(&head.title).is_some_and(|h| h.tags.is_empty())
        })
        .filter(|_| top > TOP_SECTIONS)
    else {
        return;
    };
    // The Items of the last PART stay; the first section at its own level ends them, and what follows moves with it.
    let mut behind = false;
    for head in &mut heads[last_part + 1..] {
        behind |= head.rank == LEVEL;
        if head.rank < LAYOUT && (behind || head.witness != Witness::Grammar) {
            head.rank += LEVEL;
        }
    }
}

/// The link that lies on each row, if any.
pub(super) fn links_by_row(source: &Source, sheet: &Sheet<'_>) -> Vec<Option<Target>> {
    let mut links = vec![None; sheet.rows.len()];
    for link in source.links.iter().take(LINKS) {
        let y0 = link.rect.y0.points();
        let y1 = link.rect.y1.points();
        for at in sheet.on(link.page.index()) {
            let row = &sheet.rows[at];
            let middle = (row.y0 + row.y1) / 2.0;
            let beside =
                link.rect.x1.points() > row.x0 - 2.0 && link.rect.x0.points() < row.x1 + 2.0;
            if middle > y0 - 1.0 && middle < y1 + 1.0 && beside && links[at].is_none() {
                links[at] = Some(link.target);
            }
        }
    }
    links
}

/// Headings by look that stand outside the skeleton.
pub(super) fn free_headings(sheet: &Sheet<'_>, skeleton: &Skeleton) -> Vec<layout::Heading> {
    let mut taken = skeleton.excluded.clone();
    for head in skeleton.heads.iter().filter(|head| !head.unconfirmed) {
        taken[head.rows.0..=head.rows.1]
            .iter_mut()
            .for_each(|row| *row = true);
    }
    let known: Vec<(usize, &str)> = skeleton
        .heads
        .iter()
        .map(|head| (head.rows.0, head.title.as_str()))
        .collect();
    let parts: BTreeSet<String> = skeleton
        .heads
        .iter()
        .filter_map(|head| part_key(&head.title))
        .collect();
    let mut free = layout::headings(sheet, &taken, &known);
    // `PART IV` at the head of pages of that PART, on too few of them to be known as running.
    let repeats = |heading: &layout::Heading| {
        let top = sheet.on(sheet.rows[heading.rows.0].page as usize).start + 1 >= heading.rows.0;
        top && part_key(&heading.title).is_some_and(|key| parts.contains(&key))
    };
    free.retain(|heading| !repeats(heading));
    free
}

/// `part4` of a title that is a PART's, whatever it is called.
fn part_key(title: &str) -> Option<String> {
    let head = grammar::head(title).filter(|head| head.tags.is_empty())?;
    head.part.map(|part| format!("part{part}"))
}

//! Sections that someone names, held against the paper: where their titles stand, which pages their labels mean, and where
//! text without a section is too long. Whoever names them, the rules here decide what is there.

use std::collections::BTreeMap;
use std::ops::Range;

use stemma_document::{
    DraftEntry, Extent, Gap, LocatedEntry, Method, OutlineError, Page, PageLabel, PageNo, PageSpan,
    Place, Position, Pt, Source, Verdict, VerifiedOutline, Witness,
};

use super::claims::Claim;
use super::labels::{Label, Labels};
use super::lines::{Row, Sheet};
use super::locate::{self, Hit};
use super::skeleton::{self, Head, LEVEL};
use super::split::{self, Tokens};
use super::titles::{self, Prepared};
use super::{Draft, StructureSettings, contents, levels, numbering, paged, windows};

/// Votes for one distance between printed and physical page numbers that make it the offset of a series.
const VOTES: usize = 2;
/// Lines of a contents page that are its own entries, from which on they are left out of the search.
const LISTED_LINES: usize = 3;
/// Letters of a title that a line may begin with and go on.
const CELL: usize = 8;
/// Likeness from which on a line is the entry of a table of contents.
const LISTED: f32 = 0.85;

/// The pages of a document as rules see them.
pub struct Paper<'a> {
    pages: &'a [Page],
    sheet: Sheet<'a>,
    labels: Labels,
    tokens: Tokens,
    settings: &'a StructureSettings,
    /// Tokens of pages that one question shows at most.
    window_tokens: u32,
    source: &'a Source,
}

/// A section that someone names.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// As it should be shown, number included.
    pub title: String,
    /// The page number printed beside it.
    pub label: Option<String>,
    /// 1 is the highest.
    pub level: u16,
    /// The page it is said to begin on.
    pub page: Option<PageNo>,
    /// Who names it.
    pub witness: Witness,
}

/// Where a heading stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// First and last row.
    rows: (usize, usize),
}

/// A section with its place and what is known about it.
#[derive(Debug, Clone)]
pub struct Settled {
    pub entry: DraftEntry,
    pub spot: Spot,
    pub verdict: Verdict,
}

/// Text without a section of its own that is too long.
#[derive(Debug, Clone)]
pub struct Long {
    rows: Range<usize>,
    /// The pages it lies on.
    pub pages: PageSpan,
}

impl<'a> Paper<'a> {
    /// `most_tokens`: what one question may show of pages, where that is less than a window.
    pub fn of(
        source: &'a Source,
        pages: &'a [Page],
        settings: &'a StructureSettings,
        most_tokens: u32,
    ) -> Self {
        let sheet = Sheet::new(pages);
        let labels = Labels::read(&sheet, pages);
        let window_tokens = settings.window_tokens.min(most_tokens);
        Self {
            pages,
            sheet,
            labels,
            tokens: Tokens::of(pages),
            settings,
            window_tokens,
            source,
        }
    }

    /// Number of pages.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// All pages; `None` where there are none.
    pub fn whole(&self) -> Option<PageSpan> {
        let last = self.len().checked_sub(1)?;
        Some(PageSpan::between(PageNo::FIRST, PageNo::from_index(last)))
    }

    /// The first pages that have text, each with whether it surely is (or is not) a table of contents.
    pub fn front(&self) -> Vec<(PageNo, Option<bool>)> {
        let links = skeleton::links_by_row(self.source, &self.sheet);
        let front = self.len().min(self.settings.toc_check_pages as usize);
        let verdicts = contents::verdicts(&self.sheet, 0..front, &links);
        (0..front)
            .filter(|page: &usize| {
                self.pages[*page]
                    .lines
                    .iter()
                    .any(|line| !line.text.trim().is_empty())
            })
            .map(|page| (PageNo::from_index(page), verdicts[page]))
            .collect()
    }

    /// Whether a title is printed on the pages, in whatever lines.
    pub fn lists(&self, title: &str, pages: PageSpan) -> bool {
        let title = Prepared::new(title);
        let keys: Vec<&str> = pages
            .pages()
            .flat_map(|page| self.sheet.on(page.index()))
            .map(|at| self.key(at))
            .collect();
        let all = keys.concat();
        let inside = |key: &str| !key.is_empty() && all.contains(key);
        inside(&title.full)
            || inside(&title.core)
            || keys
                .iter()
                .any(|key: &&str| titles::similarity(key, &title.full) > LISTED)
    }

    fn key(&self, at: usize) -> &str {
        &self.sheet.rows[at].key
    }

    /// Where each of `named`, in reading order, stands, and the page its witness puts it on. What stands on the pages of
    /// `contents` is looked at only behind its entries. `labeled`: whether printed labels count.
    pub fn locate(
        &self,
        named: &[Named],
        contents: Option<PageSpan>,
        labeled: bool,
    ) -> Vec<(Option<Spot>, Option<PageNo>)> {
        let mut claims: Vec<Claim> = named.iter().map(claim).collect();
        let excluded = self.excluded(&claims, contents);
        if labeled {
            self.predict(&mut claims, &excluded);
        }
        let hits = locate::locate(&self.sheet, 0..self.sheet.rows.len(), &excluded, &claims);
        let page = |claim: &Claim| claim.page().map(|page| PageNo::from_index(page as usize));
        hits.iter()
            .zip(&claims)
            .map(|(hit, claim)| (hit.as_ref().map(spot), page(claim)))
            .collect()
    }

    /// Puts each claim on the page its label stands for: the one that prints it, else the one that most found titles of
    /// the same series of labels vote for.
    fn predict(&self, claims: &mut [Claim], excluded: &[bool]) {
        let all = 0..u32::try_from(self.len()).unwrap_or(u32::MAX);
        let labels: Vec<Option<Label>> = claims
            .iter()
            .map(|claim| claim.printed.as_deref().and_then(Label::parse))
            .collect();
        let printed: Vec<_> = labels
            .iter()
            .map(|label| {
                label
                    .as_ref()
                    .and_then(|label| self.labels.page_of(label, all.clone()))
            })
            .collect();
        let mut offsets = BTreeMap::new();
        if labels
            .iter()
            .zip(&printed)
            .any(|(label, page)| label.is_some() && page.is_none())
        {
            let hits = locate::locate(&self.sheet, 0..self.sheet.rows.len(), excluded, claims);
            offsets = self.offsets(&labels, &hits);
        }
        for ((claim, label), printed) in claims.iter_mut().zip(&labels).zip(printed) {
            let voted = label.as_ref().and_then(|label| {
                let offset = offsets.get(label.series.as_str())?;
                u32::try_from(i64::from(label.number) + offset)
                    .ok()
                    .filter(|page| all.contains(page))
            });
            claim.predicted = claim.predicted.or(printed).or(voted);
        }
    }

    /// For each series of labels, how far the (0-based) page lies behind the label, by a vote of the titles found.
    fn offsets<'l>(
        &self,
        labels: &'l [Option<Label>],
        hits: &[Option<Hit>],
    ) -> BTreeMap<&'l str, i64> {
        let mut votes: BTreeMap<&str, BTreeMap<i64, usize>> = BTreeMap::new();
        for (label, hit) in labels.iter().zip(hits) {
            let (Some(label), Some(hit)) = (label, hit) else {
                continue;
            };
            let offset = i64::from(self.sheet.rows[hit.rows.0].page) - i64::from(label.number);
            *votes
                .entry(label.series.as_str())
                .or_default()
                .entry(offset)
                .or_default() += 1;
        }
        let most = |votes: BTreeMap<i64, usize>| {
            votes
                .into_iter()
                .max_by_key(|(offset, count)| (*count, -offset))
        };
        let enough = votes.into_iter().filter_map(|(series, votes)| {
            most(votes)
                .filter(|(_, count)| *count >= VOTES)
                .map(|(offset, _)| (series, offset))
        });
        enough.collect()
    }

    /// Marks the rows of a table of contents: from the first to the last line there that reads like one of the claims.
    fn excluded(&self, claims: &[Claim], contents: Option<PageSpan>) -> Vec<bool> {
        let mut excluded = vec![false; self.sheet.rows.len()];
        let Some(contents) = contents else {
            return excluded;
        };
        for page in contents.pages() {
            let on = self.sheet.on(page.index());
            let rows: Vec<usize> = on
                .filter(|at: &usize| {
                    let key = self.key(*at);
                    key.len() >= 3 && claims.iter().any(|claim| is_entry(key, &claim.prepared))
                })
                .collect();
            if let (true, Some(first), Some(last)) =
                (rows.len() >= LISTED_LINES, rows.first(), rows.last())
            {
                excluded[*first..=*last].fill(true);
            }
        }
        excluded
    }

    /// Where some of `named`, in reading order, stand on one page.
    pub fn on_page(&self, named: &[&Named], page: PageNo) -> Vec<Option<Spot>> {
        let claims: Vec<Claim> = named.iter().map(|named| claim(named)).collect();
        let excluded = vec![false; self.sheet.rows.len()];
        let hits = locate::locate(&self.sheet, self.sheet.on(page.index()), &excluded, &claims);
        hits.iter()
            .zip(&claims)
            .map(|(hit, claim): (&Option<Hit>, &Claim)| {
                hit.as_ref().map(spot).or_else(|| self.cell(claim, page))
            })
            .collect()
    }

    /// The line of a page that begins with a title and goes on with something else: figures of a table, or its paragraph.
    fn cell(&self, claim: &Claim, page: PageNo) -> Option<Spot> {
        let Prepared { full, core } = &claim.prepared;
        let begins = |key: &str, title: &str| title.len() >= CELL && key.starts_with(title);
        self.sheet
            .on(page.index())
            .find(|at: &usize| {
                let first = titles::squash(self.sheet.rows[*at].first_cell);
                !first.is_empty() && (first == *full || first == *core)
                    || begins(self.key(*at), full)
            })
            .map(|at| Spot { rows: (at, at) })
    }

    /// The first line of a page that is no running head; `None`: it has none.
    pub fn top(&self, page: PageNo) -> Option<Spot> {
        self.sheet
            .on(page.index())
            .find(|at: &usize| !self.sheet.rows[*at].running && !self.key(*at).is_empty())
            .map(|at| Spot { rows: (at, at) })
    }

    /// The heading that stands at a place rules found.
    pub fn at(&self, place: Place) -> Option<Spot> {
        let Place::Page(position) = place else {
            return None;
        };
        self.sheet
            .on(position.page.index())
            .find(|at: &usize| self.sheet.rows[*at].line == position.line)
            .map(|at| Spot { rows: (at, at) })
    }

    pub fn page(&self, spot: Spot) -> PageNo {
        PageNo::from_index(self.row(spot).page as usize)
    }

    pub fn place(&self, spot: Spot) -> Place {
        let row = self.row(spot);
        Place::Page(Position {
            page: self.page(spot),
            line: row.line,
            y: Pt::new(row.y0),
        })
    }

    /// Whether nothing but running heads stands above it on its page.
    pub fn starts_page(&self, spot: Spot) -> bool {
        self.sheet.starts_page(spot.rows.0)
    }

    fn row(&self, spot: Spot) -> &Row<'a> {
        &self.sheet.rows[spot.rows.0]
    }

    /// A title as the page prints it, where it prints nothing else with it; else as it was named.
    pub fn printed(&self, spot: Spot, title: &str) -> String {
        let rows = &self.sheet.rows[spot.rows.0..=spot.rows.1];
        let text = titles::tidy(
            &rows
                .iter()
                .map(|row| row.text)
                .collect::<Vec<_>>()
                .join(" "),
        );
        let own = Prepared::new(&text);
        let named = Prepared::new(title);
        let same = own.full == named.full || own.core == named.core && own.core != own.full;
        if same { text } else { title.to_string() }
    }

    /// Stretches of whole pages of at most a window's tokens, cut by their content.
    pub fn windows(&self, pages: PageSpan) -> Vec<PageSpan> {
        let cut = windows::cut(
            self.pages,
            pages.start().index()..pages.end().index() + 1,
            self.window_tokens,
        );
        cut.into_iter()
            .map(|cut: Range<usize>| {
                PageSpan::between(
                    PageNo::from_index(cut.start),
                    PageNo::from_index(cut.end - 1),
                )
            })
            .collect()
    }

    /// Text that is too long and has no section of its own, where sections begin at `spots` (in reading order).
    pub fn long(&self, spots: &[Spot]) -> Vec<Long> {
        let mut starts: Vec<usize> = std::iter::once(0)
            .chain(spots.iter().map(|spot| spot.rows.0))
            .collect();
        starts.push(self.sheet.rows.len());
        let stretches = split::stretches(&self.sheet, &self.tokens, &starts, self.settings);
        let page = |row: usize| PageNo::from_index(self.sheet.rows[row].page as usize);
        stretches
            .into_iter()
            .map(|rows: Range<usize>| Long {
                pages: PageSpan::between(page(rows.start), page(rows.end - 1)),
                rows,
            })
            .collect()
    }

    /// The outline of settled sections, with those `dropped` that nothing speaks for: windows where text is still too
    /// long, levels without gaps.
    ///
    /// # Errors
    /// [`OutlineError`] when one lies outside the document; this does not happen for spots of this paper.
    pub fn draft(
        &self,
        settled: Vec<Settled>,
        dropped: Vec<DraftEntry>,
        mut gaps: Vec<Gap>,
        method: Method,
        rules: &Draft,
    ) -> Result<Draft, OutlineError> {
        let verdicts: BTreeMap<(usize, String), Verdict> = settled
            .iter()
            .map(|one| ((one.spot.rows.0, one.entry.title.clone()), one.verdict))
            .collect();
        let mut heads: Vec<Head> = settled.into_iter().map(head).collect();
        heads.sort_by_key(|head| (head.rows.0, head.rank));
        paged::add_windows(
            &self.sheet,
            (self.pages, &self.tokens),
            &mut heads,
            &mut gaps,
            self.settings,
        );
        let levels = levels::of(&heads);
        let judged = heads.into_iter().zip(levels).map(|(head, level)| {
            let spot = Spot { rows: head.rows };
            let verdict = verdicts
                .get(&(head.rows.0, head.title.clone()))
                .copied()
                .unwrap_or(Verdict::Declared);
            let entry = DraftEntry {
                number: head.number,
                title: head.title,
                label: head.printed.map(PageLabel),
                target: head.target,
                level,
                witness: head.witness,
            };
            (
                LocatedEntry {
                    entry,
                    place: self.place(spot),
                },
                verdict,
            )
        });
        let nowhere = Place::Page(Position {
            page: PageNo::FIRST,
            line: 0,
            y: Pt::new(0.0),
        });
        let dropped = dropped.into_iter().map(|entry| {
            (
                LocatedEntry {
                    entry,
                    place: nowhere,
                },
                Verdict::Rejected,
            )
        });
        let extent = Extent::Pages(u32::try_from(self.len()).unwrap_or(u32::MAX));
        let outline = VerifiedOutline::new(extent, judged.chain(dropped).collect())?;
        Ok(Draft {
            outline,
            method,
            labels: rules.labels.clone(),
            gaps,
            cross_index: rules.cross_index.clone(),
        })
    }
}

impl Long {
    /// Whether a heading stands inside, behind the one that opens it.
    pub fn holds(&self, spot: Spot) -> bool {
        self.rows.start < spot.rows.0 && spot.rows.0 < self.rows.end
    }

    /// Whether it begins with this heading.
    pub fn opens_with(&self, spot: Spot) -> bool {
        self.rows.start == spot.rows.0
    }
}

impl Spot {
    /// Whether two headings share a line.
    pub fn overlaps(self, other: Spot) -> bool {
        self.rows.0 <= other.rows.1 && other.rows.0 <= self.rows.1
    }
}

/// How alike two titles are (0–1).
pub fn likeness(one: &str, other: &str) -> f32 {
    titles::likeness(&Prepared::new(one), &Prepared::new(other))
}

/// A title on one line, without control characters and of a title's length; `None`: it has no letters.
pub fn title_of(number: &str, title: &str) -> Option<String> {
    let number = titles::tidy(number);
    let title = titles::tidy(title);
    let key = titles::squash(&number);
    let has_number = key.is_empty()
        || titles::squash(&title).starts_with(&key)
        || !numbering::readings(&title).is_empty();
    let whole = if has_number {
        title
    } else {
        format!("{number} {title}")
    };
    let whole = titles::cut(&whole, 400).trim().to_string();
    whole.chars().any(char::is_alphabetic).then_some(whole)
}

/// Whether a line of a table of contents is (the beginning of) an entry.
fn is_entry(key: &str, title: &Prepared) -> bool {
    let begins =
        |title: &str| title.len() >= 4 && key.starts_with(title) && key.len() <= title.len() + 8;
    let wraps = key.len() >= 8 && title.full.starts_with(key);
    begins(&title.full)
        || begins(&title.core)
        || wraps
        || titles::similarity(key, &title.full) > LISTED
}

fn claim(named: &Named) -> Claim {
    let mut claim = Claim::new(&named.title, named.witness);
    claim.level = named.level.max(1);
    claim.printed = named.label.clone();
    claim.predicted = named.page.map(|page| page.get() - 1);
    claim
}

fn spot(hit: &Hit) -> Spot {
    Spot { rows: hit.rows }
}

fn head(settled: Settled) -> Head {
    let Settled {
        entry,
        spot,
        verdict,
    } = settled;
    Head {
        rows: spot.rows,
        title: entry.title,
        number: entry.number,
        printed: entry.label.map(|label| label.0),
        target: entry.target,
        witness: entry.witness,
        unconfirmed: matches!(verdict, Verdict::Unconfirmed { .. }),
        rank: u32::from(entry.level.clamp(1, 64)) * LEVEL,
        leaf: false,
    }
}

/// The number a title begins with, as written.
pub fn number_of(title: &str) -> Option<String> {
    numbering::readings(title)
        .first()
        .map(|number| number.text.to_string())
}

//! Verifies proposed sections against the pages: locates titles, maps printed to physical pages, finds long spans without
//! sections.
//!
//! A model may propose sections, but its word is not enough: a title counts only where these rules find it on a page.

use std::collections::BTreeMap;
use std::ops::Range;

use stemma_document::{
    DraftEntry, EntryVerdict, EvidenceSource, Extent, Gap, LocatedEntry, Method, OutlineError,
    Page, PageLabel, PageNo, PageSpan, Position, Pt, SectionStart, Source, VerifiedOutline,
};

use super::line_features::{LineFeatures, LineTable};
use super::locate::{self, LocatedTitle};
use super::outline_head::{OutlineHead, RANK_STEP};
use super::oversized_sections::{self, RowTokens};
use super::page_labels::{PageLabels, SeriesLabel};
use super::primary_outline;
use super::section_candidate::SectionCandidate;
use super::titles::{self, TitleKeys};
use super::{Draft, StructureSettings, levels, numbering, toc, windows};

// One title can be found on a wrong page by chance; two that agree on the same offset hardly can.
const MIN_OFFSET_VOTES: usize = 2;
// Fewer matching lines may be headings that share a page with the contents, so they stay searchable.
const MIN_TOC_LINES: usize = 3;
// Shorter titles (`Item 1`, `Cash`) begin too many unrelated lines.
const MIN_PREFIX_LETTERS: usize = 8;
// Entries are copies of the titles, up to hyphenation and reading errors, so the limit is higher than for headings.
const TOC_SIMILARITY: f32 = 0.85;
// Less similar lines help nobody to find a misspelled title.
const MIN_NEAREST: f32 = 0.5;

/// Layout features, page labels and token sums of all pages of a document.
pub struct PageAnalysis<'a> {
    pages: &'a [Page],
    sheet: LineTable<'a>,
    labels: PageLabels,
    tokens: RowTokens,
    settings: &'a StructureSettings,
    /// Maximum tokens of the pages in one prompt.
    window_tokens: u32,
    source: &'a Source,
    /// Excludes no row from a search.
    no_rows: Vec<bool>,
}

/// A section proposed by a model or by other evidence, not verified yet.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposedSection {
    /// Includes the number.
    pub title: String,
    /// The page number printed beside it.
    pub label: Option<String>,
    /// 1 is the highest.
    pub level: u16,
    /// The page it supposedly begins on.
    pub page: Option<PageNo>,
    pub evidence: EvidenceSource,
}

/// The place of a heading: first and last row, inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeadingRows {
    rows: (usize, usize),
}

/// A section with its place and verdict.
#[derive(Debug, Clone)]
pub struct LocatedSection {
    pub entry: DraftEntry,
    pub spot: HeadingRows,
    pub verdict: EntryVerdict,
}

/// A span of text between two sections that is too long.
#[derive(Debug, Clone)]
pub struct LongSpan {
    rows: Range<usize>,
    pub pages: PageSpan,
}

impl<'a> PageAnalysis<'a> {
    /// `most_tokens` caps the pages of one prompt if it is less than a window.
    pub fn new(
        source: &'a Source,
        pages: &'a [Page],
        settings: &'a StructureSettings,
        most_tokens: u32,
    ) -> Self {
        let sheet = LineTable::new(pages);
        let labels = PageLabels::read(&sheet, pages);
        let tokens = RowTokens::new(&sheet, pages);
        let window_tokens = settings.window_tokens.min(most_tokens);
        let no_rows = vec![false; sheet.rows.len()];
        Self {
            pages,
            sheet,
            labels,
            tokens,
            settings,
            window_tokens,
            source,
            no_rows,
        }
    }

    /// Number of pages.
    #[expect(
        clippy::len_without_is_empty,
        reason = "nobody analyzes an empty document"
    )]
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// All pages; `None` for an empty document.
    pub fn all_pages(&self) -> Option<PageSpan> {
        let last = self.len().checked_sub(1)?;
        Some(PageSpan::between(PageNo::FIRST, PageNo::from_index(last)))
    }

    /// The first pages with text. The flag says whether the page is a table of contents; `None`: rules cannot tell.
    pub fn front_pages(&self) -> Vec<(PageNo, Option<bool>)> {
        let links = primary_outline::links_by_row(self.source, &self.sheet);
        let front = self.len().min(self.settings.toc_check_pages as usize);
        let verdicts = toc::classify_pages(&self.sheet, 0..front, &links);
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

    /// Whether a title is printed on the pages, in one line or across several.
    pub fn contains_title(&self, title: &str, pages: PageSpan) -> bool {
        let title = TitleKeys::new(title);
        let keys: Vec<&str> = pages
            .pages()
            .flat_map(|page| self.sheet.rows_on(page.index()))
            .map(|at| self.key(at))
            .collect();
        // Keys have no spaces, so their concatenation also finds titles that wrap over lines.
        let all = keys.concat();
        [&title.full, &title.core]
            .iter()
            .any(|key| !key.is_empty() && all.contains(key.as_str()))
            || keys
                .iter()
                .any(|key: &&str| titles::key_similarity(key, &title.full) > TOC_SIMILARITY)
    }

    fn key(&self, at: usize) -> &str {
        &self.sheet.rows[at].key
    }

    /// Locates each of `proposed` (in reading order); also gives the page that its label or proposal names. On the pages
    /// of `contents`, the rows of the table itself are skipped. `labeled`: whether printed labels count.
    pub fn locate(
        &self,
        proposed: &[ProposedSection],
        contents: Option<PageSpan>,
        labeled: bool,
    ) -> Vec<(Option<HeadingRows>, Option<PageNo>)> {
        let mut candidates: Vec<SectionCandidate> = proposed.iter().map(to_candidate).collect();
        let excluded = self.toc_rows(&candidates, contents);
        if labeled {
            self.predict_pages(&mut candidates, &excluded);
        }
        let hits = locate::locate_titles(
            &self.sheet,
            0..self.sheet.rows.len(),
            &excluded,
            &candidates,
        );
        hits.iter()
            .zip(&candidates)
            .map(|(hit, candidate)| {
                let page = candidate.page();
                (
                    hit.as_ref().map(heading_rows),
                    page.map(|page| PageNo::from_index(page as usize)),
                )
            })
            .collect()
    }

    /// Predicts the page of each candidate from its printed label.
    // A page that prints the label is certain. Where labels were lost (scans, cropped footers), titles that are found
    // without labels vote for the offset of their series. Series are separate because `12`, `xii` and `F-12` have
    // different offsets in one document.
    fn predict_pages(&self, candidates: &mut [SectionCandidate], excluded: &[bool]) {
        let all = 0..u32::try_from(self.len()).unwrap_or(u32::MAX);
        let labels: Vec<Option<SeriesLabel>> = candidates
            .iter()
            .map(|candidate| candidate.printed.as_deref().and_then(SeriesLabel::parse))
            .collect();
        let printed: Vec<_> = labels
            .iter()
            .map(|label| {
                label
                    .as_ref()
                    .and_then(|label| self.labels.page_of(label, all.clone()))
            })
            .collect();
        // Locating twice is expensive, so the first pass runs only if some label is not printed on any page.
        let mut offsets = BTreeMap::new();
        if labels
            .iter()
            .zip(&printed)
            .any(|(label, page)| label.is_some() && page.is_none())
        {
            let hits =
                locate::locate_titles(&self.sheet, 0..self.sheet.rows.len(), excluded, candidates);
            offsets = self.offsets(&labels, &hits);
        }
        for ((candidate, label), printed) in candidates.iter_mut().zip(&labels).zip(printed) {
            let voted = label.as_ref().and_then(|label| {
                let offset = offsets.get(label.series.as_str())?;
                u32::try_from(i64::from(label.number) + offset)
                    .ok()
                    .filter(|page| all.contains(page))
            });
            candidate.predicted = candidate.predicted.or(printed).or(voted);
        }
    }

    /// For each series of labels, the difference between (0-based) page and label, by a vote of the located titles.
    fn offsets<'l>(
        &self,
        labels: &'l [Option<SeriesLabel>],
        hits: &[Option<LocatedTitle>],
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
        votes
            .into_iter()
            .filter_map(|(series, votes)| {
                // Of equal counts the smaller offset wins, so the result does not depend on iteration order.
                let (offset, count) = votes
                    .into_iter()
                    .max_by_key(|(offset, count)| (*count, -offset))?;
                (count >= MIN_OFFSET_VOTES).then_some((series, offset))
            })
            .collect()
    }

    /// Marks the rows of a table of contents.
    // Without this mask each title would be found in the table of contents itself, where all titles stand in order.
    // Only the rows between the first and last entry are masked, so a section may start below the table on its page.
    fn toc_rows(&self, candidates: &[SectionCandidate], contents: Option<PageSpan>) -> Vec<bool> {
        let mut excluded = vec![false; self.sheet.rows.len()];
        let Some(contents) = contents else {
            return excluded;
        };
        for page in contents.pages() {
            let on = self.sheet.rows_on(page.index());
            let rows: Vec<usize> = on
                .filter(|at: &usize| {
                    let key = self.key(*at);
                    key.len() >= 3
                        && candidates
                            .iter()
                            .any(|candidate| is_toc_line(key, &candidate.prepared))
                })
                .collect();
            if let (true, Some(first), Some(last)) =
                (rows.len() >= MIN_TOC_LINES, rows.first(), rows.last())
            {
                excluded[*first..=*last].fill(true);
            }
        }
        excluded
    }

    /// Locates `proposed` sections (in reading order) on one page.
    pub fn locate_on_page(
        &self,
        proposed: &[&ProposedSection],
        page: PageNo,
    ) -> Vec<Option<HeadingRows>> {
        self.locate_in(proposed, self.sheet.rows_on(page.index()))
    }

    /// Locates a section at a line (from 0) of a page.
    pub fn locate_at_line(
        &self,
        proposed: &ProposedSection,
        page: PageNo,
        line: u32,
    ) -> Option<HeadingRows> {
        let row = self.row_at(page, line)?;
        self.locate_in(&[proposed], row..row + 1).pop()?
    }

    fn locate_in(
        &self,
        proposed: &[&ProposedSection],
        rows: Range<usize>,
    ) -> Vec<Option<HeadingRows>> {
        let candidates: Vec<SectionCandidate> = proposed
            .iter()
            .map(|proposed| to_candidate(proposed))
            .collect();
        let hits = locate::locate_titles(&self.sheet, rows.clone(), &self.no_rows, &candidates);
        hits.iter()
            .zip(&candidates)
            .map(
                |(hit, candidate): (&Option<LocatedTitle>, &SectionCandidate)| {
                    hit.as_ref()
                        .map(heading_rows)
                        .or_else(|| self.locate_prefix(candidate, rows.clone()))
                },
            )
            .collect()
    }

    /// The first of `rows` that begins with the title.
    // Last resort on a page that is known to hold the section: the title may share its line with column heads or with
    // the first words of its paragraph, which the search for whole headings rejects.
    fn locate_prefix(
        &self,
        candidate: &SectionCandidate,
        mut rows: Range<usize>,
    ) -> Option<HeadingRows> {
        let TitleKeys { full, core } = &candidate.prepared;
        rows.find(|at: &usize| {
            let first = titles::normalize_key(self.sheet.rows[*at].first_cell);
            !first.is_empty() && (first == *full || first == *core)
                || full.len() >= MIN_PREFIX_LETTERS && self.key(*at).starts_with(full.as_str())
        })
        .map(|at| HeadingRows { rows: (at, at) })
    }

    /// The line of a page that is most similar to a title, if any is.
    pub fn nearest_line(&self, title: &str, page: PageNo) -> Option<&str> {
        let title = TitleKeys::new(title);
        let similar = self.sheet.rows_on(page.index()).map(|at| {
            let row = &self.sheet.rows[at];
            (
                titles::title_similarity(&TitleKeys::new(row.text), &title),
                row.text,
            )
        });
        similar
            .filter(|(like, _)| *like >= MIN_NEAREST)
            .max_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, text)| text)
    }

    /// The first line of a page below its running heads, if any.
    pub fn first_line(&self, page: PageNo) -> Option<HeadingRows> {
        self.sheet
            .rows_on(page.index())
            .find(|at: &usize| !self.sheet.rows[*at].running && !self.key(*at).is_empty())
            .map(|at| HeadingRows { rows: (at, at) })
    }

    /// The row at a place that the rules located.
    pub fn heading_at(&self, place: SectionStart) -> Option<HeadingRows> {
        let SectionStart::Page(position) = place else {
            return None;
        };
        self.row_at(position.page, position.line)
            .map(|at| HeadingRows { rows: (at, at) })
    }

    fn row_at(&self, page: PageNo, line: u32) -> Option<usize> {
        self.sheet
            .rows_on(page.index())
            .find(|at: &usize| self.sheet.rows[*at].line == line)
    }

    pub fn page(&self, spot: HeadingRows) -> PageNo {
        PageNo::from_index(self.row(spot).page as usize)
    }

    pub fn place(&self, spot: HeadingRows) -> SectionStart {
        let row = self.row(spot);
        SectionStart::Page(Position {
            page: self.page(spot),
            line: row.line,
            y: Pt::new(row.y0),
        })
    }

    /// Whether only running heads stand above it on its page.
    pub fn starts_page(&self, spot: HeadingRows) -> bool {
        self.sheet.starts_page(spot.rows.0)
    }

    fn row(&self, spot: HeadingRows) -> &LineFeatures<'a> {
        &self.sheet.rows[spot.rows.0]
    }

    /// The text of the first line of a heading.
    pub fn first_row_text(&self, spot: HeadingRows) -> &str {
        self.row(spot).text
    }

    /// The title as printed if the page prints nothing else beside it; otherwise `title`.
    pub fn printed_title(&self, spot: HeadingRows, title: &str) -> String {
        let rows = &self.sheet.rows[spot.rows.0..=spot.rows.1];
        let text = titles::fold_whitespace(
            &rows
                .iter()
                .map(|row| row.text)
                .collect::<Vec<_>>()
                .join(" "),
        );
        let own = TitleKeys::new(&text);
        let proposed = TitleKeys::new(title);
        // A model may leave out the number or repair spaces; the printed form is what a reader will search for.
        let same = own.full == proposed.full || own.core == proposed.core && own.core != own.full;
        if same { text } else { title.to_string() }
    }

    /// Spans of whole pages of at most `window_tokens`, with boundaries that depend on the content.
    pub fn windows(&self, pages: PageSpan) -> Vec<PageSpan> {
        let cut = windows::cut_windows(
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

    /// Spans of text that are too long if sections begin at `spots` (in reading order).
    pub fn long_spans(&self, spots: &[HeadingRows]) -> Vec<LongSpan> {
        let mut starts: Vec<usize> = std::iter::once(0)
            .chain(spots.iter().map(|spot| spot.rows.0))
            .collect();
        starts.push(self.sheet.rows.len());
        let stretches =
            oversized_sections::large_ranges(&self.sheet, &self.tokens, &starts, self.settings);
        stretches
            .into_iter()
            .map(|rows: Range<usize>| LongSpan {
                pages: PageSpan::between(self.row_page(rows.start), self.row_page(rows.end - 1)),
                rows,
            })
            .collect()
    }

    fn row_page(&self, row: usize) -> PageNo {
        PageNo::from_index(self.sheet.rows[row].page as usize)
    }

    /// Builds the outline from `located` sections: adds windows where text is still too long, and levels without gaps.
    /// `dropped` sections become rejected entries.
    ///
    /// # Errors
    /// [`OutlineError`] if a section lies outside the document, which spots of this analysis never do.
    pub fn draft(
        &self,
        located: Vec<LocatedSection>,
        dropped: Vec<DraftEntry>,
        mut gaps: Vec<Gap>,
        method: Method,
        rules: &Draft,
    ) -> Result<Draft, OutlineError> {
        // Heads carry no verdict. Row and title identify a head again after sorting and after windows were added.
        let verdicts: BTreeMap<(usize, String), EntryVerdict> = located
            .iter()
            .map(|one| ((one.spot.rows.0, one.entry.title.clone()), one.verdict))
            .collect();
        let mut heads: Vec<OutlineHead> = located.into_iter().map(to_head).collect();
        heads.sort_by_key(|head| (head.rows.0, head.rank));
        oversized_sections::add_windows(
            &self.sheet,
            (self.pages, &self.tokens),
            &mut heads,
            &mut gaps,
            self.settings,
        );
        let levels = levels::assign_levels(&heads);
        let judged = heads.into_iter().zip(levels).map(|(head, level)| {
            let spot = HeadingRows { rows: head.rows };
            let verdict = verdicts
                .get(&(head.rows.0, head.title.clone()))
                .copied()
                .unwrap_or(EntryVerdict::Declared);
            let entry = DraftEntry {
                number: head.number,
                title: head.title,
                label: head.printed.map(PageLabel),
                target: head.target,
                level,
                evidence: head.evidence,
            };
            (
                LocatedEntry {
                    entry,
                    place: self.place(spot),
                },
                verdict,
            )
        });
        // Rejected entries need some valid place; readers ignore it.
        let nowhere = SectionStart::Page(Position {
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
                EntryVerdict::Rejected,
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

impl LongSpan {
    /// Whether a heading lies inside, after the one that opens the span.
    pub fn contains(&self, spot: HeadingRows) -> bool {
        self.rows.start < spot.rows.0 && spot.rows.0 < self.rows.end
    }

    pub fn opens_with(&self, spot: HeadingRows) -> bool {
        self.rows.start == spot.rows.0
    }
}

impl HeadingRows {
    /// Whether two headings share a row.
    pub fn overlaps(self, other: HeadingRows) -> bool {
        self.rows.0 <= other.rows.1 && other.rows.0 <= self.rows.1
    }
}

/// Similarity of two titles (0–1).
pub fn title_similarity(one: &str, other: &str) -> f32 {
    titles::title_similarity(&TitleKeys::new(one), &TitleKeys::new(other))
}

/// Number and title on one line, without control characters, at most 400 bytes; `None` if there are no letters.
pub fn clean_title(number: &str, title: &str) -> Option<String> {
    let number = titles::fold_whitespace(number);
    let title = titles::fold_whitespace(title);
    let key = titles::normalize_key(&number);
    let has_number = key.is_empty()
        || titles::normalize_key(&title).starts_with(&key)
        || !numbering::parse_numbers(&title).is_empty();
    let whole = if has_number {
        title
    } else {
        format!("{number} {title}")
    };
    let whole = titles::truncate_bytes(&whole, 400).trim().to_string();
    whole.chars().any(char::is_alphabetic).then_some(whole)
}

/// Whether a line of a table of contents is (the beginning of) an entry.
fn is_toc_line(key: &str, title: &TitleKeys) -> bool {
    // At most eight letters may follow: a page label such as `F-12`, and the word `page`.
    let begins = [&title.full, &title.core].iter().any(|title| {
        title.len() >= 4 && key.starts_with(title.as_str()) && key.len() <= title.len() + 8
    });
    let wraps = key.len() >= 8 && title.full.starts_with(key);
    begins || wraps || titles::key_similarity(key, &title.full) > TOC_SIMILARITY
}

fn to_candidate(proposed: &ProposedSection) -> SectionCandidate {
    let mut candidate = SectionCandidate::new(&proposed.title, proposed.evidence);
    candidate.level = proposed.level.max(1);
    candidate.printed = proposed.label.clone();
    candidate.predicted = proposed.page.map(|page| page.get() - 1);
    candidate
}

fn heading_rows(hit: &LocatedTitle) -> HeadingRows {
    HeadingRows { rows: hit.rows }
}

fn to_head(located: LocatedSection) -> OutlineHead {
    let LocatedSection {
        entry,
        spot,
        verdict,
    } = located;
    OutlineHead {
        rows: spot.rows,
        title: entry.title,
        number: entry.number,
        printed: entry.label.map(|label| label.0),
        target: entry.target,
        evidence: entry.evidence,
        unconfirmed: matches!(verdict, EntryVerdict::Unconfirmed { .. }),
        // A model may answer any level; the clamp keeps the rank above those of layout headings.
        rank: u32::from(entry.level.clamp(1, 64)) * RANK_STEP,
        leaf: false,
    }
}

/// The number at the start of a title, as written.
pub fn leading_number(title: &str) -> Option<String> {
    numbering::leading_number(title)
}

//! Signs in the look of lines: lines that look like headings but are not sections, and headings of one level that look different.

use std::collections::{BTreeMap, HashMap};

use stemma_document::text::normalize_key;
use stemma_document::{
    DoubtCode, DoubtReason, Emphasis, Line, Page, Section, SectionId, SectionKind, SectionSpan,
    SectionTree, Source, SourceBody,
};
use stemma_reading::heading_look::{BodyLook, TextLook, TitleText};

use super::{share_of, sign};
use crate::structure::counts::counts;

/// Longest line that may look like a heading, if its style differs from the text.
const HEADING_BYTES: usize = 100;
/// Shorter lines are marks.
const MIN_BYTES: usize = 4;
/// Lines closer than this are in one row (in points).
const ROW_POINTS: f32 = 3.0;
/// A heading wraps over at most so many lines.
const TITLE_LINES: usize = 4;

/// Half points, bold, emphasis.
type LookKey = (i32, bool, Emphasis);

/// The looks of headings, and the lines that have such a look.
pub(super) struct HeadingLooks<'t> {
    /// Sections whose headings are printed, by depth.
    headings: BTreeMap<usize, Vec<(&'t Section, LookKey)>>,
    /// Lines that look like headings, by the section that has them as text.
    passed: BTreeMap<SectionId, u32>,
    first: Option<String>,
}

impl<'t> HeadingLooks<'t> {
    pub(super) fn new(tree: &'t SectionTree, source: &Source) -> Self {
        let mut looks = Self {
            headings: BTreeMap::new(),
            passed: BTreeMap::new(),
            first: None,
        };
        let SourceBody::Pages(pages) = &source.body else {
            return looks;
        };
        let starts = heading_starts(tree);
        let lines = pages.iter().flat_map(|page| &page.lines);
        let text_lines = lines.filter(|line| !line.is_furniture());
        let body = BodyLook::from_lines(text_lines.map(|line| (line.text.as_str(), line)));
        let mut current: Option<(usize, usize, &Section, String)> = None;
        for (page_at, page) in pages.iter().enumerate() {
            let rows = rows(page);
            for (at, line) in page.lines.iter().enumerate() {
                let start = starts.get(&(page_at, at));
                if let Some((_, section)) = start {
                    current = Some((page_at, at, *section, normalize_key(&section.title)));
                }
                if line.is_furniture() || line.text.trim().is_empty() {
                    continue;
                }
                if let Some((depth, section)) = start {
                    let own = looks.headings.entry(*depth).or_default();
                    own.push((*section, TextLook::from(line).key()));
                    continue;
                }
                // A cover has no headings before the first one.
                let Some((heading_page, heading_at, section, title)) = &current else {
                    continue;
                };
                if !looks_like_heading(line, &body) || rows.get(&row(line)) != Some(&1) {
                    continue;
                }
                let wrapped = *heading_page == page_at
                    && at - heading_at <= TITLE_LINES
                    && title.contains(&normalize_key(&line.text));
                if !wrapped {
                    *looks.passed.entry(section.id).or_default() += 1;
                    looks
                        .first
                        .get_or_insert_with(|| line.text.trim().to_owned());
                }
            }
        }
        looks
    }

    /// Lines that look like headings among these and the headings.
    pub(super) fn passed_over(&self, tree: &SectionTree) -> DoubtReason {
        let passed: u32 = self.passed.values().sum();
        let headings: usize = self.headings.values().map(Vec::len).sum();
        let most = self
            .passed
            .iter()
            .max_by_key(|(id, count)| (**count, std::cmp::Reverse(**id)));
        let worst = most.and_then(|(id, _)| tree.section(*id));
        let share = share_of(passed, passed + u32::try_from(headings).unwrap_or(u32::MAX));
        let detail = self.first.as_ref().map_or_else(String::new, |first| {
            format!(
                "lines that look like headings but are not sections: {passed}, such as `{first}`"
            )
        });
        sign(DoubtCode::PassedOver, share, worst, detail)
    }

    /// Headings that do not look like most headings of their level.
    pub(super) fn mixed_looks(&self) -> DoubtReason {
        let mut odd: Vec<&Section> = Vec::new();
        let mut all = 0;
        for headings in self.headings.values() {
            let counts = counts(headings.iter().map(|(_, look)| *look));
            let common = counts.into_iter().max_by_key(|(_, count)| *count);
            let common = common.map(|(look, _)| look);
            let other = headings.iter().filter(|(_, look)| Some(*look) != common);
            odd.extend(other.map(|(section, _)| *section));
            all += headings.len();
        }
        let worst = odd.iter().copied().min_by_key(|section| section.id);
        let detail = format!(
            "{} of {all} headings look unlike the others of their level",
            odd.len()
        );
        let share = odd.len() as f32 / all.max(1) as f32;
        sign(DoubtCode::MixedLooks, share, worst, detail)
    }
}

/// Depth and section of each heading by the page and line where it begins.
fn heading_starts(tree: &SectionTree) -> HashMap<(usize, usize), (usize, &Section)> {
    let headings = tree
        .walk()
        .filter(|(_, section)| section.kind == SectionKind::Heading);
    let placed = headings.filter_map(|(depth, section)| match section.span {
        SectionSpan::Pages { from, .. } => {
            Some(((from.page.index(), from.line as usize), (depth, section)))
        }
        SectionSpan::Lines { .. } => None,
    });
    placed.collect()
}

/// Lines by row; a line next to another one is a cell or a caption.
fn rows(page: &Page) -> HashMap<i32, u32> {
    let mut rows = HashMap::new();
    for line in &page.lines {
        *rows.entry(row(line)).or_default() += 1;
    }
    rows
}

fn row(line: &Line) -> i32 {
    (line.rect.y0.points() / ROW_POINTS).round() as i32
}

/// Whether a line is larger than the text, or bold where that is not, and has the words of a title.
// Emphasis does not count: most lines in italics that are not sections emphasize.
fn looks_like_heading(line: &Line, body: &BodyLook) -> bool {
    let text = line.text.trim();
    let title = TitleText::new(text);
    body.is_heavy(TextLook::from(line))
        && (MIN_BYTES..=HEADING_BYTES).contains(&text.len())
        && title.starts_capital()
        && title.is_lettered()
        && !text.ends_with(['.', ',', ';', ':'])
}

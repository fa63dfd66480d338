//! Finds the headings of a correction in the document, and makes the draft of a tree from them.

use stemma_document::{
    DraftEntry, EntryVerdict, EvidenceSource, Extent, Gap, LocatedEntry, Method, OutlineError,
    PageNo, PageSpan, Position, Pt, SectionKind, SectionStart, SectionTree, Source, SourceBody,
    TextLines, VerifiedOutline,
};

use super::outline_text::LineError;
use super::{CorrectedHeading, Correction, HeadingClaim, unit};
use crate::structure::Draft;
use crate::structure::numbering::leading_number;
use crate::structure::page_analysis::PageAnalysis;
use crate::structure::section_candidate::SectionCandidate;
use crate::structure::titles::similarity;

/// Code of the gap for headings that newer rules of extraction no longer find.
const NOT_FOUND: &str = "outline.correction_not_found";
/// Lines of a text that one heading may take.
const MAX_HEADING_LINES: usize = 4;
/// A line that is less similar is another title; the same limit as on pages.
const MIN_SIMILARITY: f32 = 0.74;
const MAX_ERRORS: usize = 20;

/// The place of a heading.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundHeading {
    /// Line of the page, from 0; 0 in texts.
    pub(super) line: u32,
    start: SectionStart,
    starts_page: bool,
}

/// Searches the titles of a correction in a document.
pub(super) struct PlaceFinder<'a> {
    source: &'a Source,
    // `None` for texts without pages.
    analysis: Option<PageAnalysis<'a>>,
}

impl<'a> PlaceFinder<'a> {
    pub(super) fn new(source: &'a Source) -> Self {
        let analysis = match &source.body {
            SourceBody::Pages(pages) => Some(PageAnalysis::new(pages)),
            SourceBody::Lines(_) => None,
        };
        Self { source, analysis }
    }

    /// The place of each heading; `None` where its title is not found. Headings whose titles are not claimed to be printed
    /// are always placed, at their line or at the top of their page.
    pub(super) fn find_all(&self, headings: &[CorrectedHeading]) -> Vec<Option<FoundHeading>> {
        match (&self.analysis, &self.source.body) {
            (Some(analysis), _) => headings
                .chunk_by(|left, right| left.at == right.at)
                .flat_map(|same_page| find_on_page(analysis, same_page))
                .collect(),
            (None, SourceBody::Lines(text)) => headings
                .iter()
                .map(|heading| find_in_text(text, heading))
                .collect(),
            (None, SourceBody::Pages(_)) => vec![None; headings.len()],
        }
    }

    // Why a title was not found, and where it may be.
    fn explain(&self, heading: &CorrectedHeading) -> String {
        let title = &heading.title;
        let at = heading.at;
        if let (Some(line), true) = (heading.line, heading.claim != HeadingClaim::Printed) {
            return format!("page {at} has no text on line {line}");
        }
        let unit = unit(self.source.extent());
        let place = match heading.line {
            Some(line) => format!("on line {line} of page {at}"),
            None => format!("on {unit} {at}"),
        };
        let hint = match (&self.analysis, &self.source.body) {
            (Some(analysis), _) => nearest_on_pages(analysis, heading),
            (None, SourceBody::Lines(text)) => nearest_in_text(text, heading),
            (None, SourceBody::Pages(_)) => None,
        };
        let hint = hint.unwrap_or_else(|| "write (?) before a title that is not printed".into());
        format!("`{title}` is not {place}; {hint}")
    }
}

fn find_on_page(
    analysis: &PageAnalysis<'_>,
    headings: &[CorrectedHeading],
) -> Vec<Option<FoundHeading>> {
    let Some(page) = headings.first().and_then(|first| PageNo::new(first.at)) else {
        return vec![None; headings.len()];
    };
    // Titles without a line are searched together, because they must follow each other on the page.
    let is_searched = |heading: &&CorrectedHeading| {
        heading.line.is_none()
            && matches!(
                heading.claim,
                HeadingClaim::Printed | HeadingClaim::Unverified
            )
    };
    let titles: Vec<SectionCandidate> =
        headings.iter().filter(is_searched).map(candidate).collect();
    let mut located = analysis.locate_on_page(&titles, page).into_iter();
    let mut found = Vec::with_capacity(headings.len());
    for heading in headings {
        let searched = Some(heading)
            .filter(is_searched)
            .and_then(|_| located.next().flatten());
        let is_printed = heading.claim == HeadingClaim::Printed;
        let row = match heading.line {
            Some(line) if is_printed => analysis.locate_at_line(candidate(heading), page, line - 1),
            Some(line) => analysis.row_at(page, line - 1),
            None if heading.claim == HeadingClaim::Unverified => {
                searched.or_else(|| analysis.first_row(page))
            }
            None => searched,
        };
        found.push(match row {
            Some(row) => Some(FoundHeading {
                line: analysis.position(row).line,
                start: SectionStart::Page(analysis.position(row)),
                starts_page: analysis.starts_page(row),
            }),
            None if is_printed => None,
            // The page has no such line.
            None if heading.line.is_some_and(|line| line > 1) => None,
            // The top of the page, also if it is blank.
            None => Some(FoundHeading {
                line: 0,
                start: top_of(page),
                starts_page: true,
            }),
        });
    }
    found
}

fn top_of(page: PageNo) -> SectionStart {
    SectionStart::Page(Position {
        page,
        line: 0,
        y: Pt::new(0.0),
    })
}

fn candidate(heading: &CorrectedHeading) -> SectionCandidate {
    SectionCandidate {
        level: heading.level.max(1),
        predicted: PageNo::new(heading.at).map(|page| page.get() - 1),
        ..SectionCandidate::new(&heading.title, EvidenceSource::Person)
    }
}

fn nearest_on_pages(analysis: &PageAnalysis<'_>, heading: &CorrectedHeading) -> Option<String> {
    let page = PageNo::new(heading.at)?;
    let mut rows = analysis
        .locate_on_page(&[candidate(heading)], page)
        .into_iter();
    if let Some(row) = rows.next().flatten() {
        let line = analysis.position(row).line + 1;
        return Some(match heading.line {
            Some(_) => format!("line {line} has it"),
            None => format!("line {line} has it, but above the heading before it"),
        });
    }
    if let Some(nearest) = analysis.nearest_line(&heading.title, page) {
        return Some(format!("the nearest line there is `{}`", clipped(nearest)));
    }
    let row = analysis.locate(SectionCandidate {
        predicted: None,
        ..candidate(heading)
    })?;
    let line = clipped(analysis.text(row));
    Some(format!("page {} has `{line}`", analysis.position(row).page))
}

fn clipped(text: &str) -> String {
    let spaced = text.replace(char::is_control, " ");
    spaced.chars().take(120).collect()
}

// Texts.

fn find_in_text(text: &TextLines, heading: &CorrectedHeading) -> Option<FoundHeading> {
    let found = FoundHeading {
        line: 0,
        start: SectionStart::Line(heading.at),
        starts_page: true,
    };
    let is_found = heading.claim != HeadingClaim::Printed || is_on_line(text, heading, heading.at);
    is_found.then_some(found)
}

// Whether the title is on the line, or begins on it.
fn is_on_line(text: &TextLines, heading: &CorrectedHeading, line: u32) -> bool {
    let is_parsed = text
        .headings
        .binary_search_by_key(&line, |parsed| parsed.line)
        .is_ok_and(|at| text.headings[at].title.trim() == heading.title);
    if is_parsed {
        return true;
    }
    let from = (line as usize).saturating_sub(1);
    let mut lines = text.lines.iter().skip(from).take(MAX_HEADING_LINES);
    let Some(first) = lines.next().map(|line| line.trim()) else {
        return false;
    };
    if similarity(first, &heading.title) >= MIN_SIMILARITY {
        return true;
    }
    // The title may share its line with other words, and go on below it.
    let joined = lines.fold(first.to_owned(), |joined, line| joined + " " + line.trim());
    joined
        .match_indices(&heading.title)
        .take_while(|(start, _)| *start < first.len())
        .any(|(start, title)| is_whole(&joined, start, start + title.len()))
}

// Whether neither end of a part of `text` cuts a word.
fn is_whole(text: &str, start: usize, end: usize) -> bool {
    let before = text[..start].chars().next_back();
    let behind = text[end..].chars().next();
    [before, behind]
        .into_iter()
        .flatten()
        .all(|c| !c.is_alphanumeric())
}

fn nearest_in_text(text: &TextLines, heading: &CorrectedHeading) -> Option<String> {
    let lines = 1..=u32::try_from(text.lines.len()).unwrap_or(u32::MAX);
    let line = lines
        .filter(|line| is_on_line(text, heading, *line))
        .min_by_key(|line| line.abs_diff(heading.at))?;
    Some(format!("line {line} has it"))
}

/// Checks a correction against the document. `lines` has the line of each heading in the file of the person.
///
/// # Errors
/// The mistakes, at most twenty, in the order of their lines.
pub fn check(
    source: &Source,
    correction: &Correction,
    lines: &[usize],
) -> Result<(), Vec<LineError>> {
    let finder = PlaceFinder::new(source);
    let headings = &correction.headings;
    let found = finder.find_all(headings);
    let mut errors = Vec::new();
    for (at, (heading, line)) in headings.iter().zip(lines).enumerate() {
        if errors.len() >= MAX_ERRORS {
            break;
        }
        let Some(place) = found[at] else {
            errors.push(LineError::new(*line, finder.explain(heading)));
            continue;
        };
        let Some((before, above)) = (0..at).rev().find_map(|n| Some((n, found[n]?))) else {
            continue;
        };
        let order = place.start.reading_order();
        let order_above = above.start.reading_order();
        let same_line = order == order_above && matches!(place.start, SectionStart::Line(_));
        if order < order_above || same_line {
            let what = if same_line { "on" } else { "above" };
            let title = &heading.title;
            let other = lines[before];
            // Without a line, a title that is not printed begins its page.
            let begins_page = heading.claim != HeadingClaim::Printed
                && heading.line.is_none()
                && matches!(place.start, SectionStart::Page(_));
            let hint = if begins_page {
                format!("; give its line, as in `p. {}:34`", heading.at)
            } else {
                String::new()
            };
            errors.push(LineError::new(
                *line,
                format!("`{title}` is {what} the heading of line {other}; headings follow the order of the document{hint}"),
            ));
        }
    }
    if errors.is_empty() {
        check_kept(source, correction, lines, &mut errors);
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

// A tree merges headings that repeat the one above them. That must not happen in silence.
fn check_kept(
    source: &Source,
    correction: &Correction,
    lines: &[usize],
    errors: &mut Vec<LineError>,
) {
    let outline = match verified_outline(source, correction) {
        Ok((outline, _)) => outline,
        Err(error) => {
            errors.push(LineError::new(1, error.to_string()));
            return;
        }
    };
    let tree = SectionTree::build(&outline, Method::Person, Vec::new());
    let mut sections = tree.walk().peekable();
    let first = correction.headings.first();
    let has_own_preface = first.is_some_and(|first| first.claim == HeadingClaim::Preface);
    if !has_own_preface {
        sections.next_if(|(_, section)| section.kind == SectionKind::Preface);
    }
    for (heading, line) in correction.headings.iter().zip(lines) {
        let is_kept = sections.next_if(|(depth, section)| {
            *depth == usize::from(heading.level) && section.title == heading.title.trim()
        });
        if is_kept.is_none() {
            let title = &heading.title;
            errors.push(LineError::new(
                *line,
                format!("`{title}` repeats the heading above it; remove one of them"),
            ));
            return;
        }
    }
}

/// The draft of a tree from a correction. `rules` is the draft of the rules; labels of pages come from it.
///
/// # Errors
/// [`OutlineError`] never: headings outside the document are dropped and recorded.
pub fn draft(
    source: &Source,
    rules: Draft,
    correction: &Correction,
) -> Result<Draft, OutlineError> {
    let (outline, gaps) = verified_outline(source, correction)?;
    Ok(Draft {
        outline,
        method: Method::Person,
        gaps,
        ..rules
    })
}

fn verified_outline(
    source: &Source,
    correction: &Correction,
) -> Result<(VerifiedOutline, Vec<Gap>), OutlineError> {
    let extent = source.extent();
    let found = PlaceFinder::new(source).find_all(&correction.headings);
    let mut gaps = Vec::new();
    let mut judged = Vec::with_capacity(found.len());
    let mut above: Option<SectionStart> = None;
    for (heading, found) in correction.headings.iter().zip(found) {
        let nowhere = match extent {
            Extent::Pages(_) => top_of(PageNo::new(heading.at).unwrap_or(PageNo::FIRST)),
            Extent::Lines(_) => SectionStart::Line(heading.at),
        };
        // A title that is no longer found must not change places with the headings above it.
        let nowhere = above
            .filter(|above| above.reading_order() > nowhere.reading_order())
            .unwrap_or(nowhere);
        let starts_page = found.is_some_and(|found| found.starts_page);
        let verdict = match (heading.claim, found) {
            _ if heading.at > extent.size() => EntryVerdict::Rejected,
            (HeadingClaim::Printed, Some(_)) => EntryVerdict::Confirmed { starts_page },
            (HeadingClaim::Printed, None) => {
                gaps.push(not_found_gap(heading, nowhere));
                EntryVerdict::Unconfirmed { starts_page }
            }
            (HeadingClaim::Unverified, _) => EntryVerdict::Unconfirmed { starts_page },
            (HeadingClaim::Preface | HeadingClaim::Window, _) => EntryVerdict::Declared,
        };
        let evidence = match heading.claim {
            HeadingClaim::Window => EvidenceSource::Window,
            _ => EvidenceSource::Person,
        };
        let entry = DraftEntry {
            number: leading_number(&heading.title),
            title: heading.title.clone(),
            label: None,
            target: None,
            level: heading.level,
            evidence,
        };
        let place = found.map_or(nowhere, |found| found.start);
        if verdict != EntryVerdict::Rejected {
            above = Some(place);
        }
        judged.push((LocatedEntry { entry, place }, verdict));
    }
    Ok((VerifiedOutline::new(extent, judged)?, gaps))
}

fn not_found_gap(heading: &CorrectedHeading, place: SectionStart) -> Gap {
    let pages = match place {
        SectionStart::Page(position) => Some(PageSpan::between(position.page, position.page)),
        SectionStart::Line(_) => None,
    };
    Gap {
        code: NOT_FOUND.into(),
        pages,
        detail: format!(
            "`{}` of the corrected outline is no longer found there",
            clipped(&heading.title)
        ),
    }
}

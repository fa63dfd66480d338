//! Section candidates from rows of contents and entries of the embedded outline, with their levels.

use std::ops::Range;

use stemma_document::{EvidenceSource, OutlineItem};
use stemma_reading::vocabulary::{FILE_ENDINGS, PROGRAM_TITLES};

use super::false_headings;
use super::forms::SecForm;
use super::numbering::{self, NumberClass, TitleNumber};
use super::page_labels::PageLabels;
use super::section_candidate::SectionCandidate;
use super::titles;
use super::toc::{ContentsRow, TableOfContents};

// Larger outlines list figures or words instead of sections.
const OUTLINE_ENTRIES: usize = 5_000;
// Absorbs the jitter of text positions, in points.
const INDENT_JITTER: f32 = 3.0;

/// Whether a row is only a date, or the name of the company above its contents.
fn is_caption(entry: &ContentsRow) -> bool {
    let placed = entry.label.is_some() || entry.target.is_some();
    false_headings::is_date_line(&entry.title) || (!placed && titles::is_company_name(&entry.title))
}

/// The candidates of a table of contents. Labels are looked up inside `pages` (from 0).
pub(super) fn candidates_from_toc(
    contents: &TableOfContents,
    form: Option<SecForm>,
    labels: &PageLabels,
    pages: Range<u32>,
) -> Vec<SectionCandidate> {
    let mut part = None;
    let mut candidates: Vec<SectionCandidate> = Vec::with_capacity(contents.entries.len());
    let entries: Vec<_> = contents
        .entries
        .iter()
        .filter(|entry| !is_caption(entry))
        .collect();
    for entry in &entries {
        let evidence = if entry.target.is_some() {
            EvidenceSource::ContentsLinks
        } else {
            EvidenceSource::PrintedContents
        };
        let mut candidate = SectionCandidate::new(&entry.title, evidence);
        candidate.printed = entry.printed.clone();
        candidate.target = entry.target;
        candidate.predicted = entry
            .label
            .as_ref()
            .and_then(|label| labels.page_of(label, pages.clone()));
        candidate.keys = form.and_then(|form| form.keys_of(&entry.title, part));
        if let (Some(form), Some((key, _))) = (form, candidate.keys) {
            part = Some(form.items()[key].part);
        }
        candidates.push(candidate);
    }
    inherit_places(&mut candidates);
    let mut ranks: Vec<EntryRank<'_>> = entries
        .iter()
        .zip(&candidates)
        .map(|(entry, candidate)| entry_rank(entry, candidate, form))
        .collect();
    raise_behind_closing(&mut ranks);
    let levels = levels(&ranks);
    candidates
        .iter_mut()
        .zip(levels)
        .for_each(|(candidate, level)| candidate.level = level);
    candidates
}

/// Gives a row without label and link (a group, an Item with sub-entries) the page of the next row.
fn inherit_places(candidates: &mut [SectionCandidate]) {
    for at in (0..candidates.len().saturating_sub(1)).rev() {
        if candidates[at].target.is_none() && candidates[at].predicted.is_none() {
            candidates[at].predicted = candidates[at + 1].page();
        }
    }
}

/// Properties that decide the level of a contents row.
struct EntryRank<'a> {
    rank: u8,
    indent: f32,
    bold: bool,
    number: Option<TitleNumber<'a>>,
    /// Never has children: statements behind the signatures are siblings of them.
    leaf: bool,
}

// In a filing the form decides the upper levels, since contents print PARTs, Items and signatures at any indent: PART 0,
// Item 1, closing sections 0. All other rows have rank 2 and nest by number and indent.
fn entry_rank<'a>(
    entry: &'a ContentsRow,
    candidate: &SectionCandidate,
    form: Option<SecForm>,
) -> EntryRank<'a> {
    let number = numbering::first_number(&entry.title);
    let closing = titles::is_closing(&candidate.prepared.full);
    let rank = match (form, candidate.keys) {
        (Some(form), Some((key, _))) if form.items()[key].tag.is_none() => 0,
        (Some(_), Some(_)) => 1,
        (Some(_), None) if closing => 0,
        _ => 2,
    };
    // The left edge of a centered row depends on its length and says nothing about its depth.
    let indent = if entry.centered && entry.label.is_none() && rank == 2 && number.is_none() {
        0.0
    } else {
        entry.indent
    };
    EntryRank {
        rank,
        indent,
        bold: entry.bold,
        number,
        leaf: closing && form.is_some(),
    }
}

// Statements on F-pages are listed behind the signatures. They are siblings of the PARTs, unless they are indented below the
// signatures; a new PART or Item ends the rule.
fn raise_behind_closing(kinds: &mut [EntryRank<'_>]) {
    let mut closed: Option<f32> = None;
    for kind in kinds {
        match closed {
            _ if kind.leaf => closed = Some(kind.indent),
            _ if kind.rank < 2 => closed = None,
            Some(indent) if kind.indent <= indent + INDENT_JITTER => kind.rank = 0,
            _ => {}
        }
    }
}

/// Levels from rank, indent and numbering, with one stack.
fn levels(kinds: &[EntryRank<'_>]) -> Vec<u16> {
    let mut stack: Vec<usize> = Vec::new();
    let mut levels = Vec::with_capacity(kinds.len());
    for (at, kind) in kinds.iter().enumerate() {
        while let Some(top) = stack.last() {
            if is_under(kind, &kinds[*top]) {
                break;
            }
            stack.pop();
        }
        levels.push(u16::try_from(stack.len() + 1).unwrap_or(u16::MAX));
        stack.push(at);
    }
    levels
}

// Order of evidence: rank in the form, then classes of numbers, then indent, then weight. Numbers come before indent
// because scanned and centered contents have unreliable indents. Twelve points are a deliberate indent.
fn is_under(kind: &EntryRank<'_>, above: &EntryRank<'_>) -> bool {
    if above.leaf || kind.rank != above.rank {
        return !above.leaf && kind.rank > above.rank;
    }
    if kind.rank < 2 {
        return false;
    }
    if let (Some(own), Some(other)) = (kind.number, above.number) {
        match (own.class, other.class) {
            (NumberClass::Decimal(a), NumberClass::Decimal(b)) => return a > b,
            (a, b) if a == b => return false,
            (
                NumberClass::Section,
                NumberClass::Article | NumberClass::Chapter | NumberClass::Part,
            ) => return true,
            // A centered `ARTICLE II` is further right than the sections of the article above it.
            (
                NumberClass::Article | NumberClass::Chapter | NumberClass::Part,
                NumberClass::Section | NumberClass::Decimal(_),
            ) => {
                return false;
            }
            (
                NumberClass::Article
                | NumberClass::Chapter
                | NumberClass::Part
                | NumberClass::Exhibit
                | NumberClass::Schedule
                | NumberClass::Appendix,
                _,
            ) => {
                return kind.indent > above.indent + 12.0;
            }
            (NumberClass::Decimal(2..), NumberClass::Chapter | NumberClass::Appendix) => {
                return true;
            }
            (NumberClass::CjkSection | NumberClass::CjkList, NumberClass::CjkChapter) => {
                return true;
            }
            (NumberClass::CjkList, NumberClass::CjkSection) => return true,
            _ => {}
        }
    }
    let deeper = kind.indent > above.indent + INDENT_JITTER;
    // In one column, a plain row below a bold one belongs to it, unless only one of them is numbered.
    let same_column = (kind.indent - above.indent).abs() <= INDENT_JITTER;
    deeper
        || (same_column
            && above.bold
            && !kind.bold
            && kind.number.is_none() == above.number.is_none())
}

/// The candidates of the embedded outline without junk titles, with the levels of the outline.
pub(super) fn candidates_from_outline(
    outline: &[OutlineItem],
    form: Option<SecForm>,
) -> Vec<SectionCandidate> {
    let mut part = None;
    let mut candidates = Vec::new();
    for item in outline.iter().take(OUTLINE_ENTRIES) {
        let mut candidate = SectionCandidate::new(&item.title, EvidenceSource::EmbeddedOutline);
        if is_junk(&candidate) {
            continue;
        }
        candidate.level = item.level.max(1);
        candidate.target = item.target;
        candidate.keys = form.and_then(|form| form.keys_of(&candidate.title, part));
        if let (Some(form), Some((key, _))) = (form, candidate.keys) {
            part = Some(form.items()[key].part);
        }
        candidates.push(candidate);
    }
    reorder(&mut candidates);
    candidates
}

/// Whether the title is the name of a file, slide or page, which programs write into outlines.
fn is_junk(candidate: &SectionCandidate) -> bool {
    let key = candidate.prepared.full.as_str();
    let lower = candidate.title.to_lowercase();
    let word = key.trim_end_matches(|c: char| c.is_ascii_digit());
    word.is_empty()
        || PROGRAM_TITLES.contains(word)
        || FILE_ENDINGS.ends(&lower)
        || !key.chars().any(char::is_alphabetic)
}

// The chain needs candidates in reading order. Some programs write the outline backwards or in order of creation; if more
// than a third of its steps go back, it is sorted by page. Its levels meant the old order and are dropped.
fn reorder(candidates: &mut [SectionCandidate]) {
    let pages: Vec<u32> = candidates
        .iter()
        .filter_map(SectionCandidate::target_page)
        .collect();
    let falling = pages.windows(2).filter(|pair| pair[1] < pair[0]).count();
    if falling * 3 > pages.len() && pages.len() == candidates.len() {
        candidates.sort_by_key(|candidate| candidate.page());
        candidates
            .iter_mut()
            .for_each(|candidate| candidate.level = 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(title: &str, indent: f32, bold: bool) -> ContentsRow {
        let title = title.to_string();
        ContentsRow {
            title,
            label: None,
            printed: None,
            target: None,
            indent,
            bold,
            centered: false,
            rows: (0, 0),
        }
    }

    fn levels_of(rows: &[(&str, f32, bool)], form: Option<SecForm>) -> Vec<u16> {
        let entries = rows
            .iter()
            .map(|(title, indent, bold)| entry(title, *indent, *bold))
            .collect();
        let contents = TableOfContents {
            title: None,
            entries,
            rows: (0, 0),
        };
        candidates_from_toc(&contents, form, &PageLabels::default(), 0..9)
            .iter()
            .map(|claim| claim.level)
            .collect()
    }

    #[test]
    fn filing_contents_nest_by_form() {
        let rows = [
            ("PART I", 20.0, false),
            ("1. Business", 20.0, false),
            ("Competition", 40.0, false),
            ("1A. Risk Factors", 20.0, false),
            ("PART II", 20.0, false),
            (
                "Item 8. Financial Statements and Supplementary Data",
                20.0,
                false,
            ),
            ("Signatures", 20.0, false),
        ];
        assert_eq!(
            levels_of(&rows, Some(SecForm::Annual)),
            [1, 2, 3, 2, 1, 2, 1]
        );
    }

    #[test]
    fn contents_nest_by_indent_and_number() {
        let rows = [
            ("I. Introduction", 72.0, true),
            ("A. Scope", 90.0, false),
            ("1. Fees", 108.0, false),
            ("II. Costs", 72.0, true),
        ];
        assert_eq!(levels_of(&rows, None), [1, 2, 3, 1]);
        let flush = [
            ("1 Glance", 72.0, false),
            ("1.1 Types", 72.0, false),
            ("2 Modules", 72.0, false),
            ("Files", 72.0, false),
        ];
        assert_eq!(levels_of(&flush, None), [1, 2, 1, 1]);
        let articles = [
            ("ARTICLE I Definitions", 72.0, false),
            ("SECTION 1.01 Terms", 72.0, false),
            ("ARTICLE II Credits", 72.0, false),
        ];
        assert_eq!(levels_of(&articles, None), [1, 2, 1]);
    }

    #[test]
    fn slides_and_files_are_junk() {
        let junk = |title: &str| {
            is_junk(&SectionCandidate::new(
                title,
                EvidenceSource::EmbeddedOutline,
            ))
        };
        assert!(
            ["Slide 4", "Page 12", "report_v3.docx", "17", "Untitled"]
                .into_iter()
                .all(junk)
        );
        assert!(!junk("Risk Factors") && !junk("第一章 总则") && !junk("Page Industries"));
    }
}

//! Verifies where an Item starts and ends: its own heading and the next one are compared with the lines at their places.

use stemma_document::{
    Boundary, BoundaryEvidence, Section, SectionKind, SectionSpan, SectionTree, Source, text,
};

use super::item_text::truncate_text;
use crate::structure::form_items::title_similarity;

// A heading may wrap over this many lines.
const HEADING_LINES: usize = 4;
// Lower than for locating titles: the place is known, and only a wrong one must be recognized.
const MIN_SIMILARITY: f32 = 0.5;

/// Evidence for the heading of a section and for the next heading.
pub(super) fn find_boundary(
    section: &Section,
    next: Option<&Section>,
    source: &Source,
) -> Boundary {
    let next = next.map(|next| heading_evidence(next, source));
    Boundary {
        heading: heading_evidence(section, source),
        next,
    }
}

/// Whether both headings were found.
pub(super) fn is_verified(boundary: &Boundary) -> bool {
    boundary.heading.verified && boundary.next.as_ref().is_none_or(|next| next.verified)
}

/// The first section after the descendants of `section`.
// A PART that was added from the form has no heading of its own and starts at its first Item, so that Item is the next
// heading.
pub(super) fn next_section<'t>(tree: &'t SectionTree, section: &Section) -> Option<&'t Section> {
    let mut last = section;
    while let Some(child) = last.children.last() {
        last = child;
    }
    let mut next = tree.section(stemma_document::SectionId(last.id.0 + 1))?;
    while let Some(child) = next
        .children
        .first()
        .filter(|child| !next.verified && start(child.span) == start(next.span))
    {
        next = child;
    }
    Some(next)
}

fn start(span: SectionSpan) -> (u32, u32) {
    match span {
        SectionSpan::Pages { from, .. } => (from.page.get(), from.line),
        SectionSpan::Lines { start, .. } => (start, 0),
    }
}

fn heading_evidence(section: &Section, source: &Source) -> BoundaryEvidence {
    let lines = text::own_lines(section, &source.body);
    let heading: Vec<_> = lines
        .iter()
        .filter(|line| !line.text.trim().is_empty())
        .take(HEADING_LINES)
        .collect();
    let mut joined = String::new();
    let stands = heading.iter().any(|line| {
        joined.push_str(
            line.text
                .get(..line.text.floor_char_boundary(400))
                .unwrap_or_default(),
        );
        joined.push(' ');
        title_similarity(&joined, &section.title) >= MIN_SIMILARITY
    });
    let (page, line) = match section.span {
        SectionSpan::Pages { from, .. } => (Some(from.page), from.line + 1),
        SectionSpan::Lines { start, .. } => (None, start),
    };
    BoundaryEvidence {
        text: heading
            .first()
            .map(|line| truncate_text(line.text))
            .unwrap_or_default(),
        page,
        line: heading.first().map_or(line, |first| first.number),
        verified: section.verified && section.kind == SectionKind::Heading && stands,
    }
}

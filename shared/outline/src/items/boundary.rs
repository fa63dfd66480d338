//! Verifies where an Item starts and ends: its own heading and the next one are compared with the lines at their places.

use std::collections::BTreeMap;

use stemma_document::{
    Boundary, BoundaryEvidence, PageNo, Section, SectionId, SectionKind, SectionSpan, SectionTree,
    Source, text,
};

use super::item_text::truncate_text;
use super::match_sections::{ItemSection, last_id};
use crate::structure::form_items;
use crate::structure::forms::{FormItem, SecForm};
use crate::structure::titles::similarity;

// A heading may wrap over this many lines.
const HEADING_LINES: usize = 4;
// Lower than for locating titles: the place is known, and only a wrong one must be recognized.
const MIN_SIMILARITY: f32 = 0.5;
// A line of an Item that is as similar to the title of another is its heading, and no sentence that mentions it.
const MIN_OTHER_SIMILARITY: f32 = 0.8;
const MAX_HEADING_BYTES: usize = 250;
// Longer lines that end without a stop go on in the next: in `Item 1A. Risk Factors`, for example.
const MAX_SHORT_WORDS: usize = 8;

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
    let mut next = tree.section(SectionId(last_id(section).0 + 1))?;
    while let Some(child) = next
        .children
        .first()
        .filter(|child| !next.verified && start(child.span) == start(next.span))
    {
        next = child;
    }
    Some(next)
}

pub(super) struct FormItems<'a> {
    pub(super) form: SecForm,
    pub(super) places: &'a BTreeMap<usize, ItemSection<'a>>,
}

impl FormItems<'_> {
    fn is_other_heading(
        &self,
        entry: &FormItem,
        sections: &[&Section],
        line: &text::BodyLine<'_>,
    ) -> bool {
        let other = self
            .form
            .item_keys_of(line.text, Some(entry.part))
            .filter(|(first, last)| first == last && *first != entry.key)
            .filter(|(key, _)| !self.begins_behind(*key, sections, line.page))
            .map(|(key, _)| &self.form.items()[key]);
        other
            .zip(form_items::item_title(line.text))
            .is_some_and(|(other, title)| similarity(&title, other.title()) >= MIN_OTHER_SIMILARITY)
    }

    // Whether an Item begins on the page, outside of these sections, which follow each other.
    fn begins_behind(&self, key: usize, sections: &[&Section], page: Option<PageNo>) -> bool {
        let ids = sections.first().zip(sections.last());
        self.places.get(&key).is_some_and(|place| {
            let section = place.section;
            let (first, _) = start(section.span);
            page.is_some_and(|page| page.get() == first)
                && !ids.is_some_and(|(first, last)| (first.id..=last.id).contains(&section.id))
        })
    }
}

/// Whether a line of an Item is the heading of another Item of the form, with its number and title: the Item ends before it,
/// although the tree goes on.
// A running head names the Item that begins on its page.
pub(super) fn holds_other_item(
    items: &FormItems<'_>,
    entry: &FormItem,
    sections: &[&Section],
    source: &Source,
) -> bool {
    sections.iter().any(|section| {
        let lines = text::own_lines(section, &source.body);
        let mut before = "";
        lines.iter().any(|line| {
            let text = line.text.trim();
            let is_start = before.ends_with(['.', ':', ';', '?', '!'])
                || before.split_whitespace().count() <= MAX_SHORT_WORDS;
            if !text.is_empty() {
                before = text;
            }
            is_start
                && text.len() <= MAX_HEADING_BYTES
                && items.is_other_heading(entry, sections, line)
        })
    })
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
    let is_printed = heading.iter().any(|line| {
        joined.push_str(
            line.text
                .get(..line.text.floor_char_boundary(400))
                .unwrap_or_default(),
        );
        joined.push(' ');
        similarity(&joined, &section.title) >= MIN_SIMILARITY
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
        verified: section.verified && section.kind == SectionKind::Heading && is_printed,
    }
}

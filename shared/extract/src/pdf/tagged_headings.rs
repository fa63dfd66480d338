//! Headings that the tags of a file declare (ISO 32000-2, 14.8.4.3): the outline of a file without bookmarks.
//!
//! Programs also tag at random, so tags that contradict the look of the pages are not used.

use std::collections::{BTreeMap, HashMap};

use hayro_syntax::Pdf;
use hayro_syntax::object::ObjRef;
use stemma_document::{Destination, Emphasis, Line, OutlineItem, Page, PageNo, Pt, Rect};

use super::page_box::PageBox;
use super::structure_elements::StructureElements;
use crate::Limits;

// Longer ones are text.
const MAX_TITLE_BYTES: usize = 500;
// In half points: how much smaller a heading may be than the headings below it.
const SIZE_TOLERANCE: u32 = 1;
// Lines of a document for each heading, at least.
const LINES_PER_HEADING: usize = 3;

/// Where marked content lies on the displayed page: around the origins of its glyphs.
#[derive(Debug, Clone, Copy)]
pub(super) struct MarkedBox {
    pub(super) mcid: u32,
    pub(super) bounds: PageBox,
}

struct TaggedHeading {
    element: ObjRef,
    level: u16,
    page: PageNo,
    title: String,
    lines: Vec<(Look, Pt)>,
}

// What tells headings from text. Sizes are in half points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Look {
    size: u32,
    bold: bool,
    emphasis: Emphasis,
}

impl Look {
    fn from_line(line: &Line) -> Self {
        let style = line.style();
        Self {
            size: (style.size.points() + style.size.points()).round() as u32,
            bold: style.bold,
            emphasis: style.emphasis,
        }
    }
}

/// Returns the tagged headings in page order, unless they contradict the look of the pages.
pub(super) fn read_tagged_headings(
    pdf: &Pdf,
    pages: &[Page],
    marked: &[Vec<MarkedBox>],
    limits: &Limits,
) -> Vec<OutlineItem> {
    let mut headings: Vec<TaggedHeading> = Vec::new();
    for ((index, page), marked) in pages.iter().enumerate().zip(marked) {
        let Some(pdf_page) = pdf.pages().get(index).filter(|_| !marked.is_empty()) else {
            continue;
        };
        let elements = StructureElements::for_page(pdf_page);
        for part in marked {
            if let Some((element, level)) = elements.heading(part.mcid) {
                let room = limits.max_outline_items as usize;
                add_part(
                    &mut headings,
                    (element, level),
                    page,
                    PageNo::from_index(index),
                    part,
                );
                if headings.len() > room {
                    return Vec::new();
                }
            }
        }
    }
    headings.retain(|heading| !heading.title.is_empty());
    if !agree_with_look(&headings, pages) {
        return Vec::new();
    }
    headings
        .into_iter()
        .map(|heading| OutlineItem {
            title: heading.title,
            level: heading.level,
            target: Some(Destination {
                page: heading.page,
                y: heading.lines.first().map(|(_, y)| *y),
            }),
        })
        .collect()
}

// Adds the words of a part of a heading. Its parts follow each other.
fn add_part(
    headings: &mut Vec<TaggedHeading>,
    (element, level): (ObjRef, u16),
    page: &Page,
    number: PageNo,
    part: &MarkedBox,
) {
    if headings.last().is_none_or(|last| last.element != element) {
        headings.push(TaggedHeading {
            element,
            level,
            page: number,
            title: String::new(),
            lines: Vec::new(),
        });
    }
    let Some(heading) = headings.last_mut() else {
        return;
    };
    let PageBox { x0, y0, x1, y1 } = part.bounds;
    let bounds = page.as_read(Rect::new(x0, y0, x1, y1));
    let on_page = page.lines.iter().filter(|line| {
        line.rect.y0 <= bounds.y1 && bounds.y0 <= line.rect.y1 && !line.is_furniture()
    });
    for line in on_page {
        let words = line
            .words
            .iter()
            .filter(|word| word.x0 <= bounds.x1 && bounds.x0 <= word.x1)
            .filter_map(|word| line.text.get(word.start as usize..word.end as usize));
        let mut is_part = false;
        for word in words {
            is_part = true;
            if heading.title.len() + word.len() <= MAX_TITLE_BYTES + 1 {
                if !heading.title.is_empty() {
                    heading.title.push(' ');
                }
                heading.title.push_str(word);
            }
        }
        if is_part {
            heading.lines.push((Look::from_line(line), line.rect.y0));
        }
    }
}

// Tags are right about looks if a heading is no larger than those above it, if most lines of a look that text does not
// have are tagged, and if text is not.
fn agree_with_look(headings: &[TaggedHeading], pages: &[Page]) -> bool {
    let mut lines: HashMap<Look, usize> = HashMap::new();
    let mut bytes: BTreeMap<Look, usize> = BTreeMap::new();
    for line in pages.iter().flat_map(|page| &page.lines) {
        if !line.is_furniture() {
            *lines.entry(Look::from_line(line)).or_default() += 1;
            *bytes.entry(Look::from_line(line)).or_default() += line.text.len();
        }
    }
    let text = bytes.iter().max_by_key(|(_, bytes)| **bytes);
    let text = text.map(|(look, _)| *look);
    let mut tagged: BTreeMap<Look, usize> = BTreeMap::new();
    let mut levels: BTreeMap<u16, Vec<Look>> = BTreeMap::new();
    for heading in headings {
        for (look, _) in &heading.lines {
            *tagged.entry(*look).or_default() += 1;
        }
        let look = heading.lines.first().map(|(look, _)| *look);
        levels.entry(heading.level).or_default().extend(look);
    }
    let all: usize = lines.values().sum();
    let is_sparse = tagged.values().sum::<usize>() * LINES_PER_HEADING <= all;
    let is_short = headings
        .iter()
        .all(|heading| heading.title.len() <= MAX_TITLE_BYTES);
    let looks = || tagged.iter().filter(|(look, _)| Some(**look) != text);
    let own: usize = looks().map(|(_, count)| count).sum();
    let alike: usize = looks().filter_map(|(look, _)| lines.get(look)).sum();
    let sizes: Vec<u32> = levels.into_values().filter_map(middle_size).collect();
    let is_ordered = sizes
        .windows(2)
        .all(|pair| pair[0] + SIZE_TOLERANCE >= pair[1]);
    is_sparse && is_short && is_ordered && own * 2 >= alike
}

fn middle_size(mut looks: Vec<Look>) -> Option<u32> {
    looks.sort_unstable();
    looks.get(looks.len() / 2).map(|look| look.size)
}

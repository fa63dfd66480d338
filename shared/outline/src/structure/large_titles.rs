//! Ranks of titles that are larger than the sections, in documents that are not filings: as the highest headings they would hold
//! the whole document.

use std::collections::{BTreeMap, BTreeSet};

use stemma_reading::heading_look::LARGER;

use super::heading_candidate::Document;
use super::heading_style::{HeadingStyle, style_of};
use super::line_features::LineTable;
use super::outline_head::{LAYOUT_RANK, OutlineHead};
use super::weights::{MIN_CAPTIONS, MOST, PAGE_TOP};

// No section can hold most of the document more than a few times over.
const MAX_WRAPPERS: usize = 4;
/// Below every heading: a lone title never holds sections.
const LONE_RANK: u32 = u32::MAX / 2;

/// Lowers titles that are larger than all sections and are on one page only.
// As the highest sections they would hold everything up to the end. At the top of a page such a title is the one of a
// chapter, or of the report: a sibling of the sections, and a leaf on a title page. Elsewhere it is a slogan or a word of a figure: a leaf.
pub(super) fn lower_lone_titles(heads: &mut [OutlineHead], document: &Document<'_>) {
    let lines = document.lines;
    let size = |head: &OutlineHead| lines.rows[head.rows.0].size;
    // By look: the pages, the size, the highest rank and the headings.
    let mut looks: BTreeMap<HeadingStyle, (BTreeSet<u32>, f32, u32, usize)> = BTreeMap::new();
    for head in heads.iter().filter(|head| head.rank >= LAYOUT_RANK - 1) {
        let own = (BTreeSet::new(), size(head), head.rank, 0);
        let look = looks.entry(look_of(lines, head)).or_insert(own);
        look.0.insert(lines.rows[head.rows.0].page);
        look.2 = look.2.min(head.rank);
        look.3 += 1;
    }
    let largest = looks
        .values()
        .filter(|look| look.0.len() >= MIN_CAPTIONS)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((_, sections, rank, _)) = largest.cloned() else {
        return;
    };
    for (at, head) in heads.iter_mut().enumerate() {
        let row = &lines.rows[head.rows.0];
        let is_lone = looks
            .get(&look_of(lines, head))
            .is_some_and(|look| look.3 == 1);
        let is_larger = row.size > sections + LARGER && !style_of(lines, row).is_numbered();
        // A headline ranks above all headings found by layout (ADR 0008).
        if !(head.rank >= LAYOUT_RANK - 1 && is_lone && is_larger) {
            continue;
        }
        let on_page = lines.rows_on(row.page as usize);
        let is_title_page = lines.rows[on_page.clone()].iter().all(|row| !row.prose);
        if head.rows.0 < on_page.start + PAGE_TOP {
            head.leaf = is_title_page;
            head.rank = rank;
        } else {
            head.leaf = true;
            head.rank = if at > 0 { LONE_RANK } else { head.rank };
        }
    }
}

/// Gives a rank at which one heading holds most of the others to the headings inside it.
// `About us` and `Acknowledgments` may be set larger than the sections between them, or the title of a brochure larger than
// everything. A level of chapters divides the document.
pub(super) fn flatten_wrappers(heads: &mut [OutlineHead], document: &Document<'_>) {
    let lines = document.lines;
    for _ in 0..MAX_WRAPPERS {
        let ranks: BTreeSet<u32> = heads.iter().map(|head| head.rank).collect();
        let wrapper = ranks
            .into_iter()
            .filter(|rank| *rank >= LAYOUT_RANK)
            .take(MAX_WRAPPERS)
            .find_map(|rank| Some((rank, rank_inside(lines, heads, rank)?)));
        let Some((rank, inside)) = wrapper else {
            return;
        };
        heads
            .iter_mut()
            .filter(|head| head.rank == rank)
            .for_each(|head| head.rank = inside);
    }
}

/// The highest rank inside an unnumbered heading of `rank` that holds most headings of the document.
fn rank_inside(lines: &LineTable<'_>, heads: &[OutlineHead], rank: u32) -> Option<u32> {
    let mut start = 0;
    for at in 0..=heads.len() {
        if heads.get(at).is_some_and(|head| head.rank > rank) {
            continue;
        }
        let inside = heads.get(start + 1..at).unwrap_or_default();
        let row = |at: usize| heads.get(at).map_or(lines.rows.len(), |head| head.rows.0);
        let holds_headings = inside.len() as f32 > MOST * heads.len() as f32;
        let holds_text = (row(at) - row(start)) as f32 > MOST * lines.rows.len() as f32;
        let is_wrapper = (holds_headings || holds_text)
            && !inside.is_empty()
            && heads[start].rank == rank
            && !heads[start].leaf
            && !style_of(lines, &lines.rows[heads[start].rows.0]).is_numbered();
        let highest = inside.iter().min_by_key(|head| head.rank);
        let highest = highest.filter(|head| {
            // Small headings are not those of chapters, so one chapter may have most of them.
            is_wrapper && lines.body.is_large(lines.rows[head.rows.0].size)
        });
        if let Some(head) = highest {
            return Some(head.rank);
        }
        start = at;
    }
    None
}

fn look_of(lines: &LineTable<'_>, head: &OutlineHead) -> HeadingStyle {
    style_of(lines, &lines.rows[head.rows.0]).unplaced()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line, outline_of};

    fn titles(doc: &Doc) -> Vec<(u16, String)> {
        outline_of(doc)
            .into_iter()
            .map(|entry| (entry.1, entry.2))
            .collect()
    }

    const SECTIONS: [&str; 4] = ["Findings", "Adoption", "Barriers", "Methods"];

    #[test]
    fn lone_slogan_holds_no_sections() {
        let mut doc = Doc::new(5);
        for (page, title) in SECTIONS.iter().enumerate() {
            doc.section(page + 1, title);
        }
        doc.add(2, line("Growing together").size(30.0));
        doc.prose(2, 10.0, 6);
        let all = [
            (1, "Findings"),
            (1, "Adoption"),
            (2, "Growing together"),
            (1, "Barriers"),
            (1, "Methods"),
        ];
        assert_eq!(
            titles(&doc),
            all.map(|(level, title)| (level, title.to_string()))
        );
    }

    #[test]
    fn lone_chapter_at_the_top_of_a_page_is_a_sibling() {
        let mut doc = Doc::new(5);
        doc.add(0, line("Report of the Directors").size(30.0));
        doc.prose(0, 10.0, 6);
        for (page, title) in SECTIONS.iter().enumerate() {
            doc.section(page + 1, title);
        }
        let levels: Vec<u16> = titles(&doc).iter().map(|entry| entry.0).collect();
        assert_eq!(levels, [1; 5]);
    }

    #[test]
    fn headings_of_front_and_end_matter_do_not_hold_the_sections() {
        let mut doc = Doc::new(6);
        doc.add(0, line("About the Institute").size(18.0).bold());
        doc.prose(0, 10.0, 6);
        for (page, title) in SECTIONS.iter().enumerate() {
            doc.section(page + 1, title);
        }
        doc.add(5, line("Acknowledgments").size(18.0).bold());
        doc.prose(5, 10.0, 6);
        let levels: Vec<u16> = titles(&doc).iter().map(|entry| entry.0).collect();
        assert_eq!(levels, [1; 6]);
    }

    #[test]
    fn chapters_hold_their_sections() {
        let mut doc = Doc::new(6);
        for (page, title) in ["Findings", "Methods"].iter().enumerate() {
            doc.add(3 * page, line(title).size(18.0).bold());
            doc.prose(3 * page, 10.0, 6);
            for section in 1..3 {
                doc.section(3 * page + section, &format!("{title} of Group {section}"));
            }
        }
        let levels: Vec<u16> = titles(&doc).iter().map(|entry| entry.0).collect();
        assert_eq!(levels, [1, 2, 2, 1, 2, 2]);
    }

    #[test]
    fn looks_that_hardly_differ_are_one_level() {
        let mut doc = Doc::new(4);
        for (page, title) in SECTIONS.iter().enumerate() {
            let size = if page == 1 { 14.5 } else { 14.0 };
            doc.add(page, line(title).size(size).bold());
            doc.prose(page, 10.0, 8);
        }
        assert_eq!(titles(&doc), SECTIONS.map(|title| (1, title.to_string())));
    }
}

//! Notes and accounting policies that a filing tags as text blocks (inline XBRL). Where a block begins with a line that looks like
//! a heading, or right below it, the line is the heading of a section. A block alone gives no title.

use std::collections::BTreeSet;

use stemma_document::{Page, Source};

use super::heading_candidate::HeadingCandidate;
use super::line_features::LineTable;
use super::outline_head::OutlineHead;

// Offsets in the file, separated by spaces.
const KEY: &str = "tags.text_blocks";
// A filing has some hundred blocks.
const MAX_BLOCKS: usize = 10_000;

/// The first rows of text blocks.
#[derive(Debug, Default)]
pub(super) struct BlockStarts(BTreeSet<usize>);

impl BlockStarts {
    pub(super) fn new(source: &Source, pages: &[Page], lines: &LineTable<'_>) -> Self {
        let Some(offsets) = source.metadata.get(KEY) else {
            return Self::default();
        };
        // End of the visible text of each row in the file, and the greatest one up to there: rows of tables overlap.
        let mut ends = Vec::with_capacity(lines.rows.len());
        let mut reach = 0;
        for row in &lines.rows {
            let page = &pages[row.page as usize];
            let line = page.lines.get(row.line as usize);
            reach = line
                .and_then(|line| line.bytes)
                .map_or(reach, |bytes| bytes.end.max(reach));
            ends.push(reach);
        }
        let offsets = offsets.split(' ').take(MAX_BLOCKS);
        let rows = offsets
            .filter_map(|offset| offset.parse::<u32>().ok())
            .map(|offset| ends.partition_point(|end| *end <= offset))
            // In a submission the blocks of another document are before the first row or behind the last.
            .filter(|row| (1..lines.rows.len()).contains(row));
        Self(rows.collect())
    }

    /// Which of the headings that the budget left out are those of blocks.
    // The budget says how deep headings go that only look like ones. These are declared, so each counts by itself.
    pub(super) fn declared_headings(
        &self,
        heads: &[OutlineHead],
        left_out: &[&HeadingCandidate],
    ) -> Vec<bool> {
        let taken: BTreeSet<usize> = heads.iter().map(|head| head.rows.0).collect();
        left_out
            .iter()
            .map(|heading| {
                let (first, last) = heading.rows;
                !taken.contains(&first) && self.0.range(first..=last + 1).next().is_some()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::{ByteSpan, SourceBody};

    use super::super::fixture::{Doc, line};
    use super::super::{StructureSettings, outline};
    use super::*;

    // Offset of a line of a page in the file.
    fn offset(page: usize, line: usize) -> usize {
        100_000 * (page + 1) + 1_000 * line
    }

    // Titles that the outline has of a filing with these blocks, without room for headings known by their look.
    fn titles(blocks: &[usize]) -> Vec<String> {
        let mut doc = Doc::new(4);
        doc.add(0, line("FORM 10-K").size(14.0).bold());
        doc.prose(0, 10.0, 20);
        for (page, item) in [
            (1, "Item 7. Management's Discussion and Analysis"),
            (2, "Item 8. Financial Statements"),
        ] {
            doc.add(page, line(item).bold());
            doc.prose(page, 10.0, 4);
        }
        for policy in ["Revenue", "Leases", "Inventories"] {
            doc.section(3, policy);
        }
        let mut source = doc.source();
        let SourceBody::Pages(pages) = &mut source.body else {
            panic!("no pages");
        };
        for (page, content) in pages.iter_mut().enumerate() {
            for (at, line) in content.lines.iter_mut().enumerate() {
                let start = offset(page, at) as u32;
                line.bytes = Some(ByteSpan {
                    start,
                    end: start + line.text.len() as u32,
                });
            }
        }
        let offsets: Vec<String> = blocks.iter().map(ToString::to_string).collect();
        source.metadata.insert(KEY.into(), offsets.join(" "));
        let settings = StructureSettings {
            nodes_per_page: 0.0,
            ..StructureSettings::default()
        };
        let draft = outline(&source, &settings).unwrap();
        let entries = draft.outline.entries().iter();
        let titles = entries.map(|entry| entry.located.entry.title.clone());
        let is_of_form = |title: &String| title.starts_with("Item") || title.starts_with("PART");
        titles.filter(|title| !is_of_form(title)).collect()
    }

    #[test]
    fn headings_where_blocks_begin_are_sections() {
        assert_eq!(titles(&[]), [""; 0]);
        // The tag is before the heading, or behind it.
        assert_eq!(
            titles(&[offset(3, 0) - 40, offset(3, 10) - 40]),
            ["Revenue", "Leases"]
        );
    }

    #[test]
    fn blocks_without_a_heading_give_no_section() {
        for block in [offset(3, 2), offset(3, 3) - 40, 12, usize::MAX] {
            assert_eq!(titles(&[block]), [""; 0], "{block}");
        }
    }
}

//! Where sections are in the file, for sources whose lines know their bytes.

use stemma_document::text::normalize_key;
use stemma_document::{
    ByteSpan, Page, Position, Section, SectionSpan, SectionTree, Source, SourceBody,
};

use stemma_reading::vocabulary::CONTENTS_LINKS;

use crate::structure::page_labels::is_page_number;

/// Sets the bytes of all sections: from the first character of their heading to the last of their text. Running heads and
/// feet at either end do not count.
pub(crate) fn set_section_bytes(tree: &mut SectionTree, source: &Source) {
    let SourceBody::Pages(pages) = &source.body else {
        return;
    };
    let has_bytes = pages
        .iter()
        .flat_map(|page| &page.lines)
        .any(|line| line.bytes.is_some());
    if !has_bytes {
        return;
    }
    let mut open: Vec<&mut Section> = tree.sections.iter_mut().collect();
    while let Some(section) = open.pop() {
        if let SectionSpan::Pages { from, to, .. } = section.span {
            section.bytes = bytes_between(pages, from, to);
        }
        open.extend(&mut section.children);
    }
}

/// The bytes of the lines from a position up to another, or to the end.
fn bytes_between(pages: &[Page], from: Position, to: Option<Position>) -> Option<ByteSpan> {
    let last = to.map_or(pages.len(), |to| to.page.index() + 1);
    let mut whole: Option<ByteSpan> = None;
    for (index, page) in pages.iter().enumerate().take(last).skip(from.page.index()) {
        let skipped = if index == from.page.index() {
            from.line as usize
        } else {
            0
        };
        let end = to
            .filter(|to| to.page.index() == index)
            .map_or(page.lines.len(), |to| to.line as usize);
        let lines = page.lines.iter().enumerate().take(end).skip(skipped);
        // A heading may be set like the running heads that repeat it.
        let lines = lines.filter(|(at, line)| {
            (index == from.page.index() && *at == skipped) || !line.is_furniture()
        });
        for (_, line) in lines {
            let Some(bytes) = line.bytes else { continue };
            // A foot that does not recur counts as text elsewhere. Here it would move the end.
            if whole.is_none() || !is_page_foot(&line.text) {
                whole = Some(whole.map_or(bytes, |whole| whole.union(bytes)));
            }
        }
    }
    whole
}

/// Whether a line is only a page number or a link back to the contents.
fn is_page_foot(line: &str) -> bool {
    let text = line.trim().trim_matches(['-', '–', '—', ' ']);
    let key = normalize_key(text.get(..40).unwrap_or(text));
    is_page_number(text) || CONTENTS_LINKS.contains(&key)
}

#[cfg(test)]
mod tests {
    use stemma_document::{Line, LineRole, PageNo, Pt};

    use stemma_reading::document_reading::DocumentReading;

    use super::*;
    use crate::structure::fixture::{Doc, line};
    use crate::{enrich, finish_tree, structure};

    #[test]
    fn sections_and_items_know_their_bytes() {
        let mut doc = Doc::new(4);
        doc.add(0, line("UNITED STATES SECURITIES AND EXCHANGE COMMISSION"));
        doc.add(0, line("FORM 10-K").bold());
        doc.section(1, "Item 1. Business");
        doc.section(2, "Item 1A. Risk Factors");
        doc.section(3, "Item 2. Properties");
        let mut source = doc.source();
        let tree = |source: &Source| {
            let draft = structure::outline(source, &Default::default()).unwrap();
            finish_tree(
                &draft,
                source,
                &DocumentReading::new(&source.body).lines,
                [],
                &enrich::SectionSettings::default(),
            )
        };
        assert!(tree(&source).items.iter().all(|item| item.bytes.is_none()));
        let SourceBody::Pages(pages) = &mut source.body else {
            panic!("no pages")
        };
        // Each line takes ten bytes of a hundred.
        let mut start = 0;
        for line in pages.iter_mut().flat_map(|page| &mut page.lines) {
            line.bytes = Some(ByteSpan {
                start,
                end: start + 10,
            });
            start += 100;
        }
        let places: Vec<(String, ByteSpan)> = {
            let tree = tree(&source);
            tree.items
                .iter()
                .filter_map(|item| Some((item.number.clone(), item.bytes?)))
                .collect()
        };
        let numbers: Vec<&str> = places.iter().map(|(number, _)| number.as_str()).collect();
        assert_eq!(numbers, ["1", "1A", "2"]);
        for pair in places.windows(2) {
            assert_eq!(pair[0].1.end + 90, pair[1].1.start);
        }
        assert_eq!(places[2].1.end + 90, start);
    }

    #[test]
    fn heading_that_is_set_like_running_heads_begins_its_section() {
        let line = |at: u32, role: LineRole| Line {
            text: format!("line {at}"),
            role,
            bytes: Some(ByteSpan {
                start: at * 100,
                end: at * 100 + 10,
            }),
            ..Line::default()
        };
        let page = |first: u32| Page {
            lines: vec![line(first, LineRole::Head), line(first + 1, LineRole::Body)],
            ..Page::default()
        };
        let from = |page: u32, line: u32| Position {
            page: PageNo::new(page).unwrap(),
            line,
            y: Pt::new(0.0),
        };
        // The head of the second page belongs to no section, unless one begins with it.
        for (start, bytes) in [
            (from(1, 0), (0, 310)),
            (from(1, 1), (100, 310)),
            (from(2, 0), (200, 310)),
        ] {
            let bytes = ByteSpan {
                start: bytes.0,
                end: bytes.1,
            };
            assert_eq!(bytes_between(&[page(0), page(2)], start, None), Some(bytes));
        }
        let head = bytes_between(&[page(0), page(2)], from(1, 1), Some(from(2, 1)));
        assert_eq!(
            head,
            Some(ByteSpan {
                start: 100,
                end: 110
            })
        );
    }
}

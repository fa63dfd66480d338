//! Outlines of submissions: each document is outlined by itself, and is a section of the top level.
//!
//! The reader lists the documents of a submission as the outline of its [`Source`]. Their structures are independent: an
//! exhibit has a table of contents, Items and numbering of its own.

use stemma_document::{
    Destination, DraftEntry, EntryVerdict, EvidenceSource, Extent, Gap, Link, LocatedEntry,
    OutlineError, OutlineItem, Page, PageNo, PageSpan, Position, Pt, SectionStart, Source,
    SourceBody, SourceFormat, VerifiedEntry, VerifiedOutline,
};

use super::{Draft, IndexRow};

/// The documents of a submission: title and pages (from 0, end exclusive). Empty for every other source.
pub(super) fn documents(source: &Source, pages: &[Page]) -> Vec<(String, std::ops::Range<usize>)> {
    if matches!(source.format, SourceFormat::Pdf | SourceFormat::Xml) {
        return Vec::new();
    }
    let starts: Vec<(usize, &OutlineItem)> = source
        .outline
        .iter()
        .filter(|item| item.level == 1)
        .filter_map(|item| Some((item.target.map(|target| target.page.index())?, item)))
        .collect();
    let ends = starts.iter().skip(1).map(|(start, _)| *start);
    let ends = ends.chain([pages.len()]);
    let documents = starts.iter().zip(ends);
    documents
        .map(|((start, item), end)| (item.title.clone(), *start..end))
        .filter(|(_, range)| range.start < range.end && range.end <= pages.len())
        .collect()
}

/// Calls `visit` with each document of a submission (or with the whole source) and the index of its first page.
///
/// # Errors
/// As `visit`.
pub fn visit_documents<E>(
    source: &Source,
    pages: &[Page],
    mut visit: impl FnMut(&Source, &[Page], usize) -> Result<(), E>,
) -> Result<(), E> {
    let documents = documents(source, pages);
    if documents.is_empty() {
        let source = source.to_the_right();
        return visit(&source, pages_of(&source), 0);
    }
    for (_, range) in documents {
        let part = document(source, pages, range.clone());
        visit(&part, &pages[range.clone()], range.start)?;
    }
    Ok(())
}

/// Outlines a source with pages by `outline_document`: each document of a submission by itself, below its title; anything else as
/// a whole.
///
/// # Errors
/// As `outline_document`.
pub fn outline_documents(
    source: &Source,
    pages: &[Page],
    mut outline_document: impl FnMut(&Source, &[Page]) -> Result<Draft, OutlineError>,
) -> Result<Draft, OutlineError> {
    let mut judged = Vec::new();
    let mut whole: Option<Draft> = None;
    for (title, range) in documents(source, pages) {
        let offset = PageOffset(range.start);
        judged.push(document_entry(title, range.start));
        let part = document(source, pages, range);
        let SourceBody::Pages(own) = &part.body else {
            continue;
        };
        let mut draft = outline_document(&part, own)?;
        judged.extend(
            draft
                .outline
                .entries()
                .iter()
                .map(|entry| offset.entry(entry)),
        );
        draft.gaps.iter_mut().for_each(|gap| offset.gap(gap));
        draft.cross_index.iter_mut().for_each(|row| offset.row(row));
        match &mut whole {
            // The primary document is first: its method and its index are those of the filing.
            None => whole = Some(draft),
            Some(whole) => {
                whole.labels.append(&mut draft.labels);
                whole.gaps.append(&mut draft.gaps);
            }
        }
    }
    let extent = Extent::Pages(u32::try_from(pages.len()).unwrap_or(u32::MAX));
    let outline = VerifiedOutline::new(extent, judged)?;
    match whole {
        Some(whole) => Ok(Draft { outline, ..whole }),
        None => {
            let source = source.to_the_right();
            outline_document(&source, pages_of(&source))
        }
    }
}

fn pages_of(source: &Source) -> &[Page] {
    match &source.body {
        SourceBody::Pages(pages) => pages,
        SourceBody::Lines(_) => &[],
    }
}

/// The source of one document alone.
pub(super) fn document(source: &Source, pages: &[Page], range: std::ops::Range<usize>) -> Source {
    let inside = |page: PageNo| range.contains(&page.index());
    let links = source
        .links
        .iter()
        .filter(|link| inside(link.page) && inside(link.target.page));
    let rebase = |page: PageNo| PageNo::from_index(page.index() - range.start);
    let links = links.map(|link| Link {
        page: rebase(link.page),
        target: Destination {
            page: rebase(link.target.page),
            ..link.target
        },
        ..link.clone()
    });
    let headings = source.outline.iter().filter_map(|item| {
        let target = item
            .target
            .filter(|target| item.level > 1 && inside(target.page))?;
        Some(OutlineItem {
            title: item.title.clone(),
            level: item.level - 1,
            target: Some(Destination {
                page: rebase(target.page),
                ..target
            }),
        })
    });
    Source {
        format: source.format,
        outline: headings.collect(),
        body: SourceBody::Pages(pages[range.clone()].to_vec()),
        links: links.collect(),
        metadata: source.metadata.clone(),
        defects: Vec::new(),
        hidden: Vec::new(),
        encrypted: false,
    }
}

// The envelope says where a document begins, so nothing has to be found on its page.
fn document_entry(title: String, first_page: usize) -> (LocatedEntry, EntryVerdict) {
    let page = PageNo::from_index(first_page);
    let entry = DraftEntry {
        number: None,
        title,
        label: None,
        target: Some(Destination { page, y: None }),
        level: 1,
        evidence: EvidenceSource::Markup,
    };
    let place = SectionStart::Page(Position {
        page,
        line: 0,
        y: Pt(0),
    });
    (
        LocatedEntry { entry, place },
        EntryVerdict::Confirmed { starts_page: true },
    )
}

// Moves what was found in a document to its pages in the submission.
#[derive(Debug, Clone, Copy)]
struct PageOffset(usize);

impl PageOffset {
    fn page(self, page: PageNo) -> PageNo {
        PageNo::from_index(page.index() + self.0)
    }

    fn span(self, span: PageSpan) -> PageSpan {
        PageSpan::between(self.page(span.start()), self.page(span.end()))
    }

    fn entry(self, entry: &VerifiedEntry) -> (LocatedEntry, EntryVerdict) {
        let mut located = entry.located.clone();
        located.entry.level = located.entry.level.saturating_add(1);
        if let Some(target) = &mut located.entry.target {
            target.page = self.page(target.page);
        }
        if let SectionStart::Page(position) = &mut located.place {
            position.page = self.page(position.page);
        }
        (located, entry.verdict)
    }

    fn gap(self, gap: &mut Gap) {
        gap.pages = gap.pages.map(|pages| self.span(pages));
    }

    fn row(self, row: &mut IndexRow) {
        for pages in &mut row.pages {
            *pages = self.span(*pages);
        }
        row.place.page = self.page(row.place.page);
    }
}

#[cfg(test)]
mod tests {
    use super::super::StructureSettings;
    use super::super::fixture::{Doc, line};
    use super::*;

    // Two documents of three pages with Items of their own.
    fn submission() -> Source {
        let mut doc = Doc::new(6);
        for page in 0..6 {
            doc.prose(page, 10.0, 10);
        }
        for (page, title) in [
            (0, "Item 1. Business"),
            (1, "Item 1A. Risk Factors"),
            (2, "Item 2. Properties"),
            (3, "Item 1. Scope of the agreement"),
            (5, "Item 2. Payment"),
        ] {
            doc.add(page, line(title).at(72.0, 30.0).bold());
        }
        let mut source = doc.source();
        source.format = SourceFormat::Html;
        source.outline = [(0, "10-K"), (3, "EX-10.1 AGREEMENT")]
            .into_iter()
            .map(|(page, title)| OutlineItem {
                title: title.into(),
                level: 1,
                target: Some(Destination {
                    page: PageNo::from_index(page),
                    y: None,
                }),
            })
            .collect();
        source
    }

    fn outline_lines(draft: &Draft) -> Vec<String> {
        let entries = draft.outline.entries().iter();
        let shown = entries.map(|entry| {
            let entry_at = &entry.located;
            let (page, _) = entry_at.place.reading_order();
            format!("{page} {} {}", entry_at.entry.level, entry_at.entry.title)
        });
        shown.collect()
    }

    #[test]
    fn documents_of_a_submission_are_outlined_one_by_one() {
        let source = submission();
        let draft = super::super::outline(&source, &StructureSettings::default()).unwrap();
        let shown = outline_lines(&draft);
        let top: Vec<&String> = shown.iter().filter(|entry| entry.contains(" 1 ")).collect();
        assert_eq!(top, ["1 1 10-K", "4 1 EX-10.1 AGREEMENT"]);
        assert!(
            shown.contains(&"2 2 Item 1A. Risk Factors".to_owned()),
            "{shown:?}"
        );
        assert_eq!(draft.labels.len(), 6);
    }

    #[test]
    fn documents_without_pages_are_left_out() {
        let mut source = submission();
        source.outline[1].target = source.outline[0].target;
        let SourceBody::Pages(pages) = &source.body else {
            panic!("no pages")
        };
        let found = documents(&source, pages);
        assert_eq!(found, [("EX-10.1 AGREEMENT".to_owned(), 0..6)]);
        source.format = SourceFormat::Pdf;
        assert!(documents(&source, pages).is_empty());
    }
}

//! Hand-made sources and trees for the tests of this folder.

use std::collections::BTreeMap;

use stemma_document::{
    DraftEntry, Emphasis, EntryVerdict, EvidenceSource, Line, LineRole, LocatedEntry, Method, Page,
    PageLabel, PageNo, Position, Pt, Rect, SectionStart, SectionTree, Source, SourceBody,
    SourceFormat, StyleRun, TextLines, VerifiedOutline, furniture,
};
use stemma_reading::document_reading::DocumentReading;

use super::SectionSettings;

fn source(format: SourceFormat, body: SourceBody) -> Source {
    let metadata = BTreeMap::new();
    Source {
        format,
        body,
        outline: vec![],
        links: vec![],
        metadata,
        defects: vec![],
        hidden: Vec::new(),
        encrypted: false,
    }
}

fn words(text: &str) -> u32 {
    text.split_whitespace().count() as u32
}

/// A line of 10 pt, `*bold*` where it is wrapped in asterisks; `index` places it on the page.
fn line(text: &str, index: usize) -> Line {
    let bold = text.len() > 2 && text.starts_with('*') && text.ends_with('*');
    let text = if bold { &text[1..text.len() - 1] } else { text };
    let y = 72.0 + 12.0 * index as f32;
    let run = StyleRun {
        end: text.len() as u32,
        size: Pt::new(10.0),
        bold,
        emphasis: Emphasis::None,
    };
    let rect = Rect::new(72.0, y, 540.0, y + 10.0);
    Line {
        text: text.into(),
        rect,
        runs: vec![run],
        words: vec![],
        tokens: words(text),
        role: LineRole::Body,
        bytes: None,
        grid: None,
    }
}

/// A document of these pages; a line's tokens are its words.
pub(crate) fn paged(pages: &[&str]) -> Source {
    let mut pages: Vec<Page> = pages
        .iter()
        .map(|text: &&str| Page {
            width: Pt::new(612.0),
            height: Pt::new(792.0),
            lines: text
                .lines()
                .enumerate()
                .map(|(index, text)| line(text, index))
                .collect(),
            ..Page::default()
        })
        .collect();
    furniture::mark(&mut pages);
    source(SourceFormat::Pdf, SourceBody::Pages(pages))
}

/// A text of these lines; a line's tokens are its words.
pub(crate) fn lines(text: &str) -> Source {
    let lines: Vec<String> = text.lines().map(Into::into).collect();
    let tokens = lines.iter().map(|line| words(line)).collect();
    source(
        SourceFormat::Markdown,
        SourceBody::Lines(TextLines {
            lines,
            tokens,
            headings: vec![],
        }),
    )
}

fn build_tree(source: &Source, entries: Vec<(SectionStart, u16, &str)>) -> SectionTree {
    let judged = entries.into_iter().map(|(place, level, title)| {
        let number = title
            .split_whitespace()
            .nth(1)
            .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
            .map(|word| word.trim_end_matches(['.', ':']).to_owned());
        let evidence = EvidenceSource::Layout;
        let entry = DraftEntry {
            number,
            title: title.into(),
            label: None,
            target: None,
            level,
            evidence,
        };
        (
            LocatedEntry { entry, place },
            EntryVerdict::Confirmed {
                starts_page: place.reading_order().1 == 0,
            },
        )
    });
    let outline = VerifiedOutline::new(source.extent(), judged.collect()).unwrap();
    SectionTree::build(&outline, Method::Layout, Vec::new())
}

/// A tree over pages from `(page, line index, level, title)`.
pub(crate) fn tree(of: &Source, entries: &[(u32, u32, u16, &str)]) -> SectionTree {
    let mut places = Vec::new();
    for &(page, line, level, title) in entries {
        let position = Position {
            page: PageNo::new(page).unwrap(),
            line,
            y: Pt(0),
        };
        places.push((SectionStart::Page(position), level, title));
    }
    build_tree(of, places)
}

/// A text and a tree over it from `(line from 1, level, title)`.
pub(crate) fn text_tree(text: &str, entries: &[(u32, u16, &str)]) -> (Source, SectionTree) {
    let source = lines(text);
    let tree = build_tree(
        &source,
        entries
            .iter()
            .map(|&(line, level, title)| (SectionStart::Line(line), level, title))
            .collect(),
    );
    (source, tree)
}

/// [`enrich::finish`](super::finish) with a reading of the source.
pub(crate) fn finish(
    tree: SectionTree,
    source: &Source,
    settings: &SectionSettings,
    labels: &[Option<PageLabel>],
) -> SectionTree {
    let readings = DocumentReading::new(&source.body).lines;
    super::finish(tree, source, &readings, settings, labels)
}

//! Readable snapshots of what the pipeline makes of generated filings: a section tree, and the changes of a year.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::fmt::Write as _;

use stemma_diff::{AlignInput, AlignOptions, DiffStatus, align};
use stemma_document::{SectionId, SectionTree, Source, SourceBody, Turn};
use stemma_extract::{Limits, pdf};
use stemma_filings::{ContentsMode, Edit, FilingKind, Spec, generate, year_pair};
use stemma_outline::{enrich, items, structure};
use stemma_reading::document_reading::DocumentReading;

fn outline(bytes: &[u8]) -> (Source, SectionTree) {
    let mut source = pdf::read(bytes, None, &Limits::default(), 1).unwrap();
    // Words are counted instead of o200k tokens, which the paginate stage counts.
    if let SourceBody::Pages(pages) = &mut source.body {
        for line in pages.iter_mut().flat_map(|page| &mut page.lines) {
            line.tokens = u32::try_from(line.words.len()).unwrap();
        }
    }
    let draft = structure::outline(&source, &structure::StructureSettings::default()).unwrap();
    let tree = SectionTree::build(&draft.outline, draft.method, draft.gaps);
    let settings = enrich::SectionSettings::default();
    let readings = DocumentReading::new(&source.body).lines;
    let mut tree = enrich::finish(tree, &source, &readings, &settings, &draft.labels);
    items::attach(&mut tree, &source, &draft.cross_index);
    (source, tree)
}

// One indented line per section, then one per Item.
fn tree_text(tree: &SectionTree) -> String {
    let mut text = format!("{}\n\n", tree.description.as_deref().unwrap_or_default());
    for (depth, section) in tree.walk() {
        let indent = "  ".repeat(depth - 1);
        let pages = section.span.pages().unwrap();
        writeln!(text, "{} {indent}{} · {pages}", section.id, section.title).unwrap();
    }
    text.push('\n');
    for item in &tree.items {
        let section = item.section.map_or_else(String::new, |id| format!(" {id}"));
        writeln!(text, "{} {:?}{section}", item.id, item.status).unwrap();
    }
    text
}

fn title(tree: &SectionTree, id: Option<SectionId>) -> String {
    id.and_then(|id| tree.path_to(id).last().map(|section| section.title.clone()))
        .unwrap_or_else(|| "–".into())
}

#[test]
fn quarterly_report_becomes_this_section_tree() {
    let spec = Spec {
        pages: 10,
        ..Spec::new(FilingKind::TenQ, 1)
    };
    let (_, tree) = outline(&generate(&spec).pdf);
    insta::assert_snapshot!(tree_text(&tree));
}

// Without a contents page, so that headings are found by their look.
fn unlisted(edits: Vec<Edit>) -> (Source, SectionTree) {
    let spec = Spec {
        contents: ContentsMode::Nothing,
        edits,
        ..Spec::new(FilingKind::Manual, 3)
    };
    outline(&generate(&spec).pdf)
}

#[test]
fn rotated_pages_keep_their_sections() {
    let (_, upright) = unlisted(Vec::new());
    let rotations = [
        (90, Turn::Quarter),
        (180, Turn::Half),
        (270, Turn::ThreeQuarters),
    ];
    for (degrees, turn) in rotations {
        let edits = (3..=8).map(|page| Edit::RotatePage { page, degrees });
        let (source, rotated) = unlisted(edits.collect());
        assert_eq!(tree_text(&rotated), tree_text(&upright));
        let SourceBody::Pages(pages) = &source.body else {
            panic!("a PDF has pages")
        };
        assert!(pages[2..8].iter().all(|page| page.turn == turn));
    }
}

#[test]
fn notes_up_the_margin_are_no_sections() {
    let (_, plain) = unlisted(Vec::new());
    let notes = (3..=8).map(|page| Edit::AddMarginNote {
        page,
        text: ["Draft for review", "9.4 Other matters"][page as usize % 2],
    });
    let (source, noted) = unlisted(notes.collect());
    assert_eq!(tree_text(&noted), tree_text(&plain));
    let SourceBody::Pages(pages) = &source.body else {
        panic!("a PDF has pages")
    };
    assert!(pages[2].text().contains("9.4 Other matters"));
}

#[test]
fn changes_of_a_year_are_listed_by_section() {
    let spec = Spec {
        pages: 10,
        ..Spec::new(FilingKind::TenQ, 1)
    };
    let pair = year_pair(&spec, 1);
    let (left_source, left) = outline(&pair.before.pdf);
    let (right_source, right) = outline(&pair.after.pdf);
    let alignment = align(
        &AlignInput::new(&left, Some(&left_source.body)),
        &AlignInput::new(&right, Some(&right_source.body)),
        &AlignOptions { sentences: 1 },
    )
    .unwrap();
    let mut text = String::new();
    let changed = alignment
        .pairs
        .iter()
        .filter(|pair| pair.status != DiffStatus::Unchanged || pair.renamed || pair.moved);
    for pair in changed {
        let moved = if pair.moved { ", moved" } else { "" };
        let renamed = if pair.renamed { ", renamed" } else { "" };
        writeln!(
            text,
            "{} → {}: {}{renamed}{moved}",
            title(&left, pair.left),
            title(&right, pair.right),
            pair.status.as_str()
        )
        .unwrap();
        for sentence in &pair.removed {
            writeln!(text, "  - {}", sentence.text).unwrap();
        }
        for sentence in &pair.added {
            writeln!(text, "  + {}", sentence.text).unwrap();
        }
        for sentence in &pair.reworded {
            writeln!(text, "  ~ {}", sentence.right.text).unwrap();
        }
    }
    let changed = alignment.all.changed.unwrap_or_default();
    writeln!(text, "\n{:.0} % of the words changed", changed * 100.0).unwrap();
    insta::assert_snapshot!(text);
}

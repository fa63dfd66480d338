//! Pure rules that find the sections of a document, enrich them and match the Items of a form.
//!
//! - [`structure`]: finds the sections of a `Source` and nests them.
//! - [`enrich`]: adds tokens, summaries, facts, a description and references.
//! - [`items`]: matches the Items of a form to sections.
//! - [`correction`]: outlines that a person corrected, as text and in the document.
//! - [`doubt`]: assesses how far the finished tree should be doubted.
//!
//! Nothing here is asynchronous, reads a file or calls a model: the same source gives the same tree.

mod byte_spans;
pub mod correction;
pub mod doubt;
pub mod enrich;
pub mod items;
pub mod structure;

use stemma_document::{Gap, PageNo, RecognizedPage, SectionTree, Source, SourceBody};
use stemma_reading::document_reading::LineReadings;

/// The finished tree of a draft: built, enriched, with its Items and the doubt about it.
///
/// `readings` are what its lines are; `gaps` are added to the gaps of the draft.
pub fn finish_tree(
    draft: &structure::Draft,
    source: &Source,
    readings: &LineReadings,
    gaps: impl IntoIterator<Item = Gap>,
    settings: &enrich::SectionSettings,
) -> SectionTree {
    let gaps = draft.gaps.iter().cloned().chain(gaps).collect();
    let tree = SectionTree::build(&draft.outline, draft.method, gaps);
    let mut tree = enrich::finish(tree, source, readings, settings, &draft.labels);
    byte_spans::set_section_bytes(&mut tree, source);
    tree.recognized = recognized_pages(source);
    items::attach(&mut tree, source, &draft.cross_index);
    tree.provenance.doubt = Some(doubt::assess(&tree, source, draft.outline.accuracy()));
    tree
}

fn recognized_pages(source: &Source) -> Vec<RecognizedPage> {
    let SourceBody::Pages(pages) = &source.body else {
        return Vec::new();
    };
    let pages = pages.iter().enumerate();
    let recognized = pages.filter_map(|(index, page)| {
        let read = page.recognition()?;
        Some(RecognizedPage {
            page: PageNo::from_index(index),
            words: u32::try_from(read.confidences.len()).unwrap_or(u32::MAX),
            doubtful: u32::try_from(read.doubtful()).unwrap_or(u32::MAX),
        })
    });
    recognized.collect()
}

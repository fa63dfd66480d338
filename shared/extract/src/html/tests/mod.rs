mod hidden;
mod hostile;
mod layout;
mod markup;
mod pictures;
mod placed;
mod server_pages;
mod styles;
mod tables;

use stemma_document::{Emphasis, Line, Page, Source, SourceBody};

use super::read;
use crate::Limits;

pub(super) fn source(html: &str) -> Source {
    read(html.as_bytes(), &Limits::default()).unwrap()
}

pub(super) fn pages(source: &Source) -> &[Page] {
    match &source.body {
        SourceBody::Pages(pages) => pages,
        SourceBody::Lines(_) => panic!("no pages"),
    }
}

pub(super) fn lines(source: &Source) -> Vec<&Line> {
    pages(source).iter().flat_map(|page| &page.lines).collect()
}

/// The text of each line.
pub(super) fn text(html: &str) -> Vec<String> {
    let source = source(html);
    lines(&source)
        .iter()
        .map(|line| line.text.clone())
        .collect()
}

pub(super) fn codes(source: &Source) -> Vec<&str> {
    source
        .defects
        .iter()
        .map(|defect| defect.code.as_str())
        .collect()
}

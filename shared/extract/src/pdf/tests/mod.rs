//! Whole files through [`read`].

mod content;
mod directions;
mod files;
mod fonts;
mod forms;
mod hidden;
mod limits;
mod lines;
mod navigation;
mod remarks;
mod right_to_left;
mod tags;

use stemma_document::{LineRole, Page, PageNo, Pt, Source, SourceBody, Turn};

use super::fixture::{PdfFixture, deflate, styled_text_at, text_at};
use super::{decode_limits, read};
use crate::{ExtractError, Limits};

fn source(bytes: &[u8]) -> Source {
    read(bytes, None, &Limits::default(), 1).unwrap()
}

fn error(bytes: &[u8]) -> ExtractError {
    read(bytes, None, &Limits::default(), 1).unwrap_err()
}

fn pages(source: &Source) -> &[Page] {
    match &source.body {
        SourceBody::Pages(pages) => pages,
        SourceBody::Lines(_) => panic!("a PDF has pages"),
    }
}

fn texts(content: &str) -> Vec<String> {
    first_page(&PdfFixture::with_pages(&[content]))
}

// The lines of the first page.
fn first_page(fixture: &PdfFixture) -> Vec<String> {
    let source = source(&fixture.build());
    pages(&source)[0]
        .lines
        .iter()
        .map(|line| line.text.clone())
        .collect()
}

fn defects(source: &Source) -> Vec<(&str, u32)> {
    source
        .defects
        .iter()
        .map(|d| (d.code.as_str(), d.page.map_or(0, PageNo::get)))
        .collect()
}

// An image that fills the page.
const SCAN: &str = "q 612 0 0 792 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID 0 EI Q\n";

fn word(index: usize) -> &'static str {
    [
        "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta",
    ][index]
}

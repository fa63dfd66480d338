//! Internal link annotations. In filings most of them are rows of a contents page.

use hayro_syntax::object::{Array, Dict, Name, Rect as PdfRect};
use hayro_syntax::page::Page as PdfPage;
use stemma_document::{Link, Page, PageNo, Rect};

use super::destinations::Destinations;
use super::matrix::Matrix;

// Per page, of any kind.
const MAX_ANNOTATIONS: usize = 20_000;

/// Returns the internal links of a page in file order, at most `room`.
pub(super) fn read_links<'a>(
    pdf_page: &PdfPage<'a>,
    page: &Page,
    number: PageNo,
    destinations: &Destinations<'a>,
    room: usize,
) -> Vec<Link> {
    let annotations = pdf_page
        .raw()
        .get::<Array<'a>>("Annots")
        .unwrap_or_default();
    annotations
        .iter::<Dict<'a>>()
        .take(MAX_ANNOTATIONS)
        .filter(|annotation| {
            annotation
                .get::<Name<'_>>("Subtype")
                .is_some_and(|kind| kind.as_ref() == b"Link")
        })
        .filter_map(|annotation| {
            let target = destinations.resolve(&annotation)?;
            let rect = annotation.get::<PdfRect>("Rect")?;
            Some(Link {
                page: number,
                rect: page.as_read(displayed_rect(pdf_page, &rect)),
                target,
            })
        })
        .take(room)
        .collect()
}

fn displayed_rect(page: &PdfPage<'_>, rect: &PdfRect) -> Rect {
    let map = Matrix(page.initial_transform(true).as_coeffs());
    let (x0, y0) = map.apply(rect.x0, rect.y0);
    let (x1, y1) = map.apply(rect.x1, rect.y1);
    Rect::new(x0 as f32, y0 as f32, x1 as f32, y1 as f32)
}

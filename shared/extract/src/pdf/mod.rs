//! PDF to [`Source`].

mod columns;
mod font;
mod guard;
mod interpret;
mod matrix;
mod page;
mod rows;
mod words;

use std::collections::BTreeMap;

use hayro_syntax::Pdf;
use stemma_document::{Body, Format, Source};

use crate::{ExtractError, Limits};

/// Reads a PDF.
///
/// # Errors
///
/// `pdf.not_a_pdf`.
pub fn read(bytes: &[u8], password: Option<&str>, limits: &Limits) -> Result<Source, ExtractError> {
    let body = guard::admit_file(bytes, limits)?;
    let pdf = Pdf::new_with_password(body.to_vec(), password.unwrap_or("")).map_err(|_| guard::not_a_pdf())?;
    let budget = guard::Budget::new(limits);
    let mut fonts = font::FontBook::new();
    let pages = pdf
        .pages()
        .iter()
        .map(|page| {
            let text = interpret::page_text(page, &mut fonts, &budget, limits);
            let (w, h) = page.render_dimensions();
            page::lay_out(w, h, &text.glyphs)
        })
        .collect();
    Ok(Source {
        format: Format::Pdf,
        body: Body::Pages(pages),
        outline: vec![],
        links: vec![],
        metadata: BTreeMap::new(),
        defects: vec![],
        encrypted: false,
    })
}

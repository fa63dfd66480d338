//! The walk of one PDF from bytes to [`Source`].

use std::panic::{AssertUnwindSafe, catch_unwind};

use hayro_syntax::object::Dict;
use hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use stemma_document::{Body, Defect, Format, Link, Page, PageNo, Source};

use super::destinations::Destinations;
use super::font::FontBook;
use super::guard::{self, Budget};
use super::interpret::{Loss, UNMAPPED, page_text};
use super::page::lay_out;
use super::{fallback, info, labels, links, outline, quality};
use crate::{ExtractError, Limits};

pub(super) fn read(bytes: &[u8], password: Option<&str>, limits: &Limits) -> Result<Source, ExtractError> {
    let bytes = guard::admit_file(bytes, limits)?;
    let budget = Budget::new(limits);
    let mut pdf = open(bytes, password, limits)?;
    if pdf.pages().is_empty()
        && let Some(other) = reopened(bytes, password, limits)
    {
        pdf = other;
    }
    let count = pdf.pages().len();
    if count == 0 {
        return Err(no_pages());
    }
    if count > limits.max_pages as usize {
        return Err(ExtractError::new(
            "limits.pages",
            format!("the document has {count} pages, more than the limit of {}", limits.max_pages),
            "raise the limit or split the document",
        ));
    }
    let mut pages = read_pages(&pdf, &budget, limits);
    improve(&mut pages, bytes, password, &budget, limits);
    if budget.expired() {
        return Err(ExtractError::new(
            "limits.seconds",
            format!("reading took longer than the limit of {} seconds", limits.max_seconds),
            "raise the limit if the file is trusted",
        ));
    }
    let defects = defects(&pages, limits);
    if pages.iter().all(|read| read.page.lines.is_empty()) {
        return Err(no_text(&pages, &defects));
    }
    Ok(assemble(&pdf, pages.into_iter().map(|read| read.page).collect(), defects, is_encrypted(bytes), limits))
}

fn open(bytes: &[u8], password: Option<&str>, limits: &Limits) -> Result<Pdf, ExtractError> {
    let error = match Pdf::new(bytes.to_vec()) {
        Ok(pdf) => return Ok(pdf),
        Err(error) => error,
    };
    match (error, password) {
        (LoadPdfError::Decryption(DecryptionError::PasswordProtected), Some(password)) => {
            Pdf::new_with_password(bytes.to_vec(), password).map_err(|_| password_needed(true))
        }
        (LoadPdfError::Decryption(DecryptionError::PasswordProtected), None) => Err(password_needed(false)),
        (LoadPdfError::Decryption(_), _) => Err(ExtractError::new(
            "pdf.encryption_unsupported",
            "the file is encrypted in a way that cannot be read",
            "save it without encryption",
        )),
        (LoadPdfError::Invalid, _) => {
            fallback::rewritten(bytes, password.unwrap_or(""), limits).ok_or_else(|| why_invalid(bytes))
        }
    }
}

/// A second try for a file that opens but shows no pages.
fn reopened(bytes: &[u8], password: Option<&str>, limits: &Limits) -> Option<Pdf> {
    let patched = || fallback::without_exponents(bytes).and_then(|bytes| open(&bytes, password, limits).ok());
    patched()
        .or_else(|| fallback::rewritten(bytes, password.unwrap_or(""), limits))
        .filter(|pdf| !pdf.pages().is_empty())
}

fn password_needed(given: bool) -> ExtractError {
    let message = if given {
        "the file is password protected and the password given does not open it"
    } else {
        "the file is password protected"
    };
    ExtractError::new("pdf.encrypted_password", message, "give the user password with `--password`")
}

/// A file without a single page object is a PDF without pages; anything else that cannot be opened is damaged.
fn why_invalid(bytes: &[u8]) -> ExtractError {
    let mentions_page = |at: usize| {
        let rest = bytes.get(at + 5..).unwrap_or_default();
        let rest = rest.trim_ascii_start();
        rest.starts_with(b"/Page") && !rest.starts_with(b"/Pages")
    };
    let mut position = 0;
    while let Some(found) = guard::find(bytes.get(position..).unwrap_or_default(), b"/Type") {
        if mentions_page(position + found) {
            return damaged();
        }
        position += found + 5;
    }
    let compressed = guard::find(bytes, b"/ObjStm").is_some();
    if compressed { damaged() } else { no_pages() }
}

pub(super) fn damaged() -> ExtractError {
    ExtractError::new(
        "pdf.damaged",
        "the file is damaged: its pages cannot be found",
        "get the file again, or repair it with another program",
    )
}

fn no_pages() -> ExtractError {
    ExtractError::new("pdf.no_pages", "the document has no pages", "check that the file is complete")
}

fn no_text(pages: &[ReadPage], defects: &[Defect]) -> ExtractError {
    if pages.iter().all(|read| matches!(read.loss, Some(Loss::Unreadable | Loss::TooLarge))) {
        let why = defects.first().map(|defect| defect.detail.as_str()).unwrap_or_default();
        return ExtractError::new("pdf.damaged", format!("no page can be read: {why}"), damaged().next);
    }
    ExtractError::new(
        "pdf.no_text",
        format!("the document has no text layer: none of its {} pages has text", pages.len()),
        "run OCR on it (text recognition) and ingest the result",
    )
}

/// The trailer names the encryption dictionary in plain bytes, whatever else is encrypted.
fn is_encrypted(bytes: &[u8]) -> bool {
    let mut position = 0;
    while let Some(found) = guard::find(bytes.get(position..).unwrap_or_default(), b"/Encrypt") {
        position += found + 8;
        if bytes.get(position).is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'<') {
            return true;
        }
    }
    false
}

/// A page and what is wrong with it.
struct ReadPage {
    page: Page,
    loss: Option<Loss>,
    garbled: bool,
}

fn read_pages(pdf: &Pdf, budget: &Budget, limits: &Limits) -> Vec<ReadPage> {
    let mut fonts = FontBook::new();
    pdf.pages().iter().map(|page| read_page(page, &mut fonts, budget, limits)).collect()
}

fn read_page<'a>(
    page: &hayro_syntax::page::Page<'a>,
    fonts: &mut FontBook<'a>,
    budget: &Budget,
    limits: &Limits,
) -> ReadPage {
    let (width, height) = page.render_dimensions();
    if budget.expired() {
        return ReadPage { page: Page::default(), loss: None, garbled: false };
    }
    let read = catch_unwind(AssertUnwindSafe(|| {
        let text = page_text(page, fonts, budget, limits);
        let unmapped = text.glyphs.iter().filter(|glyph| glyph.text == UNMAPPED).count();
        let laid_out = lay_out(width, height, &text.glyphs);
        let garbled = quality::is_garbled(&laid_out, u32::try_from(unmapped).unwrap_or(u32::MAX));
        ReadPage { page: laid_out, loss: text.loss, garbled }
    }));
    // What a panic left behind in the fonts must not reach the next page.
    read.unwrap_or_else(|_| {
        *fonts = FontBook::new();
        ReadPage { page: lay_out(width, height, &[]), loss: Some(Loss::Unreadable), garbled: false }
    })
}

/// Reads pages that cannot be read, or read as noise, from the file as the second parser writes it.
fn improve(pages: &mut [ReadPage], bytes: &[u8], password: Option<&str>, budget: &Budget, limits: &Limits) {
    let is_bad = |read: &ReadPage| read.garbled || read.loss == Some(Loss::Unreadable);
    if !pages.iter().any(is_bad) || budget.expired() {
        return;
    }
    let Some(other) = fallback::rewritten(bytes, password.unwrap_or(""), limits) else { return };
    if other.pages().len() != pages.len() {
        return;
    }
    let mut fonts = FontBook::new();
    for (read, page) in pages.iter_mut().zip(other.pages().iter()).filter(|(read, _)| is_bad(read)) {
        let second = read_page(page, &mut fonts, budget, limits);
        if quality::readable(&second.page) > quality::readable(&read.page) && !second.garbled {
            *read = second;
        }
    }
}

fn defects(pages: &[ReadPage], limits: &Limits) -> Vec<Defect> {
    let mut all = pages.iter().enumerate().filter_map(|(index, read)| defect(read, PageNo::from_index(index)));
    let mut defects: Vec<Defect> = all.by_ref().take(limits.max_defects as usize).collect();
    let more = all.count();
    if more > 0 {
        let detail = format!("{more} more pages have defects that are not listed");
        defects.push(Defect { code: "pdf.more_defects".into(), page: None, detail });
    }
    defects
}

fn defect(read: &ReadPage, page: PageNo) -> Option<Defect> {
    let empty = read.page.lines.is_empty();
    let (code, detail) = match (read.loss, empty) {
        (Some(Loss::TooLarge), _) => ("pdf.page_unreadable", "the page's content inflates beyond the limit"),
        (Some(Loss::Unreadable | Loss::Damaged), true) => {
            ("pdf.page_unreadable", "the page's content cannot be decoded")
        }
        (Some(Loss::TooMuch), _) => ("limits.page", "the page holds more than the limits allow and was cut"),
        (Some(Loss::Unreadable | Loss::Damaged), false) => ("pdf.page_damaged", "a part of the page's content is lost"),
        (None, true) => ("pdf.no_text", "the page has no text"),
        (None, false) if read.garbled => ("pdf.text_garbled", "the page's fonts do not say what its characters mean"),
        (None, false) => return None,
    };
    Some(Defect { code: code.into(), page: Some(page), detail: detail.into() })
}

fn assemble(pdf: &Pdf, mut pages: Vec<Page>, defects: Vec<Defect>, encrypted: bool, limits: &Limits) -> Source {
    let root = pdf.xref().get::<Dict<'_>>(pdf.xref().root_id()).unwrap_or_default();
    let destinations = Destinations::new(pdf, root.clone(), limits);
    for (page, label) in pages.iter_mut().zip(labels::labels(&root, pdf.pages().len())) {
        page.label = label;
    }
    Source {
        format: Format::Pdf,
        body: Body::Pages(pages),
        outline: outline::outline(pdf, &root, &destinations, limits),
        links: all_links(pdf, &destinations, limits),
        metadata: info::info(pdf.metadata()),
        defects,
        encrypted,
    }
}

fn all_links<'a>(pdf: &'a Pdf, destinations: &Destinations<'a>, limits: &Limits) -> Vec<Link> {
    let mut all = Vec::new();
    for (index, page) in pdf.pages().iter().enumerate() {
        let room = (limits.max_links as usize).saturating_sub(all.len());
        if room == 0 {
            break;
        }
        all.extend(links::links(page, PageNo::from_index(index), destinations, room));
    }
    all
}

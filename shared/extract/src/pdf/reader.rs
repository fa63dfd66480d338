//! Reads a PDF from bytes to [`Source`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use hayro_syntax::object::Dict;
use hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use stemma_document::{
    Defect, HiddenText, Link, Page, PageNo, PageOrigin, Source, SourceBody, SourceFormat, furniture,
};

use super::content_stream::{SharedParts, TextLoss, read_page_text};
use super::decode_limits::{self, DecodeBudget};
use super::destinations::Destinations;
use super::errors::{
    invalid_file_error, no_pages_error, no_text_error, out_of_time_error, password_error,
    too_many_pages_error,
};
use super::font::FontBook;
use super::hidden_text::{HiddenPart, describe};
use super::ink::Ink;
use super::page_layout::{is_invisible, lay_out};
use super::remarks::{PageRemarks, add_remarks};
use super::tagged_headings::{MarkedBox, read_tagged_headings};
use super::{Pictures, STACK_BYTES, fallback, info, labels, links, outline, quality, unread};
use crate::{ExtractError, Limits};

// Pages per unit of work, and pages per thread, since each thread loads its own fonts.
const PAGES_AT_ONCE: usize = 8;
const PAGES_PER_THREAD: usize = 32;
// Each thread needs its own large stack, and the address space is limited.
const MAX_THREADS: usize = 4;
// Further pages with hidden text are only counted.
const MAX_HIDDEN_TEXTS: usize = 1_000;

pub(super) fn read(
    bytes: &[u8],
    password: Option<&str>,
    limits: &Limits,
    threads: usize,
    pictures: Pictures,
) -> Result<Source, ExtractError> {
    let bytes = decode_limits::check_file(bytes, limits)?;
    let budget = DecodeBudget::new(limits);
    let pdf = open_checked(bytes, password, limits)?;
    let Some(mut pages) = read_pages(&pdf, &budget, limits, threads) else {
        // If the result may depend on the order of reading, pages are read again in order.
        return read(bytes, password, limits, 1, pictures);
    };
    reread_bad_pages(&mut pages, bytes, password, &budget, limits);
    if budget.is_expired() {
        return Err(out_of_time_error(limits));
    }
    let mut defects = collect_defects(&pages, limits);
    let is_truncated = decode_limits::is_truncated(bytes);
    pages
        .iter_mut()
        .filter(|read| quality::is_picture(&read.page, read.ink, read.garbled))
        .for_each(|read| read.page.origin = PageOrigin::Picture);
    let any_picture = pages
        .iter()
        .any(|read| read.page.origin == PageOrigin::Picture);
    let is_empty = pages.iter().all(|read| read.page.lines.is_empty());
    if is_empty && !(pictures == Pictures::Accepted && any_picture) {
        return Err(no_text_error(&pages, &defects, is_truncated, any_picture));
    }
    if is_truncated {
        let detail = "the file is cut off: the pages after its end are lost".into();
        defects.insert(
            0,
            Defect {
                code: "pdf.truncated".into(),
                page: None,
                detail,
            },
        );
    }
    let hidden = hidden_texts(&mut pages);
    let (mut pages, marked, remarks): (Vec<Page>, Vec<_>, Vec<_>) = pages
        .into_iter()
        .map(|read| (read.page, read.marked, read.remarks))
        .collect();
    furniture::mark(&mut pages);
    defects.extend(add_remarks(&mut pages, remarks));
    let mut source = assemble(&pdf, pages, defects, is_encrypted(bytes), limits);
    if let (true, SourceBody::Pages(pages)) = (source.outline.is_empty(), &source.body) {
        source.outline = read_tagged_headings(&pdf, pages, &marked, limits);
    }
    Ok(Source { hidden, ..source })
}

/// Opens a file that has pages, from the header on.
pub(super) fn open_checked(
    bytes: &[u8],
    password: Option<&str>,
    limits: &Limits,
) -> Result<Pdf, ExtractError> {
    let mut pdf = open(bytes, password, limits)?;
    if pdf.pages().is_empty()
        && let Some(other) = reopen(bytes, password, limits)
    {
        pdf = other;
    }
    let count = pdf.pages().len();
    if count == 0 {
        return Err(no_pages_error());
    }
    if count > limits.max_pages as usize {
        return Err(too_many_pages_error(count, limits));
    }
    Ok(pdf)
}

fn open(bytes: &[u8], password: Option<&str>, limits: &Limits) -> Result<Pdf, ExtractError> {
    let error = match Pdf::new(bytes.to_vec()) {
        Ok(pdf) => return Ok(pdf),
        Err(error) => error,
    };
    match (error, password) {
        (LoadPdfError::Decryption(DecryptionError::PasswordProtected), Some(password)) => {
            Pdf::new_with_password(bytes.to_vec(), password).map_err(|_| password_error(true))
        }
        (LoadPdfError::Decryption(DecryptionError::PasswordProtected), None) => {
            Err(password_error(false))
        }
        (LoadPdfError::Decryption(_), _) => Err(ExtractError::new(
            "pdf.encryption_unsupported",
            "the file is encrypted in a way that cannot be read",
            "save it without encryption",
        )),
        (LoadPdfError::Invalid, _) => fallback::rewrite(bytes, password.unwrap_or(""), limits)
            .ok_or_else(|| invalid_file_error(bytes)),
    }
}

// For files that open but have no pages.
fn reopen(bytes: &[u8], password: Option<&str>, limits: &Limits) -> Option<Pdf> {
    fallback::patch_exponents(bytes)
        .and_then(|bytes| open(&bytes, password, limits).ok())
        .or_else(|| fallback::rewrite(bytes, password.unwrap_or(""), limits))
        .filter(|pdf| !pdf.pages().is_empty())
}

// The trailer refers to the encryption dictionary in plain bytes, even in encrypted files.
fn is_encrypted(bytes: &[u8]) -> bool {
    let mut position = 0;
    while let Some(offset) =
        decode_limits::find_bytes(bytes.get(position..).unwrap_or_default(), b"/Encrypt")
    {
        position += offset + 8;
        if bytes
            .get(position)
            .is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'<')
        {
            return true;
        }
    }
    false
}

#[derive(Default)]
pub(super) struct ExtractedPage {
    pub(super) page: Page,
    hidden: Vec<HiddenPart>,
    marked: Vec<MarkedBox>,
    remarks: PageRemarks,
    pub(super) loss: Option<TextLoss>,
    ink: Ink,
    invisible: bool,
    garbled: bool,
    // The panic may have poisoned locks of the open file.
    panicked: bool,
}

impl ExtractedPage {
    fn is_bad(&self) -> bool {
        self.garbled || self.loss == Some(TextLoss::Unreadable)
    }
}

// Returns the pages in order; `None` if the result of several threads may depend on their order.
fn read_pages(
    pdf: &Pdf,
    budget: &DecodeBudget,
    limits: &Limits,
    threads: usize,
) -> Option<Vec<ExtractedPage>> {
    let pages: Vec<_> = pdf.pages().iter().collect();
    let shared = SharedParts::read(&root_of(pdf));
    let threads = threads
        .clamp(1, MAX_THREADS)
        .min(pages.len() / PAGES_PER_THREAD);
    if threads <= 1 {
        let mut fonts = FontBook::new();
        return Some(
            pages
                .iter()
                .map(|page| read_page(page, &mut fonts, &shared, budget, limits))
                .collect(),
        );
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut fonts = FontBook::new();
        let mut read = Vec::new();
        loop {
            let part = next.fetch_add(1, Relaxed);
            let Some(pages) = pages.chunks(PAGES_AT_ONCE).nth(part) else {
                return read;
            };
            let pages = pages
                .iter()
                .map(|page| read_page(page, &mut fonts, &shared, budget, limits));
            read.push((part, pages.collect::<Vec<_>>()));
        }
    };
    let mut parts = thread::scope(|scope| {
        // Failing to start more threads is not an error.
        let others: Vec<_> = (1..threads)
            .filter_map(|_| {
                thread::Builder::new()
                    .name("pdf".into())
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, work)
                    .ok()
            })
            .collect();
        let own = work();
        others.into_iter().try_fold(own, |mut all, other| {
            all.extend(other.join().ok()?);
            Some(all)
        })
    })?;
    parts.sort_unstable_by_key(|(part, _)| *part);
    let read: Vec<ExtractedPage> = parts.into_iter().flat_map(|(_, pages)| pages).collect();
    let is_deterministic = !budget.is_exhausted() && read.iter().all(|page| !page.panicked);
    is_deterministic.then_some(read)
}

fn read_page<'a>(
    page: &hayro_syntax::page::Page<'a>,
    fonts: &mut FontBook<'a>,
    shared: &SharedParts,
    budget: &DecodeBudget,
    limits: &Limits,
) -> ExtractedPage {
    let (width, height) = page.render_dimensions();
    if budget.is_expired() {
        return ExtractedPage::default();
    }
    let read = catch_unwind(AssertUnwindSafe(|| {
        let text = read_page_text(page, fonts, shared, budget, limits);
        let laid_out = lay_out(width, height, &text.glyphs);
        let garbled = quality::is_garbled(&laid_out);
        ExtractedPage {
            page: laid_out,
            hidden: text.hidden,
            marked: text.marked,
            remarks: text.remarks,
            loss: text.loss,
            ink: text.ink,
            invisible: is_invisible(&text.glyphs),
            garbled,
            panicked: false,
        }
    }));
    // Fonts may be inconsistent after a panic.
    read.unwrap_or_else(|_| {
        *fonts = FontBook::new();
        ExtractedPage {
            page: lay_out(width, height, &[]),
            loss: Some(TextLoss::Unreadable),
            panicked: true,
            ..ExtractedPage::default()
        }
    })
}

// Rereads unreadable and garbled pages from the rewritten file.
fn reread_bad_pages(
    pages: &mut [ExtractedPage],
    bytes: &[u8],
    password: Option<&str>,
    budget: &DecodeBudget,
    limits: &Limits,
) {
    if !pages.iter().any(ExtractedPage::is_bad) || budget.is_expired() {
        return;
    }
    let Some(other) = fallback::rewrite(bytes, password.unwrap_or(""), limits) else {
        return;
    };
    if other.pages().len() != pages.len() {
        return;
    }
    let shared = SharedParts::read(&root_of(&other));
    let mut fonts = FontBook::new();
    for (read, page) in pages
        .iter_mut()
        .zip(other.pages().iter())
        .filter(|(read, _)| read.is_bad())
    {
        let second = read_page(page, &mut fonts, &shared, budget, limits);
        if quality::readable_chars(&second.page) > quality::readable_chars(&read.page)
            && !second.garbled
        {
            *read = second;
        }
    }
}

fn collect_defects(pages: &[ExtractedPage], limits: &Limits) -> Vec<Defect> {
    let mut all = pages.iter().enumerate().flat_map(|(index, read)| {
        let page = PageNo::from_index(index);
        page_defect(read, page)
            .into_iter()
            .chain(hidden_defect(read, page))
    });
    let mut defects: Vec<Defect> = all.by_ref().take(limits.max_defects as usize).collect();
    let more = all.count();
    if more > 0 {
        let detail = format!("{more} more pages have defects that are not listed");
        defects.push(Defect {
            code: "pdf.more_defects".into(),
            page: None,
            detail,
        });
    }
    defects
}

fn page_defect(read: &ExtractedPage, page: PageNo) -> Option<Defect> {
    let empty = read.page.lines.is_empty();
    let loss_defect = read.loss.map(|loss| match (loss, empty) {
        (TextLoss::TooLarge, _) => (
            "pdf.page_unreadable",
            "the page's content inflates beyond the limit",
        ),
        (TextLoss::LimitExceeded, _) => (
            "limits.page",
            "the page holds more than the limits allow and was cut",
        ),
        (_, true) => (
            "pdf.page_unreadable",
            "the page's content cannot be decoded",
        ),
        (TextLoss::Unreadable | TextLoss::Damaged, false) => {
            ("pdf.page_damaged", "a part of the page's content is lost")
        }
        (TextLoss::MissingOperands, false) => (
            "pdf.page_damaged",
            "operators of the page's content lack their operands, so text may be lost",
        ),
    });
    let hides_text = || quality::may_hide_text(&read.page, read.ink);
    let (code, detail) = if let Some((code, detail)) = loss_defect {
        (code, detail.to_owned())
    } else if empty {
        // A page without ink is blank, which is not a defect.
        hides_text().then(|| ("pdf.no_text", "the page has no text".to_owned()))?
    } else if read.garbled {
        let detail = "the page's fonts do not say what its characters mean";
        ("pdf.text_garbled", detail.to_owned())
    } else if let Some(count) = quality::unreadable_words(&read.page) {
        let detail = format!("{count} words have characters that cannot be read");
        ("pdf.text_unreadable", detail)
    } else if hides_text() {
        let detail = "the page has few words; its images or drawings may show more";
        ("pdf.little_text", detail.to_owned())
    } else if read.invisible {
        let detail = "the page's text is invisible, as text recognition leaves it, and may differ from what the page shows";
        ("pdf.text_invisible", detail.to_owned())
    } else {
        return None;
    };
    Some(Defect {
        code: code.into(),
        page: Some(page),
        detail,
    })
}

fn hidden_defect(read: &ExtractedPage, page: PageNo) -> Option<Defect> {
    (!read.hidden.is_empty()).then(|| Defect {
        code: "pdf.hidden_text".into(),
        page: Some(page),
        detail: describe(&read.hidden),
    })
}

fn hidden_texts(pages: &mut [ExtractedPage]) -> Vec<HiddenText> {
    let numbered = pages.iter_mut().enumerate();
    let texts = numbered.flat_map(|(index, read)| {
        let page = PageNo::from_index(index);
        std::mem::take(&mut read.hidden)
            .into_iter()
            .map(move |part| HiddenText {
                page,
                text: part.text,
                reason: part.reason,
            })
    });
    texts.take(MAX_HIDDEN_TEXTS).collect()
}

fn root_of(pdf: &Pdf) -> Dict<'_> {
    let root = pdf.xref().get::<Dict<'_>>(pdf.xref().root_id());
    root.unwrap_or_default()
}

fn assemble(
    pdf: &Pdf,
    mut pages: Vec<Page>,
    mut defects: Vec<Defect>,
    encrypted: bool,
    limits: &Limits,
) -> Source {
    let root = root_of(pdf);
    for (page, label) in pages
        .iter_mut()
        .zip(labels::read_labels(&root, pdf.pages().len()))
    {
        page.label = label;
    }
    let destinations = Destinations::new(pdf, &pages, root.clone(), limits);
    let outline = outline::read_outline(pdf, &root, &destinations, limits);
    defects.extend(unread::find_unread(pdf, &root));
    let links = all_links(pdf, &pages, &destinations, limits);
    let budgets = [
        (
            "limits.outline",
            "entries of the outline",
            outline.len(),
            limits.max_outline_items,
        ),
        ("limits.links", "links", links.len(), limits.max_links),
    ];
    for (code, what, count, most) in budgets {
        if count >= most as usize {
            defects.push(Defect {
                code: code.into(),
                page: None,
                detail: format!("only the first {most} {what} are read"),
            });
        }
    }
    Source {
        format: SourceFormat::Pdf,
        body: SourceBody::Pages(pages),
        outline,
        links,
        metadata: info::read_info(pdf.metadata()),
        defects,
        hidden: Vec::new(),
        encrypted,
    }
}

fn all_links<'a>(
    pdf: &'a Pdf,
    pages: &[Page],
    destinations: &Destinations<'a>,
    limits: &Limits,
) -> Vec<Link> {
    let mut all = Vec::new();
    for (index, (pdf_page, page)) in pdf.pages().iter().zip(pages).enumerate() {
        let room = (limits.max_links as usize).saturating_sub(all.len());
        if room == 0 {
            break;
        }
        all.extend(links::read_links(
            pdf_page,
            page,
            PageNo::from_index(index),
            destinations,
            room,
        ));
    }
    all
}

//! HTML to [`Source`], for the filings that EDGAR has as HTML.
//!
//! `tokens` splits the file, `reader` keeps a stack of open elements, `style` computes their look, `line` and `table` build
//! lines, and `pages` gives them places on pages of a nominal size. Nothing is rendered: widths of characters are averages,
//! enough to tell columns, indentation and centring. So the rules that find sections in a PDF find them here.
//!
//! Each line knows its bytes in the file. The reader never fails on markup: it reads what browsers would display. The work
//! is linear in the file, and memory is bounded by the text, not by the depth or the number of elements.

mod color;
mod css;
mod declared;
mod elements;
mod encoding;
mod hidden;
mod labels;
mod length;
mod line;
mod pages;
mod placed;
mod reader;
mod references;
mod server_page;
mod style;
mod table;
mod tokens;
mod transform;
mod unread;

#[cfg(test)]
mod tests;

use memchr::memmem;
use stemma_document::{Defect, Page, Source, SourceBody, SourceFormat, furniture};

use self::css::StyleSheets;
use self::encoding::{Input, defect};
use self::pages::{PageBreaks, PageLimits, PageMaker};
use self::reader::Reader;
use self::tokens::Tokenizer;
use crate::{ExtractError, Limits, decode};

/// Larger files are refused: the largest filings have some 80 MB, and their lines must fit into memory.
const MAX_BYTES: usize = 192 << 20;
const NO_PAGE_BREAKS: &str = "html.no_page_breaks";

/// Extracts an HTML file.
///
/// # Errors
///
/// `limits.bytes`, `html.no_text` for a file that displays no text, and `html.not_a_document` for the page of a server that
/// sent no document.
pub fn read(bytes: &[u8], limits: &Limits) -> Result<Source, ExtractError> {
    decode::check_size(bytes.len(), limits)?;
    if bytes.len() > MAX_BYTES {
        return Err(ExtractError::new(
            "limits.bytes",
            format!(
                "the HTML file has {} bytes, more than the limit of {MAX_BYTES}",
                bytes.len()
            ),
            "split the file",
        ));
    }
    let mut defects = Vec::new();
    let input = Input::new(bytes, &mut defects);
    let breaks = find_page_breaks(&input.bytes);
    let (reader, tokens) = read_tokens(&input, breaks, limits);
    note_reading(&reader, &tokens, limits, &mut defects);
    let mut maker = reader.into_pages();
    if maker.breaks == PageBreaks::Made && maker.pages.len() > 1 {
        let detail = "the file marks no page breaks; it is cut into pages of the usual length";
        defects.push(defect(NO_PAGE_BREAKS, detail.into()));
    }
    note_pages(&maker, &mut defects);
    let mut unread = hidden::defects(&maker.unread.hidden);
    unread.extend(maker.unread.picture_defects());
    let hidden = hidden::texts(&maker.unread.hidden);
    let links = maker.take_links();
    let mut pages = maker.pages;
    if let Some(error) = refuse(&input, &pages, &unread) {
        return Err(error);
    }
    defects.extend(unread);
    if !input.is_file {
        forget_bytes(&mut pages);
    }
    furniture::mark(&mut pages);
    labels::set_labels(&mut pages);
    Ok(Source {
        format: SourceFormat::Html,
        body: SourceBody::Pages(pages),
        outline: Vec::new(),
        links,
        metadata: Default::default(),
        defects,
        hidden,
        encrypted: false,
    })
}

/// Extracts HTML that another reader made: its bytes are not those of a file, and it has no breaks of pages.
///
/// # Errors
///
/// Those of [`read`].
pub(crate) fn read_made(markup: &str, limits: &Limits) -> Result<Source, ExtractError> {
    let mut source = read(markup.as_bytes(), limits)?;
    if let SourceBody::Pages(pages) = &mut source.body {
        forget_bytes(pages);
    }
    source
        .defects
        .retain(|defect| defect.code != NO_PAGE_BREAKS);
    Ok(source)
}

fn forget_bytes(pages: &mut [Page]) {
    let lines = pages.iter_mut().flat_map(|page| &mut page.lines);
    lines.for_each(|line| {
        line.bytes = None;
        let cells = line.grid.iter_mut().flat_map(|grid| &mut grid.cells);
        cells.for_each(|cell| cell.bytes = None);
    });
}

/// Reads the tokens of a file, from the start again with its style sheets if it has any.
fn read_tokens<'a>(
    input: &'a Input<'a>,
    breaks: PageBreaks,
    limits: &Limits,
) -> (Reader<'a>, Tokenizer<'a>) {
    let limit = PageLimits {
        pages: limits.max_pages as usize,
        links: limits.max_links as usize,
        anchors: limits.max_destinations as usize,
    };
    let start = |sheets| {
        Reader::new(
            input,
            PageMaker::new(breaks, limit),
            sheets,
            breaks == PageBreaks::Rules,
            limits.max_lines as usize,
        )
    };
    let mut tokens = Tokenizer::new(&input.bytes);
    let mut reader = start(None);
    if !reader.read(&mut tokens) {
        tokens = Tokenizer::new(&input.bytes);
        reader = start(Some(StyleSheets::read(&input.bytes)));
        reader.read(&mut tokens);
    }
    (reader, tokens)
}

/// Why what a file displays is not the text of a document.
fn refuse(input: &Input<'_>, pages: &[Page], unread: &[Defect]) -> Option<ExtractError> {
    if pages.is_empty() {
        let details: Vec<&str> = unread.iter().map(|gap| gap.detail.as_str()).collect();
        return Some(ExtractError::new(
            "html.no_text",
            match details.first() {
                None => "the file displays no text".to_owned(),
                Some(_) => format!("the file displays no text: {}", details.join("; ")),
            },
            "check how the file was made or copied",
        ));
    }
    let message = server_page::message(input, pages)?;
    Some(ExtractError::new(
        "html.not_a_document",
        format!("the file is a page of a web server and not a document: it says “{message}”"),
        "fetch the document again",
    ))
}

fn note_reading(
    reader: &Reader<'_>,
    tokens: &Tokenizer<'_>,
    limits: &Limits,
    defects: &mut Vec<Defect>,
) {
    if let Some(at) = tokens.unclosed {
        let detail =
            format!("a tag or comment at byte {at} never ends, so nothing behind it was read");
        defects.push(defect("html.unclosed", detail));
    }
    if reader.had_deep_elements {
        let detail = "elements are nested deeper than 512; the style of the deepest was not read";
        defects.push(defect("limits.html_depth", detail.into()));
    }
    if reader.had_deep_tables {
        let detail = "tables are nested deeper than 12; the deepest were read as text";
        defects.push(defect("limits.html_tables", detail.into()));
    }
    let detail = match reader.sheets.linked {
        0 => None,
        1 => Some("1 linked style sheet was not read".to_owned()),
        count => Some(format!("{count} linked style sheets were not read")),
    };
    defects.extend(detail.map(|detail| defect("html.style_sheets", detail)));
    if reader.sheets.is_cut {
        let detail = "the style sheets have more rules than are read; some looks were not read";
        defects.push(defect("limits.html_rules", detail.into()));
    }
    if reader.is_cut {
        let detail = format!("only the first {} lines were read", limits.max_lines);
        defects.push(defect("limits.lines", detail));
    }
}

fn note_pages(maker: &PageMaker<'_>, defects: &mut Vec<Defect>) {
    if maker.has_divided {
        let detail = "a page without breaks was much longer than a printed page and was divided";
        defects.push(defect("html.long_page", detail.into()));
    }
    if maker.dropped_lines > 0 {
        let detail = format!(
            "{} lines behind page {} were not read",
            maker.dropped_lines,
            maker.pages.len()
        );
        defects.push(defect("limits.pages", detail));
    }
    if maker.dropped_links > 0 {
        let detail = format!(
            "{} links and link targets were not read",
            maker.dropped_links
        );
        defects.push(defect("limits.links", detail));
    }
}

/// What marks the ends of pages in a file.
fn find_page_breaks(bytes: &[u8]) -> PageBreaks {
    let any = |needles: &[&[u8]]| {
        needles
            .iter()
            .any(|needle| memmem::find(bytes, needle).is_some())
    };
    let styles: [&[u8]; 6] = [
        b"page-break-after",
        b"page-break-before",
        b"PAGE-BREAK-AFTER",
        b"PAGE-BREAK-BEFORE",
        b"<PAGE>",
        b"<page>",
    ];
    // Usual before 2001.
    let rules: [&[u8]; 6] = [
        b"<hr",
        b"<HR",
        b"<Hr",
        b"PAGEBREAK",
        b"pagebreak",
        b"PageBreak",
    ];
    match () {
        () if any(&styles) => PageBreaks::Marked,
        () if any(&rules) => PageBreaks::Rules,
        () => PageBreaks::Made,
    }
}

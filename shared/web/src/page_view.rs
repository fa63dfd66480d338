//! A page of a document: its image with the extent of a section, and its text.

use maud::{Markup, html};
use stemma_archive::archive::spawn_cpu;
use stemma_archive::{ApiError, Archive};
use stemma_document::{Page, PageNo, PageSpan, PublishedTree, Rect, Section, SectionSpan};

use crate::context::{PageContext, encoded};
use crate::text::{Passage, cut_to};

// Of a page image, in pixels; half as wide as most screens.
pub(crate) const IMAGE_WIDTH: &str = "1000";

// A full page of small print has 15 KB.
const MAX_TEXT_BYTES: usize = 100_000;

/// A page that is shown.
pub(crate) struct PageView {
    pub number: u32,
    pub label: Option<String>,
    // Width and height of the displayed page in points.
    size: (f32, f32),
    lines: Vec<(String, bool)>,
    // Left, top, width and height of the section, in points.
    extent: Option<[f32; 4]>,
}

impl PageView {
    /// Reads a page; `None` if the store has no text of it.
    pub async fn read(
        archive: &Archive,
        published: &PublishedTree,
        number: u32,
        section: Option<&Section>,
    ) -> Result<Option<Self>, ApiError> {
        let Some(source) = archive.load_source(published).await? else {
            return Ok(None);
        };
        let Some(number) = PageNo::new(number) else {
            return Ok(None);
        };
        let read = spawn_cpu(move || source.pages(PageSpan::between(number, number))).await?;
        let pages = read.map_err(|error| {
            let next = "stemma ingest the file again";
            ApiError::new("store.damaged", error.to_string(), next)
        })?;
        let page = pages.first();
        Ok(page.map(|page| Self::new(number, page, section)))
    }

    fn new(number: PageNo, page: &Page, section: Option<&Section>) -> Self {
        let lines = section.and_then(|section| lines_on_page(section, number, page.lines.len()));
        let (width, height) = page.displayed_size();
        Self {
            number: number.get(),
            label: stemma_archive::documents::printed_label(number, page),
            size: (width.points(), height.points()),
            extent: lines.clone().and_then(|lines| extent(page, lines)),
            lines: text_lines(page, lines.as_ref()),
        }
    }

    /// The image, with the section marked.
    pub fn image(&self, context: &PageContext, label: &str) -> Markup {
        let extent = self.extent.map(|extent| vec![extent]).unwrap_or_default();
        page_image(context, label, self.number, self.size, &extent, "extent")
    }

    /// The text, with the lines of the section marked.
    pub fn text(&self) -> Markup {
        html! {
            div.page-text tabindex="0" role="region" aria-label=(format!("Text of page {}", self.number)) {
                @if self.lines.is_empty() { p.note { "This page has no text." } }
                @for (line, is_marked) in &self.lines {
                    @if *is_marked { p { mark { (Passage(line)) } } } @else { p { (Passage(line)) } }
                }
            }
        }
    }
}

/// The image of a page with rectangles over it, in points.
pub(crate) fn page_image(
    context: &PageContext,
    label: &str,
    number: u32,
    size: (f32, f32),
    rectangles: &[[f32; 4]],
    class: &str,
) -> Markup {
    let path = format!("/v1/documents/{}/pages/{number}/image", encoded(label));
    let width = size.0.max(1.0);
    let height = size.1.max(1.0);
    html! {
        figure.page {
            div.sheet {
                img data-page=(number) src=(context.url(&path, &[("width", IMAGE_WIDTH)])) alt=(format!("Page {number}")) loading="lazy"
                    width=(width.round()) height=(height.round()) decoding="async";
                svg viewBox=(format!("0 0 {width} {height}")) preserveAspectRatio="none" aria-hidden="true" {
                    @for [x, y, w, h] in rectangles { rect class=(class) x=(x) y=(y) width=(w) height=(h) {} }
                }
            }
            figcaption.failure { "This page cannot be shown as an image. Its text is below." }
        }
    }
}

// The lines of a page, and whether they belong to the section. The text of a hostile page is cut.
fn text_lines(page: &Page, section: Option<&std::ops::Range<usize>>) -> Vec<(String, bool)> {
    let mut room_bytes = MAX_TEXT_BYTES;
    let lines = page.lines.iter().enumerate();
    lines
        .map_while(|(at, line)| {
            let text = cut_to(&line.text, room_bytes);
            room_bytes -= text.len();
            let is_marked = section.is_some_and(|section| section.contains(&at));
            (room_bytes > 0).then(|| (text.to_owned(), is_marked))
        })
        .collect()
}

// The lines of a section on a page.
fn lines_on_page(section: &Section, page: PageNo, lines: usize) -> Option<std::ops::Range<usize>> {
    let SectionSpan::Pages { pages, from, to } = section.span else {
        return None;
    };
    if page < pages.start() || page > pages.end() {
        return None;
    }
    let start = if from.page == page {
        from.line as usize
    } else {
        0
    };
    let end = match to {
        Some(to) if to.page == page => to.line as usize,
        _ => lines,
    };
    (start < end.min(lines)).then_some(start..end.min(lines))
}

// The box around lines, as the page is displayed.
fn extent(page: &Page, lines: std::ops::Range<usize>) -> Option<[f32; 4]> {
    let rects = page.lines.get(lines)?.iter().map(|line| line.rect);
    let all = rects.reduce(|a, b| Rect {
        x0: a.x0.min(b.x0),
        y0: a.y0.min(b.y0),
        x1: a.x1.max(b.x1),
        y1: a.y1.max(b.y1),
    })?;
    let Rect { x0, y0, x1, y1 } = page.displayed(all);
    let [x0, y0, x1, y1] = [x0, y0, x1, y1].map(stemma_document::Pt::points);
    (x1 > x0 && y1 > y0).then_some([x0, y0, x1 - x0, y1 - y0])
}

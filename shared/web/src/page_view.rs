//! A page of a document: its image with a selectable text layer and the extent of a section, and its text.

use std::iter;
use std::ops::Range;

use maud::{Markup, html};
use stemma_archive::{ApiError, Archive, PageWords};
use stemma_catalog::catalog::CatalogDocument;
use stemma_document::{Page, PageNo, PublishedTree, Recognition, Section, SectionSpan};

use crate::context::{PageContext, encoded};
use crate::reading_layer::{line_boxes, value_boxes};
use crate::text::{Line, Passage, cut_to, grouped};
use crate::text_layer::{doubt_marks, text_layer};

// Width of a page image in pixels; half of most screens.
const IMAGE_WIDTH: &str = "1000";

// A full page of small print has 15 KB.
const MAX_TEXT_BYTES: usize = 100_000;
// Words in doubt that are named; all are marked.
const DOUBTFUL_WORDS: usize = 12;

pub(crate) struct PageView {
    pub words: PageWords,
    lines: Vec<TextLine>,
}

// A line of the text of a page.
struct TextLine {
    text: String,
    // Whether it belongs to the section.
    is_marked: bool,
    // Words that text recognition is not sure of, as places in the text.
    doubts: Vec<Range<usize>>,
}

impl PageView {
    /// Reads a page; `None` if the store has no text of it.
    pub async fn read(
        archive: &Archive,
        listed: &CatalogDocument,
        published: &PublishedTree,
        number: u32,
        section: Option<&Section>,
        with_reading: bool,
    ) -> Result<Option<Self>, ApiError> {
        let Some(number) = PageNo::new(number) else {
            return Ok(None);
        };
        let Some(mut stored) = archive.stored_page(listed, published, number).await? else {
            return Ok(None);
        };
        if with_reading {
            stored = archive.add_reading(stored, listed, published).await?;
        }
        let lines = stored.page.lines.len();
        let marked = section.and_then(|section| lines_on_page(section, number, lines));
        Ok(Some(Self {
            lines: text_lines(&stored.page, marked.as_ref()),
            words: stored.words(listed, section.map(|section| section.span)),
        }))
    }

    /// The image, with the section marked and words that can be selected.
    pub fn image(&self, context: &PageContext, label: &str) -> Markup {
        let size = (self.words.width, self.words.height);
        let extent: Vec<_> = self
            .words
            .extent
            .iter()
            .map(|rect| [rect.x, rect.y, rect.w, rect.h])
            .collect();
        let reading = self.words.reading.as_ref();
        let layer = html! {
            @if let Some(reading) = reading { (line_boxes(&self.words, reading)) }
            (doubt_marks(&self.words))
            (text_layer(&self.words))
            @if let Some(reading) = reading { (value_boxes(&self.words, reading)) }
        };
        page_image(
            context,
            label,
            self.words.page,
            size,
            &extent,
            "extent",
            &layer,
        )
    }

    /// The text, with the lines of the section marked, and what each line was read as.
    pub fn text(&self) -> Markup {
        let read = self.words.reading.iter().flat_map(|reading| &reading.lines);
        let kinds = read.map(|line| Some(line.kind)).chain(iter::repeat(None));
        html! {
            div.page-text tabindex="0" role="region" aria-label=(format!("Text of page {}", self.words.page)) {
                @if self.lines.is_empty() { p.note { "This page has no text." } }
                @for (line, kind) in self.lines.iter().zip(kinds) {
                    p data-kind=[kind] {
                        @if let Some(kind) = kind { span.note { (kind.replace('_', " ")) } " " }
                        @if line.is_marked { mark { (line.content()) } } @else { (line.content()) }
                    }
                }
            }
        }
    }

    /// What text recognition says about the page, if it read it.
    pub fn recognition(&self) -> Markup {
        let Some(read) = &self.words.ocr else {
            return html! {};
        };
        let doubtful: Vec<&str> = read
            .doubtful
            .iter()
            .map(|word| word.trim_end_matches(['.', ',', ';', ':']))
            .collect();
        let named = doubtful.get(..DOUBTFUL_WORDS).unwrap_or(&doubtful);
        let disputed = read.disputed.iter().take(DOUBTFUL_WORDS);
        let disputed: Vec<String> = disputed
            .map(|one| both_readings(&one.text, &one.other))
            .collect();
        html! {
            p.recognition {
                span.badge { "OCR" } " Text recognition read this page from a picture. It is " (read.confidence) "\u{a0}% sure of its words"
                @if doubtful.is_empty() { "." } @else {
                    "; in doubt, and marked: " (Line(&named.join(", ")))
                    @if named.len() < doubtful.len() { " and " (grouped(doubtful.len() - named.len())) " more" } "."
                }
                @if !disputed.is_empty() { " Another reader read otherwise: " (Line(&disputed.join(", "))) "." }
            }
        }
    }
}

fn both_readings(text: &str, other: &str) -> String {
    match other {
        "" => format!("{text} or nothing"),
        other => format!("{text} or {other}"),
    }
}

impl TextLine {
    fn content(&self) -> Markup {
        let ends = self.doubts.iter().map(|doubt| doubt.end);
        let starts = iter::once(0).chain(ends);
        let end = self.doubts.last().map_or(0, |doubt| doubt.end);
        html! {
            @for (start, doubt) in starts.zip(&self.doubts) {
                (self.part(start..doubt.start)) span.doubtful { (self.part(doubt.clone())) }
            }
            (self.part(end..self.text.len()))
        }
    }

    // Nothing of what was cut.
    fn part(&self, range: Range<usize>) -> Passage<'_> {
        Passage(self.text.get(range).unwrap_or_default())
    }
}

/// The address of the image of a page.
pub(crate) fn image_url(context: &PageContext, label: &str, number: u32, width: &str) -> String {
    let path = format!("/documents/{}/pages/{number}/image", encoded(label));
    context.url(&path, &[("width", width)])
}

/// The image of a page of `size` points, with a layer of words and rectangles over it: left, top, width and height in fractions of the page.
pub(crate) fn page_image(
    context: &PageContext,
    label: &str,
    number: u32,
    size: (f32, f32),
    rectangles: &[[f32; 4]],
    class: &str,
    layer: &Markup,
) -> Markup {
    let width = size.0.max(1.0);
    let height = size.1.max(1.0);
    html! {
        figure.page {
            div.sheet {
                img data-page=(number) src=(image_url(context, label, number, IMAGE_WIDTH)) alt=(format!("Page {number}")) loading="lazy"
                    width=(width.round()) height=(height.round()) decoding="async";
                svg viewBox=(format!("0 0 {width} {height}")) preserveAspectRatio="none" aria-hidden="true" {
                    @for [x, y, w, h] in rectangles { rect class=(class) x=(x * width) y=(y * height) width=(w * width) height=(h * height) {} }
                    (layer)
                }
            }
            figcaption.failure { "The image of this page cannot be loaded." }
        }
    }
}

// The lines of a page. The text of a hostile page is cut.
fn text_lines(page: &Page, section: Option<&Range<usize>>) -> Vec<TextLine> {
    let mut confidences = page
        .recognition()
        .map_or(&[][..], |read| &read.confidences)
        .iter();
    let mut room_bytes = MAX_TEXT_BYTES;
    let lines = page.lines.iter().enumerate();
    lines
        .map_while(|(at, line)| {
            let text = cut_to(&line.text, room_bytes);
            // A line without text takes room, too.
            room_bytes = room_bytes.saturating_sub(text.len() + 1);
            let doubts = line.words.iter().zip(confidences.by_ref());
            let doubts = doubts
                .filter(|(_, confidence)| **confidence < Recognition::SURE)
                .map(|(word, _)| word.start as usize..word.end as usize);
            let line = TextLine {
                text: text.to_owned(),
                is_marked: section.is_some_and(|section| section.contains(&at)),
                doubts: doubts.collect(),
            };
            (room_bytes > 0).then_some(line)
        })
        .collect()
}

// The lines of a section on a page.
fn lines_on_page(section: &Section, page: PageNo, lines: usize) -> Option<Range<usize>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_text_take_room_on_a_page() {
        let page = Page {
            lines: vec![stemma_document::Line::default(); 2 * MAX_TEXT_BYTES],
            ..Page::default()
        };
        assert!(text_lines(&page, None).len() < MAX_TEXT_BYTES);
    }
}

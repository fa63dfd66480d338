//! Pages of a text that is set for a typewriter.

use stemma_document::{Line, Page, Pt, Source, SourceBody, SourceFormat, furniture};
use stemma_reading::typewriter::Typewriter;

use crate::Limits;
use crate::decode::DecodedText;
use crate::edgar::tags::{PartCleaner, is_page_mark};

// US letter with half an inch of margin, as pages of HTML have.
const WIDTH: f32 = 612.0;
const HEIGHT: f32 = 792.0;
const MARGIN: f32 = 36.0;
// Text of filings is set for typewriters: 132 columns at most, 66 lines to a page.
const TYPEWRITER: Typewriter = Typewriter {
    left: Pt(3_600),
    character_width: Pt(400),
    font_size: Pt(800),
};
const LINE_HEIGHT: f32 = (HEIGHT - 2.0 * MARGIN) / LINES_PER_PAGE as f32;
const LINES_PER_PAGE: u16 = 66;

/// The pages of a text, divided where it marks pages, or where a page is full.
pub(crate) fn text_pages(decoded: DecodedText, format: SourceFormat, limits: &Limits) -> Source {
    let mut cleaner = PartCleaner::default();
    let mut pages: Vec<Page> = Vec::new();
    let mut lines: Vec<Line> = Vec::new();
    let mut row = 0u16;
    let mut end_page = |lines: &mut Vec<Line>| {
        if !lines.is_empty() && pages.len() < limits.max_pages as usize {
            pages.push(Page {
                width: Pt::new(WIDTH),
                height: Pt::new(HEIGHT),
                lines: std::mem::take(lines),
                ..Page::default()
            });
        }
        lines.clear();
    };
    for mut text in decoded.lines() {
        if is_page_mark(&text) || text.starts_with('\u{c}') || row >= LINES_PER_PAGE {
            end_page(&mut lines);
            row = 0;
        }
        // Only filings have tags in their texts.
        if format == SourceFormat::Html {
            cleaner.clean(&mut text);
        }
        lines.extend(TYPEWRITER.line(&text, Pt::new(MARGIN + f32::from(row) * LINE_HEIGHT)));
        row += 1;
    }
    end_page(&mut lines);
    furniture::mark(&mut pages);
    Source {
        format,
        body: SourceBody::Pages(pages),
        outline: Vec::new(),
        links: Vec::new(),
        metadata: Default::default(),
        defects: decoded.defects,
        hidden: Vec::new(),
        encrypted: false,
    }
}

//! Submissions with HTML: the pages of all documents, one after the other.

use stemma_document::{
    Defect, Destination, HiddenText, Line, Link, OutlineItem, Page, PageNo, Pt, Source, SourceBody,
    SourceFormat, furniture,
};
use stemma_edgar::{FullSubmission, PartKind, SubmissionPart};
use stemma_reading::title;
use stemma_reading::typewriter::Typewriter;

use super::tags::{PartCleaner, is_page_mark};
use crate::decode::DecodedText;
use crate::{ExtractError, Limits, html};

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

/// The outline of the source lists the documents with their first pages.
pub(super) fn read(
    bytes: &[u8],
    submission: &FullSubmission,
    limits: &Limits,
) -> Result<Source, ExtractError> {
    let mut reader = PagesOfParts {
        bytes,
        limits,
        pages: Vec::new(),
        outline: Vec::new(),
        links: Vec::new(),
        defects: submission.defects.clone(),
        hidden: Vec::new(),
        tables: 0,
    };
    for part in submission.documents() {
        reader.add(part)?;
    }
    if reader.pages.is_empty() {
        return Err(super::no_documents(submission));
    }
    Ok(Source {
        format: SourceFormat::Html,
        body: SourceBody::Pages(reader.pages),
        outline: reader.outline,
        links: reader.links,
        metadata: submission.header.facts(),
        defects: reader.defects,
        hidden: reader.hidden,
        encrypted: false,
    })
}

struct PagesOfParts<'a> {
    bytes: &'a [u8],
    limits: &'a Limits,
    pages: Vec<Page>,
    outline: Vec<OutlineItem>,
    links: Vec<Link>,
    defects: Vec<Defect>,
    hidden: Vec<HiddenText>,
    // One more than the highest number of a table so far.
    tables: u32,
}

impl PagesOfParts<'_> {
    fn add(&mut self, part: &SubmissionPart) -> Result<(), ExtractError> {
        let content = &self.bytes[part.content.clone()];
        let name = title::clean(&part.entry.title());
        let left = (self.limits.max_pages as usize).saturating_sub(self.pages.len());
        if left == 0 {
            self.note(
                "limits.pages",
                format!("{name} was not read: the submission has too many pages"),
            );
            return Ok(());
        }
        let limits = Limits {
            max_pages: u32::try_from(left).unwrap_or(u32::MAX),
            ..self.limits.clone()
        };
        let read = match part.kind {
            PartKind::Html | PartKind::InlineXbrl => html::read(content, &limits),
            _ => text_pages(content.to_vec(), &limits),
        };
        let read = match read {
            Ok(read) => read,
            Err(error) if error.code.starts_with("limits.") => return Err(error),
            Err(error) => {
                self.note(
                    "edgar.document_unreadable",
                    format!("{name}: {}", error.message),
                );
                return Ok(());
            }
        };
        let SourceBody::Pages(mut pages) = read.body else {
            return Ok(());
        };
        if pages.is_empty() {
            self.note("edgar.document_unreadable", format!("{name} has no text"));
            return Ok(());
        }
        let first = self.pages.len();
        let moved = |page: PageNo| PageNo::from_index(page.index() + first);
        self.outline.push(OutlineItem {
            title: if name.is_empty() {
                "Document".into()
            } else {
                name
            },
            level: 1,
            target: Some(Destination {
                page: PageNo::from_index(first),
                y: None,
            }),
        });
        self.links.extend(read.links.into_iter().map(|link| Link {
            page: moved(link.page),
            target: Destination {
                page: moved(link.target.page),
                ..link.target
            },
            ..link
        }));
        self.hidden
            .extend(read.hidden.into_iter().map(|text| HiddenText {
                page: moved(text.page),
                ..text
            }));
        for mut defect in read.defects {
            defect.page = defect.page.map(moved);
            // What is so of one document without pages of its own is so of most.
            if defect.page.is_some()
                || !self
                    .defects
                    .iter()
                    .any(|known| known.code == defect.code && known.page.is_none())
            {
                self.defects.push(defect);
            }
        }
        let offset = u32::try_from(part.content.start).unwrap_or(u32::MAX);
        let tables = self.tables;
        for line in pages.iter_mut().flat_map(|page| &mut page.lines) {
            if let Some(grid) = &mut line.grid {
                grid.table = grid.table.saturating_add(tables);
                self.tables = self.tables.max(grid.table.saturating_add(1));
            }
            let cells = line.grid.iter_mut().flat_map(|grid| &mut grid.cells);
            let spans = cells.filter_map(|cell| cell.bytes.as_mut());
            for bytes in spans.chain(&mut line.bytes) {
                bytes.start = bytes.start.saturating_add(offset);
                bytes.end = bytes.end.saturating_add(offset);
            }
        }
        self.pages.append(&mut pages);
        Ok(())
    }

    fn note(&mut self, code: &str, detail: String) {
        self.defects.push(Defect {
            code: code.into(),
            page: None,
            detail,
        });
    }
}

/// The pages of a text, divided where it marks pages, or where a page is full.
fn text_pages(bytes: Vec<u8>, limits: &Limits) -> Result<Source, ExtractError> {
    let decoded = DecodedText::read(bytes, limits)?;
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
        cleaner.clean(&mut text);
        lines.extend(TYPEWRITER.line(&text, Pt::new(MARGIN + f32::from(row) * LINE_HEIGHT)));
        row += 1;
    }
    end_page(&mut lines);
    furniture::mark(&mut pages);
    Ok(Source {
        format: SourceFormat::Html,
        body: SourceBody::Pages(pages),
        outline: Vec::new(),
        links: Vec::new(),
        metadata: Default::default(),
        defects: decoded.defects,
        hidden: Vec::new(),
        encrypted: false,
    })
}

//! Submissions with HTML or XML: the pages of all documents, one after the other.

use stemma_document::{
    Defect, Destination, HiddenText, Link, OutlineItem, Page, PageNo, Source, SourceBody,
    SourceFormat,
};
use stemma_edgar::{FullSubmission, PartKind, SubmissionPart};
use stemma_reading::title;

use crate::decode::DecodedText;
use crate::text_pages::text_pages;
use crate::{ExtractError, Limits, html, xml};

/// The outline of the source lists the documents with their first pages, and below them the headings that their files declare.
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
        unread: None,
    };
    for part in submission.documents() {
        reader.add(part)?;
    }
    if reader.pages.is_empty() {
        let unread = reader.unread.take();
        return Err(unread.unwrap_or_else(|| super::no_documents(submission)));
    }
    Ok(Source {
        format: SourceFormat::Html,
        body: SourceBody::Pages(reader.pages),
        outline: reader.outline,
        links: reader.links,
        metadata: submission.facts(),
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
    // Why the first document that was not read was not.
    unread: Option<ExtractError>,
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
            PartKind::Xml => xml::read(content, &limits, html::read_made),
            _ => DecodedText::read(content.to_vec(), &limits)
                .map(|decoded| text_pages(decoded, SourceFormat::Html, &limits)),
        };
        let read = match read {
            Ok(read) => read,
            Err(error) if error.code.starts_with("limits.") => return Err(error),
            Err(error) => {
                self.note(
                    "edgar.document_unreadable",
                    format!("{name}: {}", error.message),
                );
                self.unread.get_or_insert(error);
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
        self.outline
            .extend(read.outline.into_iter().map(|item| OutlineItem {
                level: item.level.saturating_add(1),
                target: item.target.map(|target| Destination {
                    page: moved(target.page),
                    ..target
                }),
                ..item
            }));
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

//! The places of the words of a page, for a text layer over its image.

use std::ops::Range;

use serde::Serialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::page_locator;
use stemma_document::{
    Line, Page, PageNo, PageSpan, PublishedTree, Recognition, Rect, SectionId, SectionSpan,
    SourceFormat, WordReading,
};
use stemma_retrieval::search::PageRect;
use utoipa::ToSchema;

use crate::archive::{no_text, spawn_cpu};
use crate::documents::{PageRecognition, printed_label};
use crate::page_reading::{PageReading, PlacedSpan};
use crate::read::page_number;
use crate::{ApiError, Archive};

/// The words of a page with their boxes. Boxes are in fractions of the displayed page (0–1), origin at the top left.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PageWords {
    /// The document's id.
    pub doc_id: String,
    pub locator: String,
    /// Physical page, from 1.
    pub page: u32,
    /// Printed page number, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Width of the displayed page in points (1/72 inch); 0 for pages without positions.
    pub width: f32,
    /// Height of the displayed page in points.
    pub height: f32,
    /// Whether the page can be drawn: it is a page of a PDF.
    pub has_image: bool,
    /// Present if text recognition (OCR) read the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ocr: Option<PageRecognition>,
    /// Lines in reading order.
    pub lines: Vec<WordLine>,
    /// The place of the requested section on this page: a box for each column.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extent: Vec<PageRect>,
    /// What the page was read as, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<PageReading>,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct WordLine {
    /// Its box.
    #[serde(flatten)]
    pub rect: PageRect,
    /// Its words from left to right.
    pub words: Vec<PageWord>,
}

/// A word, as high as its line; in a line that is turned, it has the box of the line.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PageWord {
    /// As written.
    pub text: String,
    /// Its box.
    #[serde(flatten)]
    pub rect: PageRect,
    /// Whether text recognition (OCR) is not sure of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_doubt: bool,
    /// What a second reader read, if it differs; empty if it read nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
}

impl Archive {
    /// The words of page `number` of the document that a locator names; with a section, its place on the page, and
    /// `with_reading` what the page was read as.
    pub async fn page_words(
        &self,
        locator: &str,
        number: u32,
        section: Option<SectionId>,
        with_reading: bool,
    ) -> Result<PageWords, ApiError> {
        let (listed, published, _) = self.load_published(locator).await?;
        let label = &listed.label;
        let number = page_number(label, published.tree.extent, number)?;
        let span = match section {
            Some(id) => {
                let found = published.tree.section(id).map(|section| section.span);
                Some(found.ok_or_else(|| {
                    let message = format!("`{label}` has no section {id}");
                    ApiError::in_document("locator.no_section", message, label)
                })?)
            }
            None => None,
        };
        let page = self.stored_page(&listed, &published, number).await?;
        let mut page = page.ok_or_else(|| no_text(&listed))?;
        if with_reading {
            page = self.add_reading(page, &listed, &published).await?;
        }
        Ok(page.words(&listed, span))
    }

    /// A page of a document; `None` if its text is not in the store.
    pub async fn stored_page(
        &self,
        listed: &CatalogDocument,
        published: &PublishedTree,
        number: PageNo,
    ) -> Result<Option<StoredPage>, ApiError> {
        let Some(packed) = self.load_source(published).await? else {
            return Ok(None);
        };
        let has_image = packed.header().format == SourceFormat::Pdf;
        let damaged = |error: String| {
            ApiError::new("store.damaged", error, "stemma ingest the file again")
                .with_document(&listed.label)
        };
        let read = spawn_cpu(move || packed.pages(PageSpan::between(number, number))).await?;
        let mut pages = read.map_err(|error| damaged(error.to_string()))?;
        let page = pages
            .pop()
            .ok_or_else(|| damaged(format!("page {number} is missing")))?;
        Ok(Some(StoredPage {
            number,
            page,
            has_image,
            reading: None,
        }))
    }
}

/// A page as it was read from its file.
pub struct StoredPage {
    pub number: PageNo,
    pub page: Page,
    /// Whether it is a page of a PDF.
    pub has_image: bool,
    /// See [`Archive::add_reading`].
    pub reading: Option<PageReading>,
}

impl StoredPage {
    /// Its words, the places of the lines of a section, and its reading if that was added.
    pub fn words(self, listed: &CatalogDocument, section: Option<SectionSpan>) -> PageWords {
        let page = &self.page;
        let boxes = PageBoxes::new(page);
        PageWords {
            doc_id: listed.doc().to_string(),
            locator: page_locator(&listed.label, self.number),
            page: self.number.get(),
            label: printed_label(self.number, page),
            width: boxes.width,
            height: boxes.height,
            has_image: self.has_image,
            ocr: PageRecognition::from_page(page),
            lines: boxes.lines(),
            extent: section
                .map(|span| boxes.extent(span, self.number))
                .unwrap_or_default(),
            reading: self.reading,
        }
    }
}

// Boxes of a page as fractions of the displayed page.
pub(crate) struct PageBoxes<'p> {
    page: &'p Page,
    width: f32,
    height: f32,
}

impl<'p> PageBoxes<'p> {
    pub(crate) fn new(page: &'p Page) -> Self {
        let (width, height) = page.displayed_size();
        Self {
            page,
            width: width.points(),
            height: height.points(),
        }
    }

    fn lines(&self) -> Vec<WordLine> {
        // All words on the page, by line.
        let recognition = self.page.recognition();
        let mut readings = recognition.into_iter().flat_map(Recognition::words);
        self.page
            .lines
            .iter()
            .map(|line| self.line(line, readings.by_ref()))
            .collect()
    }

    fn line(&self, line: &Line, mut readings: impl Iterator<Item = WordReading>) -> WordLine {
        let words = line.words.iter().filter_map(|word| {
            let reading = readings.next();
            let text = line.text.get(word.start as usize..word.end as usize)?;
            let rect = Rect {
                x0: word.x0,
                x1: word.x1,
                ..line.rect
            };
            Some(PageWord {
                text: text.to_owned(),
                rect: self.fractions(rect),
                in_doubt: reading
                    .as_ref()
                    .is_some_and(|reading| reading.confidence < Recognition::SURE),
                other: reading.and_then(|reading| reading.other),
            })
        });
        WordLine {
            rect: self.fractions(line.rect),
            words: words.collect(),
        }
    }

    /// A part of a line. Its box covers all words that it touches, or the line if it touches none.
    pub(crate) fn span(&self, line: &Line, at: &Range<usize>) -> PlacedSpan {
        // A line may have any number of words and mentions, so words are searched and not walked through.
        let first = line
            .words
            .partition_point(|word| word.end as usize <= at.start);
        let behind = line
            .words
            .partition_point(|word| (word.start as usize) < at.end);
        let inside = line.words.get(first..behind).unwrap_or_default();
        PlacedSpan {
            start: u32::try_from(at.start).unwrap_or(u32::MAX),
            end: u32::try_from(at.end).unwrap_or(u32::MAX),
            rect: self.fractions(Rect {
                x0: inside.first().map_or(line.rect.x0, |word| word.x0),
                x1: inside.last().map_or(line.rect.x1, |word| word.x1),
                ..line.rect
            }),
        }
    }

    // The boxes of a section's lines on page `number`. A line above or next to those before it begins a new column.
    fn extent(&self, span: SectionSpan, number: PageNo) -> Vec<PageRect> {
        let SectionSpan::Pages { from, to, .. } = span else {
            return Vec::new();
        };
        let mut columns: Vec<Rect> = Vec::new();
        for (index, line) in (0..).zip(&self.page.lines) {
            let at = (number, index);
            let is_inside =
                (from.page, from.line) <= at && to.is_none_or(|to| at < (to.page, to.line));
            if !is_inside || line.is_furniture() {
                continue;
            }
            match columns.last_mut() {
                Some(column) if line.rect.y0 >= column.y0 && overlaps(*column, line.rect) => {
                    *column = column.union(line.rect);
                }
                _ => columns.push(line.rect),
            }
        }
        columns
            .into_iter()
            .map(|column| self.fractions(column))
            .collect()
    }

    pub(crate) fn fractions(&self, rect: Rect) -> PageRect {
        let rect = self.page.displayed(rect);
        let width = self.width.max(1.0);
        let height = self.height.max(1.0);
        PageRect {
            x: fraction(rect.x0.points(), width),
            y: fraction(rect.y0.points(), height),
            w: fraction(rect.width(), width),
            h: fraction(rect.height(), height),
        }
    }
}

fn overlaps(left: Rect, right: Rect) -> bool {
    left.x0 < right.x1 && right.x0 < left.x1
}

// Rounded to five digits: less than a hundredth of a point on a page of paper.
fn fraction(length: f32, whole: f32) -> f32 {
    ((length / whole).clamp(0.0, 1.0) * 1e5).round() / 1e5
}

#[cfg(test)]
mod tests {
    use stemma_document::{DisputedWord, LineRole, PageOrigin, Position, Pt, Turn, Word};

    use super::*;

    fn line(text: &str, rect: [f32; 4]) -> Line {
        let [x0, y0, x1, y1] = rect;
        let word = Word {
            start: 0,
            end: text.len() as u32,
            x0: Pt::new(x0),
            x1: Pt::new(x1),
        };
        Line {
            text: text.into(),
            rect: Rect::new(x0, y0, x1, y1),
            words: vec![word],
            ..Line::default()
        }
    }

    fn page(lines: Vec<Line>) -> Page {
        Page {
            width: Pt::new(100.0),
            height: Pt::new(200.0),
            lines,
            ..Page::default()
        }
    }

    fn rounded(rects: &[PageRect]) -> Vec<[f32; 4]> {
        rects
            .iter()
            .map(|rect| [rect.x, rect.y, rect.w, rect.h])
            .collect()
    }

    fn span(from_line: u32, to: Option<(u32, u32)>) -> SectionSpan {
        let at = |page, line| Position {
            page: PageNo::new(page).unwrap(),
            line,
            y: Pt(0),
        };
        SectionSpan::Pages {
            pages: PageSpan::new(1, 2).unwrap(),
            from: at(1, from_line),
            to: to.map(|(page, line)| at(page, line)),
        }
    }

    #[test]
    fn words_have_boxes_on_the_displayed_page() {
        let read = Page {
            turn: Turn::Quarter,
            ..page(vec![line("Revenue", [10.0, 20.0, 60.0, 40.0])])
        };
        let boxes = PageBoxes::new(&read);
        assert_eq!((boxes.width, boxes.height), (200.0, 100.0));
        let shown = &boxes.lines()[0];
        assert_eq!(shown.words[0].text, "Revenue");
        assert_eq!(rounded(&[shown.words[0].rect]), [[0.8, 0.1, 0.1, 0.5]]);
    }

    #[test]
    fn words_that_text_recognition_is_not_sure_of_are_in_doubt() {
        let origin = PageOrigin::Recognized(Box::new(Recognition {
            skew: 0,
            confidences: vec![96, 41],
            disputed: vec![DisputedWord {
                word: 1,
                other: "d8ubt".into(),
            }],
        }));
        let read = Page {
            origin,
            ..page(vec![
                line("sure", [10.0, 20.0, 60.0, 40.0]),
                line("d0ubt", [10.0, 50.0, 60.0, 70.0]),
            ])
        };
        let lines = PageBoxes::new(&read).lines();
        let doubts: Vec<_> = lines.iter().map(|line| line.words[0].in_doubt).collect();
        assert_eq!(doubts, [false, true]);
        let others: Vec<_> = lines
            .iter()
            .map(|line| line.words[0].other.as_deref())
            .collect();
        assert_eq!(others, [None, Some("d8ubt")]);
        let ocr = PageRecognition::from_page(&read).unwrap();
        assert_eq!(ocr.doubtful, ["d0ubt"]);
        assert_eq!(
            (&*ocr.disputed[0].text, &*ocr.disputed[0].other),
            ("d0ubt", "d8ubt")
        );
        let of_file = page(vec![line("stated", [10.0, 20.0, 60.0, 40.0])]);
        assert!(!PageBoxes::new(&of_file).lines()[0].words[0].in_doubt);
    }

    #[test]
    fn a_section_covers_each_column_of_its_lines() {
        let mut lines = vec![
            line("before", [0.0, 0.0, 40.0, 10.0]),
            line("title", [0.0, 20.0, 30.0, 30.0]),
            line("first column", [0.0, 30.0, 40.0, 40.0]),
            line("second column", [60.0, 0.0, 100.0, 10.0]),
            line("below it", [60.0, 10.0, 90.0, 20.0]),
            line("after", [60.0, 50.0, 100.0, 60.0]),
            line("foot", [0.0, 190.0, 100.0, 200.0]),
        ];
        lines[6].role = LineRole::Foot;
        let read = page(lines);
        let boxes = PageBoxes::new(&read);
        let of_page = |span| rounded(&boxes.extent(span, PageNo::FIRST));
        assert_eq!(
            of_page(span(1, Some((1, 5)))),
            [[0.0, 0.1, 0.4, 0.1], [0.6, 0.0, 0.4, 0.1]]
        );
        assert_eq!(
            of_page(span(1, None)),
            [[0.0, 0.1, 0.4, 0.1], [0.6, 0.0, 0.4, 0.3]]
        );
        assert!(of_page(span(5, Some((1, 5)))).is_empty());
    }
}

//! What the lines of a document are, and its tables: read once from the complete source, stored next to it, and used by everything
//! else.

mod codec;

pub use codec::{ReadingCodecError, ReadingSizes};

use serde::{Deserialize, Serialize};
use stemma_document::{Line, Page, PageNo, SourceBody};

use crate::heading_look::{BodyLook, PLAIN_WORDS, TextLook, TitleText};
use crate::lines::{LABEL_WORDS, LineKind, LineReading, read_lines};
use crate::numbers::{NumberMarks, settle_marks};
use crate::page_features::{is_number, year};
use crate::tables::{CELL_GAP, FigureTable, read_tables, read_text_tables};

/// The reading of a document.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DocumentReading {
    pub lines: LineReadings,
    /// In reading order.
    pub tables: Vec<FigureTable>,
}

/// What each line of a document is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LineReadings {
    // By page. A document without pages has one entry.
    pages: Vec<Vec<LineReading>>,
    // How the numbers of each page are written.
    marks: Vec<NumberMarks>,
}

impl DocumentReading {
    /// Raise it when equal sources give another reading.
    pub const REVISION: u32 = 5;

    /// Reads a document.
    pub fn new(body: &SourceBody) -> Self {
        Self::new_until(body, &|| false)
    }

    /// Reads a document, without the tables behind the page where `is_cancelled`.
    pub fn new_until(body: &SourceBody, is_cancelled: &dyn Fn() -> bool) -> Self {
        let pages = match body {
            SourceBody::Pages(pages) => pages,
            SourceBody::Lines(text) => {
                let mut lines = read_lines(text.lines.iter().map(String::as_str));
                let texts = text.lines.iter().map(String::as_str);
                let marks = settle_marks(std::iter::once(texts.zip(lines.iter().copied())));
                let own = marks.first().copied().unwrap_or_default();
                let (tables, table_lines) = read_text_tables(text, &lines, own, is_cancelled);
                for (line, kind) in table_lines {
                    lines[line].kind = kind;
                }
                return Self::from_parts(vec![lines], marks, tables);
            }
        };
        let pages = &*Page::all_to_the_right(pages);
        let mut lines: Vec<Vec<LineReading>> = pages.iter().map(read_page).collect();
        let texts = pages.iter().zip(&lines).map(|(page, lines)| {
            let texts = page.lines.iter().map(|line| line.text.as_str());
            texts.zip(lines.iter().copied())
        });
        let marks = settle_marks(texts);
        let (tables, table_lines) = read_tables(1, pages, &marks, is_cancelled);
        for (page, line, kind) in table_lines {
            if let Some(line) = lines.get_mut(page).and_then(|lines| lines.get_mut(line)) {
                line.kind = kind;
            }
        }
        Self::from_parts(lines, marks, tables)
    }

    // Where spaces part the groups of numbers in a table, they do so in the text.
    fn from_parts(
        pages: Vec<Vec<LineReading>>,
        mut marks: Vec<NumberMarks>,
        tables: Vec<FigureTable>,
    ) -> Self {
        if tables.iter().any(|table| table.marks.has_spaces) {
            for page in &mut marks {
                page.has_spaces = true;
            }
        }
        Self {
            lines: LineReadings { pages, marks },
            tables,
        }
    }
}

impl LineReadings {
    /// How the numbers of a page (1-based) are written, or those of a document without pages.
    pub fn marks(&self, page: Option<PageNo>) -> NumberMarks {
        let index = page.map_or(0, PageNo::index);
        self.marks.get(index).copied().unwrap_or_default()
    }

    /// The lines of a page (1-based), or of a document without pages.
    pub fn on_page(&self, page: Option<PageNo>) -> &[LineReading] {
        let index = page.map_or(0, PageNo::index);
        self.pages.get(index).map_or(&[], Vec::as_slice)
    }

    /// A line by its number (1-based) on the page or in the text. What is not in the reading is prose.
    pub fn line(&self, page: Option<PageNo>, number: u32) -> LineReading {
        let index = (number as usize).wrapping_sub(1);
        self.on_page(page).get(index).copied().unwrap_or_default()
    }
}

fn read_page(page: &Page) -> Vec<LineReading> {
    let body = BodyLook::from_lines(
        page.lines
            .iter()
            .filter(|line| !line.is_furniture())
            .map(|line| (line.text.as_str(), line)),
    );
    let mut lines = read_lines(page.lines.iter().map(|line| line.text.as_str()));
    for (reading, line) in lines.iter_mut().zip(&page.lines) {
        let is_text = matches!(reading.kind, LineKind::Label | LineKind::Prose);
        if is_text && has_cell_apart(line, reading.label_end) {
            reading.kind = LineKind::Row;
        }
        reading.is_heading = body.sets_apart(TextLook::from(line)) && is_title(&line.text);
    }
    lines
}

// Whether a short label is followed by a cell far from it, such as the page of an entry of the contents.
fn has_cell_apart(line: &Line, label_end: u32) -> bool {
    let label = line.words.iter().rfind(|word| word.end <= label_end);
    let cell = line.words.iter().find(|word| word.start >= label_end);
    let words = line.words.partition_point(|word| word.end <= label_end);
    words <= LABEL_WORDS
        && label.zip(cell).is_some_and(|(label, cell)| {
            cell.x0.points() - label.x1.points() > CELL_GAP * line.rect.height()
        })
}

fn is_title(text: &str) -> bool {
    let title = TitleText::new(text);
    title.is_lettered()
        && (1..=PLAIN_WORDS).contains(&title.words())
        && !text.split_whitespace().skip(1).any(is_number_cell)
}

// Cells such as `1,749` and `$`, but not the number of a note or a year, which headings may have.
fn is_number_cell(word: &str) -> bool {
    word == "$"
        || is_number(word)
            && year(word).is_none()
            && (word.contains([',', '(', '%']) || word.len() > 3)
}

#[cfg(test)]
mod tests {
    use stemma_document::TextLines;
    use stemma_filings::monospaced_page;

    use super::*;
    use crate::tables::STATEMENT;

    fn kinds(reading: &DocumentReading, page: Option<PageNo>) -> Vec<LineKind> {
        let lines = reading.lines.on_page(page);
        lines.iter().map(|line| line.kind).collect()
    }

    #[test]
    fn the_lines_of_a_table_are_what_its_rows_are() {
        let page = monospaced_page(STATEMENT);
        let reading = DocumentReading::new(&SourceBody::Pages(vec![page.clone()]));
        let [table] = &reading.tables[..] else {
            panic!("{:?}", reading.tables);
        };
        for row in &table.rows {
            let line = reading.lines.line(Some(PageNo::FIRST), row.line);
            assert_eq!(line.kind, LineKind::Row, "{row:?}");
        }
        let kinds = kinds(&reading, Some(PageNo::FIRST));
        assert_eq!(kinds[0], LineKind::Prose);
        let years = page
            .lines
            .iter()
            .position(|line| line.text.starts_with("2023"));
        assert_eq!(kinds[years.unwrap()], LineKind::ColumnHead);
        let group = page
            .lines
            .iter()
            .position(|line| line.text == "Current assets:");
        assert_eq!(kinds[group.unwrap()], LineKind::Label);
    }

    #[test]
    fn an_entry_of_the_contents_is_a_row() {
        let page = monospaced_page(
            "Item 1A. Risk factors                          14\nItem 2. Properties in 30 states",
        );
        let reading = DocumentReading::new(&SourceBody::Pages(vec![page]));
        assert_eq!(
            kinds(&reading, Some(PageNo::FIRST)),
            [LineKind::Row, LineKind::Label]
        );
    }

    #[test]
    fn a_text_without_pages_is_read_by_its_words() {
        let lines = [
            "# Results",
            "| Sales | 1,749 |",
            "Sales rose, because more was sold.",
        ];
        let text = TextLines {
            lines: lines.map(str::to_owned).to_vec(),
            ..TextLines::default()
        };
        let reading = DocumentReading::new(&SourceBody::Lines(text));
        assert_eq!(
            kinds(&reading, None),
            [LineKind::Label, LineKind::Row, LineKind::Prose]
        );
        assert_eq!(reading.lines.line(None, 2).label_end, 7);
        assert_eq!(reading.lines.line(None, 4), LineReading::default());
    }

    #[test]
    fn a_stored_reading_is_read_in_parts() {
        let page = monospaced_page(STATEMENT);
        let reading = DocumentReading::new(&SourceBody::Pages(vec![page]));
        let bytes = reading.encode().unwrap();
        assert_eq!(
            DocumentReading::decode_lines(&bytes).unwrap(),
            reading.lines
        );
        assert_eq!(
            DocumentReading::decode_tables(&bytes).unwrap(),
            reading.tables
        );
        for end in 0..bytes.len() {
            let cut = &bytes[..end];
            assert!(DocumentReading::decode_lines(cut).is_err(), "cut at {end}");
            assert!(DocumentReading::decode_tables(cut).is_err(), "cut at {end}");
        }
        let mut newer = bytes;
        newer[0] += 1;
        assert!(matches!(
            DocumentReading::decode_tables(&newer),
            Err(ReadingCodecError::Version(_))
        ));
    }
}

//! What a page was read as: the kinds of its lines, what their text mentions, and the cells of its tables.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde::Serialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::section_locator;
use stemma_document::{Line, PageNo, PublishedTree, ReferenceTarget, SectionId, SectionTree};
use stemma_reading::document_reading::LineReadings;
use stemma_reading::numbers::{NumberMarks, NumberRole};
use stemma_reading::period::period_mentions;
use stemma_reading::tables::{CellFact, FigureTable};
use stemma_retrieval::search::PageRect;
use utoipa::ToSchema;

use crate::archive::{no_text, spawn_cpu};
use crate::page_words::PageBoxes;
use crate::tables::figures;
use crate::{ApiError, Archive, StoredPage};

/// What a page was read as.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PageReading {
    /// One for each of the `lines` of the page.
    pub lines: Vec<ReadLine>,
    /// The cells of its tables.
    pub cells: Vec<PlacedCell>,
}

/// What a line was read as.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ReadLine {
    pub text: String,
    /// `row`, `column_head`, `label` or `prose`.
    pub kind: &'static str,
    /// Whether it looks like a heading.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_heading: bool,
    /// The label of a row, before its cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<PlacedSpan>,
    /// In the order of the line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<LineMention>,
}

/// A part of the text of a line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct PlacedSpan {
    /// First byte of the text.
    pub start: u32,
    /// The byte behind the last.
    pub end: u32,
    /// The box of its words.
    #[serde(flatten)]
    pub rect: PageRect,
}

/// A number, a period or a reference that a line has. The numbers of cells are not among them.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct LineMention {
    /// `amount`, `count`, `year`, `name` (a number that names a day or a note), `period` or `reference`.
    pub kind: &'static str,
    /// An exact decimal without scale; a period such as `2023-12`; or the section that a reference leads to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The scale of a number that has a word for it, as a factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    #[serde(flatten)]
    pub span: PlacedSpan,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PlacedCell {
    /// Locator of the table.
    pub table: String,
    /// From 1.
    pub row: usize,
    /// From 1, without the column of labels.
    pub column: usize,
    /// The label of the row.
    pub label: String,
    /// The head of the column.
    pub head: String,
    /// As printed.
    pub text: String,
    /// The number without scale, as an exact decimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// By how much printed figures are multiplied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<u64>,
    /// As printed, of the column or the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<String>,
    /// The figures that the file tags in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub facts: Vec<CellFact>,
    #[serde(flatten)]
    pub rect: PageRect,
}

impl Archive {
    /// Adds to a page what it was read as.
    pub async fn add_reading(
        &self,
        stored: StoredPage,
        listed: &CatalogDocument,
        published: &PublishedTree,
    ) -> Result<StoredPage, ApiError> {
        let number = stored.number;
        let readings = self.store.load_readings(published).await?;
        let mut tables = self.load_tables(published).await?.unwrap_or_default();
        tables.retain(|table| (table.pages.0..=table.pages.1).contains(&number.get()));
        if let Some(facts) = self.load_facts(published).await? {
            let facts = figures(&facts);
            tables.iter_mut().for_each(|table| table.link_facts(&facts));
        }
        let reader = PageReader {
            label: listed.label.clone(),
            readings: readings.ok_or_else(|| no_text(listed))?,
            tables,
            references: references(&published.tree, number),
        };
        Ok(spawn_cpu(move || StoredPage {
            reading: Some(reader.read(&stored)),
            ..stored
        })
        .await?)
    }
}

struct PageReader {
    // Of the document.
    label: String,
    readings: LineReadings,
    // Those on the page.
    tables: Vec<FigureTable>,
    // Texts in lower case with the sections that they lead to.
    references: HashMap<String, Option<SectionId>>,
}

impl PageReader {
    fn read(&self, stored: &StoredPage) -> PageReading {
        let boxes = PageBoxes::new(&stored.page);
        let cells: Vec<PlacedCell> = self
            .tables
            .iter()
            .flat_map(|table| self.cells(table, stored.number.get()))
            .collect();
        let mut edges: Vec<(f32, f32)> = cells
            .iter()
            .map(|cell| (cell.rect.y, cell.rect.y + cell.rect.h))
            .collect();
        edges.sort_by(|one, two| one.0.total_cmp(&two.0));
        PageReading {
            lines: (1..)
                .zip(&stored.page.lines)
                .map(|(at, line)| self.line(stored.number, at, line, &edges, &boxes))
                .collect(),
            cells,
        }
    }

    fn line(
        &self,
        page: PageNo,
        at: u32,
        line: &Line,
        edges: &[(f32, f32)],
        boxes: &PageBoxes<'_>,
    ) -> ReadLine {
        let reading = self.readings.line(Some(page), at);
        let label = reading.label(&line.text).map(str::len);
        let mut mentions = self.mentions(line, self.readings.marks(Some(page)), boxes);
        if let Some(label) = label.filter(|_| has_cells(edges, boxes.fractions(line.rect))) {
            mentions.retain(|mention| (mention.span.start as usize) < label);
        }
        ReadLine {
            text: line.text.clone(),
            kind: reading.kind.name(),
            is_heading: reading.is_heading,
            label: label
                .filter(|end| *end > 0)
                .map(|end| boxes.span(line, &(0..end))),
            mentions,
        }
    }

    // In the order of the line. The number of a reference or a period is not a mention of its own.
    fn mentions(&self, line: &Line, marks: NumberMarks, boxes: &PageBoxes<'_>) -> Vec<LineMention> {
        let mut found = self.references_in(line, boxes);
        found.extend(
            period_mentions(&line.text)
                .into_iter()
                .map(|mention| LineMention {
                    kind: "period",
                    value: Some(mention.period.to_string()),
                    scale: None,
                    span: boxes.span(line, &mention.at),
                }),
        );
        found.sort_by_key(|mention| mention.span.start);
        let mut all: Vec<LineMention> = marks
            .numbers(&line.text)
            .into_iter()
            .map(|number| LineMention {
                kind: role_name(number.role),
                value: number.signed_value().map(|value| value.to_string()),
                scale: number.own_scale().map(|scale| scale as f64),
                span: boxes.span(line, &number.at),
            })
            .filter(|number| {
                let before = found.partition_point(|one| one.span.start < number.span.end);
                found[..before]
                    .last()
                    .is_none_or(|one| one.span.end <= number.span.start)
            })
            .collect();
        all.extend(found);
        all.sort_by_key(|mention| mention.span.start);
        all
    }

    fn references_in(&self, line: &Line, boxes: &PageBoxes<'_>) -> Vec<LineMention> {
        let words: Vec<Range<usize>> = line
            .text
            .split_whitespace()
            .map(|word| {
                let start = word.as_ptr() as usize - line.text.as_ptr() as usize;
                start..start + word.len()
            })
            .collect();
        words
            .windows(2)
            .filter_map(|pair| {
                let is_mark = |c: char| !c.is_alphanumeric();
                let name = line.text[pair[0].clone()].trim_start_matches(is_mark);
                let number = line.text[pair[1].clone()].split(['(', '’', '\'']).next()?;
                let number = number.trim_end_matches(is_mark);
                let to = self
                    .references
                    .get(&format!("{name} {number}").to_lowercase())?;
                let at = pair[0].end - name.len()..pair[1].start + number.len();
                Some(LineMention {
                    kind: "reference",
                    value: to.map(|id| section_locator(&self.label, id)),
                    scale: None,
                    span: boxes.span(line, &at),
                })
            })
            .collect()
    }

    fn cells(&self, table: &FigureTable, page: u32) -> Vec<PlacedCell> {
        let mut placed = Vec::new();
        for (row_number, row) in (1..).zip(&table.rows).filter(|(_, row)| row.page == page) {
            for (at, cell) in row.cells.iter().enumerate() {
                let column = table.columns.get(at).cloned().unwrap_or_default();
                let Some((cell, [x, y, w, h])) =
                    cell.as_ref().and_then(|cell| Some((cell, cell.rect?)))
                else {
                    continue;
                };
                placed.push(PlacedCell {
                    table: format!("{}#{}", self.label, table.id),
                    row: row_number,
                    column: at + 1,
                    label: row.label.clone(),
                    head: column.head,
                    text: cell.text.clone(),
                    value: cell.value.clone(),
                    scale: table.scale,
                    unit: column.unit.or_else(|| table.unit.clone()),
                    period: column.period,
                    facts: cell.facts.clone(),
                    rect: PageRect {
                        x: x as f32,
                        y: y as f32,
                        w: w as f32,
                        h: h as f32,
                    },
                });
            }
        }
        placed
    }
}

// The references of the sections on a page. Each is listed once for a section.
fn references(tree: &SectionTree, page: PageNo) -> HashMap<String, Option<SectionId>> {
    let sections: HashSet<SectionId> = tree
        .walk()
        .filter(|(_, section)| {
            let pages = section.span.pages();
            pages.is_some_and(|pages| (pages.start()..=pages.end()).contains(&page))
        })
        .map(|(_, section)| section.id)
        .collect();
    tree.references
        .iter()
        .filter(|reference| sections.contains(&reference.from))
        .map(|reference| {
            let to = match reference.to {
                ReferenceTarget::Section(id) => Some(id),
                ReferenceTarget::Unresolved => None,
            };
            (reference.text.to_lowercase(), to)
        })
        .collect()
}

// Whether a cell is at the height of the middle of a box. `edges` are the upper and lower edges of all cells, in order.
fn has_cells(edges: &[(f32, f32)], rect: PageRect) -> bool {
    let middle = f32::midpoint(rect.y, rect.y + rect.h);
    let behind = edges.partition_point(|(top, _)| *top <= middle);
    edges[..behind]
        .last()
        .is_some_and(|(_, bottom)| middle < *bottom)
}

fn role_name(role: NumberRole) -> &'static str {
    match role {
        NumberRole::Amount => "amount",
        NumberRole::Count => "count",
        NumberRole::Year => "year",
        NumberRole::Name => "name",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stemma_document::{Collection, FilingFacts, Page, SourceBody};
    use stemma_filings::monospaced_page;
    use stemma_store::blobs::{Blobs, MemoryBlobs};
    use stemma_store::env::Env;

    use super::*;
    use crate::PageWords;

    const STATEMENT: &str = "\
Sales of $1.7 billion in 2023 are explained in Note 5.

                  (Dollars in millions)
                                        2023        2022
Current assets:
  Cash and equivalents               $ 1,749     $ 1,603
  Receivables                            820         (31)
Total assets                         $ 2,569       1,572";

    async fn words(with_reading: bool) -> PageWords {
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
        let body = SourceBody::Pages(vec![monospaced_page(STATEMENT)]);
        stemma_sample_store::publish(blobs.as_ref(), "a.pdf", body, FilingFacts::default()).await;
        let archive = Archive::open(&Env::system(), blobs, Collection::default())
            .await
            .unwrap();
        archive
            .page_words("a", 1, None, with_reading)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_page_of_a_statement_has_kinds_cells_and_mentions() {
        assert_eq!(words(false).await.reading, None);
        let words = words(true).await;
        let reading = words.reading.unwrap();
        assert_eq!(reading.lines.len(), words.lines.len());
        let kinds: Vec<&str> = reading.lines.iter().map(|line| line.kind).collect();
        assert_eq!(
            kinds,
            [
                "prose",
                "column_head",
                "column_head",
                "label",
                "row",
                "row",
                "row"
            ]
        );
        let row = &reading.lines[4];
        let label = row.label.unwrap();
        assert_eq!(
            row.text[..label.end as usize].trim(),
            "Cash and equivalents"
        );
        assert!(label.rect.x + label.rect.w < reading.cells[0].rect.x);
        assert_eq!(row.mentions, []);
        let cell = &reading.cells[3];
        assert_eq!((cell.row, cell.column), (2, 2));
        assert_eq!(
            (&*cell.table, &*cell.label, &*cell.text),
            ("a#t1", "Receivables", "(31)")
        );
        assert_eq!(cell.value.as_deref(), Some("-31"));
        assert_eq!(cell.scale, Some(1_000_000));
        assert_eq!(cell.period.as_deref(), Some("2022"));
        assert_eq!(cell.unit.as_deref(), Some("(Dollars in millions)"));
    }

    #[test]
    fn a_line_may_have_any_number_of_mentions() {
        let stored = StoredPage {
            number: PageNo::FIRST,
            page: monospaced_page(&"2023 17 ".repeat(50_000)),
            has_image: true,
            reading: None,
        };
        let reader = PageReader {
            label: "a".into(),
            readings: LineReadings::default(),
            tables: Vec::new(),
            references: HashMap::new(),
        };
        let line = &reader.read(&stored).lines[0];
        assert_eq!(line.mentions.len(), 100_000);
    }

    #[test]
    fn mentions_are_placed_and_do_not_overlap() {
        let stored = StoredPage {
            number: PageNo::FIRST,
            page: monospaced_page(STATEMENT),
            has_image: true,
            reading: None,
        };
        let reader = PageReader {
            label: "a".into(),
            readings: LineReadings::default(),
            tables: Vec::new(),
            references: HashMap::from([("note 5".to_owned(), Some(SectionId(7)))]),
        };
        let line = &reader.read(&stored).lines[0];
        let mentions: Vec<_> = line
            .mentions
            .iter()
            .map(|mention| {
                let PlacedSpan { start, end, .. } = mention.span;
                let text = &line.text[start as usize..end as usize];
                (mention.kind, text, mention.value.as_deref())
            })
            .collect();
        assert_eq!(
            mentions,
            [
                ("amount", "1.7", Some("1.7")),
                ("period", "2023", Some("2023")),
                ("reference", "Note 5", Some("a#0007")),
            ]
        );
        assert_eq!(line.mentions[0].scale, Some(1e9));
        let whole: f32 = line.mentions[2].span.rect.w;
        let first = PageBoxes::new(&stored.page)
            .span(&stored.page.lines[0], &(0..5))
            .rect;
        assert!(whole > first.w && line.mentions[2].span.rect.x > first.x);
        let empty = Page::default();
        let bare = PageBoxes::new(&empty).span(&Line::default(), &(0..1));
        assert_eq!((bare.rect.w, bare.end), (0.0, 1));
    }
}

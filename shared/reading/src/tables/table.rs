//! A table of a document: its columns with periods and units, its rows with groups, and its cells.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::numbers::{DecimalMark, NumberMarks};

// Facts that may begin before the end of a cell and belong to it.
const MAX_NESTED_FACTS: usize = 16;

/// A table of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureTable {
    /// `t1`, `t2`, … in reading order.
    pub id: String,
    /// The line above the heads that names the table, as printed.
    pub title: Option<String>,
    /// What the figures are in, as printed: `(in millions, except per share data)`.
    pub unit: Option<String>,
    /// By how much printed figures are multiplied, where one scale is declared.
    pub scale: Option<u64>,
    /// How its numbers are written; without decimal mark where that is not certain.
    #[serde(skip_serializing_if = "NumberMarks::are_english", default)]
    pub marks: NumberMarks,
    /// First and last page, 1-based; 0 in a document without pages.
    #[serde(skip_serializing_if = "is_without_pages", default)]
    pub pages: (u32, u32),
    pub columns: Vec<TableColumn>,
    pub rows: Vec<TableRow>,
    /// Footnotes below it that its cells, labels or heads refer to.
    pub notes: Vec<TableNote>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableNote {
    /// Without parentheses: `1`, `a`.
    pub mark: String,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TableColumn {
    /// Words over the column, from the top.
    pub head: String,
    /// Raised marks of its footnotes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub marks: Vec<String>,
    /// The period that the head names.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub period: Option<String>,
    /// What the figures of this column are in, where its head says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unit: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableRow {
    pub label: String,
    /// Raised marks of its footnotes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub marks: Vec<String>,
    /// The label above that covers this row.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub group: Option<String>,
    /// 0 in a document without pages.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub page: u32,
    /// Its line on the page or in the document, 1-based.
    pub line: u32,
    /// One for each column; `None` where the row has no cell.
    pub cells: Vec<Option<TableCell>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableCell {
    /// As printed, with sign and unit.
    pub text: String,
    /// The number without scale, as an exact decimal; `None` for a dash.
    pub value: Option<String>,
    /// Left, top, width and height on the displayed page, in shares of its size.
    pub rect: Option<[f64; 4]>,
    /// First byte in the file and the one behind the last; only in HTML.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<[u32; 2]>,
    /// Marks of its footnotes, without parentheses.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub marks: Vec<String>,
    /// The figures that the file tags in it; see [`FigureTable::link_facts`].
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub facts: Vec<CellFact>,
}

/// A figure that a file tags in a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellFact {
    /// With its prefix: `us-gaap:Revenues`.
    pub concept: String,
    /// `2024-12-31`, or the first and the last day: `2024-01-01/2024-12-31`.
    pub period: String,
    /// `USD`, `shares`, `USD/shares`, `pure`.
    pub unit: Option<String>,
    /// Exact, with scale and sign applied; `None` if it is nil or cannot be read.
    pub value: Option<String>,
    /// Offset of its tag in the file, which names it in the list of facts.
    pub byte: u32,
    /// Offset behind its closing tag.
    #[serde(skip)]
    pub end: u32,
}

impl TableCell {
    /// Adds another cell of the same row and column, such as the end of a range.
    pub(crate) fn join(&mut self, other: Self) {
        self.text = format!("{} {}", self.text, other.text);
        self.value = None;
        self.bytes = match (self.bytes, other.bytes) {
            (Some(one), Some(two)) => Some([one[0].min(two[0]), one[1].max(two[1])]),
            (one, two) => one.or(two),
        };
        self.marks.extend(other.marks);
        self.facts.extend(other.facts);
    }
}

impl FigureTable {
    /// First and last page; `None` in a document without pages.
    pub fn page_range(&self) -> Option<(u32, u32)> {
        (!is_without_pages(&self.pages)).then_some(self.pages)
    }

    /// First and last line of its rows in a document without pages.
    pub fn line_range(&self) -> Option<(u32, u32)> {
        let first = self.rows.first()?;
        let last = self.rows.last()?;
        self.page_range()
            .is_none()
            .then_some((first.line, last.line))
    }

    /// First and last page, or line in a document without pages.
    pub fn bounds(&self) -> (u32, u32) {
        self.page_range().or(self.line_range()).unwrap_or_default()
    }

    /// Gives each cell the tagged figures in it. `facts` are in the order of the file.
    pub fn link_facts(&mut self, facts: &[CellFact]) {
        let cells = self.rows.iter_mut().flat_map(|row| &mut row.cells);
        for cell in cells.flatten() {
            let Some([start, end]) = cell.bytes else {
                continue;
            };
            let behind = facts.partition_point(|fact| fact.byte < end);
            let inside = facts[..behind].iter().rev();
            // Tags of figures are nested a few deep at most.
            let inside = inside
                .take(MAX_NESTED_FACTS)
                .filter(|fact| fact.end > start);
            cell.facts = inside.cloned().collect();
            cell.facts.reverse();
        }
    }

    /// Title and unit, the table as Markdown, and its footnotes.
    pub fn to_text(&self) -> String {
        let above = [self.title.as_deref(), self.unit.as_deref()];
        let above: Vec<&str> = above.into_iter().flatten().collect();
        let mut text = above.join(" · ");
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&self.to_string());
        if let Some(doubt) = self.marks_in_doubt() {
            text.push_str(&format!("\n{doubt}"));
        }
        for note in &self.notes {
            text.push_str(&format!("\n({}) {}", note.mark, note.text));
        }
        text
    }

    /// Says that the marks of its numbers are not certain.
    pub fn marks_in_doubt(&self) -> Option<&'static str> {
        (self.marks.decimal == DecimalMark::Undecided).then_some(
            "Points and commas may be before decimals or between groups here: such numbers have no value.",
        )
    }

    // The lines of a table of contents end in page numbers, which are in order.
    pub(crate) fn is_list_of_pages(&self) -> bool {
        let cells = || self.rows.iter().flat_map(|row| row.cells.iter().flatten());
        let pages: Option<Vec<u32>> = cells().map(|cell| cell.text.parse().ok()).collect();
        self.columns.len() == 1 && pages.is_some_and(|pages| pages.is_sorted())
    }
}

fn is_without_pages(pages: &(u32, u32)) -> bool {
    pages.0 == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(page: &u32) -> bool {
    *page == 0
}

impl fmt::Display for FigureTable {
    /// As Markdown.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |text: &str| text.replace('|', "\\|").replace(['\n', '\r'], " ");
        let heads = self.columns.iter().map(|column| escaped(&column.head));
        writeln!(formatter, "| | {} |", heads.collect::<Vec<_>>().join(" | "))?;
        writeln!(formatter, "|---|{}", "---:|".repeat(self.columns.len()))?;
        let mut group: Option<&String> = None;
        for row in &self.rows {
            if row.group.is_some() && row.group.as_ref() != group {
                let name = row.group.as_deref().unwrap_or_default();
                writeln!(
                    formatter,
                    "| **{}** |{}",
                    escaped(name),
                    " |".repeat(self.columns.len())
                )?;
            }
            group = row.group.as_ref();
            let cells = row.cells.iter().map(|cell| {
                cell.as_ref()
                    .map_or(String::new(), |cell| escaped(&cell.text))
            });
            writeln!(
                formatter,
                "| {} | {} |",
                escaped(&row.label),
                cells.collect::<Vec<_>>().join(" | ")
            )?;
        }
        Ok(())
    }
}

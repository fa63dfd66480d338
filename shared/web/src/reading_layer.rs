//! What a page was read as, drawn over its image and told as text.

use std::collections::BTreeMap;

use maud::{Markup, html};
use stemma_archive::{LineMention, PageReading, PageWords, PlacedCell, PlacedSpan};
use stemma_retrieval::search::PageRect;

use crate::document_parts::{MAX_ROWS, not_shown};
use crate::layout::Head::{Number, Text};
use crate::layout::table;
use crate::text::{Line, capitalized};
use crate::text_layer::points;

// Boxes of one kind that are drawn. A full page of small print has 150 lines and 600 figures.
const MAX_BOXES: usize = 5_000;
/// The kinds of lines and where labels of rows end. It is drawn under the words.
pub(crate) fn line_boxes(words: &PageWords, reading: &PageReading) -> Markup {
    html! {
        @for (line, read) in words.lines.iter().zip(&reading.lines).take(MAX_BOXES) {
            (shape(words, line.rect, if read.is_heading { "line heading" } else { "line" }, read.kind, ""))
            @if let Some(PlacedSpan { rect, .. }) = read.label {
                @let x = points((rect.x + rect.w) * words.width);
                line data-kind=(read.kind) x1=(x) x2=(x) y1=(points(rect.y * words.height)) y2=(points((rect.y + rect.h) * words.height)) {}
            }
        }
    }
}

/// Cells and mentions with what they are. They are drawn over the words, so that a pointer finds them.
pub(crate) fn value_boxes(words: &PageWords, reading: &PageReading) -> Markup {
    html! {
        @for mention in reading.lines.iter().flat_map(|line| &line.mentions).take(MAX_BOXES) {
            @let rect = mention.span.rect;
            @let y = points((rect.y + rect.h) * words.height);
            line data-kind=(mention.kind) x1=(points(rect.x * words.width)) x2=(points((rect.x + rect.w) * words.width)) y1=(y) y2=(y) {}
            (shape(words, rect, "pointed", mention.kind, &mention_title(mention)))
        }
        @for cell in reading.cells.iter().take(MAX_BOXES) { (shape(words, cell.rect, "pointed cell", "cell", &cell_title(cell))) }
    }
}

fn shape(words: &PageWords, rect: PageRect, class: &str, kind: &str, title: &str) -> Markup {
    html! {
        rect class=(class) data-kind=(kind) x=(points(rect.x * words.width)) y=(points(rect.y * words.height))
            width=(points(rect.w * words.width)) height=(points(rect.h * words.height)) {
            @if !title.is_empty() { title { (Line(title)) } }
        }
    }
}

// `amount 1.7 × 1000000000`
fn mention_title(mention: &LineMention) -> String {
    let value = mention.value.as_deref().unwrap_or_default();
    let scale = mention.scale.map(|scale| format!(" × {scale}"));
    format!("{} {value}{}", mention.kind, scale.unwrap_or_default())
}

// `Net sales · 2023 · 1749 (in millions)`
fn cell_title(cell: &PlacedCell) -> String {
    let value = cell.value.as_deref().unwrap_or("no number");
    let unit = cell.unit.as_deref().unwrap_or_default();
    format!("{} · {} · {value} {unit}", cell.label, cell.head)
}

/// What the colors mean, with counts.
pub(crate) fn legend(reading: &PageReading) -> Markup {
    let lines = counts(reading.lines.iter().map(|line| line.kind));
    let mentions = counts(
        reading
            .lines
            .iter()
            .flat_map(|line| &line.mentions)
            .map(|mention| mention.kind),
    );
    let headings = reading.lines.iter().filter(|line| line.is_heading).count();
    html! {
        ul.legend aria-label="What the page was read as" {
            @for (kind, count) in lines { li data-kind=(kind) { span.swatch {} (kind_name(kind)) " " (count) } }
            li data-kind="heading" { span.swatch {} "Heading " (headings) }
            li data-kind="cell" { span.swatch {} "Cell " (reading.cells.len()) }
            @for (kind, count) in mentions { li data-kind=(kind) { span.swatch.mention {} (kind_name(kind)) " " (count) } }
        }
    }
}

fn counts(kinds: impl Iterator<Item = &'static str>) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for kind in kinds {
        *counts.entry(kind).or_default() += 1;
    }
    counts
}

/// `Column head`
fn kind_name(kind: &str) -> String {
    capitalized(&kind.replace('_', " "))
}

/// The cells of the tables on a page.
pub(crate) fn cell_list(reading: &PageReading) -> Markup {
    html! {
        @if !reading.cells.is_empty() { details.cells-of-page { summary { "Cells of this page" }
            (table("Cells of this page", &[Text("Table"), Text("Row"), Text("Column"), Number("Value"), Number("Scale"), Text("Unit"), Text("Period"), Text("Tagged fact")], &html! { @for cell in reading.cells.iter().take(MAX_ROWS) { tr {
                th scope="row" { (Line(cell.table.rsplit('#').next().unwrap_or_default())) " " (cell.row) "." (cell.column) }
                td { (Line(&cell.label)) }
                td { (Line(&cell.head)) }
                td.number { (Line(cell.value.as_deref().unwrap_or(&cell.text))) }
                td.number { @if let Some(scale) = cell.scale { (scale) } }
                td { (Line(cell.unit.as_deref().unwrap_or_default())) }
                td { (Line(cell.period.as_deref().unwrap_or_default())) }
                td { @for fact in &cell.facts { (Line(&fact.concept)) " " } }
            } } }))
            (not_shown(reading.cells.len()))
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_told_by_its_row_column_value_and_unit() {
        let rect = PageRect {
            x: 0.5,
            y: 0.1,
            w: 0.1,
            h: 0.02,
        };
        let mut cell = PlacedCell {
            table: "a#t1".into(),
            row: 1,
            column: 2,
            label: "<Net> sales".into(),
            head: "2023".into(),
            text: "1,749".into(),
            value: Some("1749".into()),
            scale: Some(1_000_000),
            unit: Some("(in millions)".into()),
            period: Some("2023".into()),
            facts: Vec::new(),
            rect,
        };
        assert_eq!(cell_title(&cell), "<Net> sales · 2023 · 1749 (in millions)");
        let reading = PageReading {
            lines: Vec::new(),
            cells: vec![cell.clone()],
        };
        let list = cell_list(&reading).into_string();
        assert!(
            list.contains("t1 1.2</th><td>&lt;Net&gt; sales</td>"),
            "{list}"
        );
        let legend = legend(&reading).into_string();
        assert!(
            legend.contains("Cell 1") && legend.contains("Heading 0"),
            "{legend}"
        );
        cell.value = None;
        assert!(cell_title(&cell).contains("no number"));
    }
}

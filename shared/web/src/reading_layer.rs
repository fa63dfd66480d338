//! What a page was read as, drawn over its image and told as text.

use maud::{Markup, html};
use stemma_archive::{LineMention, PageReading, PageWords, PlacedCell, PlacedSpan};
use stemma_retrieval::search::PageRect;

use crate::document_parts::{MAX_ROWS, not_shown};
use crate::layout::Head::Text;
use crate::layout::table;
use crate::text::Line;
use crate::text_layer::points;

// Boxes of one kind that are drawn. A full page of small print has 150 lines and 600 figures.
const MAX_BOXES: usize = 5_000;
// Width of the mark where a label ends, as a share of the page.
const LABEL_END: f32 = 0.002;
// Kinds with their names in the legend.
const LINES: [(&str, &str); 4] = [
    ("row", "Row"),
    ("column_head", "Column head"),
    ("label", "Label"),
    ("prose", "Prose"),
];
const MENTIONS: [(&str, &str); 6] = [
    ("amount", "Amount"),
    ("count", "Count"),
    ("year", "Year"),
    ("name", "Number in a name"),
    ("period", "Period"),
    ("reference", "Reference"),
];

/// The kinds of lines and where labels of rows end. It is drawn under the words.
pub(crate) fn line_boxes(words: &PageWords, reading: &PageReading) -> Markup {
    html! {
        @for (line, read) in words.lines.iter().zip(&reading.lines).take(MAX_BOXES) {
            (shape(words, line.rect, if read.is_heading { "line heading" } else { "line" }, read.kind, ""))
            @if let Some(PlacedSpan { rect, .. }) = read.label {
                (shape(words, PageRect { x: rect.x + rect.w, w: LABEL_END, ..rect }, "label-end", read.kind, ""))
            }
        }
    }
}

/// Cells and mentions with what they are. They are drawn over the words, so that a pointer finds them.
pub(crate) fn value_boxes(words: &PageWords, reading: &PageReading) -> Markup {
    html! {
        @for mention in reading.lines.iter().flat_map(|line| &line.mentions).take(MAX_BOXES) {
            @let whole = mention.span.rect;
            (shape(words, PageRect { y: whole.y + whole.h * 0.95, h: whole.h * 0.12, ..whole }, "mention", mention.kind, ""))
            (shape(words, whole, "pointed", mention.kind, &mention_title(mention)))
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
    let count = |kind: &str| {
        let lines = reading.lines.iter().filter(|line| line.kind == kind);
        let mentions = reading.lines.iter().flat_map(|line| &line.mentions);
        lines.count() + mentions.filter(|mention| mention.kind == kind).count()
    };
    let headings = reading.lines.iter().filter(|line| line.is_heading).count();
    html! {
        ul.legend aria-label="What the page was read as" {
            @for (kind, name) in LINES { li data-kind=(kind) { span.swatch {} (name) " " (count(kind)) } }
            li data-kind="heading" { span.swatch {} "Heading " (headings) }
            li data-kind="cell" { span.swatch {} "Cell " (reading.cells.len()) }
            @for (kind, name) in MENTIONS { li data-kind=(kind) { span.swatch.mention {} (name) " " (count(kind)) } }
        }
    }
}

/// The cells of the tables on a page.
pub(crate) fn cell_list(reading: &PageReading) -> Markup {
    let heads = [
        "Table",
        "Row",
        "Column",
        "Value",
        "Scale",
        "Unit",
        "Period",
        "Tagged fact",
    ];
    html! {
        @if !reading.cells.is_empty() { details.cells-of-page { summary { "Cells of this page" }
            (table("Cells of this page", &heads.map(Text), &html! { @for cell in reading.cells.iter().take(MAX_ROWS) { tr {
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
            legend.contains("Cell 1") && legend.contains("Row 0"),
            "{legend}"
        );
        cell.value = None;
        assert!(cell_title(&cell).contains("no number"));
    }
}

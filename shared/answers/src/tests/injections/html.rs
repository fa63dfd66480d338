//! Claims over tables that an HTML file declares: its cells say which column a figure is in, not gaps between words.

use stemma_document::{GridCell, GridLine, Page, Pt};

use super::{judge, placed_line};
use crate::prompt::{DraftCitation, DraftClaim};
use crate::quote_target::QuoteTarget;

// Rows with the texts of their cells; an empty text is an empty cell. Words of different cells are as near as those of one.
fn page(rows: &[&[&str]]) -> Page {
    let lines = rows.iter().zip(0u32..).map(|(cells, row)| {
        let mut grid = GridLine {
            table: 1,
            row,
            cells: Vec::new(),
        };
        let mut words: Vec<(String, Option<f32>)> = Vec::new();
        let mut start = 0;
        for (text, column) in cells.iter().zip(0..) {
            if text.is_empty() {
                continue;
            }
            let end = start + u32::try_from(text.len()).unwrap();
            grid.cells.push(GridCell {
                start,
                end,
                column,
                columns: 1,
                rows: 1,
                bytes: None,
            });
            start = end + 1;
            words.push(((*text).to_owned(), Some(end as f32 * 5.0)));
        }
        let mut line = placed_line(&words, 20.0 * (row + 1) as f32);
        line.grid = Some(Box::new(grid));
        line
    });
    Page {
        width: Pt::new(700.0),
        height: Pt::new(800.0),
        lines: lines.collect(),
        ..Page::default()
    }
}

#[test]
fn figures_have_the_columns_that_the_file_declares() {
    let page = page(&[
        &["(In millions of dollars)", "2022", "2021", "2020", ""],
        &["Net sales", "1,749", "1,603", "1,200", "Note 2"],
        &["Impairment of goodwill", "", "20", "", "Note 3"],
        &["Restructuring", "31", "", "44", ""],
    ]);
    for (statement, quote, is_right) in [
        (
            "Net sales were $1,749 million in 2022.",
            "Net sales 1,749 1,603 1,200 Note 2",
            true,
        ),
        (
            "Net sales were $1,603 million in 2021.",
            "Net sales 1,749 1,603 1,200 Note 2",
            true,
        ),
        (
            "Net sales were $1,603 million in 2022.",
            "Net sales 1,749 1,603 1,200 Note 2",
            false,
        ),
        (
            "Net sales were $1,749 in 2022.",
            "Net sales 1,749 1,603 1,200 Note 2",
            false,
        ),
        (
            "The impairment of goodwill was $20 million in 2021.",
            "Impairment of goodwill 20",
            true,
        ),
        (
            "The impairment of goodwill was $20 million in 2022.",
            "Impairment of goodwill 20",
            false,
        ),
        (
            "The impairment of goodwill was $20 million in 2020.",
            "Impairment of goodwill 20",
            false,
        ),
        (
            "Restructuring was $31 million in 2022.",
            "Restructuring 31 44",
            true,
        ),
        (
            "Restructuring was $44 million in 2020.",
            "Restructuring 31 44",
            true,
        ),
        (
            "Restructuring was $44 million in 2021.",
            "Restructuring 31 44",
            false,
        ),
        (
            "Net sales were $31 million in 2022.",
            "Restructuring 31 44",
            false,
        ),
    ] {
        let claim = DraftClaim {
            statement: statement.into(),
            citations: vec![DraftCitation {
                passage: 1,
                quote: quote.into(),
            }],
            computation: None,
            pictures: Vec::new(),
        };
        let verdict = judge(&[QuoteTarget::page(4, &page)], &claim);
        assert_eq!(verdict.verified, is_right, "{statement}: {verdict:?}");
    }
}

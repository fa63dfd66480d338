//! Footnotes below a table that its cells, labels or heads refer to.

use std::collections::BTreeSet;

use stemma_document::Page;
use stemma_document::note_marks::{is_raised, marks_in as raised_marks};

use crate::tables::table::{FigureTable, TableNote};

// Lines below a table in which its footnotes are looked for.
const MAX_NOTE_LINES: usize = 30;

impl FigureTable {
    // The footnotes below the last row that it refers to.
    pub(crate) fn read_notes(&mut self, page: &Page, last: usize) {
        let labels = self.rows.iter().map(|row| row.label.as_str());
        let heads = self.columns.iter().map(|column| column.head.as_str());
        let mut marks: BTreeSet<String> = labels
            .chain(heads)
            .flat_map(marks_in)
            .map(str::to_owned)
            .collect();
        let cells = self.rows.iter().flat_map(|row| row.cells.iter().flatten());
        let raised = self.rows.iter().map(|row| &row.marks);
        let raised = raised.chain(self.columns.iter().map(|column| &column.marks));
        let of_cells = cells.map(|cell| &cell.marks);
        marks.extend(of_cells.chain(raised).flatten().cloned());
        let below = page.lines.get(last + 1..).unwrap_or_default().iter();
        let mut below = below
            .filter(|line| !line.is_furniture())
            .take(MAX_NOTE_LINES)
            .peekable();
        while let Some(line) = below.next() {
            let Some((mark, text)) = split_mark(&line.text) else {
                continue;
            };
            if !marks.remove(&mark) {
                continue;
            }
            let mut text = text.to_owned();
            while !text.ends_with('.')
                && let Some(more) = below.next_if(|line| split_mark(&line.text).is_none())
            {
                text = format!("{text} {}", more.text);
            }
            self.notes.push(TableNote { mark, text });
        }
    }
}

// Marks of footnotes in a text, without parentheses: `Other (6)`.
fn marks_in(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.split('(').skip(1);
    ends.filter_map(|rest| {
        let (mark, _) = rest.split_once(')')?;
        is_mark(mark).then_some(mark)
    })
}

// A line that begins with a mark: `(1) Net of taxes.`, `¹ Net of taxes.`
fn split_mark(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let (mark, text) = match text.find(|c: char| !is_raised(c))? {
        0 => {
            let (mark, text) = text.strip_prefix('(')?.split_once(')')?;
            (mark.to_owned(), text)
        }
        end => (raised_marks(&text[..end]).pop()?, &text[end..]),
    };
    is_mark(&mark).then_some((mark, text.trim()))
}

fn is_mark(mark: &str) -> bool {
    matches!(mark.len(), 1 | 2) && mark.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

//! Layouts of generated statements as texts without pages.

use std::collections::BTreeMap;

use super::generated::Cell;

// Points of a character of a page.
const CHARACTER: f32 = 5.0;
// Where the columns of years begin, how far they are apart, and how far a `$` is before its figure.
const FIRST_YEAR: f32 = 380.0;
const YEAR: f32 = 110.0;
const SIGN: f32 = 60.0;

/// Cells at the columns of a typewriter.
pub(super) fn typewritten(lines: &[Vec<Cell>]) -> Vec<String> {
    let write = |cells: &Vec<Cell>| {
        let mut line = String::new();
        for (cell, right) in cells {
            let end = right.map_or(0, |right| (right / CHARACTER) as usize);
            let start = end.saturating_sub(cell.len());
            let gap = start.saturating_sub(line.len());
            line.push_str(&" ".repeat(gap));
            line.push_str(cell);
        }
        line
    };
    lines.iter().map(write).collect()
}

/// A table of Markdown below a title and the unit. A head over all years is in the corner.
pub(super) fn markdown(lines: &[Vec<Cell>]) -> Vec<String> {
    let (above, rows) = lines.split_at(2);
    let over_all = rows.first().filter(|cells| cells.len() == 1);
    let corner = over_all.map_or("", |cells| cells[0].0.as_str());
    let rows = &rows[usize::from(over_all.is_some())..];
    let place = |right: f32| match right < FIRST_YEAR - SIGN {
        true => 1,
        false => 2 + ((right + SIGN - FIRST_YEAR) / YEAR) as usize,
    };
    let last = rows.iter().flatten().filter_map(|(_, right)| *right);
    let last = place(last.fold(0.0, f32::max));
    let write = |cells: &Vec<Cell>| {
        let mut columns: BTreeMap<usize, String> = BTreeMap::new();
        for (cell, right) in cells {
            let text = columns.entry(right.map_or(0, place)).or_default();
            text.push_str(if text.is_empty() { "" } else { " " });
            text.push_str(cell);
        }
        let texts = (0..=last).map(|at| columns.remove(&at).unwrap_or_default());
        format!("| {} |", texts.collect::<Vec<_>>().join(" | "))
    };
    let mut text: Vec<String> = above.iter().map(|cells| cells[0].0.clone()).collect();
    text.insert(0, String::new());
    text.push(String::new());
    for (at, cells) in rows.iter().enumerate() {
        match at {
            0 => {
                let head = [vec![(corner.to_owned(), None)], cells.clone()].concat();
                text.push(write(&head));
                text.push(format!("|{}", "---|".repeat(last + 1)));
            }
            _ => text.push(write(cells)),
        }
    }
    text
}

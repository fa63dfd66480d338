//! Tables of a text without pages: columns of typewritten text are read by the places of characters, as those of pages are, and
//! tables of Markdown by their cells, as those of HTML are.

use std::slice;

use stemma_document::{GridCell, GridLine, Line, Page, Pt, TextLines};

use crate::cells::has_leader;
use crate::lines::{LineKind, LineReading};
use crate::numbers::NumberMarks;
use crate::tables::document::read_tables;
use crate::tables::pipes::{TextLine, table_lines, without_markup};
use crate::tables::table::FigureTable;
use crate::typewriter::Typewriter;

// A space is a little more than half as wide as a line is high, and blank lines are part of heads.
const TYPEWRITER: Typewriter = Typewriter {
    left: Pt(0),
    character_width: Pt(600),
    font_size: Pt(1_000),
};
const LINE_PITCH: Pt = Pt(1_100);
// What is below a rule does not go on what is above it.
const RULE_PITCH: Pt = Pt(150);
// Lines of a part that ends at the next paragraph, and at most.
const PART_LINES: usize = 60;
const MAX_PART_LINES: usize = 1_000;
// `---` in one cell is a dash, and a line of nothing else is a rule.
const RULE: usize = 3;
const PAGE_DIGITS: usize = 4;
const LEADER: &str = "...";

/// The tables of a text, and the kinds of their lines by index. `readings` are the lines as their words tell. Stops where
/// `is_cancelled`. `marks` are those of the text.
pub(crate) fn read_text_tables(
    text: &TextLines,
    readings: &[LineReading],
    marks: NumberMarks,
    is_cancelled: &dyn Fn() -> bool,
) -> (Vec<FigureTable>, Vec<(usize, LineKind)>) {
    let lines = table_lines(&text.lines);
    let starts = part_starts(text, &lines, readings);
    let ends = starts.iter().skip(1).copied().chain([lines.len()]);
    let mut tables: Vec<FigureTable> = Vec::new();
    let mut kinds: Vec<(usize, LineKind)> = Vec::new();
    for (start, end) in starts.iter().copied().zip(ends) {
        if is_cancelled() {
            break;
        }
        let part = TextPart::new(start, &text.lines[start..end], &lines[start..end]);
        let (found, found_kinds) =
            read_tables(0, slice::from_ref(&part.page), &[marks], is_cancelled);
        for (_, line, kind) in found_kinds {
            kinds.push((part.numbers[line], kind));
        }
        for mut table in found {
            table.id = format!("t{}", tables.len() + 1);
            table.title = table.title.filter(|title| !part.is_prose(title, readings));
            for row in &mut table.rows {
                let line = part.numbers[row.line.saturating_sub(1) as usize];
                row.line = u32::try_from(line + 1).unwrap_or(u32::MAX);
                for cell in row.cells.iter_mut().flatten() {
                    cell.rect = None;
                }
            }
            tables.push(table);
        }
    }
    (tables, kinds)
}

// Where parts begin whose tables have nothing to do with each other: at headings, and at the first paragraph behind a table. What
// a title or a paragraph says about a unit is not said about the tables behind the next.
fn part_starts(text: &TextLines, lines: &[TextLine], readings: &[LineReading]) -> Vec<usize> {
    let mut headings = text.headings.iter().map(|heading| heading.line as usize);
    let mut heading = headings.next();
    let mut starts = vec![0];
    let mut has_rows = false;
    let mut has_pipes = false;
    let mut is_blank = false;
    for (at, (line, reading)) in lines.iter().zip(readings).enumerate() {
        let written = text.lines[at].trim_start();
        let is_heading = heading == Some(at + 1);
        if is_heading {
            heading = headings.next();
        }
        let length = starts.last().map_or(0, |start| at - start);
        let ends_part = match (line, reading.kind) {
            (TextLine::Row { row: 0, .. }, _) | (TextLine::Text, LineKind::ColumnHead) => has_pipes,
            // A line of notes begins with its mark.
            (TextLine::Text, _) if !written.starts_with(char::is_alphabetic) => false,
            (TextLine::Text, LineKind::Prose) => {
                is_blank && (has_rows || has_pipes || length > PART_LINES)
            }
            (TextLine::Text, _) => is_blank && has_pipes,
            _ => false,
        };
        if at > 0 && (is_heading || ends_part || length >= MAX_PART_LINES) {
            starts.push(at);
            has_rows = false;
            has_pipes = false;
        }
        match line {
            TextLine::Row { .. } => has_pipes = true,
            TextLine::Text => has_rows |= reading.kind == LineKind::Row,
            TextLine::Hidden => {}
        }
        is_blank = written.is_empty();
    }
    starts
}

// Lines of a text as a page.
struct TextPart {
    page: Page,
    // The index in the text of each line of the page, which has no blank ones.
    numbers: Vec<usize>,
}

impl TextPart {
    fn new(start: usize, texts: &[String], lines: &[TextLine]) -> Self {
        let mut part = Self {
            page: Page::default(),
            numbers: Vec::new(),
        };
        let mut top = Pt(0);
        for (at, (text, line)) in (start..).zip(texts.iter().zip(lines)) {
            let placed = match line {
                TextLine::Row { table, row, cells } => row_line(*table, *row, cells, top),
                TextLine::Text => plain_line(text).and_then(|plain| TYPEWRITER.line(&plain, top)),
                TextLine::Hidden => continue,
            };
            top.0 += match is_rule(text) {
                true => RULE_PITCH.0,
                false => LINE_PITCH.0,
            };
            let placed = placed.filter(|_| !is_rule(text) && !is_page_number(text));
            if let Some(placed) = placed {
                part.page.lines.push(placed);
                part.numbers.push(at);
            }
        }
        part.page.height = top;
        part
    }

    // Whether a title is a line of a paragraph.
    fn is_prose(&self, title: &str, readings: &[LineReading]) -> bool {
        let mut lines = self.page.lines.iter().zip(&self.numbers);
        lines.any(|(line, at)| line.text == title && readings[*at].kind == LineKind::Prose)
    }
}

// A number alone, below the last row of a printed page.
fn is_page_number(text: &str) -> bool {
    let number = text.trim_matches(['-', ' ']);
    (1..=PAGE_DIGITS).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_rule(text: &str) -> bool {
    let text = text.trim();
    text.len() >= RULE
        && text
            .bytes()
            .all(|byte| matches!(byte, b'-' | b'=' | b'_' | b' ' | b'+' | b'\t'))
}

// A line without leaders or markup; `None` if it cannot be told where a leader ends and a number begins.
fn plain_line(text: &str) -> Option<String> {
    if has_leader(text) {
        return without_leaders(text);
    }
    let indentation = text.len() - text.trim_start().len();
    let bare = text.trim_start_matches(['#', ' ', '\t']).trim_end();
    Some(match bare.contains("  ") || bare.contains('\t') {
        // Columns stay at their places.
        true => text.to_owned(),
        false => format!("{}{}", &text[..indentation], without_markup(bare)),
    })
}

// `Per share.......50` may be 50 or .50.
fn without_leaders(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(LEADER) {
        rest = behind.trim_start_matches('.');
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        if number.len() < rest.len() && !number.starts_with(',') {
            return None;
        }
        plain.push_str(before);
        plain.extend(std::iter::repeat_n(
            ' ',
            LEADER.len() + behind.len() - rest.len(),
        ));
    }
    plain.push_str(rest);
    Some(plain)
}

fn row_line(table: u32, row: u32, cells: &[String], top: Pt) -> Option<Line> {
    let mut line = Line {
        rect: TYPEWRITER.rect(Pt(0), Pt(0), top),
        ..Line::default()
    };
    let mut grid = GridLine {
        table,
        row,
        cells: Vec::new(),
    };
    for (column, cell) in (0..).zip(cells).filter(|(_, cell)| !cell.is_empty()) {
        if !line.text.is_empty() {
            line.text.push(' ');
        }
        let start = line.text.len();
        line.text.push_str(cell);
        grid.cells.push(GridCell {
            start: u32::try_from(start).unwrap_or(u32::MAX),
            end: u32::try_from(line.text.len()).unwrap_or(u32::MAX),
            column,
            columns: 1,
            rows: 1,
            bytes: None,
        });
    }
    (!grid.cells.is_empty()).then(|| {
        line.grid = Some(Box::new(grid));
        line
    })
}

#[cfg(test)]
mod tests;

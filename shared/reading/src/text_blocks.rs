//! Splits lines of a text into tables and paragraphs by their kinds, and finds the column heads of tables.

use std::ops::Range;

use crate::lines::LineKind;

/// A table or a paragraph, with the labels above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextBlock {
    pub is_table: bool,
    /// Indexes of its lines.
    pub lines: Range<usize>,
}

// Fewer rows are figures in a text.
const MIN_ROWS: usize = 2;
// A paragraph without a visible end is split after a sentence.
const PARAGRAPH_LINES: usize = 12;
// The last line of a paragraph is this much shorter than the longest line.
const SHORT_LINE: f32 = 0.85;
// Lines of labels and column heads above a row.
const MAX_LABEL_LINES: usize = 8;
// Lines of column heads above one row.
const MAX_HEAD_LINES: usize = 3;

/// Splits lines of these kinds into tables and paragraphs. The blocks cover all lines in order.
pub fn text_blocks(lines: &[&str], kinds: &[LineKind]) -> Vec<TextBlock> {
    let longest = lines.iter().map(|line| line.len()).max().unwrap_or(0);
    let mut blocks = Vec::new();
    let mut start = 0;
    while start < lines.len() {
        let end = table_end(lines, kinds, start);
        let is_table = end.is_some();
        let end = end.unwrap_or_else(|| paragraph_end(lines, kinds, start, longest));
        blocks.push(TextBlock {
            is_table,
            lines: start..end,
        });
        start = end;
    }
    blocks
}

// The end of the table whose heads, labels and rows begin at `start`.
fn table_end(lines: &[&str], kinds: &[LineKind], start: usize) -> Option<usize> {
    let mut rows = 0;
    let mut last_row = start;
    for at in start..lines.len() {
        match kinds[at] {
            LineKind::Row => {
                rows += 1;
                last_row = at;
            }
            // Text that begins a table is a paragraph before it.
            LineKind::Prose if rows == 0 || !is_wrapped_label(lines, kinds, at) => break,
            // Labels without rows are headings of what follows, or a list.
            _ if at > last_row + MAX_LABEL_LINES => break,
            _ => {}
        }
    }
    // A footnote's mark or a total may be alone, but two rows in a row of labels make a table.
    (rows >= MIN_ROWS).then_some(last_row + 1)
}

// A label of two lines, the second of which has the cells.
fn is_wrapped_label(lines: &[&str], kinds: &[LineKind], at: usize) -> bool {
    !lines[at].trim_end().ends_with('.') && kinds.get(at + 1) == Some(&LineKind::Row)
}

fn paragraph_end(lines: &[&str], kinds: &[LineKind], start: usize, longest: usize) -> usize {
    let mut has_text = false;
    for at in start..lines.len() {
        let may_begin_table = match kinds[at] {
            LineKind::Prose => false,
            LineKind::Label => is_after_sentence(lines, kinds, at),
            LineKind::Row | LineKind::ColumnHead => true,
        };
        let begins_other = may_begin_table && table_end(lines, kinds, at).is_some();
        if at > start
            && (begins_other
                || has_text && kinds[at] == LineKind::Label && is_after_sentence(lines, kinds, at))
        {
            return at;
        }
        has_text |= kinds[at] == LineKind::Prose;
        let line = lines[at].trim_end();
        let is_short = (line.len() as f32) < SHORT_LINE * longest as f32;
        if has_text
            && line.ends_with(['.', '!', '?'])
            && (is_short || at + 1 - start >= PARAGRAPH_LINES)
        {
            return at + 1;
        }
    }
    lines.len()
}

// Whether the line before `at` ends a sentence or is no text.
fn is_after_sentence(lines: &[&str], kinds: &[LineKind], at: usize) -> bool {
    at == 0
        || lines[at - 1]
            .trim_end()
            .ends_with(['.', '!', '?', ':', ';'])
        || kinds[at - 1] != LineKind::Prose
}

/// The lines of column heads that apply to line `at` of a table: the nearest ones above it.
pub fn column_heads(kinds: &[LineKind], table: &TextBlock, at: usize) -> Range<usize> {
    let above = table.lines.start..at.min(table.lines.end);
    let Some(last) = above
        .clone()
        .rev()
        .find(|line| kinds[*line] == LineKind::ColumnHead)
    else {
        return at..at;
    };
    let lines = above.rev().skip_while(|line| *line > last);
    let count = lines
        .take_while(|line| kinds[*line] == LineKind::ColumnHead)
        .take(MAX_HEAD_LINES)
        .count();
    last + 1 - count..last + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::read_lines;

    const PAGE: [&str; 12] = [
        "Results of operations were affected by the sale of a mill in 2021 and by the prices of wood, which",
        "rose by a tenth. We expect this to continue.",
        "Consolidated Statement of Income",
        "Years ended December 31",
        "(Millions, except per share amounts)",
        "2022 2021 2020",
        "Net sales $ 34,229 $ 35,355 $ 32,184",
        "Operating expenses",
        "Cost of sales 19,232 18,795 16,605",
        "Total operating expenses 27,690 27,986 25,023",
        "The accompanying notes are an integral part of this statement, and the statement is one of",
        "four.",
    ];

    #[test]
    fn tables_and_paragraphs_are_told_apart() {
        let kinds: Vec<LineKind> = read_lines(PAGE).iter().map(|line| line.kind).collect();
        let blocks = text_blocks(&PAGE, &kinds);
        let found: Vec<(bool, Range<usize>)> = blocks
            .iter()
            .map(|block| (block.is_table, block.lines.clone()))
            .collect();
        assert_eq!(found, [(false, 0..2), (true, 2..10), (false, 10..12)]);
        assert_eq!(column_heads(&kinds, &blocks[1], 8), 3..6);
        assert_eq!(kinds[7], LineKind::Label);
    }
}

//! Tables of Markdown, found by pulldown-cmark: cells between pipes, below a head and a row of dashes.

use std::mem;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

// A longer row has no cells.
const MAX_CELLS: usize = 200;

/// What a line of a text is for its tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextLine {
    Text,
    /// Code, or the dashes below a head.
    Hidden,
    /// The cells of a row without markup, by number of the table and of the row in it.
    Row {
        table: u32,
        row: u32,
        cells: Vec<String>,
    },
}

/// Finds the tables between the lines of a text.
pub(crate) fn table_lines(lines: &[String]) -> Vec<TextLine> {
    let mut text = String::new();
    let mut starts = Vec::with_capacity(lines.len());
    for line in lines.iter().map(|line| line.trim()) {
        starts.push(text.len());
        // Plain text may look like any other block.
        if line.starts_with("```") || line.starts_with("~~~") {
            text.push_str(line);
        } else if line.contains('|') {
            // What begins with a pipe is no list, and ends a paragraph.
            text.extend(["|", line.strip_prefix('|').unwrap_or(line)]);
        }
        text.push('\n');
    }
    let line_at = |offset| starts.partition_point(|start| *start <= offset) - 1;
    let mut found = vec![TextLine::Text; lines.len()];
    let mut table = 0;
    let mut head = 0;
    let mut end = 0;
    let mut cells = Vec::new();
    let mut events = Parser::new_ext(&text, Options::ENABLE_TABLES).into_offset_iter();
    while let Some((event, range)) = events.next() {
        let at = line_at(range.start);
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::Table(_)) => {
                found[at..=line_at(range.end - 1)].fill(TextLine::Hidden);
                head = at;
            }
            Event::Start(Tag::TableCell) => {
                let inside = events.by_ref().map(|(event, _)| event);
                let inside = inside.take_while(|event| *event != Event::End(TagEnd::TableCell));
                cells.push(plain_text(inside));
                end = range.end;
            }
            Event::End(TagEnd::TableHead | TagEnd::TableRow) => {
                // A pipe in a text moves all that follows into other columns.
                if cells.len() > MAX_CELLS || !matches!(text[end..range.end].trim(), "" | "|") {
                    cells.clear();
                }
                found[at] = TextLine::Row {
                    table,
                    row: u32::try_from(at - head).unwrap_or(u32::MAX),
                    cells: mem::take(&mut cells),
                };
            }
            Event::End(TagEnd::Table) => table += 1,
            _ => {}
        }
    }
    found
}

/// A text of one line without its markup.
pub(crate) fn without_markup(text: &str) -> String {
    // Behind a pipe, no block begins.
    let paragraph = format!("|{text}");
    let plain = plain_text(Parser::new(&paragraph));
    plain.strip_prefix('|').unwrap_or(&plain).trim().to_owned()
}

fn plain_text<'a>(events: impl Iterator<Item = Event<'a>>) -> String {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut plain = String::new();
    for event in events {
        match event {
            Event::Text(text) | Event::Code(text) => {
                // `1,749<sup>2</sup>` is not 17,492.
                if plain.ends_with(is_digit) && text.starts_with(is_digit) {
                    plain.push(' ');
                }
                plain.push_str(&text);
            }
            Event::InlineHtml(tag) if tag.starts_with("<br") => plain.push(' '),
            _ => {}
        }
    }
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> String {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let rows = table_lines(&lines).into_iter().map(|line| match line {
            TextLine::Text => "text".to_owned(),
            TextLine::Hidden => "hidden".to_owned(),
            TextLine::Row { table, row, cells } => format!("{table}.{row} {}", cells.join("/")),
        });
        rows.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_table_has_a_head_and_dashes_with_or_without_outer_pipes() {
        let text = "Sales\n    | | 2023 |\n    |:--|--:|\n| **A\\|B** | \\$1,749<sup>1</sup> |\nx\nx | y\n- | -\n_z_ | 1";
        let expected = "text; 0.0 /2023; hidden; 0.2 A|B/$1,749 1; text; 1.0 x/y; hidden; 1.2 z/1";
        assert_eq!(rows(text), expected);
        let text = "| a | b |\n| - |\n---\n| c |";
        assert_eq!(rows(text), "text; text; text; text");
    }

    #[test]
    fn code_has_no_table() {
        let text = "~~~md\n```\n| a | b |\n|---|---|\n~~~~\n| a | b |\n|---|---|";
        let expected = "hidden; hidden; hidden; hidden; hidden; 0.0 a/b; hidden";
        assert_eq!(rows(text), expected);
        assert_eq!(rows("``` | `\n-|-\n    a"), "0.0 ```/`; hidden; text");
    }

    #[test]
    fn a_row_with_too_many_cells_has_none() {
        let text = "| a | b |\n|---|---|\n| c|d | 1 |\n| c|d | |\n| e |";
        let expected = "0.0 a/b; hidden; 0.2 ; 0.3 ; 0.4 e/";
        assert_eq!(rows(text), expected);
    }
}

//! Tables of Markdown: cells between pipes, below a head and a row of dashes.

// A longer row is text.
const MAX_CELLS: usize = 200;
// A fence has as many marks at least.
const FENCE: usize = 3;

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
    let mut found = vec![TextLine::Text; lines.len()];
    let mut fence: Option<&str> = None;
    let mut tables = 0;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        match (fence, fence_of(line)) {
            (None, None) => {
                if let Some(rows) = table_rows(&lines[at..]) {
                    for (row, cells) in (0..).zip(rows) {
                        found[at] = match row {
                            1 => TextLine::Hidden,
                            _ => TextLine::Row {
                                table: tables,
                                row,
                                cells,
                            },
                        };
                        at += 1;
                    }
                    tables += 1;
                    continue;
                }
            }
            (None, opened) => {
                fence = opened;
                found[at] = TextLine::Hidden;
            }
            (Some(opened), _) => {
                let closes = line.trim();
                if closes.starts_with(opened) && closes.trim_start_matches(&opened[..1]).is_empty()
                {
                    fence = None;
                }
                found[at] = TextLine::Hidden;
            }
        }
        at += 1;
    }
    found
}

// The marks with which a line opens a block of code.
fn fence_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line
        .chars()
        .next()
        .filter(|mark| matches!(mark, '`' | '~'))?;
    let marks = line.len() - line.trim_start_matches(mark).len();
    let is_code = mark == '`' && line[marks..].contains('`');
    (marks >= FENCE && !is_code).then(|| &line[..marks])
}

// The rows of a table that begins with the first line: its head, the dashes, and the others.
fn table_rows(lines: &[String]) -> Option<Vec<Vec<String>>> {
    let [head, dashes, ..] = lines else {
        return None;
    };
    if !head.contains('|') || !dashes.contains('|') {
        return None;
    }
    let columns = cells(head).len();
    let dashes = cells(dashes);
    let is_table = dashes.len() == columns
        && columns <= MAX_CELLS
        && dashes.iter().all(|cell| is_dashes(cell));
    let rows = lines.iter().take_while(|line| line.contains('|'));
    let rows = rows.map(|line| {
        let cells = cells(line);
        // A pipe in a text moves all that follows into other columns.
        match cells.len() <= columns {
            true => cells,
            false => Vec::new(),
        }
    });
    is_table.then(|| rows.collect())
}

fn is_dashes(cell: &str) -> bool {
    let dashes = cell.strip_prefix(':').unwrap_or(cell);
    let dashes = dashes.strip_suffix(':').unwrap_or(dashes);
    !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut is_escaped = false;
    for character in line.chars() {
        match (character, cells.last_mut()) {
            ('|', _) if !is_escaped => cells.push(String::new()),
            (_, Some(cell)) => cell.push(character),
            (_, None) => {}
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    if cells.len() > 1 && cells.last().is_some_and(|last| last.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| without_markup(cell)).collect()
}

/// A text of one line without the markup around it.
pub(crate) fn without_markup(text: &str) -> String {
    let text = text.replace("<br>", " ").replace("<br/>", " ");
    let text = text.replace("&nbsp;", " ").replace("&amp;", "&");
    let mut plain = unescaped(&text);
    // Marks of footnotes are single.
    if plain.matches("**").count().is_multiple_of(2) {
        plain = plain.replace("**", "");
    }
    let mut plain = plain.trim();
    for mark in ["__", "*", "_", "`"] {
        let inside = plain
            .strip_prefix(mark)
            .and_then(|rest| rest.strip_suffix(mark));
        let inside = inside.filter(|inside| !inside.is_empty() && !inside.contains(mark));
        plain = inside.map_or(plain, str::trim);
    }
    plain.to_owned()
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.next_if(|next| character == '\\' && next.is_ascii_punctuation());
        plain.push(next.unwrap_or(character));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<String> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let rows = table_lines(&lines).into_iter().map(|line| match line {
            TextLine::Text => "text".to_owned(),
            TextLine::Hidden => "hidden".to_owned(),
            TextLine::Row { table, row, cells } => format!("{table}.{row} {}", cells.join("/")),
        });
        rows.collect()
    }

    #[test]
    fn a_table_has_a_head_and_dashes_with_or_without_outer_pipes() {
        assert_eq!(
            rows("Sales\n| | 2023 |\n|:--|--:|\n| **A\\|B** | \\$1,749 |\n\nx | y\n- | -\n_z_ | 1"),
            [
                "text",
                "0.0 /2023",
                "hidden",
                "0.2 A|B/$1,749",
                "text",
                "1.0 x/y",
                "hidden",
                "1.2 z/1"
            ]
        );
        assert_eq!(rows("| a | b |\n| - |\n---\n| c |"), ["text"; 4]);
    }

    #[test]
    fn code_has_no_table() {
        let text = "~~~md\n```\n| a | b |\n|---|---|\n~~~~\n| a | b |\n|---|---|";
        assert_eq!(
            rows(text),
            [
                "hidden", "hidden", "hidden", "hidden", "hidden", "0.0 a/b", "hidden"
            ]
        );
        assert_eq!(rows("``` | `\n-|-"), ["0.0 ```/`", "hidden"]);
    }

    #[test]
    fn a_row_with_too_many_cells_has_none() {
        assert_eq!(
            rows("| a | b |\n|---|---|\n| c|d | 1 |\n| e |"),
            ["0.0 a/b", "hidden", "0.2 ", "0.3 e"]
        );
    }
}

//! Generated tables in the number styles of the world, as pages, declared cells and Markdown have them.

use stemma_document::{GridCell, GridLine, Line, Page, Pt, Rect, SourceBody, TextLines, Word};
use stemma_filings::monospaced_page;

use super::FigureTable;
use crate::document_reading::DocumentReading;

const ROWS: usize = 40;
const COLUMNS: usize = 2;

struct NumberStyle {
    name: &'static str,
    group: &'static str,
    decimal: &'static str,
    // Groups of two before the last three digits.
    is_indian: bool,
    negative: [&'static str; 2],
    zero: char,
    /// A sentence of the document in its language.
    sentence: &'static str,
}

const ENGLISH: NumberStyle = NumberStyle {
    name: "english",
    group: ",",
    decimal: ".",
    is_indian: false,
    negative: ["(", ")"],
    zero: '0',
    sentence: "The sales of the year are higher and the costs are lower.",
};

const GERMAN: NumberStyle = NumberStyle {
    name: "german",
    group: ".",
    decimal: ",",
    negative: ["-", ""],
    sentence: "Der Umsatz ist nicht gestiegen und das Ergebnis ist gesunken.",
    ..ENGLISH
};

const STYLES: [NumberStyle; 14] = [
    ENGLISH,
    NumberStyle {
        name: "blanks within parentheses",
        negative: ["( ", " )"],
        ..ENGLISH
    },
    NumberStyle {
        name: "trailing minus",
        negative: ["", "-"],
        ..ENGLISH
    },
    NumberStyle {
        name: "indian",
        is_indian: true,
        ..ENGLISH
    },
    NumberStyle {
        name: "swiss",
        group: "\u{2019}",
        negative: ["\u{2212}", ""],
        ..ENGLISH
    },
    NumberStyle {
        name: "spaces and points",
        group: "\u{a0}",
        negative: ["-", ""],
        ..ENGLISH
    },
    NumberStyle {
        name: "no groups",
        group: "",
        ..ENGLISH
    },
    NumberStyle {
        name: "japanese",
        negative: ["△", ""],
        sentence: "当社の売上高は前年より増加しました。営業利益も増加しております。当期純利益は減少しました。",
        ..ENGLISH
    },
    NumberStyle {
        name: "arabic digits",
        group: "\u{66c}",
        decimal: "\u{66b}",
        zero: '\u{660}',
        ..ENGLISH
    },
    NumberStyle {
        name: "devanagari digits",
        is_indian: true,
        zero: '\u{966}',
        ..ENGLISH
    },
    GERMAN,
    NumberStyle {
        name: "german parentheses",
        negative: ["(", ")"],
        ..GERMAN
    },
    NumberStyle {
        name: "french",
        group: "\u{202f}",
        sentence: "Les ventes des usines ne sont pas dans les comptes de la société.",
        ..GERMAN
    },
    NumberStyle {
        name: "french without groups",
        group: "",
        ..GERMAN
    },
];

impl NumberStyle {
    fn print(&self, cents: i64, decimals: bool) -> String {
        let whole = (cents.abs() / 100).to_string();
        let mut groups: Vec<&str> = Vec::new();
        let mut rest = whole.as_str();
        while !rest.is_empty() {
            let size = if self.is_indian && !groups.is_empty() {
                2
            } else {
                3
            };
            let (before, group) = rest.split_at(rest.len().saturating_sub(size));
            groups.insert(0, group);
            rest = before;
        }
        let mut text = groups.join(self.group);
        if decimals {
            text.push_str(&format!("{}{:02}", self.decimal, cents.abs() % 100));
        }
        let digit = |c: char| {
            c.to_digit(10)
                .and_then(|digit| char::from_u32(self.zero as u32 + digit))
        };
        let text: String = text.chars().map(|c| digit(c).unwrap_or(c)).collect();
        match cents < 0 {
            true => format!("{}{text}{}", self.negative[0], self.negative[1]),
            false => text,
        }
    }
}

// Amounts of all sizes and signs, in hundredths.
fn amounts(seed: u64) -> Vec<[i64; COLUMNS]> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let size = 10_i64.pow(2 + (state >> 60) as u32 % 7);
        let amount = (state >> 20) as i64 % size;
        if state >> 58 & 3 == 0 {
            -amount
        } else {
            amount
        }
    };
    (0..ROWS).map(|_| [next(), next()]).collect()
}

fn label(row: usize) -> String {
    let letter = |at: usize| char::from(b'a' + (at % 26) as u8);
    format!("Line {}{}", letter(row), letter(row / 26))
}

// A page with a proportional font: columns are at their right edges, and a space is a quarter of a line high.
fn page_body(style: &NumberStyle, rows: &[[String; COLUMNS]]) -> SourceBody {
    let mut lines = vec![placed_line(0, &[(40.0, style.sentence)])];
    lines.push(placed_line(2, &[(300.0, "2024"), (420.0, "2023")]));
    for (at, [one, two]) in (0..).zip(rows) {
        let label = label(at);
        let cells = [
            (80.0, label.as_str()),
            (300.0, one.as_str()),
            (420.0, two.as_str()),
        ];
        lines.push(placed_line(at + 3, &cells));
    }
    SourceBody::Pages(vec![Page {
        width: Pt::new(612.0),
        height: Pt::new(792.0),
        lines,
        ..Page::default()
    }])
}

// Texts with their right edges.
fn placed_line(row: usize, texts: &[(f32, &str)]) -> Line {
    let mut line = Line::default();
    for (right, text) in texts {
        let widths = text.chars().map(|c| match c.is_whitespace() {
            true => 2.5,
            false => 5.0,
        });
        let mut x = right - widths.sum::<f32>();
        for word in text.split_whitespace() {
            if !line.text.is_empty() {
                line.text.push(' ');
            }
            let start = u32::try_from(line.text.len()).unwrap();
            line.text.push_str(word);
            let width = 5.0 * word.chars().count() as f32;
            line.words.push(Word {
                start,
                end: u32::try_from(line.text.len()).unwrap(),
                x0: Pt::new(x),
                x1: Pt::new(x + width),
            });
            x += width + 2.5;
        }
    }
    let y = 20.0 + 15.0 * row as f32;
    let right = line.words.last().map_or(0.0, |word| word.x1.points());
    line.rect = Rect::new(40.0, y, right, y + 10.0);
    line
}

fn grid_body(style: &NumberStyle, rows: &[[String; COLUMNS]]) -> SourceBody {
    let mut page = monospaced_page(style.sentence);
    let heads = ["2024".to_owned(), "2023".to_owned()];
    let all = std::iter::once((String::new(), &heads)).chain((0..).map(label).zip(rows));
    for (row, (label, cells)) in (0..).zip(all) {
        let mut line = Line::default();
        let mut grid = GridLine {
            table: 0,
            row,
            cells: Vec::new(),
        };
        for (column, text) in (0..).zip(std::iter::once(&label).chain(cells)) {
            if text.is_empty() {
                continue;
            }
            let start = u32::try_from(line.text.len()).unwrap();
            line.text.push_str(text);
            let end = u32::try_from(line.text.len()).unwrap();
            line.text.push(' ');
            grid.cells.push(GridCell {
                start,
                end,
                column,
                columns: 1,
                rows: 1,
                bytes: None,
            });
        }
        line.grid = Some(Box::new(grid));
        page.lines.push(line);
    }
    SourceBody::Pages(vec![page])
}

fn markdown_body(style: &NumberStyle, rows: &[[String; COLUMNS]]) -> SourceBody {
    let mut lines = vec![style.sentence.to_owned(), String::new()];
    lines.push("| | 2024 | 2023 |".to_owned());
    lines.push("|---|---|---|".to_owned());
    let body = rows.iter().enumerate();
    lines.extend(body.map(|(at, [one, two])| format!("| {} | {one} | {two} |", label(at))));
    SourceBody::Lines(TextLines {
        lines,
        ..TextLines::default()
    })
}

#[derive(Debug, Default)]
struct Counts {
    right: usize,
    absent: usize,
    wrong: Vec<String>,
}

fn compare(
    tables: &[FigureTable],
    amounts: &[[i64; COLUMNS]],
    printed: &[[String; COLUMNS]],
    decimals: bool,
) -> Counts {
    let mut counts = Counts::default();
    let all_rows = || tables.iter().flat_map(|table| &table.rows);
    for (at, (expected, printed)) in amounts.iter().zip(printed).enumerate() {
        let row = all_rows().find(|row| row.label == label(at));
        for (column, cents) in expected.iter().enumerate() {
            let cell = row.and_then(|row| row.cells.get(column)?.as_ref());
            let value = cell.and_then(|cell| cell.value.as_deref()?.parse::<f64>().ok());
            let right = match decimals {
                true => *cents as f64 / 100.0,
                false => (*cents / 100) as f64,
            };
            match value {
                None => counts.absent += 1,
                Some(value) if (value - right).abs() < 0.001 => counts.right += 1,
                Some(value) => counts
                    .wrong
                    .push(format!("{} is not {value}", printed[column])),
            }
        }
    }
    counts
}

type Body = fn(&NumberStyle, &[[String; COLUMNS]]) -> SourceBody;

#[test]
fn values_are_right_or_absent_in_every_number_style() {
    let formats: [(&str, Body); 3] = [
        ("page", page_body),
        ("cells", grid_body),
        ("markdown", markdown_body),
    ];
    let mut all = Counts::default();
    let mut few = Vec::new();
    for style in &STYLES {
        for (format, body) in formats {
            for decimals in [true, false] {
                let mut own = Counts::default();
                for seed in 1..=5 {
                    let amounts = amounts(seed);
                    let printed: Vec<[String; COLUMNS]> = amounts
                        .iter()
                        .map(|row| row.map(|cents| style.print(cents, decimals)))
                        .collect();
                    let tables = DocumentReading::new(&body(style, &printed)).tables;
                    if std::env::var("SHOW")
                        .is_ok_and(|show| show == format!("{} {format}", style.name))
                    {
                        println!("{tables:#?}");
                    }
                    let counts = compare(&tables, &amounts, &printed, decimals);
                    own.right += counts.right;
                    own.absent += counts.absent;
                    own.wrong.extend(counts.wrong);
                }
                if own.absent > 0 || !own.wrong.is_empty() {
                    few.push(format!(
                        "{} {format} {decimals}: {} right, {} absent, {:?}",
                        style.name,
                        own.right,
                        own.absent,
                        own.wrong.iter().take(3).collect::<Vec<_>>()
                    ));
                }
                all.right += own.right;
                all.absent += own.absent;
                all.wrong.extend(own.wrong);
            }
        }
    }
    let count = all.right + all.absent + all.wrong.len();
    println!(
        "{} right, {} absent, {} wrong",
        all.right,
        all.absent,
        all.wrong.len()
    );
    assert!(all.wrong.is_empty(), "{few:#?}");
    assert!(all.right * 100 >= count * 98, "{few:#?}");
}

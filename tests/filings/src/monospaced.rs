//! Pages as in a monospaced font, for tests of tables: the columns of a text are places on the page.

use stemma_document::{Line, Page, Pt, Rect, Word};

const CHARACTER: f32 = 6.0;
const LINE: f32 = 12.0;
const HEIGHT: f32 = 10.0;

/// A page of lines twelve points apart. Blank lines leave space.
pub fn monospaced_page(text: &str) -> Page {
    let mut step = 0.0;
    let mut lines = Vec::new();
    for line in text.lines() {
        if !line.trim().is_empty() {
            lines.push((step, line));
            step = 0.0;
        }
        step += LINE;
    }
    spaced_page(&lines)
}

/// A page of lines with the distance in points of each from the one above.
pub fn spaced_page(lines: &[(f32, &str)]) -> Page {
    let mut top = 0.0;
    let lines = lines.iter().map(|(step, text)| {
        top += step;
        line(text, top)
    });
    Page {
        width: Pt::new(612.0),
        height: Pt::new(792.0),
        lines: lines.collect(),
        ..Page::default()
    }
}

fn line(spaced: &str, top: f32) -> Line {
    let x = |byte: usize| spaced[..byte].chars().count() as f32 * CHARACTER;
    let mut line = Line::default();
    let mut from = 0;
    for word in spaced.split_whitespace() {
        let column = from + spaced[from..].find(word).unwrap_or_default();
        from = column + word.len();
        if !line.text.is_empty() {
            line.text.push(' ');
        }
        let start = line.text.len() as u32;
        line.text.push_str(word);
        line.words.push(Word {
            start,
            end: line.text.len() as u32,
            x0: Pt::new(x(column)),
            x1: Pt::new(x(from)),
        });
    }
    let left = line.words.first().map_or(0.0, |word| word.x0.points());
    line.rect = Rect::new(left, top, x(from), top + HEIGHT);
    line
}

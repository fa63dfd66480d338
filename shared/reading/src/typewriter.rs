//! Lines of typewritten text as lines of a page: each character is as wide as every other.

use stemma_document::{Line, Pt, Rect, StyleRun, Word};

const TAB_COLUMNS: usize = 8;

/// Where and how large the characters of a page are.
#[derive(Debug, Clone, Copy)]
pub struct Typewriter {
    /// Left edge of the first column.
    pub left: Pt,
    pub character_width: Pt,
    pub font_size: Pt,
}

impl Typewriter {
    /// A line with its words at their columns; `None` for a blank one. `top` is its upper edge.
    pub fn line(&self, text: &str, top: Pt) -> Option<Line> {
        let mut line = Line::default();
        let mut column = 0;
        let mut is_open = false;
        for character in text.chars() {
            let start = column;
            column = match character {
                '\t' => (column / TAB_COLUMNS + 1) * TAB_COLUMNS,
                _ => column + 1,
            };
            if character.is_whitespace() {
                is_open = false;
                continue;
            }
            if !is_open && !line.text.is_empty() {
                line.text.push(' ');
            }
            let at = offset(line.text.len());
            line.text.push(character);
            let end = offset(line.text.len());
            let x1 = self.x(column);
            match line.words.last_mut().filter(|_| is_open) {
                Some(word) => (word.end, word.x1) = (end, x1),
                None => line.words.push(Word {
                    start: at,
                    end,
                    x0: self.x(start),
                    x1,
                }),
            }
            is_open = true;
        }
        line.rect = self.rect(line.words.first()?.x0, line.words.last()?.x1, top);
        line.runs = vec![StyleRun {
            end: offset(line.text.len()),
            size: self.font_size,
            ..StyleRun::default()
        }];
        Some(line)
    }

    /// The box of a line between two edges.
    pub(crate) fn rect(&self, x0: Pt, x1: Pt, top: Pt) -> Rect {
        Rect {
            x0,
            y0: top,
            x1,
            y1: Pt(top.0.saturating_add(self.font_size.0)),
        }
    }

    fn x(&self, column: usize) -> Pt {
        let column = i32::try_from(column).unwrap_or(i32::MAX);
        let from_left = column.saturating_mul(self.character_width.0);
        Pt(self.left.0.saturating_add(from_left))
    }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPEWRITER: Typewriter = Typewriter {
        left: Pt(1_000),
        character_width: Pt(200),
        font_size: Pt(400),
    };

    #[test]
    fn words_are_at_their_columns() {
        let line = TYPEWRITER.line("  Größe\t1,749 ", Pt(10_000)).unwrap();
        assert_eq!(line.text, "Größe 1,749");
        let places: Vec<(u32, u32, f32, f32)> = line
            .words
            .iter()
            .map(|word| (word.start, word.end, word.x0.points(), word.x1.points()))
            .collect();
        assert_eq!(places, [(0, 7, 14.0, 24.0), (8, 13, 26.0, 36.0)]);
        assert_eq!(line.rect, Rect::new(14.0, 100.0, 36.0, 104.0));
        assert_eq!(TYPEWRITER.line(" \t ", Pt(0)), None);
    }
}

//! Lines of typewritten text as lines of a page: each character is as wide as every other.

use stemma_document::{Line, Pt, Rect, StyleRun, Word};

const TAB_COLUMNS: usize = 8;

/// Where and how large the characters of a page are, in points.
#[derive(Debug, Clone, Copy)]
pub struct Typewriter {
    /// Left edge of the first column.
    pub left: f32,
    pub character_width: f32,
    pub font_size: f32,
}

impl Typewriter {
    /// A line with its words at their columns; `None` for a blank one. `top` is its upper edge.
    pub fn line(&self, text: &str, top: f32) -> Option<Line> {
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
        line.rect = Rect {
            x0: line.words.first()?.x0,
            y0: Pt::new(top),
            x1: line.words.last()?.x1,
            y1: Pt::new(top + self.font_size),
        };
        line.runs = vec![StyleRun {
            end: offset(line.text.len()),
            size: Pt::new(self.font_size),
            ..StyleRun::default()
        }];
        Some(line)
    }

    fn x(&self, column: usize) -> Pt {
        Pt::new(self.left + column as f32 * self.character_width)
    }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPEWRITER: Typewriter = Typewriter {
        left: 10.0,
        character_width: 2.0,
        font_size: 4.0,
    };

    #[test]
    fn words_are_at_their_columns() {
        let line = TYPEWRITER.line("  Größe\t1,749 ", 100.0).unwrap();
        assert_eq!(line.text, "Größe 1,749");
        let places: Vec<(u32, u32, f32, f32)> = line
            .words
            .iter()
            .map(|word| (word.start, word.end, word.x0.points(), word.x1.points()))
            .collect();
        assert_eq!(places, [(0, 7, 14.0, 24.0), (8, 13, 26.0, 36.0)]);
        assert_eq!(line.rect, Rect::new(14.0, 100.0, 36.0, 104.0));
        assert_eq!(TYPEWRITER.line(" \t ", 0.0), None);
    }
}

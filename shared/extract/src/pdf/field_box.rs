//! Places the value of a form field in its box, on the line of its label.

use hayro_syntax::object::Rect;

use super::glyph::{Direction, Glyph, Writing};
use super::matrix::Matrix;
use super::page_box::PageBox;
use super::path::Point;
use super::right_to_left::order_as_displayed;

// In points, of text whose size the viewer chooses.
const LARGEST: f32 = 12_f32;
const SMALLEST: f32 = 4_f32;
// In ems: the height of a line.
const LEADING: f32 = 5_f32 / 4_f32;
const MAX_LINES: usize = 500;

pub(super) struct FieldBox<'g> {
    bounds: PageBox,
    // Nothing where it has no time to look around.
    printed: &'g [Glyph],
    // The printed glyphs next to the box on its line.
    before: Option<&'g Glyph>,
    after: Option<&'g Glyph>,
}

impl<'g> FieldBox<'g> {
    /// `None` of a box without an area.
    pub(super) fn new(rect: &Rect, map: Matrix, printed: &'g [Glyph]) -> Option<Self> {
        let corners = [(rect.x0, rect.y0), (rect.x1, rect.y1)];
        let bounds = PageBox::around(corners.map(|(x, y)| {
            let (x, y) = map.apply(x, y);
            (x as f32, y as f32)
        }));
        let middle = bounds.center().0;
        let on_line = printed.iter().filter(|glyph| {
            glyph.text != ' '
                && glyph.writing.direction == Direction::Right
                && (bounds.y0..=bounds.y1).contains(&glyph.y)
        });
        let mut before: Option<&Glyph> = None;
        let mut after: Option<&Glyph> = None;
        for glyph in on_line {
            if end_of(glyph) <= middle {
                before = before.filter(|one| one.x >= glyph.x).or(Some(glyph));
            } else if glyph.x >= middle {
                after = after.filter(|one| one.x <= glyph.x).or(Some(glyph));
            }
        }
        (!bounds.is_empty()).then_some(Self {
            bounds,
            printed,
            before,
            after,
        })
    }

    pub(super) fn bounds(&self) -> PageBox {
        self.bounds
    }

    /// Whether nothing is printed in the box.
    pub(super) fn is_blank(&self) -> bool {
        self.inside().next().is_none()
    }

    // The printed glyphs that begin in the box.
    fn inside(&self) -> impl Iterator<Item = &'g Glyph> {
        let bounds = self.bounds;
        self.printed.iter().filter(move |glyph| {
            glyph.text != ' '
                && (bounds.x0..=bounds.x1).contains(&glyph.x)
                && (bounds.y0..=bounds.y1).contains(&glyph.y)
        })
    }

    /// Whether the text is printed in the box.
    pub(super) fn shows(&self, text: &str) -> bool {
        let mut printed = self.inside();
        text.chars()
            .filter(|c| !c.is_whitespace())
            .all(|c| printed.next().is_some_and(|glyph| glyph.text == c))
    }

    /// Writes the value of a text field. A viewer chooses the size if it is 0.
    pub(super) fn write(&self, lines: &[String], size: f32, is_multiline: bool) -> Vec<Glyph> {
        let height = self.bounds.y1 - self.bounds.y0;
        let chosen = (height / LEADING).clamp(SMALLEST, LARGEST);
        let size = if size > f32::default() { size } else { chosen };
        if !is_multiline {
            let line = lines.join(" ");
            return write_line(&line, size, self.baseline(size), self.span(&line, size));
        }
        let room = self.bounds.x1 - self.bounds.x0;
        let most = ((room / width_of('n', size)) as usize).max(1);
        let wrapped = lines.iter().flat_map(|line| wrap(line, most));
        wrapped
            .take(MAX_LINES)
            .zip(1_u16..)
            .flat_map(|(line, number)| {
                let y = self.bounds.y0 + size * LEADING * f32::from(number);
                write_line(&line, size, y, self.span(&line, size))
            })
            .collect()
    }

    /// Writes whether a button is on, next to its label: `Audited: checked`, `checked: Yes`.
    pub(super) fn mark(&self, is_checked: bool) -> Vec<Glyph> {
        let state = if is_checked { "checked" } else { "not checked" };
        let near = |glyph: Option<&Glyph>| glyph.map_or(LARGEST, |glyph| glyph.size);
        let PageBox { x0, x1, .. } = self.bounds;
        let gap_before = self.before.map(|glyph| x0 - end_of(glyph));
        let gap_after = self.after.map(|glyph| glyph.x - x1);
        match (gap_before, gap_after) {
            (None, None) => {
                let y = self.baseline(LARGEST);
                write_line(state, LARGEST, y, self.span(state, LARGEST))
            }
            (None, Some(_)) => self.mark_before_label(state, near(self.after)),
            (Some(before), Some(after)) if after < before => {
                self.mark_before_label(state, near(self.after))
            }
            _ => {
                let size = near(self.before);
                let end = self.after.map_or(f32::INFINITY, |glyph| glyph.x);
                let wide = x0 + width(state, size);
                let y = self.baseline(size);
                let mut all = write_line(state, size, y, (x0, wide.min(end)));
                if let Some(label) = self.before.filter(|label| label.text != ':') {
                    let colon = (end_of(label), end_of(label) + width_of(':', size));
                    all.extend(write_line(":", size, label.y, colon));
                }
                all
            }
        }
    }

    fn mark_before_label(&self, state: &str, size: f32) -> Vec<Glyph> {
        let text = format!("{state}:");
        let start = self.before.map_or(f32::NEG_INFINITY, end_of);
        let wide = self.bounds.x1 - width(&text, size);
        let span = (wide.max(start), self.bounds.x1);
        write_line(&text, size, self.baseline(size), span)
    }

    // That of the label, or one that centers the text.
    fn baseline(&self, size: f32) -> f32 {
        let label = self.before.or(self.after);
        label.map_or_else(|| self.bounds.center().1 + size / 3_f32, |glyph| glyph.y)
    }

    fn span(&self, text: &str, size: f32) -> Point {
        let wide = self.bounds.x0 + width(text, size);
        (self.bounds.x0, wide.min(self.bounds.x1))
    }
}

// Letters share the width from `start` to `end`, because nothing states theirs.
fn write_line(text: &str, size: f32, y: f32, (start, end): Point) -> Vec<Glyph> {
    let scale = (end - start) / width(text, size).max(f32::MIN_POSITIVE);
    let mut x = start;
    let mut characters: Vec<char> = text.chars().collect();
    order_as_displayed(&mut characters);
    characters
        .into_iter()
        .map(|text| {
            let advance = width_of(text, size) * scale;
            let glyph = Glyph {
                text,
                x,
                y,
                advance,
                size,
                writing: Writing {
                    direction: Direction::Right,
                    tilt: 0,
                },
                bold: false,
                italic: false,
                invisible: false,
                hidden: None,
                appearance: 0,
            };
            x += advance;
            glyph
        })
        .collect()
}

fn width(text: &str, size: f32) -> f32 {
    text.chars().map(|letter| width_of(letter, size)).sum()
}

// The usual width.
fn width_of(letter: char, size: f32) -> f32 {
    match letter {
        ' ' | ':' => size / 4_f32,
        _ => size / 2_f32,
    }
}

fn end_of(glyph: &Glyph) -> f32 {
    glyph.x + glyph.advance
}

// Into lines of at most `most` characters, between words where it can.
fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut length = 0;
    for word in text.split(' ') {
        let size = word.chars().count();
        if length > 0 && length + 1 + size > most {
            lines.push(String::new());
            length = 0;
        }
        if let Some(line) = lines.last_mut() {
            if length > 0 {
                line.push(' ');
                length += 1;
            }
            line.push_str(word);
            length += size;
        }
    }
    lines
}

//! Text along a curve. Each letter has its own direction, so the letters would not meet in one line.

use super::glyph::{Direction, Glyph, Writing};

// Degrees between neighbors.
const MAX_TURN: f32 = 30.0;
// In ems, between the end of a letter and the origin of the next one.
const MAX_STEP: f32 = 0.5;

/// Lays out letters that follow each other in different directions along a straight line.
pub(super) fn straighten(glyphs: &mut [Glyph]) {
    let mut done = 0;
    let mut index = 1;
    while index < glyphs.len() {
        let is_turn = matches!(glyphs.get(index - 1..=index), Some([before, glyph])
            if before.writing != glyph.writing && follows(before, glyph));
        if !is_turn {
            index += 1;
            continue;
        }
        let linked = |pair: &[Glyph]| matches!(pair, [before, glyph] if follows(before, glyph));
        let before = glyphs.get(done..index).unwrap_or_default();
        let start = index
            - 1
            - before
                .windows(2)
                .rev()
                .take_while(|pair| linked(pair))
                .count();
        let after = glyphs.get(index..).unwrap_or_default();
        let end = index + 1 + after.windows(2).take_while(|pair| linked(pair)).count();
        straighten_run(glyphs.get_mut(start..end).unwrap_or_default());
        done = end;
        index = end + 1;
    }
}

fn follows(before: &Glyph, glyph: &Glyph) -> bool {
    let turn = (glyph.writing.angle() - before.writing.angle()).rem_euclid(360.0);
    let (x, y) = end_of(before);
    turn.min(360.0 - turn) <= MAX_TURN
        && (glyph.x - x).hypot(glyph.y - y) <= MAX_STEP * before.size.max(glyph.size)
}

fn end_of(glyph: &Glyph) -> (f32, f32) {
    let (sin, cos) = glyph.writing.angle().to_radians().sin_cos();
    (glyph.x + glyph.advance * cos, glyph.y + glyph.advance * sin)
}

// The line goes from the first to the last letter, or to the right if they meet.
fn straighten_run(run: &mut [Glyph]) {
    let (Some(first), Some(last)) = (run.first().copied(), run.last()) else {
        return;
    };
    let (x, y) = end_of(last);
    let dx = x - first.x;
    let dy = y - first.y;
    let length: f32 = run.iter().map(|glyph| glyph.advance).sum();
    let writing = if dx.hypot(dy) * 2.0 > length {
        Writing::along(dx.into(), dy.into())
    } else {
        Writing {
            direction: Direction::Right,
            tilt: 0,
        }
    };
    let (mut u, v) = writing.to_line(first.x, first.y);
    let mut before: Option<Glyph> = None;
    for glyph in run {
        let own = *glyph;
        if let Some(before) = before {
            let (x, y) = end_of(&before);
            u += before.advance
                + (own.x - x).hypot(own.y - y) * gap_sign(&before, (own.x - x, own.y - y));
        }
        let (x, y) = writing.to_page(u, v);
        *glyph = Glyph {
            x,
            y,
            writing,
            ..own
        };
        before = Some(own);
    }
}

// Negative where a letter starts before the end of the one before it.
fn gap_sign(before: &Glyph, (dx, dy): (f32, f32)) -> f32 {
    let (sin, cos) = before.writing.angle().to_radians().sin_cos();
    (dx * cos + dy * sin).signum()
}

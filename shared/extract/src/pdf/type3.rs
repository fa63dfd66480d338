//! How tall a Type 3 font is: its glyphs are drawings, and its size says nothing unless its matrix is a thousandth.

use hayro_font::{Font, FontGlyph};
use hayro_syntax::object::{Array, Dict, Number, Rect};

use super::decode_limits::DecodeBudget;

/// Height of capitals, figures and ascenders in ems, over the usual text faces.
const CAP_HEIGHT: f64 = 0.69;
/// Height of letters without ascender or descender, in ems.
const X_HEIGHT: f64 = 0.45;
/// Advance of a figure in ems.
const FIGURE_WIDTH: f64 = 0.5;
/// Glyphs that are measured.
const MAX_MEASURED: usize = 24;
/// Bytes of a glyph's program that are read for its box; the box comes first.
const HEAD_BYTES: usize = 256;
/// A font within this factor of the size it states is believed.
const PLAUSIBLE_EM: std::ops::RangeInclusive<f64> = 0.8..=1.25;

/// The height of the em in text space for size 1. `text` says what a code means.
pub(super) fn em_height<'a>(
    font: &Font<'a>,
    dict: &Dict<'a>,
    budget: &DecodeBudget,
    text: impl Fn(u32) -> Option<char>,
) -> f64 {
    let matrix = dict
        .get::<[f64; 6]>("FontMatrix")
        .unwrap_or([0.001, 0.0, 0.0, 0.001, 0.0, 0.0]);
    let scale = matrix[2].hypot(matrix[3]);
    let codes: Vec<(u32, char)> = (0..256)
        .filter_map(|code| text(code).map(|character| (code, character)))
        .collect();
    let heights = |is_wanted_char: &dyn Fn(char) -> bool| {
        let matching = codes
            .iter()
            .filter(|(_, character)| is_wanted_char(*character))
            .take(MAX_MEASURED);
        median(
            matching
                .filter_map(|(code, _)| glyph_height(font, *code, budget))
                .collect(),
        )
    };
    let figure = || {
        let figures = codes
            .iter()
            .filter(|(_, character)| character.is_ascii_digit());
        median(
            figures
                .map(|(code, _)| font.code_advance(*code).x.abs() / 1000.0)
                .collect(),
        )
    };
    let em = heights(&is_tall)
        .map(|height| height * scale / CAP_HEIGHT)
        .or_else(|| heights(&is_small).map(|height| height * scale / X_HEIGHT))
        .or_else(|| figure().map(|advance| advance / FIGURE_WIDTH))
        .unwrap_or_else(|| em_from_bbox(dict, matrix[0].hypot(matrix[1]), scale));
    match em {
        em if PLAUSIBLE_EM.contains(&em) || !em.is_finite() || em <= 0.0 => 1.0,
        em => em,
    }
}

fn is_tall(character: char) -> bool {
    character.is_ascii_uppercase() && character != 'Q'
        || character.is_ascii_digit()
        || "bdfhkl".contains(character)
}

fn is_small(character: char) -> bool {
    "acemnorsuvwxz".contains(character)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| value.is_finite() && *value > 0.0);
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The height of the box a glyph declares (operator `d1`, ISO 32000-2, 9.6.4), in glyph space.
fn glyph_height(font: &Font<'_>, code: u32, budget: &DecodeBudget) -> Option<f64> {
    let FontGlyph::Type3(glyph) = font.glyph(font.map_code(code), code) else {
        return None;
    };
    let program = budget.decode(glyph.program()?).ok()?.bytes;
    let head = program.get(..program.len().min(HEAD_BYTES))?;
    let mut numbers = Vec::new();
    for token in head
        .split(u8::is_ascii_whitespace)
        .filter(|token| !token.is_empty())
        .take(8)
    {
        match (token, numbers.as_slice()) {
            (b"d1", [_, _, _, bottom, _, top]) => return Some((top - bottom as &f64).abs()),
            _ => numbers.push(std::str::from_utf8(token).ok()?.parse::<f64>().ok()?),
        }
    }
    None
}

/// The em from the font's own box, a little less than as tall; without a box, from the widest glyph.
fn em_from_bbox(dict: &Dict<'_>, x_scale: f64, y_scale: f64) -> f64 {
    let height = dict
        .get::<Rect>("FontBBox")
        .map_or(0.0, |bbox| bbox.height().abs());
    if height > 0.0 {
        return height * y_scale * 0.9;
    }
    let widths = dict.get::<Array<'_>>("Widths").unwrap_or_default();
    let widest = widths
        .iter::<Number>()
        .take(256)
        .map(|width| width.as_f64())
        .filter(|width| width.is_finite());
    widest.fold(0.0, f64::max) * x_scale
}

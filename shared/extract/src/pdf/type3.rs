//! Estimates the em height of Type 3 fonts. Their glyphs are drawings in arbitrary units, so the font size is
//! meaningless unless the font matrix is 1/1000.

use hayro_font::{Font, FontGlyph};
use hayro_syntax::object::{Array, Dict, Number, Rect};

use super::decode_limits::DecodeBudget;

// Typical proportions of text faces, in ems: capitals and digits, small letters, width of a digit.
const CAP_HEIGHT: f64 = 0.69;
const X_HEIGHT: f64 = 0.45;
const FIGURE_WIDTH: f64 = 0.5;
// Number of glyphs to measure.
const MAX_MEASURED: usize = 24;
// The bounding box is at the start of a glyph's program.
const HEAD_BYTES: usize = 256;
// Within this factor the nominal size is kept.
const PLAUSIBLE_EM: std::ops::RangeInclusive<f64> = 0.8..=1.25;

/// Returns the em height for font size 1. `text` maps codes to characters.
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
    let median_height = |has_shape: fn(char) -> bool| {
        let matching = codes
            .iter()
            .filter(|(_, character)| has_shape(*character))
            .take(MAX_MEASURED);
        median(
            matching
                .filter_map(|(code, _)| glyph_height(font, *code, budget))
                .collect(),
        )
    };
    // The most reliable measure first: tall glyphs, then small letters, then the width of digits.
    let em = median_height(is_tall)
        .map(|height| height * scale / CAP_HEIGHT)
        .or_else(|| median_height(is_small).map(|height| height * scale / X_HEIGHT))
        .or_else(|| {
            let advances = codes
                .iter()
                .filter(|(_, character)| character.is_ascii_digit())
                .map(|(code, _)| font.code_advance(*code).x.abs() / 1000.0)
                .collect();
            median(advances).map(|advance| advance / FIGURE_WIDTH)
        })
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

// The height of the bounding box declared by `d1` (ISO 32000-2, 9.6.4), in glyph space.
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

// From the bounding box of the font, which is a little taller than the em; else from the widest glyph.
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

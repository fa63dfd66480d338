//! Fonts: character codes to Unicode, advance width, weight and slant.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use hayro_cmap::BfString;
use hayro_font::{CMapResolverFn, Font, FontCache, FontGlyph, FontQuery, FontResolverFn, GlyphId};
use hayro_syntax::object::{Array, Dict, Name, Object, Stream};
use unicode_normalization::UnicodeNormalization;

use super::decode_limits::DecodeBudget;
use super::glyph_mapping::GlyphMapping;
use super::right_to_left::order_as_displayed;
use super::type3;

// Maximum codes of a `/W` or `/W2` array: the two-byte space, allowing some overlap.
const MAX_WIDTHS: u64 = 200_000;
// In ems. A narrower blank does not separate words.
const MIN_SPACE: f32 = 0.1;
// FontDescriptor flags (ISO 32000-2, table 121).
const FLAG_ITALIC: u32 = 1 << 6;
const FLAG_FORCE_BOLD: u32 = 1 << 18;

/// Replaces characters that take up space but are not part of the text.
pub(super) const SOFT_HYPHEN: char = '\u{ad}';

#[derive(Debug, Clone)]
pub(super) struct CodeMapping {
    /// Empty if the font does not map the code.
    pub(super) text: Box<[char]>,
    /// Advance for font size 1: along x, or along y (negative) in vertical writing.
    pub(super) advance: f32,
}

/// The text-related properties of a font.
pub(super) struct TextFont<'a> {
    font: Font<'a>,
    glyph_mapping: GlyphMapping<'a>,
    // One- and two-byte codes in rows of 256, allocated on first use.
    codes: RefCell<Vec<Vec<Option<Rc<CodeMapping>>>>>,
    long_codes: RefCell<HashMap<u32, Rc<CodeMapping>>>,
    pub(super) bold: bool,
    pub(super) italic: bool,
    /// Height of the em for font size 1. Differs from 1 only for Type 3 fonts.
    pub(super) em: f32,
    pub(super) horizontal: bool,
    /// Its glyphs are drawings, whose size and color are not known.
    pub(super) is_type3: bool,
}

impl<'a> TextFont<'a> {
    fn new(font: Font<'a>, dict: &Dict<'a>, budget: &DecodeBudget) -> Self {
        let style = FontStyle::from_dict(dict);
        let horizontal = font.is_horizontal();
        let is_type3 = dict
            .get::<Name<'_>>("Subtype")
            .is_some_and(|kind| kind.as_ref() == b"Type3");
        let mut new = Self {
            font,
            glyph_mapping: GlyphMapping::new(dict, is_type3),
            codes: RefCell::default(),
            long_codes: RefCell::default(),
            bold: style.bold,
            italic: style.italic,
            em: 1.0,
            horizontal,
            is_type3,
        };
        if is_type3 {
            new.em = finite(type3::em_height(&new.font, dict, budget, |code| {
                new.map_code(code).text.first().copied()
            }));
        }
        new
    }

    /// Returns the next code and its length in bytes (at least 1).
    pub(super) fn read_code(&self, bytes: &[u8], offset: usize) -> (u32, usize) {
        let (code, length) = self.font.read_code(bytes, offset);
        (code, length.max(1))
    }

    pub(super) fn map_code(&self, code: u32) -> Rc<CodeMapping> {
        let row = code as usize >> 8;
        let column = code as usize & 0xff;
        if row > 0xff {
            return Rc::clone(
                self.long_codes
                    .borrow_mut()
                    .entry(code)
                    .or_insert_with(|| Rc::new(self.describe(code))),
            );
        }
        let mut rows = self.codes.borrow_mut();
        if rows.len() <= row {
            rows.resize(row + 1, Vec::new());
        }
        let Some(row) = rows.get_mut(row) else {
            return Rc::new(self.describe(code));
        };
        row.resize(256, None);
        match row.get_mut(column) {
            Some(slot) => Rc::clone(slot.get_or_insert_with(|| Rc::new(self.describe(code)))),
            None => Rc::new(self.describe(code)),
        }
    }

    fn describe(&self, code: u32) -> CodeMapping {
        let glyph = self.font.glyph(self.font.map_code(code), code);
        let unicode = match &glyph {
            FontGlyph::Outline(glyph) => glyph.as_unicode(),
            FontGlyph::Type3(glyph) => glyph.as_unicode(),
        };
        // Many fonts have one glyph for both hyphens. One that is drawn is not a mere place where a word may be divided.
        let is_drawn_hyphen =
            matches!(unicode, Some(BfString::Char(SOFT_HYPHEN))) && has_ink(&glyph);
        let mut text = match is_drawn_hyphen {
            true => ['-'].into(),
            false => to_chars(unicode),
        };
        if text.is_empty() {
            text = to_chars(
                self.glyph_mapping
                    .character(code, &glyph)
                    .map(BfString::Char),
            );
        }
        let advance = self.font.code_advance(code);
        let along = if self.horizontal {
            advance.x
        } else {
            advance.y
        };
        let advance = finite(along) / 1000.0;
        // A blank that is called a soft hyphen is still seen as a space.
        let says_nothing = text.is_empty() || *text == [SOFT_HYPHEN];
        if says_nothing && is_blank(&glyph, code) {
            let blank = if advance.abs() < MIN_SPACE {
                SOFT_HYPHEN
            } else {
                ' '
            };
            text = [blank].into();
        }
        CodeMapping { text, advance }
    }
}

// A glyph that draws nothing has no meaning that could be lost. Where the font has no glyph, that is true of control
// codes only.
fn is_blank(glyph: &FontGlyph<'_>, code: u32) -> bool {
    let is_control = code <= u32::from(b' ');
    match glyph {
        FontGlyph::Outline(glyph) => {
            (glyph.glyph_id() != GlyphId::NOTDEF || is_control) && glyph.outline().is_empty()
        }
        FontGlyph::Type3(glyph) => glyph.program().is_none() && is_control,
    }
}

fn has_ink(glyph: &FontGlyph<'_>) -> bool {
    match glyph {
        FontGlyph::Outline(glyph) => !glyph.outline().is_empty(),
        FontGlyph::Type3(glyph) => glyph.program().is_some(),
    }
}

fn finite(value: f64) -> f32 {
    if value.is_finite() {
        value.clamp(-1e5, 1e5) as f32
    } else {
        0.0
    }
}

fn to_chars(unicode: Option<BfString>) -> Box<[char]> {
    let mut out = Vec::new();
    match unicode {
        Some(BfString::Char(c)) => push_character(c, &mut out),
        Some(BfString::String(text)) => text
            .chars()
            .take(16)
            .for_each(|c| push_character(c, &mut out)),
        None => {}
    }
    order_as_displayed(&mut out);
    out.into()
}

/// Appends a character: ligatures and compatibility forms are expanded, white space becomes a space, invisible
/// characters become [`SOFT_HYPHEN`], control and replacement characters are dropped.
pub(super) fn push_character(c: char, out: &mut Vec<char>) {
    match c {
        '\u{fb00}' => out.extend(['f', 'f']),
        '\u{fb01}' => out.extend(['f', 'i']),
        '\u{fb02}' => out.extend(['f', 'l']),
        '\u{fb03}' => out.extend(['f', 'f', 'i']),
        '\u{fb04}' => out.extend(['f', 'f', 'l']),
        '\u{fb05}' | '\u{fb06}' => out.extend(['s', 't']),
        '\u{ad}' | '\u{200b}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}' => {
            out.push(SOFT_HYPHEN);
        }
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            out.push(SOFT_HYPHEN);
        }
        '\t' | '\n' | '\r' => out.push(' '),
        c if c.is_whitespace() => out.push(' '),
        c if c.is_control() || c == '\u{fffd}' => {}
        // Radicals and compatibility forms look like the intended ideographs.
        '\u{2e80}'..='\u{2fd5}' | '\u{f900}'..='\u{faff}' => out.extend(std::iter::once(c).nfkc()),
        // Letters of Hebrew and Arabic as they are drawn within a word. Forms of a mark alone begin with a space.
        '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' => {
            out.extend(std::iter::once(c).nfkc().skip_while(|c| *c == ' '));
        }
        c => out.push(c),
    }
}

#[derive(Default)]
struct FontStyle {
    bold: bool,
    italic: bool,
}

impl FontStyle {
    fn from_dict(dict: &Dict<'_>) -> Self {
        let descendant = dict
            .get::<Array<'_>>("DescendantFonts")
            .and_then(|fonts| fonts.iter::<Dict<'_>>().next());
        let described = descendant.as_ref().unwrap_or(dict);
        let descriptor = described
            .get::<Dict<'_>>("FontDescriptor")
            .unwrap_or_default();
        let name = dict
            .get::<Name<'_>>("BaseFont")
            .or_else(|| descriptor.get::<Name<'_>>("FontName"));
        let name = name
            .map(|name| name.as_str().to_ascii_lowercase())
            .unwrap_or_default();
        let name = name.split_once('+').map_or(name.as_str(), |(_, rest)| rest);
        let flags = descriptor.get::<u32>("Flags").unwrap_or(0);
        let contains = |words: &[&str]| words.iter().any(|word| name.contains(word));
        Self {
            bold: descriptor
                .get::<f32>("FontWeight")
                .is_some_and(|weight| weight >= 600.0)
                || flags & FLAG_FORCE_BOLD != 0
                || contains(&["bold", "black", "heavy", "demi"])
                // URW's clones of Times name their bold cuts `Medi`, those of TeX begin with `cmbx`.
                || name.ends_with("-medi")
                || name.ends_with("-mediital")
                || name.starts_with("cmbx"),
            italic: flags & FLAG_ITALIC != 0
                || descriptor
                    .get::<f32>("ItalicAngle")
                    .is_some_and(|angle| angle != 0.0)
                || contains(&["italic", "oblique"])
                || name.ends_with("-reguital")
                || name.ends_with("-mediital"),
        }
    }
}

/// The fonts of a document, loaded once per thread.
pub(super) struct FontBook<'a> {
    cache: FontCache<'a>,
    fonts: HashMap<usize, Option<Rc<TextFont<'a>>>>,
    resolve_font: FontResolverFn,
    resolve_cmap: CMapResolverFn,
}

impl<'a> FontBook<'a> {
    pub(super) fn new() -> Self {
        Self {
            cache: FontCache::new(),
            fonts: HashMap::new(),
            resolve_font: Arc::new(|query| match query {
                FontQuery::Standard(font) => Some(font.get_font_data()),
                FontQuery::Fallback(query) => Some(query.pick_standard_font().get_font_data()),
            }),
            resolve_cmap: Arc::new(hayro_cmap::load_embedded),
        }
    }

    /// Returns the font of a dictionary; `None` if it is unreadable or exceeds the budget.
    pub(super) fn font(
        &mut self,
        dict: &Dict<'a>,
        budget: &DecodeBudget,
    ) -> Option<Rc<TextFont<'a>>> {
        // Dictionaries do not move in memory while the document is open.
        let key = dict.data().as_ptr() as usize;
        if let Some(font) = self.fonts.get(&key) {
            return font.clone();
        }
        let font = self.load(dict, budget).map(Rc::new);
        self.fonts.insert(key, font.clone());
        font
    }

    fn load(&self, dict: &Dict<'a>, budget: &DecodeBudget) -> Option<TextFont<'a>> {
        if !is_affordable(dict, budget) {
            return None;
        }
        let font = self
            .cache
            .font(dict, &self.resolve_font, &self.resolve_cmap)?;
        Some(TextFont::new(font, dict, budget))
    }
}

// Loading inflates the streams of a font and expands its width ranges in full.
fn is_affordable(dict: &Dict<'_>, budget: &DecodeBudget) -> bool {
    let descendant = dict
        .get::<Array<'_>>("DescendantFonts")
        .and_then(|fonts| fonts.iter::<Dict<'_>>().next());
    let described = descendant.as_ref().unwrap_or(dict);
    let descriptor = described
        .get::<Dict<'_>>("FontDescriptor")
        .unwrap_or_default();
    let streams = [
        dict.get::<Stream<'_>>("ToUnicode"),
        dict.get::<Stream<'_>>("Encoding"),
        described.get::<Stream<'_>>("CIDToGIDMap"),
        descriptor.get::<Stream<'_>>("FontFile"),
        descriptor.get::<Stream<'_>>("FontFile2"),
        descriptor.get::<Stream<'_>>("FontFile3"),
    ];
    streams
        .iter()
        .flatten()
        .all(|stream| budget.check(stream).is_ok())
        && expanded_widths(described, "W", 1) <= MAX_WIDTHS
        && expanded_widths(described, "W2", 3) <= MAX_WIDTHS
}

// Counts the codes of a width array: `c [w …]` or `first last w` (with `values` numbers per width).
fn expanded_widths(dict: &Dict<'_>, key: &str, values: usize) -> u64 {
    let Some(array) = dict.get::<Array<'_>>(key) else {
        return 0;
    };
    let mut items = array.iter::<Object<'_>>();
    let mut covered = 0u64;
    while let Some(first) = items.next() {
        match (first, items.next()) {
            (_, Some(Object::Array(widths))) => covered += widths.data().len() as u64 / 2,
            (Object::Number(first), Some(Object::Number(last))) => {
                covered = covered
                    .saturating_add((last.as_f64() - first.as_f64()).clamp(0.0, 1e18) as u64);
                items.by_ref().take(values).for_each(drop);
            }
            _ => break,
        }
        if covered > MAX_WIDTHS {
            break;
        }
    }
    covered
}

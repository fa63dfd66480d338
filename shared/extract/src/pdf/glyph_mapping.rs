//! Maps codes to characters without `/ToUnicode` or standard glyph names.
//!
//! Bitmap fonts made from TeX and fonts subset by printer drivers name glyphs after their codes (`/a49`, `/G31`, `/1`).
//! Embedded TrueType and OpenType programs often still contain a table from Unicode to glyphs.

use std::cell::OnceCell;
use std::collections::HashMap;

use hayro_font::{FontGlyph, GlyphId};
use hayro_syntax::object::{Array, Dict, Name, Object};
use skrifa::{FontRef, MetadataProvider};

use super::numbered_names::{NumberedName, character_of, find_bases};

// The Basic Multilingual Plane and some more.
const MAX_MAPPINGS: usize = 100_000;
// The private-use range of Windows symbol fonts.
const SYMBOL_CODES: std::ops::RangeInclusive<u32> = 0xf020..=0xf0ff;

/// Fallback mapping of a font.
pub(super) struct GlyphMapping<'a> {
    dict: Dict<'a>,
    is_type3: bool,
    names: OnceCell<HashMap<u8, String>>,
    bases: OnceCell<HashMap<String, u32>>,
    glyphs: OnceCell<HashMap<u32, char>>,
}

impl<'a> GlyphMapping<'a> {
    pub(super) fn new(dict: &Dict<'a>, is_type3: bool) -> Self {
        Self {
            dict: dict.clone(),
            is_type3,
            names: OnceCell::new(),
            bases: OnceCell::new(),
            glyphs: OnceCell::new(),
        }
    }

    /// Maps a code by the font program or the glyph name.
    pub(super) fn character(&self, code: u32, glyph: &FontGlyph<'a>) -> Option<char> {
        match (glyph, u8::try_from(code)) {
            (FontGlyph::Type3(_), Ok(code)) => {
                self.by_name(code).or_else(|| self.by_code(code.into()))
            }
            (FontGlyph::Outline(outline), code) => {
                let glyphs = self.glyphs.get_or_init(|| {
                    outline
                        .font_data()
                        .map(|font| characters_of_glyphs((*font.data).as_ref()))
                        .unwrap_or_default()
                });
                // Glyph 0 is drawn for all codes that the font does not have.
                Some(outline.glyph_id())
                    .filter(|id| *id != GlyphId::NOTDEF)
                    .and_then(|id| glyphs.get(&id.to_u32()).copied())
                    .or_else(|| self.by_name(code.ok()?))
            }
            _ => None,
        }
    }

    fn by_name(&self, code: u8) -> Option<char> {
        let names = self.names.get_or_init(|| read_differences(&self.dict));
        let name = names.get(&code)?;
        let mut characters = name.chars();
        if let (Some(only), None) = (characters.next(), characters.next()) {
            return self.by_code(only.into());
        }
        let numbered = NumberedName::parse(name)?;
        let bases = self.bases.get_or_init(|| find_bases(names, self.is_type3));
        numbered.character(*bases.get(numbered.prefix)?, self.is_type3)
    }

    // ASCII, or a ligature of the TeX text fonts.
    fn by_code(&self, code: u32) -> Option<char> {
        character_of(code, self.is_type3)
            .filter(|character| matches!(character, '!'..='~' | '\u{fb00}'..='\u{fb04}'))
    }
}

// Reads the glyph names of `/Encoding /Differences`.
fn read_differences(dict: &Dict<'_>) -> HashMap<u8, String> {
    let mut names = HashMap::new();
    let Some(encoding) = dict.get::<Dict<'_>>("Encoding") else {
        return names;
    };
    let Some(array) = encoding.get::<Array<'_>>("Differences") else {
        return names;
    };
    let mut code = 0u32;
    for item in array.iter::<Object<'_>>().take(1024) {
        match item {
            Object::Number(number) => code = number.as_f64().clamp(0.0, 256.0) as u32,
            Object::Name(name) => {
                if let Ok(code) = u8::try_from(code) {
                    names.insert(code, name_text(&name));
                }
                code += 1;
            }
            _ => {}
        }
    }
    names
}

fn name_text(name: &Name<'_>) -> String {
    String::from_utf8_lossy(name.as_ref()).into_owned()
}

// Inverts the character map of the font program; the first character of a glyph wins.
fn characters_of_glyphs(program: &[u8]) -> HashMap<u32, char> {
    let mut characters = HashMap::new();
    let Ok(font) = FontRef::new(program) else {
        return characters;
    };
    for (code, glyph) in font.charmap().mappings().take(MAX_MAPPINGS) {
        let code = if SYMBOL_CODES.contains(&code) {
            code - 0xf000
        } else {
            code
        };
        if let Some(character) = char::from_u32(code) {
            characters.entry(glyph.to_u32()).or_insert(character);
        }
    }
    characters
}

#[cfg(test)]
mod tests {
    use super::*;

    // A font program with only a character map: `first` and its successor have glyphs 3 and 4.
    fn program(first: u32) -> Vec<u8> {
        let words = |words: &[u32]| {
            words
                .iter()
                .flat_map(|word| word.to_be_bytes())
                .collect::<Vec<u8>>()
        };
        // Format 12: one group.
        let subtable = [
            words(&[0x000c_0000, 28, 0, 1]),
            words(&[first, first + 1, 3]),
        ]
        .concat();
        let table = [words(&[1, 0x0003_000a, 12]), subtable].concat();
        let length = table.len() as u32;
        let directory = [
            words(&[0x0001_0000, 0x0001_0010, 0]),
            b"cmap".to_vec(),
            words(&[0, 28, length]),
        ]
        .concat();
        [directory, table].concat()
    }

    #[test]
    fn glyphs_are_mapped_by_the_font_program() {
        let mapping = characters_of_glyphs(&program('A' as u32));
        assert_eq!(
            (mapping.get(&3), mapping.get(&4), mapping.len()),
            (Some(&'A'), Some(&'B'), 2)
        );
        assert_eq!(characters_of_glyphs(&program(0xf041)).get(&3), Some(&'A'));
        assert!(characters_of_glyphs(b"no font").is_empty());
    }
}

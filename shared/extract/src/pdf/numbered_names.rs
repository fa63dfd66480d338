//! Glyph names that are numbers: `a49`, `G31`, `C0065`, `cid:00e9`, `G46._`.
//!
//! Programs that make fonts number glyphs in decimal or in hexadecimal digits, so a single name is ambiguous: `G30` is a
//! zero or no character at all. All names of a font that share a prefix are read together.

use std::collections::HashMap;

// WinAnsiEncoding (ISO 32000-2, annex D.2) from 0x80.
const WIN_ANSI: [char; 32] = [
    '€', UNUSED, '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', UNUSED, 'Ž', UNUSED,
    UNUSED, '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', UNUSED, 'ž', 'Ÿ',
];
const UNUSED: char = '\u{fffd}';
const DECIMAL: u32 = 10;
const HEXADECIMAL: u32 = 16;
// Longer numbers are beyond Unicode.
const MAX_DIGITS: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumberedName<'a> {
    pub(super) prefix: &'a str,
    digits: &'a str,
}

impl<'a> NumberedName<'a> {
    /// The shortest prefix that leaves only digits. What follows a full stop is a variant of the glyph.
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        let name = name.split('.').next()?;
        let first = usize::from(!name.starts_with(|c: char| c.is_ascii_digit()));
        (first..name.len()).find_map(|at| {
            let (prefix, digits) = name.split_at_checked(at)?;
            let is_number = digits.len() <= MAX_DIGITS
                && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
                && (digits.bytes().any(|digit| digit.is_ascii_digit())
                    || digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_uppercase()));
            is_number.then_some(Self { prefix, digits })
        })
    }

    /// The character of the number. Only four hexadecimal digits can be a code of Unicode beyond Latin-1.
    pub(super) fn character(self, base: u32, is_type3: bool) -> Option<char> {
        let value = self.value(base)?;
        let is_unicode = base == HEXADECIMAL && self.digits.len() >= 4;
        (value <= 0xff || is_unicode).then(|| character_of(value, is_type3))?
    }

    fn value(self, base: u32) -> Option<u32> {
        u32::from_str_radix(self.digits, base).ok()
    }
}

/// Returns the base of the numbers for each prefix that has one.
pub(super) fn find_bases(names: &HashMap<u8, String>, is_type3: bool) -> HashMap<String, u32> {
    let mut families: HashMap<&str, Vec<(u8, NumberedName<'_>)>> = HashMap::new();
    for (code, name) in names {
        if let Some(name) = NumberedName::parse(name) {
            families.entry(name.prefix).or_default().push((*code, name));
        }
    }
    families
        .into_iter()
        .filter_map(|(prefix, family)| Some((prefix.to_owned(), find_base(&family, is_type3)?)))
        .collect()
}

// `None` if nothing tells which base is right: a character that cannot be read is better than a wrong one.
fn find_base(family: &[(u8, NumberedName<'_>)], is_type3: bool) -> Option<u32> {
    let decimal = Reading::new(family, DECIMAL, is_type3);
    let hexadecimal = Reading::new(family, HEXADECIMAL, is_type3);
    if decimal.is_plausible()
        && decimal.equals_codes()
        && decimal.equal_codes >= hexadecimal.equal_codes
    {
        return Some(DECIMAL);
    }
    // A digit above nine, codes that are equal to the numbers, or letters where decimal numbers are not characters.
    let is_shown = decimal.numbers < family.len()
        || hexadecimal.equals_codes()
        || !decimal.is_plausible() && !decimal.equals_codes() && hexadecimal.is_mostly_letters();
    (hexadecimal.is_plausible() && is_shown).then_some(HEXADECIMAL)
}

// What the names of one prefix say in one base.
struct Reading {
    names: usize,
    numbers: usize,
    characters: usize,
    letters: usize,
    equal_codes: usize,
}

impl Reading {
    fn new(family: &[(u8, NumberedName<'_>)], base: u32, is_type3: bool) -> Self {
        let mut reading = Self {
            names: family.len(),
            numbers: 0,
            characters: 0,
            letters: 0,
            equal_codes: 0,
        };
        for (code, name) in family {
            let character = name.character(base, is_type3);
            reading.numbers += usize::from(name.value(base).is_some());
            reading.characters += usize::from(character.is_some());
            reading.letters += usize::from(character.is_some_and(char::is_alphanumeric));
            reading.equal_codes += usize::from(name.value(base) == Some(u32::from(*code)));
        }
        reading
    }

    // Some names of a font may have no character.
    fn is_plausible(&self) -> bool {
        self.numbers == self.names && self.characters * 5 >= self.names * 4
    }

    // A few may be equal by chance.
    fn equals_codes(&self) -> bool {
        self.equal_codes * 2 > self.names
    }

    fn is_mostly_letters(&self) -> bool {
        self.letters * 2 > self.names
    }
}

/// The character of a code of WinAnsiEncoding or Unicode, or a ligature of the TeX text fonts.
pub(super) fn character_of(code: u32, is_type3: bool) -> Option<char> {
    let character = match code {
        0x0b if is_type3 => '\u{fb00}',
        0x0c if is_type3 => '\u{fb01}',
        0x0d if is_type3 => '\u{fb02}',
        0x0e if is_type3 => '\u{fb03}',
        0x0f if is_type3 => '\u{fb04}',
        0x80..=0x9f => *WIN_ANSI.get(code as usize - 0x80)?,
        _ => char::from_u32(code)?,
    };
    (!character.is_control() && character != UNUSED).then_some(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The characters of names at codes, `?` for those that cannot be read.
    fn read(names: &[(u8, &str)]) -> String {
        let map: HashMap<u8, String> = names
            .iter()
            .map(|(code, name)| (*code, (*name).to_owned()))
            .collect();
        let bases = find_bases(&map, false);
        names
            .iter()
            .map(|(_, name)| {
                let name = NumberedName::parse(name)?;
                name.character(*bases.get(name.prefix)?, false)
            })
            .map(|character| character.unwrap_or('?'))
            .collect()
    }

    #[test]
    fn the_base_is_shown_by_all_names_of_a_font() {
        // The code of one name is equal to its decimal digits by chance.
        let names = [
            (30, "G30"),
            (31, "G32"),
            (32, "G33"),
            (33, "G2F"),
            (34, "G46._"),
        ];
        assert_eq!(read(&names), "023/F");
        assert_eq!(read(&[(49, "a49"), (50, "a50")]), "12");
        assert_eq!(read(&[(0x31, "G31"), (0x32, "G32")]), "12");
        assert_eq!(read(&[(1, "cid:0041"), (2, "cid:004a")]), "AJ");
        assert_eq!(read(&[(1, "C0031"), (2, "C0032"), (3, "C20AC")]), "12€");
        assert_eq!(read(&[(0x92, "G92"), (0x41, "G41")]), "’A");
    }

    #[test]
    fn names_that_nothing_explains_are_not_read() {
        // Decimal or hexadecimal: `AB` or `ef`.
        assert_eq!(read(&[(1, "G65"), (2, "G66")]), "??");
        // Indexes of glyphs: digits have those from 19 in many fonts.
        assert_eq!(
            read(&[(1, "g19"), (2, "g20"), (3, "g21"), (4, "g28")]),
            "????"
        );
        // Numbers that are the codes, which are not characters.
        assert_eq!(
            read(&[(20, "a20"), (21, "a21"), (22, "a22"), (49, "a49")]),
            "????"
        );
        assert_eq!(read(&[(5, "glyph"), (6, "x"), (7, "1234567")]), "???");
    }
}

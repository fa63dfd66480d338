//! Names that a document states for its issuer: short forms in quotes (`Acme Works, Inc. ("Acme")`), former names, and
//! trading symbols in the text.

use stemma_catalog::property::Property;
use stemma_document::SourceBody;

use crate::aliases::name_words;
use stemma_reading::companies::ends_company_name;
use stemma_reading::vocabulary::{FORMER_NAMES, GENERIC_NAMES, GENITIVES, OWN_COMPANY};

// Short forms are defined where an issuer is first named: on the cover and in the first pages of the business section.
const FRONT_PAGES: usize = 12;
const FRONT_LINES: usize = 600;
// Longer names are not short forms.
const MAX_WORDS: usize = 4;
const MAX_NAME_BYTES: usize = 60;
// A definition in parentheses follows the name within as many bytes, and is not longer than so many.
const NEAR_BYTES: usize = 120;
const MAX_DEFINITION_BYTES: usize = 240;
// A symbol follows the word within as many bytes.
const SYMBOL_BYTES: usize = 40;
const MAX_SYMBOL_BYTES: usize = 6;
// An issuer has few names of each kind. A text that lists more is a list of other companies, and the first are the issuer's.
const MAX_SHORT_FORMS: usize = 16;
const MAX_FORMER_NAMES: usize = 8;
const MAX_SYMBOLS: usize = 8;

/// Names as the text has them, each once, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatedNames {
    pub short: Vec<String>,
    pub former: Vec<String>,
    pub symbols: Vec<String>,
}

/// Reads the names that a text states for `issuer`.
pub fn read(issuer: &str, body: &SourceBody) -> StatedNames {
    let words = name_words(&Property::Company.canonical(issuer));
    let Some(first) = words.first() else {
        return StatedNames::default();
    };
    let mut names = StatedNames::default();
    let front = front_text(body);
    add_definitions(&front, &words, &mut names.short);
    add_former_names(&front, first, &mut names.former);
    match body {
        SourceBody::Lines(text) => {
            text.lines
                .iter()
                .for_each(|line| add_symbol(line, &mut names.symbols));
        }
        SourceBody::Pages(pages) => {
            let lines = pages.iter().flat_map(|page| &page.lines);
            lines.for_each(|line| add_symbol(&line.text, &mut names.symbols));
        }
    }
    names
}

fn add_name(names: &mut Vec<String>, name: &str, most: usize) {
    if names.len() < most && !names.iter().any(|known| known == name) {
        names.push(name.to_owned());
    }
}

// With one kind of quotation mark and apostrophe.
fn front_text(body: &SourceBody) -> String {
    let lines: Vec<&str> = match body {
        SourceBody::Lines(text) => text
            .lines
            .iter()
            .take(FRONT_LINES)
            .map(String::as_str)
            .collect(),
        SourceBody::Pages(pages) => pages
            .iter()
            .take(FRONT_PAGES)
            .flat_map(|page| page.lines.iter().map(|line| line.text.as_str()))
            .collect(),
    };
    lines.join(" ").replace(['“', '”'], "\"").replace('’', "'")
}

// `Acme Works, Inc. (the "Company", "Acme" or "we")`: quoted names in parentheses behind the name of the issuer.
fn add_definitions(text: &str, issuer: &[String], names: &mut Vec<String>) {
    for (open, _) in text.match_indices('(') {
        let inside = &text[open + 1..text.floor_char_boundary(open + MAX_DEFINITION_BYTES)];
        let Some(definition) = inside.split_once(')').map(|(definition, _)| definition) else {
            continue;
        };
        if !definition.contains('"') {
            continue;
        }
        let before = &text[text.floor_char_boundary(open.saturating_sub(NEAR_BYTES))..open];
        if !name_words(before).contains(&issuer[0]) {
            continue;
        }
        let quoted = definition.split('"').skip(1).step_by(2);
        quoted
            .map(|name| name.trim_matches([' ', ',', '.']))
            .filter(|name| is_short_form(name, issuer))
            .for_each(|name| add_name(names, name, MAX_SHORT_FORMS));
    }
}

// Whether a defined term is a form of the issuer's name: it has a word of it, or is made of its letters.
fn is_short_form(name: &str, issuer: &[String]) -> bool {
    let words = name_words(name);
    let starts_like_name = name.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit());
    if !starts_like_name
        || words.is_empty()
        || words.len() > MAX_WORDS
        || name.len() > MAX_NAME_BYTES
    {
        return false;
    }
    let own: Vec<&String> = words.iter().filter(|word| !is_generic(word)).collect();
    let shares_word = own
        .iter()
        .any(|word| word.len() >= 3 && issuer.contains(word));
    let is_abbreviation =
        words.len() == 1 && own.len() == 1 && is_made_of(&words[0], &issuer.concat());
    shares_word || is_abbreviation
}

fn is_generic(word: &str) -> bool {
    ends_company_name(word) || GENERIC_NAMES.contains(word)
}

// Whether `short` has letters of `long` in their order, and starts as it does: `fdx` and `fedex`.
fn is_made_of(short: &str, long: &str) -> bool {
    let mut rest = long.chars();
    short.len() >= 2
        && short.chars().next() == long.chars().next()
        && short.chars().all(|c| rest.any(|other| other == c))
}

// `Acme (formerly known as Widget Brothers, Inc.)`.
fn add_former_names(text: &str, issuer: &str, names: &mut Vec<String>) {
    for (at, mark) in text.match_indices("formerly ") {
        let before = &text[text.floor_char_boundary(at.saturating_sub(NEAR_BYTES / 2))..at];
        if !name_words(before).iter().any(|word| word == issuer) {
            continue;
        }
        let mut rest = &text[at + mark.len()..];
        for filler in FORMER_NAMES.iter().copied().chain(["\""]) {
            rest = rest.strip_prefix(filler).unwrap_or(rest);
        }
        let words = rest.split_whitespace().take(MAX_WORDS + 2);
        let mut name: Vec<&str> = Vec::new();
        for word in words {
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '&');
            if !(bare.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
                || bare == "&"
                || GENITIVES.contains(bare))
            {
                break;
            }
            name.push(bare);
            if word.ends_with([',', ')', ';', '"']) {
                break;
            }
        }
        let is_name = name
            .first()
            .is_some_and(|first| first.len() >= 2 && !GENITIVES.contains(first));
        if is_name
            && name_words(&name.join(" "))
                .iter()
                .any(|word| !is_generic(word))
        {
            add_name(names, &name.join(" "), MAX_FORMER_NAMES);
        }
    }
}

// `our common stock is listed … under the symbol "ACME"`. Other companies are not spoken of as "our".
fn add_symbol(line: &str, names: &mut Vec<String>) {
    let Some(at) = line.find("symbol").filter(|_| names.len() < MAX_SYMBOLS) else {
        return;
    };
    let lower = line.to_lowercase();
    if !OWN_COMPANY.occurs_in(&lower) {
        return;
    }
    let after = &line[at..line.floor_char_boundary(at + SYMBOL_BYTES)];
    let quoted = after
        .split(['"', '“', '”', '\'', '‘', '’'])
        .nth(1)
        .unwrap_or_default();
    let symbol = quoted.trim_matches(|c: char| !c.is_alphanumeric());
    let is_symbol = (1..=MAX_SYMBOL_BYTES).contains(&symbol.len())
        && symbol.chars().all(|c| c.is_ascii_uppercase() || c == '.')
        && symbol.len() >= 2;
    if is_symbol {
        add_name(names, symbol, MAX_SYMBOLS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stemma_document::TextLines;

    fn stated(issuer: &str, text: &str) -> StatedNames {
        let lines = text.lines().map(str::to_owned).collect();
        let text = TextLines {
            lines,
            tokens: Vec::new(),
            headings: Vec::new(),
        };
        read(issuer, &SourceBody::Lines(text))
    }

    #[test]
    fn quoted_short_forms_are_names_and_the_company_is_none() {
        for (text, expected) in [
            (
                "Umber Beauty Group, Inc. (the “Company,” “Umber Beauty,” “we” or “us”) sells",
                &["Umber Beauty"][..],
            ),
            (
                "Umber Beauty Group, Inc. (together with its subsidiaries, \"UBG\") sells",
                &["UBG"],
            ),
            (
                "Umber Beauty Group, Inc. is old (the \"Exchange Act\").",
                &[],
            ),
            (
                "Ochre Corporation (\"Ochre\") sells to the Umber trade.",
                &[],
            ),
            (
                "an Umber rule (“the Umber thing of things that last long”)",
                &[],
            ),
        ] {
            assert_eq!(
                stated("Umber Beauty Group, Inc.", text).short,
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn former_names_follow_the_name_of_the_issuer() {
        for (text, expected) in [
            (
                "Acme Works (formerly known as Widget Brothers, Inc.) makes",
                &["Widget Brothers"][..],
            ),
            (
                "ACME WORKS, INC.\n(formerly Widget & Sons Company)",
                &["Widget & Sons Company"],
            ),
            ("Acme was formerly small.", &[]),
            ("They bought Rockets, formerly named Flames, in May.", &[]),
        ] {
            assert_eq!(stated("Acme Works, Inc.", text).former, expected, "{text}");
        }
    }

    #[test]
    fn own_symbols_are_read_from_the_text() {
        let text = "Our common stock is listed under the symbol “ACMW.”\nTheir stock trades under the symbol “FLMS”.";
        assert_eq!(stated("Acme Works", text).symbols, ["ACMW"]);
    }

    #[test]
    fn a_list_of_names_is_cut() {
        let lines = |line: fn(String) -> String| -> String {
            let letters = ('A'..='Z').flat_map(|a| ('A'..='Z').map(move |b| format!("{a}{b}")));
            letters.take(FRONT_LINES).map(line).collect()
        };
        let symbols = lines(|name| format!("our stock has the symbol \"{name}\"\n"));
        let names = stated("Acme Works", &symbols);
        assert_eq!(names.symbols.len(), MAX_SYMBOLS);
        assert_eq!(names.symbols[0], "AA");
        let forms = lines(|name| format!("Acme Works (\"Acme {name}\")\n"));
        let names = stated("Acme Works", &forms);
        assert_eq!(names.short.len(), MAX_SHORT_FORMS);
        assert_eq!(names.short[0], "Acme AA");
        let former = lines(|name| format!("Acme Works (formerly known as Widget {name})\n"));
        let names = stated("Acme Works", &former);
        assert_eq!(names.former.len(), MAX_FORMER_NAMES);
        assert_eq!(names.former[0], "Widget AA");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(Acme |\\(|\"|“|formerly |symbol |our |[A-Za-z’é ]){0,40}") {
            stated("Acme Works, Inc.", &text);
        }
    }
}

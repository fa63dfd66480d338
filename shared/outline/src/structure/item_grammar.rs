//! The grammar of PART and Item lines.
//!
//! Filings mention their Items in running text far more often than in headings. A line counts as a heading only if it starts
//! with the Item and if the words after the number start like a title: `Item 7 of this report` and `Item 1A, Risk` are
//! references. The grammar accepts the line alone; `item_headings` decides which of several lines is the heading.

use stemma_reading::numerals::parse_roman;
use stemma_reading::terms::is_cjk;
use stemma_reading::vocabulary::ITEM_JOINTS;

use super::forms::ItemNumber;
use super::numbering;
use super::titles;

/// The start of a PART or Item line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ItemHeading<'a> {
    pub(super) part: Option<u8>,
    /// The Items; several for a combined one; empty for a PART line.
    pub(super) tags: Vec<ItemNumber>,
    /// Whether Items are numbered `n.nn`.
    pub(super) current: bool,
    /// The number as written.
    pub(super) number: &'a str,
    /// The title behind it.
    pub(super) rest: &'a str,
}

/// Bytes of a line that are parsed.
pub(super) const HEAD_BYTES: usize = 400;

/// Parses the start of a line; `None` if it is neither PART nor Item, or a reference to one.
pub(super) fn parse_heading(text: &str) -> Option<ItemHeading<'_>> {
    let text = titles::truncate_bytes(text, HEAD_BYTES).trim_start();
    if !text.starts_with(['P', 'I', 'p', 'i']) {
        return None;
    }
    let (part, after_part) = match parse_part(text) {
        Some((part, number, rest)) => (Some((part, number)), rest),
        None => (None, text),
    };
    if let Some(head) = parse_item(after_part) {
        return Some(ItemHeading {
            part: part.map(|(part, _)| part),
            ..head
        });
    }
    let (part, number) = part?;
    // A bare PART line has no number of an Item to check, so its title must be short and must not be a sentence.
    let titled = after_part.is_empty() || starts_title(after_part);
    let short =
        titles::word_count(after_part) <= 8 && !after_part.ends_with('.') || after_part.is_empty();
    (titled && short).then_some(ItemHeading {
        part: Some(part),
        tags: Vec::new(),
        current: false,
        number,
        rest: after_part,
    })
}

/// `PART II`, `Part 2`, `PARTII`: its number, the number as written, and the rest after separators.
fn parse_part(text: &str) -> Option<(u8, &str, &str)> {
    let after = strip_word(text, "part")?;
    let body = after.trim_start();
    let length = body
        .bytes()
        .take_while(|b| matches!(b, b'I' | b'V' | b'1'..=b'4'))
        .count();
    let number = &body[..length];
    let part = number
        .parse::<u32>()
        .ok()
        .or_else(|| parse_roman(number))
        .filter(|part| (1..=4).contains(part))?;
    let rest = &body[length..];
    // A comma or closing quote shows a reference, except in `PART II, Item 1`.
    if rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, ',' | ')' | '”' | '"' | '’'))
        && !rest.starts_with(", I")
    {
        return None;
    }
    Some((
        u8::try_from(part).ok()?,
        number,
        numbering::skip_separators(rest).trim_start_matches([',', ' ']),
    ))
}

// Large initials and letter-spaced headings come out of the PDF as `I TEM` or `P A R T`. Only a capitalized word counts,
// since a lower-case `item 1` is a reference or an entry of a list.
fn strip_word<'a>(text: &'a str, expected: &str) -> Option<&'a str> {
    let mut rest = text;
    if !rest.starts_with(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    for letter in expected.chars() {
        rest = rest.trim_start_matches(' ');
        let first = rest
            .chars()
            .next()
            .filter(|c| c.eq_ignore_ascii_case(&letter))?;
        rest = &rest[first.len_utf8()..];
    }
    Some(rest)
}

fn parse_item(text: &str) -> Option<ItemHeading<'_>> {
    let after = strip_word(text, "item")?;
    let plural = after
        .strip_prefix(['s', 'S'])
        .map(|after| after.strip_prefix("(s)").unwrap_or(after));
    let body = plural
        .unwrap_or(after)
        .trim_start_matches([' ', '\u{a0}', '#']);
    // `Item No. 1`
    let body = ["No. ", "NO. "]
        .iter()
        .find_map(|no| body.strip_prefix(no))
        .unwrap_or(body);
    let (tags, end) = parse_item_numbers(body);
    tags.first()?;
    let rest = &body[end..];
    // These characters continue a sentence that mentions the Item.
    if rest.starts_with([',', ')', '”', '"', '’', ';', '/', '('])
        || rest.starts_with(char::is_alphanumeric)
    {
        return None;
    }
    let title = numbering::skip_separators(rest);
    let current = body[..end].contains('.');
    let titled = title.is_empty() || starts_title(title);
    titled.then_some(ItemHeading {
        part: None,
        tags,
        current,
        number: &body[..end],
        rest: title,
    })
}

/// Parses `10, 11 and 12`; also gives the length in bytes.
fn parse_item_numbers(text: &str) -> (Vec<ItemNumber>, usize) {
    let mut tags = Vec::new();
    let mut end = 0;
    while let Some((tag, length)) = parse_item_number(&text[end..]) {
        tags.push(tag);
        end += length;
        match joiner_length(&text[end..]).filter(|_| tags.len() < 8) {
            Some(length) => end += length,
            None => break,
        }
    }
    (tags, end)
}

const LIST_START: &str = "items ";

/// The first list of Items in a text, such as `10, 11, 12 and 13` in `The information that Items 10, 11, 12 and 13 require`,
/// as written and as numbers.
pub(super) fn items_in_text(text: &str) -> Option<(&str, Vec<ItemNumber>)> {
    let list = text.to_ascii_lowercase().find(LIST_START)?;
    let body = &text[list + LIST_START.len()..];
    let (tags, end) = parse_item_numbers(body);
    (tags.len() > 1).then(|| (&body[..end], tags))
}

/// Parses `7`, `7A`, `5.02`, `7(a)`; also gives the length in bytes.
pub(super) fn parse_item_number(text: &str) -> Option<(ItemNumber, usize)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u16 = text[..digits]
        .parse()
        .ok()
        .filter(|n| (1..=20).contains(n))?;
    let after = &text[digits..];
    let nn = after
        .strip_prefix('.')
        .map(|after| after.bytes().take_while(u8::is_ascii_digit).count());
    if nn == Some(2) && number <= 9 {
        return Some(((number, after[1..3].parse().ok()?), digits + 3));
    }
    let letter = after.trim_start_matches([' ', '(']);
    let skipped = after.len() - letter.len();
    // Form 20-F goes from 16A to 16K.
    let last = if number == 16 { b'K' } else { b'C' };
    let mark = letter
        .bytes()
        .next()
        .filter(|b| (b'A'..=last).contains(&b.to_ascii_uppercase()));
    let alone = !letter[mark.map_or(0, |_| 1)..]
        .starts_with(|c: char| c.is_alphanumeric() || c == '\'' || c == '’');
    // The title of `Item 1 A Company` begins with A. A letter counts only if it touches the number or a mark follows it.
    let marked = letter
        .get(1..2)
        .is_none_or(|next| matches!(next, "." | ":" | ")" | "-" | "—"));
    match mark.filter(|_| alone && (skipped == 0 || marked)) {
        Some(mark) => {
            let closing = usize::from(letter[1..].starts_with(')') && after.starts_with('('));
            // `Item 9A(T)` of 2007 to 2010, for filers without an attestation.
            let end = letter[1 + closing..].trim_start();
            let temporary = ["(T)", "(t)"].iter().any(|mark| end.starts_with(mark));
            let temporary = if temporary {
                letter.len() - 1 - closing - end.len() + 3
            } else {
                0
            };
            let length = digits + skipped + 1 + closing + temporary;
            Some((
                (number, u16::from(mark.to_ascii_uppercase() - b'A') + 1),
                length,
            ))
        }
        None => Some(((number, 0), digits)),
    }
}

/// The number of `Item 1112(b) of Regulation AB. Significant Obligors`; `None` for a reference in a sentence.
pub(super) fn regulation_ab_number(text: &str) -> Option<&str> {
    let body = strip_word(text.trim_start(), "item")?.trim_start_matches([' ', '\u{a0}']);
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    let number: u16 = body[..digits].parse().ok()?;
    let marks = body[digits..].find(|c: char| !(c.is_alphanumeric() || matches!(c, '(' | ')')));
    let (whole, rest) = body.split_at(digits + marks.unwrap_or(body.len() - digits));
    let rest = rest.trim_start();
    // Items 1100 to 1125 are those of Regulation AB.
    let is_titled = match rest.strip_prefix("of Regulation AB") {
        Some(title) => {
            let title = title.trim_start_matches(['.', ',', ':', ' ', '-', '–', '—', '\u{a0}']);
            title.is_empty() || starts_title(title)
        }
        None => rest.starts_with(['.', ':', '-', '–', '—']),
    };
    ((1100..=1125).contains(&number) && is_titled).then_some(whole)
}

/// Length of the text that joins numbers of a combined Item: `, `, ` and `, ` & `, `, and Item `.
fn joiner_length(text: &str) -> Option<usize> {
    let mut rest = text;
    let mut joined = false;
    for joint in ITEM_JOINTS.iter() {
        if let Some(after) = strip_any_case(rest.trim_start(), joint) {
            rest = after;
            joined = true;
        }
    }
    let rest = rest.trim_start();
    let rest = strip_any_case(rest, "item").unwrap_or(rest).trim_start();
    let numbered = rest.starts_with(|c: char| c.is_ascii_digit());
    (joined && numbered).then(|| text.len() - rest.len())
}

fn strip_any_case<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (front, rest) = text.split_at_checked(word.len())?;
    front.eq_ignore_ascii_case(word).then_some(rest)
}

fn starts_title(text: &str) -> bool {
    // `10-K Summary` is a title, other numbers continue a sentence or a row.
    let named = ["10-K ", "20-F "]
        .iter()
        .find_map(|form| text.strip_prefix(form));
    named.unwrap_or(text).starts_with(|c: char| {
        c.is_uppercase() || matches!(c, '[' | '(' | '“' | '"' | '*') || is_cjk(c)
    })
}

/// The number as written and the title of `1A. Risk Factors`.
pub(super) fn bare_item(text: &str) -> Option<(&str, &str)> {
    let (_, length) = parse_item_number(text)?;
    parse_bare_item(text).map(|(_, title)| (&text[..length], title))
}

/// Parses an Item without the word `Item`: `1A. Risk Factors`, `7 | Management's …`.
pub(super) fn parse_bare_item(text: &str) -> Option<(ItemNumber, &str)> {
    let (tag, length) =
        parse_item_number(text).filter(|_| text.starts_with(|c: char| c.is_ascii_digit()))?;
    let rest = text.get(length..)?;
    let spaced = rest.starts_with([' ', '.', ':', '|', '\u{a0}', '-', '–', '—']);
    let title = numbering::skip_separators(rest);
    (spaced && starts_title(title)).then_some((tag, title))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_heading_formats() {
        for (text, part, tags, rest) in [
            ("Item 1. Business", None, vec![(1, 0)], "Business"),
            ("ITEM 1A. RISK FACTORS", None, vec![(1, 1)], "RISK FACTORS"),
            ("Item 7A.—Quantitative", None, vec![(7, 1)], "Quantitative"),
            ("Item 1. | Business", None, vec![(1, 0)], "Business"),
            (
                "ITEM 16.     10-K SUMMARY",
                None,
                vec![(16, 0)],
                "10-K SUMMARY",
            ),
            ("I TEM 9C. Disclosure", None, vec![(9, 3)], "Disclosure"),
            (
                "Item 5.02 Departure of Directors",
                None,
                vec![(5, 2)],
                "Departure of Directors",
            ),
            (
                "ITEMS 10, 11, 12 and 13. DIRECTORS",
                None,
                vec![(10, 0), (11, 0), (12, 0), (13, 0)],
                "DIRECTORS",
            ),
            (
                "Items 1 and 2. Business and Properties",
                None,
                vec![(1, 0), (2, 0)],
                "Business and Properties",
            ),
            (
                "ITEM 9A(T). CONTROLS AND PROCEDURES",
                None,
                vec![(9, 1)],
                "CONTROLS AND PROCEDURES",
            ),
            (
                "Item 9A (T) Controls and Procedures",
                None,
                vec![(9, 1)],
                "Controls and Procedures",
            ),
            ("Item No. 1. Business", None, vec![(1, 0)], "Business"),
            ("Item 1: Business", None, vec![(1, 0)], "Business"),
            (
                "PART I—FINANCIAL INFORMATION",
                Some(1),
                vec![],
                "FINANCIAL INFORMATION",
            ),
            ("Part II.", Some(2), vec![], ""),
            (
                "PART II, Item 1. Legal Proceedings",
                Some(2),
                vec![(1, 0)],
                "Legal Proceedings",
            ),
            ("Item 6. [Reserved]", None, vec![(6, 0)], "[Reserved]"),
            ("Item 1 A Company", None, vec![(1, 0)], "A Company"),
        ] {
            let head = parse_heading(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(head.part, part, "{text}");
            assert_eq!(head.tags, tags, "{text}");
            assert_eq!(head.rest, rest, "{text}");
        }
    }

    #[test]
    fn items_of_regulation_ab_have_a_title() {
        for (text, number) in [
            (
                "Item 1112(b) of Regulation AB. Significant Obligors",
                "1112(b)",
            ),
            (
                "ITEM 1114(b)(2) of Regulation AB, Credit Enhancement",
                "1114(b)(2)",
            ),
            ("Item 1119. Affiliations", "1119"),
            ("Item 1122 of Regulation AB", "1122"),
        ] {
            assert_eq!(regulation_ab_number(text), Some(number), "{text}");
        }
        for text in [
            "Item 1122 of Regulation AB requires a report",
            "Item 1122 has been omitted",
            "Item 112 of Regulation AB",
            "Items 1, 1A",
        ] {
            assert_eq!(regulation_ab_number(text), None, "{text}");
        }
    }

    #[test]
    fn references_are_not_headings() {
        for text in [
            "Item 7 of this report",
            "Item 1A, Risk Factors",
            "Item 8) and",
            "Item 8. 10-K reports",
            "item 1. Business",
            "Part of the",
            "PART I of this Annual Report",
            "Item 14(a)(1) Financial Statements",
            "Item 303 of Regulation S-K",
            "Items",
        ] {
            assert_eq!(parse_heading(text), None, "{text}");
        }
    }
}

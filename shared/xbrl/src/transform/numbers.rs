//! Displayed numbers.

pub(super) const APOSTROPHES: &str = "'`\u{B4}\u{2019}\u{2032}\u{FF07}";
pub(super) const COMMA_AND_APOSTROPHES: &str = ",'`\u{B4}\u{2019}\u{2032}\u{FF07}";
pub(super) const DOT_AND_APOSTROPHES: &str = ".'`\u{B4}\u{2019}\u{2032}\u{FF07}";

/// Digits with at most one point.
pub(super) fn plain(text: &str) -> Option<String> {
    grouped(text, '.', "", false).filter(|_| !text.contains(is_space))
}

/// A number with a decimal point and marks between groups of digits; spaces are such marks, too. `in_threes`: the groups have
/// three digits.
pub(super) fn grouped(text: &str, point: char, marks: &str, in_threes: bool) -> Option<String> {
    let is_mark = |c: char| marks.contains(c) || is_space(c);
    let (whole, fraction) = match text.split_once(point) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text, None),
    };
    if in_threes {
        let mut groups = whole.split(is_mark);
        let first = groups.next().unwrap_or_default();
        // Without any mark the digits are not grouped.
        let has_groups = whole.contains(is_mark);
        let fits = !first.is_empty()
            && (!has_groups || first.len() <= 3)
            && groups.all(|group| group.len() == 3);
        if !fits || fraction.is_some_and(|fraction| fraction.contains(is_space)) {
            return None;
        }
    }
    let mut number: String = whole.chars().filter(|c| !is_mark(*c)).collect();
    let fraction: Option<String> =
        fraction.map(|fraction| fraction.chars().filter(|c| !is_space(*c)).collect());
    if let Some(fraction) = &fraction {
        if number.is_empty() {
            number.push('0');
        }
        number.push('.');
        number.push_str(fraction);
    }
    let has_digits = fraction
        .as_ref()
        .is_none_or(|fraction| !fraction.is_empty());
    let is_number = !number.is_empty()
        && number
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    (has_digits && is_number && number.matches('.').count() <= 1).then_some(number)
}

/// Indian grouping: the last group has three digits, the others two.
pub(super) fn indian(text: &str) -> Option<String> {
    let (whole, _) = text.split_once('.').unwrap_or((text, ""));
    let groups: Vec<&str> = whole.split(|c: char| c == ',' || is_space(c)).collect();
    let fits = match groups.as_slice() {
        [_] => true,
        [first, middle @ .., last] => {
            (1..=2).contains(&first.len())
                && middle.iter().all(|group| group.len() == 2)
                && last.len() == 3
        }
        [] => false,
    };
    grouped(text, '.', ",", false).filter(|_| fits)
}

/// Two numbers with a unit behind each: `1,234 dollars 5 cents`. The second has at most two digits.
pub(super) fn with_units(text: &str, marks: &str) -> Option<String> {
    let unit_at =
        text.find(|c| !(is_digit(c) || ".,\u{FF0C}\u{FF0E}".contains(c) || marks.contains(c)))?;
    let rest = &text[unit_at..];
    let fraction_at = rest.find(is_digit)?;
    let fraction: String = rest[fraction_at..]
        .chars()
        .take_while(|c| is_digit(*c))
        .filter_map(ascii_digit)
        .collect();
    let behind = rest[fraction_at..].trim_start_matches(is_digit);
    let whole: String = text[..unit_at].chars().filter_map(ascii_digit).collect();
    let fits = !whole.is_empty() && (1..=2).contains(&fraction.len()) && !behind.contains(is_digit);
    fits.then(|| format!("{whole}.{fraction:0>2}"))
}

pub(super) fn is_dash(text: &str) -> bool {
    const DASHES: &str =
        "-\u{58A}\u{5BE}\u{2010}\u{2011}\u{2012}\u{2013}\u{2014}\u{2015}\u{FE58}\u{FE63}\u{FF0D}";
    DASHES.contains(text) && text.chars().count() == 1
}

fn is_space(c: char) -> bool {
    c == ' ' || c == '\u{A0}'
}

fn is_digit(c: char) -> bool {
    ascii_digit(c).is_some()
}

// Also of full width.
fn ascii_digit(c: char) -> Option<char> {
    match c {
        '0'..='9' => Some(c),
        '\u{FF10}'..='\u{FF19}' => char::from_digit(c as u32 - 0xFF10, 10),
        _ => None,
    }
}

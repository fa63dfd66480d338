//! Identifiers printed on covers.

/// A Commission file number: one to three digits, a hyphen, two to six digits, optionally two more. Seven digits would be a
/// tax number.
pub(super) fn parse_file_number(word: &str) -> Option<String> {
    let word = word
        .trim_matches(|c: char| !c.is_ascii_digit())
        .replace(['–', '‑', '‐', '—', '−'], "-");
    let parts: Vec<&str> = word.split('-').collect();
    let digits = parts
        .iter()
        .all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    (digits && matches!(lengths[..], [1..=3, 2..=6] | [1..=3, 2..=6, 2])).then_some(word)
}

/// The employer identification number: two digits, a hyphen, seven digits.
pub(super) fn parse_irs_number(word: &str) -> Option<String> {
    let word = word
        .trim_matches(|c: char| !c.is_ascii_digit())
        .replace(['–', '‑', '‐', '—', '−'], "-");
    let (front, back) = word.split_once('-')?;
    let all_digits = front
        .bytes()
        .chain(back.bytes())
        .all(|b| b.is_ascii_digit());
    (front.len() == 2 && back.len() == 7 && all_digits).then_some(word)
}

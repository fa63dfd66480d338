//! English month names and number words.

/// January to December, lower case.
pub const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// One to twenty, lower case.
pub const NUMBER_WORDS: [&str; 20] = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
];

/// Parses `one` to `twenty`, case-insensitively.
///
/// ```
/// assert_eq!(stemma_document::english_words::parse_number_word("Twelve"), Some(12));
/// assert_eq!(stemma_document::english_words::parse_number_word("dozen"), None);
/// ```
pub fn parse_number_word(word: &str) -> Option<u32> {
    (1..)
        .zip(NUMBER_WORDS)
        .find(|(_, name)| word.eq_ignore_ascii_case(name))
        .map(|(number, _)| number)
}

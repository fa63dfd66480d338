//! English as filings print it: the months, and the numbers that parts, notes and articles are counted with.

/// January to December, in lower case.
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

/// One to twenty, in lower case.
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

/// The number that a word is, whatever its case: `ONE` to `TWENTY`.
///
/// ```
/// assert_eq!(stemma_document::english::count("Twelve"), Some(12));
/// assert_eq!(stemma_document::english::count("dozen"), None);
/// ```
pub fn parse_number_word(word: &str) -> Option<u32> {
    (1..)
        .zip(NUMBER_WORDS)
        .find(|(_, name)| word.eq_ignore_ascii_case(name))
        .map(|(number, _)| number)
}

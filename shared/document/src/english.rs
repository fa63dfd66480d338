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
pub const COUNTS: [&str; 20] = [
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
pub fn count(word: &str) -> Option<u32> {
    (1..)
        .zip(COUNTS)
        .find(|(_, known)| word.eq_ignore_ascii_case(known))
        .map(|(number, _)| number)
}

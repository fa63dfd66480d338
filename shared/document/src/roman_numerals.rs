//! Roman numerals.

/// Formats a number as an upper-case Roman numeral; empty for 0.
///
/// ```
/// assert_eq!(stemma_document::roman_numerals::format_roman(1999), "MCMXCIX");
/// ```
pub fn format_roman(mut number: u32) -> String {
    const STEPS: [(u32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut text = String::new();
    for (value, letters) in STEPS {
        while number >= value {
            text.push_str(letters);
            number -= value;
        }
    }
    text
}

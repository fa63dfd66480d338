//! Items that a form requires, by year.
//!
//! Source: the SEC releases that added or withdrew them: 33-8124 (15), 33-8238 (9A), 33-8400 (9B), 33-8591 (1A, 1B), 33-9089 (4 withdrawn,
//! later mine safety), 33-10890 (6 withdrawn), 33-11216 (1C), the Holding Foreign Companies Accountable Act (9C).

use stemma_document::FilingFacts;

use crate::structure::forms::FormItem;

/// The fiscal year, else the year in which the period ends.
pub(super) fn filing_year(facts: &FilingFacts) -> Option<u32> {
    [&facts.fiscal_year, &facts.period_end]
        .into_iter()
        .flatten()
        .find_map(|fact| fact.value.get(..4)?.parse().ok())
}

/// Whether a filing of that year must have the Item; `false` for Items that a filer may omit.
pub(super) fn is_expected(form: &str, entry: &FormItem, year: Option<u32>) -> bool {
    let since: [(&str, u8, &str, u32, u32); 11] = [
        ("10-K", 1, "1A", 2005, u32::MAX),
        ("10-K", 1, "1B", 2005, u32::MAX),
        ("10-K", 1, "1C", 2024, u32::MAX),
        ("10-K", 2, "6", 0, 2020),
        ("10-K", 2, "7A", 1998, u32::MAX),
        ("10-K", 2, "9A", 2003, u32::MAX),
        ("10-K", 2, "9B", 2004, u32::MAX),
        ("10-K", 2, "9C", 2022, u32::MAX),
        ("10-K", 3, "14", 2004, u32::MAX),
        // Item 14 before.
        ("10-K", 4, "15", 2003, u32::MAX),
        ("10-Q", 2, "1A", 2006, u32::MAX),
    ];
    // A current report has only the Items it reports. The summary of Form 10-K, the officers (a custom of filers) and the
    // Items of Form 20-F are optional.
    let is_optional = form == "10-K" && matches!(entry.number, "4A" | "16");
    if matches!(form, "8-K" | "20-F") || is_optional {
        return false;
    }
    let rule = since.iter().find(|(of, part, number, ..)| {
        *of == form && *part == entry.part && *number == entry.number
    });
    rule.is_none_or(|(.., first, last)| year.is_some_and(|year| (*first..=*last).contains(&year)))
}

//! Items that a form requires, by year.
//!
//! Source: the SEC releases that added or withdrew them: 33-8124 (15), 33-8238 (9A), 33-8400 (9B), 33-8591 (1A, 1B), 33-9089 (4 withdrawn,
//! later mine safety), 33-10890 (6 withdrawn), 33-11216 (1C), the Holding Foreign Companies Accountable Act (9C).

use stemma_document::FilingFacts;
use stemma_reading::vocabulary::COMPLETE_FORMS;

use crate::structure::forms::{FormItem, SecForm};

/// The fiscal year, else the year in which the period ends.
fn filing_year(facts: &FilingFacts) -> Option<u32> {
    [&facts.fiscal_year, &facts.period_end]
        .into_iter()
        .flatten()
        .find_map(|fact| fact.value.get(..4)?.parse().ok())
}

/// Whether a filing of that year must have the Item; `false` for Items that a filer may omit.
pub(super) fn is_expected(form: SecForm, entry: &FormItem, facts: &FilingFacts) -> bool {
    match form {
        SecForm::Annual | SecForm::Quarterly => {
            is_expected_in_report(form.name(), entry, filing_year(facts))
        }
        // A current report has only the Items it reports, and the Items of Form 20-F are optional.
        SecForm::Current | SecForm::Foreign => false,
        _ => {
            let stated = facts.form.as_ref();
            entry.is_required && stated.is_some_and(|form| COMPLETE_FORMS.contains(&form.value))
        }
    }
}

fn is_expected_in_report(form: &str, entry: &FormItem, year: Option<u32>) -> bool {
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
    // The summary of Form 10-K and the officers, a custom of filers.
    if form == "10-K" && matches!(entry.number, "4A" | "16") {
        return false;
    }
    let rule = since.iter().find(|(of, part, number, ..)| {
        *of == form && *part == entry.part && *number == entry.number
    });
    rule.is_none_or(|(.., first, last)| year.is_some_and(|year| (*first..=*last).contains(&year)))
}

//! Names of concepts in words.

/// The local name of a concept in words: `Revenue from contract with customer` for
/// `us-gaap:RevenueFromContractWithCustomer`. Abbreviations stay upper case.
///
/// ```
/// assert_eq!(stemma_xbrl::concept_words("us-gaap:IncomeTaxesPaidNet"), "Income taxes paid net");
/// assert_eq!(stemma_xbrl::concept_words("aapl:OtherAOCIBeforeTax"), "Other AOCI before tax");
/// ```
pub fn concept_words(concept: &str) -> String {
    let name = concept.split_once(':').map_or(concept, |(_, name)| name);
    let characters: Vec<char> = name.chars().collect();
    let mut words: Vec<String> = Vec::new();
    for (at, character) in characters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| characters[at]);
        let next = characters.get(at + 1);
        let starts_word = match before {
            None => true,
            Some(before) if character.is_uppercase() => {
                !before.is_uppercase() || next.is_some_and(|next| next.is_lowercase())
            }
            Some(before) => character.is_numeric() != before.is_numeric() && !before.is_uppercase(),
        };
        if matches!(character, '_' | '-' | '.') {
            words.push(String::new());
        } else if starts_word || words.is_empty() {
            words.push(character.to_string());
        } else if let Some(word) = words.last_mut() {
            word.push(*character);
        }
    }
    words.retain(|word| !word.is_empty());
    let is_abbreviation =
        |word: &str| word.chars().count() > 1 && word.chars().all(char::is_uppercase);
    let written = words.iter().enumerate().map(|(at, word)| match at {
        0 => word.clone(),
        _ if is_abbreviation(word) => word.clone(),
        _ => word.to_lowercase(),
    });
    written.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_words() {
        for (concept, words) in [
            (
                "us-gaap:RevenueFromContractWithCustomer",
                "Revenue from contract with customer",
            ),
            ("dei:EntityPublicFloat", "Entity public float"),
            (
                "us-gaap:OtherComprehensiveIncomeOCI",
                "Other comprehensive income OCI",
            ),
            (
                "us-gaap:LesseeOperatingLeaseTerm1",
                "Lessee operating lease term 1",
            ),
            ("ABCIncome", "ABC income"),
            ("x:", ""),
        ] {
            assert_eq!(concept_words(concept), words);
        }
    }
}

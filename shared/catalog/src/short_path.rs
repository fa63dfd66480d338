//! Short forms of section paths, for lists that people and models read.

use crate::items::parse_item_name;

const SEPARATOR: &str = " › ";
// A title of 48 characters has about seven words; most titles of filings are shorter.
const TITLE_CHARS: usize = 48;
// The top-level section only says where the last titles are.
const TOP_CHARS: usize = 32;
// With two last titles a path stays on one line of a terminal, next to locator and pages.
const PATH_CHARS: usize = 72;

/// The Item or top-level section of a path, and its last one or two titles: `Item 7 › Liquidity`. Parts of the form are left
/// out, and long titles are cut at a word. The path goes from the root to the section.
pub fn short_path(path: &[String]) -> String {
    let item = path.iter().position(|title| item_of(title).is_some());
    let top = item.unwrap_or_else(|| {
        // A part of the form without an Item below it is all there is to name.
        usize::from(path.len() > 1 && path.first().is_some_and(|title| is_part(title)))
    });
    let Some((first, below)) = path.get(top..).and_then(<[String]>::split_first) else {
        return String::new();
    };
    let Some((last, between)) = below.split_last() else {
        return shortened(first, TITLE_CHARS);
    };
    let top = item_of(first).unwrap_or_else(|| shortened(first, TOP_CHARS));
    let last = shortened(last, TITLE_CHARS);
    let parent = between.last().map(|title| shortened(title, TITLE_CHARS));
    let long = parent.map(|parent| [top.as_str(), &parent, &last].join(SEPARATOR));
    long.filter(|path| path.chars().count() <= PATH_CHARS)
        .unwrap_or_else(|| [top, last].join(SEPARATOR))
}

// `Item 7` of `ITEM 7. Management’s Discussion and Analysis`.
fn item_of(title: &str) -> Option<String> {
    let mut words = title.split_whitespace();
    let word = words.next()?;
    if !word.eq_ignore_ascii_case("item") {
        return None;
    }
    let number = words.next()?.split(['—', '–', '-', ':']).next()?;
    let (_, number) = parse_item_name(number)?;
    Some(format!("Item {number}"))
}

// `PART II`, `Part I. Financial Information`.
fn is_part(title: &str) -> bool {
    let mut words = title.split_whitespace();
    words
        .next()
        .is_some_and(|word| word.eq_ignore_ascii_case("part"))
        && words.next().is_some_and(|word| {
            let number = word.trim_end_matches(|c: char| !c.is_alphanumeric());
            !number.is_empty() && number.chars().all(|c| matches!(c, 'I' | 'V' | 'X'))
        })
}

// At most `chars` characters, cut at a word. Punctuation at the cut leaves room for the mark.
fn shortened(title: &str, chars: usize) -> String {
    if title.chars().count() <= chars {
        return title.to_owned();
    }
    let room = chars.saturating_sub(1);
    let spaces = title.match_indices(char::is_whitespace);
    let words = spaces
        .map(|(end, _)| title[..end].trim_end_matches(|c: char| !c.is_alphanumeric() && c != ')'))
        .take_while(|words| words.chars().count() <= room)
        .last()
        .filter(|words| !words.is_empty());
    match words {
        Some(words) => format!("{words}…"),
        None => title.chars().take(room).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MD_AND_A: &str = "Item 7. Management’s Discussion and Analysis of Financial Condition and Results of Operations";

    fn short(path: &[&str]) -> String {
        let path: Vec<String> = path.iter().map(|title| (*title).to_owned()).collect();
        short_path(&path)
    }

    #[test]
    fn paths_keep_the_item_and_the_last_titles() {
        for (path, expected) in [
            (&[][..], ""),
            (&["PART II"], "PART II"),
            (
                &["PART II", MD_AND_A],
                "Item 7. Management’s Discussion and Analysis of…",
            ),
            (&["PART II", MD_AND_A, "Liquidity"], "Item 7 › Liquidity"),
            (
                &["PART II", MD_AND_A, "Overview", "Liquidity", "Cash Flows"],
                "Item 7 › Liquidity › Cash Flows",
            ),
            (
                &[
                    "Part II. Other Information",
                    "ITEM 1A—RISK FACTORS",
                    "Risks Related to Our Business and Our Industry in General",
                    "We depend on a limited number of suppliers for components of our products",
                ],
                "Item 1A › We depend on a limited number of suppliers for…",
            ),
            (
                &["Part I. Financial Information", "Notes", "Note 5. Leases"],
                "Notes › Note 5. Leases",
            ),
            (
                &[
                    "Recommendations of the Advisory Committee on Technology",
                    "Scope",
                ],
                "Recommendations of the Advisory… › Scope",
            ),
            (
                &["Item", "Items 10, 11 and 12"],
                "Item › Items 10, 11 and 12",
            ),
            (
                &["Donaudampfschifffahrtsgesellschaftskapitänswitwenrente"],
                "Donaudampfschifffahrtsgesellschaftskapitänswitw…",
            ),
            (
                &["Concentrations of Credit Risk and Major Suppliers, Customers and Partners"],
                "Concentrations of Credit Risk and Major…",
            ),
            (
                &["Concentrations of Credit Risks and of Suppliers, Customers and Partners"],
                "Concentrations of Credit Risks and of Suppliers…",
            ),
        ] {
            assert_eq!(short(path), expected);
        }
    }

    proptest! {
        #[test]
        fn short_paths_are_short(path in prop::collection::vec("(Item [0-9]|PART [IV]|\\PC){0,30}", 0..6)) {
            let short = short_path(&path);
            prop_assert!(short.chars().count() <= TOP_CHARS.max(PATH_CHARS) + TITLE_CHARS);
            prop_assert!(short.len() <= path.join(SEPARATOR).len() + '…'.len_utf8() * 3);
        }
    }
}

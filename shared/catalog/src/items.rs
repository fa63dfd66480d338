//! Finds the sections that are Items of a filing, at any level of the tree.

use std::collections::HashMap;

use serde::Serialize;
use stemma_document::{FilingItem, ItemStatus, Section, SectionId, SectionTree};
use stemma_reading::numerals::parse_roman;
use stemma_reading::section_names;
use stemma_reading::vocabulary::{CONJUNCTIONS, NUMBERED_WORDS};

/// An Item of a filing and its section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionItem {
    /// The part of the form (`II`), if the tree states it.
    pub part: Option<String>,
    /// `1A`, `7`, `2.02` or `risk-factors`.
    pub number: String,
    /// Several Items may share a section ("Items 10, 11 and 12").
    pub section: SectionId,
    /// Whether other Items of the document have the number.
    pub shares_number: bool,
}

impl SectionItem {
    /// The locator fragment: `item-1A`, or `item-II.1A` if several parts have the number.
    pub fn fragment(&self) -> String {
        let part = self.part.as_deref().filter(|_| self.shares_number);
        fragment(part, &self.number)
    }
}

/// The locator fragment of an Item: `item-1A`, `item-II.1A`, and `risk-factors` for a section with a name.
pub fn fragment(part: Option<&str>, number: &str) -> String {
    match part {
        _ if !number.starts_with(|c: char| c.is_ascii_digit()) => number.to_owned(),
        Some(part) => format!("item-{part}.{number}"),
        None => format!("item-{number}"),
    }
}

/// Ids of a section and its descendants. Ids are assigned in pre-order, so they are contiguous.
pub fn subtree_ids(section: &Section) -> std::ops::Range<u32> {
    let mut last = section;
    while let Some(child) = last.children.last() {
        last = child;
    }
    section.id.0..last.id.0 + 1
}

/// All Items with a section, in the order of the form's Item map. Without a map, Items are read from titles that contain
/// the word Item (or Items) and a number, in reading order.
pub fn section_items(tree: &SectionTree) -> Vec<SectionItem> {
    let mut items: Vec<SectionItem> = if tree.items.is_empty() {
        items_from_titles(tree)
    } else {
        tree.items
            .iter()
            .filter_map(|item: &FilingItem| {
                Some(SectionItem {
                    part: item.part.clone(),
                    number: item.number.clone(),
                    section: item.section?,
                    shares_number: false,
                })
            })
            .collect()
    };
    // A hostile document has an Item in each of its titles: they are counted once.
    let mut counts: HashMap<String, usize> = HashMap::new();
    for item in &items {
        *counts.entry(item.number.clone()).or_default() += 1;
    }
    for item in &mut items {
        item.shares_number = counts.get(&item.number).is_some_and(|count| *count > 1);
    }
    items
}

/// The locator fragment of an Item of the map: `item-1A`, or `item-II.1A` if the number is not unique.
pub fn item_fragment(item: &FilingItem, all: &[FilingItem]) -> String {
    let same_number = all
        .iter()
        .filter(|other| other.number == item.number && other.status != ItemStatus::Absent);
    let is_shared = same_number.count() > 1;
    fragment(item.part.as_deref().filter(|_| is_shared), &item.number)
}

/// Finds an Item in the map; `None` if it is missing or ambiguous.
pub fn find_in_map<'t>(
    tree: &'t SectionTree,
    part: Option<&str>,
    number: &str,
) -> Option<&'t FilingItem> {
    let mut fitting = tree.items.iter().filter(|item: &&FilingItem| {
        item.number == number
            && item.status != ItemStatus::Absent
            && part.is_none_or(|part| item.part.as_deref() == Some(part))
    });
    fitting.next().filter(|_| fitting.next().is_none())
}

fn items_from_titles(tree: &SectionTree) -> Vec<SectionItem> {
    let mut items = Vec::new();
    let mut path: Vec<Option<String>> = Vec::new();
    for (depth, section) in tree.walk() {
        path.truncate(depth - 1);
        let part = part_of(section);
        let inherited = path.iter().rev().flatten().next().cloned();
        path.push(part.clone());
        for number in item_numbers(&section.title) {
            items.push(SectionItem {
                part: part.clone().or_else(|| inherited.clone()),
                number,
                section: section.id,
                shares_number: false,
            });
        }
    }
    items
}

// `II` for "PART II" and "Part II — Other information", also if the part shares its heading with an Item.
fn part_of(section: &Section) -> Option<String> {
    let mut words = title_words(&section.title);
    words.next().filter(|word| names(word, "part"))?;
    let number = words.next()?.to_uppercase();
    let part = parse_roman(&number).filter(|part| (1..=4).contains(part));
    part.map(|_| number)
}

// Whether a word of a title is for a part, or an Item.
fn names(word: &str, part: &str) -> bool {
    NUMBERED_WORDS.get(&word.to_lowercase()) == Some(part)
}

fn title_words(title: &str) -> impl Iterator<Item = &str> {
    title
        .split(|c: char| {
            c.is_whitespace() || matches!(c, ',' | ':' | ';' | '-' | '–' | '—' | '(' | ')')
        })
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| !word.is_empty())
}

fn item_numbers(title: &str) -> Vec<String> {
    let mut words = title_words(title).peekable();
    if words.next_if(|word| names(word, "part")).is_some() {
        words.next();
    }
    if !words.next().is_some_and(|word| names(word, "item")) {
        return Vec::new();
    }
    let mut numbers = Vec::new();
    for word in words.take(12) {
        match parse_item_number(word) {
            Some(number) => numbers.push(number),
            None if word == "&" || names(word, "item") => {}
            None if CONJUNCTIONS.contains(&word.to_lowercase()) => {}
            None => break,
        }
    }
    numbers
}

/// Parses the name of an Item: `1A`, `II.1A`, `item-1A`, `Item 2.02`, `Part II, Item 1A`, `risk-factors`, `Risk Factors`, or an
/// id such as `10-K.II.1A`. Returns the part, if stated, and the number in upper case or the name of the section.
pub fn parse_item_name(text: &str) -> Option<(Option<String>, String)> {
    fn without_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
        let (start, rest) = text.split_at_checked(word.len())?;
        let rest = Some(rest).filter(|rest| rest.starts_with([' ', '-']));
        rest.filter(|_| start.eq_ignore_ascii_case(word))
            .map(|rest| &rest[1..])
    }
    let text = text.trim().trim_end_matches(['.', ':']);
    let text = match text.split_once('.') {
        Some((form, name)) if is_form(form) => name,
        _ => text,
    };
    let mut rest = without_word(text, "part").unwrap_or(text).trim_start();
    let mut part = None;
    // The part may be before or after the word Item.
    for _ in 0..2 {
        rest = without_word(rest, "item").unwrap_or(rest).trim_start();
        let after = rest.trim_start_matches(['I', 'V', 'i', 'v']);
        let name = &rest[..rest.len() - after.len()];
        if part.is_none() && !name.is_empty() && after.starts_with(['.', ',', ' ']) {
            part = Some(name.to_uppercase());
            rest = after[1..].trim_start();
        }
    }
    let number = parse_item_number(rest).or_else(|| {
        section_names::find(rest)
            .map(str::to_owned)
            .filter(|_| part.is_none())
    })?;
    Some((part, number))
}

// Whether a text before a point is a form, as in ids: `10-K`, `SC 13D`, `424B4`.
fn is_form(text: &str) -> bool {
    let first = text.split([' ', '-']).next().unwrap_or_default();
    let has = |is: fn(&char) -> bool| text.chars().any(|c| is(&c));
    !names(first, "item")
        && !names(first, "part")
        && has(char::is_ascii_alphabetic)
        && (has(char::is_ascii_digit) || text.contains('-'))
}

// `1A`, `7`, `2.02`: one or two digits, then at most one letter or two decimals.
fn parse_item_number(word: &str) -> Option<String> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &word[digits..];
    let letter = rest.len() <= 1 && rest.bytes().all(|byte| byte.is_ascii_alphabetic());
    let decimals = rest
        .strip_prefix('.')
        .is_some_and(|d| d.len() == 2 && d.bytes().all(|byte| byte.is_ascii_digit()));
    ((1..=2).contains(&digits) && (letter || decimals)).then(|| word.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_numbers_are_read_from_titles() {
        let cases: [(&str, &[&str]); 9] = [
            ("Item 1A. Risk Factors", &["1A"]),
            ("ITEM 7 — Management’s Discussion", &["7"]),
            ("Items 10, 11, 12 and 13", &["10", "11", "12", "13"]),
            ("Item 2.02 Results of Operations", &["2.02"]),
            ("PART II, Item 5. Market", &["5"]),
            ("item 9b: other", &["9B"]),
            ("Items of interest", &[]),
            ("Itemized list 3", &[]),
            ("Note 15", &[]),
        ];
        for (title, expected) in cases {
            assert_eq!(item_numbers(title), expected, "{title}");
        }
    }
}

//! Items of the known forms by number and title, for the Item map.

use super::forms::{FormItem, SecForm};
use super::{item_grammar, item_headings, titles};

/// A form whose Items are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownForm(SecForm);

/// An Item of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FormEntry {
    /// Its index in the form's list, as in [`KnownForm::keys_of`].
    pub(crate) key: usize,
    /// 1 for PART I; 0 where the form has none.
    pub(crate) part: u8,
    /// `7A`, `5.02`, `4.B`.
    pub(crate) number: String,
    /// Its current title.
    pub(crate) title: &'static str,
}

impl KnownForm {
    /// The form by its name; amendments and variants have the Items of the plain form.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let plain = name.split('/').next().unwrap_or(name);
        let form = match plain {
            "10-K" | "10-KT" | "10-K405" => SecForm::Annual,
            "10-Q" | "10-QT" => SecForm::Quarterly,
            "8-K" | "8-K12B" => SecForm::Current,
            "20-F" => SecForm::Foreign,
            _ => return None,
        };
        Some(Self(form))
    }

    /// The form by the Item numbers in titles, if there are enough of them.
    pub(crate) fn from_titles<'a>(titles: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut current = 0;
        let mut annual = 0;
        let mut quarterly = 0;
        let mut has_report_items = false;
        for title in titles {
            let Some(head) =
                item_grammar::parse_heading(title).filter(|head| !head.tags.is_empty())
            else {
                continue;
            };
            current += u32::from(head.current);
            // A registration statement has Items from 13 on in its Part II.
            has_report_items |= !head.current && head.tags[0].0 < 13;
            // Only an annual report has Items above 6.
            annual += u32::from(!head.current && head.tags[0].0 >= 7);
            quarterly += u32::from(!head.current && head.tags[0].0 < 7);
        }
        match (current, annual, quarterly) {
            (current, 0, 0) if current > 0 => Some(Self(SecForm::Current)),
            (_, annual, _) if annual >= 4 && has_report_items => Some(Self(SecForm::Annual)),
            (_, 0, quarterly) if quarterly >= 4 => Some(Self(SecForm::Quarterly)),
            _ => None,
        }
    }

    /// Its name in the ids of its Items.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            SecForm::Annual => "10-K",
            SecForm::Quarterly => "10-Q",
            SecForm::Current => "8-K",
            SecForm::Foreign => "20-F",
        }
    }

    /// Whether every filing names the Item, also where it does not apply. Part II of Form 10-Q may leave Items out, and Items
    /// of Form 10-K that came or went with the years are often missing.
    pub(crate) fn always_names(self, entry: &FormEntry) -> bool {
        let is_plain = entry.number.bytes().all(|b| b.is_ascii_digit());
        self.0 == SecForm::Annual
            && is_plain
            && !matches!(entry.number.as_str(), "4" | "6" | "14" | "16")
    }

    /// Whether an Item is that of the financial statements.
    pub(crate) fn has_statements(self, entry: &FormEntry) -> bool {
        match self.0 {
            SecForm::Annual => entry.part == 2 && entry.number == "8",
            SecForm::Quarterly => entry.part == 1 && entry.number == "1",
            SecForm::Current | SecForm::Foreign => false,
        }
    }

    /// Its Items in order, without the PARTs.
    pub(crate) fn entries(self) -> Vec<FormEntry> {
        self.0
            .items()
            .iter()
            .enumerate()
            .filter_map(|(key, item): (usize, &FormItem)| {
                let (number, letter) = item.tag?;
                let number = match (self.0, letter) {
                    (SecForm::Current, nn) => format!("{number}.{nn:02}"),
                    (_, 0) => number.to_string(),
                    (form, letter) => {
                        let letter = char::from_u32(u32::from(b'A') + u32::from(letter) - 1)?;
                        let dot = if form == SecForm::Foreign { "." } else { "" };
                        format!("{number}{dot}{letter}")
                    }
                };
                Some(FormEntry {
                    key,
                    part: item.part,
                    number,
                    title: item.titles.first().copied().unwrap_or_default(),
                })
            })
            .collect()
    }

    /// First and last key that a title names; `part` decides between equal numbers. `None` for other titles and PARTs.
    pub(crate) fn keys_of(self, title: &str, part: Option<u8>) -> Option<(usize, usize)> {
        let keys = item_headings::keys_of(self.0, title, part)?;
        self.0.items().get(keys.0)?.tag.map(|_| keys)
    }

    /// The PART that a title names, alone or before its Item.
    pub(crate) fn part_of(title: &str) -> Option<u8> {
        item_grammar::parse_heading(title)?.part
    }

    /// Whether two titles say `Item` with the same numbers.
    pub(crate) fn name_same_item(a: &str, b: &str) -> bool {
        let tags = |title| item_grammar::parse_heading(title).map(|head| head.tags);
        tags(a).is_some() && tags(a) == tags(b)
    }

    /// Whether the heading of several Items names the Item with this key.
    pub(crate) fn names_key(self, heading: &str, key: usize) -> bool {
        item_headings::names_key(self.0, heading, key)
    }

    /// Whether a text names an Item in a list: `Items 10, 11 and 12`, `Items 10 through 13`.
    pub(crate) fn lists_key(self, text: &str, key: usize) -> bool {
        let Some((list, tags)) = item_grammar::items_in_text(text) else {
            return false;
        };
        let Some(tag) = self.0.items().get(key).and_then(|item| item.tag) else {
            return false;
        };
        let is_range = list.to_ascii_lowercase().contains("through");
        let within = tags.first() <= Some(&tag) && Some(&tag) <= tags.last();
        tags.contains(&tag) || is_range && within
    }

    /// The text after the numbers of a title that says `Item`.
    pub(crate) fn item_title(title: &str) -> Option<String> {
        let head = item_grammar::parse_heading(title).filter(|head| !head.tags.is_empty())?;
        Some(titles::fold_whitespace(head.rest))
    }

    /// The key of the only Item with exactly this title, without a number.
    // Titles such as `Controls and Procedures` are unique on a form; short or shared ones name no Item without a number.
    pub(crate) fn item_with_title(self, title: &str) -> Option<usize> {
        let normalized = titles::normalize_key(title);
        let mut fitting = self.0.items().iter().enumerate().filter(|(_, item)| {
            item.tag.is_some()
                && item
                    .titles
                    .iter()
                    .any(|variant| titles::normalize_key(variant) == normalized)
        });
        let (key, _) = fitting.next()?;
        (fitting.next().is_none() && normalized.len() >= 8).then_some(key)
    }
}

/// Similarity of two titles (0–1); numbers and punctuation count little.
pub(crate) fn title_similarity(a: &str, b: &str) -> f32 {
    titles::title_similarity(&titles::TitleKeys::new(a), &titles::TitleKeys::new(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_numbers_match_forms() {
        let numbers = |form: &str| -> Vec<String> {
            KnownForm::from_name(form)
                .unwrap()
                .entries()
                .into_iter()
                .map(|entry| entry.number)
                .collect()
        };
        assert!(numbers("10-K/A").starts_with(&[
            "1".into(),
            "1A".into(),
            "1B".into(),
            "1C".into(),
            "2".into()
        ]));
        assert!(numbers("8-K").contains(&"5.02".to_string()));
        assert_eq!(
            numbers("10-Q")
                .iter()
                .filter(|number| *number == "1")
                .count(),
            2
        );
        assert!(KnownForm::from_name("S-1").is_none());
    }

    #[test]
    fn form_is_recognized_by_items() {
        let form =
            |titles: &[&str]| KnownForm::from_titles(titles.iter().copied()).map(KnownForm::name);
        assert_eq!(form(&["Item 5.02 Departure of Directors"]), Some("8-K"));
        assert_eq!(
            form(&["Item 7. A", "Item 8. B", "Item 9. C", "Item 10. D"]),
            Some("10-K")
        );
        assert_eq!(form(&["Item 1. Business"]), None);
        // Part II of a registration statement.
        let statement = ["Item 13. A", "Item 14. B", "Item 15. C", "Item 16. D"];
        assert_eq!(form(&statement), None);
    }
}

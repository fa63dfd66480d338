//! Which Items of a form titles and sentences name.

use super::forms::{FormItem, ItemNumber, SecForm};
use super::item_grammar::{self, ItemHeading, parse_bare_item, parse_heading};
use super::titles::{self, TitleKeys};
use super::weights::{BARE_ITEM_TITLE, SAME_PART};

impl SecForm {
    /// The Item of a number as the form has it: `Item 1(a)` of a schedule without such Items is Item 1.
    fn item_tag(self, tag: ItemNumber) -> ItemNumber {
        let has_letters = self
            .items()
            .iter()
            .any(|item| item.tag.is_some_and(|(_, letter)| letter > 0));
        if has_letters { tag } else { (tag.0, 0) }
    }

    /// Its Items in order, without the PARTs.
    pub(crate) fn entries(self) -> impl Iterator<Item = &'static FormItem> {
        self.items().iter().filter(|item| !item.is_part())
    }

    /// Whether every filing names the Item, also where it does not apply. Part II of Form 10-Q may leave Items out, and Items
    /// of Form 10-K that came or went with the years are often missing.
    pub(crate) fn always_names(self, item: &FormItem) -> bool {
        let is_plain = item.number.bytes().all(|b| b.is_ascii_digit());
        self == SecForm::Annual && is_plain && !matches!(item.number, "4" | "6" | "14" | "16")
    }

    pub(crate) fn has_statements(self, item: &FormItem) -> bool {
        match self {
            SecForm::Annual => item.part == 2 && item.number == "8",
            SecForm::Quarterly => item.part == 1 && item.number == "1",
            _ => false,
        }
    }

    /// First and last key that a title names, of PARTs or Items: by number, or by a bare number with the right title (`1A Risk
    /// Factors`). `part` decides between equal numbers.
    pub(crate) fn keys_of(self, title: &str, part: Option<u8>) -> Option<(usize, usize)> {
        let Some(head) = parse_heading(title) else {
            let (tag, rest) = parse_bare_item(title)?;
            let title = TitleKeys::new(rest);
            let item = self.items().iter().find(|item| {
                item.tag == Some(tag)
                    && (part.is_none() || part == Some(item.part))
                    && item.title_match(&title) > BARE_ITEM_TITLE
            })?;
            return Some((item.key, item.key));
        };
        let Some(first) = head.tags.first() else {
            let key = self.part_key(head.part?)?;
            return Some((key, key));
        };
        let title = TitleKeys::new(head.rest);
        // On Form 10-Q each PART has an Item 1. The title decides; the PART counts half, since it may be missing or stale.
        let score = |item: &FormItem| {
            let is_same_part = head.part.or(part) == Some(item.part);
            item.title_match(&title) + if is_same_part { SAME_PART } else { 0.0 }
        };
        let item = self
            .items()
            .iter()
            .filter(|item| item.tag == Some(self.item_tag(*first)))
            .max_by(|a, b| score(a).total_cmp(&score(b)))?;
        let last = head.tags.last();
        let last = self
            .items()
            .iter()
            .find(|it| it.tag.as_ref() == last && it.part >= item.part);
        Some((
            item.key,
            last.map_or(item.key, |last| last.key.max(item.key)),
        ))
    }

    /// [`keys_of`](Self::keys_of), but `None` for PARTs.
    pub(crate) fn item_keys_of(self, title: &str, part: Option<u8>) -> Option<(usize, usize)> {
        self.keys_of(title, part)
            .filter(|(first, _)| self.items()[*first].tag.is_some())
    }

    /// Every reading of a heading as first and last key of the form.
    // On Form 10-Q `Item 1` has two readings, one in each PART. Both are placed, and the chain decides by position.
    pub(super) fn keys_of_heading(self, head: &ItemHeading<'_>) -> Vec<(usize, usize)> {
        let last_tag = head.tags.last().filter(|_| head.tags.len() > 1);
        self.items()
            .iter()
            .filter(|item| match head.tags.first() {
                None => item.is_part() && Some(item.part) == head.part,
                Some(tag) => {
                    item.tag == Some(self.item_tag(*tag))
                        && head.part.is_none_or(|part| part == item.part)
                }
            })
            .map(|item| {
                let last = last_tag.and_then(|tag| {
                    let mut same = self.items().iter().filter(|it| it.part == item.part);
                    same.find(|it| it.tag == Some(*tag))
                });
                (
                    item.key,
                    last.map_or(item.key, |last| last.key.max(item.key)),
                )
            })
            .collect()
    }

    pub(super) fn part_key(self, part: u8) -> Option<usize> {
        self.items()
            .iter()
            .position(|item| item.is_part() && item.part == part)
    }

    /// Whether a heading of several Items names the Item with this key: by its number, or as one of a range.
    pub(crate) fn names_key(self, heading: &str, key: usize) -> bool {
        let Some(head) = parse_heading(heading) else {
            return true;
        };
        let tag = self.items().get(key).and_then(|item| item.tag);
        let is_range = head.number.to_ascii_lowercase().contains("through");
        is_range || tag.is_some_and(|tag| head.tags.contains(&tag))
    }

    /// Whether a text names an Item in a list: `Items 10, 11 and 12`, `Items 10 through 13`.
    pub(crate) fn lists_key(self, text: &str, key: usize) -> bool {
        let Some((list, tags)) = item_grammar::items_in_text(text) else {
            return false;
        };
        let Some(tag) = self.items().get(key).and_then(|item| item.tag) else {
            return false;
        };
        let is_range = list.to_ascii_lowercase().contains("through");
        let within = tags.first() <= Some(&tag) && Some(&tag) <= tags.last();
        tags.contains(&tag) || is_range && within
    }

    /// The key of the Item with exactly this title, without a number; of sections with names, the first that fits.
    // Titles such as `Controls and Procedures` are unique on a form; short or shared ones name no Item without a number.
    pub(crate) fn item_with_title(self, title: &str) -> Option<usize> {
        let key = self.title_key(title);
        let mut fitting = self.entries().filter(|item| item.is_titled(&key));
        let item = fitting.next()?;
        let is_plain = fitting.next().is_none() && key.len() >= 8;
        (item.is_named() || is_plain).then_some(item.key)
    }
}

/// The PART that a title names, alone or before its Item.
pub(crate) fn part_of(title: &str) -> Option<u8> {
    parse_heading(title)?.part
}

/// Whether two titles say `Item` with the same numbers.
pub(crate) fn name_same_item(a: &str, b: &str) -> bool {
    let tags = |title| parse_heading(title).map(|head| head.tags);
    tags(a).is_some() && tags(a) == tags(b)
}

/// The text after the numbers of a title that says `Item`.
pub(crate) fn item_title(title: &str) -> Option<String> {
    let head = parse_heading(title).filter(|head| !head.tags.is_empty())?;
    Some(titles::fold_whitespace(head.rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_number_needs_item_title() {
        for (form, title, part, expected) in [
            (SecForm::Annual, "1A Risk Factors", None, Some((2, 2))),
            (SecForm::Annual, "1. Business", None, Some((1, 1))),
            (SecForm::Annual, "1. Overview of our markets", None, None),
            (
                SecForm::Quarterly,
                "Item 1. Legal Proceedings",
                None,
                Some((6, 6)),
            ),
            (SecForm::Quarterly, "Item 1.", Some(2), Some((6, 6))),
        ] {
            assert_eq!(form.keys_of(title, part), expected, "{title}");
        }
    }

    #[test]
    fn items_without_parts_are_entries() {
        let first: Vec<&str> = SecForm::Annual
            .entries()
            .take(5)
            .map(|item| item.number)
            .collect();
        assert_eq!(first, ["1", "1A", "1B", "1C", "2"]);
        let ones = SecForm::Quarterly
            .entries()
            .filter(|item| item.number == "1");
        assert_eq!(ones.count(), 2);
    }
}

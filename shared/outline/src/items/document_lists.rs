//! Lists and indexes of the document that answer Items: exhibits, statements, contents.

use stemma_document::text::{all_lines, normalize_key};
use stemma_document::{ItemLink, ItemTarget, PageSpan, Section};
use stemma_reading::vocabulary::{EXHIBIT_INDEXES, FRONT_MENTIONS};

use super::names::{MIN_TITLE, descendants, on_page, subtree};
use super::targets::{TargetFinder, link};
use crate::structure::form_items;

// A table of contents ends within so many lines.
const MAX_CONTENTS_LINES: usize = 600;

impl<'a> TargetFinder<'a> {
    /// The list of exhibits that an Item names, if it begins on a later page.
    pub(super) fn exhibit_index(&self, sentences: &[String], item: &Section) -> Option<ItemLink> {
        let named = sentences
            .iter()
            .map(|sentence| normalize_key(sentence))
            .any(|key| EXHIBIT_INDEXES.occurs_in(&key));
        let from = item.span.pages().filter(|_| named)?.start();
        let sections = EXHIBIT_INDEXES
            .iter()
            .filter_map(|name| self.titles.get(*name));
        let behind = sections.flatten().filter(|section| {
            let pages = section.span.pages();
            pages.is_some_and(|pages| pages.start() > from)
        });
        if let Some(section) = behind.max_by_key(|section| section.id) {
            return Some(link(&section.title, ItemTarget::Section(section.id)));
        }
        let lines = EXHIBIT_INDEXES
            .iter()
            .filter_map(|name| self.lines.get(*name));
        let page = lines.flatten().filter(|page| **page > from).max()?;
        Some(link("Exhibit index", on_page(*page)))
    }

    /// The page before the first PART or Item that names an Item whose answer is `at the beginning of this document`.
    pub(super) fn front_page(&self, sentences: &[String], number: &str) -> Option<ItemLink> {
        let printed = sentences.iter().find_map(|sentence| {
            let lower = sentence.to_lowercase();
            FRONT_MENTIONS.iter().find(|words| lower.contains(*words))
        })?;
        let first = self
            .places
            .values()
            .filter_map(|place| place.section.span.pages());
        let first = first.map(PageSpan::start).min()?;
        let page = all_lines(&self.source.body)
            .iter()
            .take_while(|line| line.page.is_some_and(|page| page < first))
            .find(|line| {
                let words: Vec<String> = line.text.split_whitespace().map(normalize_key).collect();
                words
                    .windows(2)
                    .any(|pair| pair[0] == "item" && pair[1].eq_ignore_ascii_case(number))
            })?
            .page?;
        Some(link(printed, on_page(page)))
    }

    /// Where an Item begins whose heading is not printed: with the first of the entries below it in the table of contents
    /// if that is elsewhere, else with its first sub-section.
    pub(super) fn unprinted_start(&self, section: &Section) -> Option<ItemLink> {
        let inside = subtree(section);
        let listed = self
            .listed_below(section)
            .filter(|first| !inside.contains(&first.id.0));
        let below = descendants(section).find(|section| section.verified);
        let first = listed.or(below).or(section.children.first())?;
        Some(link(&first.title, ItemTarget::Section(first.id)))
    }

    fn listed_below(&self, item: &Section) -> Option<&'a Section> {
        let title = form_items::item_title(&item.title).map(|title| normalize_key(&title))?;
        let from = item.span.pages()?.start();
        let lines = all_lines(&self.source.body);
        let front = lines
            .iter()
            .take_while(|line| line.page.is_some_and(|page| page < from))
            .take(MAX_CONTENTS_LINES);
        let mut entries = front
            .map(|line| normalize_key(line.text.trim_end_matches(|c: char| !c.is_alphabetic())))
            .skip_while(|key| title.len() < MIN_TITLE || !key.ends_with(&title))
            .skip(1)
            .take_while(|key| !key.starts_with("item"));
        entries.find_map(|key| match self.titles.get(&key)?.as_slice() {
            [section] if section.verified => Some(*section),
            _ => None,
        })
    }

    /// The index of the financial statements, which precedes them.
    pub(super) fn statements_index(&self) -> Option<ItemLink> {
        let is_index =
            |key: &str| key.starts_with("indexto") && key.contains("financialstatements");
        let section = self.titles.iter().filter(|(key, _)| is_index(key));
        let section = section
            .flat_map(|(_, sections)| sections)
            .min_by_key(|section| section.id);
        if let Some(section) = section {
            return Some(link(&section.title, ItemTarget::Section(section.id)));
        }
        let pages = self.lines.iter().filter(|(key, _)| is_index(key));
        let page = pages.flat_map(|(_, pages)| pages).max()?;
        Some(link("Index to financial statements", on_page(*page)))
    }
}

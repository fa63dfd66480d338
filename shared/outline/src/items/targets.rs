//! Finds the place inside the document that a sentence of an Item refers to.
//!
//! The most specific name decides: a heading in quotation marks, a note, the section of a heading (`the Market Risk section`),
//! and only then another Item. An Item that only contains the named place is marked as approximate. Names that belong to
//! another document, such as a proxy statement, are left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use stemma_document::text::{all_lines, normalize_key};
use stemma_document::{ItemLink, ItemTarget, PageNo, Section, SectionId, SectionTree, Source};
use stemma_reading::vocabulary::{LOCAL_MARKS, NOTE_NAMES, PLACE_WORDS};

use super::item_text::truncate_text;
use super::links::{foreign_marks, quoted_phrases, title_core, title_text};
use super::match_sections::ItemSection;
use super::names::{
    MIN_TITLE, descendants, heavy_words, names_before, note_number, on_page, subtree,
};
use crate::structure::form_items;
use crate::structure::forms::SecForm;

const MAX_SECTIONS: usize = 50_000;
// Longer lines are prose and no headings.
const HEADING_CHARS: usize = 100;
// The longest topic that may be a heading.
const MAX_TOPIC_WORDS: usize = 6;
// A document is named within this many bytes of a heading of it.
const MARK_BYTES: usize = 300;

/// Headings, notes and Items by name.
pub(super) struct TargetFinder<'a> {
    pub(super) tree: &'a SectionTree,
    pub(super) source: &'a Source,
    form: SecForm,
    pub(super) places: &'a BTreeMap<usize, ItemSection<'a>>,
    pub(super) titles: HashMap<String, Vec<&'a Section>>,
    /// Pages of short lines, for headings that are not sections.
    pub(super) lines: HashMap<String, Vec<PageNo>>,
    /// The same by their words that have a meaning of their own.
    topics: HashMap<String, Vec<PageNo>>,
}

impl<'a> TargetFinder<'a> {
    pub(super) fn new(
        tree: &'a SectionTree,
        source: &'a Source,
        form: SecForm,
        places: &'a BTreeMap<usize, ItemSection<'a>>,
    ) -> Self {
        let mut titles: HashMap<String, Vec<&Section>> = HashMap::new();
        for (_, section) in tree.walk().take(MAX_SECTIONS) {
            let core = title_core(&section.title);
            if !core.is_empty() {
                titles.entry(core).or_default().push(section);
            }
        }
        let mut lines: HashMap<String, Vec<PageNo>> = HashMap::new();
        let mut topics: HashMap<String, Vec<PageNo>> = HashMap::new();
        for line in all_lines(&source.body) {
            let text = line.text.trim();
            let heading = text.len() <= HEADING_CHARS
                && text.starts_with(char::is_uppercase)
                && !text.ends_with([',', ';']);
            let Some(page) = line.page.filter(|_| heading) else {
                continue;
            };
            push_page(&mut lines, normalize_key(text), page);
            let topic = heavy_words(text);
            if topic.len() >= 2 {
                push_page(&mut topics, topic.concat(), page);
            }
        }
        Self {
            tree,
            source,
            form,
            places,
            titles,
            lines,
            topics,
        }
    }

    /// The only section with that title, ignoring numbers. Among several, the largest if it has over 75 % of their tokens.
    pub(super) fn find_by_title(
        &self,
        title: &str,
        elsewhere: &dyn Fn(SectionId) -> bool,
    ) -> Option<SectionId> {
        let sections = self.titles.get(&title_core(title))?.iter();
        let sections: Vec<_> = sections.filter(|section| elsewhere(section.id)).collect();
        let largest = sections
            .iter()
            .max_by_key(|section| (section.tokens, std::cmp::Reverse(section.id)))?;
        let all: u64 = sections
            .iter()
            .map(|section| u64::from(section.tokens))
            .sum();
        (sections.len() == 1 || u64::from(largest.tokens) * 4 > all * 3).then_some(largest.id)
    }

    /// The most specific targets of a sentence; `elsewhere` is false for the Item itself and the sections above it.
    pub(super) fn targets_in(
        &self,
        sentence: &str,
        elsewhere: &dyn Fn(SectionId) -> bool,
    ) -> Vec<ItemLink> {
        let words: Vec<&str> = sentence.split_whitespace().collect();
        let notes = self.notes_in(&words);
        let mut targets: Vec<ItemLink> = Vec::new();
        for quoted in quoted_phrases(sentence) {
            if !self.is_local(sentence, quoted) {
                continue;
            }
            if let Some(target) = self.named(quoted, &notes, elsewhere) {
                targets.push(link(quoted, target));
            }
        }
        // An Item only contains the place that the sentence also names.
        if !targets.iter().all(|target| self.is_item(&target.target)) {
            return targets;
        }
        let mut exact: Vec<ItemLink> = notes
            .iter()
            .filter(|note| elsewhere(note.section.id))
            .map(|note| {
                let inside = self.title_inside(note.section, sentence);
                let id = inside.unwrap_or(note.section.id);
                link(&note.text, ItemTarget::Section(id))
            })
            .collect();
        if exact.is_empty() {
            exact.extend(self.titled_note_in(&words, elsewhere));
        }
        if exact.is_empty() {
            exact.extend(self.section_named_in(&words, elsewhere));
        }
        if !exact.is_empty() {
            return exact;
        }
        if targets.is_empty() {
            return self.items_in(sentence, &words, elsewhere);
        }
        for target in &mut targets {
            if let ItemTarget::Section(id) = target.target
                && let Some(section) = self.tree.section(id)
            {
                let inside = self.title_inside(section, sentence);
                target.target = ItemTarget::Section(inside.unwrap_or(id));
                target.approximate = inside.is_none() && self.has_statements(id);
            }
        }
        targets
    }

    fn has_statements(&self, id: SectionId) -> bool {
        self.statements().is_some_and(|section| section.id == id)
    }

    fn is_item(&self, target: &ItemTarget) -> bool {
        matches!(target, ItemTarget::Section(id) if self.places.values().any(|place| place.section.id == *id))
    }

    /// Whether a name in a sentence belongs to this document: the mark of a document nearest behind it decides, else the
    /// last before it.
    fn is_local(&self, sentence: &str, name: &str) -> bool {
        let at = sentence.find(name).unwrap_or(0);
        let behind = &sentence[(at + name.len()).min(sentence.len())..];
        let behind = behind[..behind.floor_char_boundary(MARK_BYTES)].to_lowercase();
        let before = &sentence[sentence.ceil_char_boundary(at.saturating_sub(MARK_BYTES))..at];
        let before = before.to_lowercase();
        let foreign: Vec<String> = foreign_marks(self.form.name());
        let local_at = LOCAL_MARKS
            .iter()
            .filter_map(|mark| behind.find(mark))
            .min();
        let foreign_at = foreign.iter().filter_map(|mark| behind.find(mark)).min();
        match (local_at, foreign_at) {
            (Some(local), Some(foreign)) => local < foreign,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => {
                let local = LOCAL_MARKS
                    .iter()
                    .filter_map(|mark| before.rfind(mark))
                    .max();
                let foreign = foreign.iter().filter_map(|mark| before.rfind(mark)).max();
                foreign.is_none() || local > foreign
            }
        }
    }

    /// The section or line with a quoted title. `Note 13—Commitments—Litigation` names a part of a note.
    fn named(
        &self,
        quoted: &str,
        notes: &[Note<'a>],
        elsewhere: &dyn Fn(SectionId) -> bool,
    ) -> Option<ItemTarget> {
        let parts: Vec<&str> = quoted.split(['—', '–']).map(str::trim).collect();
        let last = parts.last().copied().filter(|part| !part.is_empty())?;
        let key = title_core(last);
        for note in notes {
            let inside =
                descendants(note.section).find(|section| title_core(&section.title) == key);
            if let Some(section) = inside {
                return Some(ItemTarget::Section(section.id));
            }
            if title_core(&note.section.title).contains(&key) && key.len() >= MIN_TITLE {
                return Some(ItemTarget::Section(note.section.id));
            }
        }
        if let Some(id) = self.find_by_title(last, elsewhere) {
            return Some(ItemTarget::Section(id));
        }
        let pages = self
            .lines
            .get(&normalize_key(last))
            .filter(|_| key.len() >= MIN_TITLE)?;
        match pages.as_slice() {
            [page] => Some(on_page(*page)),
            _ => None,
        }
    }

    /// The notes to the statements that a sentence names: `Note 12, Contingencies`, `Note 9 (Commitments)`.
    fn notes_in(&self, words: &[&str]) -> Vec<Note<'a>> {
        let mut notes = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let opened = word.trim_start_matches(['“', '"', '(']);
            let Some(rest) = opened
                .get(..4)
                .filter(|note| note.eq_ignore_ascii_case("note"))
                .and_then(|_| opened.get(4..))
            else {
                continue;
            };
            let plural = rest.is_empty() || rest.eq_ignore_ascii_case("s");
            let number: String = words
                .get(at + 1)
                .filter(|_| plural)
                .map(|word| word.chars().take_while(char::is_ascii_digit).collect())
                .unwrap_or_default();
            let Ok(number) = number.parse::<u32>() else {
                continue;
            };
            let name: Vec<&str> = words[at + 1..words.len().min(at + 12)].to_vec();
            if let Some(section) = self.note(number, &normalize_key(&name.concat())) {
                notes.push(Note {
                    text: format!("{opened} {number}"),
                    section,
                });
            }
        }
        notes
    }

    /// The note of a number. `behind` are the words after its mention, which may have its title.
    fn note(&self, number: u32, behind: &str) -> Option<&'a Section> {
        let candidates: Vec<(&Section, bool)> = self
            .tree
            .walk()
            .take(MAX_SECTIONS)
            .filter_map(|(_, section)| {
                let (found, is_note) = note_number(&section.title)?;
                (found == number).then_some((section, is_note))
            })
            .collect();
        let titled = candidates.iter().find(|(section, _)| {
            let core = title_core(
                section
                    .title
                    .trim_start_matches(|c: char| !c.is_alphabetic()),
            );
            core.len() >= MIN_TITLE && behind.contains(&core)
        });
        titled
            .or_else(|| candidates.iter().find(|(_, is_note)| *is_note))
            .or_else(|| {
                let inside = subtree(self.statements()?);
                candidates
                    .iter()
                    .find(|(section, _)| inside.contains(&section.id.0))
            })
            .map(|(section, _)| *section)
    }

    /// `the Legal Proceedings note in Item 8`: the note with the capitalized words as its title.
    fn titled_note_in(
        &self,
        words: &[&str],
        elsewhere: &dyn Fn(SectionId) -> bool,
    ) -> Option<ItemLink> {
        words.iter().enumerate().find_map(|(at, word)| {
            if !NOTE_NAMES.contains(&normalize_key(word)) {
                return None;
            }
            names_before(&words[..at]).into_iter().find_map(|name| {
                let sections = self.titles.get(&normalize_key(&name))?;
                let mut notes = sections.iter().filter(|section| {
                    note_number(&section.title).is_some() && elsewhere(section.id)
                });
                let note = notes.next()?;
                Some(link(&name, ItemTarget::Section(note.id)))
            })
        })
    }

    /// The section of the Item that has the financial statements.
    fn statements(&self) -> Option<&'a Section> {
        let (title, part) = match self.form {
            SecForm::Quarterly => ("Item 1", Some(1)),
            SecForm::Annual | SecForm::Foreign => ("Item 8", None),
            _ => return None,
        };
        let (key, _) = self.form.item_keys_of(title, part)?;
        self.places.get(&key).map(|place| place.section)
    }

    /// `the Market Risk Management section of …`, `Refer to Capital Risk Management on pages …`: the capitalized words.
    fn section_named_in(
        &self,
        words: &[&str],
        elsewhere: &dyn Fn(SectionId) -> bool,
    ) -> Option<ItemLink> {
        words.iter().enumerate().find_map(|(at, word)| {
            let page = *word == "on"
                && words
                    .get(at + 1)
                    .is_some_and(|next| next.starts_with("page"));
            if !(page || normalize_key(word).starts_with("section")) {
                return None;
            }
            names_before(&words[..at]).into_iter().find_map(|name| {
                let id = self.find_by_title(&name, elsewhere)?;
                Some(link(&name, ItemTarget::Section(id)))
            })
        })
    }

    /// The Items that a sentence names; a sub-section whose title the sentence has replaces its Item.
    fn items_in(
        &self,
        sentence: &str,
        words: &[&str],
        elsewhere: &dyn Fn(SectionId) -> bool,
    ) -> Vec<ItemLink> {
        let mut targets = Vec::new();
        let mut seen = BTreeSet::new();
        for (at, word) in words.iter().enumerate() {
            let opened = word.trim_start_matches(['“', '"', '(']);
            if !opened.eq_ignore_ascii_case("item") {
                continue;
            }
            let Some(number) = words.get(at + 1) else {
                continue;
            };
            let number = number.trim_end_matches(|c: char| !c.is_alphanumeric());
            let before = &words[at.saturating_sub(2)..at];
            let part = before
                .first()
                .filter(|part| part.eq_ignore_ascii_case("part"))
                .and(before.get(1))
                .and_then(|part| {
                    form_items::part_of(&format!("Part {}", part.trim_end_matches([',', '.', ':'])))
                });
            let name = format!("{opened} {number}");
            let place = self
                .form
                .item_keys_of(&name, part)
                .and_then(|(key, _)| self.places.get(&key))
                // A name that recurs leads to the same place.
                .filter(|place| seen.insert((name.clone(), place.section.id)))
                .filter(|place| self.is_local(sentence, &name) && elsewhere(place.section.id));
            if let Some(place) = place {
                targets.push(self.place_inside(place.section, &name, sentence, words));
            }
        }
        targets
    }

    /// The place in an Item that a sentence is about, else the Item. The Item is approximate if it is that of the
    /// statements, whose notes answer other Items, or covers several pages and its title is not the subject.
    fn place_inside(
        &self,
        section: &Section,
        name: &str,
        sentence: &str,
        words: &[&str],
    ) -> ItemLink {
        if let Some(id) = self.title_inside(section, sentence) {
            return link(name, ItemTarget::Section(id));
        }
        if let Some(target) = self.topic_inside(section, words) {
            return link(name, target);
        }
        let own = heavy_words(title_text(&section.title));
        let keys: Vec<String> = words.iter().map(|word| normalize_key(word)).collect();
        let titled = own.iter().all(|word| keys.contains(word));
        let pages = section.span.pages();
        let several = pages.is_some_and(|pages| pages.start() != pages.end());
        ItemLink {
            approximate: self.has_statements(section.id) || several && !titled,
            ..link(name, ItemTarget::Section(section.id))
        }
    }

    /// The page of a section with a heading that consists of words of a sentence.
    fn topic_inside(&self, section: &Section, words: &[&str]) -> Option<ItemTarget> {
        let span = section.span.pages()?;
        let own = heavy_words(&section.title).concat();
        (2..=MAX_TOPIC_WORDS).rev().find_map(|count| {
            words.windows(count).find_map(|topic| {
                let topic = heavy_words(&topic.join(" "));
                let key = topic.concat();
                // The words that name the Item, and `this Annual Report on Form 10-K`, are not a topic.
                let of_place =
                    topic.iter().any(|word| PLACE_WORDS.contains(word)) || own.contains(&key);
                let pages = self
                    .topics
                    .get(&key)
                    .filter(|_| topic.len() >= 2 && !of_place)?;
                let mut inside = pages
                    .iter()
                    .filter(|page| (span.start()..=span.end()).contains(*page));
                let page = inside.next().filter(|_| inside.next().is_none())?;
                Some(on_page(*page))
            })
        })
    }

    /// The descendant whose title consists of words of a sentence, apart from numbers and words without a meaning of their
    /// own; the longest title.
    fn title_inside(&self, section: &Section, sentence: &str) -> Option<SectionId> {
        let keys: Vec<String> = sentence.split_whitespace().map(normalize_key).collect();
        let own = heavy_words(&section.title).concat();
        let named = descendants(section).filter_map(|section| {
            let title = heavy_words(title_text(&section.title));
            let named = title.len() >= 2
                && !own.contains(&title.concat())
                && keys.windows(title.len()).any(|keys| keys == title);
            named.then_some((title.len(), std::cmp::Reverse(section.id)))
        });
        named.max().map(|(_, id)| id.0)
    }
}

/// An exact target.
pub(super) fn link(text: &str, target: ItemTarget) -> ItemLink {
    ItemLink {
        text: truncate_text(text),
        target,
        approximate: false,
    }
}

fn push_page(pages: &mut HashMap<String, Vec<PageNo>>, key: String, page: PageNo) {
    let pages = pages.entry(key).or_default();
    if pages.last() != Some(&page) {
        pages.push(page);
    }
}

/// A note that a sentence names.
struct Note<'a> {
    text: String,
    section: &'a Section,
}

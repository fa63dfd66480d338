//! The Item map: for each Item of a filing's form, how the document answers it and where the content is.
//!
//! The tree covers every page, so the text under each heading can be measured: an Item with a few words that refer elsewhere
//! is `by_reference`, one with too few words and no reference is a `stub`. The headings at both ends of an Item are checked
//! against the pages again. An Item that fails the check is flagged and never moved to a more likely place.
//!
//! The map is a pure function of tree, text and cross-reference index. It never fails and is linear in the text of the Items.

mod boundary;
mod document_lists;
mod expected;
mod item_text;
mod links;
mod match_sections;
mod names;
mod status;
mod targets;

use std::collections::BTreeSet;
use std::ops::Bound;

use stemma_document::roman_numerals::format_roman;
use stemma_document::{
    ByteSpan, FilingItem, ItemLink, ItemStatus, ItemTarget, PageSpan, Section, SectionId,
    SectionTree, Source, SourceBody,
};

use self::boundary::FormItems;
use self::item_text::{ItemText, truncate_text};
use self::match_sections::ItemSection;
use self::targets::{TargetFinder, link};
use crate::structure::form_items;
use crate::structure::forms::{FormItem, SecForm};
use crate::structure::{IndexNote, IndexRow};

// Sentences of an Item with content of its own that state where a part of it is.
const MAX_STATED: usize = 8;
// Items that one text answers: Part III of Form 10-K has five.
const MAX_SHARED: usize = 8;

/// Sets the Item map of a tree with tokens, facts and references, and the reported Items of a current report.
///
/// `cross_index` is the index of a report without Item headings. The map stays empty for documents without a form, and for
/// forms whose Items are unknown.
pub fn attach(tree: &mut SectionTree, source: &Source, cross_index: &[IndexRow]) {
    let Some(form) = form_of(tree) else { return };
    let items = ItemMap {
        tree,
        source,
        form,
        name: form_name(tree, form),
        cross_index,
    }
    .items();
    if form.name() == "8-K" {
        tree.facts.reported_items = items
            .iter()
            .map(|item| {
                stemma_document::Fact::from_text(
                    item.number.clone(),
                    item.pages.map(PageSpan::start),
                )
            })
            .collect();
    }
    tree.items = items;
}

fn form_of(tree: &SectionTree) -> Option<SecForm> {
    match &tree.facts.form {
        Some(form) => SecForm::from_name(&form.value),
        None => SecForm::from_titles(
            tree.walk()
                .take(5_000)
                .map(|(_, section)| section.title.as_str()),
        ),
    }
}

/// The form in the ids of Items: that of the family for Items with numbers, which all of its forms share.
fn form_name(tree: &SectionTree, form: SecForm) -> &str {
    let stated = tree.facts.form.as_ref().filter(|_| form.has_names());
    stated.map_or(form.name(), |stated| {
        let name = stated.value.as_str();
        name.split_once('/').map_or(name, |(name, _)| name)
    })
}

/// Whether the top sections are the documents of an EDGAR submission.
fn is_submission(source: &Source) -> bool {
    let has_header = source.metadata.contains_key("accession");
    match &source.body {
        SourceBody::Lines(_) => has_header,
        SourceBody::Pages(_) => has_header && !source.outline.is_empty(),
    }
}

struct ItemMap<'a> {
    tree: &'a SectionTree,
    source: &'a Source,
    form: SecForm,
    /// In the ids.
    name: &'a str,
    cross_index: &'a [IndexRow],
}

impl ItemMap<'_> {
    fn items(&self) -> Vec<FilingItem> {
        let places =
            match_sections::match_sections(self.tree, self.form, is_submission(self.source));
        let starts = places.values().map(|place| place.section.id).collect();
        let finder = TargetFinder::new(self.tree, self.source, self.form, &places);
        let form_items = FormItems {
            form: self.form,
            places: &places,
        };
        let mut items: Vec<FilingItem> = Vec::new();
        for entry in self.form.entries() {
            let indexed = self.cross_index.iter().find(|row| is_row_for(row, entry));
            // An index row is better evidence than a section that only has the title of the Item.
            let place = places
                .get(&entry.key)
                .filter(|place| place.numbered || indexed.is_none());
            match (place, indexed) {
                (Some(place), _) => {
                    items.push(self.item_from_section(&form_items, entry, place, &starts, &finder));
                }
                (None, Some(row)) => items.push(self.item_from_index(entry, row, &finder)),
                (None, None) if expected::is_expected(self.form, entry, &self.tree.facts) => {
                    // A heading that was not found is in the Item before it, so that its end is in doubt.
                    if self.form.always_names(entry)
                        && let Some(before) = items.last_mut()
                        && before.section.is_some()
                    {
                        before.boundary_unverifiable = true;
                    }
                    items.push(self.empty_item(entry));
                }
                (None, None) => {}
            }
        }
        items
    }

    /// An absent Item; other Items replace what they know.
    fn empty_item(&self, entry: &FormItem) -> FilingItem {
        let part = (1..=4)
            .contains(&entry.part)
            .then(|| format_roman(entry.part.into()));
        FilingItem {
            id: FilingItem::format_id(self.name, part.as_deref(), entry.number),
            part,
            number: entry.number.to_owned(),
            title: entry.title().to_owned(),
            status: ItemStatus::Absent,
            section: None,
            pages: None,
            bytes: None,
            tokens: 0,
            boundary_unverifiable: false,
            boundary: None,
            content: Vec::new(),
        }
    }

    fn item_from_section(
        &self,
        form_items: &FormItems<'_>,
        entry: &FormItem,
        place: &ItemSection<'_>,
        starts: &BTreeSet<SectionId>,
        finder: &TargetFinder<'_>,
    ) -> FilingItem {
        let section = place.section;
        let combined = place.combined;
        let form = self.form.name();
        let mut sections = match_sections::item_extent(self.tree, section, combined, starts);
        let mut body = ItemText::from_sections(&sections, self.source);
        let mut status = status::classify(form, entry, section, &body);
        let mut content = Vec::new();
        if status == ItemStatus::Stub {
            // The text of an Item may follow as sections of the same level.
            let all = match_sections::item_extent(self.tree, section, true, starts);
            let text = ItemText::from_sections(&all, self.source);
            if let Some(first) = all.get(sections.len())
                && status::classify(form, entry, section, &text) == ItemStatus::Full
            {
                content.push(section_link(first));
                status = ItemStatus::Full;
                (sections, body) = (all, text);
            }
        }
        if status == ItemStatus::Stub
            && body.words == 0
            && let Some((answering, text)) = self.shared_answer(entry, section, starts)
        {
            status = status::classify(form, entry, answering, &text);
            body = text;
        }
        let title = if combined { None } else { item_title(section) };
        let is_list = status::is_list(form, entry);
        let after = match_sections::matter_after_items(section, is_list);
        let behind = match_sections::section_behind(self.tree, section, starts, is_list)
            .filter(|_| after.is_none() && !entry.is_named());
        // The executive officers are content, although the Item itself has none.
        if let Some(officers) = behind.filter(|_| !is_list && status::has_no_content(status)) {
            content.push(section_link(officers));
            status = ItemStatus::Full;
        }
        let last = behind.unwrap_or(section);
        let next = after.or_else(|| boundary::next_section(self.tree, last));
        let boundary = boundary::find_boundary(section, next, self.source);
        let referring: Vec<&str> = match status {
            ItemStatus::ByReference => body.referring().collect(),
            status if status::has_no_content(status) => Vec::new(),
            _ => {
                let brief = body.words <= status::REFERRING_WORDS;
                let long = status::is_long(form, entry);
                let stated = body.referring().filter(|text| {
                    brief || status::states_location(text) || !long && status::points_here(text)
                });
                stated.take(MAX_STATED).collect()
            }
        };
        let pointers = match status {
            ItemStatus::Full if !status::is_long(form, entry) => {
                self.pointing_sections(form, entry, &sections)
            }
            _ => Vec::new(),
        };
        let pointing = pointers.iter().flat_map(ItemText::referring);
        let referring: Vec<&str> = referring.into_iter().chain(pointing).collect();
        content.extend(links::links_in(
            finder, self.tree, form, &sections, &referring,
        ));
        content.retain(|link| !self.is_listed_beside(entry, link, &body));
        if is_list {
            content.extend(finder.exhibit_index(&body.sentences, section));
        }
        if status == ItemStatus::ByReference {
            content.extend(finder.front_page(&body.sentences, entry.number));
            if self.form.has_statements(entry) {
                content.extend(finder.statements_index());
            }
        }
        if !boundary.heading.verified && content.is_empty() {
            content.extend(finder.unprinted_start(section));
        }
        // Combined headings and lists of exhibits name other Items.
        let holds_other = !combined
            && !is_list
            && boundary::holds_other_item(form_items, entry, &sections, self.source);
        sections.extend(behind);
        let (pages, tokens) = extent(&sections, section, after);
        let bytes = byte_extent(&sections, section, after);
        FilingItem {
            bytes,
            title: title.unwrap_or_else(|| entry.title().to_owned()),
            status: if combined {
                ItemStatus::Combined
            } else {
                status
            },
            section: Some(section.id),
            pages,
            tokens,
            boundary_unverifiable: !boundary::is_verified(&boundary)
                || holds_other
                || place.is_ambiguous,
            boundary: Some(boundary),
            content,
            ..self.empty_item(entry)
        }
    }

    /// The text that answers an Item without one together with Items that follow it: the headings of Items 10 to 13 are often
    /// above a single sentence, which names them.
    fn shared_answer(
        &self,
        entry: &FormItem,
        section: &Section,
        starts: &BTreeSet<SectionId>,
    ) -> Option<(&Section, ItemText)> {
        let later = starts.range((Bound::Excluded(section.id), Bound::Unbounded));
        for start in later.take(MAX_SHARED) {
            let later = self.tree.section(*start)?;
            let text = ItemText::from_sections(&[later], self.source);
            if text.words > 0 {
                let is_named = text
                    .sentences
                    .iter()
                    .any(|text| self.form.lists_key(text, entry.key));
                return is_named.then_some((later, text));
            }
        }
        None
    }

    /// Whether a link leads to an Item that the text names together with this one. That `Items 10 and 11` have one answer does not make
    /// Item 11 the content of Item 10.
    fn is_listed_beside(&self, entry: &FormItem, link: &ItemLink, text: &ItemText) -> bool {
        let ItemTarget::Section(id) = link.target else {
            return false;
        };
        let target = self.tree.section(id);
        let keys = target.and_then(|section| self.form.item_keys_of(&section.title, None));
        keys.is_some_and(|(other, _)| {
            text.sentences.iter().any(|sentence| {
                self.form.lists_key(sentence, entry.key) && self.form.lists_key(sentence, other)
            })
        })
    }

    /// The texts of sub-sections that consist of a reference.
    fn pointing_sections(
        &self,
        form: &str,
        entry: &FormItem,
        sections: &[&Section],
    ) -> Vec<ItemText> {
        let below = sections.iter().skip(1);
        let leaves = below.filter(|section| section.children.is_empty());
        let texts = leaves.map(|section| ItemText::from_sections(&[section], self.source));
        texts
            .filter(|text| status::status_by_text(form, entry, text) == ItemStatus::ByReference)
            .take(MAX_STATED)
            .collect()
    }

    /// An Item that only a cross-reference index answers.
    fn item_from_index(
        &self,
        entry: &FormItem,
        row: &IndexRow,
        finder: &TargetFinder<'_>,
    ) -> FilingItem {
        let mut content: Vec<ItemLink> = Vec::new();
        for title in &row.titles {
            let target = finder
                .find_by_title(title, &|_| true)
                .map_or(ItemTarget::Unresolved, ItemTarget::Section);
            content.push(link(title, target));
        }
        content.retain(|link| link.target != ItemTarget::Unresolved || row.pages.is_empty());
        for (at, pages) in row.pages.iter().enumerate() {
            let printed = row
                .printed
                .get(at)
                .filter(|_| row.printed.len() == row.pages.len());
            let text =
                printed.map_or_else(|| format!("{pages}"), |printed| format!("page {printed}"));
            content.push(link(&text, ItemTarget::Pages(*pages)));
        }
        let elsewhere = row.note == Some(IndexNote::ByReference) && content.is_empty();
        if elsewhere {
            let other = ItemTarget::Outside("another document".into());
            content.push(link("index", other));
        }
        let whole = row.pages.iter().map(|span| (span.start(), span.end()));
        let whole = whole.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let nothing = row.note == Some(IndexNote::NotApplicable);
        FilingItem {
            title: if row.title.is_empty() {
                entry.title().to_owned()
            } else {
                truncate_text(&row.title)
            },
            status: if elsewhere {
                ItemStatus::ByReference
            } else if nothing {
                ItemStatus::NotApplicable
            } else {
                ItemStatus::CrossIndex
            },
            pages: whole.map(|(start, end)| PageSpan::between(start, end)),
            bytes: bytes_of_pages(self.source, &row.pages),
            tokens: tokens_in(self.source, &row.pages),
            // The index lists pages, not lines, so other text on these pages cannot be told apart.
            boundary_unverifiable: !elsewhere && !nothing,
            content,
            ..self.empty_item(entry)
        }
    }
}

fn is_row_for(row: &IndexRow, entry: &FormItem) -> bool {
    let number = row.item.replace(['(', ')', ' '], "");
    number.eq_ignore_ascii_case(entry.number)
        && row
            .part
            .is_none_or(|part| entry.part == 0 || part == entry.part)
}

fn section_link(section: &Section) -> ItemLink {
    link(&section.title, ItemTarget::Section(section.id))
}

/// Pages and tokens of an Item: of its section up to `after`, and of the sections behind it that belong to it.
fn extent(
    sections: &[&Section],
    section: &Section,
    after: Option<&Section>,
) -> (Option<PageSpan>, u32) {
    let own = section.span.pages();
    if let Some(after) = after {
        let end = after.span.pages().map(PageSpan::start);
        let left_out = section
            .children
            .iter()
            .skip_while(|child| child.id != after.id)
            .map(|child| child.tokens);
        let pages = own
            .zip(end)
            .map(|(own, end)| PageSpan::between(own.start(), end));
        return (pages, section.tokens.saturating_sub(left_out.sum()));
    }
    let last = sections.last().and_then(|last| last.span.pages());
    let pages = own
        .zip(last)
        .map(|(own, last)| PageSpan::between(own.start(), own.end().max(last.end())));
    let mut tokens = section.tokens;
    let mut counted = match_sections::last_id(section);
    for other in sections {
        if other.id.0 > counted.0 {
            tokens = tokens.saturating_add(other.tokens);
            counted = match_sections::last_id(other);
        }
    }
    (pages.or(own), tokens)
}

/// Where an Item is in the file, as [`extent`] has its pages.
fn byte_extent(
    sections: &[&Section],
    section: &Section,
    after: Option<&Section>,
) -> Option<ByteSpan> {
    let own = section.bytes?;
    let Some(after) = after else {
        let all = sections.iter().filter_map(|section| section.bytes);
        return Some(all.fold(own, ByteSpan::union));
    };
    // Sections before the one that ends the Item, which is one of the children.
    let first = section.children.first()?.bytes?;
    let before = section
        .children
        .iter()
        .take_while(|child| child.id != after.id);
    let end = before
        .filter_map(|child| child.bytes)
        .map(|bytes| bytes.end)
        .max()
        .unwrap_or(first.start);
    Some(ByteSpan { end, ..own })
}

/// The title after the Item's number.
fn item_title(section: &Section) -> Option<String> {
    let title = form_items::item_title(&section.title).unwrap_or_else(|| section.title.clone());
    let title = title.trim_end_matches(['.', ':', ' ']);
    (!title.is_empty()).then(|| truncate_text(title))
}

/// From the first to the last line on these pages, for sources whose lines know their bytes.
fn bytes_of_pages(source: &Source, spans: &[PageSpan]) -> Option<ByteSpan> {
    let SourceBody::Pages(pages) = &source.body else {
        return None;
    };
    let numbers = spans.iter().flat_map(|span| span.pages());
    let lines = numbers
        .filter_map(|page| pages.get(page.index()))
        .flat_map(|page| &page.lines);
    let bytes = lines
        .filter(|line| !line.is_furniture())
        .filter_map(|line| line.bytes);
    bytes.reduce(ByteSpan::union)
}

/// Tokens of all pages in the spans, each page counted once.
fn tokens_in(source: &Source, spans: &[PageSpan]) -> u32 {
    let SourceBody::Pages(pages) = &source.body else {
        return 0;
    };
    let page_indices: BTreeSet<usize> = spans
        .iter()
        .flat_map(|span| span.pages())
        .map(|page| page.index())
        .collect();
    let all = page_indices.into_iter().filter_map(|page| pages.get(page));
    all.map(stemma_document::Page::tokens)
        .fold(0u32, u32::saturating_add)
}

#[cfg(test)]
mod tests;

//! Maps a document to its index entries.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use stemma_document::{
    CatalogEntry, Page, PageNo, Section, SectionSpan, SectionTree, SourceBody, furniture, text,
};
use tantivy::TantivyDocument;
use tantivy::schema::Field;

use super::document_entry::{facets, fiscal_years_ahead};
use super::item_index::ItemIndex;
use super::passage::{Passage, SectionLine, split_lines};
use super::schema::{Fields, IndexEntryKind};
use crate::aliases::{Alias, aliases};
use crate::lexicon::Lexicon;
use crate::references::caption;
use stemma_catalog::document_store::OpenDocument;
use stemma_catalog::items;
use stemma_reading::document_reading::LineReadings;
use stemma_reading::figures::DisplayedFigures;
use stemma_reading::page_features::{PageFeatures, PageText};
use stemma_reading::statement_pages::Confidence;
use stemma_reading::tokenizer::{SEPARATOR, TokenizedText};

// Bounds for damaged trees.
const MAX_PATH: usize = 12;
const MAX_TITLE_CHARS: usize = 200;

/// Display data of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredEntry {
    /// File name of the document.
    pub name: String,
    /// Printed page number, if it differs from the physical one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub label: Option<String>,
    /// Sections with text in this entry, in reading order; without pages, the section itself.
    pub sections: Vec<StoredSection>,
    /// What the lines of its text are, one character each.
    pub kinds: String,
}

/// Display data of a section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredSection {
    pub id: u32,
    /// Line (0-based) of the entry's text on which the section starts.
    pub line: u32,
    /// Number of the figure entries of the section in the field `figures`.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub figures: u32,
    /// Titles from the root to the section.
    pub path: Vec<String>,
    /// First and last page (1-based, inclusive), with descendants.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pages: Option<(u32, u32)>,
    /// First and last line (1-based, inclusive) of a document without pages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lines: Option<(u32, u32)>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Passes the entries of one document to `add`: the document, then its passages.
pub fn map_document(
    entry: &CatalogEntry,
    opened: &OpenDocument,
    add: &mut dyn FnMut(TantivyDocument),
) {
    let mapper = EntryMapper::new(entry, opened);
    add(mapper.document());
    let Some(SourceBody::Pages(pages)) = &opened.body else {
        for at in 0..mapper.sections.len() {
            for passage in mapper.section_passages(at) {
                add(mapper.passage(&passage));
            }
        }
        return;
    };
    let lines = mapper.lines_by_page();
    let mut running = BTreeSet::new();
    for (index, page) in pages.iter().enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let lines = lines.get(&number).map(Vec::as_slice).unwrap_or_default();
        let label = page.label.as_ref().map(|label| label.0.clone());
        for passage in mapper.page_passages(number, label, lines) {
            let mut passage = mapper.passage(&passage);
            mapper.add_furniture(&mut passage, page, &mut running);
            add(passage);
        }
    }
}

// A section, and what its passages show of it. Many pages share a section, so its words are found once.
struct SectionFacts<'a> {
    section: &'a Section,
    // Titles from the root to the section, and the indexes of those sections in pre-order.
    path: Vec<String>,
    chain: Vec<usize>,
    title_words: TokenizedText,
    // Words of a summary that is not taken from the text.
    summary_words: TokenizedText,
}

impl<'a> SectionFacts<'a> {
    fn new(section: &'a Section, path: &[String], chain: &[usize]) -> Self {
        let title_words = TokenizedText::new(&section.title);
        let summary = section.summary.as_ref();
        let summary = summary.filter(|summary| summary.by != "verbatim");
        Self {
            section,
            path: path.iter().take(MAX_PATH).cloned().collect(),
            chain: chain.iter().take(MAX_PATH).copied().collect(),
            title_words,
            summary_words: summary
                .map(|summary| TokenizedText::new(&summary.text))
                .unwrap_or_default(),
        }
    }

    fn from_tree(tree: &'a SectionTree) -> Vec<Self> {
        let mut path: Vec<String> = Vec::new();
        let mut chain: Vec<usize> = Vec::new();
        let sections = tree.walk().enumerate().map(|(at, (depth, section))| {
            path.truncate(depth - 1);
            path.push(section.title.chars().take(MAX_TITLE_CHARS).collect());
            chain.truncate(depth - 1);
            chain.push(at);
            Self::new(section, &path, &chain)
        });
        sections.collect()
    }
}

struct EntryMapper<'a> {
    fields: Fields,
    entry: &'a CatalogEntry,
    opened: &'a OpenDocument,
    readings: Cow<'a, LineReadings>,
    // In pre-order.
    sections: Vec<SectionFacts<'a>>,
    // Facet fields, which every entry has.
    facets: TantivyDocument,
    items: ItemIndex,
    figures: DisplayedFigures,
}

impl<'a> EntryMapper<'a> {
    fn new(entry: &'a CatalogEntry, opened: &'a OpenDocument) -> Self {
        let fields = Fields::get();
        let tree = &opened.tree;
        Self {
            fields,
            entry,
            opened,
            readings: (opened.readings.as_ref()).map_or_else(Cow::default, Cow::Borrowed),
            sections: SectionFacts::from_tree(tree),
            facets: facets(&fields, entry),
            items: ItemIndex::new(items::section_items(tree)),
            figures: opened
                .facts
                .as_ref()
                .map(|facts| DisplayedFigures::new(facts, fiscal_years_ahead(entry)))
                .unwrap_or_default(),
        }
    }

    fn document(&self) -> TantivyDocument {
        let mut entry = self.facets.clone();
        entry.add_text(self.fields.kind, IndexEntryKind::Document.as_str());
        entry.add_u64(self.fields.sections, self.sections.len() as u64);
        let mut alias_words = BTreeSet::new();
        for alias in aliases(self.entry, self.opened.body.as_ref()) {
            if alias.strength.is_spelled() {
                alias_words.extend(alias.name.split(' ').map(str::to_owned));
            }
            entry.add_text(
                self.fields.aliases,
                Alias::term(alias.strength, &alias.name),
            );
        }
        for word in alias_words {
            entry.add_text(self.fields.alias_words, word);
        }
        for name in self.entry.facts.issuer_identity() {
            entry.add_text(self.fields.identity, name);
        }
        entry
    }

    fn own_lines(&self, section: usize) -> Vec<text::BodyLine<'a>> {
        let body = self.opened.body.as_ref();
        body.map(|body| text::own_lines(self.sections[section].section, body))
            .unwrap_or_default()
    }

    fn lines_by_page(&self) -> BTreeMap<u32, Vec<SectionLine<'a>>> {
        let mut pages: BTreeMap<u32, Vec<SectionLine<'a>>> = BTreeMap::new();
        for section in 0..self.sections.len() {
            for line in self.own_lines(section) {
                if let Some(page) = line.page.map(PageNo::get) {
                    let line = SectionLine::new(section, &line, &self.readings);
                    pages.entry(page).or_default().push(line);
                }
            }
        }
        pages
    }

    fn page_passages(
        &self,
        number: u32,
        label: Option<String>,
        lines: &[SectionLine<'a>],
    ) -> Vec<Passage<'a>> {
        let label = label.filter(|label| *label != number.to_string());
        let passages = split_lines(lines).into_iter().map(|lines| {
            let mut sections: BTreeMap<usize, usize> = BTreeMap::new();
            for (at, line) in lines.iter().enumerate() {
                sections.entry(line.section).or_insert(at);
            }
            let starting = sections
                .keys()
                .copied()
                .filter(|at| first_page(self.sections[*at].section) == Some(number));
            Passage {
                page: Some(number),
                label: label.clone(),
                figures: self.figure_entries(number, &sections, &lines),
                lines: lines.iter().map(|line| line.line).collect(),
                starting: starting.collect(),
                sections: sections.into_iter().collect(),
            }
        });
        passages.collect()
    }

    fn figure_entries(
        &self,
        page: u32,
        sections: &BTreeMap<usize, usize>,
        lines: &[SectionLine<'_>],
    ) -> Vec<Vec<String>> {
        let entries = sections.keys().map(|section| {
            let lines = lines.iter().filter(|line| line.section == *section);
            self.figures.entries(page, lines.map(|line| line.number))
        });
        entries.collect()
    }

    fn section_passages(&self, section: usize) -> Vec<Passage<'a>> {
        let lines = self.own_lines(section);
        let lines: Vec<SectionLine<'a>> = lines
            .iter()
            .map(|line| SectionLine::new(section, line, &self.readings))
            .collect();
        let parts = split_lines(&lines).into_iter().enumerate();
        let passages = parts.map(|(part, lines)| Passage {
            page: None,
            label: None,
            figures: self.figure_entries(0, &BTreeMap::from([(section, 0)]), &lines),
            lines: lines.iter().map(|line| line.line).collect(),
            sections: vec![(section, 0)],
            starting: if part == 0 { vec![section] } else { Vec::new() },
        });
        passages.collect()
    }

    fn passage(&self, passage: &Passage<'_>) -> TantivyDocument {
        let fields = &self.fields;
        let mut entry = self.facets.clone();
        entry.add_text(fields.kind, IndexEntryKind::Passage.as_str());
        if let Some(page) = passage.page {
            entry.add_u64(fields.page, u64::from(page));
        }
        let text = PageText::new(&passage.lines);
        let features = PageFeatures::new(&text, &passage.lines, passage.page.unwrap_or(0));
        let above = self.titles_above(passage);
        let titles = above.iter().map(|section| section.title_words.joined());
        add_words(&mut entry, fields.path, titles);
        let on_page = passage.sections.iter().map(|(at, _)| &self.sections[*at]);
        let summaries = on_page.map(|section| section.summary_words.joined());
        add_words(&mut entry, fields.summary, summaries);
        let headings = features
            .headings
            .iter()
            .map(|heading| text.words.joined_in(heading))
            .chain(
                passage
                    .starting
                    .iter()
                    .map(|at| self.sections[*at].title_words.joined()),
            );
        add_words(&mut entry, fields.headings, headings);
        let figures = passage.figures.iter().flatten().map(String::as_str);
        add_words(&mut entry, fields.figures, figures);
        self.add_items(&mut entry, passage);
        self.add_features(&mut entry, &features, &text);
        self.add_stored(&mut entry, passage, &text);
        entry
    }

    // The sections of a passage and those above them; of equal titles, one.
    fn titles_above(&self, passage: &Passage<'_>) -> Vec<&SectionFacts<'a>> {
        let mut above: Vec<&SectionFacts<'a>> = passage
            .sections
            .iter()
            .flat_map(|(at, _)| &self.sections[*at].chain)
            .map(|at| &self.sections[*at])
            .collect();
        above.sort_by_key(|section| &section.section.title);
        above.dedup_by_key(|section| &section.section.title);
        above
    }

    // Adds the printed page number, and the running heads that first appear here: each is found once in a document.
    fn add_furniture<'p>(
        &self,
        entry: &mut TantivyDocument,
        page: &'p Page,
        running: &mut BTreeSet<&'p str>,
    ) {
        let declared = page.label.as_ref().map(|label| label.0.as_str());
        if let Some(label) = declared.or_else(|| furniture::printed_number(page)) {
            entry.add_text(self.fields.label, label.to_lowercase());
        }
        let heads = page.lines.iter().filter(|line| line.is_furniture());
        let heads: Vec<TokenizedText> = heads
            .map(|line| line.text.trim_matches(|c: char| !c.is_alphabetic()))
            .filter(|head| running.insert(head))
            .map(TokenizedText::new)
            .collect();
        let words = heads.iter().map(TokenizedText::joined);
        add_words(entry, self.fields.running, words);
    }

    // Adds the words and the ranking features of a passage.
    fn add_features(&self, entry: &mut TantivyDocument, features: &PageFeatures, text: &PageText) {
        let fields = &self.fields;
        entry.add_u64(fields.length, text.words.len() as u64);
        entry.add_u64(fields.contents, u64::from(features.is_toc));
        add_words(entry, fields.body, [text.words.joined()]);
        let lines = text
            .lines
            .iter()
            .filter_map(|line| text.text.get(line.clone()));
        for caption in lines.filter_map(caption) {
            entry.add_text(fields.captions, caption);
        }
        let labels = features
            .labels
            .iter()
            .map(|label| text.words.joined_in(label));
        add_words(entry, fields.labels, labels);
        // Labels are matched one by one, because a phrase does not continue in the next row. In prose, it may continue
        // on the next line.
        add_words(entry, fields.phrases, phrases(text, &(0..text.text.len())));
        let row_phrases = features
            .labels
            .iter()
            .flat_map(|label| phrases(text, label));
        add_words(entry, fields.row_phrases, row_phrases);
        for (kind, confidence) in &features.statements {
            let field = match confidence {
                Confidence::Strong => fields.statements,
                Confidence::Weak => fields.look_alikes,
            };
            entry.add_text(field, kind.code());
        }
        for year in &features.years {
            entry.add_text(fields.years, year.to_string());
        }
    }

    fn add_items(&self, entry: &mut TantivyDocument, passage: &Passage<'_>) {
        let ids = passage
            .sections
            .iter()
            .map(|(at, _)| self.sections[*at].section.id);
        let above = ids.flat_map(|id| self.opened.tree.path_to(id));
        for item in self.items.in_sections(above.map(|section| section.id)) {
            entry.add_text(self.fields.items, &item.number);
            if let Some(part) = &item.part {
                entry.add_text(self.fields.items, format!("{part}.{}", item.number));
            }
        }
    }

    fn stored_section(&self, at: usize, line: usize, figures: usize) -> StoredSection {
        let SectionFacts { section, path, .. } = &self.sections[at];
        let (pages, lines) = match section.span {
            SectionSpan::Pages { pages, .. } => {
                (Some((pages.start().get(), pages.end().get())), None)
            }
            SectionSpan::Lines { start, end } => (None, Some((start, end))),
        };
        StoredSection {
            id: section.id.0,
            line: u32::try_from(line).unwrap_or(u32::MAX),
            figures: u32::try_from(figures).unwrap_or(u32::MAX),
            path: path.clone(),
            pages,
            lines,
        }
    }

    // Adds what hits show.
    fn add_stored(&self, entry: &mut TantivyDocument, passage: &Passage<'_>, text: &PageText) {
        let sections = passage.sections.iter().zip(&passage.figures);
        let stored = StoredEntry {
            name: self.entry.version.name.clone(),
            label: passage.label.clone(),
            sections: sections
                .map(|((at, line), figures)| self.stored_section(*at, *line, figures.len()))
                .collect(),
            kinds: (passage.lines.iter())
                .map(|line| line.reading.kind.code())
                .collect(),
        };
        if let Ok(json) = serde_json::to_string(&stored) {
            entry.add_text(self.fields.shown, json);
        }
        entry.add_text(self.fields.text, &text.text);
    }
}

// The phrases of the lexicon in a part of a text.
fn phrases(text: &PageText, part: &Range<usize>) -> Vec<&'static str> {
    let mut phrases = Vec::new();
    let words = text.words.content_words(part);
    Lexicon::get().for_each_phrase(&words, |phrase, _| phrases.push(phrase));
    phrases
}

fn first_page(section: &Section) -> Option<u32> {
    match section.span {
        SectionSpan::Pages { from, .. } => Some(from.page.get()),
        SectionSpan::Lines { .. } => None,
    }
}

// Adds words, or parts whose words are joined by separators.
fn add_words<'w>(to: &mut TantivyDocument, field: Field, parts: impl IntoIterator<Item = &'w str>) {
    let mut words = String::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        if !words.is_empty() {
            words.push(SEPARATOR);
        }
        words.push_str(part);
    }
    if !words.is_empty() {
        to.add_text(field, words);
    }
}

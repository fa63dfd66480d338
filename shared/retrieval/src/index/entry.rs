//! Maps a document to its index entries.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use stemma_document::{
    CatalogEntry, Digest, Extent, PageNo, Reference, ReferenceTarget, Section, SectionId,
    SectionSpan, SourceBody, text,
};
use tantivy::TantivyDocument;
use tantivy::schema::Field;
use tantivy::tokenizer::{PreTokenizedString, Token};

use super::schema::{DocumentKind, Fields, IndexEntryKind};
use crate::aliases::{Alias, aliases};
use crate::page_class::Confidence;
use crate::page_features::{PageFeatures, PageLine};
use crate::synonyms::Synonyms;
use crate::tokenizer::{content_words, tokenize};
use stemma_catalog::catalog::DocumentState;
use stemma_catalog::document_store::OpenDocument;
use stemma_catalog::facets::{FacetField, normalize_value};
use stemma_catalog::items;

// A page has 3,000 to 8,000 bytes; sections of documents without pages can be much longer.
const MAX_TEXT_BYTES: usize = 48 << 10;
// More references say the same again.
const MAX_ANCHORS: usize = 24;
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
    /// Sections with text in this entry, in reading order; for a section entry, the section itself.
    pub sections: Vec<StoredSection>,
}

/// Display data of a section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredSection {
    pub id: u32,
    /// Line (0-based) of the entry's text on which the section starts.
    pub line: u32,
    /// Titles from the root to the section.
    pub path: Vec<String>,
    /// First and last page (1-based, inclusive), with descendants.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pages: Option<(u32, u32)>,
    /// First and last line (1-based, inclusive) of a document without pages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lines: Option<(u32, u32)>,
}

/// The entries of one document: the document, then its sections, then its pages.
pub fn map_document(entry: &CatalogEntry, opened: &OpenDocument) -> Vec<TantivyDocument> {
    let writer = EntryMapper::new(entry, opened);
    let mut entries = vec![writer.document()];
    let pages = writer.add_sections(&mut entries);
    if let Some(SourceBody::Pages(body)) = &opened.body {
        for (index, page) in body.iter().enumerate() {
            let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
            let lines = pages.get(&number).map(Vec::as_slice).unwrap_or_default();
            let label = page
                .label
                .as_ref()
                .map(|label| label.0.clone())
                .filter(|label| *label != number.to_string());
            entries.push(writer.page(number, label, lines));
        }
    }
    entries
}

// A line of a page, and the index of its section in pre-order.
struct SectionLine<'a> {
    section: usize,
    line: text::BodyLine<'a>,
}

struct EntryMapper<'a> {
    fields: Fields,
    entry: &'a CatalogEntry,
    opened: &'a OpenDocument,
    // In pre-order.
    sections: Vec<&'a Section>,
    // Facet fields, which every entry has.
    facets: TantivyDocument,
    // Titles from the root to each section, in pre-order.
    paths: Vec<Vec<String>>,
    // Items, with the ids of their sections.
    items: Vec<(items::SectionItem, Range<u32>)>,
    // Lines that refer to each section from elsewhere.
    anchors: BTreeMap<SectionId, Vec<String>>,
}

impl<'a> EntryMapper<'a> {
    fn new(entry: &'a CatalogEntry, opened: &'a OpenDocument) -> Self {
        let fields = Fields::get();
        let tree = &opened.tree;
        let mut paths: Vec<Vec<String>> = Vec::new();
        let mut above: Vec<String> = Vec::new();
        for (depth, section) in tree.walk() {
            above.truncate(depth - 1);
            above.push(section.title.chars().take(MAX_TITLE_CHARS).collect());
            paths.push(above.iter().take(MAX_PATH).cloned().collect());
        }
        let items = items::section_items(tree);
        let items = items.into_iter().map(|item| {
            let range = tree.section(item.section).map_or(0..0, items::subtree_ids);
            (item, range)
        });
        let sections = tree.walk().map(|(_, section)| section).collect();
        Self {
            fields,
            entry,
            opened,
            sections,
            facets: facets(&fields, entry),
            paths,
            items: items.collect(),
            anchors: reference_lines(opened),
        }
    }

    fn document(&self) -> TantivyDocument {
        let mut entry = self.facets.clone();
        entry.add_text(self.fields.kind, IndexEntryKind::Document.as_str());
        for alias in aliases(self.entry) {
            entry.add_text(
                self.fields.aliases,
                Alias::term(alias.strength, &alias.name),
            );
        }
        for name in self.entry.facts.issuer_identity() {
            entry.add_text(self.fields.identity, name);
        }
        let description = self.entry.description.as_deref().unwrap_or_default();
        add_words(&mut entry, self.fields.about, tokenize(description));
        self.set_stored(&mut entry, None, Vec::new());
        entry
    }

    // Adds the section entries. Returns the lines of each page.
    fn add_sections(
        &self,
        entries: &mut Vec<TantivyDocument>,
    ) -> BTreeMap<u32, Vec<SectionLine<'a>>> {
        let mut pages: BTreeMap<u32, Vec<SectionLine<'a>>> = BTreeMap::new();
        for (at, section) in self.sections.iter().enumerate() {
            let lines = self
                .opened
                .body
                .as_ref()
                .map(|body| text::own_lines(section, body))
                .unwrap_or_default();
            let is_text = !matches!(self.opened.body, Some(SourceBody::Pages(_)));
            let mut entry = self.facets.clone();
            entry.add_text(self.fields.kind, IndexEntryKind::Section.as_str());
            entry.add_u64(self.fields.section, u64::from(section.id.0));
            add_words(&mut entry, self.fields.title, tokenize(&section.title));
            if let Some(summary) = &section.summary {
                add_words(&mut entry, self.fields.about, tokenize(&summary.text));
            }
            let above = self.paths[at]
                .split_last()
                .map_or(&[][..], |(_, above)| above);
            add_words(&mut entry, self.fields.above, tokenize(&above.join("\n")));
            add_words(
                &mut entry,
                self.fields.own,
                tokenize(&join(lines.iter().map(|line| line.text))),
            );
            self.add_items(&mut entry, &[section.id.0]);
            if is_text {
                self.add_passage(&mut entry, at, &lines);
            }
            self.set_stored(&mut entry, None, vec![self.stored_section(at, 0)]);
            entries.push(entry);
            for line in lines {
                if let Some(page) = line.page.map(PageNo::get) {
                    pages
                        .entry(page)
                        .or_default()
                        .push(SectionLine { section: at, line });
                }
            }
        }
        pages
    }

    fn page(
        &self,
        number: u32,
        label: Option<String>,
        lines: &[SectionLine<'_>],
    ) -> TantivyDocument {
        let fields = &self.fields;
        let mut entry = self.facets.clone();
        entry.add_text(fields.kind, IndexEntryKind::Passage.as_str());
        entry.add_u64(fields.page, u64::from(number));
        let mut order: Vec<usize> = lines.iter().map(|line| line.section).collect();
        order.dedup();
        order.sort_unstable();
        order.dedup();
        let sections = &self.sections;
        let begins: Vec<usize> = order
            .iter()
            .copied()
            .filter(|at| first_page(sections[*at]) == Some(number))
            .collect();
        let page_lines: Vec<PageLine<'_>> = lines
            .iter()
            .map(|line| PageLine {
                text: line.line.text,
                layout: line.line.layout,
            })
            .collect();
        let mut features = PageFeatures::new(&page_lines, number);
        features
            .headings
            .extend(begins.iter().map(|at| sections[*at].title.clone()));
        let mut path: Vec<&str> = order
            .iter()
            .flat_map(|at| self.paths[*at].iter().map(String::as_str))
            .collect();
        path.sort_unstable();
        path.dedup();
        features.classify(&path);
        add_words(&mut entry, fields.path, tokenize(&path.join("\n")));
        let summaries = order.iter().filter_map(|at| sections[*at].summary.as_ref());
        let summaries: Vec<&str> = summaries
            .filter(|summary| summary.by != "verbatim")
            .map(|summary| summary.text.as_str())
            .collect();
        add_words(&mut entry, fields.summary, tokenize(&summaries.join("\n")));
        add_words(
            &mut entry,
            fields.headings,
            tokenize(&features.headings.join("\n")),
        );
        let ids: Vec<u32> = order.iter().map(|at| sections[*at].id.0).collect();
        self.add_items(&mut entry, &ids);
        self.add_anchors(&mut entry, &begins);
        self.add_text(&mut entry, &features, &page_lines);
        let stored_sections = order.iter().map(|at| {
            let first_line = lines
                .iter()
                .position(|line| line.section == *at)
                .unwrap_or(0);
            self.stored_section(*at, first_line)
        });
        self.set_stored(&mut entry, label, stored_sections.collect());
        entry
    }

    // Without pages, a section is its own passage.
    fn add_passage(&self, entry: &mut TantivyDocument, at: usize, lines: &[text::BodyLine<'_>]) {
        entry.add_text(self.fields.kind, IndexEntryKind::Passage.as_str());
        let section = self.sections[at];
        let lines: Vec<PageLine<'_>> = lines
            .iter()
            .map(|line| PageLine {
                text: line.text,
                layout: None,
            })
            .collect();
        let mut features = PageFeatures::new(&lines, 0);
        features.headings.push(section.title.clone());
        let path: Vec<&str> = self.paths[at].iter().map(String::as_str).collect();
        features.classify(&path);
        add_words(entry, self.fields.path, tokenize(&path.join("\n")));
        add_words(entry, self.fields.headings, tokenize(&section.title));
        if let Some(summary) = section
            .summary
            .as_ref()
            .filter(|summary| summary.by != "verbatim")
        {
            add_words(entry, self.fields.summary, tokenize(&summary.text));
        }
        self.add_anchors(entry, &[at]);
        self.add_text(entry, &features, &lines);
    }

    // Lines that refer to a section describe it in the words of others.
    fn add_anchors(&self, entry: &mut TantivyDocument, begins: &[usize]) {
        let lines = begins
            .iter()
            .filter_map(|at| self.anchors.get(&self.sections[*at].id))
            .flatten();
        add_words(
            entry,
            self.fields.anchors,
            lines
                .take(MAX_ANCHORS)
                .flat_map(|line| content_words(line))
                .collect(),
        );
    }

    // Adds the text and the ranking features of a passage.
    fn add_text(
        &self,
        entry: &mut TantivyDocument,
        features: &PageFeatures,
        lines: &[PageLine<'_>],
    ) {
        let fields = &self.fields;
        let text = join(lines.iter().map(|line| line.text));
        let all = tokenize(&text);
        entry.add_u64(fields.length, all.len() as u64);
        entry.add_u64(fields.numbers, features.numbers as u64);
        entry.add_u64(fields.contents, u64::from(features.is_toc));
        add_words(entry, fields.head, tokenize(&features.head));
        add_words(entry, fields.labels, tokenize(&features.labels.join("\n")));
        let synonyms = Synonyms::get();
        let mut phrases = Vec::new();
        let mut row_phrases = Vec::new();
        // Labels are matched one by one, because a phrase does not continue in the next row. In prose, it may continue
        // on the next line.
        synonyms.for_each_phrase(&content_words(&text), |phrase, _| {
            phrases.push(phrase.to_owned());
        });
        for label in &features.labels {
            synonyms.for_each_phrase(&content_words(label), |phrase, _| {
                row_phrases.push(phrase.to_owned());
            });
        }
        add_words(entry, fields.phrases, phrases);
        add_words(entry, fields.row_phrases, row_phrases);
        for (class, confidence) in &features.page_classes {
            let field = if *confidence == Confidence::Strong {
                fields.places
            } else {
                fields.like
            };
            entry.add_text(field, class.code());
        }
        for year in &features.years {
            entry.add_text(fields.years, year.to_string());
        }
        add_words(entry, fields.body, all);
        let end = text.floor_char_boundary(MAX_TEXT_BYTES);
        entry.add_text(fields.text, &text[..end]);
    }

    fn add_items(&self, entry: &mut TantivyDocument, sections: &[u32]) {
        for (item, range) in &self.items {
            if sections.iter().any(|id| range.contains(id)) {
                entry.add_text(self.fields.items, &item.number);
                if let Some(part) = &item.part {
                    entry.add_text(self.fields.items, format!("{part}.{}", item.number));
                }
            }
        }
    }

    fn stored_section(&self, at: usize, line: usize) -> StoredSection {
        let section = self.sections[at];
        let (pages, lines) = match section.span {
            SectionSpan::Pages { pages, .. } => {
                (Some((pages.start().get(), pages.end().get())), None)
            }
            SectionSpan::Lines { start, end } => (None, Some((start, end))),
        };
        StoredSection {
            id: section.id.0,
            line: u32::try_from(line).unwrap_or(u32::MAX),
            path: self.paths[at].clone(),
            pages,
            lines,
        }
    }

    fn set_stored(
        &self,
        entry: &mut TantivyDocument,
        label: Option<String>,
        sections: Vec<StoredSection>,
    ) {
        let stored = StoredEntry {
            name: self.entry.version.name.clone(),
            label,
            sections,
        };
        if let Ok(json) = serde_json::to_string(&stored) {
            entry.add_text(self.fields.shown, json);
        }
    }
}

fn first_page(section: &Section) -> Option<u32> {
    match section.span {
        SectionSpan::Pages { from, .. } => Some(from.page.get()),
        SectionSpan::Lines { .. } => None,
    }
}

// Lines that refer to a section from another one, by section.
fn reference_lines(opened: &OpenDocument) -> BTreeMap<SectionId, Vec<String>> {
    let mut anchors: BTreeMap<SectionId, Vec<String>> = BTreeMap::new();
    let Some(body) = &opened.body else {
        return anchors;
    };
    let mut by_section: BTreeMap<SectionId, Vec<&Reference>> = BTreeMap::new();
    for reference in &opened.tree.references {
        by_section
            .entry(reference.from)
            .or_default()
            .push(reference);
    }
    for (from, references) in by_section {
        let Some(section) = opened.tree.section(from) else {
            continue;
        };
        let lines = text::own_lines(section, body);
        for reference in references {
            let ReferenceTarget::Section(to) = reference.to else {
                continue;
            };
            let target_lines = anchors.entry(to).or_default();
            if to != from
                && target_lines.len() < MAX_ANCHORS
                && let Some(line) = lines
                    .iter()
                    .find(|line| line.text.contains(&reference.text))
            {
                target_lines.push(line.text.to_owned());
            }
        }
    }
    anchors
}

fn join<'t>(lines: impl Iterator<Item = &'t str>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}

fn add_words(to: &mut TantivyDocument, field: Field, words: Vec<String>) {
    if words.is_empty() {
        return;
    }
    let tokens = words
        .into_iter()
        .enumerate()
        .map(|(position, text): (usize, String)| Token {
            offset_from: 0,
            offset_to: 0,
            position,
            text,
            position_length: 1,
        })
        .collect();
    to.add_pre_tokenized_text(
        field,
        PreTokenizedString {
            text: String::new(),
            tokens,
        },
    );
}

// The facet fields of a document.
fn facets(fields: &Fields, entry: &CatalogEntry) -> TantivyDocument {
    let facts = &entry.facts;
    let version = &entry.version;
    let mut facet_document = TantivyDocument::default();
    facet_document.add_text(fields.doc, version.doc.to_string());
    facet_document.add_u64(fields.doc_key, doc_key(version.doc));
    facet_document.add_u64(fields.seq, version.seq);
    let company = facts
        .issuer
        .as_ref()
        .map(|issuer| normalize_value(FacetField::Company, &issuer.value));
    facet_document.add_u64(
        fields.company_key,
        company.as_deref().map_or(0, company_key),
    );
    if let Some(company) = company {
        facet_document.add_text(fields.company, company);
    }
    for ticker in facts.symbols() {
        facet_document.add_text(fields.ticker, ticker.value.to_lowercase());
    }
    let pairs = [
        (fields.cik, &facts.cik),
        (fields.form, &facts.form),
        (fields.fiscal_period, &facts.fiscal_period),
        (fields.language, &facts.language),
    ];
    for (field, fact) in pairs {
        if let Some(value) = lower_value(fact) {
            facet_document.add_text(field, value);
        }
    }
    let form = lower_value(&facts.form).unwrap_or_default();
    facet_document.add_u64(fields.amended, u64::from(form.ends_with("/a")));
    facet_document.add_u64(fields.sort, DocumentKind::from_form(&form) as u64);
    let quarter =
        lower_value(&facts.fiscal_period).and_then(|period| period.strip_prefix('q')?.parse().ok());
    facet_document.add_u64(fields.quarter, quarter.unwrap_or(0));
    facet_document.add_text(fields.status, DocumentState::for_published(entry).as_str());
    if let Some(year) = lower_value(&facts.fiscal_year).and_then(|year| year.parse().ok()) {
        facet_document.add_u64(fields.fiscal_year, year);
    }
    for year in near_years(entry) {
        facet_document.add_text(fields.near_years, year.to_string());
    }
    for (field, fact) in [
        (fields.period_end, &facts.period_end),
        (fields.filed, &facts.filed),
    ] {
        if let Some(date) = lower_value(fact).and_then(|date| date_number(&date)) {
            facet_document.add_u64(field, date);
        }
    }
    facet_document.add_text(fields.name, version.name.to_lowercase());
    if let Some(doubt) = entry.doubt {
        facet_document.add_text(fields.quality, stemma_catalog::facets::quality_value(doubt));
        facet_document.add_u64(fields.doubt, (f64::from(doubt) * 1000.0).round() as u64);
    }
    if let Extent::Pages(pages) = entry.extent {
        facet_document.add_u64(fields.pages, u64::from(pages));
    }
    facet_document
}

fn lower_value(fact: &Option<stemma_document::Fact>) -> Option<String> {
    fact.as_ref().map(|fact| fact.value.trim().to_lowercase())
}

/// First eight bytes of a document id, for the field `doc_key`.
pub fn doc_key(doc: stemma_document::DocId) -> u64 {
    doc.as_bytes()
        .first_chunk::<8>()
        .map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn company_key(company: &str) -> u64 {
    let digest = Digest::from_content(company.as_bytes());
    digest
        .as_bytes()
        .first_chunk::<8>()
        .map_or(1, |bytes| u64::from_be_bytes(*bytes))
}

/// Converts `2022-12-31` to `20221231`.
pub fn date_number(date: &str) -> Option<u64> {
    let digits: String = date.chars().filter(char::is_ascii_digit).collect();
    if digits.len() == 8 {
        digits.parse().ok()
    } else {
        None
    }
}

// Years in the file name and the dates of a document.
fn near_years(entry: &CatalogEntry) -> Vec<u32> {
    let facts = [
        &entry.facts.fiscal_year,
        &entry.facts.period_end,
        &entry.facts.filed,
    ];
    let mut years: Vec<u32> = facts
        .iter()
        .filter_map(|fact| fact.as_ref()?.value.get(..4)?.parse().ok())
        .collect();
    let runs = entry
        .version
        .name
        .split(|c: char| !c.is_ascii_digit())
        .filter(|run| run.len() == 4 || run.len() == 8);
    years.extend(
        runs.filter_map(|run| run[..4].parse::<u32>().ok())
            .filter(|year| (1980..2100).contains(year)),
    );
    years.sort_unstable();
    years.dedup();
    years
}

//! A document whose text is read: its tree, the pages or lines in memory, and what the prompt says about it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use stemma_document::{
    Fact, FilingFacts, Page, PageNo, Section, SectionId, SectionSpan, SectionTree, TextLines,
};
use stemma_llm::tokens;
use stemma_xbrl::FactTable;

use super::SectionRequest;
use super::passage_source::TextLine;
use crate::scope::matches_item;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::items;
use stemma_reading::document_reading::LineReadings;
use stemma_reading::numbers::NumberMarks;
use stemma_reading::tables::FigureTable;
use stemma_retrieval::search::ItemRef;

// Pages of a section that are read when nothing says which of them fit.
const FIRST_PAGES: usize = 3;

pub(crate) struct OpenDoc {
    pub(crate) name: String,
    pub(crate) label: String,
    pub(crate) version: u64,
    /// Issuer, form and fiscal year, for the prompt.
    pub(crate) description: String,
    /// From the year of a date in January or February to the name of its fiscal year.
    pub(crate) year_shift: i32,
    pub(super) tree: Arc<SectionTree>,
    pub(super) pages: BTreeMap<u32, Page>,
    pub(super) lines: Option<Arc<TextLines>>,
    readings: LineReadings,
    tables: Arc<Vec<FigureTable>>,
    /// The facts that the filing tags itself.
    pub(crate) facts: Option<Arc<FactTable>>,
    // Sections of the only Item that may be read; `None`: all of the document.
    item_sections: Option<Vec<SectionId>>,
}

/// What is read of a document at once.
pub(super) struct DocumentText {
    pub(super) lines: Option<Arc<TextLines>>,
    pub(super) readings: LineReadings,
    pub(super) tables: Arc<Vec<FigureTable>>,
    pub(super) facts: Option<Arc<FactTable>>,
}

impl OpenDoc {
    pub(super) fn new(
        document: &CatalogDocument,
        tree: Arc<SectionTree>,
        text: DocumentText,
        item: Option<&ItemRef>,
    ) -> Self {
        let version = document.version();
        let item_sections = item.map(|item| {
            let sections = items::section_items(&tree).into_iter();
            sections
                .filter(|section| matches_item(section, item))
                .map(|section| section.section)
                .collect()
        });
        Self {
            name: version.name.clone(),
            label: document.label.clone(),
            version: version.seq,
            description: document
                .entry()
                .map(|entry| describe(&entry.facts))
                .unwrap_or_default(),
            year_shift: document
                .entry()
                .and_then(|entry| year_shift(&entry.facts))
                .unwrap_or(0),
            tree,
            pages: BTreeMap::new(),
            lines: text.lines,
            readings: text.readings,
            tables: text.tables,
            facts: text.facts,
            item_sections,
        }
    }

    /// Tables that are on one of these pages, or lines in a text.
    pub(super) fn tables_on(&self, place: RangeInclusive<u32>) -> Vec<&FigureTable> {
        let (first, last) = place.into_inner();
        self.tables
            .iter()
            .filter(|table| table.bounds().0 <= last && first <= table.bounds().1)
            .collect()
    }

    /// The lines of each table on a page, from its first row to its last, counted from 0.
    pub(super) fn table_lines(&self, page: u32) -> Vec<(usize, Range<usize>)> {
        self.tables
            .iter()
            .enumerate()
            .filter(|(_, table)| (table.pages.0..=table.pages.1).contains(&page))
            .filter_map(|(at, table)| {
                let rows = table.rows.iter().filter(|row| row.page == page);
                let lines = rows.map(|row| row.line as usize);
                let first = lines.clone().min()?;
                Some((at, first.saturating_sub(1)..lines.max()?))
            })
            .collect()
    }

    /// How the numbers of a page are written, or those of a text.
    pub(crate) fn number_marks(&self, page: Option<PageNo>) -> NumberMarks {
        self.readings.marks(page)
    }

    pub(crate) fn path(&self, id: SectionId) -> Vec<String> {
        self.tree
            .path_to(id)
            .into_iter()
            .map(|section| section.title.clone())
            .collect()
    }

    pub(crate) fn page(&self, number: u32) -> Option<&Page> {
        self.pages.get(&number)
    }

    /// The unit of most tables on these pages or lines, in the words of the document: `(Dollars in millions)`.
    pub(super) fn unit(&self, places: &[RangeInclusive<u32>]) -> Option<&str> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for table in self.tables.iter() {
            let (first, last) = table.bounds();
            let is_shown = places
                .iter()
                .any(|place| first <= *place.end() && *place.start() <= last);
            if let Some(unit) = table.unit.as_deref().filter(|_| is_shown) {
                *counts.entry(unit).or_default() += 1;
            }
        }
        let most = counts.iter().max_by_key(|(_, count)| **count);
        most.map(|(unit, _)| *unit)
    }

    /// The pages of a request in their order: those it names, else the first of its section.
    pub(super) fn requested_pages(&self, request: &SectionRequest) -> Vec<u32> {
        if !request.pages.is_empty() {
            return request.pages.clone();
        }
        let section = request.section.and_then(|id| self.tree.section(id));
        let Some(span) = section.and_then(|section| section.span.pages()) else {
            return Vec::new();
        };
        span.pages().map(PageNo::get).take(FIRST_PAGES).collect()
    }

    /// The lines of a page that may be read, without running heads and feet.
    pub(super) fn page_lines(&self, number: u32) -> Vec<TextLine> {
        let Some(page) = self.pages.get(&number) else {
            return Vec::new();
        };
        let readings = self.readings.on_page(PageNo::new(number));
        let count = page.lines.len();
        let allowed = self.allowed_lines(number, count);
        let lines = page.lines.iter().enumerate();
        lines
            .filter(|(at, line)| {
                // A number alone at the foot is the printed page number, even where it was not recognized as one.
                let is_page_number =
                    *at + 1 == count && !line.text.contains(|c: char| !c.is_ascii_digit());
                !line.is_furniture()
                    && !is_page_number
                    && allowed.iter().any(|range| range.contains(at))
            })
            .map(|(at, line)| TextLine {
                at,
                text: line.text.clone(),
                reading: readings.get(at).copied().unwrap_or_default(),
                tokens: line.tokens,
            })
            .collect()
    }

    // A question about one Item reads nothing else.
    fn allowed_lines(&self, page: u32, count: usize) -> Vec<Range<usize>> {
        match &self.item_sections {
            None => std::iter::once(0..count).collect(),
            Some(sections) => {
                let sections = sections.iter().filter_map(|id| self.tree.section(*id));
                sections
                    .map(|section| lines_on(section, page, count))
                    .collect()
            }
        }
    }

    /// The own lines of a section of a document without pages.
    pub(super) fn section_lines(&self, section: &Section) -> Vec<TextLine> {
        let SectionSpan::Lines { start, end } = section.span else {
            return Vec::new();
        };
        let Some(text) = &self.lines else {
            return Vec::new();
        };
        let own_end = section.children.first().and_then(|child| match child.span {
            SectionSpan::Lines { start, .. } => Some(start - 1),
            SectionSpan::Pages { .. } => None,
        });
        let first = start.saturating_sub(1) as usize;
        let last = (own_end.unwrap_or(end) as usize).min(text.lines.len());
        let readings = self.readings.on_page(None);
        (first..last)
            .map(|at| TextLine {
                at,
                text: text.lines[at].clone(),
                reading: readings.get(at).copied().unwrap_or_default(),
                tokens: match text.tokens.get(at) {
                    Some(tokens) => *tokens,
                    None => tokens::count(&text.lines[at]),
                },
            })
            .collect()
    }

    /// The section that a page opens with: the deepest one that reaches it from before, else the first on it.
    pub(super) fn opening_section(&self, page: u32) -> Option<&Section> {
        let spans = self.tree.walk().filter_map(|(_, section)| {
            let span = section.span.pages()?;
            PageNo::new(page)
                .is_some_and(|page| span.contains(page))
                .then_some((span, section))
        });
        let sections: Vec<_> = spans.collect();
        // In pre-order, the last section that begins before the page is the deepest one at its top.
        let opens = sections
            .iter()
            .rev()
            .find(|(span, _)| span.start().get() < page);
        opens.or(sections.first()).map(|(_, section)| *section)
    }

    /// Pages of `numbers` that are not in memory.
    pub(super) fn missing_pages(&self, numbers: BTreeSet<u32>) -> Vec<u32> {
        if self.lines.is_some() {
            return Vec::new();
        }
        numbers
            .into_iter()
            .filter(|number| *number > 0 && !self.pages.contains_key(number))
            .collect()
    }
}

// `3M COMPANY · 10-K · fiscal year 2022, “for the fiscal year ended December 31, 2022”`.
fn describe(facts: &FilingFacts) -> String {
    let value = |fact: Option<&Fact>| fact.map(|fact| fact.value.clone());
    let year =
        value(facts.fiscal_year.as_ref()).map(|year| match value(facts.fiscal_period.as_ref()) {
            Some(period) if period != "FY" => format!("{period} of fiscal year {year}"),
            _ => format!("fiscal year {year}"),
        });
    let period = facts.period_end.as_ref().map(|end| match &end.evidence {
        Some(words) => format!("“{}”", words.trim()),
        None => format!("period ended {}", end.value),
    });
    [
        value(facts.issuer.as_ref()),
        value(facts.form.as_ref()),
        year,
        period,
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(" · ")
}

// Some name the fiscal year that ends in January 2023 after 2022, others after 2023.
fn year_shift(facts: &FilingFacts) -> Option<i32> {
    let mut end = facts.period_end.as_ref()?.value.split('-');
    let year: i32 = end.next()?.parse().ok()?;
    let month: u32 = end.next()?.parse().ok()?;
    let named: i32 = facts.fiscal_year.as_ref()?.value.parse().ok()?;
    (month <= 2 && named == year - 1).then_some(-1)
}

/// The lines of a page that belong to a section, with its sub-sections.
pub(super) fn lines_on(section: &Section, page: u32, count: usize) -> Range<usize> {
    let SectionSpan::Pages { pages, from, to } = section.span else {
        return 0..0;
    };
    if !PageNo::new(page).is_some_and(|page| pages.contains(page)) {
        return 0..0;
    }
    let start = if from.page.get() == page {
        (from.line as usize).min(count)
    } else {
        0
    };
    let end = to
        .filter(|to| to.page.get() == page)
        .map_or(count, |to| (to.line as usize).min(count));
    start..end.max(start)
}

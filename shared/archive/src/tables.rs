//! The tables of a document.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::{Fragment, section_locator};
use stemma_document::{PageSpan, PublishedTree, SectionId, SectionTree};
use stemma_reading::tables::{CellFact, FigureTable, TableColumn};
use stemma_xbrl::{FactTable, FactValue, TaggedFact};
use utoipa::ToSchema;

use crate::archive::no_text;
use crate::error::shell_quoted;
use crate::tree::resolve_section;
use crate::{ApiError, Archive, DocumentInfo, items};

// First and last page, or line in a document without pages.
type Bounds = (u32, u32);

/// The tables of a document.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DocumentTables {
    /// The document.
    pub document: DocumentInfo,
    /// In reading order.
    pub tables: Vec<TableInfo>,
}

/// A table without its rows.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TableInfo {
    /// `3M_2022_10K#t12`
    pub locator: String,
    /// The line above it that names it, as printed.
    pub title: Option<String>,
    /// What its figures are in, as printed: `(in millions, except per share data)`.
    pub unit: Option<String>,
    /// By how much printed figures are multiplied, where one scale is declared.
    pub scale: Option<u64>,
    /// First and last physical page.
    pub pages: Option<(u32, u32)>,
    /// First and last line of its rows in a text.
    pub lines: Option<(u32, u32)>,
    /// The section it is in.
    pub section: Option<String>,
    /// Heads and periods of its columns, from left to right, without the column of row labels.
    #[schema(value_type = Vec<Object>)]
    pub columns: Vec<TableColumn>,
    /// Number of rows.
    pub rows: usize,
}

/// A table with its rows.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TableContent {
    /// The document.
    pub document: DocumentInfo,
    /// The section it is in.
    pub section: Option<String>,
    /// Columns, and rows with their cells; a cell is as printed (`text`), with its exact number without scale (`value`) and its place on the
    /// displayed page, in shares of its width and height (`rect`), or in the file (`bytes`), and the figures that the file
    /// tags in it (`facts`).
    #[schema(value_type = Object)]
    pub table: FigureTable,
}

impl Archive {
    /// Lists the tables of a document, or those on the pages of a part of it: `3M_2022_10K#item-7`.
    ///
    /// # Errors
    /// [`ApiError`] when the locator names nothing with a text, or the store cannot be read.
    pub async fn tables(&self, locator: &str) -> Result<DocumentTables, ApiError> {
        let (listed, published, part) = self.load_published(locator).await?;
        let part = part.filter(|part| !matches!(part, Fragment::Table(_)));
        let bounds = part.map(|part| bounds_of(&published.tree, &listed.label, &part));
        let bounds = bounds.transpose()?;
        let mut tables = self.stored_tables(&listed, &published).await?;
        if let Some(bounds) = bounds {
            tables.retain(|table| {
                let (first, last) = table.bounds();
                bounds
                    .iter()
                    .any(|(start, end)| *start <= last && first <= *end)
            });
        }
        let placed = placed_sections(&published.tree);
        let starts = tables.iter().map(|table| table.bounds().0);
        let sections = sections_at(placed.into_iter(), starts.collect());
        let tables = tables.into_iter().map(|table| TableInfo {
            locator: format!("{}#{}", listed.label, table.id),
            section: sections
                .get(&table.bounds().0)
                .map(|id| section_locator(&listed.label, *id)),
            rows: table.rows.len(),
            pages: table.page_range(),
            lines: table.line_range(),
            title: table.title,
            unit: table.unit,
            scale: table.scale,
            columns: table.columns,
        });
        Ok(DocumentTables {
            document: DocumentInfo::from_catalog(&listed),
            tables: tables.collect(),
        })
    }

    /// Reads one table: `3M_2022_10K#t12`.
    ///
    /// # Errors
    /// [`ApiError`] when the locator names no table, or the store cannot be read.
    pub async fn table(&self, locator: &str) -> Result<TableContent, ApiError> {
        let (listed, published, part) = self.load_published(locator).await?;
        let Some(Fragment::Table(number)) = part else {
            return Err(no_table(&listed, locator, None));
        };
        let mut tables = self.stored_tables(&listed, &published).await?;
        let index = (number as usize)
            .checked_sub(1)
            .filter(|index| *index < tables.len());
        let Some(index) = index else {
            return Err(no_table(&listed, locator, Some(tables.len())));
        };
        let mut table = tables.swap_remove(index);
        if let Some(facts) = self.load_facts(&published).await? {
            table.link_facts(&figures(&facts));
        }
        let (start, _) = table.bounds();
        let placed = placed_sections(&published.tree);
        let sections = sections_at(placed.into_iter(), BTreeSet::from([start]));
        let section = sections.get(&start);
        Ok(TableContent {
            document: DocumentInfo::from_catalog(&listed),
            section: section.map(|id| section_locator(&listed.label, *id)),
            table,
        })
    }

    async fn stored_tables(
        &self,
        listed: &CatalogDocument,
        published: &PublishedTree,
    ) -> Result<Vec<FigureTable>, ApiError> {
        let tables = self.load_tables(published).await?;
        tables.ok_or_else(|| no_text(listed))
    }
}

// First and last page, or line in a document without pages, of each run of a part.
fn bounds_of(tree: &SectionTree, label: &str, part: &Fragment) -> Result<Vec<Bounds>, ApiError> {
    let of_pages = |spans: &[PageSpan]| spans.iter().map(|span| span.bounds()).collect();
    match part {
        Fragment::Pages(spans) => return Ok(of_pages(spans)),
        Fragment::Item { part, number } => {
            let indexed = items::find_indexed_item(tree, label, part.as_deref(), number);
            if let Some((_, spans)) = indexed {
                return Ok(of_pages(&spans));
            }
        }
        Fragment::Section(_) | Fragment::Table(_) => {}
    }
    let section = tree.section(resolve_section(tree, label, part)?);
    let bounds = section.map(|section| section.span.bounds());
    Ok(bounds.into_iter().collect())
}

/// Whether a fact is a figure that a table may show.
pub(crate) fn is_figure(fact: &TaggedFact<'_>) -> bool {
    !fact.is_hidden && !matches!(fact.value, FactValue::Text(_))
}

/// The visible figures in the order of the file.
pub(crate) fn figures(facts: &FactTable) -> Vec<CellFact> {
    let mut figures: Vec<CellFact> = facts
        .facts()
        .filter(is_figure)
        .map(|fact| CellFact {
            concept: fact.concept.to_owned(),
            period: fact.period.to_string(),
            unit: fact.short_unit(),
            value: fact.number().map(|number| number.to_string()),
            byte: fact.byte,
            end: fact.end,
        })
        .collect();
    figures.sort_by_key(|fact| fact.byte);
    figures
}

// The innermost section that begins last on or before each page or line, by that. `sections` are in reading order. Each is looked at
// once, from the last to the first: a document may have any number of tables and of sections.
fn sections_at(
    sections: impl DoubleEndedIterator<Item = (SectionId, Bounds)>,
    mut starts: BTreeSet<u32>,
) -> BTreeMap<u32, SectionId> {
    let mut found = BTreeMap::new();
    for (id, (first, last)) in sections.rev() {
        while let Some(start) = starts.range(first..=last).next().copied() {
            starts.remove(&start);
            found.insert(start, id);
        }
    }
    found
}

fn placed_sections(tree: &SectionTree) -> Vec<(SectionId, Bounds)> {
    let sections = tree.walk();
    sections
        .map(|(_, section)| (section.id, section.span.bounds()))
        .collect()
}

fn no_table(listed: &CatalogDocument, locator: &str, count: Option<usize>) -> ApiError {
    let label = &listed.label;
    let message = match count {
        Some(count) => format!("`{label}` has {count} tables, but no `{locator}`"),
        None => format!("`{locator}` names no table"),
    };
    let next = format!("stemma tables {}", shell_quoted(label));
    ApiError::new("locator.no_table", message, next).with_document(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_its_innermost_last_section_after_one_look_at_each_section() {
        // A chapter for each hundred pages, with a section for each ten, and with two that begin on a page of the next ten.
        let span = |start: u32, end: u32| (start, end);
        let mut sections = Vec::new();
        for chapter in 0..100 {
            sections.push(span(100 * chapter + 1, 100 * chapter + 100));
            for section in 0..10 {
                let start = 100 * chapter + 10 * section + 1;
                sections.push(span(start, start + 9));
                sections.push(span(start + 5, start + 12));
            }
        }
        let sections: Vec<(SectionId, Bounds)> = (0..).map(SectionId).zip(sections).collect();
        let mut looks = 0;
        let found = sections_at(
            sections.iter().copied().inspect(|_| looks += 1),
            (1..=10_020).collect(),
        );
        assert_eq!(looks, sections.len());
        for page in 1..=10_020 {
            let covers =
                |(_, (first, last)): &&(SectionId, Bounds)| (*first..=*last).contains(&page);
            let last = sections.iter().rfind(covers).map(|(id, _)| *id);
            assert_eq!(found.get(&page).copied(), last, "{page}");
        }
    }
}

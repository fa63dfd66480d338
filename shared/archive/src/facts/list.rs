//! The tagged facts of a document.

use std::collections::HashMap;

use serde::Serialize;
use stemma_catalog::locator::{page_locator, section_locator};
use stemma_xbrl::{FactValue, Period, TaggedFact};
use utoipa::ToSchema;

use super::cell::{CellPosition, cells_of_figures};
use super::place::SectionIndex;
use super::query::{ConceptQuery, PeriodQuery};
use crate::archive::spawn_cpu;
use crate::tables::{figures, is_figure};
use crate::{ApiError, Archive, DocumentInfo, cursor};

/// Which facts of a document to list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FactsRequest {
    /// Locator of the document.
    pub document: String,
    /// Name of a concept, with or without its prefix; or words of its label; or, where no label has them, of the row that
    /// displays it.
    pub concept: Option<String>,
    /// `2024` (ends in), `2024-12-31` (ends on) or `2024-01-01/2024-12-31`.
    pub period: Option<String>,
    /// Also facts of segments and other dimensions, not only of the whole company.
    pub dimensions: bool,
    pub limit: usize,
    pub cursor: Option<String>,
}

/// Tagged facts of a document.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FactList {
    pub document: DocumentInfo,
    /// The facts in the order of the file; empty if the document has no inline XBRL.
    pub facts: Vec<FactInfo>,
    /// Number of facts on all pages.
    pub total: usize,
    /// Cursor of the next page; `null` on the last.
    pub next_cursor: Option<String>,
}

/// A tagged fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FactInfo {
    /// Name with its prefix: `us-gaap:Revenues`.
    pub concept: String,
    /// Label, or the name in words.
    pub label: String,
    /// Identifier of the company: a CIK of ten digits.
    pub entity: String,
    /// First day; `null` for a value at the end of a day.
    pub from: Option<String>,
    /// Last day; `null` if it holds forever.
    pub to: Option<String>,
    /// `USD`, `USD/shares`, `pure`; `null` for texts.
    pub unit: Option<String>,
    /// What it is of, if not of the whole company.
    pub dimensions: Vec<FactDimension>,
    /// The exact number with scale and sign applied, or the text; `null` if it is nil or its format is unknown.
    pub value: Option<String>,
    /// Whether the value is a number.
    pub numeric: bool,
    /// As the document prints it.
    pub displayed: String,
    /// Decimal places to which it is rounded; `INF` if exact.
    pub decimals: Option<String>,
    /// Power of ten by which the displayed number is multiplied.
    pub scale: i8,
    /// `-` if the tag declares the displayed number as negative, as `value` then is; else `null`.
    pub sign: Option<String>,
    /// Whether it is hidden in the document.
    pub hidden: bool,
    /// Whether value and displayed text are only the beginning.
    pub cut: bool,
    /// Offset of its tag in the file.
    pub byte: u32,
    /// Physical page.
    pub page: Option<u32>,
    /// Its table cell; `null` for texts, and for figures outside of the cells of tables.
    pub cell: Option<CellPosition>,
    pub section_id: Option<String>,
    /// Locator of its page or section.
    pub locator: Option<String>,
}

/// An axis of a taxonomy and the member of a fact on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FactDimension {
    /// `us-gaap:StatementBusinessSegmentsAxis`.
    pub axis: String,
    /// `x:EuropeMember`.
    pub member: String,
}

impl FactInfo {
    fn new(
        fact: &TaggedFact<'_>,
        label: &str,
        sections: &SectionIndex,
        cell: Option<CellPosition>,
    ) -> Self {
        let section = sections.section_of(fact);
        let (from, to) = match fact.period {
            Period::Duration { from, to } => (Some(from), Some(to)),
            Period::Instant(day) => (None, Some(day)),
            Period::Forever => (None, None),
        };
        let page = fact.page.map(|page| page_locator(label, page));
        Self {
            concept: fact.concept.to_owned(),
            label: fact.label.to_owned(),
            entity: fact.entity.to_owned(),
            from: from.map(|day| day.to_string()),
            to: to.map(|day| day.to_string()),
            unit: fact.short_unit(),
            dimensions: fact
                .dimensions
                .iter()
                .map(|(axis, member)| FactDimension {
                    axis: axis.clone(),
                    member: member.clone(),
                })
                .collect(),
            value: match fact.value {
                FactValue::Number(number) => Some(number.normalize().to_string()),
                FactValue::Text(text) => Some(text.to_owned()),
                FactValue::Nil | FactValue::Unreadable => None,
            },
            numeric: fact.unit.is_some(),
            displayed: fact.displayed.to_owned(),
            decimals: fact.decimals.map(|decimals| decimals.to_string()),
            scale: fact.scale,
            sign: fact.is_negated.then(|| "-".to_owned()),
            hidden: fact.is_hidden,
            cut: fact.is_cut,
            byte: fact.byte,
            page: fact.page.map(|page| page.get()),
            cell,
            section_id: section.map(|section| section.to_string()),
            locator: page.or_else(|| section.map(|section| section_locator(label, section))),
        }
    }
}

impl Archive {
    /// The tagged facts of a document.
    pub async fn facts(&self, request: &FactsRequest) -> Result<FactList, ApiError> {
        let period = request.period.as_deref();
        let period = period.map(PeriodQuery::parse).transpose()?;
        let (listed, published, _) = self.load_published(&request.document).await?;
        let key = format!(
            "{} {:?} {:?} {}",
            listed.doc(),
            request.concept,
            request.period,
            request.dimensions
        );
        let offset = cursor::decode_offset(request.cursor.as_deref(), &key)?;
        let table = self.load_facts(&published).await?.unwrap_or_default();
        let concept = request.concept.as_deref().map(ConceptQuery::new);
        let rows = match &concept {
            Some(concept) if !concept.is_in(&table) => self.load_body(&published).await?,
            _ => None,
        };
        let mut facts: Vec<TaggedFact<'_>> = table
            .facts()
            .filter(|fact| request.dimensions || fact.dimensions.is_empty())
            .filter(|fact| period.as_ref().is_none_or(|it| it.matches(fact.period)))
            .collect();
        if let Some(concept) = &concept {
            facts.retain(concept.filter(&table, rows.as_ref()));
        }
        let total = facts.len();
        let facts: Vec<TaggedFact<'_>> =
            facts.into_iter().skip(offset).take(request.limit).collect();
        let mut cells = match facts.iter().any(is_figure) {
            true => {
                let tables = self.load_tables(&published).await?.unwrap_or_default();
                let figures = figures(&table);
                let label = listed.label.clone();
                spawn_cpu(move || cells_of_figures(tables, &figures, &label)).await?
            }
            false => HashMap::new(),
        };
        let sections = SectionIndex::new(&published.tree);
        let facts: Vec<FactInfo> = facts
            .iter()
            .map(|fact| FactInfo::new(fact, &listed.label, &sections, cells.remove(&fact.byte)))
            .collect();
        let end = offset + facts.len();
        Ok(FactList {
            document: DocumentInfo::from_catalog(&listed),
            facts,
            total,
            next_cursor: (end < total).then(|| cursor::encode(&key, &end.to_string())),
        })
    }
}

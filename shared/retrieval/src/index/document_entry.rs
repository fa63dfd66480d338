//! What every entry of a document has: its facets, keys and years.

use std::sync::Arc;

use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::property::Property;
use stemma_document::{CatalogEntry, Digest, DocId, Fact};
use tantivy::TantivyDocument;

use super::document_filter::IndexValue;
use super::schema::{DocumentKind, Fields};

/// The facet fields of a document.
pub(super) fn facets(fields: &Fields, entry: &CatalogEntry) -> TantivyDocument {
    let facts = &entry.facts;
    let version = &entry.version;
    let mut facet_document = TantivyDocument::default();
    facet_document.add_text(fields.doc, version.doc.to_string());
    facet_document.add_u64(fields.doc_key, doc_key(version.doc));
    facet_document.add_u64(fields.seq, version.seq);
    let company = facts
        .issuer
        .as_ref()
        .map(|issuer| Property::Company.canonical(&issuer.value));
    facet_document.add_u64(
        fields.company_key,
        company.as_deref().map_or(0, company_key),
    );
    if let Some(company) = company {
        facet_document.add_text(fields.company, company);
    }
    let document = CatalogDocument::from_published(Arc::new(entry.clone()), None, None);
    // Of the company only the first registrant counts, above.
    for property in Property::filters().filter(|property| *property != Property::Company) {
        for value in property.canonical_values(&document) {
            if let Some(field) = fields.property(property)
                && let Some(value) = IndexValue::new(property, &value)
            {
                value.add_to(&mut facet_document, field);
            }
        }
    }
    let form = lower_value(&facts.form).unwrap_or_default();
    facet_document.add_u64(fields.amended, u64::from(form.ends_with("/a")));
    facet_document.add_u64(fields.sort, DocumentKind::from_form(&form) as u64);
    let quarter =
        lower_value(&facts.fiscal_period).and_then(|period| period.strip_prefix('q')?.parse().ok());
    facet_document.add_u64(fields.quarter, quarter.unwrap_or(0));
    for year in near_years(entry) {
        facet_document.add_text(fields.near_years, year.to_string());
    }
    facet_document
}

fn lower_value(fact: &Option<Fact>) -> Option<String> {
    fact.as_ref().map(|fact| fact.value.trim().to_lowercase())
}

/// First eight bytes of a document id, for the field `doc_key`.
pub fn doc_key(doc: DocId) -> u64 {
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

/// By how much the number of the fiscal year is greater than the year in which it ends.
pub(super) fn fiscal_years_ahead(entry: &CatalogEntry) -> i32 {
    let year = |fact: &Option<Fact>| -> Option<i32> { fact.as_ref()?.value.get(..4)?.parse().ok() };
    let fiscal = year(&entry.facts.fiscal_year).zip(year(&entry.facts.period_end));
    fiscal.map_or(0, |(fiscal, end)| fiscal - end)
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

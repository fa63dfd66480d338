//! Facts about a document of a filing that index files state: what the filing is, and which of its documents this is.
//!
//! Like the facts of a sidecar they belong to a submission. They count more than the text, because the filer declared
//! them, and less than a sidecar, which the owner of the archive wrote.

use std::collections::BTreeMap;

use stemma_document::{Fact, FactSource, FilingFacts};
use stemma_edgar::{FilingFolder, FilingIndex, PartEntry};
use stemma_outline::enrich::{is_same_company, stated_fiscal_period};

// Kinds of documents that only the text tells, by the name of their form.
const TOLD_BY_TEXT: [&str; 3] = ["earnings_release", "annual_report", "interim_report"];

/// What an index says about a document in a mirrored folder, by the names of the header's facts (`period`, `former_names`),
/// and `document_type`, `sequence`, `description`. A name that only the page for people has is `listed_company`: it is
/// that of today.
pub fn index_facts(
    folder: &FilingFolder,
    index: &FilingIndex,
    entry: Option<&PartEntry>,
) -> BTreeMap<String, String> {
    let mut facts = index.header.facts();
    if index.has_current_names
        && let Some(name) = facts.remove("company")
    {
        facts.insert("listed_company".into(), name);
    }
    facts.insert("accession".into(), folder.accession.clone());
    if let Some(cik) = &folder.cik {
        facts.entry("cik".into()).or_insert_with(|| cik.clone());
    }
    let entry = entry.cloned().unwrap_or_default();
    let of_document = [
        ("document_type", Some(entry.document_type)),
        ("sequence", entry.sequence),
        ("description", entry.description),
    ];
    for (name, value) in of_document {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.insert(name.into(), value);
        }
    }
    facts
}

/// Adds the facts of an index to the facts of the text.
pub(crate) fn apply(facts: &mut FilingFacts, stated: &BTreeMap<String, String>) {
    if stated.is_empty() {
        return;
    }
    let declared = |name: &str| {
        let value = stated.get(name)?;
        Some(Fact::from_source(value.as_str(), FactSource::Header))
    };
    let kind = stated.get("document_type").map(String::as_str);
    let is_exhibit = kind.is_some_and(|kind| kind.to_ascii_uppercase().starts_with("EX-"));
    let told_by_text = facts
        .form
        .as_ref()
        .is_some_and(|form| TOLD_BY_TEXT.contains(&form.value.as_str()));
    let form = match is_exhibit {
        true if told_by_text => None,
        true => declared("document_type"),
        false => declared("form"),
    };
    if let Some(form) = form.filter(|form| {
        facts
            .form
            .as_ref()
            .is_none_or(|read| read.value != form.value)
    }) {
        facts.form = Some(form);
    }
    if let Some(company) = declared("company")
        && !facts
            .issuer
            .as_ref()
            .is_some_and(|read| is_same_company(&read.value, &company.value))
    {
        facts.issuer = Some(company);
    }
    facts.issuer = facts.issuer.take().or_else(|| declared("listed_company"));
    if let Some(period) = declared("period")
        && facts
            .period_end
            .as_ref()
            .is_none_or(|read| read.value != period.value)
    {
        facts.period_end = Some(period);
        // They were derived from another end of the period.
        for fact in [&mut facts.fiscal_year, &mut facts.fiscal_period] {
            fact.take_if(|fact| fact.source == FactSource::Derived);
        }
    }
    add_fiscal_period(facts, stated);
    facts.filed = declared("filed").or(facts.filed.take());
    // Without an index they come from the path, which is then their source.
    for (fact, name) in [(&mut facts.cik, "cik"), (&mut facts.accession, "accession")] {
        let other = declared(name).filter(|stated| {
            fact.as_ref()
                .is_none_or(|known| known.value != stated.value)
        });
        *fact = other.or(fact.take());
    }
    facts.file_number = facts.file_number.take().or_else(|| declared("file_number"));
    facts.sic = declared("sic").or(facts.sic.take());
    if let Some(names) = stated.get("former_names") {
        let names = names.split("; ");
        facts.former_names = names
            .map(|name| Fact::from_source(name, FactSource::Header))
            .collect();
    }
    facts.document_type = declared("document_type");
    facts.sequence = declared("sequence");
    facts.document_description = declared("description");
}

fn add_fiscal_period(facts: &mut FilingFacts, stated: &BTreeMap<String, String>) {
    let form = stated.get("form").map_or("", String::as_str);
    let year_end = stated.get("fiscal_year_end").map(String::as_str);
    let Some(end) = facts.period_end.clone() else {
        return;
    };
    let (year, period) = stated_fiscal_period(form, &end.value, year_end);
    facts.fiscal_year = facts.fiscal_year.take().or(year.map(derived));
    facts.fiscal_period = facts.fiscal_period.take().or(period.map(derived));
}

fn derived(value: String) -> Fact {
    Fact::from_source(value, FactSource::Derived)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        pairs.collect()
    }

    fn facts_of(read: FilingFacts, pairs: &[(&str, &str)]) -> Vec<String> {
        let mut facts = read;
        apply(&mut facts, &stated(pairs));
        let entries = facts.entries();
        entries
            .iter()
            .map(|(name, fact)| format!("{name}={}", fact.value))
            .collect()
    }

    const INDEX: [(&str, &str); 8] = [
        ("form", "10-Q"),
        ("company", "ACME ANVILS INC"),
        ("period", "2022-12-31"),
        ("fiscal_year_end", "0930"),
        ("filed", "2023-02-01"),
        ("cik", "77"),
        ("accession", "0000000077-23-000012"),
        ("former_names", "ACME IRON; ACME NAILS"),
    ];

    fn with_type(kind: &str) -> Vec<(&str, &str)> {
        let of_document = [("document_type", kind), ("sequence", "3")];
        INDEX.into_iter().chain(of_document).collect()
    }

    #[test]
    fn the_index_counts_more_than_the_text() {
        let read = FilingFacts {
            issuer: Some(Fact::from_text("Acme Anvils, Inc.", None)),
            form: Some(Fact::from_text("8-K", None)),
            period_end: Some(Fact::from_text("2021-12-31", None)),
            fiscal_year: Some(Fact::from_source("2021", FactSource::Derived)),
            ..FilingFacts::default()
        };
        let expected = [
            "company=Acme Anvils, Inc.",
            "form=10-Q",
            "fiscal_year=2023",
            "fiscal_period=Q1",
            "period_end=2022-12-31",
            "filed=2023-02-01",
            "cik=77",
            "accession=0000000077-23-000012",
            "document_type=10-Q",
            "sequence=3",
            "former_name=ACME IRON",
            "former_name=ACME NAILS",
        ];
        assert_eq!(facts_of(read, &with_type("10-Q")), expected);
    }

    #[test]
    fn an_exhibit_has_its_own_type_as_form() {
        let form = |read: Option<&str>| {
            let read = FilingFacts {
                form: read.map(|form| Fact::from_text(form, None)),
                ..FilingFacts::default()
            };
            let facts = facts_of(read, &with_type("EX-99.1"));
            facts.iter().find(|fact| fact.starts_with("form=")).cloned()
        };
        assert_eq!(form(None).as_deref(), Some("form=EX-99.1"));
        assert_eq!(form(Some("10-K")).as_deref(), Some("form=EX-99.1"));
        assert_eq!(
            form(Some("earnings_release")).as_deref(),
            Some("form=earnings_release")
        );
    }

    #[test]
    fn the_name_of_today_only_fills_in() {
        let listed = [("listed_company", "ACME HOLDINGS"), ("form", "10-K")];
        let read = FilingFacts {
            issuer: Some(Fact::from_text("Acme Nails", None)),
            ..FilingFacts::default()
        };
        assert_eq!(facts_of(read, &listed)[0], "company=Acme Nails");
        assert_eq!(
            facts_of(FilingFacts::default(), &listed)[0],
            "company=ACME HOLDINGS"
        );
    }

    #[test]
    fn an_index_page_has_the_name_of_today() {
        let folder = FilingFolder::from_path("data/77/000000007723000012").unwrap();
        let page =
            b"<div>Filing Date</div><div>2023-02-01</div><span>ACME (Filer) CIK: 0000000077</span>";
        let index = FilingIndex::parse(stemma_edgar::IndexKind::Page, page);
        let facts = index_facts(&folder, &index, None);
        let expected = [
            ("accession", "0000000077-23-000012"),
            ("cik", "77"),
            ("filed", "2023-02-01"),
            ("listed_company", "ACME"),
        ];
        assert_eq!(facts, stated(&expected));
    }
}

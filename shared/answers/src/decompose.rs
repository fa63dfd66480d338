//! Splits a question that compares filings into one sub-question per filing.
//!
//! "Risk factors of 3M and Boeing, 2022 vs 2023" becomes four sub-questions, each searched in its own filing. The split follows
//! from the words of the question and the filters that search derived; no model is involved.

use std::sync::Arc;

use stemma_document::DocId;

use super::document_scope::documents_in_scope;
use super::request::AskRequest;
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::filter::{Condition, Filter, FilterOp};
use stemma_catalog::property::Property;
use stemma_reading::text_words::says;
use stemma_reading::vocabulary::{
    COMPARISON_WORDS, CONJUNCTIONS, ITEM_NAMES, RANGE_WORDS, SPAN_OPENINGS,
};
use stemma_retrieval::parsed_query::ParsedQuery;
use stemma_retrieval::search::{AppliedFilter, DocumentScope, ItemRef, SearchResults};
use stemma_store::PortResult;

// Later sub-questions are cut off.
const MAX_PARTS: usize = 8;
// A longer span of years is not expanded.
const MAX_YEARS: u16 = 6;
// A scope of at most this many documents is compared document by document.
const MAX_SCOPE_DOCUMENTS: usize = 6;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SubQuestion {
    /// For display: `3M COMPANY 2022`; empty for the whole question.
    pub(super) subject: String,
    pub(super) documents: DocumentScope,
    pub(super) item: Option<ItemRef>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decomposition {
    /// In order; a single whole question when nothing is compared.
    pub(super) parts: Vec<SubQuestion>,
    /// Subjects of the question without a document in the collection: `3M COMPANY 2021`.
    pub(super) missing: Vec<String>,
}

/// A question of more than `most_parts` stays whole: there is no room to read of each.
pub(super) fn decompose(
    question: &AskRequest,
    text: &str,
    first: &SearchResults,
    catalog: &Catalog,
    most_parts: usize,
) -> PortResult<Decomposition> {
    let parsed = ParsedQuery::parse(text);
    let years = named_years(&parsed.text, &parsed.period.years);
    let companies: Vec<Company> = first
        .applied_filters
        .iter()
        .filter(|filter| filter.facet == Property::Company.name())
        .map(|filter| Company::from_filter(filter, question, catalog))
        .collect::<PortResult<_>>()?;
    let item = question.item.clone().or_else(|| named_section(text));
    let mut parts = Vec::new();
    let mut missing = Vec::new();
    if companies.len() * years.len().max(1) > 1 {
        for company in &companies {
            let wanted_years: Vec<Option<u16>> = if years.is_empty() {
                vec![None]
            } else {
                years.iter().copied().map(Some).collect()
            };
            for year in wanted_years {
                let what = year.map_or_else(
                    || company.name.clone(),
                    |year| format!("{} {year}", company.name),
                );

                let docs = company.filings_for(year, parsed.form.as_deref());
                if docs.is_empty() {
                    missing.push(what);
                } else {
                    parts.push(SubQuestion {
                        subject: what,
                        documents: DocumentScope::Documents(docs),
                        item: item.clone(),
                    });
                }
            }
        }
    } else if let DocumentScope::Documents(docs) = &question.within
        && (2..=MAX_SCOPE_DOCUMENTS).contains(&docs.len())
        && is_comparison(text)
    {
        for doc in docs {
            let document = catalog.get(*doc)?;
            let document = document.filter(|document| question.filter.matches(document));
            parts.extend(document.map(|document| SubQuestion {
                subject: document.label.clone(),
                documents: DocumentScope::Documents(vec![document.doc()]),
                item: item.clone(),
            }));
        }
    }
    parts.truncate(MAX_PARTS);
    if parts.len() < 2 || parts.len() > most_parts {
        let whole = SubQuestion {
            subject: String::new(),
            documents: question.within.clone(),
            item: question.item.clone(),
        };
        parts = vec![whole];
    }
    Ok(Decomposition { parts, missing })
}

fn is_comparison(text: &str) -> bool {
    says(text, &COMPARISON_WORDS)
}

fn named_section(text: &str) -> Option<ItemRef> {
    let lower = text.to_lowercase();
    let (_, item) = ITEM_NAMES.iter().find(|(name, _)| lower.contains(name))?;
    item.parse().ok()
}

// The years a question names. A span (`2019 to 2022`) includes the years between.
fn named_years(text: &str, mentioned: &[u16]) -> Vec<u16> {
    let lower = text.to_lowercase();
    let [from, to] = *mentioned else {
        return mentioned.to_vec();
    };
    let are_joined = |words: &[&str]| {
        words
            .iter()
            .any(|word| is_year_span(&lower, from, word, to))
    };
    let is_span =
        are_joined(&RANGE_WORDS) || SPAN_OPENINGS.occurs_in(&lower) && are_joined(&CONJUNCTIONS);
    match is_span && to - from <= MAX_YEARS {
        true => (from..=to).collect(),
        false => mentioned.to_vec(),
    }
}

// `2019 to 2022`, `2019–2022`.
fn is_year_span(lower: &str, from: u16, word: &str, to: u16) -> bool {
    let glued = ["", " "].map(|space| format!("{from}{space}{word}{space}"));
    let until = [
        to.to_string(),
        format!("fy{to}"),
        format!("fy {to}"),
        format!("fiscal {to}"),
    ];
    glued
        .iter()
        .filter(|glued| word.len() < 4 || glued.contains(' '))
        .any(|glued| {
            until
                .iter()
                .any(|until| lower.contains(&format!("{glued}{until}")))
        })
}

struct Company {
    // As its filings state it, else as the question does.
    name: String,
    filings: Vec<Arc<CatalogDocument>>,
}

impl Company {
    // The filter holds a normalized name, or a name of documents that state no company.
    fn from_filter(
        filter: &AppliedFilter,
        question: &AskRequest,
        catalog: &Catalog,
    ) -> PortResult<Self> {
        let stated = Filter::Condition(Condition {
            field: Property::Company,
            op: FilterOp::In,
            values: vec![filter.value.clone()],
        });
        let with_tree = catalog.with_tree()?;
        let stated = catalog.matching(&stated)?.and(&with_tree);
        let mut filings = catalog.list(&stated).collect::<PortResult<Vec<_>>>()?;
        if filings.is_empty() {
            let named = catalog.set_of_keys(&filter.keys)?.and(&with_tree);
            filings = catalog.list(&named).collect::<PortResult<_>>()?;
        }
        let name = filings
            .iter()
            .find_map(|document| Property::Company.values(document).first().copied())
            .unwrap_or(&filter.from)
            .to_owned();
        // Filings under a former name belong to the same issuer.
        let in_scope = documents_in_scope(catalog, &question.within, &question.filter)?;
        let all = catalog
            .same_issuers(&filings)?
            .and(&with_tree)
            .and(&in_scope);
        let filings = catalog.list(&all).collect::<PortResult<_>>()?;
        Ok(Self { name, filings })
    }

    // Filings about a year: of the named form, else annual reports, else all.
    fn filings_for(&self, year: Option<u16>, form: Option<&str>) -> Vec<DocId> {
        let year = year.map(|year| year.to_string());
        let all: Vec<&Arc<CatalogDocument>> = self
            .filings
            .iter()
            .filter(|document| {
                year.as_ref()
                    .is_none_or(|year| has_facet_value(document, Property::FiscalYear, year))
            })
            .collect();
        let mut chosen: Vec<&Arc<CatalogDocument>> = all
            .iter()
            .copied()
            .filter(|document| has_facet_value(document, Property::Form, form.unwrap_or("10-K")))
            .collect();
        if chosen.is_empty() {
            chosen = all;
        }
        // Without a year, only the newest filing counts.
        if year.is_none() {
            chosen.sort_by(|a, b| {
                Property::PeriodEnd
                    .values(b)
                    .cmp(&Property::PeriodEnd.values(a))
                    .then(a.doc().cmp(&b.doc()))
            });
            chosen.truncate(1);
        }
        chosen.into_iter().map(|document| document.doc()).collect()
    }
}

fn facet_values(document: &CatalogDocument, facet: Property) -> impl Iterator<Item = String> {
    facet
        .values(document)
        .into_iter()
        .map(move |value| facet.canonical(value))
}

fn has_facet_value(document: &CatalogDocument, facet: Property, expected: &str) -> bool {
    let expected = facet.canonical(expected);
    facet_values(document, facet).any(|value| value == expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stemma_catalog::fixtures::company_entry;
    use stemma_document::{Fact, FactSource};

    fn catalog() -> Catalog {
        let filing = |company: &str, form: &str, year: &str| {
            let mut entry = company_entry(&format!("{company}_{year}_{form}.pdf"), company);
            entry.facts.form = Some(Fact::from_text(form, None));
            entry.facts.fiscal_year = Some(Fact::from_source(year, FactSource::Derived));
            entry.facts.cik = (company == "3M").then(|| Fact::from_text("0000066740", None));
            entry
        };
        let renamed = |form: &str, year: &str| {
            let mut entry = filing("3M", form, year);
            entry.facts.issuer = Some(Fact::from_text("MINNESOTA MINING", None));
            entry
        };
        Catalog::from_entries([
            filing("3M", "10-K", "2021"),
            filing("3M", "10-K", "2022"),
            filing("3M", "10-Q", "2022"),
            filing("3M", "10-K", "2023"),
            filing("The BOEING Company", "10-K", "2022"),
            renamed("10-K", "2024"),
        ])
    }

    fn planned(question: &AskRequest, companies: &[&str]) -> (Vec<String>, Vec<String>) {
        let first = SearchResults {
            applied_filters: companies
                .iter()
                .map(|company: &&str| AppliedFilter {
                    facet: "company".into(),
                    value: Property::Company.canonical(company),
                    from: "as asked".into(),
                    narrows: true,
                    documents: Some(1),
                    ..AppliedFilter::default()
                })
                .collect(),
            ..SearchResults::default()
        };
        let catalog = catalog();
        let plan = decompose(question, &question.text, &first, &catalog, MAX_PARTS).unwrap();
        (
            plan.parts
                .iter()
                .map(|part: &SubQuestion| {
                    let names = match &part.documents {
                        DocumentScope::All => "all".to_owned(),
                        DocumentScope::Documents(docs) => docs
                            .iter()
                            .map(|doc| catalog.get(*doc).unwrap().unwrap().label.clone())
                            .collect::<Vec<_>>()
                            .join("+"),
                    };
                    let item = part
                        .item
                        .as_ref()
                        .map(|item| format!(" {}", item.number))
                        .unwrap_or_default();
                    format!("{names}{item}")
                })
                .collect(),
            plan.missing,
        )
    }

    #[test]
    fn comparison_is_split_by_filing() {
        let parts = |text: &str, companies: &[&str]| planned(&AskRequest::new(text), companies);
        let (sub_questions, missing) = parts("3M's risk factors 2022 vs 2023", &["3M"]);
        assert_eq!(
            sub_questions,
            vec!["3M_2022_10-K 1A".to_owned(), "3M_2023_10-K 1A".to_owned()]
        );
        assert_eq!(missing.len(), 0);
        let (sub_questions, missing) = parts(
            "How did revenue of 3M and Boeing differ from 2021 to 2023?",
            &["3M", "BOEING"],
        );
        assert_eq!(
            sub_questions,
            [
                "3M_2021_10-K",
                "3M_2022_10-K",
                "3M_2023_10-K",
                "The BOEING Company_2022_10-K"
            ]
        );
        assert_eq!(
            missing,
            ["The BOEING Company 2021", "The BOEING Company 2023"]
        );
        assert_eq!(
            parts("3M's margins, 2023 vs 2024", &["3M"]).1,
            Vec::<String>::new(),
            "under another name"
        );
        assert_eq!(
            parts("Tesla's margins, 2023 vs 2024", &["Tesla"]).1,
            ["as asked 2023", "as asked 2024"]
        );
        // One year of one company is one question, and so is a question without a company.
        assert_eq!(parts("3M capex in 2022", &["3M"]).0, ["all"]);
        assert_eq!(parts("capex 2021 vs 2022", &[]).0, ["all"]);
        // With filings for one half of the comparison only, the question stays whole.
        assert_eq!(
            parts("Boeing revenue 2021 vs 2022", &["BOEING"]),
            (
                vec!["all".to_owned()],
                vec!["The BOEING Company 2021".to_owned()]
            )
        );
    }

    #[test]
    fn sub_questions_stay_in_scope() {
        let catalog = catalog();
        let doc = |label: &str| catalog.resolve(label).unwrap().doc();
        let scope = vec![doc("3M_2021_10-K"), doc("3M_2022_10-K")];
        let question = AskRequest {
            within: DocumentScope::Documents(scope),
            ..AskRequest::new("3M margins 2021 vs 2023")
        };
        assert_eq!(planned(&question, &["3M"]).1, ["3M 2023"]);
        let compare = AskRequest {
            text: "Compare the margins".into(),
            ..question
        };
        assert_eq!(planned(&compare, &[]).0, ["3M_2021_10-K", "3M_2022_10-K"]);
        // There is no room to read of each.
        let whole = decompose(
            &compare,
            &compare.text,
            &SearchResults::default(),
            &catalog,
            1,
        );
        assert_eq!(whole.unwrap().parts.len(), 1);
    }

    #[test]
    fn year_spans_are_expanded() {
        for (text, expected) in [
            ("2019 to 2022", vec![2019, 2020, 2021, 2022]),
            ("FY2019–2021", vec![2019, 2020, 2021]),
            ("between 2020 and 2022", vec![2020, 2021, 2022]),
            ("2019 and 2022", vec![2019, 2022]),
            ("2022 vs 2019", vec![2019, 2022]),
        ] {
            assert_eq!(
                named_years(text, &ParsedQuery::parse(text).period.years),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn documents_without_a_company_are_those_that_the_search_named() {
        use stemma_catalog::fixtures::entry;
        let catalog = Catalog::from_entries([
            entry("WIDGETCO_2021.pdf"),
            entry("WIDGETCO_2022.pdf"),
            entry("OTHER_2022.pdf"),
        ]);
        let key = |path: &str| {
            let doc = catalog.resolve(path).unwrap().doc();
            (doc.to_u128() >> 64) as u64
        };
        let filter = AppliedFilter {
            facet: "company".into(),
            value: "widgetco".into(),
            from: "WidgetCo".into(),
            keys: [key("WIDGETCO_2021.pdf"), key("WIDGETCO_2022.pdf")].into(),
            ..AppliedFilter::default()
        };
        let question = AskRequest::new("WidgetCo revenue 2021 vs 2022");
        let company = Company::from_filter(&filter, &question, &catalog).unwrap();
        let paths = company.filings.iter().map(|it| it.version().path.as_str());
        assert_eq!(
            paths.collect::<Vec<_>>(),
            ["WIDGETCO_2021.pdf", "WIDGETCO_2022.pdf"]
        );
        assert_eq!(company.name, "WidgetCo");
    }
}

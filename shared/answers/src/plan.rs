//! Where a question that compares is answered: one part for each filing it asks about, found by itself.
//!
//! "Risk factors of 3M and Boeing, 2022 vs 2023" is four parts, each with the sections of its filing. What a question
//! names is read from its words and from how search routed it; no model decides where is looked.

use std::collections::BTreeSet;

use stemma_document::DocId;

use super::question::Question;
use stemma_catalog::axes::{Axis, fold};
use stemma_catalog::catalogue::{Catalogue, Listed};
use stemma_retrieval::aliases::{aliases, identity};
use stemma_retrieval::find::{Chip, Found, ItemRef, Within};
use stemma_retrieval::question::Question as Read;

/// Parts of one question at most: the newest years, the first companies.
const MAX_PARTS: usize = 8;
/// Years that a question may span.
const MAX_YEARS: u16 = 6;
/// Documents that a scope may name one by one to be compared.
const MAX_NAMED: usize = 6;

/// Words of comparison.
const COMPARES: [&str; 20] = [
    " vs",
    "versus",
    "compar",
    "differ",
    "change",
    "between",
    " each",
    "both",
    "trend",
    "from year to year",
    "year over year",
    "year-over-year",
    "over time",
    "evolve",
    "evolution",
    "grew",
    "grow",
    "increase",
    "decrease",
    "respectively",
];

/// Sections by the names that people give them, and their Items in annual reports.
const SECTIONS: [(&str, &str); 9] = [
    ("risk factor", "1A"),
    ("legal proceeding", "3"),
    ("management's discussion", "7"),
    ("management’s discussion", "7"),
    ("md&a", "7"),
    ("market risk disclosure", "7A"),
    ("controls and procedures", "9A"),
    ("cybersecurity", "1C"),
    ("unresolved staff comments", "1B"),
];

/// A part of a question.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    /// What it is about: `3M COMPANY 2022`; empty for the whole.
    pub(super) what: String,
    /// Where is looked.
    pub(super) within: Within,
    /// In which Item.
    pub(super) item: Option<ItemRef>,
}

/// How a question is divided.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// In order; one that is the whole question where it compares nothing.
    pub(super) parts: Vec<Part>,
    /// What the question asks about and no document is: `3M COMPANY 2021`.
    pub(super) missing: Vec<String>,
}

/// Divides a question, by what a first search said.
pub(super) fn plan(question: &Question, text: &str, first: &Found, catalogue: &Catalogue) -> Plan {
    let read = Read::read(text, &[]);
    let years = years(text, &read.years);
    let companies: Vec<Company<'_>> = first
        .routed
        .iter()
        .filter(|chip| chip.facet == Axis::Company.as_str())
        .map(|chip| Company::of(chip, question, catalogue))
        .collect();
    let item = question.item.clone().or_else(|| section(text));
    let mut parts = Vec::new();
    let mut missing = Vec::new();
    if companies.len() * years.len().max(1) > 1 {
        for company in &companies {
            let wanted: Vec<Option<u16>> = if years.is_empty() {
                vec![None]
            } else {
                years.iter().copied().map(Some).collect()
            };
            for year in wanted {
                let what = year.map_or_else(
                    || company.name.to_owned(),
                    |year| format!("{} {year}", company.name),
                );
                let docs = company.about(year, read.form.as_deref());
                if docs.is_empty() {
                    missing.push(what);
                } else {
                    parts.push(Part {
                        what,
                        within: Within::Documents(docs),
                        item: item.clone(),
                    });
                }
            }
        }
    } else if let Within::Documents(docs) = &question.within
        && (2..=MAX_NAMED).contains(&docs.len())
        && compares(text)
    {
        let listed = docs
            .iter()
            .filter_map(|doc| catalogue.get(*doc))
            .filter(|listed| question.filter.holds(listed));
        parts.extend(listed.map(|listed| Part {
            what: listed.label.clone(),
            within: Within::Documents(vec![listed.doc()]),
            item: item.clone(),
        }));
    }
    parts.truncate(MAX_PARTS);
    if parts.len() < 2 {
        let whole = Part {
            what: String::new(),
            within: question.within.clone(),
            item: question.item.clone(),
        };
        parts = vec![whole];
    }
    Plan { parts, missing }
}

fn compares(text: &str) -> bool {
    let lower = text.to_lowercase();
    COMPARES.iter().any(|word| lower.contains(word))
}

fn section(text: &str) -> Option<ItemRef> {
    let lower = text.to_lowercase();
    let (_, item) = SECTIONS.iter().find(|(name, _)| lower.contains(name))?;
    item.parse().ok()
}

/// The years a question names, those between the ends of a span too.
fn years(text: &str, named: &[u16]) -> Vec<u16> {
    let lower = text.to_lowercase();
    if let [from, to] = named
        && to - from <= MAX_YEARS
        && ["to", "through", "until", "and", "-", "–"]
            .iter()
            .any(|word| spans(&lower, *from, word, *to))
    {
        return (*from..=*to).collect();
    }
    named.to_vec()
}

/// `2019 to 2022`, `2019–2022`; with `and` only behind `between`.
fn spans(lower: &str, from: u16, word: &str, to: u16) -> bool {
    let glued = ["", " "].map(|space| format!("{from}{space}{word}{space}"));
    let until = [
        to.to_string(),
        format!("fy{to}"),
        format!("fy {to}"),
        format!("fiscal {to}"),
    ];
    let found = glued
        .iter()
        .filter(|glued| word.len() < 4 || glued.contains(' '))
        .any(|glued| {
            until
                .iter()
                .any(|until| lower.contains(&format!("{glued}{until}")))
        });
    found && (word != "and" || lower.contains("between"))
}

/// A company that a question names, with its filings within the scope of the question.
struct Company<'a> {
    /// As its filings state it, else as the question does.
    name: &'a str,
    filings: Vec<&'a Listed>,
}

impl<'a> Company<'a> {
    /// The company of what search routed by: its name there is folded, or what its files are called.
    fn of(chip: &'a Chip, question: &Question, catalogue: &'a Catalogue) -> Self {
        let inside: Option<BTreeSet<DocId>> = match &question.within {
            Within::All => None,
            Within::Documents(docs) => Some(docs.iter().copied().collect()),
        };
        let with_trees = || {
            catalogue
                .documents()
                .iter()
                .filter(|listed| listed.entry().is_some())
        };
        let mut named: Vec<&Listed> = with_trees()
            .filter(|listed: &&'a Listed| {
                values(listed, Axis::Company).any(|name| name == chip.value)
            })
            .collect();
        if named.is_empty() {
            named = with_trees()
                .filter(|listed| {
                    listed.entry().is_some_and(|entry| {
                        aliases(entry).iter().any(|alias| alias.name == chip.value)
                    })
                })
                .collect();
        }
        let name = named
            .iter()
            .find_map(|listed| Axis::Company.values(listed).first().copied())
            .unwrap_or(&chip.from);
        // Filings under a former name are its filings, too.
        let known: BTreeSet<String> = named.iter().flat_map(|listed| numbers(listed)).collect();
        let docs: BTreeSet<DocId> = named.iter().map(|listed| listed.doc()).collect();
        Self {
            name,
            filings: with_trees()
                .filter(|listed: &&Listed| {
                    docs.contains(&listed.doc())
                        || numbers(listed).iter().any(|number| known.contains(number))
                })
                .filter(|listed: &&Listed| {
                    inside
                        .as_ref()
                        .is_none_or(|inside| inside.contains(&listed.doc()))
                        && question.filter.holds(listed)
                })
                .collect(),
        }
    }

    /// Its filings about a year: of the form that is named, else the annual reports, else what there is.
    fn about(&self, year: Option<u16>, form: Option<&str>) -> Vec<DocId> {
        let year = year.map(|year| year.to_string());
        let is_of = |listed: &Listed, axis: Axis, wanted: &str| {
            let wanted = fold(axis, wanted);
            values(listed, axis).any(|value| value == wanted)
        };
        let all: Vec<&Listed> = self
            .filings
            .iter()
            .filter(|listed: &&&Listed| {
                year.as_ref()
                    .is_none_or(|year| is_of(listed, Axis::FiscalYear, year))
            })
            .copied()
            .collect();
        let mut chosen: Vec<&Listed> = all
            .iter()
            .filter(|listed: &&&Listed| is_of(listed, Axis::Form, form.unwrap_or("10-K")))
            .copied()
            .collect();
        if chosen.is_empty() {
            chosen = all;
        }
        // Of a company without a year, the newest of them speaks.
        if year.is_none() {
            chosen.sort_by(|a, b| {
                Axis::Period
                    .values(b)
                    .cmp(&Axis::Period.values(a))
                    .then(a.doc().cmp(&b.doc()))
            });
            chosen.truncate(1);
        }
        chosen.into_iter().map(Listed::doc).collect()
    }
}

/// What its issuer keeps under another name.
fn numbers(listed: &Listed) -> Vec<String> {
    listed
        .entry()
        .map(|entry| identity(&entry.facts))
        .unwrap_or_default()
}

/// The values of a filing, as values are compared.
fn values(listed: &Listed, axis: Axis) -> impl Iterator<Item = String> {
    axis.values(listed)
        .into_iter()
        .map(move |value| fold(axis, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stemma_catalog::fixtures::of_company;
    use stemma_document::{Fact, FactSource};

    fn catalogue() -> Catalogue {
        let filing = |company: &str, form: &str, year: &str| {
            let mut entry = of_company(&format!("{company}_{year}_{form}.pdf"), company);
            entry.facts.form = Some(Fact::text(form, None));
            entry.facts.fiscal_year = Some(Fact::stated(year, FactSource::Derived));
            entry.facts.cik = (company == "3M").then(|| Fact::text("0000066740", None));
            entry
        };
        let renamed = |form: &str, year: &str| {
            let mut entry = filing("3M", form, year);
            entry.facts.issuer = Some(Fact::text("MINNESOTA MINING", None));
            entry
        };
        Catalogue::of_entries([
            filing("3M", "10-K", "2021"),
            filing("3M", "10-K", "2022"),
            filing("3M", "10-Q", "2022"),
            filing("3M", "10-K", "2023"),
            filing("The BOEING Company", "10-K", "2022"),
            renamed("10-K", "2024"),
        ])
    }

    fn planned(question: &Question, companies: &[&str]) -> (Vec<String>, Vec<String>) {
        let first = Found {
            routed: companies
                .iter()
                .map(|company: &&str| Chip {
                    facet: "company".into(),
                    value: fold(Axis::Company, company),
                    from: "as asked".into(),
                    documents: 1,
                })
                .collect(),
            ..Found::default()
        };
        let catalogue = catalogue();
        let plan = plan(question, &question.text, &first, &catalogue);
        (
            plan.parts
                .iter()
                .map(|part: &Part| {
                    let names = match &part.within {
                        Within::All => "all".to_owned(),
                        Within::Documents(docs) => docs
                            .iter()
                            .map(|doc| catalogue.get(*doc).unwrap().label.clone())
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
    fn sections_by_filings() {
        let parts = |text: &str, companies: &[&str]| planned(&Question::of(text), companies);
        let (found, missing) = parts("3M's risk factors 2022 vs 2023", &["3M"]);
        assert_eq!(
            (found, missing.len()),
            (
                vec!["3M_2022_10-K 1A".to_owned(), "3M_2023_10-K 1A".to_owned()],
                0
            )
        );
        let (found, missing) = parts(
            "How did revenue of 3M and Boeing differ from 2021 to 2023?",
            &["3M", "BOEING"],
        );
        assert_eq!(
            found,
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
        // One year of one company, or none that is named, is one question.
        assert_eq!(parts("3M capex in 2022", &["3M"]).0, ["all"]);
        assert_eq!(parts("capex 2021 vs 2022", &[]).0, ["all"]);
        // Half of a comparison is the whole question.
        assert_eq!(
            parts("Boeing revenue 2021 vs 2022", &["BOEING"]),
            (
                vec!["all".to_owned()],
                vec!["The BOEING Company 2021".to_owned()]
            )
        );
    }

    #[test]
    fn a_scope_is_never_left() {
        let catalogue = catalogue();
        let doc = |label: &str| catalogue.resolve(label).unwrap().doc();
        let scope = vec![doc("3M_2021_10-K"), doc("3M_2022_10-K")];
        let question = Question {
            within: Within::Documents(scope),
            ..Question::of("3M margins 2021 vs 2023")
        };
        assert_eq!(planned(&question, &["3M"]).1, ["3M 2023"]);
        let compare = Question {
            text: "Compare the margins".into(),
            ..question
        };
        assert_eq!(planned(&compare, &[]).0, ["3M_2021_10-K", "3M_2022_10-K"]);
    }

    #[test]
    fn spans_of_years_are_filled() {
        for (text, expected) in [
            ("2019 to 2022", vec![2019, 2020, 2021, 2022]),
            ("FY2019–2021", vec![2019, 2020, 2021]),
            ("between 2020 and 2022", vec![2020, 2021, 2022]),
            ("2019 and 2022", vec![2019, 2022]),
            ("2022 vs 2019", vec![2019, 2022]),
        ] {
            assert_eq!(
                years(text, &Read::read(text, &[]).years),
                expected,
                "{text}"
            );
        }
    }
}

//! Facts that a filing states about itself: on its cover, in its signature block, in the header of its submission. File
//! names are never used, and nothing is guessed (`docs/adr/0009-stated-facts.md`).
//!
//! A document without the cover of a form may be an earnings release (by its headline) or an annual report (by its title).
//! The header of an EDGAR submission and the tags of a cover fill in missing facts.

use stemma_document::text::all_lines;
use stemma_document::{Fact, FactDefinition, FactSource, FilingFacts, Source};
use stemma_reading::calendar::CalendarDate;
use stemma_reading::language::detect_language;

use super::front_page::front_pages;
use super::{cover_page, fiscal, press_release, registrant};

pub(super) fn extract_facts(source: &Source) -> FilingFacts {
    let front = front_pages(source);
    let signed = registrant::signed_name(source);
    let mut facts = cover_page::cover_facts(&front, signed.as_ref())
        .unwrap_or_else(|| press_release::release_or_report_facts(&front, source));
    // What no tag states is derived, so tags of what can be derived are read after that.
    let (derivable, stated): (Vec<_>, Vec<_>) = FactDefinition::ALL
        .iter()
        .partition(|definition| definition.is_derivable());
    apply_tags(source, &mut facts, &stated);
    apply_header(source, &mut facts);
    fiscal::fill_fiscal_period(&mut facts, source);
    apply_tags(source, &mut facts, &derivable);
    facts.language = language_of(source);
    facts
}

// The header is what the filer declared, and the text was read by rules: where they differ, the header counts. Where they
// agree, the text has the page and the spelling. As the text prints them: file number.
fn apply_header(source: &Source, facts: &mut FilingFacts) {
    // A document that the archive serves alone, or that is data, states its type in place of the form.
    let has_header = source.metadata.contains_key("accession");
    let form = header_fact(source, "form").filter(|_| has_header);
    let form = form.or_else(|| header_fact(source, "edgar.type"));
    if !has_header && form.is_none() {
        return;
    }
    facts.form = declared(facts.form.take(), form, |a, b| a == b);
    facts.issuer = declared(
        facts.issuer.take(),
        header_fact(source, "company"),
        is_same_company,
    );
    facts.period_end = declared(
        facts.period_end.take(),
        header_date(source, "period"),
        |a, b| a == b,
    );
    facts.filed = header_date(source, "filed");
    facts.file_number = facts
        .file_number
        .take()
        .or_else(|| header_fact(source, "file_number"));
    let cik = header_fact(source, "cik").and_then(|fact| {
        let cik = FilingFacts::parse_cik(&fact.value)?;
        Some(fact.with_value(cik))
    });
    facts.cik = cik.or(facts.cik.take());
    facts.accession = header_fact(source, "accession").and_then(|fact| {
        let accession = FilingFacts::parse_accession(&fact.value)?;
        Some(fact.with_value(accession))
    });
    facts.sic = header_fact(source, "sic");
    let former = source.metadata.get("former_names");
    facts.former_names = former
        .iter()
        .flat_map(|names| names.split("; "))
        .map(|name| Fact::from_source(name, FactSource::Header))
        .collect();
}

// The filer declares the cover in tags as in a header; the header of a submission counts more, because EDGAR checks it.
fn apply_tags(source: &Source, facts: &mut FilingFacts, definitions: &[&FactDefinition]) {
    for definition in definitions {
        if let Some(tag) = definition.tag
            && let Some(fact) = metadata_fact(source, tag.key, FactSource::Tags)
            && let Some(value) = definition.canonical(&fact.value)
        {
            let read = definition.values(facts).into_iter().next();
            let is_confirmed = read.is_some_and(|read| {
                read.value == value
                    || definition.name == "company" && is_same_company(&read.value, &value)
            });
            if !is_confirmed {
                definition.set(facts, fact.with_value(value));
            }
        }
    }
}

fn declared(
    read: Option<Fact>,
    header: Option<Fact>,
    agree: fn(&str, &str) -> bool,
) -> Option<Fact> {
    match (read, header) {
        (Some(read), Some(header)) if !agree(&read.value, &header.value) => Some(header),
        (read, header) => read.or(header),
    }
}

/// Whether a printed name and a conformed one are of the same company. Conformed names have no punctuation, shorten words
/// (`CORP`, `CO`) and may end with a state (`/DE/`).
pub fn is_same_company(printed: &str, conformed: &str) -> bool {
    let printed = name_words(printed);
    let conformed = name_words(
        conformed
            .split_once('/')
            .map_or(conformed, |(name, _)| name),
    );
    !printed.is_empty()
        && printed.len() == conformed.len()
        && printed
            .iter()
            .zip(&conformed)
            .all(|(a, b)| a.starts_with(b.as_str()) || b.starts_with(a.as_str()))
}

fn name_words(name: &str) -> Vec<String> {
    let name = name.split(" /").next().unwrap_or(name).to_uppercase();
    let name = name
        .replace('&', " AND ")
        .replace(['.', '\'', '’', ','], "");
    let words = name.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty() && *word != "THE");
    words.map(str::to_owned).collect()
}

fn header_fact(source: &Source, key: &str) -> Option<Fact> {
    metadata_fact(source, key, FactSource::Header)
}

fn metadata_fact(source: &Source, key: &str, from: FactSource) -> Option<Fact> {
    let value = source.metadata.get(key).filter(|value| !value.is_empty())?;
    Some(Fact::from_source(
        value.chars().take(200).collect::<String>(),
        from,
    ))
}

fn header_date(source: &Source, key: &str) -> Option<Fact> {
    header_fact(source, key).filter(|date| CalendarDate::from_iso(&date.value).is_some())
}

fn language_of(source: &Source) -> Option<Fact> {
    let lines = all_lines(&source.body);
    let page = lines.first().and_then(|line| line.page);
    detect_language(lines.iter().map(|line| line.text)).map(|code| Fact::from_text(code, page))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{lines, paged};
    use super::*;

    fn render(facts: &FilingFacts) -> String {
        let stated = facts.entries();
        let page = |fact: &Fact| fact.page.map_or("-".into(), |page| page.to_string());
        stated
            .iter()
            .map(|(name, fact)| format!("{name}={} p{}\n", fact.value, page(fact)))
            .collect()
    }

    const TOP: &str = "UNITED STATES\nSECURITIES AND EXCHANGE COMMISSION\nWashington, D.C. 20549\n";

    #[test]
    fn annual_report_cover() {
        let cover = format!(
            "{TOP}FORM 10-K\n(Mark One)\n☒ ANNUAL REPORT PURSUANT TO SECTION 13\nFor the fiscal year ended\nJune 30, 2022\n\
             or\nCommission File Number 001-98765\nACME ANVILS, INC.\n(Exact name of registrant as specified in its charter)\n\
             Ohio 12-3456789\nThe shares of the company are listed and the form is not for sale with that"
        );
        insta::assert_snapshot!(render(&extract_facts(&paged(&["Letter to the owners of the shares", &cover]))), @r"
        company=ACME ANVILS, INC. p2
        form=10-K p2
        fiscal_year=2022 p2
        fiscal_period=FY p2
        period_end=2022-06-30 p2
        file_number=001-98765 p2
        language=en p1
        ");
    }

    #[test]
    fn current_report_with_captions_below_values() {
        let cover = format!(
            "{TOP}FORM 8-K/A\nCURRENT REPORT\nDate of report (Date of earliest event reported): May 20, 2022 (May 18, 2022)\n\
             Acme Anvils, Inc.\n(Exact name of registrant as specified in charter)\nOhio 1-10299 12-3456789\n\
             (State or other (Commission (IRS Employer\nof incorporation) File Number) Identification No.)"
        );
        insta::assert_snapshot!(render(&extract_facts(&paged(&[&cover]))), @r"
        company=Acme Anvils, Inc. p1
        form=8-K/A p1
        period_end=2022-05-18 p1
        file_number=1-10299 p1
        irs_number=12-3456789 p1
        state=Ohio p1
        language=en p1
        ");
    }

    #[test]
    fn quarterly_report_in_columns() {
        let cover = format!(
            "{TOP}FORM 10-Q\nFor the quarterly period ended Commission file\nMarch 31, 2021 number 1-5805\n\
             A CME A NVILS & Co.\n(Exact name of registrant as specified in its charter)"
        );
        let text = "Our Annual Report on Form 10-K for the year ended\nDecember 31, 2020 is filed.";
        insta::assert_snapshot!(render(&extract_facts(&paged(&[&cover, text]))), @r"
        company=ACME ANVILS & Co. p1
        form=10-Q p1
        fiscal_year=2021 p1
        fiscal_period=Q1 p1
        period_end=2021-03-31 p1
        file_number=1-5805 p1
        language=en p1
        ");
    }

    #[test]
    fn unstated_facts_stay_empty() {
        let paper =
            paged(&["A study of anvils and of the way they are used in the art\nby W. E. Coyote"]);
        insta::assert_snapshot!(render(&extract_facts(&paper)), @"language=en p1");
        assert!(extract_facts(&lines("")).entries().is_empty());
    }

    #[test]
    fn submission_header_fills_missing_facts() {
        let mut source = lines(
            "some text of the filing that has no cover and is in the language of the company",
        );
        for (key, value) in [
            ("accession", "1"),
            ("form", "10-K"),
            ("company", "ACME"),
            ("period", "2021-12-31"),
        ] {
            source.metadata.insert(key.into(), value.into());
        }
        insta::assert_snapshot!(render(&extract_facts(&source)), @r"
        company=ACME p-
        form=10-K p-
        fiscal_year=2021 p-
        fiscal_period=FY p-
        period_end=2021-12-31 p-
        language=en p-
        ");
    }

    #[test]
    fn a_document_of_a_submission_alone_is_of_the_form_of_its_type() {
        let mut source = lines("FORM 10-K\nsome text of the filing that is in the language of it");
        source.metadata.insert("edgar.type".into(), "ARS".into());
        assert_eq!(extract_facts(&source).form.unwrap().value, "ARS");
    }

    #[test]
    fn the_header_counts_where_text_and_header_differ() {
        let cover = format!(
            "{TOP}FORM 10-K\nFor the fiscal year ended June 30, 2022\nCommission File Number 1-98765\nAcme Anvils, Inc.\n\
             (Exact name of registrant as specified in its charter)\nThe shares of the company are listed and the form is for that"
        );
        let facts = |company: &str, form: &str, period: &str| {
            let mut source = paged(&[&cover]);
            for (key, value) in [
                ("accession", "0000000077-22-000012"),
                ("form", form),
                ("company", company),
                ("period", period),
                ("file_number", "001-98765"),
                ("sic", "3420"),
                ("former_names", "ACME IRON WORKS; ACME NAILS"),
            ] {
                source.metadata.insert(key.into(), value.into());
            }
            render(&extract_facts(&source))
        };
        insta::assert_snapshot!(facts("ACME ANVILS INC /OH/", "10-K", "2022-06-30"), @r"
        company=Acme Anvils, Inc. p1
        form=10-K p1
        fiscal_year=2022 p1
        fiscal_period=FY p1
        period_end=2022-06-30 p1
        file_number=1-98765 p1
        accession=0000000077-22-000012 p-
        sic=3420 p-
        language=en p1
        former_name=ACME IRON WORKS p-
        former_name=ACME NAILS p-
        ");
        insta::assert_snapshot!(facts("HAMMER TRUST 2022-1", "10-K405", "2021-06-30"), @r"
        company=HAMMER TRUST 2022-1 p-
        form=10-K405 p-
        fiscal_year=2021 p-
        fiscal_period=FY p-
        period_end=2021-06-30 p-
        file_number=1-98765 p1
        accession=0000000077-22-000012 p-
        sic=3420 p-
        language=en p1
        former_name=ACME IRON WORKS p-
        former_name=ACME NAILS p-
        ");
    }

    #[test]
    fn printed_and_conformed_names_are_compared() {
        for (printed, conformed) in [
            ("Apple Computer, Inc.", "APPLE COMPUTER INC"),
            ("The Acme Company", "ACME CO"),
            ("Acme & Sons Corporation", "ACME AND SONS CORP /DE/"),
            ("Wells Acme & Company", "WELLS ACME & COMPANY/MN"),
            ("O’Acme", "O'ACME"),
        ] {
            assert!(is_same_company(printed, conformed), "{printed} {conformed}");
        }
        for (printed, conformed) in [
            ("Acme Anvils, Inc.", "ACME HAMMERS INC"),
            ("Acme Trust 2022-1", "ACME TRUST 2022-2"),
            ("Acme", "ACME HOLDINGS INC"),
            ("", "ACME"),
        ] {
            assert!(
                !is_same_company(printed, conformed),
                "{printed} {conformed}"
            );
        }
    }

    #[test]
    fn tags_of_the_cover_count_where_the_text_differs_or_says_nothing() {
        let cover = format!(
            "{TOP}FORM 10-K\nFor the fiscal year ended February 1, 2025\n\
             ACME ANVILS, INC.\n(Exact name of registrant as specified in its charter)"
        );
        let mut source = paged(&[&cover]);
        let tags = [
            ("tags.cik", "0000000077"),
            ("tags.company", "Acme Anvils Inc"),
            ("tags.form", "10-K/A"),
            ("tags.fiscal_year", "2024"),
            ("tags.fiscal_period", "H2"),
        ];
        let tags = tags.map(|(name, value)| (name.to_owned(), value.to_owned()));
        source.metadata.extend(tags);
        let facts = extract_facts(&source);
        insta::assert_snapshot!(render(&facts), @r"
        company=ACME ANVILS, INC. p1
        form=10-K/A p-
        fiscal_year=2024 p-
        fiscal_period=FY p1
        period_end=2025-02-01 p1
        cik=77 p-
        language=en p1
        ");
        let cik = facts.cik.unwrap();
        assert_eq!((cik.value.as_str(), cik.source), ("77", FactSource::Tags));

        // The header of a submission counts more.
        let header = [("accession", "0000000077-25-000001"), ("form", "10-K")];
        let header = header.map(|(name, value)| (name.to_owned(), value.to_owned()));
        source.metadata.extend(header);
        let facts = extract_facts(&source);
        assert_eq!(facts.form.unwrap().value, "10-K");
    }
}

//! Figures of parts of a company whose names have words, letters and figures in common with others.

use std::fmt::Write;

use stemma_xbrl::read_facts;

use super::tests::check_declared_figures;
use super::*;

// Facts of 2024 in millions, as (concept, member or nothing, figure), each on a line of its own.
fn filing(facts: &[(&str, &str, &str)]) -> FactTable {
    let mut contexts = String::new();
    let mut figures = String::new();
    for (at, (concept, member, figure)) in facts.iter().enumerate() {
        let segment = match *member {
            "" => String::new(),
            member => format!(
                r#"<xbrli:segment><xbrldi:explicitMember dimension="x:PartAxis">{member}</xbrldi:explicitMember></xbrli:segment>"#
            ),
        };
        let context = format!(
            r#"<xbrli:context id="c{at}"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier>{segment}</xbrli:entity>
<xbrli:period><xbrli:startDate>2024-01-01</xbrli:startDate><xbrli:endDate>2024-12-31</xbrli:endDate></xbrli:period></xbrli:context>"#
        );
        contexts.push_str(&context);
        write!(
            figures,
            r#"<ix:nonFraction name="x:{concept}" contextRef="c{at}" unitRef="usd" scale="6">{figure}</ix:nonFraction>"#
        )
        .unwrap();
    }
    let text = format!(
        r#"<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL" xmlns:xbrli="http://www.xbrl.org/2003/instance"
xmlns:xbrldi="http://xbrl.org/2006/xbrldi"><ix:header><ix:resources>{contexts}
<xbrli:unit id="usd"><xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit></ix:resources></ix:header>{figures}</html>"#
    );
    let mut table = read_facts(text.as_bytes());
    let bytes: Vec<u32> = table.facts().map(|fact| fact.byte).collect();
    assert_eq!(bytes.len(), facts.len());
    table.place(|fact| {
        let line = bytes.iter().position(|byte| *byte == fact.byte)?;
        Some((None, u32::try_from(line).ok()?))
    });
    table
}

// What is said about the first figure of a statement whose quote is one line.
fn check(table: &FactTable, text: &str, line: u32) -> DeclaredCheck {
    let facts = TaggedFacts {
        table,
        lines: BTreeSet::from([(0, line)]),
        labels: Vec::new(),
        year_shift: 0,
    };
    let checks = check_declared_figures(text, &facts).into_iter();
    let mut known = checks.filter(|check| *check != DeclaredCheck::Unknown);
    known.next().unwrap_or(DeclaredCheck::Unknown)
}

fn assert_refused(table: &FactTable, text: &str, line: u32, reason: &str) {
    assert_eq!(
        check(table, text, line),
        DeclaredCheck::Differs(reason.into()),
        "{text}"
    );
}

fn assert_confirmed(table: &FactTable, text: &str, line: u32) {
    assert_eq!(check(table, text, line), DeclaredCheck::Confirmed, "{text}");
}

#[test]
fn the_longest_of_nested_names_is_the_part_that_is_meant() {
    let table = filing(&[
        ("OtherComprehensiveIncome", "", "380"),
        (
            "OtherComprehensiveIncome",
            "x:AccumulatedOtherComprehensiveIncomeMember",
            "380",
        ),
        (
            "OtherComprehensiveIncome",
            "x:AccumulatedTranslationAdjustmentMember",
            "484",
        ),
    ]);
    let text = "Other comprehensive income in accumulated translation adjustment was $484 million in 2024.";
    assert_confirmed(&table, text, 2);
    let text = "Other comprehensive income in accumulated translation adjustment was $380 million in 2024.";
    let reason = "484 is declared for Accumulated translation adjustment member";
    assert_refused(&table, text, 0, reason);
}

#[test]
fn figures_in_the_name_of_a_part_are_no_other_figures() {
    let table = filing(&[
        ("EstimateChange", "", "4079"),
        ("EstimateChange", "x:Program777XMember", "3499"),
    ]);
    let text = "The estimate change in program 777 X was $4,079 million in 2024.";
    assert_refused(&table, text, 0, "3499 is declared for Program 777 x member");
    let text =
        "The estimate change in program 777 X was $4,079 million in 2024 and $5 million in 2023.";
    assert_refused(&table, text, 0, "3499 is declared for Program 777 x member");
    assert_confirmed(
        &table,
        "The estimate change in program 777 X was $3,499 million in 2024.",
        1,
    );
}

#[test]
fn a_part_named_before_one_of_two_figures_is_that_of_this_figure() {
    let table = filing(&[
        ("Revenues", "", "1500"),
        ("Revenues", "x:EuropeMember", "77"),
    ]);
    let text =
        "Revenues in Europe were $1,500 million in 2024, compared with $1,400 million in 2023.";
    assert_refused(&table, text, 0, "77 is declared for Europe member");
    assert_confirmed(
        &table,
        "Revenues were $1,500 million in 2024, of which $77 million in Europe.",
        0,
    );
    assert_confirmed(
        &table,
        "Revenues in Europe were $77 million of $1,500 million in 2024.",
        1,
    );
}

#[test]
fn countries_are_parts_by_name_and_by_code() {
    let table = filing(&[
        ("Revenues", "", "1500"),
        ("Revenues", "country:IT", "40"),
        ("Revenues", "country:US", "900"),
    ]);
    for (text, reason) in [
        (
            "Revenues in Italy were $1,500 million in 2024.",
            "40 is declared for Italy",
        ),
        (
            "Revenues in IT were $1,500 million in 2024.",
            "40 is declared for Italy",
        ),
        (
            "Revenues in the U.S. were $1,500 million in 2024.",
            "900 is declared for United States",
        ),
    ] {
        assert_refused(&table, text, 0, reason);
    }
    assert_confirmed(&table, "Revenues in Italy were $40 million in 2024.", 1);
    assert_confirmed(
        &table,
        "The United States had revenues of $900 million in 2024.",
        2,
    );
    assert_confirmed(&table, "U.S. revenues were $900 million in 2024.", 2);
    assert_confirmed(&table, "It had revenues of $1,500 million in 2024.", 0);
}

#[test]
fn parts_whose_names_differ_in_their_first_letter_are_told_apart() {
    let table = filing(&[
        ("Receivables", "", "500"),
        ("Receivables", "x:BCreditRatingMember", "85"),
        ("Receivables", "x:BBBCreditRatingMember", "196"),
    ]);
    assert_confirmed(
        &table,
        "Receivables with BBB credit rating were $196 million in 2024.",
        2,
    );
    assert_confirmed(
        &table,
        "Receivables with B credit rating were $85 million in 2024.",
        1,
    );
    let text = "Receivables with BBB credit rating were $85 million in 2024.";
    assert!(!matches!(check(&table, text, 1), DeclaredCheck::Confirmed));
}

use stemma_xbrl::{FactTable, read_facts};

use super::*;

pub(super) fn check_declared_figures(text: &str, facts: &TaggedFacts<'_>) -> Vec<DeclaredCheck> {
    let statement = Statement::new(text).in_fiscal_years(facts.year_shift);
    let figures = 0..statement.figures.len();
    figures
        .map(|figure| check_declared(&statement, figure, facts))
        .collect()
}

// A statement of income of two years, each figure on a line of its own: revenues 0 and 1, cost 2, a loss 3, Europe 4,
// restricted cash 5, all cash 6, gains before cost tax 7, and before cost and tax 8. Then figures with parts: cash 9, its part
// that is cash 10, which another concept has, too, 11; repurchases 12 and those of a plan 13; equity 14, its part that is paid-in
// capital 15, and another figure under that name 16; revenues of Northern Europe 17; losses of 12 months 18, and those in Europe 19;
// cash of level 1 20; income of stockholders 21, of class A 22 and of class C 23.
const FILING: &str = r#"<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL" xmlns:xbrli="http://www.xbrl.org/2003/instance"
 xmlns:xbrldi="http://xbrl.org/2006/xbrldi" xmlns:ixt="http://www.xbrl.org/inlineXBRL/transformation/2020-02-12"><ix:header><ix:resources>
<xbrli:context id="y24"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier></xbrli:entity><xbrli:period>
<xbrli:startDate>2024-01-01</xbrli:startDate><xbrli:endDate>2024-12-31</xbrli:endDate></xbrli:period></xbrli:context>
<xbrli:context id="y23"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier></xbrli:entity><xbrli:period>
<xbrli:startDate>2023-01-01</xbrli:startDate><xbrli:endDate>2023-12-31</xbrli:endDate></xbrli:period></xbrli:context>
<xbrli:context id="eu"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier><xbrli:segment>
<xbrldi:explicitMember dimension="x:RegionAxis">x:EuropeMember</xbrldi:explicitMember></xbrli:segment></xbrli:entity><xbrli:period>
<xbrli:startDate>2024-01-01</xbrli:startDate><xbrli:endDate>2024-12-31</xbrli:endDate></xbrli:period></xbrli:context>
<xbrli:context id="cash"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier><xbrli:segment>
<xbrldi:explicitMember dimension="x:KindAxis">x:CashMember</xbrldi:explicitMember></xbrli:segment></xbrli:entity><xbrli:period>
<xbrli:startDate>2024-01-01</xbrli:startDate><xbrli:endDate>2024-12-31</xbrli:endDate></xbrli:period></xbrli:context>
<xbrli:context id="plan"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier><xbrli:segment>
<xbrldi:explicitMember dimension="x:PlanAxis">x:December2018PlanMember</xbrldi:explicitMember></xbrli:segment></xbrli:entity><xbrli:period>
<xbrli:startDate>2024-01-01</xbrli:startDate><xbrli:endDate>2024-12-31</xbrli:endDate></xbrli:period></xbrli:context>
<xbrli:context id="paid"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier><xbrli:segment>
<xbrldi:explicitMember dimension="x:EquityAxis">x:AdditionalPaidInCapitalMember</xbrldi:explicitMember></xbrli:segment></xbrli:entity><xbrli:period>
<xbrli:startDate>2024-01-01</xbrli:startDate><xbrli:endDate>2024-12-31</xbrli:endDate></xbrli:period></xbrli:context>
<xbrli:context id="north"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier><xbrli:segment>
<xbrldi:explicitMember dimension="x:RegionAxis">x:NorthernEuropeMember</xbrldi:explicitMember></xbrli:segment></xbrli:entity><xbrli:period>
<xbrli:startDate>2024-01-01</xbrli:startDate><xbrli:endDate>2024-12-31</xbrli:endDate></xbrli:period></xbrli:context>
<xbrli:context id="level1"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier><xbrli:segment>
<xbrldi:explicitMember dimension="x:LevelAxis">x:InputsLevel1Member</xbrldi:explicitMember></xbrli:segment></xbrli:entity><xbrli:period>
<xbrli:startDate>2024-01-01</xbrli:startDate><xbrli:endDate>2024-12-31</xbrli:endDate></xbrli:period></xbrli:context>
<xbrli:context id="class_a"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier><xbrli:segment>
<xbrldi:explicitMember dimension="x:ClassAxis">x:CommonClassAMember</xbrldi:explicitMember></xbrli:segment></xbrli:entity><xbrli:period>
<xbrli:startDate>2024-01-01</xbrli:startDate><xbrli:endDate>2024-12-31</xbrli:endDate></xbrli:period></xbrli:context>
<xbrli:context id="class_c"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier><xbrli:segment>
<xbrldi:explicitMember dimension="x:ClassAxis">x:CapitalClassCMember</xbrldi:explicitMember></xbrli:segment></xbrli:entity><xbrli:period>
<xbrli:startDate>2024-01-01</xbrli:startDate><xbrli:endDate>2024-12-31</xbrli:endDate></xbrli:period></xbrli:context>
<xbrli:unit id="usd"><xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit></ix:resources></ix:header>
<ix:nonNumeric name="dei:EntityRegistrantName" contextRef="y24">ACME.COM, INC.</ix:nonNumeric>
<ix:nonFraction name="us-gaap:Revenues" contextRef="y24" unitRef="usd" scale="6" format="ixt:num-dot-decimal">1,500</ix:nonFraction>
<ix:nonFraction name="us-gaap:Revenues" contextRef="y23" unitRef="usd" scale="6" format="ixt:num-dot-decimal">1,150</ix:nonFraction>
<ix:nonFraction name="us-gaap:CostOfGoodsSold" contextRef="y24" unitRef="usd" scale="6">900</ix:nonFraction>
<ix:nonFraction name="us-gaap:NetIncomeLoss" contextRef="y24" unitRef="usd" scale="6" sign="-">343</ix:nonFraction>
<ix:nonFraction name="us-gaap:Revenues" contextRef="eu" unitRef="usd" scale="6">77</ix:nonFraction>
<ix:nonFraction name="us-gaap:RestrictedCashAndCashEquivalents" contextRef="y24" unitRef="usd" scale="6">12</ix:nonFraction>
<ix:nonFraction name="us-gaap:CashCashEquivalentsRestrictedCash" contextRef="y24" unitRef="usd" scale="6">99</ix:nonFraction>
<ix:nonFraction name="us-gaap:GainBeforeCostTax" contextRef="y24" unitRef="usd" scale="6">63</ix:nonFraction>
<ix:nonFraction name="us-gaap:GainBeforeCostAndTax" contextRef="y24" unitRef="usd" scale="6">88</ix:nonFraction>
<ix:nonFraction name="us-gaap:CashAndCashEquivalents" contextRef="y24" unitRef="usd" scale="6">40</ix:nonFraction>
<ix:nonFraction name="us-gaap:CashAndCashEquivalents" contextRef="cash" unitRef="usd" scale="6">30</ix:nonFraction>
<ix:nonFraction name="us-gaap:Cash" contextRef="cash" unitRef="usd" scale="6">30</ix:nonFraction>
<ix:nonFraction name="us-gaap:StockRepurchased" contextRef="y24" unitRef="usd" scale="6">50</ix:nonFraction>
<ix:nonFraction name="us-gaap:StockRepurchased" contextRef="plan" unitRef="usd" scale="6">20</ix:nonFraction>
<ix:nonFraction name="us-gaap:StockholdersEquity" contextRef="y24" unitRef="usd" scale="6">700</ix:nonFraction>
<ix:nonFraction name="us-gaap:StockholdersEquity" contextRef="paid" unitRef="usd" scale="6">210</ix:nonFraction>
<ix:nonFraction name="us-gaap:AdditionalPaidInCapital" contextRef="y23" unitRef="usd" scale="6">190</ix:nonFraction>
<ix:nonFraction name="us-gaap:Revenues" contextRef="north" unitRef="usd" scale="6">15</ix:nonFraction>
<ix:nonFraction name="us-gaap:Losses12MonthsOrLonger" contextRef="y24" unitRef="usd" scale="6">60</ix:nonFraction>
<ix:nonFraction name="us-gaap:Losses12MonthsOrLonger" contextRef="eu" unitRef="usd" scale="6">25</ix:nonFraction>
<ix:nonFraction name="us-gaap:CashAndCashEquivalents" contextRef="level1" unitRef="usd" scale="6">18</ix:nonFraction>
<ix:nonFraction name="us-gaap:IncomeOfCommonStockholders" contextRef="y24" unitRef="usd" scale="6">300</ix:nonFraction>
<ix:nonFraction name="us-gaap:IncomeOfCommonStockholders" contextRef="class_a" unitRef="usd" scale="6">160</ix:nonFraction>
<ix:nonFraction name="us-gaap:IncomeOfCommonStockholders" contextRef="class_c" unitRef="usd" scale="6">140</ix:nonFraction></html>"#;

fn table() -> FactTable {
    let mut table = read_facts(FILING.as_bytes());
    let numbers: Vec<u32> = table
        .facts()
        .filter(|fact| fact.number().is_some())
        .map(|fact| fact.byte)
        .collect();
    table.place(|fact| {
        let line = numbers.iter().position(|byte| *byte == fact.byte)?;
        Some((None, u32::try_from(line).ok()?))
    });
    table
}

fn check(text: &str, line: u32) -> DeclaredCheck {
    check_row(text, &[line], &[])
}

fn check_row(text: &str, lines: &[u32], labels: &[&str]) -> DeclaredCheck {
    let table = table();
    check_declared_figures(text, &facts_of(&table, lines, labels)).swap_remove(0)
}

fn facts_of<'a>(table: &'a FactTable, lines: &[u32], labels: &[&str]) -> TaggedFacts<'a> {
    TaggedFacts {
        table,
        lines: lines.iter().map(|line| (0, *line)).collect(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        year_shift: 0,
    }
}

#[test]
fn figures_with_the_declared_period_scale_sign_and_concept_are_confirmed() {
    for (text, line) in [
        ("Revenues were $1,500 million in 2024.", 0),
        ("Revenues were $1.5 billion in 2024.", 0),
        (
            "Revenues for the year ended December 31, 2023 were $1,150 million.",
            1,
        ),
        ("Cost of goods sold was $900 million in 2024.", 2),
        ("The net loss was $343 million in 2024.", 3),
        ("Net income was -$343 million in 2024.", 3),
        ("Revenues in Europe were $77 million in 2024.", 4),
        (
            "Revenues were $1,500 million in 2024, of which $77 million in Europe.",
            0,
        ),
        (
            "Cash, cash equivalents and restricted cash were $99 million in 2024.",
            6,
        ),
        ("Cash and cash equivalents were $40 million in 2024.", 9),
        (
            "Cash and cash equivalents in cash were $30 million in 2024.",
            10,
        ),
        (
            "Stock repurchased under the plan of December 2018 was $20 million in 2024.",
            13,
        ),
        (
            "Stockholders' equity in additional paid-in capital was $210 million in 2024.",
            15,
        ),
        (
            "Cash and cash equivalents in inputs of level 1 were $18 million in 2024.",
            20,
        ),
        (
            "Income of common stockholders in capital class C was $140 million in 2024.",
            23,
        ),
    ] {
        assert_eq!(check(text, line), DeclaredCheck::Confirmed, "{text}");
    }
}

#[test]
fn the_same_digits_for_something_else_are_refused_with_what_they_are() {
    for (text, line, reason) in [
        (
            "Revenues were $1,500 million in 2023.",
            0,
            "1,500 is declared for 2024-01-01/2024-12-31, as Revenues",
        ),
        (
            "Revenues were $1,500 billion in 2024.",
            0,
            "1,500 is declared as 1500000000 USD",
        ),
        (
            "Revenues were $1,500 in 2024.",
            0,
            "1,500 is declared as 1500000000 USD",
        ),
        (
            "Cost of goods sold was $1,500 million in 2024.",
            0,
            "1,500 is declared as Revenues, not as Cost of goods sold",
        ),
        (
            "Net income was $343 million in 2024.",
            3,
            "343 is declared as -343000000",
        ),
        (
            "Revenues were -$1,500 million in 2024.",
            0,
            "1,500 is declared as 1500000000",
        ),
        (
            "Revenues were $77 million in 2024.",
            4,
            "77 is declared for Europe member",
        ),
        (
            "Restricted cash and cash equivalents were $99 million in 2024.",
            6,
            "99 is declared as Cash cash equivalents restricted cash, not as Restricted cash and cash equivalents",
        ),
        (
            "Gain before cost and tax was $63 million in 2024.",
            7,
            "63 is declared as Gain before cost tax, not as Gain before cost and tax",
        ),
        (
            "Revenues in Europe were $1,500 million in 2024.",
            0,
            "77 is declared for Europe member",
        ),
        (
            "Revenues were $1,500 million per share in 2024.",
            0,
            "1,500 is declared in USD",
        ),
        (
            "Revenues in the three months ended December 31, 2024 were $1,500 million.",
            0,
            "1,500 is declared for 2024-01-01/2024-12-31, as Revenues",
        ),
    ] {
        assert_eq!(
            check(text, line),
            DeclaredCheck::Differs(reason.into()),
            "{text}"
        );
    }
}

#[test]
fn figures_of_a_part_are_not_those_of_the_whole() {
    for (text, lines, reason) in [
        (
            "Cash and cash equivalents were $30 million in 2024.",
            &[10, 11][..],
            "30 is declared for Cash member",
        ),
        (
            "Cash and cash equivalents in cash were $40 million in 2024.",
            &[9],
            "30 is declared for Cash member",
        ),
        // The month of a date is not a name.
        (
            "Stock repurchased was $20 million in the year ended December 31, 2024.",
            &[13],
            "20 is declared for December 2018 plan member",
        ),
        (
            "Losses of 12 months or longer in Europe were $60 million in 2024.",
            &[18],
            "25 is declared for Europe member",
        ),
    ] {
        let table = table();
        let facts = facts_of(&table, lines, &[]);
        let checks = check_declared_figures(text, &facts);
        // A number in the name of a concept is a figure that no fact has.
        let check = checks
            .into_iter()
            .find(|check| *check != DeclaredCheck::Unknown);
        assert_eq!(check, Some(DeclaredCheck::Differs(reason.into())), "{text}");
    }
}

#[test]
fn a_part_with_half_its_name_is_undecided_without_its_row() {
    let text = "Revenues in the northern market were $15 million in 2024.";
    assert_eq!(
        check(text, 17),
        DeclaredCheck::Undecided(
            "15 is declared for Northern europe member, which the statement names only in part"
                .into()
        )
    );
    assert_eq!(
        check_row(text, &[17], &["Northern market"]),
        DeclaredCheck::Confirmed
    );
}

#[test]
fn parts_whose_names_differ_in_a_number_or_letter_are_told_apart() {
    for (text, line, part) in [
        (
            "Cash and cash equivalents in inputs of level 2 were $18 million in 2024, said Note 1.",
            20,
            "Inputs level 1 member",
        ),
        (
            "Income of common stockholders in common class A was $140 million in 2024.",
            23,
            "Common class a member",
        ),
    ] {
        let (DeclaredCheck::Undecided(reason) | DeclaredCheck::Differs(reason)) = check(text, line)
        else {
            panic!("{text} is confirmed");
        };
        assert!(reason.contains(part), "{reason}");
    }
    let row = "Cash and cash equivalents in inputs of level 2 were $18 million in 2024.";
    let check = check_row(row, &[20], &["Level 1"]);
    assert!(matches!(check, DeclaredCheck::Undecided(_)), "{check:?}");
}

#[test]
fn figures_that_are_not_tagged_are_left_to_the_other_checks() {
    assert_eq!(
        check("Revenues were $1,234 million in 2024.", 0),
        DeclaredCheck::Unknown
    );
    assert_eq!(
        check("Revenues were $1,500 million in 2024.", 1),
        DeclaredCheck::Unknown
    );
}

#[test]
fn statements_about_other_companies_are_noticed() {
    let table = table();
    for (text, name) in [
        ("Bolt's revenues were $1,500 million in 2024.", Some("Bolt")),
        (
            "Revenues of Bolt Corporation were $1,500 million.",
            Some("Bolt"),
        ),
        ("Acme's revenues were $1,500 million in 2024.", None),
        ("The Company's revenues were $1,500 million.", None),
        ("Revenues of ACME.COM, INC. were $1,500 million.", None),
        ("Revenues were $1,500 million.", None),
    ] {
        assert_eq!(
            foreign_company(text, &table, "the Company sells anvils"),
            name,
            "{text}"
        );
    }
}

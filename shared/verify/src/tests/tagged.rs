//! Claims over a filing that tags its figures.

use std::fmt::Write;

use stemma_document::{Page, PageNo, Pt};
use stemma_xbrl::read_facts;

use super::generated::{Random, placed_line};
use super::{Document, citation, copied};
use crate::StatedClaim;

const YEARS: [i32; 2] = [2024, 2023];
const ROWS: [(&str, &str); 4] = [
    ("Net sales", "us-gaap:SalesRevenueNet"),
    ("Cost of sales", "us-gaap:CostOfSales"),
    ("Interest expense", "us-gaap:InterestExpense"),
    ("Net loss", "us-gaap:NetIncomeLoss"),
];
const INJECTIONS: usize = 200;

/// What the facts of a filing say differently than its table.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tagging {
    Right,
    OtherYears,
    OtherScale,
    Quarters,
}

struct TaggedFiling {
    document: Document,
    values: Vec<[usize; 2]>,
}

fn filing(random: &mut Random, tagging: Tagging) -> TaggedFiling {
    let values: Vec<[usize; 2]> = (1..=ROWS.len())
        .map(|row| [0, 1].map(|year| row * 1_000 + year * 500 + 100 + random.below(300)))
        .collect();
    let mut html = String::from(
        r#"<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL" xmlns:xbrli="http://www.xbrl.org/2003/instance"><ix:header><ix:resources>
<xbrli:unit id="usd"><xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit>"#,
    );
    let months = if tagging == Tagging::Quarters {
        "10"
    } else {
        "01"
    };
    for year in YEARS {
        let _ = write!(
            html,
            r#"<xbrli:context id="y{year}"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier></xbrli:entity><xbrli:period>
<xbrli:startDate>{year}-{months}-01</xbrli:startDate><xbrli:endDate>{year}-12-31</xbrli:endDate></xbrli:period></xbrli:context>"#
        );
    }
    html.push_str("</ix:resources></ix:header>");
    let right = |at: usize| Some(380.0 + 110.0 * at as f32);
    let mut lines = vec![
        vec![("Consolidated statements of income".to_owned(), None)],
        vec![("(In millions)".to_owned(), None)],
    ];
    lines.push(
        (0..2)
            .map(|at| (YEARS[at].to_string(), right(at)))
            .collect(),
    );
    for (row, (label, concept)) in ROWS.iter().enumerate() {
        let mut line = vec![((*label).to_owned(), None)];
        for at in 0..2 {
            let value = values[row][at];
            let year = match tagging {
                Tagging::OtherYears => YEARS[1 - at],
                _ => YEARS[at],
            };
            let scale = if tagging == Tagging::OtherScale { 3 } else { 6 };
            let _ = write!(
                html,
                r#"<ix:nonFraction name="{concept}" contextRef="y{year}" unitRef="usd" scale="{scale}">{value}</ix:nonFraction>"#
            );
            line.push((value.to_string(), right(at)));
        }
        lines.push(line);
    }
    html.push_str("</html>");
    let mut facts = read_facts(html.as_bytes());
    facts.place(|fact| {
        let row = ROWS
            .iter()
            .position(|(_, concept)| *concept == fact.concept)?;
        Some((PageNo::new(1), u32::try_from(3 + row).ok()?))
    });
    let placed = lines.iter().zip(1..);
    let page = Page {
        width: Pt::new(700.0),
        height: Pt::new(800.0),
        lines: placed
            .map(|(line, at)| placed_line(line, 20.0 * at as f32))
            .collect(),
        ..Page::default()
    };
    let mut document = Document::new(vec![page]);
    document.facts = Some(facts);
    TaggedFiling { document, values }
}

#[test]
fn what_a_filing_tags_decides() {
    let mut random = Random(0x5EED);
    for tagging in [
        Tagging::Right,
        Tagging::OtherYears,
        Tagging::OtherScale,
        Tagging::Quarters,
    ] {
        let mut injected = 0;
        while injected < INJECTIONS {
            let filing = filing(&mut random, tagging);
            for (row, (label, _)) in ROWS.iter().enumerate() {
                let at = random.below(2);
                let quote = filing.document.pages[0].lines[3 + row].text.clone();
                let value = filing.values[row][at].to_string();
                let year = YEARS[at].to_string();
                let claim = StatedClaim {
                    statement: format!("{label} of Acme Inc. was {{a}} in {year}."),
                    citations: vec![citation(&quote)],
                    figures: vec![copied("a", 1, [&value, "million", label, &year])],
                    pictures: Vec::new(),
                };
                let is_shown = super::is_shown(&filing.document.verify(&claim));
                assert_eq!(is_shown, tagging == Tagging::Right, "{tagging:?} {claim:?}");
                injected += 1;
            }
        }
    }
}

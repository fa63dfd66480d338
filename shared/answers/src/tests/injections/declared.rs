//! Claims over a filing that tags its figures: what is judged is what the product judges, with the facts of the quoted lines.

use std::fmt::Write;

use stemma_document::{Page, PageNo, Pt};
use stemma_xbrl::{FactTable, read_facts};

use super::{INJECTIONS, Random, judge_declared, placed_line};
use crate::draft_answer::{DraftCitation, DraftClaim};
use crate::figures::CitedPages;
use crate::verdict::Verdict;
use stemma_verify::QuoteTarget;

const YEARS: [i32; 2] = [2024, 2023];
// Label and concept of each row. The last figures are negative.
const ROWS: [(&str, &str); 4] = [
    ("Net sales", "us-gaap:SalesRevenueNet"),
    ("Cost of sales", "us-gaap:CostOfSales"),
    ("Interest expense", "us-gaap:InterestExpense"),
    ("Net loss", "us-gaap:NetIncomeLoss"),
];
const LOSS: usize = 3;
const HEADS: [&str; 2] = [
    "Consolidated statements of income of Acme Inc.",
    "(In millions)",
];

struct TaggedFiling {
    page: Page,
    facts: FactTable,
    values: Vec<[i64; 2]>,
}

// All figures differ, so that none is right by accident.
fn filing(random: &mut Random) -> TaggedFiling {
    let values: Vec<[i64; 2]> = (1..=ROWS.len() as i64)
        .map(|row| [0, 1].map(|year| row * 1_000 + year * 500 + random.between(100, 400)))
        .collect();
    let mut html = String::from(
        r#"<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL" xmlns:xbrli="http://www.xbrl.org/2003/instance"><ix:header><ix:resources>
<xbrli:unit id="usd"><xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit>"#,
    );
    for year in YEARS {
        let _ = write!(
            html,
            r#"<xbrli:context id="y{year}"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier></xbrli:entity><xbrli:period>
<xbrli:startDate>{year}-01-01</xbrli:startDate><xbrli:endDate>{year}-12-31</xbrli:endDate></xbrli:period></xbrli:context>"#
        );
    }
    html.push_str(r#"</ix:resources></ix:header><ix:nonNumeric name="dei:EntityRegistrantName" contextRef="y2024">Acme Inc.</ix:nonNumeric>"#);
    let years = YEARS.map(|year| year.to_string());
    let right = |at: usize| Some(380.0 + 90.0 * at as f32);
    let mut lines: Vec<Vec<(String, Option<f32>)>> =
        HEADS.map(|head| vec![(head.to_owned(), None)]).into();
    lines.push((0..2).map(|at| (years[at].clone(), right(at))).collect());
    for (row, (label, concept)) in ROWS.iter().enumerate() {
        let mut line = vec![((*label).to_owned(), None)];
        for (at, year) in YEARS.iter().enumerate() {
            let value = values[row][at];
            let (sign, shown) = match row {
                LOSS => ("-", format!("({value})")),
                _ => ("", value.to_string()),
            };
            let _ = write!(
                html,
                r#"<ix:nonFraction name="{concept}" contextRef="y{year}" unitRef="usd" scale="6" sign="{sign}">{value}</ix:nonFraction>"#
            );
            line.push((shown, right(at)));
        }
        lines.push(line);
    }
    html.push_str("</html>");
    let mut facts = read_facts(html.as_bytes());
    facts.place(|fact| {
        let row = ROWS
            .iter()
            .position(|(_, concept)| *concept == fact.concept)?;
        Some((PageNo::new(4), u32::try_from(HEADS.len() + 1 + row).ok()?))
    });
    let placed = lines.iter().zip(1..);
    TaggedFiling {
        page: Page {
            width: Pt::new(700.0),
            height: Pt::new(800.0),
            lines: placed
                .map(|(line, at)| placed_line(line, 20.0 * at as f32))
                .collect(),
            ..Page::default()
        },
        facts,
        values,
    }
}

impl TaggedFiling {
    // A claim that quotes the row of the figure.
    fn judge(&self, row: usize, statement: String) -> Verdict {
        let claim = DraftClaim {
            statement,
            citations: vec![DraftCitation {
                passage: 1,
                quote: self.page.lines[HEADS.len() + 1 + row].text.clone(),
            }],
            computation: None,
            pictures: Vec::new(),
        };
        let pages = CitedPages {
            before: None,
            targets: &[QuoteTarget::page(4, &self.page)],
            year_shift: 0,
        };
        judge_declared(&pages, &claim, Some(&self.facts))
    }
}

#[test]
fn claims_with_one_injected_error_are_never_verified() {
    let mut random = Random(0x5EED);
    let mut counts = [0; 6];
    while counts.iter().any(|count| *count < INJECTIONS) {
        let filing = filing(&mut random);
        for (row, (label, _)) in ROWS.iter().enumerate() {
            for (at, year) in YEARS.iter().enumerate() {
                let value = filing.values[row][at];
                let other = ROWS[(row + 1 + random.below(ROWS.len() - 1)) % ROWS.len()].0;
                let of = |label: &str, figure: String, year: i32, company: &str| {
                    format!("{label} of {company} was {figure} in {year}.")
                };
                let figure = format!("${value} million");
                let verdicts = [
                    ("right", of(label, figure.clone(), *year, "Acme Inc.")),
                    (
                        "year",
                        of(label, figure.clone(), YEARS[1 - at], "Acme Inc."),
                    ),
                    ("concept", of(other, figure.clone(), *year, "Acme Inc.")),
                    (
                        "scale",
                        of(label, format!("${value} billion"), *year, "Acme Inc."),
                    ),
                    ("sign", of(label, format!("-{figure}"), *year, "Acme Inc.")),
                    ("entity", of(label, figure.clone(), *year, "Globex Inc.")),
                ];
                for (kind, (name, statement)) in verdicts.into_iter().enumerate() {
                    // A loss may be written as a negative figure.
                    if name == "sign" && row == LOSS {
                        continue;
                    }
                    let verdict = filing.judge(row, statement.clone());
                    assert_eq!(
                        verdict.verified,
                        name == "right",
                        "{name}: {statement} {verdict:?}"
                    );
                    let reason = verdict.reason.unwrap_or_default();
                    let cause = match name {
                        "right" => "",
                        "entity" => "names Globex",
                        // A row of another name is refused by the table, too.
                        "concept" => " ",
                        _ => "is declared",
                    };
                    assert!(reason.contains(cause), "{name}: {statement} {reason}");
                    counts[kind] += 1;
                }
            }
        }
    }
}

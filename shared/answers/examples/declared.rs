//! Claims made from sampled facts of filings, right and with one injected error each, checked against the tagged facts.
//!
//! usage: declared FILINGS_FOLDER TRUTH.jsonl... (VERBOSE=1 lists claims that are not as expected, ONLY=part
//! checks only the kinds with this word)

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

use rust_decimal::Decimal;
use serde_json::Value;
use stemma_answers::declared::{
    DeclaredCheck, DeclaredFacts, check_declared_figures, foreign_company, member_name,
};
use stemma_xbrl::{Date, FactTable, concept_words, read_facts};

// Fiscal calendars of 52 weeks end on other days each year.
const SAME_PERIOD_DAYS: i32 = 7;

#[derive(Clone)]
struct Claim {
    concept: String,
    company: String,
    period: Value,
    displayed: String,
    scale: i64,
    is_negative: bool,
    byte: u64,
    /// The member of which it is said.
    part: Option<String>,
    /// Said behind the amount: `per share`.
    of_one: &'static str,
    is_percent: bool,
    /// Said behind the period, with another figure.
    is_compared: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args().skip(1);
    let folder = paths
        .next()
        .ok_or("usage: declared FILINGS_FOLDER TRUTH.jsonl...")?;
    let mut counts: BTreeMap<(char, &str), [u32; 3]> = BTreeMap::new();
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut still_true: BTreeMap<(char, &str), u32> = BTreeMap::new();
    for path in paths {
        let name = Path::new(&path)
            .file_stem()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
            .to_owned();
        let half = if name.as_str() < "I" { 'A' } else { 'B' };
        let bytes = std::fs::read(Path::new(&folder).join(format!("{name}.htm")))?;
        let mut table = read_facts(&bytes);
        table.place(|fact| Some((None, line_of(&bytes, u64::from(fact.byte)))));
        let text = |concept: &str| {
            table
                .facts()
                .find(|fact| fact.concept == concept)
                .map(|fact| fact.displayed.to_owned())
                .unwrap_or_default()
        };
        let company = text("dei:EntityRegistrantName");
        let claims = claims(&std::fs::read_to_string(&path)?, &company)?;
        for (at, claim) in claims.iter().enumerate() {
            let other = claims
                .iter()
                .cycle()
                .skip(at + 1)
                .take(claims.len())
                .find(|other| {
                    other.concept != claim.concept
                        && !table.facts().any(|fact| {
                            fact.concept == other.concept && fact.displayed == claim.displayed
                        })
                });
            for (kind, claim) in variants(claim, other)
                .into_iter()
                .chain(part_variants(claim, &table))
                .filter(|(kind, _)| kind.contains(&only))
            {
                let is_plain = claim.part.is_none() && claim.of_one.is_empty() && !claim.is_percent;
                if !kind.starts_with("right") && is_plain && is_declared(&claim, &table) {
                    *still_true.entry((half, kind)).or_default() += 1;
                    continue;
                }
                let facts = DeclaredFacts {
                    table: &table,
                    lines: BTreeSet::from([(0, line_of(&bytes, claim.byte))]),
                    labels: Vec::new(),
                    year_shift: 0,
                };
                let text = sentence(&claim);
                // `Lease payments due in year two` has another figure, which no fact has.
                let check = check_declared_figures(&text, &facts)
                    .into_iter()
                    .find(|check| *check != DeclaredCheck::Unknown)
                    .unwrap_or(DeclaredCheck::Unknown);
                let result = match check {
                    _ if foreign_company(&text, &table, "").is_some() => 1,
                    DeclaredCheck::Confirmed => 0,
                    DeclaredCheck::Differs(_) => 1,
                    DeclaredCheck::Undecided(_) | DeclaredCheck::Unknown => 2,
                };
                if std::env::var_os("VERBOSE").is_some()
                    && (result == 0) != kind.starts_with("right")
                {
                    println!("{name} {kind} {check:?}: {text}");
                }
                counts.entry((half, kind)).or_default()[result] += 1;
            }
        }
    }
    for ((half, kind), [confirmed, refused, unknown]) in counts {
        let true_ones = still_true.get(&(half, kind)).copied().unwrap_or(0);
        println!(
            "half {half} {kind}: {confirmed} confirmed, {refused} refused, {unknown} not decided, \
             {true_ones} left out because the filing declares them"
        );
    }
    Ok(())
}

// Whether a filing declares what a claim with an injected error says: the same figure in both years.
fn is_declared(claim: &Claim, table: &FactTable) -> bool {
    let company = table
        .facts()
        .find(|fact| fact.concept == "dei:EntityRegistrantName");
    let is_own = company.is_some_and(|fact| fact.displayed == claim.company);
    let scale = u32::try_from(claim.scale).unwrap_or(0);
    let digits: Option<Decimal> = claim.displayed.replace(',', "").parse().ok();
    let value = digits.and_then(|digits| digits.checked_mul(Decimal::from(10_u64.pow(scale))));
    let value = value.map(|value| if claim.is_negative { -value } else { value });
    let day = |key: &str| {
        claim.period[key]
            .as_str()
            .and_then(|day| day.parse::<Date>().ok())
    };
    let end = day("end").or(day("instant"));
    let days = day("start")
        .zip(day("end"))
        .map(|(start, end)| end.days_since(start) + 1);
    is_own
        && table.facts().any(|fact| {
            let is_end = fact
                .period
                .end()
                .zip(end)
                .is_some_and(|(one, two)| one.days_since(two).abs() <= SAME_PERIOD_DAYS);
            let is_length = fact.period.days().unwrap_or(0).abs_diff(days.unwrap_or(0))
                <= SAME_PERIOD_DAYS.unsigned_abs();
            fact.concept == claim.concept
                && fact.dimensions.is_empty()
                && fact.number() == value
                && is_end
                && is_length
        })
}

// Lengths of periods that a sentence can name, in days.
fn has_name(period: &Value) -> bool {
    let day = |key: &str| {
        period[key]
            .as_str()
            .and_then(|day| day.parse::<Date>().ok())
    };
    day("start").zip(day("end")).is_none_or(|(start, end)| {
        let days = end.days_since(start) + 1;
        [(80, 100), (170, 190), (260, 290), (350, 380)]
            .iter()
            .any(|(least, most)| (*least..=*most).contains(&days))
    })
}

fn claims(truth: &str, company: &str) -> Result<Vec<Claim>, Box<dyn Error>> {
    let mut claims = Vec::new();
    for line in truth.lines() {
        let fact: Value = serde_json::from_str(line)?;
        let scale = fact["scale"]
            .as_str()
            .and_then(|scale| scale.parse().ok())
            .unwrap_or(0);
        let digits = fact["displayed"].as_str().unwrap_or_default();
        let is_figure = digits.starts_with(|c: char| c.is_ascii_digit() && c != '0');
        if fact["unit"] != "iso4217:USD"
            || ![3, 6, 9].contains(&scale)
            || fact.get("dimensions").is_some()
            || !has_name(&fact["period"])
            || !is_figure
        {
            continue;
        }
        claims.push(Claim {
            concept: fact["concept"].as_str().unwrap_or_default().to_owned(),
            company: company.to_owned(),
            period: fact["period"].clone(),
            displayed: digits.to_owned(),
            scale,
            is_negative: fact["sign"] == "-",
            byte: fact["byte"].as_u64().unwrap_or_default(),
            part: None,
            of_one: "",
            is_percent: false,
            is_compared: false,
        });
    }
    Ok(claims)
}

fn variants(right: &Claim, other: Option<&Claim>) -> Vec<(&'static str, Claim)> {
    let mut year = right.clone();
    for key in ["start", "end", "instant"] {
        if let Some(Value::String(text)) = year.period.get_mut(key) {
            let before: i32 = text
                .get(..4)
                .and_then(|year| year.parse().ok())
                .unwrap_or_default();
            *text = format!("{}{}", before - 1, text.get(4..).unwrap_or_default());
        }
    }
    let scale = Claim {
        scale: if right.scale == 6 { 9 } else { 6 },
        ..right.clone()
    };
    let sign = Claim {
        is_negative: !right.is_negative,
        ..right.clone()
    };
    let entity = Claim {
        company: "Globex Corporation".into(),
        ..right.clone()
    };
    let smaller = Claim {
        scale: right.scale - 3,
        ..right.clone()
    };
    let share = Claim {
        of_one: " per share",
        ..right.clone()
    };
    let percent = Claim {
        is_percent: true,
        ..right.clone()
    };
    let mut all = vec![
        ("right", right.clone()),
        ("smaller scale", smaller),
        ("per share", share),
        ("percent", percent),
        ("wrong year", year),
        ("wrong scale", scale),
        ("wrong sign", sign),
        ("wrong entity", entity),
    ];
    all.extend(other.map(|other| {
        (
            "wrong concept",
            Claim {
                concept: other.concept.clone(),
                ..right.clone()
            },
        )
    }));
    all
}

// Claims with another length of the period, and with figures of parts of the company taken for those of the whole and the
// other way round.
fn part_variants(right: &Claim, table: &FactTable) -> Vec<(&'static str, Claim)> {
    let mut all = Vec::new();
    let day = |key: &str| {
        right.period[key]
            .as_str()
            .and_then(|day| day.parse::<Date>().ok())
    };
    if let Some((start, end)) = day("start").zip(day("end")) {
        let (year, month, first) = start.year_month_day();
        let (year, month) = match end.days_since(start) {
            // A quarter is said to be half a year that ends on the same day, and what is longer a quarter.
            0..=100 if month > 3 => (year, month - 3),
            0..=100 => (year - 1, month + 9),
            _ => {
                let (year, month, _) = end.year_month_day();
                if month > 2 {
                    (year, month - 2)
                } else {
                    (year - 1, month + 10)
                }
            }
        };
        let mut other = right.clone();
        other.period["start"] = format!("{year}-{month:02}-{:02}", first.min(28)).into();
        all.push(("other length", other));
    }
    let period_end = day("end").or(day("instant"));
    let whole = table
        .facts()
        .find(|fact| u64::from(fact.byte) == right.byte);
    let Some(number) = whole.and_then(|fact| Some((fact.period, fact.number()?))) else {
        return all;
    };
    let parts = table.facts().filter(|fact| {
        fact.concept == right.concept
            && fact.dimensions.len() == 1
            && fact.period == number.0
            && fact.period.end() == period_end
            && fact.number().is_some_and(|part| part.abs() != number.1.abs())
            // A rounded whole in the text is no other figure.
            && whole.is_none_or(|whole| !fact.has_same_number(&whole))
            && fact
                .displayed
                .starts_with(|c: char| c.is_ascii_digit() && c != '0')
            && [3, 6, 9].contains(&fact.scale)
            && !fact.is_hidden
    });
    let parts: Vec<_> = parts
        .map(|part| {
            let member = part.dimensions.first();
            let member = member.map_or(String::new(), |(_, member)| member_name(member));
            let member = member.replace(" member", "");
            let of_part = Claim {
                displayed: part.displayed.to_owned(),
                scale: i64::from(part.scale),
                is_negative: part.is_negated,
                byte: u64::from(part.byte),
                ..right.clone()
            };
            (member, part, of_part)
        })
        .collect();
    for (at, (member, part, of_part)) in parts.iter().enumerate() {
        // A fact is displayed at several places.
        if parts[..at].iter().any(|(_, other, _)| {
            other.dimensions == part.dimensions && other.displayed == part.displayed
        }) {
            continue;
        }
        all.push(("part for the whole", of_part.clone()));
        let said_of = |member: &str, claim: &Claim| Claim {
            part: Some(member.to_owned()),
            ..claim.clone()
        };
        let of_part_said = said_of(member, of_part);
        let whole_said = said_of(member, right);
        let compared = |claim: &Claim| Claim {
            is_compared: true,
            ..claim.clone()
        };
        all.push(("right of a part, compared", compared(&of_part_said)));
        all.push(("whole for a part, compared", compared(&whole_said)));
        all.push(("right of a part", of_part_said));
        all.push(("whole for a part", whole_said));
        let other = parts.iter().find(|(other, fact, _)| {
            other != member
                && fact.dimensions.first().map(|(axis, _)| axis)
                    == part.dimensions.first().map(|(axis, _)| axis)
                && !parts
                    .iter()
                    .any(|(name, third, _)| name == other && third.has_same_number(part))
        });
        all.extend(other.map(|(other, _, _)| ("part for another", said_of(other, of_part))));
    }
    all
}

fn sentence(claim: &Claim) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let part = |value: &Value, range: std::ops::Range<usize>| {
        value
            .as_str()
            .and_then(|text| text.get(range)?.parse::<usize>().ok())
            .unwrap_or(1)
    };
    let day = |value: &Value| {
        format!(
            "{} {}, {}",
            MONTHS[(part(value, 5..7) - 1) % 12],
            part(value, 8..10),
            part(value, 0..4)
        )
    };
    let days =
        |value: &Value| part(value, 0..4) * 365 + part(value, 5..7) * 30 + part(value, 8..10);
    let period = match claim.period.get("instant") {
        Some(instant) => format!("as of {}", day(instant)),
        None => {
            let months =
                (days(&claim.period["end"]).saturating_sub(days(&claim.period["start"])) + 15) / 30;
            let length = match months {
                0..=4 => "three months",
                5..=7 => "six months",
                8..=10 => "nine months",
                _ => "year",
            };
            format!("for the {length} ended {}", day(&claim.period["end"]))
        }
    };
    let scale = match claim.scale {
        0 => "",
        3 => " thousand",
        6 => " million",
        _ => " billion",
    };
    let part = claim.part.as_ref();
    let part = part.map_or(String::new(), |part| format!(" in {part}"));
    let amount = match claim.is_percent {
        true => format!("{}%", claim.displayed),
        false => format!("${}{scale}{}", claim.displayed, claim.of_one),
    };
    let sign = if claim.is_negative { "-" } else { "" };
    let compared = match claim.is_compared {
        true => ", compared with $1,234,567 before",
        false => "",
    };
    format!(
        "{} of {}{part} was {sign}{amount} {period}{compared}.",
        concept_words(&claim.concept),
        claim.company
    )
}

// Without pages a line is a table row or a paragraph, by its offset in the file.
fn line_of(bytes: &[u8], byte: u64) -> u32 {
    let before = &bytes[..byte as usize];
    let from = before.len().saturating_sub(20_000);
    let start = |tag: &[u8]| {
        before[from..]
            .windows(tag.len())
            .rposition(|window| window == tag)
            .map(|at| from + at)
    };
    let row = start(b"<tr").max(start(b"<p"));
    u32::try_from(row.or_else(|| start(b"<div")).unwrap_or_default()).unwrap_or_default()
}

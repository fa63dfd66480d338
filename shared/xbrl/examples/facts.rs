//! Prints the facts of inline XBRL files as JSON lines, and per file a line of its size, time and defects. For
//! `tests/bench/ixbrl`.
//!
//! usage: facts FILE...

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use serde_json::json;
use stemma_xbrl::{FactValue, Period, TaggedFact, decode_facts, encode_facts, read_facts};

fn main() -> Result<(), Box<dyn Error>> {
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let start = Instant::now();
        let table = read_facts(&bytes);
        let seconds = start.elapsed().as_secs_f64();
        let stored = encode_facts(&table)?;
        let table = decode_facts(&stored)?;
        for fact in table.facts() {
            writeln!(output, "{}", row(&fact))?;
        }
        let defects: Vec<String> = table
            .defects
            .iter()
            .map(|defect| format!("{}: {}", defect.code, defect.detail))
            .collect();
        let file = json!({
            "file": path, "bytes": bytes.len(), "seconds": seconds, "facts": table.len(), "stored_bytes": stored.len(),
            "defects": defects,
        });
        writeln!(output, "{file}")?;
    }
    Ok(())
}

fn row(fact: &TaggedFact<'_>) -> serde_json::Value {
    let period = match fact.period {
        Period::Instant(day) => json!({ "instant": day.to_string() }),
        Period::Duration { from, to } => {
            json!({ "start": from.to_string(), "end": to.to_string() })
        }
        Period::Forever => json!("forever"),
    };
    let value = match fact.value {
        FactValue::Number(number) => json!({ "number": number.to_string() }),
        FactValue::Text(text) => json!({ "text": text }),
        FactValue::Nil => json!("nil"),
        FactValue::Unreadable => json!("unreadable"),
    };
    json!({
        "byte": fact.byte, "end": fact.end, "concept": fact.concept, "entity": fact.entity, "period": period,
        "unit": fact.unit, "dimensions": fact.dimensions, "value": value, "displayed": fact.displayed,
        "decimals": fact.decimals.map(|decimals| decimals.to_string()), "scale": fact.scale,
        "sign": fact.is_negated.then_some("-"), "hidden": fact.is_hidden,
    })
}

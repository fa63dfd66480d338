//! Prints header and parts of submissions as JSON, one file per line. `tests/bench/containers` compares them.

use std::time::Instant;

use serde_json::json;
use stemma_edgar::{FullSubmission, SubmissionPart};

fn main() -> Result<(), std::io::Error> {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let started = Instant::now();
        let submission = FullSubmission::parse(&bytes);
        let seconds = started.elapsed().as_secs_f64();
        let parts: Vec<_> = submission.parts.iter().map(part).collect();
        let defects: Vec<&str> = submission.defects.iter().map(|d| d.code.as_str()).collect();
        let line = json!({
            "path": path,
            "seconds": seconds,
            "header": submission.header,
            "facts": submission.header.facts(),
            "parts": parts,
            "defects": defects,
        });
        println!("{line}");
    }
    Ok(())
}

fn part(part: &SubmissionPart) -> serde_json::Value {
    json!({
        "entry": part.entry,
        "byte": part.bytes.start,
        "end_byte": part.bytes.end,
        "text_byte": part.text.start,
        "text_end_byte": part.text.end,
        "kind": part.kind,
        "skipped": part.skip_reason(),
    })
}

//! Counts o200k tokens for benchmarks in other languages. Each input line is a JSON string, each output line its count.

use std::io::{BufRead, Write};

fn main() -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line?)?;
        writeln!(output, "{}", stemma_llm::tokens::count(&text))?;
    }
    Ok(())
}

//! Counts o200k tokens for benches in other languages: each line of standard input is a JSON string, each line of output
//! its number of tokens.

use std::io::{BufRead, Write};

fn main() -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line?)?;
        writeln!(output, "{}", stemma_llm::tokens::count(&text))?;
    }
    Ok(())
}

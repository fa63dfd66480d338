//! Sidecars: a file `metadata.csv` in a folder lists facts about the files of that folder.
//!
//! ```csv
//! file,cik,accession,filed,company
//! 10-K_2022.pdf,1234567,0001234567-22-000108,2022-10-28,"Example Corp."
//! ```
//! The first line names the columns: `file` (a name in this folder) and facts by their stable names. Empty cells are
//! ignored. Unknown columns and invalid values are errors, because a misspelt column would silently be lost.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use stemma_boot::config::nearest;
use stemma_pipeline::external_metadata::{FACT_NAMES, canonicalize};
use stemma_pipeline::sources::open_regular;

pub const NAME: &str = "metadata.csv";
// Cells are held in memory, and an empty cell takes twenty times its bytes, so the file size is bounded.
const MAX_BYTES: u64 = 16 << 20;

pub type SidecarFacts = BTreeMap<String, BTreeMap<String, String>>;

/// Why a sidecar cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{}: {problem}", path.display())]
pub struct SidecarError {
    pub path: PathBuf,
    pub problem: String,
}

/// Reads the sidecar of a folder; empty if there is none.
pub fn read(folder: &Path) -> Result<SidecarFacts, SidecarError> {
    let path = folder.join(NAME);
    let wrong = |problem: String| SidecarError {
        path: path.clone(),
        problem,
    };
    match fs::symlink_metadata(&path) {
        Ok(metadata) if !metadata.is_file() => return Ok(SidecarFacts::new()),
        Ok(metadata) if metadata.len() > MAX_BYTES => {
            return Err(wrong(format!("larger than {MAX_BYTES} bytes")));
        }
        Ok(_) => {}
        Err(_) => return Ok(SidecarFacts::new()),
    }
    let mut bytes = Vec::new();
    // `open_regular` refuses a link swapped in after the check above, and `take` bounds a file that grows meanwhile.
    let file =
        open_regular(&path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    if file.map_err(|error| wrong(error.to_string()))? as u64 > MAX_BYTES {
        return Err(wrong(format!("larger than {MAX_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("not valid UTF-8".into()))?;
    parse(&text).map_err(wrong)
}

fn parse(text: &str) -> Result<SidecarFacts, String> {
    let mut rows = rows(text.trim_start_matches('\u{feff}'))?.into_iter();
    let Some(header) = rows.next() else {
        return Ok(SidecarFacts::new());
    };
    let columns: Vec<String> = header
        .iter()
        .map(|column| column.trim().to_lowercase())
        .collect();
    for column in columns.iter().filter(|column| *column != "file") {
        if !FACT_NAMES.contains(&column.as_str()) {
            let allowed_columns: Vec<String> = FACT_NAMES
                .iter()
                .map(|name| (*name).to_owned())
                .chain(["file".to_owned()])
                .collect();
            let hint = nearest(column, allowed_columns.iter())
                .map(|name| format!("; did you mean `{name}`?"));
            return Err(format!(
                "unknown column `{column}`{}",
                hint.unwrap_or_default()
            ));
        }
    }
    let file = columns
        .iter()
        .position(|column| column == "file")
        .ok_or("missing column `file`")?;
    let mut stated = SidecarFacts::new();
    for (row, number) in rows.zip(2..) {
        if row.len() != columns.len() {
            return Err(format!(
                "row {number} has {} cells, expected {}",
                row.len(),
                columns.len()
            ));
        }
        let mut facts = BTreeMap::new();
        for (name, value) in columns
            .iter()
            .zip(&row)
            .filter(|(name, value)| *name != "file" && !value.trim().is_empty())
        {
            let value = canonicalize(name, value)
                .ok_or_else(|| format!("row {number}: invalid {name} `{value}`"))?;
            facts.insert(name.clone(), value);
        }
        if stated.insert(row[file].trim().to_owned(), facts).is_some() {
            return Err(format!(
                "row {number}: duplicate entry for `{}`",
                row[file].trim()
            ));
        }
    }
    Ok(stated)
}

// The rows of a CSV text (RFC 4180): cells may be quoted, a quote inside is written twice; blank lines are left out.
fn rows(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut cell = String::new();
    let mut quoted = false;
    let mut line = 1;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        line += usize::from(c == '\n');
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if cell.is_empty() => quoted = true,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted && chars.peek() == Some(&'\n') => {}
            '\n' if !quoted => end_row(&mut rows, &mut row, &mut cell),
            _ => cell.push(c),
        }
    }
    if quoted {
        return Err(format!("unclosed quote before line {line}"));
    }
    end_row(&mut rows, &mut row, &mut cell);
    Ok(rows)
}

fn end_row(rows: &mut Vec<Vec<String>>, row: &mut Vec<String>, cell: &mut String) {
    row.push(std::mem::take(cell));
    let row = std::mem::take(row);
    if row.iter().any(|cell| !cell.trim().is_empty()) {
        rows.push(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_grouped_by_file() {
        let text = "\u{feff}file,CIK,company,filed\r\na.pdf,0000320193,\"Acme, \"\"Anvils\"\" Inc.\",2022-10-28\r\n\r\nb.pdf,,,\r\n";
        let stated = parse(text).unwrap();
        let a: Vec<_> = stated["a.pdf"]
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            a,
            [
                "cik=320193",
                "company=Acme, \"Anvils\" Inc.",
                "filed=2022-10-28"
            ]
        );
        assert!(stated["b.pdf"].is_empty());
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn malformed_sidecars_are_errors() {
        for (text, problem) in [
            (
                "file,acession\n",
                "unknown column `acession`; did you mean `accession`?",
            ),
            ("cik\n1\n", "missing column `file`"),
            ("file,cik\na.pdf,AAPL\n", "row 2: invalid cik `AAPL`"),
            ("file,cik\na.pdf\n", "row 2 has 1 cells, expected 2"),
            (
                "file,cik\na.pdf,1\na.pdf,2\n",
                "row 3: duplicate entry for `a.pdf`",
            ),
            ("file\n\"a", "unclosed quote before line 2"),
        ] {
            assert_eq!(parse(text).unwrap_err(), problem);
        }
    }
}

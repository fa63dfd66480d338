//! Sidecars: a file `metadata.csv` in a folder lists facts about the files of that folder.
//!
//! ```csv
//! file,cik,accession,filed,company
//! 10-K_2022.pdf,1234567,0001234567-22-000108,2022-10-28,"Example Corp."
//! ```
//! The first line names the columns: `file` (a name in this folder) and facts by their stable names. Empty cells are
//! ignored. Unknown columns and invalid values are errors, because a misspelt column would silently be lost.

use std::collections::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use stemma_boot::config::nearest;
use stemma_document::FactDefinition;
use stemma_pipeline::sources::open_regular;

use crate::error::CommandError;
use crate::input_file::InputFile;

pub const NAME: &str = "metadata.csv";
// Cells are held in memory, and an empty cell takes twenty times its bytes, so the file size is bounded.
const MAX_BYTES: u64 = 16 << 20;

// Facts by the name of the file.
type SidecarFacts = BTreeMap<String, BTreeMap<String, String>>;

/// Why a sidecar cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{}: {problem}", path.display())]
pub struct SidecarError {
    pub path: PathBuf,
    pub problem: String,
}

impl From<SidecarError> for CommandError {
    fn from(error: SidecarError) -> Self {
        Self::new("input.metadata_invalid", error.to_string())
            .with_next("correct the file; `stemma ingest --help` lists its columns")
    }
}

/// Adds to each file the facts that the sidecar of its folder states.
///
/// # Errors
/// A sidecar that cannot be used.
pub fn add_facts(files: &mut [InputFile]) -> Result<(), SidecarError> {
    let mut folders: HashMap<PathBuf, SidecarFacts> = HashMap::new();
    for file in files {
        let path = &file.absolute_path;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            continue;
        };
        let sidecar = match folders.entry(folder.to_path_buf()) {
            Entry::Occupied(read) => read.into_mut(),
            Entry::Vacant(unread) => unread.insert(read(folder)?),
        };
        let facts = sidecar.remove(name.to_string_lossy().as_ref());
        file.stated = facts.unwrap_or_default();
    }
    Ok(())
}

// The sidecar of a folder; empty if there is none.
fn read(folder: &Path) -> Result<SidecarFacts, SidecarError> {
    let path = folder.join(NAME);
    match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_file() => {}
        _ => return Ok(SidecarFacts::new()),
    }
    read_text(&path)
        .and_then(|text| parse(&text))
        .map_err(|problem| SidecarError { path, problem })
}

// `open_regular` refuses a link swapped in after the caller's check, and `take` bounds a file that grows meanwhile.
fn read_text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = open_regular(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    if file.map_err(|error| error.to_string())? as u64 > MAX_BYTES {
        return Err(format!("larger than {MAX_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "not valid UTF-8".into())
}

fn parse(text: &str) -> Result<SidecarFacts, String> {
    let mut rows = csv::ReaderBuilder::new()
        .flexible(true)
        .trim(csv::Trim::Headers)
        .from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let columns: Vec<String> = rows
        .headers()
        .map_err(|error| error.to_string())?
        .iter()
        .map(str::to_lowercase)
        .collect();
    if columns.is_empty() {
        return Ok(SidecarFacts::new());
    }
    if let Some(column) = columns
        .iter()
        .find(|column| *column != "file" && FactDefinition::from_sidecar_name(column).is_none())
    {
        let known: Vec<String> = ["file"]
            .into_iter()
            .chain(FactDefinition::for_sidecars().map(|fact| fact.name))
            .map(String::from)
            .collect();
        let hint = nearest(column, known.iter())
            .map(|name| format!("; did you mean `{name}`?"))
            .unwrap_or_default();
        return Err(format!("unknown column `{column}`{hint}"));
    }
    let file = columns
        .iter()
        .position(|column| column == "file")
        .ok_or("missing column `file`")?;
    let mut stated = SidecarFacts::new();
    for (row, number) in rows.records().zip(2..) {
        let row = row.map_err(|error| error.to_string())?;
        if row.iter().all(|cell| cell.trim().is_empty()) {
            continue;
        }
        // No fact has several lines, and the rest of the file would be lost in the cell.
        if row.iter().any(|cell| cell.contains('\n')) {
            return Err(format!(
                "row {number}: a cell spans several lines; close its quote"
            ));
        }
        let found = row.len();
        let expected = columns.len();
        if found != expected {
            return Err(format!(
                "row {number} has {found} cells, expected {expected}"
            ));
        }
        let mut facts = BTreeMap::new();
        for (name, value) in columns
            .iter()
            .zip(&row)
            .filter(|(name, value)| *name != "file" && !value.trim().is_empty())
        {
            let value = FactDefinition::from_sidecar_name(name)
                .and_then(|fact| fact.canonical(value))
                .ok_or_else(|| format!("row {number}: invalid {name} `{value}`"))?;
            facts.insert(name.clone(), value);
        }
        let name = row[file].trim().to_owned();
        if stated.contains_key(&name) {
            return Err(format!("row {number}: duplicate entry for `{name}`"));
        }
        stated.insert(name, facts);
    }
    Ok(stated)
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
            (
                "file,company\na.pdf,\"Acme\nb.pdf,Other\n",
                "row 2: a cell spans several lines; close its quote",
            ),
            (
                "file,cik\r\n\r\na.pdf,AAPL\r\n",
                "row 2: invalid cik `AAPL`",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err(), problem);
        }
    }
}

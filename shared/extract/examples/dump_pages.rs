//! Writes the text of PDFs as JSON lines `{doc, page, text, defects}`, for scoring text quality.
//!
//! `dump_pages FILE-OR-FOLDER…` writes to standard output; statistics go to standard error.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use stemma_document::{PageNo, SourceBody};
use stemma_extract::{Limits, pdf};

fn main() -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut pages_read = 0;
    let started = Instant::now();
    for file in std::env::args()
        .skip(1)
        .flat_map(|path| pdfs(Path::new(&path)))
    {
        pages_read += dump(&file, &mut out)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    eprintln!(
        "{pages_read} pages in {seconds:.2} s: {:.0} pages/s",
        f64::from(pages_read) / seconds
    );
    out.flush()
}

fn pdfs(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_path_buf()];
    }
    let entries = std::fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|ext| ext == "pdf"))
        .collect();
    files.sort();
    files
}

fn dump(file: &Path, out: &mut impl Write) -> std::io::Result<u32> {
    let doc = file
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let source = match pdf::read(&std::fs::read(file)?, None, &Limits::default(), 1) {
        Ok(source) => source,
        Err(error) => {
            eprintln!("{doc}: {}: {error}; {}", error.code, error.next);
            return Ok(0);
        }
    };
    for defect in source.defects.iter().take(5) {
        eprintln!(
            "{doc}: {} {:?}: {}",
            defect.code, defect.page, defect.detail
        );
    }
    let entries = source.outline.len();
    let links = source.links.len();
    let targets = source
        .outline
        .iter()
        .filter(|item| item.target.is_some())
        .count();
    eprintln!(
        "{doc}: outline {entries} ({targets} with targets), links {links}, encrypted {}",
        source.encrypted
    );
    let SourceBody::Pages(pages) = source.body else {
        return Ok(0);
    };
    for (index, page) in pages.iter().enumerate() {
        let number = PageNo::from_index(index);
        let defects: Vec<&str> = source
            .defects
            .iter()
            .filter(|defect| defect.page == Some(number))
            .map(|defect| defect.code.as_str())
            .collect();
        let row = serde_json::json!({ "doc": doc, "page": number, "text": page.text(), "defects": defects });
        writeln!(out, "{row}")?;
    }
    Ok(u32::try_from(pages.len()).unwrap_or(u32::MAX))
}

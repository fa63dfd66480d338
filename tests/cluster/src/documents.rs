//! Generates small filings of all kinds; the same seed gives the same files.

use std::fs;
use std::path::Path;

use anyhow::Result;
use stemma_filings::{ContentsMode, FilingKind, Spec, generate, markdown};

/// Every n-th document is Markdown instead of PDF.
const MARKDOWN_EVERY: u64 = 8;

/// Writes `count` distinct documents of about `pages` pages to a folder, named after their kind.
///
/// # Errors
/// The error of the file system.
pub fn write(folder: &Path, count: u64, pages: u32, seed: u64) -> Result<()> {
    fs::create_dir_all(folder)?;
    for n in 0..count {
        let seed = seed + n;
        if n % MARKDOWN_EVERY == MARKDOWN_EVERY - 1 {
            fs::write(
                folder.join(format!("{n:05}-markdown.md")),
                markdown(seed, pages * 2).0,
            )?;
            continue;
        }
        let kind = FilingKind::ALL[n as usize % FilingKind::ALL.len()];
        let contents =
            ContentsMode::ALL[n as usize / FilingKind::ALL.len() % ContentsMode::ALL.len()];
        let filing = generate(&Spec {
            pages,
            contents,
            ..Spec::new(kind, seed)
        });
        fs::write(
            folder.join(format!("{n:05}-{}.pdf", kind.name())),
            filing.pdf,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(seed: u64) -> Vec<blake3::Hash> {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 9, 3, seed).unwrap();
        let mut paths: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        paths
            .iter()
            .map(|path| blake3::hash(&fs::read(path).unwrap()))
            .collect()
    }

    #[test]
    fn generated_documents_are_seeded_and_distinct() {
        let documents = digests(1);
        assert_eq!(documents, digests(1));
        assert_eq!(
            documents
                .iter()
                .collect::<std::collections::HashSet<_>>()
                .len(),
            9
        );
        assert!(
            digests(100)
                .iter()
                .all(|digest| !documents.contains(digest))
        );
    }
}

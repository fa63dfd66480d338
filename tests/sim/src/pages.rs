//! Page texts of documents, as questions show them. The oracle recognizes pages by them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use stemma_document::{Source, SourceBody};
use stemma_extract::{ExtractJob, Limits, extract};

use crate::truth::PageTexts;

/// Reads a document, or every `*.pdf` in a folder. A document is named like its file, without extension.
///
/// # Errors
/// A file or folder that cannot be read. A document that cannot be parsed is skipped and named on stderr.
pub fn read(path: &Path) -> Result<Vec<PageTexts>> {
    let mut files = vec![path.to_path_buf()];
    if path.is_dir() {
        let entries =
            fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        files = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<PathBuf>>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "pdf"));
        files.sort();
    }
    let mut texts = Vec::new();
    for file in files {
        match read_file(&file) {
            Ok(one) => texts.push(one),
            Err(error) => eprintln!("sim: {error:#}"),
        }
    }
    Ok(texts)
}

fn read_file(file: &Path) -> Result<PageTexts> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let name = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let job = ExtractJob {
        threads: 2,
        ..ExtractJob::new(name, bytes, None, Limits::default())
    };
    let Ok(Source {
        body: SourceBody::Pages(pages),
        ..
    }) = extract(job)
    else {
        bail!("{} has no pages", file.display())
    };
    // Questions do not show running heads and feet.
    let doc = file
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    Ok(PageTexts {
        doc,
        pages: pages
            .iter()
            .map(|page: &stemma_document::Page| {
                let body_lines = page
                    .lines
                    .iter()
                    .filter(|line| !line.is_furniture())
                    .map(|line| line.text.as_str());
                body_lines.collect::<Vec<_>>().join("\n")
            })
            .collect(),
    })
}

/// Writes texts as files for [`Library::load`](crate::Library::load).
///
/// # Errors
/// A folder that cannot be written.
pub fn write(texts: &[PageTexts], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for one in texts {
        let path = folder.join(format!("{}.json", one.doc));
        fs::write(&path, serde_json::to_vec(one)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

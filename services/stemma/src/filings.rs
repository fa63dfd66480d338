//! Filings of EDGAR among the files of an ingest: which files of a mirrored folder are documents, and which filings are
//! chosen. What is left out is counted.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use stemma_document::{CompanionFile, Digest, FactDefinition, FilingFacts, Origin};
use stemma_edgar::{
    FilingFolder, FilingIndex, FilingSelection, FilingSummary, FilterMismatch, FolderPlan,
    SkipReason,
};
use stemma_pipeline::filing_facts::index_facts;
use stemma_pipeline::filing_folders::{HEADER_BYTES, summarize_file};
use stemma_pipeline::sources::{MAX_COMPANION_BYTES, SourceWriter, open_regular};

use crate::error::CommandError;
use crate::input_file::{InputFile, read, read_apart};

/// Which filings to ingest.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SelectArgs {
    /// Only filings of these forms: `10-K,10-Q`. Amendments are forms of their own (`10-K/A`).
    #[arg(long, value_name = "FORM,…", value_delimiter = ',')]
    pub forms: Vec<String>,
    /// Only filings filed on this day or later.
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
    pub since: Option<String>,
    /// Only filings of these companies, by Central Index Key.
    #[arg(long, value_name = "CIK,…", value_delimiter = ',', value_parser = central_index_key)]
    pub cik: Vec<String>,
}

impl SelectArgs {
    pub fn selection(&self) -> FilingSelection {
        FilingSelection {
            forms: self.forms.clone(),
            since: self.since.clone(),
            ciks: self.cik.clone(),
        }
    }
}

fn date(text: &str) -> Result<String, String> {
    FactDefinition::from_sidecar_name("filed")
        .and_then(|filed| filed.canonical(text))
        .ok_or_else(|| "use a date such as 2020-01-01".into())
}

fn central_index_key(text: &str) -> Result<String, String> {
    FilingFacts::parse_cik(text).ok_or_else(|| "use digits such as 320193".into())
}

/// What was decided about filings.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FilingCounts {
    /// Mirrored folders whose documents are read.
    pub folders: usize,
    /// Files that are not documents, by reason.
    pub skipped: BTreeMap<SkipReason, usize>,
    /// Filings and other files that the filters do not choose, by reason.
    pub filtered: BTreeMap<FilterMismatch, usize>,
}

impl FilingCounts {
    /// For people, on one line; `None` if there is nothing to say.
    pub fn line(&self) -> Option<String> {
        let skipped = self
            .skipped
            .iter()
            .map(|(reason, count)| (reason.label(), *count));
        let filtered = self
            .filtered
            .iter()
            .map(|(reason, count)| (reason.label(), *count));
        let clauses = clause("files left out", skipped).into_iter();
        let clauses: Vec<String> = clauses.chain(clause("not chosen", filtered)).collect();
        let folders = self.folders;
        (!clauses.is_empty()).then(|| format!("EDGAR: {folders} folders; {}", clauses.join("; ")))
    }

    /// Adds the counts of another search.
    pub fn add(&mut self, other: &Self) {
        self.folders += other.folders;
        for (reason, count) in &other.skipped {
            *self.skipped.entry(*reason).or_default() += count;
        }
        for (reason, count) in &other.filtered {
            *self.filtered.entry(*reason).or_default() += count;
        }
    }

    /// Counts a filing, or a file outside of folders, that a filter does not choose.
    pub fn filter(&mut self, reason: FilterMismatch) {
        *self.filtered.entry(reason).or_default() += 1;
    }

    /// Counts what is read and left out of a folder.
    pub fn count(&mut self, plan: &FolderPlan) {
        self.folders += usize::from(!plan.documents.is_empty());
        for (reason, count) in &plan.skipped {
            *self.skipped.entry(*reason).or_default() += count;
        }
    }
}

fn clause(what: &str, counts: impl Iterator<Item = (&'static str, usize)>) -> Option<String> {
    let counts: Vec<String> = counts
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    (!counts.is_empty()).then(|| format!("{what}: {}", counts.join(", ")))
}

/// Takes the documents of mirrored folders among `files`, and counts what it decided. `by_path` has all other files that were
/// found; a full submission next to a folder is removed there if the documents of the folder are read. Files with unsupported
/// extensions are counted in `other`.
pub fn take_folders(
    files: Vec<InputFile>,
    by_path: &mut BTreeMap<PathBuf, InputFile>,
    selection: &FilingSelection,
    other: &mut BTreeMap<String, usize>,
) -> FilingCounts {
    let mut counts = FilingCounts::default();
    let mut folders: BTreeMap<PathBuf, BTreeMap<String, InputFile>> = BTreeMap::new();
    for file in files {
        if let Some(parent) = file.absolute_path.parent() {
            let files = folders.entry(parent.to_path_buf()).or_default();
            files.insert(file_name(&file.absolute_path), file);
        }
    }
    for (path, mut files) in folders {
        let Some(folder) = FilingFolder::from_path(&slashed(&path)) else {
            continue;
        };
        // The full submission may lie one level higher.
        let above = path.parent().unwrap_or(&path);
        let submissions =
            ["txt", "nc"].map(|extension| above.join(format!("{}.{extension}", folder.accession)));
        for file in submissions.iter().filter_map(|path| by_path.remove(path)) {
            files.entry(file_name(&file.absolute_path)).or_insert(file);
        }
        let names: Vec<String> = files.keys().cloned().collect();
        let mut index = FilingIndex::default();
        for file in folder.index_files(&names) {
            // A file that cannot be read says nothing; the documents are found without it.
            if file.adds_to(&index)
                && let Ok(bytes) = read(&files[file.name].absolute_path, file.max_bytes())
            {
                index = file.complete(index, &bytes);
            }
        }
        let plan = FolderPlan::new(&folder, &names, &index);
        if let Some(reason) = selection.mismatch(&FilingSummary::new(&index.header, Some(&folder)))
        {
            counts.filter(reason);
            continue;
        }
        counts.count(&plan);
        for name in &plan.other {
            let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
            *other.entry(extension.to_lowercase()).or_default() += 1;
        }
        for document in plan.documents {
            let Some(mut file) = files.remove(&document.name) else {
                continue;
            };
            if !folder.is_submission(&document.name) {
                file.filing = index_facts(&folder, &index, document.entry.as_ref());
            }
            let labels = document.labels.as_ref().and_then(|name| files.get(name));
            file.labels = labels.map(|labels| labels.absolute_path.clone());
            by_path.insert(file.absolute_path.clone(), file);
        }
    }
    counts
}

/// Reads a label linkbase and stores it, also where workers read the files: it is small, and may be changed before they do. One
/// that is larger than labels may be is named only, and becomes a defect of its document. The inner error is a file that
/// cannot be read.
pub async fn store_labels(
    path: PathBuf,
    max_bytes: u64,
    writer: &SourceWriter,
) -> Result<io::Result<Box<CompanionFile>>, CommandError> {
    let name = file_name(&path);
    let bytes = match read_apart(path, max_bytes).await? {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(error)),
    };
    let labels = CompanionFile {
        name,
        source: Digest::from_content(&bytes),
        origin: Origin::Content,
        size_bytes: bytes.len() as u64,
    };
    if labels.size_bytes <= MAX_COMPANION_BYTES {
        writer.store(labels.source, bytes).await?;
    }
    Ok(Ok(Box::new(labels)))
}

/// Why the filters do not choose a file outside of mirrored folders, whose files were filtered as they were taken: by the header
/// of a submission, the sidecar, or the path.
pub fn mismatch(file: &InputFile, selection: &FilingSelection) -> Option<FilterMismatch> {
    match file.filing.is_empty() {
        true => selection.mismatch(&summary(file)),
        false => None,
    }
}

fn summary(input: &InputFile) -> FilingSummary {
    let path = &input.absolute_path;
    let mut head = Vec::new();
    let file = open_regular(path);
    // What cannot be read fails later, with its reason.
    if file
        .and_then(|file| file.take(HEADER_BYTES).read_to_end(&mut head))
        .is_err()
    {
        head.clear();
    }
    let mut summary = summarize_file(&slashed(path), &head);
    let stated = |name: &str| input.stated.get(name).cloned();
    summary.form = stated("form").or(summary.form);
    summary.filed = stated("filed").or(summary.filed);
    summary.ciks.extend(stated("cik"));
    summary
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A path with `/`, as paths of EDGAR are written.
pub fn slashed(path: &Path) -> String {
    let names = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    names.collect::<Vec<_>>().join("/")
}

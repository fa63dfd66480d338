//! Shared by commands that submit documents: options, input files, facts of sidecars, labels.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use stemma_document::{Digest, Origin};
use stemma_engine::flow::{JobOptions, MaxFailed};
use stemma_pipeline::{CorrectionChange, OcrMode, OnModelFailure, RunSettings, Submission};

use crate::config::Config;
use crate::context::Context;
use crate::cost::BudgetArgs;
use crate::discover::{Discovery, discover};
use crate::error::CommandError;
use crate::filings::{FilingCounts, SelectArgs, filter_files};
use crate::sidecar::{self, SidecarError};

/// Options of `ingest`, `submit` and `retry`.
#[derive(Debug, Clone, clap::Args)]
pub struct SubmitOptions {
    /// Stop if more documents than this fail: a number, or a share such as `2%`.
    #[arg(long, value_name = "N|P%")]
    pub max_failed: Option<MaxFailed>,
    #[command(flatten)]
    pub budget: BudgetArgs,
    /// Ask the model in batches of its provider: at a lower price, within hours or days.
    #[arg(long)]
    pub batch: bool,
    /// If the model fails: fail the document, leave a gap, or use rules (offline).
    #[arg(long, value_name = "fail|gap|offline", value_parser = on_model_failure)]
    pub on_model_failure: Option<OnModelFailure>,
    /// Which pages of PDFs text recognition (OCR) reads: those that are pictures (auto), none, or all [default: ocr.mode].
    #[arg(long, value_name = "auto|never|always", value_parser = ocr_mode)]
    pub ocr: Option<OcrMode>,
}

impl SubmitOptions {
    /// The configuration with these options, and the settings of the job. Fails if a model or a price is missing.
    pub fn settings(&self, context: &Context) -> Result<(Config, RunSettings), CommandError> {
        let mut config = context.config()?.clone();
        if let Some(on_failure) = self.on_model_failure {
            config.model.settings.on_failure = on_failure;
        }
        if let Some(mode) = self.ocr {
            config.settings.ocr.mode = mode;
        }
        let settings = config.job_settings()?;
        if self.batch && settings.model_names().is_empty() {
            let message = "--batch needs a model, but none is used";
            return Err(CommandError::new("config.no_model", message)
                .with_next("set model.name and model.base_url, or omit --batch"));
        }
        self.budget.check(&config, &settings)?;
        Ok((config, settings))
    }

    pub fn job_options(&self, label: String) -> JobOptions {
        JobOptions {
            label,
            max_failed: self.max_failed,
            budget: self.budget.budget(),
            batch: self.batch,
            ..JobOptions::default()
        }
    }
}

fn on_model_failure(text: &str) -> Result<OnModelFailure, String> {
    serde_json::from_value(text.into())
        .map_err(|_| format!("unknown value `{text}`; use fail, gap or offline"))
}

fn ocr_mode(text: &str) -> Result<OcrMode, String> {
    serde_json::from_value(text.into())
        .map_err(|_| format!("unknown value `{text}`; use auto, never or always"))
}

/// A document whose content has this digest and size, without stated facts. `path` is only shown.
pub fn content_submission(
    uri: String,
    path: String,
    source: Digest,
    size_bytes: u64,
) -> Submission {
    Submission {
        uri,
        name: path.rsplit('/').next().unwrap_or(&path).to_owned(),
        path,
        source,
        origin: Origin::Content,
        size_bytes,
        stated: BTreeMap::new(),
        filing: BTreeMap::new(),
        labels: None,
        retry_failed: false,
        correction: CorrectionChange::Keep,
        object: None,
    }
}

/// The files for `paths` that `select` chooses. The store itself is never searched.
pub fn find_files(
    paths: &[PathBuf],
    select: &SelectArgs,
    context: &Context,
) -> Result<Discovery, CommandError> {
    let selection = select.selection();
    let mut discovery = discover(paths, context.store.folder(), &selection).map_err(|error| {
        CommandError::new("input.not_found", error.to_string())
            .with_next("check the path; see the examples in `stemma ingest --help`")
    })?;
    filter_files(&mut discovery, &selection).map_err(|error| sidecar_error(&error))?;
    Ok(discovery)
}

/// The error of a command that found nothing to read.
pub fn nothing_found(filings: &FilingCounts) -> CommandError {
    match filings.line() {
        Some(line) => CommandError::new(
            "input.no_documents",
            format!("no document is chosen ({line})"),
        )
        .with_next("change --forms, --since or --cik"),
        None => {
            let message = "no .pdf, .htm, .md, .txt or .nc file found";
            CommandError::new("input.no_documents", message)
                .with_next("give files, a folder that contains some, or s3://BUCKET/PREFIX")
        }
    }
}

fn sidecar_error(error: &SidecarError) -> CommandError {
    CommandError::new("input.metadata_invalid", error.to_string())
        .with_next("correct the file; `stemma ingest --help` lists its columns")
}

/// Facts of a sidecar about one file, by their stable names.
pub type StatedFacts = BTreeMap<String, String>;

/// Facts from sidecars, by discovered file.
pub fn sidecars(discovery: &Discovery) -> Result<HashMap<PathBuf, StatedFacts>, CommandError> {
    let mut folders: BTreeMap<&Path, sidecar::SidecarFacts> = BTreeMap::new();
    let mut stated = HashMap::new();
    for file in &discovery.files {
        let path = &file.absolute_path;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            continue;
        };
        let read = match folders.entry(folder) {
            Entry::Occupied(read) => read.into_mut(),
            Entry::Vacant(unread) => {
                unread.insert(sidecar::read(folder).map_err(|error| sidecar_error(&error))?)
            }
        };
        let facts = read.remove(name.to_string_lossy().as_ref());
        stated.extend(facts.map(|facts| (path.clone(), facts)));
    }
    Ok(stated)
}

/// Label of a job: the first path, and the number of others. A path such as `.` has the name of its folder.
pub fn label(paths: &[PathBuf]) -> String {
    const LONGEST: usize = 100;
    let first = paths.first().cloned().unwrap_or_default();
    let folder = match first.file_name() {
        Some(_) => None,
        None => std::fs::canonicalize(&first).ok(),
    };
    let folder_name = folder.as_deref().and_then(Path::file_name);
    let first = folder_name.map_or(first.as_path(), Path::new).display();
    let first: String = first.to_string().chars().take(LONGEST).collect();
    match paths.len() {
        0 | 1 => first,
        more => format!("{first} and {} more", more - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_labeled_by_their_paths() {
        let labels = |paths: &[&str]| label(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(labels(&["filings/2024"]), "filings/2024");
        assert_eq!(labels(&["a.pdf", "b.pdf", "c.pdf"]), "a.pdf and 2 more");
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().file_name().unwrap().to_string_lossy();
        let inside = folder.path().join("sub");
        std::fs::create_dir(&inside).unwrap();
        let parent = inside.join("..").display().to_string();
        assert_eq!(labels(&[&parent]), name);
        assert_eq!(labels(&["missing/.."]), "missing/..");
    }
}

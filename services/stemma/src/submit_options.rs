//! Options of commands that submit documents, and the labels of their jobs.

use std::path::{Path, PathBuf};

use stemma_engine::flow::{JobOptions, MaxFailed};
use stemma_pipeline::{OcrMode, OnModelFailure, RunSettings};

use crate::config::Config;
use crate::context::Context;
use crate::cost::BudgetArgs;
use crate::error::CommandError;

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

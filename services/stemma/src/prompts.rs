//! Custom prompts: a folder with one file per stage.

use std::fs;
use std::path::Path;

use stemma_boot::config::nearest;
use stemma_pipeline::prompts::{Instructions, built_in, instructions};

use crate::error::CommandError;

const ENDING: &str = "md";
// Far above the allowed length of a prompt; only guards against reading a huge file.
const MAX_BYTES: u64 = 1 << 20;

pub fn file_name(stage: &str) -> String {
    format!("{stage}.{ENDING}")
}

/// The prompts in force: those in `folder`, and the built-in prompt for every other stage.
pub fn load(folder: &Path) -> Result<Instructions, CommandError> {
    let own = match folder.as_os_str().is_empty() {
        true => Instructions::new(),
        false => read(folder)?,
    };
    instructions(&own).map_err(|error| {
        let message = format!("prompts: in {}, {error}", folder.display());
        CommandError::new("config.prompts", message)
            .with_next("correct the file, or delete it to use the built-in prompt")
    })
}

// Hidden files are skipped: editors leave swap files in the folder.
fn read(folder: &Path) -> Result<Instructions, CommandError> {
    let mut own = Instructions::new();
    for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        let metadata = fs::metadata(&path).map_err(|error| unreadable(&path, &error))?;
        if metadata.len() > MAX_BYTES {
            let size = metadata.len();
            let message = format!("the file has {size} bytes, more than {MAX_BYTES}");
            return Err(unreadable(&path, &message));
        }
        let Some((stage, _)) = built_in().find(|(stage, _)| file_name(stage) == name) else {
            return Err(unknown_stage_file(folder, &name));
        };
        let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
        own.insert(stage.to_string(), text);
    }
    Ok(own)
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> CommandError {
    let message = format!("cannot read prompts from {}: {error}", path.display());
    CommandError::new("config.prompts", message).with_next(
        "correct the setting `prompts`, or create the folder with `stemma prompts export DIR`",
    )
}

fn unknown_stage_file(folder: &Path, name: &str) -> CommandError {
    let file_names: Vec<String> = built_in().map(|(stage, _)| file_name(stage)).collect();
    let folder = folder.display();
    let message = format!("prompts: `{name}` in {folder} does not match a stage that uses a model");
    unknown_name("config.prompts", message, name, file_names)
}

/// An error for an unknown name, with the nearest of `candidates` as a suggestion.
pub fn unknown_name(
    code: &str,
    message: String,
    name: &str,
    candidates: Vec<String>,
) -> CommandError {
    let suggestion = nearest(name, candidates.iter())
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default();
    let mut error = CommandError::new(code, message + &suggestion)
        .with_next("list all stages with `stemma prompts`");
    error.candidates = candidates.into_iter().take(5).collect();
    error
}

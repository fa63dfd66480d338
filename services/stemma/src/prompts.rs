//! Instructions of one's own for the questions to a model: a folder with one file per stage.

use std::fs;
use std::path::Path;

use stemma_boot::config::nearest;
use stemma_pipeline::prompts::{Instructions, PromptError, built_in, instructions};

use crate::error::CommandError;

/// Ending of the files.
const ENDING: &str = "md";
/// The largest file that is read, in bytes: many times what instructions may have.
const MAX_BYTES: u64 = 1 << 20;

/// The name of the file of a stage.
pub fn file_name(stage: &str) -> String {
    format!("{stage}.{ENDING}")
}

/// The instructions in force: those in `folder`, and of the other stages those built in. No folder: all built in.
///
/// # Errors
/// [`CommandError`] naming the file: one that cannot be read, that is for no stage, that is empty or too long.
pub fn load(folder: &Path) -> Result<Instructions, CommandError> {
    let own = if folder.as_os_str().is_empty() {
        Instructions::new()
    } else {
        read(folder)?
    };
    instructions(&own).map_err(|error| prompt_error(folder, &error))
}

/// Hidden files are an editor's, and no one's instructions.
fn read(folder: &Path) -> Result<Instructions, CommandError> {
    let unreadable = |path: &Path, error: &dyn std::fmt::Display| {
        CommandError::new(
            "config.prompts",
            format!("prompts: {} cannot be read: {error}", path.display()),
        )
        .with_next("correct `prompts`, or write the folder with `stemma prompts export DIR`")
    };
    let mut own = Instructions::new();
    for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with('.') {
            continue;
        }
        let size = fs::metadata(&path)
            .map_err(|error| unreadable(&path, &error))?
            .len();
        if size > MAX_BYTES {
            return Err(unreadable(&path, &format!("it has {size} bytes")));
        }
        match name
            .strip_suffix(&format!(".{ENDING}"))
            .filter(|stage| built_in().any(|(built_in_stage, _)| built_in_stage == *stage))
        {
            Some(stage) => {
                let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
                own.insert(stage.to_string(), text);
            }
            None => return Err(unknown_stage_file(folder, &name)),
        }
    }
    Ok(own)
}

fn unknown_stage_file(folder: &Path, name: &str) -> CommandError {
    let file_names: Vec<String> = built_in().map(|(stage, _)| file_name(stage)).collect();
    let message = format!(
        "prompts: `{name}` in {} is for no stage that asks a model",
        folder.display()
    );
    unknown_name("config.prompts", message, name, file_names)
}

/// A name that is none of those `known`: the error names the nearest.
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
        .with_next("see all stages with `stemma prompts`");
    error.candidates = candidates.into_iter().take(5).collect();
    error
}

fn prompt_error(folder: &Path, error: &PromptError) -> CommandError {
    CommandError::new(
        "config.prompts",
        format!("prompts: in {}, {error}", folder.display()),
    )
    .with_next("correct the file, or remove it to have what is built in")
}

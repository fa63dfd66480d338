//! `stemma prompts`: shows or exports the prompt of each stage.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use stemma_llm::tokens;
use stemma_pipeline::prompts::{DATA_NOTICE, built_in, digest};

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::clean;
use crate::prompts::{file_name, load, unknown_name};
use crate::table::counted;

/// Show the prompt of each stage, or export all prompts to a folder for editing.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Files <stage>.md in the folder given by the setting `prompts` replace the built-in prompts.
Prompts are stored with each job. After a change, only the stage of that prompt and the stages
that depend on it run again.

Examples:
  stemma prompts summarize
  stemma prompts export prompts/
  STEMMA_PROMPTS=prompts stemma ingest filings/"
)]
pub struct PromptsArgs {
    /// Only this stage.
    stage: Option<String>,
    #[command(subcommand)]
    action: Option<PromptsCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum PromptsCommand {
    /// Write the current prompts to a folder, one file per stage. Existing files are kept.
    Export {
        /// The folder.
        folder: PathBuf,
    },
}

pub fn run(args: PromptsArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.config()?;
    let all = load(&config.prompts)?;
    if let Some(PromptsCommand::Export { folder }) = args.action {
        return export(&all.into_iter().collect::<Vec<_>>(), &folder, context);
    }
    let stages: Vec<_> = built_in()
        .filter(|(stage, _)| args.stage.as_deref().is_none_or(|one| one == *stage))
        .collect();
    if stages.is_empty() {
        let name = args.stage.unwrap_or_default();
        let stage_names = built_in().map(|(stage, _)| stage.to_string()).collect();
        return Err(unknown_name(
            "prompts.no_stage",
            format!("no stage `{name}` uses a model"),
            &name,
            stage_names,
        ));
    }
    let prompts: Vec<_> = stages
        .into_iter()
        .map(|(stage, built_in)| {
            let text = all.get(stage).map_or(built_in, String::as_str);
            (stage, text, text != built_in)
        })
        .collect();
    if context.output.is_text() {
        for (stage, text, overridden) in &prompts {
            show(stage, text, *overridden, &config.prompts, context);
        }
        context
            .output
            .note(&format!("Appended to each prompt: {DATA_NOTICE}"));
    } else {
        let prompts: Vec<_> = prompts.iter().map(|(stage, text, overridden): &(&str, &str, bool)| {
            json!({
                "stage": stage, "text": text, "digest": digest(text), "tokens": tokens::count(text), "overridden": overridden,
            })
        }).collect();
        context
            .output
            .json(&json!({ "prompts": prompts, "always": DATA_NOTICE }));
    }
    Ok(Exit::Done)
}

fn show(stage: &str, text: &str, overridden: bool, folder: &Path, context: &Context) {
    let from = if overridden {
        folder.join(file_name(stage)).display().to_string()
    } else {
        "built in".into()
    };
    let digest: String = digest(text).to_string().chars().take(12).collect();
    let about = format!("{} tokens  {digest}  {from}", tokens::count(text));
    context.output.line(&format!(
        "{}  {}",
        context.output.bold(stage),
        context.output.dim(&clean(&about))
    ));
    text.lines()
        .for_each(|line| context.output.line(&format!("  {}", clean(line))));
    context.output.line("");
}

fn export(
    prompts: &[(String, String)],
    folder: &Path,
    context: &Context,
) -> Result<Exit, CommandError> {
    let (written, existing) = write_files(prompts, folder).map_err(|error| {
        CommandError::new("prompts.write", format!("{}: {error}", folder.display()))
            .with_next("check that the folder is writable")
    })?;
    let place = clean(&folder.display().to_string());
    if context.output.is_text() {
        let suffix = if existing.is_empty() {
            String::new()
        } else {
            format!(", kept {} existing", existing.len())
        };
        context.output.line(&format!(
            "wrote {} to {place}{suffix}",
            counted(written.len(), "file")
        ));
        context
            .output
            .note(&format!("edit them, then set prompts = \"{place}\""));
    } else {
        context
            .output
            .json(&json!({ "out": place, "written": written, "kept": existing }));
    }
    Ok(Exit::Done)
}

// The names of the written files, and of those that existed.
fn write_files(
    prompts: &[(String, String)],
    folder: &Path,
) -> std::io::Result<(Vec<String>, Vec<String>)> {
    fs::create_dir_all(folder)?;
    let mut written = Vec::new();
    let mut existing = Vec::new();
    for (stage, text) in prompts {
        let name = file_name(stage);
        match fs::File::create_new(folder.join(&name)) {
            Ok(mut file) => {
                std::io::Write::write_all(&mut file, format!("{text}\n").as_bytes())?;
                written.push(name);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => existing.push(name),
            Err(error) => return Err(error),
        }
    }
    Ok((written, existing))
}

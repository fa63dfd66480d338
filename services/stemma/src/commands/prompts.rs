//! `stemma prompts`: shows or exports the prompt of each stage.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use stemma_llm::tokens;
use stemma_pipeline::prompts::{DATA_NOTICE, Instructions, built_in, digest};

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
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

pub async fn run(args: PromptsArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.config()?;
    let all = load(&config.prompts)?;
    if let Some(PromptsCommand::Export { folder }) = args.action {
        return export(&all, &folder, context);
    }
    let prompts: Vec<_> = built_in()
        .filter(|(stage, _)| args.stage.as_deref().is_none_or(|one| one == *stage))
        .map(|(stage, built_in)| {
            let text = all.get(stage).map_or(built_in, String::as_str);
            (stage, text, text != built_in)
        })
        .collect();
    if prompts.is_empty() {
        let name = args.stage.unwrap_or_default();
        let stages = built_in().map(|(stage, _)| stage.to_string()).collect();
        let message = format!("no stage `{name}` uses a model");
        return Err(unknown_name(
            "prompts.stage_unknown",
            message,
            &name,
            stages,
        ));
    }
    let listed: Vec<_> = prompts
        .iter()
        .map(|(stage, text, overridden)| {
            json!({
                "stage": stage, "text": text, "digest": digest(text), "tokens": tokens::count(text), "overridden": overridden,
            })
        })
        .collect();
    let output = &context.output;
    output.show(&json!({ "prompts": listed, "always": DATA_NOTICE }), || {
        for (stage, text, overridden) in &prompts {
            let folder = Some(&config.prompts).filter(|_| *overridden);
            show(stage, text, folder, output);
        }
        output.note(&format!("Appended to each prompt: {DATA_NOTICE}"));
    });
    Ok(Exit::Done)
}

// `folder` has the prompt, unless it is built in.
fn show(stage: &str, text: &str, folder: Option<&PathBuf>, output: &Output) {
    let from = folder.map_or_else(
        || "built in".into(),
        |folder| folder.join(file_name(stage)).display().to_string(),
    );
    let digest: String = digest(text).to_string().chars().take(12).collect();
    let about = clean(&format!("{} tokens  {digest}  {from}", tokens::count(text)));
    output.line(&format!("{}  {}", output.bold(stage), output.dim(&about)));
    text.lines()
        .for_each(|line| output.line(&format!("  {}", clean(line))));
    output.line("");
}

fn export(prompts: &Instructions, folder: &Path, context: &Context) -> Result<Exit, CommandError> {
    let (written, existing) = write_files(prompts, folder).map_err(|error| {
        CommandError::new(
            "prompts.write_failed",
            format!("{}: {error}", folder.display()),
        )
        .with_next("check that the folder is writable")
    })?;
    let place = clean(&folder.display().to_string());
    let output = &context.output;
    output.show(
        &json!({ "out": place, "written": written, "kept": existing }),
        || {
            let note = match existing.len() {
                0 => String::new(),
                count => format!(", kept {count} existing"),
            };
            output.line(&format!(
                "wrote {} to {place}{note}",
                counted(written.len(), "file")
            ));
            output.note(&format!("edit them, then set prompts = \"{place}\""));
        },
    );
    Ok(Exit::Done)
}

// The names of the written files, and of those that existed.
fn write_files(
    prompts: &Instructions,
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

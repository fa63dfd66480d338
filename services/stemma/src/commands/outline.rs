//! `stemma outline`: a person corrects the structure of a document.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use stemma_archive::{Archive, shell_quoted};
use stemma_document::{DocumentVersion, PublishedTree, SectionKind, Source};
use stemma_engine::Ports;
use stemma_engine::flow::JobOptions;
use stemma_pipeline::Submission;
use stemma_pipeline::corrections::{
    self, Correction, LineError, claimed_correction, parse, print, reset_correction,
    store_correction,
};
use stemma_roles::coordinator::SubmitRequest;
use stemma_store::{Env, PortResult, Priority};

use crate::commands::format::counts;
use crate::commands::jobs::runner::JobRunner;
use crate::commands::jobs::{exit, print_end};
use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::clean;
use crate::table::counted;

// More than the text of any outline that is accepted.
const MAX_BYTES: u64 = 17 << 20;

/// Correct the structure of a document: titles, levels, pages.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma outline edit 3M_2022_10K                  in $VISUAL or $EDITOR
  stemma outline export 3M_2022_10K --out 3m.txt
  stemma outline import 3M_2022_10K 3m.txt
  stemma outline reset 3M_2022_10K                 back to the rules

One heading per line: two spaces per level, the page, the title as printed.
  p. 3 PART I
    p. 4 Item 1. Business
    p. 12:34 Overview         on line 34 of page 12, if the title is there more than once
    p. 13 (?) Risk            not printed as written here: not verified, shown as doubtful
    p. 14 (window) Pages      pages without a heading; (preface): text before the first heading
Texts without pages have `line 12` for `p. 12`. Lines that begin with # are comments.

Each title must be on its page. The result is a new version of the tree, by the method
`person`, without a model. Later ingests keep it while the file is unchanged. If the file changes,
rules or a model decide again, and the gap outline.correction_dropped says so.")]
pub struct OutlineArgs {
    #[command(subcommand)]
    action: OutlineAction,
}

#[derive(Debug, clap::Subcommand)]
enum OutlineAction {
    /// Edit the outline in $VISUAL or $EDITOR, and import it.
    Edit {
        #[arg(value_name = "DOC")]
        document: String,
    },
    /// Write the outline as text.
    Export {
        #[arg(value_name = "DOC")]
        document: String,
        /// File to write [default: standard output].
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Replace the outline by an edited export.
    Import {
        #[arg(value_name = "DOC")]
        document: String,
        /// The edited export; `-` reads standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Remove the correction: rules or a model decide again.
    Reset {
        #[arg(value_name = "DOC")]
        document: String,
    },
}

pub async fn run(args: OutlineArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.action {
        OutlineAction::Edit { document } => edit(&document, context).await,
        OutlineAction::Export { document, out } => export(&document, out, context).await,
        OutlineAction::Import { document, file } => {
            let text = read_outline(&file)?;
            let outline = OpenOutline::load(&document, context).await?;
            outline.import(&text, context).await
        }
        OutlineAction::Reset { document } => reset(&document, context).await,
    }
}

// A document with its outline.
struct OpenOutline {
    label: String,
    published: PublishedTree,
    source: Source,
    correction: Correction,
}

impl OpenOutline {
    async fn load(locator: &str, context: &Context) -> Result<Self, CommandError> {
        let reader = open(context).await?;
        let (label, published) = published(&reader, locator).await?;
        let Some(packed) = reader.load_source(&published).await? else {
            let message = format!("the text of `{label}` is not in the store");
            return Err(CommandError::new("document.no_text", message)
                .with_next("stemma ingest the file to have its text"));
        };
        let source = packed.decode().map_err(|error| {
            CommandError::new("store.unreadable", format!("{label}: {error}"))
                .with_next("run `stemma doctor` to check the store")
        })?;
        let correction = Correction::from_tree(&published.tree, &source);
        Ok(Self {
            label,
            published,
            source,
            correction,
        })
    }

    fn text(&self) -> String {
        let DocumentVersion { doc, seq, .. } = self.published.version;
        let extent = self.source.extent();
        print(&self.correction, extent, &self.label, doc, seq)
    }

    // Checks an edited outline, and publishes it as a new version.
    async fn import(self, text: &[u8], context: &Context) -> Result<Exit, CommandError> {
        let read = parse(text, self.source.extent()).map_err(|errors| invalid_lines(&errors))?;
        let Self {
            label, published, ..
        } = &self;
        let version = &published.version;
        if read.doc != version.doc {
            let message = format!("the outline is not an export of `{label}`");
            return Err(CommandError::new("outline.other_document", message)
                .with_next(format!("export it with `stemma outline export {label}`")));
        }
        if read.seq != version.seq {
            return Err(outdated(label, read.seq, version.seq));
        }
        if read.correction == self.correction {
            show(label, published, "no change: no new version", context);
            return Ok(Exit::Done);
        }
        corrections::check(&self.source, &read.correction, &read.lines)
            .map_err(|errors| invalid_lines(&errors))?;
        let change = OutlineChange::Import(&read.correction);
        publish(label, published, change, context).await
    }
}

async fn published(
    reader: &Archive,
    locator: &str,
) -> Result<(String, PublishedTree), CommandError> {
    let document = stemma_archive::document_part(locator);
    let listed = reader.documents_in_scope(&document)?;
    let [listed] = listed.as_slice() else {
        let message = "an outline belongs to one document";
        return Err(CommandError::new("outline.one_document_only", message)
            .with_next("name a document; `stemma ls` lists them"));
    };
    let label = listed.label.clone();
    let published = reader.require_tree(listed).await?;
    Ok((label, Arc::unwrap_or_clone(published)))
}

async fn export(
    locator: &str,
    out: Option<PathBuf>,
    context: &Context,
) -> Result<Exit, CommandError> {
    let outline = OpenOutline::load(locator, context).await?;
    let text = outline.text();
    let output = &context.output;
    if let Some(path) = out {
        std::fs::write(&path, &text).map_err(|error| file_error(&path, &error))?;
        output.note(&format!("wrote {}", path.display()));
    } else {
        let version = outline.published.version.seq;
        let view = json!({ "document": outline.label, "version": version, "outline": text });
        output.show(&view, || output.line(text.trim_end()));
    }
    Ok(Exit::Done)
}

async fn edit(locator: &str, context: &Context) -> Result<Exit, CommandError> {
    let outline = OpenOutline::load(locator, context).await?;
    let text = outline.text();
    let path = write_temporary(&text, &outline.published.version.doc.short())?;
    let result = async {
        run_editor(&path)?;
        let edited = read_outline(&path)?;
        let label = outline.label.clone();
        let exit = outline.import(&edited, context).await?;
        // A job that was interrupted or failed has not saved the work of the person.
        if exit == Exit::Done {
            return Ok(exit);
        }
        let message = format!("the outline of `{label}` was not published");
        Err(CommandError::new("outline.not_published", message))
    }
    .await;
    if let Err(error) = &result {
        let file = path.display();
        let next = error.next.as_ref().map(|next| format!("{next}; "));
        let next = next.unwrap_or_default();
        let command = import_command(locator, &path, context);
        let next = format!("{next}your edit is kept in {file}: correct it and run `{command}`");
        return result.map_err(|error| error.with_next(next));
    }
    // The work is in the store. A file that stays behind in the temporary folder does no harm.
    let _ = std::fs::remove_file(&path);
    result
}

// The command that publishes an edited file, for a shell in this folder.
fn import_command(locator: &str, file: &Path, context: &Context) -> String {
    let Context {
        store, collection, ..
    } = context;
    let [store, collection, locator, file] = [
        store.to_string(),
        collection.to_string(),
        locator.to_owned(),
        file.display().to_string(),
    ]
    .map(|word| shell_quoted(&word));
    format!("stemma --store {store} --collection {collection} outline import {locator} {file}")
}

// A file that only this user can read, with a name that no other process can foresee.
fn write_temporary(text: &str, name: &str) -> Result<PathBuf, CommandError> {
    let random = Env::system().random();
    let path = std::env::temp_dir().join(format!("stemma-outline-{name}-{random:016x}.txt"));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| file_error(&path, &error))?;
    Ok(path)
}

// Like git: the shell splits the command, and the file is its last argument.
fn run_editor(path: &Path) -> Result<(), CommandError> {
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
        .unwrap_or_else(|| "vi".into());
    let mut script = editor.clone();
    script.push(" \"$@\"");
    let words = ["-c".as_ref(), script.as_os_str(), &editor, path.as_os_str()];
    let message = match Command::new("sh").args(words).status() {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    let editor = editor.to_string_lossy();
    let message = format!("the editor `{editor}` failed: {message}");
    Err(CommandError::new("outline.editor_failed", message).with_next("set $EDITOR"))
}

async fn reset(locator: &str, context: &Context) -> Result<Exit, CommandError> {
    let store = context.open_store().await?;
    let reader = context.archive(&store.blobs).await?;
    let (label, published) = published(&reader, locator).await?;
    // An import that failed made no tree, but later ingests would repeat it.
    let doc = published.version.doc;
    let claimed = claimed_correction(&*store.blobs, &context.collection, doc).await?;
    if claimed.is_none() {
        let done = "no correction: nothing to reset";
        show(&label, &published, done, context);
        return Ok(Exit::Nothing);
    }
    let action = format!("remove the correction of {label}");
    let confirmed = context
        .confirm("outline.not_confirmed", &action)
        .map_err(|error| error.with_next("confirm with --yes"))?;
    if !confirmed {
        return Ok(Exit::Nothing);
    }
    publish(&label, &published, OutlineChange::Reset, context).await
}

#[derive(Clone, Copy)]
enum OutlineChange<'a> {
    Import(&'a Correction),
    Reset,
}

impl OutlineChange<'_> {
    async fn submission(
        &self,
        ports: &Ports,
        published: &PublishedTree,
        context: &Context,
    ) -> PortResult<Submission> {
        match self {
            Self::Import(correction) => {
                let collection = &context.collection;
                let text = &published.text_artifact;
                store_correction(ports, collection, &published.version, text, correction).await
            }
            Self::Reset => Ok(reset_correction(&published.version)),
        }
    }
}

// Runs the flow of the document as a job, and waits for it.
async fn publish(
    label: &str,
    before: &PublishedTree,
    change: OutlineChange<'_>,
    context: &Context,
) -> Result<Exit, CommandError> {
    let config = context.config()?;
    let settings = config.job_settings()?;
    let runner = JobRunner::open(context, config, "outline").await?;
    let is_cluster = runner.is_cluster();
    let order = SubmitRequest {
        collection: &context.collection,
        settings: &settings,
        priority: Priority::Interactive,
        options: JobOptions {
            label: format!("outline of {label}"),
            ..JobOptions::default()
        },
    };
    let submission = change.submission(&runner.operations.ports, before, context);
    let (runner, manifest) = match submission.await {
        Ok(submission) => runner.submit(order, &[submission]).await?,
        Err(error) => {
            runner.close().await;
            return Err(error.into());
        }
    };
    let view = runner.wait(context, &manifest).await?;
    let reader = open(context).await?;
    let (_, published) = published(&reader, label).await?;
    // Another person may have been faster between the check and the claim.
    if view.reasons.contains_key("outline.outdated") {
        return Err(outdated(label, before.version.seq, published.version.seq));
    }
    let exit = exit(&view);
    if exit != Exit::Done {
        print_end(context, &view, is_cluster);
        return Ok(exit);
    }
    let done = match change {
        OutlineChange::Import(_) => "corrected",
        OutlineChange::Reset => "reset",
    };
    show(label, &published, done, context);
    Ok(Exit::Done)
}

fn show(label: &str, published: &PublishedTree, done: &str, context: &Context) {
    let headings = || published.tree.walk().map(|(_, section)| section);
    let sections = headings().count();
    let doubtful = headings()
        .filter(|section| !section.verified && section.kind == SectionKind::Heading)
        .count();
    let version = published.version.seq;
    let view = json!({
        "document": label,
        "version": version,
        "changed": matches!(done, "corrected" | "reset"),
        "sections": sections,
        "doubtful": doubtful,
    });
    let output = &context.output;
    output.show(&view, || {
        let mut parts = vec![
            format!("{}: {done}", clean(label)),
            format!("version {version}"),
            counted(sections, "section"),
        ];
        parts.extend(counts([(doubtful as u64, "not verified")]));
        output.line(&parts.join(" · "));
    });
}

fn invalid_lines(errors: &[LineError]) -> CommandError {
    let lines: Vec<String> = errors
        .iter()
        .map(|error| format!("line {}: {}", error.line, error.message))
        .collect();
    CommandError::new("outline.invalid", lines.join("\n"))
        .with_next("correct these lines; nothing was changed in the store")
}

fn outdated(label: &str, exported: u64, newest: u64) -> CommandError {
    let message = format!(
        "the outline was exported from version {exported} of `{label}`, and version {newest} is the newest"
    );
    CommandError::new("outline.outdated", message)
        .with_next("export the outline again and repeat the changes")
}

fn read_outline(path: &Path) -> Result<Vec<u8>, CommandError> {
    let mut text = Vec::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().take(MAX_BYTES).read_to_end(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text))
    };
    read.map_err(|error| file_error(path, &error))?;
    Ok(text)
}

fn file_error(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::new("file.io", format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, expected) in [
            ("s3://filings/a", "s3://filings/a"),
            ("3M_2022_10K", "3M_2022_10K"),
            ("annual report #7", "'annual report #7'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(shell_quoted(word), expected);
        }
    }
}

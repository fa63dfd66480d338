//! `stemma export`: writes one file per document.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use stemma_archive::{ApiError, ExportFormat, ExportedFile};

use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::clean;
use crate::table::counted;

/// Export trees or page texts, one file per document, in the same folders.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma export --format pageindex --out trees/
  stemma export /@form/10-K --format pages --out pages/
  stemma export 3M_2022_10K --format pages          to standard output
Files are named after the documents: trees/10-K/3M_2022_10K.json, or name~3f2a.json if two names
collide.")]
pub struct ExportArgs {
    /// Documents, folders or facet paths [default: all documents].
    #[arg(value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: ExportKind,
    /// Output folder [default: standard output].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Include the text of each node (pageindex).
    #[arg(long)]
    text: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum ExportKind {
    /// PageIndex-compatible JSON, one object per document.
    #[default]
    Pageindex,
    /// JSON lines, one per page: {"doc", "page", "text"}.
    Pages,
}

pub async fn run(args: ExportArgs, context: &Context) -> Result<Exit, CommandError> {
    let reader = open(context).await?;
    let output = &context.output;
    let mut documents = Vec::new();
    let mut included = BTreeSet::new();
    let scopes = match args.scopes {
        scopes if scopes.is_empty() => vec![String::new()],
        scopes => scopes,
    };
    for scope in &scopes {
        let listed = reader.documents_in_scope(scope)?.into_iter();
        documents.extend(listed.filter(|listed| included.insert(listed.doc())));
    }
    let all = documents.len();
    documents.retain(|listed| listed.entry().is_some());
    let without_tree = all - documents.len();
    let paths = reader.export_paths(&documents);
    let format = match args.format {
        ExportKind::Pageindex => ExportFormat::PageIndex { text: args.text },
        ExportKind::Pages => ExportFormat::Pages,
    };
    if args.out.is_none() && args.format == ExportKind::Pageindex && documents.len() > 1 {
        let message = format!(
            "JSON output holds one document, but {} match",
            documents.len()
        );
        return Err(CommandError::new("export.one_document_only", message)
            .with_next("stemma export --format pageindex --out DIR"));
    }
    let mut written = Vec::new();
    let mut failed = 0;
    for (listed, path) in documents.iter().zip(&paths) {
        match reader.export(listed, path, format).await {
            Ok(exported) => {
                match &args.out {
                    Some(folder) => write(folder, &exported)?,
                    None => output.line(exported.content.trim_end()),
                }
                written.push(exported.path);
            }
            Err(ApiError { message, .. }) => {
                failed += 1;
                output.note(&format!("skipped: {}", clean(&message)));
            }
        }
    }
    let mut note = format!("wrote {}", counted(written.len(), "document"));
    if let Some(folder) = &args.out {
        note += &clean(&format!(" to {}", folder.display()));
    }
    if without_tree > 0 {
        note += &format!(", skipped {without_tree} without a tree");
    }
    output.note(&note);
    let exit = match (written.len(), failed) {
        (_, 1..) => Exit::SomeFailed,
        (0, _) => Exit::Nothing,
        _ => Exit::Done,
    };
    // Without a folder the documents themselves are the answer.
    if let (false, Some(folder)) = (output.is_text(), &args.out) {
        let folder = folder.to_string_lossy();
        output.json(&serde_json::json!({
            "out": folder, "written": written, "failed": failed, "without_tree": without_tree
        }));
    }
    Ok(exit)
}

fn write(folder: &Path, exported: &ExportedFile) -> Result<(), CommandError> {
    let path = folder.join(&exported.path);
    write_atomically(&path, &exported.content).map_err(|error| {
        CommandError::new(
            "export.write_failed",
            format!("{}: {error}", path.display()),
        )
        .with_next("check that --out is writable")
    })
}

/// Writes to a temporary file and renames it, so that an interrupted export leaves no partial file.
pub fn write_atomically(path: &Path, content: impl AsRef<[u8]>) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let unfinished = path.with_extension("tmp~");
    fs::write(&unfinished, content)?;
    fs::rename(&unfinished, path)
}

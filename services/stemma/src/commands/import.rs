//! `stemma import`: imports trees of other programs.

use std::io::Read;
use std::path::{Path, PathBuf};

use stemma_document::{Digest, DocId, DocumentVersion, PublishedTree, pageindex};
use stemma_pipeline::sources::file_uri;
use stemma_roles::assembler::publish_imported;
use stemma_store::Env;

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::clean;

// The largest file that is imported, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Import trees in PageIndex JSON.
///
/// Imports titles, hierarchy, pages and summaries, but no node texts.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma import 3M_2022_10K_structure.json
  stemma import trees/*.json")]
pub struct ImportArgs {
    /// Files: a nested tree, or a flat list with dotted `structure` codes.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

pub async fn run(args: ImportArgs, context: &Context) -> Result<Exit, CommandError> {
    let env = Env::system();
    let trees = args
        .files
        .iter()
        .map(|file| read(file, context))
        .collect::<Result<Vec<_>, _>>()?;
    let store = context.open_writable_store(&env, "import").await?;
    let mut entries = Vec::new();
    for tree in trees {
        let collection = &context.collection;
        entries.push(publish_imported(&store.ports, collection, tree).await?);
    }
    let output = &context.output;
    output.show(&entries, || {
        for entry in &entries {
            let path = clean(&entry.version.path);
            output.line(&format!("imported {path}  {} sections", entry.sections));
        }
    });
    Ok(Exit::Done)
}

// The full path and the bytes of a file, at most one more than allowed.
fn read_bytes(file: &Path) -> std::io::Result<(PathBuf, Vec<u8>)> {
    let path = std::fs::canonicalize(file)?;
    let mut json = Vec::new();
    std::fs::File::open(&path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut json)?;
    Ok((path, json))
}

fn file_error(file: &Path, code: &str, message: &str) -> CommandError {
    CommandError::new(code, format!("{}: {message}", file.display()))
}

fn read(file: &Path, context: &Context) -> Result<PublishedTree, CommandError> {
    let (path, json) = read_bytes(file)
        .map_err(|error| file_error(file, "input.unreadable", &error.to_string()))?;
    let size = json.len() as u64;
    if size > MAX_BYTES {
        let message = format!("larger than the limit of {MAX_BYTES} bytes");
        return Err(file_error(file, "limits.bytes", &message));
    }
    let value = serde_json::from_slice(&json).map_err(|error| {
        file_error(file, "import.not_json", &format!("not JSON: {error}"))
            .with_next("give a tree in PageIndex JSON")
    })?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let tree = pageindex::import(&value, &stem).map_err(|error| {
        file_error(file, "import.not_a_tree", &error.to_string())
            .with_next("give a tree in PageIndex JSON: a list of nodes with titles")
    })?;
    let uri = file_uri(&path);
    let name = value.get("doc_name").and_then(|name| name.as_str());
    let name = name.unwrap_or(&stem).to_string();
    let version = DocumentVersion {
        doc: DocId::new(&context.collection, &uri),
        seq: 0,
        uri,
        path: name.replace('/', "_"),
        name,
        source: Digest::from_content(&json),
        origin: Default::default(),
        size_bytes: size,
        settings: "imported".into(),
        sidecar_facts: Default::default(),
        filing_facts: Default::default(),
        correction: None,
        labels: None,
    };
    Ok(PublishedTree {
        version,
        text_artifact: String::new(),
        tree,
    })
}

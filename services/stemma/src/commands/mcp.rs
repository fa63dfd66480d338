//! `stemma mcp`: a Model Context Protocol server over standard input and output, and its installation in clients.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use stemma_boot::shutdown;
use stemma_mcp::{McpOptions, Preset, serve_stdio};
use stemma_store::Env;

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::model_clients::{self, ReadModels};
use crate::page_images::page_images;

/// Serve the archive to a model over the Model Context Protocol (standard input and output).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A client starts it and speaks to it; by hand it waits for lines of JSON. It reads published trees,
needs no model and no key; newly ingested documents appear within two seconds. If a model
is configured there is one more tool, ask, which uses it and stores its answers. `stemma query`
offers the same at /mcp for other machines (docs/MCP.md).

  all        browse_documents, get_document, get_document_structure, get_page_content,
             search, fetch, grep_document, compare_sections; ask with a model
  pageindex  the first four as PageIndex defines them, for agents written for its tools
  openai     search and fetch with one argument each, for ChatGPT connectors

Examples:
  stemma mcp install claude                    print the entry for Claude, and its file
  stemma mcp install cursor --write            add it to ~/.cursor/mcp.json
  stemma mcp install claude --file .mcp.json --write
  stemma --store /archive/.stemma mcp --tools pageindex")]
pub struct McpArgs {
    /// Set of tools: all, pageindex or openai.
    #[arg(long, default_value = "all", value_name = "PRESET")]
    tools: Preset,
    #[command(subcommand)]
    command: Option<McpCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum McpCommand {
    Install(InstallArgs),
}

/// Print the configuration entry for a client, or write it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The rest of the file is kept. The entry holds the paths of this program, the store and the
configuration file, and the collection.")]
struct InstallArgs {
    /// The client.
    #[arg(value_enum, value_name = "CLIENT")]
    client: McpClient,
    /// Add the entry to the client's file; restart the client afterwards.
    #[arg(long)]
    write: bool,
    /// File to use instead of the client's default.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum McpClient {
    /// Claude Desktop; Claude Code reads the same format from .mcp.json.
    Claude,
    /// Cursor.
    Cursor,
}

pub async fn run(args: McpArgs, context: &Context) -> Result<Exit, CommandError> {
    if let Some(McpCommand::Install(install)) = args.command {
        return self::install(install, args.tools, context);
    }
    let stop = shutdown::listen();
    let store = context.open_store().await?;
    let env = Env::system();
    let config = context.config()?;
    let limiter = config.servers.limiter(&env)?;
    let models = ReadModels::connect(context, &env, &limiter, "mcp")?;
    let vision = model_clients::vision(context, &env, &limiter, "mcp")?;
    let options = McpOptions {
        collection: context.collection.clone(),
        index: &context.index_settings()?,
        model: models.answers.as_ref(),
        meaning: models.embeddings.router(&store.blobs, &context.collection),
        preset: args.tools,
        answer: config.answer,
        page_images: Some(page_images(context)?),
        vision,
    };
    match serve_stdio(env, store.blobs, options, stop).await {
        Ok(_) => Ok(Exit::Done),
        Err(error) => {
            let message = format!("standard input and output: {error}");
            Err(CommandError::new("mcp.connection_failed", message))
        }
    }
}

fn install(args: InstallArgs, tools: Preset, context: &Context) -> Result<Exit, CommandError> {
    let entry = entry(tools, context)?;
    let output = &context.output;
    let file = args.file.or_else(|| args.client.file()).ok_or_else(|| {
        let message = "no home folder found to locate the client's file";
        CommandError::new("mcp.no_home", message).with_next("give the file with --file")
    })?;
    let name = file.display();
    if !args.write {
        output.json(&json!({ "mcpServers": { "stemma": entry } }));
        output.note(&format!("add this to {name}, or use --write"));
        return Ok(Exit::Done);
    }
    let refused =
        |error: io::Error| CommandError::new("mcp.file_failed", format!("{name}: {error}"));
    let before = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(refused(error)),
    };
    let after = add_entry(&before, entry).ok_or_else(|| {
        let message = format!("{name} is not the JSON configuration of an MCP client");
        CommandError::new("mcp.file_invalid", message)
            .with_next("correct it, or print the entry without --write")
    })?;
    replace_file(&file, &after).map_err(refused)?;
    output.note(&format!("written to {name}; restart the client"));
    Ok(Exit::Done)
}

// How a client starts this server.
fn entry(tools: Preset, context: &Context) -> Result<Value, CommandError> {
    let binary = std::env::current_exe().map_err(|error| start_error(&error))?;
    let store = match context.store.folder() {
        Some(folder) => absolute(folder)?,
        None => context.store.to_string(),
    };
    let collection = context.collection.to_string();
    let mut args = vec!["--store".into(), store, "--collection".into(), collection];
    // Clients start the server in another folder, so a relative configuration file must become absolute.
    // It will be named, so it is checked as one that was found while it is one.
    context.config()?;
    if let Some(file) = &context.config_file {
        args.extend(["--config".into(), absolute(file.path())?]);
    }
    args.extend(["mcp", "--tools", tools.as_str()].map(String::from));
    Ok(json!({ "command": binary.display().to_string(), "args": args }))
}

fn absolute(path: &Path) -> Result<String, CommandError> {
    let path = std::path::absolute(path).map_err(|error| start_error(&error))?;
    Ok(path.display().to_string())
}

fn start_error(error: &io::Error) -> CommandError {
    CommandError::new("system.start", error.to_string())
}

// Adds the entry to a client's configuration; `None` if the text is not one.
fn add_entry(before: &str, entry: Value) -> Option<String> {
    let mut all = match before.trim() {
        "" => Map::new(),
        text => serde_json::from_str::<Map<String, Value>>(text).ok()?,
    };
    let servers = all.entry("mcpServers").or_insert_with(|| json!({}));
    servers.as_object_mut()?.insert("stemma".into(), entry);
    Some(format!("{:#}\n", Value::Object(all)))
}

// Replaces the file atomically, follows links, and keeps the permissions.
fn replace_file(file: &Path, content: &str) -> io::Result<()> {
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut written = file.clone().into_os_string();
    written.push(".stemma-new");
    fs::write(&written, content)?;
    if let Ok(before) = fs::metadata(&file) {
        fs::set_permissions(&written, before.permissions())?;
    }
    fs::rename(&written, &file)
}

impl McpClient {
    // The file in which this client keeps its servers.
    fn file(self) -> Option<PathBuf> {
        self.file_under(std::env::consts::OS, &|name| {
            std::env::var_os(name).filter(|value| !value.is_empty())
        })
    }

    fn file_under(
        self,
        system: &str,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Option<PathBuf> {
        let home = variable("HOME")
            .or_else(|| variable("USERPROFILE"))
            .map(PathBuf::from);
        let settings = match (self, system) {
            (McpClient::Cursor, _) => return Some(home?.join(".cursor/mcp.json")),
            (McpClient::Claude, "macos") => home?.join("Library/Application Support"),
            (McpClient::Claude, "windows") => PathBuf::from(variable("APPDATA")?),
            (McpClient::Claude, _) => match variable("XDG_CONFIG_HOME") {
                Some(folder) => PathBuf::from(folder),
                None => home?.join(".config"),
            },
        };
        Some(settings.join("Claude").join("claude_desktop_config.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_an_entry_preserves_other_settings() {
        let before = r#"{"theme": "dark", "mcpServers": {"other": {"command": "x"}, "stemma": {"command": "old"}}}"#;
        let after: Value =
            serde_json::from_str(&add_entry(before, json!({"command": "new"})).unwrap()).unwrap();
        assert_eq!(
            after,
            json!({"theme": "dark", "mcpServers": {"other": {"command": "x"}, "stemma": {"command": "new"}}})
        );
        assert!(add_entry("", json!({})).is_some());
        for wrong in ["[]", "{", r#"{"mcpServers": []}"#, "{} // a comment"] {
            assert_eq!(add_entry(wrong, json!({})), None, "{wrong}");
        }
    }

    #[test]
    fn each_client_has_its_config_path() {
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/users/ali"));
        let file = |client: McpClient, system| {
            client
                .file_under(system, &home)
                .unwrap()
                .display()
                .to_string()
        };
        assert_eq!(
            file(McpClient::Cursor, "linux"),
            "/users/ali/.cursor/mcp.json"
        );
        assert_eq!(
            file(McpClient::Claude, "linux"),
            "/users/ali/.config/Claude/claude_desktop_config.json"
        );
        assert!(file(McpClient::Claude, "macos").contains("Library/Application Support/Claude"));
        assert_eq!(McpClient::Claude.file_under("windows", &home), None);
    }

    #[test]
    fn replacing_a_file_follows_symlinks() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real.json");
        let link = folder.path().join("link.json");
        fs::write(&real, "{}").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        replace_file(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        replace_file(&folder.path().join("new/folder/x.json"), "x").unwrap();
    }
}

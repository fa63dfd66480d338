//! The `stemma` binary: parses arguments, starts the runtime and telemetry, and reports errors.

// glibc gives each thread an arena of its own, which keeps what one document needed: ADR 0031.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

mod children;
mod commands;
mod config;
mod context;
mod cost;
mod discover;
mod embedded;
mod embeddings;
mod endpoint;
mod error;
mod failure_groups;
mod filings;
mod input_file;
mod model_clients;
mod models;
mod output;
mod page_images;
mod prompts;
mod sidecar;
mod submit_options;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{ArgAction, Parser};
use stemma_boot::config_file::ConfigFile;
use stemma_boot::location::Location;
use stemma_boot::telemetry::{self, Telemetry};
use stemma_document::Collection;

use crate::commands::Command;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, OutputFormat};

/// Turn archives of filings into section trees, and answer questions by reasoning over their structure.
#[derive(Debug, Parser)]
#[command(
    name = "stemma",
    version,
    max_term_width = 100,
    after_help = "\
Start with:  stemma ingest FOLDER
Then:        stemma ls · stemma tree NAME · stemma search \"…\" · stemma serve (in a browser)

Name a document by its name, path, id, or /@facet/value/name; a section by …#0007, an Item by
…#item-1A, pages by …#p=5-7. Any locator that is printed can be pasted back.

Exit codes: 0 done or found · 1 nothing found · 2 usage or error · 3 some documents failed · 4
stopped at a limit · 5 answered by search alone · 130 interrupted. After 4 or 130, run the same
command to resume."
)]
struct Cli {
    #[command(flatten, next_help_heading = "Options of all commands")]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Args)]
struct Global {
    /// Folder or bucket prefix where Stemma keeps its data [default: .stemma here or in the nearest folder above].
    #[arg(
        long,
        global = true,
        env = "STEMMA_STORE",
        value_name = "DIR|s3://BUCKET/PREFIX"
    )]
    store: Option<Location>,
    /// Collection to work on. Commands never read across collections.
    #[arg(
        long,
        global = true,
        env = "STEMMA_COLLECTION",
        default_value = "default",
        value_name = "NAME"
    )]
    collection: Collection,
    /// Configuration file [default: stemma.toml here, or next to the store that is found above; only a
    /// file named here may set addresses, secrets and rights].
    #[arg(long, global = true, env = "STEMMA_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long, global = true, conflicts_with = "jsonl")]
    json: bool,
    /// Print one JSON object per line.
    #[arg(long, global = true)]
    jsonl: bool,
    /// Only print these JSON fields, of the object or of its rows; implies --json.
    #[arg(long, global = true, value_delimiter = ',', value_name = "A,B")]
    fields: Vec<String>,
    /// Hide notes and progress; twice: hide errors too.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    quiet: u8,
    /// Log to standard error; twice: debug logs.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Disable colors (also: environment variable NO_COLOR).
    #[arg(long, global = true)]
    no_color: bool,
    /// Answer yes to all confirmations.
    #[arg(long, global = true)]
    yes: bool,
}

impl Global {
    fn context(self) -> Context {
        let form = match (self.json, self.jsonl) {
            (true, _) => OutputFormat::Json,
            (_, true) => OutputFormat::JsonLines,
            _ if !self.fields.is_empty() => OutputFormat::Json,
            _ => OutputFormat::Text,
        };
        let output = Output::new(form, self.fields, self.quiet, self.no_color);
        let named = self.config.map(ConfigFile::Named);
        let (store, config_file) = match self.store {
            Some(store) => (store, named.or_else(|| ConfigFile::find(Path::new("")))),
            None => {
                let project = project_above();
                if let Some(folder) = &project {
                    let store = folder.join(STORE_NAME);
                    output.note(&output.dim(&format!("store: {}", store.display())));
                }
                let config = named.or_else(|| {
                    let here = ConfigFile::find(Path::new(""));
                    here.or_else(|| ConfigFile::find(project.as_deref()?))
                });
                let store = project.unwrap_or_default().join(STORE_NAME);
                (Location::Found(store), config)
            }
        };
        Context {
            store,
            collection: self.collection,
            config_file,
            output,
            yes: self.yes,
            loaded_config: OnceLock::new(),
        }
    }
}

const STORE_NAME: &str = ".stemma";

// The nearest folder above with a store, unless the working directory has one.
fn project_above() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    // A link, dangling or not, is found and then refused.
    if here.join(STORE_NAME).symlink_metadata().is_ok() {
        return None;
    }
    let mut above = here.ancestors().skip(1);
    let project = above.find(|folder| folder.join(STORE_NAME).join("layout").exists());
    project.map(Path::to_path_buf)
}

fn main() -> ExitCode {
    // The extraction child applies its sandbox first: limits set later would not bind threads that already run.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == children::EXTRACT_CHILD)
    {
        return extract_child();
    }
    let cli = Cli::parse();
    let level = ["error", "info", "debug"][usize::from(cli.global.verbose.min(2))];
    let context = cli.global.context();
    match run(cli.command, level, &context) {
        Ok(_) if context.output.lacks_fields() => ExitCode::from(2),
        Ok(exit) => ExitCode::from(exit.code()),
        Err(error) => report(&context.output, &error),
    }
}

fn run(command: Command, level: &str, context: &Context) -> Result<Exit, CommandError> {
    // File access and structure work run on blocking threads. More than 32 of them only use memory.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(32)
        .enable_all()
        .build();
    let runtime =
        runtime.map_err(|error| CommandError::new("system.runtime", error.to_string()))?;
    let reads_input = matches!(command, Command::Mcp(_));
    let ended = runtime.block_on(async {
        let telemetry = start_telemetry(&command, level, context);
        let ended = command.run(context).await;
        telemetry.shutdown().await;
        ended
    });
    if reads_input {
        // The thread that reads standard input may block forever. It has no work to finish, so do not wait for it.
        runtime.shutdown_background();
    }
    ended
}

// Commands log only on request. Services log at `info` and export traces if a collector is configured.
fn start_telemetry(command: &Command, level: &str, context: &Context) -> Telemetry {
    let service = match command {
        Command::Coordinator(_) => "coordinator",
        Command::Worker(_) => "worker",
        Command::Assembler(_) => "assembler",
        Command::Query(_) => "query",
        Command::Serve(_) => "serve",
        command => {
            let calls_model = matches!(
                command,
                Command::Ask(_)
                    | Command::Describe(_)
                    | Command::Chat(_)
                    | Command::Search(_)
                    | Command::Eval(_)
            );
            // The answer itself reports an unreachable model, so the client's log lines would repeat it.
            let level = match level {
                "error" if calls_model => "error,stemma_llm::client=off",
                level => level,
            };
            return telemetry::start(level, &telemetry::TelemetrySettings::default(), "command");
        }
    };
    // The command loads the configuration again and reports the error if it is invalid.
    let settings = context
        .config()
        .map(|config| config.telemetry.clone())
        .unwrap_or_default();
    telemetry::start(
        if level == "error" { "info" } else { level },
        &settings,
        service,
    )
}

fn extract_child() -> ExitCode {
    match stemma_extract::serve(children::run_task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn report(output: &Output, error: &CommandError) -> ExitCode {
    output.show(&serde_json::json!({ "error": error }), || {
        output.command_error(error);
    });
    ExitCode::from(2)
}

//! The commands, one file each.

pub mod ask;
pub mod browse;
pub mod cat;
pub mod chat;
pub mod completions;
pub mod config;
pub mod cost;
pub mod describe;
pub mod diff;
mod diff_trees;
pub mod doctor;
pub mod eval;
pub mod export;
pub mod facts;
pub mod failures;
mod format;
pub mod gc;
pub mod grep;
pub mod import;
pub mod index;
pub mod ingest;
pub mod items;
pub mod jobs;
pub mod key;
pub mod ls;
pub mod mcp;
mod open;
pub mod outline;
pub mod probe;
pub mod prompts;
pub mod rm;
pub mod search;
pub mod series;
pub mod services;
pub mod stat;
pub mod tables;
pub mod tree;

use clap::Subcommand;

use crate::children;
use crate::context::Context;
use crate::error::{CommandError, Exit};

// The commands: the arguments of each, and what runs it.
macro_rules! commands {
    ($($name:ident($args:ty) => $run:path,)*) => {
        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($name($args),)*
            /// Extract and draw documents for a parent process.
            #[command(name = children::EXTRACT_CHILD, hide = true)]
            ExtractChild,
        }

        impl Command {
            pub async fn run(self, context: &Context) -> Result<Exit, CommandError> {
                match self {
                    $(Self::$name(args) => $run(args, context).await,)*
                    Self::ExtractChild => Ok(Exit::Done),
                }
            }
        }
    };
}

commands! {
    Ingest(ingest::IngestArgs) => ingest::run,
    Submit(jobs::submit::SubmitArgs) => jobs::submit::run,
    Status(jobs::status::StatusArgs) => jobs::status::run,
    Watch(jobs::watch::WatchArgs) => jobs::watch::run,
    Ls(ls::LsArgs) => ls::run,
    Tree(tree::TreeArgs) => tree::run,
    Stat(stat::StatArgs) => stat::run,
    Items(items::ItemsArgs) => items::run,
    Facts(facts::FactsArgs) => facts::run,
    Series(series::SeriesArgs) => series::run,
    Tables(tables::TablesArgs) => tables::run_list,
    Table(tables::TableArgs) => tables::run_one,
    Outline(outline::OutlineArgs) => outline::run,
    Cat(cat::CatArgs) => cat::run,
    Grep(grep::GrepArgs) => grep::run,
    Browse(browse::BrowseArgs) => browse::run,
    Search(search::SearchArgs) => search::run,
    Diff(diff::DiffArgs) => diff::run,
    Ask(ask::AskArgs) => ask::run,
    Describe(describe::DescribeArgs) => describe::run,
    Chat(chat::ChatArgs) => chat::run,
    Index(index::IndexArgs) => index::run,
    Why(jobs::why::WhyArgs) => jobs::why::run,
    Cost(cost::CostArgs) => cost::run,
    Failures(failures::FailuresArgs) => failures::run,
    Retry(jobs::retry::RetryArgs) => jobs::retry::run,
    Cancel(jobs::cancel::CancelArgs) => jobs::cancel::run,
    Job(jobs::job::JobArgs) => jobs::job::run,
    DeadLetters(jobs::dead_letters::DeadLettersArgs) => jobs::dead_letters::run,
    Export(export::ExportArgs) => export::run,
    Import(import::ImportArgs) => import::run,
    Eval(eval::EvalArgs) => eval::run,
    Rm(rm::RmArgs) => rm::run,
    Gc(gc::GcArgs) => gc::run,
    Config(config::ConfigArgs) => config::run,
    Key(key::KeyArgs) => key::run,
    Prompts(prompts::PromptsArgs) => prompts::run,
    Doctor(doctor::DoctorArgs) => doctor::run,
    Completions(completions::CompletionsArgs) => completions::run,
    Coordinator(services::CoordinatorArgs) => services::coordinator,
    Worker(services::WorkerArgs) => services::worker,
    Assembler(services::AssemblerArgs) => services::assembler,
    Query(services::QueryArgs) => services::query,
    Serve(services::ServeArgs) => services::serve,
    Mcp(mcp::McpArgs) => mcp::run,
    Probe(probe::ProbeArgs) => probe::run,
}

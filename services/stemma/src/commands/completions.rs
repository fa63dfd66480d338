//! `stemma completions`: prints shell completions.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Cli;
use crate::context::Context;
use crate::error::{CommandError, Exit};

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma completions bash > ~/.local/share/bash-completion/completions/stemma
  stemma completions zsh  > ~/.zfunc/_stemma")]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: Shell,
}

pub async fn run(args: CompletionsArgs, _: &Context) -> Result<Exit, CommandError> {
    let mut stdout = std::io::stdout();
    clap_complete::generate(args.shell, &mut Cli::command(), "stemma", &mut stdout);
    Ok(Exit::Done)
}

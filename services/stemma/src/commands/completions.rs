//! `stemma completions`: prints shell completions.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::error::Exit;

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

pub fn run<C: CommandFactory>(args: &CompletionsArgs) -> Exit {
    clap_complete::generate(
        args.shell,
        &mut C::command(),
        "stemma",
        &mut std::io::stdout(),
    );
    Exit::Done
}

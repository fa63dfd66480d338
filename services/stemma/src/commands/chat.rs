//! `stemma chat`: one question after the other, each understood from those before.

use std::io::{IsTerminal, Write};

use stemma_search::answer::{MAX_EARLIER, Turn};

use super::ask::{AskHow, Desk, show};
use crate::context::{CommandError, Context, Exit};
use crate::output::{Form, Output, clean};

/// Ask one question after the other; each goes on from those before.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Questions come line by line, from a terminal or from standard input; a line that begins with `/` is for the chat itself:
  /in SCOPE   from now on only from there; without a scope, from what the command was given
  /new        forget what was said
  /quit       the end, as is the end of the input

Examples:
  stemma chat --in /@company/3M
  printf 'capex in 2022?\\nand in 2021?\\n' | stemma chat --in 3M_2022_10K --jsonl")]
pub struct ChatArgs {
    #[command(flatten)]
    how: AskHow,
}

/// Runs the command.
///
/// # Errors
/// [`CommandError`] when the store cannot be had. A question that cannot be answered does not end the chat.
pub async fn run(args: ChatArgs, context: &Context) -> Result<Exit, CommandError> {
    let output = &context.output;
    let desk = Desk::open(context).await?;
    let mut chat = Chat { given: args.how.scopes.clone(), how: args.how, said: Vec::new() };
    let terminal = std::io::stdin().is_terminal();
    if terminal {
        output.note("questions line by line; /in SCOPE, /new, /quit");
    }
    loop {
        prompt(terminal);
        let Some(line) = next_line().await? else { break };
        let line = line.trim();
        match line {
            "" => {}
            "/quit" | "/exit" => break,
            "/new" => chat.said.clear(),
            _ if line.starts_with("/in") => chat.narrow(line, output),
            _ if line.starts_with('/') => output.note("there are /in SCOPE, /new and /quit"),
            _ => {
                if let Err(error) = chat.ask(line, &desk, output).await {
                    output.error(&format!("{}: {}", error.code, clean(&error.message)));
                }
            }
        }
    }
    Ok(Exit::Done)
}

struct Chat {
    /// Scopes of the command line.
    given: Vec<String>,
    how: AskHow,
    said: Vec<Turn>,
}

impl Chat {
    fn narrow(&mut self, line: &str, output: &Output) {
        let scope = line.trim_start_matches("/in").trim();
        self.how.scopes = if scope.is_empty() { self.given.clone() } else { vec![scope.to_owned()] };
        output.note(&format!(
            "from now on in {}",
            if self.how.scopes.is_empty() { "all documents".into() } else { clean(&self.how.scopes.join(", ")) }
        ));
    }

    async fn ask(&mut self, text: &str, desk: &Desk, output: &Output) -> Result<(), CommandError> {
        let mut question = self.how.question(text, &desk.reader)?;
        question.earlier.clone_from(&self.said);
        let answer = desk.answer(&question, output).await?;
        match output.form {
            Form::Text => show::answer(&answer, output),
            // Answers of a conversation come one by one: each is an object on its line.
            Form::Json | Form::JsonLines => Output { form: Form::JsonLines, ..output.clone() }.json(&answer),
        }
        output.note(&output.dim(&show::footer(&answer, true)));
        self.said.push(Turn { question: text.to_owned(), answer: answer.text });
        let early = self.said.len().saturating_sub(MAX_EARLIER);
        self.said.drain(..early);
        Ok(())
    }
}

fn prompt(terminal: bool) {
    if terminal {
        let mut to = std::io::stderr().lock();
        // A prompt that cannot be shown is no reason not to listen.
        drop(write!(to, "> ").and_then(|()| to.flush()));
    }
}

/// The next line of standard input; `None` at its end. Read beside, so that an interrupt is not waited for.
async fn next_line() -> Result<Option<String>, CommandError> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|bytes| (bytes > 0).then_some(line))
    });
    let failed = |error: std::io::Error| CommandError::new("input.unreadable", format!("standard input: {error}"));
    read.await.map_err(|error| failed(std::io::Error::other(error)))?.map_err(failed)
}

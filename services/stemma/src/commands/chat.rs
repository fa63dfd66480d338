//! `stemma chat`: questions in a conversation, each with the context of those before.

use std::io::{BufRead, IsTerminal, Write};

use serde_json::json;
use stemma_answers::{ConversationTurn, MAX_EARLIER};

use super::ask::{AskOptions, AskSession, ProgressNotes, show};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, OutputFormat, clean};

/// Ask questions in a conversation; each can refer to those before.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads one question per line, from a terminal or standard input. Lines that begin with `/` are commands:
  /in SCOPE   limit answers to this scope; without a scope, reset to the scope of the command line
  /new        start a new conversation
  /quit       end the chat (or end the input)

With --json or --jsonl, each question prints one line: the answer, or {\"question\", \"error\"}.

Exit codes: 0 all answered · 2 usage or error; without a terminal, also if a question failed.

Examples:
  stemma chat --in /@company/3M
  printf 'capex in 2022?\\nand in 2021?\\n' | stemma chat --in 3M_2022_10K --jsonl")]
pub struct ChatArgs {
    #[command(flatten)]
    how: AskOptions,
}

pub async fn run(args: ChatArgs, context: &Context) -> Result<Exit, CommandError> {
    let output = &context.output;
    let session = AskSession::open(context).await?;
    let mut chat = Chat {
        initial_scopes: args.how.scope.scopes.clone(),
        options: args.how,
        history: Vec::new(),
    };
    let terminal = std::io::stdin().is_terminal();
    if terminal {
        output.note("ask one question per line; commands: /in SCOPE, /new, /quit");
    }
    let mut failed = false;
    loop {
        prompt(terminal);
        let line = match next_line().await? {
            None => break,
            Some(Ok(line)) => line,
            Some(Err(error)) => {
                failed = true;
                report_error("", &error, output);
                continue;
            }
        };
        let line = line.trim();
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match command {
            "" => {}
            "/quit" | "/exit" => break,
            "/new" => chat.history.clear(),
            "/in" => {
                if let Err(error) = chat.set_scope(rest.trim(), &session, output) {
                    output.command_error(&error);
                }
            }
            _ if command.starts_with('/') => {
                output.note("unknown command; use /in SCOPE, /new or /quit");
            }
            _ => {
                if let Err(error) = chat.ask(line, &session, output).await {
                    failed = true;
                    report_error(line, &error, output);
                }
            }
        }
    }
    // A person has seen the error, a script needs the exit code.
    Ok(if failed && !terminal {
        Exit::CheckFailed
    } else {
        Exit::Done
    })
}

// Prints the error of a question. In JSON it takes the place of the answer, so that every question has one line.
fn report_error(question: &str, error: &CommandError, output: &Output) {
    if output.is_text() {
        output.command_error(error);
        return;
    }
    let error = json!({ "code": error.code, "message": error.message, "next": error.next });
    json_lines(output).json(&json!({ "question": question, "error": error }));
}

// Answers are printed as they come, so both JSON formats print one object per line.
fn json_lines(output: &Output) -> Output {
    Output {
        format: OutputFormat::JsonLines,
        ..output.clone()
    }
}

struct Chat {
    // Scopes of the command line.
    initial_scopes: Vec<String>,
    options: AskOptions,
    history: Vec<ConversationTurn>,
}

impl Chat {
    // Changes the scope, or keeps the old one if the new one does not exist.
    fn set_scope(
        &mut self,
        scope: &str,
        session: &AskSession,
        output: &Output,
    ) -> Result<(), CommandError> {
        let mut how = self.options.clone();
        how.scope.scopes = match scope {
            "" => self.initial_scopes.clone(),
            scope => vec![scope.to_owned()],
        };
        how.question("what is there?", &session.reader)?;
        self.options = how;
        let scope = match self.options.scope.scopes.as_slice() {
            [] => "all documents".into(),
            scopes => clean(&scopes.join(", ")),
        };
        output.note(&format!("scope: {scope}"));
        Ok(())
    }

    async fn ask(
        &mut self,
        text: &str,
        session: &AskSession,
        output: &Output,
    ) -> Result<(), CommandError> {
        let mut question = self.options.question(text, &session.reader)?;
        question.earlier.clone_from(&self.history);
        let answer = session
            .answer(&question, &mut ProgressNotes(output))
            .await?;
        if output.is_text() {
            show::answer(&answer, output);
        } else {
            json_lines(output).json(&answer);
        }
        output.note(&output.dim(&show::footer(&answer, true)));
        self.history.push(ConversationTurn {
            question: text.to_owned(),
            answer: answer.text,
        });
        let early = self.history.len().saturating_sub(MAX_EARLIER);
        self.history.drain(..early);
        Ok(())
    }
}

fn prompt(terminal: bool) {
    if terminal {
        let mut to = std::io::stderr().lock();
        // If the prompt cannot be printed, still read the question.
        drop(write!(to, "> ").and_then(|()| to.flush()));
    }
}

// The next line of standard input, `None` at its end; an inner error if it is not UTF-8. A blocking thread reads it, so
// that an interrupt takes effect at once.
async fn next_line() -> Result<Option<Result<String, CommandError>>, CommandError> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = Vec::new();
        std::io::stdin()
            .lock()
            .read_until(b'\n', &mut line)
            .map(|bytes| (bytes > 0).then_some(line))
    });
    let line = read.await.map_err(std::io::Error::other).flatten();
    let line = line.map_err(|error| {
        CommandError::new("input.unreadable", format!("standard input: {error}"))
    })?;
    Ok(line.map(|line| {
        String::from_utf8(line)
            .map_err(|_| CommandError::new("input.encoding", "the line is not valid UTF-8"))
    }))
}

//! `stemma chat`: one question after the other, each understood from those before.

use std::io::{BufRead, IsTerminal, Write};

use serde_json::json;
use stemma_answers::{ConversationTurn, MAX_EARLIER};

use super::ask::{AskOptions, AskSession, show};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, OutputFormat, clean};

/// Ask one question after the other; each goes on from those before.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Questions come line by line, from a terminal or from standard input; a line that begins with `/` is for the chat itself:
  /in SCOPE   from now on only from there; without a scope, from what the command was given
  /new        forget what was said
  /quit       the end, as is the end of the input

With --json or --jsonl each question has one line: the answer, or {\"question\", \"error\"}.

Exit codes: 0 all were answered · 2 usage or error; without a terminal also where a question could not be asked.

Examples:
  stemma chat --in /@company/3M
  printf 'capex in 2022?\\nand in 2021?\\n' | stemma chat --in 3M_2022_10K --jsonl")]
pub struct ChatArgs {
    #[command(flatten)]
    how: AskOptions,
}

/// Runs the command.
///
/// # Errors
/// [`CommandError`] when the store cannot be had. A question that cannot be answered does not end the chat.
pub async fn run(args: ChatArgs, context: &Context) -> Result<Exit, CommandError> {
    let output = &context.output;
    let session = AskSession::open(context).await?;
    let mut chat = Chat {
        initial_scopes: args.how.scopes.clone(),
        options: args.how,
        history: Vec::new(),
    };
    let terminal = std::io::stdin().is_terminal();
    if terminal {
        output.note("questions line by line; /in SCOPE, /new, /quit");
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
                    output.error(&format!("{}: {}", error.code, clean(&error.message)));
                }
            }
            _ if command.starts_with('/') => output.note("there are /in SCOPE, /new and /quit"),
            _ => {
                if let Err(error) = chat.ask(line, &session, output).await {
                    failed = true;
                    report_error(line, &error, output);
                }
            }
        }
    }
    // Who sits before it has seen what failed; a script has not.
    Ok(if failed && !terminal {
        Exit::CheckFailed
    } else {
        Exit::Done
    })
}

/// Says why a question was not answered; as JSON in its place, so that each question has its line.
fn report_error(question: &str, error: &CommandError, output: &Output) {
    if output.is_text() {
        output.error(&format!("{}: {}", error.code, clean(&error.message)));
        return;
    }
    let error = json!({ "code": error.code, "message": error.message, "next": error.next });
    json_lines(output).json(&json!({ "question": question, "error": error }));
}

/// Answers of a conversation come one by one: each is an object on its line.
fn json_lines(output: &Output) -> Output {
    Output {
        format: OutputFormat::JsonLines,
        ..output.clone()
    }
}

struct Chat {
    /// Scopes of the command line.
    initial_scopes: Vec<String>,
    options: AskOptions,
    history: Vec<ConversationTurn>,
}

impl Chat {
    /// Goes on in another scope; where that names nothing, in the one it had.
    fn set_scope(
        &mut self,
        scope: &str,
        session: &AskSession,
        output: &Output,
    ) -> Result<(), CommandError> {
        let scopes = if scope.is_empty() {
            self.initial_scopes.clone()
        } else {
            vec![scope.to_owned()]
        };
        let mut how = self.options.clone();
        how.scopes = scopes;
        how.question("what is there?", &session.reader)?;
        self.options = how;
        output.note(&format!(
            "from now on in {}",
            if self.options.scopes.is_empty() {
                "all documents".into()
            } else {
                clean(&self.options.scopes.join(", "))
            }
        ));
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
        let answer = session.answer(&question, output).await?;
        match output.format {
            OutputFormat::Text => show::answer(&answer, output),
            OutputFormat::Json | OutputFormat::JsonLines => json_lines(output).json(&answer),
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
        // A prompt that cannot be shown is no reason not to listen.
        drop(write!(to, "> ").and_then(|()| to.flush()));
    }
}

/// The next line of standard input, `None` at its end; an error where it is no UTF-8. Read beside, so that an interrupt is not
/// waited for.
async fn next_line() -> Result<Option<Result<String, CommandError>>, CommandError> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = Vec::new();
        std::io::stdin()
            .lock()
            .read_until(b'\n', &mut line)
            .map(|bytes| (bytes > 0).then_some(line))
    });
    let failed = |error: std::io::Error| {
        CommandError::new("input.unreadable", format!("standard input: {error}"))
    };
    let line = read
        .await
        .map_err(|error| failed(std::io::Error::other(error)))?
        .map_err(failed)?;
    Ok(line.map(|line| {
        String::from_utf8(line)
            .map_err(|_| CommandError::new("input.encoding", "this line is not UTF-8"))
    }))
}

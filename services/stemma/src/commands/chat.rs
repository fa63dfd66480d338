//! `stemma chat`: questions in a conversation, each with the context of those before.

use std::io::{BufRead, IsTerminal, Write};

use serde_json::{Value, json};
use stemma_answers::{ConversationTurn, MAX_EARLIER};
use stemma_archive::{
    AnswerReply, AnswerRequest, ApiError, ConversationList, Conversations, NEW_CONVERSATION,
};
use stemma_operations::text::ago;
use stemma_store::Env;

use super::ask::{AskOptions, AskSession, ProgressNotes, show};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, OutputFormat, clean};
use crate::table::{Column, Table, counted};

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
  stemma chat --resume                 the newest conversation; --resume ID another one
  stemma chat --list
  printf 'capex in 2022?\\nand in 2021?\\n' | stemma chat --in 3M_2022_10K --jsonl")]
pub struct ChatArgs {
    #[command(flatten)]
    how: AskOptions,
    /// Go on with a stored conversation: with this one, or the newest. Its scope holds unless --in, --where or --item is given.
    #[arg(long, value_name = "ID", num_args = 0..=1, conflicts_with = "list", conflicts_with = "delete")]
    #[expect(clippy::option_option, reason = "an option with an optional value")]
    resume: Option<Option<String>>,
    /// List stored conversations, newest first.
    #[arg(long, conflicts_with = "delete")]
    list: bool,
    /// Conversations to list.
    #[arg(long, value_name = "N", default_value_t = 50, requires = "list")]
    limit: usize,
    /// Delete a stored conversation. Its answers stay.
    #[arg(long, value_name = "ID")]
    delete: Option<String>,
}

pub async fn run(args: ChatArgs, context: &Context) -> Result<Exit, CommandError> {
    let output = &context.output;
    if args.list || args.delete.is_some() {
        return manage(&args, context).await;
    }
    let session = AskSession::open(context).await?;
    let mut chat = Chat {
        options: args.how,
        initial_scopes: Vec::new(),
        history: Vec::new(),
        conversation: None,
        is_kept: true,
    };
    if let Some(id) = args.resume {
        chat.resume(id, &session, output).await?;
    }
    chat.initial_scopes.clone_from(&chat.options.scope.scopes);
    let failed = chat.ask_lines(&session, output).await?;
    chat.end(output);
    // A person has seen the error, a script needs the exit code.
    Ok(if failed && !std::io::stdin().is_terminal() {
        Exit::CheckFailed
    } else {
        Exit::Done
    })
}

// Lists conversations, or deletes one.
async fn manage(args: &ChatArgs, context: &Context) -> Result<Exit, CommandError> {
    let blobs = context.open_store().await?.blobs;
    let env = Env::system();
    let now_ms = env.now_ms();
    let conversations = Conversations::new(env, blobs, &context.collection);
    let output = &context.output;
    if let Some(id) = &args.delete {
        conversations.delete(id).await?;
        output.show(&json!({ "deleted": id }), || {
            output.line(&format!("deleted {}", clean(id)));
        });
        return Ok(Exit::Done);
    }
    let list = conversations.list(None, args.limit).await?;
    output.print(&list, &list.conversations, || {
        show_list(&list, now_ms, output);
    });
    Ok(Exit::nothing_if(list.conversations.is_empty()))
}

fn show_list(list: &ConversationList, now_ms: u64, output: &Output) {
    let columns = [Column::Left, Column::Right, Column::Left, Column::Text];
    let mut table = Table::with_one_line_rows(columns);
    for conversation in &list.conversations {
        table.row([
            conversation.id.clone(),
            counted(conversation.length, "question"),
            ago(now_ms.saturating_sub(conversation.updated_ms)),
            conversation.title.clone(),
        ]);
    }
    table.print(output);
    if list.next_cursor.is_some() {
        output.note("there are older ones: raise --limit");
    }
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
    options: AskOptions,
    // Scopes of the command line, or of the conversation that goes on.
    initial_scopes: Vec<String>,
    history: Vec<ConversationTurn>,
    // `None` before its first answer.
    conversation: Option<String>,
    is_kept: bool,
}

impl Chat {
    async fn resume(
        &mut self,
        id: Option<String>,
        session: &AskSession,
        output: &Output,
    ) -> Result<(), CommandError> {
        let conversations = &session.conversations;
        let newest = match id {
            Some(_) => None,
            None => conversations.list(None, 1).await?.conversations.pop(),
        };
        let Some(id) = id.or(newest.map(|newest| newest.id)) else {
            let message = "no conversation is stored";
            return Err(ApiError::new("conversation.not_found", message, "stemma chat").into());
        };
        let answerer = session.answerer.as_ref();
        let (started_with, earlier) = conversations.resume(&id, answerer).await?;
        let scope = &mut self.options.scope;
        if scope.scopes.is_empty() && scope.conditions.is_empty() && scope.item.is_none() {
            scope.scopes = started_with.scopes;
            scope.conditions = match started_with.filter {
                Some(Value::String(text)) => text,
                Some(filter) => filter.to_string(),
                None => String::new(),
            };
            scope.item = started_with.item;
        }
        if let Some(turn) = earlier.last() {
            output.note(&output.dim(&format!("last question: {}", clean(&turn.question))));
        }
        self.history = earlier;
        self.conversation = Some(id);
        Ok(())
    }

    // Asks what standard input has. Whether a question failed.
    async fn ask_lines(
        &mut self,
        session: &AskSession,
        output: &Output,
    ) -> Result<bool, CommandError> {
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
                "/new" => self.end(output),
                "/in" => {
                    if let Err(error) = self.set_scope(rest.trim(), session, output) {
                        output.command_error(&error);
                    }
                }
                _ if command.starts_with('/') => {
                    output.note("unknown command; use /in SCOPE, /new or /quit");
                }
                _ => {
                    if let Err(error) = self.ask(line, session, output).await {
                        failed = true;
                        report_error(line, &error, output);
                    }
                }
            }
        }
        Ok(failed)
    }

    // Ends the conversation, and says how to go on with it.
    fn end(&mut self, output: &Output) {
        self.history.clear();
        if let Some(id) = self.conversation.take() {
            self.is_kept = true;
            output.note(&format!("conversation {id} · stemma chat --resume {id}"));
        }
    }

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
        let conversation = self.conversation.as_deref().unwrap_or(NEW_CONVERSATION);
        let request = AnswerRequest {
            earlier: self.history.clone(),
            conversation: Some(conversation.to_owned()),
            ..self.options.request(text, &session.reader)?
        };
        let question = session.reader.ask_request(&request)?;
        let answer = session
            .answer(&question, &mut ProgressNotes(output))
            .await?;
        self.keep(&request, &answer.id, session, output).await;
        let reply = AnswerReply {
            answer,
            conversation: self.conversation.clone().filter(|_| self.is_kept),
        };
        let answer = &reply.answer;
        if output.is_text() {
            show::answer(answer, output);
        } else {
            json_lines(output).json(&reply);
        }
        output.note(&output.dim(&show::footer(answer, true)));
        self.history.push(ConversationTurn {
            question: text.to_owned(),
            answer: reply.answer.text,
        });
        let early = self.history.len().saturating_sub(MAX_EARLIER);
        self.history.drain(..early);
        Ok(())
    }

    // Without write access to the store the chat goes on, and says once that it is not kept.
    async fn keep(
        &mut self,
        request: &AnswerRequest,
        answer: &str,
        session: &AskSession,
        output: &Output,
    ) {
        if !self.is_kept {
            return;
        }
        match session.conversations.keep(request, answer).await {
            Ok(id) => self.conversation = Some(id),
            Err(error) => {
                self.is_kept = false;
                let message = clean(&error.message);
                output.note(&format!(
                    "this and further questions are not kept: {message}"
                ));
            }
        }
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

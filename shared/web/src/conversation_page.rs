//! Conversations: their list, and each with its answers and a form for a further question.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::de::IgnoredAny;
use stemma_answers::Answer;
use stemma_archive::{
    AnsweredTurn, ApiError, ConversationDetails, ConversationList, ConversationSummary, TurnState,
};
use stemma_gateway::AppState;
use stemma_gateway::admission::ModelRequest;
use stemma_gateway::extract::Path;
use stemma_gateway::problem::{Problem, answer_problem};
use stemma_operations::text::ago;

use crate::answer_view::answer_view;
use crate::ask_page::{progress, question_form, without_model};
use crate::context::PageContext;
use crate::layout::Head::{Number, Text};
use crate::layout::{Screen, collection_field, page, see_other, table, token_field};
use crate::security::Form;
use crate::text::{Line, Passage, grouped};

const CONVERSATIONS: usize = 50;

/// `GET /conversations`
pub(crate) async fn conversations(
    State(state): State<AppState>,
    _: ModelRequest,
    context: PageContext,
) -> Result<Response, Problem> {
    let archive = context.archive(&state)?;
    let conversations = state.conversations(&archive.collection)?;
    let cursor = context.param("cursor");
    let list = conversations.list(cursor, CONVERSATIONS).await?;
    let option = "--list";
    let body = html! {
        h1 { "Conversations" }
        (conversation_table(&context, &list, state.env.now_ms()))
    };
    Ok(page(
        &context,
        Some(Screen::Ask),
        "Conversations",
        &body,
        &[
            context.command(&["chat", option]),
            context.request("/v1/conversations", &[]),
        ],
    ))
}

fn conversation_table(context: &PageContext, list: &ConversationList, now_ms: u64) -> Markup {
    html! {
        @if list.conversations.is_empty() {
            p { "No conversations here. " a href=(context.url("/ask", &[])) { "Ask a question" } " to begin one." }
        } @else {
            (table("Conversations", &[Text("First question"), Number("Questions"), Text("Begun"), Text("Last question"), Text("Delete")], &html! {
                @for conversation in &list.conversations { tr {
                    th.title scope="row" { a href=(context.url(&conversation_path(&conversation.id), &[])) { (Line(&conversation.title)) } }
                    td.number { (grouped(conversation.length)) }
                    td { (ago(now_ms.saturating_sub(conversation.created_ms))) }
                    td { (ago(now_ms.saturating_sub(conversation.updated_ms))) }
                    td { (delete_form(context, &conversation.id)) }
                } }
            }))
        }
        @if let Some(next) = &list.next_cursor {
            p.pages { a href=(context.url("/conversations", &[("cursor", next)])) rel="next" { "Older conversations" } }
        }
    }
}

fn delete_form(context: &PageContext, id: &str) -> Markup {
    html! {
        form method="post" action=(format!("{}/delete", conversation_path(id))) {
            (token_field(context))
            (collection_field(context))
            button.quiet type="submit" { "Delete" }
        }
    }
}

/// `GET /conversations/{id}`: the last answer whole, the texts of the others.
pub(crate) async fn conversation(
    State(state): State<AppState>,
    Path(id): Path<String>,
    context: PageContext,
) -> Result<Response, Problem> {
    let archive = context.archive(&state)?;
    let answerer = state.answerer(&archive)?;
    let conversations = state.conversations(&archive.collection)?;
    let found = conversations.get(&id, answerer.as_ref()).await?;
    let ConversationDetails { summary, turns } = &found;
    let (last, earlier) = turns
        .split_last()
        .ok_or_else(|| ApiError::from(stemma_answers::ConversationError::NotFound))?;
    let answer = answerer.stored(&last.answer).await;
    let answer = answer.map_err(answer_problem)?;
    let body = html! {
        h1 { "Conversation" }
        @if archive.tree_searcher().is_none() { (without_model()) }
        (restriction(summary))
        @for turn in earlier { (earlier_turn(&context, turn)) }
        (last_turn(&context, last, answer.as_ref()))
        @if context.may_ask {
            h2 { "Ask a further question" }
            (question_form(&context, &state, "", Some(&summary.id)))
            (delete_form(&context, &summary.id))
            p { a href=(context.url("/conversations", &[])) { "Conversations" } " · " a href=(context.url("/ask", &[])) { "Begin another" } }
        }
    };
    Ok(page(
        &context,
        Some(Screen::Ask),
        &summary.title,
        &body,
        &[
            context.command(&["chat", "--resume", &summary.id]),
            context.request(&format!("/v1{}", conversation_path(&summary.id)), &[]),
        ],
    ))
}

fn restriction(summary: &ConversationSummary) -> Markup {
    let scope = &summary.scope;
    let parts = scope.scopes.iter().chain(&scope.item).cloned();
    let filter = scope.filter.as_ref().map(|filter| match filter.as_str() {
        Some(text) => text.to_owned(),
        None => filter.to_string(),
    });
    let parts: Vec<String> = parts.chain(filter).collect();
    html! {
        @if !parts.is_empty() { p.note { "Answers come from: " (Line(&parts.join(" · "))) } }
    }
}

fn earlier_turn(context: &PageContext, turn: &AnsweredTurn) -> Markup {
    html! {
        h2.title { (Line(&turn.question)) }
        @match &turn.text {
            Some(text) => { @if !text.is_empty() { p { (Passage(text)) } } (answer_link(context, turn)) },
            None => (no_answer(turn)),
        }
    }
}

fn last_turn(context: &PageContext, turn: &AnsweredTurn, answer: Option<&Answer>) -> Markup {
    html! {
        h2.title { (Line(&turn.question)) }
        @match answer {
            Some(answer) => { (answer_view(context, answer)) (answer_link(context, turn)) },
            None if turn.state == TurnState::Running => (progress(context, &turn.answer)),
            None => (no_answer(turn)),
        }
    }
}

fn answer_link(context: &PageContext, turn: &AnsweredTurn) -> Markup {
    html! {
        p.note { a href=(context.url(&format!("/answers/{}", turn.answer), &[])) { "Address of this answer" } }
    }
}

fn no_answer(turn: &AnsweredTurn) -> Markup {
    html! {
        p.remarks role="status" {
            @if turn.state == TurnState::Running { "This question is still being answered." }
            @else { "This question has no answer any more: a document that it cites was removed, or it was not completed. Ask again." }
        }
    }
}

/// `POST /conversations/{id}/delete`: leads to the list.
pub(crate) async fn delete(
    State(state): State<AppState>,
    _: ModelRequest,
    Path(id): Path<String>,
    Form { context, .. }: Form<IgnoredAny>,
) -> Result<Response, Problem> {
    let archive = context.archive(&state)?;
    let conversations = state.conversations(&archive.collection)?;
    conversations.delete(&id).await?;
    Ok(see_other(&context.url("/conversations", &[])))
}

/// The path of the page of a conversation, and below `/v1` of the conversation itself.
pub(crate) fn conversation_path(id: &str) -> String {
    format!("/conversations/{id}")
}

//! Questions: the form, the progress of an answer, and the answer with its proof.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use stemma_archive::{AnswerRequest, NEW_CONVERSATION};
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::extract::Path;
use stemma_gateway::problem::{Problem, answer_problem};
use stemma_gateway::{AppState, PreparedQuestion};

use crate::answer_view::answer_view;
use crate::context::PageContext;
use crate::conversation_page::conversation_path;
use crate::layout::{Screen, collection_field, page, see_other, token_field};
use crate::security::Form;
use crate::text::{Line, Passage};

// Stored and quick answers are shown at once; the others show their progress.
const WAIT: Duration = Duration::from_millis(1_500);
// Further characters are refused by every surface.
const MAX_QUESTION: &str = "4000";

/// The fields of the form.
#[derive(Deserialize)]
pub(crate) struct Question {
    question: String,
    #[serde(default)]
    scope: String,
    #[serde(default, rename = "where")]
    filter: String,
    // Set if the box is ticked.
    see: Option<String>,
    // Of a further question.
    #[serde(default)]
    conversation: String,
}

/// `GET /ask`
pub(crate) async fn form(
    State(state): State<AppState>,
    context: PageContext,
) -> Result<Response, Problem> {
    let has_model = has_model(&state, &context)?;
    let body = html! {
        h1 { "Ask" }
        p { "Answers come from the documents, and each claim is checked against the page it cites." }
        @if !has_model { (without_model()) }
        @else if !context.may_ask { p.remarks role="status" { "The key of this browser may read, but not ask: it lacks the scope " code { "ask" } "." } }
        (question_form(&context, &state, context.param("q").unwrap_or_default(), None))
        @if context.may_ask { p { a href=(context.url("/conversations", &[])) { "Conversations" } } }
    };
    Ok(page(
        &context,
        Some(Screen::Ask),
        "Ask",
        &body,
        &[
            "stemma ask 'QUESTION'".into(),
            format!(
                "curl http://{}/v1/answers --json '{{\"question\": \"QUESTION\"}}'",
                context.host
            ),
        ],
    ))
}

// A server without a model also answers: by what a search finds.
fn has_model(state: &AppState, context: &PageContext) -> Result<bool, Problem> {
    Ok(state.deps.answerers.is_some() && context.archive(state)?.tree_searcher().is_some())
}

pub(crate) fn without_model() -> Markup {
    html! {
        div.remarks role="status" {
            p { "This server has no model, so questions show what a search finds. To get answers, start it with a model that has an OpenAI-compatible API, for example one that Ollama runs on this machine:" }
            pre tabindex="0" { code {
                "OLLAMA_CONTEXT_LENGTH=16384 ollama serve     # in another terminal\n"
                "export STEMMA_MODEL__NAME=qwen3:8b STEMMA_MODEL__BASE_URL=http://127.0.0.1:11434/v1 STEMMA_MODEL__TIMEOUT_SECONDS=600\n"
                "stemma doctor          # checks that the model answers\n"
                "stemma serve"
            } }
            p { "A model elsewhere needs its address and " code { "STEMMA_MODEL__API_KEY" } "; " code { "stemma config" } " shows all settings of the section " code { "model" } "." }
        }
    }
}

/// The form for a question, or for a further question of a conversation.
pub(crate) fn question_form(
    context: &PageContext,
    state: &AppState,
    question: &str,
    conversation: Option<&str>,
) -> Markup {
    html! {
        form.ask method="post" action="/ask" {
            (token_field(context))
            (collection_field(context))
            label for="question" { "Question" }
            textarea #question name="question" rows="3" maxlength=(MAX_QUESTION) required { (Passage(question)) }
            @if let Some(id) = conversation { input type="hidden" name="conversation" value=(id); }
            @else { details open[context.param("scope").is_some() || context.param("where").is_some()] {
                summary { "Restrict the documents" }
                label { "Document or folder" input type="text" name="scope" value=[context.param("scope")] placeholder="/@company/3M"; }
                label { "Condition" input type="text" name="where" value=[context.param("where")] placeholder="fiscal_year>=2020"; }
            } }
            @if state.deps.vision.is_some() {
                label { input type="checkbox" name="see" value="yes"; " Show the pictures of the best pages to the model, too" }
            }
            button type="submit" { "Ask" }
        }
    }
}

/// `POST /ask`: generates an answer, and leads to its conversation. Generation goes on if the browser leaves.
pub(crate) async fn ask(
    State(state): State<AppState>,
    permit: RequestPermit,
    Form { context, fields }: Form<Question>,
) -> Result<Response, Problem> {
    if state.deps.answerers.is_none() {
        return Ok(see_other(
            &context.url("/search", &[("q", fields.question.trim())]),
        ));
    }
    let place = permit.upgrade_for_model().await?;
    let archive = context.archive(&state)?;
    let conversation = non_empty(&fields.conversation);
    let is_new = conversation.is_none();
    let request = AnswerRequest {
        question: fields.question,
        scopes: non_empty(&fields.scope).into_iter().collect(),
        filter: non_empty(&fields.filter).map(Value::String),
        see: fields.see.is_some(),
        conversation: conversation.or_else(|| Some(NEW_CONVERSATION.into())),
        ..AnswerRequest::default()
    };
    let prepared = match state.prepare_question(&archive, request.clone()).await {
        // A question that cannot be kept is answered all the same.
        Err(problem) if is_new && problem.code() == "conversation.not_available" => {
            let alone = AnswerRequest {
                conversation: None,
                ..request
            };
            state.prepare_question(&archive, alone).await
        }
        prepared => prepared,
    };
    let PreparedQuestion {
        answerer,
        question,
        id,
        conversation,
    } = prepared?;
    let mut answer = state.env.spawn(async move {
        let _place = place;
        answerer.answer(&question, &mut ()).await
    });
    let id = match tokio::time::timeout(WAIT, &mut answer).await {
        Ok(Ok(Err(error))) => return Err(answer_problem(error)),
        Ok(Err(_)) => return Err(answer_problem(stemma_answers::AnswerError::Internal)),
        Ok(Ok(Ok(answer))) => answer.id,
        Err(_) => id,
    };
    let address = match conversation {
        Some(conversation) => conversation_path(&conversation),
        None => format!("/answers/{id}"),
    };
    Ok(see_other(&context.url(&address, &[])))
}

fn non_empty(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// `GET /answers/{id}`: a stored answer, or its progress.
pub(crate) async fn answer(
    State(state): State<AppState>,
    Path(id): Path<String>,
    context: PageContext,
) -> Result<Response, Problem> {
    let archive = context.archive(&state)?;
    let answerer = state.answerer(&archive)?;
    let is_in_flight = answerer.is_in_flight(&id);
    let api = format!("/v1/answers/{id}");
    let Some(answer) = answerer.stored(&id).await.map_err(answer_problem)? else {
        if !is_in_flight {
            let unknown = Problem::new(404, "answer.unknown", "no answer has this id");
            return Err(unknown.with_next("ask the question again"));
        }
        let body = html! { h1 { "Answering…" } (progress(&context, &id)) };
        let elsewhere = [context.request(&api, &[])];
        return Ok(page(
            &context,
            Some(Screen::Ask),
            "Answering",
            &body,
            &elsewhere,
        ));
    };
    let has_model = archive.tree_searcher().is_some();
    let body = html! {
        h1.title { (Line(&answer.question)) }
        @if !has_model { (without_model()) }
        (answer_view(&context, &answer))
        h2 { "Ask another question" }
        (question_form(&context, &state, "", None))
    };
    Ok(page(
        &context,
        Some(Screen::Ask),
        &answer.question,
        &body,
        &[
            context.command(&["ask", &answer.question]),
            context.request(&api, &[]),
        ],
    ))
}

/// The progress of an answer. The script shows it, and loads the page again at its end.
pub(crate) fn progress(context: &PageContext, id: &str) -> Markup {
    html! {
        noscript { meta http-equiv="refresh" content="3"; }
        div #progress data-stream=(context.url(&format!("/v1/answers/{id}"), &[])) {
            p role="status" { span.step { "The question was accepted." } }
            ul.sections-read aria-label="Sections that were read" {}
            p.streamed aria-live="polite" {}
        }
    }
}

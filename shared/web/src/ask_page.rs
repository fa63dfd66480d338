//! Questions: the form, the progress of an answer, and the answer with its proof.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use stemma_archive::{AnswerRequest, ApiError};
use stemma_gateway::AppState;
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::extract::Path;
use stemma_gateway::problem::{Problem, answer_problem};

use crate::answer_view::answer_view;
use crate::context::PageContext;
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
        (question_form(&context, &state, context.param("q").unwrap_or_default()))
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

fn without_model() -> Markup {
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

fn question_form(context: &PageContext, state: &AppState, question: &str) -> Markup {
    html! {
        form.ask method="post" action="/ask" {
            (token_field(context))
            (collection_field(context))
            label for="question" { "Question" }
            textarea #question name="question" rows="3" maxlength=(MAX_QUESTION) required { (Passage(question)) }
            details open[context.param("scope").is_some() || context.param("where").is_some()] {
                summary { "Restrict the documents" }
                label { "Document or folder" input type="text" name="scope" value=[context.param("scope")] placeholder="/@company/3M"; }
                label { "Condition" input type="text" name="where" value=[context.param("where")] placeholder="fiscal_year>=2020"; }
            }
            @if state.deps.vision.is_some() {
                label { input type="checkbox" name="see" value="yes"; " Show the pictures of the best pages to the model, too" }
            }
            button type="submit" { "Ask" }
        }
    }
}

/// `POST /ask`: generates an answer, and leads to its address. Generation goes on if the browser leaves.
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
    let answerer = state.answerer(&archive)?;
    let question = archive.ask_request(&AnswerRequest {
        question: fields.question,
        scopes: non_empty(&fields.scope).into_iter().collect(),
        filter: non_empty(&fields.filter).map(Value::String),
        see: fields.see.is_some(),
        ..AnswerRequest::default()
    })?;
    answerer.check(&question).map_err(answer_problem)?;
    let id = answerer.answer_id(&question).map_err(ApiError::from)?;
    let mut answer = state.env.spawn(async move {
        let _place = place;
        answerer.answer(&question, &mut ()).await
    });
    match tokio::time::timeout(WAIT, &mut answer).await {
        Ok(Ok(Err(error))) => Err(answer_problem(error)),
        Ok(Err(_)) => Err(answer_problem(stemma_answers::AnswerError::Internal)),
        Ok(Ok(Ok(answer))) => Ok(see_other(
            &context.url(&format!("/answers/{}", answer.id), &[]),
        )),
        Err(_) => Ok(see_other(&context.url(&format!("/answers/{id}"), &[]))),
    }
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
        return Ok(progress(&context, &api));
    };
    let has_model = archive.tree_searcher().is_some();
    let body = html! {
        h1.title { (Line(&answer.question)) }
        @if !has_model { (without_model()) }
        (answer_view(&context, &answer))
        h2 { "Ask another question" }
        (question_form(&context, &state, ""))
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

fn progress(context: &PageContext, api: &str) -> Response {
    let body = html! {
        h1 { "Answering…" }
        noscript { meta http-equiv="refresh" content="3"; }
        div #progress data-stream=(context.url(api, &[])) {
            p role="status" { span.step { "The question was accepted." } }
            ul.sections-read aria-label="Sections that were read" {}
            p.streamed aria-live="polite" {}
        }
    };
    page(
        context,
        Some(Screen::Ask),
        "Answering",
        &body,
        &[context.request(api, &[])],
    )
}

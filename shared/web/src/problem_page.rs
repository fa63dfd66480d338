//! The page of an error.

use axum::http::{StatusCode, header};
use axum::response::Response;
use maud::{Markup, html};
use stemma_gateway::pages::ProblemContext;
use stemma_gateway::problem::Problem;

use crate::layout::{navigation, respond};
use crate::login::key_required;
use crate::security::add_headers;
use crate::text::{Line, Message, capitalized};

pub(crate) fn problem_page(problem: &Problem, request: &ProblemContext<'_>) -> Response {
    let mut response = if problem.status() == StatusCode::UNAUTHORIZED {
        let path = request
            .uri
            .path_and_query()
            .map_or("/", |path| path.as_str());
        key_required(path, request.has_key_cookie)
    } else {
        error_page(problem)
    };
    for (name, value) in problem.headers() {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    }
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        header::HeaderValue::from_static("no-store"),
    );
    add_headers(&mut response);
    response
}

/// What went wrong, and what to do.
pub(crate) fn problem_text(problem: &Problem) -> Markup {
    html! {
        p.lead { (Message(&capitalized(problem.detail()))) "." }
        @if let Some(next) = problem.next() { p { "Next: " (Message(next)) "." } }
        @if !problem.candidates().is_empty() {
            ul { @for candidate in problem.candidates() { li { (Line(candidate)) } } }
        }
    }
}

fn error_page(problem: &Problem) -> Response {
    let title = problem.title();
    let body = html! {
        h1 { (title) }
        (problem_text(problem))
        p.note { "Code " code { (problem.code()) } " · request " code { (problem.trace_id()) } }
        p { a.button href="/" { "To the archive" } }
    };
    let mut response = respond(title, &navigation(None, None), &body);
    *response.status_mut() = problem.status();
    response
}

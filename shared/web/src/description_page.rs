//! What the figures of a page show, as a model sees them.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::de::IgnoredAny;
use stemma_archive::DescribedPage;
use stemma_document::PageNo;
use stemma_gateway::AppState;
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::extract::{HandlerError, Path, published_document};
use stemma_gateway::problem::Problem;

use crate::context::{PageContext, encoded};
use crate::layout::{collection_field, page, token_field};
use crate::security::Form;
use crate::text::Line;

/// The form that asks for a description; nothing without a vision model, or if the key may not ask.
pub(crate) fn form(context: &PageContext, label: &str, number: u32) -> Markup {
    html! {
        @if context.may_describe {
            form method="post" action=(path(label, number)) {
                (token_field(context))
                (collection_field(context))
                button.quiet type="submit" { "Describe the figures" }
            }
        }
    }
}

fn path(label: &str, number: u32) -> String {
    format!("/documents/{}/pages/{number}/description", encoded(label))
}

/// `POST /documents/{doc}/pages/{n}/description`. A page is described once, so it may be sent again.
pub(crate) async fn describe(
    State(state): State<AppState>,
    permit: RequestPermit,
    Path((doc, number)): Path<(String, u32)>,
    Form { context, .. }: Form<IgnoredAny>,
) -> Result<Response, HandlerError> {
    let place = permit.upgrade_for_model().await?;
    let archive = context.archive(&state)?;
    let vision = Arc::clone(state.vision()?);
    let number = PageNo::new(number)
        .ok_or_else(|| Problem::parameter(400, "n", "a page is a number, from 1"))?;
    let listed = published_document(&archive, &doc)?;
    let label = listed.label.clone();
    let described = vision.describe(&archive, &listed, number, None).await?;
    drop(place);
    let locator = described.locator.as_str();
    let api = format!("/v1{}", path(&label, described.page));
    let body = html! {
        h1.title { "Figures of " a href=(context.document_url(&label, &[("page", &described.page.to_string())])) { (Line(locator)) } }
        p.remarks role="status" { "Read from the image of the page by the model " (Line(&described.model)) ". Nothing checks it." }
        (figures(&described))
    };
    Ok(page(
        &context,
        None,
        &format!("Figures of {locator}"),
        &body,
        &[
            context.command(&["describe", locator]),
            format!("{} -X POST", context.request(&api, &[])),
        ],
    ))
}

fn figures(described: &DescribedPage) -> Markup {
    html! {
        @if described.figures.is_empty() { p.note { "The model sees no figures on this page." } }
        @for figure in &described.figures {
            h2 { @if figure.title.is_empty() { "(no title)" } @else { (Line(&figure.title)) } }
            p { @if !figure.kind.is_empty() { span.badge { (Line(&figure.kind)) } " " } (Line(&figure.shows)) }
            @if !figure.values.is_empty() {
                table {
                    thead { tr { th scope="col" { "Label" } th scope="col" { "Value, from the image" } } }
                    tbody { @for value in &figure.values { tr { td { (Line(&value.label)) } td { (Line(&value.value)) } } } }
                }
            }
        }
    }
}

//! The frame of every page.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::assets::asset_url;
use crate::context::PageContext;
use crate::text::{Line, Passage};

/// The entries of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    Archive,
    Search,
    Ask,
    Compare,
    Jobs,
    Health,
    Upload,
}

impl Screen {
    const ALL: [Screen; 7] = [
        Screen::Archive,
        Screen::Search,
        Screen::Ask,
        Screen::Compare,
        Screen::Jobs,
        Screen::Health,
        Screen::Upload,
    ];

    // Whether the server of a page has this screen.
    fn is_here(self, context: &PageContext) -> bool {
        match self {
            Screen::Jobs | Screen::Health => context.has_jobs,
            Screen::Upload => context.may_upload,
            _ => true,
        }
    }

    fn path(self) -> &'static str {
        match self {
            Screen::Archive => "/",
            Screen::Search => "/search",
            Screen::Ask => "/ask",
            Screen::Compare => "/compare",
            Screen::Jobs => "/jobs",
            Screen::Health => "/health",
            Screen::Upload => "/upload",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Screen::Archive => "Archive",
            Screen::Search => "Search",
            Screen::Ask => "Ask",
            Screen::Compare => "Compare",
            Screen::Jobs => "Jobs",
            Screen::Health => "Health",
            Screen::Upload => "Upload",
        }
    }
}

/// A page and how to get the same elsewhere.
pub(crate) struct Page {
    pub screen: Option<Screen>,
    pub title: String,
    pub body: Markup,
    /// Commands that show the same.
    pub commands: Vec<String>,
    /// HTTP requests that return the same.
    pub requests: Vec<String>,
}

/// Renders a page.
pub(crate) fn page(context: &PageContext, page: &Page) -> Response {
    let header = html! {
        nav aria-label="Screens" {
            ul {
                @for screen in Screen::ALL.into_iter().filter(|screen| screen.is_here(context)) {
                    @let current = (page.screen == Some(screen)).then_some("page");
                    li { a href=(context.url(screen.path(), &[])) aria-current=[current] { (screen.title()) } }
                }
            }
        }
        @if context.collections.len() > 1 { (collections(context)) }
        @if context.is_signed_in {
            form method="post" action="/logout" {
                (token_field(context))
                button.quiet type="submit" { "Sign out" }
            }
        }
    };
    let body = html! {
        (page.body)
        @if !page.commands.is_empty() || !page.requests.is_empty() { (elsewhere(page)) }
    };
    respond(&page.title, &header, &body)
}

/// The screens that every server has, for pages that know nothing of their request.
pub(crate) fn plain_navigation() -> Markup {
    let screens = [
        Screen::Archive,
        Screen::Search,
        Screen::Ask,
        Screen::Compare,
    ];
    html! {
        nav aria-label="Screens" {
            ul { @for screen in screens { li { a href=(screen.path()) { (screen.title()) } } } }
        }
    }
}

/// Leads to another page after a form.
pub(crate) fn see_other(url: &str) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, url.to_owned())]).into_response()
}

/// The field that every form with `method="post"` has.
pub(crate) fn token_field(context: &PageContext) -> Markup {
    html! { input type="hidden" name="token" value=(context.form_token.as_str()); }
}

/// A response with a complete document.
pub(crate) fn respond(title: &str, header: &Markup, body: &Markup) -> Response {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (Line(title)) " · Stemma" }
                link rel="stylesheet" href=(asset_url("style.css"));
                link rel="icon" type="image/svg+xml" href=(asset_url("icon.svg"));
                script src=(asset_url("page.js")) defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.top {
                    a.brand href="/" { "Stemma" }
                    (header)
                }
                main #main tabindex="-1" { (body) }
            }
        }
    };
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (headers, document.into_string()).into_response()
}

fn collections(context: &PageContext) -> Markup {
    let chosen = context
        .collection()
        .or(context.collections.first().map(String::as_str));
    html! {
        form.collections method="get" action="/" {
            label { span.hidden { "Collection" }
                select name="collection" {
                    @for name in &context.collections {
                        option value=(name) selected[Some(name.as_str()) == chosen] { (Line(name)) }
                    }
                }
            }
            button.quiet type="submit" { "Open" }
        }
    }
}

fn elsewhere(page: &Page) -> Markup {
    html! {
        details.elsewhere {
            summary { "The same on the command line and over HTTP" }
            pre tabindex="0" { code {
                @for line in page.commands.iter().chain(&page.requests) { (Passage(line)) "\n" }
            } }
        }
    }
}

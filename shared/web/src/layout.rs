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

    // Whether the server of a page has this screen. Pages that know nothing of their request show what every server has.
    fn is_here(self, context: Option<&PageContext>) -> bool {
        match self {
            Screen::Jobs | Screen::Health => context.is_some_and(|context| context.has_jobs),
            Screen::Upload => context.is_some_and(|context| context.may_upload),
            _ => true,
        }
    }

    fn title_and_path(self) -> (&'static str, &'static str) {
        match self {
            Screen::Archive => ("Archive", "/"),
            Screen::Search => ("Search", "/search"),
            Screen::Ask => ("Ask", "/ask"),
            Screen::Compare => ("Compare", "/compare"),
            Screen::Jobs => ("Jobs", "/jobs"),
            Screen::Health => ("Health", "/health"),
            Screen::Upload => ("Upload", "/upload"),
        }
    }
}

/// Renders a page. `elsewhere` has the commands and HTTP requests that return the same.
pub(crate) fn page(
    context: &PageContext,
    screen: Option<Screen>,
    title: &str,
    body: &Markup,
    elsewhere: &[String],
) -> Response {
    let header = html! {
        (navigation(Some(context), screen))
        @if context.collections.len() > 1 { (collections(context)) }
        @if context.is_signed_in {
            form method="post" action="/logout" {
                (token_field(context))
                button.quiet type="submit" { "Sign out" }
            }
        }
    };
    let body = html! {
        (body)
        @if !elsewhere.is_empty() {
            details.elsewhere {
                summary { "The same on the command line and over HTTP" }
                pre tabindex="0" { code { @for line in elsewhere { (Passage(line)) "\n" } } }
            }
        }
    };
    respond(title, &header, &body)
}

/// Links to the screens.
pub(crate) fn navigation(context: Option<&PageContext>, current: Option<Screen>) -> Markup {
    html! {
        nav aria-label="Screens" { ul {
            @for screen in Screen::ALL.into_iter().filter(|screen| screen.is_here(context)) {
                @let (title, path) = screen.title_and_path();
                @let url = context.map_or_else(|| path.to_owned(), |context| context.url(path, &[]));
                li { a href=(url) aria-current=[(current == Some(screen)).then_some("page")] { (title) } }
            }
        } }
    }
}

/// The head of a column. Numbers are aligned to the right.
pub(crate) enum Head {
    Text(&'static str),
    Number(&'static str),
}

/// A table that scrolls where it is too wide, with a name for screen readers.
pub(crate) fn table(name: &str, heads: &[Head], rows: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(name) { table {
            thead { tr { @for head in heads { @match head {
                Head::Text(head) => th scope="col" { (head) },
                Head::Number(head) => th.number scope="col" { (head) },
            } } } }
            tbody { (rows) }
        } }
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

/// The field that keeps the collection of a form.
pub(crate) fn collection_field(context: &PageContext) -> Markup {
    html! {
        @if let Some(name) = context.collection() { input type="hidden" name="collection" value=(name); }
    }
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

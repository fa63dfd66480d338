//! The key of a browser: a form puts it in a cookie that no script can read.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use serde::de::IgnoredAny;
use stemma_gateway::pages::KEY_COOKIE;
use stemma_gateway::problem::Problem;

use crate::context::{PageContext, encoded};
use crate::layout::{page, respond, token_field};
use crate::security::Form;

#[derive(Deserialize)]
pub(crate) struct SignIn {
    key: String,
    #[serde(default)]
    next: String,
}

/// `GET /login`
pub(crate) async fn form(context: PageContext) -> Response {
    let next = local_path(context.param("next").unwrap_or_default());
    let body = html! {
        h1 { "Sign in" }
        form.login method="post" action="/login" {
            (token_field(&context))
            input type="hidden" name="next" value=(next);
            label for="key" { "API key" }
            input #key name="key" type="password" autocomplete="current-password" required autofocus;
            button type="submit" { "Sign in" }
        }
        p { "The operator of this server makes keys with " code { "stemma key NAME" } "." }
    };
    page(&context, None, "Sign in", &body, &[])
}

/// The page of a request without a known key.
pub(crate) fn key_required(path: &str, has_wrong_key: bool) -> Response {
    let to = format!("/login?next={}", encoded(path));
    let body: Markup = html! {
        h1 { "This server asks for a key" }
        @if has_wrong_key { p role="alert" { "The key of this browser is unknown." } }
        p { a.button href=(to) { "Sign in" } }
    };
    let mut response = respond("Sign in", &html! {}, &body);
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response
}

/// `POST /login`. Whether the key is right shows on the next page, as with any other client.
pub(crate) async fn sign_in(
    headers: HeaderMap,
    Form { fields, .. }: Form<SignIn>,
) -> Result<Response, Problem> {
    let key = encoded(fields.key.trim());
    if key.is_empty() || key.len() > 1_000 {
        let detail = "a key has at least one character and at most 1,000";
        return Err(Problem::parameter(422, "key", detail));
    }
    let next = local_path(&fields.next);
    Ok(with_key_cookie(&headers, &key, "", next))
}

/// `POST /logout`
pub(crate) async fn sign_out(headers: HeaderMap, _: Form<IgnoredAny>) -> Response {
    with_key_cookie(&headers, "", "; Max-Age=0", "/")
}

fn with_key_cookie(headers: &HeaderMap, key: &str, age: &str, next: &str) -> Response {
    let origin = headers.get(header::ORIGIN);
    let is_https = origin.is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    let secure = if is_https { "; Secure" } else { "" };
    let cookie = format!("{KEY_COOKIE}={key}; Path=/; HttpOnly; SameSite=Strict{secure}{age}");
    let headers = [
        (header::SET_COOKIE, cookie),
        (header::LOCATION, next.to_owned()),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

// A path of this server: `//host` and `/\host` are names of others.
fn local_path(path: &str) -> &str {
    let is_local = path.starts_with('/')
        && !path[1..].starts_with(['/', '\\'])
        && path.bytes().all(|byte| byte.is_ascii_graphic());
    if is_local { path } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_server_follow_a_sign_in() {
        assert_eq!(local_path("/search?q=a%20b"), "/search?q=a%20b");
        for path in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/a\r\nb",
            "x",
        ] {
            assert_eq!(local_path(path), "/", "{path}");
        }
    }

    #[test]
    fn cookies_are_secure_over_https_only() {
        let cookie = |headers: &HeaderMap| {
            let response = with_key_cookie(headers, "k", "", "/");
            response.headers()["set-cookie"]
                .to_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            cookie(&HeaderMap::new()),
            "stemma_key=k; Path=/; HttpOnly; SameSite=Strict"
        );
        let https = [(header::ORIGIN, "https://stemma.example".parse().unwrap())];
        assert!(cookie(&https.into_iter().collect()).ends_with("; Secure"));
    }
}

//! Headers of all pages, and the tokens of forms.
//!
//! A form that changes something carries a token that another site cannot know: a digest of the browser's key or, on a server
//! without keys, of a random cookie (the double submit cookie of OWASP, bound to the session). Requests from other sites
//! are refused too.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use stemma_gateway::AppState;
use stemma_gateway::pages::{KEY_COOKIE, cookie, is_foreign};
use stemma_gateway::problem::Problem;

use crate::context::PageContext;

const FORM_COOKIE: &str = "stemma_form";
const FORM_TYPE: &str = "application/x-www-form-urlencoded";
const TOKEN_CONTEXT: &str = "stemma 2026 token of a form";

fn page_headers() -> [(HeaderName, &'static str); 6] {
    [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
         frame-ancestors 'none'; base-uri 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, browsers send `Origin: null` with forms.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // What a page shows depends on the key.
        (header::CACHE_CONTROL, "private, no-cache"),
        (header::VARY, "Cookie, Authorization"),
    ]
}

/// The token that forms of this browser carry in the field `token`.
#[derive(Clone, Default)]
pub(crate) struct FormToken(String);

impl FormToken {
    fn new(session: &str) -> Self {
        let digest = blake3::derive_key(TOKEN_CONTEXT, session.as_bytes());
        Self(blake3::Hash::from_bytes(digest).to_hex().to_string())
    }

    pub fn from_parts(parts: &Parts) -> Self {
        parts.extensions.get().cloned().unwrap_or_default()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn check(&self, token: &str) -> Result<(), Problem> {
        // Digests are compared, so that timing tells nothing.
        let is_same = blake3::hash(token.as_bytes()) == blake3::hash(self.0.as_bytes());
        if is_same && !self.0.is_empty() {
            return Ok(());
        }
        let detail = "the form is out of date, or was not made by this server";
        Err(Problem::new(403, "form.token_invalid", detail)
            .with_next("load the page again, and send it again"))
    }
}

/// Middleware of the pages: gives each browser the token of its forms, refuses forms of other sites, and adds the headers.
pub(crate) async fn protect(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if !request.method().is_safe() && !is_own_form(request.headers()) {
        let detail = "a form of another site may not change anything here";
        return Err(Problem::new(403, "request.origin_refused", detail));
    }
    let known = [KEY_COOKIE, FORM_COOKIE]
        .into_iter()
        .find_map(|name| cookie(request.headers(), name));
    let made = known.is_none().then(|| {
        let env = &state.env;
        format!("{:016x}{:016x}", env.random(), env.random())
    });
    let session = known.or(made.as_deref()).unwrap_or_default();
    let token = FormToken::new(session);
    request.extensions_mut().insert(token);
    let mut response = next.run(request).await;
    if let Some(made) = made {
        let value = format!("{FORM_COOKIE}={made}; Path=/; HttpOnly; SameSite=Strict");
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().append(header::SET_COOKIE, value);
        }
    }
    add_headers(&mut response);
    Ok(response)
}

/// Adds the headers of a page.
pub(crate) fn add_headers(response: &mut Response) {
    for (name, value) in page_headers() {
        response
            .headers_mut()
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
}

// Browsers name the site of a form in one of two headers. The token of the form is checked as well.
fn is_own_form(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let is_own_origin = match (text(header::ORIGIN), text(header::HOST)) {
        (None, _) => true,
        (Some(origin), Some(host)) => origin
            .split_once("://")
            .is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host)),
        (Some(_), None) => false,
    };
    is_own_origin && !is_foreign(headers)
}

/// A form with a valid token: its fields, and its context in the collection that it names.
pub(crate) struct Form<T> {
    pub context: PageContext,
    pub fields: T,
}

#[derive(Deserialize)]
struct HiddenFields {
    #[serde(default)]
    token: String,
    #[serde(default)]
    collection: String,
}

impl<T: DeserializeOwned> FromRequest<AppState> for Form<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case(FORM_TYPE) {
            let detail = format!("the body must be {FORM_TYPE}");
            return Err(Problem::new(415, "body.type_unsupported", detail));
        }
        let (mut parts, body) = request.into_parts();
        let context = PageContext::from_request_parts(&mut parts, state).await?;
        let body = Bytes::from_request(Request::from_parts(parts, body), state).await;
        let body =
            body.map_err(|rejection| Problem::new(413, "body.too_large", rejection.body_text()))?;
        let invalid =
            |error: serde_urlencoded::de::Error| Problem::parameter(400, "", error.to_string());
        let hidden: HiddenFields = serde_urlencoded::from_bytes(&body).map_err(invalid)?;
        context.form_token.check(&hidden.token)?;
        Ok(Self {
            fields: serde_urlencoded::from_bytes(&body).map_err(invalid)?,
            context: context.with_collection(hidden.collection),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn tokens_belong_to_one_session() {
        let token = FormToken::new("key a");
        assert!(token.check(FormToken::new("key a").as_str()).is_ok());
        assert!(token.check(FormToken::new("key b").as_str()).is_err());
        assert!(token.check("").is_err() && FormToken::default().check("").is_err());
    }

    #[test]
    fn forms_of_other_sites_and_ports_are_refused() {
        let host = ("host", "localhost:8080");
        for (lines, is_own) in [
            (vec![host], true),
            (vec![host, ("origin", "http://localhost:8080")], true),
            (
                vec![
                    host,
                    ("origin", "http://localhost:8080"),
                    ("sec-fetch-site", "same-origin"),
                ],
                true,
            ),
            (vec![host, ("origin", "http://localhost:3000")], false),
            (vec![host, ("origin", "null")], false),
            (vec![host, ("sec-fetch-site", "same-site")], false),
            (vec![("origin", "http://localhost:8080")], false),
        ] {
            assert_eq!(is_own_form(&headers(&lines)), is_own, "{lines:?}");
        }
    }
}

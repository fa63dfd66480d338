//! What the pages know of a request: its parameters, rights and collection; and the addresses of other pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use stemma_archive::Archive;
use stemma_gateway::AppState;
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::extract::QueryParams;
use stemma_gateway::pages::{KEY_COOKIE, cookie};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use stemma_operations::Operations;

use crate::security::FormToken;

// Characters that are not escaped in a segment of a path and in a query.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The request of a page.
pub(crate) struct PageContext {
    params: BTreeMap<String, String>,
    /// Where a browser found this server: `127.0.0.1:8080`.
    pub host: String,
    pub form_token: FormToken,
    pub is_signed_in: bool,
    pub may_ask: bool,
    /// Have a vision model describe pages.
    pub may_describe: bool,
    /// Control jobs, submit and remove documents.
    pub may_write: bool,
    /// Whether the server knows of jobs.
    pub has_jobs: bool,
    /// Whether the server accepts uploads of this browser.
    pub may_upload: bool,
    /// Collections that the key may read.
    pub collections: Vec<String>,
    scope: CollectionScope,
}

impl PageContext {
    /// A parameter that is not empty: forms send empty fields.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params
            .get(name)
            .map(|value| value.trim())
            .filter(|value| !value.is_empty())
    }

    pub fn owned_param(&self, name: &str) -> Option<String> {
        self.param(name).map(str::to_owned)
    }

    /// Parameters for an address. Empty ones are left out of it.
    pub fn params<'a, const N: usize>(&'a self, names: [&'a str; N]) -> [(&'a str, &'a str); N] {
        names.map(|name| (name, self.param(name).unwrap_or_default()))
    }

    pub fn collection(&self) -> Option<&str> {
        self.param("collection")
    }

    /// The same request in another collection; empty means the default.
    pub fn with_collection(mut self, name: String) -> Self {
        self.params.insert("collection".into(), name);
        self
    }

    pub fn archive(&self, state: &AppState) -> Result<Arc<Archive>, Problem> {
        state.archive(&self.scope, self.collection())
    }

    pub fn operations(&self, state: &AppState) -> Result<Operations, Problem> {
        state.operations(&self.scope, self.collection())
    }

    /// The address of a page in this collection. Empty parameters are left out.
    pub fn url(&self, path: &str, params: &[(&str, &str)]) -> String {
        let collection = self.collection().map(|name| ("collection", name));
        query_url(path, params.iter().copied().chain(collection))
    }

    /// The address of a page with some parameters changed; an empty value removes one.
    pub fn changed_url<'a>(
        &self,
        path: &str,
        params: impl IntoIterator<Item = (&'a str, &'a str)>,
        changes: &[(&'a str, &'a str)],
    ) -> String {
        let params: Vec<_> = params
            .into_iter()
            .filter(|(name, _)| !changes.iter().any(|(changed, _)| changed == name))
            .chain(changes.iter().copied())
            .collect();
        self.url(path, &params)
    }

    /// The address of a document, or of a part of it.
    pub fn document_url(&self, locator: &str, params: &[(&str, &str)]) -> String {
        let (document, part) = locator.split_once('#').unwrap_or((locator, ""));
        let params: Vec<_> = params.iter().copied().chain([("at", part)]).collect();
        self.url(&format!("/documents/{}", encoded(document)), &params)
    }

    /// The command that reads the same, in this collection.
    pub fn command(&self, words: &[&str]) -> String {
        let collection = self.collection().map(|name| ["--collection", name]);
        let words = words
            .iter()
            .copied()
            .chain(collection.into_iter().flatten())
            .map(stemma_archive::shell_quoted)
            .collect::<Vec<_>>()
            .join(" ");
        format!("stemma {words}")
    }

    /// The HTTP request that reads the same.
    pub fn request(&self, path: &str, params: &[(&str, &str)]) -> String {
        let url = self.url(path, params);
        format!(
            "curl {}",
            stemma_archive::shell_quoted(&format!("http://{}{url}", self.host))
        )
    }
}

impl FromRequestParts<AppState> for PageContext {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let QueryParams(params) = QueryParams::from_request_parts(parts, state).await?;
        let scope = CollectionScope::from_parts(parts).clone();
        let visible = state.visible_collections(&scope).into_iter();
        let permit = RequestPermit::from_parts(parts)?;
        let host = parts.headers.get(header::HOST);
        Ok(Self {
            params,
            host: host
                .and_then(|host| host.to_str().ok())
                .unwrap_or("localhost")
                .to_owned(),
            form_token: FormToken::from_parts(parts),
            is_signed_in: cookie(&parts.headers, KEY_COOKIE).is_some(),
            may_ask: permit.may_ask(),
            may_describe: permit.may_ask() && state.deps.vision.is_some(),
            may_write: permit.may_write(),
            has_jobs: state.deps.operations.is_some(),
            may_upload: permit.may_write() && state.deps.uploads.is_some(),
            collections: visible.map(ToString::to_string).collect(),
            scope,
        })
    }
}

/// Percent-encodes a segment of a path, or a value of a query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

fn query_url<'a>(path: &str, params: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = params.filter(|(_, value)| !value.is_empty());
    let query = pairs
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect::<Vec<_>>()
        .join("&");
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_encoded_and_leave_out_empty_parameters() {
        let params = [("q", "R&D \"x\""), ("form", ""), ("company", "3M/é")];
        assert_eq!(
            query_url("/search", params.into_iter()),
            "/search?q=R%26D%20%22x%22&company=3M%2F%C3%A9"
        );
        assert_eq!(query_url("/", [].into_iter()), "/");
    }
}

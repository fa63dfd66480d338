//! Pages for people behind access control: how a browser shows its key, and how an error looks to a reader.

use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use percent_encoding::percent_decode_str;

use crate::problem::Problem;

/// The cookie that holds the API key of a browser, percent-encoded.
pub const KEY_COOKIE: &str = "stemma_key";

/// What access control has to know of the pages.
#[derive(Clone, Copy)]
pub struct WebPages {
    /// Whether a path is a page, so that a cookie may authorize its forms.
    pub is_page: fn(&str) -> bool,
    /// Whether a path needs no key: the login form, style sheets and scripts. It must read nothing of a collection.
    pub is_public: fn(&str) -> bool,
    /// The page of an error.
    pub problem_page: fn(&Problem, &ProblemContext<'_>) -> Response,
}

/// The request that failed.
pub struct ProblemContext<'a> {
    pub uri: &'a Uri,
    /// Whether it had a key cookie.
    pub has_key_cookie: bool,
}

impl WebPages {
    /// The key in the cookie of a request that a cookie may authorize: reads, and forms of pages. The API takes no writes from
    /// cookies, and no other site may use them.
    pub(crate) fn key(self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        let is_read = method == Method::GET || method == Method::HEAD;
        if !(is_read || (self.is_page)(uri.path())) || is_foreign(headers) {
            return None;
        }
        let key = percent_decode_str(cookie(headers, KEY_COOKIE)?);
        key.decode_utf8().ok().map(Into::into)
    }
}

/// The value of a cookie.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(axum::http::header::COOKIE).iter();
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(candidate, value)| (candidate == name).then_some(value))
}

/// Whether a browser says that another site or port made the request. `SameSite` cookies do not tell ports apart.
pub fn is_foreign(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
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

    fn key(
        method: &Method,
        path: &'static str,
        lines: &[(&'static str, &'static str)],
    ) -> Option<String> {
        let pages = WebPages {
            is_page: |path| path == "/ask",
            is_public: |_| false,
            problem_page: |_, _| Response::default(),
        };
        pages.key(method, &Uri::from_static(path), &headers(lines))
    }

    #[test]
    fn cookies_authorize_reads_and_the_forms_of_pages() {
        let cookie = ("cookie", "a=b; stemma_key=k%20ey; c=d");
        assert_eq!(
            key(&Method::GET, "/v1/documents", &[cookie]).as_deref(),
            Some("k ey")
        );
        assert_eq!(
            key(&Method::POST, "/ask", &[cookie]).as_deref(),
            Some("k ey")
        );
        assert_eq!(key(&Method::POST, "/v1/answers", &[cookie]), None);
        assert_eq!(key(&Method::DELETE, "/doc/x", &[cookie]), None);
        assert_eq!(
            key(
                &Method::GET,
                "/v1/documents",
                &[("cookie", "xstemma_key=k")]
            ),
            None
        );
    }

    #[test]
    fn cookies_of_requests_from_other_sites_and_ports_do_not_count() {
        let cookie = ("cookie", "stemma_key=key");
        for (site, counts) in [
            ("same-origin", true),
            ("none", true),
            ("same-site", false),
            ("cross-site", false),
        ] {
            let sent = key(&Method::GET, "/ask", &[cookie, ("sec-fetch-site", site)]);
            assert_eq!(sent.is_some(), counts, "{site}");
        }
    }
}

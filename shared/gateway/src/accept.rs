//! Content negotiation: the `Accept` header (RFC 9110 §12.5.1).

use axum::http::{HeaderMap, header};

pub const JSON: &str = "application/json";
pub const EVENTS: &str = "text/event-stream";

/// Accepted media ranges, each with its quality (0–1). A missing or unreadable header accepts every type.
pub struct Accept(Vec<(String, f32)>);

impl Accept {
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let lines = headers
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|line| line.to_str().ok());
        let ranges = lines
            .flat_map(|line| line.split(','))
            .map(range)
            .filter(|(media_type, _)| !media_type.is_empty());
        Self(ranges.collect())
    }

    /// Accepts every type.
    pub fn any() -> Self {
        Self(Vec::new())
    }

    pub fn accepts(&self, kind: &str) -> bool {
        self.quality(kind) > 0.0
    }

    /// Whether `kind` has a higher quality than `other`, or the same quality and is named explicitly.
    pub fn prefers(&self, kind: &str, other: &str) -> bool {
        let this = self.quality(kind);
        let other = self.quality(other);
        this > other || (this > 0.0 && this >= other && self.quality_of_range(kind).is_some())
    }

    // The most specific matching range decides.
    fn quality(&self, kind: &str) -> f32 {
        if self.0.is_empty() {
            return 1.0;
        }
        let kind = kind
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        let group = format!("{}/*", kind.split('/').next().unwrap_or_default());
        let quality = self
            .quality_of_range(&kind)
            .or_else(|| self.quality_of_range(&group))
            .or_else(|| self.quality_of_range("*/*"));
        quality.unwrap_or(0.0)
    }

    fn quality_of_range(&self, range: &str) -> Option<f32> {
        self.0
            .iter()
            .filter(|(media_type, _)| media_type == range)
            .map(|(_, quality)| *quality)
            .reduce(f32::max)
    }
}

// `text/*;q=0.5` is `text/*` and 0.5; an unreadable quality counts as 1.
fn range(text: &str) -> (String, f32) {
    let mut parts = text.split(';').map(|part| part.trim().to_ascii_lowercase());
    let media_type = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| {
        part.strip_prefix("q=")
            .map(|quality| quality.trim().parse::<f32>())
    });
    let quality = quality
        .and_then(Result::ok)
        .filter(|quality| quality.is_finite())
        .unwrap_or(1.0);
    (
        if media_type == "*" {
            "*/*".to_owned()
        } else {
            media_type
        },
        quality.clamp(0.0, 1.0),
    )
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn accept(text: &'static str) -> Accept {
        Accept::from_headers(&HeaderMap::from_iter([(
            header::ACCEPT,
            HeaderValue::from_static(text),
        )]))
    }

    #[test]
    fn accept_header_selects_the_response_type() {
        for text in [
            "*/*",
            "*",
            "application/json",
            "text/html, application/*;q=0.8",
            "",
            "Application/JSON; charset=utf-8",
            "*/*;q=0, application/json",
        ] {
            assert!(
                accept(text).accepts("application/json; charset=utf-8"),
                "{text}"
            );
        }
        for text in [
            "text/html",
            "application/json;q=0",
            "image/*",
            "nonsense",
            "*/*, application/json; Q=0.0",
        ] {
            assert!(!accept(text).accepts(JSON), "{text}");
        }
        assert!(Accept::from_headers(&HeaderMap::new()).accepts(JSON));
    }

    #[test]
    fn event_streams_require_an_explicit_accept() {
        for text in [
            "text/event-stream",
            "application/json, text/event-stream",
            "text/event-stream, */*",
            "text/*, */*;q=0.1",
        ] {
            assert!(accept(text).prefers(EVENTS, JSON), "{text}");
        }
        for text in [
            "",
            "*/*",
            "application/json",
            "text/event-stream;q=0, application/json",
            "text/event-stream;q=0.5, application/json",
            "text/event-stream;q=0",
        ] {
            assert!(!accept(text).prefers(EVENTS, JSON), "{text}");
        }
    }
}

//! Rate limit headers of all supported providers.
//!
//! | header | meaning |
//! |---|---|
//! | `retry-after-ms`, `x-ms-retry-after-ms` | pause in milliseconds |
//! | `retry-after` | pause in seconds, or an HTTP date |
//! | `x-ratelimit-limit-requests`, `-tokens` | limit per minute (OpenAI, Azure, vLLM behind gateways) |
//! | `x-ratelimit-remaining-requests`, `-tokens` | remaining quota |
//! | `x-ratelimit-reset-requests`, `-tokens` | duration until the quota is full again |
//! | `anthropic-ratelimit-requests-*`, `-tokens-*`, `-input-tokens-*` | as above; `-reset` is an RFC 3339 time |

use std::time::Duration;

use reqwest::header::HeaderMap;
use stemma_store::env::Millis;
use stemma_store::limit::ReportedLimits;

use crate::header_time::{parse_duration, parse_http_date, parse_rfc3339};

// Longer pauses are capped, so that a wrong header cannot stop a worker for hours.
const MAX_PAUSE: Duration = Duration::from_secs(600);
// A reset time says when the whole quota is back. Part of it returns sooner, so the cap is lower.
const MAX_RESET_PAUSE: Duration = Duration::from_secs(60);
// Header name patterns of OpenAI and Anthropic. The first header present wins.
const REQUEST_HEADERS: [&str; 2] = ["x-ratelimit-{}-requests", "anthropic-ratelimit-requests-{}"];
const TOKEN_HEADERS: [&str; 3] = [
    "x-ratelimit-{}-tokens",
    "anthropic-ratelimit-tokens-{}",
    "anthropic-ratelimit-input-tokens-{}",
];

/// Reads limits and remaining quota.
pub(crate) fn rate_limits(headers: &HeaderMap) -> ReportedLimits {
    ReportedLimits {
        requests_per_minute: limit(headers, &REQUEST_HEADERS),
        tokens_per_minute: limit(headers, &TOKEN_HEADERS),
        requests_remaining: number(headers, &REQUEST_HEADERS, "remaining"),
        tokens_remaining: number(headers, &TOKEN_HEADERS, "remaining"),
    }
}

// Servers send 0 or -1 where no limit is configured.
fn limit(headers: &HeaderMap, names: &[&str]) -> Option<u32> {
    number(headers, names, "limit").filter(|limit| *limit > 0)
}

fn number(headers: &HeaderMap, names: &[&str], what: &str) -> Option<u32> {
    let value = header_value(headers, names, what)?;
    let number = value.parse::<f64>().ok().filter(|number| *number >= 0.0)?;
    // `u32::MAX` means an unknown quota.
    Some(number.min(f64::from(u32::MAX - 1)) as u32)
}

/// Returns the pause that the provider requests with an error.
pub(crate) fn retry_after(headers: &HeaderMap, now_ms: Millis) -> Option<Duration> {
    let seconds = [
        ("retry-after-ms", 1_000.0),
        ("x-ms-retry-after-ms", 1_000.0),
        ("retry-after", 1.0),
    ]
    .into_iter()
    .find_map(|(name, per_second)| {
        let value: f64 = header_text(headers, name)?.parse().ok()?;
        Some(value / per_second)
    });
    let pause = match seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        // The date is by the provider's clock, so it is compared with the `date` header where present.
        None => header_text(headers, "retry-after")
            .and_then(parse_http_date)
            .map(|until_ms| {
                let now_ms = header_text(headers, "date")
                    .and_then(parse_http_date)
                    .unwrap_or(now_ms);
                Duration::from_millis(until_ms.saturating_sub(now_ms))
            }),
    };
    pause
        .map(|pause| pause.min(MAX_PAUSE))
        .or_else(|| time_until_reset(headers, now_ms))
}

// Without `retry-after`, the pause is the longest reset time among the exhausted quotas.
fn time_until_reset(headers: &HeaderMap, now_ms: Millis) -> Option<Duration> {
    let quotas: [&[&str]; 2] = [&REQUEST_HEADERS, &TOKEN_HEADERS];
    let resets = quotas
        .into_iter()
        .filter(|names| {
            header_value(headers, names, "remaining")
                .and_then(|value| value.parse::<f64>().ok())
                .is_some_and(|remaining| remaining < 1.0)
        })
        .filter_map(|names: &[&str]| {
            let value = header_value(headers, names, "reset")?;
            let until_ms = parse_rfc3339(value)
                .map(|until_ms| Duration::from_millis(until_ms.saturating_sub(now_ms)));
            until_ms.or_else(|| parse_duration(value))
        });
    resets.max().map(|reset| reset.min(MAX_RESET_PAUSE))
}

fn header_value<'a>(headers: &'a HeaderMap, names: &[&str], what: &str) -> Option<&'a str> {
    names
        .iter()
        .find_map(|name| header_text(headers, &name.replace("{}", what)))
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    const NOW_MS: Millis = 1_767_225_600_000;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value): &(&'static str, &'static str)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn rate_limits_are_read_for_every_provider() {
        let openai = headers(&[
            ("x-ratelimit-limit-requests", "500"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-limit-tokens", "200000"),
            ("x-ratelimit-remaining-tokens", "199000"),
        ]);
        let all = ReportedLimits {
            requests_per_minute: Some(500),
            tokens_per_minute: Some(200_000),
            requests_remaining: Some(0),
            tokens_remaining: Some(199_000),
        };
        assert_eq!(rate_limits(&openai), all);
        let anthropic = headers(&[
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-input-tokens-limit", "40000"),
            ("anthropic-ratelimit-input-tokens-remaining", "39000"),
        ]);
        let limits = rate_limits(&anthropic);
        assert_eq!(limits.requests_per_minute, Some(50));
        assert_eq!(limits.tokens_per_minute, Some(40_000));
        assert_eq!(limits.requests_remaining, None);
        assert_eq!(limits.tokens_remaining, Some(39_000));
        let none = headers(&[
            ("x-ratelimit-limit-requests", "-1"),
            ("x-ratelimit-limit-tokens", "many"),
        ]);
        assert_eq!(rate_limits(&none), ReportedLimits::default());
    }

    #[test]
    fn retry_after_is_read_for_every_provider() {
        let millis =
            |lines: &[_]| retry_after(&headers(lines), NOW_MS).map(|pause| pause.as_millis());
        assert_eq!(
            millis(&[("retry-after", "7"), ("retry-after-ms", "250")]),
            Some(250)
        );
        assert_eq!(millis(&[("x-ms-retry-after-ms", "40")]), Some(40));
        assert_eq!(millis(&[("retry-after", "1.5")]), Some(1_500));
        assert_eq!(millis(&[("retry-after", "86400")]), Some(600_000));
        let date = ("retry-after", "Thu, 01 Jan 2026 00:00:20 GMT");
        assert_eq!(millis(&[date]), Some(20_000));
        assert_eq!(
            millis(&[date, ("date", "Thu, 01 Jan 2026 00:00:15 GMT")]),
            Some(5_000)
        );
        assert_eq!(millis(&[("retry-after", "soon")]), None);
        let reset = |remaining| {
            [
                ("x-ratelimit-remaining-requests", remaining),
                ("x-ratelimit-reset-requests", "1m30s"),
            ]
        };
        assert_eq!(millis(&reset("0")), Some(60_000));
        assert_eq!(millis(&reset("3")), None);
        let reset = [
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "2026-01-01T00:00:12Z"),
        ];
        assert_eq!(millis(&reset), Some(12_000));
    }
}

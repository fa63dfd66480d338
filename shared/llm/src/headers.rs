//! What the headers of a reply say about limits, in the words of every provider.
//!
//! | header | says |
//! |---|---|
//! | `retry-after-ms`, `x-ms-retry-after-ms` | how long no one should ask, in milliseconds |
//! | `retry-after` | the same in seconds, or the date until when |
//! | `x-ratelimit-limit-requests`, `-tokens` | limits per minute (OpenAI, Azure, vLLM behind gateways) |
//! | `x-ratelimit-remaining-requests`, `-tokens` | what is left of them now |
//! | `x-ratelimit-reset-requests`, `-tokens` | how long until all of it is there again |
//! | `anthropic-ratelimit-requests-*`, `-tokens-*`, `-input-tokens-*` | the same; `-reset` as a time of RFC 3339 |

use std::time::Duration;

use reqwest::header::HeaderMap;
use stemma_engine::env::Millis;
use stemma_engine::limit::Stated;

use crate::clock::{duration, http_date, rfc3339};

/// The longest pause that is believed.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// The longest pause that is taken from the time at which a whole limit is there again: some of it is there sooner.
const LONGEST_RESET: Duration = Duration::from_secs(60);
/// What limits are counted in, in the words of OpenAI and of Anthropic, the first that is there counts.
const REQUESTS: [&str; 2] = ["x-ratelimit-{}-requests", "anthropic-ratelimit-requests-{}"];
const TOKENS: [&str; 3] = [
    "x-ratelimit-{}-tokens",
    "anthropic-ratelimit-tokens-{}",
    "anthropic-ratelimit-input-tokens-{}",
];

/// Limits and what is left of them.
pub(crate) fn stated(headers: &HeaderMap) -> Stated {
    let number = |names: &[&str], what: &str| -> Option<u32> {
        let said = said(headers, names, what)?;
        let number = said.parse::<f64>().ok().filter(|number| *number >= 0.0)?;
        Some(number.min(f64::from(u32::MAX - 1)) as u32)
    };
    // No provider grants nothing at all: a limit of 0 or -1 says that there is none.
    let limit = |names| number(names, "limit").filter(|limit| *limit > 0);
    Stated {
        requests_per_minute: limit(&REQUESTS),
        tokens_per_minute: limit(&TOKENS),
        requests_left: number(&REQUESTS, "remaining"),
        tokens_left: number(&TOKENS, "remaining"),
    }
}

/// The pause a provider asks for with a refusal.
pub(crate) fn retry_after(headers: &HeaderMap, now_ms: Millis) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    let millis = || number("retry-after-ms").or_else(|| number("x-ms-retry-after-ms"));
    let seconds = millis()
        .map(|millis| millis / 1_000.0)
        .or_else(|| number("retry-after"));
    let pause = match seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        // A date is by the provider's clock: its own says how far away that is, where it sends it.
        None => text("retry-after").and_then(http_date).map(|until_ms| {
            let now_ms = text("date").and_then(http_date).unwrap_or(now_ms);
            Duration::from_millis(until_ms.saturating_sub(now_ms))
        }),
    };
    pause
        .map(|pause| pause.min(LONGEST_PAUSE))
        .or_else(|| reset(headers, now_ms))
}

/// How long until what is used up is there again, where nothing else is said.
fn reset(headers: &HeaderMap, now_ms: Millis) -> Option<Duration> {
    let used_up = |names: &[&str]| {
        said(headers, names, "remaining")?
            .parse::<f64>()
            .ok()
            .filter(|left| *left < 1.0)
    };
    let meters: [&[&str]; 2] = [&REQUESTS, &TOKENS];
    let resets = meters
        .into_iter()
        .filter(|names| used_up(names).is_some())
        .filter_map(|names: &[&str]| {
            let said = said(headers, names, "reset")?;
            let until_ms = rfc3339(said)
                .map(|until_ms| Duration::from_millis(until_ms.saturating_sub(now_ms)));
            until_ms.or_else(|| duration(said))
        });
    resets.max().map(|reset| reset.min(LONGEST_RESET))
}

/// What the first of `names` that is there says about `what`.
fn said<'a>(headers: &'a HeaderMap, names: &[&str], what: &str) -> Option<&'a str> {
    names.iter().find_map(|name| {
        headers
            .get(name.replace("{}", what))?
            .to_str()
            .ok()
            .map(str::trim)
    })
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
    fn limits_are_read_in_every_dialect() {
        let openai = headers(&[
            ("x-ratelimit-limit-requests", "500"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-limit-tokens", "200000"),
            ("x-ratelimit-remaining-tokens", "199000"),
        ]);
        let all = Stated {
            requests_per_minute: Some(500),
            tokens_per_minute: Some(200_000),
            requests_left: Some(0),
            tokens_left: Some(199_000),
        };
        assert_eq!(stated(&openai), all);
        let anthropic = headers(&[
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-input-tokens-limit", "40000"),
            ("anthropic-ratelimit-input-tokens-remaining", "39000"),
        ]);
        let found = stated(&anthropic);
        assert_eq!(
            (found.requests_per_minute, found.tokens_per_minute),
            (Some(50), Some(40_000))
        );
        assert_eq!(
            (found.requests_left, found.tokens_left),
            (None, Some(39_000))
        );
        let none = headers(&[
            ("x-ratelimit-limit-requests", "-1"),
            ("x-ratelimit-limit-tokens", "many"),
        ]);
        assert_eq!(stated(&none), Stated::default());
    }

    #[test]
    fn pauses_are_read_in_every_dialect() {
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
        let reset = |left| {
            [
                ("x-ratelimit-remaining-requests", left),
                ("x-ratelimit-reset-requests", "1m30s"),
            ]
        };
        assert_eq!(
            (millis(&reset("0")), millis(&reset("3"))),
            (Some(60_000), None)
        );
        let reset = [
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "2026-01-01T00:00:12Z"),
        ];
        assert_eq!(millis(&reset), Some(12_000));
    }
}

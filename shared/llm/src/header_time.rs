//! Times in reply headers, in Unix milliseconds, and durations such as `6m0s`.

use std::time::{Duration, UNIX_EPOCH};

use chrono::DateTime;
use stemma_store::env::Millis;

/// Parses an HTTP date (RFC 9110 §5.6.7), e.g. `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) fn parse_http_date(text: &str) -> Option<Millis> {
    let time = httpdate::parse_http_date(text).ok()?;
    let since_epoch = time.duration_since(UNIX_EPOCH).ok()?;
    Millis::try_from(since_epoch.as_millis()).ok()
}

/// Parses an RFC 3339 time, e.g. `2026-01-01T00:00:30Z`.
pub(crate) fn parse_rfc3339(text: &str) -> Option<Millis> {
    let time = DateTime::parse_from_rfc3339(text).ok()?;
    Millis::try_from(time.timestamp_millis()).ok()
}

/// Parses a duration in OpenAI's format: numbers with the units `h`, `m`, `s` and `ms`, or plain seconds.
// Parsers for Go and systemd durations do not fit: numbers have fractions and may lack a unit.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if let Ok(seconds) = rest.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..end].parse().ok()?;
        let after = rest[end..]
            .find(|c: char| c.is_ascii_digit())
            .map_or(rest.len(), |offset| end + offset);
        seconds += number
            * match &rest[end..after] {
                "h" => 3_600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                _ => return None,
            };
        rest = &rest[after..];
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_headers_are_read() {
        assert_eq!(
            parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(784_111_777_000)
        );
        assert_eq!(
            parse_http_date("Thu, 29 Feb 2024 00:00:00 GMT"),
            Some(1_709_164_800_000)
        );
        assert_eq!(parse_rfc3339("1994-11-06T08:49:37Z"), Some(784_111_777_000));
        assert_eq!(
            parse_rfc3339("1994-11-06T10:49:37.5+02:00"),
            Some(784_111_777_500)
        );
        assert_eq!(
            parse_rfc3339("2026-01-01T00:00:00-00:30"),
            Some(1_767_227_400_000)
        );
        for bad in [
            "",
            "Sunday",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 88:49:37 GMT",
            "1994-11-06",
        ] {
            assert_eq!(parse_http_date(bad), None, "{bad}");
            assert_eq!(parse_rfc3339(bad), None, "{bad}");
        }
    }

    #[test]
    fn durations_are_read() {
        let read = |text: &str| parse_duration(text).map(|duration| duration.as_millis());
        assert_eq!(
            ["6m0s", "1h2m3.5s", "12ms", "8.64s", "7"].map(read),
            [
                Some(360_000),
                Some(3_723_500),
                Some(12),
                Some(8_640),
                Some(7_000)
            ]
        );
        assert_eq!(
            ["", "soon", "5d", "-3s", "1e300"].map(read),
            [Some(0), None, None, None, None]
        );
    }
}

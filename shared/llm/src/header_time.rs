//! Times as providers write them in headers: HTTP dates (RFC 9110 §5.6.7), RFC 3339, and durations such as `6m0s`.

use std::time::Duration;

use stemma_engine::env::Millis;

const DAY_SECONDS: i64 = 86_400;

/// An HTTP date of the one form that is written today, e.g. `Sun, 06 Nov 1994 08:49:37 GMT`, in milliseconds since 1970.
pub(crate) fn parse_http_date(text: &str) -> Option<Millis> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, date) = text.split_once(", ")?;
    let mut words = date.split(' ');
    let day = words.next()?.parse().ok()?;
    let month = words
        .next()
        .and_then(|name| MONTHS.iter().position(|month| *month == name))?;
    let year = words.next()?.parse().ok()?;
    let seconds = parse_time_of_day(words.next()?)?;
    (words.next() == Some("GMT"))
        .then(|| unix_millis(year, month as i64 + 1, day, seconds))
        .flatten()
}

/// A time of RFC 3339, e.g. `2026-01-01T00:00:30Z`, in milliseconds since 1970.
pub(crate) fn parse_rfc3339(text: &str) -> Option<Millis> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut numbers = date.splitn(3, '-').map(|number| number.parse().ok());
    let year = numbers.next()??;
    let month = numbers.next()??;
    let day = numbers.next()??;
    let (time, offset) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0.0),
        None => {
            let at = time.rfind(['+', '-'])?;
            let (hours, minutes) = time[at + 1..].split_once(':')?;
            let offset = hours.parse::<f64>().ok()? * 3_600.0 + minutes.parse::<f64>().ok()? * 60.0;
            (
                &time[..at],
                if time[at..].starts_with('+') {
                    offset
                } else {
                    -offset
                },
            )
        }
    };
    unix_millis(year, month, day, parse_time_of_day(time)? - offset)
}

/// A duration as OpenAI writes it: numbers with the units `h`, `m`, `s` and `ms`, or seconds without a unit.
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

/// Seconds since midnight of `08:49:37` and `08:49:37.5`.
fn parse_time_of_day(text: &str) -> Option<f64> {
    let mut parts = text.splitn(3, ':').map(|part| {
        part.parse::<f64>()
            .ok()
            .filter(|part| (0.0..61.0).contains(part))
    });
    Some(parts.next()?? * 3_600.0 + parts.next()?? * 60.0 + parts.next()??)
}

/// Milliseconds since 1970 of a day of the Gregorian calendar and the seconds of it.
fn unix_millis(year: i64, month: i64, day: i64, seconds: f64) -> Option<Millis> {
    if !((1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day)) {
        return None;
    }
    // Years begin in March, so that the leap day is the last of a year; a month from there on is 30.6 days.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days =
        365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    let millis = ((days * DAY_SECONDS) as f64 + seconds) * 1_000.0;
    (millis >= 0.0).then_some(millis as Millis)
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
            assert_eq!(
                (parse_http_date(bad), parse_rfc3339(bad)),
                (None, None),
                "{bad}"
            );
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

//! Formatting of times in UTC.

/// Formats Unix milliseconds as RFC 3339 with whole seconds: `2023-11-14T22:13:20Z`.
pub fn format_rfc3339(at_ms: u64) -> String {
    let days = at_ms / 86_400_000;
    let seconds = at_ms / 1_000 % 86_400;
    format!(
        "{}T{:02}:{:02}:{:02}Z",
        format_date(days),
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Formats days since 1970-01-01 as an ISO 8601 date: `2023-11-14`.
pub fn format_date(days: u64) -> String {
    // The `civil_from_days` algorithm of Howard Hinnant. Years begin in March, so that the leap day is the last day of
    // a year; eras are 400 years.
    let days = days + 719_468;
    let era = days / 146_097;
    let in_era = days % 146_097;
    let year = (in_era - in_era / 1_460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let date = in_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 {
        (era * 400 + year, month + 3)
    } else {
        (era * 400 + year + 1, month - 9)
    };
    format!("{year:04}-{month:02}-{date:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_formatted() {
        let dates = [0, 59, 19_782, 20_453].map(format_date);
        assert_eq!(
            dates,
            ["1970-01-01", "1970-03-01", "2024-02-29", "2025-12-31"]
        );
        assert_eq!(format_rfc3339(1_700_000_000_999), "2023-11-14T22:13:20Z");
        assert_eq!(format_rfc3339(0), "1970-01-01T00:00:00Z");
    }
}

//! Durations, ages, rates and amounts in words.

/// `45s`, `3m20s`, `2h05m`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `40 s ago`, `3 h ago`.
pub fn ago(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..=119 => format!("{seconds} s ago"),
        120..=7199 => format!("{} min ago", seconds / 60),
        7200..=172_799 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// `1.4/s`, `3.0/min`, `2.5/h`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 1.0 => format!("{rate:.1}/s"),
        rate if rate >= 1.0 / 60.0 => format!("{:.1}/min", rate * 60.0),
        rate => format!("{:.1}/h", rate * 3_600.0),
    }
}

/// An amount of dollars, with four decimals below ten cents.
pub fn money(dollars: f64) -> String {
    if dollars > 0.0 && dollars < 0.1 {
        format!("${dollars:.4}")
    } else {
        format!("${dollars:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        assert_eq!(
            [9.6, 200.0, 7_500.0].map(duration),
            ["10s", "3m20s", "2h05m"]
        );
    }

    #[test]
    fn rates_have_the_unit_that_keeps_them_readable() {
        assert_eq!([2.0, 0.05, 0.001].map(rate), ["2.0/s", "3.0/min", "3.6/h"]);
    }
}

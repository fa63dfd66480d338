//! Transformations of displayed texts into values: the registries 2 to 5 of XBRL International and that of the SEC, in
//! English. What is not known here has no value: it is never guessed.

mod dates;
mod durations;
mod names;
mod numbers;
mod words;

/// The registry of a transformation, from the namespace of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registry {
    /// Versions 2 and 3, of 2011 and 2015.
    Early,
    /// Versions 4 and 5, of 2020 and 2022: names with hyphens, and looser numbers.
    Late,
    Sec,
}

impl Registry {
    pub(crate) fn from_namespace(uri: &str) -> Option<Self> {
        const XBRL: &str = "http://www.xbrl.org/inlineXBRL/transformation/";
        match uri.strip_prefix(XBRL) {
            Some("2011-07-31" | "2015-02-26") => Some(Self::Early),
            Some("2020-02-12" | "2022-02-16") => Some(Self::Late),
            Some(_) => None,
            None => uri
                .starts_with("http://www.sec.gov/inlineXBRL/transformation/")
                .then_some(Self::Sec),
        }
    }
}

/// Why a displayed text has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransformError {
    UnknownFormat,
    /// The text does not have the form that the format requires.
    WrongText,
}

/// The value of a text by a format, in the lexical form of XML Schema. White space of `text` is collapsed.
pub(crate) fn transform(
    registry: Registry,
    format: &str,
    text: &str,
) -> Result<String, TransformError> {
    let value = match registry {
        Registry::Sec => sec(format, text),
        Registry::Early => general(&format.to_ascii_lowercase(), text, true),
        // The names of the later registries are those of the earlier ones with hyphens, and some new ones.
        Registry::Late => general(&format.replace('-', ""), text, false),
    };
    value
        .ok_or(TransformError::UnknownFormat)?
        .ok_or(TransformError::WrongText)
}

/// The value of a number without a format.
pub(crate) fn plain_number(text: &str) -> Result<String, TransformError> {
    numbers::plain(text).ok_or(TransformError::WrongText)
}

// Outer `None`: unknown format. Inner `None`: the text does not fit.
fn general(format: &str, text: &str, is_early: bool) -> Option<Option<String>> {
    let fixed = |value: &str| Some(value.to_owned());
    Some(match format {
        "numdotdecimal" => numbers::grouped(text, '.', ",", is_early),
        "numcommadecimal" => numbers::grouped(text, ',', ".", is_early),
        "numunitdecimal" => numbers::with_units(text, ""),
        "numdotdecimalapos" if !is_early => {
            numbers::grouped(text, '.', numbers::COMMA_AND_APOSTROPHES, false)
        }
        "numcommadecimalapos" if !is_early => {
            numbers::grouped(text, ',', numbers::DOT_AND_APOSTROPHES, false)
        }
        "numunitdecimalapos" if !is_early => numbers::with_units(text, numbers::APOSTROPHES),
        "numdotdecimalin" => numbers::indian(text),
        "zerodash" => numbers::is_dash(text).then(|| "0".to_owned()),
        "fixedzero" if !is_early => fixed("0"),
        "nocontent" | "fixedempty" => fixed(""),
        "booleantrue" | "fixedtrue" => fixed("true"),
        "booleanfalse" | "fixedfalse" => fixed("false"),
        date if date.starts_with("date") => return dates::date(date, text),
        _ => return None,
    })
}

fn sec(format: &str, text: &str) -> Option<Option<String>> {
    Some(match format {
        "numwordsen" => words::number(text).map(|number| number.to_string()),
        "durwordsen" => durations::in_words(text),
        "duryear" => durations::years(text),
        "durmonth" => durations::months(text),
        "durweek" => durations::weeks(text),
        "durday" => durations::days(text),
        "durhour" => durations::hours(text),
        "datequarterend" => dates::quarter_end(text),
        "boolballotbox" => names::ballot_box(text).map(|checked| checked.to_string()),
        "yesnoballotbox" => {
            names::ballot_box(text).map(|checked| if checked { "Yes" } else { "No" }.to_owned())
        }
        "exchnameen" => names::exchange(text),
        "stateprovnameen" => names::state(text),
        "entityfilercategoryen" => names::filer_category(text),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(registry: Registry, format: &str, text: &str) -> Option<String> {
        transform(registry, format, text).ok()
    }

    #[test]
    fn formats_of_the_registries_give_values() {
        use Registry::{Early, Late, Sec};
        for (registry, format, text, expected) in [
            (Late, "num-dot-decimal", "2,628,553", "2628553"),
            (Late, "num-dot-decimal", "1 234.50", "1234.50"),
            (Late, "num-dot-decimal", ".07", "0.07"),
            (Early, "numdotdecimal", "1,234.5", "1234.5"),
            (Late, "num-comma-decimal", "1.234,5", "1234.5"),
            (Early, "numcommadecimal", "1 234,5", "1234.5"),
            (Late, "num-unit-decimal", "1,234 dollars 5 cents", "1234.05"),
            (Late, "num-dot-decimal-apos", "1'234.5", "1234.5"),
            (Early, "numdotdecimalin", "1,23,45,678.9", "12345678.9"),
            (Early, "zerodash", "\u{2014}", "0"),
            (Late, "fixed-zero", "none", "0"),
            (Late, "fixed-empty", "x", ""),
            (Late, "fixed-true", "\u{2612}", "true"),
            (Early, "booleanfalse", "x", "false"),
            (
                Late,
                "date-monthname-day-year-en",
                "December 31, 2024",
                "2024-12-31",
            ),
            (Early, "datemonthdayyearen", "Sept. 30, 2018", "2018-09-30"),
            (Late, "date-monthname-day-en", "September 28", "--09-28"),
            (Late, "date-month-day", "12/31", "--12-31"),
            (Late, "date-month-day-year", "1/1/2044", "2044-01-01"),
            (Early, "datedaymonthyear", "31.12.2018", "2018-12-31"),
            (Late, "date-monthname-year-en", "July 2033", "2033-07"),
            (Sec, "datequarterend", "third quarter of 2021", "2021-09-30"),
            (Sec, "numwordsen", "Twenty-one", "21"),
            (Sec, "numwordsen", "no", "0"),
            (Sec, "durwordsen", "five-year", "P5Y"),
            (Sec, "durwordsen", "one year and 6 months", "P1Y6M"),
            (Sec, "duryear", "7.9", "P7Y10M24D"),
            (Sec, "durmonth", "36", "P36M"),
            (Sec, "durday", "455", "P455D"),
            (Sec, "durweek", "2", "P14D"),
            (Sec, "durhour", "12", "PT12H"),
            (Sec, "boolballotbox", "\u{2612}", "true"),
            (Sec, "boolballotbox", "\u{2610}", "false"),
            (
                Sec,
                "exchnameen",
                "The Nasdaq Global Select Market",
                "NASDAQ",
            ),
            (Sec, "stateprovnameen", "New Jersey", "NJ"),
            (
                Sec,
                "entityfilercategoryen",
                "Large accelerated filer",
                "Large Accelerated Filer",
            ),
        ] {
            assert_eq!(
                value(registry, format, text).as_deref(),
                Some(expected),
                "{format} {text}"
            );
        }
    }

    #[test]
    fn what_is_not_known_has_no_value() {
        use Registry::{Early, Late, Sec};
        for (registry, format, text) in [
            (Late, "num-dot-decimal", "1.234.567"),
            (Late, "num-dot-decimal", "(12)"),
            (Late, "num-dot-decimal", ""),
            (Early, "numdotdecimal", "1,23"),
            (Early, "zerodash", "0"),
            (Late, "date-monthname-day-year-en", "February 30, 2024"),
            (Sec, "numwordsen", "two three"),
            (Sec, "numwordsen", "hundred"),
            (Sec, "durwordsen", "soon"),
            (Sec, "boolballotbox", "x y"),
            (Sec, "exchnameen", "a stock exchange"),
        ] {
            assert_eq!(
                transform(registry, format, text),
                Err(TransformError::WrongText),
                "{format} {text}"
            );
        }
        for (registry, format) in [
            (Late, "date-day-monthname-el"),
            (Sec, "countrynameen"),
            (Early, "new"),
        ] {
            assert_eq!(
                transform(registry, format, "x"),
                Err(TransformError::UnknownFormat),
                "{format}"
            );
        }
        assert_eq!(
            Registry::from_namespace("http://www.xbrl.org/inlineXBRL/transformation/2030-01-01"),
            None
        );
    }
}

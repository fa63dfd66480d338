//! The document information dictionary. Its content is untrusted.

use std::collections::BTreeMap;

use hayro_syntax::metadata::Metadata;
use hayro_syntax::object::DateTime;

use super::strings::decode_text_string;

/// Returns the entries by lower-case keys, with dates in ISO 8601.
pub(super) fn read_info(metadata: &Metadata) -> BTreeMap<String, String> {
    let texts = [
        ("title", &metadata.title),
        ("author", &metadata.author),
        ("subject", &metadata.subject),
        ("keywords", &metadata.keywords),
        ("creator", &metadata.creator),
        ("producer", &metadata.producer),
    ];
    let dates = [
        ("creationdate", metadata.creation_date),
        ("moddate", metadata.modification_date),
    ];
    let texts = texts
        .into_iter()
        .filter_map(|(key, value)| Some((key, decode_text_string(value.as_deref()?))));
    let dates = dates
        .into_iter()
        .filter_map(|(key, value)| Some((key, iso_date_time(&value?))));
    texts
        .chain(dates)
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn iso_date_time(date: &DateTime) -> String {
    let DateTime {
        year,
        month,
        day,
        hour,
        minute,
        second,
        ..
    } = *date;
    let offset_hour = date.utc_offset_hour;
    let offset_minute = date.utc_offset_minute;
    let zone = if offset_hour == 0 && offset_minute == 0 {
        "Z".to_owned()
    } else {
        format!(
            "{}{:02}:{offset_minute:02}",
            if offset_hour < 0 { '-' } else { '+' },
            offset_hour.unsigned_abs()
        )
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}")
}

//! Reads the page references at the end of a cell: `4-6, 8`, `F-3 to F-9`, `Note 12, page 18`.

use stemma_reading::vocabulary::{NUMBERED_NAMES, PAGE_WORDS, RANGE_WORDS};

use super::page_labels::SeriesLabel;

/// A page or a range of pages, with its text as printed.
pub(super) struct PageReference {
    pub(super) from: SeriesLabel,
    pub(super) to: SeriesLabel,
    pub(super) text: String,
}

/// Splits a cell into its words and the page references at its end.
pub(super) fn split_page_references(cell: &str) -> (&str, Vec<PageReference>) {
    const JOINTS: [char; 4] = [',', ';', '&', ' '];
    let cell = cell.trim();
    let mut front = cell;
    let mut references: Vec<PageReference> = Vec::new();
    loop {
        let joined = front.trim_end_matches(JOINTS);
        front = joined
            .strip_suffix(" and")
            .unwrap_or(joined)
            .trim_end_matches(JOINTS);
        // `Note 12, page 18`: the number before the word `page` is not a page.
        let worded = PAGE_WORDS.iter().find_map(|word| front.strip_suffix(word));
        if let Some(before) = worded.filter(|_| !references.is_empty()) {
            references.reverse();
            return (before.trim_end_matches(JOINTS), references);
        }
        let Some((start, place)) = last_page_reference(front).filter(|_| references.len() < 64)
        else {
            break;
        };
        references.push(place);
        front = &front[..start];
    }
    let lead =
        front.trim_end_matches(|c: char| matches!(c, '.' | '…' | '_' | '·') || c.is_whitespace());
    // `Form 10-K` and `Note 12` end with a number that is not a page.
    if NUMBERED_NAMES.ends(lead) {
        return (cell, Vec::new());
    }
    references.reverse();
    (lead, references)
}

fn last_word_start(text: &str) -> usize {
    text.rfind(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '.' | '…' | '(' | '_'))
        .map_or(0, |at| {
            at + text[at..].chars().next().map_or(1, char::len_utf8)
        })
}

/// The last page or range of `text`, and its byte offset.
fn last_page_reference(text: &str) -> Option<(usize, PageReference)> {
    let start = last_word_start(text);
    let word = &text[start..];
    if let Some((from, to)) = parse_range(word) {
        return Some((
            start,
            PageReference {
                from,
                to,
                text: word.to_string(),
            },
        ));
    }
    let to = SeriesLabel::parse(word).filter(|label| label.series != "roman" || word.len() > 1)?;
    // `3 - 7`, `F-3 to F-9`
    let before = text[..start].trim_end();
    let joined = RANGE_WORDS
        .iter()
        .find_map(|word| before.strip_suffix(word));
    if let Some(before) = joined
        .filter(|before| before.len() < text[..start].trim_end().len())
        .map(str::trim_end)
    {
        let first = last_word_start(before);
        if let Some(from) =
            SeriesLabel::parse(&before[first..]).filter(|from| from.series == to.series)
        {
            let text = format!("{}–{word}", &before[first..]);
            return Some((first, PageReference { from, to, text }));
        }
    }
    Some((
        start,
        PageReference {
            from: to.clone(),
            to,
            text: word.to_string(),
        },
    ))
}

/// `4-6`, `4–6`, `F-3–F-9`.
fn parse_range(word: &str) -> Option<(SeriesLabel, SeriesLabel)> {
    for (at, mark) in word
        .char_indices()
        .filter(|(_, c)| matches!(c, '-' | '–' | '—'))
    {
        let low = &word[..at];
        let high = &word[at + mark.len_utf8()..];
        let plain = [low, high]
            .iter()
            .all(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()));
        let prefixed = low.len() > 2 && high.len() > 2 && low.as_bytes()[0].is_ascii_uppercase();
        if let (true, Some(low), Some(high)) = (
            plain || prefixed,
            SeriesLabel::parse(low),
            SeriesLabel::parse(high),
        ) && low.series == high.series
        {
            return Some((low, high));
        }
    }
    None
}

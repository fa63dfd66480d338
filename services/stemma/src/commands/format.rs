//! Text of documents, sections and Items, as several commands print it.

use stemma_archive::{DocumentInfo, ItemContent, SearchNote};
use stemma_catalog::short_path::short_path;
use stemma_document::ItemStatus;

use crate::output::{Output, clean};
use crate::table::counted;

/// `p 4–10`, `line 3–9`.
pub fn page_or_line_range(pages: Option<(u32, u32)>, lines: Option<(u32, u32)>) -> String {
    match (pages, lines) {
        (Some((start, end)), _) if start == end => format!("p {start}"),
        (Some((start, end)), _) => format!("p {start}–{end}"),
        (None, Some((start, end))) if start == end => format!("line {start}"),
        (None, Some((start, end))) => format!("lines {start}–{end}"),
        _ => String::new(),
    }
}

/// `p 4`, or `line 9` where there are no pages.
pub fn page_or_line(page: Option<u32>, line: impl std::fmt::Display) -> String {
    page.map_or_else(|| format!("line {line}"), |page| format!("p {page}"))
}

/// `3 added`, `1 moved`: the counts that are not 0.
pub fn counts<const N: usize>(counts: [(u64, &str); N]) -> impl Iterator<Item = String> {
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    counts.map(|(count, what)| format!("{count} {what}"))
}

/// `  was “Cash” · level 2 → 3`; empty without remarks.
pub fn remarks(remarks: &[String]) -> String {
    match remarks {
        [] => String::new(),
        remarks => format!("  {}", remarks.join(" · ")),
    }
}

/// The beginning of a title, for lists.
pub fn short_title(title: &str) -> String {
    const MAX_CHARS: usize = 60;
    clean(title).chars().take(MAX_CHARS).collect()
}

/// Issuer, form and period of a filing; empty for other documents.
pub fn identity(document: &DocumentInfo) -> Vec<String> {
    let Some(facts) = &document.facts else {
        return Vec::new();
    };
    let mut parts: Vec<String> = [&facts.issuer, &facts.form]
        .into_iter()
        .flatten()
        .map(|fact| fact.value.clone())
        .collect();
    if let Some(year) = &facts.fiscal_year {
        let quarter = match &facts.fiscal_period {
            Some(period) if period.value != "FY" => format!("{} ", period.value),
            _ => String::new(),
        };
        let ended = match &facts.period_end {
            Some(end) => format!(" (ended {})", end.value),
            None => String::new(),
        };
        parts.push(format!("{quarter}FY{}{ended}", year.value));
    }
    if let Some(number) = &facts.file_number {
        parts.push(format!("file no. {}", number.value));
    }
    parts
}

/// The name of a document in bold, with its issuer, form and period.
pub fn title_line(document: &DocumentInfo, output: &Output) -> String {
    let identity = clean(&identity(document).join(" · "));
    format!("{}  {identity}", output.bold(&clean(&document.name)))
}

/// The titles of a section and those above it, shortened for lists: `Item 7 › Liquidity`.
pub fn short_section_path(path: &[String]) -> String {
    clean(&short_path(path))
}

/// Prints where a search did something else than its query says.
pub fn show_notes(notes: &[SearchNote], output: &Output) {
    for note in notes {
        output.note(&clean(&note.message));
    }
}

/// The passage that matched, in quotation marks, with its matches in bold.
pub fn excerpt_line(output: &Output, text: &str, marks: &[(usize, usize)]) -> String {
    format!("   “{}”", highlight(output, text, marks))
}

/// ` (printed 60)`: the number that is printed on a page, if any.
pub fn printed_label(label: Option<&str>) -> String {
    label.map_or_else(String::new, |label| format!(" (printed {})", clean(label)))
}

/// The status of an Item in words: `by reference`.
pub fn badge(status: Option<ItemStatus>) -> String {
    status.map(|status| word(&status)).unwrap_or_default()
}

/// `→ 3M_2022_10K#0051, proxy statement (not in this document)`; empty without links.
pub fn links_line(links: &[ItemContent]) -> String {
    let parts: Vec<String> = links
        .iter()
        .take(4)
        .map(|link| match (&link.to, &link.outside) {
            (Some(to), _) if link.approximate => format!("within {to}"),
            (Some(to), _) => to.clone(),
            (None, Some(outside)) => format!("{outside} (not in this document)"),
            (None, None) => format!("“{}” (not found)", link.text),
        })
        .collect();
    match links.len() {
        0 => String::new(),
        1..=4 => format!("→ {}", parts.join(", ")),
        all => format!("→ {} and {} more", parts.join(", "), all - 4),
    }
}

/// `160 pages` or `812 lines`.
pub fn length(document: &DocumentInfo) -> String {
    match (document.pages, document.lines) {
        (Some(pages), _) => counted(pages, "page"),
        (None, Some(lines)) => counted(lines, "line"),
        (None, None) => String::new(),
    }
}

/// A snake_case JSON value in words: `printed_contents` → `printed contents`.
pub fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word.replace('_', " "),
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

pub fn state_word(state: &impl serde::Serialize) -> String {
    match word(state).as_str() {
        "done with gaps" => "done with warnings".into(),
        state => state.into(),
    }
}

/// Text with the marked byte ranges in bold, and control characters escaped.
pub fn highlight(output: &Output, text: &str, marks: &[(usize, usize)]) -> String {
    let mut highlighted = String::new();
    let mut at = 0;
    for (start, end) in marks.iter().filter(|(start, end)| start < end) {
        // Ideographs are indexed as overlapping pairs, so marks can overlap.
        let start = (*start).max(at);
        if let (Some(before), Some(matched)) = (text.get(at..start), text.get(start..*end)) {
            highlighted.push_str(&clean(before));
            highlighted.push_str(&output.bold(&clean(matched)));
            at = *end;
        }
    }
    highlighted.push_str(&clean(text.get(at..).unwrap_or_default()));
    highlighted
}

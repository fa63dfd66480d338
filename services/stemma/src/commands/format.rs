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

/// Issuer, form and period of a filing; empty for other documents.
pub fn identity(document: &DocumentInfo) -> Vec<String> {
    let Some(facts) = &document.facts else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    parts.extend(facts.issuer.iter().map(|fact| fact.value.clone()));
    parts.extend(facts.form.iter().map(|fact| fact.value.clone()));
    let quarter = facts
        .fiscal_period
        .as_ref()
        .filter(|period| period.value != "FY")
        .map(|period| format!("{} ", period.value));
    let ended = facts
        .period_end
        .as_ref()
        .map(|end| format!(" (ended {})", end.value))
        .unwrap_or_default();
    if let Some(year) = &facts.fiscal_year {
        parts.push(format!(
            "{}FY{}{ended}",
            quarter.unwrap_or_default(),
            year.value
        ));
    }
    parts.extend(
        facts
            .file_number
            .iter()
            .map(|fact| format!("file no. {}", fact.value)),
    );
    parts
}

/// The name of a document in bold, with its issuer, form and period.
pub fn title_line(document: &DocumentInfo, output: &Output) -> String {
    format!(
        "{}  {}",
        output.bold(&clean(&document.name)),
        clean(&identity(document).join(" · "))
    )
}

/// The titles of a section and those above it: `PART I › Item 1A. Risk Factors`.
pub fn section_path(path: &[String]) -> String {
    clean(&path.join(" › "))
}

/// The same, shortened for lists: `Item 7 › Liquidity`.
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
    label
        .map(|label| format!(" (printed {})", clean(label)))
        .unwrap_or_default()
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
    let more = if links.len() > 4 {
        format!(" and {} more", links.len() - 4)
    } else {
        String::new()
    };
    if parts.is_empty() {
        String::new()
    } else {
        format!("→ {}{more}", parts.join(", "))
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

/// The state of a document in words.
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

//! Lines that look like headings but are not: units, dates, signatures, labels of tables, lines inside paragraphs.
//!
//! On the development filings, captions, covers and contents in the text were most of the false sections. Each rule here
//! removes one such source of error.

use super::line_features::{self, LineFeatures, LineTable};
use super::weights::{CLOSE, LABEL_GAP, OPEN_WORDS, PARAGRAPH_WIDTH, TEXT_WORDS, TIGHT};
use super::{numbering, titles};
use stemma_document::english_words::MONTHS;
use stemma_reading::heading_look::SAME_SIZE;
use stemma_reading::sentences::{is_full_stop, is_pause};
use stemma_reading::vocabulary::{
    BOILERPLATE_ENDS, BOILERPLATE_MARKS, BOILERPLATE_OPENINGS, BOILERPLATE_STARTS, DATE_WORDS,
    NOTE_VERBS, OPEN_TITLE_WORDS, PERIOD_HEADS, SIGNAL_WORDS, UNFINISHED_ENDS,
};

/// Whether a line consists of date words only: `Three and Six Months Ended June 2, 2023`.
pub(super) fn is_date_line(text: &str) -> bool {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    let mut numbers = false;
    let all = words.take(40).all(|word| {
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        numbers |= number;
        number || is_month(word) || DATE_WORDS.contains(&word.to_lowercase())
    });
    // The stub head of a table may leave out the date: `Three Months Ended`.
    all && (numbers || titles::normalize_key(text).ends_with("ended"))
}

fn is_month(word: &str) -> bool {
    MONTHS.iter().any(|month| word.eq_ignore_ascii_case(month))
}

/// Whether a line is the place and date of a release: `SPRINGFIELD, Ill. - May 31, 2023`.
pub(super) fn is_dateline(text: &str) -> bool {
    text.rsplit_once(['-', '–', '—'])
        .is_some_and(|(place, date)| {
            let month = date.split_whitespace().next().unwrap_or_default();
            is_month(month) && place.contains(',') && is_date_line(date)
        })
}

/// Whether a title that ends at row `last` is a label, a footnote or a fragment.
pub(super) fn is_label(lines: &LineTable<'_>, last: usize, title: &str) -> bool {
    let words = title.trim_end_matches(':');
    let final_word = words.rsplit(' ').next().unwrap_or("");
    let fragment = ends_with_connector(words)
        || OPEN_TITLE_WORDS
            .iter()
            .any(|word| final_word.eq_ignore_ascii_case(word));
    let footnote = title.starts_with('(')
        && numbering::after_number(title)
            .and_then(|rest| rest.split(' ').next())
            .is_some_and(|word| NOTE_VERBS.contains(word));
    let amount = final_word.contains([',', '.', '$'])
        && final_word.ends_with(|c: char| c.is_ascii_digit())
        && numbering::after_number(title).is_none();
    // `By email:` above an address, `Georgia.` at the end of a cell.
    let next = lines.next_on_page(last);
    let opens = next.is_some_and(|next| next.prose || next.table || next.words >= TEXT_WORDS);
    let addressed = title.starts_with("By ") && title.ends_with(':');
    let lone = addressed || title.ends_with('.') && !title.contains(' ');
    fragment || footnote || amount || lone && !opens
}

/// Whether the punctuation or last word of a row shows that it is part of a sentence.
pub(super) fn ends_mid_sentence(row: &LineFeatures<'_>) -> bool {
    // A table title shares its row with column heads; only its own cell counts.
    let text = if row.titled { row.first_cell } else { row.text };
    text.ends_with(|c| is_pause(c) || c == '-')
        || text.ends_with(".)")
        || (text.ends_with(is_full_stop) && row.words as usize > OPEN_WORDS)
        || (text.ends_with([':', '：']) && row.words as usize > OPEN_WORDS)
        || (row.words > 4 && ends_with_connector(text) && !row.caps && !row.centered)
}

/// Whether a line ends in a word that cannot end a title.
pub(super) fn ends_with_connector(text: &str) -> bool {
    text.rsplit(' ').next().is_some_and(|last| {
        UNFINISHED_ENDS
            .iter()
            .any(|word| last.eq_ignore_ascii_case(word))
    })
}

/// Units, dates, continuations, signatures, definitions and rules of dashes.
pub(super) fn is_boilerplate(row: &LineFeatures<'_>) -> bool {
    let key = row.key.as_str();
    let text = row.text;
    let numbered = numbering::first_number(text).is_some();
    let opened = text.matches(['(', '（']).count();
    // A bracket that closes without opening belongs to the line above.
    let bracketed =
        !numbered && (text.starts_with('(') || text.matches([')', '）']).count() > opened);
    let dated =
        PERIOD_HEADS.starts(key) && key.chars().any(|c| c.is_ascii_digit() || key.len() < 16);
    let dated = dated || is_date_line(text) || is_dateline(text);
    let date = MONTHS.iter().any(|month| {
        key.strip_prefix(month)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    });
    // Signature blocks and glossaries are often bold, but their lines open no section.
    bracketed
        || BOILERPLATE_STARTS.starts(key)
        || BOILERPLATE_ENDS.ends(key)
        || BOILERPLATE_OPENINGS.starts(text)
        || BOILERPLATE_MARKS.occurs_in(text)
        || text.contains("\" means")
        || is_call_out(row)
        || is_footnote(key)
        || is_address(text)
        || dated
        || date
        || titles::is_toc_title(key)
        || key == "page"
        || text.contains("..") && text.ends_with(|c: char| c.is_ascii_digit())
}

/// Whether a line is a footnote of a court's opinion: `FN12. See`.
fn is_footnote(key: &str) -> bool {
    key.strip_prefix("fn")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a line is a call-out in a manual, or its label: `WARNING!`.
fn is_call_out(row: &LineFeatures<'_>) -> bool {
    let label = row
        .text
        .split_once('!')
        .map_or(row.text, |(label, _)| label);
    SIGNAL_WORDS.contains(&row.key) || SIGNAL_WORDS.contains(&titles::normalize_key(label))
}

/// Whether a line gives an address of mail or web.
fn is_address(text: &str) -> bool {
    let mut words = text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ','));
    words.any(|word| {
        let mailed = word
            .split_once('@')
            .is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
        mailed || word.starts_with("www.") || word.contains("://")
    })
}

/// Whether a wide, unfinished line of the same style is right above.
pub(super) fn inside_paragraph(lines: &LineTable<'_>, at: usize) -> bool {
    let row = &lines.rows[at];
    let Some(above) = lines.above_on_page(at) else {
        return false;
    };
    let size_alike = (above.size - row.size).abs() < SAME_SIZE;
    // Italics and underlines inside a paragraph emphasize; a change to bold starts something new.
    let look_alike = above.bold == row.bold || (row.emphasis.is_some() && !row.bold);
    let unfinished = !line_features::is_finished(above.text) && !above.text.ends_with(['”', ')']);
    unfinished
        && above.words >= TEXT_WORDS
        // Leading is the extra line distance of double-spaced texts; it says nothing about paragraphs.
        && row.gap < TIGHT + lines.leading
        && !lines.body.is_large(above.size)
        // The next line of a paragraph starts at its left edge.
        && row.x0 < above.x0 + row.size
        && size_alike
        && look_alike
        && above.x1 - above.x0 > PARAGRAPH_WIDTH
}

/// Whether the row labels a group of table rows below it.
pub(super) fn labels_table_rows(lines: &LineTable<'_>, at: usize) -> bool {
    let row = &lines.rows[at];
    let above = lines.above_on_page(at);
    let tight = row.gap < CLOSE || above.is_some_and(|above| above.table || above.words <= 4);
    // A label starts at the same left edge as the rows it labels. Column heads start further right, and a heading over a
    // table keeps its distance from the text above.
    tight
        && lines.next_on_page(at).is_some_and(|next| {
            next.table && next.gap < LABEL_GAP && next.x0 < row.x0 + 3.0 * row.size
        })
}

//! Finds the registrant's name: on the cover, in the signature block, or in a release.

use std::collections::BTreeMap;

use stemma_document::text::normalize_key;
use stemma_document::{Fact, PageNo, Source, SourceBody};
use stemma_reading::calendar;
use stemma_reading::companies::is_legal_form;
use stemma_reading::vocabulary::{
    AUTHORIZED_WORDS, CAPTION_PHRASES, CONJUNCTIONS, COVER_CAPTIONS, DATE_LABELS, OFFICES,
    REGISTRANT_CAPTIONS, SIGNATURE_LABELS,
};

use super::front_page::FrontPage;
use super::identifiers::{parse_file_number, parse_irs_number};

// The name is within this many lines above its caption.
const NAME_LINES: usize = 4;
// The name is within this many lines after the sentence of a signature block.
const SIGNED_LINES: usize = 6;
const NAME_BYTES: usize = 200;

/// The name at its caption; on covers without the caption, the line below the file number; otherwise the signed name.
pub(super) fn registrant_on_cover(
    cover: &FrontPage<'_>,
    signed_name: Option<&Fact>,
) -> Option<Fact> {
    let caption = cover.keys.iter().position(|line| is_caption(line));
    let name = match caption {
        Some(at) => name_by_caption(cover, at, signed_name),
        None => name_below_number(cover),
    };
    let name = name
        .map(|name| clean_name(&name))
        .filter(|name| name.len() <= NAME_BYTES && normalize_key(name).len() >= 2);
    name.map(|name| cover.fact(name.clone()).with_evidence(&name))
        .or_else(|| signed_name.cloned())
}

/// Whether a normalized line is the caption of a registrant's name.
pub(super) fn is_caption(normalized: &str) -> bool {
    REGISTRANT_CAPTIONS.occurs_in(normalized)
}

/// The name above, next to or below its caption.
pub(super) fn name_by_caption(
    cover: &FrontPage<'_>,
    at: usize,
    signed_name: Option<&Fact>,
) -> Option<String> {
    let line = cover.lines[at];
    // `ACME INC. (Exact name of registrant …)` on one line.
    let before = line
        .split_once('(')
        .map(|(before, _)| before)
        .filter(|before| is_name(before));
    if let Some(before) = before {
        return Some(before.into());
    }
    if let Some((_, behind)) = line.split_once(':').filter(|(_, behind)| is_name(behind)) {
        return Some(behind.into());
    }
    let from = at.saturating_sub(NAME_LINES);
    let above = (from..at).rev().find(|line| is_name(cover.lines[*line]));
    if let Some(name_line) = above.filter(|name_line| {
        !cover.keys[name_line + 1..at]
            .iter()
            .any(|line| line.starts_with("exactname"))
    }) {
        return Some(with_line_above(cover, name_line, signed_name));
    }
    let below = (at + 1..cover.lines.len().min(at + 8)).map(|line| cover.lines[line]);
    below
        .into_iter()
        .find_map(registrant_in_row)
        .map(|(_, name)| name)
        .or_else(|| {
            let open = line.trim_end().ends_with(':') || !line.contains('(');
            cover
                .lines
                .get(at + 1)
                .filter(|line| open && is_name(line))
                .map(|line| (*line).into())
        })
}

/// The name at a line, with the line above if that belongs to it.
// A name may take two lines, but the line above it may also be a slogan or another registrant. The lines are joined if they
// were signed as one name, if the lower one is nothing but a legal form, or if both have the same large type.
fn with_line_above(cover: &FrontPage<'_>, at: usize, signed_name: Option<&Fact>) -> String {
    let line = cover.lines[at];
    let Some(above) = at
        .checked_sub(1)
        .map(|above| cover.lines[above])
        .filter(|above| is_name(above))
    else {
        return line.into();
    };
    let joined = format!("{above} {line}");
    let signed_key = signed_name.map(|name| normalize_key(&name.value));
    let line_is_signed = signed_key.as_ref() == Some(&normalize_key(line));
    let is_rest = words_of(line).all(|word| is_legal_form(&word)) && !line_is_signed;
    let alike = match (cover.layout.get(at - 1), cover.layout.get(at)) {
        (Some(upper), Some(lower)) => {
            let a = upper.style();
            let b = lower.style();
            let gap = lower.rect.y0.points() - upper.rect.y1.points();
            let large = f64::from(a.size.points()) >= 12.0;
            large
                && a.bold == b.bold
                && (a.size.points() - b.size.points()).abs() < 0.3
                && gap < a.size.points() * 0.8
        }
        _ => false,
    };
    let joined_is_signed = signed_key.as_ref() == Some(&normalize_key(&joined));
    let two_names = ends_with_legal_form(above);
    if joined_is_signed || is_rest || (alike && !line_is_signed && !two_names) {
        joined
    } else {
        line.into()
    }
}

/// The line below the file number.
fn name_below_number(cover: &FrontPage<'_>) -> Option<String> {
    let number = cover
        .keys
        .iter()
        .position(|line| line.starts_with("commissionfile"))?;
    let mut below = cover.lines.iter().skip(number + 1).take(3);
    below.find(|line| is_name(line)).map(|line| (*line).into())
}

/// The file number and the name in a row of a table of registrants: `1-3526  The Example Company (A Delaware Corporation)  58-0690070`.
pub(super) fn registrant_in_row(line: &str) -> Option<(String, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = parse_file_number(words.first()?)?;
    let end = words
        .iter()
        .position(|word| word.starts_with('(') || parse_irs_number(word).is_some())
        .unwrap_or(words.len());
    let name = words.get(1..end)?.join(" ");
    is_name(&name).then_some((number, name))
}

/// Whether a line ends with a legal form, and is more than that.
pub(super) fn ends_with_legal_form(line: &str) -> bool {
    let words: Vec<String> = words_of(line).collect();
    let [before @ .., last] = words.as_slice() else {
        return false;
    };
    is_legal_form(last)
        && before
            .iter()
            .any(|word| !CONJUNCTIONS.contains(word) && !is_legal_form(word))
}

/// Whether a cover line can be a name: not a caption, rule, sentence or bare number.
pub(super) fn is_name(line: &str) -> bool {
    let line = line.trim();
    let normalized = normalize_key(line);
    let first = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    let letters = normalized.chars().filter(|c| c.is_alphabetic()).count();

    letters >= 2
        && normalized.len() <= NAME_BYTES
        && line.split_whitespace().count() <= 16
        && (!first.starts_with(char::is_lowercase)
            || words_of(line)
                .last()
                .is_some_and(|word| is_legal_form(&word)))
        && !line.starts_with(['(', '$', '□', '☐', '☒'])
        && normalized != "or"
        && !COVER_CAPTIONS.starts(&normalized)
        && !CAPTION_PHRASES.occurs_in(&normalized)
}

/// The registrant's name in the signature block, after `… has duly caused this report to be signed … duly authorized.`
pub(super) fn signed_name(source: &Source) -> Option<Fact> {
    match &source.body {
        SourceBody::Lines(text) => {
            let lines: Vec<&str> = text.lines.iter().map(String::as_str).collect();
            signature_name(&lines).map(|name| Fact::from_text(name, None))
        }
        SourceBody::Pages(pages) => pages.iter().enumerate().find_map(|(index, page)| {
            let lines: Vec<&str> = page.lines.iter().map(|line| line.text.as_str()).collect();
            signature_name(&lines)
                .map(|name| Fact::from_text(name, Some(PageNo::from_index(index))))
        }),
    }
}

fn signature_name(lines: &[&str]) -> Option<String> {
    let at = (0..lines.len()).find(|at| is_signature_line(lines, *at))?;
    let mut behind = lines[at..lines.len().min(at + SIGNED_LINES + 4)]
        .iter()
        .copied();
    // The sentence may run over lines up to `duly authorized`.
    behind
        .by_ref()
        .find(|line| AUTHORIZED_WORDS.occurs_in(&normalize_key(line)))?;
    let block: Vec<String> = behind
        .take(SIGNED_LINES)
        .map(|line| behind_date(line.split("By:").next().unwrap_or(line)))
        .filter(|line| !line.is_empty())
        .collect();
    let at = block.iter().position(|line| {
        let first = words_of(line).next().unwrap_or_default();
        !SIGNATURE_LABELS.contains(&first) && is_name(line)
    })?;
    // An officer's name has the office on its line or below it.
    let person = !words_of(&block[at]).any(|word| is_legal_form(&word))
        && block
            .iter()
            .skip(at)
            .take(2)
            .any(|line| words_of(line).any(|word| OFFICES.contains(word.as_str())));
    let name = clean_name(&block[at]);
    (!person && name.len() <= NAME_BYTES && !name.contains("/s/")).then_some(name)
}

/// The line, or what follows the date of the signature on it: `Date: May 5, 2023  ACME, INC.`
fn behind_date(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let dated = words
        .first()
        .is_some_and(|word| DATE_LABELS.contains(&normalize_key(word)));
    let from = calendar::find_first(&words)
        .filter(|_| dated)
        .map_or(0, |(_, _, end)| end);
    words[from..].join(" ")
}

/// Whether a line has `duly caused`, or begins it and the next one ends it.
fn is_signature_line(lines: &[&str], at: usize) -> bool {
    let line = lines[at];
    if line.len() > 2_000 || !(line.contains("duly") || line.contains("caused")) {
        return false;
    }
    let normalized = normalize_key(line);
    normalized.contains("dulycaused")
        || (normalized.ends_with("duly")
            && lines
                .get(at + 1)
                .is_some_and(|next| normalize_key(next).starts_with("caused")))
}

fn words_of(text: &str) -> impl Iterator<Item = String> {
    text.split_whitespace()
        .map(normalize_key)
        .filter(|word| !word.is_empty())
}

/// The most frequent name in the document that consists of `short` and a legal form.
// Only the legal form may be added: `Acme` becomes `Acme plc`, while `Acme Anvils, Inc.` may be a subsidiary.
pub(super) fn full_name(source: &Source, short: &str) -> Option<Fact> {
    let short_words: Vec<String> = words_of(short).collect();
    if short_words.is_empty() || short_words.last().is_some_and(|word| is_legal_form(word)) {
        return None;
    }
    let mut names: BTreeMap<String, (u32, Fact)> = BTreeMap::new();
    for line in stemma_document::text::all_lines(&source.body) {
        let words: Vec<&str> = line.text.split_whitespace().take(200).collect();
        for at in 0..words.len().saturating_sub(short_words.len()) {
            let same = short_words
                .iter()
                .zip(&words[at..])
                .all(|(short_words, word)| *short_words == normalize_key(word));
            let ending = words[at + short_words.len()].trim_end_matches([',', ';', ')', '’', '”']);
            let closed = !words[at + short_words.len() - 1].ends_with(['.', ';', ':']);
            if same && closed && is_legal_form(ending) {
                let name = format!("{} {ending}", words[at..at + short_words.len()].join(" "));
                names
                    .entry(normalize_key(&name))
                    .or_insert_with(|| (0, Fact::from_text(name, line.page)))
                    .0 += 1;
            }
        }
    }
    names
        .into_values()
        .max_by_key(|(count, _)| *count)
        .map(|(_, fact)| fact)
}

/// The name with single spaces and without marks around it; small capitals that were split (`R ESORTS`) are rejoined.
pub(super) fn clean_name(text: &str) -> String {
    let text = text.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | ')' | '!'));
    let words: Vec<&str> = text.split_whitespace().collect();
    // A single capital before a word in capitals. One may be an initial; two are small capitals that were split.
    let is_split: Vec<bool> = (0..words.len())
        .map(|at| {
            let lone = words[at].len() == 1 && words[at].chars().all(char::is_uppercase);
            let capitals = words.get(at + 1).is_some_and(|next| {
                next.chars().count() > 2 && next.chars().all(char::is_uppercase)
            });
            lone && capitals
        })
        .collect();
    let rejoin = is_split.iter().filter(|split| **split).count() >= 2;
    let mut name = String::new();
    for (at, word) in words.iter().enumerate() {
        name.push_str(word);
        name.push_str(if rejoin && is_split[at] || at + 1 == words.len() {
            ""
        } else {
            " "
        });
    }
    name
}

//! Classifies how a document answers an Item, from the words under its heading.
//!
//! The limits were checked against statuses that were assigned by hand.

use stemma_document::text::normalize_key;
use stemma_document::{ItemStatus, Section};
use stemma_reading::vocabulary::{
    ANNUAL_REPORTS, ANSWER_ENDS, AUXILIARIES, EMPTY_OPENINGS, FOLLOWING_WORDS, NEGATIVES,
    PAGE_WORDS, POINTING_PHRASES, SELF_CONTAINED_SECTIONS, STATED_PLACES, STATED_SUBJECTS,
    THIS_DOCUMENT,
};

use super::item_text::ItemText;
use crate::structure::forms::FormItem;
use crate::structure::page_labels::is_page_number;

// A longer Item has content of its own, however much it refers.
pub(super) const REFERRING_WORDS: usize = 400;
// An Item is answered elsewhere if this share of its words is in sentences that refer elsewhere.
const REFERRING_SHARE: f32 = 0.5;
// `None.` or `Not applicable.` may come with a short explanation.
const NOTHING_WORDS: usize = 60;
// In a text of this length, one sentence that states where the information is decides.
const STATED_WORDS: usize = 150;
// A statement that nothing happened fits in this length, with the definitions that it cites.
const NEGATING_WORDS: usize = 100;
// A negation is near the start of such a statement.
const NEGATION_WITHIN: usize = 30;
// A heading of its own and `None.` below it.
const HEADED_ANSWER_WORDS: usize = 12;
// Table rows have no full stops; the cap keeps a table from counting as one long referring sentence.
const SENTENCE_WORDS: usize = 60;

/// Items that always have a long answer, with their minimum words.
const LONG_ITEMS: [(&str, u8, &str, usize); 6] = [
    ("10-K", 1, "1", 80),
    ("10-K", 1, "1A", 80),
    ("10-K", 2, "7", 80),
    ("10-K", 2, "8", 150),
    ("10-Q", 1, "1", 120),
    ("10-Q", 1, "2", 80),
];

/// Whether a sentence states that the required information is elsewhere, not only that there is more.
pub(super) fn states_location(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    STATED_PLACES.occurs_in(&lower) && STATED_SUBJECTS.occurs_in(&lower)
}

/// Whether a sentence names a place in this document to read.
pub(super) fn points_here(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    POINTING_PHRASES.occurs_in(&lower) && THIS_DOCUMENT.occurs_in(&lower)
}

/// Classifies an Item by its text.
// Order of the rules: `None` and the like first, since such answers are short and would be stubs. Lists of exhibits next,
// since they would always be references. References come before length, because they are short by nature.
pub(super) fn classify(
    form: &str,
    entry: &FormItem,
    section: &Section,
    body: &ItemText,
) -> ItemStatus {
    empty_status(section, body).unwrap_or_else(|| status_by_text(form, entry, body))
}

/// Whether the filer says that the Item has no content.
pub(super) fn has_no_content(status: ItemStatus) -> bool {
    matches!(
        status,
        ItemStatus::None | ItemStatus::NotApplicable | ItemStatus::Reserved | ItemStatus::Omitted
    )
}

/// Whether it is the list of exhibits: every entry refers to another filing, so references do not count.
pub(super) fn is_list(form: &str, entry: &FormItem) -> bool {
    matches!(
        (form, entry.part, entry.number),
        ("10-K", 4, "15") | ("10-Q", 2, "6") | ("8-K", 0, "9.01")
    )
}

/// Whether an Item always has a long answer, in which references are nothing special.
pub(super) fn is_long(form: &str, entry: &FormItem) -> bool {
    least_words(form, entry).is_some()
}

fn least_words(form: &str, entry: &FormItem) -> Option<usize> {
    let item = (form, entry.part, entry.number);
    let long = LONG_ITEMS
        .iter()
        .find(|(form, part, number, _)| (*form, *part, *number) == item);
    long.map(|(.., least)| *least)
}

/// The status of a text that does not say that there is nothing.
pub(super) fn status_by_text(form: &str, entry: &FormItem, body: &ItemText) -> ItemStatus {
    if is_list(form, entry) || body.words > 0 && SELF_CONTAINED_SECTIONS.contains(entry.number) {
        return ItemStatus::Full;
    }
    let referring: usize = body
        .referring()
        .map(|sentence| sentence.split_whitespace().count().min(SENTENCE_WORDS))
        .sum();
    let share = referring as f32 / body.words.max(1) as f32;
    let mostly = referring > 0 && body.words <= REFERRING_WORDS && share >= REFERRING_SHARE;
    // Part III of an annual report usually points to the proxy statement, even with a table or a code of ethics.
    let most = if form == "10-K" && entry.part == 3 {
        REFERRING_WORDS
    } else {
        STATED_WORDS
    };
    let stated = body.words <= most && body.referring().any(states_location);
    if mostly || stated {
        return ItemStatus::ByReference;
    }
    if !is_long(form, entry) && only_negates(body) {
        return ItemStatus::None;
    }
    if points_to_annual_report(form, entry, body) {
        return ItemStatus::ByReference;
    }
    let short = body.words == 0 || least_words(form, entry).is_some_and(|least| body.words < least);
    match short {
        // A list of statements with page numbers is a reference.
        true if body.words > 0 && (lists_pages(body) || body.referring().next().is_some()) => {
            ItemStatus::ByReference
        }
        true => ItemStatus::Stub,
        false => ItemStatus::Full,
    }
}

/// Whether a short text only says what is not the case: `There have been no changes in our market risk`, or that no director
/// adopted a trading plan, which Item 408 of Regulation S-K asks for each quarter.
fn only_negates(body: &ItemText) -> bool {
    body.words <= NEGATING_WORDS
        && !body.sentences.is_empty()
        && body.sentences.iter().all(|sentence| negates(sentence))
}

fn negates(sentence: &str) -> bool {
    let mut before = String::new();
    let mut words = sentence.split_whitespace().take(NEGATION_WITHIN);
    words.any(|word| {
        let word = normalize_key(word);
        // `decided not to run for election` is an event.
        let negated = word == "not" && AUXILIARIES.contains(before.as_str());
        let found = negated || NEGATIVES.contains(&word);
        before = word;
        found
    })
}

/// Whether the risk factors of a quarterly report are those of the annual report. Its Item 1A asks for changes alone.
fn points_to_annual_report(form: &str, entry: &FormItem, body: &ItemText) -> bool {
    let is_update = form == "10-Q" && entry.part == 2 && entry.number == "1A";
    let sentences = || body.sentences.iter().map(|text| text.to_lowercase());
    is_update
        && body.words <= STATED_WORDS
        && sentences().any(|text| ANNUAL_REPORTS.occurs_in(&text))
        // `Except as set forth below` announces factors.
        && !sentences().any(|text| FOLLOWING_WORDS.occurs_in(&text))
}

/// Whether the words are a list with page numbers.
fn lists_pages(body: &ItemText) -> bool {
    let words = body
        .sentences
        .iter()
        .flat_map(|sentence| sentence.split_whitespace());
    let mut labels = 0;
    let mut page = false;
    for word in words {
        labels += usize::from(is_page_number(word.trim_end_matches([',', '.'])));
        page |= PAGE_WORDS.contains(&normalize_key(word));
    }
    page && labels >= 1 || labels >= 4
}

/// The status of an Item that has no content, as the filer says.
fn empty_status(section: &Section, body: &ItemText) -> Option<ItemStatus> {
    if normalize_key(&section.title).ends_with("reserved") && body.words <= NOTHING_WORDS {
        return Some(ItemStatus::Reserved);
    }
    // A section below `Not applicable.` may have content, as that of the executive officers.
    if body.own_words > NOTHING_WORDS || body.words > REFERRING_WORDS {
        return None;
    }
    // `Item 4. Mine Safety Disclosures – Not applicable`
    if body.words == 0 {
        return last_words(&normalize_key(&section.title));
    }
    let first = normalize_key(body.sentences.first()?);
    if first.contains("generalinstructioni") {
        return Some(ItemStatus::Omitted);
    }
    let is_short_none = first == "none" || first.starts_with("none") && body.own_words <= 12;
    let stated = EMPTY_OPENINGS
        .iter()
        .find(|(words, _)| first.starts_with(words))
        .or_else(|| is_short_none.then_some(&("", "none")));
    match stated {
        Some((_, name)) => Some(status_from_name(name)),
        None if first == "na" => Some(ItemStatus::NotApplicable),
        None => headed_answer(body),
    }
}

/// The status of `Insider Trading Arrangements` with `None.` below it.
fn headed_answer(body: &ItemText) -> Option<ItemStatus> {
    let short = body.words <= HEADED_ANSWER_WORDS;
    last_words(&normalize_key(body.sentences.last().filter(|_| short)?))
}

fn last_words(text: &str) -> Option<ItemStatus> {
    let (_, name) = ANSWER_ENDS.iter().find(|(end, _)| text.ends_with(end))?;
    Some(status_from_name(name))
}

// By its name in the word lists.
fn status_from_name(name: &str) -> ItemStatus {
    match name {
        "omitted" => ItemStatus::Omitted,
        "reserved" => ItemStatus::Reserved,
        "none" => ItemStatus::None,
        _ => ItemStatus::NotApplicable,
    }
}

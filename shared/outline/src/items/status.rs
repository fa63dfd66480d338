//! How a document answers an Item, from the words under its heading.

use stemma_document::{EmptyReason, ItemStatus, Section, Source, text};

use crate::enrich::normalize_key;
use crate::structure::form_items::FormEntry;

/// Words under a heading up to which an Item may be nothing but references.
const REFERRING_WORDS: usize = 400;
/// Share of its words that stand in sentences that refer elsewhere, so that the Item is answered elsewhere.
const REFERRING_SHARE: f32 = 0.5;
/// Words up to which the filer may be saying that there is nothing to say.
const NOTHING_WORDS: usize = 60;
/// Words up to which one sentence that says where the information is answers the Item.
const STATED_WORDS: usize = 150;
/// Words of a sentence that count at most: rows of tables have no stops.
const SENTENCE_WORDS: usize = 60;
/// Lines that are read.
const MAX_LINES: usize = 400;

/// Items that always have a long answer, with the words below which there is none.
const LONG_ITEMS: [(&str, u8, &str, usize); 6] = [
    ("10-K", 1, "1", 80),
    ("10-K", 1, "1A", 80),
    ("10-K", 2, "7", 80),
    ("10-K", 2, "8", 150),
    ("10-Q", 1, "1", 120),
    ("10-Q", 1, "2", 80),
];

/// Lists of exhibits refer to other filings by their nature.
const LIST_ITEMS: [(&str, u8, &str); 3] = [("10-K", 4, "15"), ("10-Q", 2, "6"), ("8-K", 0, "9.01")];

/// The words under a heading, sentence by sentence.
#[derive(Debug)]
pub(super) struct ItemText {
    /// Sentences, white space folded.
    pub(super) sentences: Vec<String>,
    /// All words.
    pub(super) words: usize,
    /// Words before the first sub-section.
    own_words: usize,
}

/// How an Item is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StatusEvidence {
    pub(super) status: ItemStatus,
    pub(super) empty_reason: Option<EmptyReason>,
}

impl ItemText {
    /// What stands under the heading of the first of `enrich`, without page furniture.
    pub(super) fn from_sections(sections: &[&Section], source: &Source) -> Self {
        let Some(section) = sections.first() else {
            return Self {
                sentences: Vec::new(),
                words: 0,
                own_words: 0,
            };
        };
        let own = text::own_lines(section, &source.body).len();
        let lines: Vec<_> = sections
            .iter()
            .flat_map(|section| text::own_lines(section, &source.body))
            .collect();
        let mut own_words = 0;
        let mut heading = normalize_key(&section.title);
        let mut words: Vec<&str> = Vec::new();
        let mut count = 0;
        for (at, line) in lines.iter().enumerate() {
            let squashed = normalize_key(
                line.text
                    .get(..line.text.floor_char_boundary(2_000))
                    .unwrap_or_default(),
            );
            // The heading may run over lines, and its Item's answer may begin on its last one.
            if !heading.is_empty() && !squashed.is_empty() {
                if let Some(rest) = heading.strip_prefix(squashed.as_str()) {
                    heading = rest.to_owned();
                    continue;
                }
                if let Some(behind) = text_after_heading(line.text, &heading) {
                    heading.clear();
                    words.extend(behind.split_whitespace());
                    own_words = words.len();
                    continue;
                }
                heading.clear();
            }
            if is_furniture(&squashed) {
                continue;
            }
            let in_line = line.text.split_whitespace().count();
            count += in_line;
            own_words += if at < own { in_line } else { 0 };
            if at < MAX_LINES {
                words.extend(line.text.split_whitespace());
            }
        }
        let words_read = words.len();
        Self {
            sentences: sentences(&words),
            words: count.max(words_read),
            own_words,
        }
    }

    /// The sentences that refer elsewhere.
    pub(super) fn referring(&self) -> impl Iterator<Item = &str> {
        self.sentences
            .iter()
            .map(String::as_str)
            .filter(|sentence| is_reference(sentence))
    }
}

/// What stands on a line behind the end of a heading.
fn text_after_heading<'a>(line: &'a str, heading: &str) -> Option<&'a str> {
    let mut remaining = heading.chars();
    let mut expected = remaining.next();
    for (at, c) in line.char_indices() {
        if expected.is_none() {
            return Some(&line[at..]);
        }
        if !c.is_alphanumeric() {
            continue;
        }
        for lower in c.to_lowercase() {
            if expected != Some(lower) {
                return None;
            }
            expected = remaining.next();
        }
    }
    None
}

/// Page numbers and back-links.
fn is_furniture(squashed: &str) -> bool {
    squashed.is_empty()
        || squashed == "tableofcontents"
        || squashed == "index"
        || (squashed.len() <= 5 && squashed.bytes().all(|b| b.is_ascii_digit()))
        || squashed
            .strip_prefix("page")
            .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
}

/// Words that end with a stop without ending a sentence.
const ABBREVIATIONS: [&str; 12] = [
    "no.", "nos.", "inc.", "corp.", "co.", "ltd.", "u.s.", "mr.", "ms.", "st.", "jr.", "i.e.",
];

fn sentences(words: &[&str]) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut sentence = String::new();
    for (at, word) in words.iter().enumerate() {
        if !sentence.is_empty() {
            sentence.push(' ');
        }
        sentence.push_str(word);
        let bare = word.trim_end_matches(['”', '"', '’', ')', ']']);
        let number = bare
            .strip_suffix('.')
            .is_some_and(|bare| bare.bytes().all(|b| b.is_ascii_digit()));
        let ends = bare.ends_with(['.', ';', '?', '!'])
            && !ABBREVIATIONS.contains(&bare.to_lowercase().as_str())
            && words
                .get(at + 1)
                .is_none_or(|next| !next.starts_with(char::is_lowercase));
        // `Item 7.` inside a sentence goes on; at its end a capital starts the next.
        let is_item_reference = number
            && at > 0
            && matches!(normalize_key(words[at - 1]).as_str(), "item" | "note")
            && words
                .get(at + 1)
                .is_some_and(|next| next.starts_with(['“', '"', '–', '—', '-']));
        if ends && !is_item_reference {
            sentences.push(std::mem::take(&mut sentence));
        }
    }
    if !sentence.is_empty() {
        sentences.push(sentence);
    }
    sentences
}

/// Whether a sentence sends the reader to another place.
fn is_reference(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    const PHRASES: [&str; 32] = [
        "by reference",
        "is set forth",
        "are set forth",
        "set forth in",
        "set forth under",
        "is included in",
        "are included in",
        "included under",
        "is included under",
        "is contained in",
        "are contained in",
        "contained under",
        "appears in",
        "appear in",
        "appears on",
        "appear on",
        "appears under",
        "appearing under",
        "is presented in",
        "are presented in",
        "can be found",
        "may be found",
        "is provided in",
        "is provided under",
        "see ",
        "refer to",
        "reference is made",
        "is hereby made to",
        "begin on page",
        "begins on page",
        "is discussed in",
        "is described in",
    ];
    PHRASES.iter().any(|phrase| lower.contains(phrase))
}

/// Whether a sentence says that the information asked for is elsewhere, not only that more is.
pub(super) fn states_location(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let stated = [
        "by reference",
        "is set forth",
        "are set forth",
        "is included in",
        "is contained in",
        "is presented in",
        "appears in",
    ];
    let subject = ["information", "section", "incorporat", "discussion"];
    stated.iter().any(|words| lower.contains(words))
        && subject.iter().any(|word| lower.contains(word))
}

/// How the Item is answered.
pub(super) fn classify(
    form: &str,
    entry: &FormEntry,
    section: &Section,
    body: &ItemText,
) -> StatusEvidence {
    let full = |nothing| StatusEvidence {
        status: ItemStatus::Full,
        empty_reason: nothing,
    };
    if let Some(nothing) = empty_reason(section, body) {
        return full(Some(nothing));
    }
    let same = |of: &str, part: u8, number: &str| {
        of == form && part == entry.part && number == entry.number
    };
    if LIST_ITEMS
        .iter()
        .any(|(of, part, number)| same(of, *part, number))
    {
        return full(None);
    }
    let referring: usize = body
        .referring()
        .map(|sentence| sentence.split_whitespace().count().min(SENTENCE_WORDS))
        .sum();
    let share = referring as f32 / body.words.max(1) as f32;
    let mostly = referring > 0 && body.words <= REFERRING_WORDS && share >= REFERRING_SHARE;
    // Part III of an annual report is the proxy statement's, whatever table or code of ethics stands beside that.
    let most = if form == "10-K" && entry.part == 3 {
        REFERRING_WORDS
    } else {
        STATED_WORDS
    };
    let stated = body.words <= most && body.referring().any(states_location);
    if mostly || stated {
        return StatusEvidence {
            status: ItemStatus::ByReference,
            empty_reason: None,
        };
    }
    let long = LONG_ITEMS
        .iter()
        .find(|(of, part, number, _)| same(of, *part, number));
    let short = body.words == 0 || long.is_some_and(|(.., least)| body.words < *least);
    match short {
        // A list of statements with their pages says where they are.
        true if body.words > 0 && lists_pages(body) => StatusEvidence {
            status: ItemStatus::ByReference,
            empty_reason: None,
        },
        true => StatusEvidence {
            status: ItemStatus::Stub,
            empty_reason: None,
        },
        false => full(None),
    }
}

/// Whether the words are a list with page numbers.
fn lists_pages(body: &ItemText) -> bool {
    let words = body
        .sentences
        .iter()
        .flat_map(|sentence| sentence.split_whitespace());
    let label = |word: &str| {
        let digits = word.trim_start_matches("F-").trim_end_matches([',', '.']);
        (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
    };
    let mut labels = 0;
    let mut page = false;
    for word in words {
        labels += usize::from(label(word));
        page |= matches!(normalize_key(word).as_str(), "page" | "pages");
    }
    page && labels >= 1 || labels >= 4
}

/// What the filer says who has nothing to say.
fn empty_reason(section: &Section, body: &ItemText) -> Option<EmptyReason> {
    if normalize_key(&section.title).ends_with("reserved") && body.words <= NOTHING_WORDS {
        return Some(EmptyReason::Reserved);
    }
    if body.own_words > NOTHING_WORDS {
        return None;
    }
    let first = normalize_key(body.sentences.first()?);
    let starts = |words: &[&str]| words.iter().any(|word| first.starts_with(word));
    if starts(&["omitted", "intentionallyomitted"]) || first.contains("generalinstructioni") {
        Some(EmptyReason::Omitted)
    } else if starts(&[
        "notapplicable",
        "notrequired",
        "noneapplicable",
        "inapplicable",
        "doesnotapply",
    ]) || first == "na"
    {
        Some(EmptyReason::NotApplicable)
    } else if starts(&["reserved"]) {
        Some(EmptyReason::Reserved)
    } else if first == "none"
        || first.starts_with("none") && body.own_words <= 12
        || starts(&["nonetoreport", "nothingtoreport"])
    {
        Some(EmptyReason::None)
    } else {
        None
    }
}

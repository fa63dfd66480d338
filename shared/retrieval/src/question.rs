//! What a question says: its words and how much each counts, what it is about, where in a filing that stands, and which
//! years, quarters, forms and Items it names.

use std::collections::BTreeMap;

use crate::find::ItemRef;
use crate::landmarks::Landmark;
use crate::vocabulary::{Triggered, Vocabulary};
use crate::words::{content_words, is_stop_word, words};

/// Words of a question; later ones are ignored.
const MAX_WORDS: usize = 40;
/// What a word counts that almost every question has.
const GENERIC: f32 = 0.2;
/// What a place counts that the question names, and others beside it.
const NAMED: f32 = 2.0;
const BESIDE: f32 = 0.3;

/// Words of questions rather than of what is asked, as they are compared.
const GENERIC_WORDS: [&str; 71] = [
    "amount",
    "analyst",
    "answer",
    "ask",
    "assum",
    "base",
    "bank",
    "best",
    "busi",
    "calcul",
    "chang",
    "compani",
    "compar",
    "data",
    "decreas",
    "declin",
    "defin",
    "detail",
    "did",
    "drop",
    "end",
    "expla",
    "explain",
    "financi",
    "fiscal",
    "follow",
    "give",
    "histor",
    "high",
    "highest",
    "improv",
    "increas",
    "inform",
    "invest",
    "largest",
    "list",
    "low",
    "lowest",
    "main",
    "major",
    "measur",
    "metric",
    "million",
    "billion",
    "mention",
    "name",
    "number",
    "percent",
    "perform",
    "period",
    "primari",
    "primarili",
    "profil",
    "provid",
    "quarter",
    "question",
    "relev",
    "report",
    "rough",
    "roughli",
    "round",
    "state",
    "term",
    "total",
    "type",
    "usd",
    "use",
    "year",
    "yearend",
    "worst",
    "valu",
];

/// A question, understood.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Question {
    /// Its words, as they are compared, and what each counts (0–1); most important first in no order.
    pub words: Vec<(String, f32)>,
    /// Phrases of pages that would answer it, by the group of the vocabulary that says so.
    pub groups: Vec<PhraseGroup>,
    /// Where that stands, and how surely (0–2).
    pub places: BTreeMap<Landmark, f32>,
    /// Years it names, in order.
    pub years: Vec<u16>,
    /// The quarter it names: 1 to 4.
    pub quarter: Option<u8>,
    /// The form it names, lower case: `10-k`.
    pub form: Option<String>,
    /// Whether it asks for amendments.
    pub amended: bool,
    /// The Item it names, and the words that do.
    pub item: Option<(ItemRef, String)>,
    /// Whether its answer is likely a number.
    pub numeric: bool,
}

/// Phrases that say the same.
#[derive(Debug, Clone, PartialEq)]
pub struct PhraseGroup {
    /// Index terms.
    pub phrases: Vec<String>,
    /// What the group counts (0–1).
    pub weight: f32,
}

impl Question {
    /// Reads a question. `issuer` are words that name the issuer, as they are compared: they find documents, not pages.
    pub fn read(text: &str, issuer: &[String]) -> Self {
        let folded = text.replace('’', "'");
        let kept = clean(&folded);
        let vocabulary = Vocabulary::get();
        let content = content_words(&kept);
        let triggered = vocabulary.triggered(&content);
        let mut made = Self {
            words: weighted(&kept, issuer),
            ..Self::default()
        };
        made.groups = triggered.iter().map(group).collect();
        made.places = places(&triggered, &folded);
        (made.years, made.quarter) = dates(&folded);
        made.form = form(&folded);
        made.amended = made.form.as_ref().is_some_and(|form| form.ends_with("/a"))
            || folded.to_lowercase().contains("amend");
        made.item = item(&folded);
        made.numeric =
            numeric(&folded) || made.places.iter().any(|(place, _)| place.is_statement());
        made
    }
}

/// Sentences as they were asked, cut at what ends one; "U.S. net" is not cut.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices() {
        let rest = &text[at + c.len_utf8()..];
        let ends = match c {
            '?' | '!' | '\n' => true,
            '.' => {
                rest.starts_with(char::is_whitespace)
                    && rest.trim_start().starts_with(char::is_uppercase)
            }
            ':' => rest.starts_with(char::is_whitespace),
            _ => false,
        };
        if ends {
            sentences.push(&text[start..at + c.len_utf8()]);
            start = at + c.len_utf8();
        }
    }
    sentences.push(&text[start..]);
    sentences
        .into_iter()
        .map(str::trim)
        .filter(|sentence| !sentence.is_empty())
        .collect()
}

/// Beginnings of sentences that speak to the reader of documents, not of them.
const INSTRUCTIONS: [&str; 22] = [
    "you are",
    "your only",
    "answer in",
    "answer the",
    "answer with",
    "please answer",
    "round",
    "give your",
    "give a",
    "give the answer",
    "express",
    "respond",
    "state your",
    "use only",
    "here's the question",
    "here is the question",
    "base your",
    "basing your",
    "assume you",
    "adopt the",
    "we are",
    "provide your",
];

/// Clauses that say where to look: the places in them count, the words do not.
const SOURCES: [&str; 9] = [
    "based on",
    "basing your",
    "based off",
    "by relying on",
    "relying on",
    "using only",
    "according to",
    "from the perspective",
    "by using",
];

/// The question without instructions; never less than two content words.
fn clean(text: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    for sentence in sentences(text) {
        let lower = sentence.to_lowercase();
        let conditional = lower.starts_with("if ")
            && ["state", "explain", "answer", "mention"]
                .iter()
                .any(|word| lower.contains(word));
        let (instruction, rest) = match INSTRUCTIONS.iter().find(|start| lower.starts_with(*start))
        {
            // "Basing your judgments off of the balance sheet, what is …": the clause goes, the question stays.
            Some(_) => (
                true,
                sentence
                    .split_once(", ")
                    .map(|(_, rest)| rest)
                    .filter(|rest| asks(rest)),
            ),
            None => (conditional, None),
        };
        match (instruction, rest) {
            (false, _) => kept.push(without_sources(sentence)),
            (true, Some(rest)) => kept.push(rest.to_owned()),
            (true, None) => {}
        }
    }
    let kept = kept.join(" ");
    if content_words(&kept).len() < 2 {
        text.to_owned()
    } else {
        kept
    }
}

fn asks(text: &str) -> bool {
    let lower = text.to_lowercase();
    let starts = [
        "what", "which", "who", "how", "is ", "are ", "was", "were", "do", "did", "has", "have",
        "when", "where", "why",
    ];
    starts.iter().any(|start| lower.starts_with(start))
}

/// Leaves out `based on …` up to the next comma or the end, where enough of the sentence remains.
fn without_sources(sentence: &str) -> String {
    let lower = sentence.to_ascii_lowercase();
    let found = SOURCES.iter().filter_map(|source| lower.find(source)).min();
    let Some(at) = found.filter(|at| sentence.is_char_boundary(*at)) else {
        return sentence.to_owned();
    };
    let end = sentence[at..]
        .find([',', '?'])
        .map_or(sentence.len(), |end| at + end);
    let rest = format!("{} {}", &sentence[..at], &sentence[end..]);
    if content_words(&rest).len() < 2 {
        sentence.to_owned()
    } else {
        rest
    }
}

/// Distinct words and what each counts.
fn weighted(text: &str, issuer: &[String]) -> Vec<(String, f32)> {
    let mut weighted: Vec<(String, f32)> = Vec::new();
    let all = words(text);
    let any = all.iter().any(|word| !is_stop_word(word));
    for word in all {
        if any && is_stop_word(&word)
            || weighted.iter().any(|(known, _)| *known == word)
            || weighted.len() == MAX_WORDS
        {
            continue;
        }
        let year = word.len() == 4
            && word
                .parse::<u16>()
                .is_ok_and(|year| (1980..2050).contains(&year));
        let quarter = matches!(word.as_str(), "q1" | "q2" | "q3" | "q4");
        let generic =
            year || quarter || issuer.contains(&word) || GENERIC_WORDS.contains(&word.as_str());
        weighted.push((word, if generic { GENERIC } else { 1.0 }));
    }
    if weighted.iter().all(|(_, weight)| *weight < 1.0) {
        weighted.iter_mut().for_each(|(_, weight)| *weight = 1.0);
    }
    weighted
}

/// One word is a weaker sign than two.
fn group(triggered: &Triggered<'_>) -> PhraseGroup {
    let weight = if triggered.from.len() > 1 { 1.0 } else { 0.75 };
    PhraseGroup {
        phrases: triggered.group.phrases.clone(),
        weight,
    }
}

/// Names of statements and places that a question may use itself.
const NAMES: [(&str, Landmark); 19] = [
    ("balance sheet", Landmark::Balance),
    ("statement of financial position", Landmark::Balance),
    ("statement of financial condition", Landmark::Balance),
    ("income statement", Landmark::Income),
    ("statement of income", Landmark::Income),
    ("statement of operations", Landmark::Income),
    ("statement of earnings", Landmark::Income),
    ("p&l", Landmark::Income),
    ("cash flow statement", Landmark::CashFlow),
    ("statement of cash flow", Landmark::CashFlow),
    ("statements of cash flow", Landmark::CashFlow),
    ("statement of changes in equity", Landmark::Equity),
    ("statement of stockholders' equity", Landmark::Equity),
    ("statement of shareholders' equity", Landmark::Equity),
    ("md&a", Landmark::Discussion),
    ("management's discussion", Landmark::Discussion),
    ("risk factors", Landmark::Risks),
    ("legal proceedings", Landmark::Legal),
    ("cover page", Landmark::Cover),
];

fn places(triggered: &[Triggered<'_>], text: &str) -> BTreeMap<Landmark, f32> {
    let mut places: BTreeMap<Landmark, f32> = BTreeMap::new();
    for (place, share) in triggered.iter().flat_map(|one| &one.group.places) {
        let best = places.entry(*place).or_default();
        *best = best.max(*share);
    }
    let lower = text.to_lowercase();
    let named: Vec<Landmark> = NAMES
        .iter()
        .filter(|(name, _)| lower.contains(name))
        .map(|(_, place)| *place)
        .collect();
    if named.iter().any(|place| place.is_statement()) {
        places.iter_mut().for_each(|(_, share)| *share *= BESIDE);
    }
    for place in named {
        places.insert(place, NAMED);
    }
    places
}

/// Years in order, and the quarter.
fn dates(text: &str) -> (Vec<u16>, Option<u8>) {
    let lower = text.to_lowercase();
    let mut years: Vec<u16> = Vec::new();
    let mut quarter = None;
    for word in words(&lower) {
        if word.len() == 4
            && let Some(year) = word
                .parse::<u16>()
                .ok()
                .filter(|year| (1980..2050).contains(year))
        {
            years.push(year);
        }
        // `Q2`, `2Q`, `2Q23`.
        let digits: Vec<char> = word.chars().collect();
        let found = match digits.as_slice() {
            ['q', n] | [n, 'q', ..] => n.to_digit(10),
            _ => None,
        };
        quarter = quarter.or(found
            .and_then(|n| u8::try_from(n).ok())
            .filter(|n| (1..=4).contains(n)));
    }
    let named = [
        ("first quarter", 1),
        ("second quarter", 2),
        ("third quarter", 3),
        ("fourth quarter", 4),
    ];
    quarter = quarter.or(named
        .iter()
        .find(|(name, _)| lower.contains(name))
        .map(|(_, n)| *n));
    years.sort_unstable();
    years.dedup();
    (years, quarter)
}

/// Forms as people write them, and as facets have them.
const FORMS: [(&str, &str); 16] = [
    ("10-k/a", "10-k/a"),
    ("10-q/a", "10-q/a"),
    ("8-k/a", "8-k/a"),
    ("10-k", "10-k"),
    ("10k", "10-k"),
    ("10-q", "10-q"),
    ("10q", "10-q"),
    ("8-k", "8-k"),
    ("8k", "8-k"),
    ("20-f", "20-f"),
    ("40-f", "40-f"),
    ("6-k", "6-k"),
    ("s-1", "s-1"),
    ("def 14a", "def 14a"),
    ("earnings release", "earnings_release"),
    ("press release", "earnings_release"),
];

fn form(text: &str) -> Option<String> {
    let lower = format!(" {} ", text.to_lowercase());
    let whole = |name: &str| {
        lower.match_indices(name).any(|(at, _)| {
            let end = lower[at + name.len()..].chars().next();
            let before = lower[..at].chars().next_back();
            !before.is_some_and(char::is_alphanumeric)
                && !end.is_some_and(|c| c.is_alphanumeric() || c == '-')
        })
    };
    FORMS
        .iter()
        .find(|(name, _)| whole(name))
        .map(|(_, form)| (*form).to_owned())
}

/// `Item 7A`.
fn item(text: &str) -> Option<(ItemRef, String)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).find_map(|pair| {
        let number = pair[1].trim_matches(|c: char| !c.is_alphanumeric());
        let named = pair[0].eq_ignore_ascii_case("item")
            && number.starts_with(|c: char| c.is_ascii_digit());
        let item = number.parse().ok().filter(|_| named)?;
        Some((item, format!("{} {number}", pair[0])))
    })
}

fn numeric(text: &str) -> bool {
    let lower = text.to_lowercase();
    let signs = [
        "how much",
        "how many",
        "what is the",
        "what was",
        "ratio",
        "percent",
        "amount",
        "margin",
        "growth",
        "rate",
        "highest",
        "lowest",
    ];
    signs.iter().any(|sign| lower.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Question {
        Question::read(text, &[])
    }

    fn counts(question: &Question, word: &str) -> f32 {
        question
            .words
            .iter()
            .find(|(known, _)| known == word)
            .map_or(0.0, |(_, weight)| *weight)
    }

    #[test]
    fn instructions_go_and_definitions_stay() {
        let question = read(
            "You are an analyst and may only use the balance sheet. What is the FY22 quick ratio for ACME? Quick ratio is defined as: \
             (cash + receivables) / total current liabilities. Round your answer to two decimals. If this is not a useful metric, then explain why.",
        );
        assert_eq!(counts(&question, "decim"), 0.0);
        assert!(counts(&question, "receiv") > 0.0 && counts(&question, "quick") > 0.0);
        assert_eq!(question.places[&Landmark::Balance], 2.0);
        assert_eq!((question.years, question.numeric), (vec![2022], true));
    }

    #[test]
    fn a_source_is_a_hint_and_not_what_is_asked() {
        let question = read("Based on the cash flow statement, did dividends grow?");
        assert_eq!(question.places[&Landmark::CashFlow], 2.0);
        assert_eq!(counts(&question, "statement"), 0.0);
        assert!(counts(&question, "dividend") > 0.0);
        // Nothing would remain: nothing is left out.
        assert!(!read("based on balance").words.is_empty());
    }

    #[test]
    fn dates_forms_and_items_are_read() {
        let question = read("What did Item 1A of the 10-K/A say in Q2 of FY2024 and FY 23?");
        assert_eq!(
            (question.years.as_slice(), question.quarter),
            (&[2023, 2024][..], Some(2))
        );
        assert_eq!(
            (question.form.as_deref(), question.amended),
            (Some("10-k/a"), true)
        );
        assert_eq!(question.item.unwrap().0.number, "1A");
        assert_eq!(read("the third quarter of 1998").quarter, Some(3));
        assert_eq!(read("an item of 10 keys").item, None);
    }

    #[test]
    fn words_of_asking_count_little_and_never_nothing_else() {
        let question = Question::read("What drove ACME's margin change?", &["acm".into()]);
        assert!(counts(&question, "margin") > counts(&question, "chang"));
        assert!(
            read("total value")
                .words
                .iter()
                .all(|(_, weight)| *weight == 1.0)
        );
        assert!(read("?!").words.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_question_panics(text in ".{0,200}") {
            Question::read(&text, &[]);
        }
    }
}

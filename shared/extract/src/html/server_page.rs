//! Pages that a server sends in place of a document: errors, checks for robots, logins, consent, lists of files.
//!
//! They are short, and their title or a heading says what they are. Words alone never decide about a list, a login or a
//! consent: the page must be made like one, too.

use stemma_document::Page;
use stemma_reading::vocabulary::{
    CONSENT_PHRASES, LISTING_OPENINGS, LOGIN_PHRASES, SERVER_MESSAGES, STATUS_WORDS, WordList,
};

use super::elements::Name;
use super::encoding::Input;
use super::tokens::{Token, Tokenizer};

// Words of a page whose title says that it is a message, and of one where only a heading does.
const MAX_WORDS_OF_TITLED: usize = 600;
const MAX_WORDS: usize = 200;
// Words of a title or a heading, and of a line with the number of a status.
const MAX_HEADING_WORDS: usize = 14;
const MAX_STATUS_WORDS: usize = 8;
// Lines that may be the heading of a page.
const HEADING_LINES: usize = 5;
// Share of the lines of a list that are links.
const MIN_LINKS: f32 = 0.5;

/// What a page is made of.
#[derive(Debug, Default)]
struct Shape {
    title: String,
    links: usize,
    passwords: usize,
    buttons: usize,
}

impl Shape {
    fn read(input: &Input<'_>) -> Self {
        let mut shape = Self::default();
        let mut title_start = 0;
        let mut tokens = Tokenizer::new(&input.bytes);
        while let Some(token) = tokens.next() {
            match token {
                Token::Start(tag) if tag.name == Name::Title => title_start = tag.end,
                Token::End(Name::Title) if shape.title.is_empty() => {
                    shape.title = input.text(title_start..tokens.end_of_raw_text());
                }
                Token::Start(tag) => {
                    let kind = || tag.attribute(b"type").unwrap_or_default();
                    let is_input = tag.is_named(b"input");
                    let is_password = is_input && kind().eq_ignore_ascii_case(b"password");
                    shape.passwords += usize::from(is_password);
                    shape.buttons += usize::from(
                        tag.is_named(b"button")
                            || is_input && kind().eq_ignore_ascii_case(b"submit"),
                    );
                    let is_link = tag.name == Name::A && tag.attribute(b"href").is_some();
                    shape.links += usize::from(is_link);
                }
                _ => {}
            }
        }
        shape
    }
}

/// What a page of a server says in place of a document; `None` for a document.
pub(super) fn message(input: &Input<'_>, pages: &[Page]) -> Option<String> {
    let lines = || pages.iter().flat_map(|page| &page.lines);
    let words = lines().map(|line| line.words.len()).sum::<usize>();
    if words > MAX_WORDS_OF_TITLED {
        return None;
    }
    let shape = Shape::read(input);
    let is_short = words <= MAX_WORDS;
    let headings = lines().take(HEADING_LINES).map(|line| line.text.as_str());
    let count = lines().count();
    std::iter::once((true, shape.title.as_str()))
        .chain(headings.map(|heading| (false, heading)))
        .filter(|(is_title, text)| {
            let count_of_words = text.split_whitespace().count();
            (*is_title || is_short) && (1..=MAX_HEADING_WORDS).contains(&count_of_words)
        })
        .map(|(_, text)| text)
        .find(|text| {
            let text = normalized(text);
            let has = |list: &WordList| list.iter().any(|phrase| has_phrase(&text, phrase));
            let is_list = LISTING_OPENINGS.starts(&text);
            has(&SERVER_MESSAGES)
                || is_status(&text)
                || is_list && shape.links as f32 >= count as f32 * MIN_LINKS
                || is_short && shape.passwords > 0 && has(&LOGIN_PHRASES)
                || is_short && shape.buttons > 0 && has(&CONSENT_PHRASES)
        })
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn normalized(text: &str) -> String {
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.to_lowercase().replace('\u{2019}', "'"))
        .collect();
    words.join(" ")
}

// Whether whole words of a text are a phrase. A single word is a message only if nothing else is said.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_end = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    if !phrase.contains([' ', '-']) {
        return text.trim_matches(|c: char| !c.is_alphanumeric()) == phrase;
    }
    text.match_indices(phrase).any(|(at, _)| {
        is_end(text[..at].chars().next_back()) && is_end(text[at + phrase.len()..].chars().next())
    })
}

// `404 Not Found`, `Error 503`, `HTTP 429 - Too Many Requests`.
fn is_status(text: &str) -> bool {
    let words = || {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
    };
    words().count() <= MAX_STATUS_WORDS
        && words().any(|word| word.len() == 3 && matches!(word.parse(), Ok(400_u16..=599)))
        && words().any(|word| STATUS_WORDS.contains(word))
}

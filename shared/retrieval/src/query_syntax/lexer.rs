//! Splits a query into words, phrases, fields, exclusions and `OR`.

use std::ops::Range;

use stemma_catalog::property::Property;
use stemma_reading::tokenizer::tokenize;

use super::{TextField, TextMatch};

// Longer quotations are searched as words. The limit keeps the search for closing marks short.
const MAX_PHRASE_BYTES: usize = 400;

pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) span: Range<usize>,
    // White space, and punctuation behind a clause.
    pub(super) before: Range<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    Plain,
    Or,
    Phrase(Range<usize>),
    Field(Field, Range<usize>),
    Excluded(Option<Field>, Range<usize>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field {
    Text(TextField),
    Document(Property),
}

impl Field {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "title" => Self::Text(TextField::Title),
            "text" => Self::Text(TextField::Text),
            name => Self::Document(Property::from_query_name(name)?),
        })
    }
}

impl Token {
    pub(super) fn can_be_alternative(&self, text: &str) -> bool {
        match &self.kind {
            // `sales, OR income` is a sentence.
            TokenKind::Plain => {
                let word = &text[self.span.clone()];
                !word.ends_with([',', ';', '.', ':', '?', '!']) && has_words(word)
            }
            TokenKind::Or => false,
            _ => true,
        }
    }

    // A condition on text; `None` for a condition on documents.
    pub(super) fn text_match(&self, text: &str) -> Option<TextMatch> {
        let (field, words) = match &self.kind {
            TokenKind::Plain => (TextField::Text, &self.span),
            TokenKind::Phrase(words) => (TextField::Text, words),
            TokenKind::Field(Field::Text(field), words) => (*field, words),
            TokenKind::Excluded(None, words) => (TextField::Text, words),
            TokenKind::Excluded(Some(Field::Text(field)), words) => (*field, words),
            _ => return None,
        };
        let words = text[words.clone()].trim_matches(|c: char| !c.is_alphanumeric());
        let words = words.to_owned();
        Some(TextMatch { field, words })
    }
}

pub(super) struct Lexer<'t> {
    text: &'t str,
    // A query in capitals has no word `OR` that differs from others.
    has_lowercase: bool,
    // Between brackets.
    list: Range<usize>,
    // Behind the last word that ends with a hyphen: before it, `-word` may open a parenthesis (`sales -net of tax- fell`).
    last_dash: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut dashed = text
            .split_whitespace()
            .filter(|word| word.len() > 1 && word.ends_with('-'));
        let last_dash = dashed
            .next_back()
            .map_or(0, |word| word.as_ptr() as usize - text.as_ptr() as usize);
        let list = text.find('[').zip(text.rfind(']'));
        Self {
            text,
            list: list.map_or(0..0, |(open, close)| open..close),
            has_lowercase: text.chars().any(char::is_lowercase),
            last_dash,
        }
    }

    pub(super) fn tokens(&self) -> Vec<Token> {
        let mut tokens = Vec::new();
        let mut at = 0;
        loop {
            let rest = &self.text[at..];
            let start = at
                + rest
                    .find(|c: char| !c.is_whitespace() && c != '(')
                    .unwrap_or(rest.len());
            if start == self.text.len() {
                return tokens;
            }
            let (kind, end) = self.token(start);
            tokens.push(Token {
                kind,
                span: start..end,
                before: at..start,
            });
            at = end;
        }
    }

    // The token at `start`, and where it ends.
    fn token(&self, start: usize) -> (TokenKind, usize) {
        let is_word_start = self.text[..start].ends_with(|c: char| c.is_whitespace() || c == '(');
        let operator = (start == 0 || is_word_start).then(|| self.operator(start));
        operator
            .flatten()
            .unwrap_or_else(|| (TokenKind::Plain, self.word_end(start)))
    }

    fn operator(&self, start: usize) -> Option<(TokenKind, usize)> {
        let rest = &self.text[start..];
        if let Some((words, end)) = self.quoted(start) {
            return Some((TokenKind::Phrase(words), end));
        }
        if let Some(behind) = rest.strip_prefix('-') {
            // `10 -K` is a form, badly written.
            let word = &self.text[start..self.word_end(start)];
            let is_word = behind.starts_with(char::is_alphabetic)
                && word.chars().filter(|c| c.is_alphanumeric()).count() > 1;
            let is_quoted = self.quoted(start + 1).is_some();
            if start < self.last_dash || !(is_word || is_quoted) {
                return None;
            }
            if let Some((field, value, end)) = self.field(start + 1) {
                return Some((TokenKind::Excluded(Some(field), value), end));
            }
            let (words, end) = self.value(start + 1)?;
            return Some((TokenKind::Excluded(None, words), end));
        }
        if let Some((field, value, end)) = self.field(start) {
            return Some((TokenKind::Field(field, value), end));
        }
        let end = self.word_end(start);
        (self.has_lowercase && &self.text[start..end] == "OR").then_some((TokenKind::Or, end))
    }

    // A known field, its value, and the end of both.
    fn field(&self, start: usize) -> Option<(Field, Range<usize>, usize)> {
        let rest = &self.text[start..];
        let colon = rest.find(|c: char| !(c.is_ascii_alphabetic() || c == '_'))?;
        let value = rest[colon..].strip_prefix(':')?;
        let field = Field::from_name(&rest[..colon]).filter(|_| !value.starts_with("//"))?;
        let (value, end) = self.value(start + colon + 1)?;
        Some((field, value, end))
    }

    // A quoted phrase, or a word without the punctuation behind it.
    fn value(&self, start: usize) -> Option<(Range<usize>, usize)> {
        if let Some(quoted) = self.quoted(start) {
            return Some(quoted);
        }
        let word = &self.text[start..self.word_end(start)];
        let value = word.trim_end_matches([',', ';', '.', ':', '?', '!', ')', '"', '”']);
        let end = start + value.len();
        has_words(value).then_some((start..end, end))
    }

    fn word_end(&self, start: usize) -> usize {
        let rest = &self.text[start..];
        start + rest.find(char::is_whitespace).unwrap_or(rest.len())
    }

    // The inside of a quotation that opens at `start`, and the end of its closing mark.
    fn quoted(&self, start: usize) -> Option<(Range<usize>, usize)> {
        // `for example ["Chapter 5", "Chapter 8"]` is the form of an answer.
        if self.list.contains(&start) {
            return None;
        }
        let rest = &self.text[start..];
        let open = rest.chars().next()?;
        let marks: &[char] = match open {
            '"' => &['"'],
            '“' | '„' => &['”', '“'],
            '«' => &['»'],
            _ => return None,
        };
        let from = start + open.len_utf8();
        let reach = self.text.floor_char_boundary(from + MAX_PHRASE_BYTES);
        let inside = &self.text[from..reach];
        if inside.starts_with(char::is_whitespace) {
            return None;
        }
        let (at, mark) = inside.char_indices().find(|(at, c)| {
            let behind = &self.text[from + at + c.len_utf8()..];
            marks.contains(c)
                && !inside[..*at].ends_with(char::is_whitespace)
                && !behind.starts_with(|c: char| c.is_alphanumeric() || c == open)
        })?;
        let words = from..from + at;
        has_words(&self.text[words.clone()]).then_some((words, from + at + mark.len_utf8()))
    }
}

pub(super) fn has_words(text: &str) -> bool {
    !tokenize(text).is_empty()
}

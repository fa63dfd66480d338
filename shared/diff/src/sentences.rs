//! Words and sentences of sections, normalized for comparison.
//!
//! Unlike in the search index, words are not stemmed: unchanged text must have the same words. Line ends, case, punctuation and
//! hyphens do not count; the sign, the decimals and the percent sign of a number do. A row of a table is a sentence
//! of its own, and so is a head of columns, so that a new row does not change its neighbors.

use std::collections::HashMap;

use stemma_document::text::BodyLine;
use stemma_reading::lines::LineKind;
use stemma_reading::sentences::ends_sentence;
use unicode_normalization::UnicodeNormalization;

// Index of a word in the [`Lexicon`].
pub(super) type Word = u32;

// Bounds the comparison of two sentences, which takes the product of their lengths.
pub(super) const MAX_SENTENCE_WORDS: usize = 120;
// A longer sentence is cut after certain words, see `SentenceSplitter::is_long`.
const LONG_SENTENCE_WORDS: usize = 60;
// Longer runs of characters are cut, in bytes.
const MAX_WORD_BYTES: usize = 128;
// All words of both documents, numbered by first occurrence.
#[derive(Debug, Default)]
pub(super) struct Lexicon {
    ids: HashMap<Box<str>, Word>,
    kinds: Vec<WordKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordKind {
    // Has a letter.
    Alphabetic,
    // Has so many digits that it hardly ever means two different things.
    Figure,
    // A year or a small number.
    Number,
}

impl WordKind {
    fn classify(word: &str) -> Self {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let year = digits == 4 && (word.starts_with("19") || word.starts_with("20"));
        match word.chars().any(char::is_alphabetic) {
            true => WordKind::Alphabetic,
            false if digits >= 4 && !year => WordKind::Figure,
            false => WordKind::Number,
        }
    }
}

impl Lexicon {
    pub(super) fn intern(&mut self, word: &str) -> Word {
        if let Some(id) = self.ids.get(word) {
            return *id;
        }
        let id = Word::try_from(self.kinds.len()).unwrap_or(Word::MAX);
        self.ids.insert(word.into(), id);
        self.kinds.push(WordKind::classify(word));
        id
    }

    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    pub(super) fn has_letter(&self, word: Word) -> bool {
        self.kind(word) == WordKind::Alphabetic
    }

    pub(super) fn kind(&self, word: Word) -> WordKind {
        self.kinds
            .get(word as usize)
            .copied()
            .unwrap_or(WordKind::Number)
    }

    // Words of a piece of text without white space.
    fn tokenize(&mut self, raw: &str, into: &mut Vec<Word>) {
        let mut rest = raw;
        while !rest.is_empty() {
            let (part, after) =
                rest.split_at(rest.floor_char_boundary(MAX_WORD_BYTES.min(rest.len())));
            if part.is_ascii() {
                self.push(part, into);
            } else {
                let plain: String = part.nfkc().collect();
                split_ideographs(&plain)
                    .into_iter()
                    .for_each(|part| self.push(part, into));
            }
            rest = after;
        }
    }

    fn push(&mut self, raw: &str, into: &mut Vec<Word>) {
        let mut word = String::with_capacity(raw.len() + 1);
        normalize_word(raw, &mut word);
        if !word.is_empty() {
            into.push(self.intern(&word));
        }
    }
}

// Each ideograph or syllable is a word, since these scripts have no spaces.
fn split_ideographs(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices() {
        if matches!(c, '\u{2E80}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3134F}')
        {
            parts.push(&text[start..at]);
            start = at + c.len_utf8();
            parts.push(&text[at..start]);
        } else if c.is_whitespace() {
            parts.push(&text[start..at]);
            start = at;
        }
    }
    parts.push(&text[start..]);
    parts
}

// Writes the normalized word; nothing when it has neither letter nor digit.
fn normalize_word(raw: &str, word: &mut String) {
    let first = raw.find(char::is_alphanumeric);
    let Some(first) = first else { return };
    let number = raw[first..].starts_with(|c: char| c.is_ascii_digit())
        && !raw.chars().any(char::is_alphabetic);
    if number && raw[..first].contains(['(', '-', '−', '–']) {
        word.push('-');
    }
    let mut before = ' ';
    let mut rest = raw[first..].chars().peekable();
    while let Some(c) = rest.next() {
        let decimal =
            c == '.' && before.is_ascii_digit() && rest.peek().is_some_and(char::is_ascii_digit);
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        } else if decimal || matches!(c, '%' | '&') {
            word.push(c);
        }
        before = c;
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SentenceSpan {
    // Range in the words of its document, end exclusive.
    pub(super) words: (u32, u32),
    // Index of the line in its section, and byte.
    pub(super) start: (u32, u32),
    // Line and byte after the end.
    pub(super) end: (u32, u32),
}

// Appends the words of `lines` to `words`. A line without a kind is prose.
pub(super) fn split_sentences(
    lines: &[BodyLine<'_>],
    kinds: &[LineKind],
    lexicon: &mut Lexicon,
    words: &mut Vec<Word>,
) -> Vec<SentenceSpan> {
    let widest = lines.iter().map(|line| line.text.len()).max().unwrap_or(0);
    let mut cutter = SentenceSplitter {
        open: None,
        sentences: Vec::new(),
    };
    let mut hyphenated: Option<String> = None;
    let mut before = "";
    for (number, line) in lines.iter().enumerate() {
        let kind = kinds.get(number);
        let row = matches!(kind, Some(LineKind::Row | LineKind::ColumnHead));
        let after = lines
            .get(number + 1)
            .map_or("", |line| line.text.trim_start());
        if row || line.text.trim().is_empty() {
            cutter.close(words.len());
        }
        let mut tokens = whitespace_tokens(line.text).peekable();
        while let Some((at, raw)) = tokens.next() {
            let next = tokens.peek().map_or(after, |(_, next)| next);
            let last = tokens.peek().is_none();
            if raw.starts_with(['•', '●', '▪', '■', '◦', '·']) {
                cutter.close(words.len());
            }
            if cutter.open.is_none() {
                before = "";
            }
            if last
                && !row
                && is_hyphenated(raw)
                && next.starts_with(char::is_lowercase)
                && hyphenated.is_none()
            {
                cutter.open(number, at, words.len());
                hyphenated = Some(raw.trim_end_matches(['-', '\u{2010}', '\u{AD}']).to_owned());
                continue;
            }
            cutter.open(number, at, words.len());
            match hyphenated.take() {
                Some(head) => lexicon.tokenize(&(head + raw), words),
                None => lexicon.tokenize(raw, words),
            }
            cutter.extend(number, at + raw.len());
            if !row && (ends_sentence(before, raw, next) || cutter.is_long(words)) {
                cutter.close(words.len());
            }
            before = raw;
        }
        let short = line.text.len() * 5 < widest * 3 && hyphenated.is_none();
        if row || short && !after.starts_with(char::is_lowercase) {
            cutter.close(words.len());
        }
    }
    if let Some(head) = hyphenated {
        lexicon.tokenize(&head, words);
    }
    cutter.close(words.len());
    cutter.sentences
}

struct SentenceSplitter {
    open: Option<SentenceSpan>,
    sentences: Vec<SentenceSpan>,
}

impl SentenceSplitter {
    fn open(&mut self, line: usize, byte: usize, word: usize) {
        let at = (line as u32, byte as u32);
        let word = word as u32;
        self.open.get_or_insert(SentenceSpan {
            words: (word, word),
            start: at,
            end: at,
        });
    }

    fn extend(&mut self, line: usize, byte: usize) {
        if let Some(open) = &mut self.open {
            open.end = (line as u32, byte as u32);
        }
    }

    // The cut depends on the words alone, so that the same text is cut at the same places in both documents.
    fn is_long(&self, words: &[Word]) -> bool {
        let Some(open) = &self.open else { return false };
        let length = words.len() - open.words.0 as usize;
        let ends = words
            .last()
            .is_some_and(|word| word.wrapping_mul(0x9E37_79B9) >> 28 == 0);
        length >= MAX_SENTENCE_WORDS - 8 || length >= LONG_SENTENCE_WORDS && ends
    }

    fn close(&mut self, words: usize) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        open.words.1 = words as u32;
        // One token of many ideographs may exceed the limit.
        while (open.words.1 - open.words.0) as usize > MAX_SENTENCE_WORDS {
            let cut = open.words.0 + MAX_SENTENCE_WORDS as u32;
            self.sentences.push(SentenceSpan {
                words: (open.words.0, cut),
                ..open
            });
            open.words.0 = cut;
        }
        if open.words.1 > open.words.0 {
            self.sentences.push(open);
        }
    }
}

// With their byte offsets.
fn whitespace_tokens(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let base = line.as_ptr() as usize;
    line.split_whitespace()
        .map(move |token| (token.as_ptr() as usize - base, token))
}

fn is_hyphenated(raw: &str) -> bool {
    let bare = raw.trim_end_matches(['-', '\u{2010}', '\u{AD}']);
    bare.len() < raw.len() && bare.ends_with(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use stemma_reading::lines::read_lines;

    use super::*;

    fn read(text: &str) -> (Vec<Vec<String>>, Vec<SentenceSpan>) {
        let lines: Vec<BodyLine<'_>> = text
            .lines()
            .map(|text| BodyLine {
                text,
                tokens: 0,
                page: None,
                number: 1,
                layout: None,
            })
            .collect();
        let mut lexicon = Lexicon::default();
        let mut words = Vec::new();
        let kinds: Vec<LineKind> = read_lines(lines.iter().map(|line| line.text))
            .iter()
            .map(|line| line.kind)
            .collect();
        let sentences = split_sentences(&lines, &kinds, &mut lexicon, &mut words);
        let mut names = vec![String::new(); lexicon.len()];
        lexicon
            .ids
            .iter()
            .for_each(|(word, id)| names[*id as usize] = word.to_string());
        (
            sentences
                .iter()
                .map(|sentence: &SentenceSpan| {
                    words[sentence.words.0 as usize..sentence.words.1 as usize]
                        .iter()
                        .map(|id| names[*id as usize].clone())
                        .collect()
                })
                .collect(),
            sentences,
        )
    }

    fn joined(text: &str) -> Vec<String> {
        read(text)
            .0
            .into_iter()
            .map(|words| words.join(" "))
            .collect()
    }

    #[test]
    fn layout_case_and_punctuation_are_ignored() {
        let one = "We rely on long-term contracts, and “key” busi-\nness partners.";
        let two = "we rely on LONG-TERM\ncontracts and \"key\" business partners";
        assert_eq!(joined(one).join(" "), joined(two).join(" "));
    }

    #[test]
    fn signs_decimals_and_percents_count() {
        let words = |text| joined(text).join(" ");
        assert_eq!(words("$(1,749) 12.5% -3 Note 7."), "-1749 12.5% -3 note 7");
        assert_ne!(words("(1,749)"), words("1,749"));
        assert_ne!(words("1.25"), words("125"));
    }

    #[test]
    fn sentences_end_at_full_stops_and_rows() {
        let text = "Acme Inc. sells tools in the U.S. and abroad. It was founded in 1902.\nNet sales $ 4,610 $ 4,110\n\
                    Cost of sales 3,000 2,900\nThe increase came from volume.";
        let expected = [
            "acme inc sells tools in the us and abroad",
            "it was founded in 1902",
            "net sales 4610 4110",
            "cost of sales 3000 2900",
            "the increase came from volume",
        ];
        assert_eq!(joined(text), expected);
    }

    #[test]
    fn ideographs_are_words_and_sentences_are_bounded() {
        assert_eq!(joined("公司概况。"), ["公 司 概 况"]);
        for text in [
            "公".repeat(5_000),
            "word ".repeat(5_000),
            "x".repeat(3_000_000),
            "1 ".repeat(900),
        ] {
            let (sentences, _) = read(&text);
            assert!(
                sentences
                    .iter()
                    .all(|words| words.len() <= MAX_SENTENCE_WORDS),
                "{}",
                &text[..9]
            );
        }
    }
}

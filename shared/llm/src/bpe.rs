//! Byte pair encoding in the o200k vocabulary: how many tokens a text has, not which.
//!
//! `data/o200k.tokens` has the tokens by rank, each after a byte with its length. A test proves that they are those of
//! `o200k_base.tiktoken`, which OpenAI publishes with tiktoken (MIT license).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::LazyLock;

use foldhash::fast::FixedState;
use regex::Regex;

// Longer words are cut, which may add a token per cut: hostile text then costs little memory, and natural text has no such
// words.
const MAX_PART_BYTES: usize = 1 << 20;

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(Vocabulary::new);
const TOKENS: &[u8] = include_bytes!("../data/o200k.tokens");

// The pattern of o200k without its lookahead `\s+(?!\S)`, which `word_end` does.
const WORD: &str = concat!(
    r"\A(?:",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"|\s*[\r\n]+",
    r"|\s+",
    r")",
);

/// The words of `text`, which no token crosses.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (word, tail) = rest.split_at(VOCABULARY.word_end(rest));
        rest = tail;
        (!word.is_empty()).then_some(word)
    })
}

/// The number of tokens in one of [`words`].
pub fn count_word(word: &str) -> usize {
    let parts = word.as_bytes().chunks(MAX_PART_BYTES);
    parts.map(|part| VOCABULARY.count(part)).sum()
}

fn tokens() -> impl Iterator<Item = &'static [u8]> {
    let mut rest = TOKENS;
    std::iter::from_fn(move || {
        let (&length, tail) = rest.split_first()?;
        let (token, tail) = tail.split_at_checked(usize::from(length))?;
        rest = tail;
        Some(token)
    })
}

struct Vocabulary {
    word: Option<Regex>,
    ranks: HashMap<&'static [u8], u32, FixedState>,
}

impl Vocabulary {
    fn new() -> Vocabulary {
        let mut ranks = HashMap::with_capacity_and_hasher(200_000, FixedState::default());
        ranks.extend(tokens().zip(0..));
        Vocabulary {
            word: Regex::new(WORD).ok(),
            ranks,
        }
    }

    /// Where the first word of `text` ends.
    fn word_end(&self, text: &str) -> usize {
        let found = self.word.as_ref().and_then(|word| word.find(text));
        let word = found.map_or(text, |found| found.as_str());
        match word.char_indices().next_back() {
            // The last space before a word belongs to that word.
            Some((last, space))
                if last > 0
                    && word.len() < text.len()
                    && space.is_whitespace()
                    && !matches!(space, '\r' | '\n') =>
            {
                last
            }
            _ => word.len(),
        }
    }

    fn count(&self, word: &[u8]) -> usize {
        if word.len() < 2 || self.ranks.contains_key(word) {
            return 1;
        }
        let mut parts = Parts::new(word.len());
        let mut pairs: BinaryHeap<_> = (0..word.len() - 1)
            .filter_map(|start| self.pair(word, start, start + 2))
            .collect();
        let mut count = word.len();
        while let Some(Reverse(pair)) = pairs.pop() {
            let start = pair.start();
            let end = pair.end();
            if parts.merge(start, end) {
                count -= 1;
                pairs.extend(parts.end(end).and_then(|next| self.pair(word, start, next)));
                pairs.extend(
                    parts
                        .previous(start)
                        .and_then(|previous| self.pair(word, previous, end)),
                );
            }
        }
        count
    }

    fn pair(&self, word: &[u8], start: usize, end: usize) -> Option<Reverse<Pair>> {
        let rank = self.ranks.get(&word[start..end])?;
        Some(Reverse(Pair::new(*rank, start, end)))
    }
}

// Two adjacent parts, as rank, start and length: pairs are merged in this order. In one number, which keeps the heap small.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Pair(u64);

impl Pair {
    fn new(rank: u32, start: usize, end: usize) -> Pair {
        Pair(u64::from(rank) << 40 | (start as u64) << 8 | (end - start) as u64)
    }

    fn start(&self) -> usize {
        (self.0 >> 8 & u64::from(u32::MAX)) as usize
    }

    fn end(&self) -> usize {
        self.start() + (self.0 & 0xff) as usize
    }
}

// A word as a linked list of parts, at first its bytes. A part is named by where it starts.
struct Parts {
    // Zero where no part starts.
    ends: Vec<usize>,
    previous: Vec<usize>,
}

impl Parts {
    fn new(length: usize) -> Parts {
        Parts {
            ends: (1..=length).collect(),
            previous: (0..length).map(|start| start.saturating_sub(1)).collect(),
        }
    }

    // Whether two adjacent parts still cover `start..end`; if so they become one.
    fn merge(&mut self, start: usize, end: usize) -> bool {
        let middle = self.ends[start];
        if middle == 0 || self.end(middle) != Some(end) {
            return false;
        }
        self.ends[start] = end;
        self.ends[middle] = 0;
        if let Some(previous) = self.previous.get_mut(end) {
            *previous = start;
        }
        true
    }

    // The end of the part that starts at `start`, unless the word ends there.
    fn end(&self, start: usize) -> Option<usize> {
        self.ends.get(start).copied()
    }

    fn previous(&self, start: usize) -> Option<usize> {
        (start > 0).then(|| self.previous[start])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::*;

    // Merges like the definition: scan all pairs, merge the first of lowest rank, repeat.
    fn count_naively(word: &[u8]) -> usize {
        let mut parts: Vec<Vec<u8>> = word.iter().map(|byte| vec![*byte]).collect();
        loop {
            let ranks = parts
                .windows(2)
                .map(|pair| VOCABULARY.ranks.get(&*pair.concat()));
            let best = ranks
                .enumerate()
                .filter_map(|(at, rank)| Some((*rank?, at)))
                .min();
            let Some((_, at)) = best else {
                return parts.len();
            };
            let tail = parts.remove(at + 1);
            parts[at].extend(tail);
        }
    }

    // Like `o200k_base.tiktoken`: a line has a token in base64 and its rank.
    fn tiktoken_line(rank: usize, token: &[u8]) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let encode = |three: &[u8]| {
            let bytes = [
                0,
                three[0],
                *three.get(1).unwrap_or(&0),
                *three.get(2).unwrap_or(&0),
            ];
            let bits = u32::from_be_bytes(bytes);
            [18, 12, 6, 0].map(|shift| char::from(DIGITS[(bits >> shift) as usize & 63]))
        };
        let mut base64: String = token.chunks(3).flat_map(encode).collect();
        let padding = (3 - token.len() % 3) % 3;
        base64.replace_range(base64.len() - padding.., &"=".repeat(padding));
        format!("{base64} {rank}\n")
    }

    #[test]
    fn vocabulary_is_that_of_tiktoken() {
        let mut file = Sha256::new();
        for (rank, token) in tokens().enumerate() {
            file.update(tiktoken_line(rank, token));
        }
        // The hash that tiktoken expects of the file.
        let expected = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d";
        let actual: String = file
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(actual, expected);
    }

    #[test]
    fn words_are_those_of_the_o200k_pattern() {
        let cases: &[(&str, &[&str])] = &[
            ("Net sales  rose", &["Net", " sales", " ", " rose"]),
            ("a\n\n  b \n", &["a", "\n\n", " ", " b", " \n"]),
            ("  ", &["  "]),
            (
                "I'll pay $1234.56!",
                &["I'll", " pay", " $", "123", "4", ".", "56", "!"],
            ),
            ("HTMLParser camelCase", &["HTMLParser", " camel", "Case"]),
            ("a/b//\nc", &["a", "/b", "//\n", "c"]),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text).collect::<Vec<_>>(), *expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn words_cover_the_text_and_count_like_the_definition(text in "[ab 年\n.'sS1é\u{301}]{0,60}|.{0,60}|(ab|c| ){0,90}") {
            prop_assert_eq!(&words(&text).collect::<String>(), &text);
            for word in words(&text) {
                prop_assert_eq!(count_word(word), count_naively(word.as_bytes()), "{:?}", word);
            }
            prop_assert_eq!(VOCABULARY.count(text.as_bytes()), count_naively(text.as_bytes()).max(1));
        }
    }
}

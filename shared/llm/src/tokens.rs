//! Token counts in the o200k vocabulary, which is part of the binary.

use std::collections::HashMap;

use bpe_openai::o200k_base;

/// Longest stretch that is tokenized at once, in bytes. A word of this length is no language; cutting it may add one
/// token per stretch and keeps memory flat on hostile text.
const MAX_CHUNK_BYTES: usize = 1 << 20;

/// Number of o200k tokens of `text`; special tokens such as `<|endoftext|>` count as plain text.
///
/// The vocabulary is unpacked on the first call (0.04 s and 65 MB in a release build) and shared by all threads. Time is
/// linear in the length of the text, also for one letter repeated ten million times.
pub fn count(text: &str) -> u32 {
    let tokenizer = o200k_base();
    let total: usize = TextChunks(text)
        .map(|stretch| tokenizer.count(stretch))
        .sum();
    u32::try_from(total).unwrap_or(u32::MAX)
}

/// Pieces of text a [`TokenCounter`] remembers, and their longest length in bytes: 2^16 words are 4 MB.
const MAX_PIECES: usize = 1 << 16;
const MAX_PIECE_BYTES: usize = 32;

/// Counts like [`count`], and remembers the words it has counted: in one document most words come again.
#[derive(Debug, Default)]
pub struct TokenCounter(HashMap<Box<str>, u32, foldhash::fast::RandomState>);

impl TokenCounter {
    /// Number of o200k tokens of `text`.
    pub fn count(&mut self, text: &str) -> u32 {
        let tokenizer = o200k_base();
        TextChunks(text)
            .flat_map(|stretch| tokenizer.split(stretch))
            .map(|piece| self.piece(piece))
            .fold(0, u32::saturating_add)
    }

    fn piece(&mut self, piece: &str) -> u32 {
        if let Some(tokens) = self.0.get(piece) {
            return *tokens;
        }
        let tokens = u32::try_from(o200k_base().bpe.count(piece.as_bytes())).unwrap_or(u32::MAX);
        if piece.len() <= MAX_PIECE_BYTES && self.0.len() < MAX_PIECES {
            self.0.insert(piece.into(), tokens);
        }
        tokens
    }
}

/// The text in stretches of at most [`MAX_CHUNK_BYTES`], cut behind a line end where there is one.
struct TextChunks<'a>(&'a str);

impl<'a> Iterator for TextChunks<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0;
        if text.is_empty() {
            return None;
        }
        let (stretch, rest) = text.split_at(chunk_end(text));
        self.0 = rest;
        Some(stretch)
    }
}

/// Where the first stretch ends: a line end followed by a character that is no white space cannot lie inside a token.
fn chunk_end(text: &str) -> usize {
    if text.len() <= MAX_CHUNK_BYTES {
        return text.len();
    }
    let end = text.floor_char_boundary(MAX_CHUNK_BYTES);
    text[..end]
        .rmatch_indices('\n')
        .take(1_000)
        .find(|(at, _): &(usize, &str)| text[at + 1..].starts_with(|c: char| !c.is_whitespace()))
        .map_or(end, |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_o200k() {
        // Counted with the vocabulary's reference implementation.
        assert_eq!(count(""), 0);
        assert_eq!(count("hello world"), 2);
        assert_eq!(count("tiktoken is great!"), 6);
        assert_eq!(count("<|endoftext|>"), 7);
    }

    #[test]
    fn token_counter_agrees_with_count() {
        let mut counter = TokenCounter::default();
        for text in [
            "",
            "hello world",
            "Net sales rose 5.2% to $1,234.5 million",
            "  \n a",
            "营业收入增长",
            "hello world",
        ] {
            assert_eq!(counter.count(text), count(text), "{text}");
        }
    }

    #[test]
    fn long_text_is_cut_at_lines_without_changing_the_count() {
        let paragraph = "Net sales rose 4.2% to $1,234 million in 2023, compared with 2022.\n";
        let text = paragraph.repeat(40_000);
        assert!(text.len() > 2 * MAX_CHUNK_BYTES);
        assert_eq!(count(&text), 40_000 * count(paragraph));
    }

    #[test]
    fn hostile_text_is_counted_in_linear_time() {
        for unit in ["a", ".", " ", "\n", "年", "\u{301}", " \n"] {
            let text = unit.repeat(3_000_000 / unit.len());
            let tokens = count(&text);
            assert!(
                tokens > 0 && tokens as usize <= text.len(),
                "{unit:?}: {tokens}"
            );
        }
    }
}

//! Token counts in the o200k vocabulary, which is embedded in the binary.

use std::collections::HashMap;

use bpe_openai::o200k_base;

// Text is tokenized in chunks to bound memory on hostile input. Cutting inside a word may add one token per chunk, but
// natural text has no words of this length.
const MAX_CHUNK_BYTES: usize = 1 << 20;

/// Counts the o200k tokens of `text`. Special tokens such as `<|endoftext|>` count as plain text.
///
/// The first call loads the vocabulary (0.04 s and 65 MB in a release build). Time is linear in the length of the text, even
/// for one letter repeated ten million times.
pub fn count(text: &str) -> u32 {
    let tokenizer = o200k_base();
    let total: usize = TextChunks(text).map(|chunk| tokenizer.count(chunk)).sum();
    u32::try_from(total).unwrap_or(u32::MAX)
}

// Bounds of the cache of a `TokenCounter`: about 4 MB.
const MAX_PIECES: usize = 1 << 16;
const MAX_PIECE_BYTES: usize = 32;

/// Counts like [`count`], but caches the counts of words. Most words of a document repeat.
#[derive(Debug, Default)]
pub struct TokenCounter(HashMap<Box<str>, u32, foldhash::fast::RandomState>);

impl TokenCounter {
    /// Counts the o200k tokens of `text`.
    pub fn count(&mut self, text: &str) -> u32 {
        let tokenizer = o200k_base();
        TextChunks(text)
            .flat_map(|chunk| tokenizer.split(chunk))
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

// Chunks of at most `MAX_CHUNK_BYTES`, cut after a line end if possible.
struct TextChunks<'a>(&'a str);

impl<'a> Iterator for TextChunks<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0;
        if text.is_empty() {
            return None;
        }
        let (chunk, rest) = text.split_at(chunk_end(text));
        self.0 = rest;
        Some(chunk)
    }
}

// No token contains a line end followed by a non-space character, so cutting there keeps the count exact. The search is
// bounded, or text of blank lines would make it quadratic.
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

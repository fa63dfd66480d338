//! Splits fields of words that are tokenized already.

use stemma_reading::tokenizer::SEPARATOR;
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

/// Splits a text at each [`SEPARATOR`]. Fields are tokenized when an entry is made, because several share one tokenization.
#[derive(Clone, Default)]
pub struct WordSplitter(Token);

pub struct WordStream<'a> {
    rest: Option<&'a str>,
    token: &'a mut Token,
}

impl Tokenizer for WordSplitter {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.0.reset();
        WordStream {
            rest: Some(text).filter(|text| !text.is_empty()),
            token: &mut self.0,
        }
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        let Some(rest) = self.rest else {
            return false;
        };
        let (word, rest) = match rest.split_once(SEPARATOR) {
            Some((word, rest)) => (word, Some(rest)),
            None => (rest, None),
        };
        self.rest = rest;
        self.token.position = self.token.position.wrapping_add(1);
        self.token.text.clear();
        self.token.text.push_str(word);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stemma_reading::tokenizer::TokenizedText;

    #[test]
    fn words_keep_their_order_and_count() {
        let tokens = TokenizedText::new("Non-GAAP sales of 1,577");
        let mut splitter = WordSplitter::default();
        let mut words = Vec::new();
        splitter
            .token_stream(tokens.joined())
            .process(&mut |token| words.push((token.position, token.text.clone())));
        let expected = ["nongaap", "non", "gaap", "sale", "of", "1577"];
        let expected = expected.map(str::to_owned).into_iter().enumerate();
        assert_eq!(words, expected.collect::<Vec<_>>());
        assert!(!splitter.token_stream("").advance());
    }
}

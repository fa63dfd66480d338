//! Trading symbols of securities on a cover or in a release.

use stemma_document::Ticker;
use stemma_document::text::normalize_key;
use stemma_reading::vocabulary::{
    CONJUNCTIONS, EXCHANGE_ENDS, EXCHANGE_NAMES, EXCHANGE_PREFIXES, SECURITY_WORDS,
    SYMBOL_TABLE_ENDS,
};

use super::front_page::FrontPage;

const TABLE_LINES: usize = 60;
const MAX_TICKERS: usize = 64;
const MAX_CLASSES: usize = 6;
// `New York Stock Exchange, Inc. / Chicago Stock Exchange, Inc.` has ten.
const MAX_EXCHANGE_WORDS: usize = 10;

/// Symbols in the table of securities registered under Section 12(b) of the Act; empty if it has none.
pub(super) fn tickers(page: &FrontPage<'_>) -> Vec<Ticker> {
    let normalized = &page.keys;
    let Some(symbols) = normalized.iter().position(|line| line.contains("symbol")) else {
        return Vec::new();
    };
    let start = normalized[..symbols]
        .iter()
        .rposition(|line| line.contains("12b"))
        .unwrap_or(symbols.saturating_sub(4));
    let mut tickers: Vec<Ticker> = Vec::new();
    for (at, line) in normalized.iter().enumerate().skip(start).take(TABLE_LINES) {
        if at > symbols && SYMBOL_TABLE_ENDS.occurs_in(line) {
            break;
        }
        let line = page.lines[at];
        let (symbol, exchanges) = match (parse_row(line), tickers.last()) {
            (Some(row), _) => row,
            // A second exchange of the class above.
            (None, Some(above)) if is_exchange(line) => {
                (above.symbol.value.clone(), split_exchanges(line))
            }
            (None, _) => continue,
        };
        for exchange in exchanges {
            let duplicate = tickers.iter().any(|ticker| {
                ticker.symbol.value == symbol && ticker.exchange.as_ref() == Some(&exchange)
            });
            if !duplicate && tickers.len() < MAX_TICKERS {
                tickers.push(Ticker {
                    symbol: page.fact(symbol.clone()).with_evidence(line),
                    exchange: Some(exchange),
                });
            }
        }
    }
    tickers
}

/// Symbol and exchanges of a row `Common Stock, $0.01 par value  ABC  New York Stock Exchange`.
fn parse_row(line: &str) -> Option<(String, Vec<String>)> {
    let words: Vec<&str> = line.split_whitespace().take(80).collect();
    let at = (1..words.len()).find(|at| {
        let rest = normalize_key(&words[*at..words.len().min(at + 4)].concat());
        names_exchange(&rest) && !is_caption(&words[*at..])
    })?;
    let article = at > 1 && words[at - 1].eq_ignore_ascii_case("the");
    let end = if article { at - 1 } else { at };
    let start = symbol_start(&words[..end])?;
    Some((
        words[start..end]
            .join(" ")
            .trim_matches(['“', '”', '"', ','])
            .to_owned(),
        split_exchanges(&words[end..].join(" ")),
    ))
}

fn names_exchange(key: &str) -> bool {
    EXCHANGE_PREFIXES.starts(key)
}

/// Whether a line is nothing but the name of an exchange.
fn is_exchange(line: &str) -> bool {
    let words: Vec<&str> = line
        .split_whitespace()
        .take(MAX_EXCHANGE_WORDS + 1)
        .collect();
    // `New York Stock Exchange under the symbol ACM and on the Chicago Stock Exchange` is a sentence.
    if words.len() > MAX_EXCHANGE_WORDS || is_caption(&words) {
        return false;
    }
    let key = normalize_key(line);
    let name = key.strip_prefix("the").unwrap_or(&key);
    names_exchange(name) && EXCHANGE_ENDS.ends(name)
}

/// The exchanges of `New York Stock Exchange, Inc. / Chicago Stock Exchange, Inc.`, as printed, without spaces before commas.
fn split_exchanges(text: &str) -> Vec<String> {
    let mut names: Vec<Vec<&str>> = vec![Vec::new()];
    let words: Vec<&str> = text.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        let joins = matches!(*word, "/" | "&") || CONJUNCTIONS.contains(word);
        let next = words[at + 1..].iter().take(3).copied().collect::<String>();
        let next = normalize_key(&next);
        let named = names_exchange(next.strip_prefix("the").unwrap_or(&next));
        if joins && named {
            names.push(Vec::new());
        } else if let Some(name) = names.last_mut() {
            name.push(word);
        }
    }
    let names = names.iter().map(|name| name.join(" ").replace(" ,", ","));
    names
        .map(|name| name.trim_end_matches(',').to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

/// Whether the words are `American Depositary Shares`, which is a title of securities and not an exchange.
fn is_caption(words: &[&str]) -> bool {
    words
        .first()
        .is_some_and(|word| word.eq_ignore_ascii_case("american"))
        && !words
            .get(1)
            .is_some_and(|word| word.eq_ignore_ascii_case("stock"))
}

/// Index where the symbol at the end of the words begins; `25A` and `PR G` have more to the left.
fn symbol_start(words: &[&str]) -> Option<usize> {
    let mut start = words.len().checked_sub(1)?;
    for _ in 0..2 {
        let word = words[start];
        let open = word.len() == 1
            || word.contains(|c: char| c.is_ascii_digit())
            || matches!(word, "PR" | "PRA" | "WS");
        let is_tail = word.len() <= 3
            && word
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        if open
            && is_tail
            && start > 0
            && is_symbol(words[start - 1])
            && words[start - 1].len() <= 5
        {
            start -= 1;
        }
    }
    is_symbol(words[start]).then_some(start)
}

/// Capitals, sometimes with figures, a stop, slash or hyphen.
fn is_symbol(word: &str) -> bool {
    let word = word.trim_matches(['“', '”', '"', ',']);
    (1..=10).contains(&word.len())
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.bytes().all(|b| {
            b.is_ascii_uppercase() || b.is_ascii_digit() || matches!(b, b'.' | b'/' | b'-')
        })
        && !SECURITY_WORDS.contains(word)
}

/// The exchange in `(NYSE:`, as written.
fn exchange_before_symbol(word: &str) -> Option<String> {
    let name = word
        .trim_start_matches(['(', '[', '“', '"'])
        .strip_suffix(':')?;
    EXCHANGE_NAMES
        .iter()
        .any(|exchange| exchange.eq_ignore_ascii_case(name))
        .then(|| name.to_owned())
}

/// Symbols in a release: `(NYSE: ABC)`, `Nasdaq: ABCD; ASX: ABC`.
pub(super) fn release_tickers(page: &FrontPage<'_>) -> Vec<Ticker> {
    let words = page.words();
    let mut tickers: Vec<Ticker> = Vec::new();
    for pair in words.windows(2) {
        let Some(exchange) = exchange_before_symbol(pair[0]) else {
            continue;
        };
        let symbol = pair[1].trim_end_matches([')', ']', ';', ',', '.', '”', '"']);
        let listed = tickers.iter().any(|ticker| ticker.symbol.value == symbol);
        if !listed && is_symbol(symbol) && tickers.len() < MAX_CLASSES {
            tickers.push(Ticker {
                symbol: page.fact(symbol).with_evidence(&pair.join(" ")),
                exchange: Some(exchange),
            });
        }
    }
    tickers
}

//! Numbers of shares outstanding on a cover, by class.
//!
//! A number counts if the sentence or table around it says `outstanding`. Amounts of money, shares held by non-affiliates,
//! treasury shares and totals over classes are left out.

use stemma_document::ShareCount;
use stemma_document::text::normalize_key;
use stemma_reading::sentences::ends_sentence;
use stemma_reading::vocabulary::{CLAUSE_OPENERS, SHARE_KINDS, SHARE_NOUNS};

use super::dates;
use super::front_page::FrontPage;

const MAX_CLASSES: usize = 12;
// Words before a number that can describe it; a table has its heading there.
const NEAR: usize = 60;
// A holder is named within this many words behind a number.
const HELD_WITHIN: usize = 14;

/// A word of a cover.
#[derive(Debug, Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    line: usize,
}

/// A count in the text, with the words that describe it.
#[derive(Debug)]
struct Count<'w, 'a> {
    shares: u64,
    /// Words before the number, from the number before it or the start of the sentence.
    before: &'w [Word<'a>],
    /// The number and its unit.
    number: &'w [Word<'a>],
    /// Words to the next number or the end of the sentence.
    after: &'w [Word<'a>],
    /// All words of the sentence before the number.
    preceding: &'w [Word<'a>],
}

/// Shares outstanding in the order of a page.
pub(super) fn shares_outstanding(page: &FrontPage<'_>) -> Vec<ShareCount> {
    let words: Vec<Word<'_>> = page
        .lines
        .iter()
        .enumerate()
        .flat_map(|(line, text)| text.split_whitespace().map(move |text| Word { text, line }))
        .collect();
    let mut counts: Vec<(u64, ShareCount)> = Vec::new();
    let mut heading: &[Word<'_>] = &[];
    for sentence in sentences(&words) {
        for count in counts_in(sentence) {
            if !is_outstanding(&count, sentence, heading) {
                continue;
            }
            let quote = [count.before, count.number, count.after]
                .concat()
                .iter()
                .map(|word| word.text)
                .collect::<Vec<_>>()
                .join(" ");
            let shares = ShareCount {
                count: page.fact(count.shares.to_string()).with_evidence(&quote),
                class: class_of(&count),
                as_of: date_of(&count).or_else(|| date_in(heading)),
            };
            let repeated = counts.iter().any(|(_, known)| {
                known.count.value == shares.count.value && known.class == shares.class
            });
            if !repeated && counts.len() < MAX_CLASSES {
                counts.push((count.shares, shares));
            }
        }
        if !sentence.is_empty() {
            heading = sentence;
        }
    }
    // A number without a class that is the sum of all others is their total.
    let sum: u64 = counts
        .iter()
        .map(|(shares, _)| shares)
        .fold(0, |a, b| a.saturating_add(*b));
    if counts.len() > 2 {
        counts.retain(|(shares, count)| count.class.is_some() || *shares != sum - *shares);
    }
    counts.into_iter().map(|(_, count)| count).collect()
}

/// The sentences of a page. Lines of a table run on until one ends with a full stop.
fn sentences<'w, 'a>(words: &'w [Word<'a>]) -> Vec<&'w [Word<'a>]> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, word) in words.iter().enumerate() {
        let before = words[start..at].last().map_or("", |word| word.text);
        let next = words.get(at + 1).map_or("", |next| next.text);
        if ends_sentence(before, word.text, next) {
            sentences.push(&words[start..=at]);
            start = at + 1;
        }
    }
    sentences.push(&words[start..]);
    sentences
}

/// The numbers of a sentence that may count shares.
fn counts_in<'w, 'a>(sentence: &'w [Word<'a>]) -> Vec<Count<'w, 'a>> {
    // Amounts end the words before the next number, too.
    let numbers: Vec<(usize, usize, Option<u64>)> = (0..sentence.len())
        .filter_map(|at| {
            let amount =
                sentence[at].text.contains('$') || at > 0 && sentence[at - 1].text.ends_with('$');
            let (shares, length) = number_at(sentence, at)?;
            Some((at, at + length, (!amount).then_some(shares)))
        })
        .collect();
    numbers
        .iter()
        .enumerate()
        .filter_map(|(index, (start, end, shares))| {
            let from = index
                .checked_sub(1)
                .map_or(0, |before| numbers[before].1)
                .max(start.saturating_sub(NEAR));
            let to = numbers.get(index + 1).map_or(sentence.len(), |next| next.0);
            Some(Count {
                shares: (*shares)?,
                before: &sentence[from..*start],
                number: &sentence[*start..*end],
                after: &sentence[*end..to.min(end + NEAR)],
                preceding: &sentence[..*start],
            })
        })
        .collect()
}

/// A number at a word and how many words it takes: `1,234,567`, `550.5 million`, `100 shares`.
fn number_at(words: &[Word<'_>], at: usize) -> Option<(u64, usize)> {
    let word = words[at]
        .text
        .trim_start_matches(['(', '$', ':'])
        .trim_end_matches(['.', ',', ';', ')', ':', '*']);
    let unit = words.get(at + 1).map(|next| normalize_key(next.text));
    let scale = match unit.as_deref() {
        Some("million") => Some(1_000_000),
        Some("billion") => Some(1_000_000_000),
        _ => None,
    };
    if let Some(scale) = scale {
        return Some((scaled(word, scale)?, 2));
    }
    let groups: Vec<&str> = word.split(',').collect();
    let digits = groups
        .iter()
        .all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()));
    let grouped = groups.len() >= 2
        && groups[0].len() <= 3
        && groups[1..].iter().all(|group| group.len() == 3);
    let counted = groups.len() == 1 && matches!(unit.as_deref(), Some("shares" | "units"));
    let sound = digits && !word.starts_with('0') && (grouped || counted);
    sound.then(|| Some((groups.concat().parse().ok()?, 1)))?
}

/// `550.5` million without rounding.
fn scaled(word: &str, scale: u64) -> Option<u64> {
    let (whole, decimals) = word.split_once('.').unwrap_or((word, ""));
    let digits = !whole.is_empty() && decimals.len() <= 6;
    let number: u64 = format!("{}{decimals}", whole.replace(',', ""))
        .parse()
        .ok()
        .filter(|_| digits)?;
    let power = 10u64.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    number.checked_mul(scale / power)
}

fn is_outstanding(count: &Count<'_, '_>, sentence: &[Word<'_>], heading: &[Word<'_>]) -> bool {
    let around = [count.before, count.after].concat();
    let stated =
        has(sentence, &["outstanding"]) || (has(heading, &["outstanding"]) && !has(heading, &HELD));
    let unit = has(&around, &["shares", "stock", "units", "interests"])
        || has(heading, &["shares", "stock"]);
    let nearest = &count.before[count.before.len().saturating_sub(3)..];
    let clause = clause_start(count.before);
    let excluded = has(clause, &HELD)
        || has_pair(clause, "market", "value")
        || has(nearest, &["treasury", "excluding"])
        || nearest.last().is_some_and(|word| {
            ["total", "authorized"].contains(&normalize_key(word.text).as_str())
        })
        || is_part_of_another(count.after);
    stated && unit && !excluded
}

/// The words from the last one that opens a sentence about shares; not every sentence ends with a full stop.
fn clause_start<'w, 'a>(words: &'w [Word<'a>]) -> &'w [Word<'a>] {
    let start = words
        .iter()
        .rposition(|word| CLAUSE_OPENERS.contains(word.text));
    &words[start.unwrap_or(0)..]
}

const HELD: [&str; 2] = ["nonaffiliates", "affiliates"];

/// Whether the words behind a number make it shares held by somebody, in treasury, or authorized.
fn is_part_of_another(after: &[Word<'_>]) -> bool {
    for word in after.iter().take(HELD_WITHIN) {
        match normalize_key(word.text).as_str() {
            "nonaffiliates" | "affiliates" | "treasury" | "authorized" => return true,
            "excluding" | "exclusive" | "net" | "aggregate" | "which" => {
                return false;
            }
            _ if word.text.ends_with(';') => return false,
            _ => {}
        }
    }
    false
}

fn has(words: &[Word<'_>], keys: &[&str]) -> bool {
    words
        .iter()
        .any(|word| keys.contains(&normalize_key(word.text).as_str()))
}

fn has_pair(words: &[Word<'_>], first: &str, second: &str) -> bool {
    words
        .windows(2)
        .any(|pair| normalize_key(pair[0].text) == first && normalize_key(pair[1].text) == second)
}

/// The class of a count, as printed: `common stock`, `Class A common stock`.
// `5,000 shares of Class A common stock` and `5,000 ordinary shares` name the class behind the number, tables and
// `shares of common stock outstanding: 5,000` before it.
fn class_of(count: &Count<'_, '_>) -> Option<String> {
    let behind = count.after;
    let shares_of = behind
        .first()
        .is_some_and(|word| matches!(normalize_key(word.text).as_str(), "shares" | "units"));
    let last_line = count.number.last().map(|word| word.line);
    let ends_line = behind.first().map(|word| word.line) != last_line;
    let on_line = count
        .before
        .iter()
        .rposition(|word| Some(word.line) != last_line)
        .map_or(0, |at| at + 1);
    let in_row = class_in(&count.before[on_line..], true).filter(|_| ends_line);
    if let Some((class, _, _)) = in_row {
        return Some(class);
    }
    let named_behind = class_in(behind, false).filter(|(_, start, _)| {
        *start == 0
            || shares_of
                && behind[..*start].iter().all(|word| {
                    let key = normalize_key(word.text);
                    let possessive = word.text.ends_with(['’', '\'']) || key.ends_with('s');
                    possessive
                        || [
                            "of",
                            "the",
                            "its",
                            "our",
                            "issued",
                            "and",
                            "outstanding",
                            "par",
                            "value",
                        ]
                        .contains(&key.as_str())
                })
    });
    named_behind
        .or_else(|| class_in(count.before, true))
        .map(|(class, _, _)| class)
}

/// The first or last name of a class among the words, with its first word and the index after its last.
fn class_in(words: &[Word<'_>], last: bool) -> Option<(String, usize, usize)> {
    let mut found = None;
    let mut at = 0;
    while at < words.len() {
        if let Some(end) = class_at(words, at) {
            let name: Vec<&str> = words[at..end].iter().map(|word| word.text).collect();
            let name = name.join(" ");
            let name = name.trim_matches(|c: char| !c.is_alphanumeric());
            found = Some((name.to_owned(), at, end));
            if !last {
                return found;
            }
            at = end;
        } else {
            at += 1;
        }
    }
    found
}

/// The end of the name of a class that begins at a word: `Class A`, `Series B`, kinds of stock, and the noun.
fn class_at(words: &[Word<'_>], at: usize) -> Option<usize> {
    let key = |at: usize| {
        words
            .get(at)
            .map(|word| normalize_key(word.text))
            .unwrap_or_default()
    };
    let is_series = |at: usize| {
        let letter = key(at + 1);
        let short = !letter.is_empty() && letter.len() <= 2;
        matches!(key(at).as_str(), "class" | "series") && short
    };
    let mut end = at;
    let series = is_series(end);
    if series {
        end += 2;
    }
    let kinds = end;
    while SHARE_KINDS.contains(key(end).as_str()) {
        end += 1;
    }
    if !SHARE_NOUNS.contains(key(end).as_str()) || (end == kinds && !series) {
        // `Class A 5,000,000`
        return (series && end == kinds).then_some(end);
    }
    end += 1;
    // `Common Stock, Class A`
    let comma = words[end - 1].text.ends_with(',');
    if !series && comma && is_series(end) {
        end += 2;
    }
    Some(end)
}

/// The date of a count: behind it, unless one stands before it; else the last one before it in the sentence.
fn date_of(count: &Count<'_, '_>) -> Option<String> {
    last_date(count.before)
        .or_else(|| date_in(count.after))
        .or_else(|| last_date(count.preceding))
}

fn date_in(words: &[Word<'_>]) -> Option<String> {
    let texts: Vec<&str> = words.iter().map(|word| word.text).collect();
    dates::find_first(&texts).map(|(date, _, _)| date.to_iso())
}

fn last_date(words: &[Word<'_>]) -> Option<String> {
    let texts: Vec<&str> = words.iter().map(|word| word.text).collect();
    (0..texts.len())
        .rev()
        .find_map(|at| dates::date_at(&texts, at))
        .map(|(date, _)| date.to_iso())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::paged;
    use super::super::front_page::front_pages;
    use super::*;

    fn render(text: &str) -> Vec<String> {
        let source = paged(&[text]);
        let pages = front_pages(&source);
        shares_outstanding(&pages[0])
            .into_iter()
            .map(|shares| {
                let class = shares.class.unwrap_or_else(|| "-".into());
                let date = shares.as_of.unwrap_or_else(|| "-".into());
                format!("{} {class} {date}", shares.count.value)
            })
            .collect()
    }

    #[test]
    fn share_counts_have_class_and_date() {
        let cases: [(&str, &[&str]); 14] = [
            (
                "As of March 15, 2023, the registrant had 218,000,737 shares of its common stock, $0.10 par value per share,\nissued and outstanding.",
                &["218000737 common stock 2023-03-15"],
            ),
            (
                "As of February 2, 2023, there were 744,000,702 common shares\nof the registrant outstanding.",
                &["744000702 common shares 2023-02-02"],
            ),
            (
                "Shares of common stock outstanding at January 31, 2023: 550.5 million.",
                &["550500000 common stock 2023-01-31"],
            ),
            (
                "As of August 20, 2021, the Registrant had 1,538,000,792 shares issued and outstanding.",
                &["1538000792 - 2021-08-20"],
            ),
            (
                "Indicate the number of shares outstanding of each of the issuer’s classes of common stock.\nClass Outstanding as of July 24, 2023\n\
                 Anvil’s Common Stock, $0.50 par value per share 852,000,921 shares",
                &["852000921 Common Stock 2023-07-24"],
            ),
            (
                "Class Outstanding at October 20, 2023\nClass A Common Stock, $.01 par value 5,000,001\nClass B Common Stock, $.01 par value 300,000,002\n\
                 Total 305,000,003",
                &[
                    "5000001 Class A Common Stock 2023-10-20",
                    "300000002 Class B Common Stock 2023-10-20",
                ],
            ),
            (
                "As of May 1, 2023, there were 5,000,001 shares of Class A common stock and 600,002 shares of Class B common stock outstanding.",
                &[
                    "5000001 Class A common stock 2023-05-01",
                    "600002 Class B common stock 2023-05-01",
                ],
            ),
            (
                "The aggregate market value of the 45,000,901 shares of common stock held by non-affiliates was $1,000,000,000.\n\
                 At June 1, 2023, 50,000,000 shares of common stock were outstanding, excluding 7,000,000 shares held in treasury.",
                &["50000000 common stock 2023-06-01"],
            ),
            (
                "The aggregate market value of common stock, computed by reference to 70,000,000 shares outstanding, was $5,000,000,000.",
                &[],
            ),
            (
                "All of the registrant’s 1,000 shares of common stock outstanding at June 1, 2023 are held by its parent.",
                &["1000 common stock 2023-06-01"],
            ),
            (
                "Rules 13a-15 apply to 45,000,901 shares of common stock.",
                &[],
            ),
            (
                "There were a total of 5,000,000 shares authorized, and 4,000,000 common shares outstanding (exclusive of\n\
                 treasury shares) on May 1, 2023.",
                &["4000000 common shares 2023-05-01"],
            ),
            (
                "At May 1, 2023 there were 4,000,000 shares outstanding and the aggregate market value of shares held by\n\
                 nonaffiliates was $5.10 each.",
                &["4000000 - 2023-05-01"],
            ),
            (
                "Number of shares of common stock outstanding as of March 31, 2021: 3,027,000,112\nFORM 10-Q",
                &["3027000112 common stock 2021-03-31"],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(render(text), expected, "{text}");
        }
    }
}

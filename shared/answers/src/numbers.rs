//! Parses numbers as filings write them (value, scale, sign, unit), and checks whether a quote supports a number of a claim.

use std::ops::{Range, RangeInclusive};

use rust_decimal::Decimal;

use stemma_document::english_words::{self, MONTHS, NUMBER_WORDS};

use stemma_retrieval::tokenizer::is_stop_word;

#[derive(Debug, Clone, PartialEq)]
pub struct NumberMention {
    /// As written: `$1.7 billion`.
    pub text: String,
    /// Digits only: `1.7`.
    pub digits: String,
    /// Byte range of the digits, or of the word, in the text.
    pub at: Range<usize>,
    // Without scale; never negative.
    value: f64,
    // Digits after the decimal point.
    decimals: i32,
    // A scale word beside the number, such as million.
    scale: Option<f64>,
    // Written as negative: `(5)`, `-5`.
    is_negative: bool,
    is_percent: bool,
    // A sign or a word beside the number.
    currency: Option<Currency>,
    // Counts the things named after it: `31 stores`.
    is_count: bool,
    pub role: NumberRole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberRole {
    /// A measured figure.
    Amount,
    /// A count written as a word or tied to one: `three`, `5-year`. Neither money nor a share.
    Count,
    Year,
    /// A name: a day, a note, an Item, an ordinal.
    Name,
}

/// A currency, as far as signs tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Currency {
    Dollar,
    Euro,
    Pound,
    // Yen and yuan have one sign.
    Yen,
}

const CURRENCIES: [(&str, Currency); 17] = [
    ("$", Currency::Dollar),
    ("dollar", Currency::Dollar),
    ("dollars", Currency::Dollar),
    ("usd", Currency::Dollar),
    ("€", Currency::Euro),
    ("euro", Currency::Euro),
    ("euros", Currency::Euro),
    ("eur", Currency::Euro),
    ("£", Currency::Pound),
    ("pounds", Currency::Pound),
    ("sterling", Currency::Pound),
    ("gbp", Currency::Pound),
    ("¥", Currency::Yen),
    ("yen", Currency::Yen),
    ("jpy", Currency::Yen),
    ("rmb", Currency::Yen),
    ("yuan", Currency::Yen),
];

impl Currency {
    fn from_word(word: &str) -> Option<Self> {
        let known = CURRENCIES.iter().find(|(name, _)| *name == word);
        known.map(|(_, currency)| *currency)
    }

    /// The currencies that a text names: of those beside a declared scale (`in millions of euros`) alone, if there are any.
    pub(super) fn all_in(text: &str) -> Vec<Self> {
        let lower = text.to_lowercase();
        let declared = lower.lines().filter(|line| !scales(line).is_empty());
        let declared: Vec<Self> = declared.flat_map(Self::named_in).collect();
        match declared.is_empty() {
            true => Self::named_in(&lower),
            false => declared,
        }
    }

    fn named_in(lower: &str) -> Vec<Self> {
        let signs = lower
            .chars()
            .filter_map(|c| Self::from_word(c.encode_utf8(&mut [0; 4])));
        let words = lower.split(|c: char| !c.is_alphanumeric());
        signs.chain(words.filter_map(Self::from_word)).collect()
    }
}

/// A number that another is above or below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    Over,
    AtLeast,
    Under,
    AtMost,
}

// The longest first: `no more than` ends with `more than`.
const BOUNDS: [(&str, Bound); 16] = [
    ("not more than", Bound::AtMost),
    ("not less than", Bound::AtLeast),
    ("no more than", Bound::AtMost),
    ("no less than", Bound::AtLeast),
    ("greater than", Bound::Over),
    ("in excess of", Bound::Over),
    ("fewer than", Bound::Under),
    ("more than", Bound::Over),
    ("less than", Bound::Under),
    ("exceeding", Bound::Over),
    ("exceeded", Bound::Over),
    ("at least", Bound::AtLeast),
    ("at most", Bound::AtMost),
    ("up to", Bound::AtMost),
    ("above", Bound::Over),
    ("over", Bound::Over),
];

impl Bound {
    /// What the words before a number make of it.
    pub(super) fn before(text: &str, number: &NumberMention) -> Option<Self> {
        bound_words(text, number).map(|(bound, _)| bound)
    }

    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Over => value > limit,
            Self::AtLeast => value >= limit,
            Self::Under => value < limit,
            Self::AtMost => value <= limit,
        }
    }
}

/// The numbers of a quote, and what its page says about them.
#[derive(Debug, Clone, Default)]
pub struct QuotedNumbers {
    numbers: Vec<NumberMention>,
    // Scales that the page declares: `(in millions)`.
    scales: Vec<f64>,
    mentions_percent: bool,
    money: Money,
    // A sentence, not a cell.
    is_prose: bool,
}

/// What a page says about money.
#[derive(Debug, Clone, Default)]
pub(super) struct Money {
    pub(super) is_mentioned: bool,
    currencies: Vec<Currency>,
}

impl Money {
    pub(super) fn new(page: &str) -> Self {
        Self {
            is_mentioned: !scales(page).is_empty() || contains_any(&page.to_lowercase(), &MONEY),
            currencies: Currency::all_in(page),
        }
    }

    /// Whether a number of the page may be of a currency.
    pub(super) fn allows(&self, currency: Option<Currency>, number: &NumberMention) -> bool {
        match (currency, number.currency) {
            (Some(one), Some(other)) => one == other,
            (Some(one), None) => self.currencies.is_empty() || self.currencies.contains(&one),
            (None, _) => true,
        }
    }
}

impl QuotedNumbers {
    pub fn new(quote: &str, page: &str) -> Self {
        let quote_lower = quote.to_lowercase();
        let scales = scales(page);
        let mut money = Money::new(page);
        money.is_mentioned |= contains_any(&quote_lower, &MONEY);
        Self {
            numbers: numbers(quote),
            scales,
            mentions_percent: contains_any(&quote_lower, &["%", "percent"]),
            money,
            is_prose: true,
        }
    }
}

// The bound that a number is, and the bytes of its words.
fn bound_words(text: &str, number: &NumberMention) -> Option<(Bound, Range<usize>)> {
    let before = text.get(..number.at.start)?;
    let before = before.trim_end_matches(|c: char| "$€£¥(".contains(c) || c.is_whitespace());
    BOUNDS.iter().find_map(|(words, bound)| {
        let start = before.len().checked_sub(words.len())?;
        let found = before.get(start..)?.eq_ignore_ascii_case(words);
        let is_word = !before[..start].ends_with(char::is_alphanumeric);
        (found && is_word).then_some((*bound, start..before.len()))
    })
}

/// A text without the words that make bounds of its numbers: `no more than` denies nothing.
pub(super) fn without_bounds(text: &str) -> String {
    let mut plain = text.to_owned();
    for (_, at) in numbers(text)
        .iter()
        .filter_map(|number| bound_words(text, number))
    {
        plain.replace_range(at.clone(), &" ".repeat(at.len()));
    }
    plain
}

// No filing prints more digits after the point. A reply is untrusted input: half a unit of its last digit must be a decimal.
const MAX_DECIMALS: u32 = 12;

const MONEY: [&str; 8] = ["$", "€", "£", "¥", "dollar", "euro", "usd", "rmb"];
// Words after a number that may name what it counts.
const COUNTED_WORDS: usize = 3;

const SCALES: [(&str, f64); 12] = [
    ("thousand", 1e3),
    ("thousands", 1e3),
    ("million", 1e6),
    ("millions", 1e6),
    ("mn", 1e6),
    ("mm", 1e6),
    ("m", 1e6),
    ("billion", 1e9),
    ("billions", 1e9),
    ("bn", 1e9),
    ("b", 1e9),
    ("trillion", 1e12),
];

// Words before a number that make it a label.
const LABELS: [&str; 21] = [
    "item", "items", "note", "notes", "page", "pages", "part", "exhibit", "section", "form",
    "table", "figure", "quarter", "chapter", "number", "no", "rule", "topic", "level", "tier",
    "phase",
];

// Number words that are parsed. `one` is left out: it is mostly a pronoun.
const SPELLED: RangeInclusive<u32> = 2..=20;

// When a claim has one of these, a number written as negative cannot support it ...
const GAINS: [&str; 12] = [
    "income",
    "profit",
    "profits",
    "earnings",
    "gain",
    "gains",
    "increase",
    "increased",
    "rose",
    "grew",
    "growth",
    "inflow",
];
// ... unless the claim also has one of these.
const LOSSES: [&str; 14] = [
    "loss",
    "losses",
    "decrease",
    "decreased",
    "declined",
    "decline",
    "fell",
    "negative",
    "outflow",
    "used",
    "expense",
    "lower",
    "less",
    "down",
];

/// The numbers of a text, in order. Parts of names (`3M`, `10-K`, `Q2`, `F-12`) are skipped.
pub fn numbers(text: &str) -> Vec<NumberMention> {
    let chars: Vec<char> = text.chars().map(plain_char).collect();
    let mut numbers = numbers_in(&chars);
    let bytes: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(text.len());
    for number in &mut numbers {
        number.at = byte(number.at.start)..byte(number.at.end);
    }
    numbers
}

// Their places are those of characters.
fn numbers_in(chars: &[char]) -> Vec<NumberMention> {
    let mut numbers = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        if chars[at].is_ascii_digit() {
            let end = digits_end(chars, at);
            let (number, next) = parse_number(chars, at, end);
            numbers.extend(number);
            at = next;
        } else if chars[at].is_alphanumeric() {
            let end = run_end(chars, at);
            numbers.extend(spelled_number(&chars[at..end]).map(|number| NumberMention {
                at: at..end,
                ..number
            }));
            at = end;
        } else {
            at += 1;
        }
    }
    numbers
}

/// The scales that a page declares for its numbers: `(in millions)`.
pub fn scales(page: &str) -> Vec<f64> {
    let lower = page.to_lowercase();
    [("thousands", 1e3), ("millions", 1e6), ("billions", 1e9)]
        .into_iter()
        .filter(|(word, _)| declares_scale(&lower, word))
        .map(|(_, scale)| scale)
        .collect()
}

fn contains_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

fn declares_scale(lower: &str, word: &str) -> bool {
    [
        format!("in {word}"),
        format!("({word}"),
        format!("$ {word}"),
        format!("{word} of dollars"),
        format!("{word}, except"),
    ]
    .iter()
    .any(|form| lower.contains(form.as_str()))
}

/// Whether a claim speaks of a gain, which a number written as negative cannot support.
pub fn mentions_gain(claim: &str) -> bool {
    let words: Vec<String> = claim
        .split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .collect();
    words.iter().any(|word| GAINS.contains(&word.as_str()))
        && !words.iter().any(|word| LOSSES.contains(&word.as_str()))
}

impl NumberMention {
    /// The value without scale, with its sign; `None` when it has more digits than a decimal can hold, or more places than
    /// [`MAX_DECIMALS`].
    pub(super) fn signed_value(&self) -> Option<Decimal> {
        (self.decimals() <= MAX_DECIMALS).then_some(())?;
        let value: Decimal = self.digits.replace(',', "").parse().ok()?;
        Some(if self.is_negative { -value } else { value })
    }

    /// Digits after the decimal point.
    pub(super) fn decimals(&self) -> u32 {
        self.decimals.unsigned_abs()
    }

    /// The scale word beside the number, as a factor.
    pub(super) fn own_scale(&self) -> Option<f64> {
        self.scale
    }

    pub(super) fn is_negative(&self) -> bool {
        self.is_negative
    }

    pub(super) fn is_percent(&self) -> bool {
        self.is_percent
    }

    pub(super) fn currency(&self) -> Option<Currency> {
        self.currency
    }

    /// Reads the number as a cell whose label and column head are `words` (lower case): a percentage column prints no sign.
    pub(super) fn read_as_cell(&mut self, words: &str) {
        self.is_percent |= self.currency.is_none() && contains_any(words, &["%", "percent"]);
        // A number alone in its cell is an amount, also where it looks like a year.
        self.role = NumberRole::Amount;
    }

    /// Whether the number of a cell supports this number of a claim, by the rules of [`NumberMention::is_supported_by`].
    pub(super) fn is_supported_by_cell(
        &self,
        cell: &NumberMention,
        scales: &[f64],
        money: &Money,
    ) -> bool {
        let quoted = QuotedNumbers {
            numbers: vec![cell.clone()],
            scales: scales.to_vec(),
            mentions_percent: cell.is_percent,
            money: money.clone(),
            is_prose: false,
        };
        self.is_supported_by(&quoted, false)
    }

    /// Whether the number of a cell keeps to this number as a bound: `more than $5 billion`. Nothing is rounded, and outflows count by their
    /// amount.
    pub(super) fn is_bound_of_cell(
        &self,
        bound: Bound,
        cell: &NumberMention,
        scales: &[f64],
        money: &Money,
    ) -> bool {
        let quoted = QuotedNumbers {
            numbers: Vec::new(),
            scales: scales.to_vec(),
            mentions_percent: cell.is_percent,
            money: money.clone(),
            is_prose: false,
        };
        let limit = self.value * self.scale.unwrap_or(1.0);
        let scales = self.scales_of(cell, scales, false);
        self.has_same_kind(cell, &quoted)
            && !scales.is_empty()
            && scales
                .iter()
                .all(|scale| bound.holds(cell.value * scale, limit))
    }

    // Scales that the number of a page may have beside this one.
    fn scales_of(&self, cited: &NumberMention, declared: &[f64], is_prose: bool) -> Vec<f64> {
        let bare = cited.scale.is_none() && !cited.is_percent;
        // A sentence prints dollars and cents as they are: `a dividend of $1.20`.
        let has_cents = is_prose && cited.currency.is_some() && cited.decimals == 2;
        // In a table declared in millions, money is in millions. The declared scales of an amount per share are empty.
        let scaled_only = bare && !declared.is_empty() && self.currency.is_some() && !has_cents;
        let as_written = Some(cited.scale.unwrap_or(1.0)).filter(|_| !scaled_only);
        let declared = declared
            .iter()
            .copied()
            .filter(|_| bare && !self.is_percent);
        as_written.into_iter().chain(declared).collect()
    }

    /// Whether the number is a year or a name, not a quantity.
    pub fn is_label(&self) -> bool {
        matches!(self.role, NumberRole::Year | NumberRole::Name)
    }

    /// Whether one of the quoted numbers supports this number of a claim. A claim may round, and may drop the sign unless it speaks
    /// of a gain (`gain`); it may not drop the scale of money. The kinds must be compatible: no year, day or note for an
    /// amount, no count of other things, no money for a share.
    pub fn is_supported_by(&self, quoted: &QuotedNumbers, gain: bool) -> bool {
        quoted
            .numbers
            .iter()
            .any(|other| self.has_same_kind(other, quoted) && self.equals(other, quoted, gain))
    }

    fn has_same_kind(&self, cited: &NumberMention, quoted: &QuotedNumbers) -> bool {
        let measures =
            self.is_percent || self.currency.is_some() || self.scale.is_some() || self.decimals > 0;
        let fits = match cited.role {
            NumberRole::Amount => true,
            NumberRole::Count => !measures,
            NumberRole::Year | NumberRole::Name => false,
        };
        let bare = cited.currency.is_none() && !cited.is_percent;
        let share = cited.is_percent
            || (bare && cited.scale.is_none() && !cited.is_count && quoted.mentions_percent);
        let money =
            cited.currency.is_some() || (bare && !cited.is_count && quoted.money.is_mentioned);
        fits && (!self.is_percent || share)
            && (self.currency.is_none() || money)
            && quoted.money.allows(self.currency, cited)
            && !(cited.is_percent && (self.scale.is_some() || self.is_count) && !self.is_percent)
            && !(cited.currency.is_some() && self.is_count && self.currency.is_none())
    }

    fn equals(&self, cited: &NumberMention, quoted: &QuotedNumbers, gain: bool) -> bool {
        let signs_differ = (self.is_negative && !cited.is_negative)
            || (gain && cited.is_negative && !self.is_negative);
        if signs_differ {
            return false;
        }
        let exponent = 10_f64.powi(-self.decimals);
        let value = self.value * self.scale.unwrap_or(1.0);
        let unit = exponent * self.scale.unwrap_or(1.0);
        let scales = self.scales_of(cited, &quoted.scales, quoted.is_prose);
        scales.into_iter().any(|scale| {
            let theirs = cited.value * scale;
            let step = 10_f64.powi(-cited.decimals) * scale;
            // A number with fewer digits is rounded; half a unit of its last digit is allowed.
            let slack = if unit > step { unit * 0.5 } else { 0.0 };
            (value - theirs).abs() <= slack + value.abs() * 1e-9
        })
    }

    /// The digits, and the word where there is one: a label may be spelled out.
    pub fn spellings(&self) -> Vec<String> {
        let word = SPELLED
            .zip(&NUMBER_WORDS[1..])
            .find(|(value, _)| f64::from(*value) == self.value);
        let word = word.map(|(_, word)| (*word).to_owned());
        std::iter::once(self.digits.clone()).chain(word).collect()
    }
}

fn plain_char(c: char) -> char {
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{A0}' | '\u{202F}' | '\u{2009}' => ' ',
        '０'..='９' => char::from_digit(c as u32 - '０' as u32, 10).unwrap_or(c),
        c => c,
    }
}

fn run_end(chars: &[char], start: usize) -> usize {
    chars[start..]
        .iter()
        .position(|c| !c.is_alphanumeric())
        .map_or(chars.len(), |length| start + length)
}

fn is_digit(chars: &[char], at: usize) -> bool {
    chars.get(at).is_some_and(char::is_ascii_digit)
}

// The end of the digits, with groups of thousands and a decimal point.
fn digits_end(chars: &[char], start: usize) -> usize {
    let mut end = start;
    while is_digit(chars, end) {
        end += 1;
    }
    while chars.get(end) == Some(&',')
        && is_digit(chars, end + 1)
        && is_digit(chars, end + 2)
        && is_digit(chars, end + 3)
        && !is_digit(chars, end + 4)
    {
        end += 4;
    }
    if chars.get(end) == Some(&'.') && is_digit(chars, end + 1) {
        end += 1;
        while is_digit(chars, end) {
            end += 1;
        }
    }
    end
}

// The number whose digits are `start..end`, unless it is part of a name; and the index to continue at.
fn parse_number(chars: &[char], start: usize, end: usize) -> (Option<NumberMention>, usize) {
    // `F-12`, `Q-2`; a dash between numbers does not count.
    let named_before = matches!(&chars[..start], [.., letter, '-'] if letter.is_alphabetic());
    let suffix_end = run_end(chars, end);
    let suffix: String = chars[end..suffix_end]
        .iter()
        .collect::<String>()
        .to_lowercase();
    let currency_at = currency_start(chars, start);
    let glued = SCALES
        .iter()
        .find(|(word, _)| *word == suffix)
        .map(|(_, scale)| *scale);
    let scale = match suffix.as_str() {
        "" => None,
        "x" | "th" | "st" | "nd" | "rd" | "s" => None,
        _ if glued.is_some() && (currency_at.is_some() || suffix.len() > 1) => glued,
        // `3M`, `10K`.
        _ => return (None, suffix_end),
    };
    // `10-K`, `8-K`.
    let form = chars.get(end) == Some(&'-')
        && chars.get(end + 1).is_some_and(char::is_ascii_alphabetic)
        && !chars.get(end + 2).is_some_and(|c| c.is_alphanumeric());
    if named_before || form {
        return (None, suffix_end);
    }
    let digits: String = chars[start..end].iter().collect();
    let Ok(value) = digits.replace(',', "").parse::<f64>() else {
        return (None, suffix_end);
    };
    let (word, word_end) = next_word(chars, suffix_end);
    let spelled_scale = SCALES
        .iter()
        .find(|(name, _)| *name == word && word.len() > 2)
        .map(|(_, scale)| *scale);
    // `5%`, `5 %`, `(5)%`.
    let rest: String = chars[suffix_end..].iter().take(3).collect();
    let rest = rest.trim_start_matches([' ', ')']);
    let percent = rest.starts_with('%') || word == "percent" || word == "percentage";
    let sign_at = currency_at.unwrap_or(start);
    let sign = sign_at.checked_sub(1).map(|at| chars[at]);
    let dashed = sign == Some('-')
        && !sign_at
            .checked_sub(2)
            .is_some_and(|at| chars[at].is_alphanumeric());
    let closes = chars[suffix_end..]
        .iter()
        .find(|c| !c.is_whitespace() && **c != '%')
        == Some(&')');
    let scale = scale.or(spelled_scale);
    let decimals = digits
        .split_once('.')
        .map_or(0, |(_, places)| i32::try_from(places.len()).unwrap_or(0));
    let measured =
        percent || scale.is_some() || currency_at.is_some() || digits.contains([',', '.']);
    let ordinal = matches!(suffix.as_str(), "th" | "st" | "nd" | "rd" | "s");
    let year = digits.len() == 4 && (1900.0..2100.0).contains(&value);
    let until = if spelled_scale.is_some() {
        word_end
    } else {
        suffix_end
    };
    let before_word = previous_word(chars, start);
    let by_sign =
        currency_at.and_then(|at| Currency::from_word(chars[at].encode_utf8(&mut [0; 4])));
    let currency = by_sign
        .or_else(|| Currency::from_word(&next_word(chars, until).0))
        .or_else(|| Currency::from_word(&before_word));
    // `Receivables(1)`: the mark of a footnote.
    let is_mark = digits.len() <= 2
        && matches!(&chars[..start], [.., before, '('] if before.is_alphabetic() || *before == ')')
        && chars.get(end) == Some(&')');
    let role = match () {
        () if is_mark => NumberRole::Name,
        () if measured || currency.is_some() => NumberRole::Amount,
        () if year => NumberRole::Year,
        // `December 31`, `31 December`, `12/31`.
        () if ordinal || is_label(&before_word) || MONTHS.contains(&word.as_str()) => {
            NumberRole::Name
        }
        () if chars[..start].ends_with(&['/']) || chars[end..].starts_with(&['/']) => {
            NumberRole::Name
        }
        () if chars.get(end) == Some(&'-') => NumberRole::Count,
        () => NumberRole::Amount,
    };
    let things = currency.is_none() && !percent && counts_things(chars, until);
    let text: String = chars[sign_at..until].iter().collect();
    let negative = dashed || (sign == Some('(') && closes);
    (
        Some(NumberMention {
            text,
            digits,
            at: start..end,
            value,
            decimals,
            scale,
            is_negative: negative,
            is_percent: percent,
            currency,
            is_count: things,
            role,
        }),
        until,
    )
}

// Whether the words after a number name things in the plural: `31 stores`, `92,000 full-time employees`. In a table, a number is
// followed by another number or a label, in a sentence by a stop word.
fn counts_things(chars: &[char], at: usize) -> bool {
    let mut at = at;
    for _ in 0..COUNTED_WORDS {
        let (word, end) = next_word(chars, at);
        let begins = end - word.chars().count().min(end);
        let lower = chars[begins..end].iter().all(|c| c.is_lowercase());
        if word.is_empty()
            || !lower
            || is_stop_word(&word)
            || word == "compared"
            || word == "versus"
        {
            return false;
        }
        let plural =
            word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us");
        if plural || word == "people" {
            return true;
        }
        at = end;
    }
    false
}

// The index of a currency sign before a number, with or without a space.
fn currency_start(chars: &[char], start: usize) -> Option<usize> {
    let before = start.checked_sub(1)?;
    let at = match chars[before] {
        ' ' => before.checked_sub(1)?,
        _ => before,
    };
    matches!(chars[at], '$' | '€' | '£' | '¥').then_some(at)
}

// The word after `at` and one space or hyphen, in lower case, and its end.
fn next_word(chars: &[char], at: usize) -> (String, usize) {
    let start = if matches!(chars.get(at), Some(' ' | '-')) {
        at + 1
    } else {
        at
    };
    let end = run_end(chars, start.min(chars.len()));
    (
        chars[start.min(end)..end]
            .iter()
            .collect::<String>()
            .to_lowercase(),
        end,
    )
}

fn previous_word(chars: &[char], at: usize) -> String {
    let trimmed = chars[..at]
        .iter()
        .rposition(|c| !matches!(c, ' ' | '.'))
        .map_or(0, |last| last + 1);
    let start = chars[..trimmed]
        .iter()
        .rposition(|c| !c.is_alphabetic())
        .map_or(0, |before| before + 1);
    chars[start..trimmed]
        .iter()
        .collect::<String>()
        .to_lowercase()
}

fn is_label(word: &str) -> bool {
    LABELS.contains(&word) || MONTHS.contains(&word)
}

fn spelled_number(word: &[char]) -> Option<NumberMention> {
    let text: String = word.iter().collect();
    let value = english_words::parse_number_word(&text).filter(|value| SPELLED.contains(value))?;
    Some(NumberMention {
        digits: value.to_string(),
        at: 0..0,
        text,
        value: f64::from(value),
        decimals: 0,
        scale: None,
        is_negative: false,
        is_percent: false,
        currency: None,
        is_count: false,
        role: NumberRole::Count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_number(text: &str) -> Vec<String> {
        numbers(text)
            .iter()
            .map(|number: &NumberMention| {
                format!(
                    "{}{}",
                    number.text,
                    if number.role == NumberRole::Amount {
                        ""
                    } else {
                        "?"
                    }
                )
            })
            .collect()
    }

    #[test]
    fn numbers_are_distinguished_from_labels() {
        assert_eq!(
            parse_number("3M's 10-K for 2022, Q2, F-12 and R2D2"),
            ["2022?"]
        );
        assert_eq!(
            parse_number("$1,749 million, 5.1%, (23), -4 and 2.5x"),
            ["$1,749 million", "5.1", "23", "4", "2.5x"]
        );
        assert_eq!(
            parse_number("Note 15, Item 7, December 31, three of 12 sites"),
            ["15?", "7?", "31?", "three?", "12"]
        );
        assert_eq!(
            parse_number("$3M or US$ 4bn in 1,2345"),
            ["$3M", "$ 4bn", "1", "2345"]
        );
        assert_eq!(
            parse_number("a 5-year plan for the 1990s"),
            ["5?", "1990s?"]
        );
        assert_eq!(
            parse_number("Receivables(1) of $5, SG&A(a)(2), loss (3)"),
            ["1?", "$5", "2?", "3"]
        );
    }

    fn supported(claim: &str, cited: &str, page: &str) -> bool {
        let claimed = numbers(claim);
        let quoted = QuotedNumbers::new(cited, page);
        let gain = mentions_gain(claim);
        assert!(!claimed.is_empty(), "{claim}");
        claimed
            .iter()
            .filter(|number| !number.is_label())
            .all(|number| number.is_supported_by(&quoted, gain))
    }

    #[test]
    fn scale_sign_and_unit_must_match() {
        let millions = "(Dollars in millions, except per share amounts)";
        for (claim, cited, page, expected) in [
            ("Capex was $1,749 million.", "(1,749)", millions, true),
            ("Capex was $1.7 billion.", "(1,749)", millions, true),
            ("Capex was $1.8 billion.", "(1,749)", millions, false),
            ("Capex was $1,749,000,000.", "(1,749)", millions, true),
            ("Capex was $1,749.", "(1,749)", millions, false),
            ("Capex was $1,749 billion.", "(1,749)", millions, false),
            (
                "Capex was $1,749 million.",
                "(1,749)",
                "no unit here",
                false,
            ),
            (
                "Capex was $1,749 million.",
                "capex of $1,749 million",
                "",
                true,
            ),
            ("EPS was $10.18.", "$10.18", millions, true),
            ("EPS was $10.18.", "10.18", millions, false),
            ("EPS was €10.18.", "$10.18", millions, false),
            ("Net income was $5 million.", "(5)", millions, false),
            ("The net loss was $5 million.", "(5)", millions, true),
            ("The result was -5.", "5", "", false),
            ("The result was -5.", "(5)", "", true),
            ("Sales rose 5%.", "5.1 %", "", true),
            ("Sales rose 5.2%.", "5.1 %", "", false),
            ("Sales rose 5%.", "$5", "", false),
            ("It has 92,000 employees.", "92,000", millions, true),
            ("It has 92,000 employees.", "92,100", "", false),
            // A year, a day, a note and a count are not amounts.
            (
                "Revenues were $2,022 million.",
                "December 31, 2022",
                millions,
                false,
            ),
            ("Revenues were $31 million.", "December 31", millions, false),
            (
                "Revenues were $31,000,000.",
                "31 December 2022",
                millions,
                false,
            ),
            ("Revenues were $12 million.", "12/31/2022", millions, false),
            ("Revenues grew 31%.", "December 31, up 5%", millions, false),
            ("Revenues were $15 million.", "see Note 15", millions, false),
            ("Revenues grew 31%.", "31 stores, up 5%", millions, false),
            ("Revenues grew 31%.", "Stores 31 28", millions, false),
            ("Revenues grew 31%.", "Change % 31 28", millions, true),
            (
                "Revenues were $31 million.",
                "we opened 31 new stores",
                millions,
                false,
            ),
            (
                "Revenues were $50 million.",
                "50 million shares",
                millions,
                false,
            ),
            ("It has 50 million shares.", "$50 million", millions, false),
            ("It opened 31 stores.", "31 %", "", false),
            (
                "Revenues were $3 million.",
                "three segments",
                millions,
                false,
            ),
            (
                "Revenues were $5 million.",
                "a 5-year plan",
                millions,
                false,
            ),
            ("It has three segments.", "3 segments", "", true),
            ("It has 3 segments.", "three segments", "", true),
            ("It has three segments.", "four segments", "", false),
            ("It cost $5.", "5", "no unit here", false),
            ("It cost 5 million dollars.", "$5 million", "", true),
        ] {
            assert_eq!(
                supported(claim, cited, page),
                expected,
                "{claim} / {cited} / {page}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,80}") {
            numbers(&text);
            scales(&text);
        }

        #[test]
        fn a_different_number_is_not_supported(value in 1_000u32..900_000, more in 1u32..5_000) {
            let grouped = |n: u32| format!("{},{:03}", n / 1_000, n % 1_000);
            let claim = format!("It was {}.", grouped(value));
            proptest::prop_assert!(supported(&claim, &grouped(value), ""));
            proptest::prop_assert!(!supported(&claim, &grouped(value + more), ""));
        }
    }
}

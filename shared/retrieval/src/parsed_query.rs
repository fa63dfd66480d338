//! Parses a query: weighted terms, synonyms, likely statements, and the years, quarter, form and Item it names.

use std::collections::BTreeMap;

use stemma_reading::dates::QueryPeriod;
use stemma_reading::figures::FigureQuery;
use stemma_reading::statement_pages::StatementKind;
use stemma_reading::tokenizer::{content_words, is_stop_word, tokenize};
use stemma_reading::vocabulary::QUERIED_FORMS;

use crate::instructions::strip_instructions;
use crate::lexicon::{EntryKind, Lexicon, TriggeredEntry};
use crate::references::QueryReferences;
use crate::search::ItemRef;

// Later words are ignored, which bounds the work per query.
const MAX_WORDS: usize = 40;
// More words between two words leave them unrelated.
const NEIGHBOR_DISTANCE: usize = 3;
// Years, quarters and the names of issuers select documents, where they are on every page.
const DOCUMENT_WORD_WEIGHT: f32 = 0.2;
// A statement named in the query wins over those that its words only suggest.
const NAMED_WEIGHT: f32 = 2.0;
const BESIDE_WEIGHT: f32 = 0.3;

/// A parsed query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ParsedQuery {
    /// Normalized words and their weights (0–1), in the order of the query.
    pub words: Vec<(String, f32)>,
    /// Neighbors among the words: their indices, and how far apart the second one may be in a text.
    pub pairs: Vec<(usize, usize, u32)>,
    /// Pages and numbered parts it names.
    pub references: QueryReferences,
    /// Phrases expected on pages that answer the query, by synonym group.
    pub phrase_groups: Vec<PhraseGroup>,
    /// Statements expected to answer the query, with their weights (0–2).
    pub statements: BTreeMap<StatementKind, f32>,
    pub period: QueryPeriod,
    /// Form type, lower case: `10-k`.
    pub form: Option<String>,
    /// Whether it asks for amended filings.
    pub wants_amendments: bool,
    /// The Item it names, and the words that do.
    pub item: Option<(ItemRef, String)>,
    /// Whether the answer is probably a number.
    pub wants_number: bool,
    /// The declared figure it may ask for: of a query that wants a number or names a period.
    pub figure: Option<FigureQuery>,
}

/// Phrases with the same meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct PhraseGroup {
    pub kind: EntryKind,
    /// As index terms.
    pub phrases: Vec<String>,
    /// 0–1.
    pub weight: f32,
}

impl ParsedQuery {
    /// Parses a query. `issuer` are its normalized words that name the issuer: they select documents rather than pages, so
    /// they get a low weight.
    pub fn parse(text: &str, issuer: &[String]) -> Self {
        let (period, unified) = QueryPeriod::parse(text);
        let normalized = unified.replace('’', "'");
        let cleaned = strip_instructions(&normalized);
        // A name may be between the words of a phrase, and no name is one: "buying back Acme stock".
        let mut content = content_words(&cleaned);
        content.retain(|word| !issuer.contains(word));
        let triggered = Lexicon::get().triggered_entries(&content);
        let mut parsed = Self {
            words: weighted_words(&cleaned, issuer),
            period,
            references: QueryReferences::parse(&normalized),
            ..Self::default()
        };
        parsed.pairs = neighbors(&cleaned, &parsed.words);
        parsed.phrase_groups = triggered.iter().map(phrase_group).collect();
        parsed.statements = statements(&triggered, &normalized);
        parsed.form = parse_form(&normalized);
        parsed.wants_amendments = parsed
            .form
            .as_ref()
            .is_some_and(|form| form.ends_with("/a"))
            || normalized.to_lowercase().contains("amend");
        parsed.item = parse_item(&normalized);
        parsed.wants_number = wants_number(&normalized) || !parsed.statements.is_empty();
        if parsed.wants_number || !parsed.period.years.is_empty() {
            parsed.figure = FigureQuery::parse(&cleaned, &parsed.period, issuer);
        }
        parsed
    }
}

// Distinct words with their weights. A query of nothing but words that select documents keeps their full weight.
fn weighted_words(text: &str, issuer: &[String]) -> Vec<(String, f32)> {
    let mut weighted: Vec<(String, f32)> = Vec::new();
    let all = tokenize(text);
    let any = all.iter().any(|word| !is_stop_word(word));
    for word in all {
        if any && is_stop_word(&word)
            || weighted.iter().any(|(existing, _)| *existing == word)
            || weighted.len() == MAX_WORDS
        {
            continue;
        }
        let year = word.len() == 4
            && word
                .parse::<u16>()
                .is_ok_and(|year| (1980..2050).contains(&year));
        let quarter = matches!(word.as_str(), "q1" | "q2" | "q3" | "q4");
        let selects_documents = year || quarter || issuer.contains(&word);
        let weight = if selects_documents {
            DOCUMENT_WORD_WEIGHT
        } else {
            1.0
        };
        weighted.push((word, weight));
    }
    if weighted.iter().all(|(_, weight)| *weight < 1.0) {
        weighted.iter_mut().for_each(|(_, weight)| *weight = 1.0);
    }
    weighted
}

// Distinct pairs of words with at most two stop words between them. In a text they may be one word further apart.
fn neighbors(text: &str, words: &[(String, f32)]) -> Vec<(usize, usize, u32)> {
    let mut pairs: Vec<(usize, usize, u32)> = Vec::new();
    let mut previous: Option<(usize, usize)> = None;
    for (position, token) in tokenize(text).iter().enumerate() {
        let Some(at) = words.iter().position(|(word, _)| word == token) else {
            continue;
        };
        if let Some((before, from)) = previous
            && position - from <= NEIGHBOR_DISTANCE
            && before != at
            && pairs.len() < MAX_WORDS
            && !pairs
                .iter()
                .any(|(one, other, _)| (*one, *other) == (before, at))
        {
            let distance = u32::try_from(position - from + 1).unwrap_or(u32::MAX);
            pairs.push((before, at, distance));
        }
        previous = Some((at, position));
    }
    pairs
}

// A trigger of one word is a weaker sign than one of two.
fn phrase_group(triggered: &TriggeredEntry<'_>) -> PhraseGroup {
    let weight = if triggered.from.len() > 1 { 1.0 } else { 0.75 };
    PhraseGroup {
        kind: triggered.entry.kind,
        phrases: triggered.entry.phrases.clone(),
        weight,
    }
}

// Statements by the names a query may use.
const NAMES: [(&str, StatementKind); 14] = [
    ("balance sheet", StatementKind::Balance),
    ("statement of financial position", StatementKind::Balance),
    ("statement of financial condition", StatementKind::Balance),
    ("income statement", StatementKind::Income),
    ("statement of income", StatementKind::Income),
    ("statement of operations", StatementKind::Income),
    ("statement of earnings", StatementKind::Income),
    ("p&l", StatementKind::Income),
    ("cash flow statement", StatementKind::CashFlow),
    ("statement of cash flow", StatementKind::CashFlow),
    ("statements of cash flow", StatementKind::CashFlow),
    ("statement of changes in equity", StatementKind::Equity),
    ("statement of stockholders' equity", StatementKind::Equity),
    ("statement of shareholders' equity", StatementKind::Equity),
];

fn statements(triggered: &[TriggeredEntry<'_>], text: &str) -> BTreeMap<StatementKind, f32> {
    let suggested = triggered.iter().filter_map(|one| one.entry.statement);
    let mut statements: BTreeMap<StatementKind, f32> = suggested.map(|one| (one, 1.0)).collect();
    let lower = text.to_lowercase();
    let named = NAMES.iter().filter(|(name, _)| lower.contains(name));
    let named: Vec<StatementKind> = named.map(|(_, kind)| *kind).collect();
    if !named.is_empty() {
        statements
            .values_mut()
            .for_each(|weight| *weight *= BESIDE_WEIGHT);
    }
    statements.extend(named.into_iter().map(|kind| (kind, NAMED_WEIGHT)));
    statements
}

fn parse_form(text: &str) -> Option<String> {
    let lower = format!(" {} ", text.to_lowercase());
    QUERIED_FORMS
        .iter()
        .find(|(name, _)| contains_whole_word(&lower, name))
        .map(|(_, form)| (*form).to_owned())
}

fn contains_whole_word(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let after = text[at + name.len()..].chars().next();
        let before = text[..at].chars().next_back();
        !before.is_some_and(char::is_alphanumeric)
            && !after.is_some_and(|c| c.is_alphanumeric() || c == '-')
    })
}

// `Item 7A`: the Item, and the words as written.
fn parse_item(text: &str) -> Option<(ItemRef, String)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).find_map(|pair| {
        let number = pair[1].trim_matches(|c: char| !c.is_alphanumeric());
        let is_item = pair[0].eq_ignore_ascii_case("item")
            && number.starts_with(|c: char| c.is_ascii_digit());
        let item = number.parse().ok().filter(|_| is_item)?;
        Some((item, format!("{} {number}", pair[0])))
    })
}

fn wants_number(text: &str) -> bool {
    let signs = [
        "how much",
        "how many",
        "what is the",
        "what was",
        "ratio",
        "percent",
        "percentage",
        "amount",
        "margin",
        "growth",
        "rate",
        "highest",
        "lowest",
    ];
    let words = tokenize(text);
    signs.iter().any(|sign| {
        let sign = tokenize(sign);
        words.windows(sign.len()).any(|window| window == sign)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_neighbors_are_one_pair() {
        assert_eq!(read(&"anvil rocket ".repeat(300)).pairs.len(), 2);
        let words = |step: usize| (0..27).map(move |at| format!("w{} ", at * step % 27));
        let many: String = (1..27).flat_map(words).collect();
        assert!(read(&many).pairs.len() <= MAX_WORDS);
    }

    #[test]
    fn words_that_contain_a_sign_ask_for_no_number() {
        for text in [
            "Acme corporate strategy",
            "operations of the corporation",
            "paramount",
        ] {
            assert!(!read(text).wants_number, "{text}");
        }
        for text in [
            "tax rates of Acme",
            "What was its margin?",
            "How many stores?",
        ] {
            assert!(read(text).wants_number, "{text}");
        }
    }

    fn read(text: &str) -> ParsedQuery {
        ParsedQuery::parse(text, &[])
    }

    fn weight_of(question: &ParsedQuery, word: &str) -> f32 {
        question
            .words
            .iter()
            .find(|(existing, _)| existing == word)
            .map_or(0.0, |(_, weight)| *weight)
    }

    #[test]
    fn instructions_are_stripped_and_definitions_kept() {
        let question = read(
            "You are an analyst and may only use the balance sheet. What is the FY22 quick ratio for ACME? Quick ratio is defined as: \
             (cash + receivables) / total current liabilities. Round your answer to two decimals. If this is not a useful metric, then explain why.",
        );
        assert_eq!(weight_of(&question, "decim"), 0.0);
        assert!(weight_of(&question, "receiv") > 0.0 && weight_of(&question, "quick") > 0.0);
        assert_eq!(question.statements[&StatementKind::Balance], 2.0);
        assert_eq!(
            (question.period.years, question.wants_number),
            (vec![2022], true)
        );
    }

    #[test]
    fn source_clauses_hint_at_statements_only() {
        let question = read("Based on the cash flow statement, did dividends grow?");
        assert_eq!(question.statements[&StatementKind::CashFlow], 2.0);
        assert_eq!(weight_of(&question, "statement"), 0.0);
        assert!(weight_of(&question, "dividend") > 0.0);
        // Too little would remain, so the clause stays.
        assert!(!read("based on balance").words.is_empty());
    }

    #[test]
    fn dates_forms_and_items_are_parsed() {
        let question = read("What did Item 1A of the 10-K/A say in Q2 of FY2024 and FY 23?");
        assert_eq!(
            (question.period.years.as_slice(), question.period.quarter),
            (&[2023, 2024][..], Some(2))
        );
        assert_eq!(
            (question.form.as_deref(), question.wants_amendments),
            (Some("10-k/a"), true)
        );
        assert_eq!(question.item.unwrap().0.number, "1A");
        assert_eq!(read("the third quarter of 1998").period.quarter, Some(3));
        assert_eq!(read("an item of 10 keys").item, None);
    }

    #[test]
    fn words_that_select_documents_weigh_little_unless_alone() {
        let question = ParsedQuery::parse("ACME's margin in 2022?", &["acm".into()]);
        assert!(weight_of(&question, "margin") > weight_of(&question, "acm"));
        assert!(weight_of(&question, "margin") > weight_of(&question, "2022"));
        assert!(read("2022").words.iter().all(|(_, weight)| *weight == 1.0));
        assert!(read("?!").words.is_empty());
    }

    #[test]
    fn a_name_may_be_within_a_phrase() {
        let phrases = |issuer: &[String]| {
            let question = "How much went into buying back Acme stock?";
            ParsedQuery::parse(question, issuer).phrase_groups.len()
        };
        assert!(phrases(&["acm".into()]) > phrases(&[]));
    }

    #[test]
    fn neighboring_words_are_paired_across_stop_words() {
        let question = read("the cost of goods sold by Corning");
        let words: Vec<&str> = question
            .words
            .iter()
            .map(|(word, _)| word.as_str())
            .collect();
        assert_eq!(words, ["cost", "good", "sold", "corn"]);
        assert_eq!(question.pairs, [(0, 1, 3), (1, 2, 2), (2, 3, 3)]);
    }

    proptest::proptest! {
        #[test]
        fn no_question_panics(text in ".{0,200}") {
            ParsedQuery::parse(&text, &[]);
        }
    }
}

//! Parses a query, once for all stages of a search: weighted terms, synonyms, likely statements, and the years, quarter, form and
//! Item it names.

use std::collections::BTreeMap;

use stemma_reading::figures::FigureQuery;
use stemma_reading::page_features::year;
use stemma_reading::query_period::QueryPeriod;
use stemma_reading::question_words::is_question_word;
use stemma_reading::statement_pages::StatementKind;
use stemma_reading::tokenizer::{content_words, is_stop_word, tokenize};
use stemma_reading::vocabulary::{NUMBER_SIGNS, QUERIED_FORMS, STATEMENT_NAMES};

use crate::instructions::strip_instructions;
use crate::lexicon::{EntryKind, Lexicon, TriggeredEntry};
use crate::references::QueryReferences;
use crate::search::ItemRef;

// Later words are ignored, which bounds the work per query.
const MAX_WORDS: usize = 40;
// More words between two words leave them unrelated.
const NEIGHBOR_DISTANCE: usize = 3;
// Years, quarters and the names of issuers select documents, and are on every page of these.
const DOCUMENT_WORD_WEIGHT: f32 = 0.2;
// A statement named in the query wins over those that its words only suggest.
const NAMED_WEIGHT: f32 = 2.0;
const SUGGESTED_WEIGHT: f32 = 0.3;

/// A parsed query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ParsedQuery {
    /// Its text, with dates in one writing.
    pub text: String,
    /// Its normalized words that name an issuer.
    pub issuer_words: Vec<String>,
    // All content words of the text, and what the lexicon says about them.
    content: Vec<String>,
    entries: Vec<TriggeredEntry<'static>>,
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
    /// Parses a query whose issuers are not known.
    pub fn parse(text: &str) -> Self {
        let (period, text) = QueryPeriod::parse(text);
        Self::new(text, period, Vec::new())
    }

    /// Parses the text of a query, as [`QueryPeriod::parse`] returns it. `issuer_words` are its normalized words that name the
    /// issuer: they select documents rather than pages, so they get a low weight.
    pub fn new(text: String, period: QueryPeriod, issuer_words: Vec<String>) -> Self {
        let normalized = text.replace('’', "'");
        let lower = normalized.to_lowercase();
        let words = tokenize(&strip_instructions(&normalized));
        // A name may be between the words of a phrase, and no name is one: "buying back Acme stock".
        let subject: Vec<String> = words
            .iter()
            .filter(|word| !is_stop_word(word) && !issuer_words.contains(word))
            .cloned()
            .collect();
        let triggered = Lexicon::get().triggered_entries(&subject);
        let weighted = weighted_words(&words, &issuer_words);
        let form = parse_form(&lower);
        let statements = statements(&triggered, &lower);
        let wants_number = wants_number(&normalized) || !statements.is_empty();
        let names_figure = wants_number || !period.years.is_empty();
        let figure = names_figure.then(|| FigureQuery::new(&words, &period, &issuer_words));
        let content = content_words(&text);
        Self {
            entries: Lexicon::get().triggered_entries(&content),
            content,
            pairs: neighbors(&words, &weighted),
            words: weighted,
            references: QueryReferences::parse(&normalized),
            phrase_groups: triggered.iter().map(phrase_group).collect(),
            statements,
            period,
            wants_amendments: form.as_ref().is_some_and(|form| form.ends_with("/a"))
                || lower.contains("amend"),
            form,
            item: parse_item(&normalized),
            wants_number,
            figure: figure.flatten(),
            text,
            issuer_words,
        }
    }

    /// The words that say what it asks about. Others select documents, or any question has them.
    pub fn subject_words(&self) -> impl Iterator<Item = &str> {
        self.words
            .iter()
            .filter(|(_, weight)| *weight >= 1.0)
            .map(|(word, _)| word)
            .filter(|word| !is_stop_word(word) && !is_question_word(word))
            .filter(|word| !self.issuer_words.contains(word))
            .map(String::as_str)
    }

    /// The entries of the lexicon that a word of the text triggers, alone or with others.
    pub fn entries_with(&self, word: &str) -> impl Iterator<Item = &TriggeredEntry<'static>> {
        self.entries.iter().filter(move |entry| {
            let trigger = &self.content[entry.from.clone()];
            trigger.iter().any(|content| content == word)
        })
    }
}

// Distinct words with their weights. A query of nothing but words that select documents keeps their full weight.
fn weighted_words(all: &[String], issuer: &[String]) -> Vec<(String, f32)> {
    let mut weighted: Vec<(String, f32)> = Vec::new();
    let any = all.iter().any(|word| !is_stop_word(word));
    for word in all {
        if any && is_stop_word(word)
            || weighted.iter().any(|(existing, _)| existing == word)
            || weighted.len() == MAX_WORDS
        {
            continue;
        }
        let is_quarter = matches!(word.as_str(), "q1" | "q2" | "q3" | "q4");
        let selects_documents = year(word).is_some() || is_quarter || issuer.contains(word);
        let weight = if selects_documents {
            DOCUMENT_WORD_WEIGHT
        } else {
            1.0
        };
        weighted.push((word.clone(), weight));
    }
    if weighted.iter().all(|(_, weight)| *weight < 1.0) {
        weighted.iter_mut().for_each(|(_, weight)| *weight = 1.0);
    }
    weighted
}

// Distinct pairs of words with at most two stop words between them. In a text they may be one word further apart.
fn neighbors(all: &[String], words: &[(String, f32)]) -> Vec<(usize, usize, u32)> {
    let mut pairs: Vec<(usize, usize, u32)> = Vec::new();
    let mut previous: Option<(usize, usize)> = None;
    for (position, token) in all.iter().enumerate() {
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

fn statements(triggered: &[TriggeredEntry<'_>], lower: &str) -> BTreeMap<StatementKind, f32> {
    let suggested = triggered.iter().filter_map(|one| one.entry.statement);
    let mut statements: BTreeMap<StatementKind, f32> = suggested.map(|one| (one, 1.0)).collect();
    let named: Vec<StatementKind> = STATEMENT_NAMES
        .iter()
        .filter(|(name, _)| lower.contains(name))
        .filter_map(|(_, code)| StatementKind::from_code(code))
        .collect();
    if !named.is_empty() {
        statements
            .values_mut()
            .for_each(|weight| *weight *= SUGGESTED_WEIGHT);
    }
    statements.extend(named.into_iter().map(|kind| (kind, NAMED_WEIGHT)));
    statements
}

fn parse_form(lower: &str) -> Option<String> {
    QUERIED_FORMS
        .iter()
        .find(|(name, _)| contains_whole_word(lower, name))
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
    let words = tokenize(text);
    NUMBER_SIGNS.iter().any(|sign| {
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
        ParsedQuery::parse(text)
    }

    fn read_of(text: &str, issuer_word: &str) -> ParsedQuery {
        let (period, text) = QueryPeriod::parse(text);
        ParsedQuery::new(text, period, vec![issuer_word.into()])
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
        let question = read_of("ACME's margin in 2022?", "acm");
        assert!(weight_of(&question, "margin") > weight_of(&question, "acm"));
        assert!(weight_of(&question, "margin") > weight_of(&question, "2022"));
        assert!(read("2022").words.iter().all(|(_, weight)| *weight == 1.0));
        assert!(read("?!").words.is_empty());
    }

    #[test]
    fn a_name_may_be_within_a_phrase() {
        let question = "How much went into buying back Acme stock?";
        let of_issuer = read_of(question, "acm").phrase_groups;
        assert!(of_issuer.len() > read(question).phrase_groups.len());
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
            read(&text);
        }
    }
}

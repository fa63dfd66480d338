//! Routes a query to the issuers it names.
//!
//! Passages of other issuers are left out. Years, quarters and forms only order the documents of an issuer and leave none
//! out, because a filing also reports on earlier years. An abbreviated name that several issuers share selects nothing.

use std::collections::BTreeSet;
use std::ops::Range;

use tantivy::collector::TopDocs;
use tantivy::query::{BooleanQuery, TermQuery};
use tantivy::schema::{IndexRecordOption, Value};
use tantivy::{Searcher, TantivyDocument, Term};

use super::schema::{Fields, IndexEntryKind};
use crate::aliases::{Alias, AliasStrength, MAX_WORDS, name_words};
use crate::search::AppliedFilter;
use crate::tokenizer;

// A name of more documents than this means nothing in particular.
const MAX_DOCUMENTS: usize = 5_000;
// Names are looked for in the first words of a query.
const QUESTION_WORDS: usize = 120;

// An issuer's numbers are the same in most of its documents, so a few are enough.
const READ_DOCUMENTS: usize = 8;

// Words that start company names, but are no names by themselves.
const COMMON_WORDS: [&str; 40] = [
    "all",
    "american",
    "any",
    "are",
    "as",
    "at",
    "bank",
    "best",
    "capital",
    "energy",
    "financial",
    "first",
    "for",
    "from",
    "general",
    "global",
    "group",
    "has",
    "how",
    "if",
    "in",
    "international",
    "is",
    "national",
    "new",
    "of",
    "on",
    "one",
    "people",
    "public",
    "real",
    "standard",
    "target",
    "the",
    "united",
    "visa",
    "was",
    "what",
    "which",
    "who",
];

/// The issuers named in a query.
#[derive(Debug, Clone, Default)]
pub struct IssuerRouting {
    /// Keys of their documents; `None` if no issuer is named.
    pub documents: Option<BTreeSet<u64>>,
    /// The names, as filters.
    pub applied_filters: Vec<AppliedFilter>,
    /// Words that name an issuer, normalized.
    pub issuer_words: Vec<String>,
}

// A name in the query.
struct NameMatch {
    strength: AliasStrength,
    from: Range<usize>,
    documents: NamedDocuments,
}

// The documents of a name.
#[derive(Default)]
struct NamedDocuments {
    documents: BTreeSet<u64>,
    issuers: BTreeSet<u64>,
    // The issuer's name by one of its documents, normalized.
    company: Option<String>,
}

/// Finds the issuers named in a query.
///
/// # Errors
/// An error of the index.
pub fn route(searcher: &Searcher, fields: &Fields, text: &str) -> tantivy::Result<IssuerRouting> {
    let written: Vec<&str> = text.split_whitespace().take(QUESTION_WORDS).collect();
    let tokens = tokens(&written);
    let mut matches: Vec<NameMatch> = Vec::new();
    for start in 0..tokens.len() {
        for end in (start + 1..=tokens.len().min(start + MAX_WORDS)).rev() {
            let name = tokens[start..end]
                .iter()
                .map(|token| token.word.as_str())
                .collect::<Vec<_>>()
                .join(" ");
            if let Some(one) = match_name(searcher, fields, &tokens[start..end], &name)? {
                matches.push(NameMatch {
                    from: start..end,
                    ..one
                });
            }
        }
    }
    let mut routed = resolve_matches(matches, &tokens, &written);
    if let Some(documents) = &mut routed.documents {
        add_same_issuer(searcher, fields, documents)?;
        if let [filter] = routed.applied_filters.as_mut_slice() {
            filter.documents = documents.len();
        }
    }
    Ok(routed)
}

// The documents of a name at the strongest level that matches. If weaker levels name no other issuer, their documents are
// added: those may state no issuer.
fn match_name(
    searcher: &Searcher,
    fields: &Fields,
    tokens: &[Token],
    name: &str,
) -> tantivy::Result<Option<NameMatch>> {
    let mut best: Option<NameMatch> = None;
    for strength in AliasStrength::ALL
        .into_iter()
        .filter(|strength| is_written_as_name(*strength, tokens))
    {
        let matched = documents_named(searcher, fields, strength, name)?;
        // A first word or blend that several issuers share identifies none of them.
        let is_unambiguous = strength >= AliasStrength::Capitals || matched.issuers.len() <= 1;
        if !is_unambiguous || matched.documents.is_empty() {
            continue;
        }
        match &mut best {
            None => {
                best = Some(NameMatch {
                    strength,
                    from: 0..0,
                    documents: matched,
                });
            }
            Some(known) if matched.issuers.is_subset(&known.documents.issuers) => {
                known.documents.documents.extend(matched.documents);
            }
            Some(_) => {}
        }
    }
    Ok(best)
}

struct Token {
    word: String,
    // Index of the word in the query.
    at: usize,
    capital: bool,
    upper: bool,
    first: bool,
}

fn tokens(written: &[&str]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut first = true;
    for (at, raw) in written.iter().enumerate() {
        let first_letter = raw.chars().find(|c| c.is_alphabetic());
        let bare = raw
            .trim_end_matches(|c: char| !c.is_alphanumeric())
            .trim_end_matches("'s")
            .trim_end_matches("’s");
        let upper = bare
            .chars()
            .filter(|c| c.is_alphabetic())
            .all(char::is_uppercase)
            && first_letter.is_some();
        let capital = first_letter.is_none_or(char::is_uppercase);
        for word in name_words(raw) {
            tokens.push(Token {
                word,
                at,
                capital,
                upper,
                first,
            });
        }
        first = raw.ends_with(['.', '?', '!', ':']);
    }
    tokens
}

// Whether the query spells the words as a name of this strength: the weaker the alias, the more it must look like a name.
fn is_written_as_name(strength: AliasStrength, tokens: &[Token]) -> bool {
    let common = tokens.len() == 1 && COMMON_WORDS.contains(&tokens[0].word.as_str());
    let capital = tokens
        .iter()
        .any(|token| token.capital && !token.word.starts_with(|c: char| c.is_ascii_digit()));
    let mixed = tokens.iter().any(|token| {
        token.word.chars().any(|c| c.is_ascii_digit())
            && token.word.chars().any(char::is_alphabetic)
    });
    match strength {
        // "best buy" in lower case is a name; "target" is not.
        AliasStrength::Name => !common || tokens[0].capital && !tokens[0].first,
        AliasStrength::Capitals => {
            tokens.iter().all(|token| token.upper)
                && tokens.iter().map(|token| token.word.len()).sum::<usize>() >= 2
        }
        AliasStrength::Likely => !common && (capital || mixed || tokens.len() > 1),
        AliasStrength::First => !common && (capital || mixed),
    }
}

fn documents_named(
    searcher: &Searcher,
    fields: &Fields,
    strength: AliasStrength,
    name: &str,
) -> tantivy::Result<NamedDocuments> {
    let term = Term::from_field_text(fields.aliases, &Alias::term(strength, name));
    let mut matched = NamedDocuments::default();
    if searcher.doc_freq(&term)? == 0 {
        return Ok(matched);
    }
    let query = TermQuery::new(term, IndexRecordOption::Basic);
    let hits = searcher.search(
        &query,
        &TopDocs::with_limit(MAX_DOCUMENTS + 1).order_by_score(),
    )?;
    if hits.len() > MAX_DOCUMENTS {
        return Ok(matched);
    }
    for (_, address) in &hits {
        let numbers = searcher.segment_reader(address.segment_ord).fast_fields();
        matched
            .documents
            .extend(numbers.u64("doc_key")?.first(address.doc_id));
        matched.issuers.extend(
            numbers
                .u64("company_key")?
                .first(address.doc_id)
                .filter(|key| *key != 0),
        );
    }
    for (_, address) in hits.iter().take(8) {
        let stored: TantivyDocument = searcher.doc(*address)?;
        matched.company = matched.company.or(stored
            .get_first(fields.company)
            .and_then(|value| value.as_str())
            .map(str::to_owned));
    }
    Ok(matched)
}

// An issuer may have filed under other names. Adds documents that share one of its identifiers.
fn add_same_issuer(
    searcher: &Searcher,
    fields: &Fields,
    documents: &mut BTreeSet<u64>,
) -> tantivy::Result<()> {
    let mut identities: BTreeSet<String> = BTreeSet::new();
    for key in documents.iter().take(READ_DOCUMENTS) {
        let query = BooleanQuery::intersection(vec![
            basic_term(Term::from_field_u64(fields.doc_key, *key)),
            basic_term(fields.kind_term(IndexEntryKind::Document)),
        ]);
        for (_, address) in searcher.search(&query, &TopDocs::with_limit(1).order_by_score())? {
            let stored: TantivyDocument = searcher.doc(address)?;
            identities.extend(
                stored
                    .get_all(fields.identity)
                    .filter_map(|value| value.as_str().map(str::to_owned)),
            );
        }
    }
    for identity in identities {
        let query = TermQuery::new(
            Term::from_field_text(fields.identity, &identity),
            IndexRecordOption::Basic,
        );
        for (_, address) in
            searcher.search(&query, &TopDocs::with_limit(MAX_DOCUMENTS).order_by_score())?
        {
            let numbers = searcher.segment_reader(address.segment_ord).fast_fields();
            documents.extend(numbers.u64("doc_key")?.first(address.doc_id));
        }
    }
    Ok(())
}

fn basic_term(term: Term) -> Box<dyn tantivy::query::Query> {
    Box::new(TermQuery::new(term, IndexRecordOption::Basic))
}

// Of overlapping names, the longest wins, then the strongest.
fn resolve_matches(
    mut matches: Vec<NameMatch>,
    tokens: &[Token],
    written: &[&str],
) -> IssuerRouting {
    matches.sort_by_key(|one| {
        (
            std::cmp::Reverse(one.from.len()),
            std::cmp::Reverse(one.strength),
            one.from.start,
        )
    });
    let mut accepted: Vec<NameMatch> = Vec::new();
    for one in matches {
        if !accepted.iter().any(|other: &NameMatch| {
            one.from.start < other.from.end && other.from.start < one.from.end
        }) {
            accepted.push(one);
        }
    }
    // A weak match next to a strong one is probably an ordinary word.
    let surest = accepted.iter().map(|one| one.strength).max();
    accepted.retain(|one| Some(one.strength) == surest || one.strength >= AliasStrength::Capitals);
    if accepted.is_empty() {
        return IssuerRouting::default();
    }
    accepted.sort_by_key(|one| one.from.start);
    let mut routed = IssuerRouting {
        documents: Some(BTreeSet::new()),
        ..IssuerRouting::default()
    };
    for one in accepted {
        let positions: Vec<usize> = tokens[one.from.clone()]
            .iter()
            .map(|token| token.at)
            .collect();
        let first = positions.first().copied().unwrap_or(0);
        let last = positions.last().copied().unwrap_or(0);
        let from = written[first..=last].join(" ");
        let value = one.documents.company.clone().unwrap_or_else(|| {
            tokens[one.from.clone()]
                .iter()
                .map(|token| token.word.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        });
        if !routed
            .applied_filters
            .iter()
            .any(|filter| filter.value == value)
        {
            let from = from.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
            routed.applied_filters.push(AppliedFilter {
                facet: "company".into(),
                value,
                from: from.clone(),
                documents: one.documents.documents.len(),
            });
            routed.issuer_words.extend(tokenizer::tokenize(&from));
        }
        routed
            .documents
            .get_or_insert_default()
            .extend(&one.documents.documents);
    }
    routed
}

//! Which documents a question is for, by what it names: an issuer by any of its names, years, a quarter, a form.
//!
//! An issuer that is named decides: passages of others are left out. Years, quarters and forms order its documents and
//! leave none out, for a filing tells of years before its own. Nothing is decided where two issuers answer to a name
//! that neither has to itself.

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

/// Documents that one name may mean; with more it means nothing in particular.
const MAX_DOCUMENTS: usize = 5_000;
/// Words of a question in which names are looked for.
const QUESTION_WORDS: usize = 120;

/// Documents of an issuer that are read for its numbers.
const READ_DOCUMENTS: usize = 8;

/// Words that begin names and are no names by themselves.
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

/// What a question says about documents.
#[derive(Debug, Clone, Default)]
pub struct IssuerRouting {
    /// The documents of the issuers it names, by key; `None`: it names none.
    pub documents: Option<BTreeSet<u64>>,
    /// How it says so.
    pub applied_filters: Vec<AppliedFilter>,
    /// Words that name the issuer, as the index compares words.
    pub issuer_words: Vec<String>,
}

/// A name found in the question.
struct NameMatch {
    strength: AliasStrength,
    from: Range<usize>,
    documents: NamedDocuments,
}

/// The documents that answer to a name.
#[derive(Default)]
struct NamedDocuments {
    documents: BTreeSet<u64>,
    issuers: BTreeSet<u64>,
    /// What one of them says that its issuer is called, folded.
    company: Option<String>,
}

/// Finds the issuers a question names.
///
/// # Errors
/// What the index said.
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

/// The documents that answer to a name, surely or not: where a sure answer names one issuer, documents that name none and
/// answer too are its documents as well.
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
        let answers = documents_named(searcher, fields, strength, name)?;
        // A beginning or a blend that several issuers share names none of them.
        let sure = strength >= AliasStrength::Capitals || answers.issuers.len() <= 1;
        if !sure || answers.documents.is_empty() {
            continue;
        }
        match &mut best {
            None => {
                best = Some(NameMatch {
                    strength,
                    from: 0..0,
                    documents: answers,
                })
            }
            Some(known) if answers.issuers.is_subset(&known.documents.issuers) => {
                known.documents.documents.extend(answers.documents);
            }
            Some(_) => {}
        }
    }
    Ok(best)
}

struct Token {
    word: String,
    /// Word of the question it stands in.
    at: usize,
    capital: bool,
    upper: bool,
    first: bool,
}

fn tokens(written: &[&str]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut first = true;
    for (at, raw) in written.iter().enumerate() {
        let letters = || raw.chars().filter(|c| c.is_alphabetic());
        let bare = raw
            .trim_end_matches(|c: char| !c.is_alphanumeric())
            .trim_end_matches("'s")
            .trim_end_matches("’s");
        let upper = bare
            .chars()
            .filter(|c| c.is_alphabetic())
            .all(char::is_uppercase)
            && letters().next().is_some();
        let capital = letters().next().is_none_or(char::is_uppercase);
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

/// Whether words are written as such a name is written.
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
        // "best buy" in small letters is a name; "target" is not.
        AliasStrength::Name => !common || tokens[0].capital && !tokens[0].first,
        AliasStrength::Capitals => {
            tokens.iter().all(|token| token.upper)
                && tokens.iter().map(|token| token.word.len()).sum::<usize>() >= 2
        }
        AliasStrength::Likely => !common && (capital || mixed || tokens.len() > 1),
        AliasStrength::First => !common && (capital || mixed),
    }
}

/// The documents of a name.
fn documents_named(
    searcher: &Searcher,
    fields: &Fields,
    strength: AliasStrength,
    name: &str,
) -> tantivy::Result<NamedDocuments> {
    let term = Term::from_field_text(fields.aliases, &Alias::term(strength, name));
    let mut answers = NamedDocuments::default();
    if searcher.doc_freq(&term)? == 0 {
        return Ok(answers);
    }
    let query = TermQuery::new(term, IndexRecordOption::Basic);
    let hits = searcher.search(
        &query,
        &TopDocs::with_limit(MAX_DOCUMENTS + 1).order_by_score(),
    )?;
    if hits.len() > MAX_DOCUMENTS {
        return Ok(answers);
    }
    for (_, address) in &hits {
        let numbers = searcher.segment_reader(address.segment_ord).fast_fields();
        answers
            .documents
            .extend(numbers.u64("doc_key")?.first(address.doc_id));
        answers.issuers.extend(
            numbers
                .u64("company_key")?
                .first(address.doc_id)
                .filter(|key| *key != 0),
        );
    }
    for (_, address) in hits.iter().take(8) {
        let stored: TantivyDocument = searcher.doc(*address)?;
        answers.company = answers.company.or(stored
            .get_first(fields.company)
            .and_then(|value| value.as_str())
            .map(str::to_owned));
    }
    Ok(answers)
}

/// Adds documents of the same issuers under other names: those with one of their keys or numbers.
fn add_same_issuer(
    searcher: &Searcher,
    fields: &Fields,
    documents: &mut BTreeSet<u64>,
) -> tantivy::Result<()> {
    let mut identities: BTreeSet<String> = BTreeSet::new();
    for key in documents.iter().take(READ_DOCUMENTS) {
        let of_document = |term| {
            Box::new(TermQuery::new(term, IndexRecordOption::Basic))
                as Box<dyn tantivy::query::Query>
        };
        let query = BooleanQuery::intersection(vec![
            of_document(Term::from_field_u64(fields.doc_key, *key)),
            of_document(fields.kind_term(IndexEntryKind::Document)),
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

/// The surest names win; of names within each other, the longest.
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
    // A weak sign says nothing beside a sure one.
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
        let places: Vec<usize> = tokens[one.from.clone()]
            .iter()
            .map(|token| token.at)
            .collect();
        let first = places.first().copied().unwrap_or(0);
        let last = places.last().copied().unwrap_or(0);
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

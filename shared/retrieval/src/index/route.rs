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

use super::schema::{Fields, Kind};
use crate::aliases::{Alias, MAX_WORDS, Strength, name_words};
use crate::find::Chip;
use crate::words;

/// Documents that one name may mean; with more it means nothing in particular.
const MAX_DOCUMENTS: usize = 5_000;
/// Words of a question in which names are looked for.
const QUESTION_WORDS: usize = 120;

/// Documents of an issuer that are read for its numbers.
const READ_DOCUMENTS: usize = 8;

/// Words that begin names and are no names by themselves.
const COMMON: [&str; 40] = [
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
pub struct Routed {
    /// The documents of the issuers it names, by key; `None`: it names none.
    pub documents: Option<BTreeSet<u64>>,
    /// How it says so.
    pub chips: Vec<Chip>,
    /// Words that name the issuer, as the index compares words.
    pub issuer_words: Vec<String>,
}

/// A name found in the question.
struct Named {
    strength: Strength,
    from: Range<usize>,
    answers: Answers,
}

/// The documents that answer to a name.
#[derive(Default)]
struct Answers {
    documents: BTreeSet<u64>,
    issuers: BTreeSet<u64>,
    /// What one of them says that its issuer is called, folded.
    company: Option<String>,
}

/// Finds the issuers a question names.
///
/// # Errors
/// What the index said.
pub fn route(searcher: &Searcher, fields: &Fields, text: &str) -> tantivy::Result<Routed> {
    let written: Vec<&str> = text.split_whitespace().take(QUESTION_WORDS).collect();
    let tokens = tokens(&written);
    let mut named: Vec<Named> = Vec::new();
    for start in 0..tokens.len() {
        for end in (start + 1..=tokens.len().min(start + MAX_WORDS)).rev() {
            let name = tokens[start..end]
                .iter()
                .map(|token| token.word.as_str())
                .collect::<Vec<_>>()
                .join(" ");
            if let Some(one) = named_by(searcher, fields, &tokens[start..end], &name)? {
                named.push(Named {
                    from: start..end,
                    ..one
                });
            }
        }
    }
    let mut routed = decide(named, &tokens, &written);
    if let Some(documents) = &mut routed.documents {
        same_issuer(searcher, fields, documents)?;
        if let [chip] = routed.chips.as_mut_slice() {
            chip.documents = documents.len();
        }
    }
    Ok(routed)
}

/// The documents that answer to a name, surely or not: where a sure answer names one issuer, documents that name none and
/// answer too are its documents as well.
fn named_by(
    searcher: &Searcher,
    fields: &Fields,
    tokens: &[Token],
    name: &str,
) -> tantivy::Result<Option<Named>> {
    let mut named: Option<Named> = None;
    for strength in Strength::ALL
        .into_iter()
        .filter(|strength| may_name(*strength, tokens))
    {
        let answers = answers(searcher, fields, strength, name)?;
        // A beginning or a blend that several issuers share names none of them.
        let sure = strength >= Strength::Capitals || answers.issuers.len() <= 1;
        if !sure || answers.documents.is_empty() {
            continue;
        }
        match &mut named {
            None => {
                named = Some(Named {
                    strength,
                    from: 0..0,
                    answers,
                })
            }
            Some(known) if answers.issuers.is_subset(&known.answers.issuers) => {
                known.answers.documents.extend(answers.documents);
            }
            Some(_) => {}
        }
    }
    Ok(named)
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
fn may_name(strength: Strength, tokens: &[Token]) -> bool {
    let common = tokens.len() == 1 && COMMON.contains(&tokens[0].word.as_str());
    let capital = tokens
        .iter()
        .any(|token| token.capital && !token.word.starts_with(|c: char| c.is_ascii_digit()));
    let mixed = tokens.iter().any(|token| {
        token.word.chars().any(|c| c.is_ascii_digit())
            && token.word.chars().any(char::is_alphabetic)
    });
    match strength {
        // "best buy" in small letters is a name; "target" is not.
        Strength::Name => !common || tokens[0].capital && !tokens[0].first,
        Strength::Capitals => {
            tokens.iter().all(|token| token.upper)
                && tokens.iter().map(|token| token.word.len()).sum::<usize>() >= 2
        }
        Strength::Likely => !common && (capital || mixed || tokens.len() > 1),
        Strength::First => !common && (capital || mixed),
    }
}

/// The documents of a name.
fn answers(
    searcher: &Searcher,
    fields: &Fields,
    strength: Strength,
    name: &str,
) -> tantivy::Result<Answers> {
    let term = Term::from_field_text(fields.aliases, &Alias::term(strength, name));
    let mut answers = Answers::default();
    if searcher.doc_freq(&term)? == 0 {
        return Ok(answers);
    }
    let query = TermQuery::new(term, IndexRecordOption::Basic);
    let found = searcher.search(
        &query,
        &TopDocs::with_limit(MAX_DOCUMENTS + 1).order_by_score(),
    )?;
    if found.len() > MAX_DOCUMENTS {
        return Ok(answers);
    }
    for (_, address) in &found {
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
    for (_, address) in found.iter().take(8) {
        let shown: TantivyDocument = searcher.doc(*address)?;
        answers.company = answers.company.or(shown
            .get_first(fields.company)
            .and_then(|value| value.as_str())
            .map(str::to_owned));
    }
    Ok(answers)
}

/// Adds documents of the same issuers under other names: those with one of their keys or numbers.
fn same_issuer(
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
            of_document(fields.kind_term(Kind::Document)),
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
fn decide(mut named: Vec<Named>, tokens: &[Token], written: &[&str]) -> Routed {
    named.sort_by_key(|one| {
        (
            std::cmp::Reverse(one.from.len()),
            std::cmp::Reverse(one.strength),
            one.from.start,
        )
    });
    let mut taken: Vec<Named> = Vec::new();
    for one in named {
        if !taken
            .iter()
            .any(|other: &Named| one.from.start < other.from.end && other.from.start < one.from.end)
        {
            taken.push(one);
        }
    }
    // A weak sign says nothing beside a sure one.
    let surest = taken.iter().map(|one| one.strength).max();
    taken.retain(|one| Some(one.strength) == surest || one.strength >= Strength::Capitals);
    if taken.is_empty() {
        return Routed::default();
    }
    taken.sort_by_key(|one| one.from.start);
    let mut routed = Routed {
        documents: Some(BTreeSet::new()),
        ..Routed::default()
    };
    for one in taken {
        let places: Vec<usize> = tokens[one.from.clone()]
            .iter()
            .map(|token| token.at)
            .collect();
        let first = places.first().copied().unwrap_or(0);
        let last = places.last().copied().unwrap_or(0);
        let from = written[first..=last].join(" ");
        let value = one.answers.company.clone().unwrap_or_else(|| {
            tokens[one.from.clone()]
                .iter()
                .map(|token| token.word.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        });
        if !routed.chips.iter().any(|chip| chip.value == value) {
            let from = from.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
            routed.chips.push(Chip {
                facet: "company".into(),
                value,
                from: from.clone(),
                documents: one.answers.documents.len(),
            });
            routed.issuer_words.extend(words::words(&from));
        }
        routed
            .documents
            .get_or_insert_default()
            .extend(&one.answers.documents);
    }
    routed
}

//! Routes a query to the issuers it names.
//!
//! Passages of other issuers are left out. Years, quarters and forms only order the documents of an issuer and leave none
//! out, because a filing also reports on earlier years. An abbreviated name that several issuers share selects nothing.
//!
//! Many names are ordinary words, too. A word that is not written as a name (in lower case, or at the start of a sentence)
//! counts as one only if it is rare in the documents of other issuers.

mod misspelled;

use std::collections::BTreeSet;
use std::ops::Range;

use stemma_reading::tokenizer::{is_stop_word, tokenize};
use tantivy::collector::Count;
use tantivy::query::BooleanQuery;
use tantivy::schema::Value;
use tantivy::{TantivyDocument, Term};

use super::document_filter::{documents_query, has_term};
use super::passage_set::PassageSet;
use super::schema::{Fields, IndexEntryKind};
use super::searcher::IndexSearcher;
use crate::alias_file::AliasFile;
use crate::aliases::{Alias, AliasStrength, MAX_WORDS};
use crate::query_words::{QueryWord, QueryWords};
use crate::search::AppliedFilter;

// A name of more documents than this means nothing in particular.
const MAX_DOCUMENTS: usize = 5_000;
// An issuer's numbers are the same in most of its documents, so a few are enough.
const READ_DOCUMENTS: usize = 8;
// A word is rare elsewhere on up to this share of the passages of other issuers, and a capitalized one on a few more.
const RARE_SHARE: f64 = 0.01;
const RARE_PASSAGES: usize = 2;

/// The issuers named in a query.
#[derive(Debug, Clone, Default)]
pub struct IssuerRouting {
    /// Keys of their documents; `None` if no issuer is named.
    pub documents: Option<BTreeSet<u64>>,
    /// The names, as filters.
    pub applied_filters: Vec<AppliedFilter>,
    /// Words that name an issuer, normalized.
    pub issuer_words: Vec<String>,
    /// Positions of these words in the query.
    pub names: Vec<Range<usize>>,
}

// A name in the query.
struct NameMatch {
    strength: AliasStrength,
    from: Range<usize>,
    documents: NamedDocuments,
    // Whether it is written as a name, and not as any word.
    is_marked: bool,
    is_corrected: bool,
}

impl NameMatch {
    fn overlaps(&self, other: &NameMatch) -> bool {
        self.from.start < other.from.end && other.from.start < self.from.end
    }
}

// The documents of a name.
#[derive(Default)]
struct NamedDocuments {
    documents: BTreeSet<u64>,
    issuers: BTreeSet<u64>,
    // The issuer's name by one of its documents, normalized.
    company: Option<String>,
}

// How far the writing of words says that they are a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    Name,
    // An ordinary word may be written like this.
    Word,
    // Not written as names of this strength are.
    Other,
}

/// Finds the issuers named in a query.
///
/// # Errors
/// An error of the index.
pub fn route(
    searcher: &IndexSearcher,
    fields: &Fields,
    names: &AliasFile,
    words: &QueryWords,
) -> tantivy::Result<IssuerRouting> {
    let router = Router {
        searcher,
        fields,
        names,
        query: words,
    };
    let mut accepted = resolve_matches(router.exact_matches()?);
    accepted.extend(router.corrected_matches(&accepted)?);
    accepted.sort_by_key(|name| name.from.start);
    let mut routed = applied(accepted, words);
    if let Some(documents) = &mut routed.documents {
        router.add_same_issuer(documents)?;
        if let [filter] = routed.applied_filters.as_mut_slice() {
            filter.documents = Some(documents.len());
        }
    }
    Ok(routed)
}

struct Router<'s> {
    searcher: &'s IndexSearcher,
    fields: &'s Fields,
    names: &'s AliasFile,
    query: &'s QueryWords,
}

impl Router<'_> {
    fn exact_matches(&self) -> tantivy::Result<Vec<NameMatch>> {
        let count = self.query.words.len();
        let in_names: Vec<bool> = self
            .query
            .words
            .iter()
            .map(|word| self.is_alias_word(word))
            .collect::<tantivy::Result<_>>()?;
        let mut matches: Vec<NameMatch> = Vec::new();
        for start in 0..count {
            for end in (start + 1..=count.min(start + MAX_WORDS)).rev() {
                let is_spelled = in_names[start..end].iter().all(|is_in_name| *is_in_name);
                matches.extend(self.match_name(start..end, is_spelled)?);
            }
        }
        Ok(matches)
    }

    fn is_alias_word(&self, word: &QueryWord) -> tantivy::Result<bool> {
        let term = Term::from_field_text(self.fields.alias_words, &word.word);
        Ok(self.searcher.doc_freq(&term)? > 0)
    }

    fn joined(&self, range: Range<usize>) -> String {
        let words = self.query.words[range]
            .iter()
            .map(|word| word.word.as_str());
        words.collect::<Vec<_>>().join(" ")
    }

    // The documents of a name at the strongest level that matches. If weaker levels name no other issuer, their documents
    // are added: those may state no issuer.
    // Without `is_spelled`, one of the words is in no name that people write.
    fn match_name(
        &self,
        range: Range<usize>,
        is_spelled: bool,
    ) -> tantivy::Result<Option<NameMatch>> {
        let name = self.joined(range.clone());
        let is_given = !self.names.names_of(&name).is_empty();
        let mut best: Option<NameMatch> = None;
        for strength in AliasStrength::ALL {
            let spelling = spelling(strength, self.query, &range);
            if spelling == Spelling::Other || strength.is_spelled() && !is_spelled && !is_given {
                continue;
            }
            let matched = self.documents_named(strength, &name)?;
            // A first word or blend that several issuers share identifies none of them.
            let is_unambiguous = strength >= AliasStrength::Capitals || matched.issuers.len() <= 1;
            if !is_unambiguous
                || matched.documents.is_empty()
                || spelling == Spelling::Word
                    && !self.is_rare_elsewhere(&range, &matched.documents)?
            {
                continue;
            }
            match &mut best {
                None => {
                    best = Some(NameMatch {
                        strength,
                        from: range.clone(),
                        documents: matched,
                        is_marked: is_marked(self.query, &range),
                        is_corrected: false,
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

    // The documents with an alias: by the index, and by the names that the owner of the archive gave.
    fn documents_named(
        &self,
        strength: AliasStrength,
        name: &str,
    ) -> tantivy::Result<NamedDocuments> {
        let mut matched = NamedDocuments::default();
        self.add_documents(strength, name, &mut matched)?;
        if strength == AliasStrength::Name {
            for target in self.names.names_of(name) {
                self.add_documents(strength, target, &mut matched)?;
            }
        }
        Ok(matched)
    }

    fn add_documents(
        &self,
        strength: AliasStrength,
        name: &str,
        matched: &mut NamedDocuments,
    ) -> tantivy::Result<()> {
        let term = Term::from_field_text(self.fields.aliases, &Alias::term(strength, name));
        if self.searcher.doc_freq(&term)? == 0 {
            return Ok(());
        }
        let named = PassageSet::matching(self.searcher, &*has_term(term))?;
        if named.len() > MAX_DOCUMENTS {
            return Ok(());
        }
        matched.documents.extend(named.column("doc_key")?);
        let issuers = named.column("company_key")?.into_iter();
        matched.issuers.extend(issuers.filter(|key| *key != 0));
        for address in named.addresses().take(READ_DOCUMENTS) {
            if matched.company.is_none() {
                matched.company = self.searcher.stored_text(address, self.fields.company)?;
            }
        }
        Ok(())
    }

    // Whether a single word is rare in the documents of other issuers. Several words in the order of a name always are.
    fn is_rare_elsewhere(
        &self,
        range: &Range<usize>,
        documents: &BTreeSet<u64>,
    ) -> tantivy::Result<bool> {
        let [word] = &self.query.words[range.clone()] else {
            return Ok(true);
        };
        let passages = Term::from_field_text(self.fields.kind, IndexEntryKind::Passage.as_str());
        let mut elsewhere = 0;
        for stem in tokenize(&word.word) {
            let word = Term::from_field_text(self.fields.body, &stem);
            elsewhere = elsewhere.max(self.count_elsewhere(word, documents)?);
        }
        let total = self.count_elsewhere(passages, documents)?;
        // Elsewhere a name may be mentioned now and then. An ordinary word is as rare in a small archive.
        let mentions = if word.capital { RARE_PASSAGES } else { 0 };
        Ok(elsewhere <= mentions + (total as f64 * RARE_SHARE) as usize)
    }

    fn count_elsewhere(&self, term: Term, documents: &BTreeSet<u64>) -> tantivy::Result<usize> {
        let all = self.searcher.search(&has_term(term.clone()), &Count)?;
        let own = documents_query(self.fields, documents);
        let own = BooleanQuery::intersection(vec![has_term(term), own]);
        Ok(all - self.searcher.search(&own, &Count)?)
    }

    // An issuer may have filed under other names. Adds documents that share one of its identifiers.
    fn add_same_issuer(&self, documents: &mut BTreeSet<u64>) -> tantivy::Result<()> {
        let mut identities: BTreeSet<String> = BTreeSet::new();
        for key in documents.iter().take(READ_DOCUMENTS) {
            let query = BooleanQuery::intersection(vec![
                has_term(Term::from_field_u64(self.fields.doc_key, *key)),
                has_term(self.fields.kind_term(IndexEntryKind::Document)),
            ]);
            for address in PassageSet::matching(self.searcher, &query)?.addresses() {
                let stored: TantivyDocument = self.searcher.doc(address)?;
                identities.extend(
                    stored
                        .get_all(self.fields.identity)
                        .filter_map(|value| value.as_str().map(str::to_owned)),
                );
            }
        }
        for identity in identities {
            let query = has_term(Term::from_field_text(self.fields.identity, &identity));
            let same = PassageSet::matching(self.searcher, &*query)?;
            documents.extend(same.column("doc_key")?.into_iter().take(MAX_DOCUMENTS));
        }
        Ok(())
    }
}

// How the query writes some words: the weaker the alias, the more it must look like a name.
fn spelling(strength: AliasStrength, query: &QueryWords, range: &Range<usize>) -> Spelling {
    let words = &query.words[range.clone()];
    let has_case = query.has_case();
    let has_letters = words
        .iter()
        .any(|word| word.word.chars().any(char::is_alphabetic));
    let letters: usize = words.iter().map(|word| word.word.chars().count()).sum();
    let as_name = |is_name: bool| {
        if is_name {
            Spelling::Name
        } else {
            Spelling::Word
        }
    };
    match strength {
        _ if !has_letters => Spelling::Other,
        // These have one word, which saves many lookups.
        AliasStrength::First | AliasStrength::Short if words.len() > 1 => Spelling::Other,
        AliasStrength::Name | AliasStrength::Likely => {
            let mut chars = words.iter().flat_map(|word| word.word.chars());
            let has_digit = chars.any(|c| c.is_ascii_digit());
            as_name(words.len() > 1 || has_digit || is_marked(query, range))
        }
        AliasStrength::Capitals if has_case && words.iter().all(|word| word.upper) => {
            as_name(words.iter().any(|word| !is_stop_word(&word.word)))
        }
        // `axp`, `JnJ`
        AliasStrength::Capitals if letters >= 3 => Spelling::Word,
        AliasStrength::Short if letters > 2 => Spelling::Word,
        AliasStrength::Short if has_case && words.iter().all(|word| word.upper) => Spelling::Word,
        AliasStrength::First => Spelling::Word,
        AliasStrength::Capitals | AliasStrength::Short => Spelling::Other,
    }
}

// Whether a word is marked as a name: capitalized within a sentence, or at its start with a possessive, or next to a year, a
// quarter or a form.
fn is_marked(query: &QueryWords, range: &Range<usize>) -> bool {
    let Some(word) = query
        .words
        .get(range.start)
        .filter(|word| word.capital && query.has_case())
    else {
        return false;
    };
    let precedes_number = query
        .words
        .get(range.end)
        .is_some_and(|next| next.word.chars().any(|c| c.is_ascii_digit()));
    !word.first || word.possessive || precedes_number
}

// If names overlap, the longest wins, then the strongest.
fn resolve_matches(mut matches: Vec<NameMatch>) -> Vec<NameMatch> {
    matches.sort_by_key(|name| {
        (
            std::cmp::Reverse(name.from.len()),
            std::cmp::Reverse(name.strength),
            name.from.start,
        )
    });
    let mut accepted: Vec<NameMatch> = Vec::new();
    for name in matches {
        if !accepted.iter().any(|other| name.overlaps(other)) {
            accepted.push(name);
        }
    }
    // A weak match next to a strong one is probably an ordinary word, unless it is written as a name.
    let surest = accepted.iter().map(|name| name.strength).max();
    accepted.retain(|name| {
        name.is_marked || Some(name.strength) == surest || name.strength >= AliasStrength::Capitals
    });
    accepted
}

fn applied(accepted: Vec<NameMatch>, query: &QueryWords) -> IssuerRouting {
    let mut routed = IssuerRouting::default();
    for name in accepted {
        let from = query.written(name.from.clone());
        let value = name.documents.company.clone().unwrap_or_else(|| {
            let words = query.words[name.from.clone()].iter();
            words
                .map(|word| word.word.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        });
        if !routed
            .applied_filters
            .iter()
            .any(|filter| filter.value == value)
        {
            routed.issuer_words.extend(tokenize(&from));
            routed.applied_filters.push(AppliedFilter {
                facet: "company".into(),
                value,
                from,
                narrows: true,
                documents: Some(name.documents.documents.len()),
                did_you_mean: name.is_corrected,
                keys: match name.documents.company {
                    Some(_) => BTreeSet::new(),
                    None => name.documents.documents.clone(),
                },
            });
        }
        routed
            .documents
            .get_or_insert_default()
            .extend(&name.documents.documents);
        routed.names.push(name.from);
    }
    routed
}

//! The search port: a [`Query`] goes to a [`SearchService`], which returns [`SearchResults`].
//!
//! The port does not say where the search runs: over an index in this process, over one elsewhere, or by reading
//! documents one by one. Hits name documents by id and sections by number; callers with a catalog add rank and locators.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_document::rounding::rounded_share;
use stemma_document::{DocId, SectionId};
use stemma_store::PortError;
use utoipa::ToSchema;

use crate::query_syntax::TextOperators;
use crate::usage::CallAccount;
use stemma_catalog::filter::Filter;

/// A longer query is refused; of text that is put together from several questions, the rest is ignored.
pub const MAX_QUERY_CHARS: usize = 4_000;
/// Largest [`Query::limit`].
pub const MAX_LIMIT: usize = 500;
/// Largest [`Query::skip`]. Each page ranks all hits before it again, so that deep paging gets slow.
pub const MAX_SKIP: usize = 10_000;

/// Code of the note of a search whose index lacks documents in scope.
pub const INDEX_BEHIND: &str = "search.index_behind";

/// Code of the note of a search of a scope with documents that cannot be read.
pub const UNREADABLE: &str = "search.unreadable";

/// Below this share of evidence the answer is hardly in the results (docs/guide/search.md has the measurement).
pub const LOW_EVIDENCE: f32 = 0.1;

/// Searches one collection.
#[async_trait]
pub trait SearchService: Send + Sync {
    /// Returns matching sections, best first. The same query over the same trees returns the same hits. Embedding the query
    /// may cost; without an account it is logged under a run of its own.
    ///
    /// # Errors
    /// [`SearchError`] if the query has no words, or the store or index fails.
    async fn search(
        &self,
        query: &Query,
        account: Option<&dyn CallAccount>,
    ) -> Result<SearchResults, SearchError>;
}

/// A search: text, scope and options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Query {
    /// A question or keywords, without operators; cut at [`MAX_QUERY_CHARS`].
    pub text: String,
    /// Conditions on the text of hits.
    pub operators: TextOperators,
    pub within: DocumentScope,
    /// Conditions on documents.
    pub filter: Filter,
    /// Search this Item only, with its subsections.
    pub item: Option<ItemRef>,
    /// Number of hits to return, 1 to [`MAX_LIMIT`].
    pub limit: usize,
    /// Number of hits to skip, for paging; at most [`MAX_SKIP`].
    pub skip: usize,
    /// Whether to return the parts of each score.
    pub explain: bool,
    /// Whether to avoid all paid calls. Semantic routing is then skipped, because it embeds the query.
    pub free_only: bool,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            text: String::new(),
            operators: TextOperators::default(),
            within: DocumentScope::All,
            filter: Filter::default(),
            item: None,
            limit: 10,
            skip: 0,
            explain: false,
            free_only: false,
        }
    }
}

impl Query {
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// The documents to search.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentScope {
    /// All documents. Names in the query may still narrow the search (routing).
    #[default]
    All,
    /// These documents. A single document skips routing.
    Documents(Vec<DocId>),
}

/// An Item of a filing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemRef {
    /// The part of the form (`II`), if it matters.
    pub part: Option<String>,
    /// `1A`, `7` or `2.02`.
    pub number: String,
}

impl std::str::FromStr for ItemRef {
    type Err = SearchError;

    /// Parses `1A`, `II.1A`, `item-7` or `Item 7`.
    fn from_str(text: &str) -> Result<Self, SearchError> {
        match stemma_catalog::items::parse_item_name(text) {
            Some((part, number)) => Ok(Self { part, number }),
            None => Err(SearchError::NoItem {
                text: text.chars().take(80).collect(),
            }),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchResults {
    /// Best first; ties ordered by document and section.
    pub hits: Vec<SearchHit>,
    /// Conditions found in the query text.
    pub applied_filters: Vec<AppliedFilter>,
    /// Terms of the query, normalized.
    pub terms: Vec<String>,
    pub total: TotalHits,
    pub documents: MatchedDocuments,
    /// What was searched otherwise than the query says.
    pub notes: Vec<SearchNote>,
    pub stats: SearchStats,
    /// Words and names of the query that no document in scope has; empty if the index is behind.
    pub missing_terms: Vec<MissingTerm>,
    /// The share (0–1) of what the query asks about that one of the best passages has; words count by their rarity. `None`
    /// if the query has no such words, or the index is behind.
    pub evidence: Option<f32>,
}

impl SearchResults {
    /// Whether the index lacks the current version of documents in scope.
    pub fn is_index_behind(&self) -> bool {
        self.stats.documents_not_indexed > 0
    }

    /// The words and names that no document in scope has; `None` if the index is behind.
    pub fn known_missing_terms(&self) -> Option<Vec<MissingTerm>> {
        (!self.is_index_behind()).then(|| self.missing_terms.clone())
    }

    /// The evidence in thousandths; `None` if it is unknown.
    pub fn rounded_evidence(&self) -> Option<f64> {
        self.evidence.map(rounded_share)
    }

    /// Whether the answer is hardly in the results; `None` if the index is behind.
    pub fn has_low_evidence(&self) -> Option<bool> {
        let is_low = self
            .evidence
            .is_some_and(|evidence| evidence < LOW_EVIDENCE);
        (!self.is_index_behind()).then_some(is_low)
    }

    /// Records that `documents` in scope cannot be read: what no document has is said of the others.
    pub fn set_unreadable(&mut self, documents: usize) {
        self.stats.documents_unreadable = documents;
        let message = match documents {
            1 => "a document in scope cannot be read, so it is not searched: restore it, or ingest it again".to_owned(),
            more => format!(
                "{more} documents in scope cannot be read, so they are not searched: restore them, or ingest them again"
            ),
        };
        self.notes.push(SearchNote::new(UNREADABLE, message));
    }

    /// Records that the index lacks the current version of `documents` in scope: what no document has is then unknown.
    pub fn set_index_behind(&mut self, documents: usize) {
        self.stats.documents_not_indexed = documents;
        self.missing_terms.clear();
        self.evidence = None;
        let message = match documents {
            1 => "a document in scope is not indexed yet: what it has is not found".to_owned(),
            more => format!(
                "{more} documents in scope are not indexed yet: what they have is not found"
            ),
        };
        self.notes.push(SearchNote::new(INDEX_BEHIND, message));
    }
}

/// The documents with a matching passage among the candidates of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MatchedDocuments {
    /// By [`doc_key`](crate::index::document_entry::doc_key).
    pub keys: BTreeSet<u64>,
    /// The candidate limit was reached; there may be more.
    pub is_limit_reached: bool,
}

/// Where a search did something else than the query says. Meant for the reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SearchNote {
    /// Stable code.
    pub code: &'static str,
    /// Lower case, no full stop.
    pub message: String,
}

impl SearchNote {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// The number of hits: `12`, or `{"at_least": 500}` where counting stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum TotalHits {
    Exact(usize),
    /// The candidate limit was reached; there may be more.
    AtLeast {
        at_least: usize,
    },
}

impl TotalHits {
    /// The number that is known to exist.
    pub fn at_least(self) -> usize {
        match self {
            TotalHits::Exact(count) | TotalHits::AtLeast { at_least: count } => count,
        }
    }
}

impl Default for TotalHits {
    fn default() -> Self {
        TotalHits::Exact(0)
    }
}

/// The searched scope.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, ToSchema)]
pub struct SearchStats {
    /// Documents in scope that match the filter.
    pub documents_in_scope: usize,
    /// Documents left after routing.
    pub documents: usize,
    /// Documents in scope whose current version the index does not have yet. If there are any, the search cannot tell what
    /// no document has.
    pub documents_not_indexed: usize,
    /// Documents in scope whose trees or texts cannot be read: they are not searched.
    pub documents_unreadable: usize,
    /// Sections of the searched documents.
    pub sections: usize,
    /// Duration of the original search in microseconds; unchanged for cached results.
    pub took_us: u64,
}

/// A condition found in the query: `company: 3M COMPANY`, `fiscal_year: 2022`, `item: 1A`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct AppliedFilter {
    pub facet: String,
    pub value: String,
    /// The words of the query that state it.
    pub from: String,
    /// Whether other documents and sections are left out. Otherwise they come later.
    pub narrows: bool,
    /// Documents that satisfy it, of those in scope; omitted if they are not counted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub documents: Option<usize>,
    /// Whether the words of the query are not a name as written, and this is the nearest one.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub did_you_mean: bool,
    /// First eight bytes of the ids of the documents that the words name, if these state no company.
    #[serde(skip)]
    pub keys: BTreeSet<u64>,
}

/// A word or name of the query that no document in scope has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissingTerm {
    /// As the query has it.
    pub term: String,
    /// Words and names in scope that are spelled almost like it, at most three.
    pub nearest: Vec<String>,
}

impl fmt::Display for MissingTerm {
    /// `no document in scope has “anvil” (nearest: “anvils”)`
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "no document in scope has “{}”", self.term)?;
        match self.nearest.as_slice() {
            [] => Ok(()),
            nearest => write!(to, " (nearest: “{}”)", nearest.join("”, “")),
        }
    }
}

/// A matching section.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SearchHit {
    /// From 1.
    pub rank: usize,
    /// Larger is better; only comparable within one response.
    pub score: f64,
    /// Short explanation of the match.
    pub why: String,
    /// Score components, if requested.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub parts: BTreeMap<&'static str, f32>,
    #[schema(value_type = String)]
    pub doc_id: DocId,
    /// File name of the document.
    pub name: String,
    /// The version of the tree that was searched.
    pub version: u64,
    /// Locator of the section.
    pub locator: String,
    #[schema(value_type = String)]
    pub section_id: SectionId,
    pub title: String,
    /// Titles from the root to the section.
    pub path: Vec<String>,
    /// First and last physical page of the section.
    pub pages: Option<(u32, u32)>,
    /// First and last line of the section in a document without pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<(u32, u32)>,
    /// The best matching pages of the section's own text, best first.
    pub best_pages: Vec<SearchHitPage>,
    /// An excerpt around the matched terms.
    pub excerpt: Snippet,
}

/// A matching page.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SearchHitPage {
    /// Physical page, from 1.
    pub page: u32,
    /// Printed page number, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Locator of the page.
    pub locator: String,
    /// Larger is better; only comparable within one response.
    pub score: f64,
    /// Positions of matched terms: `{x, y, w, h}`, 0–1 of the page, origin at the top left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rectangles: Vec<PageRect>,
}

impl SearchHit {
    /// Its best page, or the first of its section; `None` without pages.
    pub fn first_page(&self) -> Option<u32> {
        let best = self.best_pages.first().map(|page| page.page);
        best.or(self.pages.map(|(start, _)| start))
    }

    /// A section without rank, locator and match. Callers with a catalog add rank and locators.
    pub fn new(
        doc_id: DocId,
        name: impl Into<String>,
        version: u64,
        section_id: SectionId,
        path: Vec<String>,
    ) -> Self {
        Self {
            rank: 0,
            score: 0.0,
            why: String::new(),
            parts: BTreeMap::new(),
            doc_id,
            name: name.into(),
            version,
            locator: String::new(),
            section_id,
            title: path.last().cloned().unwrap_or_default(),
            path,
            pages: None,
            lines: None,
            best_pages: Vec::new(),
            excerpt: Snippet::default(),
        }
    }
}

impl SearchHitPage {
    /// A page without locator and positions.
    pub fn new(page: u32, label: Option<String>, score: f32) -> Self {
        Self {
            page,
            label,
            locator: String::new(),
            score: score.into(),
            rectangles: Vec::new(),
        }
    }
}

/// A rectangle on a page, in fractions of its width and height (0–1), origin at the top left.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct PageRect {
    pub x: f32,
    pub y: f32,
    pub w: f32,
    pub h: f32,
}

/// An excerpt of a section around the matched terms.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Snippet {
    /// A sentence, or a row of a table after its column heads, and the text next to it that also fits the query: about 240 characters,
    /// with white space collapsed.
    pub text: String,
    /// Byte ranges of matched terms in `text`.
    #[serde(rename = "marks")]
    pub highlights: Vec<(usize, usize)>,
}

/// Why a search failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SearchError {
    #[error("`{text}` has no words to search for")]
    NoWords {
        /// Truncated.
        text: String,
    },
    #[error("`{text}` is not an Item")]
    NoItem {
        /// Truncated.
        text: String,
    },
    /// [`Query::skip`] is larger than [`MAX_SKIP`].
    #[error("at most {MAX_SKIP} hits can be skipped")]
    SkipTooLarge,
    /// The store or index failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_refs_parse_in_every_printed_form() {
        for (text, part, number) in [
            ("1a", None, "1A"),
            ("II.1A", Some("II"), "1A"),
            ("item-2.02", None, "2.02"),
        ] {
            let item: ItemRef = text.parse().unwrap();
            assert_eq!(
                (item.part.as_deref(), item.number.as_str()),
                (part, number),
                "{text}"
            );
        }
        assert!("one".parse::<ItemRef>().is_err());
    }
}

//! The one way to search: a [`Query`] goes to a [`SearchService`], a [`SearchResults`] comes back.
//!
//! A finder may sit over an index in this process or another one, or read documents one after the other: nothing here
//! says where. What it returns names documents by id and sections by number; who has a catalogue adds locators.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_document::{DocId, SectionId};
use stemma_engine::{PortError, RunId};

use crate::usage::CallUsage;
use stemma_catalog::filter::Filter;

/// Characters of a question that are looked at.
pub const MAX_QUERY_CHARS: usize = 4_000;
/// Hits per answer at most.
pub const MAX_LIMIT: usize = 500;
/// Hits that can be passed over at most: who wants more should ask for less.
pub const MAX_SKIP: usize = 10_000;

/// Answers questions over one collection.
#[async_trait]
pub trait SearchService: Send + Sync {
    /// Sections that fit, best first. The same question over the same trees gives the same answer.
    ///
    /// # Errors
    /// [`SearchError`] when there is nothing to look for, or the store or index could not say.
    async fn search(&self, query: &Query) -> Result<SearchResults, SearchError>;
}

/// What to look for, and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Query {
    /// A question, or key words; what lies beyond [`MAX_QUERY_CHARS`] is ignored.
    pub text: String,
    /// Which documents.
    pub within: DocumentScope,
    /// What must be true of them.
    pub filter: Filter,
    /// Only in this Item, its sub-sections included.
    pub item: Option<ItemRef>,
    /// Hits to return, 1 to [`MAX_LIMIT`].
    pub limit: usize,
    /// Hits to pass over, for further pages of an answer; at most [`MAX_SKIP`].
    pub skip: usize,
    /// How to rank.
    pub strategy: RankingStrategy,
    /// Whether hits say where their words stand on the page; costs a read of the document's text.
    pub rectangles: bool,
    /// Whether hits say what their scores are made of.
    pub explain: bool,
    /// Ingredients of [`RankingStrategy::Ranked`] to leave out, to see what each is worth.
    #[serde(rename = "without")]
    pub disabled_features: Vec<RankingFeature>,
    /// Whether nothing may be paid for it: then it is not routed by meaning, which has its words made a vector.
    #[serde(rename = "for_nothing")]
    pub free_only: bool,
    /// The question for which it is looked, as the call log names it; `None`: one of its own. Changes no answer.
    #[serde(skip)]
    pub run: Option<RunId>,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            text: String::new(),
            within: DocumentScope::All,
            filter: Filter::default(),
            item: None,
            limit: 10,
            skip: 0,
            strategy: RankingStrategy::Auto,
            rectangles: false,
            explain: false,
            disabled_features: Vec::new(),
            free_only: false,
            run: None,
        }
    }
}

impl Query {
    /// A question to all documents.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// Which documents a question is for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentScope {
    /// All of the collection: the question itself may say which (routing).
    #[default]
    All,
    /// These; with one, routing is skipped.
    Documents(Vec<DocId>),
}

/// An Item of a filing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemRef {
    /// The Part it stands in (`II`), where that matters.
    pub part: Option<String>,
    /// Its number: `1A`, `7`, `2.02`.
    pub number: String,
}

impl std::str::FromStr for ItemRef {
    type Err = SearchError;

    /// Reads `1A`, `II.1A`, `item-7`.
    fn from_str(text: &str) -> Result<Self, SearchError> {
        let bare = text.trim();
        let bare = bare.strip_prefix("item-").unwrap_or(bare);
        match format!("item-{bare}").parse::<stemma_catalog::locator::Fragment>() {
            Ok(stemma_catalog::locator::Fragment::Item { part, number }) => {
                Ok(Self { part, number })
            }
            _ => Err(SearchError::NoItem {
                text: text.chars().take(80).collect(),
            }),
        }
    }
}

/// How sections are ranked. No strategy here asks a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankingStrategy {
    /// The best there is for the question: [`RankingStrategy::Ranked`].
    #[default]
    Auto,
    /// Fields, phrases of the vocabulary, statement classes, years and numbers, weighed by measurement.
    Ranked,
    /// The documented baseline: BM25 over title (1.0), summary (0.7) and body (0.3), with ancestors.
    Lexical,
}

impl RankingStrategy {
    /// All, by their words.
    pub const ALL: [RankingStrategy; 3] = [
        RankingStrategy::Auto,
        RankingStrategy::Ranked,
        RankingStrategy::Lexical,
    ];

    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            RankingStrategy::Auto => "auto",
            RankingStrategy::Ranked => "ranked",
            RankingStrategy::Lexical => "lexical",
        }
    }

    /// The strategy of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.as_str() == name)
    }
}

/// A part of [`RankingStrategy::Ranked`] that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankingFeature {
    /// That instructions and sources in a question are no search words, and words of asking count little.
    Cleaning,
    /// Heads, headings, paths and summaries beside the text.
    Fields,
    /// Labels of rows.
    Labels,
    /// Phrases of the vocabulary.
    #[serde(rename = "vocabulary")]
    Synonyms,
    /// Pages that are statements, and questions that want them.
    Statements,
    /// Kinds of sections, and questions that want them.
    Sections,
    /// Columns of years.
    Years,
    /// Numbers on the page, where a number is asked for.
    Numbers,
    /// Tables of contents count half.
    Contents,
    /// Lines elsewhere that refer to a section.
    References,
    /// Issuers named in the question leave other documents out.
    Routing,
    /// Years, quarters and forms named in the question order documents.
    Dates,
    /// Documents with many good passages before those with one.
    DocScore,
}

impl RankingFeature {
    /// All of them, with their words.
    pub const ALL: [(RankingFeature, &str); 13] = [
        (RankingFeature::Cleaning, "cleaning"),
        (RankingFeature::Fields, "fields"),
        (RankingFeature::Labels, "labels"),
        (RankingFeature::Synonyms, "vocabulary"),
        (RankingFeature::Statements, "statements"),
        (RankingFeature::Sections, "sections"),
        (RankingFeature::Years, "years"),
        (RankingFeature::Numbers, "numbers"),
        (RankingFeature::Contents, "contents"),
        (RankingFeature::References, "references"),
        (RankingFeature::Routing, "routing"),
        (RankingFeature::Dates, "dates"),
        (RankingFeature::DocScore, "doc_score"),
    ];

    /// The ingredient of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|(_, word)| *word == name)
            .map(|(ingredient, _)| ingredient)
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SearchResults {
    /// Best first; equal scores in order of documents and sections.
    pub hits: Vec<SectionHit>,
    /// What the question itself said about which documents and places it is for.
    #[serde(rename = "routed")]
    pub applied_filters: Vec<AppliedFilter>,
    /// Words of the question as they are compared.
    pub terms: Vec<String>,
    /// How many hits there are.
    pub total: TotalHits,
    /// What to pass over for the next ones ([`Query::skip`]); `None` at the end.
    #[serde(rename = "next")]
    pub next_skip: Option<usize>,
    /// What was looked at.
    #[serde(rename = "searched")]
    pub stats: SearchStats,
    /// What it cost: the vector of the question, where one was made.
    #[serde(skip)]
    pub usage: CallUsage,
}

/// A number of hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TotalHits {
    /// This many.
    Exact(usize),
    /// So many were looked at; there may be more.
    AtLeast(usize),
}

impl Default for TotalHits {
    fn default() -> Self {
        TotalHits::Exact(0)
    }
}

/// What was looked at to answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SearchStats {
    /// Documents the scope and filter allow.
    pub documents_in_scope: usize,
    /// Documents that routing left; all of them where it was skipped.
    pub documents: usize,
    /// Documents searched by title and summary alone: their text is not in the store.
    pub documents_without_text: usize,
    /// Sections of all documents searched.
    pub sections: usize,
    /// Microseconds from question to answer, where it was answered.
    pub took_us: u64,
}

/// Something a question says about where to look: `company: 3M COMPANY`, `fiscal_year: 2022`, `item: 1A`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedFilter {
    /// The facet.
    pub facet: String,
    /// Its value.
    pub value: String,
    /// The words of the question that say so.
    pub from: String,
    /// Documents it leaves.
    pub documents: usize,
}

/// A section that fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SectionHit {
    /// Its document.
    pub doc: DocId,
    /// The document's file name.
    pub name: String,
    /// The version of the tree that was searched.
    pub version: u64,
    /// The section.
    pub section: SectionId,
    /// Titles from the top down to it; the last is its own.
    pub path: Vec<String>,
    /// First and last physical page of the section.
    pub pages: Option<(u32, u32)>,
    /// First and last line of the section, in a text.
    pub lines: Option<(u32, u32)>,
    /// The pages of its own text that fit best, best first; empty for texts.
    pub best_pages: Vec<PageHit>,
    /// Larger is better; comparable within one answer.
    pub score: f32,
    /// What the score is made of, where asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(rename = "parts")]
    pub score_parts: BTreeMap<&'static str, f32>,
    /// Why it is here, in a few words: `income statement · “operating income” · 2022`.
    pub why: String,
    /// The words that fit, where they stand.
    #[serde(rename = "excerpt")]
    pub snippet: Snippet,
}

/// A page that fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PageHit {
    /// Physical page, from 1.
    pub page: u32,
    /// What is printed on it as its number, where that differs.
    pub label: Option<String>,
    /// Larger is better; comparable within one answer.
    pub score: f32,
    /// Where the words of the question stand, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rectangles: Vec<PageRect>,
}

/// A place on a page, 0–1 of its width and height, origin at the top left.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PageRect {
    /// Left edge.
    pub x: f32,
    /// Top edge.
    pub y: f32,
    /// Width.
    pub w: f32,
    /// Height.
    pub h: f32,
}

/// Words of a section around the terms.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Snippet {
    /// At most 240 characters of one to three lines, white space folded.
    pub text: String,
    /// Bytes of `text` that are words of the question.
    #[serde(rename = "marks")]
    pub highlights: Vec<(usize, usize)>,
}

/// Why there is no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SearchError {
    /// The question has no words.
    #[error("`{text}` has no words to search for")]
    NoWords {
        /// As asked, cut.
        text: String,
    },
    /// It is no Item.
    #[error("`{text}` is no Item")]
    NoItem {
        /// As asked, cut.
        text: String,
    },
    /// More hits are to be passed over than can be.
    #[error("only the first {MAX_SKIP} hits can be asked for")]
    SkipTooLarge,
    /// The store or index could not say.
    #[error(transparent)]
    Port(#[from] PortError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_deserialize_with_defaults() {
        let query: Query =
            serde_json::from_str(r#"{"text": "capex", "strategy": "lexical", "limit": 3}"#)
                .unwrap();
        assert_eq!(
            query,
            Query {
                strategy: RankingStrategy::Lexical,
                limit: 3,
                ..Query::new("capex")
            }
        );
        assert!(
            RankingStrategy::ALL
                .iter()
                .all(|strategy| RankingStrategy::from_name(strategy.as_str()) == Some(*strategy))
        );
    }

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

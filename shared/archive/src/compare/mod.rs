//! Comparison of two documents: their sections, aligned.

pub(crate) mod aligned;
mod comparison;
mod trees;

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::facets::Scope;
use stemma_catalog::items;
use stemma_catalog::locator::{Fragment, ResolveError, resolve_item, section_locator};
use stemma_diff::{
    self, AlignError, AlignInput, AlignOptions, Alignment, DiffStatus, MAX_SECTIONS, Pair,
    SentenceRewording,
};
use stemma_document::rounding::rounded_share;
use stemma_document::{PublishedTree, SectionId, SectionTree};
use stemma_retrieval::search::ItemRef;
use stemma_store::PortResult;
use utoipa::ToSchema;

use self::aligned::AlignedDocuments;
use crate::document_store::spawn_cpu;
use crate::items::item_fragments;
use crate::request::{MAX_LIMIT, in_range};
use crate::tree::resolve_section;
use crate::{ApiError, Archive, DocumentInfo, SectionInfo};
pub use comparison::{
    ChangedSentence, ComparedSide, Comparison, ItemTextChurn, OutcomeCounts, PairedSection,
    RewordedSentence, SectionPair, TextChurn,
};
pub use trees::{
    DocumentTrees, SectionChange, TreeChangeCounts, TreeComparison, TreePlace, TreeVersion,
};

/// Largest number of quoted sentences per kind and pair.
pub const MAX_SENTENCES: usize = 20;
const DEFAULT_SENTENCES: usize = 3;
const DEFAULT_PAIRS: usize = 100;

/// A comparison request: the JSON of `POST /v1/comparisons`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompareRequest {
    /// Earlier document or a part of it (`3M_2021_10K#item-7`). Defaults to the issuer's filing before `right`.
    pub left: Option<String>,
    /// Later document or a part of it.
    pub right: String,
    /// Defaults to the server's first collection.
    pub collection: Option<String>,
    /// Limits the comparison to an Item: 1A, II.1A.
    pub item: Option<String>,
    /// Outcomes to return: `unchanged`, `modified`, `added`, `removed`, `unknown`. Defaults to all.
    #[serde(default)]
    pub outcomes: Vec<String>,
    /// Sentences per kind (added, removed, reworded) and pair. Defaults to 3.
    #[schema(maximum = 20)]
    pub sentences: Option<usize>,
    /// Pairs per page. Defaults to 100.
    #[schema(minimum = 1, maximum = 500)]
    pub limit: Option<usize>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
    /// Whether to return all pairs instead of a page.
    #[serde(skip)]
    pub all_pairs: bool,
}

// A document opened for comparison.
struct OpenedSide<'a> {
    listed: &'a CatalogDocument,
    published: Arc<PublishedTree>,
    // The only section to compare.
    within: Option<SectionId>,
}

impl OpenedSide<'_> {
    fn resolve(&self, part: &Fragment) -> Result<SectionId, ApiError> {
        resolve_section(&self.published.tree, &self.listed.label, part)
    }

    fn resolve_item(&self, item: &ItemRef) -> Result<SectionId, ResolveError> {
        let tree = &self.published.tree;
        resolve_item(tree, &self.listed.label, item.part.as_deref(), &item.number)
    }
}

// The section to compare, in the later document or the earlier one; its partner comes with it.
enum Focus {
    Left(SectionId),
    Right(SectionId),
}

impl CompareRequest {
    fn checked_outcomes(&self) -> Result<Vec<DiffStatus>, ApiError> {
        let named = self.outcomes.iter().enumerate().map(|(at, name)| {
            DiffStatus::ALL
                .into_iter()
                .find(|outcome| outcome.as_str() == name)
                .ok_or_else(|| {
                    let all = DiffStatus::ALL.map(DiffStatus::as_str).join(", ");
                    let message = format!("outcomes are {all}");
                    ApiError::invalid_field(&format!("/outcomes/{at}"), message)
                })
        });
        named.collect()
    }
}

impl Archive {
    /// Aligns the sections of two documents.
    pub async fn compare(&self, request: &CompareRequest) -> Result<Comparison, ApiError> {
        let limit = request.limit.unwrap_or(DEFAULT_PAIRS);
        let limit = in_range("/limit", limit, 1, MAX_LIMIT)?;
        let sentences = request.sentences.unwrap_or(DEFAULT_SENTENCES);
        let sentences = in_range("/sentences", sentences, 0, MAX_SENTENCES)?;
        let outcomes = request.checked_outcomes()?;
        let (after, part) = self.locate(&request.right)?;
        let (before, earlier_part) = match &request.left {
            Some(left) => self.locate(left)?,
            None => (stemma_diff::prior_filing(&self.catalog, &after)?, None),
        };
        let has_two_parts = earlier_part.is_some() && part.is_some();
        if !has_two_parts {
            check_section_count(&before)?;
            check_section_count(&after)?;
        }
        let mut left = self.open_side(&before).await?;
        let mut right = self.open_side(&after).await?;
        let item = request.item.as_deref();
        let focus = resolve_focus(item, (&mut left, earlier_part), (&mut right, part))?;
        let aligned = self.alignment(&left, &right, sentences).await?;
        let builder = ComparisonBuilder::new(&left, &right);
        let mut comparison = builder.build(&aligned, focus.as_ref());
        if request.left.is_none() {
            comparison.notes.extend(missing_years_note(&before, &after));
        }
        if !outcomes.is_empty() {
            comparison
                .pairs
                .retain(|pair| outcomes.contains(&pair.outcome));
        }
        comparison.total = comparison.pairs.len();
        if !request.all_pairs {
            comparison.paginate(request, limit)?;
        }
        Ok(comparison)
    }

    /// The filing of a company for a fiscal year, on `form` where that is named.
    pub fn filing_for_year(
        &self,
        company: &str,
        form: Option<&str>,
        year: &str,
    ) -> Result<Arc<CatalogDocument>, ApiError> {
        let path = format!("/@company/{}", company.trim().trim_matches('/'));
        let scope = Scope::parse(&path, &self.catalog)?;
        let filings = self.catalog.in_scope(&scope)?;
        let filings = self
            .catalog
            .list(&filings)
            .collect::<PortResult<Vec<_>>>()?;
        let filings = stemma_diff::filings_of_issuers(&self.catalog, &filings)?;
        Ok(stemma_diff::filing_for_year(&filings, form, year)?)
    }

    async fn open_side<'a>(&self, listed: &'a CatalogDocument) -> Result<OpenedSide<'a>, ApiError> {
        Ok(OpenedSide {
            listed,
            published: self.require_tree(listed).await?,
            within: None,
        })
    }

    // The alignment, from the cache or computed.
    async fn alignment(
        &self,
        left: &OpenedSide<'_>,
        right: &OpenedSide<'_>,
        sentences: usize,
    ) -> Result<Arc<AlignedDocuments>, ApiError> {
        let key = [left, right].map(|side| {
            let version = &side.published.version;
            (version.doc, version.seq, side.within, sentences)
        });
        let cached = self.cache.as_ref().and_then(|cache| cache.alignments(&key));
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let left_tree = Arc::clone(&left.published);
        let right_tree = Arc::clone(&right.published);
        let bodies = (
            self.load_body(&left_tree).await?,
            self.load_body(&right_tree).await?,
        );
        let readings = (
            self.store.load_readings(&left_tree).await?,
            self.store.load_readings(&right_tree).await?,
        );
        let from = left.within;
        let to = right.within;
        let aligned = spawn_cpu(move || {
            let has_text = (bodies.0.is_some(), bodies.1.is_some());
            let left = AlignInput {
                tree: &left_tree.tree,
                body: bodies.0.as_ref(),
                readings: readings.0.as_ref(),
                within: from,
            };
            let right = AlignInput {
                tree: &right_tree.tree,
                body: bodies.1.as_ref(),
                readings: readings.1.as_ref(),
                within: to,
            };
            let alignment = stemma_diff::align(&left, &right, &AlignOptions { sentences })?;
            Ok::<_, AlignError>(AlignedDocuments {
                alignment,
                has_text,
            })
        });
        let aligned = Arc::new(aligned.await??);
        if let Some(cached) = &self.cache {
            cached.put_alignment(key, &aligned, aligned.size_bytes());
        }
        Ok(aligned)
    }
}

// Everything but two parts is compared by an alignment of the whole documents. The catalog knows their sizes, so no tree is read
// only to be refused.
fn check_section_count(listed: &CatalogDocument) -> Result<(), ApiError> {
    let sections = listed.entry().map_or(0, |entry| entry.sections as usize);
    if sections <= MAX_SECTIONS {
        return Ok(());
    }
    let error = AlignError::TooManySections { most: MAX_SECTIONS };
    Err(ApiError::from(error).with_document(&listed.label))
}

// Resolves what is compared: two parts with each other; or one part, or one Item, with its partner.
fn resolve_focus(
    item: Option<&str>,
    (left, earlier_part): (&mut OpenedSide<'_>, Option<Fragment>),
    (right, part): (&mut OpenedSide<'_>, Option<Fragment>),
) -> Result<Option<Focus>, ApiError> {
    if let Some(item) = item {
        if earlier_part.is_some() || part.is_some() {
            let message = "an Item is compared between whole documents, but a part of one is named";
            let next = "name the documents without `#…`";
            return Err(ApiError::new("comparison.item_of_part", message, next));
        }
        let item: ItemRef = item.parse()?;
        return match (right.resolve_item(&item), left.resolve_item(&item)) {
            (Ok(id), _) => Ok(Some(Focus::Right(id))),
            (Err(ResolveError::NoItem { .. }), Ok(id)) => Ok(Some(Focus::Left(id))),
            (Err(error), _) => Err(error.into()),
        };
    }
    match (&earlier_part, &part) {
        (None, None) => Ok(None),
        (Some(one), Some(other)) => {
            left.within = Some(left.resolve(one)?);
            right.within = Some(right.resolve(other)?);
            Ok(None)
        }
        (Some(one), None) => Ok(Some(Focus::Left(left.resolve(one)?))),
        (None, Some(other)) => Ok(Some(Focus::Right(right.resolve(other)?))),
    }
}

// Renders an alignment, with the sections of both documents by id.
struct ComparisonBuilder<'v> {
    sides: [&'v OpenedSide<'v>; 2],
    sections: [HashMap<SectionId, PairedSection>; 2],
}

// The note for a prior filing that is not of the year before.
fn missing_years_note(before: &CatalogDocument, after: &CatalogDocument) -> Option<String> {
    let from = fiscal_year(before)?;
    let to = fiscal_year(after)?;
    let label = &before.label;
    (to - from > 1).then(|| {
        format!("`{label}` is for {from}: no filing between {from} and {to} is in the collection")
    })
}

fn fiscal_year(listed: &CatalogDocument) -> Option<i32> {
    let year = listed.entry()?.facts.fiscal_year.as_ref()?;
    year.value.parse().ok()
}

// The ids of a section and all below it.
type SubtreeRange = Option<std::ops::Range<u32>>;

// Whether a section is in one of two subtrees, of the left and the right document; without subtrees, all are.
fn is_in_focus(
    subtrees: Option<&(SubtreeRange, SubtreeRange)>,
    left: Option<SectionId>,
    right: Option<SectionId>,
) -> bool {
    subtrees.is_none_or(|(left_subtree, right_subtree)| {
        [(left_subtree, left), (right_subtree, right)]
            .into_iter()
            .any(|(subtree, id)| {
                let subtree = subtree.as_ref().zip(id);
                subtree.is_some_and(|(subtree, id)| subtree.contains(&id.0))
            })
    })
}

impl<'v> ComparisonBuilder<'v> {
    fn new(left: &'v OpenedSide<'v>, right: &'v OpenedSide<'v>) -> Self {
        let sides = [left, right];
        Self {
            sides,
            sections: sides.map(|side| sections_by_id(&side.published.tree, &side.listed.label)),
        }
    }

    fn build(&self, aligned: &AlignedDocuments, focus: Option<&Focus>) -> Comparison {
        let alignment = &aligned.alignment;
        let parts = focus.map(|focus| self.focus_ranges(alignment, focus));
        let pairs: Vec<&Pair> = alignment
            .pairs
            .iter()
            .filter(|pair| is_in_focus(parts.as_ref(), pair.left, pair.right))
            .collect();
        let items: Vec<ItemTextChurn> = alignment
            .items
            .iter()
            .filter(|item| is_in_focus(parts.as_ref(), item.left, item.right))
            .map(|item| ItemTextChurn {
                left: self.section(0, item.left),
                right: self.section(1, item.right),
                churn: TextChurn::from_churn(item.churn),
            })
            .collect();
        // An Item has a figure of its own; a section in an Item has none.
        let whole = parts
            .is_none()
            .then_some(TextChurn::from_churn(alignment.all));
        let changed = whole
            .or_else(|| items.first().map(|item| item.churn))
            .unwrap_or_default();
        let (left_part, right_part) = parts.unwrap_or_default();
        Comparison {
            left: self.compared_side(0, left_part, aligned.has_text.0),
            right: self.compared_side(1, right_part, aligned.has_text.1),
            counts: OutcomeCounts::from_pairs(&pairs),
            changed,
            items,
            notes: self.notes(aligned),
            pairs: pairs.into_iter().map(|pair| self.pair(pair)).collect(),
            total: 0,
            next_cursor: None,
        }
    }

    // The subtrees of the section in focus and its partner.
    fn focus_ranges(&self, alignment: &Alignment, focus: &Focus) -> (SubtreeRange, SubtreeRange) {
        let focused = alignment.pairs.iter().find(|pair| match focus {
            Focus::Left(id) => pair.left == Some(*id),
            Focus::Right(id) => pair.right == Some(*id),
        });
        let (left, right) = focused.map_or((None, None), |pair| (pair.left, pair.right));
        (self.subtree(0, left), self.subtree(1, right))
    }

    fn subtree(&self, side: usize, id: Option<SectionId>) -> SubtreeRange {
        let section = self.sides[side].published.tree.section(id?)?;
        Some(items::subtree_ids(section))
    }

    fn compared_side(&self, side: usize, part: SubtreeRange, has_text: bool) -> ComparedSide {
        let OpenedSide { listed, within, .. } = self.sides[side];
        let part = part.map(|part| SectionId(part.start)).or(*within);
        ComparedSide {
            document: DocumentInfo::from_catalog(listed),
            locator: match part {
                Some(id) => section_locator(&listed.label, id),
                None => listed.label.clone(),
            },
            has_text,
        }
    }

    fn notes(&self, aligned: &AlignedDocuments) -> Vec<String> {
        let mut notes = Vec::new();
        let has_text = [aligned.has_text.0, aligned.has_text.1];
        for (side, has_text) in self.sides.iter().zip(has_text) {
            if !has_text {
                let label = &side.listed.label;
                notes.push(format!(
                    "the text of `{label}` is not in the store: sections are matched by their titles alone"
                ));
            }
        }
        let same = self.sides[0].listed.doc() == self.sides[1].listed.doc();
        if same && self.sides[0].within == self.sides[1].within {
            notes.push("both sides are the same document".into());
        }
        notes.dedup();
        notes
    }

    fn section(&self, side: usize, id: Option<SectionId>) -> Option<PairedSection> {
        self.sections[side].get(&id?).cloned()
    }

    fn pair(&self, pair: &Pair) -> SectionPair {
        // The text of an added section is in the earlier document, if anywhere.
        let other = if pair.left.is_none() { 0 } else { 1 };
        let stands_in = pair
            .stands_in
            .map(|id| section_locator(&self.sides[other].listed.label, id));
        SectionPair {
            outcome: pair.status,
            renamed: pair.renamed,
            moved: pair.moved,
            similarity: pair
                .similarity
                .map(|share| rounded_similarity(share, pair.status == DiffStatus::Modified)),
            left: self.section(0, pair.left),
            right: self.section(1, pair.right),
            stands_in,
            removed: pair.removed.iter().map(ChangedSentence::from).collect(),
            added: pair.added.iter().map(ChangedSentence::from).collect(),
            reworded: pair
                .reworded
                .iter()
                .map(|both: &SentenceRewording| RewordedSentence {
                    left: (&both.left).into(),
                    right: (&both.right).into(),
                })
                .collect(),
        }
    }
}

fn sections_by_id(tree: &SectionTree, label: &str) -> HashMap<SectionId, PairedSection> {
    let item_of = item_fragments(tree);
    tree.walk()
        .map(|(depth, section)| {
            let paired = PairedSection {
                depth,
                item: item_of.get(&section.id).cloned(),
                section: SectionInfo::new(tree, section, label),
            };
            (section.id, paired)
        })
        .collect()
}

/// A share as it is shown: what is modified is never shown as the same.
fn rounded_similarity(share: f32, modified: bool) -> f64 {
    if modified {
        rounded_share(share).min(0.999)
    } else {
        rounded_share(share)
    }
}

#[cfg(test)]
mod tests;

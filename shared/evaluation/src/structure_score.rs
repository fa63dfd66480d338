//! Scores one section tree against the gold structure of its document.

use std::collections::HashMap;

use serde::Serialize;
use stemma_document::{SectionSpan, SectionTree};

use crate::gold::{GoldScope, GoldStructure};
use crate::matching::{Pairs, best_matching};
use crate::titles::TitleKey;

/// Two titles with at least this similarity may be matched.
const MIN_TITLE_SIMILARITY: f64 = 0.8;
/// Limit of gold headings × predicted sections.
const MAX_COMPARISONS: usize = 100_000_000;

/// The scores of one document. `None` if the gold structure does not cover the figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StructureScore {
    /// Gold headings.
    #[serde(rename = "truth")]
    pub gold: usize,
    /// Sections of the tree.
    #[serde(rename = "found")]
    pub predicted: usize,
    /// True positives.
    pub matched: usize,
    /// Share of the predicted sections in scope that match.
    pub precision: Option<f64>,
    pub recall: f64,
    pub f1: f64,
    /// Share of matched sections that start on the gold page (or line).
    pub same_page: f64,
    /// Share of matched sections that start within one page (or line) of the gold one.
    pub near_page: f64,
    /// F1 of sections that start within one page: the main figure.
    pub loc_f1: f64,
    /// Share of matched sections on the gold level.
    pub level: Option<f64>,
    /// Share of matched sections whose nearest matched ancestor is correct.
    pub ancestor: Option<f64>,
    /// Share of matched sections whose parent is correct.
    pub parent: Option<f64>,
    /// False negatives: page and title.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<(Option<u32>, String)>,
    /// Predicted sections without a match: page and title.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<(Option<u32>, String)>,
    /// Matched sections on another page: gold page, predicted page, title.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<(Option<u32>, Option<u32>, String)>,
}

/// A gold heading or a predicted section.
struct Heading {
    title: String,
    key: TitleKey,
    depth: usize,
    parent: Option<usize>,
    /// First page or line.
    start: Option<u32>,
}

/// Gold and predicted headings with their one-to-one matching.
struct Alignment {
    gold: Vec<Heading>,
    predicted: Vec<Heading>,
    /// Indexes into `gold` and `predicted`.
    pairs: Vec<(usize, usize)>,
    predicted_of_gold: HashMap<usize, usize>,
    gold_of_predicted: HashMap<usize, usize>,
}

/// Scores a tree; no tree counts as an empty one. `None` if there are too many sections to compare.
pub fn score(gold: &GoldStructure, tree: Option<&SectionTree>) -> Option<StructureScore> {
    let alignment = Alignment::new(gold, tree)?;
    let matched = alignment.pairs.len();
    let scope = gold.scope();
    let in_scope = alignment.predicted_in_scope(scope);
    let gold_count = alignment.gold.len();
    let (precision, recall, f1) = precision_recall_f1(matched, in_scope, gold_count);
    let near = alignment.pairs_within(1);
    let (_, near_recall, loc_f1) = precision_recall_f1(near, in_scope, gold_count);
    let recall_only = scope == GoldScope::RecallOnly;
    let mut score = StructureScore {
        gold: gold_count,
        predicted: alignment.predicted.len(),
        matched,
        precision: (!recall_only).then_some(precision),
        recall,
        f1: if recall_only { recall } else { f1 },
        same_page: alignment.share_of_pairs(alignment.pairs_within(0)),
        near_page: alignment.share_of_pairs(near),
        loc_f1: if recall_only { near_recall } else { loc_f1 },
        level: None,
        ancestor: None,
        parent: None,
        missed: unmatched(&alignment.gold, &alignment.predicted_of_gold),
        extra: unmatched(&alignment.predicted, &alignment.gold_of_predicted),
        moved: alignment.moved(),
    };
    if gold.levels_reliable {
        let Alignment {
            gold,
            predicted,
            predicted_of_gold,
            gold_of_predicted,
            ..
        } = &alignment;
        score.level = Some(alignment.share_where(|one, other| one.depth == other.depth));
        score.ancestor = Some(alignment.share_where(|one, other| {
            alignment.is_match(
                nearest_matched_ancestor(one, gold, predicted_of_gold),
                nearest_matched_ancestor(other, predicted, gold_of_predicted),
            )
        }));
        score.parent =
            Some(alignment.share_where(|one, other| alignment.is_match(one.parent, other.parent)));
    }
    Some(score)
}

impl Alignment {
    fn new(gold: &GoldStructure, tree: Option<&SectionTree>) -> Option<Self> {
        let pages = gold.pages;
        let gold = gold_headings(gold);
        let predicted = tree.map(predicted_headings).unwrap_or_default();
        let pairs = best_matching(&candidate_pairs(&gold, &predicted, pages)?)?;
        Some(Self {
            gold,
            predicted,
            predicted_of_gold: pairs.iter().copied().collect(),
            gold_of_predicted: pairs.iter().map(|(gold, found)| (*found, *gold)).collect(),
            pairs,
        })
    }

    fn predicted_in_scope(&self, scope: GoldScope) -> usize {
        match scope {
            GoldScope::SecItems => self
                .predicted
                .iter()
                .enumerate()
                .filter(|(index, heading)| {
                    self.gold_of_predicted.contains_key(index) || heading.key.is_item_or_part()
                })
                .count(),
            GoldScope::Full | GoldScope::RecallOnly => self.predicted.len(),
        }
    }

    /// Matched pairs whose starts are at most `distance` pages (or lines) apart.
    fn pairs_within(&self, distance: u32) -> usize {
        self.headings()
            .filter(|(gold, predicted)| {
                let starts = gold.start.zip(predicted.start);
                starts.is_some_and(|(a, b)| a.abs_diff(b) <= distance)
            })
            .count()
    }

    fn headings(&self) -> impl Iterator<Item = (&Heading, &Heading)> {
        self.pairs
            .iter()
            .map(|(gold, predicted)| (&self.gold[*gold], &self.predicted[*predicted]))
    }

    fn share_where(&self, is_correct: impl Fn(&Heading, &Heading) -> bool) -> f64 {
        let correct = self
            .headings()
            .filter(|(gold, predicted)| is_correct(gold, predicted));
        self.share_of_pairs(correct.count())
    }

    fn share_of_pairs(&self, count: usize) -> f64 {
        count as f64 / self.pairs.len().max(1) as f64
    }

    fn is_match(&self, gold: Option<usize>, predicted: Option<usize>) -> bool {
        match (gold, predicted) {
            (None, None) => true,
            (Some(gold), Some(predicted)) => self.predicted_of_gold.get(&gold) == Some(&predicted),
            _ => false,
        }
    }

    fn moved(&self) -> Vec<(Option<u32>, Option<u32>, String)> {
        self.headings()
            .filter(|(gold, predicted)| gold.start != predicted.start)
            .map(|(gold, predicted)| (gold.start, predicted.start, gold.title.clone()))
            .collect()
    }
}

fn nearest_matched_ancestor(
    heading: &Heading,
    headings: &[Heading],
    matched: &HashMap<usize, usize>,
) -> Option<usize> {
    let mut ancestor = heading.parent;
    while let Some(index) = ancestor.filter(|index| !matched.contains_key(index)) {
        ancestor = headings[index].parent;
    }
    ancestor
}

fn gold_headings(gold: &GoldStructure) -> Vec<Heading> {
    let mut open: Vec<usize> = Vec::new();
    let mut headings: Vec<Heading> = Vec::with_capacity(gold.nodes.len());
    for node in &gold.nodes {
        let depth = usize::from(node.level.get());
        while open
            .last()
            .is_some_and(|last| headings[*last].depth >= depth)
        {
            open.pop();
        }
        let parent = open.last().copied();
        open.push(headings.len());
        headings.push(Heading {
            title: node.title.clone(),
            key: TitleKey::new(&node.title),
            depth,
            parent,
            start: node.page.or(node.line),
        });
    }
    headings
}

fn predicted_headings(tree: &SectionTree) -> Vec<Heading> {
    let mut open: Vec<usize> = Vec::new();
    let mut headings: Vec<Heading> = Vec::new();
    for (depth, section) in tree.walk() {
        open.truncate(depth - 1);
        let start = match section.span {
            SectionSpan::Pages { pages, .. } => pages.start().get(),
            SectionSpan::Lines { start, .. } => start,
        };
        let parent = open.last().copied();
        open.push(headings.len());
        headings.push(Heading {
            title: section.title.clone(),
            key: TitleKey::new(&section.title),
            depth,
            parent,
            start: Some(start),
        });
    }
    headings
}

/// Pairs with similar titles. Each pair has a base weight above any bonus, so the matching has as many pairs as
/// possible; the bonuses prefer similar titles and near pages.
fn candidate_pairs(gold: &[Heading], predicted: &[Heading], pages: Option<u32>) -> Option<Pairs> {
    if gold.len().saturating_mul(predicted.len()) > MAX_COMPARISONS {
        return None;
    }
    let page_count = f64::from(pages.unwrap_or(0).max(1));
    let mut pairs = Pairs::new();
    for (left, a) in gold.iter().enumerate() {
        for (right, b) in predicted.iter().enumerate() {
            let similarity = a.key.similarity(&b.key);
            if similarity < MIN_TITLE_SIMILARITY {
                continue;
            }
            let bonus = a
                .start
                .zip(b.start)
                .map_or(0.0, |(a, b)| proximity_bonus(a.abs_diff(b), page_count));
            pairs
                .entry(left)
                .or_default()
                .insert(right, 10.0 + similarity + bonus);
        }
    }
    Some(pairs)
}

fn proximity_bonus(distance: u32, page_count: f64) -> f64 {
    let distance = f64::from(distance);
    let same_page = if distance == 0.0 { 0.1 } else { 0.0 };
    0.3 * (1.0 - distance / 10.0).max(0.0)
        + 0.05 * (1.0 - distance / page_count).max(0.0)
        + same_page
}

fn precision_recall_f1(matched: usize, predicted: usize, gold: usize) -> (f64, f64, f64) {
    let precision = match (predicted, gold) {
        (0, 0) => 1.0,
        (0, _) => 0.0,
        _ => matched as f64 / predicted as f64,
    };
    let recall = if gold == 0 {
        1.0
    } else {
        matched as f64 / gold as f64
    };
    let sum = precision + recall;
    let f1 = if sum > 0.0 {
        2.0 * precision * recall / sum
    } else {
        0.0
    };
    (precision, recall, f1)
}

fn unmatched(headings: &[Heading], matched: &HashMap<usize, usize>) -> Vec<(Option<u32>, String)> {
    headings
        .iter()
        .enumerate()
        .filter(|(index, _)| !matched.contains_key(index))
        .map(|(_, heading)| (heading.start, heading.title.clone()))
        .collect()
}

//! How well a tree has the sections of a truth.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use stemma_document::{Extent, SectionSpan, SectionTree};

use crate::matching::{self, Pairs};
use crate::titles::TitleKey;
use crate::truth::{StructureTruth, TruthScope};

/// Likeness from which two titles are of one section.
const MIN_TITLE_SIMILARITY: f64 = 0.8;
/// Truths × sections that are compared at most.
const MAX_COMPARISONS: usize = 100_000_000;

/// The scores of one document. `None`: the truth says nothing about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StructureScore {
    /// Sections of the truth.
    pub truth: usize,
    /// Sections of the tree.
    #[serde(rename = "found")]
    pub actual: usize,
    /// Sections of both.
    pub matched: usize,
    /// Share of found sections (in scope) that are true.
    pub precision: Option<f64>,
    /// Share of true sections that are found.
    pub recall: f64,
    /// Of both.
    pub f1: f64,
    /// Share of matched sections that start on the very page (or line).
    pub same_page: f64,
    /// … or one beside it.
    pub near_page: f64,
    /// F1 of sections that start within one page: the headline.
    pub loc_f1: f64,
    /// Share of matched sections on the truth's level.
    pub level: Option<f64>,
    /// Share of matched sections whose nearest matched ancestor is the right one.
    pub ancestor: Option<f64>,
    /// Share of matched sections whose parent is the right one.
    pub parent: Option<f64>,
    /// Share of pages that lie in a section.
    pub coverage: Option<f64>,
    /// Structural faults, by name.
    pub faults: BTreeMap<&'static str, usize>,
    /// Sections that leave their parent's pages.
    pub outside: usize,
    /// True sections that are not found: page and title.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<(Option<u32>, String)>,
    /// Found sections that are not in the truth.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<(Option<u32>, String)>,
    /// Sections found on another page: the truth's, the tree's, and the title.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<(Option<u32>, Option<u32>, String)>,
}

/// A section of either side.
struct HeadingNode {
    title: String,
    normalized: TitleKey,
    depth: usize,
    parent: Option<usize>,
    start: Option<u32>,
    end: Option<u32>,
}

/// Scores a tree, or that there is none; `None` where truth and tree are too large to be compared.
pub fn score(truth: &StructureTruth, tree: Option<&SectionTree>) -> Option<StructureScore> {
    let expected = truth_nodes(truth);
    let actual = tree.map(tree_nodes).unwrap_or_default();
    let pages = truth
        .pages
        .filter(|_| tree.is_none_or(|tree| matches!(tree.extent, Extent::Pages(_))));
    let pairs = matching::best(&candidates(&expected, &actual, truth.pages)?)?;
    let to_found: HashMap<usize, usize> = pairs.iter().copied().collect();
    let is_found: HashMap<usize, usize> =
        pairs.iter().map(|(left, right)| (*right, *left)).collect();
    let in_scope = match truth.scope() {
        TruthScope::SecItems => actual
            .iter()
            .enumerate()
            .filter(|(at, node): &(usize, &HeadingNode)| {
                is_found.contains_key(at) || node.normalized.is_item_or_part()
            })
            .count(),
        TruthScope::Full | TruthScope::RecallOnly => actual.len(),
    };
    let apart = |(left, right): &(usize, usize)| {
        Some(expected[*left].start?.abs_diff(actual[*right].start?))
    };
    let count = |most: u32| {
        pairs
            .iter()
            .filter(|pair| apart(pair).is_some_and(|apart| apart <= most))
            .count()
    };
    let share = |count: usize| {
        if pairs.is_empty() {
            0.0
        } else {
            count as f64 / pairs.len() as f64
        }
    };
    let (precision, recall, f1) = precision_recall_f1(pairs.len(), in_scope, expected.len());
    let (_, near_recall, loc_f1) = precision_recall_f1(count(1), in_scope, expected.len());
    let selection = truth.scope() == TruthScope::RecallOnly;
    let judged = |right: &dyn Fn(&HeadingNode, &HeadingNode) -> bool| {
        let right = pairs
            .iter()
            .filter(|(left, other)| right(&expected[*left], &actual[*other]))
            .count();
        truth.levels_reliable.then(|| share(right))
    };
    let meets = |expected: Option<usize>, actual: Option<usize>| match (expected, actual) {
        (None, None) => true,
        (Some(expected), Some(actual)) => to_found.get(&expected) == Some(&actual),
        _ => false,
    };
    let above = |nodes: &[HeadingNode], node: &HeadingNode, matched: &HashMap<usize, usize>| {
        let mut at = node.parent;
        while let Some(parent) = at.filter(|parent| !matched.contains_key(parent)) {
            at = nodes[parent].parent;
        }
        at
    };
    let (faults, outside) = faults(&actual, pages);
    Some(StructureScore {
        truth: expected.len(),
        actual: actual.len(),
        matched: pairs.len(),
        precision: (!selection).then_some(precision),
        recall,
        f1: if selection { recall } else { f1 },
        same_page: share(count(0)),
        near_page: share(count(1)),
        loc_f1: if selection { near_recall } else { loc_f1 },
        level: judged(&|expected, actual| expected.depth == actual.depth),
        ancestor: judged(&|a, b| {
            meets(above(&expected, a, &to_found), above(&actual, b, &is_found))
        }),
        parent: judged(&|expected, actual| meets(expected.parent, actual.parent)),
        coverage: pages.map(|pages| coverage_of(&actual, pages)),
        faults,
        outside,
        missed: unmatched(&expected, &to_found),
        extra: unmatched(&actual, &is_found),
        moved: pairs
            .iter()
            .filter(|(left, right)| expected[*left].start != actual[*right].start)
            .map(|(left, right)| {
                (
                    expected[*left].start,
                    actual[*right].start,
                    expected[*left].title.clone(),
                )
            })
            .collect(),
    })
}

fn truth_nodes(truth: &StructureTruth) -> Vec<HeadingNode> {
    let mut open: Vec<usize> = Vec::new();
    let mut nodes: Vec<HeadingNode> = Vec::with_capacity(truth.nodes.len());
    for node in &truth.nodes {
        let depth = usize::from(node.level.get());
        while open.last().is_some_and(|last| nodes[*last].depth >= depth) {
            open.pop();
        }
        let parent = open.last().copied();
        let start = node.page.or(node.line);
        open.push(nodes.len());
        let ready = TitleKey::new(&node.title);
        nodes.push(HeadingNode {
            title: node.title.clone(),
            normalized: ready,
            depth,
            parent,
            start,
            end: None,
        });
    }
    nodes
}

fn tree_nodes(tree: &SectionTree) -> Vec<HeadingNode> {
    let mut open: Vec<usize> = Vec::new();
    let mut nodes: Vec<HeadingNode> = Vec::new();
    for (depth, section) in tree.walk() {
        open.truncate(depth - 1);
        let (start, end) = match section.span {
            SectionSpan::Pages { pages, .. } => {
                (Some(pages.start().get()), Some(pages.end().get()))
            }
            SectionSpan::Lines { start, .. } => (Some(start), None),
        };
        let parent = open.last().copied();
        open.push(nodes.len());
        nodes.push(HeadingNode {
            title: section.title.clone(),
            normalized: TitleKey::new(&section.title),
            depth,
            parent,
            start,
            end,
        });
    }
    nodes
}

/// Pairs of like titles. Every pair outweighs any nearness, so that as many as possible are matched; among those, like
/// titles and near places win.
fn candidates(
    expected: &[HeadingNode],
    actual: &[HeadingNode],
    pages: Option<u32>,
) -> Option<Pairs> {
    if expected.len().saturating_mul(actual.len()) > MAX_COMPARISONS {
        return None;
    }
    let span = f64::from(pages.unwrap_or(0).max(1));
    let mut pairs = Pairs::new();
    for (left, a) in expected.iter().enumerate() {
        for (right, b) in actual.iter().enumerate() {
            let likeness = a.normalized.similarity(&b.normalized);
            if likeness < MIN_TITLE_SIMILARITY {
                continue;
            }
            let near = a.start.zip(b.start).map_or(0.0, |(a, b)| {
                let apart = f64::from(a.abs_diff(b));
                let same = if apart == 0.0 { 0.1 } else { 0.0 };
                0.3 * (1.0 - apart / 10.0).max(0.0) + 0.05 * (1.0 - apart / span).max(0.0) + same
            });
            pairs
                .entry(left)
                .or_default()
                .insert(right, 10.0 + likeness + near);
        }
    }
    Some(pairs)
}

/// Precision, recall and F1 of `right` among `actual` and `wanted`.
fn precision_recall_f1(right: usize, actual: usize, expected: usize) -> (f64, f64, f64) {
    let precision = match (actual, expected) {
        (0, 0) => 1.0,
        (0, _) => 0.0,
        _ => right as f64 / actual as f64,
    };
    let recall = if expected == 0 {
        1.0
    } else {
        right as f64 / expected as f64
    };
    let sum = precision + recall;
    (
        precision,
        recall,
        if sum > 0.0 {
            2.0 * precision * recall / sum
        } else {
            0.0
        },
    )
}

fn unmatched(nodes: &[HeadingNode], matched: &HashMap<usize, usize>) -> Vec<(Option<u32>, String)> {
    let unmatched_nodes = nodes
        .iter()
        .enumerate()
        .filter(|(at, _)| !matched.contains_key(at));
    unmatched_nodes
        .map(|(_, node)| (node.start, node.title.clone()))
        .collect()
}

fn coverage_of(nodes: &[HeadingNode], pages: u32) -> f64 {
    let mut ends: Vec<(u32, u32)> = nodes
        .iter()
        .filter_map(|node| Some((node.start?.max(1), node.end?.min(pages))))
        .collect();
    ends.sort_unstable();
    let mut covered = 0;
    let mut next = 1;
    for (start, end) in ends {
        covered += (end + 1).saturating_sub(start.max(next));
        next = next.max(end + 1);
    }
    f64::from(covered) / f64::from(pages.max(1))
}

/// Faults by name, and how many sections leave their parent's pages, which is no fault where parents end at their first
/// child.
fn faults(nodes: &[HeadingNode], pages: Option<u32>) -> (BTreeMap<&'static str, usize>, usize) {
    let mut faults = BTreeMap::new();
    let mut outside = 0;
    let mut count = |name: &'static str, is: bool| {
        if is {
            *faults.entry(name).or_default() += 1;
        }
    };
    let mut before: HashMap<Option<usize>, (u32, u32)> = HashMap::new();
    for node in nodes {
        count("empty_title", node.title.trim().is_empty());
        let (Some(start), Some(end)) = (node.start, node.end) else {
            continue;
        };
        count("ends_before_start", start > end);
        count(
            "out_of_range",
            start < 1 || pages.is_some_and(|pages| end > pages),
        );
        if let Some((a, b)) = before.insert(node.parent, (start, end)) {
            count("out_of_order", start < a);
            count("overlap", start >= a && start < b);
        }
        let parent = node
            .parent
            .and_then(|parent| nodes[parent].start.zip(nodes[parent].end));
        outside += usize::from(parent.is_some_and(|(a, b)| start < a || end > b));
    }
    (faults, outside)
}

//! How well a tree has the sections of a truth.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use stemma_document::{Extent, SectionSpan, SectionTree};

use super::matching::{self, Pairs};
use super::titles::Title;
use super::truth::{Scope, StructureTruth};

/// Likeness from which two titles are of one section.
const LIKE: f64 = 0.8;
/// Truths × sections that are compared at most.
const MAX_COMPARED: usize = 100_000_000;

/// The scores of one document. `None`: the truth says nothing about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StructureScore {
    /// Sections of the truth.
    pub truth: usize,
    /// Sections of the tree.
    pub found: usize,
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
struct Node {
    title: String,
    ready: Title,
    depth: usize,
    parent: Option<usize>,
    start: Option<u32>,
    end: Option<u32>,
}

/// Scores a tree, or that there is none; `None` where truth and tree are too large to be compared.
pub fn score(truth: &StructureTruth, tree: Option<&SectionTree>) -> Option<StructureScore> {
    let wanted = nodes_of_truth(truth);
    let found = tree.map(nodes_of_tree).unwrap_or_default();
    let pages = truth
        .pages
        .filter(|_| tree.is_none_or(|tree| matches!(tree.extent, Extent::Pages(_))));
    let pairs = matching::best(&candidates(&wanted, &found, truth.pages)?)?;
    let to_found: HashMap<usize, usize> = pairs.iter().copied().collect();
    let is_found: HashMap<usize, usize> =
        pairs.iter().map(|(left, right)| (*right, *left)).collect();
    let in_scope = match truth.scope() {
        Scope::SecItems => found
            .iter()
            .enumerate()
            .filter(|(at, node): &(usize, &Node)| {
                is_found.contains_key(at) || node.ready.is_of_form()
            })
            .count(),
        Scope::Full | Scope::RecallOnly => found.len(),
    };
    let apart =
        |(left, right): &(usize, usize)| Some(wanted[*left].start?.abs_diff(found[*right].start?));
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
    let (precision, recall, f1) = rates(pairs.len(), in_scope, wanted.len());
    let (_, near_recall, loc_f1) = rates(count(1), in_scope, wanted.len());
    let selection = truth.scope() == Scope::RecallOnly;
    let judged = |right: &dyn Fn(&Node, &Node) -> bool| {
        let right = pairs
            .iter()
            .filter(|(left, other)| right(&wanted[*left], &found[*other]))
            .count();
        truth.levels_reliable.then(|| share(right))
    };
    let meets = |wanted: Option<usize>, found: Option<usize>| match (wanted, found) {
        (None, None) => true,
        (Some(wanted), Some(found)) => to_found.get(&wanted) == Some(&found),
        _ => false,
    };
    let above = |nodes: &[Node], node: &Node, matched: &HashMap<usize, usize>| {
        let mut at = node.parent;
        while let Some(parent) = at.filter(|parent| !matched.contains_key(parent)) {
            at = nodes[parent].parent;
        }
        at
    };
    let (faults, outside) = faults(&found, pages);
    Some(StructureScore {
        truth: wanted.len(),
        found: found.len(),
        matched: pairs.len(),
        precision: (!selection).then_some(precision),
        recall,
        f1: if selection { recall } else { f1 },
        same_page: share(count(0)),
        near_page: share(count(1)),
        loc_f1: if selection { near_recall } else { loc_f1 },
        level: judged(&|wanted, found| wanted.depth == found.depth),
        ancestor: judged(&|a, b| meets(above(&wanted, a, &to_found), above(&found, b, &is_found))),
        parent: judged(&|wanted, found| meets(wanted.parent, found.parent)),
        coverage: pages.map(|pages| covered(&found, pages)),
        faults,
        outside,
        missed: unmatched(&wanted, &to_found),
        extra: unmatched(&found, &is_found),
        moved: pairs
            .iter()
            .filter(|(left, right)| wanted[*left].start != found[*right].start)
            .map(|(left, right)| {
                (
                    wanted[*left].start,
                    found[*right].start,
                    wanted[*left].title.clone(),
                )
            })
            .collect(),
    })
}

fn nodes_of_truth(truth: &StructureTruth) -> Vec<Node> {
    let mut open: Vec<usize> = Vec::new();
    let mut nodes: Vec<Node> = Vec::with_capacity(truth.nodes.len());
    for node in &truth.nodes {
        let depth = usize::from(node.level.get());
        while open.last().is_some_and(|last| nodes[*last].depth >= depth) {
            open.pop();
        }
        let parent = open.last().copied();
        let start = node.page.or(node.line);
        open.push(nodes.len());
        let ready = Title::new(&node.title);
        nodes.push(Node {
            title: node.title.clone(),
            ready,
            depth,
            parent,
            start,
            end: None,
        });
    }
    nodes
}

fn nodes_of_tree(tree: &SectionTree) -> Vec<Node> {
    let mut open: Vec<usize> = Vec::new();
    let mut nodes: Vec<Node> = Vec::new();
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
        nodes.push(Node {
            title: section.title.clone(),
            ready: Title::new(&section.title),
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
fn candidates(wanted: &[Node], found: &[Node], pages: Option<u32>) -> Option<Pairs> {
    if wanted.len().saturating_mul(found.len()) > MAX_COMPARED {
        return None;
    }
    let span = f64::from(pages.unwrap_or(0).max(1));
    let mut pairs = Pairs::new();
    for (left, a) in wanted.iter().enumerate() {
        for (right, b) in found.iter().enumerate() {
            let likeness = a.ready.likeness(&b.ready);
            if likeness < LIKE {
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

/// Precision, recall and F1 of `right` among `found` and `wanted`.
fn rates(right: usize, found: usize, wanted: usize) -> (f64, f64, f64) {
    let precision = match (found, wanted) {
        (0, 0) => 1.0,
        (0, _) => 0.0,
        _ => right as f64 / found as f64,
    };
    let recall = if wanted == 0 {
        1.0
    } else {
        right as f64 / wanted as f64
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

fn unmatched(nodes: &[Node], matched: &HashMap<usize, usize>) -> Vec<(Option<u32>, String)> {
    let left = nodes
        .iter()
        .enumerate()
        .filter(|(at, _)| !matched.contains_key(at));
    left.map(|(_, node)| (node.start, node.title.clone()))
        .collect()
}

fn covered(nodes: &[Node], pages: u32) -> f64 {
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
fn faults(nodes: &[Node], pages: Option<u32>) -> (BTreeMap<&'static str, usize>, usize) {
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

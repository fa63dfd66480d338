//! Turns nodes in pre-order with depths into nested sections, and computes ids, structure numbers and ends.
//!
//! All passes are iterative, so hostile trees cannot overflow the stack.

use crate::{
    EvidenceSource, Gap, PageNo, PageSpan, Position, Section, SectionId, SectionKind, SectionSpan,
    Summary,
};

/// Levels of a tree. Deeper ones are flattened into the last and recorded as a gap.
// A section takes two levels of JSON and `serde_json` accepts 128, so 32 leaves room for wrappers.
pub const MAX_LEVELS: usize = 32;

/// A section before nesting. `depth` is 1-based and grows by at most one from node to node.
#[derive(Debug, Clone)]
pub(crate) struct FlatSection {
    pub(crate) depth: usize,
    pub(crate) title: String,
    pub(crate) number: Option<String>,
    pub(crate) kind: SectionKind,
    pub(crate) starts_page: bool,
    pub(crate) verified: bool,
    pub(crate) evidence: EvidenceSource,
    pub(crate) tokens: u32,
    pub(crate) summary: Option<Summary>,
    pub(crate) span: SectionSpan,
}

/// Turns claimed levels into depths without gaps: a skipped level nests under the nearest shallower one.
#[derive(Debug, Default)]
pub(crate) struct Nesting {
    open: Vec<u32>,
    // Number of nodes deeper than `MAX_LEVELS`.
    pub(crate) flattened: usize,
}

impl Nesting {
    /// The depth of the next node in reading order, given its claimed level.
    pub(crate) fn push(&mut self, level: u32) -> usize {
        // `open` holds the levels of the current path, which are strictly increasing.
        while self.open.last().is_some_and(|open| *open >= level) {
            self.open.pop();
        }
        if self.open.len() >= MAX_LEVELS {
            self.open.truncate(MAX_LEVELS - 1);
            self.flattened += 1;
        }
        self.open.push(level);
        self.open.len()
    }

    /// Undoes the last `push`.
    pub(crate) fn pop(&mut self) {
        self.open.pop();
    }

    /// The gap that records flattened nodes, if there are any.
    pub(crate) fn depth_gap(&self, unit: &str) -> Option<Gap> {
        let count = self.flattened;
        let detail = format!("{count} {unit} were deeper than the deepest level of a tree");
        (count > 0).then(|| Gap::new("tree.depth_capped", detail))
    }
}

/// For each node, the index of the next one that is not its descendant.
pub(crate) fn next_non_descendants(nodes: &[FlatSection]) -> Vec<Option<usize>> {
    let mut next = vec![None; nodes.len()];
    let mut open: Vec<usize> = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        while let Some(&last) = open.last().filter(|&&last| nodes[last].depth >= node.depth) {
            next[last] = Some(index);
            open.pop();
        }
        open.push(index);
    }
    next
}

/// Sets the end of each node from the start of the next node that is not its descendant.
pub(crate) fn assign_ends(nodes: &mut [FlatSection], extent: u32) {
    let next = next_non_descendants(nodes);
    let starts: Vec<(u32, Option<Position>)> =
        nodes.iter().map(|node| start_of(node.span)).collect();
    for index in 0..nodes.len() {
        let follower = next[index];
        let last = match follower {
            None => extent,
            Some(at) if has_own_page(nodes, &starts, at) => starts[at].0.saturating_sub(1),
            Some(at) => starts[at].0,
        };
        // A section covers at least the page or line it starts on.
        let last = last.max(starts[index].0);
        match &mut nodes[index].span {
            SectionSpan::Lines { end, .. } => *end = last,
            SectionSpan::Pages { pages, from, to } => {
                *pages = PageSpan::between(from.page, PageNo::new(last).unwrap_or(from.page));
                *to = follower.and_then(|at| starts[at].1);
            }
        }
    }
}

/// Start page or line, and the position in documents with pages.
pub(crate) fn start_of(span: SectionSpan) -> (u32, Option<Position>) {
    match span {
        SectionSpan::Pages { from, .. } => (from.page.get(), Some(from)),
        SectionSpan::Lines { start, .. } => (start, None),
    }
}

// A claim to start the page counts only if no other node starts there before it. This keeps ends monotone in reading order:
// children stay inside their parents, and siblings share at most one page.
fn has_own_page(nodes: &[FlatSection], starts: &[(u32, Option<Position>)], at: usize) -> bool {
    let is_first_on_page = at == 0 || starts[at - 1].0 < starts[at].0;
    is_first_on_page && (starts[at].1.is_none() || nodes[at].starts_page)
}

/// Nests the nodes. Ids are pre-order, from 0.
pub(crate) fn assemble(nodes: Vec<FlatSection>) -> Vec<Section> {
    let (structures, parents) = number_sections(&nodes);
    let mut children: Vec<Vec<Section>> = nodes.iter().map(|_| Vec::new()).collect();
    let mut top = Vec::new();
    let numbered = nodes.into_iter().zip(structures).enumerate();
    // In reverse order, the descendants of a node are complete before the node itself.
    for (index, (node, structure)) in numbered.rev() {
        let mut own: Vec<Section> = std::mem::take(&mut children[index]);
        own.reverse();
        let section = build_section(index, node, structure, own);
        match parents[index] {
            Some(parent) => children[parent].push(section),
            None => top.push(section),
        }
    }
    top.reverse();
    top
}

// Returns structure numbers (`1.2.3`) and parent indices.
fn number_sections(nodes: &[FlatSection]) -> (Vec<String>, Vec<Option<usize>>) {
    let mut path: Vec<(usize, u32)> = Vec::new();
    let mut top = 0u32;
    let mut structures: Vec<String> = Vec::with_capacity(nodes.len());
    let mut parents = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        path.truncate(node.depth.saturating_sub(1));
        match path.last_mut() {
            None => {
                top += 1;
                structures.push(top.to_string());
                parents.push(None);
            }
            Some((parent, count)) => {
                *count += 1;
                structures.push(format!("{}.{count}", structures[*parent]));
                parents.push(Some(*parent));
            }
        }
        path.push((index, 0));
    }
    (structures, parents)
}

fn build_section(
    index: usize,
    node: FlatSection,
    structure: String,
    children: Vec<Section>,
) -> Section {
    Section {
        id: SectionId(u32::try_from(index).unwrap_or(u32::MAX)),
        structure,
        title: node.title,
        number: node.number,
        kind: node.kind,
        span: node.span,
        bytes: None,
        starts_page: node.starts_page,
        verified: node.verified,
        evidence: node.evidence,
        own_tokens: 0,
        tokens: node.tokens,
        summary: node.summary,
        children,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::SectionTree;

    // Asserts the invariants of trees: pre-order ids, structure numbers, children inside parents, siblings in order
    // that share at most one page, full coverage.
    pub(crate) fn check_tree(tree: &SectionTree) {
        let ids: Vec<u32> = tree.walk().map(|(_, section)| section.id.0).collect();
        assert_eq!(ids, (0..ids.len() as u32).collect::<Vec<_>>());
        let size = tree.extent.size();
        check_siblings("", &tree.sections, (1, size));
        if let (Some(first), Some(last)) = (tree.sections.first(), tree.sections.last()) {
            assert_eq!(ends(first).0, 1, "the start is covered");
            assert_eq!(ends(last).1, size, "the end is covered");
        }
    }

    fn ends(section: &Section) -> (u32, u32) {
        match section.span {
            SectionSpan::Pages { pages, from, to } => {
                assert_eq!(from.page, pages.start());
                assert!(to.is_none_or(|to| (from.page, from.line) <= (to.page, to.line)));
                (pages.start().get(), pages.end().get())
            }
            SectionSpan::Lines { start, end } => (start, end),
        }
    }

    fn check_siblings(prefix: &str, sections: &[Section], inside: (u32, u32)) {
        for (index, section) in sections.iter().enumerate() {
            let (start, end) = ends(section);
            assert!(
                start <= end && inside.0 <= start && end <= inside.1,
                "{start}..{end} inside {inside:?}"
            );
            assert_eq!(section.structure, format!("{prefix}{}", index + 1));
            if let Some(next) = sections.get(index + 1) {
                let gap = i64::from(ends(next).0) - i64::from(end);
                assert!(
                    gap == 1 || (gap == 0 && section.span.pages().is_some()),
                    "{} then {}",
                    section.structure,
                    next.structure
                );
            }
            check_siblings(
                &format!("{}.", section.structure),
                &section.children,
                (start, end),
            );
        }
    }

    #[test]
    fn skipped_levels_nest_under_the_nearest_ancestor() {
        let mut nesting = Nesting::default();
        let depths: Vec<usize> = [3, 1, 4, 2, 4, 1].map(|level| nesting.push(level)).to_vec();
        assert_eq!(depths, [1, 1, 2, 2, 3, 1]);
    }

    #[test]
    fn levels_beyond_max_depth_are_flattened() {
        let mut nesting = Nesting::default();
        let depths: Vec<usize> = (1..=400).map(|level| nesting.push(level)).collect();
        assert_eq!(depths.iter().max(), Some(&MAX_LEVELS));
        assert_eq!(nesting.flattened, 400 - MAX_LEVELS);
        assert_eq!(nesting.push(2), 2);
    }
}

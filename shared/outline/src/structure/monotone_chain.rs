//! The best-scoring chain of placements that rises in both position and key.
//!
//! Titles of a form, of contents and of outlines occur in the text many times: as headings, references and rows of other
//! lists. Taking the first or the best line for each title picks cross-references. A chain does not: a wrong early line
//! would exclude all right lines behind it, and their scores outweigh it.

/// A line that may be the heading of `keys` (usually one).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Placement {
    /// Position in reading order.
    pub(super) at: u32,
    /// First and last key; a combined Item occupies several.
    pub(super) keys: (u32, u32),
    /// Strength of the evidence; placements at or below zero are ignored.
    pub(super) score: f32,
}

impl Placement {
    pub(super) fn new(at: usize, first: usize, last: usize, score: f32) -> Self {
        Self {
            at: u32::try_from(at).unwrap_or(u32::MAX),
            keys: (first as u32, last as u32),
            score,
        }
    }
}

// Added to the score of the direct successor of the previous key. Among chains of nearly equal score it prefers the one
// without skipped keys, for example Item 8 after Item 7 instead of a mention of Item 9. It is worth as much as bold type
// (`style_score`), so it decides only between lines of similar style.
const SUCCESSOR_BONUS: f32 = 0.15;

/// Indices into `placements` of the best chain, in reading order. Ties go to the earlier placement.
///
/// `O(n log n)`: the weighted form of the longest increasing subsequence, with a Fenwick tree of prefix maxima over keys.
pub(super) fn best_chain(placements: &[Placement]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..placements.len())
        .filter(|i| placements[*i].score > 0.0)
        .collect();
    order.sort_by_key(|i| (placements[*i].at, *i));
    let keys = placements
        .iter()
        .map(|placement| placement.keys.1 as usize + 1)
        .max()
        .unwrap_or(0);
    let mut ends = ChainEnds {
        below: vec![None; keys + 1],
        exact: vec![None; keys],
    };
    // For each placement, the sum of the best chain that ends there, and its predecessor.
    let mut links: Vec<(f32, Option<usize>)> = vec![(0.0, None); placements.len()];
    for group in order.chunk_by(|a, b| placements[*a].at == placements[*b].at) {
        // One line can be the heading of one section only. All placements of a line are therefore scored before any of
        // them is inserted; otherwise a chain could take two keys at one position.
        for &i in group {
            let (sum, before) = ends.best_before(placements[i].keys.0 as usize);
            links[i] = (sum + placements[i].score, before);
        }
        for &i in group {
            ends.insert(placements[i].keys.1 as usize, links[i].0, i);
        }
    }
    // Follow the predecessors back from the best end.
    let mut chain = Vec::new();
    let mut at = ends.last();
    while let Some(i) = at {
        chain.push(i);
        at = links[i].1;
    }
    chain.reverse();
    chain
}

type ChainEnd = Option<(f32, usize)>;

/// The best chain ends so far, by their last key.
struct ChainEnds {
    /// Fenwick tree: the best end at any key below a limit.
    below: Vec<ChainEnd>,
    /// The best end at exactly this key; only it earns the successor bonus.
    exact: Vec<ChainEnd>,
}

impl ChainEnds {
    /// The best sum of a chain that may precede `key`, successor bonus included, and its last placement.
    fn best_before(&self, key: usize) -> (f32, Option<usize>) {
        let far = self.prefix(key);
        let near = key
            .checked_sub(1)
            .and_then(|before| self.exact[before])
            .map(|(sum, i)| (sum + SUCCESSOR_BONUS, i));
        better(far, near).map_or((0.0, None), |(sum, i)| (sum, Some(i)))
    }

    fn last(&self) -> Option<usize> {
        self.prefix(self.exact.len()).map(|(_, i)| i)
    }

    fn prefix(&self, keys: usize) -> ChainEnd {
        let mut at = keys;
        let mut best = None;
        while at > 0 {
            best = better(best, self.below[at]);
            at &= at - 1;
        }
        best
    }

    fn insert(&mut self, key: usize, sum: f32, i: usize) {
        self.exact[key] = better(self.exact[key], Some((sum, i)));
        let mut at = key + 1;
        while at < self.below.len() {
            self.below[at] = better(self.below[at], Some((sum, i)));
            at += at & at.wrapping_neg();
        }
    }
}

// Ties go to the lower index, so the result depends on the input alone and not on the order of insertion.
fn better(a: ChainEnd, b: ChainEnd) -> ChainEnd {
    match (a, b) {
        (Some(x), Some(y)) if y.0 > x.0 || (y.0 == x.0 && y.1 < x.1) => Some(y),
        (Some(x), _) => Some(x),
        (None, y) => y,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best_of(placements: &[(u32, u32, f32)]) -> Vec<usize> {
        let all: Vec<_> = placements
            .iter()
            .map(|c| Placement {
                at: c.0,
                keys: (c.1, c.1),
                score: c.2,
            })
            .collect();
        best_chain(&all)
    }

    #[test]
    fn early_cross_reference_is_skipped() {
        // A cross-reference to key 5 precedes keys 1 to 3; the true 5 comes last.
        assert_eq!(
            best_of(&[
                (1, 5, 1.0),
                (2, 1, 1.0),
                (3, 2, 1.0),
                (4, 3, 1.0),
                (9, 5, 0.4)
            ]),
            [1, 2, 3, 4]
        );
    }

    #[test]
    fn position_holds_one_key() {
        assert_eq!(best_of(&[(1, 0, 0.5), (1, 1, 0.9)]), [1]);
        assert_eq!(best_of(&[(1, 0, -0.5)]), [] as [usize; 0]);
        assert_eq!(best_of(&[]), [] as [usize; 0]);
    }

    #[test]
    fn combined_item_blocks_its_keys() {
        let wide = Placement {
            at: 1,
            keys: (0, 3),
            score: 1.0,
        };
        let inside = Placement {
            at: 2,
            keys: (2, 2),
            score: 0.9,
        };
        let after = Placement {
            at: 3,
            keys: (4, 4),
            score: 1.0,
        };
        assert_eq!(best_chain(&[wide, inside, after]), [0, 2]);
    }

    #[test]
    fn hundred_thousand_placements_are_fast() {
        let many: Vec<_> = (0..100_000).map(|i| (i, (i * 7919) % 5000, 1.0)).collect();
        assert!(!best_of(&many).is_empty());
    }
}

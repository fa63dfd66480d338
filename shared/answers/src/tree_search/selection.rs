//! Selects result sections from the scored ones: best scores with distinct topics.

use std::collections::HashSet;

use super::search_tree::SearchNode;
use super::searcher::DocumentWalk;
use super::strategies::THRESHOLD;
use stemma_reading::tokenizer::content_words;

// Jaccard similarity of the words of titles and summaries from which two sections have one topic.
const MIN_TOPIC_SIMILARITY: f32 = 0.5;
// A section with a higher score is taken even when its topic is covered.
const SURE_SCORE: f32 = 0.8;
// A section of at most this many tokens is read with all its descendants, which are then not selected too.
const WHOLE_TOKENS: u32 = 1_500;

// Index of the walk, and of the section in its tree.
pub(super) type SectionPosition = (usize, usize);

// Best sections first: at the threshold or better, of a new topic or sure, at most `most`. Sections without a model score come
// last.
pub(super) fn select_sections(walks: &[DocumentWalk], most: usize) -> Vec<SectionPosition> {
    let mut all: Vec<(f32, f32, SectionPosition)> = Vec::new();
    for (index, walk) in walks.iter().enumerate() {
        let good = walk
            .trace
            .scored
            .iter()
            .filter(|(_, scored)| scored.is_lexical || scored.score >= THRESHOLD);
        all.extend(good.map(|(at, scored)| {
            let lexical = walk.tree.nodes[*at].lexical;
            (scored.score, lexical, (index, *at))
        }));
    }
    all.sort_by(|a, b| {
        b.0.total_cmp(&a.0)
            .then(b.1.total_cmp(&a.1))
            .then(a.2.cmp(&b.2))
    });
    let mut chosen: Vec<(SectionPosition, HashSet<String>)> = Vec::new();
    for (score, _, (index, at)) in all {
        let tree = &walks[index].tree;
        let node = &tree.nodes[at];
        let topic: HashSet<String> = content_words(&format!("{} {}", node.title, node.summary))
            .into_iter()
            .collect();
        let is_covered = chosen.iter().any(|((walk, better), words)| {
            let is_same_tree = *walk == index;
            // An ancestor covers its descendants if it is read whole, and only then.
            if is_same_tree && tree.is_ancestor(*better, at) {
                return is_whole(&tree.nodes[*better]);
            }
            let contains = is_same_tree && tree.is_ancestor(at, *better) && !is_whole(node);
            !contains && score <= SURE_SCORE && jaccard(words, &topic) >= MIN_TOPIC_SIMILARITY
        });
        if !is_covered {
            chosen.push(((index, at), topic));
        }
    }
    chosen.truncate(most);
    chosen.into_iter().map(|(position, _)| position).collect()
}

// Short enough to be read with all its descendants.
fn is_whole(node: &SearchNode) -> bool {
    (1..=WHOLE_TOKENS).contains(&node.tokens)
}

fn jaccard(left: &HashSet<String>, right: &HashSet<String>) -> f32 {
    let both = left.intersection(right).count() as f32;
    both / (left.union(right).count() as f32).max(1.0)
}

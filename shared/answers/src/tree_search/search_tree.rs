//! A tree laid out for a walk: sections by index, with what search without a model thinks of each.

use std::collections::HashMap;

use stemma_document::{DocId, ReferenceTarget, Section, SectionId, SectionSpan, SectionTree};

use stemma_retrieval::search::SectionHit;
use stemma_retrieval::tokenizer::content_words;

/// Characters of a title.
const TITLE_CHARS: usize = 120;

/// The sections of one document, in pre-order.
pub(super) struct SearchTree {
    pub(super) doc: DocId,
    /// The version of the tree.
    pub(super) version: u64,
    /// The file name.
    pub(super) name: String,
    /// What the document is, in a sentence.
    pub(super) description: String,
    pub(super) nodes: Vec<SearchNode>,
    /// Mentions of other sections: from, as written, to.
    references: Vec<(usize, String, usize)>,
    /// What search without a model found here, by section.
    pub(super) hits: HashMap<SectionId, SectionHit>,
}

/// A section.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SearchNode {
    pub(super) id: SectionId,
    pub(super) title: String,
    pub(super) summary: String,
    pub(super) span: SectionSpan,
    pub(super) parent: Option<usize>,
    pub(super) depth: usize,
    pub(super) children: Vec<usize>,
    /// Tokens of its text with all below it.
    pub(super) tokens: u32,
    /// What search without a model thinks of its own text, 0–1.
    pub(super) lexical: f32,
    /// The best of it and its descendants.
    pub(super) best_below: f32,
    /// The part of the question, from 0, that its own text fits best.
    pub(super) aspect: usize,
}

impl SearchTree {
    /// Lays a tree out. `found`: what search without a model found in the document for each part of the question.
    pub(super) fn new(
        doc: DocId,
        (name, version): (&str, u64),
        tree: &SectionTree,
        hits_by_aspect: Vec<Vec<SectionHit>>,
    ) -> Self {
        let mut nodes: Vec<SearchNode> = Vec::new();
        let mut above: Vec<usize> = Vec::new();
        for (depth, section) in tree.walk() {
            above.truncate(depth - 1);
            let at = nodes.len();
            if let Some(parent) = above.last() {
                nodes[*parent].children.push(at);
            }
            nodes.push(search_node(section, depth, above.last().copied()));
            above.push(at);
        }
        let positions: HashMap<SectionId, usize> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (node.id, at))
            .collect();
        let mut hits: HashMap<SectionId, SectionHit> = HashMap::new();
        for (aspect, hits_by_aspect) in hits_by_aspect.into_iter().enumerate() {
            let best = hits_by_aspect
                .first()
                .map_or(1.0, |hit| hit.score)
                .max(f32::MIN_POSITIVE);
            for hit in hits_by_aspect {
                let Some(node) = positions.get(&hit.section).map(|at| &mut nodes[*at]) else {
                    continue;
                };
                let value = (hit.score / best).clamp(0.0, 1.0);
                if value > node.lexical {
                    (node.lexical, node.aspect) = (value, aspect);
                    hits.insert(hit.section, hit);
                }
            }
        }
        let about = tree.description.clone().unwrap_or_default();
        let target = |to: ReferenceTarget| match to {
            ReferenceTarget::Section(id) => positions.get(&id).copied(),
            ReferenceTarget::Unresolved => None,
        };
        let references = tree
            .references
            .iter()
            .filter_map(|reference: &stemma_document::Reference| {
                Some((
                    *positions.get(&reference.from)?,
                    one_line(&reference.text),
                    target(reference.to)?,
                ))
            })
            .filter(|(from, _, to)| from != to)
            .collect();
        let mut search_tree = Self {
            doc,
            version,
            name: name.into(),
            description: about,
            nodes,
            references,
            hits,
        };
        search_tree.propagate_scores();
        search_tree
    }

    /// Sections whose titles hold one of these phrases fit better by so much: where an answer is to be expected.
    pub(super) fn boost(&mut self, titles: &[String], by: f32) {
        let phrases: Vec<Vec<String>> = titles.iter().map(|title| content_words(title)).collect();
        for node in &mut self.nodes {
            let words = content_words(&node.title);
            if phrases.iter().any(|phrase: &Vec<String>| {
                !phrase.is_empty()
                    && words
                        .windows(phrase.len())
                        .any(|window| window == phrase.as_slice())
            }) {
                node.lexical = (node.lexical + by).min(1.0);
            }
        }
        self.propagate_scores();
    }

    fn propagate_scores(&mut self) {
        for at in (0..self.nodes.len()).rev() {
            let node = &mut self.nodes[at];
            node.best_below = node.best_below.max(node.lexical);
            let below = node.best_below;
            let parent = node.parent;
            if let Some(parent) = parent {
                self.nodes[parent].best_below = self.nodes[parent].best_below.max(below);
            }
        }
    }

    /// What the own text of a section refers to: as written, and the section.
    pub(super) fn references_of(&self, at: usize) -> Vec<(String, usize)> {
        let mut to: Vec<(String, usize)> = Vec::new();
        for (_, text, target) in self.references.iter().filter(|(from, ..)| *from == at) {
            if !to.iter().any(|(_, existing)| existing == target) {
                to.push((text.clone(), *target));
            }
        }
        to
    }

    /// The sections without a section above.
    pub(super) fn roots(&self) -> Vec<usize> {
        (0..self.nodes.len())
            .filter(|at| self.nodes[*at].parent.is_none())
            .collect()
    }

    /// The section of an id as a model writes it; `None`: there is none.
    pub(super) fn index_of(&self, id: &str) -> Option<usize> {
        let digits = id.trim().trim_start_matches('#');
        let id = digits.parse::<u32>().ok().filter(|_| digits.len() <= 8)?;
        self.nodes
            .binary_search_by_key(&SectionId(id), |node| node.id)
            .ok()
    }

    /// Titles from the top down to a section.
    pub(super) fn path(&self, at: usize) -> Vec<String> {
        let mut path: Vec<String> = self
            .with_ancestors(at)
            .iter()
            .map(|at| self.nodes[*at].title.clone())
            .collect();
        path.reverse();
        path
    }

    /// A section and all above it, from itself up.
    pub(super) fn with_ancestors(&self, at: usize) -> Vec<usize> {
        std::iter::successors(Some(at), |at| self.nodes[*at].parent).collect()
    }

    /// Whether one section stands above another.
    pub(super) fn is_ancestor(&self, above: usize, at: usize) -> bool {
        above != at && self.with_ancestors(at).contains(&above)
    }

    /// The sections that fit best without a model, best first.
    pub(super) fn best_lexical(&self, most: usize) -> Vec<usize> {
        let mut best: Vec<usize> = (0..self.nodes.len())
            .filter(|at| self.nodes[*at].lexical > 0.0)
            .collect();
        best.sort_by(|a, b| {
            self.nodes[*b]
                .lexical
                .total_cmp(&self.nodes[*a].lexical)
                .then(a.cmp(b))
        });
        best.truncate(most);
        best
    }

    /// How a section stands in a listing: id, place, title (under the one above, where that is not seen), and as much of the
    /// summary as is asked for.
    pub(super) fn format_entry(
        &self,
        at: usize,
        above: Option<&str>,
        summary_chars: usize,
    ) -> String {
        let node = &self.nodes[at];
        let place = match node.span {
            SectionSpan::Pages { pages, .. } if pages.start() == pages.end() => {
                format!("p {}", pages.start())
            }
            SectionSpan::Pages { pages, .. } => format!("p {}-{}", pages.start(), pages.end()),
            SectionSpan::Lines { start, end } => format!("l {start}-{end}"),
        };
        let summary = truncate(&node.summary, summary_chars);
        let title = truncate(&node.title, TITLE_CHARS);
        let title = above.map_or_else(|| title.clone(), |above| format!("{above} › {title}"));
        let parts = [node.id.to_string(), place, title, summary];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" | ")
    }
}

fn search_node(section: &Section, depth: usize, parent: Option<usize>) -> SearchNode {
    let summary = section
        .summary
        .as_ref()
        .map(|summary| one_line(&summary.text))
        .unwrap_or_default();
    let title = one_line(&section.title);
    // Extractive summaries begin with the title: a listing says it once.
    let summary = summary
        .strip_prefix(title.as_str())
        .map(|rest| rest.trim_start().to_owned())
        .unwrap_or(summary);
    SearchNode {
        id: section.id,
        title,
        summary,
        span: section.span,
        parent,
        depth,
        children: Vec::new(),
        tokens: section.tokens,
        lexical: 0.0,
        best_below: 0.0,
        aspect: 0,
    }
}

/// Words on one line: a listing is read line by line.
pub(super) fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The first characters of a text, to the end of a word.
pub(super) fn truncate(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => {
            let begin = &text[..end];
            begin
                .rsplit_once(' ')
                .map_or(begin, |(words, _)| words)
                .to_owned()
        }
    }
}

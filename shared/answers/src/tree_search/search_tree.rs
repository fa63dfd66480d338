//! A section tree prepared for a walk: sections by index, with the lexical score of each.

use std::collections::HashMap;
use std::sync::Arc;

use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::document_store::DocumentStore;
use stemma_document::{ReferenceTarget, Section, SectionId, SectionSpan, SectionTree};

use stemma_reading::tokenizer::content_words;
use stemma_retrieval::search::SearchHit;

const TITLE_CHARS: usize = 120;

// Sections in pre-order.
pub(super) struct SearchTree {
    pub(super) document: Arc<CatalogDocument>,
    pub(super) description: String,
    pub(super) nodes: Vec<SearchNode>,
    // From, text of the reference, to.
    references: Vec<(usize, String, usize)>,
    pub(super) hits: HashMap<SectionId, SearchHit>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SearchNode {
    pub(super) id: SectionId,
    pub(super) title: String,
    pub(super) summary: String,
    pub(super) span: SectionSpan,
    pub(super) parent: Option<usize>,
    pub(super) depth: usize,
    pub(super) children: Vec<usize>,
    // Including its descendants.
    pub(super) tokens: u32,
    // Score of search without a model for its own text, relative to the best in the document, 0–1.
    pub(super) lexical: f32,
    // Best lexical score of the section and its descendants.
    pub(super) best_below: f32,
    // Index of the part of the question that its own text fits best.
    pub(super) aspect: usize,
}

impl SearchTree {
    // `hits_by_aspect`: search hits in the document for the question and for each of its parts.
    pub(super) fn new(
        document: Arc<CatalogDocument>,
        tree: &SectionTree,
        hits_by_aspect: Vec<Vec<SearchHit>>,
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
        let mut hits: HashMap<SectionId, SearchHit> = HashMap::new();
        for (aspect, hits_by_aspect) in hits_by_aspect.into_iter().enumerate() {
            let best = hits_by_aspect
                .first()
                .map_or(1.0, |hit| hit.score)
                .max(f64::MIN_POSITIVE);
            for hit in hits_by_aspect {
                let Some(node) = positions.get(&hit.section_id).map(|at| &mut nodes[*at]) else {
                    continue;
                };
                let value = (hit.score / best).clamp(0.0, 1.0) as f32;
                if value > node.lexical {
                    (node.lexical, node.aspect) = (value, aspect);
                    hits.insert(hit.section_id, hit);
                }
            }
        }
        let references = tree
            .references
            .iter()
            .filter_map(|reference: &stemma_document::Reference| {
                let ReferenceTarget::Section(to) = reference.to else {
                    return None;
                };
                Some((
                    *positions.get(&reference.from)?,
                    one_line(&reference.text),
                    *positions.get(&to)?,
                ))
            })
            .filter(|(from, _, to)| from != to)
            .collect();
        let mut search_tree = Self {
            document,
            description: tree.description.clone().unwrap_or_default(),
            nodes,
            references,
            hits,
        };
        search_tree.propagate_scores();
        search_tree
    }

    pub(super) fn name(&self) -> &str {
        &self.document.version().name
    }

    // The beginnings of the texts of sections, of at most `most_bytes` each; empty if the store cannot be read.
    pub(super) async fn texts(
        &self,
        store: &dyn DocumentStore,
        sections: &[usize],
        most_bytes: usize,
    ) -> Vec<String> {
        let ids: Vec<SectionId> = sections.iter().map(|at| self.nodes[*at].id).collect();
        let texts = store.section_texts(&self.document, &ids, most_bytes).await;
        texts.unwrap_or_default()
    }

    // Raises the lexical score of sections whose titles contain one of the phrases.
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

    // Sections that a section's own text refers to, each with the text of the reference.
    pub(super) fn references_of(&self, at: usize) -> Vec<(String, usize)> {
        let mut to: Vec<(String, usize)> = Vec::new();
        for (_, text, target) in self.references.iter().filter(|(from, ..)| *from == at) {
            if !to.iter().any(|(_, existing)| existing == target) {
                to.push((text.clone(), *target));
            }
        }
        to
    }

    pub(super) fn roots(&self) -> Vec<usize> {
        (0..self.nodes.len())
            .filter(|at| self.nodes[*at].parent.is_none())
            .collect()
    }

    // The section of an id as a model writes it.
    pub(super) fn index_of(&self, id: &str) -> Option<usize> {
        let digits = id.trim().trim_start_matches('#');
        let id = digits.parse::<u32>().ok().filter(|_| digits.len() <= 8)?;
        self.nodes
            .binary_search_by_key(&SectionId(id), |node| node.id)
            .ok()
    }

    pub(super) fn path(&self, at: usize) -> Vec<String> {
        let mut path: Vec<String> = self
            .with_ancestors(at)
            .iter()
            .map(|at| self.nodes[*at].title.clone())
            .collect();
        path.reverse();
        path
    }

    pub(super) fn with_ancestors(&self, at: usize) -> Vec<usize> {
        std::iter::successors(Some(at), |at| self.nodes[*at].parent).collect()
    }

    pub(super) fn is_ancestor(&self, above: usize, at: usize) -> bool {
        above != at && self.with_ancestors(at).contains(&above)
    }

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

    // One line of a listing: id, place, title (with the parent's, where the listing is not a tree), truncated summary.
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
    // Extractive summaries begin with the title, which the listing shows already.
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

// Listings have one section per line.
pub(crate) fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

// Truncates at a word boundary.
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

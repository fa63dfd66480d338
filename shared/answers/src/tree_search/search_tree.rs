//! A section tree prepared for a walk: sections by index, with the lexical score of each.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::document_store::DocumentStore;
use stemma_document::{Section, SectionId, SectionSpan, SectionTree};
use stemma_reading::tokenizer::content_words;
use stemma_retrieval::search::SearchHit;

const TITLE_CHARS: usize = 120;
// Added to the lexical score of sections whose titles are expected.
const TITLE_BONUS: f32 = 0.15;

pub(super) struct SearchTree {
    pub(super) document: Arc<CatalogDocument>,
    pub(super) description: String,
    // In pre-order.
    pub(super) nodes: Vec<SearchNode>,
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
    // Index after its last descendant.
    end: usize,
    // Including its descendants.
    pub(super) tokens: u32,
    // Score of search without a model for its own text, relative to the best in the document, 0–1.
    pub(super) lexical: f32,
    // Best lexical score of the section and its descendants.
    pub(super) best_below: f32,
}

impl SearchTree {
    // `hits`: search hits in the document, best first. `expected_titles`: phrases in the titles of sections that are preferred.
    pub(super) fn new(
        document: Arc<CatalogDocument>,
        tree: &SectionTree,
        hits: Vec<SearchHit>,
        expected_titles: &[String],
    ) -> Self {
        let best = hits.first().map_or(1.0, |hit| hit.score);
        let best = best.max(f64::MIN_POSITIVE);
        // The first of several hits in a section is its best.
        let hits: HashMap<SectionId, SearchHit> = hits
            .into_iter()
            .rev()
            .map(|hit| (hit.section_id, hit))
            .collect();
        let phrases: Vec<Vec<String>> = expected_titles
            .iter()
            .map(|title| content_words(title))
            .collect();
        let mut nodes: Vec<SearchNode> = Vec::new();
        let mut above: Vec<usize> = Vec::new();
        for (depth, section) in tree.walk() {
            above.truncate(depth - 1);
            let at = nodes.len();
            let parent = above.last().copied();
            if let Some(parent) = parent {
                nodes[parent].children.push(at);
            }
            let hit_score = hits.get(&section.id).map_or(0.0, |hit| hit.score);
            let words = content_words(&section.title);
            let bonus = match phrases.iter().any(|phrase| contains_run(&words, phrase)) {
                true => TITLE_BONUS,
                false => 0.0,
            };
            let lexical = ((hit_score / best).clamp(0.0, 1.0) as f32 + bonus).min(1.0);
            nodes.push(search_node(section, at, depth, parent, lexical));
            above.push(at);
        }
        for at in (0..nodes.len()).rev() {
            let end = nodes[at].end;
            let best_below = nodes[at].best_below;
            if let Some(parent) = nodes[at].parent {
                let parent = &mut nodes[parent];
                parent.end = parent.end.max(end);
                parent.best_below = parent.best_below.max(best_below);
            }
        }
        Self {
            document,
            description: tree.description.clone().unwrap_or_default(),
            nodes,
            hits,
        }
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
            .map(|at| self.nodes[at].title.clone())
            .collect();
        path.reverse();
        path
    }

    pub(super) fn with_ancestors(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(at), |at| self.nodes[*at].parent)
    }

    // A section and its descendants.
    pub(super) fn subtree(&self, at: usize) -> Range<usize> {
        at..self.nodes[at].end
    }

    pub(super) fn is_ancestor(&self, above: usize, at: usize) -> bool {
        above != at && self.subtree(above).contains(&at)
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
        let title = truncate(&node.title, TITLE_CHARS);
        let title = above.map_or_else(|| title.clone(), |above| format!("{above} › {title}"));
        let summary = truncate(&node.summary, summary_chars);
        [node.id.to_string(), place, title, summary]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" | ")
    }
}

fn search_node(
    section: &Section,
    at: usize,
    depth: usize,
    parent: Option<usize>,
    lexical: f32,
) -> SearchNode {
    let title = one_line(&section.title);
    let summary = section.summary.as_ref();
    let summary = summary.map_or_else(String::new, |summary| one_line(&summary.text));
    // Extractive summaries begin with the title, which the listing shows already.
    let summary = match summary.strip_prefix(title.as_str()) {
        Some(rest) => rest.trim_start().to_owned(),
        None => summary,
    };
    SearchNode {
        id: section.id,
        title,
        summary,
        span: section.span,
        parent,
        depth,
        children: Vec::new(),
        end: at + 1,
        tokens: section.tokens,
        lexical,
        best_below: lexical,
    }
}

// Whether `phrase` is not empty, and its words follow each other in `words`.
pub(super) fn contains_run(words: &[String], phrase: &[String]) -> bool {
    !phrase.is_empty() && words.windows(phrase.len()).any(|window| window == phrase)
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

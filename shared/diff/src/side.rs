//! A document as it is aligned: its sections in reading order with their words, titles and Items as numbers.

use std::collections::HashMap;

use stemma_document::text::{LineAt, own_lines};
use stemma_document::{Body, Page, Section, SectionId, SectionKind, SectionTree};

use super::titles;
use super::words::{Lexicon, Sentence, Word, sentences};
use super::{AlignError, Compared};
use stemma_catalog::items;

/// Sections of one document that are aligned.
pub const MAX_SECTIONS: usize = 50_000;
/// Words of one document that are compared.
pub const MAX_WORDS: usize = 8_000_000;
/// Lines read beyond those a document has: sections of an imported tree may lie over each other.
const MAX_LINES_AGAIN: usize = 200_000;

/// One section.
pub(super) struct Node<'a> {
    pub(super) section: &'a Section,
    /// The section above it, by its place.
    pub(super) parent: Option<u32>,
    /// The place behind its last descendant.
    pub(super) end: u32,
    /// Its title without numbers and dates.
    pub(super) title: u32,
    /// Its title with the titles above it.
    pub(super) path: u32,
    /// What it is among the Items of its form.
    pub(super) item: Option<u32>,
    /// Its own text without its heading, in the words of its side.
    pub(super) words: (u32, u32),
    /// The sentences of that text, in those of its side.
    pub(super) sentences: (u32, u32),
    /// Its own text as one number: equal for equal words.
    pub(super) body: u32,
    /// Its text and all below it as one number.
    pub(super) whole: u32,
    /// Whether its heading stands in the document.
    pub(super) is_heading: bool,
    lines: Vec<LineAt<'a>>,
}

/// One document.
pub(super) struct Side<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) words: Vec<Word>,
    pub(super) sentences: Vec<Sentence>,
    /// Each sentence as one number: equal for equal words.
    pub(super) keys: Vec<u32>,
    /// The section each sentence stands in.
    pub(super) homes: Vec<u32>,
    /// Whether its text is known.
    pub(super) has_text: bool,
    /// Words of each title that say something.
    pub(super) title_words: Vec<Vec<Word>>,
}

/// What is numbered over both documents.
#[derive(Default)]
pub(super) struct Numbered {
    pub(super) lexicon: Lexicon,
    titles: HashMap<Vec<Word>, u32>,
    paths: HashMap<(u32, u32), u32>,
    items: HashMap<String, u32>,
}

fn number<K: std::hash::Hash + Eq>(numbers: &mut HashMap<K, u32>, key: K) -> u32 {
    let next = numbers.len() as u32;
    *numbers.entry(key).or_insert(next)
}

impl<'a> Side<'a> {
    /// Reads a document.
    pub(super) fn read(
        compared: &Compared<'a>,
        form: &str,
        numbered: &mut Numbered,
    ) -> Result<Self, AlignError> {
        let tree = compared.tree;
        let mut side = Side {
            nodes: Vec::new(),
            words: Vec::new(),
            sentences: Vec::new(),
            keys: Vec::new(),
            homes: Vec::new(),
            has_text: compared.body.is_some(),
            title_words: Vec::new(),
        };
        let items = items_of(tree, form);
        let mut lines_left = compared.body.map_or(0, lines_in) + MAX_LINES_AGAIN;
        let mut above: Vec<u32> = Vec::new();
        for (depth, section) in within(tree, compared.within) {
            above.truncate(depth);
            let at = side.nodes.len() as u32;
            if side.nodes.len() >= MAX_SECTIONS {
                return Err(AlignError::TooManySections { most: MAX_SECTIONS });
            }
            let item = items
                .get(&section.id)
                .map(|item| number(&mut numbered.items, item.clone()));
            side.add(
                section,
                above.last().copied(),
                item,
                compared.body,
                &mut lines_left,
                numbered,
            )?;
            above.push(at);
        }
        // Descendants stand behind their ancestors: from the last on, each end is known before it is handed up.
        for at in (0..side.nodes.len()).rev() {
            let end = side.nodes[at].end;
            let parent = side.nodes[at].parent;
            if let Some(parent) = parent {
                let parent = &mut side.nodes[parent as usize];
                parent.end = parent.end.max(end);
            }
        }
        Ok(side)
    }

    fn add(
        &mut self,
        section: &'a Section,
        parent: Option<u32>,
        item: Option<u32>,
        body: Option<&'a Body>,
        lines_left: &mut usize,
        numbered: &mut Numbered,
    ) -> Result<(), AlignError> {
        let at = self.nodes.len() as u32;
        let title: Vec<Word> = titles::key(&section.title)
            .iter()
            .map(|word| numbered.lexicon.id(&format!("\u{1}{word}")))
            .collect();
        let key = number(&mut numbered.titles, title.clone());
        let above = parent.map_or(u32::MAX, |parent| self.nodes[parent as usize].path);
        let path = number(&mut numbered.paths, (above, key));
        let mut lines = body
            .map(|body| own_lines(section, body))
            .unwrap_or_default();
        *lines_left = lines_left
            .checked_sub(lines.len())
            .ok_or(AlignError::TooManyWords { most: MAX_WORDS })?;
        if let Some(Body::Pages(pages)) = body {
            lines.retain(|line| !is_edge(line, pages));
        }
        let first = self.words.len() as u32;
        let sentence = self.sentences.len() as u32;
        let read = sentences(&lines, &mut numbered.lexicon, &mut self.words);
        if self.words.len() > MAX_WORDS {
            return Err(AlignError::TooManyWords { most: MAX_WORDS });
        }
        let heading = heading_words(
            &section.title,
            &self.words[first as usize..],
            &mut numbered.lexicon,
        );
        let start = first + heading;
        for mut sentence in read.into_iter().filter(|sentence| sentence.words.1 > start) {
            sentence.words.0 = sentence.words.0.max(start);
            self.sentences.push(sentence);
            self.homes.push(at);
        }
        self.title_words.push(title);
        self.nodes.push(Node {
            section,
            parent,
            end: at + 1,
            title: key,
            path,
            item,
            words: (start, self.words.len() as u32),
            sentences: (sentence, self.sentences.len() as u32),
            body: 0,
            whole: 0,
            is_heading: section.kind == SectionKind::Heading,
            lines,
        });
        Ok(())
    }

    fn number_wholes(
        &mut self,
        keys: Vec<u32>,
        bodies: &[u32],
        wholes: &mut HashMap<(u32, u32, Vec<u32>), u32>,
    ) {
        self.keys = keys;
        let mut below: Vec<Vec<u32>> = vec![Vec::new(); self.nodes.len()];
        for at in (0..self.nodes.len()).rev() {
            let mut children = std::mem::take(&mut below[at]);
            children.reverse();
            let node = &mut self.nodes[at];
            node.body = bodies[at];
            node.whole = number(wholes, (node.title, node.body, children));
            if let Some(parent) = node.parent {
                below[parent as usize].push(node.whole);
            }
        }
    }

    /// The words of a section's own text.
    pub(super) fn body(&self, node: &Node<'_>) -> &[Word] {
        &self.words[node.words.0 as usize..node.words.1 as usize]
    }

    /// The words of a sentence.
    pub(super) fn sentence(&self, at: u32) -> &[Word] {
        let (start, end) = self.sentences[at as usize].words;
        &self.words[start as usize..end as usize]
    }

    /// The sentences of a section and all below it.
    pub(super) fn all_sentences(&self, at: u32) -> (u32, u32) {
        let node = &self.nodes[at as usize];
        let last = &self.nodes[node.end as usize - 1];
        (node.sentences.0, last.sentences.1)
    }

    /// How many words those have.
    pub(super) fn all_words(&self, at: u32) -> u64 {
        let (first, last) = self.all_sentences(at);
        (first..last)
            .map(|sentence| self.sentence(sentence).len() as u64)
            .sum()
    }

    /// A sentence as it stands in the document, white space folded, and the line it starts on.
    pub(super) fn show(&self, at: u32, most_chars: usize) -> (String, Option<LineAt<'a>>) {
        let sentence = &self.sentences[at as usize];
        let lines = &self.nodes[self.homes[at as usize] as usize].lines;
        let mut text = String::new();
        for number in sentence.start.0..=sentence.end.0 {
            let Some(line) = lines.get(number as usize) else {
                break;
            };
            let from = if number == sentence.start.0 {
                sentence.start.1 as usize
            } else {
                0
            };
            let to = if number == sentence.end.0 {
                sentence.end.1 as usize
            } else {
                line.text.len()
            };
            for token in line
                .text
                .get(from..to)
                .unwrap_or_default()
                .split_whitespace()
            {
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(token);
            }
        }
        if text.chars().nth(most_chars).is_some() {
            text = text.chars().take(most_chars).chain(['…']).collect();
        }
        (text, lines.get(sentence.start.0 as usize).copied())
    }
}

/// Numbers sentences, texts and sub-trees alike on both sides where their words are alike.
pub(super) fn number_texts(left: &mut Side<'_>, right: &mut Side<'_>) {
    let mut keys_left = Vec::new();
    let mut keys_right = Vec::new();
    let mut bodies_left = Vec::new();
    let mut bodies_right = Vec::new();
    let mut sentences: HashMap<&[Word], u32> = HashMap::new();
    let mut bodies: HashMap<&[Word], u32> = HashMap::new();
    for (side, keys, own) in [
        (&*left, &mut keys_left, &mut bodies_left),
        (&*right, &mut keys_right, &mut bodies_right),
    ] {
        keys.extend(
            (0..side.sentences.len() as u32).map(|at| number(&mut sentences, side.sentence(at))),
        );
        own.extend(
            side.nodes
                .iter()
                .map(|node| number(&mut bodies, side.body(node))),
        );
    }
    let mut wholes = HashMap::new();
    left.number_wholes(keys_left, &bodies_left, &mut wholes);
    right.number_wholes(keys_right, &bodies_right, &mut wholes);
}

/// The sections from `root` down, or all, with their depth below it.
fn within(tree: &SectionTree, root: Option<SectionId>) -> impl Iterator<Item = (usize, &Section)> {
    let root = root.map(|root| tree.path_to(root));
    let base = root.as_ref().map_or(1, Vec::len);
    let ids = root.and_then(|path| path.last().map(|section| items::ids(section)));
    let inside =
        move |section: &Section| ids.as_ref().is_none_or(|ids| ids.contains(&section.id.0));
    tree.walk()
        .filter(move |(_, section)| inside(section))
        .map(move |(depth, section)| (depth.saturating_sub(base), section))
}

fn lines_in(body: &Body) -> usize {
    match body {
        Body::Pages(pages) => pages.iter().map(|page| page.lines.len()).sum(),
        Body::Lines(text) => text.lines.len(),
    }
}

/// Whether a line at the edge of a page belongs to the page, not to the text, and was not seen as such when the page was
/// read: a page number, a link back to the contents, a heading `(continued)`.
fn is_edge(line: &LineAt<'_>, pages: &[Page]) -> bool {
    let Some(page) = line.page.and_then(|page| pages.get(page.index())) else {
        return false;
    };
    let first = line.number == 1;
    let last = line.number as usize >= page.lines.len();
    if !(first || last) {
        return false;
    }
    let text = line.text.trim();
    let number = text.trim_matches(|c: char| {
        c.is_whitespace() || matches!(c, '-' | '–' | '—' | '|' | '(' | ')')
    });
    let number = number
        .strip_prefix("Page ")
        .or_else(|| number.strip_prefix("F-"))
        .unwrap_or(number);
    let numbered =
        !number.is_empty() && number.len() <= 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    let continued = text.to_lowercase().ends_with("(continued)");
    numbered || first && (text.eq_ignore_ascii_case("table of contents") || continued)
}

/// How many of the first words of a text are its heading.
fn heading_words(title: &str, text: &[Word], lexicon: &mut Lexicon) -> u32 {
    let line = |text| LineAt {
        text,
        tokens: 0,
        page: None,
        number: 1,
        layout: None,
    };
    let mut heading = Vec::new();
    sentences(&[line(title)], lexicon, &mut heading);
    // The number of an Item may stand in the text and not in the title, or the other way round.
    let bare = titles::without_number(title);
    let mut named = Vec::new();
    sentences(&[line(bare)], lexicon, &mut named);
    let found = |words: &[Word]| !words.is_empty() && text.starts_with(words);
    if found(&heading) {
        return heading.len() as u32;
    }
    let ahead =
        (0..4.min(text.len())).find(|skip| !named.is_empty() && text[*skip..].starts_with(&named));
    ahead.map_or(0, |skip| (skip + named.len()) as u32)
}

/// What the sections of a tree are among Items: a word that is the same on forms that ask for the same.
fn items_of(tree: &SectionTree, form: &str) -> HashMap<SectionId, String> {
    let mut named: HashMap<SectionId, String> = HashMap::new();
    for item in items::items(tree) {
        let name = titles::item(form, item.part.as_deref(), &item.number);
        named.entry(item.section).or_insert(name);
    }
    named
}

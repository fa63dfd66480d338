//! A document prepared for alignment: sections in reading order, with words, titles and Items interned as numbers.

use std::collections::HashMap;

use stemma_document::text::{BodyLine, own_lines};
use stemma_document::{Page, Section, SectionId, SectionKind, SectionTree, SourceBody};
use stemma_reading::lines::{LineKind, read_lines};

use super::sentences::{Lexicon, SentenceSpan, Word, split_sentences};
use super::titles;
use super::{AlignError, AlignInput};
use stemma_catalog::items;

/// Maximum sections per document.
pub const MAX_SECTIONS: usize = 50_000;
/// Maximum words per document.
pub const MAX_WORDS: usize = 8_000_000;
// An equal text of at least this many words is not a coincidence.
const MIN_DISTINCTIVE_WORDS: u32 = 16;
// Lines read beyond those of the document: sections of an imported tree may overlap.
const MAX_EXTRA_LINES: usize = 200_000;

pub(super) struct SectionFeatures<'a> {
    pub(super) section: &'a Section,
    // Index of the parent.
    pub(super) parent: Option<u32>,
    // Index after the last descendant.
    pub(super) end: u32,
    // Interned title without numbers and dates.
    pub(super) title: u32,
    // Interned titles from the root down.
    pub(super) path: u32,
    // Interned key of its Item.
    pub(super) item: Option<u32>,
    // Own text without the heading: range in `DocumentFeatures::words`.
    pub(super) words: (u32, u32),
    // Range in `DocumentFeatures::sentences`.
    pub(super) sentences: (u32, u32),
    // Interned own text: equal for equal words.
    pub(super) body: u32,
    // Interned title, own text and children.
    pub(super) subtree: u32,
    // Whether the heading is printed in the document.
    pub(super) is_heading: bool,
    lines: Vec<BodyLine<'a>>,
}

impl SectionFeatures<'_> {
    // The text, if another section hardly has the same by coincidence.
    pub(super) fn distinctive_body(&self) -> Option<u32> {
        (self.words.1 - self.words.0 >= MIN_DISTINCTIVE_WORDS).then_some(self.body)
    }
}

pub(super) struct DocumentFeatures<'a> {
    pub(super) nodes: Vec<SectionFeatures<'a>>,
    pub(super) words: Vec<Word>,
    pub(super) sentences: Vec<SentenceSpan>,
    // Interned sentences: equal for equal words.
    pub(super) keys: Vec<u32>,
    // Index of the section of each sentence.
    pub(super) section_of_sentence: Vec<u32>,
    pub(super) has_text: bool,
    // Interned words of each title key.
    pub(super) title_words: Vec<Vec<Word>>,
}

// Shared by both documents, so that equal things get equal numbers.
#[derive(Default)]
pub(super) struct Interner {
    pub(super) lexicon: Lexicon,
    titles: HashMap<Vec<Word>, u32>,
    paths: HashMap<(u32, u32), u32>,
    items: HashMap<String, u32>,
}

fn intern<K: std::hash::Hash + Eq>(numbers: &mut HashMap<K, u32>, key: K) -> u32 {
    let next = numbers.len() as u32;
    *numbers.entry(key).or_insert(next)
}

impl<'a> DocumentFeatures<'a> {
    pub(super) fn new(
        compared: &AlignInput<'a>,
        form: &str,
        interner: &mut Interner,
    ) -> Result<Self, AlignError> {
        let tree = compared.tree;
        let mut side = DocumentFeatures {
            nodes: Vec::new(),
            words: Vec::new(),
            sentences: Vec::new(),
            keys: Vec::new(),
            section_of_sentence: Vec::new(),
            has_text: compared.body.is_some(),
            title_words: Vec::new(),
        };
        let items = item_keys(tree, form);
        let mut remaining_lines = compared.body.map_or(0, lines_in) + MAX_EXTRA_LINES;
        let mut above: Vec<u32> = Vec::new();
        for (depth, section) in sections_within(tree, compared.within) {
            above.truncate(depth);
            let at = side.nodes.len() as u32;
            if side.nodes.len() >= MAX_SECTIONS {
                return Err(AlignError::TooManySections { most: MAX_SECTIONS });
            }
            let item = items
                .get(&section.id)
                .map(|item| intern(&mut interner.items, item.clone()));
            side.add(
                section,
                above.last().copied(),
                item,
                compared,
                &mut remaining_lines,
                interner,
            )?;
            above.push(at);
        }
        // Descendants come after their ancestors: going backwards, each end is final before it is passed up.
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
        compared: &AlignInput<'a>,
        remaining_lines: &mut usize,
        interner: &mut Interner,
    ) -> Result<(), AlignError> {
        let at = self.nodes.len() as u32;
        let title: Vec<Word> = titles::title_key(&section.title)
            .iter()
            .map(|word| interner.lexicon.intern(&format!("\u{1}{word}")))
            .collect();
        let key = intern(&mut interner.titles, title.clone());
        let above = parent.map_or(u32::MAX, |parent| self.nodes[parent as usize].path);
        let path = intern(&mut interner.paths, (above, key));
        let mut lines = compared
            .body
            .map(|body| own_lines(section, body))
            .unwrap_or_default();
        *remaining_lines = remaining_lines
            .checked_sub(lines.len())
            .ok_or(AlignError::TooManyWords { most: MAX_WORDS })?;
        if let Some(SourceBody::Pages(pages)) = compared.body {
            lines.retain(|line| !is_page_furniture(line, pages));
        }
        let first = self.words.len() as u32;
        let sentence = self.sentences.len() as u32;
        let kinds: Vec<LineKind> = match compared.readings {
            Some(readings) => lines
                .iter()
                .map(|line| readings.line(line.page, line.number).kind)
                .collect(),
            None => read_lines(lines.iter().map(|line| line.text))
                .into_iter()
                .map(|line| line.kind)
                .collect(),
        };
        let read = split_sentences(&lines, &kinds, &mut interner.lexicon, &mut self.words);
        if self.words.len() > MAX_WORDS {
            return Err(AlignError::TooManyWords { most: MAX_WORDS });
        }
        let heading = heading_words(
            &section.title,
            &self.words[first as usize..],
            &mut interner.lexicon,
        );
        let start = first + heading;
        for mut sentence in read.into_iter().filter(|sentence| sentence.words.1 > start) {
            sentence.words.0 = sentence.words.0.max(start);
            self.sentences.push(sentence);
            self.section_of_sentence.push(at);
        }
        self.title_words.push(title);
        self.nodes.push(SectionFeatures {
            section,
            parent,
            end: at + 1,
            title: key,
            path,
            item,
            words: (start, self.words.len() as u32),
            sentences: (sentence, self.sentences.len() as u32),
            body: 0,
            subtree: 0,
            is_heading: section.kind == SectionKind::Heading,
            lines,
        });
        Ok(())
    }

    fn number_subtrees(
        &mut self,
        (keys, bodies): (Vec<u32>, Vec<u32>),
        wholes: &mut HashMap<(u32, u32, Vec<u32>), u32>,
    ) {
        self.keys = keys;
        let mut below: Vec<Vec<u32>> = vec![Vec::new(); self.nodes.len()];
        for at in (0..self.nodes.len()).rev() {
            let mut children = std::mem::take(&mut below[at]);
            children.reverse();
            let node = &mut self.nodes[at];
            node.body = bodies[at];
            node.subtree = intern(wholes, (node.title, node.body, children));
            if let Some(parent) = node.parent {
                below[parent as usize].push(node.subtree);
            }
        }
    }

    pub(super) fn body_words(&self, node: &SectionFeatures<'_>) -> &[Word] {
        &self.words[node.words.0 as usize..node.words.1 as usize]
    }

    pub(super) fn sentence(&self, at: u32) -> &[Word] {
        let (start, end) = self.sentences[at as usize].words;
        &self.words[start as usize..end as usize]
    }

    pub(super) fn subtree_sentences(&self, at: u32) -> (u32, u32) {
        let node = &self.nodes[at as usize];
        let last = &self.nodes[node.end as usize - 1];
        (node.sentences.0, last.sentences.1)
    }

    pub(super) fn subtree_words(&self, at: u32) -> u64 {
        let (first, last) = self.subtree_sentences(at);
        (first..last)
            .map(|sentence| self.sentence(sentence).len() as u64)
            .sum()
    }

    // A sentence as printed, white space folded, and the line it starts on.
    pub(super) fn quote(&self, at: u32, most_chars: usize) -> (String, Option<BodyLine<'a>>) {
        let sentence = &self.sentences[at as usize];
        let lines = &self.nodes[self.section_of_sentence[at as usize] as usize].lines;
        let first = sentence.start;
        let last = sentence.end;
        let parts = (first.0..=last.0).map_while(|number| {
            let line = lines.get(number as usize)?.text;
            let from = if number == first.0 {
                first.1 as usize
            } else {
                0
            };
            let to = match number == last.0 {
                true => last.1 as usize,
                false => line.len(),
            };
            Some(line.get(from..to).unwrap_or_default())
        });
        let words: Vec<&str> = parts.flat_map(str::split_whitespace).collect();
        let mut text = words.join(" ");
        if text.chars().nth(most_chars).is_some() {
            text = text.chars().take(most_chars).chain(['…']).collect();
        }
        (text, lines.get(sentence.start.0 as usize).copied())
    }
}

// Gives equal sentences, texts and subtrees of both documents equal numbers.
pub(super) fn number_texts(left: &mut DocumentFeatures<'_>, right: &mut DocumentFeatures<'_>) {
    let mut sentences: HashMap<&[Word], u32> = HashMap::new();
    let mut bodies: HashMap<&[Word], u32> = HashMap::new();
    let [left_numbers, right_numbers] = [&*left, &*right].map(|side| {
        let keys: Vec<u32> = (0..side.sentences.len() as u32)
            .map(|at| intern(&mut sentences, side.sentence(at)))
            .collect();
        let bodies: Vec<u32> = side
            .nodes
            .iter()
            .map(|node| intern(&mut bodies, side.body_words(node)))
            .collect();
        (keys, bodies)
    });
    let mut wholes = HashMap::new();
    left.number_subtrees(left_numbers, &mut wholes);
    right.number_subtrees(right_numbers, &mut wholes);
}

// The sections from `root` down, or all, with their depth relative to it.
fn sections_within(
    tree: &SectionTree,
    root: Option<SectionId>,
) -> impl Iterator<Item = (usize, &Section)> {
    let root = root.map(|root| tree.path_to(root));
    let base = root.as_ref().map_or(1, Vec::len);
    let ids = root.and_then(|path| path.last().map(|section| items::subtree_ids(section)));
    let inside =
        move |section: &Section| ids.as_ref().is_none_or(|ids| ids.contains(&section.id.0));
    tree.walk()
        .filter(move |(_, section)| inside(section))
        .map(move |(depth, section)| (depth.saturating_sub(base), section))
}

fn lines_in(body: &SourceBody) -> usize {
    match body {
        SourceBody::Pages(pages) => pages.iter().map(|page| page.lines.len()).sum(),
        SourceBody::Lines(text) => text.lines.len(),
    }
}

// Lines at the edge of a page that extraction did not recognize as furniture: a page number, a link back to the contents, a
// heading `(continued)`.
fn is_page_furniture(line: &BodyLine<'_>, pages: &[Page]) -> bool {
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

// How many words at the beginning of a section's text are its heading.
fn heading_words(title: &str, text: &[Word], lexicon: &mut Lexicon) -> u32 {
    // The Item number may be in the text and not in the title, or the reverse.
    let [heading, title_words] = [title, titles::strip_number(title)].map(|text| {
        let line = BodyLine {
            text,
            tokens: 0,
            page: None,
            number: 1,
            layout: None,
        };
        let mut words = Vec::new();
        split_sentences(&[line], &[], lexicon, &mut words);
        words
    });
    if !heading.is_empty() && text.starts_with(&heading) {
        return heading.len() as u32;
    }
    let ahead = (0..4.min(text.len()))
        .find(|skip| !title_words.is_empty() && text[*skip..].starts_with(&title_words));
    ahead.map_or(0, |skip| (skip + title_words.len()) as u32)
}

// Keys of the sections that are Items; equal Items of different forms share a key.
fn item_keys(tree: &SectionTree, form: &str) -> HashMap<SectionId, String> {
    let mut item_keys: HashMap<SectionId, String> = HashMap::new();
    for item in items::section_items(tree) {
        let name = titles::item_key(form, item.part.as_deref(), &item.number);
        item_keys.entry(item.section).or_insert(name);
    }
    item_keys
}

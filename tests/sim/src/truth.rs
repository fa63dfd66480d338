//! Known documents: their sections, their page texts, and the matching of texts to pages.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::titles::{NormalizedTitle, squash, squashed_lines};

// Words per shingle.
const SHINGLE: usize = 6;
// A text matches a page with this share of its shingles.
const SHARE: f64 = 0.6;

/// A document in a truth folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownOutline {
    /// For display only: no decision depends on it.
    pub doc: String,
    /// Number of physical pages.
    pub pages: u32,
    /// Sections in reading order.
    pub nodes: Vec<KnownSection>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownSection {
    /// In one line.
    pub title: String,
    /// 1 is the highest.
    pub level: u32,
    /// Physical page on which it starts, 1-based.
    pub page: u32,
}

/// The page texts of a document, as questions show them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageTexts {
    /// Pairs it with the truth of the same name.
    pub doc: String,
    /// One per page.
    pub pages: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct KnownDocument {
    pub(crate) truth: KnownOutline,
    pub(crate) titles: Vec<NormalizedTitle>,
    // Normalized lines of each page; empty if the text is not known.
    lines: Vec<Vec<String>>,
}

/// All known documents.
#[derive(Debug, Clone, Default)]
pub struct Library {
    pub(crate) documents: Vec<KnownDocument>,
    shingles: HashMap<u64, Vec<PageRef>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageRef {
    pub(crate) doc: usize,
    /// 1-based.
    pub(crate) page: u32,
}

impl KnownDocument {
    fn new(truth: KnownOutline, pages: &[String]) -> Self {
        let titles: Vec<_> = truth
            .nodes
            .iter()
            .map(|node| NormalizedTitle::parse(&node.title))
            .collect();
        Self {
            titles,
            lines: pages.iter().map(|text| squashed_lines(text)).collect(),
            truth,
        }
    }

    pub(crate) fn sections_starting(&self, page: u32) -> impl Iterator<Item = usize> {
        (0..self.truth.nodes.len()).filter(move |at| self.truth.nodes[*at].page == page)
    }

    /// Whether `text`, a part of this page, contains the heading of the section.
    pub(crate) fn shows(&self, node: usize, text: &[String]) -> bool {
        let page = self.lines.get(self.truth.nodes[node].page as usize - 1);
        let on_page = page.and_then(|lines| self.titles[node].line(lines));
        on_page.is_none() || self.titles[node].line(text).is_some()
    }
}

impl Library {
    /// Pairs truths with texts by name. The first of several documents of a name is used.
    pub fn new(truths: Vec<KnownOutline>, texts: Vec<PageTexts>) -> Self {
        let texts: BTreeMap<_, _> = texts
            .into_iter()
            .map(|texts| (texts.doc, texts.pages))
            .collect();
        let mut library = Self::default();
        let mut names = std::collections::BTreeSet::new();
        for truth in truths
            .into_iter()
            .filter(|truth| names.insert(truth.doc.clone()))
        {
            let pages = texts.get(&truth.doc).cloned().unwrap_or_default();
            library.add(truth, &pages);
        }
        library
    }

    /// Loads truth folders (`*.json`, skipping those without nodes) and folders of texts.
    ///
    /// # Errors
    /// A folder or file that cannot be read.
    pub fn load(truth: &[impl AsRef<Path>], texts: &[impl AsRef<Path>]) -> Result<Self> {
        let truths = truth
            .iter()
            .map(|folder| read(folder.as_ref()))
            .collect::<Result<Vec<_>>>()?;
        let texts = texts
            .iter()
            .map(|folder| read(folder.as_ref()))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self::new(truths.concat(), texts.concat()))
    }

    fn add(&mut self, truth: KnownOutline, pages: &[String]) {
        let doc = self.documents.len();
        for (page, text) in (1..).zip(pages) {
            for shingle in shingles(text) {
                let places = self.shingles.entry(shingle).or_default();
                let place = PageRef { doc, page };
                if places.last() != Some(&place) {
                    places.push(place);
                }
            }
        }
        self.documents.push(KnownDocument::new(truth, pages));
    }

    /// Name and number of sections of each document.
    pub fn outline(&self) -> impl Iterator<Item = (&str, usize)> {
        self.documents
            .iter()
            .map(|document| (document.truth.doc.as_str(), document.truth.nodes.len()))
    }

    /// The page of each text of one question. All belong to one document; of equal pages, consecutive ones
    /// are preferred.
    pub(crate) fn match_pages(&self, texts: &[&str]) -> Vec<Option<PageRef>> {
        let candidates: Vec<_> = texts.iter().map(|text| self.candidates(text)).collect();
        let mut votes: BTreeMap<usize, f64> = BTreeMap::new();
        for candidates in &candidates {
            let mut best: BTreeMap<usize, f64> = BTreeMap::new();
            for (place, share) in candidates {
                let of_doc = best.entry(place.doc).or_default();
                *of_doc = of_doc.max(*share);
            }
            best.into_iter()
                .for_each(|(doc, share)| *votes.entry(doc).or_default() += share);
        }
        let chosen = votes
            .into_iter()
            .reduce(|a, b| if b.1 > a.1 { b } else { a });
        let Some((doc, _)) = chosen else {
            return vec![None; texts.len()];
        };
        let mut before = 0;
        let of_doc = candidates.into_iter().map(|mut candidates| {
            candidates.retain(|(place, _)| place.doc == doc);
            let most = candidates
                .iter()
                .map(|(_, share)| *share)
                .fold(0.0, f64::max);
            let alike = candidates
                .iter()
                .filter(|(_, share)| *share >= most)
                .map(|(place, _)| *place);
            // Prefers the next page, then a later one, then the first.
            let place = alike.min_by_key(|place| (place.page <= before, place.page));
            before = place.map_or(before, |place| place.page);
            place
        });
        of_doc.collect()
    }

    // Pages that a text may be part of, with their share of its shingles.
    fn candidates(&self, text: &str) -> Vec<(PageRef, f64)> {
        let own = shingles(text);
        let mut hits: BTreeMap<PageRef, u32> = BTreeMap::new();
        for place in own
            .iter()
            .filter_map(|shingle| self.shingles.get(shingle))
            .flatten()
        {
            *hits.entry(*place).or_default() += 1;
        }
        let shares = hits
            .into_iter()
            .map(|(place, hits)| (place, f64::from(hits) / own.len() as f64));
        shares.filter(|(_, share)| *share >= SHARE).collect()
    }

    /// The document with most of its titles among these lines, for texts without a known page.
    pub(crate) fn by_titles(&self, lines: &[String]) -> Option<usize> {
        let matching_titles = |document: &KnownDocument| {
            document
                .titles
                .iter()
                .filter(|title| title.line(lines).is_some())
                .count()
        };
        let unknown = self
            .documents
            .iter()
            .enumerate()
            .filter(|(_, document)| document.lines.is_empty());
        let counts = unknown
            .map(|(doc, document)| (matching_titles(document), doc))
            .filter(|(matching_titles, _)| *matching_titles > 0);
        counts
            .reduce(|a, b| if b.0 > a.0 { b } else { a })
            .map(|(_, doc)| doc)
    }
}

// Hashes of consecutive words; of a short text, of all its words.
fn shingles(text: &str) -> Vec<u64> {
    let words: Vec<String> = text
        .split_whitespace()
        .map(squash)
        .filter(|word| !word.is_empty())
        .collect();
    let hash = |words: &[String]| {
        let bytes = *blake3::hash(words.join(" ").as_bytes()).as_bytes();
        u64::from_le_bytes([
            bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
        ])
    };
    let mut hashes: Vec<_> = match words.len() {
        0 => Vec::new(),
        n if n <= SHINGLE => vec![hash(&words)],
        _ => words.windows(SHINGLE).map(hash).collect(),
    };
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

// All `*.json` of a folder that have this shape, sorted by name.
fn read<T: serde::de::DeserializeOwned>(folder: &Path) -> Result<Vec<T>> {
    let unreadable = || format!("cannot read {}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        files.push(entry.with_context(unreadable)?.path());
    }
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    files.sort();
    let mut all = Vec::new();
    for path in files {
        let json = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        if let Ok(one) = serde_json::from_slice(&json) {
            all.push(one);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library() -> Library {
        let page = |words: &str, n: u32| {
            format!("Heading {n}\n{}", format!("{words} number {n} ").repeat(3))
        };
        let texts = |doc: &str, words: &str| PageTexts {
            doc: doc.into(),
            pages: (1..=5)
                .map(|n| {
                    if n == 4 {
                        "Left blank".into()
                    } else {
                        page(words, n)
                    }
                })
                .collect(),
        };
        let truth = |doc: &str| KnownOutline {
            doc: doc.into(),
            pages: 5,
            nodes: vec![KnownSection {
                title: "Heading 2".into(),
                level: 1,
                page: 2,
            }],
        };
        let texts = vec![
            texts("a", "the sales of the first company"),
            texts("b", "another company sells no thing"),
        ];
        Library::new(vec![truth("a"), truth("b")], texts)
    }

    #[test]
    fn pages_are_recognized_from_parts_of_their_text() {
        let library = library();
        let at = |texts: &[&str]| {
            library
                .match_pages(texts)
                .iter()
                .map(|p| p.map(|p| (p.doc, p.page)))
                .collect::<Vec<_>>()
        };
        let whole = "A running head\nHeading 2\nanother  company sells no thing NUMBER 2 another company sells no thing \
                     number 2 another company sells no thing number 2";
        assert_eq!(at(&[whole]), [Some((1, 2))]);
        assert_eq!(
            at(&["of the first company number 3 the sales of"]),
            [Some((0, 3))]
        );
        assert_eq!(
            at(&["nobody ever wrote these words on any page of it"]),
            [None]
        );
        // A page in both documents belongs to the document of the other pages.
        let pages = [
            "left blank",
            "another company sells no thing number 5 another",
        ];
        assert_eq!(at(&pages), [Some((1, 4)), Some((1, 5))]);
    }

    #[test]
    fn first_loaded_truth_wins() {
        let truth = |title: &str| KnownOutline {
            doc: "a".into(),
            pages: 1,
            nodes: vec![KnownSection {
                title: title.into(),
                level: 1,
                page: 1,
            }],
        };
        let library = Library::new(vec![truth("one"), truth("two")], vec![]);
        assert_eq!(library.documents.len(), 1);
        assert_eq!(library.documents[0].truth.nodes[0].title, "one");
        assert_eq!(
            library.by_titles(&squashed_lines("nothing\nOne\n")),
            Some(0)
        );
    }
}

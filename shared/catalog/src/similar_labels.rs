//! Suggests documents for a name that no document has.

use std::ops::ControlFlow;

use roaring::RoaringBitmap;
use stemma_store::PortResult;

use crate::catalog::{Catalog, DocumentSet};
use crate::display_names::fold_name;
use crate::document_words::words;
use crate::store::terms::{NameKind, TermField};

/// Suggested labels at most.
pub(crate) const MAX_SUGGESTED: usize = 5;
// Edits at which a name is still suggested.
const MAX_EDITS: usize = 2;
// Bounds the work for names from outside.
const MAX_WORDS: usize = 16;
// Documents with equally many words that are compared letter by letter.
const MAX_COMPARED: usize = 1_000;
// Names that are compared if no document has a word: all of a hundred thousand documents, in some 0.1 s.
const MAX_NAMES: usize = 100_000;
const MAX_CHARS: usize = 200;

impl Catalog {
    // Labels of the documents that have most of the words in `normalized`, or else of those whose names are within
    // `MAX_EDITS` of it or contain it. Forms and years alone make no document similar.
    pub(crate) fn similar_labels(&self, normalized: &str) -> PortResult<Vec<String>> {
        let (names, filing): (Vec<String>, Vec<String>) = words(normalized)
            .take(MAX_WORDS)
            .partition(|word| !word.starts_with(|c: char| c.is_ascii_digit()) || word.len() < 3);
        let target = SimilarName::new(normalized);
        let mut labels = Vec::new();
        for with_names in self.by_shared_words(&names, None)? {
            for equal in self.by_shared_words(&filing, Some(&with_names))? {
                self.add_nearest(&target, equal, &mut labels)?;
                if labels.len() >= MAX_SUGGESTED {
                    return Ok(labels);
                }
            }
        }
        if labels.is_empty() {
            let near = self.spelled_alike(&target)?;
            self.add_nearest(&target, near, &mut labels)?;
        }
        Ok(labels)
    }

    // The documents by how many of the words they have, most first: all in `among`, or those with at least one.
    fn by_shared_words(
        &self,
        words: &[String],
        among: Option<&RoaringBitmap>,
    ) -> PortResult<Vec<RoaringBitmap>> {
        let mut at_least: Vec<RoaringBitmap> = Vec::new();
        for word in words {
            let mut with_word = self
                .listed(self.reader().with_value(TermField::Word, word)?)
                .numbers;
            if let Some(among) = among {
                with_word &= among;
            }
            for count in (0..at_least.len()).rev() {
                let more = &at_least[count] & &with_word;
                match at_least.get_mut(count + 1) {
                    Some(next) => *next |= more,
                    None if !more.is_empty() => at_least.push(more),
                    None => {}
                }
            }
            match at_least.first_mut() {
                Some(first) => *first |= with_word,
                None if !with_word.is_empty() => at_least.push(with_word),
                None => {}
            }
        }
        let mut levels = Vec::new();
        let mut known = RoaringBitmap::new();
        for level in at_least.into_iter().rev().chain(among.cloned()) {
            let new = &level - &known;
            if !new.is_empty() {
                levels.push(new);
            }
            known |= level;
        }
        Ok(levels)
    }

    // Adds labels until there are enough, the nearest names first.
    fn add_nearest(
        &self,
        target: &SimilarName,
        numbers: RoaringBitmap,
        labels: &mut Vec<String>,
    ) -> PortResult<()> {
        let mut near = Vec::new();
        for document in self.list(&DocumentSet::new(numbers)).take(MAX_COMPARED) {
            let document = document?;
            let edits = target.edits(&fold_name(&document.version().name));
            near.push((edits.unwrap_or(MAX_EDITS + 1), document.label.clone()));
        }
        near.sort_unstable();
        let room = MAX_SUGGESTED - labels.len();
        labels.extend(near.into_iter().take(room).map(|(_, label)| label));
        Ok(())
    }

    // The documents whose names have the same first letter and are spelled alike, or else any that are.
    fn spelled_alike(&self, target: &SimilarName) -> PortResult<RoaringBitmap> {
        let first: String = target.chars.iter().take(1).collect();
        let mut alike = RoaringBitmap::new();
        self.compare_names(target, &first, true, &mut alike)?;
        if alike.is_empty() {
            self.compare_names(target, "", false, &mut alike)?;
        }
        Ok(alike)
    }

    fn compare_names(
        &self,
        target: &SimilarName,
        from: &str,
        is_prefix: bool,
        alike: &mut RoaringBitmap,
    ) -> PortResult<()> {
        let mut last: Option<(String, bool)> = None;
        let mut names = self
            .reader()
            .names_from(NameKind::Folded, from)?
            .take(MAX_NAMES);
        let compared = names.try_for_each(|name| {
            let (name, number) = match name {
                Ok(name) => name,
                Err(error) => return ControlFlow::Break(Err(error)),
            };
            if is_prefix && !name.starts_with(from) {
                return ControlFlow::Break(Ok(()));
            }
            let is_alike = match &last {
                Some((known, is_alike)) if *known == name => *is_alike,
                _ => target.edits(&name).is_some() || target.is_inside(&name),
            };
            if is_alike {
                alike.insert(number);
            }
            last = Some((name, is_alike));
            ControlFlow::Continue(())
        });
        match compared {
            ControlFlow::Break(ended) => ended,
            ControlFlow::Continue(()) => Ok(()),
        }
    }
}

// A name that others are compared with.
struct SimilarName {
    chars: Vec<char>,
    most_edits: usize,
}

impl SimilarName {
    fn new(normalized: &str) -> Self {
        let chars: Vec<char> = normalized.chars().take(MAX_CHARS).collect();
        let most_edits = MAX_EDITS.min(chars.len() / 3);
        Self { chars, most_edits }
    }

    fn edits(&self, name: &str) -> Option<usize> {
        let name: Vec<char> = name.chars().take(MAX_CHARS).collect();
        if self.chars.len().abs_diff(name.len()) > self.most_edits {
            return None;
        }
        let edits = strsim::generic_levenshtein(&self.chars, &name);
        Some(edits).filter(|edits| *edits <= self.most_edits)
    }

    fn is_inside(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().take(MAX_CHARS).collect();
        let len = self.chars.len();
        len >= 3 && name.windows(len).any(|part| part == self.chars)
    }
}

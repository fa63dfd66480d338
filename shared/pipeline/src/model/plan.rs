//! What a model is asked about a document: which pages, which titles, which sections, each by the digest of exactly what
//! the question will hold. The flow reads it; no text is in it.

use serde::{Deserialize, Serialize};
use stemma_document::{Body, VerifiedEntry};
use stemma_document::{Digest, PageNo, SectionTree, Source, Verdict, text};
use stemma_engine::{Identity, TaskKey};

use super::answers::{Answer, Told};
use super::{entry_text, page_text};
use crate::settings::Settings;
use crate::stages::{DetectToc, Summarize, VerifyTitle};
use crate::structure::Draft;

/// Titles, and sections, of one part of a plan: an outcome holds at most 64 KiB.
pub(crate) const PER_PART: usize = 300;
/// Parts of a section whose summaries its own summary is made from; of more it is only said how many there are.
pub(crate) const PARTS: usize = 60;

/// What [`DraftOutline`](crate::stages::DraftOutline) leaves for the stages after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DraftBlob {
    /// What rules found.
    pub(crate) draft: Draft,
    /// The tree of it, measured; its sections have the indices of the plan.
    pub(crate) tree: SectionTree,
}

/// A stretch of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Part {
    /// Per entry of the outline: digest of its title and of where it was located; `None`: it claims no title.
    pub titles: Vec<Option<Digest>>,
    /// Per section.
    pub sections: Vec<Planned>,
}

/// A section to be summarized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// 1 for top sections.
    pub depth: u16,
    /// Whether it is so short that it is its own summary.
    pub small: bool,
    /// Digest of its title and its own text; of its whole text where it is small.
    pub text: Digest,
}

/// The plan of a document, put together from its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The artifact that holds the draft.
    pub(crate) draft: TaskKey,
    /// The artifact that holds the text.
    pub(crate) source: TaskKey,
    /// Digests of the first pages; `None`: a page without text.
    pub(crate) pages: Vec<Option<Digest>>,
    titles: Vec<Option<Digest>>,
    sections: Vec<Planned>,
    /// Per section, the indices of its sub-sections.
    children: Vec<Vec<usize>>,
    /// Per section, how many levels are below it.
    heights: Vec<usize>,
}

/// Digest of something that has a title and a text.
pub(crate) fn digest_of(title: &str, text: &str) -> Digest {
    Digest::of(format!("{}:{title}{text}", title.len()).as_bytes())
}

/// Plans the questions about a document: pages of its front, titles, sections, in parts of [`PER_PART`].
pub(crate) fn plan(source: &Source, blob: &DraftBlob, settings: &Settings) -> (Vec<Option<Digest>>, Vec<Part>) {
    let front = match &source.body {
        Body::Pages(pages) => &pages[..pages.len().min(settings.outline.toc_check_pages as usize)],
        Body::Lines(_) => &[],
    };
    let page = |page| Some(page_text(page, None)).filter(|text| !text.trim().is_empty());
    let pages = front.iter().map(|one| page(one).map(|text| Digest::of(text.as_bytes()))).collect();
    let titles: Vec<_> = blob.draft.outline.entries().iter().map(|entry| title(entry, &source.body)).collect();
    let limit = settings.sections.summary_tokens_verbatim;
    let sections: Vec<_> = blob
        .tree
        .walk()
        .map(|(depth, section)| {
            let small = section.tokens < limit;
            let text =
                if small { text::full_text(section, &source.body) } else { text::own_text(section, &source.body) };
            let depth = u16::try_from(depth).unwrap_or(u16::MAX);
            Planned { depth, small, text: digest_of(&section.title, &text) }
        })
        .collect();
    let stretch = |part: usize, all: usize| (part * PER_PART).min(all)..((part + 1) * PER_PART).min(all);
    let parts = titles.len().max(sections.len()).div_ceil(PER_PART).max(1);
    let part = |part| Part {
        titles: titles[stretch(part, titles.len())].to_vec(),
        sections: sections[stretch(part, sections.len())].to_vec(),
    };
    (pages, (0..parts).map(part).collect())
}

/// Entries that claim no title are not asked about.
fn title(entry: &VerifiedEntry, body: &Body) -> Option<Digest> {
    let claims = matches!(entry.verdict, Verdict::Found { .. } | Verdict::Unconfirmed { .. });
    let title = &entry.located.entry.title;
    claims.then(|| digest_of(title, &entry_text(body, entry.located.place)))
}

impl Plan {
    /// Puts a plan together.
    pub(crate) fn of(draft: TaskKey, source: TaskKey, pages: Vec<Option<Digest>>, parts: Vec<Part>) -> Self {
        let (mut titles, mut sections) = (Vec::new(), Vec::new());
        for part in parts {
            titles.extend(part.titles);
            sections.extend(part.sections);
        }
        let (children, heights) = family(&sections);
        Self { draft, source, pages, titles, sections, children, heights }
    }

    /// Writes what tells it from other plans.
    pub(crate) fn identify(&self, identity: &mut Identity) {
        identity.text(&self.draft.to_string());
    }

    /// Number of sections.
    pub(crate) fn sections(&self) -> usize {
        self.sections.len()
    }

    /// Number of entries of the outline.
    pub(crate) fn titles(&self) -> usize {
        self.titles.len()
    }

    /// Is each first page a table of contents? With the index of the page.
    pub(crate) fn ask_pages(&self) -> Vec<(usize, DetectToc)> {
        let asked = self.pages.iter().enumerate().filter_map(|(index, text)| Some((index, (*text)?)));
        asked
            .map(|(index, reads)| (index, DetectToc { reads, source: self.source, page: PageNo::from_index(index) }))
            .collect()
    }

    /// Does each title stand where it was located? With the index of the entry.
    pub(crate) fn ask_titles(&self) -> Vec<(usize, VerifyTitle)> {
        let asked = self.titles.iter().enumerate().filter_map(|(index, look)| Some((index, (*look)?)));
        let task = |(index, reads)| {
            let entry = u32::try_from(index).unwrap_or(u32::MAX);
            (index, VerifyTitle { reads, draft: self.draft, source: self.source, entry })
        };
        asked.map(task).collect()
    }

    /// The waves of summaries there are, leaves first.
    pub(crate) fn waves(&self) -> usize {
        self.heights.iter().max().map_or(0, |height| height + 1)
    }

    /// The summaries of one wave, with the indices of their sections; what is below them is told in `told`.
    pub(crate) fn ask_summaries(
        &self,
        wave: usize,
        told: &[Option<(TaskKey, Answer<Told>)>],
    ) -> Vec<(usize, Summarize)> {
        let asked =
            (0..self.sections.len()).filter(|index| self.heights[*index] == wave && !self.sections[*index].small);
        asked.map(|index| (index, self.summarize(index, told))).collect()
    }

    fn summarize(&self, index: usize, told: &[Option<(TaskKey, Answer<Told>)>]) -> Summarize {
        let all = &self.children[index];
        let children = &all[..all.len().min(PARTS)];
        let mut reads = Reads::of(self.sections[index].text, all.len());
        let mut keys = Vec::with_capacity(children.len());
        for child in children {
            let answer = told[*child].as_ref().and_then(|(key, answer)| Some((*key, answer.as_ref().ok()?.digest)));
            reads.part(answer.map_or(self.sections[*child].text, |(_, digest)| digest));
            keys.push(answer.map(|(key, _)| key));
        }
        let section = u32::try_from(index).unwrap_or(u32::MAX);
        Summarize { reads: reads.finish(), draft: self.draft, source: self.source, section, children: keys }
    }
}

/// Digest of what a summary is made from: the section's own text, how many parts it has, and of each part its summary,
/// or its text where it is small, or its title alone where it has no summary.
pub(crate) struct Reads(Vec<u8>);

impl Reads {
    pub(crate) fn of(own: Digest, parts: usize) -> Self {
        Self([own.as_bytes(), &(parts as u64).to_le_bytes()].concat())
    }

    pub(crate) fn part(&mut self, digest: Digest) {
        self.0.extend_from_slice(digest.as_bytes());
    }

    pub(crate) fn finish(self) -> Digest {
        Digest::of(&self.0)
    }
}

/// Children and heights of sections in pre-order.
fn family(sections: &[Planned]) -> (Vec<Vec<usize>>, Vec<usize>) {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); sections.len()];
    let mut path: Vec<usize> = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        path.truncate(usize::from(section.depth.saturating_sub(1)));
        if let Some(parent) = path.last() {
            children[*parent].push(index);
        }
        path.push(index);
    }
    let mut heights = vec![0; sections.len()];
    for index in (0..sections.len()).rev() {
        // A small section is asked about nothing, and neither is what is in it.
        let asked = children[index].iter().filter(|child| !sections[**child].small);
        heights[index] = asked.map(|child| heights[*child] + 1).max().unwrap_or(0);
    }
    (children, heights)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(depths: &[(u16, bool)]) -> Plan {
        let section = |(index, (depth, small)): (usize, &(u16, bool))| Planned {
            depth: *depth,
            small: *small,
            text: Digest::of(&[u8::try_from(index).unwrap()]),
        };
        let sections = depths.iter().enumerate().map(section).collect();
        let key = TaskKey::identity("draft", 1).finish();
        Plan::of(key, key, Vec::new(), vec![Part { titles: Vec::new(), sections }])
    }

    #[test]
    fn leaves_come_first_and_small_sections_are_not_asked_about() {
        let plan = planned(&[(1, false), (2, false), (3, false), (3, true), (2, true), (1, false)]);
        let wave =
            |wave| plan.ask_summaries(wave, &vec![None; 6]).into_iter().map(|(index, _)| index).collect::<Vec<_>>();
        assert_eq!((plan.waves(), wave(0), wave(1), wave(2)), (3, vec![2, 5], vec![1], vec![0]));
    }

    #[test]
    fn a_summary_reads_its_parts_summaries_and_not_their_texts() {
        let plan = planned(&[(1, false), (2, false)]);
        let told = |text: &str| {
            let told = Told { digest: Digest::of(text.as_bytes()), spent: super::super::Spent::default() };
            vec![None, Some((plan.draft, Ok(told)))]
        };
        let reads = |told: &[_]| plan.ask_summaries(1, told).remove(0).1.reads;
        assert_eq!(reads(&told("a")), reads(&told("a")));
        assert_ne!(reads(&told("a")), reads(&told("b")));
    }

    #[test]
    fn what_is_wanted_of_a_section_with_very_many_parts_fits_in_a_message() {
        let mut depths = vec![(1, false)];
        depths.extend(vec![(2, false); 200]);
        let plan = planned(&depths);
        let told = Told { digest: Digest::of(b"x"), spent: super::super::Spent::default() };
        let told = vec![Some((plan.draft, Ok(told))); 201];
        let payload = serde_json::to_vec(&plan.ask_summaries(1, &told).remove(0).1).unwrap();
        assert!(payload.len() < 3_000, "{}", payload.len());
    }
}

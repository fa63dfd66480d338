//! What a model is asked about a document: which pages, which titles, which sections, each by the digest of exactly what
//! the question will hold. The flow reads it; no text is in it.

use serde::{Deserialize, Serialize};
use stemma_document::{Body, VerifiedEntry};
use stemma_document::{Digest, PageNo, SectionTree, Source, Verdict};
use stemma_engine::{Identity, TaskKey};

use super::summaries::{Planned, Summaries, planned};
use super::{digest_of, entry_text, page_text};
use crate::settings::Settings;
use crate::stages::{DetectToc, VerifyTitle};
use crate::structure::Draft;

/// Titles, and sections, of one part of a plan: an outcome holds at most 64 KiB.
pub(crate) const PER_PART: usize = 300;

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
    /// The summaries.
    pub(crate) summaries: Summaries,
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
    let sections = planned(source, &blob.tree, settings);
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
        Self { draft, source, pages, titles, summaries: Summaries::of(draft, source, sections) }
    }

    /// Writes what tells it from other plans.
    pub(crate) fn identify(&self, identity: &mut Identity) {
        identity.text(&self.draft.to_string());
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
}

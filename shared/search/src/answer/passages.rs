//! Text put before a model: parts of pages under numbers of their own, with what is needed to check quotes from them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use stemma_document::{DocId, Extent, Page, Section, SectionId, SectionSpan, SectionTree, TextLines};
use stemma_engine::PortError;
use stemma_llm::tokens;

use super::record::ReadSection;
use super::sheet::Sheet;
use crate::catalogue::{Catalogue, Listed};
use crate::find::Hit;
use crate::locator::section_locator;
use crate::shelf::Shelf;

/// Pages of one section that are read, where it has more.
const PAGES_OF_SECTION: usize = 3;
/// Tokens of a section of a text without pages that are read at once.
const TEXT_TOKENS: u32 = 1_500;
/// What the frame of a passage takes beside its text.
const FRAME_TOKENS: u32 = 40;
/// Less room than this is left empty.
const LEAST_TOKENS: u32 = 120;

/// A section to be read, and which pages of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The document.
    pub doc: DocId,
    /// The section; `None`: whichever stands on the pages.
    pub section: Option<SectionId>,
    /// Physical pages, best first; empty: the first of the section.
    pub pages: Vec<u32>,
    /// How well it fits.
    pub score: f32,
    /// Why.
    pub why: String,
}

impl Wanted {
    /// What a search found: a short section whole, of others the pages that fit best.
    pub fn of(hit: &Hit) -> Self {
        let best: Vec<u32> = hit.best_pages.iter().map(|page| page.page).take(PAGES_OF_SECTION).collect();
        let mut pages = best;
        if let Some((start, end)) = hit.pages.filter(|(start, end)| (end - start) < PAGES_OF_SECTION as u32) {
            pages.extend((start..=end).filter(|page| !pages.contains(page)).collect::<Vec<_>>());
        }
        Self { doc: hit.doc, section: Some(hit.section), pages, score: hit.score, why: hit.why.clone() }
    }
}

/// A part of a page, or lines of a text, as a model is shown it.
#[derive(Debug, Clone)]
pub(super) struct Passage {
    pub(super) doc: DocId,
    pub(super) section: SectionId,
    /// Physical page, or number of the first line in a text.
    pub(super) number: u32,
    /// The last line, in a text.
    pub(super) last_line: Option<u32>,
    pub(super) text: String,
    pub(super) tokens: u32,
    score: f32,
    why: String,
}

/// A document that was opened.
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) label: String,
    pub(super) version: u64,
    /// What it is, for the model: issuer, form, fiscal year.
    pub(super) what: String,
    tree: Arc<SectionTree>,
    pages: BTreeMap<u32, Page>,
    lines: Option<Arc<TextLines>>,
}

/// All that was read for a question.
#[derive(Default)]
pub(super) struct Ground {
    pub(super) passages: Vec<Passage>,
    volumes: HashMap<DocId, Volume>,
    /// Lines that are shown already, by document and page.
    shown: HashMap<(DocId, u32), BTreeSet<usize>>,
    used: u32,
}

impl Ground {
    /// Reads as much of `wanted`, in order, as `room` tokens hold; what is there already is not read again. Returns the indexes of the
    /// passages that came.
    pub(super) async fn read(
        &mut self,
        shelf: &dyn Shelf,
        catalogue: &Catalogue,
        wanted: &[Wanted],
        room: u32,
    ) -> Result<Range<usize>, PortError> {
        let before = self.passages.len();
        let until = self.used.saturating_add(room);
        let mut of_document: BTreeMap<DocId, Vec<&Wanted>> = BTreeMap::new();
        wanted.iter().for_each(|one| of_document.entry(one.doc).or_default().push(one));
        for (doc, wanted) in of_document {
            if let Some(listed) = catalogue.get(doc) {
                self.open(shelf, listed, &wanted).await?;
            }
        }
        for one in wanted {
            if self.used + LEAST_TOKENS > until {
                break;
            }
            self.add(one, until);
        }
        Ok(before..self.passages.len())
    }

    async fn open(&mut self, shelf: &dyn Shelf, listed: &Listed, wanted: &[&Wanted]) -> Result<(), PortError> {
        let doc = listed.doc();
        let volume = match self.volumes.entry(doc) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let Some(tree) = shelf.tree(listed).await? else { return Ok(()) };
                let lines = match tree.extent {
                    Extent::Lines(_) => shelf.lines(listed).await?,
                    Extent::Pages(_) => None,
                };
                place.insert(Volume::of(listed, tree, lines))
            }
        };
        let mut numbers: BTreeSet<u32> = BTreeSet::new();
        for one in wanted {
            // A quote may run over to the next page.
            numbers.extend(volume.pages_of(one).into_iter().flat_map(|page| [page, page + 1]));
        }
        let numbers: Vec<u32> = numbers.into_iter().filter(|number| !volume.pages.contains_key(number)).collect();
        if volume.lines.is_none() && !numbers.is_empty() {
            volume.pages.extend(shelf.pages(listed, &numbers).await?);
        }
        Ok(())
    }

    fn add(&mut self, wanted: &Wanted, until: u32) {
        let Some(volume) = self.volumes.get(&wanted.doc) else { return };
        let parts = match &volume.lines {
            Some(lines) => volume.lines_of(wanted, lines),
            None => volume.pages_of(wanted).into_iter().filter_map(|page| volume.page_part(wanted, page)).collect(),
        };
        for part in parts {
            let (shown, room) =
                (self.shown.entry((wanted.doc, part.key)).or_default(), until.saturating_sub(self.used));
            let fresh = part.lines.into_iter().filter(|(at, _, _)| !shown.contains(at));
            let mut left = room.saturating_sub(FRAME_TOKENS);
            let fitting: Vec<(usize, String, u32)> = fresh
                .take_while(|(_, _, tokens)| {
                    let fits = *tokens < left;
                    left = left.saturating_sub(*tokens + 1);
                    fits
                })
                .collect();
            if !fitting.iter().any(|(_, text, _)| text.chars().any(char::is_alphanumeric)) {
                continue;
            }
            let tokens = fitting.iter().map(|(_, _, tokens)| tokens + 1).sum::<u32>() + FRAME_TOKENS;
            shown.extend(fitting.iter().map(|(at, _, _)| *at));
            let (number, last_line) = match (&volume.lines, fitting.first(), fitting.last()) {
                (Some(_), Some(first), Some(last)) => (first.0 as u32 + 1, Some(last.0 as u32 + 1)),
                _ => (part.key, None),
            };
            let text = fitting.into_iter().map(|(_, text, _)| text).collect::<Vec<_>>().join("\n");
            self.used += tokens;
            self.passages.push(Passage {
                doc: wanted.doc,
                section: part.section,
                number,
                last_line,
                text,
                tokens,
                score: wanted.score,
                why: wanted.why.clone(),
            });
        }
    }

    /// The document of a passage.
    pub(super) fn volume(&self, passage: &Passage) -> Option<&Volume> {
        self.volumes.get(&passage.doc)
    }

    /// What quotes from a passage are looked for on: its page and the next, or its lines.
    pub(super) fn sheets(&self, passage: &Passage) -> Vec<Sheet<'_>> {
        let Some(volume) = self.volumes.get(&passage.doc) else { return Vec::new() };
        if let (Some(lines), Some(last)) = (&volume.lines, passage.last_line) {
            let range = passage.number as usize - 1..(last as usize).min(lines.lines.len());
            return lines.lines.get(range).map(|lines| Sheet::text(passage.number, lines)).into_iter().collect();
        }
        let pages = [passage.number, passage.number + 1];
        pages.into_iter().map_while(|number| volume.pages.get(&number).map(|page| Sheet::page(number, page))).collect()
    }

    /// The section a quote that begins on line `line` of a page stands in: the deepest that was shown with that page.
    pub(super) fn path(&self, passage: &Passage) -> Vec<String> {
        self.volume(passage).map(|volume| volume.path(passage.section)).unwrap_or_default()
    }

    /// What was read, section by section, in order.
    pub(super) fn sections(&self, passages: Range<usize>, step: usize) -> Vec<ReadSection> {
        let mut sections: Vec<ReadSection> = Vec::new();
        for passage in &self.passages[passages] {
            let Some(volume) = self.volume(passage) else { continue };
            let (doc_id, section_id) = (passage.doc.to_string(), passage.section.to_string());
            let at = sections.iter().position(|known| known.doc_id == doc_id && known.section_id == section_id);
            let at = at.unwrap_or_else(|| {
                sections.push(ReadSection {
                    locator: section_locator(&volume.label, passage.section),
                    doc_id,
                    name: volume.name.clone(),
                    section_id,
                    path: volume.path(passage.section),
                    pages: Vec::new(),
                    lines: None,
                    tokens: 0,
                    score: (f64::from(passage.score) * 1_000.0).round() / 1_000.0,
                    why: passage.why.clone(),
                    cited: false,
                    step,
                });
                sections.len() - 1
            });
            let section = &mut sections[at];
            section.tokens += passage.tokens;
            match passage.last_line {
                Some(last) => {
                    let (first, end) = section.lines.unwrap_or((passage.number, last));
                    section.lines = Some((first.min(passage.number), end.max(last)));
                }
                None => section.pages.push(passage.number),
            }
        }
        sections
    }
}

/// Lines of a section on one page, or of a text: index, text, tokens.
struct Part {
    section: SectionId,
    /// Page; 0 in a text.
    key: u32,
    lines: Vec<(usize, String, u32)>,
}

impl Volume {
    fn of(listed: &Listed, tree: Arc<SectionTree>, lines: Option<Arc<TextLines>>) -> Self {
        let version = listed.version();
        let facts = listed.entry().map(|entry| &entry.facts);
        let fact = |of: fn(&stemma_document::FilingFacts) -> &Option<stemma_document::Fact>| {
            facts.and_then(|facts| of(facts).as_ref()).map(|fact| fact.value.clone())
        };
        let year = fact(|facts| &facts.fiscal_year).map(|year| format!("FY{year}"));
        let what = [fact(|facts| &facts.issuer), fact(|facts| &facts.form), year];
        Self {
            name: version.name.clone(),
            label: listed.label.clone(),
            version: version.seq,
            what: what.into_iter().flatten().collect::<Vec<_>>().join(" · "),
            tree,
            pages: BTreeMap::new(),
            lines,
        }
    }

    /// Titles from the top down.
    pub(super) fn path(&self, id: SectionId) -> Vec<String> {
        self.tree.path_to(id).into_iter().map(|section| section.title.clone()).collect()
    }

    /// The page of this number, where it was read.
    pub(super) fn page(&self, number: u32) -> Option<&Page> {
        self.pages.get(&number)
    }

    fn pages_of(&self, wanted: &Wanted) -> Vec<u32> {
        let span = wanted.section.and_then(|id| self.tree.section(id)).and_then(|section| section.span.pages());
        match (wanted.pages.is_empty(), span) {
            (true, Some(span)) => span.pages().map(|page| page.get()).take(PAGES_OF_SECTION).collect(),
            (_, Some(span)) => {
                let inside = |page: &&u32| stemma_document::PageNo::new(**page).is_some_and(|page| span.contains(page));
                wanted.pages.iter().filter(inside).copied().collect()
            }
            (_, None) => wanted.pages.clone(),
        }
    }

    fn page_part(&self, wanted: &Wanted, number: u32) -> Option<Part> {
        let page = self.pages.get(&number)?;
        let section = match wanted.section {
            Some(id) => self.tree.section(id)?,
            None => self.deepest(number)?,
        };
        let range = match wanted.section {
            Some(_) => lines_on(section, number, page.lines.len()),
            None => 0..page.lines.len(),
        };
        let lines = page.lines.iter().enumerate().skip(range.start).take(range.len());
        let lines =
            lines.filter(|(_, line)| !line.is_furniture()).map(|(at, line)| (at, line.text.clone(), line.tokens));
        Some(Part { section: section.id, key: number, lines: lines.collect() })
    }

    /// The last section, deepest first, that begins on a page or before and goes on there.
    fn deepest(&self, page: u32) -> Option<&Section> {
        let on = |section: &&Section| {
            let span = section.span.pages();
            span.is_some_and(|span| span.start().get() <= page && page <= span.end().get())
        };
        let sections: Vec<&Section> = self.tree.walk().map(|(_, section)| section).filter(on).collect();
        // In pre-order the first that begins before the page and has no section on it below is the one the page opens with.
        let opens =
            sections.iter().rev().find(|section| section.span.pages().is_some_and(|span| span.start().get() < page));
        opens.or(sections.first()).copied()
    }

    fn lines_of(&self, wanted: &Wanted, text: &TextLines) -> Vec<Part> {
        let Some(section) = wanted.section.and_then(|id| self.tree.section(id)) else { return Vec::new() };
        let SectionSpan::Lines { start, end } = section.span else { return Vec::new() };
        let own_end = section.children.first().and_then(|child| match child.span {
            SectionSpan::Lines { start, .. } => Some(start - 1),
            SectionSpan::Pages { .. } => None,
        });
        let (first, last) = (start.saturating_sub(1) as usize, own_end.unwrap_or(end) as usize);
        let mut room = TEXT_TOKENS;
        let mut lines = Vec::new();
        for (at, line) in text.lines.iter().enumerate().take(last).skip(first) {
            let size = text.tokens.get(at).copied().unwrap_or_else(|| tokens::count(line));
            if size > room {
                break;
            }
            room -= size;
            lines.push((at, line.clone(), size));
        }
        vec![Part { section: section.id, key: 0, lines }]
    }
}

/// Lines of a page that are a section's, sub-sections included.
fn lines_on(section: &Section, page: u32, count: usize) -> Range<usize> {
    let SectionSpan::Pages { from, to, .. } = section.span else { return 0..0 };
    let start = if from.page.get() == page { (from.line as usize).min(count) } else { 0 };
    let end = to.filter(|to| to.page.get() == page).map_or(count, |to| (to.line as usize).min(count));
    start..end.max(start)
}

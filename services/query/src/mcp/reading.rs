//! Text of a document within a token limit: pages, sections, Items; cut at page or section borders, with what is left.
//!
//! In a text without pages, numbers are those of lines, as PageIndex has them for Markdown.

use serde_json::json;
use stemma_catalog::catalogue::Listed;
use stemma_catalog::locator::show_pages;
use stemma_document::{
    Body, Extent, PageNo, PageSpan, PublishedTree, Section, SectionId, SectionTree, text,
};
use stemma_extract::Packed;

use super::answer::{cost, cut};
use super::call::{Call, name_of};
use super::failure::Failure;
use crate::documents::label_of;
use crate::grep::page_label;
use crate::reader::{aside, no_text};

/// Pages unpacked at once.
const PAGES_AT_ONCE: u32 = 64;
/// What the frame of a passage takes beside its text.
const FRAME_TOKENS: usize = 24;

/// What is to be read.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    /// Pages (lines, in a text).
    Pages(Vec<PageSpan>),
    /// A section with its sub-sections; of it only some pages, where those are given.
    Section(SectionId, Option<Vec<PageSpan>>),
}

/// Text that stands together: of one page, or of one section of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passage {
    /// Physical page, or first line in a text.
    pub(super) page: u32,
    /// The last line, in a text.
    last_line: Option<u32>,
    /// What is printed as its number, where that differs; `lines 5-80` in a text.
    pub(super) label: Option<String>,
    /// The text.
    pub(super) text: String,
    /// Whether it was too long for an answer even alone, and is cut inside.
    pub(super) cut: bool,
}

/// What was read, and what was left.
#[derive(Debug)]
pub(super) struct Reading {
    /// In order.
    pub(super) passages: Vec<Passage>,
    /// What there was to read: `5-7,9`.
    pub(super) requested: String,
    /// What was read.
    pub(super) returned: String,
    /// What was left for want of room.
    pub(super) remaining: Option<String>,
    /// What was asked for and is not there.
    pub(super) out_of_range: Option<String>,
    /// Pages (lines) of the document.
    pub(super) total: u32,
    /// `page` or `line`.
    pub(super) unit: &'static str,
}

impl Reading {
    /// Whether something that was asked for and is there was left out.
    pub(super) fn is_truncated(&self) -> bool {
        self.remaining.is_some() || self.passages.iter().any(|passage| passage.cut)
    }
}

impl Call<'_> {
    /// Reads as much of `wanted` as `limit` tokens hold.
    pub(super) async fn read(
        &self,
        listed: &Listed,
        published: PublishedTree,
        wanted: Wanted,
        limit: usize,
    ) -> Result<Reading, Failure> {
        let (total, unit) = match published.tree.extent {
            Extent::Pages(pages) => (pages, "page"),
            Extent::Lines(lines) => (lines, "line"),
        };
        let (spans, out_of_range) = spans(&published.tree, &wanted, total)?;
        if spans.is_empty() {
            return Err(out_of_bounds(listed, total, unit, out_of_range));
        }
        let Some(packed) = self.reader.packed(&published).await? else {
            return Err(no_text(listed).into());
        };
        let asked = spans.clone();
        let passages = aside(move || fill(packed, &published.tree, &wanted, &asked, limit))
            .await?
            .map_err(|error| {
                tracing::warn!(%error, "a text cannot be unpacked");
                Failure::from(no_text(listed))
            })?;
        let last = passages
            .last()
            .map_or(0, |last| last.last_line.unwrap_or(last.page));
        // Where nothing stands on the pages asked for, nothing is left of them either.
        let last = if passages.is_empty() { total } else { last };
        let returned = clipped(&spans, 1, last);
        let left = clipped(&spans, last + 1, u32::MAX);
        Ok(Reading {
            passages,
            requested: show_pages(&spans),
            returned: show_pages(&returned),
            remaining: (!left.is_empty()).then(|| show_pages(&left)),
            out_of_range,
            total,
            unit,
        })
    }
}

fn out_of_bounds(listed: &Listed, total: u32, unit: &str, asked: Option<String>) -> Failure {
    let name = name_of(listed);
    let asked = asked.unwrap_or_default();
    Failure::invalid(format!(
        "`{name}` has {unit}s 1-{total}; {asked} is not among them"
    ))
    .option(format!("Ask for {unit}s between 1 and {total}"))
}

/// What of `wanted` is there, in order and once; and what is not.
fn spans(
    tree: &SectionTree,
    wanted: &Wanted,
    total: u32,
) -> Result<(Vec<PageSpan>, Option<String>), Failure> {
    let (section, asked) = match wanted {
        Wanted::Pages(asked) => (None, Some(asked)),
        Wanted::Section(id, asked) => (Some(*id), asked.as_ref()),
    };
    let whole = match section {
        None => (1, total),
        Some(id) => tree
            .section(id)
            .map(bounds)
            .ok_or_else(|| Failure::invalid(format!("there is no section {id}")))?,
    };
    let Some(asked) = asked else {
        return Ok((PageSpan::new(whole.0, whole.1).into_iter().collect(), None));
    };
    let asked = merged(asked);
    let inside = clipped(&asked, whole.0, whole.1);
    let beyond = clipped(&asked, total.saturating_add(1), u32::MAX);
    let out = if inside.is_empty() { asked } else { beyond };
    Ok((inside, (!out.is_empty()).then(|| show_pages(&out))))
}

/// First and last page, or line.
fn bounds(section: &Section) -> (u32, u32) {
    match section.span {
        stemma_document::SectionSpan::Pages { pages, .. } => {
            (pages.start().get(), pages.end().get())
        }
        stemma_document::SectionSpan::Lines { start, end } => (start, end.max(start)),
    }
}

/// Spans in order, without overlaps.
fn merged(spans: &[PageSpan]) -> Vec<PageSpan> {
    let mut sorted: Vec<(u32, u32)> = spans
        .iter()
        .map(|span| (span.start().get(), span.end().get()))
        .collect();
    sorted.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for (start, end) in sorted {
        match merged.last_mut() {
            Some(last) if start <= last.1.saturating_add(1) => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
        .into_iter()
        .filter_map(|(start, end)| PageSpan::new(start, end))
        .collect()
}

/// The parts of spans within `from..=to`.
fn clipped(spans: &[PageSpan], from: u32, to: u32) -> Vec<PageSpan> {
    spans
        .iter()
        .filter_map(|span: &PageSpan| {
            PageSpan::new(span.start().get().max(from), span.end().get().min(to))
        })
        .collect()
}

/// Passages in order, up to the limit; the first is there whatever its length.
struct Filling {
    limit: usize,
    used: usize,
    passages: Vec<Passage>,
}

impl Filling {
    /// Takes a passage; false where it, or what comes after it, has no room.
    fn take(&mut self, mut passage: Passage) -> bool {
        let size = cost(&json!(passage.text)) + FRAME_TOKENS;
        if self.used + size <= self.limit {
            self.used += size;
            self.passages.push(passage);
            return true;
        }
        if self.passages.is_empty() {
            self.shorten(&mut passage);
            self.passages.push(passage);
        }
        false
    }

    fn shorten(&self, passage: &mut Passage) {
        let mut limit = self.limit.saturating_sub(FRAME_TOKENS);
        let whole = std::mem::take(&mut passage.text);
        let kept = loop {
            let kept = cut(&whole, limit);
            if cost(&json!(kept)) + FRAME_TOKENS <= self.limit || limit <= 1 {
                break kept;
            }
            limit = limit * 4 / 5;
        };
        passage.text = kept.to_owned();
        let lines = u32::try_from(passage.text.lines().count())
            .unwrap_or(u32::MAX)
            .max(1);
        match &mut passage.last_line {
            // In a text the rest can be asked for by its lines; of a page it cannot.
            Some(last) => {
                *last = (passage.page + lines - 1).min(*last);
                passage.label = Some(format!("lines {}-{last}", passage.page));
                passage.cut = lines == 1;
            }
            None => passage.cut = true,
        }
    }
}

fn fill(
    packed: Packed,
    tree: &SectionTree,
    wanted: &Wanted,
    spans: &[PageSpan],
    limit: usize,
) -> Result<Vec<Passage>, stemma_extract::PackError> {
    let mut filling = Filling {
        limit,
        used: 0,
        passages: Vec::new(),
    };
    match (wanted, tree.extent) {
        (Wanted::Pages(_), Extent::Pages(_)) => pages(&mut filling, &packed, spans)?,
        (_, Extent::Lines(_)) => lines(&mut filling, tree, &packed.source()?.body, spans),
        (Wanted::Section(id, _), Extent::Pages(_)) => {
            if let Some(section) = tree.section(*id) {
                section_pages(&mut filling, section, &packed.source()?.body, spans);
            }
        }
    }
    Ok(filling.passages)
}

fn pages(
    filling: &mut Filling,
    packed: &Packed,
    spans: &[PageSpan],
) -> Result<(), stemma_extract::PackError> {
    for span in spans {
        let mut start = span.start().get();
        let end = span.end().get();
        while let Some(part) =
            PageSpan::new(start, end.min(start.saturating_add(PAGES_AT_ONCE - 1)))
        {
            for (number, page) in part.pages().zip(packed.pages(part)?) {
                let label = label_of(number, &page);
                let text = page.text();
                if !filling.take(Passage {
                    page: number.get(),
                    last_line: None,
                    label,
                    text,
                    cut: false,
                }) {
                    return Ok(());
                }
            }
            start = part.end().get() + 1;
        }
    }
    Ok(())
}

/// The text of a section, page by page.
fn section_pages(filling: &mut Filling, section: &Section, body: &Body, spans: &[PageSpan]) {
    let lines = text::full_lines(section, body);
    for of_page in lines.chunk_by(|one, other| one.page == other.page) {
        let Some(page) = of_page[0]
            .page
            .filter(|page| spans.iter().any(|span| span.contains(*page)))
        else {
            continue;
        };
        let text = of_page
            .iter()
            .map(|line| line.text)
            .collect::<Vec<_>>()
            .join("\n");
        let label = page_label(body, page);
        if !filling.take(Passage {
            page: page.get(),
            last_line: None,
            label,
            text,
            cut: false,
        }) {
            return;
        }
    }
}

/// Lines of a text, section by section.
fn lines(filling: &mut Filling, tree: &SectionTree, body: &Body, spans: &[PageSpan]) {
    let wanted = |number: u32| {
        PageNo::new(number).is_some_and(|line| spans.iter().any(|span| span.contains(line)))
    };
    for (_, section) in tree.walk() {
        let lines = text::own_lines(section, body);
        for part in lines.chunk_by(|one, other| wanted(one.number) == wanted(other.number)) {
            let first = part[0].number;
            let last = part[part.len() - 1].number;
            if !wanted(first) {
                continue;
            }
            let text = part
                .iter()
                .map(|line| line.text)
                .collect::<Vec<_>>()
                .join("\n");
            let label = Some(format!("lines {first}-{last}"));
            if !filling.take(Passage {
                page: first,
                last_line: Some(last),
                label,
                text,
                cut: false,
            }) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str) -> Vec<PageSpan> {
        stemma_catalog::locator::parse_pages(text).unwrap()
    }

    #[test]
    fn pages_are_merged_and_clipped() {
        assert_eq!(show_pages(&merged(&span("9,1-3,2-5,6"))), "1-6,9");
        assert_eq!(show_pages(&clipped(&span("1-6,9-20"), 4, 10)), "4-6,9-10");
        assert!(clipped(&span("1-6"), 7, u32::MAX).is_empty());
        assert_eq!(show_pages(&merged(&span("1-4294967295,5"))), "1-4294967295");
    }

    #[test]
    fn what_does_not_fit_is_left_and_a_page_alone_is_cut() {
        let page = |page| Passage {
            page,
            last_line: None,
            label: None,
            text: "Net sales rose in all regions.\n".repeat(20),
            cut: false,
        };
        let mut filling = Filling {
            limit: 500,
            used: 0,
            passages: vec![],
        };
        assert!((1..9).any(|number| !filling.take(page(number))));
        assert!(filling.passages.len() > 1 && filling.passages.iter().all(|passage| !passage.cut));
        let mut filling = Filling {
            limit: 60,
            used: 0,
            passages: vec![],
        };
        assert!(!filling.take(page(1)));
        let only = &filling.passages[0];
        assert!(only.cut && only.text.ends_with("regions.") && cost(&json!(only.text)) <= 60);
    }
}

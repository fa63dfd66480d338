//! From claims to a verified outline: draft → located → verified. Only the last can become a tree.

use serde::{Deserialize, Serialize};

use crate::{Destination, Extent, PageLabel, Position};

/// Who says that a section exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceSource {
    /// The outline embedded in the file.
    EmbeddedOutline,
    /// Link annotations on a contents page.
    ContentsLinks,
    /// A printed table of contents.
    PrintedContents,
    /// A form grammar (PART / Item).
    Grammar,
    /// Size, weight and numbering on the page.
    Layout,
    /// The format's own marks (Markdown headings, headings of plain text).
    Markup,
    /// A model that read the pages; its title stands on the page.
    Model,
    /// No one: a window of pages, declared as such.
    Window,
}

/// A section someone claims to exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftEntry {
    /// The number it carries, as written (`1A`, `2.3`, `IV`), without the word before it.
    pub number: Option<String>,
    /// The whole title as it should be shown, number included.
    pub title: String,
    /// The page number printed beside it.
    pub label: Option<PageLabel>,
    /// Where its witness points.
    pub target: Option<Destination>,
    /// 1 is the highest.
    pub level: u16,
    /// Who claims it.
    #[serde(rename = "witness")]
    pub evidence: EvidenceSource,
}

/// Where a section starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionStart {
    /// On a page, at a line.
    Page(Position),
    /// At a 1-based line of a text.
    Line(u32),
}

impl SectionStart {
    /// Reading order: page and line, or line.
    pub fn reading_order(self) -> (u32, u32) {
        match self {
            SectionStart::Page(position) => (position.page.get(), position.line),
            SectionStart::Line(line) => (line, 0),
        }
    }
}

/// A draft entry with the place it was found at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatedEntry {
    /// What was claimed.
    pub entry: DraftEntry,
    /// Where it was located.
    pub place: SectionStart,
}

/// What looking at the place itself said about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryVerdict {
    /// The title stands there. `starts_page`: nothing but running heads stands above it.
    #[serde(rename = "found")]
    Confirmed {
        /// Whether the section starts its page.
        starts_page: bool,
    },
    /// The title was not found there, but an independent witness puts the section there; counts against accuracy.
    Unconfirmed {
        /// Whether the section is taken to start its page.
        starts_page: bool,
    },
    /// Not a title: a window of pages, or a preface, declared as such.
    Declared,
    /// Nothing speaks for it: dropped, and recorded as a gap.
    Rejected,
}

/// An entry of a [`VerifiedOutline`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedEntry {
    /// What was claimed and where it is.
    pub located: LocatedEntry,
    /// Never [`EntryVerdict::Rejected`].
    pub verdict: EntryVerdict,
}

/// Why entries are not an outline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutlineError {
    /// An entry lies outside the document.
    #[error("entry `{title}` at {at} lies outside the document's {extent}")]
    OutOfBounds {
        /// Its title.
        title: String,
        /// Its page or line.
        at: u32,
        /// Pages or lines of the document.
        extent: u32,
    },
    /// An entry's place is a page in a text without pages, or a line in a document with pages.
    #[error("entry `{title}` is placed in another unit than its document's")]
    UnitMismatch {
        /// Its title.
        title: String,
    },
}

/// Entries that were each looked at where they stand, in reading order.
///
/// ```
/// # use stemma_document::*;
/// let entry = DraftEntry { number: None, title: "Overview".into(), label: None, target: None, level: 1, witness: Witness::Markup };
/// let located = LocatedEntry { entry, place: Place::Line(1) };
/// let outline = VerifiedOutline::new(Extent::Lines(10), vec![(located, Verdict::Found { starts_page: true })]).unwrap();
/// assert_eq!(outline.accuracy(), 1.0);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedOutline {
    extent: Extent,
    entries: Vec<VerifiedEntry>,
    rejected: Vec<DraftEntry>,
}

impl VerifiedOutline {
    /// Sorts judged entries into reading order (stable) and keeps the rejected ones apart.
    ///
    /// # Errors
    /// [`OutlineError`] when an entry that was not rejected lies outside `extent` or is placed in the other unit.
    pub fn new(
        extent: Extent,
        judged: Vec<(LocatedEntry, EntryVerdict)>,
    ) -> Result<Self, OutlineError> {
        let mut entries = Vec::with_capacity(judged.len());
        let mut rejected = Vec::new();
        for (located, verdict) in judged {
            if verdict == EntryVerdict::Rejected {
                rejected.push(located.entry);
                continue;
            }
            let (at, size) = match (located.place, extent) {
                (SectionStart::Page(position), Extent::Pages(n)) => (position.page.get(), n),
                (SectionStart::Line(line), Extent::Lines(n)) => (line, n),
                _ => {
                    return Err(OutlineError::UnitMismatch {
                        title: located.entry.title,
                    });
                }
            };
            if at == 0 || at > size {
                return Err(OutlineError::OutOfBounds {
                    title: located.entry.title,
                    at,
                    extent: size,
                });
            }
            entries.push(VerifiedEntry { located, verdict });
        }
        entries.sort_by_key(|entry| entry.located.place.reading_order());
        Ok(Self {
            extent,
            entries,
            rejected,
        })
    }

    /// The same entries in the same places, with what a second look at each says (`index` counts from 0). A second look
    /// drops nothing: an entry that it would reject keeps its verdict.
    #[must_use]
    pub fn with_verdicts(mut self, review: impl Fn(usize, EntryVerdict) -> EntryVerdict) -> Self {
        for (index, entry) in self.entries.iter_mut().enumerate() {
            let verdict = review(index, entry.verdict);
            if verdict != EntryVerdict::Rejected {
                entry.verdict = verdict;
            }
        }
        self
    }

    /// Pages or lines of the document.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// The entries in reading order.
    pub fn entries(&self) -> &[VerifiedEntry] {
        &self.entries
    }

    /// What was claimed and nothing spoke for.
    pub fn rejected(&self) -> &[DraftEntry] {
        &self.rejected
    }

    /// Share of claimed titles that were found where they were located (0–1); 1 where nothing was claimed.
    /// Declared entries claim no title.
    pub fn accuracy(&self) -> f32 {
        let confirmed = self
            .entries
            .iter()
            .filter(|e| matches!(e.verdict, EntryVerdict::Confirmed { .. }))
            .count();
        let declared = self
            .entries
            .iter()
            .filter(|e| e.verdict == EntryVerdict::Declared)
            .count();
        let claimed = self.entries.len() + self.rejected.len() - declared;
        if claimed == 0 {
            1.0
        } else {
            confirmed as f32 / claimed as f32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(title: &str, line: u32) -> LocatedEntry {
        let entry = DraftEntry {
            number: None,
            title: title.into(),
            label: None,
            target: None,
            level: 1,
            evidence: EvidenceSource::Markup,
        };
        LocatedEntry {
            entry,
            place: SectionStart::Line(line),
        }
    }

    #[test]
    fn rejected_entries_lower_accuracy_and_are_excluded() {
        let confirmed = EntryVerdict::Confirmed { starts_page: true };
        let judged = vec![
            (located("b", 5), confirmed),
            (located("a", 2), confirmed),
            (located("c", 9), EntryVerdict::Rejected),
        ];
        let outline = VerifiedOutline::new(Extent::Lines(9), judged).unwrap();
        let titles: Vec<_> = outline
            .entries()
            .iter()
            .map(|e| e.located.entry.title.as_str())
            .collect();
        assert_eq!(titles, ["a", "b"]);
        assert!((outline.accuracy() - 2.0 / 3.0).abs() < 1e-6);
    }

    #[test]
    fn review_changes_verdicts_without_dropping_entries() {
        let confirmed = EntryVerdict::Confirmed { starts_page: true };
        let outline = VerifiedOutline::new(
            Extent::Lines(9),
            vec![(located("a", 2), confirmed), (located("b", 5), confirmed)],
        );
        let doubted = EntryVerdict::Unconfirmed { starts_page: false };
        let reviewed = outline
            .unwrap()
            .with_verdicts(|index, _| [doubted, EntryVerdict::Rejected][index]);
        let verdicts: Vec<_> = reviewed
            .entries()
            .iter()
            .map(|entry| entry.verdict)
            .collect();
        assert_eq!(
            (verdicts, reviewed.accuracy()),
            (vec![doubted, confirmed], 0.5)
        );
    }

    #[test]
    fn an_entry_past_the_end_is_an_error() {
        let judged = vec![(located("late", 10), EntryVerdict::Declared)];
        assert!(matches!(
            VerifiedOutline::new(Extent::Lines(9), judged.clone()),
            Err(OutlineError::OutOfBounds { at: 10, .. })
        ));
        assert!(matches!(
            VerifiedOutline::new(Extent::Pages(99), judged),
            Err(OutlineError::UnitMismatch { .. })
        ));
    }
}

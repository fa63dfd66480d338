//! Outline entries: draft, located, verified. Only a verified outline can become a tree.

use serde::{Deserialize, Serialize};

use crate::{Destination, Extent, PageLabel, Position};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceSource {
    EmbeddedOutline,
    ContentsLinks,
    PrintedContents,
    /// The Parts and Items of a form.
    Grammar,
    /// Font size, weight and numbering.
    Layout,
    /// Markdown headings and headings of plain text.
    Markup,
    /// Proposed by a model; the title was found on the page.
    Model,
    /// Stated by a person; the title was found on the page, or marked as not printed there.
    Person,
    /// No evidence: a fixed window of pages.
    Window,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftEntry {
    /// The number as printed (`1A`, `2.3`, `IV`), without the word before it.
    pub number: Option<String>,
    /// The title to display, including the number.
    pub title: String,
    /// The page number printed next to the entry.
    pub label: Option<PageLabel>,
    /// The target of the bookmark or link.
    pub target: Option<Destination>,
    /// 1 is the top level.
    pub level: u16,
    #[serde(rename = "witness")]
    pub evidence: EvidenceSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionStart {
    Page(Position),
    Line(u32),
}

impl SectionStart {
    /// Sort key: page and line, or line.
    pub fn reading_order(self) -> (u32, u32) {
        match self {
            SectionStart::Page(position) => (position.page.get(), position.line),
            SectionStart::Line(line) => (line, 0),
        }
    }
}

/// A draft entry with its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatedEntry {
    pub entry: DraftEntry,
    pub place: SectionStart,
}

/// The result of verifying an entry at its location.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryVerdict {
    /// The title is at its location. `starts_page`: only running heads are above it.
    #[serde(rename = "found")]
    Confirmed { starts_page: bool },
    /// The title was not found, but independent evidence confirms the location. Lowers the accuracy.
    Unconfirmed { starts_page: bool },
    /// A page window or a preface, which has no title to verify.
    Declared,
    /// Dropped, and recorded as a gap.
    Rejected,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedEntry {
    pub located: LocatedEntry,
    /// Never [`EntryVerdict::Rejected`].
    pub verdict: EntryVerdict,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutlineError {
    /// `at` and `extent` count pages or lines.
    #[error("entry `{title}` at {at} is outside of the document, which ends at {extent}")]
    OutOfBounds { title: String, at: u32, extent: u32 },
    /// A page in a text without pages, or a line in a document with pages.
    #[error("entry `{title}` has a page in a text, or a line in a document with pages")]
    UnitMismatch { title: String },
}

/// Verified entries in reading order.
///
/// ```
/// # use stemma_document::*;
/// let entry = DraftEntry { number: None, title: "Overview".into(), label: None, target: None, level: 1, evidence:
/// EvidenceSource::Markup };
/// let located = LocatedEntry { entry, place: SectionStart::Line(1) };
/// let verdict = EntryVerdict::Confirmed { starts_page: true };
/// let outline = VerifiedOutline::new(Extent::Lines(10), vec![(located, verdict)]).unwrap();
/// assert_eq!(outline.accuracy(), 1.0);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedOutline {
    extent: Extent,
    entries: Vec<VerifiedEntry>,
    rejected: Vec<DraftEntry>,
}

impl VerifiedOutline {
    /// Sorts entries into reading order (stable) and separates the rejected ones.
    ///
    /// # Errors
    /// [`OutlineError`] if an entry other than a rejected one is out of bounds or in the wrong unit.
    pub fn new(
        extent: Extent,
        judged: Vec<(LocatedEntry, EntryVerdict)>,
    ) -> Result<Self, OutlineError> {
        let mut entries = Vec::with_capacity(judged.len());
        let mut rejected = Vec::new();
        for (located, verdict) in judged {
            // Rejected entries are not checked: their location is meaningless.
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
        // Stable, so that entries on one line keep the order of the outline.
        entries.sort_by_key(|entry| entry.located.place.reading_order());
        Ok(Self {
            extent,
            entries,
            rejected,
        })
    }

    /// Updates the verdict of each entry (`index` from 0). A review never drops an entry: `Rejected` keeps the old
    /// verdict.
    #[must_use]
    pub fn with_verdicts(mut self, review: impl Fn(usize, EntryVerdict) -> EntryVerdict) -> Self {
        for (index, entry) in self.entries.iter_mut().enumerate() {
            let verdict = review(index, entry.verdict);
            // A second look may be wrong as well, so it never drops an entry.
            if verdict != EntryVerdict::Rejected {
                entry.verdict = verdict;
            }
        }
        self
    }

    pub fn extent(&self) -> Extent {
        self.extent
    }

    pub fn entries(&self) -> &[VerifiedEntry] {
        &self.entries
    }

    pub fn rejected(&self) -> &[DraftEntry] {
        &self.rejected
    }

    /// Share of titles confirmed at their location (0–1); 1 if there are none. Declared entries have no title to
    /// confirm.
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
        let unconfirmed = EntryVerdict::Unconfirmed { starts_page: false };
        let reviewed = outline
            .unwrap()
            .with_verdicts(|index, _| [unconfirmed, EntryVerdict::Rejected][index]);
        let verdicts: Vec<_> = reviewed
            .entries()
            .iter()
            .map(|entry| entry.verdict)
            .collect();
        assert_eq!(verdicts, [unconfirmed, confirmed]);
        assert_eq!(reviewed.accuracy(), 0.5);
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

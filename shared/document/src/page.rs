//! Physical page numbers, printed labels, positions and spans.

use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::Pt;

/// A physical page: 1-based, in file order. The printed number is a [`PageLabel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageNo(NonZeroU32);

impl PageNo {
    pub const FIRST: PageNo = PageNo(NonZeroU32::MIN);

    /// Page `number` (1-based); `None` for 0.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// The page at a 0-based index.
    pub fn from_index(index: usize) -> Self {
        let number = u32::try_from(index).unwrap_or(u32::MAX - 1) + 1;
        Self(NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN))
    }

    /// 1-based.
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// 0-based, for slices.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl fmt::Display for PageNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A printed or declared page number: `47`, `xii`, `F-12`. For display only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageLabel(pub String);

impl fmt::Display for PageLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Ordered by page, line, y.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    pub page: PageNo,
    /// 0-based index of the line, in reading order.
    pub line: u32,
    /// Distance of the line's top edge from the top of the page.
    pub y: Pt,
}

/// A non-empty range of pages, inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "(u32, u32)", into = "(u32, u32)")]
pub struct PageSpan {
    start: PageNo,
    end: PageNo,
}

impl PageSpan {
    /// Pages `start..=end` (1-based); `None` if empty or starting at 0.
    pub fn new(start: u32, end: u32) -> Option<Self> {
        Some(Self {
            start: PageNo::new(start)?,
            end: PageNo::new(end)?,
        })
        .filter(|span| span.start <= span.end)
    }

    /// Pages `start..=end`, or only `start` if `end` is before it.
    pub fn between(start: PageNo, end: PageNo) -> Self {
        Self {
            start,
            end: end.max(start),
        }
    }

    pub fn start(self) -> PageNo {
        self.start
    }

    pub fn end(self) -> PageNo {
        self.end
    }

    /// First and last page.
    pub fn bounds(self) -> (u32, u32) {
        (self.start.get(), self.end.get())
    }

    #[expect(clippy::len_without_is_empty, reason = "a span is never empty")]
    pub fn len(self) -> usize {
        (self.end.get() - self.start.get()) as usize + 1
    }

    pub fn contains(self, page: PageNo) -> bool {
        self.start <= page && page <= self.end
    }

    pub fn pages(self) -> impl DoubleEndedIterator<Item = PageNo> {
        (self.start.index()..=self.end.index()).map(PageNo::from_index)
    }

    /// The spans in order; those that touch or overlap are one.
    pub fn merged(spans: &[Self]) -> Vec<Self> {
        let mut sorted = spans.to_vec();
        sorted.sort_unstable_by_key(|span| (span.start, span.end));
        let mut merged: Vec<Self> = Vec::new();
        for span in sorted {
            match merged.last_mut() {
                Some(last) if span.start.get() <= last.end.get().saturating_add(1) => {
                    last.end = last.end.max(span.end);
                }
                _ => merged.push(span),
            }
        }
        merged
    }

    /// What of the spans lies in the pages `from..=to`.
    pub fn clipped(spans: &[Self], from: u32, to: u32) -> Vec<Self> {
        let clipped = spans
            .iter()
            .map(|span| Self::new(span.start.get().max(from), span.end.get().min(to)));
        clipped.flatten().collect()
    }
}

impl TryFrom<(u32, u32)> for PageSpan {
    type Error = String;
    fn try_from((start, end): (u32, u32)) -> Result<Self, String> {
        Self::new(start, end).ok_or_else(|| format!("pages {start} to {end} are not a valid range"))
    }
}

impl From<PageSpan> for (u32, u32) {
    fn from(span: PageSpan) -> Self {
        (span.start.get(), span.end.get())
    }
}

impl fmt::Display for PageSpan {
    /// `7` or `7–9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.start == self.end {
            write!(f, "{}", self.start)
        } else {
            write!(f, "{}–{}", self.start, self.end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_inclusive_and_never_empty() {
        assert!(PageSpan::new(0, 3).is_none());
        assert!(PageSpan::new(4, 3).is_none());
        let span = PageSpan::new(2, 4).unwrap();
        assert_eq!(span.len(), 3);
        assert_eq!(span.pages().count(), 3);
        assert!(serde_json::from_str::<PageSpan>("[5,2]").is_err());
    }
    #[test]
    fn spans_are_merged_and_clipped() {
        let spans = |pairs: &[(u32, u32)]| -> Vec<PageSpan> {
            let spans = pairs.iter().map(|(start, end)| PageSpan::new(*start, *end));
            spans.map(Option::unwrap).collect()
        };
        let merged = PageSpan::merged(&spans(&[(9, 9), (1, 3), (2, 5), (6, 6)]));
        assert_eq!(merged, spans(&[(1, 6), (9, 9)]));
        let all = spans(&[(1, u32::MAX)]);
        assert_eq!(PageSpan::merged(&[all[0], spans(&[(5, 5)])[0]]), all);
        let clipped = PageSpan::clipped(&spans(&[(1, 6), (9, 20)]), 4, 10);
        assert_eq!(clipped, spans(&[(4, 6), (9, 10)]));
        assert!(PageSpan::clipped(&spans(&[(1, 6)]), 7, u32::MAX).is_empty());
    }
}

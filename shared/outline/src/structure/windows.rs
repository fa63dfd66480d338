//! Windows: spans of whole pages that replace sections where there are no headings.
//!
//! Boundaries depend on the content (content-defined chunking): a page starts a window if the digest of its text is the
//! smallest within four pages on either side. An edit therefore moves only nearby boundaries. Spans that are still too
//! large are filled up to the limit from their start.

use std::ops::Range;

use stemma_document::{Digest, Line, Page};

// Pages on either side of a boundary with larger digests: boundaries are at least five pages apart, nine on average.
const REACH: usize = 4;

/// Cuts `pages` (indices from 0) into windows of at most `max_tokens` each (or one page).
pub(super) fn cut_windows(
    pages: &[Page],
    range: Range<usize>,
    max_tokens: u32,
) -> Vec<Range<usize>> {
    let digests: Vec<Digest> = pages[range.clone()]
        .iter()
        .map(|page| Digest::from_content(page.text().as_bytes()))
        .collect();
    let mut windows = Vec::new();
    let mut start = range.start;
    let mut tokens = 0u32;
    for at in range.clone() {
        let own = tokens_of(&pages[at]);
        let full = tokens.saturating_add(own) > max_tokens;
        if at > start && (full || is_boundary(&digests, at - range.start)) {
            windows.push(start..at);
            (start, tokens) = (at, 0);
        }
        tokens = tokens.saturating_add(own);
    }
    if start < range.end {
        windows.push(start..range.end);
    }
    windows
}

fn is_boundary(digests: &[Digest], at: usize) -> bool {
    let near = at.saturating_sub(REACH)..(at + REACH + 1).min(digests.len());
    // Among equal pages, such as blank ones, the first wins.
    at >= REACH
        && near
            .filter(|other| *other != at)
            .all(|other| (digests[at], at) < (digests[other], other))
}

fn tokens_of(page: &Page) -> u32 {
    page.lines.iter().map(tokens_of_line).sum()
}

/// Tokens of a line; estimated as a quarter of its bytes if they have not been counted.
pub(super) fn tokens_of_line(line: &Line) -> u32 {
    match line.tokens {
        0 => u32::try_from(line.text.len() / 4 + 1).unwrap_or(u32::MAX),
        tokens => tokens,
    }
}

/// `Page 4`, `Pages 4–9`, counted from 1.
pub(super) fn window_title(window: &Range<usize>) -> String {
    match window.len() {
        0 | 1 => format!("Page {}", window.start + 1),
        _ => format!("Pages {}–{}", window.start + 1, window.end),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line};
    use super::*;

    fn pages(count: usize, edited: Option<usize>) -> Vec<Page> {
        let mut doc = Doc::new(count);
        for page in 0..count {
            let word = if edited == Some(page) {
                "edited"
            } else {
                "text"
            };
            doc.add(page, line(&format!("{word} of page number {page}")));
            doc.prose(page, 10.0, 20);
        }
        let source = doc.source();
        doc.pages(&source).to_vec()
    }

    #[test]
    fn windows_cover_all_pages_and_keep_the_limit() {
        let pages = pages(50, None);
        let windows = cut_windows(&pages, 0..50, 2_500);
        assert_eq!(
            windows.iter().map(ExactSizeIterator::len).sum::<usize>(),
            50
        );
        assert!(windows.windows(2).all(|pair| pair[0].end == pair[1].start));
        let tokens =
            |window: &Range<usize>| pages[window.clone()].iter().map(tokens_of).sum::<u32>();
        assert!(
            windows
                .iter()
                .all(|window| window.len() == 1 || tokens(window) <= 2_500)
        );
    }

    #[test]
    fn edit_moves_at_most_two_windows() {
        let before = cut_windows(&pages(60, None), 0..60, 50_000);
        for edited in 0..60 {
            let after = cut_windows(&pages(60, Some(edited)), 0..60, 50_000);
            let unchanged = before
                .iter()
                .filter(|window| after.contains(window))
                .count();
            // The window with the edit and at most two next to it.
            assert!(
                before.len() - unchanged <= 3,
                "page {edited}: {before:?} {after:?}"
            );
        }
    }
}

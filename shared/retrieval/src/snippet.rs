//! Snippets: the lines that best match a query, and highlight rectangles of its terms on a page.

use std::collections::HashMap;

use stemma_document::Page;

use crate::search::{PageRect, Snippet};
use crate::tokenizer::for_each_word;

const SNIPPET_CHARS: usize = 240;
const SNIPPET_LINES: usize = 3;
// More highlights than this do not help a reader.
const MAX_RECTANGLES: usize = 60;

/// Normalized query terms and their weights.
pub type WordWeights = HashMap<String, f32>;

/// The best matching lines of a text, and the index (0-based) of the first.
pub fn best_snippet(text: &str, weights: &WordWeights) -> (Snippet, usize) {
    let lines: Vec<&str> = text.lines().collect();
    let present: Vec<Vec<&str>> = lines
        .iter()
        .map(|line| matched_words(line, weights))
        .collect();
    let mut best = (0.0, 0);
    for start in 0..lines.len() {
        let value = window_value(&present, start, weights);
        if value > best.0 {
            best = (value, start);
        }
    }
    let window = &lines[best.1.min(lines.len())..lines.len().min(best.1 + SNIPPET_LINES)];
    let words = window
        .iter()
        .flat_map(|line| line.split_whitespace())
        .collect::<Vec<_>>()
        .join(" ");
    (snippet_around(&words, weights), best.1)
}

// The summed weight of the distinct terms in the lines from `start`.
fn window_value(present: &[Vec<&str>], start: usize, weights: &WordWeights) -> f32 {
    let mut distinct: Vec<&str> = present[start..present.len().min(start + SNIPPET_LINES)].concat();
    distinct.sort_unstable();
    distinct.dedup();
    // Among windows with the same terms, prefer one that starts with a term.
    let first = if present[start].is_empty() { 0.0 } else { 0.01 };
    distinct
        .iter()
        .filter_map(|word| weights.get(*word))
        .sum::<f32>()
        + first
}

// The terms of `weights` in `line`.
fn matched_words<'w>(line: &str, weights: &'w WordWeights) -> Vec<&'w str> {
    let mut matches = Vec::new();
    for_each_word(line, |word, _| {
        matches.extend(weights.get_key_value(word).map(|(word, _)| word.as_str()));
    });
    matches
}

// At most `SNIPPET_CHARS` characters, starting shortly before the first term.
fn snippet_around(text: &str, weights: &WordWeights) -> Snippet {
    let mut start = 0;
    let first = highlights(text, weights).first().map(|(first, _)| *first);
    if text.chars().count() > SNIPPET_CHARS
        && let Some(first) = first.filter(|first| *first > SNIPPET_CHARS / 2)
    {
        let near = text.floor_char_boundary(first - SNIPPET_CHARS / 4);
        start = text[near..first]
            .find(' ')
            .map_or(near, |space| near + space + 1);
    }
    let end = text[start..]
        .char_indices()
        .nth(SNIPPET_CHARS)
        .map_or(text.len(), |(at, _)| start + at);
    let before = if start > 0 { "…" } else { "" };
    let after = if end < text.len() { "…" } else { "" };
    let text = format!("{before}{}{after}", text[start..end].trim_end());
    let marks = highlights(&text, weights);
    Snippet {
        text,
        highlights: marks,
    }
}

fn highlights(text: &str, weights: &WordWeights) -> Vec<(usize, usize)> {
    let mut marks: Vec<(usize, usize)> = Vec::new();
    for_each_word(text, |word, range| {
        let mark = (range.start, range.end);
        if weights.contains_key(word) && marks.last() != Some(&mark) {
            marks.push(mark);
        }
    });
    marks
}

/// Rectangles of the matched terms on a page, in reading order.
pub fn highlight_rects(page: &Page, weights: &WordWeights) -> Vec<PageRect> {
    let width = page.width.points().max(1.0);
    let height = page.height.points().max(1.0);
    let mut rectangles = Vec::new();
    for line in &page.lines {
        for (start, end) in highlights(&line.text, weights) {
            let inside = line
                .words
                .iter()
                .filter(|word| (word.start as usize) < end && start < word.end as usize);
            let (left, right) = inside.fold((f32::MAX, f32::MIN), |(left, right), word| {
                (left.min(word.x0.points()), right.max(word.x1.points()))
            });
            if left < right && rectangles.len() < MAX_RECTANGLES {
                // Fractions of the page, so that viewers can scale them.
                rectangles.push(PageRect {
                    x: (left / width).clamp(0.0, 1.0),
                    y: (line.rect.y0.points() / height).clamp(0.0, 1.0),
                    w: ((right - left) / width).clamp(0.0, 1.0),
                    h: (line.rect.height() / height).clamp(0.0, 1.0),
                });
            }
        }
    }
    rectangles
}

#[cfg(test)]
mod tests {
    use stemma_document::{Line, Pt, Rect, Word};

    use super::*;

    fn weights(words: &[&str]) -> WordWeights {
        words.iter().map(|word| ((*word).to_owned(), 1.0)).collect()
    }

    #[test]
    fn best_window_of_the_question_is_shown() {
        let text = "nothing here\ncurrency alone\nmore\nless\nhedges of\ncurrency risk\nend";
        let (snippet, line) = best_snippet(text, &weights(&["hedg", "currenc", "risk"]));
        assert_eq!(
            (snippet.text.as_str(), line),
            ("hedges of currency risk end", 4)
        );
        let marked: Vec<&str> = snippet
            .highlights
            .iter()
            .map(|(start, end)| &snippet.text[*start..*end])
            .collect();
        assert_eq!(marked, ["hedges", "currency", "risk"]);
    }

    #[test]
    fn long_lines_are_cut_around_the_words() {
        let long = format!("{} hedges {}", "word ".repeat(200), "more ".repeat(200));
        let (snippet, _) = best_snippet(&long, &weights(&["hedg"]));
        assert!(
            snippet.text.chars().count() <= SNIPPET_CHARS + 2 && snippet.text.contains("hedges")
        );
        assert!(snippet.text.starts_with('…') && snippet.text.ends_with('…'));
        assert_eq!(
            super::best_snippet("", &weights(&["x"])).0,
            Snippet::default()
        );
    }

    #[test]
    fn words_have_rectangles_on_the_page() {
        let word = |start, end, x0: f32, x1: f32| Word {
            start,
            end,
            x0: Pt::new(x0),
            x1: Pt::new(x1),
        };
        let line = Line {
            text: "the hedges".into(),
            rect: Rect::new(10.0, 20.0, 90.0, 30.0),
            words: vec![word(0, 3, 10.0, 30.0), word(4, 10, 40.0, 90.0)],
            ..Line::default()
        };
        let page = Page {
            width: Pt::new(100.0),
            height: Pt::new(200.0),
            lines: vec![line],
            ..Page::default()
        };
        let rects = highlight_rects(&page, &weights(&["hedg"]));
        assert_eq!(rects.len(), 1);
        assert!(
            (rects[0].x - 0.4).abs() < 1e-6
                && (rects[0].w - 0.5).abs() < 1e-6
                && (rects[0].y - 0.1).abs() < 1e-6
        );
    }
}

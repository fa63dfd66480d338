//! Snippets: the sentence or table row that best matches a query, and highlight rectangles of its terms on a page.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use stemma_document::{Page, Rect};
use stemma_reading::lines::LineKind;
use stemma_reading::sentences::sentence_ranges;
use stemma_reading::text_blocks::{TextBlock, column_heads, text_blocks};
use stemma_reading::tokenizer::for_each_word;

use crate::query_terms::{QueryTerms, TermMatches};
use crate::search::{PageRect, Snippet};

const SNIPPET_CHARS: usize = 240;
// More highlights than this do not help a reader.
const MAX_RECTANGLES: usize = 60;
// Between column heads and rows.
const ROW_SEPARATOR: &str = " · ";

/// Normalized query terms and their weights.
pub type WordWeights = HashMap<String, f32, RandomState>;

// A sentence, a row or a heading: what a snippet is made of.
struct SnippetUnit<'t, 'q> {
    // The line (0-based) on which it starts.
    line: usize,
    // As the lines have it, with their white space.
    raw: Cow<'t, str>,
    kind: LineKind,
    // Column heads of a row.
    heads: &'t [&'t str],
    // What it and its column heads have of the query.
    matches: TermMatches<'q>,
    worth: f32,
}

/// The best matching sentence or row of lines with their kinds, and the index (0-based) of its line. A row follows its column
/// heads; what is next to it and has further words of the query is added while there is room.
pub fn best_snippet(lines: &[(&str, LineKind)], terms: &QueryTerms) -> (Snippet, usize) {
    let (lines, kinds): (Vec<&str>, Vec<LineKind>) = lines.iter().copied().unzip();
    let mut best: Option<(Vec<SnippetUnit<'_, '_>>, usize)> = None;
    for block in text_blocks(&lines, &kinds) {
        let units = snippet_units(&lines, &kinds, &block, terms);
        let most = best.as_ref().map_or(-1.0, |(units, at)| units[*at].worth);
        let better = (0..units.len())
            .filter(|at| units[*at].worth > most)
            .reduce(|best, at| {
                if units[at].worth > units[best].worth {
                    at
                } else {
                    best
                }
            });
        if let Some(at) = better {
            best = Some((units, at));
        }
    }
    let Some((units, at)) = best else {
        return (Snippet::default(), 0);
    };
    let text = snippet_text(&units, at, terms);
    let highlights = highlights(&text, terms.words());
    (Snippet { text, highlights }, units[at].line)
}

// The sentences of a paragraph and its headings; the rows of a table and its labels.
fn snippet_units<'t, 'q>(
    lines: &'t [&'t str],
    kinds: &[LineKind],
    block: &TextBlock,
    terms: &'q QueryTerms,
) -> Vec<SnippetUnit<'t, 'q>> {
    let mut units = Vec::new();
    let mut at = block.lines.start;
    while at < block.lines.end {
        if kinds[at] == LineKind::Prose {
            let end = (at..block.lines.end)
                .find(|line| kinds[*line] != LineKind::Prose)
                .unwrap_or(block.lines.end);
            let text = lines[at..end].join(" ");
            for range in sentence_ranges(&text) {
                // The line breaks of the paragraph are spaces in its text.
                let mut line_start = 0;
                let line = (at..end).take_while(|line| {
                    let begins = line_start;
                    line_start += lines[*line].len() + 1;
                    begins <= range.start
                });
                let line = at + line.count().saturating_sub(1);
                let sentence = Cow::Owned(text[range].to_owned());
                units.push(SnippetUnit::new(
                    line,
                    sentence,
                    LineKind::Prose,
                    &[],
                    terms,
                ));
            }
            at = end;
        } else {
            let heads: &[&str] = match kinds[at] {
                LineKind::Row if block.is_table => &lines[column_heads(kinds, block, at)],
                _ => &[],
            };
            let line = Cow::Borrowed(lines[at]);
            units.push(SnippetUnit::new(at, line, kinds[at], heads, terms));
            at += 1;
        }
    }
    units
}

impl<'t, 'q> SnippetUnit<'t, 'q> {
    fn new(
        line: usize,
        raw: Cow<'t, str>,
        kind: LineKind,
        heads: &'t [&'t str],
        terms: &'q QueryTerms,
    ) -> Self {
        let mut matches = terms.matches(&raw);
        // Column heads say nothing about a row without words of the query.
        if !matches.is_empty() {
            for head in heads {
                matches.extend(&terms.matches(head));
            }
        }
        Self {
            line,
            raw,
            kind,
            heads,
            worth: terms.worth(&matches),
            matches,
        }
    }

    // With single spaces.
    fn text(&self) -> String {
        self.raw.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    // What the excerpt begins with, if the unit is its first: a row follows its column heads, the years last.
    fn with_heads(&self) -> String {
        let mut text = self.text();
        for head in self.heads.iter().rev() {
            let with_head = format!("{}{ROW_SEPARATOR}{text}", head.trim());
            if with_head.chars().count() > SNIPPET_CHARS {
                break;
            }
            text = with_head;
        }
        text
    }
}

fn snippet_text(units: &[SnippetUnit<'_, '_>], best: usize, terms: &QueryTerms) -> String {
    let unit = &units[best];
    let mut text = unit.with_heads();
    if text.chars().count() > SNIPPET_CHARS {
        return match unit.kind {
            LineKind::Row => cut_row(&text),
            _ => cut_around(&text, terms.words()),
        };
    }
    let mut matches = unit.matches.clone();
    let mut worth = unit.worth;
    let mut first = best;
    let mut last = best;
    loop {
        // A heading or a column head says little without what follows it.
        let after = units.get(last + 1);
        let before = first.checked_sub(1).map(|at| &units[at]);
        let mut grown = None;
        for (next, is_after) in [(after, true), (before, false)] {
            let Some(next) = next else { continue };
            let mut both = matches.clone();
            both.extend(&next.matches);
            let ends_with_heading =
                matches!(units[last].kind, LineKind::Label | LineKind::ColumnHead);
            let is_heading = is_after && ends_with_heading;
            if terms.worth(&both) <= worth && !is_heading {
                continue;
            }
            let separator = if next.kind == LineKind::Prose && unit.kind == LineKind::Prose {
                " "
            } else {
                ROW_SEPARATOR
            };
            let joined = if is_after {
                format!("{text}{separator}{}", next.text())
            } else {
                format!("{}{separator}{text}", next.text())
            };
            if joined.chars().count() <= SNIPPET_CHARS {
                grown = Some((joined, both, is_after));
                break;
            }
            if is_heading {
                return cut_around(&joined, terms.words());
            }
        }
        let Some((joined, both, is_after)) = grown else {
            return text;
        };
        text = joined;
        worth = terms.worth(&both);
        matches = both;
        if is_after {
            last += 1;
        } else {
            first -= 1;
        }
    }
}

// At most `SNIPPET_CHARS` characters; the cells at the end are left out whole.
fn cut_row(row: &str) -> String {
    let mut text = String::new();
    for word in row.split(' ') {
        if text.chars().count() + word.chars().count() + 3 > SNIPPET_CHARS {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    format!("{text} …")
}

// At most `SNIPPET_CHARS` characters of a long sentence, from shortly before the first term.
fn cut_around(text: &str, weights: &WordWeights) -> String {
    let mut start = 0;
    let first = highlights(text, weights).first().map(|(first, _)| *first);
    if let Some(first) = first.filter(|first| *first > SNIPPET_CHARS / 2) {
        let near = text.floor_char_boundary(first - SNIPPET_CHARS / 4);
        start = text[near..first]
            .find(' ')
            .map_or(near, |space| near + space + 1);
    }
    let end = text[start..]
        .char_indices()
        .nth(SNIPPET_CHARS)
        .map_or(text.len(), |(at, _)| start + at);
    // Words stay whole, unless one is as long as an excerpt.
    let end = match text[start..end].rfind(' ').filter(|_| end < text.len()) {
        Some(space) if space > 0 => start + space,
        _ => end,
    };
    let before = if start > 0 { "…" } else { "" };
    let after = if end < text.len() { "…" } else { "" };
    format!("{before}{}{after}", text[start..end].trim_end())
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
    let (width, height) = page.displayed_size();
    let width = width.points().max(1.0);
    let height = height.points().max(1.0);
    let mut rectangles = Vec::new();
    for line in &page.lines {
        for (start, end) in highlights(&line.text, weights) {
            let inside = line.words_at(&(start..end));
            let (left, right) = inside.fold((f32::MAX, f32::MIN), |(left, right), word| {
                (left.min(word.x0.points()), right.max(word.x1.points()))
            });
            if left < right && rectangles.len() < MAX_RECTANGLES {
                let top = line.rect.y0.points();
                let rect = page.displayed(Rect::new(left, top, right, line.rect.y1.points()));
                // Fractions of the page, so that viewers can scale them.
                rectangles.push(PageRect {
                    x: (rect.x0.points() / width).clamp(0.0, 1.0),
                    y: (rect.y0.points() / height).clamp(0.0, 1.0),
                    w: (rect.width() / width).clamp(0.0, 1.0),
                    h: (rect.height() / height).clamp(0.0, 1.0),
                });
            }
        }
    }
    rectangles
}

#[cfg(test)]
mod tests {
    use stemma_document::{Line, Pt, Word};
    use stemma_reading::lines::read_lines;

    use super::*;
    use crate::parsed_query::ParsedQuery;

    fn snippet_of(text: &str, terms: &QueryTerms) -> (Snippet, usize) {
        let kinds = read_lines(text.lines()).into_iter().map(|line| line.kind);
        let lines: Vec<(&str, LineKind)> = text.lines().zip(kinds).collect();
        best_snippet(&lines, terms)
    }

    fn weights(words: &[&str]) -> WordWeights {
        words.iter().map(|word| ((*word).to_owned(), 1.0)).collect()
    }

    fn terms(query: &str) -> QueryTerms {
        QueryTerms::new(&ParsedQuery::parse(query))
    }

    fn marked(snippet: &Snippet) -> Vec<&str> {
        snippet
            .highlights
            .iter()
            .map(|(start, end)| &snippet.text[*start..*end])
            .collect()
    }

    #[test]
    fn snippet_of_prose_is_the_whole_best_sentence() {
        let text = "We sell zorbs. Currency alone is\nnothing. Our hedges of the\ncurrency risk ended in May. The end.";
        let (snippet, line) = snippet_of(text, &terms("hedges of currency risk"));
        assert_eq!(
            snippet.text,
            "Our hedges of the currency risk ended in May."
        );
        assert_eq!(line, 1);
        assert_eq!(marked(&snippet), ["hedges", "currency", "risk"]);
    }

    #[test]
    fn snippet_of_a_table_has_the_column_heads_and_the_row() {
        let text = "Statement of Cash Flows\n(Millions)\n2022 2021\nNet income $ 5,777 $ 5,921\nOther 12 13\n\
                    Purchases of property, plant and equipment (1,749) (1,603)\nProceeds 200 51";
        let (snippet, line) = snippet_of(text, &terms("What was capex in 2022?"));
        assert_eq!(
            snippet.text,
            "(Millions) · 2022 2021 · Purchases of property, plant and equipment (1,749) (1,603)"
        );
        assert_eq!(line, 5);
        assert!(marked(&snippet).contains(&"2022"), "{snippet:?}");
    }

    #[test]
    fn snippet_that_begins_with_heads_goes_on_to_a_row() {
        let text = "Restructuring and Related Activities, Net\nThree Months Ended December 31,\n2022 2021\n\
                    Plant closures 12 13\nOther 4 5";
        let (snippet, _) = snippet_of(text, &terms("restructuring activities"));
        assert!(
            snippet.text.ends_with("2022 2021 · Plant closures 12 13"),
            "{snippet:?}"
        );
    }

    #[test]
    fn wide_rows_are_cut_between_cells() {
        let cells = "12,345 ".repeat(60);
        let text = format!("2022 2021\nNet sales {cells}\nOther income {cells}");
        let (snippet, _) = snippet_of(&text, &terms("other income"));
        assert!(
            snippet.text.starts_with("Other income 12,345 ") && snippet.text.ends_with(" 12,345 …"),
            "{}",
            snippet.text
        );
        assert!(snippet.text.chars().count() <= SNIPPET_CHARS);
    }

    #[test]
    fn long_sentences_are_cut_around_the_words() {
        let long = format!("{} hedges {}", "word ".repeat(200), "more ".repeat(200));
        let (snippet, _) = snippet_of(&long, &terms("hedges"));
        assert!(
            snippet.text.chars().count() <= SNIPPET_CHARS + 2 && snippet.text.contains("hedges")
        );
        assert!(snippet.text.starts_with('…') && snippet.text.ends_with('…'));
        assert_eq!(snippet_of("", &terms("hedges")).0, Snippet::default());
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

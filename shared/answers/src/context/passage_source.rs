//! A page, or a section of a document without pages, as its tables and paragraphs. These are what a passage is made of.

use std::collections::BTreeMap;
use std::ops::Range;

use stemma_document::{DocId, SectionId};
use stemma_llm::tokens;
use stemma_reading::lines::{LineKind, LineReading};
use stemma_reading::page_features::{PageFeatures, PageLine, PageText};
use stemma_reading::text_blocks::text_blocks;
use stemma_reading::tokenizer::for_each_word;
use stemma_retrieval::query_terms::{QueryTerms, TermMatches};
use stemma_retrieval::search::Snippet;

/// A line of its own where lines are left out. A quote may contain it as an omission.
const CUT_MARK: &str = "…";
const CUT_MARK_TOKENS: u32 = 2;
// A page of labels alone: a divider, a running head, a company's name.
const STUB_WORDS: usize = 10;

/// A line that may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextLine {
    /// Index on the page, or in the document without pages.
    pub(super) at: usize,
    pub(super) text: String,
    pub(super) reading: LineReading,
    /// o200k tokens with the line end.
    pub(super) tokens: u32,
}

/// A page, or a section of a document without pages, that may become a passage.
#[derive(Debug, Clone)]
pub(super) struct PassageSource<'q> {
    pub(super) doc: DocId,
    pub(super) section: SectionId,
    /// 0 in a document without pages.
    pub(super) page: u32,
    pub(super) score: f32,
    pub(super) why: String,
    pub(super) excerpt: Option<Snippet>,
    /// Whether it was not found itself: a table or paragraph of another page is in part on this one.
    pub(super) is_neighbor: bool,
    /// Whether it has a financial statement.
    pub(super) is_statement: bool,
    pub(super) lines: Vec<TextLine>,
    pub(super) blocks: Vec<MatchedBlock<'q>>,
}

/// A table or a paragraph with its heading, as far as it is on the page.
#[derive(Debug, Clone)]
pub(super) struct MatchedBlock<'q> {
    /// Indexes in [`PassageSource::lines`].
    pub(super) lines: Range<usize>,
    pub(super) is_table: bool,
    /// The tables of the reading that have rows in it, by index.
    pub(super) tables: Vec<usize>,
    pub(super) matches: TermMatches<'q>,
}

impl MatchedBlock<'_> {
    /// Whether both are parts of a table.
    pub(super) fn shares_table(&self, other: &Self) -> bool {
        self.tables.iter().any(|table| other.tables.contains(table))
    }
}

/// The lines of a passage, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ChosenLines {
    pub(super) lines: Vec<TextLine>,
    pub(super) text: String,
    pub(super) tokens: u32,
}

impl<'q> PassageSource<'q> {
    /// `tables` has the lines of each table of the reading that is on the page, by [`TextLine::at`].
    pub(super) fn new(
        doc: DocId,
        section: SectionId,
        page: u32,
        lines: Vec<TextLine>,
        tables: &[(usize, Range<usize>)],
        terms: &'q QueryTerms,
    ) -> Self {
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        let kinds: Vec<LineKind> = lines.iter().map(|line| line.reading.kind).collect();
        let features = page_features(&lines, page);
        let mut blocks: Vec<MatchedBlock<'q>> = Vec::new();
        for block in text_blocks(&texts, &kinds) {
            let at = lines[block.lines.start].at..lines[block.lines.end - 1].at + 1;
            let own: Vec<usize> = tables
                .iter()
                .filter(|(_, rows)| rows.start < at.end && at.start < rows.end)
                .map(|(table, _)| *table)
                .collect();
            match blocks.last_mut() {
                // The reading knows better than kinds of lines where a table ends.
                Some(above) if own.iter().any(|table| above.tables.contains(table)) => {
                    above.lines.end = block.lines.end;
                    above.tables.extend(own);
                    above.tables.dedup();
                }
                _ => blocks.push(MatchedBlock {
                    is_table: block.is_table || !own.is_empty(),
                    lines: block.lines,
                    tables: own,
                    matches: TermMatches::default(),
                }),
            }
        }
        for block in &mut blocks {
            block.matches = terms.matches(&texts[block.lines.clone()].join("\n"));
        }
        Self {
            doc,
            section,
            page,
            score: 0.0,
            why: String::new(),
            excerpt: None,
            is_neighbor: false,
            is_statement: !features.statements.is_empty(),
            lines,
            blocks,
        }
    }

    /// What each table and paragraph has of the question.
    pub(super) fn matches(&self) -> impl Iterator<Item = &TermMatches<'q>> {
        self.blocks.iter().map(|block| &block.matches)
    }

    /// Whether it has no sentence and no row: nothing can be read from it.
    pub(super) fn is_stub(&self) -> bool {
        let words: usize = self
            .lines
            .iter()
            .map(|line| line.text.split_whitespace().count())
            .sum();
        words <= STUB_WORDS
            && self.lines.iter().all(|line| {
                matches!(line.reading.kind, LineKind::Label | LineKind::ColumnHead)
                    || !line.text.contains(char::is_alphabetic)
            })
    }

    pub(super) fn tokens(&self, lines: impl IntoIterator<Item = usize>) -> u32 {
        lines.into_iter().map(|at| self.lines[at].tokens).sum()
    }

    pub(super) fn text(&self, lines: Range<usize>) -> String {
        let texts: Vec<&str> = self.lines[lines]
            .iter()
            .map(|line| line.text.as_str())
            .collect();
        texts.join("\n")
    }

    /// The lines above the first row of a table: its title, unit and column heads.
    pub(super) fn heads(&self, block: &MatchedBlock<'_>) -> Range<usize> {
        let rows = block
            .lines
            .clone()
            .find(|at| self.lines[*at].reading.kind == LineKind::Row);
        block.lines.start..rows.unwrap_or(block.lines.start)
    }

    /// The runs of rows of a table, each with the labels above it.
    pub(super) fn runs(&self, block: &MatchedBlock<'_>) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut has_rows = true;
        for at in self.heads(block).end..block.lines.end {
            let is_row = self.lines[at].reading.kind == LineKind::Row;
            match runs.last_mut() {
                Some(run) if is_row || !has_rows => run.end = at + 1,
                _ => runs.push(at..at + 1),
            }
            has_rows = is_row;
        }
        runs
    }

    /// Whether a sentence at its end goes on on `next`.
    pub(super) fn runs_on_to(&self, next: &PassageSource<'_>) -> bool {
        let is_prose = |line: &&TextLine| line.reading.kind == LineKind::Prose;
        let last = self.lines.last().filter(is_prose);
        let first = next.lines.first().filter(is_prose);
        last.zip(first).is_some_and(|(last, first)| {
            !last.text.trim_end().ends_with(['.', '!', '?', ':', ';'])
                && first.text.starts_with(char::is_lowercase)
        })
    }

    /// The passage of these lines. `cut` has the text of lines that are too long to be read whole.
    pub(super) fn assemble(&self, chosen: &BTreeMap<usize, Option<String>>) -> ChosenLines {
        let mut assembled = ChosenLines::default();
        let mut texts: Vec<&str> = Vec::new();
        let mut next = 0;
        for (at, cut) in chosen {
            if *at > next {
                texts.push(CUT_MARK);
                assembled.tokens += CUT_MARK_TOKENS;
            }
            next = at + 1;
            let line = &self.lines[*at];
            match cut {
                Some(text) => {
                    assembled.tokens += tokens::count(text) + 1;
                    texts.push(text);
                }
                None => {
                    assembled.tokens += line.tokens;
                    texts.push(&line.text);
                }
            }
            assembled.lines.push(line.clone());
        }
        if next < self.lines.len() {
            texts.push(CUT_MARK);
            assembled.tokens += CUT_MARK_TOKENS;
        }
        assembled.text = texts.join("\n");
        assembled
    }
}

fn page_features(lines: &[TextLine], page: u32) -> PageFeatures {
    let lines: Vec<PageLine<'_>> = lines
        .iter()
        .map(|line| PageLine {
            text: &line.text,
            reading: line.reading,
        })
        .collect();
    PageFeatures::new(&PageText::new(&lines), &lines, page)
}

/// Cuts a line around words of the question; `…` marks what is left out.
pub(super) fn cut_line(line: &str, size: u32, room: u32, terms: &QueryTerms) -> String {
    let mut places: Vec<Range<usize>> = Vec::new();
    for_each_word(line, |word, at| {
        if terms.words().contains_key(word) {
            places.push(at);
        }
    });
    let mut length = (line.len() as u64 * u64::from(room) / u64::from(size.max(1))) as usize;
    loop {
        // Begin a quarter of the room before a word: its subject often comes before it.
        let starts = places.iter().map(|at| at.start.saturating_sub(length / 4));
        let start = starts
            .rev()
            .max_by_key(|start: &usize| {
                places
                    .iter()
                    .filter(|at| *start <= at.start && at.end <= start + length)
                    .count()
            })
            .unwrap_or(0)
            .min(line.len().saturating_sub(length));
        let end = line.floor_char_boundary(start + length);
        let start = line.ceil_char_boundary(start);
        let excerpt = line.get(start..end).unwrap_or_default();
        let marked = format!(
            "{}{excerpt}{}",
            if start > 0 { "… " } else { "" },
            if end < line.len() { " …" } else { "" }
        );
        if length < 16 || tokens::count(&marked) <= room {
            return marked;
        }
        length -= length / 8;
    }
}

/// A page of lines of text, for tests. Its first table of the reading has the rows that `table` counts from 0.
#[cfg(test)]
pub(super) fn page_of_text<'q>(
    page: u32,
    text: &str,
    table: Option<Range<usize>>,
    terms: &'q QueryTerms,
) -> PassageSource<'q> {
    let read = text
        .lines()
        .zip(stemma_reading::lines::read_lines(text.lines()));
    let lines = read.enumerate().map(|(at, (text, reading))| TextLine {
        at,
        text: text.to_owned(),
        reading,
        tokens: tokens::count(text) + 1,
    });
    let tables: Vec<_> = table.map(|rows| (0, rows)).into_iter().collect();
    let doc = DocId::new(&"tests".parse().unwrap(), "file:///a.pdf");
    PassageSource::new(doc, SectionId(0), page, lines.collect(), &tables, terms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stemma_retrieval::parsed_query::ParsedQuery;

    fn terms(question: &str) -> QueryTerms {
        QueryTerms::new(&ParsedQuery::parse(question))
    }

    #[test]
    fn dividers_and_running_heads_are_stubs() {
        let terms = terms("capex");
        let is_stub = |text: &str| page_of_text(1, text, None, &terms).is_stub();
        assert!(is_stub("ACME CORPORATION\n48"));
        assert!(!is_stub("Mine safety\nNot applicable."));
        assert!(!is_stub("Net sales 5,777 5,921"));
    }

    #[test]
    fn a_run_of_rows_has_the_labels_above_it() {
        let terms = terms("capex");
        let text = "Balance Sheet\n2022 2021\nAssets\nCash 1,200 1,100\nInventories 300 200\nLiabilities\nDebt 500 400\nEquity 900 800";
        let page = page_of_text(1, text, None, &terms);
        assert_eq!(page.blocks.len(), 1);
        assert_eq!(page.heads(&page.blocks[0]), 0..3);
        assert_eq!(page.runs(&page.blocks[0]), [3..5, 5..8]);
    }

    #[test]
    fn a_sentence_runs_on_to_a_page_that_begins_within_it() {
        let terms = terms("capex");
        let page = |text: &str| page_of_text(1, text, None, &terms);
        let open =
            page("The company went about its business as before, and so did its rivals, who sold");
        let rest = page(
            "more units than in all years before it, and at higher prices than they had hoped for.",
        );
        assert!(open.runs_on_to(&rest) && !rest.runs_on_to(&open));
        assert!(!open.runs_on_to(&page("Net sales 5,777 5,921")));
    }

    proptest::proptest! {
        #[test]
        fn cut_lines_fit(text in ".{0,400}", room in 20u32..60) {
            let size = tokens::count(&text);
            if size > room {
                let cut = cut_line(&text, size, room, &terms("of the a b c 1 2"));
                proptest::prop_assert!(tokens::count(&cut) <= room.max(20));
            }
        }
    }
}

//! The text of a page as a passage: whole, or its tables and paragraphs that answer the question.

use std::collections::BTreeSet;
use std::ops::Range;

use stemma_document::text::normalize_key;
use stemma_document::{DocId, SectionId};
use stemma_llm::tokens;
use stemma_reading::lines::LineKind;
use stemma_reading::text_blocks::{TextBlock, column_heads, text_blocks};
use stemma_reading::tokenizer::for_each_word;
use stemma_retrieval::query_terms::{QueryTerms, TermMatches, TermRarity};
use stemma_retrieval::search::Snippet;

/// A line of its own where lines are left out. A quote may contain it as an omission.
pub(super) const CUT_MARK: &str = "…";
// Less of a table or paragraph than this says nothing.
const MIN_PART_TOKENS: u32 = 60;
// A page of labels alone: a divider, a running head, a company's name.
const STUB_WORDS: usize = 10;

// Lines of a note below a table.
const NOTE_LINES: usize = 3;

/// A line that may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextLine {
    /// Index on the page, or in the document without pages.
    pub(super) at: usize,
    pub(super) text: String,
    pub(super) kind: LineKind,
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
    pub(super) lines: Vec<TextLine>,
    blocks: Vec<MatchedBlock<'q>>,
}

#[derive(Debug, Clone)]
struct MatchedBlock<'q> {
    block: TextBlock,
    tokens: u32,
    matches: TermMatches<'q>,
}

/// The lines of a passage, in order. `text` differs from the line where a long line is cut.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ChosenLines {
    pub(super) lines: Vec<TextLine>,
    pub(super) text: String,
    pub(super) tokens: u32,
}

impl<'q> PassageSource<'q> {
    pub(super) fn new(
        doc: DocId,
        section: SectionId,
        page: u32,
        lines: Vec<TextLine>,
        terms: &'q QueryTerms,
    ) -> Self {
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        let kinds: Vec<LineKind> = lines.iter().map(|line| line.kind).collect();
        let blocks = text_blocks(&texts, &kinds)
            .into_iter()
            .map(|block| MatchedBlock {
                tokens: sum_tokens(&lines[block.lines.clone()]),
                matches: terms.matches(&texts[block.lines.clone()].join("\n")),
                block,
            })
            .collect();
        Self {
            doc,
            section,
            page,
            score: 0.0,
            why: String::new(),
            excerpt: None,
            lines,
            blocks,
        }
    }

    pub(super) fn tokens(&self) -> u32 {
        sum_tokens(&self.lines)
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
                matches!(line.kind, LineKind::Label | LineKind::ColumnHead)
                    || !line.text.contains(char::is_alphabetic)
            })
    }

    /// At most `room` tokens: all lines if they fit, else the tables and paragraphs with most of the question's rare words.
    pub(super) fn choose(
        &self,
        room: u32,
        terms: &QueryTerms,
        rarity: &TermRarity<'_>,
    ) -> ChosenLines {
        if self.tokens() <= room {
            return self.assemble(&(0..self.lines.len()).collect(), None);
        }
        let worth: Vec<f32> = self
            .blocks
            .iter()
            .map(|block| terms.rare_worth(&block.matches, rarity))
            .collect();
        let mut order: Vec<usize> = (0..self.blocks.len()).collect();
        order.sort_by(|a, b| worth[*b].total_cmp(&worth[*a]));
        let mut chosen = BTreeSet::new();
        let mut remaining = room;
        let mut cut = None;
        for at in order {
            // What has nothing to do with the question is not read, unless there is nothing else.
            if worth[at] <= 0.0 && !chosen.is_empty() {
                break;
            }
            let block = &self.blocks[at];
            if block.tokens <= remaining {
                chosen.extend(block.block.lines.clone());
                remaining -= block.tokens;
            } else if remaining >= MIN_PART_TOKENS.min(room) {
                let (part, line) = self.choose_part(&block.block, remaining, terms, rarity);
                chosen.extend(part);
                cut = cut.or(line);
                remaining = 0;
            }
            if remaining < MIN_PART_TOKENS {
                break;
            }
        }
        self.assemble(&chosen, cut.as_ref())
    }

    // The lines around the best one; of a table also its column heads. A line that is longer than `room` is cut.
    fn choose_part(
        &self,
        block: &TextBlock,
        room: u32,
        terms: &QueryTerms,
        rarity: &TermRarity<'_>,
    ) -> (BTreeSet<usize>, Option<(usize, String)>) {
        let best = block
            .lines
            .clone()
            .map(|at| {
                let matches = terms.matches(&self.lines[at].text);
                (terms.rare_worth(&matches, rarity), at)
            })
            .reduce(|best, one| if one.0 > best.0 { one } else { best });
        let best = best.map_or(block.lines.start, |(_, at)| at);
        if self.lines[best].tokens >= room {
            let line = &self.lines[best];
            let text = cut_line(&line.text, line.tokens, room.saturating_sub(1), terms);
            return (BTreeSet::from([best]), Some((best, text)));
        }
        let mut remaining = room - self.lines[best].tokens;
        let mut part = BTreeSet::from([best]);
        let mut take = |at: usize, part: &mut BTreeSet<usize>| {
            let fits = self.lines[at].tokens <= remaining;
            if fits && part.insert(at) {
                remaining -= self.lines[at].tokens;
            }
            fits
        };
        if block.is_table {
            for at in column_heads(&self.kinds(), block, best) {
                take(at, &mut part);
            }
        }
        let mut after = best + 1..block.lines.end;
        let mut before = (block.lines.start..best).rev();
        loop {
            let grown = [after.next(), before.next()].map(|at| at.map(|at| take(at, &mut part)));
            // The part stays in one piece, apart from column heads.
            if grown.iter().all(Option::is_none) || grown.contains(&Some(false)) {
                return (part, None);
            }
        }
    }

    fn assemble(&self, chosen: &BTreeSet<usize>, cut: Option<&(usize, String)>) -> ChosenLines {
        let mut assembled = ChosenLines::default();
        let mut texts: Vec<&str> = Vec::new();
        let mut next = 0;
        for at in chosen {
            if *at > next {
                texts.push(CUT_MARK);
                assembled.tokens += 2;
            }
            next = at + 1;
            let line = &self.lines[*at];
            match cut {
                Some((cut_at, text)) if cut_at == at => {
                    assembled.tokens += tokens::count(text) + 1;
                    texts.push(text);
                }
                _ => {
                    assembled.tokens += line.tokens;
                    texts.push(&line.text);
                }
            }
            assembled.lines.push(line.clone());
        }
        if next < self.lines.len() {
            texts.push(CUT_MARK);
            assembled.tokens += 2;
        }
        assembled.text = texts.join("\n");
        assembled
    }

    /// The lines of the last table's column heads, if the text ends with a table.
    pub(super) fn closing_column_heads(&self) -> Vec<TextLine> {
        match self.blocks.last() {
            Some(last) if last.block.is_table => {
                let heads = column_heads(&self.kinds(), &last.block, last.block.lines.end);
                self.lines[heads].to_vec()
            }
            _ => Vec::new(),
        }
    }

    /// Whether it ends with a table, apart from a note below it.
    pub(super) fn ends_with_table(&self) -> bool {
        let mut tables = self.blocks.iter().filter(|block| block.block.is_table);
        tables
            .next_back()
            .is_some_and(|last| last.block.lines.end + NOTE_LINES >= self.lines.len())
    }

    /// Whether it begins with a table that has no title of its own, or the title of a table on the page before.
    pub(super) fn continues_table(&self, before: &PassageSource<'_>) -> bool {
        let Some(first) = self.blocks.first().filter(|first| first.block.is_table) else {
            return false;
        };
        let kinds = self.kinds();
        let mut lines = first.block.lines.clone();
        let heads = lines.find(|at| kinds[*at] != LineKind::Label);
        let heads = heads.filter(|at| kinds[*at] == LineKind::ColumnHead);
        let title = heads
            .and_then(|heads| heads.checked_sub(1))
            .map(|at| self.lines[at].text.as_str());
        title.is_none_or(|title| {
            let key = normalize_key(title);
            key.contains("continued")
                || before
                    .lines
                    .iter()
                    .any(|line| normalize_key(&line.text) == key)
        })
    }

    /// Whether it begins with rows: the table began on the page before. A table of its own has column heads.
    pub(super) fn begins_with_rows(&self) -> bool {
        let kinds = self.kinds();
        self.blocks.first().is_some_and(|first| {
            first.block.is_table
                && column_heads(&kinds, &first.block, first_row(&kinds, &first.block)).is_empty()
        })
    }

    fn kinds(&self) -> Vec<LineKind> {
        self.lines.iter().map(|line| line.kind).collect()
    }
}

fn first_row(kinds: &[LineKind], table: &TextBlock) -> usize {
    let mut lines: Range<usize> = table.lines.clone();
    lines
        .find(|at| kinds[*at] == LineKind::Row)
        .unwrap_or(table.lines.end)
}

fn sum_tokens(lines: &[TextLine]) -> u32 {
    lines.iter().map(|line| line.tokens).sum()
}

// Cuts a line around words of the question; `…` marks what is left out.
fn cut_line(line: &str, size: u32, room: u32, terms: &QueryTerms) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use stemma_reading::lines::read_lines;
    use stemma_retrieval::parsed_query::ParsedQuery;

    fn terms(question: &str) -> QueryTerms {
        QueryTerms::new(&ParsedQuery::parse(question))
    }

    fn page<'q>(text: &str, terms: &'q QueryTerms) -> PassageSource<'q> {
        let read = text.lines().zip(read_lines(text.lines())).enumerate();
        let lines = read.map(|(at, (text, reading))| TextLine {
            at,
            text: text.to_owned(),
            kind: reading.kind,
            tokens: tokens::count(text) + 1,
        });
        let doc = DocId::new(&"tests".parse().unwrap(), "file:///a.pdf");
        PassageSource::new(doc, SectionId(0), 1, lines.collect(), terms)
    }

    fn chosen(text: &str, question: &str, room: u32) -> ChosenLines {
        let terms = terms(question);
        let page = page(text, &terms);
        page.choose(room, &terms, &TermRarity::new(page.matches()))
    }

    #[test]
    fn paragraphs_without_words_of_the_question_are_cut() {
        let filler = "The company went about its business as before, and so did its rivals in the land.\nAll did well.\n";
        let text = format!(
            "{}Zorbco sold 5 million zorbs\nin May.\n{}",
            filler.repeat(10),
            filler.repeat(10)
        );
        let extract = chosen(&text, "How many zorbs did Zorbco sell?", 100);
        assert_eq!(extract.text, "…\nZorbco sold 5 million zorbs\nin May.\n…");
        assert!(extract.tokens <= 100);
        // With room for all, nothing is cut.
        assert_eq!(chosen(&text, "zorbs", 10_000).text, text.trim_end());
    }

    #[test]
    fn rows_of_long_tables_keep_their_column_heads() {
        let rows: String = (0..60)
            .map(|at| format!("Sales of plant {at} 1,0{at:02} 2,0{at:02}\n"))
            .collect();
        let text = format!(
            "Statement of Sales\n(Millions)\n2022 2021\n{rows}Capital expenditures 5,555 4,444\n{rows}"
        );
        let extract = chosen(&text, "What were capital expenditures in 2022?", 150);
        assert!(
            extract.text.contains("(Millions)\n2022 2021\n…"),
            "{}",
            extract.text
        );
        assert!(
            extract
                .text
                .contains("\nCapital expenditures 5,555 4,444\n"),
            "{}",
            extract.text
        );
        assert!(extract.tokens <= 160, "{}", extract.tokens);
    }

    #[test]
    fn long_lines_are_cut_around_question_words() {
        let filler = "The company went about its business as before. ".repeat(2_000);
        let line = format!("{filler}Zorbco sold 5 million zorbs. {filler}");
        let extract = chosen(&line, "How many zorbs did Zorbco sell?", 1_500);
        assert!(
            extract.tokens <= 1_502 && extract.tokens > 700,
            "{}",
            extract.tokens
        );
        assert!(
            extract.text.contains("Zorbco sold 5 million zorbs.")
                && extract.text.starts_with('…')
                && extract.text.ends_with('…')
        );
        // Without words of the question, the beginning of the line.
        assert!(
            chosen(&line, "quarks", 1_500)
                .text
                .starts_with("The company")
        );
    }

    #[test]
    fn tables_continue_under_the_same_title_or_none() {
        let terms = terms("capex");
        let balance = page(
            "Balance Sheet\n2022 2021\nCash 1,200 1,100\nTotal assets 5,500 5,400",
            &terms,
        );
        for (next, continues) in [
            (
                "Current liabilities\nAccounts payable 300 200\nTotal equity 1,100 1,000",
                true,
            ),
            (
                "Balance Sheet (continued)\n2022 2021\nAccounts payable 300 200\nTotal 1,100 1,000",
                true,
            ),
            (
                "Balance Sheet\n2022 2021\nAccounts payable 300 200\nTotal 1,100 1,000",
                true,
            ),
            (
                "Statement of Cash Flows\n2022 2021\nNet income 300 200\nTotal 1,100 1,000",
                false,
            ),
            (
                "The company went about its business as before, and so did its rivals in the land.",
                false,
            ),
        ] {
            let next = page(next, &terms);
            assert_eq!(
                balance.ends_with_table() && next.continues_table(&balance),
                continues,
                "{:?}",
                next.lines
            );
        }
        let next = page("Accounts payable 300 200\nTotal equity 1,100 1,000", &terms);
        assert!(next.begins_with_rows() && !balance.begins_with_rows());
        assert_eq!(balance.closing_column_heads()[0].text, "2022 2021");
    }

    #[test]
    fn dividers_and_running_heads_are_stubs() {
        let terms = terms("capex");
        assert!(page("ACME CORPORATION\n48", &terms).is_stub());
        assert!(!page("Mine safety\nNot applicable.", &terms).is_stub());
        assert!(!page("Net sales 5,777 5,921", &terms).is_stub());
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

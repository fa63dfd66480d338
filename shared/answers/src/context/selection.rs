//! Chooses what is read: pages by worth, and of each page whole tables and paragraphs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use stemma_document::DocId;
use stemma_document::text::normalize_key;
use stemma_retrieval::query_terms::{QueryTerms, TermRarity};
use stemma_retrieval::search::SearchHit;

use super::SectionRequest;
use super::passage_source::{ChosenLines, PassageSource, cut_line};

// Tokens of a passage's heading and delimiters.
pub(super) const PASSAGE_OVERHEAD_TOKENS: u32 = 55;
// What is read first of a page that ranks low: a paragraph or two, or the rows of a table that the question needs.
const EXTRACT_TOKENS: u32 = 200;
/// Least room for what is read of one filing: a passage of it.
pub(crate) const MIN_PART_TOKENS: u32 = EXTRACT_TOKENS + PASSAGE_OVERHEAD_TOKENS;
// A longer table is read as its heads and the runs of rows that the question needs.
const LONG_TABLE_TOKENS: u32 = 1_200;
// The best part of each page takes at most this share of the room, and other parts of the best pages the rest.
const FIRST_SHARE: f32 = 0.75;
// On as many of the best pages, the best table is read whole first.
const WHOLE_PAGES: usize = 4;
// A part with less of the question than this share of the best one of its page helps nobody.
const MIN_WORTH: f32 = 0.25;
// Of the mark of lines that are left out, and its line end.
const GAP_TOKENS: u32 = 2;
// A line that is cut has room for a sentence.
const MIN_CUT_TOKENS: u32 = 60;

/// A page, or a section of a document without pages, that may be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadCandidate<'r> {
    pub(super) request: &'r SectionRequest,
    /// `None` in a document without pages.
    pub(super) page: Option<u32>,
}

/// Requests for the pages of hits, one each, best first: a long section has pages that fit less than those of other
/// sections.
pub(crate) fn pages_by_worth(hits: &[SearchHit]) -> Vec<SectionRequest> {
    let mut requests: Vec<SectionRequest> = Vec::new();
    for hit in hits {
        let request = SectionRequest::from_hit(hit);
        let best = hit.best_pages.first().map_or(1.0, |page| page.score);
        if hit.best_pages.is_empty() {
            requests.push(request.clone());
        }
        requests.extend(hit.best_pages.iter().map(|page| SectionRequest {
            pages: vec![page.page],
            // Pages are comparable within a hit, and hits with each other.
            score: (hit.score * page.score / best.max(f64::MIN_POSITIVE)) as f32,
            ..request.clone()
        }));
    }
    requests.sort_by(|a, b| b.score.total_cmp(&a.score));
    requests
}

/// Pages that are looked at for `room` tokens: more than fit, unless most are short.
pub(super) fn most_pages(room: u32) -> usize {
    (room / EXTRACT_TOKENS) as usize + 1
}

/// The lines to read of each source, within `room` tokens. Sources are best first, each with its neighbors. A table or paragraph
/// is read whole, also over the ends of pages, or not at all; of a long table the runs of rows that the question needs.
pub(super) fn choose_lines(
    sources: &[PassageSource<'_>],
    room: u32,
    terms: &QueryTerms,
) -> Vec<ChosenLines> {
    let mut selection = Selection {
        sources,
        terms,
        rarity: TermRarity::new(sources.iter().flat_map(PassageSource::matches)),
        chosen: vec![BTreeMap::new(); sources.len()],
        paragraphs: BTreeSet::new(),
        remaining: room,
    };
    selection.choose();
    sources
        .iter()
        .zip(&selection.chosen)
        .map(|(source, lines)| source.assemble(lines))
        .collect()
}

// A table or paragraph by the indexes of its source and block.
type BlockId = (usize, usize);

struct Selection<'s, 'q> {
    sources: &'s [PassageSource<'q>],
    terms: &'s QueryTerms,
    rarity: TermRarity<'s>,
    // The lines of each source; with a text where a line is cut.
    chosen: Vec<BTreeMap<usize, Option<String>>>,
    // Paragraphs of documents that were chosen. A disclaimer is not read twice.
    paragraphs: BTreeSet<(DocId, String)>,
    remaining: u32,
}

impl Selection<'_, '_> {
    fn choose(&mut self) {
        let found = self.blocks_by_worth();
        let reserve = self.remaining - (self.remaining as f32 * FIRST_SHARE) as u32;
        let mut pages = found.iter().enumerate();
        for (rank, blocks) in pages.by_ref() {
            self.take_best(rank, blocks);
            if self.remaining < reserve + MIN_PART_TOKENS {
                break;
            }
        }
        for blocks in &found {
            let least = blocks.first().map_or(0.0, |(worth, _)| worth * MIN_WORTH);
            for (worth, block) in blocks {
                if *worth > 0.0 && *worth >= least {
                    self.take(*block, LONG_TABLE_TOKENS);
                }
            }
        }
        for (rank, blocks) in pages {
            self.take_best(rank, blocks);
        }
    }

    fn take_best(&mut self, rank: usize, blocks: &[(f32, BlockId)]) {
        let Some((_, (source, block))) = blocks.first() else {
            return;
        };
        let is_whole = rank < WHOLE_PAGES || self.sources[*source].is_statement;
        let most = match is_whole {
            true => LONG_TABLE_TOKENS,
            false => EXTRACT_TOKENS,
        };
        self.take((*source, *block), most);
    }

    // The blocks of each source that was found, those with most of the question's rare words first.
    fn blocks_by_worth(&self) -> Vec<Vec<(f32, BlockId)>> {
        self.sources
            .iter()
            .enumerate()
            .filter(|(_, source)| !source.is_neighbor)
            .map(|(at, source)| {
                let mut blocks: Vec<(f32, BlockId)> = source
                    .matches()
                    .enumerate()
                    .map(|(block, matches)| {
                        (self.terms.rare_worth(matches, &self.rarity), (at, block))
                    })
                    .collect();
                blocks.sort_by(|a, b| b.0.total_cmp(&a.0));
                blocks
            })
            .collect()
    }

    // Reads a table or paragraph, if there is room: whole if it has at most `most` tokens.
    fn take(&mut self, block: BlockId, most: u32) {
        let most = most.min(self.remaining.saturating_sub(PASSAGE_OVERHEAD_TOKENS));
        let parts = self.parts(block);
        let paragraph = self.paragraph(block);
        if paragraph
            .as_ref()
            .is_some_and(|text| self.paragraphs.contains(text))
        {
            return;
        }
        let tokens: u32 = parts
            .iter()
            .map(|(source, lines)| self.sources[*source].tokens(lines.clone()))
            .sum();
        let lines: Vec<(usize, usize)> = match tokens <= most {
            true => parts
                .iter()
                .flat_map(|(source, lines)| lines.clone().map(|line| (*source, line)))
                .collect(),
            false => self.needed_lines(block, &parts, most),
        };
        let mut new = Vec::new();
        let mut cost = 0;
        for (source, line) in lines {
            if self.chosen[source].contains_key(&line) {
                continue;
            }
            let chosen = &self.chosen[source];
            let is_first = chosen.is_empty() && new.iter().all(|(started, _)| *started != source);
            let follows = line.checked_sub(1).is_some_and(|before| {
                chosen.contains_key(&before) || new.last() == Some(&(source, before))
            });
            cost += self.sources[source].lines[line].tokens;
            cost += match () {
                () if is_first => PASSAGE_OVERHEAD_TOKENS,
                () if follows => 0,
                () => GAP_TOKENS,
            };
            new.push((source, line));
        }
        if cost <= self.remaining {
            self.remaining -= cost;
            self.paragraphs.extend(paragraph);
            for (source, line) in new {
                self.chosen[source].insert(line, None);
            }
        } else if let [(source, line)] = new[..] {
            self.take_cut(source, line);
        }
    }

    // A line that is longer than the room, around words of the question.
    fn take_cut(&mut self, source: usize, line: usize) {
        let room = self.remaining.saturating_sub(PASSAGE_OVERHEAD_TOKENS + 1);
        if room >= MIN_CUT_TOKENS {
            let one = &self.sources[source].lines[line];
            let text = cut_line(&one.text, one.tokens, room, self.terms);
            self.chosen[source].insert(line, Some(text));
            self.remaining = 0;
        }
    }

    // A block on all of its pages, in order.
    fn parts(&self, (source, block): BlockId) -> Vec<(usize, Range<usize>)> {
        let own = &self.sources[source];
        let mut parts = vec![(source, own.blocks[block].lines.clone())];
        for (at, other) in self.sources.iter().enumerate() {
            if other.doc != own.doc || at == source {
                continue;
            }
            let same = other.blocks.iter().filter(|one| {
                one.shares_table(&own.blocks[block])
                    || other.page + 1 == own.page
                        && block == 0
                        && one.lines.end == other.lines.len()
                        && other.runs_on_to(own)
                    || other.page == own.page + 1
                        && block + 1 == own.blocks.len()
                        && one.lines.start == 0
                        && own.runs_on_to(other)
            });
            parts.extend(same.map(|one| (at, one.lines.clone())));
        }
        parts.sort_by_key(|(source, lines)| (self.sources[*source].page, lines.start));
        parts
    }

    // What a paragraph says, if nothing of it was chosen yet.
    fn paragraph(&self, (source, block): BlockId) -> Option<(DocId, String)> {
        let own = &self.sources[source];
        let block = &own.blocks[block];
        let is_new = !block
            .lines
            .clone()
            .any(|line| self.chosen[source].contains_key(&line));
        (is_new && !block.is_table)
            .then(|| (own.doc, normalize_key(&own.text(block.lines.clone()))))
    }

    // Of a long block: the heads of a table, and the runs of rows with most of the question that fit into `room`.
    fn needed_lines(
        &self,
        (source, block): BlockId,
        parts: &[(usize, Range<usize>)],
        room: u32,
    ) -> Vec<(usize, usize)> {
        let mut lines: Vec<(usize, usize)> = Vec::new();
        let mut left = room;
        let mut runs: Vec<(f32, usize, Range<usize>)> = Vec::new();
        for (at, (source, part)) in parts.iter().enumerate() {
            let own = &self.sources[*source];
            let Some(block) = own.blocks.iter().find(|block| block.lines == *part) else {
                continue;
            };
            if at == 0 && block.is_table {
                let heads = own.heads(block);
                left = left.saturating_sub(own.tokens(heads.clone()));
                lines.extend(heads.map(|line| (*source, line)));
            }
            let all = match block.is_table {
                true => own.runs(block),
                false => block.lines.clone().map(|line| line..line + 1).collect(),
            };
            runs.extend(all.into_iter().map(|run| {
                let matches = self.terms.matches(&own.text(run.clone()));
                (self.terms.rare_worth(&matches, &self.rarity), *source, run)
            }));
        }
        runs.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut has_run = false;
        for (worth, source, run) in runs {
            let tokens = self.sources[source].tokens(run.clone()) + GAP_TOKENS;
            if tokens <= left && (worth > 0.0 || !has_run) {
                left -= tokens;
                has_run = true;
                lines.extend(run.map(|line| (source, line)));
            }
        }
        match has_run {
            true => lines,
            false => self.lines_around_best((source, block), room),
        }
    }

    // Where not even one run of rows or line fits: the lines around the best one.
    fn lines_around_best(&self, (at, block): BlockId, room: u32) -> Vec<(usize, usize)> {
        let source = &self.sources[at];
        let block = &source.blocks[block];
        let best = block
            .lines
            .clone()
            .map(|line| {
                let matches = self.terms.matches(&source.lines[line].text);
                (self.terms.rare_worth(&matches, &self.rarity), line)
            })
            .reduce(|best, one| if one.0 > best.0 { one } else { best });
        let best = best.map_or(block.lines.start, |(_, line)| line);
        let heads = source.heads(block);
        let mut lines: BTreeSet<usize> = BTreeSet::from([best]);
        let mut left = room.saturating_sub(source.lines[best].tokens);
        for line in heads
            .rev()
            .chain(best + 1..block.lines.end)
            .chain((block.lines.start..best).rev())
        {
            let tokens = source.lines[line].tokens;
            if tokens > left {
                break;
            }
            if lines.insert(line) {
                left -= tokens;
            }
        }
        lines.into_iter().map(|line| (at, line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use stemma_retrieval::parsed_query::ParsedQuery;

    use super::super::passage_source::page_of_text;
    use super::*;

    const FILLER: &str = "The company went about its business as before, and so did its rivals in the land.\nAll did well.\n";

    // Pages with the rows of a table that goes on over them, as the texts that are read of them.
    fn read_tables(
        pages: &[(&str, Option<Range<usize>>)],
        question: &str,
        room: u32,
    ) -> Vec<String> {
        let terms = QueryTerms::new(&ParsedQuery::parse(question));
        let pages = pages.iter().zip(1..);
        let sources: Vec<PassageSource<'_>> = pages
            .map(|((text, table), number)| page_of_text(number, text, table.clone(), &terms))
            .collect();
        let chosen = choose_lines(&sources, room, &terms);
        let used: u32 = chosen
            .iter()
            .filter(|chosen| !chosen.lines.is_empty())
            .map(|chosen| chosen.tokens + PASSAGE_OVERHEAD_TOKENS)
            .sum();
        assert!(used <= room + 10 * pages_with(&chosen), "{used} of {room}");
        chosen.into_iter().map(|chosen| chosen.text).collect()
    }

    // Line ends and the last mark of a page are not counted in the room.
    fn pages_with(chosen: &[ChosenLines]) -> u32 {
        chosen.len() as u32
    }

    fn read(text: &str, question: &str, room: u32) -> String {
        read_tables(&[(text, None)], question, room).remove(0)
    }

    #[test]
    fn paragraphs_without_words_of_the_question_are_left_out() {
        let text = format!(
            "{}Zorbco sold 5 million zorbs\nin May.\n{}",
            FILLER.repeat(10),
            FILLER.repeat(10)
        );
        for room in [150, 10_000] {
            assert_eq!(
                read(&text, "How many zorbs did Zorbco sell?", room),
                "…\nZorbco sold 5 million zorbs\nin May.\n…"
            );
        }
    }

    #[test]
    fn a_paragraph_is_read_once() {
        let text = format!("Zorbco may sell fewer zorbs than it says here.\n{FILLER}");
        let texts = read_tables(&[(&text, None), (&text, None)], "zorbs of Zorbco", 5_000);
        assert!(
            texts[0].starts_with("Zorbco may") && !texts[1].contains("Zorbco"),
            "{texts:?}"
        );
    }

    #[test]
    fn a_table_is_read_whole_or_not_at_all() {
        let rows: String = (0..30)
            .map(|at| format!("Sales of plant {at} 1,0{at:02} 2,0{at:02}\n"))
            .collect();
        let text = format!("{FILLER}Statement of Sales\n(Millions)\n2022 2021\n{rows}");
        let whole = read(&text, "What were the sales of plant 7 in 2022?", 800);
        assert!(whole.contains(rows.trim_end()), "{whole}");
    }

    #[test]
    fn a_long_table_is_read_with_its_heads_and_the_runs_that_the_question_needs() {
        let rows = |group: &str, count: usize| {
            let rows = (0..count).map(|at| format!("Sale {at} 1,0{at:02} 2,0{at:02}\n"));
            format!("{group}\n{}", rows.collect::<String>())
        };
        let run =
            "Capital spending of the year\nCapital expenditures 5,555 4,444\nDisposals (20) (30)\n";
        let text = format!(
            "Statement of Sales\n(Millions)\n2022 2021\n{}{run}{}",
            rows("Europe", 70),
            rows("Asia", 70)
        );
        let read = read(&text, "What were capital expenditures in 2022?", 1_500);
        assert!(
            read.starts_with("Statement of Sales\n(Millions)\n2022 2021\n"),
            "{read}"
        );
        assert!(read.contains(run), "{read}");
        assert!(!read.contains("Asia"), "{read}");
    }

    #[test]
    fn a_table_over_two_pages_is_read_on_both() {
        let first =
            format!("{FILLER}Balance Sheet\n2022 2021\nCash 1,200 1,100\nTotal assets 5,500 5,400");
        let second = format!("Accounts payable 300 200\nTotal equity 1,100 1,000\n{FILLER}");
        let pages = [(first.as_str(), Some(4..6)), (second.as_str(), Some(0..2))];
        let texts = read_tables(&pages, "What was cash in 2022?", 5_000);
        assert!(texts[0].ends_with("Total assets 5,500 5,400"), "{texts:?}");
        assert_eq!(
            texts[1],
            "Accounts payable 300 200\nTotal equity 1,100 1,000\n…"
        );
    }

    #[test]
    fn long_lines_are_cut_around_question_words() {
        let filler = "The company went about its business as before. ".repeat(2_000);
        let line = format!("{filler}Zorbco sold 5 million zorbs. {filler}");
        let cut = read(&line, "How many zorbs did Zorbco sell?", 1_500);
        assert!(
            cut.contains("Zorbco sold 5 million zorbs.")
                && cut.starts_with('…')
                && cut.ends_with('…')
        );
        // Without words of the question, the beginning of the line.
        assert!(read(&line, "quarks", 1_500).starts_with("The company"));
    }

    proptest::proptest! {
        #[test]
        fn room_is_never_exceeded(paragraphs in proptest::collection::vec("[a-z0-9 ]{1,300}", 1..30), room in 0u32..3_000) {
            let text = paragraphs.join(".\n");
            read_tables(&[(&text, None), (&text, None)], "a b c 1 2", room);
        }
    }
}

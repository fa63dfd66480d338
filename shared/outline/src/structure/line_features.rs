//! Layout features of every line: size against the body text, weight, cells, running heads, prose, table rows.

use std::collections::BTreeSet;

use stemma_document::{Emphasis, Line, LineRole, Page, PageNo, Position, Pt};
use stemma_reading::heading_look::{BodyLook, LARGER, SAME_SIZE, TextLook, TitleText};
use stemma_reading::letters::{is_caseless, is_small};
use stemma_reading::sentences::{is_full_stop, is_stop};

use super::line_cells::{declared_rows, is_titled, largest_size, read_cells};
use super::weights::{CLOSE, FLOWING, JOINED, PAGE_TOP_GAP, TEXT_WORDS};
use super::{item_grammar, numbering, titles};

// Bytes of a line that the rules read.
const MAX_LINE_BYTES: usize = 600;
// Lines of a page that the rules read; a page of prose has about 60.
const MAX_LINES_PER_PAGE: usize = 1_500;
// Usual gap between the lines of a paragraph, in font sizes, and the gap above which a text counts as double-spaced.
const SOLID_LEADING: f32 = 0.2;
const OPEN_LEADING: f32 = 0.6;
// A line with more words is prose.
pub(super) const MAX_TITLE_WORDS: usize = 22;

/// One line with its features. Lengths in points.
#[derive(Debug, Clone)]
pub(super) struct LineFeatures<'a> {
    /// Page, counted from 0.
    pub(super) page: u32,
    /// Index of the line on its page.
    pub(super) line: u32,
    pub(super) text: &'a str,
    /// The text up to the first wide gap.
    pub(super) first_cell: &'a str,
    /// The normalized text (see [`titles::normalize_key`]).
    pub(super) key: String,
    pub(super) x0: f32,
    pub(super) x1: f32,
    pub(super) y0: f32,
    pub(super) y1: f32,
    /// Font size, or an estimate from the line height if the font reports none.
    pub(super) size: f32,
    pub(super) bold: bool,
    pub(super) emphasis: Emphasis,
    /// Capitals only.
    pub(super) caps: bool,
    pub(super) centered: bool,
    pub(super) words: u16,
    /// Number of groups of words with wide gaps between them.
    pub(super) cells: u16,
    /// A cell after the first holds a figure.
    pub(super) figures: bool,
    /// The first cell is larger than the others: the title of a table in its head row. Size and weight are the title's.
    pub(super) titled: bool,
    /// Begins with a raised mark in small type: a footnote, or the affiliation of an author.
    pub(super) marked: bool,
    /// Distance to the line above, in font sizes (-1 to 9); 9 at the top of a page or column.
    pub(super) gap: f32,
    /// Running header or footer, page number (see [`stemma_document::furniture`]), or a line across the page's text.
    pub(super) running: bool,
    /// A line of a paragraph.
    pub(super) prose: bool,
    /// Inside a table, by its cells and figures.
    pub(super) table: bool,
    /// A row of a table that the file declares. No heading, but its style says nothing about the style of headings: some
    /// tables only place text.
    pub(super) declared_row: bool,
    /// The phrase that opens a paragraph like a heading.
    pub(super) run_in: Option<RunIn<'a>>,
}

impl LineFeatures<'_> {
    pub(super) fn position(&self) -> Position {
        Position {
            page: PageNo::from_index(self.page as usize),
            line: self.line,
            y: Pt::new(self.y0),
        }
    }

    pub(super) fn look(&self) -> TextLook {
        TextLook {
            size: self.size,
            bold: self.bold,
            emphasis: self.emphasis,
        }
    }
}

/// A bold or emphasized phrase at the start of a line of regular text: `Goodwill. We test goodwill …`.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunIn<'a> {
    /// Without the mark that ends it.
    pub(super) text: &'a str,
    pub(super) bold: bool,
    pub(super) emphasis: Emphasis,
}

/// All lines of a document and their common features.
#[derive(Debug)]
pub(super) struct LineTable<'a> {
    pub(super) rows: Vec<LineFeatures<'a>>,
    /// For each page, the index of its first row; one more entry at the end.
    starts: Vec<usize>,
    pub(super) body: BodyLook,
    /// Whether a line is a whole paragraph, and rows of tables are declared: in HTML.
    pub(super) has_blocks: bool,
    /// Extra gap between the lines of a paragraph, in font sizes; 0 unless the text is double-spaced.
    pub(super) leading: f32,
    /// Whole numbers at the start of short lines.
    numbers: BTreeSet<u32>,
}

impl<'a> LineTable<'a> {
    pub(super) fn new(pages: &'a [Page]) -> Self {
        let lines = pages
            .iter()
            .map(|page| page.lines.len().min(MAX_LINES_PER_PAGE));
        // All at once: it is large, and growing would copy it again and again.
        let mut rows = Vec::with_capacity(lines.sum());
        let mut starts = Vec::with_capacity(pages.len() + 1);
        for (index, page) in pages.iter().enumerate() {
            starts.push(rows.len());
            read_page(&mut rows, index, page);
        }
        starts.push(rows.len());
        // Only lines as wide as a paragraph show the look of the text.
        let body = BodyLook::new(rows.iter().map(|row: &LineFeatures<'_>| {
            let width = pages[row.page as usize].width.points();
            let is_text = row.cells == 1 && row.words >= 7 && row.x1 - row.x0 > 0.33 * width;
            (row.look(), row.text.len(), is_text)
        }));
        let mut lines = Self {
            rows,
            starts,
            body,
            has_blocks: pages
                .iter()
                .flat_map(|page| &page.lines)
                .any(|line| line.bytes.is_some()),
            leading: 0.0,
            numbers: BTreeSet::new(),
        };
        // Each step uses the ones before: prose needs leading and tables.
        lines.find_leading();
        lines.mark_tables(pages);
        lines.mark_prose(pages);
        lines.find_numbers();
        lines
    }

    pub(super) fn pages(&self) -> usize {
        self.starts.len() - 1
    }

    /// Indices of the rows on `page` (from 0); empty past the end.
    pub(super) fn rows_on(&self, page: usize) -> std::ops::Range<usize> {
        match (self.starts.get(page), self.starts.get(page + 1)) {
            (Some(start), Some(end)) => *start..*end,
            _ => self.rows.len()..self.rows.len(),
        }
    }

    /// Whether only running heads are above the row on its page.
    pub(super) fn starts_page(&self, row: usize) -> bool {
        let page = self.rows[row].page as usize;
        (self.rows_on(page).start..row)
            .all(|above| self.rows[above].running || self.rows[above].key.is_empty())
    }

    pub(super) fn next_on_page(&self, row: usize) -> Option<&LineFeatures<'a>> {
        self.rows
            .get(row + 1)
            .filter(|next| next.page == self.rows[row].page)
    }

    pub(super) fn above_on_page(&self, row: usize) -> Option<&LineFeatures<'a>> {
        let above = &self.rows[row.checked_sub(1)?];
        Some(above).filter(|above| above.page == self.rows[row].page)
    }

    /// The title that rows make together.
    pub(super) fn title(&self, (first, last): (usize, usize)) -> String {
        let texts: Vec<&str> = self.rows[first..=last].iter().map(|row| row.text).collect();
        titles::fold_whitespace(&texts.join(" "))
    }

    /// Whether two rows have the same size, weight and emphasis.
    pub(super) fn same_style(a: &LineFeatures<'_>, b: &LineFeatures<'_>) -> bool {
        a.look().is_alike(b.look())
    }

    // In double-spaced texts (rules, manuscripts) the gap between any two lines is as large as the one above a heading. All
    // limits on gaps therefore add `leading`, the median gap inside paragraphs beyond the usual one.
    fn find_leading(&mut self) {
        // In HTML all gaps are between paragraphs, and say nothing about the distance of lines.
        if self.has_blocks {
            return;
        }
        let pairs = self.rows.windows(2).filter(|pair| {
            let above = &pair[0];
            let row = &pair[1];
            let is_body = (above.size - self.body.size()).abs() < SAME_SIZE && above.cells == 1;
            is_body
                && above.page == row.page
                && above.words >= 7
                && row.words >= 4
                && Self::same_style(above, row)
                && row.gap < 3.0
        });
        let mut gaps: Vec<f32> = pairs.map(|pair| pair[1].gap).collect();
        gaps.sort_by(f32::total_cmp);
        let usual = gaps.get(gaps.len() / 2).copied().unwrap_or(SOLID_LEADING);
        self.leading = if usual > OPEN_LEADING {
            usual - SOLID_LEADING
        } else {
            0.0
        };
    }

    fn find_numbers(&mut self) {
        // Footnotes are small and have their own numbers.
        self.numbers = self
            .rows
            .iter()
            .filter(|row| {
                !(row.running || row.table || row.prose)
                    && row.words <= 16
                    && row.size > self.body.size() - LARGER
            })
            .filter_map(|row| numbering::first_number(row.text).filter(|number| number.bare))
            .map(|number| number.value)
            .collect();
    }

    /// Whether the number before or after `number` also begins a line, as the numbers of sections do.
    pub(super) fn has_neighbor_number(&self, number: u32) -> bool {
        self.numbers.contains(&(number + 1))
            || number
                .checked_sub(1)
                .is_some_and(|below| self.numbers.contains(&below))
    }

    /// Marks rows with figures next to the first cell or with many cells, and rows right between two such rows.
    fn mark_tables(&mut self, pages: &[Page]) {
        for (page, source) in pages.iter().enumerate() {
            let range = self.rows_on(page);
            let own: Vec<bool> = self.rows[range.clone()]
                .iter()
                .map(|row| row.cells >= 2 && row.figures || row.cells >= 4)
                .collect();
            let declared = declared_rows(&self.rows[range.clone()], source, &own);
            for (offset, row) in self.rows[range].iter_mut().enumerate() {
                let neighbors = [offset.checked_sub(1), Some(offset + 1)];
                let between = row.gap < JOINED
                    && neighbors
                        .iter()
                        .all(|at| at.is_some_and(|at| own.get(at) == Some(&true)));
                row.table = own[offset] || between;
                row.declared_row = declared[offset];
            }
        }
    }

    fn is_joined(a: &LineFeatures<'_>, b: &LineFeatures<'_>) -> bool {
        a.page == b.page && Self::same_style(a, b) && b.gap < JOINED
    }

    /// Number of lines of the same style close together around `at`, up to five in each direction.
    fn marked_run(&self, at: usize) -> usize {
        let down = self.rows[at..]
            .windows(2)
            .take(5)
            .take_while(|pair| Self::is_joined(&pair[0], &pair[1]))
            .count();
        let up = self.rows[..=at]
            .windows(2)
            .rev()
            .take(5)
            .take_while(|pair| Self::is_joined(&pair[0], &pair[1]))
            .count();
        1 + up + down
    }

    // A line is prose if it is long, if the next line continues it, or if it continues the line above. Bold and emphasized lines
    // are exempt as long as at most four of them are together: headings are short runs, emphasized paragraphs are not.
    fn mark_prose(&mut self, pages: &[Page]) {
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            let width = pages[row.page as usize].width.points();
            let next = self.next_on_page(at);
            let marked = self.body.is_bold(row.bold) || self.body.is_emphasized(row.emphasis);
            let heavy = marked && self.marked_run(at) <= 4;
            let before = self.above_on_page(at);
            let flows_on = next.is_some_and(|next| {
                next.text.starts_with(is_small)
                    && Self::same_style(row, next)
                    && next.gap < CLOSE + self.leading
                    && row.words as usize > 6
            });
            let flows_in = before.is_some_and(|above| {
                Self::same_style(row, above)
                    && row.gap < FLOWING + self.leading
                    && above.x1 - above.x0 > 0.6 * width.min(above.x1 + 40.0)
                    && above.words >= TEXT_WORDS
                    && !is_finished(above.text)
                    && row.x0 < above.x0 + row.size
                    && !above.table
                    // Two Items in a row are contents without page numbers.
                    && !(item_grammar::parse_heading(row.text).is_some() && item_grammar::parse_heading(above.text).is_some())
            });
            let long = row.words as usize > MAX_TITLE_WORDS
                || (row.words > 12 && row.text.ends_with(is_full_stop));
            self.rows[at].prose =
                !heavy && (long || (flows_on && !row.caps) || (flows_in && !row.caps));
        }
    }
}

fn read_page<'a>(rows: &mut Vec<LineFeatures<'a>>, index: usize, page: &'a Page) {
    let width = page.width.points();
    let mut above: Option<(f32, f32)> = None;
    for (line, text) in page.lines.iter().take(MAX_LINES_PER_PAGE).enumerate() {
        let mut row = read_line(index, line, text);
        let left = row.x0;
        let right = width - row.x1;
        row.centered = left > 0.15 * width && (left - right).abs() < 0.06 * width;
        row.gap = match above {
            Some((y0, y1)) if row.y0 >= y0 - 1.0 => {
                ((row.y0 - y1) / row.size.max(4.0)).clamp(-1.0, PAGE_TOP_GAP)
            }
            _ => PAGE_TOP_GAP,
        };
        above = Some((row.y0, row.y1));
        rows.push(row);
    }
}

fn read_line(page: usize, line: usize, source: &Line) -> LineFeatures<'_> {
    let text = titles::truncate_bytes(source.text.trim(), MAX_LINE_BYTES);
    let style = source.style();
    let rect = source.rect;
    let largest = largest_size(source);
    let size = if largest < 2.0 {
        (rect.height() * 0.85).clamp(4.0, 40.0)
    } else {
        largest
    };
    let (cells, figures, first) = read_cells(source, size);
    let titled = cells >= 2 && is_titled(source, first);
    let style = if titled { source.runs[0] } else { style };
    LineFeatures {
        page: u32::try_from(page).unwrap_or(u32::MAX),
        line: u32::try_from(line).unwrap_or(u32::MAX),
        text,
        first_cell: text.get(..first).unwrap_or(text).trim_end(),
        key: titles::normalize_key(text),
        x0: rect.x0.points(),
        x1: rect.x1.points(),
        y0: rect.y0.points(),
        y1: rect.y1.points(),
        size,
        bold: style.bold,
        emphasis: style.emphasis,
        caps: TitleText::new(text).is_capitals(),
        centered: false,
        words: u16::try_from(titles::word_count(text)).unwrap_or(u16::MAX),
        cells,
        figures,
        titled,
        marked: is_marked(source),
        gap: PAGE_TOP_GAP,
        running: source.role != LineRole::Body,
        prose: false,
        table: false,
        declared_row: false,
        run_in: if cells == 1 {
            read_run_in(source)
        } else {
            None
        },
    }
}

fn read_run_in(line: &Line) -> Option<RunIn<'_>> {
    let first = line
        .runs
        .first()
        .filter(|run| run.bold || run.emphasis.is_some())?;
    // A bold phrase may have words in italics.
    let marked = line
        .runs
        .iter()
        .take_while(|run| run.bold == first.bold && (run.bold || run.emphasis.is_some()))
        .last()?;
    let phrase = line.text.get(..marked.end as usize)?.trim();
    let rest = line.text.get(marked.end as usize..)?.trim_start();
    let text = phrase.trim_end_matches(closes_phrase).trim_end();
    // Without a mark, a new sentence shows that the phrase is a title: `Baselines We compare`.
    let is_apart = !text.ends_with(',') && rest.starts_with(char::is_uppercase);
    let is_closed =
        is_apart || text.len() < phrase.len() || rest.starts_with(['—', '–', ':', '：']);
    let is_title = text.contains(|c| is_small(c) || is_caseless(c))
        || item_grammar::parse_heading(text).is_some();
    // A long phrase leaves room for the first words of its sentence only.
    let is_sentence = titles::word_count(rest) >= 3 || rest.starts_with(char::is_uppercase);
    (is_closed && is_title && is_sentence).then_some(RunIn {
        text,
        bold: first.bold,
        emphasis: first.emphasis,
    })
}

/// Whether a mark ends the phrase that opens a paragraph.
fn closes_phrase(c: char) -> bool {
    is_full_stop(c) || matches!(c, ':' | '：' | '—' | '–' | '-')
}

/// Whether a line begins with a digit or two that are much smaller than the text behind them.
fn is_marked(line: &Line) -> bool {
    let [mark, text, ..] = line.runs.as_slice() else {
        return false;
    };
    let label = line
        .text
        .get(..mark.end as usize)
        .unwrap_or_default()
        .trim();
    (1..=2).contains(&label.len())
        && label.bytes().all(|b| b.is_ascii_digit())
        && mark.size.points() < 0.8 * text.size.points()
}

/// Whether a line ends a sentence; a footnote number may follow its full stop.
pub(super) fn is_finished(text: &str) -> bool {
    let end =
        text.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '”' | '"' | ')' | ']'));
    end.ends_with(|c: char| is_stop(c) && c != '…' || matches!(c, ':' | ';' | '：'))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line};
    use super::*;

    #[test]
    fn body_size_comes_from_prose() {
        let mut doc = Doc::new(3);
        for page in 0..3 {
            doc.prose(page, 10.0, 6);
            for _ in 0..40 {
                doc.add(
                    page,
                    line("Revenue")
                        .size(7.0)
                        .cells(&["1,000", "2,000", "3,000"]),
                );
            }
        }
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        assert_eq!(lines.body.size(), 10.0);
        assert!(
            lines
                .rows
                .iter()
                .filter(|row| row.text.starts_with("Revenue"))
                .all(|row| row.table)
        );
    }

    #[test]
    fn figures_in_a_numbered_title_make_no_table_row() {
        let mut doc = Doc::new(1);
        doc.add(0, line("(5)").cells(&["Hired before January 1, 2009"]));
        doc.add(0, line("(6)").cells(&["1,000"]));
        doc.add(0, line("Sales").cells(&["January 1, 2009"]));
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        let tables: Vec<bool> = lines.rows.iter().map(|row| row.table).collect();
        assert_eq!(tables, [false, true, true]);
    }

    #[test]
    fn acronym_with_digits_is_no_title_in_capitals() {
        let mut doc = Doc::new(1);
        doc.add(0, line("COVID-19").bold());
        doc.add(0, line("OVERVIEW").bold());
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        let caps: Vec<bool> = lines.rows.iter().map(|row| row.caps).collect();
        assert_eq!(caps, [false, true]);
    }

    #[test]
    fn recurring_heads_are_running_heads() {
        let mut doc = Doc::new(8);
        for page in 0..8 {
            doc.add(page, line(&format!("PART I Item {page}")).at(72.0, 20.0));
            doc.add(page, line("Overview").bold());
            doc.prose(page, 10.0, 20);
            doc.add(page, line(&format!("{}", page + 3)).at(300.0, 760.0));
        }
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        let running = |text: &str| {
            lines
                .rows
                .iter()
                .filter(|r| r.text.starts_with(text))
                .all(|r| r.running)
        };
        assert!(running("PART I") && running("3") && !running("Overview"));
        let overview = lines
            .rows
            .iter()
            .position(|row| row.text == "Overview")
            .unwrap();
        assert!(lines.starts_page(overview));
    }
}

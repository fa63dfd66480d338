//! What every line looks like: size against the body text, weight, cells, running heads, prose, table rows.

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::{Line, Page, StyleRun};

use super::{item_grammar, numbering, titles};

/// Bytes of a line that structure looks at.
const MAX_LINE_BYTES: usize = 600;
/// Lines of a page that structure looks at; a page of prose has about 60.
const MAX_LINES_PER_PAGE: usize = 1_500;
/// Usual distance between the lines of a paragraph, in font sizes, and the one above which a text is set with open lines.
const SOLID_LEADING: f32 = 0.2;
const OPEN_LEADING: f32 = 0.6;
/// Words above which a line is prose and no title.
const MAX_TITLE_WORDS: usize = 22;

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
    /// The text squashed (see [`titles::normalize_key`]).
    pub(super) key: String,
    pub(super) x0: f32,
    pub(super) x1: f32,
    pub(super) y0: f32,
    pub(super) y1: f32,
    /// Font size; where a font reports none, derived from the line's height.
    pub(super) size: f32,
    pub(super) bold: bool,
    pub(super) italic: bool,
    /// Capitals only.
    pub(super) caps: bool,
    pub(super) centered: bool,
    pub(super) words: u16,
    /// Stretches of words apart from each other.
    pub(super) cells: u16,
    /// A cell behind the first holds a figure.
    pub(super) figures: bool,
    /// The first cell is set larger than the others: the title of a table in its head row. Size and weight are the title's.
    pub(super) titled: bool,
    /// Distance to the line above on the page, in font sizes; large at the top of a page or column.
    pub(super) gap: f32,
    /// Running head or foot, or page number (see [`stemma_document::furniture`]).
    pub(super) running: bool,
    /// A line of a paragraph.
    pub(super) prose: bool,
    /// Inside a table.
    pub(super) table: bool,
}

/// All lines of a document and what is common to them.
#[derive(Debug)]
pub(super) struct LineTable<'a> {
    pub(super) rows: Vec<LineFeatures<'a>>,
    /// For each page, the index of its first row; one more entry at the end.
    starts: Vec<usize>,
    /// Size of the body text.
    pub(super) body: f32,
    /// Whether the body text is bold.
    pub(super) body_bold: bool,
    pub(super) body_italic: bool,
    /// What the lines of a paragraph keep from each other beyond the usual, in font sizes; 0 unless set with open lines.
    pub(super) leading: f32,
    /// Whole numbers that short lines begin with.
    numbers: BTreeSet<u32>,
}

impl<'a> LineTable<'a> {
    pub(super) fn new(pages: &'a [Page]) -> Self {
        let mut rows = Vec::new();
        let mut starts = Vec::with_capacity(pages.len() + 1);
        for (index, page) in pages.iter().enumerate() {
            starts.push(rows.len());
            read_page(&mut rows, index, page);
        }
        starts.push(rows.len());
        let mut sheet = Self {
            rows,
            starts,
            body: 10.0,
            body_bold: false,
            body_italic: false,
            leading: 0.0,
            numbers: BTreeSet::new(),
        };
        sheet.find_body(pages);
        sheet.find_leading();
        sheet.mark_tables();
        sheet.mark_prose(pages);
        sheet.find_numbers();
        sheet
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

    /// Whether nothing but running heads stands above the row on its page.
    pub(super) fn starts_page(&self, row: usize) -> bool {
        let page = self.rows[row].page as usize;
        (self.rows_on(page).start..row)
            .all(|above| self.rows[above].running || self.rows[above].key.is_empty())
    }

    /// The row behind `row` on the same page.
    pub(super) fn next_on_page(&self, row: usize) -> Option<&LineFeatures<'a>> {
        self.rows
            .get(row + 1)
            .filter(|next| next.page == self.rows[row].page)
    }

    /// Whether two rows look the same.
    pub(super) fn same_style(a: &LineFeatures<'_>, b: &LineFeatures<'_>) -> bool {
        (a.size - b.size).abs() < 0.6 && a.bold == b.bold && a.italic == b.italic
    }

    /// The size most letters of prose have. From all text, tables would win and prose look large.
    fn find_body(&mut self, pages: &[Page]) {
        let mut sizes: BTreeMap<(i32, bool, bool), usize> = BTreeMap::new();
        let mut fallback = sizes.clone();
        for row in &self.rows {
            let style = ((row.size * 2.0).round() as i32, row.bold, row.italic);
            let width = pages
                .get(row.page as usize)
                .map_or(0.0, |page| page.width.points());
            *fallback.entry(style).or_default() += row.text.len();
            if row.cells == 1 && row.words >= 7 && row.x1 - row.x0 > 0.33 * width {
                *sizes.entry(style).or_default() += row.text.len();
            }
        }
        let styles = if sizes.is_empty() { fallback } else { sizes };
        if let Some(((size, bold, italic), _)) = styles
            .into_iter()
            .max_by_key(|(style, letters)| (*letters, *style))
        {
            (self.body, self.body_bold, self.body_italic) = (size as f32 / 2.0, bold, italic);
        }
    }

    /// A text set with open lines (double-spaced rules and manuscripts): what every line keeps from the next says nothing
    /// about where paragraphs and headings end.
    fn find_leading(&mut self) {
        let follows = |above: &LineFeatures<'_>, row: &LineFeatures<'_>| {
            above.page == row.page
                && above.words >= 7
                && row.words >= 4
                && Self::same_style(above, row)
                && row.gap < 3.0
        };
        let body = |row: &LineFeatures<'_>| (row.size - self.body).abs() < 0.6 && row.cells == 1;
        let pairs = self
            .rows
            .windows(2)
            .filter(|pair| body(&pair[0]) && follows(&pair[0], &pair[1]));
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
        // Footnotes are set small and count by themselves.
        let body = self.body;
        self.numbers = self
            .rows
            .iter()
            .filter(|row: &&LineFeatures<'_>| {
                !row.running && !row.table && !row.prose && row.words <= 16 && row.size > body - 0.8
            })
            .filter_map(|row: &LineFeatures<'_>| {
                Some(
                    numbering::parse_numbers(row.text)
                        .first()
                        .filter(|number| number.bare)?
                        .value,
                )
            })
            .collect();
    }

    /// Whether a whole number before a title counts sections: one of its neighbors is there too.
    pub(super) fn has_neighbor_number(&self, number: u32) -> bool {
        self.numbers.contains(&(number + 1))
            || number
                .checked_sub(1)
                .is_some_and(|below| self.numbers.contains(&below))
    }

    /// A row belongs to a table when it has figures beside its first cell or many cells, or when such rows stand right
    /// above and below it.
    fn mark_tables(&mut self) {
        for page in 0..self.pages() {
            let range = self.rows_on(page);
            let own: Vec<bool> = self.rows[range.clone()]
                .iter()
                .map(|row: &LineFeatures<'_>| row.cells >= 2 && row.figures || row.cells >= 4)
                .collect();
            for (offset, row) in self.rows[range].iter_mut().enumerate() {
                let beside =
                    |at: Option<usize>| at.and_then(|at| own.get(at)).copied().unwrap_or(false);
                let between =
                    beside(offset.checked_sub(1)) && beside(Some(offset + 1)) && row.gap < 1.2;
                row.table = own[offset] || between;
            }
        }
    }

    /// How many lines of one bold or italic look stand close together around `at` (counted up to 6): a heading has few.
    fn marked_run(&self, at: usize) -> usize {
        let joined = |a: &LineFeatures<'_>, b: &LineFeatures<'_>| {
            a.page == b.page && Self::same_style(a, b) && b.gap < 1.2
        };
        let down = self.rows[at..]
            .windows(2)
            .take(5)
            .take_while(|pair| joined(&pair[0], &pair[1]))
            .count();
        let up = self.rows[..=at]
            .windows(2)
            .rev()
            .take(5)
            .take_while(|pair| joined(&pair[0], &pair[1]))
            .count();
        1 + up + down
    }

    /// Lines of paragraphs: long, or ended by a full stop, or the middle of a run of lines of one look.
    fn mark_prose(&mut self, pages: &[Page]) {
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            let width = pages[row.page as usize].width.points();
            let next = self.next_on_page(at);
            let marked = (row.bold && !self.body_bold) || (row.italic && !self.body_italic);
            let heavy = marked && self.marked_run(at) <= 4;
            let before = at
                .checked_sub(1)
                .map(|above| &self.rows[above])
                .filter(|above| above.page == row.page);
            let flows_on = next.is_some_and(|next| {
                next.text.starts_with(char::is_lowercase)
                    && Self::same_style(row, next)
                    && next.gap < 0.9 + self.leading
                    && row.words as usize > 6
            });
            let flows_in = before.is_some_and(|above| {
                Self::same_style(row, above)
                    && row.gap < 0.6 + self.leading
                    && above.x1 - above.x0 > 0.6 * width.min(above.x1 + 40.0)
                    && above.words >= 8
                    && !is_finished(above.text)
                    && row.x0 < above.x0 + row.size
                    && !above.table
                    // Rows of contents without page numbers.
                    && !(item_grammar::parse_heading(row.text).is_some() && item_grammar::parse_heading(above.text).is_some())
            });
            let long =
                row.words as usize > MAX_TITLE_WORDS || (row.words > 12 && row.text.ends_with('.'));
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
                ((row.y0 - y1) / row.size.max(4.0)).clamp(-1.0, 9.0)
            }
            _ => 9.0,
        };
        above = Some((row.y0, row.y1));
        rows.push(row);
    }
}

fn read_line(page: usize, line: usize, source: &Line) -> LineFeatures<'_> {
    let text = titles::truncate_bytes(source.text.trim(), MAX_LINE_BYTES);
    let style = source.style();
    let rect = source.rect;
    // Small capitals: the largest size in the line is the size of its letters.
    let largest = source
        .runs
        .iter()
        .map(|run| run.size.points())
        .fold(0.0, f32::max);
    let size = if largest < 2.0 {
        (rect.height() * 0.85).clamp(4.0, 40.0)
    } else {
        largest
    };
    let (cells, figures, first) = cells(source, size);
    let titled = cells >= 2 && is_titled(source, first);
    let style = if titled { source.runs[0] } else { style };
    let letters = text.chars().take(200).filter(|c| c.is_alphabetic());
    let (upper, lower) = letters.fold((0, 0), |(upper, lower), c| {
        (
            upper + usize::from(c.is_uppercase()),
            lower + usize::from(c.is_lowercase()),
        )
    });
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
        italic: style.italic,
        caps: upper >= 4 && lower * 8 <= upper,
        centered: false,
        words: u16::try_from(titles::word_count(text)).unwrap_or(u16::MAX),
        cells,
        figures,
        titled,
        gap: 9.0,
        running: source.is_furniture(),
        prose: false,
        table: false,
    }
}

/// How many cells a line has, whether one behind the first holds a figure, and where the first ends.
fn cells(line: &Line, size: f32) -> (u16, bool, usize) {
    let mut count = 1u16;
    let mut figures = false;
    let mut first = usize::MAX;
    for pair in line.words.windows(2).take(200) {
        let apart = pair[1].x0.points() - pair[0].x1.points() > (1.6 * size).max(9.0);
        count = count.saturating_add(u16::from(apart));
        if apart && count == 2 {
            first = pair[0].end as usize;
        }
        let word = line
            .text
            .get(pair[1].start as usize..pair[1].end as usize)
            .unwrap_or("");
        figures |= count > 1 && is_figure(word);
    }
    (count, figures, first)
}

/// Whether the first cell, up to byte `end`, is marked and larger than all behind it.
fn is_titled(line: &Line, end: usize) -> bool {
    let Some((first, rest)) = line.runs.split_first() else {
        return false;
    };
    (first.bold || first.italic)
        && first.end as usize + 1 >= end
        && !rest.is_empty()
        && rest
            .iter()
            .all(|run: &StyleRun| run.size.points() + 0.9 < first.size.points())
}

/// Whether a line ends a sentence; the number of a footnote may stand behind its full stop.
pub(super) fn is_finished(text: &str) -> bool {
    let end =
        text.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '”' | '"' | ')' | ']'));
    end.ends_with(['.', ':', '?', '!', ';', '。', '；', '：', '？', '！'])
}

/// `1,234`, `(5.6)%`, `$`, `—`.
fn is_figure(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let other = word.chars().filter(|c| c.is_alphabetic()).count();
    (digits > 0 && other == 0) || matches!(word, "$" | "—" | "–" | "%" | "€" | "£" | "¥")
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
        let sheet = LineTable::new(doc.pages(&source));
        assert_eq!(sheet.body, 10.0);
        assert!(
            sheet
                .rows
                .iter()
                .filter(|row| row.text.starts_with("Revenue"))
                .all(|row| row.table)
        );
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
        let sheet = LineTable::new(doc.pages(&source));
        let running = |text: &str| {
            sheet
                .rows
                .iter()
                .filter(|r| r.text.starts_with(text))
                .all(|r| r.running)
        };
        assert!(running("PART I") && running("3") && !running("Overview"));
        let overview = sheet
            .rows
            .iter()
            .position(|row| row.text == "Overview")
            .unwrap();
        assert!(sheet.starts_page(overview));
    }
}

//! Finds and reads printed tables of contents.

use std::collections::BTreeSet;

use stemma_document::Destination;
use stemma_reading::letters::is_small;
use stemma_reading::vocabulary::{CONTENTS_COLUMNS, LIST_TITLES};

use super::item_grammar::parse_heading;
use super::line_features::{LineFeatures, LineTable};
use super::numbering::{self, NumberClass};
use super::page_labels::SeriesLabel;
use super::titles;
use super::weights::TITLE_GAP;

/// An entry of a table of contents; a wrapped title joins several rows.
#[derive(Debug, Clone)]
pub(super) struct ContentsRow {
    pub(super) title: String,
    pub(super) label: Option<SeriesLabel>,
    pub(super) printed: Option<String>,
    pub(super) target: Option<Destination>,
    pub(super) indent: f32,
    pub(super) bold: bool,
    pub(super) centered: bool,
    /// First and last row of the entry.
    pub(super) rows: (usize, usize),
}

#[derive(Debug, Clone)]
pub(super) struct TableOfContents {
    /// Row of its heading.
    pub(super) title: Option<usize>,
    pub(super) entries: Vec<ContentsRow>,
    /// First and last row of the table.
    pub(super) rows: (usize, usize),
}

impl TableOfContents {
    /// Whether no entry has a label or a link.
    pub(super) fn is_bare(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| entry.label.is_none() && entry.target.is_none())
    }
}

// Lines of prose that are enough to find the right margin.
const PROSE_ROWS: usize = 200;

/// Finds the first table of contents that begins on the first `look_at` of `pages` (from 0), ignoring `excluded` rows.
pub(super) fn find_toc(
    lines: &LineTable<'_>,
    pages: std::ops::Range<usize>,
    look_at: usize,
    links: &[Option<Destination>],
    excluded: &[bool],
) -> Option<TableOfContents> {
    let reader = TocReader {
        lines,
        links,
        excluded,
        last_label: max_label(lines),
    };
    let mut window = pages.start..pages.end.min(pages.start + look_at);
    let first = window.find(|page| reader.last_label_on(*page, None).is_some())?;
    let mut last = first;
    let mut end = reader.last_label_on(first, None)?;
    while last + 1 < pages.end && last < first + 40 {
        let Some(more) = reader.last_label_on(last + 1, Some(end)) else {
            break;
        };
        (last, end) = (last + 1, more);
    }
    reader.read_toc(first, last)
}

// Larger numbers at the end of a row are years and amounts. A file may lack up to 60 of the printed pages.
fn max_label(lines: &LineTable<'_>) -> u32 {
    lines.pages() as u32 + 60
}

/// Whether a line consists of two or more page labels.
fn is_row_of_labels(text: &str) -> bool {
    text.split_whitespace().count() >= 2
        && text
            .split_whitespace()
            .all(|word| SeriesLabel::parse(word).is_some())
}

/// A row split into title, page label and leaders.
struct TocLine<'a> {
    at: usize,
    title: &'a str,
    label: Option<(SeriesLabel, &'a str)>,
    leaders: bool,
    target: Option<Destination>,
}

struct TocReader<'s, 'a> {
    lines: &'s LineTable<'a>,
    links: &'s [Option<Destination>],
    /// Rows known to be something else.
    excluded: &'s [bool],
    /// The largest arabic label that can be a page.
    last_label: u32,
}

impl<'a> TocReader<'_, 'a> {
    fn toc_line(&self, at: usize) -> Option<TocLine<'a>> {
        let row = &self.lines.rows[at];
        if self.excluded[at] || row.running || row.key.is_empty() && !row.text.contains("..") {
            return None;
        }
        let (title, label, leaders) = split_label(row.text);
        let label = label.filter(|(label, _)| label.number <= self.last_label);
        let title = if label.is_some() || leaders {
            title
        } else {
            row.text
        };
        Some(TocLine {
            at,
            title,
            label,
            leaders,
            target: self.links.get(at).copied().flatten(),
        })
    }

    /// The largest label on a page that is a table of contents, or that continues one which ended with label `before`.
    // Contents, tables of figures and indexes all have rows that end in numbers. What tells contents apart: the numbers
    // rise, leaders or links precede them, and the rows are neither prose nor have many cells. How much of this is
    // required depends on what is known already: least on a page that continues a table, most on one without a heading.
    fn last_label_on(&self, page: usize, before: Option<u32>) -> Option<u32> {
        let pieces: Vec<TocLine<'_>> = self
            .lines
            .rows_on(page)
            .filter_map(|at| self.toc_line(at))
            .collect();
        let titled = pieces
            .iter()
            .take(12)
            .position(|p| titles::is_toc_title(&self.lines.rows[p.at].key))
            .filter(|_| before.is_none());
        let body = &pieces[titled.map_or(0, |at| at + 1)..];
        let entries = body
            .iter()
            .filter(|p| p.label.is_some() || p.target.is_some())
            .count();
        let labels: Vec<u32> = body
            .iter()
            .filter_map(|p| p.label.as_ref())
            .filter(|(l, _)| l.series.is_empty())
            .map(|(l, _)| l.number)
            .collect();
        let rising = labels.windows(2).filter(|pair| pair[0] <= pair[1]).count();
        // Some labels are misread or out of order, so 60 % of rising steps are enough.
        let monotone = labels.len() < 2 || rising * 10 >= (labels.len() - 1) * 6;
        let leaders = body.iter().filter(|p| p.leaders).count() * 2 >= entries;
        let linked = body.iter().filter(|p| p.target.is_some()).count() * 2 >= entries;
        let dense = entries * 10 >= body.len() * 4;
        let prose = body
            .iter()
            .filter(|p| self.lines.rows[p.at].prose && !p.leaders && p.target.is_none())
            .count();
        let tabular = body
            .iter()
            .filter(|p| self.lines.rows[p.at].cells >= 4)
            .count()
            * 5
            > body.len().max(1);
        let last = labels.iter().copied().max().unwrap_or(0);
        let yes = match before {
            Some(_) if tabular || prose * 3 > body.len() => false,
            Some(before) => {
                let goes_on =
                    labels.first().is_some_and(|first| *first + 1 >= before) && labels.len() >= 2;
                entries >= 2 && dense && monotone && (leaders || linked || goes_on)
            }
            None if titled.is_some() => {
                // A heading that says `contents` over a list without any labels or links.
                let bare = body.len() >= 4 && prose * 10 <= body.len() && !tabular && entries == 0;
                (entries >= 3 && monotone && entries * 10 >= body.len() * 2) || bare
            }
            None => {
                entries >= 6
                    && dense
                    && monotone
                    && (leaders || linked)
                    && !tabular
                    && prose * 5 <= body.len()
            }
        };
        yes.then_some(last.max(before.unwrap_or(0)))
    }

    fn read_toc(&self, first: usize, last: usize) -> Option<TableOfContents> {
        let rows = self.lines.rows_on(first).start..self.lines.rows_on(last).end;
        let title = rows
            .clone()
            .filter(|at| !self.excluded[*at] && !self.lines.rows[*at].running)
            .take(14)
            .find(|at| titles::is_toc_title(&self.lines.rows[*at].key));
        let start = title.map_or(rows.start, |at| at + 1);
        let mut pieces: Vec<TocLine<'_>> = (start..rows.end)
            .filter_map(|at| self.toc_line(at))
            .collect();
        self.drop_stray_labels(&mut pieces);
        pieces.truncate(body_start(&pieces));
        let end = pieces
            .iter()
            .rposition(|p| p.label.is_some() || p.target.is_some())
            .map_or(pieces.len(), |at| at + 1);
        pieces.truncate(end.max(if end == pieces.len() { end } else { 0 }));
        // Numbers of several entries on one line: the contents have columns, and their titles are joined across them.
        let numbers = pieces
            .iter()
            .filter(|p| is_row_of_labels(self.lines.rows[p.at].text));
        if numbers.count() >= 2 {
            return None;
        }
        let bounds = (title.unwrap_or(pieces.first()?.at), pieces.last()?.at);
        let entries = self.join_rows(pieces);
        (entries.len() >= 2).then_some(TableOfContents {
            title,
            entries,
            rows: bounds,
        })
    }

    /// Removes numbers at the end of titles (`December 31`) that are not in the column of labels.
    fn drop_stray_labels(&self, pieces: &mut [TocLine<'a>]) {
        let mut edges: Vec<f32> = pieces
            .iter()
            .filter(|p| p.label.is_some())
            .map(|p| self.lines.rows[p.at].x1)
            .collect();
        edges.sort_by(f32::total_cmp);
        let Some(edge) = edges.get(edges.len() / 2).copied() else {
            return;
        };
        for piece in pieces
            .iter_mut()
            .filter(|p| p.label.is_some() && !p.leaders)
        {
            if (self.lines.rows[piece.at].x1 - edge).abs() > 30.0 {
                piece.label = None;
                piece.title = self.lines.rows[piece.at].text;
            }
        }
    }

    /// Joins rows of wrapped titles; skips column heads and lists of figures and tables.
    fn join_rows(&self, pieces: Vec<TocLine<'_>>) -> Vec<ContentsRow> {
        let full = self.wrap_edge(&pieces);
        let mut entries: Vec<ContentsRow> = Vec::new();
        let mut listing = false;
        for piece in pieces {
            let row = &self.lines.rows[piece.at];
            let key = titles::normalize_key(piece.title);
            if titles::is_toc_title(&key)
                || (CONTENTS_COLUMNS.contains(key.as_str()) && piece.target.is_none())
            {
                listing = false;
                continue;
            }
            listing |= LIST_TITLES.contains(key.as_str());
            let figure = numbering::first_number(piece.title)
                .is_some_and(|n| n.class == NumberClass::Figure);
            if listing
                || figure
                || !key.chars().any(char::is_alphabetic) && !row.text.contains("Item")
            {
                continue;
            }
            match entries
                .last_mut()
                .filter(|last| self.continues_row(last, &piece, full))
            {
                Some(last) => {
                    last.title = strip_page_word(&format!("{} {}", last.title, piece.title));
                    last.target = last.target.or(piece.target);
                    if let Some((label, printed)) = piece.label {
                        (last.label, last.printed) = (Some(label), Some(printed.to_string()));
                    }
                    last.rows.1 = piece.at;
                }
                None => entries.push(contents_row(row, &piece)),
            }
        }
        entries.retain(|entry| !entry.title.is_empty());
        entries
    }

    /// The x position in points that the row of a wrapped title reaches.
    // A title wraps only when it runs out of space. With labels that is well before their column; without labels it is
    // near the right margin of paragraphs.
    fn wrap_edge(&self, pieces: &[TocLine<'_>]) -> f32 {
        let listed = pieces
            .iter()
            .map(|piece| self.lines.rows[piece.at].x1)
            .fold(0.0, f32::max);
        if pieces
            .iter()
            .any(|piece| piece.label.is_some() || piece.leaders)
        {
            return 0.62 * listed;
        }
        let prose = self
            .lines
            .rows
            .iter()
            .filter(|row| row.prose && row.cells == 1)
            .take(PROSE_ROWS);
        0.8 * prose.map(|row| row.x1).fold(listed, f32::max)
    }

    // A row continues the entry above if that entry lacks its label, is close, and looks unfinished: it reaches the
    // wrap edge, the row starts in lower case, or the entry is a number alone. Two links or a number of its own make the
    // row a new entry.
    fn continues_row(&self, last: &ContentsRow, piece: &TocLine<'_>, full: f32) -> bool {
        let above = &self.lines.rows[last.rows.1];
        let row = &self.lines.rows[piece.at];
        let other_target = matches!((last.target, piece.target), (Some(a), Some(b)) if a != b);
        let close = above.page == row.page && row.gap < 1.0;
        let number_alone = parse_heading(&last.title).is_some_and(|head| head.rest.is_empty())
            || numbering::first_number(&last.title).is_some_and(|n| n.rest.is_empty());
        let near =
            above.page == row.page && row.gap < TITLE_GAP && number_alone && last.label.is_none();
        if !(close || near) || other_target || last.title.len() > 300 {
            return false;
        }
        let lower = piece.title.starts_with(is_small);
        if last.label.is_some() {
            return piece.label.is_none() && lower;
        }
        let numbered =
            numbering::first_number(piece.title).is_some() || parse_heading(piece.title).is_some();
        let wide = above.x1 > full && row.x0 >= above.x0 - 2.0;
        let follows_number = number_alone && above.centered == row.centered;
        !numbered && ((close && (lower || wide)) || follows_number)
    }
}

/// Where an Item of the list comes a second time, as a heading: the body of a filing may begin on the page of its contents.
fn body_start(pieces: &[TocLine<'_>]) -> usize {
    let mut listed = BTreeSet::new();
    let again = pieces.iter().position(|piece| {
        let is_item = parse_heading(piece.title)
            .is_some_and(|head| !head.rest.is_empty() && !head.tags.is_empty());
        is_item
            && !listed.insert(titles::normalize_key(piece.title))
            && piece.label.is_none()
            && piece.target.is_none()
    });
    let Some(again) = again else {
        return pieces.len();
    };
    let is_part =
        |piece: &TocLine<'_>| parse_heading(piece.title).is_some_and(|head| head.tags.is_empty());
    let parts = pieces[..again]
        .iter()
        .rev()
        .take_while(|piece| is_part(piece));
    again - parts.count()
}

fn contents_row(row: &LineFeatures<'_>, piece: &TocLine<'_>) -> ContentsRow {
    ContentsRow {
        title: strip_page_word(piece.title),
        label: piece.label.as_ref().map(|(label, _)| label.clone()),
        printed: piece
            .label
            .as_ref()
            .map(|(_, printed)| (*printed).to_string()),
        target: piece.target,
        indent: row.x0,
        bold: row.bold,
        centered: row.centered,
        rows: (piece.at, piece.at),
    }
}

/// Removes the column word `Page` from the end of a title.
fn strip_page_word(title: &str) -> String {
    let title = titles::fold_whitespace(title);
    match title
        .strip_suffix(" Page")
        .or_else(|| title.strip_suffix(" PAGE"))
    {
        Some(front) if front.len() > 3 => front.to_string(),
        _ => title,
    }
}

/// Splits a row into title and page label, and tells whether leaders are between them.
// Works from the right in one pass: a row of 400,000 dots must not cost more than reading it.
fn split_label(text: &str) -> (&str, Option<(SeriesLabel, &str)>, bool) {
    let end = text.trim_end();
    let start = end
        .rfind(|c: char| c.is_whitespace() || matches!(c, '.' | '…' | '⋯' | '·' | '_' | '\u{f0b7}'))
        .map_or(0, |at| {
            at + end[at..].chars().next().map_or(1, char::len_utf8)
        });
    let token = &end[start..];
    // Of a range of pages the first counts. `F-12` is not a range.
    let first = token.split(['–', '—', ',']).next().unwrap_or(token);
    let first = match first.split_once('-') {
        Some((low, high))
            if low.bytes().all(|b| b.is_ascii_digit())
                && high.bytes().all(|b| b.is_ascii_digit()) =>
        {
            low
        }
        _ => first,
    };
    let front = end[..start].trim_end();
    let title = front.trim_end_matches(|c: char| {
        c.is_whitespace() || matches!(c, '.' | '…' | '⋯' | '·' | '_' | '\u{f0b7}')
    });
    let filler = &front[title.len()..];
    let leaders = filler
        .chars()
        .filter(|c| !c.is_whitespace())
        .take(4)
        .count()
        >= 3
        || filler.contains(['…', '⋯']);
    let label = SeriesLabel::parse(first).map(|label| (label, first));
    let lettered = title.chars().filter(|c| c.is_alphabetic()).take(2).count() == 2;
    match label {
        Some(label) if lettered => (if leaders { title } else { front }, Some(label), leaders),
        _ if token.is_empty() || leaders => (title, None, leaders),
        _ => (text, None, false),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line};
    use super::*;

    #[test]
    fn page_labels_are_split_from_rows() {
        for (text, title, label) in [
            ("Overview ........ 12", "Overview", Some("12")),
            ("Overview........12", "Overview", Some("12")),
            ("Item 1. Business 4", "Item 1. Business", Some("4")),
            (
                "Index to statements F-1",
                "Index to statements",
                Some("F-1"),
            ),
            ("Preface . . . . . xii", "Preface", Some("xii")),
            ("Risk Factors 12-15", "Risk Factors", Some("12")),
            ("Item 6. [Reserved]", "Item 6. [Reserved]", None),
        ] {
            let (parsed_title, printed, _) = split_label(text);
            assert_eq!(parsed_title, title, "{text}");
            assert_eq!(printed.map(|(_, printed)| printed), label, "{text}");
        }
    }

    #[test]
    fn contents_end_where_the_body_begins_on_their_page() {
        let mut doc = Doc::new(9);
        let items = [
            ("PART I. FINANCIAL INFORMATION", 1),
            ("Item 1. Financial Statements", 1),
            ("Item 2. Management's Discussion and Analysis", 3),
            ("Item 4. Controls and Procedures", 4),
            ("PART II. OTHER INFORMATION", 5),
            ("Item 1A. Risk Factors", 6),
            ("Item 6. Exhibits", 7),
        ];
        doc.add(1, line("TABLE OF CONTENTS").bold());
        for (title, page) in items {
            doc.add(
                1,
                line(&format!("{title} {} {page}", ".".repeat(64 - title.len()))),
            );
        }
        for (title, page) in items {
            doc.add(page, line(title).bold());
            if title.starts_with("Item 1.") {
                // Figures in the column of the page numbers.
                for figure in ["8", "9"] {
                    let row = "Net sales of anvils and hammers to the shops of the land";
                    doc.add(page, line(row).cells(&[figure]));
                }
            } else if !title.starts_with("PART") {
                doc.prose(page, 10.0, 20);
            }
        }
        let listed: Vec<String> = titles_of(&doc)
            .into_iter()
            .map(|(title, _)| title)
            .collect();
        assert_eq!(listed, items.map(|(title, _)| title));
    }

    #[test]
    fn long_leaders_are_linear() {
        let text = format!("Title {} 7", ".".repeat(400_000));
        assert_eq!(split_label(&text).0, "Title");
    }

    fn titles_of(doc: &Doc) -> Vec<(String, Option<u32>)> {
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        let rows = lines.rows.len();
        let contents = find_toc(
            &lines,
            0..lines.pages(),
            20,
            &vec![None; rows],
            &vec![false; rows],
        );
        let entries = contents
            .map(|contents| contents.entries)
            .unwrap_or_default();
        entries
            .into_iter()
            .map(|entry| (entry.title, entry.label.map(|label| label.number)))
            .collect()
    }

    #[test]
    fn wrapped_titles_join_and_figure_lists_are_skipped() {
        let mut doc = Doc::new(30);
        doc.add(0, line("Contents").size(16.0).bold());
        doc.add(0, line("1 Overview of a company that makes goods and has a title which goes on and on ... 3"));
        doc.add(
            0,
            line("2 Changes in and disagreements with accountants on accounting and on financial"),
        );
        doc.add(
            0,
            line("disclosure ............................................................ 9")
                .indent(12.0),
        );
        doc.add(
            0,
            line("3 Results ................................................................. 12"),
        );
        doc.add(0, line("List of Figures").bold());
        doc.add(
            0,
            line("Figure 1 Sales ............................................................ 13"),
        );
        let titles = titles_of(&doc);
        assert_eq!(titles.len(), 3);
        assert!(titles[1].0.ends_with("financial disclosure"));
        assert_eq!(
            titles.iter().map(|t| t.1).collect::<Vec<_>>(),
            [Some(3), Some(9), Some(12)]
        );
    }

    #[test]
    fn page_of_figures_is_not_a_toc() {
        let mut doc = Doc::new(10);
        doc.add(0, line("Balance sheet").size(16.0).bold());
        for amount in ["10", "7", "30", "2", "8", "1", "12", "4"] {
            doc.add(0, line("Cash and other things").cells(&[amount]));
        }
        assert!(titles_of(&doc).is_empty());
    }
}

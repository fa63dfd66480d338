//! What the lines around a table say: title, unit, scale, and whether it goes on from the page before.

use std::ops::Range;

use stemma_document::Page;
use stemma_document::note_marks::without_raised;

use crate::numbers::{declares_currency, scales};
use crate::period::is_only_period;
use crate::sentences::{is_full_stop, is_pause};
use crate::tables::grid::GridTable;
use crate::tables::page::TablePage;
use crate::tables::table::FigureTable;
use crate::vocabulary::CONTINUATION_MARKS;

// Lines above the first row in which unit and title are looked for.
const MAX_LINES_ABOVE: usize = 12;
// Lines between a table and the edge of its page, such as a running head, beyond which the table does not go on.
const MAX_LINES_AT_EDGES: usize = 4;
// A longer line above a table is text, not its title.
const MAX_TITLE_CHARS: usize = 120;

impl GridTable {
    // What the lines around it say: title, unit and scale.
    pub(crate) fn read_surroundings(&mut self, lines: &TablePage<'_>, page: &Page) {
        let first = self.first.1;
        let above = (first.saturating_sub(MAX_LINES_ABOVE)..first)
            .rev()
            .filter(|at| page.lines.get(*at).is_some_and(|line| !line.is_furniture()))
            .take_while(|at| !lines.is_row(*at));
        let table = &mut self.table;
        if table.unit.is_none() {
            table.unit = above.clone().find_map(|at| unit_of(lines.text_of(at)));
        }
        if table.title.is_none() {
            let mut texts = above.map(|at| lines.text_of(at).trim());
            let title = texts.find(|text| is_title(text));
            table.title = title.map(|title| without_raised(title).trim().to_owned());
        }
        let own = scales(table.unit.as_deref().unwrap_or_default());
        table.scale = match own[..] {
            [] => single_scale(&lines.scales_above(first)),
            _ => single_scale(&own),
        };
    }

    // Whether it is the rest of a table with which the page before ends.
    pub(crate) fn continues(&self, above: &Self, pages: &[Page]) -> bool {
        let body = |page: usize, lines: Range<usize>| {
            let lines = pages.get(page).and_then(|page| page.lines.get(lines));
            let lines = lines.unwrap_or_default().iter();
            lines.filter(|line| !line.is_furniture()).count()
        };
        let lines_above = pages.get(above.last.0).map_or(0, |page| page.lines.len());
        let is_headless = !self.has_heads && above.has_heads;
        (is_headless || self.repeats_heads_of(above))
            && self.first.0 == above.last.0 + 1
            && self.table.columns.len() == above.table.columns.len()
            && body(self.first.0, 0..self.first.1) <= MAX_LINES_AT_EDGES
            && body(above.last.0, above.last.1 + 1..lines_above) <= MAX_LINES_AT_EDGES
    }

    // Whether it says that it goes on, below the same heads.
    fn repeats_heads_of(&self, above: &Self) -> bool {
        let title = self.table.title.as_deref().unwrap_or_default();
        let own = title.to_lowercase();
        let mark = CONTINUATION_MARKS.iter().find_map(|mark| own.find(mark));
        let before = mark.and_then(|at| title.get(..at)).map(str::trim);
        let heads = |table: &FigureTable| -> Vec<String> {
            table
                .columns
                .iter()
                .map(|column| column.head.clone())
                .collect()
        };
        before.is_some_and(|before| {
            let above = above.table.title.as_deref().unwrap_or_default();
            before == above || above.starts_with(&format!("{before} "))
        }) && heads(&self.table) == heads(&above.table)
    }

    pub(crate) fn append(&mut self, rest: Self) {
        self.last = rest.last;
        self.lines.extend(rest.lines);
        self.table.pages.1 = rest.table.pages.1;
        self.table.rows.extend(rest.table.rows);
    }

    pub(crate) fn finish(mut self, pages: &[Page]) -> Self {
        if let Some(page) = pages.get(self.last.0) {
            self.table.read_notes(page, self.last.1);
        }
        self
    }
}

fn single_scale(scales: &[u64]) -> Option<u64> {
    match scales {
        [scale] => Some(*scale),
        _ => None,
    }
}

// `(in millions, except per share data)`, `Dollars in thousands`.
pub(crate) fn unit_of(text: &str) -> Option<String> {
    (names_unit(text) && text.chars().count() <= MAX_TITLE_CHARS).then(|| {
        let inside = text.find('(').and_then(|open| {
            let close = text[open..].find(')')?;
            Some(&text[open..=open + close])
        });
        let with_unit = inside.filter(|part| names_unit(part));
        with_unit.unwrap_or(text).trim().to_owned()
    })
}

/// Whether a text is a unit and nothing else.
pub(crate) fn is_unit(text: &str) -> bool {
    unit_of(text).is_some_and(|unit| unit == text.trim() && unit.starts_with('('))
}

fn names_unit(text: &str) -> bool {
    !scales(text).is_empty() || declares_currency(text)
}

pub(crate) fn is_title(text: &str) -> bool {
    text.chars().any(char::is_alphabetic)
        && text.chars().count() <= MAX_TITLE_CHARS
        && !text.ends_with(|c| is_full_stop(c) || is_pause(c) || c == ':')
        && !text.starts_with('(')
        && unit_of(text).is_none_or(|unit| unit.len() < text.len())
        && !is_only_period(text)
}

//! Cells of a cross-reference index.

use stemma_document::Line;
use stemma_reading::vocabulary::{
    DOCUMENTS_ELSEWHERE, EMPTY_ANSWERS, INDEX_COLUMNS, INDEX_TITLES, OPEN_TITLE_ENDS,
};

use super::{IndexNote, IndexRow};
use crate::structure::line_cells::{are_apart, largest_size};
use crate::structure::line_features::LineFeatures;
use crate::structure::titles;

/// Edges of the title of an Item, to tell a wrapped title from a new row.
#[derive(Default)]
pub(super) struct TitleColumns {
    /// Left edge of the title.
    title: f32,
    /// Right edge of the title's cell.
    right: f32,
}

impl TitleColumns {
    pub(super) fn from_row(row: &LineFeatures<'_>, line: Option<&Line>) -> Self {
        let cells = line.map_or_else(Vec::new, cells);
        let number_alone =
            cells.len() > 1 && cells[0].1.chars().filter(|c| c.is_alphabetic()).count() <= 5;
        let title = cells
            .get(usize::from(number_alone))
            .map_or(row.x0, |cell| cell.0);
        Self {
            title,
            right: row.x1,
        }
    }

    pub(super) fn wraps(&self, entry: &IndexRow, x: f32, words: &str) -> bool {
        let own_row = !entry.titles.is_empty() || x > self.title + 60.0 || self.right == 0.0;
        let lower = words.starts_with(char::is_lowercase);
        !own_row && (lower || OPEN_TITLE_ENDS.ends(&entry.title))
    }
}

/// `A. History and development`, of Form 20-F.
pub(super) fn sub_item(text: &str) -> Option<(char, &str)> {
    let letter = text.chars().next().filter(|c| ('A'..='K').contains(c))?;
    let rest = text[1..]
        .strip_prefix(['.', ')', ' '])?
        .trim_start_matches(['.', ' ']);
    let titled = rest.starts_with(char::is_uppercase) && text[1..].starts_with(['.', ')']);
    titled.then_some((letter, rest))
}

pub(super) fn is_index_title(key: &str) -> bool {
    (key.contains("crossreference") && key.len() < 80) || INDEX_TITLES.contains(key)
}

pub(super) fn note_of(words: &str) -> Option<IndexNote> {
    let key = titles::normalize_key(words);

    if EMPTY_ANSWERS.contains(&key) {
        return Some(IndexNote::NotApplicable);
    }
    DOCUMENTS_ELSEWHERE
        .occurs_in(&key)
        .then_some(IndexNote::ByReference)
}

// `4-6*`: the text, and the mark of a footnote behind it.
pub(super) fn split_mark(cell: &str) -> (&str, &str) {
    let cell = cell.trim();
    let text = cell.trim_end_matches(['*', '†', '‡']);
    (text, &cell[text.len()..])
}

/// `(a)`, `*`, `†`, `(1)`.
pub(super) fn is_mark(words: &str) -> bool {
    let bracketed = words.starts_with('(') && words.ends_with(')') && words.len() <= 4;
    bracketed || matches!(words, "*" | "**" | "†" | "‡")
}

pub(super) fn is_column_word(words: &str) -> bool {
    INDEX_COLUMNS.contains(&titles::normalize_key(words))
}

/// Adds a title, or joins it to the one before if that wraps.
pub(super) fn add_title(titles: &mut Vec<String>, words: String) {
    let room = titles.len() < 64;
    match titles
        .last_mut()
        .filter(|last| words.starts_with(char::is_lowercase) && last.len() < 300)
    {
        Some(last) => *last = format!("{last} {words}"),
        None if room => titles.push(words),
        None => {}
    }
}

/// The cells of a line with their left edges, split at gaps wider than those between words.
pub(super) fn cells(line: &Line) -> Vec<(f32, &str)> {
    let size = largest_size(line);
    let mut cells = Vec::new();
    let mut start = 0;
    let words = &line.words[..line.words.len().min(400)];
    for at in 0..words.len() {
        let last = words
            .get(at + 1)
            .is_none_or(|next| are_apart(&words[at], next, size));
        if last {
            let text = line
                .text
                .get(words[start].start as usize..words[at].end as usize)
                .unwrap_or("");
            cells.push((words[start].x0.points(), text));
            start = at + 1;
        }
    }
    cells
}

//! Whether a statement names the rows that its figures are from, and not others of their tables.

use std::ops::Range;

use stemma_reading::period::head_period;
use stemma_reading::tables::FigureTable;
use stemma_reading::text_words::{blank, without_parentheses};
use stemma_reading::tokenizer::is_stop_word;
use stemma_reading::vocabulary::NEUTRAL_LABEL_WORDS;

use super::claim::{BoundFigure, ReadCell};
use super::meaning::is_measure;
use super::template::FilledText;
use super::words::Stems;

/// A statement, the figures of its placeholders, and the rows of all figures and inputs of formulas.
pub(crate) struct Labels<'s> {
    filled: &'s FilledText,
    statement: Stems,
    figures: Vec<Option<&'s BoundFigure>>,
    used: Vec<&'s ReadCell>,
}

// A label that the statement has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mention {
    stems: Vec<String>,
    at: Range<usize>,
}

impl Mention {
    fn is_within(&self, other: &Self) -> bool {
        other.at.start <= self.at.start && self.at.end <= other.at.end && other.at != self.at
    }
}

impl<'s> Labels<'s> {
    /// `figures` are those of the placeholders, in order.
    pub(crate) fn new(filled: &'s FilledText, figures: Vec<Option<&'s BoundFigure>>) -> Self {
        let placeholders = filled.figures.iter().chain(&filled.periods);
        let in_parentheses = parentheses(&filled.text);
        let hidden = placeholders.map(|(at, _)| at).chain(&in_parentheses);
        let bare = blank(&filled.text, hidden);
        let used = figures.iter().flatten().flat_map(|figure| &figure.cells);
        Self {
            filled,
            statement: Stems::new(&bare),
            used: used.collect(),
            figures,
        }
    }

    /// # Errors
    /// Names the row that the statement names in place of the one of figure number `index`, which is from `table`.
    pub(crate) fn check(&self, index: usize, table: &FigureTable) -> Result<(), String> {
        let Some(figure) = self.figures.get(index).copied().flatten() else {
            return Ok(());
        };
        let [cell] = &figure.cells[..] else {
            return Ok(());
        };
        let mentions = self.mentions(table);
        let own = label_stems(&cell.label);
        let differs = |mention: &Mention| {
            Err(format!(
                "{} is in the row \"{}\", and the statement names \"{}\"",
                figure.text,
                cell.label,
                self.filled.text.get(mention.at.clone()).unwrap_or_default()
            ))
        };
        self.check_group(cell, table)?;
        let before = self.before(index);
        let nearest: Vec<&Mention> = mentions
            .iter()
            .filter(|mention| before.start <= mention.at.start && mention.at.end <= before.end)
            .collect();
        if let Some(first) = nearest.first() {
            let is_named = nearest.iter().any(|mention| mention.stems == own);
            let is_enumerated = self.is_enumeration(index, &nearest, &mentions);
            if is_named && (!is_enumerated || first.stems == own) {
                return Ok(());
            }
            let other = nearest
                .iter()
                .find(|mention| mention.stems != own && (is_named || !self.is_input(mention)));
            return other.map_or(Ok(()), |other| differs(other));
        }
        if mentions.iter().any(|mention| mention.stems == own) {
            return Ok(());
        }
        let other = mentions.iter().find(|mention| !self.is_used(mention));
        other.map_or(Ok(()), differs)
    }

    /// # Errors
    /// Names a row of a table that the statement names, and no figure or input of a formula is from.
    pub(crate) fn check_rows(&self, table: &FigureTable) -> Result<(), String> {
        let mut figures = self.figures.iter().flatten();
        let is_result = figures.any(|figure| figure.is_computed());
        let mentions = self.mentions(table);
        let is_other = |mention: &&Mention| {
            !(self.is_used(mention) || is_result && is_measure(&mention.stems))
        };
        match mentions.iter().find(is_other) {
            None => Ok(()),
            Some(other) => Err(format!(
                "no figure is from the row \"{}\"",
                self.filled.text.get(other.at.clone()).unwrap_or_default()
            )),
        }
    }

    // The text between the figure before and this one.
    fn before(&self, index: usize) -> Range<usize> {
        let end = self.filled.figures.get(index).map_or(0, |(at, _)| at.start);
        let before = index
            .checked_sub(1)
            .and_then(|at| self.filled.figures.get(at));
        before.map_or(0, |(at, _)| at.end)..end
    }

    // `Sales and costs were 5 and 4`: the labels of several figures are before the first one.
    fn is_enumeration(&self, index: usize, nearest: &[&Mention], mentions: &[Mention]) -> bool {
        let labels: Vec<Vec<String>> = self
            .figures
            .iter()
            .skip(index)
            .take(nearest.len())
            .flatten()
            .flat_map(|figure| figure.cells.iter().map(|cell| label_stems(&cell.label)))
            .collect();
        let next = self.before(index + 1);
        let has_own = mentions
            .iter()
            .any(|mention| next.start <= mention.at.start && mention.at.end <= next.end);
        nearest.len() > 1
            && !has_own
            && nearest
                .iter()
                .all(|mention| labels.contains(&mention.stems))
    }

    fn is_used(&self, mention: &Mention) -> bool {
        self.used
            .iter()
            .any(|cell| label_stems(&cell.label) == mention.stems)
    }

    // Whether only an input of a formula has a label: `as a share of net sales`.
    fn is_input(&self, mention: &Mention) -> bool {
        let copied = self
            .figures
            .iter()
            .flatten()
            .filter(|figure| !figure.is_computed());
        let mut copied = copied.flat_map(|figure| &figure.cells);
        self.is_used(mention) && !copied.any(|cell| label_stems(&cell.label) == mention.stems)
    }

    // The labels of a table that the statement has; longer ones hide those inside of them.
    fn mentions(&self, table: &FigureTable) -> Vec<Mention> {
        let rows = table.rows.iter().map(|row| row.label.as_str());
        let heads = table.columns.iter().map(|column| column.head.as_str());
        let is_by_row = table
            .rows
            .iter()
            .all(|row| !head_period(&row.label).is_empty());
        let heads = heads.filter(|_| is_by_row);
        let mut mentions: Vec<Mention> = Vec::new();
        for label in rows.chain(heads) {
            let stems = label_stems(label);
            for at in self.positions_of(&stems) {
                let mention = Mention {
                    stems: stems.clone(),
                    at,
                };
                if !mentions.contains(&mention) {
                    mentions.push(mention);
                }
            }
        }
        let all = mentions.clone();
        mentions.retain(|one| !all.iter().any(|other| one.is_within(other)));
        mentions.sort_by_key(|mention| mention.at.start);
        mentions
    }

    fn positions_of(&self, stems: &[String]) -> Vec<Range<usize>> {
        self.statement.positions_of(stems)
    }

    // Of rows with one label in several groups, the statement may not name another group.
    fn check_group(&self, cell: &ReadCell, table: &FigureTable) -> Result<(), String> {
        let own = label_stems(&cell.group);
        if self.is_named(&own) {
            return Ok(());
        }
        let label = label_stems(&cell.label);
        let twins = table
            .rows
            .iter()
            .filter(|row| label_stems(&row.label) == label);
        let mut groups = twins.filter_map(|row| row.group.as_deref());
        let other = groups.find(|group| {
            let stems = label_stems(group);
            stems != own && self.is_named(&stems)
        });
        other.map_or(Ok(()), |other| {
            Err(format!(
                "\"{}\" is below another group than \"{other}\"",
                cell.label
            ))
        })
    }

    fn is_named(&self, stems: &[String]) -> bool {
        !self.positions_of(stems).is_empty()
    }
}

// Labels are compared without what is in parentheses.
fn parentheses(text: &str) -> Vec<Range<usize>> {
    let opens = text.match_indices('(').map(|(at, _)| at);
    opens
        .filter_map(|start| Some(start..start + text.get(start..)?.find(')')? + 1))
        .collect()
}

// The stems of a label; none for one that tells nothing, such as `Total` or `2022`.
fn label_stems(label: &str) -> Vec<String> {
    let stems: Vec<String> = Stems::new(&without_parentheses(label)).into_words();
    match stems.iter().any(|stem| tells(stem)) {
        true => stems,
        false => Vec::new(),
    }
}

fn tells(stem: &str) -> bool {
    !NEUTRAL_LABEL_WORDS.contains(stem)
        && !is_stop_word(stem)
        && stem.contains(char::is_alphabetic)
        && head_period(stem).is_empty()
}

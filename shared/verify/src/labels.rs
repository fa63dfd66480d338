//! Whether a statement names the rows that its figures are from, and not others of their tables.

use std::collections::BTreeSet;
use std::ops::Range;

use stemma_reading::period::head_period;
use stemma_reading::tables::FigureTable;
use stemma_reading::text_words::{blank, without_parentheses};
use stemma_reading::tokenizer::is_stop_word;
use stemma_reading::vocabulary::NEUTRAL_LABEL_WORDS;

use super::claim::{BoundFigure, ReadCell};
use super::meaning::{Term, lines_of};
use super::periods::name_of;
use super::template::FilledText;
use super::words::Stems;

// A label that the statement has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mention {
    stems: Vec<String>,
    at: Range<usize>,
}

/// `tables` are those that figures are from.
///
/// # Errors
/// Names a row that the statement names, and that no figure is from, or not the one next to it.
pub(crate) fn check_labels(filled: &FilledText<'_>, tables: &[&FigureTable]) -> Result<(), String> {
    let statement = Stems::new(&blank(&filled.bare, parentheses(&filled.bare).iter()));
    let figures = || filled.figures.iter().map(|placed| placed.figure);
    let cells: Vec<&ReadCell> = figures().flat_map(|figure| &figure.cells).collect();
    let used = cells
        .iter()
        .flat_map(|cell| [&cell.label, &cell.full_label]);
    let used: BTreeSet<Vec<String>> = used.map(|label| label_stems(label)).collect();
    let mut labels = used.clone();
    labels.extend(tables.iter().flat_map(|table| labels_of(table)));
    let mentions = mentions(&statement, &labels);
    let is_result = figures().any(BoundFigure::is_computed);
    let lines: Vec<Vec<&str>> = cells.iter().map(|cell| lines_of(&cell.label)).collect();
    let is_known = !lines.iter().any(Vec::is_empty) && !lines.is_empty();
    let lines = lines.concat();
    let other = mentions.iter().find(|Mention { stems, .. }| {
        let terms = Term::all().iter().filter(|term| term.stems == *stems);
        let is_measure = terms.clone().any(Term::is_measure);
        // A row may be named by another word, such as `capital expenditure`.
        let is_term = is_known && stems.len() > 1 && terms.clone().next().is_some();
        !(used.contains(stems) || is_result && is_measure)
            && (labels.contains(stems)
                || is_term && !terms.clone().any(|term| term.is_line_of(&lines)))
    });
    if let Some(other) = other {
        let label = &filled.text[other.at.clone()];
        return Err(format!("no figure is from the row \"{label}\""));
    }
    for cell in cells {
        check_group(&statement, cell, tables)?;
    }
    check_order(filled, &mentions)
}

// Each figure is next to the label of its row, or in the order of labels.
fn check_order(filled: &FilledText<'_>, mentions: &[Mention]) -> Result<(), String> {
    // Several rows are inputs of a formula: `as a share of net sales`.
    let of_row = filled.figures.iter().filter_map(|placed| {
        let [cell] = &placed.figure.cells[..] else {
            return None;
        };
        Some((placed, cell, label_stems(&cell.label)))
    });
    let of_row: Vec<_> = of_row.collect();
    let named: Vec<&Mention> = mentions
        .iter()
        .filter(|mention| of_row.iter().any(|(.., own)| *own == mention.stems))
        .collect();
    let names: Vec<Range<usize>> = named.iter().map(|mention| mention.at.clone()).collect();
    let places: Vec<Range<usize>> = of_row.iter().map(|(one, ..)| one.at.clone()).collect();
    let (Some(first), Some(last)) = (places.first(), places.last()) else {
        return Ok(());
    };
    let leads = names.first().is_some_and(|name| name.start < first.start);
    // `Sales and costs were 5 and 4.`
    let in_order = names.iter().all(|name| name.start < first.start)
        || names.iter().all(|name| name.start > last.start);
    for (index, (placed, cell, own)) in of_row.iter().enumerate() {
        let Some(at) = name_of(&places, &names, index, (leads, in_order)) else {
            continue;
        };
        // A row that is not named may go on from the one before: `net sales of 5, or 7 with services`.
        let before = index.checked_sub(1).map_or(0, |before| places[before].end);
        let is_next = (before..placed.at.start).contains(&names[at].start);
        let is_named = named.iter().any(|mention| mention.stems == *own);
        if named[at].stems != *own && (is_named || is_next) {
            let figure = &placed.figure.text;
            let label = &cell.label;
            let other = &filled.text[names[at].clone()];
            return Err(format!(
                "{figure} is in the row \"{label}\", and the statement names \"{other}\""
            ));
        }
    }
    Ok(())
}

// The labels of a table: of its rows, or of its columns where rows are periods.
fn labels_of(table: &FigureTable) -> Vec<Vec<String>> {
    let rows = || table.rows.iter().map(|row| row.label.as_str());
    let is_by_row = rows().all(|label| !head_period(label).is_empty());
    let heads = table.columns.iter().map(|column| column.head.as_str());
    let labels = rows().chain(heads.filter(|_| is_by_row));
    labels.map(label_stems).collect()
}

// The labels and terms that a statement has; longer ones hide those inside of them.
fn mentions(statement: &Stems, labels: &BTreeSet<Vec<String>>) -> Vec<Mention> {
    let terms = Term::all().iter().map(|term| &term.stems);
    let names: BTreeSet<&Vec<String>> = labels.iter().chain(terms).collect();
    let mut mentions: Vec<Mention> = Vec::new();
    for stems in names {
        let places = statement.positions_of(stems);
        mentions.extend(places.into_iter().map(|at| Mention {
            stems: stems.clone(),
            at,
        }));
    }
    let all = mentions.clone();
    mentions.retain(|one| {
        !all.iter().any(|other| {
            other.at.start <= one.at.start && one.at.end <= other.at.end && other.at != one.at
        })
    });
    mentions.sort_by_key(|mention| mention.at.start);
    mentions
}

// Of rows with one label in several groups, the statement may not name another group.
fn check_group(statement: &Stems, cell: &ReadCell, tables: &[&FigureTable]) -> Result<(), String> {
    let is_named = |stems: &[String]| !statement.positions_of(stems).is_empty();
    let own = label_stems(&cell.group);
    let label = label_stems(&cell.label);
    let table = tables.iter().find(|table| cell.is_in(table));
    let rows = table.into_iter().flat_map(|table| &table.rows);
    let mut groups = rows
        .filter(|row| label_stems(&row.label) == label)
        .filter_map(|row| row.group.as_deref());
    let other = groups.find(|group| {
        let stems = label_stems(group);
        stems != own && is_named(&stems) && !is_named(&own)
    });
    other.map_or(Ok(()), |other| {
        let label = &cell.label;
        Err(format!(
            "\"{label}\" is below another group than \"{other}\""
        ))
    })
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
    let stems = Stems::new(&without_parentheses(label)).into_words();
    let tells = stems.iter().any(|stem| {
        !NEUTRAL_LABEL_WORDS.contains(stem)
            && !is_stop_word(stem)
            && stem.contains(char::is_alphabetic)
            && head_period(stem).is_empty()
    });
    if tells { stems } else { Vec::new() }
}

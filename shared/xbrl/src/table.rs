//! The facts of a document in columns.

use std::collections::HashMap;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use stemma_document::{Defect, PageNo};

use crate::{Decimals, FactValue, Period, TaggedFact};

// Flags of a fact.
pub(crate) const NUMERIC: u8 = 1;
pub(crate) const NIL: u8 = 1 << 1;
pub(crate) const NEGATED: u8 = 1 << 2;
pub(crate) const HIDDEN: u8 = 1 << 3;
pub(crate) const UNREADABLE: u8 = 1 << 4;
pub(crate) const CUT: u8 = 1 << 5;

// `decimals` without the attribute, and for `INF`.
pub(crate) const NO_DECIMALS: i16 = i16::MIN;
pub(crate) const EXACT: i16 = i16::MAX;

/// What a fact is about: entity, period and dimensions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Context {
    pub(crate) entity: String,
    pub(crate) period: Period,
    pub(crate) dimensions: Vec<(String, String)>,
}

/// Texts one after the other, with their ends.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct TextColumn {
    text: String,
    ends: Vec<u32>,
}

impl TextColumn {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends
            .push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    fn get(&self, row: usize) -> &str {
        let start = row
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied()
            .unwrap_or(0);
        let end = self.ends.get(row).copied().unwrap_or(start);
        self.text
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }

    fn is_consistent(&self, rows: usize) -> bool {
        self.ends.len() == rows
            && self.ends.is_sorted()
            && self
                .ends
                .iter()
                .all(|end| self.text.is_char_boundary(*end as usize))
    }
}

/// A part of a text fact that goes on elsewhere in the file (`ix:continuation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextPart {
    /// Row of the fact.
    pub fact: u32,
    /// Offset of the tag in the file.
    pub byte: u32,
    /// Offset behind the closing tag.
    pub end: u32,
}

/// The facts of a document in columns, in the order of the file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FactTable {
    pub(crate) concepts: Vec<String>,
    /// Label of each concept.
    pub(crate) labels: Vec<String>,
    pub(crate) contexts: Vec<Context>,
    pub(crate) units: Vec<String>,
    concept: Vec<u32>,
    context: Vec<u32>,
    // 0 for none, else one more than the index.
    unit: Vec<u32>,
    flags: Vec<u8>,
    // The number without its decimal point, and the digits behind the point.
    mantissa: Vec<i128>,
    fraction_digits: Vec<u8>,
    decimals: Vec<i16>,
    scale: Vec<i8>,
    byte: Vec<u32>,
    end: Vec<u32>,
    // 0 for none, else page number and one more than the index of the line.
    page: Vec<u32>,
    line: Vec<u32>,
    displayed: TextColumn,
    // Empty where it is the displayed text.
    text: TextColumn,
    pub(crate) parts: Vec<TextPart>,
    /// What could not be read.
    pub defects: Vec<Defect>,
}

/// A fact to append.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) concept: u32,
    pub(crate) context: u32,
    pub(crate) unit: Option<u32>,
    pub(crate) flags: u8,
    pub(crate) number: Option<Decimal>,
    pub(crate) decimals: i16,
    pub(crate) scale: i8,
    pub(crate) byte: u32,
    pub(crate) end: u32,
    pub(crate) displayed: String,
    pub(crate) text: Option<String>,
}

impl FactTable {
    /// Number of facts.
    pub fn len(&self) -> usize {
        self.concept.len()
    }

    pub fn is_empty(&self) -> bool {
        self.concept.is_empty()
    }

    /// All facts in the order of the file.
    pub fn facts(&self) -> impl ExactSizeIterator<Item = TaggedFact<'_>> {
        (0..self.len()).map(|row| self.fact(row))
    }

    /// Where text facts go on, in the order of their facts.
    pub fn parts(&self) -> &[TextPart] {
        &self.parts
    }

    /// Sets page and line of each fact. `place` returns the page (`None` in texts without pages) and the 0-based line.
    pub fn place(&mut self, place: impl Fn(&TaggedFact<'_>) -> Option<(Option<PageNo>, u32)>) {
        let places: Vec<Option<(Option<PageNo>, u32)>> =
            self.facts().map(|fact| place(&fact)).collect();
        self.page = places
            .iter()
            .map(|found| found.and_then(|(page, _)| page).map_or(0, PageNo::get))
            .collect();
        self.line = places
            .iter()
            .map(|found| found.map_or(0, |(_, line)| line.saturating_add(1)))
            .collect();
    }

    /// Moves all offsets: the file is a part of a larger one that begins there.
    pub fn move_by(&mut self, offset: u32) {
        let parts = self
            .parts
            .iter_mut()
            .flat_map(|part| [&mut part.byte, &mut part.end]);
        for byte in self.byte.iter_mut().chain(&mut self.end).chain(parts) {
            *byte = byte.saturating_add(offset);
        }
    }

    /// Replaces the labels of concepts that `labels` has, by their names with prefix.
    pub fn set_labels(&mut self, labels: &HashMap<String, String>) {
        for (concept, label) in self.concepts.iter().zip(&mut self.labels) {
            if let Some(stated) = labels.get(concept) {
                label.clone_from(stated);
            }
        }
    }

    pub(crate) fn push(&mut self, row: &Row) {
        let number = row.number.unwrap_or_default();
        self.concept.push(row.concept);
        self.context.push(row.context);
        self.unit.push(row.unit.map_or(0, |unit| unit + 1));
        self.flags.push(row.flags);
        self.mantissa.push(number.mantissa());
        self.fraction_digits
            .push(u8::try_from(number.scale()).unwrap_or_default());
        self.decimals.push(row.decimals);
        self.scale.push(row.scale);
        self.byte.push(row.byte);
        self.end.push(row.end);
        self.page.push(0);
        self.line.push(0);
        self.displayed.push(&row.displayed);
        self.text.push(row.text.as_deref().unwrap_or_default());
    }

    fn fact(&self, row: usize) -> TaggedFact<'_> {
        let context = &self.contexts[self.context[row] as usize];
        let concept = self.concept[row] as usize;
        let flags = self.flags[row];
        let displayed = self.displayed.get(row);
        TaggedFact {
            concept: &self.concepts[concept],
            label: &self.labels[concept],
            entity: &context.entity,
            period: context.period,
            unit: (self.unit[row] as usize)
                .checked_sub(1)
                .map(|unit| self.units[unit].as_str()),
            dimensions: &context.dimensions,
            value: self.value(row, displayed),
            displayed,
            decimals: match self.decimals[row] {
                NO_DECIMALS => None,
                EXACT => Some(Decimals::Exact),
                places => Some(Decimals::Places(places)),
            },
            scale: self.scale[row],
            is_negated: flags & NEGATED != 0,
            is_hidden: flags & HIDDEN != 0,
            is_cut: flags & CUT != 0,
            byte: self.byte[row],
            end: self.end[row],
            page: PageNo::new(self.page[row]),
            line: self.line[row].checked_sub(1),
        }
    }

    fn value<'a>(&'a self, row: usize, displayed: &'a str) -> FactValue<'a> {
        let flags = self.flags[row];
        if flags & NIL != 0 {
            return FactValue::Nil;
        }
        if flags & UNREADABLE != 0 {
            return FactValue::Unreadable;
        }
        if flags & NUMERIC != 0 {
            let digits = u32::from(self.fraction_digits[row]);
            return Decimal::try_from_i128_with_scale(self.mantissa[row], digits)
                .map_or(FactValue::Unreadable, FactValue::Number);
        }
        match self.text.get(row) {
            "" => FactValue::Text(displayed),
            text => FactValue::Text(text),
        }
    }

    // Whether all columns are equally long and refer to what exists.
    pub(crate) fn is_consistent(&self) -> bool {
        let rows = self.len();
        let within = |column: &[u32], count: usize| {
            column.len() == rows && column.iter().all(|index| (*index as usize) < count)
        };
        let lengths = [
            self.flags.len(),
            self.mantissa.len(),
            self.fraction_digits.len(),
            self.decimals.len(),
            self.scale.len(),
            self.byte.len(),
            self.end.len(),
            self.page.len(),
            self.line.len(),
        ];
        lengths.iter().all(|length| *length == rows)
            && self.labels.len() == self.concepts.len()
            && within(&self.concept, self.concepts.len())
            && within(&self.context, self.contexts.len())
            && within(&self.unit, self.units.len() + 1)
            && self.displayed.is_consistent(rows)
            && self.text.is_consistent(rows)
            && self.parts.iter().all(|part| (part.fact as usize) < rows)
    }
}

//! Facts with their contexts, units and continuations as a table.

use std::collections::HashMap;

use rust_decimal::Decimal;

use super::defects::DefectLog;
use super::elements::{Continuation, Elements, Format, OpenFact};
use super::header::Header;
use super::text::{Collapsed, MAX_TEXT_BYTES, push_collapsed};
use crate::concept_words;
use crate::table::{CUT, Context, FactTable, NEGATED, NIL, NUMERIC, Row, TextPart, UNREADABLE};
use crate::transform::{TransformError, plain_number, transform};

pub(super) fn assemble(header: Header, elements: Elements, defects: DefectLog) -> FactTable {
    let mut assembly = Assembly {
        header,
        continuations: elements.continuations,
        defects,
        table: FactTable::default(),
        concepts: HashMap::new(),
        contexts: HashMap::new(),
        context_ids: HashMap::new(),
        units: HashMap::new(),
    };
    for fact in elements.facts {
        // A fact without an end tag.
        if fact.end > 0 {
            assembly.add(fact);
        }
    }
    for first in elements.footnotes {
        let mut next = Some(first);
        while let Some(part) = next.and_then(|id| assembly.continuations.remove(&id)) {
            next = part.continued_at;
        }
    }
    if !assembly.continuations.is_empty() {
        assembly
            .defects
            .record("xbrl.continuation", "a continuation belongs to no fact");
    }
    let mut table = assembly.table;
    table.labels = table
        .concepts
        .iter()
        .map(|concept| concept_words(concept))
        .collect();
    table.defects = assembly.defects.into_defects();
    table
}

struct Assembly {
    header: Header,
    // Each is taken by the fact that it continues, so that a loop of them ends.
    continuations: HashMap<String, Continuation>,
    defects: DefectLog,
    table: FactTable,
    concepts: HashMap<String, u32>,
    contexts: HashMap<Context, u32>,
    context_ids: HashMap<String, u32>,
    units: HashMap<String, u32>,
}

impl Assembly {
    fn add(&mut self, fact: OpenFact) {
        let Some(context) = self.context(&fact.context_id) else {
            self.defects.record(
                "xbrl.context",
                "a fact names a context that the file does not have; it was left out",
            );
            return;
        };
        let unit = self.unit(&fact);
        let mut row = Row {
            context,
            unit,
            flags: fact.flags,
            decimals: fact.decimals,
            scale: fact.scale,
            byte: fact.byte,
            end: fact.end,
            ..Row::default()
        };
        let mut text = Collapsed {
            text: fact.displayed,
            is_cut: fact.is_cut,
        };
        if let Some(first) = fact.continued_at {
            self.follow(&mut text, first);
        }
        if text.is_cut {
            row.flags |= CUT;
        }
        if fact.flags & NIL == 0 {
            match value(&fact.format, fact.flags & NUMERIC != 0, &text.text) {
                Ok(value) if fact.flags & NUMERIC != 0 => {
                    match number(&value, fact.scale, fact.flags & NEGATED != 0) {
                        Some(number) => row.number = Some(number),
                        None => {
                            row.flags |= UNREADABLE;
                            self.defects
                                .record("xbrl.value", "a number has more than 28 digits");
                        }
                    }
                }
                Ok(value) => row.text = (value != text.text).then_some(value),
                Err(error) => {
                    row.flags |= UNREADABLE;
                    self.record_unreadable(&fact.format, error);
                }
            }
        }
        row.displayed = text.text;
        row.concept = intern(&mut self.concepts, &mut self.table.concepts, fact.concept);
        self.table.push(&row);
    }

    // Contexts with other ids and the same content become one.
    fn context(&mut self, id: &str) -> Option<u32> {
        if let Some(at) = self.context_ids.get(id) {
            return Some(*at);
        }
        let context = self.header.contexts.get(id)?.clone();
        let at = intern(&mut self.contexts, &mut self.table.contexts, context);
        self.context_ids.insert(id.to_owned(), at);
        Some(at)
    }

    fn unit(&mut self, fact: &OpenFact) -> Option<u32> {
        let unit = fact
            .unit_id
            .as_ref()
            .and_then(|id| self.header.units.get(id))
            .cloned();
        if unit.is_none() && fact.flags & NUMERIC != 0 {
            self.defects.record(
                "xbrl.unit",
                "a number names a unit that the file does not have",
            );
        }
        unit.map(|unit| intern(&mut self.units, &mut self.table.units, unit))
    }

    // Appends the texts of a chain of continuations to that of the fact that is added next.
    fn follow(&mut self, text: &mut Collapsed, first: String) {
        let mut next = Some(first);
        let fact = u32::try_from(self.table.len()).unwrap_or(u32::MAX);
        while let Some(id) = next {
            let Some(part) = self.continuations.remove(&id) else {
                self.defects.record(
                    "xbrl.continuation",
                    "a fact goes on in a continuation that is missing or used already",
                );
                return;
            };
            self.table.parts.push(TextPart {
                fact,
                byte: part.byte,
                end: part.end,
            });
            push_collapsed(text, " ", MAX_TEXT_BYTES);
            push_collapsed(text, &part.text, MAX_TEXT_BYTES);
            text.is_cut |= part.is_cut;
            next = part.continued_at;
        }
        let trimmed = text.text.trim_end().len();
        text.text.truncate(trimmed);
    }

    fn record_unreadable(&mut self, format: &Format, error: TransformError) {
        let name = match format {
            Format::None => "no format".to_owned(),
            Format::Known(_, name) => format!("the format {name}"),
            Format::Unknown(name) => format!("the format {name}"),
        };
        match error {
            TransformError::UnknownFormat => {
                self.defects.record(
                    "xbrl.format_unknown",
                    &format!("a fact has {name}, which is not known; it has no value"),
                );
            }
            TransformError::WrongText => {
                self.defects.record(
                    "xbrl.value",
                    &format!("a fact with {name} has a text that does not fit; it has no value"),
                );
            }
        }
    }
}

fn value(format: &Format, is_numeric: bool, text: &str) -> Result<String, TransformError> {
    match format {
        Format::None if is_numeric => plain_number(text),
        Format::None => Ok(text.to_owned()),
        Format::Known(registry, name) => transform(*registry, name, text),
        Format::Unknown(_) => Err(TransformError::UnknownFormat),
    }
}

// The exact number, times ten to the power of `scale`.
fn number(value: &str, scale: i8, is_negated: bool) -> Option<Decimal> {
    let number = Decimal::from_str_exact(value).ok()?.normalize();
    let shifted = i32::try_from(number.scale()).ok()? - i32::from(scale);
    let mantissa = match u32::try_from(-shifted) {
        Ok(power) => number.mantissa().checked_mul(10_i128.checked_pow(power)?)?,
        Err(_) => number.mantissa(),
    };
    let digits = u32::try_from(shifted.max(0)).ok()?;
    let number = Decimal::try_from_i128_with_scale(mantissa, digits).ok()?;
    Some(if is_negated && !number.is_zero() {
        -number
    } else {
        number
    })
}

fn intern<T: Clone + Eq + std::hash::Hash>(
    index: &mut HashMap<T, u32>,
    values: &mut Vec<T>,
    value: T,
) -> u32 {
    if let Some(at) = index.get(&value) {
        return *at;
    }
    let at = u32::try_from(values.len()).unwrap_or(u32::MAX);
    values.push(value.clone());
    index.insert(value, at);
    at
}

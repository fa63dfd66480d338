//! Contexts and units.

use std::collections::HashMap;

use quick_xml::events::BytesStart;

use super::defects::DefectLog;
use super::entities::unescape;
use super::names::Names;
use crate::table::Context;
use crate::{Date, Period};

// The largest filings have some 20,000.
const MAX_CONTEXTS: usize = 200_000;
const MAX_UNITS: usize = 10_000;
const MAX_DIMENSIONS: usize = 64;
// Names and dates are shorter.
const MAX_FIELD_BYTES: usize = 1_000;

/// Contexts and units by their ids, from all headers of a file.
#[derive(Default)]
pub(super) struct Header {
    pub(super) contexts: HashMap<String, Context>,
    pub(super) units: HashMap<String, String>,
    context: Option<ContextFields>,
    unit: Option<UnitFields>,
    // The text of the field that is open.
    field: Option<String>,
}

#[derive(Default)]
struct ContextFields {
    id: String,
    entity: String,
    from: Option<String>,
    to: Option<String>,
    instant: Option<String>,
    is_forever: bool,
    // The axis whose member is open.
    axis: Option<String>,
    dimensions: Vec<(String, String)>,
}

#[derive(Default)]
struct UnitFields {
    id: String,
    numerator: Vec<String>,
    denominator: Vec<String>,
    is_denominator: bool,
}

impl Header {
    pub(super) fn start(&mut self, local: &str, tag: &BytesStart<'_>, names: &Names) {
        match local {
            "context" => {
                self.context = Some(ContextFields {
                    id: attribute(tag, "id"),
                    ..ContextFields::default()
                });
            }
            "unit" => {
                self.unit = Some(UnitFields {
                    id: attribute(tag, "id"),
                    ..UnitFields::default()
                });
            }
            "unitDenominator" => self.set_denominator(true),
            "unitNumerator" => self.set_denominator(false),
            "forever" => {
                if let Some(context) = &mut self.context {
                    context.is_forever = true;
                }
            }
            "explicitMember" | "typedMember" => {
                if let Some(context) = &mut self.context {
                    context.axis = Some(names.canonical(&attribute(tag, "dimension")));
                }
                self.field = Some(String::new());
            }
            "identifier" | "startDate" | "endDate" | "instant" | "measure" => {
                self.field = Some(String::new());
            }
            _ => {}
        }
    }

    fn set_denominator(&mut self, is_denominator: bool) {
        if let Some(unit) = &mut self.unit {
            unit.is_denominator = is_denominator;
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if let Some(field) = self
            .field
            .as_mut()
            .filter(|field| field.len() + text.len() <= MAX_FIELD_BYTES)
        {
            field.push_str(text);
        }
    }

    pub(super) fn end(&mut self, local: &str, names: &Names, defects: &mut DefectLog) {
        match local {
            "context" => self.end_context(defects),
            "unit" => self.end_unit(defects),
            _ => {
                if let Some(field) = self.field.take() {
                    self.end_field(local, field.trim(), names, defects);
                }
            }
        }
    }

    fn end_field(&mut self, local: &str, text: &str, names: &Names, defects: &mut DefectLog) {
        if let (Some(unit), "measure") = (&mut self.unit, local) {
            let measures = if unit.is_denominator {
                &mut unit.denominator
            } else {
                &mut unit.numerator
            };
            if measures.len() < MAX_DIMENSIONS {
                measures.push(text.to_owned());
            }
        }
        let Some(context) = &mut self.context else {
            return;
        };
        match local {
            "identifier" => context.entity = text.to_owned(),
            "startDate" => context.from = Some(text.to_owned()),
            "endDate" => context.to = Some(text.to_owned()),
            "instant" => context.instant = Some(text.to_owned()),
            "explicitMember" | "typedMember" => {
                let Some(axis) = context.axis.take() else {
                    return;
                };
                if context.dimensions.len() >= MAX_DIMENSIONS {
                    defects.record("xbrl.limit", "a context has more dimensions than are read");
                    return;
                }
                let member = if local == "explicitMember" {
                    names.canonical(text)
                } else {
                    text.to_owned()
                };
                context.dimensions.push((axis, member));
            }
            _ => {}
        }
    }

    fn end_context(&mut self, defects: &mut DefectLog) {
        let Some(mut fields) = self.context.take() else {
            return;
        };
        self.field = None;
        let period = match (&fields.instant, &fields.from, &fields.to) {
            (Some(day), None, None) => last_day(day).map(Period::Instant),
            (None, Some(from), Some(to)) => match (first_day(from), last_day(to)) {
                (Some(from), Some(to)) if from <= to => Some(Period::Duration { from, to }),
                _ => None,
            },
            (None, None, None) if fields.is_forever => Some(Period::Forever),
            _ => None,
        };
        let Some(period) = period else {
            defects.record(
                "xbrl.context",
                "a context has no readable period; its facts were left out",
            );
            return;
        };
        if self.contexts.len() >= MAX_CONTEXTS {
            defects.record(
                "xbrl.limit",
                &format!("only the first {MAX_CONTEXTS} contexts were read"),
            );
            return;
        }
        fields.dimensions.sort();
        let context = Context {
            entity: fields.entity,
            period,
            dimensions: fields.dimensions,
        };
        let before = self.contexts.get(&fields.id);
        if before.is_some_and(|before| *before != context) {
            defects.record(
                "xbrl.context",
                "two contexts have the same id; the first one counts",
            );
        } else if before.is_none() {
            self.contexts.insert(fields.id, context);
        }
    }

    fn end_unit(&mut self, defects: &mut DefectLog) {
        let Some(fields) = self.unit.take() else {
            return;
        };
        self.field = None;
        if fields.numerator.is_empty() || self.units.len() >= MAX_UNITS {
            defects.record(
                "xbrl.unit",
                "a unit has no measure, or the file has too many units",
            );
            return;
        }
        let mut unit = fields.numerator.join("*");
        if !fields.denominator.is_empty() {
            unit.push('/');
            unit.push_str(&fields.denominator.join("*"));
        }
        let before = self.units.get(&fields.id);
        if before.is_some_and(|before| *before != unit) {
            defects.record(
                "xbrl.unit",
                "two units have the same id; the first one counts",
            );
        } else if before.is_none() {
            self.units.insert(fields.id, unit);
        }
    }
}

// A day, or a time of it: `2024-12-31T00:00:00`.
fn first_day(text: &str) -> Option<Date> {
    let (day, _) = text.split_once('T').unwrap_or((text, ""));
    day.parse().ok()
}

// The end of a day. Midnight with a time is the end of the day before.
fn last_day(text: &str) -> Option<Date> {
    match text.split_once('T') {
        Some((day, time)) if time.starts_with("00:00:00") => {
            Some(day.parse::<Date>().ok()?.plus_days(-1))
        }
        Some((day, _)) => day.parse().ok(),
        None => text.parse().ok(),
    }
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> String {
    let found = tag
        .attributes()
        .with_checks(false)
        .flatten()
        .find(|attribute| attribute.key.as_ref() == name);
    found
        .map(|attribute| unescape(&attribute.value).trim().to_owned())
        .unwrap_or_default()
}

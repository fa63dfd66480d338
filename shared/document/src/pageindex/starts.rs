//! Reads where the nodes of a PageIndex tree start.

use serde_json::{Map, Value};

use crate::{Extent, PageNo, PageSpan, Position, Pt, SectionSpan};

// Larger page and line numbers are ignored.
const MAX_INDEX: u32 = 100_000_000;
const PAGE_KEYS: [&str; 4] = ["start_index", "physical_index", "page_index", "page"];

#[derive(Clone, Copy, PartialEq)]
enum PositionUnit {
    Pages,
    Lines,
    Nodes,
}

// Reads the starts of nodes in order.
pub(super) struct StartReader {
    unit: PositionUnit,
    last: (u32, u32),
    // `end_index` of the previous node.
    last_end: Option<u32>,
    max_start: u32,
}

impl StartReader {
    pub(super) fn new<'a>(
        objects: &(impl Iterator<Item = &'a Map<String, Value>> + Clone),
    ) -> Self {
        let units = [
            (&PAGE_KEYS[..], PositionUnit::Pages),
            (&["line_num"], PositionUnit::Lines),
        ];
        let unit = units
            .into_iter()
            .find(|(keys, _)| {
                objects
                    .clone()
                    .any(|object| find_index(object, keys).is_some())
            })
            .map_or(PositionUnit::Nodes, |(_, unit)| unit);
        Self {
            unit,
            last: (1, 0),
            last_end: None,
            max_start: 1,
        }
    }

    // Returns a span with only its start set, and whether the section starts its page.
    pub(super) fn next_span(
        &mut self,
        object: &Map<String, Value>,
        row: usize,
    ) -> (SectionSpan, bool) {
        let line = match self.unit {
            PositionUnit::Pages => return self.next_page_span(object),
            PositionUnit::Lines => find_index(object, &["line_num"]).unwrap_or(self.last.0),
            PositionUnit::Nodes => u32::try_from(row + 1).unwrap_or(u32::MAX),
        };
        self.last.0 = line.max(self.last.0);
        self.max_start = self.max_start.max(self.last.0);
        (
            SectionSpan::Lines {
                start: self.last.0,
                end: self.last.0,
            },
            true,
        )
    }

    fn next_page_span(&mut self, object: &Map<String, Value>) -> (SectionSpan, bool) {
        let claimed = find_index(object, &PAGE_KEYS).unwrap_or(self.last.0);
        let position = object.get("position").and_then(Value::as_object);
        let line = position
            .and_then(|position| find_index(position, &["line"]))
            .unwrap_or(0);
        let y = position
            .and_then(|position| position.get("y")?.as_f64())
            .unwrap_or(0.0);
        // Starts must not decrease in reading order, or ends would overlap.
        let start = (claimed, line).max(self.last);
        let page = PageNo::new(start.0).unwrap_or(PageNo::FIRST);
        let starts_page = match object.get("appear_start").and_then(Value::as_str) {
            Some(value) => value == "yes",
            // Without `appear_start`, the section starts its page if the previous one ends before it.
            None => self.last_end.is_none_or(|end| end < start.0),
        };
        self.last = start;
        self.last_end = find_index(object, &["end_index"]);
        self.max_start = self.max_start.max(start.0).max(self.last_end.unwrap_or(0));
        let from = Position {
            page,
            line: start.1,
            y: Pt::new(y as f32),
        };
        (
            SectionSpan::Pages {
                pages: PageSpan::between(page, page),
                from,
                to: None,
            },
            starts_page,
        )
    }

    pub(super) fn extent(&self, value: &Value) -> Extent {
        match self.unit {
            PositionUnit::Pages => Extent::Pages(self.max_start.max(count(value, "page_count"))),
            PositionUnit::Lines => Extent::Lines(self.max_start.max(count(value, "line_count"))),
            PositionUnit::Nodes => Extent::Lines(self.max_start),
        }
    }
}

// Accepts a number, a numeral, or `<physical_index_5>`.
pub(super) fn parse_index(value: &Value) -> Option<u32> {
    let number = match value {
        Value::Number(number) => number
            .as_u64()
            .or_else(|| number.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64)),
        Value::String(text) => {
            let text = text.trim().trim_start_matches('<').trim_end_matches('>');
            text.strip_prefix("physical_index_")
                .unwrap_or(text)
                .parse()
                .ok()
        }
        _ => None,
    };
    u32::try_from(number?)
        .ok()
        .filter(|number| *number <= MAX_INDEX)
}

fn find_index(object: &Map<String, Value>, keys: &[&str]) -> Option<u32> {
    keys.iter()
        .find_map(|key| object.get(*key).and_then(parse_index))
}

// The number that the document declares under `key`, or 0.
fn count(value: &Value, key: &str) -> u32 {
    value.get(key).and_then(parse_index).unwrap_or(0)
}

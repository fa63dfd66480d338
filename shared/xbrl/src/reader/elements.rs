//! Facts, continuations and exclusions while they are open.

use std::collections::HashMap;

use quick_xml::events::BytesStart;

use super::defects::DefectLog;
use super::entities::unescape;
use super::names::Names;
use super::text::TextBuffer;
use crate::table::{EXACT, HIDDEN, NEGATED, NIL, NO_DECIMALS, NUMERIC};
use crate::transform::Registry;

// Elements inside of each other. Text blocks of filings are nested some five deep.
const MAX_DEPTH: usize = 256;
// The largest filings have some 50,000.
const MAX_FACTS: usize = 1_000_000;
const MAX_CONTINUATIONS: usize = 200_000;
// `decimals` and `scale` beyond it are mistakes: values have at most 28 digits.
const MAX_EXPONENT: i16 = 30;

/// An element of inline XBRL with content that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    NonFraction,
    NonNumeric,
    Continuation,
    Exclude,
    Hidden,
    /// A quotient, which has no decimal value.
    Fraction,
    Footnote,
}

impl Element {
    pub(super) fn from_name(local: &str) -> Option<Self> {
        Some(match local {
            "nonFraction" => Self::NonFraction,
            "nonNumeric" => Self::NonNumeric,
            "continuation" => Self::Continuation,
            "exclude" => Self::Exclude,
            "hidden" => Self::Hidden,
            "fraction" => Self::Fraction,
            "footnote" => Self::Footnote,
            _ => return None,
        })
    }

    fn has_text(self) -> bool {
        matches!(
            self,
            Self::NonFraction | Self::NonNumeric | Self::Continuation
        )
    }
}

/// How the displayed text of a fact becomes its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Format {
    None,
    Known(Registry, String),
    /// In no known registry.
    Unknown(String),
}

/// A fact whose context and unit are not resolved yet.
pub(super) struct OpenFact {
    pub(super) concept: String,
    pub(super) context_id: String,
    pub(super) unit_id: Option<String>,
    pub(super) format: Format,
    pub(super) flags: u8,
    pub(super) decimals: i16,
    pub(super) scale: i8,
    pub(super) continued_at: Option<String>,
    pub(super) displayed: String,
    pub(super) is_cut: bool,
    pub(super) byte: u32,
    /// 0 until it is closed.
    pub(super) end: u32,
}

/// Text that a fact goes on with.
pub(super) struct Continuation {
    pub(super) text: String,
    pub(super) is_cut: bool,
    pub(super) continued_at: Option<String>,
    pub(super) byte: u32,
    pub(super) end: u32,
}

struct Open {
    element: Element,
    text_start: usize,
    fact: Option<usize>,
    continuation: Option<(String, Continuation)>,
}

#[derive(Default)]
pub(super) struct Elements {
    pub(super) facts: Vec<OpenFact>,
    pub(super) continuations: HashMap<String, Continuation>,
    pub(super) footnotes: Vec<String>,
    stack: Vec<Open>,
    // Elements deeper than the limit, which are not on the stack.
    too_deep: usize,
    // Elements on the stack whose text is kept.
    with_text: usize,
    hidden: usize,
    buffer: TextBuffer,
}

impl Elements {
    pub(super) fn open(
        &mut self,
        element: Element,
        tag: &BytesStart<'_>,
        byte: u32,
        names: &Names,
        defects: &mut DefectLog,
    ) {
        if self.stack.len() >= MAX_DEPTH {
            self.too_deep += 1;
            defects.record("xbrl.limit", "facts are nested deeper than is read");
            return;
        }
        let mut open = Open {
            element,
            text_start: self.buffer.position(),
            fact: None,
            continuation: None,
        };
        match element {
            Element::NonFraction | Element::NonNumeric => {
                if self.facts.len() >= MAX_FACTS {
                    defects.record(
                        "xbrl.limit",
                        &format!("only the first {MAX_FACTS} facts were read"),
                    );
                } else {
                    open.fact = Some(self.facts.len());
                    let fact = self.read_fact(element, tag, byte, names, defects);
                    self.facts.push(fact);
                }
            }
            Element::Continuation => {
                let (id, continuation) = read_continuation(tag, byte);
                open.continuation = id.map(|id| (id, continuation));
            }
            Element::Hidden => self.hidden += 1,
            Element::Fraction => defects.record("xbrl.fraction", "a quotient was not read"),
            // Footnotes go on in continuations like facts.
            Element::Footnote => self
                .footnotes
                .extend(read_continuation(tag, byte).1.continued_at),
            Element::Exclude => {}
        }
        self.with_text += usize::from(element.has_text());
        self.stack.push(open);
    }

    fn read_fact(
        &self,
        element: Element,
        tag: &BytesStart<'_>,
        byte: u32,
        names: &Names,
        defects: &mut DefectLog,
    ) -> OpenFact {
        let mut fact = OpenFact {
            concept: String::new(),
            context_id: String::new(),
            unit_id: None,
            format: Format::None,
            flags: if element == Element::NonFraction {
                NUMERIC
            } else {
                0
            },
            decimals: NO_DECIMALS,
            scale: 0,
            continued_at: None,
            displayed: String::new(),
            is_cut: false,
            byte,
            end: 0,
        };
        if self.hidden > 0 {
            fact.flags |= HIDDEN;
        }
        for attribute in tag.attributes().with_checks(false).flatten() {
            let value = unescape(&attribute.value);
            let value = value.trim();
            match attribute.key.as_ref() {
                "name" => fact.concept = names.canonical(value),
                "contextRef" => fact.context_id = value.to_owned(),
                "unitRef" => fact.unit_id = Some(value.to_owned()),
                "continuedAt" => fact.continued_at = Some(value.to_owned()),
                "sign" if value == "-" => fact.flags |= NEGATED,
                "decimals" if value == "INF" => fact.decimals = EXACT,
                "decimals" => match exponent(value) {
                    Some(decimals) => fact.decimals = decimals,
                    None => defects.record("xbrl.attribute", "a fact has unreadable decimals"),
                },
                "scale" => match exponent(value).and_then(|scale| i8::try_from(scale).ok()) {
                    Some(scale) => fact.scale = scale,
                    // Without its scale the number would be another.
                    None => fact.format = Format::Unknown(format!("scale {value:.20}")),
                },
                "format" if fact.format == Format::None => {
                    fact.format = match names.registry(value) {
                        Some((registry, name)) => Format::Known(registry, name.to_owned()),
                        None => Format::Unknown(value.chars().take(60).collect()),
                    };
                }
                name if name.ends_with(":nil") && matches!(value, "true" | "1") => {
                    fact.flags |= NIL;
                }
                _ => {}
            }
        }
        fact
    }

    pub(super) fn close(&mut self, element: Element, end: u32, defects: &mut DefectLog) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return;
        }
        let Some(at) = self.stack.iter().rposition(|open| open.element == element) else {
            defects.record(
                "xbrl.not_well_formed",
                "a tag of a fact is closed that was not open",
            );
            return;
        };
        while self.stack.len() > at + 1 {
            self.pop(None, defects);
        }
        self.pop(Some(end), defects);
    }

    /// At the end of the file.
    pub(super) fn close_all(&mut self, defects: &mut DefectLog) {
        while !self.stack.is_empty() {
            self.pop(None, defects);
        }
    }

    // `end`: where the element ends; `None` if its end tag is missing.
    fn pop(&mut self, end: Option<u32>, defects: &mut DefectLog) {
        let Some(open) = self.stack.pop() else {
            return;
        };
        if end.is_none() {
            defects.record(
                "xbrl.not_well_formed",
                "a tag of a fact is not closed; the fact was left out",
            );
        }
        match open.element {
            Element::Hidden => self.hidden = self.hidden.saturating_sub(1),
            Element::Exclude if self.with_text > 0 => self.buffer.exclude_from(open.text_start),
            _ => {}
        }
        if open.element.has_text() {
            if let Some(end) = end {
                let collapsed = self.buffer.since(open.text_start);
                if let Some(fact) = open.fact.and_then(|row| self.facts.get_mut(row)) {
                    fact.displayed = collapsed.text;
                    fact.is_cut = collapsed.is_cut;
                    fact.end = end;
                } else if let Some((id, continuation)) = open.continuation {
                    let continuation = Continuation {
                        text: collapsed.text,
                        is_cut: collapsed.is_cut,
                        end,
                        ..continuation
                    };
                    self.keep(id, continuation, defects);
                }
            }
            self.with_text -= 1;
            if self.with_text == 0 {
                self.buffer.clear();
            }
        }
    }

    fn keep(&mut self, id: String, continuation: Continuation, defects: &mut DefectLog) {
        if self.continuations.len() >= MAX_CONTINUATIONS {
            defects.record(
                "xbrl.limit",
                &format!("only the first {MAX_CONTINUATIONS} continuations were read"),
            );
        } else if let std::collections::hash_map::Entry::Vacant(e) = self.continuations.entry(id) {
            e.insert(continuation);
        } else {
            defects.record(
                "xbrl.continuation",
                "two continuations have the same id; the first one counts",
            );
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.with_text > 0 {
            self.buffer.push(text);
        }
    }

    /// A tag of HTML: all but those of styles separate words.
    pub(super) fn separate(&mut self, tag: &str) {
        const INLINE: [&str; 14] = [
            "span", "a", "b", "i", "u", "em", "strong", "font", "sup", "sub", "small", "big", "s",
            "strike",
        ];
        if self.with_text > 0 && !INLINE.iter().any(|inline| tag.eq_ignore_ascii_case(inline)) {
            self.buffer.push(" ");
        }
    }
}

// The id of an element, and where its text goes on.
fn read_continuation(tag: &BytesStart<'_>, byte: u32) -> (Option<String>, Continuation) {
    let mut id = None;
    let mut continuation = Continuation {
        text: String::new(),
        is_cut: false,
        continued_at: None,
        byte,
        end: byte,
    };
    for attribute in tag.attributes().with_checks(false).flatten() {
        match attribute.key.as_ref() {
            "id" => id = Some(unescape(&attribute.value)),
            "continuedAt" => continuation.continued_at = Some(unescape(&attribute.value)),
            _ => {}
        }
    }
    (id, continuation)
}

fn exponent(text: &str) -> Option<i16> {
    text.parse()
        .ok()
        .filter(|exponent: &i16| (-MAX_EXPONENT..=MAX_EXPONENT).contains(exponent))
}

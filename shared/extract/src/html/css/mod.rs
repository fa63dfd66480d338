//! The style sheets in a file, and the rules that match an element.
//!
//! `parse` reads rules with `cssparser`, `selector` matches them against an element and those around it, which is all that
//! a reader knows that builds no tree. So selectors by siblings match nothing, like all that is not understood here. Rules
//! are found by id, class or name, so an element without rules costs a look at three tables.

mod parse;
mod selector;

use std::collections::HashMap;

use memchr::memmem;

use self::parse::SheetParser;
use self::selector::Selector;
use super::elements::Name;
use super::tokens::{StartTag, Token, Tokenizer};

// Bytes of all sheets. Reports embed their fonts in them.
const MAX_BYTES: usize = 96 << 20;
// Instructions of XML come before the first element.
const PROLOG_BYTES: usize = 1_024;
// Work of comparing elements with parts of selectors in the whole file: a report of a thousand pages needs a tenth.
const MAX_WORK: u32 = 30_000_000;
// Bytes of a tag that are compared in the time of one more part.
const BYTES_PER_WORK: usize = 16;

/// What selectors look at.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Element<'a> {
    name: &'a [u8],
    id: &'a [u8],
    classes: &'a [u8],
    tag: Option<StartTag<'a>>,
    // Of a comparison with one part of a selector.
    work: u32,
}

impl<'a> Element<'a> {
    pub(super) fn from_tag(tag: &StartTag<'a>) -> Self {
        Self {
            name: tag.written,
            id: tag.attribute(b"id").unwrap_or_default(),
            classes: tag.attribute(b"class").unwrap_or_default(),
            tag: Some(*tag),
            work: u32::try_from(1 + (tag.end - tag.at) / BYTES_PER_WORK).unwrap_or(u32::MAX),
        }
    }

    fn classes(&self) -> impl Iterator<Item = &'a [u8]> {
        let classes = self.classes.split(u8::is_ascii_whitespace);
        classes.filter(|class| !class.is_empty())
    }
}

/// A property and its value, both as written.
#[derive(Debug)]
pub(super) struct Property {
    pub(super) name: Box<[u8]>,
    pub(super) value: Box<[u8]>,
}

/// The declarations of a rule.
#[derive(Debug, Default)]
pub(super) struct Rule {
    pub(super) normal: Vec<Property>,
    /// Those with `!important`.
    pub(super) important: Vec<Property>,
}

/// The rules of all `<style>` elements.
#[derive(Debug, Default)]
pub(super) struct StyleSheets {
    rules: Vec<Rule>,
    // With the rule of each.
    selectors: Vec<(Selector, usize)>,
    by_id: HashMap<Box<[u8]>, Vec<usize>>,
    by_class: HashMap<Box<[u8]>, Vec<usize>>,
    by_name: HashMap<Box<[u8]>, Vec<usize>>,
    by_nothing: Vec<usize>,
    work_left: u32,
    /// Whether rules that were not read may say how a part of the file looks: linked sheets, and what is not understood.
    pub(super) is_partial: bool,
    /// Sheets that the file links to.
    pub(super) linked: u32,
    /// Whether there are more rules, or more work with them, than is done.
    pub(super) is_cut: bool,
}

impl StyleSheets {
    /// The sheets of a file without `<style>` elements, which may still name others.
    pub(super) fn without_elements(bytes: &[u8]) -> Self {
        let prolog = &bytes[..bytes.len().min(PROLOG_BYTES)];
        let linked = u32::from(memmem::find(prolog, b"<?xml-stylesheet").is_some());
        Self {
            is_partial: linked > 0,
            linked,
            ..Self::default()
        }
    }

    /// Reads the `<style>` elements of a file, wherever they are.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut sheets = Self {
            work_left: MAX_WORK,
            ..Self::without_elements(bytes)
        };
        // Searching backwards is slow, and most filings have none.
        let last = [&b"<style"[..], b"<STYLE"]
            .iter()
            .filter(|tag| memmem::find(bytes, tag).is_some())
            .filter_map(|tag| memmem::rfind(bytes, tag))
            .max();
        let Some(last) = last else { return sheets };
        let mut bytes_left = MAX_BYTES;
        let mut tokens = Tokenizer::new(bytes);
        let mut open: Option<StartTag<'_>> = None;
        while let Some(token) = tokens.next() {
            match token {
                Token::Start(tag) if tag.at > last => break,
                Token::Start(tag) if tag.name == Name::Style => open = Some(tag),
                Token::End(Name::Style) => {
                    let Some(tag) = open.take() else { continue };
                    let inside = &bytes[tag.end..tokens.end_of_raw_text()];
                    sheets.is_cut |= inside.len() > bytes_left;
                    bytes_left = bytes_left.saturating_sub(inside.len());
                    if bytes_left > 0 {
                        sheets.add_element(&tag, inside);
                    }
                    if tag.at == last {
                        break;
                    }
                }
                _ => {}
            }
        }
        sheets
    }

    fn add_element(&mut self, tag: &StartTag<'_>, inside: &[u8]) {
        let is_css = tag
            .attribute(b"type")
            .is_none_or(|kind| kind.is_empty() || kind.eq_ignore_ascii_case(b"text/css"));
        if is_css {
            let media = tag.attribute(b"media").unwrap_or_default();
            SheetParser::new(self).read_sheet(inside, media);
        }
    }

    /// Adds a rule for elements that one of the selectors matches.
    fn add_rule(&mut self, selectors: Vec<Selector>, rule: Rule) {
        let number = self.rules.len();
        self.rules.push(rule);
        for selector in selectors {
            let index = self.selectors.len();
            let last = selector.subject();
            let bucket = match (&last.id, last.classes.first(), &last.name) {
                (Some(id), _, _) => self.by_id.entry(id.clone()).or_default(),
                (_, Some(class), _) => self.by_class.entry(class.clone()).or_default(),
                (_, _, Some(name)) => self.by_name.entry(name.clone()).or_default(),
                _ => &mut self.by_nothing,
            };
            bucket.push(index);
            self.selectors.push((selector, number));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.selectors.is_empty()
    }

    /// The rules for an element inside of others, the innermost of them first; the rule that wins comes last.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "an iterator is cloned for each selector"
    )]
    pub(super) fn matching<'s, 'e, 'a: 'e>(
        &'s mut self,
        element: &Element<'a>,
        outer: impl Iterator<Item = &'e Element<'a>> + Clone,
    ) -> Vec<&'s Rule> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut lower = [0_u8; 32];
        let name = lower.get_mut(..element.name.len()).map(|lower| {
            lower.copy_from_slice(element.name);
            lower.make_ascii_lowercase();
            &*lower
        });
        let candidates = [
            self.by_id.get(element.id),
            name.and_then(|name| self.by_name.get(name)),
            Some(&self.by_nothing),
        ];
        let by_class = element
            .classes()
            .filter_map(|class| self.by_class.get(class));
        let mut found: Vec<((u32, usize), usize)> = Vec::new();
        for index in candidates.into_iter().flatten().chain(by_class).flatten() {
            if self.work_left == 0 {
                break;
            }
            let (selector, rule) = &self.selectors[*index];
            if selector.matches(element, outer.clone(), &mut self.work_left) {
                found.push(((selector.specificity, *index), *rule));
            }
        }
        self.is_cut |= self.work_left == 0;
        found.sort_unstable();
        found
            .into_iter()
            .map(|(_, rule)| &self.rules[rule])
            .collect()
    }
}

//! The printed table of contents: dot leaders, page numbers, links.

use crate::Contents;
use crate::fonts::{self, Face};
use crate::manuscript::{Look, Numbering};
use crate::typeset::{Role, SetLine, SetLink, SetPage, Span, first_baseline, fold};

/// An entry of the contents page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) text: String,
    pub(crate) level: u16,
    /// Printed number of its page, once known.
    pub(crate) label: Option<String>,
    /// Page (counted from 0 among all pages) and distance from its top, once known.
    pub(crate) target: (usize, f32),
}

/// The contents pages for `entries`. Their number depends on the texts alone, so they can be set once to be counted
/// and once more when the places are known.
pub(crate) fn contents_pages(
    entries: &[Entry],
    look: &Look,
    mode: Contents,
    title: &str,
) -> Vec<SetPage> {
    let mut sheet = Sheet::new(look, mode);
    sheet.title(title);
    for entry in entries {
        sheet.entry(entry);
    }
    sheet.pages
}

struct Sheet<'a> {
    look: &'a Look,
    mode: Contents,
    pages: Vec<SetPage>,
    y: f32,
}

impl<'a> Sheet<'a> {
    fn new(look: &'a Look, mode: Contents) -> Self {
        Self {
            look,
            mode,
            pages: Vec::new(),
            y: f32::MAX,
        }
    }

    fn title(&mut self, title: &str) {
        let size = self.look.size + 2.0;
        let font = fonts::index(self.look.family, Face::Bold);
        let x = (self.look.page.0 - fonts::width(title, font, size)) / 2.0;
        self.advance();
        self.push(vec![Span {
            x,
            text: title.to_owned(),
            font,
            size,
        }]);
        if self.mode == Contents::Unnumbered || self.look.family == fonts::Family::Song {
            self.y += self.look.size;
            return;
        }
        let bold = fonts::index(self.look.family, Face::Bold);
        let x = self.right() - fonts::width("Page", bold, self.look.size);
        self.advance();
        self.push(vec![Span {
            x,
            text: "Page".into(),
            font: bold,
            size: self.look.size,
        }]);
        self.y += self.look.size * 0.5;
    }

    /// One entry; folds in front of the column of numbers.
    fn entry(&mut self, entry: &Entry) {
        let face = if entry.level == 1 {
            Face::Bold
        } else {
            Face::Regular
        };
        let font = fonts::index(self.look.family, face);
        let size = self.look.size;
        let left = self.look.margin + 14.0 * f32::from(entry.level - 1);
        let ranges = fold(&entry.text, font, size, self.right() - 60.0 - left);
        for (n, &(from, to)) in ranges.iter().enumerate() {
            self.advance();
            let indent = if n > 0 { 12.0 } else { 0.0 };
            let mut spans = vec![Span {
                x: left + indent,
                text: entry.text[from..to].to_owned(),
                font,
                size,
            }];
            if n + 1 == ranges.len() {
                self.leader(&mut spans, entry);
            }
            self.push(spans);
            self.link(left, entry);
        }
    }

    fn leader(&self, spans: &mut Vec<Span>, entry: &Entry) {
        let Some(label) = entry
            .label
            .as_ref()
            .filter(|_| self.mode != Contents::Unnumbered)
        else {
            return;
        };
        let size = self.look.size;
        let font = fonts::index(self.look.family, Face::Regular);
        let start = spans
            .iter()
            .map(|s| s.x + fonts::width(&s.text, s.font, s.size))
            .fold(0.0, f32::max)
            + 4.0;
        let end = self.right() - 36.0;
        let dot = fonts::width(".", font, size);
        let dots = ((end - start) / dot).max(0.0) as usize;
        if dots > 2 {
            spans.push(Span {
                x: end - dots as f32 * dot,
                text: ".".repeat(dots),
                font,
                size,
            });
        }
        let x = self.right() - fonts::width(label, font, size);
        spans.push(Span {
            x,
            text: label.clone(),
            font,
            size,
        });
    }

    fn link(&mut self, left: f32, entry: &Entry) {
        if self.mode != Contents::Links {
            return;
        }
        let y = self.y;
        let size = self.look.size;
        let right = self.right();
        if let Some(page) = self.pages.last_mut() {
            let rect = [left, y - size, right, y + size * 0.25];
            page.links.push(SetLink {
                rect,
                page: entry.target.0,
                y: entry.target.1,
            });
        }
    }

    fn right(&self) -> f32 {
        self.look.page.0 - self.look.margin
    }

    fn advance(&mut self) {
        let step = self.look.size * 1.35;
        if self.y + step > self.look.page.1 - self.look.margin {
            let n = self.pages.len() as u32 + 1;
            let numbering = if self.look.roman_front {
                Numbering::Roman(n)
            } else {
                Numbering::None
            };
            self.pages.push(SetPage::new(numbering, String::new()));
            self.y = first_baseline(self.look) - step;
        }
        self.y += step;
    }

    fn push(&mut self, spans: Vec<Span>) {
        let line = SetLine {
            y: self.y,
            role: Role::Fixed,
            spans,
        };
        if let Some(page) = self.pages.last_mut() {
            page.lines.push(line);
        }
    }
}

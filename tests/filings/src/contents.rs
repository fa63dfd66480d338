//! The printed table of contents: dot leaders, page numbers, links.

use crate::ContentsMode;
use crate::fonts::{self, Face};
use crate::manuscript::{Numbering, Typography};
use crate::typeset::{SetLine, SetLineRole, SetLink, SetPage, TextSpan, first_baseline, wrap};

/// An entry of the contents page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ContentsEntry {
    pub(crate) text: String,
    pub(crate) level: u16,
    /// Printed page number, once known.
    pub(crate) label: Option<String>,
    /// Page (from 0 among all pages) and distance from its top, once known.
    pub(crate) target: (usize, f32),
}

/// The contents pages for `entries`. Their number depends on the texts alone, so they can be set once to
/// count them and again when the positions are known.
pub(crate) fn contents_pages(
    entries: &[ContentsEntry],
    look: &Typography,
    mode: ContentsMode,
    title: &str,
) -> Vec<SetPage> {
    let mut sheet = ContentsSetter::new(look, mode);
    sheet.title(title);
    for entry in entries {
        sheet.entry(entry);
    }
    sheet.pages
}

struct ContentsSetter<'a> {
    look: &'a Typography,
    mode: ContentsMode,
    pages: Vec<SetPage>,
    y: f32,
}

impl<'a> ContentsSetter<'a> {
    fn new(look: &'a Typography, mode: ContentsMode) -> Self {
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
        self.push(vec![TextSpan {
            x,
            text: title.to_owned(),
            font,
            size,
        }]);
        if self.mode == ContentsMode::Unnumbered || self.look.family == fonts::Family::Song {
            self.y += self.look.size;
            return;
        }
        let bold = fonts::index(self.look.family, Face::Bold);
        let x = self.right() - fonts::width("Page", bold, self.look.size);
        self.advance();
        self.push(vec![TextSpan {
            x,
            text: "Page".into(),
            font: bold,
            size: self.look.size,
        }]);
        self.y += self.look.size * 0.5;
    }

    // One entry. Wraps before the column of page numbers.
    fn entry(&mut self, entry: &ContentsEntry) {
        let face = if entry.level == 1 {
            Face::Bold
        } else {
            Face::Regular
        };
        let font = fonts::index(self.look.family, face);
        let size = self.look.size;
        let x_start = self.look.margin + 14.0 * f32::from(entry.level - 1);
        let ranges = wrap(&entry.text, font, size, self.right() - 60.0 - x_start);
        for (n, &(from, to)) in ranges.iter().enumerate() {
            self.advance();
            let indent = if n > 0 { 12.0 } else { 0.0 };
            let mut spans = vec![TextSpan {
                x: x_start + indent,
                text: entry.text[from..to].to_owned(),
                font,
                size,
            }];
            if n + 1 == ranges.len() {
                self.leader(&mut spans, entry);
            }
            self.push(spans);
            self.link(x_start, entry);
        }
    }

    fn leader(&self, spans: &mut Vec<TextSpan>, entry: &ContentsEntry) {
        let Some(label) = entry
            .label
            .as_ref()
            .filter(|_| self.mode != ContentsMode::Unnumbered)
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
            spans.push(TextSpan {
                x: end - dots as f32 * dot,
                text: ".".repeat(dots),
                font,
                size,
            });
        }
        let x = self.right() - fonts::width(label, font, size);
        spans.push(TextSpan {
            x,
            text: label.clone(),
            font,
            size,
        });
    }

    fn link(&mut self, x_start: f32, entry: &ContentsEntry) {
        if self.mode != ContentsMode::Links {
            return;
        }
        let y = self.y;
        let size = self.look.size;
        let right = self.right();
        if let Some(page) = self.pages.last_mut() {
            let rect = [x_start, y - size, right, y + size * 0.25];
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

    fn push(&mut self, spans: Vec<TextSpan>) {
        let line = SetLine {
            y: self.y,
            role: SetLineRole::Fixed,
            spans,
        };
        if let Some(page) = self.pages.last_mut() {
            page.lines.push(line);
        }
    }
}

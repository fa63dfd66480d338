//! Builders of small sources for tests.

use std::collections::BTreeMap;

use stemma_document::{
    Destination, Emphasis, Line, Link, OutlineItem, Page, PageNo, Pt, Rect, Source, SourceBody,
    SourceFormat, StyleRun, TextLines, Word, furniture,
};

/// A line under construction.
#[derive(Debug, Clone)]
pub struct FixtureLine {
    text: String,
    cells: Vec<String>,
    at: Option<(f32, f32)>,
    indent: f32,
    size: f32,
    bold: bool,
    emphasis: Emphasis,
    /// Bytes at the start that are bold and italic.
    run_in: u32,
    /// The cells behind the first are smaller by this many points.
    cells_smaller: f32,
}

/// A line of 10 pt text at the left margin, below the line before.
pub fn line(text: &str) -> FixtureLine {
    FixtureLine {
        text: text.into(),
        cells: Vec::new(),
        at: None,
        indent: 0.0,
        size: 10.0,
        bold: false,
        emphasis: Emphasis::None,
        run_in: 0,
        cells_smaller: 0.0,
    }
}

impl FixtureLine {
    pub fn size(mut self, size: f32) -> Self {
        self.size = size;
        self
    }
    pub fn bold(mut self) -> Self {
        self.bold = true;
        self
    }
    pub fn italic(mut self) -> Self {
        self.emphasis = Emphasis::Italic;
        self
    }
    /// Sets the start of the text, up to `phrase`, in bold italics.
    pub fn run_in(mut self, phrase: &str) -> Self {
        self.run_in = phrase.len() as u32;
        self
    }
    pub fn indent(mut self, points: f32) -> Self {
        self.indent = points;
        self
    }
    /// Sets the position; the next line is placed as if this one were not there.
    pub fn at(mut self, x: f32, y: f32) -> Self {
        self.at = Some((x, y));
        self
    }
    pub fn cells_smaller(mut self, points: f32) -> Self {
        self.cells_smaller = points;
        self
    }
    /// Further cells far right of the text.
    pub fn cells(mut self, cells: &[&str]) -> Self {
        self.cells = cells.iter().map(|cell| (*cell).to_string()).collect();
        self
    }
}

/// A document under construction: 612 × 792 pt pages, margins of 72 pt.
pub struct Doc {
    pages: Vec<Page>,
    y: Vec<f32>,
    outline: Vec<OutlineItem>,
    links: Vec<Link>,
}

const SENTENCE: &str =
    "the quick company sold more goods in the second year than it had sold before";

impl Doc {
    pub fn new(pages: usize) -> Self {
        let page = Page {
            width: Pt::new(612.0),
            height: Pt::new(792.0),
            ..Page::default()
        };
        Self {
            pages: vec![page; pages],
            y: vec![120.0; pages],
            outline: Vec::new(),
            links: Vec::new(),
        }
    }

    /// Adds a line; returns its box.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a line is written where it is added"
    )]
    pub fn add(&mut self, page: usize, line: FixtureLine) -> Rect {
        let above = if line.bold || line.size > 11.0 {
            line.size
        } else {
            0.0
        };
        let (x, y) = line
            .at
            .unwrap_or((72.0 + line.indent, self.y[page] + above));
        if line.at.is_none() {
            self.y[page] = y + 1.2 * line.size + above / 2.0;
        }
        let built = make_line(&line, x, y);
        let rect = built.rect;
        self.pages[page].lines.push(built);
        rect
    }

    /// Adds a paragraph.
    pub fn prose(&mut self, page: usize, size: f32, lines: usize) {
        self.y[page] += size;
        for index in 0..lines {
            let mut text = format!("{SENTENCE} {index}");
            if index == 0 {
                text = text.replacen("the", "The", 1);
            }
            if index + 1 == lines {
                text.push('.');
            }
            self.add(page, line(&text).size(size));
        }
        self.y[page] += size;
    }

    /// Adds a bold heading of 14 pt and a paragraph.
    pub fn section(&mut self, page: usize, title: &str) {
        self.add(page, line(title).size(14.0).bold());
        self.prose(page, 10.0, 8);
    }

    /// Adds an entry to the embedded outline; `page` counts from 1, 0 is a missing destination.
    pub fn bookmark(&mut self, title: &str, level: u16, page: u32) {
        let target = PageNo::new(page).map(|page| Destination { page, y: None });
        self.outline.push(OutlineItem {
            title: title.into(),
            level,
            target,
        });
    }

    /// Adds a link from `rect` on `page` (from 0) to page `to` (from 1).
    pub fn link(&mut self, page: usize, rect: Rect, to: u32) {
        let target = Destination {
            page: PageNo::from_index(to as usize - 1),
            y: None,
        };
        self.links.push(Link {
            page: PageNo::from_index(page),
            rect,
            target,
        });
    }

    pub fn source(&self) -> Source {
        let mut pages = self.pages.clone();
        furniture::mark(&mut pages);
        Source {
            format: SourceFormat::Pdf,
            body: SourceBody::Pages(pages),
            outline: self.outline.clone(),
            links: self.links.clone(),
            metadata: BTreeMap::new(),
            defects: Vec::new(),
            hidden: Vec::new(),
            encrypted: false,
        }
    }

    pub fn pages<'a>(&self, source: &'a Source) -> &'a [Page] {
        match &source.body {
            SourceBody::Pages(pages) => pages,
            SourceBody::Lines(_) => &[],
        }
    }
}

/// Page, level and title of every entry of the outline.
#[cfg(test)]
pub(super) fn outline_of(doc: &Doc) -> Vec<(u32, u16, String)> {
    let draft = super::outline(&doc.source(), &super::StructureSettings::default()).unwrap();
    let entries = draft.outline.entries().iter();
    entries
        .map(|entry| {
            let located = &entry.located;
            (
                located.place.reading_order().0,
                located.entry.level,
                located.entry.title.clone(),
            )
        })
        .collect()
}

/// A text source of these lines and headings.
pub fn text(lines: &[&str], headings: &[(u32, u16, &str)]) -> Source {
    let body = SourceBody::Lines(TextLines {
        lines: lines.iter().map(|line| (*line).to_string()).collect(),
        tokens: lines.iter().map(|line| 1 + line.len() as u32 / 4).collect(),
        headings: headings
            .iter()
            .map(
                |(line, level, title): &(u32, u16, &str)| stemma_document::Heading {
                    line: *line,
                    level: *level,
                    title: (*title).to_string(),
                },
            )
            .collect(),
    });
    Source {
        format: SourceFormat::Markdown,
        body,
        outline: Vec::new(),
        links: Vec::new(),
        metadata: BTreeMap::new(),
        defects: Vec::new(),
        hidden: Vec::new(),
        encrypted: false,
    }
}

fn make_line(line: &FixtureLine, x: f32, y: f32) -> Line {
    let mut text = String::new();
    let mut words = Vec::new();
    let mut right = x;
    let parts = std::iter::once(&line.text).chain(&line.cells).enumerate();
    for (cell, part) in parts {
        right += if cell > 0 { 60.0 } else { 0.0 };
        for word in part.split_whitespace() {
            if !text.is_empty() {
                text.push(' ');
            }
            let start = text.len() as u32;
            text.push_str(word);
            let width = word.chars().count() as f32 * line.size * 0.5;
            words.push(Word {
                start,
                end: text.len() as u32,
                x0: Pt::new(right),
                x1: Pt::new(right + width),
            });
            right += width + line.size * 0.25;
        }
    }
    let tokens = 1 + text.len() as u32 / 4;
    let run = StyleRun {
        end: text.len() as u32,
        size: Pt::new(line.size - line.cells_smaller),
        bold: line.bold,
        emphasis: line.emphasis,
    };
    let first = StyleRun {
        end: line.text.len() as u32,
        size: Pt::new(line.size),
        ..run
    };
    let runs = if line.cells_smaller > 0.0 {
        vec![first, run]
    } else if line.run_in > 0 {
        let phrase = StyleRun {
            end: line.run_in,
            bold: true,
            emphasis: Emphasis::Italic,
            ..run
        };
        vec![phrase, run]
    } else {
        vec![run]
    };
    Line {
        rect: Rect::new(x, y, right, y + line.size),
        runs,
        words,
        tokens,
        text,
        ..Line::default()
    }
}

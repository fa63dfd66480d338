//! Layout: turns blocks into lines on pages, and records the positions of headings, mentions and answers.

use crate::fonts::{self, Face};
use crate::manuscript::{
    Block, FigureTable, ManuscriptHeading, Numbering, Paragraph, TextStyle, Typography,
};
use crate::{HeadingTruth, PlantedAnswer, ReferenceTruth};

/// The role of a line. Edits reword only prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetLineRole {
    Prose,
    Fixed,
}

/// Text at a position; `x` from the left edge in points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TextSpan {
    pub(crate) x: f32,
    pub(crate) text: String,
    pub(crate) font: usize,
    pub(crate) size: f32,
}

/// A line; `y` of the baseline from the top of the page in points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SetLine {
    pub(crate) y: f32,
    pub(crate) role: SetLineRole,
    pub(crate) spans: Vec<TextSpan>,
}

impl SetLine {
    /// The words, separated by single spaces.
    pub(crate) fn text(&self) -> String {
        self.spans
            .iter()
            .flat_map(|span| span.text.split_whitespace())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// A link from a line to a position: `page` counts from 0 among all pages, `y` from its top.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SetLink {
    pub(crate) rect: [f32; 4],
    pub(crate) page: usize,
    pub(crate) y: f32,
}

/// A page after layout.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SetPage {
    pub(crate) lines: Vec<SetLine>,
    pub(crate) links: Vec<SetLink>,
    pub(crate) numbering: Numbering,
    pub(crate) head: String,
    pub(crate) scanned: bool,
    /// `/Rotate`, in degrees.
    pub(crate) rotation: u16,
    /// Runs upwards.
    pub(crate) margin_note: Option<TextSpan>,
}

impl SetPage {
    pub(crate) fn new(numbering: Numbering, head: String) -> Self {
        Self {
            lines: Vec::new(),
            links: Vec::new(),
            numbering,
            head,
            scanned: false,
            rotation: 0,
            margin_note: None,
        }
    }
}

/// The result of layout: pages, and positions on them counted from 0 within these pages.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypesetPages {
    pub(crate) pages: Vec<SetPage>,
    pub(crate) nodes: Vec<HeadingTruth>,
    /// Per node, its key for mentions.
    pub(crate) keys: Vec<Option<String>>,
    /// Per node, its wording on the contents page.
    pub(crate) contents_titles: Vec<String>,
    pub(crate) references: Vec<(ReferenceTruth, String)>,
    pub(crate) answers: Vec<PlantedAnswer>,
    pub(crate) inner: Vec<InnerContents>,
}

/// The position of a contents page of a bound document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InnerContents {
    /// Index of the page that follows it.
    pub(crate) page: usize,
    /// Index of the first node after it.
    pub(crate) node: usize,
    pub(crate) levels: (u16, u16),
}

/// Lays out `blocks`. The first page has the number `numbering`.
pub(crate) fn compose(blocks: &[Block], look: &Typography, numbering: Numbering) -> TypesetPages {
    let mut setter = Typesetter::new(look, numbering);
    for block in blocks {
        setter.block(block);
    }
    setter.done
}

/// Distance from the top of the page to the first baseline below the running head.
pub(crate) fn first_baseline(look: &Typography) -> f32 {
    look.margin + look.size
}

/// The lines of `text` wrapped at `width`, as byte ranges without the spaces between them.
pub(crate) fn wrap(text: &str, font: usize, size: f32, width: f32) -> Vec<(usize, usize)> {
    let room = (width * 1000.0 / size) as u32;
    let mut lines = Vec::new();
    let mut start = 0;
    let mut used = 0;
    let mut good = None::<(usize, usize, u32)>;
    for (at, c) in text.char_indices() {
        let advance = if font == fonts::SONG {
            if c.is_ascii() { 500 } else { 1000 }
        } else {
            u32::from(fonts::widths(font)[usize::from(fonts::winansi(c)).saturating_sub(32)])
        };
        used += advance;
        if c == ' ' {
            good = Some((at, at + 1, used));
        } else if used > room && at > start && !"，。、；：）".contains(c) {
            // Chinese text breaks between any two characters except before a closing one; other text at
            // spaces only.
            let (end, next, before) = match good.take() {
                Some(place) => place,
                None => (at, at, used - advance),
            };
            lines.push((start, end));
            start = next;
            used -= before;
        }
    }
    if start < text.len() {
        lines.push((start, text.len()));
    }
    lines
}

struct Typesetter<'a> {
    look: &'a Typography,
    done: TypesetPages,
    numbering: Numbering,
    head: String,
    // Baseline of the last line, from the top.
    y: f32,
    fresh: bool,
    column: usize,
    columns: usize,
    column_top: f32,
    opened: bool,
}

impl<'a> Typesetter<'a> {
    fn new(look: &'a Typography, numbering: Numbering) -> Self {
        Self {
            look,
            done: TypesetPages::default(),
            numbering,
            head: String::new(),
            y: 0.0,
            fresh: false,
            column: 0,
            columns: 1,
            column_top: 0.0,
            opened: false,
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Heading(heading) => self.heading(heading),
            Block::Prose(prose) => self.prose(prose),
            Block::Bullets(items) => items.iter().for_each(|item| self.bullet(item)),
            Block::Table(table) => self.table(table),
            Block::Line(text, style) => self.line(text, *style),
            Block::Gap(points) => self.gap(*points),
            Block::NewPage => self.end_page(),
            Block::Numbering(numbering) => {
                self.end_page();
                self.numbering = *numbering;
            }
            Block::Aside(text) => self.aside(text),
            Block::RunningHead(head) => self.head.clone_from(head),
            Block::Contents { from, to } => {
                self.end_page();
                let page = self.done.pages.len();
                let node = self.done.nodes.len();
                self.done.inner.push(InnerContents {
                    page,
                    node,
                    levels: (*from, *to),
                });
            }
            Block::Columns => {
                self.columns = self.look.columns;
                self.column_top = self.y;
            }
        }
    }

    fn heading(&mut self, heading: &ManuscriptHeading) {
        if heading.new_page {
            self.end_page();
        }
        if let Some(text) = &heading.runs_on {
            self.run_in(heading, text);
            return;
        }
        let font = fonts::index(self.look.family, heading.style.face);
        let style = heading.style;
        let texts: Vec<String> = match &heading.printed {
            Some(lines) => lines.clone(),
            None => wrap(&heading.title, font, style.size, self.width())
                .into_iter()
                .map(|(from, to)| heading.title[from..to].to_owned())
                .collect(),
        };
        let step = style.size * 1.2;
        // Keeps a heading together with three lines of text.
        self.gap(style.size * 0.7);
        self.reserve(step * texts.len() as f32 + 3.0 * self.leading());
        self.open();
        let starts_page = self.fresh;
        for (n, text) in texts.iter().enumerate() {
            self.advance(step);
            if n == 0 {
                self.node(heading, starts_page);
            }
            let tabbed = heading.tab.filter(|_| n == 0 && texts.len() == 1);
            self.set(text, tabbed, style, SetLineRole::Fixed);
        }
        self.gap(style.size * 0.3);
    }

    // A heading with text on the same line.
    fn run_in(&mut self, heading: &ManuscriptHeading, text: &str) {
        self.reserve(3.0 * self.leading());
        self.open();
        let starts_page = self.fresh;
        let whole = format!("{}. {text}", heading.title);
        let font = fonts::index(self.look.family, Face::Regular);
        for (n, (from, to)) in wrap(&whole, font, self.look.size, self.width())
            .into_iter()
            .enumerate()
        {
            self.advance(self.leading());
            if n == 0 {
                self.node(heading, starts_page);
            }
            let x = self.left_edge();
            self.push(
                SetLineRole::Fixed,
                vec![TextSpan {
                    x,
                    text: whole[from..to].to_owned(),
                    font,
                    size: self.look.size,
                }],
            );
        }
        self.gap(self.look.size * 0.6);
    }

    fn node(&mut self, heading: &ManuscriptHeading, starts_page: bool) {
        self.done.nodes.push(HeadingTruth {
            title: heading.title.clone(),
            level: heading.level,
            page: self.done.pages.len() as u32 - 1,
            starts_page,
            baseline: (self.y * 100.0).round() as u32,
        });
        self.done.keys.push(heading.key.clone());
        self.done.contents_titles.push(
            heading
                .contents_title
                .clone()
                .unwrap_or_else(|| heading.title.clone()),
        );
    }

    // Sets one line at the current baseline.
    fn set(&mut self, text: &str, tab: Option<usize>, style: TextStyle, role: SetLineRole) {
        let font = fonts::index(self.look.family, style.face);
        let x_start = self.left_edge();
        let spans = match tab {
            Some(at) if !style.centered => vec![
                TextSpan {
                    x: x_start,
                    text: text[..at].to_owned(),
                    font,
                    size: style.size,
                },
                TextSpan {
                    x: x_start + 60.0_f32.max(fonts::width(&text[..at], font, style.size) + 18.0),
                    text: text[at..].trim_start().to_owned(),
                    font,
                    size: style.size,
                },
            ],
            _ => {
                let slack = self.width() - fonts::width(text, font, style.size);
                let x = x_start
                    + if style.centered {
                        slack.max(0.0) / 2.0
                    } else {
                        0.0
                    };
                vec![TextSpan {
                    x,
                    text: text.to_owned(),
                    font,
                    size: style.size,
                }]
            }
        };
        self.push(role, spans);
    }

    fn prose(&mut self, prose: &Paragraph) {
        let style = TextStyle::plain(self.look.size);
        let font = fonts::index(self.look.family, style.face);
        let ranges = wrap(&prose.text, font, style.size, self.width());
        let has_truth = !prose.mentions.is_empty() || prose.answer.is_some();
        let role = if has_truth {
            SetLineRole::Fixed
        } else {
            SetLineRole::Prose
        };
        for &(from, to) in &ranges {
            self.advance(self.leading());
            let x = self.left_edge();
            let line = &prose.text[from..to];
            self.push(
                role,
                vec![TextSpan {
                    x,
                    text: line.to_owned(),
                    font,
                    size: style.size,
                }],
            );
            let page = self.done.pages.len() as u32 - 1;
            let here = |words: &str| {
                prose
                    .text
                    .find(words)
                    .is_some_and(|at| (from..to).contains(&at))
            };
            for (text, key) in prose.mentions.iter().filter(|(text, _)| here(text)) {
                let reference = ReferenceTruth {
                    page,
                    text: text.clone(),
                    target: None,
                };
                self.done.references.push((reference, key.clone()));
            }
            if let Some((question, answer)) =
                prose.answer.as_ref().filter(|(_, answer)| here(answer))
            {
                let node = self.done.nodes.len().checked_sub(1);
                self.done.answers.push(PlantedAnswer {
                    question: question.clone(),
                    answer: answer.clone(),
                    page,
                    node,
                });
            }
        }
        self.gap(self.look.size * 0.6);
    }

    fn bullet(&mut self, item: &str) {
        let size = self.look.size;
        let font = fonts::index(self.look.family, Face::Regular);
        for (n, (from, to)) in wrap(item, font, size, self.width() - 30.0)
            .into_iter()
            .enumerate()
        {
            self.advance(self.leading());
            let text = TextSpan {
                x: self.left_edge() + 30.0,
                text: item[from..to].to_owned(),
                font,
                size,
            };
            let mark = TextSpan {
                x: self.left_edge() + 16.0,
                text: "\u{2022}".into(),
                font,
                size,
            };
            let spans = if n == 0 { vec![mark, text] } else { vec![text] };
            self.push(SetLineRole::Fixed, spans);
        }
        self.gap(size * 0.4);
    }

    fn table(&mut self, table: &FigureTable) {
        let size = self.look.size - 1.0;
        let regular = fonts::index(self.look.family, Face::Regular);
        let bold = fonts::index(self.look.family, Face::Bold);
        self.reserve(self.leading() * (table.rows.len().min(4) + 1) as f32);
        if !table.heads.is_empty() {
            self.advance(self.leading());
            let spans = self.cells(&table.heads, bold, size);
            self.push(SetLineRole::Fixed, spans);
        }
        for (label, cells) in &table.rows {
            self.advance(self.leading());
            let mut spans = vec![TextSpan {
                x: self.left_edge(),
                text: label.clone(),
                font: regular,
                size,
            }];
            spans.extend(self.cells(cells, regular, size));
            self.push(SetLineRole::Fixed, spans);
        }
        self.gap(self.look.size);
    }

    // Right-aligned cells in equal columns at the right side of the text. Empty cells are skipped.
    fn cells(&self, cells: &[String], font: usize, size: f32) -> Vec<TextSpan> {
        let width = (self.width() * 0.6 / cells.len().max(1) as f32).min(90.0);
        let first = self.left_edge() + self.width() - width * cells.len() as f32;
        cells
            .iter()
            .enumerate()
            .filter(|(_, text)| !text.is_empty())
            .map(|(n, text): (usize, &String)| TextSpan {
                x: first + width * (n + 1) as f32 - fonts::width(text, font, size),
                text: text.clone(),
                font,
                size,
            })
            .collect()
    }

    fn line(&mut self, text: &str, style: TextStyle) {
        let font = fonts::index(self.look.family, style.face);
        for (from, to) in wrap(text, font, style.size, self.width()) {
            self.advance(style.size * 1.25);
            self.set(&text[from..to], None, style, SetLineRole::Fixed);
        }
    }

    fn aside(&mut self, text: &str) {
        self.end_page();
        let numbering = std::mem::replace(&mut self.numbering, Numbering::None);
        self.gap(200.0);
        self.line(text, TextStyle::plain(self.look.size).centered());
        self.end_page();
        self.numbering = numbering;
    }

    fn leading(&self) -> f32 {
        self.look.size * self.look.leading
    }

    fn width(&self) -> f32 {
        let whole = self.look.page.0 - 2.0 * self.look.margin;
        let gutter = 18.0;
        (whole - gutter * (self.columns - 1) as f32) / self.columns as f32
    }

    fn left_edge(&self) -> f32 {
        self.look.margin + self.column as f32 * (self.width() + 18.0)
    }

    fn bottom(&self) -> f32 {
        self.look.page.1 - self.look.margin
    }

    fn gap(&mut self, points: f32) {
        // White space at the top of a page is dropped, unless the page was left blank on purpose.
        if !self.fresh || points >= 50.0 {
            self.open();
            self.y += points;
        }
    }

    fn open(&mut self) {
        if self.opened {
            return;
        }
        self.done
            .pages
            .push(SetPage::new(self.numbering, self.head.clone()));
        self.numbering = self.numbering.next();
        self.y = first_baseline(self.look) - self.leading();
        self.column_top = self.y;
        self.column = 0;
        self.fresh = true;
        self.opened = true;
    }

    fn end_page(&mut self) {
        self.opened = false;
        self.fresh = true;
    }

    fn next_column(&mut self) {
        self.column += 1;
        if self.column < self.columns {
            self.y = self.column_top;
        } else {
            self.end_page();
        }
    }

    // Goes to the next column or page if less than `points` are left.
    fn reserve(&mut self, points: f32) {
        if self.opened && !self.fresh && self.y + points > self.bottom() {
            self.next_column();
        }
    }

    // Moves the baseline down by `points`, to the next column or page if there is no room.
    fn advance(&mut self, points: f32) {
        self.open();
        if self.y + points > self.bottom() && !self.fresh {
            self.next_column();
            self.open();
        }
        self.y += points;
    }

    fn push(&mut self, role: SetLineRole, spans: Vec<TextSpan>) {
        self.fresh = false;
        let line = SetLine {
            y: self.y,
            role,
            spans,
        };
        if let Some(page) = self.done.pages.last_mut() {
            page.lines.push(line);
        }
    }
}

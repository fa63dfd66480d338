//! Pages: lines get their places between the margins.

use std::collections::HashMap;

use stemma_document::{Destination, Line, Link, Page, PageNo, Pt, Rect};

use super::line::{TextLine, TextLink};
use super::placed::{self, Frame};
use super::style::CONTENT_WIDTH;
use super::table::Flow;
use super::unread::{Unread, UnreadByPage};

// US letter with half an inch of margin, as filers' software prints it.
pub(super) const WIDTH: f32 = 612.0;
pub(super) const HEIGHT: f32 = 792.0;
const MARGIN: f32 = 36.0;
/// Points of text on a full page.
const FULL: f32 = HEIGHT - 2.0 * MARGIN;
// A page between two breaks may be longer than a printed one. Beyond this many its breaks are missing.
const MAX_HEIGHTS: f32 = 6.0;
const MAX_HEIGHTS_OF_RULES: f32 = 2.0;
// A last line with more words is text, not a foot.
const MAX_FOOT_WORDS: usize = 25;
// Space above a line that is kept, in points.
const MAX_SPACE: f32 = 200.0;

/// Where breaks between pages come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageBreaks {
    /// The file has them.
    Marked,
    /// Only rules over the whole width, which may be ornaments.
    Rules,
    /// The file has none, so it is cut into pages of the usual length.
    Made,
}

/// The pages so far, and what the file says about places on them.
pub(super) struct PageMaker<'a> {
    pub(super) breaks: PageBreaks,
    pub(super) pages: Vec<Page>,
    lines: Vec<TextLine<'a>>,
    // Lines that are placed on the page.
    placed: Vec<(Frame, TextLine<'a>)>,
    // Links without text, and their boxes.
    boxes: Vec<(Frame, &'a [u8])>,
    // The size that the page has in the file.
    size: Option<(f32, f32)>,
    height: f32,
    pub(super) unread: UnreadByPage,
    // Before the next line.
    unread_before: Unread,
    links: Vec<(PageNo, Rect, &'a [u8])>,
    anchors: HashMap<&'a [u8], Destination>,
    /// Whether a page was too long and was divided.
    pub(super) has_divided: bool,
    max_pages: usize,
    max_links: usize,
    max_anchors: usize,
    /// Links and anchors over the limits.
    pub(super) dropped_links: usize,
    /// Lines behind the last page allowed.
    pub(super) dropped_lines: usize,
}

/// Limits of [`PageMaker`].
#[derive(Debug, Clone, Copy)]
pub(super) struct PageLimits {
    pub(super) pages: usize,
    pub(super) links: usize,
    pub(super) anchors: usize,
}

impl<'a> PageMaker<'a> {
    pub(super) fn new(breaks: PageBreaks, limits: PageLimits) -> Self {
        Self {
            breaks,
            pages: Vec::new(),
            lines: Vec::new(),
            placed: Vec::new(),
            boxes: Vec::new(),
            size: None,
            height: 0.0,
            unread: UnreadByPage::default(),
            unread_before: Unread::default(),
            links: Vec::new(),
            anchors: HashMap::new(),
            has_divided: false,
            max_pages: limits.pages,
            max_links: limits.links,
            max_anchors: limits.anchors,
            dropped_links: 0,
            dropped_lines: 0,
        }
    }

    pub(super) fn push(&mut self, flow: Flow<'a>) {
        match flow {
            Flow::PageBreak(mut unread) => {
                self.unread_before.append(&mut unread);
                self.end_page();
            }
            Flow::Line(line) => self.push_line(line),
        }
    }

    fn push_line(&mut self, mut line: TextLine<'a>) {
        line.unread.append(&mut self.unread_before);
        if let Some(frame) = line.frame.filter(|_| self.size.is_some()) {
            self.placed.push((frame, line));
            return;
        }
        line.above = line.above.min(MAX_SPACE);
        let height = line.above + line.height(CONTENT_WIDTH);
        let most = match self.breaks {
            PageBreaks::Made => FULL,
            PageBreaks::Rules => FULL * MAX_HEIGHTS_OF_RULES,
            PageBreaks::Marked => FULL * MAX_HEIGHTS,
        };
        if self.height + height > most && !self.lines.is_empty() {
            self.has_divided |= self.breaks != PageBreaks::Made;
            self.end_page();
        }
        self.height += height;
        self.lines.push(line);
    }

    /// Begins a page that has a size in the file.
    pub(super) fn start_page(&mut self, width: f32, height: f32) {
        self.end_page();
        self.breaks = PageBreaks::Marked;
        self.size = Some((width, height));
    }

    /// Notes a link that has a box and no text.
    pub(super) fn push_box(&mut self, frame: Frame, to: &'a [u8]) {
        if self.boxes.len() < self.max_links {
            self.boxes.push((frame, to));
        } else {
            self.dropped_links += 1;
        }
    }

    /// Ends the page; a page without text is dropped.
    pub(super) fn end_page(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        let text_height = std::mem::take(&mut self.height);
        let mut placed = std::mem::take(&mut self.placed);
        let boxes = std::mem::take(&mut self.boxes);
        let size = self.size.take();
        if lines.is_empty() && placed.is_empty() {
            // A page without text is dropped, and what is hidden there comes before the next.
            self.unread.add(None, &mut self.unread_before, 0);
            return;
        }
        if self.pages.len() >= self.max_pages {
            self.dropped_lines += lines.len() + placed.len();
            return;
        }
        let page = PageNo::from_index(self.pages.len());
        self.add_unread(page, &mut lines, &mut placed);
        let (width, least) = size.unwrap_or((WIDTH, HEIGHT));
        let mut placed = self.place_lines(page, (width, least), placed);
        for (frame, to) in boxes {
            let top = frame.top();
            let rect = Rect::new(frame.x, top, frame.x + frame.width, top + frame.height);
            self.push_link(page, rect, to);
        }
        let height = if lines.is_empty() {
            least
        } else {
            (text_height + 2.0 * MARGIN).max(least)
        };
        let foot = foot_start(&lines);
        let spare = height - 2.0 * MARGIN - text_height;
        let mut y = MARGIN;
        placed.reserve(lines.len());
        for (index, mut text) in lines.into_iter().enumerate() {
            y += text.above;
            if index == foot {
                y += spare;
            }
            let top = Pt::new(y);
            for name in std::mem::take(&mut text.anchors) {
                self.add_anchor(name, Destination { page, y: Some(top) });
            }
            let (line, links) = text.place(MARGIN, y, CONTENT_WIDTH);
            for link in links {
                self.add_link(page, &line, link);
            }
            y = line.rect.y1.points();
            placed.push(line);
        }
        self.pages.push(Page {
            width: Pt::new(width),
            height: Pt::new(height),
            lines: placed,
            ..Page::default()
        });
    }

    // The lines of a page that are placed on it.
    fn place_lines(
        &mut self,
        page: PageNo,
        (width, height): (f32, f32),
        lines: Vec<(Frame, TextLine<'a>)>,
    ) -> Vec<Line> {
        let mut placed = Vec::with_capacity(lines.len());
        for (frame, mut text) in lines {
            let top = Some(Pt::new(frame.top()));
            for name in std::mem::take(&mut text.anchors) {
                self.add_anchor(name, Destination { page, y: top });
            }
            let (line, links) = text.place_in(&frame);
            for link in links {
                self.add_link(page, &line.line, link);
            }
            placed.push(line);
        }
        if placed.is_empty() {
            return Vec::new();
        }
        placed::lay_out(width, height, placed)
    }

    // Notes what was not read on a page.
    fn add_unread(
        &mut self,
        page: PageNo,
        lines: &mut [TextLine<'a>],
        placed: &mut [(Frame, TextLine<'a>)],
    ) {
        let mut unread = Unread::default();
        let mut words = 0;
        for line in lines
            .iter_mut()
            .chain(placed.iter_mut().map(|(_, line)| line))
        {
            unread.append(&mut line.unread);
            words += line.words();
        }
        unread.append(&mut self.unread_before);
        self.unread.add(Some(page), &mut unread, words);
    }

    /// Ends the last page, with what was not read behind its last line.
    pub(super) fn end(&mut self, unread: Unread) {
        self.push(Flow::PageBreak(unread));
        let last = PageNo::from_index(self.pages.len().saturating_sub(1));
        self.unread.add(Some(last), &mut self.unread_before, 0);
    }

    // The first place with a name counts, as in browsers.
    fn add_anchor(&mut self, name: &'a [u8], place: Destination) {
        if self.anchors.len() < self.max_anchors {
            self.anchors.entry(name).or_insert(place);
        } else {
            self.dropped_links += 1;
        }
    }

    fn add_link(&mut self, page: PageNo, line: &Line, link: TextLink<'a>) {
        let inside = line
            .words
            .iter()
            .filter(|word| word.start < link.end && link.start < word.end);
        let sides = inside.fold(None, |sides: Option<(Pt, Pt)>, word| {
            let before = sides.unwrap_or((word.x0, word.x1));
            Some((before.0.min(word.x0), before.1.max(word.x1)))
        });
        let Some((x0, x1)) = sides else { return };
        let rect = Rect {
            x0,
            x1,
            ..line.rect
        };
        self.push_link(page, rect, link.to);
    }

    fn push_link(&mut self, page: PageNo, rect: Rect, to: &'a [u8]) {
        if self.links.len() < self.max_links {
            self.links.push((page, rect, to));
        } else {
            self.dropped_links += 1;
        }
    }

    /// The links whose target is in the file.
    pub(super) fn take_links(&mut self) -> Vec<Link> {
        let links = std::mem::take(&mut self.links).into_iter();
        let resolved = links.filter_map(|(page, rect, to)| {
            let target = *self.anchors.get(to)?;
            Some(Link { page, rect, target })
        });
        resolved.collect()
    }
}

/// The index of the first line that belongs to the bottom of the page; beyond the last if there is none.
fn foot_start(lines: &[TextLine<'_>]) -> usize {
    let stated = lines.iter().rev().take_while(|line| line.at_bottom).count();
    match stated {
        // A page of a few lines is a title page or a leaf, not a page with a foot.
        0 if lines.len() > 3
            && lines
                .last()
                .is_some_and(|line| line.text.split_whitespace().count() <= MAX_FOOT_WORDS) =>
        {
            lines.len() - 1
        }
        stated if stated < lines.len() => lines.len() - stated,
        _ => lines.len(),
    }
}

//! One line of text before it has a place on a page.

use std::ops::Range;

use stemma_document::{ByteSpan, GridLine, Line, LineRole, Pt, Rect, StyleRun, Word};
use stemma_reading::letters::{is_caseless, is_mark};

use super::placed::{DESCENT, Frame, PlacedLine};
use super::style::{Align, Style};
use super::unread::Unread;

/// Height of a line, in font sizes.
pub(super) const LINE_HEIGHT: f32 = 1.2;
/// Least gap between two cells, in font sizes: the rules of the outline take a wider one for the border of a cell.
pub(super) const CELL_GAP: f32 = 1.6;
// A longer paragraph is divided, so that one line never holds a whole file.
const MAX_LINE_BYTES: usize = 20_000;
// Characters of fixed-pitch fonts, in font sizes.
const PITCH: f32 = 0.6;
const SPACE: f32 = 0.25;
// Text that is wider than its box by more is wrapped: widths are averages.
const MAX_OVERFLOW: f32 = 1.25;

/// A line under construction, then waiting for its place. Positions are relative to its start.
#[derive(Debug, Clone, Default)]
pub(super) struct TextLine<'a> {
    pub(super) text: String,
    runs: Vec<StyleRun>,
    words: Vec<WordBox>,
    // Behind the last character.
    cursor: f32,
    has_gap: bool,
    pub(super) bytes: Option<ByteSpan>,
    /// Bytes of the text that are links, and where they lead.
    pub(super) links: Vec<TextLink<'a>>,
    /// Names of places that this line is the first text behind.
    pub(super) anchors: Vec<&'a [u8]>,
    /// What was not read before this line.
    pub(super) unread: Unread,
    /// Space above, in points.
    pub(super) above: f32,
    pub(super) at_bottom: bool,
    /// The box in which it is placed.
    pub(super) frame: Option<Frame>,
    size: f32,
    left: f32,
    right: f32,
    first: f32,
    align: Option<Align>,
    /// For a row of a table, whose words have their places: its height in points.
    row_height: Option<f32>,
    /// For a row of a table: its cells.
    pub(super) grid: Option<Box<GridLine>>,
}

#[derive(Debug, Clone, Copy)]
struct WordBox {
    start: u32,
    end: u32,
    x0: f32,
    x1: f32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct TextLink<'a> {
    pub(super) start: u32,
    pub(super) end: u32,
    /// The name behind `#`.
    pub(super) to: &'a [u8],
}

impl<'a> TextLine<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether the line is as long as a line may be, so that this character begins another. A word stays whole unless it
    /// alone is as long.
    pub(super) fn is_full_before(&self, next: char) -> bool {
        let length = self.text.len();
        length >= MAX_LINE_BYTES && next.is_whitespace() || length >= 2 * MAX_LINE_BYTES
    }

    /// The number of its words.
    pub(super) fn words(&self) -> usize {
        self.words.len()
    }

    /// The font size of the largest text.
    pub(super) fn size(&self) -> f32 {
        self.size.max(1.0)
    }

    /// Adds the character at `bytes` to the text in a look, or makes room for a space.
    pub(super) fn push(&mut self, c: char, style: &Style, run: StyleRun, bytes: ByteSpan) {
        if c.is_whitespace() {
            self.push_space(c, style);
            return;
        }
        if is_invisible(c) || is_joiner(c) && !self.text.ends_with(|c| is_caseless(c) || is_mark(c))
        {
            return;
        }
        let width = char_width(c, style);
        let starts_word = self.has_gap || self.text.is_empty();
        if self.text.is_empty() {
            self.align = Some(style.align);
            (self.left, self.right) = (style.left, style.right);
            self.first = style.first;
            self.at_bottom = style.at_bottom;
        } else if self.has_gap {
            self.text.push(' ');
        }
        self.has_gap = false;
        let start = offset(self.text.len());
        if style.upper {
            self.text.extend(c.to_uppercase());
        } else {
            self.text.push(c);
        }
        let end = offset(self.text.len());
        let x0 = self.cursor;
        self.cursor += width;
        match self.words.last_mut().filter(|_| !starts_word) {
            Some(word) => (word.end, word.x1) = (end, self.cursor),
            None => self.words.push(WordBox {
                start,
                end,
                x0,
                x1: self.cursor,
            }),
        }
        self.push_run(StyleRun { end, ..run });
        if !style.is_script {
            self.size = self.size.max(style.size);
        }
        self.bytes = Some(self.bytes.map_or(bytes, |before| before.union(bytes)));
    }

    /// Makes room for the white space `c`.
    pub(super) fn push_space(&mut self, c: char, style: &Style) {
        // Spaces at the start of a line count only if they are written to be seen.
        let is_seen = style.pre || c == '\u{a0}';
        if self.text.is_empty() && !is_seen {
            return;
        }
        if is_seen || !self.has_gap {
            self.cursor += char_width(' ', style) * if c == '\t' { 8.0 } else { 1.0 };
        }
        self.has_gap = !self.text.is_empty();
    }

    /// Where the next character goes, in points from the start.
    pub(super) fn cursor(&self) -> f32 {
        self.cursor
    }

    /// Goes on at a place behind the text.
    pub(super) fn move_to(&mut self, place: f32, style: &Style) {
        self.has_gap |= !self.text.is_empty() && place - self.cursor > SPACE * style.size;
        self.cursor = self.cursor.max(place);
    }

    fn push_run(&mut self, run: StyleRun) {
        match self.runs.last_mut() {
            Some(last)
                if StyleRun {
                    end: run.end,
                    ..*last
                } == run =>
            {
                last.end = run.end;
            }
            _ => self.runs.push(run),
        }
    }

    /// An empty row of a table, indented by `left`.
    pub(super) fn row(left: f32, grid: Option<GridLine>) -> Self {
        Self {
            left,
            grid: grid.map(Box::new),
            row_height: Some(0.0),
            ..Self::default()
        }
    }

    fn indent(&self) -> f32 {
        self.left.max(0.0)
    }

    /// Width of the text on one line.
    pub(super) fn width(&self) -> f32 {
        self.cursor + self.indent()
    }

    /// Rows that the text takes in a box.
    fn rows(&self, width: f32) -> f32 {
        let room = self.room(width);
        (self.cursor / room).ceil().clamp(1.0, 10_000.0)
    }

    fn room(&self, width: f32) -> f32 {
        (width - self.indent() - self.right.max(0.0)).max(self.size() * 4.0)
    }

    /// Height of the text in a box of a width, in points.
    pub(super) fn height(&self, width: f32) -> f32 {
        self.row_height
            .unwrap_or_else(|| self.rows(width) * self.size() * LINE_HEIGHT)
    }

    /// Appends a line to a row as its next cell, in a box at `x` of a width. With `glue` it continues the last word. Returns
    /// its bytes in the row.
    pub(super) fn append_cell(
        &mut self,
        mut cell: Self,
        x: f32,
        width: f32,
        glue: bool,
    ) -> Range<u32> {
        let height = cell.height(width);
        self.row_height = Some(self.row_height.unwrap_or_default().max(height));
        self.above = self.above.max(cell.above);
        cell.align_in(x, width);
        let before = self.words.last().map_or(f32::NEG_INFINITY, |word| word.x1);
        let size = cell.size();
        let first = cell.words.first().map(|word| word.x0).unwrap_or_default();
        let gap = first - before;
        // Cells are apart in the file. Text that overflows its column must not hide that.
        let shift = match () {
            () if self.text.is_empty() => 0.0,
            () if glue => -gap,
            () => (CELL_GAP * size.max(self.size()) + 0.5 - gap).max(0.0),
        };
        let start = if self.text.is_empty() || glue {
            offset(self.text.len())
        } else {
            self.text.push(' ');
            offset(self.text.len())
        };
        self.text.push_str(&cell.text);
        let mut words = cell.words.into_iter().map(|word| WordBox {
            start: word.start + start,
            end: word.end + start,
            x0: word.x0 + shift,
            x1: word.x1 + shift,
        });
        if glue
            && let Some(last) = self.words.last_mut()
            && let Some(word) = words.next()
        {
            (last.end, last.x1) = (word.end, word.x1);
        }
        self.words.extend(words);
        self.runs.extend(cell.runs.into_iter().map(|run| StyleRun {
            end: run.end + start,
            ..run
        }));
        self.links
            .extend(cell.links.into_iter().map(|link| TextLink {
                start: link.start + start,
                end: link.end + start,
                ..link
            }));
        self.anchors.append(&mut cell.anchors);
        self.unread.append(&mut cell.unread);
        self.bytes = match (self.bytes, cell.bytes) {
            (Some(a), Some(b)) => Some(a.union(b)),
            (a, b) => a.or(b),
        };
        self.size = self.size.max(cell.size);
        self.at_bottom |= cell.at_bottom;
        self.cursor = self.words.last().map(|word| word.x1).unwrap_or_default();
        start..offset(self.text.len())
    }

    /// Moves the words to where they are in a box at `x` of a width, and folds them into its rows.
    fn align_in(&mut self, x: f32, width: f32) {
        let room = self.room(width);
        let left = x + self.indent();
        if self.row_height.is_some() {
            for word in &mut self.words {
                word.x0 += left;
                word.x1 += left;
            }
            return;
        }
        if self.cursor <= room {
            let spare = room - self.cursor;
            let shift = match self.align.unwrap_or(Align::Left) {
                Align::Left => self.first.clamp(-left, spare),
                Align::Center => spare / 2.0,
                Align::Right => spare,
            };
            for word in &mut self.words {
                word.x0 += left + shift;
                word.x1 += left + shift;
            }
            return;
        }
        let mut row_start = 0.0;
        for word in &mut self.words {
            if word.x1 - row_start > room && word.x0 > row_start {
                row_start = word.x0;
            }
            word.x0 = left + (word.x0 - row_start).min(room);
            word.x1 = left + (word.x1 - row_start).min(room);
        }
    }

    /// The line with its top at `y`, between the margins of a page.
    pub(super) fn place(mut self, x: f32, y: f32, width: f32) -> (Line, Vec<TextLink<'a>>) {
        let height = self.height(width);
        self.align_in(x, width);
        let left = self.words.iter().map(|word| word.x0);
        let right = self.words.iter().map(|word| word.x1);
        let left = left.fold(f32::INFINITY, f32::min);
        let right = right.fold(left, f32::max);
        let words = self.words.iter().map(|word| Word {
            start: word.start,
            end: word.end,
            x0: Pt::new(word.x0),
            x1: Pt::new(word.x1),
        });
        let line = Line {
            words: words.collect(),
            rect: Rect::new(left, y, right, y + height),
            text: self.text,
            runs: self.runs,
            tokens: 0,
            role: LineRole::Body,
            bytes: self.bytes,
            grid: self.grid,
        };
        (line, self.links)
    }
}

impl<'a> TextLine<'a> {
    /// The line in its box on a page.
    pub(super) fn place_in(mut self, frame: &Frame) -> (PlacedLine, Vec<TextLink<'a>>) {
        // Indentations are those of boxes around, which the place of the box has already.
        (self.left, self.right, self.first) = Default::default();
        let size = self.size();
        let baseline = frame.baseline(size);
        let is_wrapped = frame.has_width && self.cursor > frame.width * MAX_OVERFLOW;
        let width = if frame.has_width && (is_wrapped || self.cursor <= frame.width) {
            frame.width
        } else {
            self.cursor
        };
        let top = baseline - (LINE_HEIGHT - DESCENT) * size;
        let (mut line, links) = self.place(frame.x, top, width);
        if frame.is_turned {
            line.role = LineRole::Across;
        }
        let placed = PlacedLine {
            line,
            baseline,
            size,
            is_alone: is_wrapped || frame.is_turned,
        };
        (placed, links)
    }
}

fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

// The words of Persian and of Indic scripts are spelled with them.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200C}' | '\u{200D}')
}

// Control characters, zero-width spaces and bidirectional marks, soft hyphens, byte order marks.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{AD}' | '\u{61C}' | '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

/// Average widths of text faces: enough to tell columns, indentation and centring.
fn char_width(c: char, style: &Style) -> f32 {
    if style.fixed_pitch {
        return PITCH * style.size;
    }
    let ems = match c {
        ' ' => SPACE,
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | 'I' | '.' | ',' | ':' | ';' | '\'' | '’' | '|'
        | '!' | '(' | ')' | '-' => 0.3,
        'm' | 'w' | 'M' | 'W' | '—' | '%' | '@' => 0.85,
        'A'..='Z' => 0.67,
        c if c.is_ascii() => 0.48,
        // Ideographs are as wide as they are high.
        '\u{2E80}'..='\u{FFEF}' => 1.0,
        _ => 0.5,
    };
    ems * style.size
}

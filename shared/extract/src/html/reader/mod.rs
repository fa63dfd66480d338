//! Reads the tokens of a file into lines, tables and pages, with a stack of open elements.

mod elements;

use std::collections::HashSet;

use memchr::memmem;
use stemma_document::note_marks::raised;
use stemma_document::{ByteSpan, StyleRun};

use super::color::Paint;
use super::css::{Element, StyleSheets};
use super::declared::Declared;
use super::elements::Name;
use super::encoding::Input;
use super::hidden::{Hidden, HiddenPart};
use super::line::{LINE_HEIGHT, TextLine, TextLink};
use super::pages::PageMaker;
use super::placed::Frame;
use super::style::{CONTENT_WIDTH, Style};
use super::table::{Flow, Table};
use super::tokens::{Token, Tokenizer};
use super::unread::Unread;

// Least space around an inline element that separates words, in font sizes: the width of a space character.
const MIN_SPACE: f32 = 0.25;
// A rule of at least this share of the page separates pages in files without other breaks.
const PAGE_RULE_SHARE: f32 = 0.95;

// pdf2htmlEX numbers the boxes of pages by it.
const PAGE_NUMBER: &[u8] = b"data-page-no";

#[derive(Debug, Clone)]
struct Open<'a> {
    name: Name,
    // For rules of style sheets; `None` if there are none.
    element: Option<Box<Element<'a>>>,
    style: Style,
    declared: Declared,
    is_block: bool,
    link: Option<&'a [u8]>,
    // Whether a table, row or cell of it is under construction.
    in_table: bool,
    // Its box on a page whose text is placed.
    frame: Option<Frame>,
    is_page: bool,
    // Where text goes on behind it in a line that is placed.
    inline_end: Option<f32>,
}

/// The state of reading one file.
pub(super) struct Reader<'a> {
    input: &'a Input<'a>,
    pub(super) sheets: StyleSheets,
    // Without them nothing can be read behind the first `<style>`: its rules are also for what is before it.
    stops_at_style: bool,
    has_style: bool,
    // The style outside of all elements.
    initial: Style,
    // Whether boxes that are placed paint a ground of their own.
    has_covers: bool,
    stack: Vec<Open<'a>>,
    tables: Vec<Table<'a>>,
    // Tables that began so far.
    table_count: u32,
    line: TextLine<'a>,
    pages: PageMaker<'a>,
    // Whether an element is open that is a page.
    in_page: bool,
    // Whether the file numbers the boxes of its pages.
    has_page_numbers: bool,
    // Space above the next line.
    space: f32,
    anchors: Vec<&'a [u8]>,
    // Before the next line.
    unread: Unread,
    // The pictures so far: a logo of each page is one.
    pictures: HashSet<&'a [u8]>,
    // Elements too deep for the stack, and tables too deep to be built.
    too_deep: usize,
    deep_tables: usize,
    pub(super) had_deep_elements: bool,
    pub(super) had_deep_tables: bool,
    /// Whether rules and comments separate pages, because nothing else does.
    rules_break: bool,
    lines_left: usize,
    /// Whether the file has more lines than allowed.
    pub(super) is_cut: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        input: &'a Input<'a>,
        pages: PageMaker<'a>,
        sheets: Option<StyleSheets>,
        rules_break: bool,
        max_lines: usize,
    ) -> Self {
        let stops_at_style = sheets.is_none();
        let sheets = sheets.unwrap_or_else(|| StyleSheets::without_elements(&input.bytes));
        let ground = if sheets.is_partial {
            Paint::Unknown
        } else {
            Paint::WHITE
        };
        let has_page_numbers =
            !sheets.is_empty() && memmem::find(&input.bytes, PAGE_NUMBER).is_some();
        Self {
            input,
            sheets,
            stops_at_style,
            has_style: false,
            initial: Style::initial(ground),
            has_covers: false,
            stack: Vec::new(),
            tables: Vec::new(),
            table_count: 0,
            line: TextLine::default(),
            pages,
            in_page: false,
            has_page_numbers,
            space: 0.0,
            anchors: Vec::new(),
            unread: Unread::default(),
            pictures: HashSet::new(),
            too_deep: 0,
            deep_tables: 0,
            had_deep_elements: false,
            had_deep_tables: false,
            rules_break,
            lines_left: max_lines,
            is_cut: false,
        }
    }

    /// Reads the file; `false` if it needs the style sheets for that.
    pub(super) fn read(&mut self, tokens: &mut Tokenizer<'a>) -> bool {
        for token in tokens.by_ref() {
            if self.has_style && self.stops_at_style {
                return false;
            }
            match token {
                Token::Text(range) => self.text(range.start, range.end),
                Token::Start(tag) => self.start(&tag),
                Token::End(name) => self.end(name),
                Token::Comment(text) => self.comment(text),
            }
        }
        while let Some(open) = self.stack.pop() {
            self.close(&open);
        }
        self.end_line();
        while !self.tables.is_empty() {
            self.end_table();
        }
        true
    }

    /// The pages, with the last one ended.
    pub(super) fn into_pages(mut self) -> PageMaker<'a> {
        self.pages.end(self.unread);
        self.pages
    }

    fn style(&self) -> Style {
        self.stack.last().map_or(self.initial, |open| open.style)
    }

    fn text(&mut self, start: usize, end: usize) {
        let style = self.style();
        match style.hides_text() {
            Some(Hidden::Data) => return,
            Some(Hidden::Text(reason)) => {
                let text = self.input.text(start..end);
                HiddenPart::add(&mut self.unread.hidden, reason, &text);
                return;
            }
            None => {}
        }
        let run = style.run();
        if style.is_raised
            && let Some(mark) = raised(&self.input.text(start..end))
        {
            let bytes = byte_span(start, end);
            mark.chars()
                .for_each(|c| self.push_char(c, &style, run, bytes));
            return;
        }
        let mut at = start;
        while at < end {
            // Nearly all characters.
            let (c, length) = match self.input.bytes[at] {
                byte if byte.is_ascii() && byte != b'&' => (char::from(byte), 1),
                _ => self.input.char_at(at, end),
            };
            if style.pre && c == '\n' {
                self.line_break(&style);
            } else {
                if self.line.is_full_before(c) {
                    self.end_line();
                }
                self.push_char(c, &style, run, byte_span(at, at + length));
            }
            at += length;
        }
    }

    fn push_char(&mut self, c: char, style: &Style, run: StyleRun, bytes: ByteSpan) {
        if self.in_page && self.line.is_empty() {
            self.line.frame = self.text_frame();
        }
        self.line.push(c, style, run, bytes);
    }

    // The box where text is now, if it is placed.
    fn text_frame(&self) -> Option<Frame> {
        let inner = self.stack.iter().rev().find_map(|open| open.frame);
        inner.filter(|frame| frame.is_placed)
    }

    // Text goes on below a line in the box of the line, if that is still open.
    fn move_down(&mut self, line: Frame, points: f32) {
        let inner = self
            .stack
            .iter_mut()
            .rev()
            .find_map(|open| open.frame.as_mut());
        if let Some(frame) = inner.filter(|frame| **frame == line) {
            frame.y += points;
        }
    }

    // `<span>1.</span><span style="padding-left:20pt">Business</span>` are two words.
    fn push_inline_space(&mut self, name: Name, is_block: bool, points: f32, style: &Style) {
        let is_phrase = matches!(name, Name::Span | Name::Font | Name::A | Name::B | Name::I);
        if is_phrase && !is_block && style.hidden.is_none() && points > MIN_SPACE * style.size {
            self.line.push_space(' ', style);
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.tables.pop() else {
            return;
        };
        for flow in table.into_flow(CONTENT_WIDTH) {
            self.push_flow(flow);
        }
    }

    fn push_flow(&mut self, flow: Flow<'a>) {
        match self.tables.iter_mut().rev().find(|table| table.has_cell()) {
            Some(table) => table.push(flow),
            None => self.pages.push(flow),
        }
    }

    fn line_break(&mut self, style: &Style) {
        if self.line.is_empty() {
            self.space += style.size * LINE_HEIGHT;
        } else {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        if self.line.is_empty() {
            // Spaces without text leave nothing behind but the link that they are in.
            let links = std::mem::take(&mut self.line).links;
            self.line
                .links
                .extend(links.last().filter(|link| link.end == u32::MAX).copied());
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        // A link goes on in the next line.
        let end = u32::try_from(line.text.len()).unwrap_or(u32::MAX);
        if let Some(link) = line.links.last_mut().filter(|link| link.end == u32::MAX) {
            let to = link.to;
            link.end = end;
            self.start_link(to);
        }
        if self.lines_left == 0 {
            self.is_cut = true;
            return;
        }
        self.lines_left -= 1;
        if let Some(frame) = line.frame {
            self.move_down(frame, line.size() * LINE_HEIGHT);
        }
        line.above = std::mem::take(&mut self.space);
        line.anchors = std::mem::take(&mut self.anchors);
        line.unread = std::mem::take(&mut self.unread);
        self.push_flow(Flow::Line(line));
    }

    // The link before it ends: links hold no links.
    fn start_link(&mut self, to: &'a [u8]) {
        self.end_link();
        let start = u32::try_from(self.line.text.len()).unwrap_or(u32::MAX);
        self.line.links.push(TextLink {
            start,
            end: u32::MAX,
            to,
        });
    }

    fn end_link(&mut self) {
        let end = u32::try_from(self.line.text.len()).unwrap_or(u32::MAX);
        if let Some(link) = self.line.links.last_mut() {
            link.end = link.end.min(end);
        }
    }

    fn page_break(&mut self) {
        self.end_line();
        self.space = 0.0;
        let unread = std::mem::take(&mut self.unread);
        self.push_flow(Flow::PageBreak(unread));
    }

    fn rule(&mut self, declared: &Declared) {
        self.end_line();
        let is_wide = declared
            .width_share()
            .is_none_or(|share| share >= PAGE_RULE_SHARE);
        if declared.break_after || self.rules_break && is_wide && self.tables.is_empty() {
            self.page_break();
        }
    }

    fn comment(&mut self, text: &[u8]) {
        let is_break = self.rules_break && text.trim_ascii().eq_ignore_ascii_case(b"pagebreak");
        if is_break && self.style().hidden.is_none() {
            self.page_break();
        }
    }
}

fn byte_span(start: usize, end: usize) -> ByteSpan {
    ByteSpan {
        start: u32::try_from(start).unwrap_or(u32::MAX),
        end: u32::try_from(end).unwrap_or(u32::MAX),
    }
}

//! Reads the tokens of a file into lines, tables and pages, with a stack of open elements.

use stemma_document::ByteSpan;

use super::elements::Name;
use super::encoding::Input;
use super::line::{LINE_HEIGHT, TextLine, TextLink};
use super::pages::PageMaker;
use super::style::{Align, CONTENT_WIDTH, Declared, Style};
use super::table::{CellShape, Flow, Table};
use super::tokens::{StartTag, Token, Tokenizer};

// Open elements. Browsers stop at 512, too; deeper ones change nothing but still end lines.
const MAX_DEPTH: usize = 512;
// Least space around an inline element that separates words, in font sizes: the width of a space character.
const MIN_SPACE: f32 = 0.25;
// Tables in tables. Deeper ones are read as text.
const MAX_TABLES: usize = 12;
// A rule of at least this share of the page separates pages in files without other breaks.
const PAGE_RULE_SHARE: f32 = 0.95;

#[derive(Debug, Clone)]
struct Open<'a> {
    name: Name,
    style: Style,
    declared: Declared,
    is_block: bool,
    link: Option<&'a [u8]>,
    // Whether a table, row or cell of it is under construction.
    in_table: bool,
}

/// The state of reading one file.
pub(super) struct Reader<'a> {
    input: &'a Input<'a>,
    stack: Vec<Open<'a>>,
    tables: Vec<Table<'a>>,
    // Tables that began so far.
    table_count: u32,
    line: TextLine<'a>,
    pages: PageMaker<'a>,
    // Space above the next line.
    space: f32,
    anchors: Vec<&'a [u8]>,
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
        rules_break: bool,
        max_lines: usize,
    ) -> Self {
        Self {
            input,
            stack: Vec::new(),
            tables: Vec::new(),
            table_count: 0,
            line: TextLine::default(),
            pages,
            space: 0.0,
            anchors: Vec::new(),
            too_deep: 0,
            deep_tables: 0,
            had_deep_elements: false,
            had_deep_tables: false,
            rules_break,
            lines_left: max_lines,
            is_cut: false,
        }
    }

    pub(super) fn read(&mut self, tokens: &mut Tokenizer<'a>) {
        for token in tokens.by_ref() {
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
    }

    /// The pages, with the last one ended.
    pub(super) fn into_pages(mut self) -> PageMaker<'a> {
        self.pages.end_page();
        self.pages
    }

    fn style(&self) -> Style {
        self.stack
            .last()
            .map_or_else(Style::initial, |open| open.style)
    }

    fn text(&mut self, start: usize, end: usize) {
        let style = self.style();
        if style.hidden {
            return;
        }
        let mut at = start;
        while at < end {
            let (c, length) = self.input.char_at(at, end);
            if style.pre && c == '\n' {
                self.line_break(&style);
            } else {
                if self.line.is_full_before(c) {
                    self.end_line();
                }
                let bytes = ByteSpan {
                    start: u32::try_from(at).unwrap_or(u32::MAX),
                    end: u32::try_from(at + length).unwrap_or(u32::MAX),
                };
                self.line.push(c, &style, bytes);
            }
            at += length;
        }
    }

    fn start(&mut self, tag: &StartTag<'a>) {
        let name = tag.name;
        self.end_implied(name);
        let outer = self.style();
        // The header of iXBRL is a third of a file. Its elements are only counted.
        if outer.hidden {
            if !tag.is_closed && !name.is_void() {
                self.push(Open {
                    name,
                    style: outer,
                    declared: Declared::default(),
                    is_block: false,
                    link: None,
                    in_table: false,
                });
            }
            return;
        }
        let declared = Declared::from_tag(tag);
        let style = declared.apply(name, &outer);
        let is_block = declared.is_block(name);
        if !style.hidden {
            if declared.break_before {
                self.page_break();
            }
            self.note_anchor(tag);
        }
        if is_block {
            self.end_line();
            self.space = self.space.max(declared.space(&style).0);
        }
        self.push_inline_space(name, is_block, declared.inline_space(&style).0, &style);
        match name {
            Name::Br => self.line_break(&style),
            Name::Page => self.page_break(),
            Name::Hr => self.rule(&declared),
            _ => {}
        }
        if name.is_void() {
            return;
        }
        let mut open = Open {
            name,
            style,
            declared,
            is_block,
            link: None,
            in_table: false,
        };
        if name == Name::A && !style.hidden {
            open.link = tag
                .attribute(b"href")
                .and_then(|to| to.strip_prefix(b"#"))
                .filter(|name| !name.is_empty());
            if let Some(to) = open.link {
                self.start_link(to);
            }
        }
        if !style.hidden {
            open.in_table = self.start_table_part(tag, &open, &outer);
        }
        if tag.is_closed {
            self.close(&open);
        } else {
            self.push(open);
        }
    }

    fn push(&mut self, open: Open<'a>) {
        if self.stack.len() < MAX_DEPTH {
            self.stack.push(open);
        } else {
            self.too_deep += 1;
            self.had_deep_elements = true;
            // Its end tag will not be matched, so what it began ends now.
            if open.in_table {
                self.close(&open);
            }
        }
    }

    fn note_anchor(&mut self, tag: &StartTag<'a>) {
        // Tagged figures have ids, too, and nothing links to them.
        if matches!(tag.name, Name::IxFact | Name::IxText | Name::IxContinuation) {
            return;
        }
        for (key, value) in tag.attributes() {
            let is_name = key.eq_ignore_ascii_case(b"id")
                || tag.name == Name::A && key.eq_ignore_ascii_case(b"name");
            if is_name && !value.is_empty() {
                self.anchors.push(value);
            }
        }
    }

    /// Builds what a tag of a table begins; `false` if it begins nothing.
    fn start_table_part(&mut self, tag: &StartTag<'a>, open: &Open<'a>, outer: &Style) -> bool {
        match tag.name {
            Name::Table => {
                self.end_line();
                if self.tables.len() >= MAX_TABLES {
                    self.deep_tables += 1;
                    self.had_deep_tables = true;
                    return true;
                }
                let share = open.declared.width_share();
                let is_centered = open.style.align == Align::Center
                    && share.is_none_or(|share| share < PAGE_RULE_SHARE);
                let left = outer.left.clamp(0.0, CONTENT_WIDTH / 2.0);
                let number = self.table_count;
                self.table_count = number.saturating_add(1);
                self.tables
                    .push(Table::new(number, share, is_centered, left));
                true
            }
            Name::Tr => {
                self.end_line();
                let table = self.tables.last_mut().filter(|_| self.deep_tables == 0);
                table.map(Table::start_row).is_some()
            }
            name if name.is_cell() => {
                self.end_line();
                let number = |key: &[u8]| {
                    let value = tag.attribute(key)?;
                    std::str::from_utf8(value).ok()?.trim().parse::<u32>().ok()
                };
                let shape = CellShape {
                    columns: number(b"colspan").unwrap_or(1) as usize,
                    rows: number(b"rowspan").unwrap_or(1),
                    share: open.declared.width_share(),
                    is_low: open.declared.is_low,
                };
                match self.tables.last_mut().filter(|_| self.deep_tables == 0) {
                    Some(table) => {
                        self.space = 0.0;
                        table.start_cell(shape);
                        true
                    }
                    None => false,
                }
            }
            _ => false,
        }
    }

    /// Ends elements whose end tags are optional before an element of this name.
    fn end_implied(&mut self, next: Name) {
        let is_part = next.is_cell() || next == Name::Tr;
        while let Some(found) = self.find_implied(next, is_part) {
            self.pop_to(found);
        }
    }

    fn find_implied(&self, next: Name, is_part: bool) -> Option<usize> {
        for (index, open) in self.stack.iter().enumerate().rev() {
            if open.name.is_ended_by(next) {
                return Some(index);
            }
            let is_border = if is_part {
                open.name == Name::Table
            } else {
                open.is_block || open.name.is_cell() || open.name == Name::Table
            };
            if is_border {
                return None;
            }
        }
        None
    }

    fn end(&mut self, name: Name) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
            if name.is_block() {
                self.end_line();
            }
            return;
        }
        match name {
            Name::Br => {
                let style = self.style();
                self.line_break(&style);
                return;
            }
            // What follows the end of the body is text all the same.
            Name::Body | Name::Html => return,
            _ => {}
        }
        let is_part = name.is_cell() || name == Name::Tr;
        for (index, open) in self.stack.iter().enumerate().rev() {
            if open.name == name {
                self.end_at(index);
                return;
            }
            // An end tag inside of a cell ends nothing outside of it, except the table.
            let is_border = match name {
                Name::Table => false,
                _ if is_part => open.name == Name::Table,
                _ => open.name.is_cell() || open.name == Name::Table,
            };
            if is_border {
                return;
            }
        }
    }

    /// Ends the element at an index of the stack. `</b>` in `<b><p></b></p>` or `<b><i></b></i>` ends only the bold text.
    fn end_at(&mut self, index: usize) {
        let ended = &self.stack[index];
        let is_inline = !ended.is_block && !ended.in_table && !ended.style.hidden;
        let holds_blocks = self.stack[index + 1..].iter().any(|open| open.is_block);
        if !is_inline || !holds_blocks && !ended.name.is_formatting() {
            self.pop_to(index);
            return;
        }
        let open = self.stack.remove(index);
        self.close(&open);
        for at in index..self.stack.len() {
            let outer = at
                .checked_sub(1)
                .map_or_else(Style::initial, |outer| self.stack[outer].style);
            let inner = &mut self.stack[at];
            inner.style = inner.declared.apply(inner.name, &outer);
        }
    }

    fn pop_to(&mut self, index: usize) {
        while self.stack.len() > index {
            if let Some(open) = self.stack.pop() {
                self.close(&open);
            }
        }
    }

    fn close(&mut self, open: &Open<'a>) {
        if open.link.is_some() {
            self.end_link();
        }
        if open.is_block {
            self.end_line();
            let (_, below) = open.declared.space(&open.style);
            let height = open.declared.height(&open.style);
            self.space = self.space.max(below).max(height);
        }
        let after = open.declared.inline_space(&open.style).1;
        self.push_inline_space(open.name, open.is_block, after, &open.style);
        if open.in_table {
            self.end_line();
            match open.name {
                Name::Table if self.deep_tables > 0 => self.deep_tables -= 1,
                Name::Table => self.end_table(),
                name if name.is_cell() => {
                    if let Some(table) = self.tables.last_mut() {
                        table.end_cell();
                    }
                }
                _ => {}
            }
        }
        if open.declared.break_after && !open.style.hidden {
            self.page_break();
        }
    }

    // `<span>1.</span><span style="padding-left:20pt">Business</span>` are two words.
    fn push_inline_space(&mut self, name: Name, is_block: bool, points: f32, style: &Style) {
        let is_phrase = matches!(name, Name::Span | Name::Font | Name::A | Name::B | Name::I);
        if is_phrase && !is_block && !style.hidden && points > MIN_SPACE * style.size {
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
        line.above = std::mem::take(&mut self.space);
        line.anchors = std::mem::take(&mut self.anchors);
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
        self.push_flow(Flow::PageBreak);
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
        if is_break && !self.style().hidden {
            self.page_break();
        }
    }
}

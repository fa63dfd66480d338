//! Tags: which elements begin and end, and what they begin.

use super::super::color::Paint;
use super::super::css::Element;
use super::super::declared::Declared;
use super::super::elements::Name;
use super::super::hidden::Hidden;
use super::super::pages::{HEIGHT as PAGE_HEIGHT, WIDTH as PAGE_WIDTH};
use super::super::placed::Frame;
use super::super::style::{Align, CONTENT_WIDTH, Style};
use super::super::table::{CellShape, Table};
use super::super::tokens::StartTag;
use super::{Open, PAGE_NUMBER, PAGE_RULE_SHARE, Reader};

// Open elements. Browsers stop at 512, too; deeper ones change nothing but still end lines.
const MAX_DEPTH: usize = 512;
// Tables in tables. Deeper ones are read as text.
const MAX_TABLES: usize = 12;

impl<'a> Reader<'a> {
    pub(super) fn start(&mut self, tag: &StartTag<'a>) {
        let name = tag.name;
        self.end_implied(name);
        let outer = self.style();
        self.has_style |= name == Name::Style;
        if name == Name::Link && is_style_sheet(tag) {
            self.sheets.is_partial = true;
            self.sheets.linked += 1;
        }
        // The header of iXBRL is a third of a file. Its elements are only counted.
        if outer.hidden.is_some() {
            if !tag.is_closed && !name.is_void() {
                let hidden = if name.is_data() {
                    Some(Hidden::Data)
                } else {
                    outer.hidden
                };
                self.push(Open {
                    name,
                    element: None,
                    style: Style { hidden, ..outer },
                    declared: Declared::default(),
                    is_block: false,
                    link: None,
                    in_table: false,
                    frame: None,
                    is_page: false,
                    inline_end: None,
                });
            }
            return;
        }
        let element = (!self.sheets.is_empty()).then(|| Box::new(Element::from_tag(tag)));
        let declared = self.declare(tag, element.as_deref());
        let style = declared.apply(name, &outer);
        let is_block = declared.is_block(name);
        let is_displayed = style.hidden.is_none();
        if is_displayed {
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
        if name == Name::Img && is_displayed {
            self.note_picture(tag, &declared, &style);
        }
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
            element,
            style,
            declared,
            is_block,
            link: None,
            in_table: false,
            frame: None,
            is_page: false,
            inline_end: None,
        };
        if is_displayed {
            self.start_frame(tag, &mut open, &outer);
        }
        if name == Name::A && is_displayed {
            open.link = tag
                .attribute(b"href")
                .and_then(|to| to.strip_prefix(b"#"))
                .filter(|name| !name.is_empty());
            if let Some(to) = open.link {
                self.start_link(to);
            }
        }
        if is_displayed {
            open.in_table = self.start_table_part(tag, &open, &outer);
        }
        if tag.is_closed {
            self.close(&open);
        } else {
            self.push(open);
        }
    }

    /// What an element declares, with the rules of style sheets that match it.
    fn declare(&mut self, tag: &StartTag<'a>, element: Option<&Element<'a>>) -> Declared {
        let mut rules = Vec::new();
        if let Some(element) = element {
            let outer = self.stack.iter().rev();
            let outer = outer.filter_map(|open| open.element.as_deref());
            rules = self.sheets.matching(element, outer);
        }
        let mut declared = Declared::from_tag(tag, &rules);
        // Boxes that are placed may cover what was drawn anywhere; rules that were not read may color any ground.
        let is_picture = tag.name == Name::Img || tag.is_named(b"svg");
        let is_painted = is_picture || declared.ground.is_some();
        self.has_covers |= declared.is_absolute() && is_painted;
        if self.sheets.is_partial || self.has_covers && declared.is_absolute() {
            declared.ground.get_or_insert(Paint::Unknown);
        }
        declared
    }

    /// Gives an element its box, if it is a page or is placed on one.
    fn start_frame(&mut self, tag: &StartTag<'a>, open: &mut Open<'a>, outer: &Style) {
        if !self.in_page {
            let is_numbered =
                self.has_page_numbers && open.is_block && tag.attribute(PAGE_NUMBER).is_some();
            let frame = open.declared.page_frame();
            let can_be = open.is_block && self.tables.is_empty() && !tag.is_closed;
            open.frame = frame
                .filter(|_| can_be)
                .or_else(|| is_numbered.then(|| Frame::page_of_size(PAGE_WIDTH, PAGE_HEIGHT)));
            open.is_page = open.frame.is_some();
            if let Some(frame) = open.frame {
                self.in_page = true;
                self.page_break();
                self.pages.start_page(frame.width, frame.height);
            }
            return;
        }
        if !open.declared.is_absolute() {
            let width = open.declared.inline_width(&open.style);
            open.inline_end = width.map(|width| self.line.cursor() + width);
            return;
        }
        let inside = self.stack.iter().rev().find_map(|open| open.frame);
        open.frame =
            inside.and_then(|frame| open.declared.frame_in(&frame, &open.style, outer.zoom));
        let link = self.stack.iter().rev().find_map(|open| open.link);
        if let (Some(frame), Some(link)) = (open.frame.filter(|frame| frame.has_width), link) {
            self.pages.push_box(frame, link);
        }
    }

    fn push(&mut self, open: Open<'a>) {
        if self.stack.len() < MAX_DEPTH {
            self.stack.push(open);
        } else {
            self.too_deep += 1;
            self.had_deep_elements = true;
            // Its end tag will not be matched, so what it began ends now.
            if open.in_table || open.is_page {
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

    fn note_picture(&mut self, tag: &StartTag<'a>, declared: &Declared, style: &Style) {
        let source = tag.attribute(b"src").unwrap_or_default();
        if !source.is_empty() && self.pictures.insert(source) {
            let (width, height) = declared.picture_size(style);
            self.unread.add_picture(width, height);
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

    pub(super) fn end(&mut self, name: Name) {
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
        let is_inline = !ended.is_block && !ended.in_table && ended.style.hidden.is_none();
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
                .map_or(self.initial, |outer| self.stack[outer].style);
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

    pub(super) fn close(&mut self, open: &Open<'a>) {
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
        if let Some(end) = open.inline_end {
            self.line.move_to(end, &open.style);
        }
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
        if open.is_page {
            self.in_page = false;
            self.page_break();
        }
        if open.declared.break_after && open.style.hidden.is_none() {
            self.page_break();
        }
    }
}

fn is_style_sheet(link: &StartTag<'_>) -> bool {
    let rel = link.attribute(b"rel").unwrap_or_default();
    rel.split(u8::is_ascii_whitespace)
        .any(|word| word.eq_ignore_ascii_case(b"stylesheet"))
}

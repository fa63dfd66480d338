//! Interpreter of content streams for text: runs a page's operators and records the position of each character.
//!
//! Paths, colors and images matter only where they tell whether text can be seen (`canvas`).

use hayro_syntax::content::TypedIter;
use hayro_syntax::content::ops::TypedInstruction;
use hayro_syntax::object::{Array, Dict, Name, Number, Object, Stream};
use hayro_syntax::page::{Page, Resources};

use super::actual_text::{ActualTextSpans, marked_content_id, replacement_text};
use super::canvas::{Appearance, Canvas, GlyphFrame};
use super::curved_text;
use super::decode_limits::{DecodeBudget, StreamError};
use super::font::{FontBook, push_character};
use super::form_fields::{FormDefaults, place_values};
use super::glyph::{Glyph, UNMAPPED, Writing};
use super::graphics_state::{GraphicsState, NamedResources};
use super::hidden_text::{HiddenPart, remove_hidden};
use super::ink::Ink;
use super::matrix::Matrix;
use super::optional_content::OptionalContent;
use super::page_box::PageBox;
use super::page_layout::lay_out;
use super::path::Point;
use super::pen::Pen;
use super::remarks::{PageRemarks, Remark, find_remarks, place_remarks};
use super::right_to_left::order_as_displayed;
use super::structure_elements::StructureElements;
use super::tagged_headings::MarkedBox;
use crate::Limits;

// Deeper saves are ignored, as in viewers.
const MAX_SAVED_STATES: usize = 512;
// Per page, including forms: some hundred times the largest real pages.
const MAX_OPERATORS: u32 = 20_000_000;
// Per page, counting repetitions.
const MAX_FORMS: u32 = 20_000;

// Height of the em and of the baseline of a line of text that fills an image.
const IMAGE_EM: f64 = 0.8;
const IMAGE_BASELINE: f64 = 0.2;
// An operator that no file has. It is read last unless the parser gave up before.
const END_OF_CONTENT: &[u8] = b"\nstemma-end\n";
// Operators that show or move text and are worth nothing without their operands.
const PLACES_TEXT: [&[u8]; 10] = [
    b"cm", b"Tf", b"Td", b"TD", b"Tm", b"Tj", b"TJ", b"'", b"\"", b"Do",
];

#[derive(Default)]
pub(super) struct PageText {
    pub(super) glyphs: Vec<Glyph>,
    pub(super) hidden: Vec<HiddenPart>,
    /// Of a tagged file.
    pub(super) marked: Vec<MarkedBox>,
    pub(super) remarks: PageRemarks,
    pub(super) ink: Ink,
    // The first loss.
    pub(super) loss: Option<TextLoss>,
}

/// What the pages of a document share.
pub(super) struct SharedParts {
    layers: OptionalContent,
    form: Option<FormDefaults>,
}

impl SharedParts {
    pub(super) fn read(root: &Dict<'_>) -> Self {
        Self {
            layers: OptionalContent::read(root),
            form: FormDefaults::read(root),
        }
    }
}

/// Why the text of a page is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextLoss {
    Unreadable,
    /// The content is truncated.
    Damaged,
    /// An operator lacks its operands.
    MissingOperands,
    /// The content exceeds the decompression limit.
    TooLarge,
    /// Too many glyphs, operators or forms.
    LimitExceeded,
}

pub(super) fn read_page_text<'a>(
    page: &Page<'a>,
    fonts: &mut FontBook<'a>,
    shared: &SharedParts,
    budget: &DecodeBudget,
    limits: &Limits,
) -> PageText {
    let initial = Matrix(page.initial_transform(true).as_coeffs());
    let (width, height) = page.render_dimensions();
    let whole = PageBox::around([(f32::default(), f32::default()), (width, height)]);
    let mut interpreter = Interpreter {
        fonts,
        budget,
        limits,
        page: (width, height),
        layers: &shared.layers,
        canvas: Canvas::new(whole),
        state: GraphicsState::new(initial, whole),
        text_matrix: Matrix::IDENTITY,
        line_matrix: Matrix::IDENTITY,
        operators: 0,
        forms: 0,
        actual_text: ActualTextSpans::default(),
        elements: StructureElements::for_page(page),
        out: PageText::default(),
    };
    let streams = content_streams(page.raw());
    if streams.is_empty() && declares_content(page.raw()) {
        interpreter.record_loss(TextLoss::Unreadable);
    }
    let content = interpreter.join_streams(&streams);
    interpreter.run(content, page.resources(), 0);
    let mut text = std::mem::take(&mut interpreter.out);
    text.hidden = remove_hidden(&mut text.glyphs, &interpreter.canvas);
    curved_text::straighten(&mut text.glyphs);
    if let Some(form) = &shared.form {
        let room = limits.max_glyphs_per_page as usize;
        if !place_values(page, form, &shared.layers, &mut text.glyphs, room) {
            text.loss.get_or_insert(TextLoss::LimitExceeded);
        }
    }
    let remarks = find_remarks(page, &shared.layers);
    let drawn = interpreter.draw_stamps(&remarks, page.resources());
    let room = limits.max_glyphs_per_page as usize;
    text.remarks = place_remarks(page, &remarks, &drawn, &mut text.glyphs, room);
    text.marked = interpreter.actual_text.into_marked();
    text
}

fn content_streams<'a>(page: &Dict<'a>) -> Vec<Stream<'a>> {
    if let Some(stream) = page.get::<Stream<'a>>("Contents") {
        return vec![stream];
    }
    let parts = page.get::<Array<'a>>("Contents").unwrap_or_default();
    parts
        .iter::<Object<'a>>()
        .filter_map(Object::into_stream)
        .take(10_000)
        .collect()
}

// An empty array is a blank page, not missing content.
fn declares_content(page: &Dict<'_>) -> bool {
    page.contains_key("Contents")
        && page
            .get::<Array<'_>>("Contents")
            .is_none_or(|parts: Array<'_>| parts.raw_iter().next().is_some())
}

struct Interpreter<'a, 'r> {
    fonts: &'r mut FontBook<'a>,
    budget: &'r DecodeBudget,
    limits: &'r Limits,
    // Width and height of the displayed page.
    page: (f32, f32),
    layers: &'r OptionalContent,
    canvas: Canvas,
    state: GraphicsState<'a>,
    text_matrix: Matrix,
    line_matrix: Matrix,
    operators: u32,
    forms: u32,
    actual_text: ActualTextSpans,
    elements: StructureElements<'a>,
    out: PageText,
}

impl<'a> Interpreter<'a, '_> {
    // The streams of a page are one sequence of tokens (ISO 32000-2, 7.8.2): operands, saved states and text objects
    // carry over. Streams end between tokens, so white space may separate them.
    fn join_streams(&mut self, streams: &[Stream<'a>]) -> Vec<u8> {
        let mut content = Vec::new();
        for stream in streams {
            let decoded = match self.budget.decode(stream) {
                Ok(decoded) => decoded,
                Err(StreamError::Undecodable) => {
                    self.record_loss(TextLoss::Unreadable);
                    continue;
                }
                Err(StreamError::TooLarge) => {
                    self.record_loss(TextLoss::TooLarge);
                    continue;
                }
            };
            if decoded.damaged {
                self.record_loss(TextLoss::Damaged);
            }
            if content.is_empty() {
                content = decoded.bytes;
                continue;
            }
            // One stream may be repeated, which the budget charges once.
            if (content.len() + decoded.bytes.len()) as u64 > self.limits.max_content_bytes {
                self.record_loss(TextLoss::TooLarge);
                break;
            }
            content.push(b'\n');
            content.extend_from_slice(&decoded.bytes);
        }
        content
    }

    fn record_loss(&mut self, loss: TextLoss) {
        self.out.loss.get_or_insert(loss);
    }

    fn is_exhausted(&mut self) -> bool {
        self.operators += 1;
        let full = self.out.glyphs.len() >= self.limits.max_glyphs_per_page as usize
            || self.operators > MAX_OPERATORS;
        if full {
            self.record_loss(TextLoss::LimitExceeded);
        }
        full || (self.operators.is_multiple_of(4096) && self.budget.is_expired())
    }

    fn run(&mut self, mut content: Vec<u8>, resources: &Resources<'a>, depth: u32) {
        content.extend_from_slice(END_OF_CONTENT);
        let mut saved: Vec<GraphicsState<'a>> = Vec::new();
        let mut unsaved = 0u32;
        let mut named = NamedResources::default();
        let mut instructions = TypedIter::new(&content);
        let mut ended = false;
        while let Some(instruction) = instructions.next() {
            if self.is_exhausted() {
                return;
            }
            match instruction {
                TypedInstruction::SaveState(_) if saved.len() < MAX_SAVED_STATES => {
                    saved.push(self.state.clone());
                }
                TypedInstruction::SaveState(_) => unsaved += 1,
                TypedInstruction::RestoreState(_) if unsaved > 0 => unsaved -= 1,
                TypedInstruction::RestoreState(_) => {
                    if let Some(state) = saved.pop() {
                        self.state = state;
                    }
                }
                TypedInstruction::XObject(object) => self.draw_object(object.0, resources, depth),
                TypedInstruction::InlineImage(image) => self.add_image(image.0.dict()),
                TypedInstruction::Fallback(operator) => {
                    ended = END_OF_CONTENT.trim_ascii() == &**operator;
                    if PLACES_TEXT.contains(&&**operator) {
                        self.record_loss(TextLoss::MissingOperands);
                    }
                }
                TypedInstruction::TextFont(font) => {
                    self.state.text.size = font.1.as_f64();
                    self.state.font = named.font(font.0, resources, self.fonts, self.budget);
                }
                TypedInstruction::ColorSpaceNonStroke(name) => {
                    let space = named.space(name.0, resources);
                    self.state.paint.fill.select(space);
                }
                TypedInstruction::ColorSpaceStroke(name) => {
                    let space = named.space(name.0, resources);
                    self.state.paint.stroke.select(space);
                }
                TypedInstruction::BeginMarkedContent(_) => {
                    self.actual_text.begin(None, None, self.out.glyphs.len());
                    self.canvas.layers.begin(false);
                }
                TypedInstruction::BeginMarkedContentWithProperties(marked) => {
                    let text = replacement_text(marked.1, resources);
                    // Forms have identifiers of their own.
                    let mcid = marked_content_id(marked.1).filter(|_| depth == 0);
                    self.actual_text.begin(text, mcid, self.out.glyphs.len());
                    let is_off = matches!((marked.0.as_ref(), marked.1), (b"OC", Object::Name(name))
                        if self.layers.is_off(&resources.properties, name.as_ref()));
                    self.canvas.layers.begin(is_off);
                }
                TypedInstruction::EndMarkedContent(_) => {
                    self.end_marked_content();
                    self.canvas.layers.end();
                }
                TypedInstruction::SetGraphicsState(name) => {
                    named.apply_state(name.0, resources, &mut self.state, self.fonts, self.budget);
                }
                other => self.apply(&other),
            }
        }
        if !ended {
            self.record_loss(TextLoss::Damaged);
        }
        // Unbalanced saves in a form must not change the caller's state.
        if depth > 0
            && let Some(state) = saved.into_iter().next()
        {
            self.state = state;
        }
    }

    fn apply(&mut self, instruction: &TypedInstruction<'_, '_>) {
        match instruction {
            TypedInstruction::Transform(m) => {
                let map = matrix([&m.0, &m.1, &m.2, &m.3, &m.4, &m.5]);
                self.state.matrix = map.then(self.state.matrix);
            }
            TypedInstruction::BeginText(_) => self.set_line(Matrix::IDENTITY),
            TypedInstruction::SetTextMatrix(m) => {
                self.set_line(matrix([&m.0, &m.1, &m.2, &m.3, &m.4, &m.5]));
            }
            TypedInstruction::NextLine(by) => self.next_line(by.0.as_f64(), by.1.as_f64()),
            TypedInstruction::NextLineAndSetLeading(by) => {
                self.state.text.leading = -by.1.as_f64();
                self.next_line(by.0.as_f64(), by.1.as_f64());
            }
            TypedInstruction::NextLineUsingLeading(_) => {
                self.next_line(0.0, -self.state.text.leading);
            }
            TypedInstruction::CharacterSpacing(value) => {
                self.state.text.char_spacing = value.0.as_f64();
            }
            TypedInstruction::WordSpacing(value) => self.state.text.word_spacing = value.0.as_f64(),
            TypedInstruction::HorizontalScaling(value) => {
                self.state.stretch = value.0.as_f64() / 100.0;
            }
            TypedInstruction::TextLeading(value) => self.state.text.leading = value.0.as_f64(),
            TypedInstruction::TextRise(value) => self.state.text.rise = value.0.as_f64(),
            TypedInstruction::TextRenderingMode(value) => self.state.text.mode = value.0.as_i64(),
            TypedInstruction::ShowText(text) => self.show(text.0.as_bytes()),
            TypedInstruction::ShowTexts(items) => self.show_spaced(items.0),
            TypedInstruction::NextLineAndShowText(text) => {
                self.next_line(0.0, -self.state.text.leading);
                self.show(text.0.as_bytes());
            }
            TypedInstruction::ShowTextWithParameters(text) => {
                self.state.text.word_spacing = text.0.as_f64();
                self.state.text.char_spacing = text.1.as_f64();
                self.next_line(0.0, -self.state.text.leading);
                self.show(text.2.as_bytes());
            }
            other => {
                let is_curve = matches!(
                    other,
                    TypedInstruction::CubicTo(_)
                        | TypedInstruction::CubicStartTo(_)
                        | TypedInstruction::CubicEndTo(_)
                );
                self.out.ink.curves += u32::from(is_curve);
                let matrix = self.state.matrix;
                self.canvas.apply(other, matrix, &mut self.state.paint);
            }
        }
    }

    fn set_line(&mut self, matrix: Matrix) {
        self.line_matrix = matrix;
        self.text_matrix = matrix;
    }

    fn next_line(&mut self, x: f64, y: f64) {
        self.set_line(self.line_matrix.shifted(x, y));
    }

    fn draw_object(&mut self, name: &Name<'_>, resources: &Resources<'a>, depth: u32) {
        let Some(object) = resources.get_x_object(name) else {
            return;
        };
        let kind = object.dict().get::<Name<'_>>("Subtype");
        let open = self.canvas.layers.depth();
        let is_off = self.layers.is_off(object.dict(), b"OC");
        self.canvas.layers.begin(is_off);
        match kind.as_deref() {
            Some(b"Form") => self.draw_form(&object, resources, depth),
            Some(b"Image") => self.add_image(object.dict()),
            _ => {}
        }
        self.canvas.layers.end_to(open);
    }

    // Returns the words that the drawing of each stamp shows, wherever it lies.
    fn draw_stamps(&mut self, remarks: &[Remark<'a>], resources: &Resources<'a>) -> Vec<String> {
        remarks
            .iter()
            .map(|remark| {
                let Some(drawing) = remark.drawing() else {
                    return String::new();
                };
                self.draw_form(&drawing, resources, 0);
                let glyphs = std::mem::take(&mut self.out.glyphs);
                let lines = lay_out(self.page.0, self.page.1, &glyphs).lines;
                let words: Vec<String> = lines.into_iter().map(|line| line.text).collect();
                words.join(" ")
            })
            .collect()
    }

    fn draw_form(&mut self, form: &Stream<'a>, resources: &Resources<'a>, depth: u32) {
        self.forms += 1;
        if depth >= self.limits.max_form_depth || self.forms > MAX_FORMS {
            self.record_loss(TextLoss::LimitExceeded);
            return;
        }
        let Ok(decoded) = self.budget.decode(form) else {
            self.record_loss(TextLoss::Unreadable);
            return;
        };
        let saved = (self.state.clone(), self.text_matrix, self.line_matrix);
        if let Some(map) = form.dict().get::<[f64; 6]>("Matrix") {
            self.state.matrix = Matrix(map).then(self.state.matrix);
        }
        self.begin_form(form.dict());
        let own = form.dict().get::<Dict<'a>>("Resources").map(Resources::new);
        self.run(decoded.bytes, own.as_ref().unwrap_or(resources), depth + 1);
        (self.state, self.text_matrix, self.line_matrix) = saved;
    }

    // Clips with the box of the form, unless that is empty by mistake.
    fn begin_form(&mut self, form: &Dict<'a>) {
        if form.contains_key("Group") {
            self.state.paint.begin_group();
        }
        let bounds = form.get::<[f64; 4]>("BBox");
        if let Some([x0, y0, x1, y1]) = bounds
            && x0 != x1
            && y0 != y1
        {
            let matrix = self.state.matrix;
            Canvas::clip_to_box([x0, y0, x1, y1], matrix, &mut self.state.paint);
        }
    }

    fn add_image(&mut self, image: &Dict<'_>) {
        let matrix = self.state.matrix;
        self.canvas.add_image(image, matrix, &self.state.paint);
        if !self.canvas.layers.is_off() {
            self.out.ink.add_image(matrix, self.page);
        }
        self.actual_text.add_image(matrix);
    }

    fn end_marked_content(&mut self) {
        let Some((text, map)) = self.actual_text.end(&mut self.out.glyphs, &self.elements) else {
            return;
        };
        // The text of an image is spread over its width.
        let mut characters = Vec::new();
        text.chars()
            .for_each(|character| push_character(character, &mut characters));
        order_as_displayed(&mut characters);
        let [x, y, ..] = map.0;
        let size = (map.y_scale() * IMAGE_EM) as f32;
        if !map.is_finite() || size <= 0.0 {
            return;
        }
        let [across, up] = [map.0[2] * IMAGE_EM, map.0[3] * IMAGE_EM];
        let writing = Writing::along(x, y);
        let norm = map.x_scale();
        let frame = GlyphFrame {
            along: ((x / norm) as f32, (y / norm) as f32),
            edges: [Point::default(), (across as f32, up as f32)],
        };
        let appearance = self.canvas.text(0, frame, &mut self.state.paint);
        let appearance = self.canvas.appearance(Appearance {
            color: None,
            ..appearance
        });
        let step = 1.0 / characters.len() as f64;
        for (index, character) in characters.into_iter().enumerate() {
            let (left, baseline) = map.apply(step * index as f64, IMAGE_BASELINE);
            let glyph = Glyph {
                text: character,
                x: left as f32,
                y: baseline as f32,
                advance: (map.x_scale() * step) as f32,
                size,
                writing,
                bold: false,
                italic: false,
                invisible: false,
                hidden: None,
                appearance,
            };
            self.out.glyphs.push(glyph);
        }
    }

    fn show_spaced(&mut self, items: &Array<'_>) {
        for item in items.iter::<Object<'_>>() {
            match item {
                Object::String(text) => self.show(text.as_bytes()),
                Object::Number(by) => {
                    let by = -by.as_f64() / 1000.0 * self.state.text.size;
                    let vertical = self
                        .state
                        .font
                        .as_ref()
                        .is_some_and(|font| !font.horizontal);
                    let (x, y) = if vertical {
                        (0.0, by)
                    } else {
                        (by * self.state.stretch, 0.0)
                    };
                    self.text_matrix = self.text_matrix.shifted(x, y);
                }
                _ => {}
            }
        }
    }

    fn show(&mut self, bytes: &[u8]) {
        let Some(font) = self.state.font.clone() else {
            return;
        };
        let map = self.text_matrix.then(self.state.matrix);
        let mut pen = Pen::new(map, &self.state, &font);
        if let Some(pen) = &mut pen {
            self.choose_appearance(pen, font.is_type3);
        }
        let mut along = 0.0;
        let mut offset = 0;
        while offset < bytes.len() {
            let (code, length) = font.read_code(bytes, offset);
            let mapping = font.map_code(code);
            let word = if length == 1 && code == 32 {
                self.state.text.word_spacing
            } else {
                0.0
            };
            let own = f64::from(mapping.advance) * self.state.text.size;
            if let Some(pen) = &pen {
                let text: &[char] = if mapping.text.is_empty() {
                    &[UNMAPPED]
                } else {
                    &mapping.text
                };
                self.place_glyphs(pen, text, along, own);
            }
            let spaced = own + self.state.text.char_spacing + word;
            along += if font.horizontal {
                spaced * self.state.stretch
            } else {
                spaced
            };
            offset += length;
        }
        let (x, y) = if font.horizontal {
            (along, 0.0)
        } else {
            (0.0, along)
        };
        self.text_matrix = self.text_matrix.shifted(x, y);
    }

    // Programs of Type 3 glyphs choose colors, and nothing states their size.
    fn choose_appearance(&mut self, pen: &mut Pen, is_type3: bool) {
        let paint = &mut self.state.paint;
        let mut appearance = self.canvas.text(self.state.text.mode, pen.frame, paint);
        appearance.color = appearance.color.filter(|_| !is_type3);
        appearance.has_size = !is_type3;
        pen.glyph.appearance = self.canvas.appearance(appearance);
    }

    // Characters of one code share its advance evenly.
    fn place_glyphs(&mut self, pen: &Pen, text: &[char], along: f64, own: f64) {
        let share = 1.0 / text.len() as f64;
        for (index, character) in text.iter().enumerate() {
            let (x, y) = pen.at(along, own * share * index as f64);
            let advance = (own * share * pen.length).abs() as f32;
            self.out.glyphs.push(Glyph {
                text: *character,
                x: x as f32,
                y: y as f32,
                advance,
                ..pen.glyph
            });
        }
    }
}

fn matrix(values: [&Number; 6]) -> Matrix {
    Matrix(values.map(|value| value.as_f64()))
}

//! Values of form fields (ISO 32000-2, 12.7), which pages show in the boxes of widgets.

use hayro_syntax::object::{Array, Dict, Name, Object, Rect as PdfRect, String as PdfString};
use hayro_syntax::page::Page;

use super::annotations::seen_annotations;
use super::field_box::FieldBox;
use super::glyph::Glyph;
use super::matrix::Matrix;
use super::optional_content::OptionalContent;
use super::strings::decode_text_lines;

// Fields inherit from fields; more are a circle.
const MAX_PARENTS: usize = 32;
const MAX_OPTIONS: usize = 10_000;
const MAX_SELECTED: usize = 100;
// Comparisons of widgets with the glyphs of their page. After them values are placed where their boxes are.
const MAX_STEPS: usize = 50_000_000;
// Field flags (tables 228 to 230).
const MULTILINE: u32 = 1 << 12;
const PASSWORD: u32 = 1 << 13;
const PUSH_BUTTON: u32 = 1 << 16;

/// What the fields of a document share.
pub(super) struct FormDefaults {
    // Of text whose field states none; 0 if the viewer chooses it.
    size: f32,
}

impl FormDefaults {
    /// `None` without a form.
    pub(super) fn read(root: &Dict<'_>) -> Option<Self> {
        let form = root.get::<Dict<'_>>("AcroForm")?;
        form.get::<Array<'_>>("Fields")?.raw_iter().next()?;
        let size = font_size(&form).unwrap_or_default();
        Some(Self { size })
    }
}

/// Places the values of the fields of a page, at most `room` glyphs. Returns whether all fit.
pub(super) fn place_values(
    page: &Page<'_>,
    defaults: &FormDefaults,
    layers: &OptionalContent,
    glyphs: &mut Vec<Glyph>,
    room: usize,
) -> bool {
    let map = Matrix(page.initial_transform(true).as_coeffs());
    let printed = glyphs.clone();
    let mut steps = MAX_STEPS;
    for widget in seen_annotations(page, layers) {
        let kind = widget.get::<Name<'_>>("Subtype");
        if kind.is_none_or(|kind| kind.as_ref() != b"Widget") {
            continue;
        }
        let Some(rect) = widget.get::<PdfRect>("Rect") else {
            continue;
        };
        steps = steps.saturating_sub(printed.len());
        let around: &[Glyph] = if steps > 0 { &printed } else { &[] };
        if let Some(place) = FieldBox::new(&rect, map, around) {
            let field = Field::new(widget);
            let placed = field.place(&place, defaults).unwrap_or_default();
            if glyphs.len() + placed.len() > room {
                return false;
            }
            glyphs.extend(placed);
        }
    }
    true
}

// A widget and the fields that it inherits from.
struct Field<'a> {
    chain: Vec<Dict<'a>>,
}

impl<'a> Field<'a> {
    fn new(widget: Dict<'a>) -> Self {
        let mut chain = vec![widget];
        while let Some(parent) = chain
            .last()
            .and_then(|field| field.get::<Dict<'a>>("Parent"))
            && chain.len() < MAX_PARENTS
        {
            chain.push(parent);
        }
        Self { chain }
    }

    fn inherited<T>(&self, read: impl Fn(&Dict<'a>) -> Option<T>) -> Option<T> {
        self.chain.iter().find_map(read)
    }

    fn place(&self, place: &FieldBox<'_>, defaults: &FormDefaults) -> Option<Vec<Glyph>> {
        let kind = self.inherited(|field| field.get::<Name<'a>>("FT"))?;
        let flags = self.inherited(|field| field.get::<u32>("Ff")).unwrap_or(0);
        if kind.as_ref() == b"Btn" {
            return (flags & PUSH_BUTTON == 0).then(|| place.mark(self.is_checked()));
        }
        let mut lines = match kind.as_ref() {
            b"Tx" if flags & PASSWORD == 0 => {
                let value = self.inherited(|field| field.get::<PdfString<'a>>("V"))?;
                decode_text_lines(value.as_bytes())
            }
            b"Ch" => vec![self.choices().join(", ")],
            _ => return None,
        };
        lines.retain(|line| !line.is_empty());
        // A form that was flattened prints its values too.
        if place.shows(&lines.concat()) {
            return None;
        }
        let size = self.inherited(font_size).unwrap_or(defaults.size);
        Some(place.write(&lines, size, flags & MULTILINE != 0))
    }

    fn is_checked(&self) -> bool {
        let state = self
            .chain
            .first()
            .and_then(|widget| widget.get::<Name<'a>>("AS"))
            .or_else(|| self.inherited(|field| field.get::<Name<'a>>("V")));
        state.is_some_and(|state| state.as_ref() != b"Off")
    }

    // The selected options, as they are shown.
    fn choices(&self) -> Vec<String> {
        let values: Vec<PdfString<'a>> = self
            .inherited(|field| match field.get::<Object<'a>>("V")? {
                Object::String(value) => Some(vec![value]),
                Object::Array(values) => Some(values.iter().take(MAX_OPTIONS).collect()),
                _ => None,
            })
            .unwrap_or_default();
        let options = self.inherited(|field| field.get::<Array<'a>>("Opt"));
        let pairs: Vec<(PdfString<'a>, PdfString<'a>)> = options
            .unwrap_or_default()
            .iter::<Object<'a>>()
            .take(MAX_OPTIONS)
            .filter_map(|option| {
                let mut pair = option.into_array()?.flex_iter();
                Some((pair.next()?, pair.next()?))
            })
            .collect();
        values
            .iter()
            .take(MAX_SELECTED)
            .map(|value| {
                let pair = pairs.iter().find(|(export, _)| export == value);
                let seen = pair.map_or(value, |(_, seen)| seen);
                decode_text_lines(seen.as_bytes()).concat()
            })
            .collect()
    }
}

// The size in a default appearance: `/Helv 10 Tf`.
fn font_size(field: &Dict<'_>) -> Option<f32> {
    let appearance = field.get::<PdfString<'_>>("DA")?;
    let tokens: Vec<&[u8]> = appearance
        .as_bytes()
        .split(u8::is_ascii_whitespace)
        .filter(|token| !token.is_empty())
        .collect();
    let operator = tokens.iter().rposition(|token| *token == b"Tf")?;
    let size = tokens.get(operator.checked_sub(1)?)?;
    let size: f32 = std::str::from_utf8(size).ok()?.parse().ok()?;
    size.is_finite().then_some(size)
}

//! Remarks and stamps that people put on a page (markup annotations, ISO 32000-2, 12.5.6.2).
//!
//! They are not the text of the document, so they are lines of their own, in brackets with their kind. What was typed into
//! a blank place of the page is on its line, as values of form fields are.

use hayro_syntax::object::{Dict, Name, Object, Rect as PdfRect, Stream, String as PdfString};
use hayro_syntax::page::Page as PdfPage;
use stemma_document::{Defect, Line, LineRole, Page, PageOrigin, Pt, Rect, StyleRun, Word};

use super::annotations::seen_annotations;
use super::field_box::FieldBox;
use super::glyph::Glyph;
use super::matrix::Matrix;
use super::optional_content::OptionalContent;
use super::page_box::PageBox;
use super::strings::decode_text_lines;

// Comparisons of remarks with the glyphs of their page. After them remarks have lines of their own.
const MAX_STEPS: usize = 50_000_000;
// Characters of a remark.
const MAX_CHARS: usize = 4_000;
// In points, of lines that have no place in the text.
const SIZE: f32 = 9_f32;
// Pages that a defect names.
const LISTED: usize = 10;
const MARKUP: [&[u8]; 13] = [
    b"Caret",
    b"Circle",
    b"FreeText",
    b"Highlight",
    b"Ink",
    b"Line",
    b"PolyLine",
    b"Polygon",
    b"Square",
    b"Squiggly",
    b"StrikeOut",
    b"Text",
    b"Underline",
];

/// The remarks of a page, apart from its text.
#[derive(Default)]
pub(super) struct PageRemarks {
    lines: Vec<RemarkLine>,
    // Stamps that are pictures.
    unread: usize,
}

struct RemarkLine {
    text: String,
    bounds: Option<PageBox>,
}

/// An annotation that may have text.
pub(super) struct Remark<'a> {
    annotation: Dict<'a>,
    rect: PdfRect,
    is_stamp: bool,
    is_typed: bool,
}

/// Returns the remarks of a page that its readers see or can open.
pub(super) fn find_remarks<'a>(page: &PdfPage<'a>, layers: &OptionalContent) -> Vec<Remark<'a>> {
    seen_annotations(page, layers)
        .into_iter()
        .filter_map(|annotation| {
            let kind = annotation.get::<Name<'a>>("Subtype")?;
            let is_stamp = kind.as_ref() == b"Stamp";
            (is_stamp || MARKUP.contains(&kind.as_ref())).then(|| Remark {
                rect: annotation.get::<PdfRect>("Rect").unwrap_or(PdfRect::ZERO),
                is_typed: kind.as_ref() == b"FreeText",
                is_stamp,
                annotation,
            })
        })
        .collect()
}

impl<'a> Remark<'a> {
    /// What draws a stamp, whose words may be nowhere else.
    pub(super) fn drawing(&self) -> Option<Stream<'a>> {
        let appearance = self.annotation.get::<Dict<'a>>("AP")?;
        match appearance
            .get::<Object<'a>>("N")
            .filter(|_| self.is_stamp)?
        {
            Object::Stream(drawing) => Some(drawing),
            Object::Dict(states) => states.get(self.annotation.get::<Name<'a>>("AS")?),
            _ => None,
        }
    }

    fn contents(&self) -> Vec<String> {
        let text = self.annotation.get::<PdfString<'a>>("Contents");
        let mut lines = text.map_or_else(Vec::new, |text| decode_text_lines(text.as_bytes()));
        lines.retain(|line| !line.is_empty());
        lines
    }
}

/// Returns the remarks of a page, and places what was typed into blank places among its `printed` glyphs. `drawn` has the
/// words that the drawings of stamps show.
pub(super) fn place_remarks(
    page: &PdfPage<'_>,
    remarks: &[Remark<'_>],
    drawn: &[String],
    printed: &mut Vec<Glyph>,
    room: usize,
) -> PageRemarks {
    let map = Matrix(page.initial_transform(true).as_coeffs());
    let mut found = PageRemarks::default();
    let mut typed = Vec::new();
    let mut steps = MAX_STEPS;
    for (remark, drawn) in remarks.iter().zip(drawn) {
        let lines = remark.contents();
        if lines.is_empty() && drawn.is_empty() {
            found.unread += usize::from(remark.is_stamp);
            continue;
        }
        steps = steps.saturating_sub(printed.len());
        let around = printed.get(..).filter(|_| steps > 0).unwrap_or_default();
        match FieldBox::new(&remark.rect, map, around) {
            Some(place) if remark.is_typed && steps > 0 && place.is_blank() => {
                let written = place.write(&lines, 0_f32, lines.len() > 1);
                if typed.len() + written.len() <= room {
                    typed.extend(written);
                }
            }
            place => found.lines.push(RemarkLine {
                text: mark(remark, &lines, drawn),
                bounds: place.map(|place| place.bounds()),
            }),
        }
    }
    printed.extend(typed);
    found
}

// `[stamp: APPROVED]`.
fn mark(remark: &Remark<'_>, lines: &[String], drawn: &str) -> String {
    let kind = if remark.is_stamp { "stamp" } else { "remark" };
    let written = lines.join(" ");
    let text = match (written.as_str(), drawn) {
        ("", drawn) => drawn.to_owned(),
        (written, drawn) if drawn.is_empty() || written.contains(drawn) => written.to_owned(),
        (written, drawn) => format!("{drawn}: {written}"),
    };
    let text: String = text.chars().take(MAX_CHARS).collect();
    format!("[{kind}: {text}]")
}

impl RemarkLine {
    /// The line on its page. The words of a remark have the box of the annotation.
    pub(super) fn into_line(self, page: &Page) -> Line {
        let rect = self.bounds.map_or_else(Rect::default, |bounds| {
            page.as_read(Rect::new(bounds.x0, bounds.y0, bounds.x1, bounds.y1))
        });
        let mut words = Vec::new();
        let mut start = 0;
        for word in self.text.split(' ') {
            let end = start + word.len() as u32;
            words.push(Word {
                start,
                end,
                x0: rect.x0,
                x1: rect.x1,
            });
            start = end + 1;
        }
        Line {
            runs: vec![StyleRun {
                end: self.text.len() as u32,
                size: Pt::new(SIZE),
                ..StyleRun::default()
            }],
            text: self.text,
            rect,
            words,
            role: LineRole::Across,
            ..Line::default()
        }
    }
}

/// Adds the remarks to the lines of their pages, and says which pages have some. Pictures of pages are read by text
/// recognition, which does not see them.
pub(super) fn add_remarks(pages: &mut [Page], remarks: Vec<PageRemarks>) -> Vec<Defect> {
    let mut read = Vec::new();
    let mut unread = Vec::new();
    for ((page, found), number) in pages.iter_mut().zip(remarks).zip(1_u32..) {
        let mut lost = found.unread;
        if page.origin == PageOrigin::Picture {
            lost += found.lines.len();
        } else {
            read.extend(found.lines.iter().map(|_| number));
            let lines: Vec<Line> = found
                .lines
                .into_iter()
                .map(|line| line.into_line(page))
                .collect();
            page.lines.extend(lines);
        }
        unread.extend((0..lost).map(|_| number));
    }
    let read = describe(
        &read,
        "remark or stamp is in brackets",
        "remarks and stamps are in brackets",
    );
    let unread = describe(
        &unread,
        "stamp or remark is not read",
        "stamps and remarks are not read",
    );
    let defect = |code: &str, detail: String| Defect {
        code: code.into(),
        page: None,
        detail,
    };
    let read = read.map(|detail| defect("pdf.remarks", detail));
    let unread = unread.map(|detail| defect("pdf.annotations", detail));
    read.into_iter().chain(unread).collect()
}

// `2 stamps and remarks are not read, on pages 1, 7`, of sorted pages.
fn describe(pages: &[u32], one: &str, several: &str) -> Option<String> {
    let what = if pages.len() == 1 { one } else { several };
    let mut distinct = pages.to_vec();
    distinct.dedup();
    let noun = if distinct.len() == 1 { "page" } else { "pages" };
    let listed: Vec<String> = distinct.iter().take(LISTED).map(u32::to_string).collect();
    let more = if distinct.len() > LISTED { ", …" } else { "" };
    let listed = listed.join(", ");
    let count = pages.len();
    (count > 0).then(|| format!("{count} {what}, on {noun} {listed}{more}"))
}

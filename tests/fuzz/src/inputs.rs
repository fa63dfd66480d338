//! Valid files around hostile parts, so that the fuzzer gets past the parsers.

use std::collections::BTreeMap;

use stemma_document::{
    Destination, Emphasis, Line, Link, Page, PageNo, Pt, Rect, Source, SourceBody, SourceFormat,
    StyleRun, Word,
};
use stemma_verify::{StatedCitation, StatedClaim, StatedFigure};

const MAX_PAGES: usize = 8;
const MAX_ENTRIES: usize = 200;
const MAX_SOURCE_PAGES: usize = 40;
const MAX_LINES: usize = 120;
const MAX_PAGE_CHARS: usize = 20_000;

/// A PDF with one page per content stream. Form feeds separate the streams.
pub fn pdf_from_operators(bytes: &[u8]) -> Vec<u8> {
    let contents: Vec<&[u8]> = bytes
        .split(|byte| *byte == b'\x0c')
        .take(MAX_PAGES)
        .collect();
    let mut bodies = front(contents.len(), "");
    for (at, content) in contents.iter().enumerate() {
        bodies.push(page(at).into_bytes());
        bodies.push(stream(content));
    }
    write(&bodies)
}

/// A PDF with form fields, layers, annotations and attached files. It has no table of objects, so that any change is read.
pub fn pdf_with_fields() -> Vec<u8> {
    let bodies = [
        "<</Type/Catalog/Pages 2 0 R/AcroForm<</XFA[]/DA(/F 9 Tf)/Fields[4 0 R]>>/OCProperties<</OCGs[5 0 R]/D<</OFF[5 0 R]>>>>\
         /Names<</EmbeddedFiles<</Kids[<</Names[(a)<</UF(annex.pdf)>>]>>]>>>>>>",
        "<</Type/Pages/Count 1/Kids[3 0 R]>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Annots[4 0 R\
         <</Subtype/Widget/Rect[9 9 30 30]/FT/Btn/AS/On/Parent 4 0 R>>\
         <</Subtype/Widget/Rect[9 99 300 120]/FT/Ch/Opt[[(a)(b)]]/V(a)/OC 6 0 R>>\
         <</Subtype/FreeText/Rect[0 0 9 9]/Contents(note)>><</Subtype/FileAttachment/FS<</F(f)>>>>]>>",
        "<</Subtype/Widget/Rect[72 600 300 700]/FT/Tx/Ff 4096/V(two\nlines)/Parent 4 0 R>>",
        "<</Type/OCG/Usage<</View<</ViewState/ON>>>>>>",
        "<</Type/OCMD/P/AllOn/OCGs[5 0 R]>>",
    ];
    file_of(&bodies.map(str::to_owned))
}

// A file without a table of its objects, the first of which is the catalog.
fn file_of(bodies: &[String]) -> Vec<u8> {
    let objects = bodies.iter().zip(1..);
    let objects: String = objects
        .map(|(body, number)| format!("{number} 0 obj\n{body}\nendobj\n"))
        .collect();
    format!("%PDF-1.7\n{objects}trailer\n<</Root 1 0 R>>\n").into_bytes()
}

/// A PDF with tagged headings, remarks and a stamp.
pub fn pdf_with_tags() -> Vec<u8> {
    let content = "/H1<</MCID 0>>BDC BT /F 9 Tf 72 700 Td (Overview) Tj ET EMC \
                   /Link<</MCID 1>>BDC BT /F 9 Tf 72 680 Td (of the plan) Tj ET EMC \
                   /P<</MCID 2>>BDC BT /F 9 Tf 72 600 Td (Text) Tj 0 -9 Td (Text) Tj 0 -9 Td (Text) Tj ET EMC";
    let stamp = "BT /F 9 Tf 9 9 Td (APPROVED) Tj ET";
    let bodies = [
        "<</Type/Catalog/Pages 2 0 R/StructTreeRoot<</RoleMap<</Top/H1/A/B/B/A>>/ParentTree<</Kids[<</Limits[0 0]\
         /Nums[0[6 0 R 7 0 R 8 0 R]]>>]>>>>>>"
            .to_owned(),
        "<</Type/Pages/Count 1/Kids[3 0 R]>>".to_owned(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/StructParents 0/Contents 4 0 R/Resources<</Font<</F<</Type/Font\
         /Subtype/Type1/BaseFont/Helvetica>>>>>>/Annots[<</Subtype/FreeText/Rect[300 690 400 710]/Contents(typed)>>\
         <</Subtype/Highlight/Rect[72 690 99 710]/Contents(a remark)>><</Subtype/Stamp/Rect[9 9 99 30]/AP<</N 5 0 R>>>>]>>"
            .to_owned(),
        format!("<</Length {}>>stream\n{content}\nendstream", content.len()),
        format!("<</Subtype/Form/BBox[0 0 90 30]/Length {}>>stream\n{stamp}\nendstream", stamp.len()),
        "<</S/Top/P 8 0 R>>".to_owned(),
        "<</S/Link/P 6 0 R>>".to_owned(),
        "<</S/Sect/P 8 0 R>>".to_owned(),
    ];
    file_of(&bodies)
}

/// A PDF of four pages with an outline. Each entry has six bytes, then its title: the targets of `/First`, `/Next`,
/// `/Parent` and `/Dest`, the encoding of the title, and its length.
pub fn pdf_from_outline(bytes: &[u8]) -> Vec<u8> {
    const PAGES: usize = 4;
    let first = 4 + 2 * PAGES;
    let mut bodies = front(PAGES, &format!("/Outlines {first} 0 R"));
    for at in 0..PAGES {
        bodies.push(page(at).into_bytes());
        bodies.push(stream(
            format!("BT /F1 12 Tf 72 700 Td (Heading {at}) Tj 0 -40 Td (Some text.) Tj ET")
                .as_bytes(),
        ));
    }
    let mut rest = bytes;
    let mut entries = Vec::new();
    while let [child, next, parent, to, how, length, tail @ ..] = rest
        && entries.len() < MAX_ENTRIES
    {
        let (title, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        entries.push(([*child, *next, *parent, *to], *how, title));
        rest = tail;
    }
    bodies.push(
        format!(
            "<</Type/Outlines/First {} 0 R/Count {}>>",
            first + 1,
            entries.len()
        )
        .into_bytes(),
    );
    for (at, ([child, next, parent, to], how, title)) in entries.iter().enumerate() {
        // Targets are relative to the entry, so that a copied or moved entry keeps its meaning. 0 is not a target.
        let step = |step: u8| first + 1 + (at + usize::from(step)) % (entries.len() + 1);
        let mut body = b"<</Title ".to_vec();
        body.extend(string(title, *how));
        for (key, value) in [("First", child), ("Next", next), ("Parent", parent)] {
            if *value > 0 {
                body.extend(format!("/{key} {} 0 R", step(*value)).bytes());
            }
        }
        let target = 4 + 2 * (usize::from(*to) % PAGES);
        body.extend(match to / 32 {
            0 => Vec::new(),
            1 => format!("/Dest[{} /XYZ 0 700 0]", usize::from(*to)).into_bytes(),
            2 => format!("/Dest(name{to})").into_bytes(),
            3 => format!("/A<</S/GoTo/D[{} 0 R/Fit]>>", step(*to)).into_bytes(),
            _ => format!("/Dest[{target} 0 R/XYZ null {} null]", u32::from(*to) * 4).into_bytes(),
        });
        body.extend(b">>");
        bodies.push(body);
    }
    write(&bodies)
}

fn string(title: &[u8], how: u8) -> Vec<u8> {
    let hex: String = title.iter().map(|byte| format!("{byte:02x}")).collect();
    match how % 3 {
        0 => format!("<{hex}>").into_bytes(),
        1 => format!("<FEFF{hex}>").into_bytes(),
        _ => {
            let escaped = title.iter().flat_map(|byte| match byte {
                b'(' | b')' | b'\\' => vec![b'\\', *byte],
                byte => vec![*byte],
            });
            [b"(".to_vec(), escaped.collect(), b")".to_vec()].concat()
        }
    }
}

/// Catalog, page tree and the only font. Page `n` (from 0) is object `4 + 2 n`; its content is the next object.
fn front(pages: usize, catalog: &str) -> Vec<Vec<u8>> {
    let kids: String = (0..pages)
        .map(|at| format!("{} 0 R ", 4 + 2 * at))
        .collect();
    vec![
        format!("<</Type/Catalog/Pages 2 0 R{catalog}>>").into_bytes(),
        format!("<</Type/Pages/Count {pages}/Kids[{kids}]>>").into_bytes(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".to_vec(),
    ]
}

fn page(at: usize) -> String {
    let fonts = "/Resources<</Font<</F1 3 0 R>>>>";
    format!(
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]{fonts}/Contents {} 0 R>>",
        5 + 2 * at
    )
}

fn stream(content: &[u8]) -> Vec<u8> {
    [
        format!("<</Length {}>>stream\n", content.len()).as_bytes(),
        content,
        b"\nendstream",
    ]
    .concat()
}

fn write(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut out = b"%PDF-1.7\n".to_vec();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", bodies.len() + 1);
    for (at, body) in bodies.iter().enumerate() {
        table.push_str(&format!("{:010} 00000 n \n", out.len()));
        out.extend(format!("{} 0 obj\n", at + 1).bytes());
        out.extend(body);
        out.extend(b"\nendobj\n");
    }
    let start = out.len();
    out.extend(table.bytes());
    let size = bodies.len() + 1;
    out.extend(
        format!("trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n").bytes(),
    );
    out
}

/// A source with pages, separated by form feeds. The first characters of a line are its style: `*` bold, `/` italic, `_`
/// underlined, `^` larger, a tab indents, `@x` links to page `x`. A tab inside a line is a wide gap.
pub fn source_from_text(bytes: &[u8]) -> Source {
    let text = String::from_utf8_lossy(bytes);
    let mut pages = Vec::new();
    let mut links = Vec::new();
    let count = text.split('\x0c').take(MAX_SOURCE_PAGES).count();
    for (at, text) in text.split('\x0c').take(MAX_SOURCE_PAGES).enumerate() {
        let mut page = Page {
            width: Pt(61_200),
            height: Pt(79_200),
            ..Page::default()
        };
        for (row, marked) in text.split('\n').take(MAX_LINES).enumerate() {
            let (line, target) = line(marked, row);
            if let Some(target) = target.filter(|target| *target < count) {
                let target = Destination {
                    page: PageNo::from_index(target),
                    y: None,
                };
                links.push(Link {
                    page: PageNo::from_index(at),
                    rect: line.rect,
                    target,
                });
            }
            if !line.text.is_empty() {
                page.lines.push(line);
            }
        }
        pages.push(page);
    }
    Source {
        format: SourceFormat::Pdf,
        body: SourceBody::Pages(pages),
        outline: Vec::new(),
        links,
        metadata: BTreeMap::new(),
        defects: Vec::new(),
        hidden: Vec::new(),
        encrypted: false,
    }
}

fn line(marked: &str, row: usize) -> (Line, Option<usize>) {
    let mut bold = false;
    let mut emphasis = Emphasis::None;
    let mut size = 1_000;
    let mut x = 7_200;
    let mut target = None;
    let mut rest = marked;
    for _ in 0..8 {
        let Some(mark) = rest.chars().next() else {
            break;
        };
        match mark {
            '*' => bold = true,
            '/' => emphasis = Emphasis::Italic,
            '_' => emphasis = Emphasis::Decoration,
            '^' => size += 200,
            '\t' => x += 1_800,
            '@' => {
                rest = &rest[1..];
                let Some(page) = rest.chars().next() else {
                    break;
                };
                target = Some(page as usize % 64);
                rest = &rest[page.len_utf8()..];
                continue;
            }
            _ => break,
        }
        rest = &rest[1..];
    }
    let mut text = String::new();
    let mut words = Vec::new();
    for cell in rest.split('\t') {
        for word in cell
            .split(|c: char| c.is_whitespace() || c.is_control())
            .filter(|word| !word.is_empty())
        {
            if !text.is_empty() {
                text.push(' ');
            }
            let start = text.len() as u32;
            text.push_str(word);
            let wide = word.chars().count() as i32 * size / 2;
            words.push(Word {
                start,
                end: text.len() as u32,
                x0: Pt(x),
                x1: Pt(x + wide),
            });
            x += wide + size / 4;
        }
        x += 5_000;
    }
    let y = 7_200 + row as i32 * 550;
    let right = words.last().map_or(x, |word: &Word| word.x1.0);
    let left = words.first().map_or(x, |word: &Word| word.x0.0);
    let rect = Rect {
        x0: Pt(left),
        y0: Pt(y),
        x1: Pt(right),
        y1: Pt(y + size),
    };
    let runs = vec![StyleRun {
        end: text.len() as u32,
        size: Pt(size),
        bold,
        emphasis,
    }];
    (
        Line {
            text,
            rect,
            runs,
            words,
            tokens: 1,
            ..Line::default()
        },
        target,
    )
}

/// A claim in lines, and the text of a page behind a form feed. `s` begins the statement, `q` a quote with its passage, `f` a
/// figure with its fields between bars.
pub fn claim_and_page(bytes: &[u8]) -> (StatedClaim, String) {
    let text = String::from_utf8_lossy(bytes);
    let (lines, page) = text.split_once('\x0c').unwrap_or((&text, ""));
    let mut claim = StatedClaim::default();
    for line in lines.lines() {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut fields = rest.split('|');
        let mut field = || fields.next().unwrap_or_default().to_owned();
        match kind {
            "q" => claim.citations.push(StatedCitation {
                passage: field().parse().unwrap_or(1),
                quote: field(),
            }),
            "f" => claim.figures.push(StatedFigure {
                name: field(),
                citation: field().parse().unwrap_or(1),
                value: field(),
                unit: field(),
                row: field(),
                column: field(),
                formula: field(),
            }),
            _ => claim.statement.push_str(rest),
        }
    }
    (claim, page.chars().take(MAX_PAGE_CHARS).collect())
}

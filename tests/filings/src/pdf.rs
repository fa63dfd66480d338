//! A small writer of PDF 1.7: pages of text in standard fonts, links, outline, page labels, encryption.

use crate::encrypt::Cipher;
use crate::fonts;
use crate::manuscript::Numbering;
use crate::random::Rng;
use crate::typeset::{SetLink, SetPage, TextSpan};
use crate::{Encryption, HeadingTruth};

/// The catalog entries of a file other than its pages.
pub(crate) struct PdfOptions<'a> {
    pub(crate) title: &'a str,
    pub(crate) page_size: (f32, f32),
    pub(crate) outline: bool,
    pub(crate) labels: bool,
    pub(crate) encryption: Option<&'a Encryption>,
    pub(crate) seed: u64,
    pub(crate) chinese: bool,
}

const CATALOG: usize = 1;
const PAGE_ROOT: usize = 2;
const INFO: usize = 3;
const IMAGE: usize = 4;
const FIRST_FONT: usize = 5;
// Pages per node of the page tree.
const FAN_OUT: usize = 64;

/// The bytes of a file. `nodes` count pages from 0.
pub(crate) fn write(
    pages: &[SetPage],
    nodes: &[HeadingTruth],
    options: &PdfOptions<'_>,
) -> Vec<u8> {
    let mut rng = Rng::new(options.seed, "file");
    let id = rng.bytes::<16>();
    let cipher = options
        .encryption
        .map(|encryption| Cipher::new(encryption, &id, &mut rng));
    let mut file = PdfWriter {
        out: b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec(),
        offsets: Vec::new(),
        cipher,
    };
    let plan = ObjectNumbers::new(pages.len(), options);
    file.fonts(&plan, options);
    file.image();
    for (n, page) in pages.iter().enumerate() {
        file.page(n, page, &plan, options);
    }
    file.page_tree(&plan, pages.len());
    let outline =
        (options.outline && !nodes.is_empty()).then(|| file.outline(nodes, &plan, options));
    file.catalog(pages, outline, options);
    file.finish(&id)
}

// Object numbers.
struct ObjectNumbers {
    first_page: usize,
    first_tree_node: usize,
    next: usize,
    fonts: usize,
}

impl ObjectNumbers {
    fn new(pages: usize, options: &PdfOptions<'_>) -> Self {
        let fonts = fonts::BASE_FONTS.len() + if options.chinese { 1 } else { 0 };
        // The Chinese font needs four objects: font, descendant, descriptor, mapping.
        let first_page = FIRST_FONT + fonts + if options.chinese { 3 } else { 0 };
        let first_tree_node = first_page + 2 * pages;
        Self {
            first_page,
            first_tree_node,
            next: first_tree_node + pages.div_ceil(FAN_OUT),
            fonts,
        }
    }

    fn page(&self, n: usize) -> usize {
        self.first_page + 2 * n
    }
}

struct PdfWriter {
    out: Vec<u8>,
    // Offset of object `n + 1`; 0 until it is written.
    offsets: Vec<usize>,
    cipher: Option<Cipher>,
}

impl PdfWriter {
    fn open(&mut self, object: usize) {
        if self.offsets.len() < object {
            self.offsets.resize(object, 0);
        }
        self.offsets[object - 1] = self.out.len();
        self.put(&format!("{object} 0 obj\n"));
    }

    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn object(&mut self, object: usize, body: &str) {
        self.open(object);
        self.put(body);
        self.put("\nendobj\n");
    }

    fn stream(&mut self, object: usize, dictionary: &str, data: &[u8]) {
        let sealed = self
            .cipher
            .as_ref()
            .map(|cipher| cipher.encrypt(object, data));
        let data = sealed.as_deref().unwrap_or(data);
        self.open(object);
        self.put(&format!("<<{dictionary}/Length {}>>\nstream\n", data.len()));
        self.out.extend_from_slice(data);
        self.put("\nendstream\nendobj\n");
    }

    // A text string: hexadecimal, Latin or UTF-16, encrypted if the file is.
    fn string(&self, object: usize, text: &str) -> String {
        let plain: Vec<u8> = if text.is_ascii() {
            text.bytes().collect()
        } else {
            [0xfe, 0xff]
                .into_iter()
                .chain(text.encode_utf16().flat_map(u16::to_be_bytes))
                .collect()
        };
        let bytes = self
            .cipher
            .as_ref()
            .map_or_else(|| plain.clone(), |cipher| cipher.encrypt(object, &plain));
        if text.is_ascii() && self.cipher.is_none() {
            let mut out = vec![b'('];
            plain.iter().for_each(|&byte| escape(byte, &mut out));
            out.push(b')');
            return String::from_utf8_lossy(&out).into_owned();
        }
        format!("<{}>", hex(&bytes))
    }

    fn fonts(&mut self, plan: &ObjectNumbers, options: &PdfOptions<'_>) {
        for (n, name) in fonts::BASE_FONTS.iter().enumerate() {
            let widths: Vec<String> = fonts::widths(n).iter().map(u16::to_string).collect();
            let body = format!(
                "<</Type/Font/Subtype/Type1/BaseFont/{name}/Encoding/WinAnsiEncoding/FirstChar 32/LastChar 255/Widths[{}]>>",
                widths.join(" ")
            );
            self.object(FIRST_FONT + n, &body);
        }
        if options.chinese {
            self.song(FIRST_FONT + plan.fonts - 1, options);
        }
    }

    // The Chinese font. Files with even seeds map codes to characters (`/ToUnicode`); for the others a reader
    // must know the predefined encoding.
    fn song(&mut self, song: usize, options: &PdfOptions<'_>) {
        let below = song + 1;
        let descriptor = song + 2;
        let mapping = song + 3;
        let to_unicode = if options.seed.is_multiple_of(2) {
            format!("/ToUnicode {mapping} 0 R")
        } else {
            String::new()
        };
        self.object(song, &format!("<</Type/Font/Subtype/Type0/BaseFont/STSong-Light-UniGB-UCS2-H/Encoding/UniGB-UCS2-H/DescendantFonts[{below} 0 R]{to_unicode}>>"));
        let ordering = format!(
            "{}/Ordering{}",
            self.string(below, "Adobe"),
            self.string(below, "GB1")
        );
        self.object(below, &format!("<</Type/Font/Subtype/CIDFontType0/BaseFont/STSong-Light/CIDSystemInfo<</Registry{ordering}/Supplement 2>>/DW 1000/W[1[500] 2 95 500]/FontDescriptor {descriptor} 0 R>>"));
        self.object(descriptor, "<</Type/FontDescriptor/FontName/STSong-Light/Flags 6/FontBBox[-25 -254 1000 880]/ItalicAngle 0/Ascent 880/Descent -120/CapHeight 880/StemV 93>>");
        self.stream(
            mapping,
            "/Filter/FlateDecode",
            &deflate(identity_mapping().as_bytes()),
        );
    }

    // The image of a scanned page: gray bars, which no reader can take for text.
    fn image(&mut self) {
        let data: Vec<u8> = (0..64u32 * 64)
            .map(|at| if (at / 64) % 4 < 2 { 235 } else { 120 })
            .collect();
        let dictionary = "/Type/XObject/Subtype/Image/Width 64/Height 64/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/FlateDecode";
        self.stream(IMAGE, dictionary, &deflate(&data));
    }

    fn page(&mut self, n: usize, page: &SetPage, plan: &ObjectNumbers, options: &PdfOptions<'_>) {
        let (width, height) = options.page_size;
        let object = plan.page(n);
        let fonts: String = (0..plan.fonts)
            .map(|f| format!("/F{f} {} 0 R", FIRST_FONT + f))
            .collect();
        let links: String = page
            .links
            .iter()
            .map(|link| annotation(link, plan, options))
            .collect();
        let annotations = if links.is_empty() {
            String::new()
        } else {
            format!("/Annots[{links}]")
        };
        let rotation = match page.rotation {
            0 => String::new(),
            degrees => format!("/Rotate {degrees}"),
        };
        let parent = plan.first_tree_node + n / FAN_OUT;
        self.object(
            object,
            &format!(
                "<</Type/Page/Parent {parent} 0 R/MediaBox[0 0 {width} {height}]/Resources<</Font<<{fonts}>>/XObject<</Im {IMAGE} 0 R>>>>/Contents {} 0 R{annotations}{rotation}>>",
                object + 1
            ),
        );
        self.stream(
            object + 1,
            "/Filter/FlateDecode",
            &deflate(&operators(page, options)),
        );
    }

    fn page_tree(&mut self, plan: &ObjectNumbers, pages: usize) {
        let nodes = pages.div_ceil(FAN_OUT);
        for node in 0..nodes {
            let range = node * FAN_OUT..pages.min((node + 1) * FAN_OUT);
            let count = range.len();
            let kids: String = range.map(|n| format!("{} 0 R ", plan.page(n))).collect();
            let body = format!("<</Type/Pages/Parent {PAGE_ROOT} 0 R/Count {count}/Kids[{kids}]>>");
            self.object(plan.first_tree_node + node, &body);
        }
        let kids: String = (0..nodes)
            .map(|node| format!("{} 0 R ", plan.first_tree_node + node))
            .collect();
        self.object(
            PAGE_ROOT,
            &format!("<</Type/Pages/Count {pages}/Kids[{kids}]>>"),
        );
    }

    // Writes the outline and returns its root object.
    fn outline(
        &mut self,
        nodes: &[HeadingTruth],
        plan: &ObjectNumbers,
        options: &PdfOptions<'_>,
    ) -> usize {
        let root = plan.next;
        let family = OutlineLinks::from_nodes(nodes);
        let object = |n: Option<usize>| n.map_or(root, |n| root + 1 + n);
        for (n, node) in nodes.iter().enumerate() {
            let mut body = format!(
                "<</Title{}/Parent {} 0 R",
                self.string(root + 1 + n, &node.title),
                object(family.parent[n])
            );
            for (key, kin) in [("Prev", family.previous[n]), ("Next", family.next[n])] {
                if let Some(kin) = kin {
                    body.push_str(&format!("/{key} {} 0 R", object(Some(kin))));
                }
            }
            if let Some((first, last, count)) = family.children[n + 1] {
                let first = object(Some(first));
                let last = object(Some(last));
                body.push_str(&format!(
                    "/First {first} 0 R/Last {last} 0 R/Count -{count}"
                ));
            }
            let top = (node.baseline as f32 / 100.0 - 14.0).max(0.0);
            body.push_str(&format!(
                "/Dest{}>>",
                destination(node.page as usize, top, plan, options)
            ));
            self.object(root + 1 + n, &body);
        }
        let (first, last, count) = family.children[0].unwrap_or_default();
        let first = object(Some(first));
        let last = object(Some(last));
        self.object(
            root,
            &format!("<</Type/Outlines/First {first} 0 R/Last {last} 0 R/Count {count}>>"),
        );
        root
    }

    fn catalog(&mut self, pages: &[SetPage], outline: Option<usize>, options: &PdfOptions<'_>) {
        let title = self.string(INFO, options.title);
        let producer = self.string(INFO, "Stemma test filings");
        self.object(INFO, &format!("<</Title{title}/Producer{producer}>>"));
        let outline = outline.map_or(String::new(), |root| {
            format!("/Outlines {root} 0 R/PageMode/UseOutlines")
        });
        let labels = if options.labels {
            self.page_labels(pages)
        } else {
            String::new()
        };
        self.object(
            CATALOG,
            &format!("<</Type/Catalog/Pages {PAGE_ROOT} 0 R{outline}{labels}>>"),
        );
    }

    fn page_labels(&self, pages: &[SetPage]) -> String {
        let mut entries = String::new();
        let mut expected = None;
        for (n, page) in pages.iter().enumerate() {
            if expected != Some(page.numbering) {
                let label = match page.numbering {
                    Numbering::None => String::new(),
                    Numbering::Roman(start) => format!("/S/r/St {start}"),
                    Numbering::Arabic(start) => format!("/S/D/St {start}"),
                    Numbering::Prefixed(prefix, start) => {
                        format!("/S/D/P{}/St {start}", self.string(CATALOG, prefix))
                    }
                };
                entries.push_str(&format!("{n}<<{label}>>"));
            }
            expected = Some(page.numbering.next());
        }
        format!("/PageLabels<</Nums[{entries}]>>")
    }

    fn finish(mut self, id: &[u8; 16]) -> Vec<u8> {
        let encrypt = self.cipher.as_ref().map(|cipher| cipher.dictionary());
        let encrypt = encrypt.map_or(String::new(), |body| {
            let object = self.offsets.len() + 1;
            self.object(object, &body);
            format!("/Encrypt {object} 0 R")
        });
        let start = self.out.len();
        self.put(&format!(
            "xref\n0 {}\n0000000000 65535 f \n",
            self.offsets.len() + 1
        ));
        for at in self.offsets.clone() {
            self.put(&format!("{at:010} 00000 n \n"));
        }
        let size = self.offsets.len() + 1;
        let id = hex(id);
        self.put(&format!(
            "trailer\n<</Size {size}/Root {CATALOG} 0 R/Info {INFO} 0 R/ID[<{id}><{id}>]{encrypt}>>\nstartxref\n{start}\n%%EOF\n"
        ));
        self.out
    }
}

// Relations of outline entries. Index 0 of `children` is the root.
struct OutlineLinks {
    parent: Vec<Option<usize>>,
    previous: Vec<Option<usize>>,
    next: Vec<Option<usize>>,
    children: Vec<Option<(usize, usize, usize)>>,
}

impl OutlineLinks {
    fn from_nodes(nodes: &[HeadingTruth]) -> Self {
        let none = vec![None; nodes.len()];
        let mut family = Self {
            parent: none.clone(),
            previous: none.clone(),
            next: none,
            children: vec![None; nodes.len() + 1],
        };
        let mut open: Vec<usize> = Vec::new();
        for (n, node) in nodes.iter().enumerate() {
            while open
                .last()
                .is_some_and(|&above| nodes[above].level >= node.level)
            {
                open.pop();
            }
            let parent = open.last().copied();
            family.parent[n] = parent;
            let children = &mut family.children[parent.map_or(0, |above| above + 1)];
            if let Some((_, last, _)) = *children {
                family.previous[n] = Some(last);
                family.next[last] = Some(n);
            }
            *children = Some(children.map_or((n, n, 1), |(first, _, count)| (first, n, count + 1)));
            open.push(n);
        }
        family
    }
}

// Half of the seeds link by `/Dest`, the others by a `GoTo` action, because both are common.
fn annotation(link: &SetLink, plan: &ObjectNumbers, options: &PdfOptions<'_>) -> String {
    let height = options.page_size.1;
    let [x0, top, x1, bottom] = link.rect;
    let target = destination(link.page, link.y, plan, options);
    let target = if options.seed.is_multiple_of(2) {
        format!("/Dest{target}")
    } else {
        format!("/A<</S/GoTo/D{target}>>")
    };
    format!(
        "<</Type/Annot/Subtype/Link/Border[0 0 0]/Rect[{:.2} {:.2} {:.2} {:.2}]{target}>>",
        x0,
        height - bottom,
        x1,
        height - top
    )
}

fn destination(page: usize, y: f32, plan: &ObjectNumbers, options: &PdfOptions<'_>) -> String {
    format!(
        "[{} 0 R/XYZ 0 {:.2} null]",
        plan.page(page),
        options.page_size.1 - y
    )
}

fn operators(page: &SetPage, options: &PdfOptions<'_>) -> Vec<u8> {
    let (width, height) = options.page_size;
    if page.scanned {
        return format!("q {width} 0 0 {height} 0 0 cm /Im Do Q\n").into_bytes();
    }
    let mut out = Vec::with_capacity(page.lines.len() * 120);
    out.extend_from_slice(b"BT\n");
    let mut current = (usize::MAX, 0.0);
    for line in &page.lines {
        for span in &line.spans {
            show(span, RIGHTWARDS, height - line.y, &mut current, &mut out);
        }
    }
    if let Some(note) = &page.margin_note {
        show(note, UPWARDS, height / 2.0, &mut current, &mut out);
    }
    out.extend_from_slice(b"ET\n");
    out
}

// The first four numbers of a text matrix.
const RIGHTWARDS: &[u8] = b"1 0 0 1 ";
const UPWARDS: &[u8] = b"0 1 -1 0 ";

fn show(span: &TextSpan, direction: &[u8], y: f32, current: &mut (usize, f32), out: &mut Vec<u8>) {
    if *current != (span.font, span.size) {
        *current = (span.font, span.size);
        out.extend_from_slice(format!("/F{} ", span.font).as_bytes());
        number(span.size, out);
        out.extend_from_slice(b"Tf\n");
    }
    out.extend_from_slice(direction);
    number(span.x, out);
    number(y, out);
    if span.font == fonts::SONG {
        out.extend_from_slice(b"Tm <");
        let codes: Vec<u8> = span
            .text
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect();
        out.extend_from_slice(hex(&codes).as_bytes());
        out.extend_from_slice(b"> Tj\n");
    } else {
        out.extend_from_slice(b"Tm (");
        span.text
            .chars()
            .for_each(|c| escape(fonts::winansi(c), out));
        out.extend_from_slice(b") Tj\n");
    }
}

// A `/ToUnicode` mapping of every code to itself, since codes are UCS-2. A range must not cross a first byte,
// and a block holds at most 100 ranges.
fn identity_mapping() -> String {
    let mut out = String::from(
        "/CIDInit/ProcSet findresource begin 12 dict begin begincmap/CIDSystemInfo<</Registry(Adobe)/Ordering(UCS)/Supplement 0>>def/CMapName/Adobe-Identity-UCS def/CMapType 2 def\n1 begincodespacerange<0000><FFFF>endcodespacerange\n",
    );
    for block in 0..4 {
        out.push_str("64 beginbfrange\n");
        (block * 64..block * 64 + 64).for_each(|high| {
            out.push_str(&format!("<{high:02X}00><{high:02X}FF><{high:02X}00>\n"));
        });
        out.push_str("endbfrange\n");
    }
    out.push_str("endcmap CMapName currentdict/CMap defineresource pop end end\n");
    out
}

// A number with two decimals and a space. `format!` is too slow for a million of them.
fn number(value: f32, out: &mut Vec<u8>) {
    let hundredths = (value * 100.0).round() as i64;
    if hundredths < 0 {
        out.push(b'-');
    }
    let hundredths = hundredths.unsigned_abs();
    out.extend_from_slice((hundredths / 100).to_string().as_bytes());
    let rest = (hundredths % 100) as u8;
    out.extend_from_slice(&[b'.', b'0' + rest / 10, b'0' + rest % 10, b' ']);
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    if matches!(byte, b'(' | b')' | b'\\') {
        out.push(b'\\');
    }
    out.push(byte);
}

/// Upper-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from(if n < 10 { b'0' + n } else { b'A' + n - 10 });
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

// Always the same compressor: the backend of `flate2`, and with it the bytes, would depend on features that
// other crates enable.
fn deflate(data: &[u8]) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(data, 6)
}

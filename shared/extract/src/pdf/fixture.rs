//! Builds PDFs for tests.

use std::fmt::Write;

/// Builder for PDFs with 612 × 792 pt pages, Helvetica (`/F1`) and Helvetica-Bold (`/F2`).
#[derive(Default)]
pub(super) struct PdfFixture {
    pages: Vec<(String, Vec<u8>)>,
    catalog: String,
    info: String,
    objects: Vec<Vec<u8>>,
    pub(super) resources: String,
    // Additional entries of the font dictionary.
    pub(super) fonts: String,
}

impl PdfFixture {
    pub(super) fn with_pages(contents: &[&str]) -> Self {
        contents.iter().fold(Self::default(), |fixture, content| {
            fixture.page("", content.as_bytes())
        })
    }

    /// Adds a page with additional dictionary entries.
    pub(super) fn page(mut self, entries: &str, content: &[u8]) -> Self {
        let mut stream = format!("<</Length {}>>stream\n", content.len()).into_bytes();
        stream.extend_from_slice(content);
        stream.extend_from_slice(b"\nendstream");
        self.pages.push((entries.into(), stream));
        self
    }

    /// A document of one page with several content streams.
    pub(super) fn with_streams(contents: &[&str]) -> Self {
        let first = Self::page_object(1);
        let numbers: String = (first..first + contents.len())
            .map(|number| format!("{number} 0 R "))
            .collect();
        let page = Self::default().page(&format!("/Contents[{numbers}]"), b"");
        contents.iter().fold(page, |fixture, content| {
            let length = content.len();
            fixture.object(&format!("<</Length {length}>>stream\n{content}\nendstream"))
        })
    }

    /// Adds a page with a deflated content stream.
    pub(super) fn deflated_page(self, content: &[u8]) -> Self {
        self.encoded_page("/FlateDecode", &deflate(content))
    }

    /// Adds a page with an encoded content stream.
    pub(super) fn encoded_page(mut self, filter: &str, data: &[u8]) -> Self {
        let mut stream = format!("<</Filter{filter}/Length {}>>stream\n", data.len()).into_bytes();
        stream.extend_from_slice(data);
        stream.extend_from_slice(b"\nendstream");
        self.pages.push((String::new(), stream));
        self
    }

    pub(super) fn catalog(mut self, entries: &str) -> Self {
        self.catalog.push_str(entries);
        self
    }

    pub(super) fn info(mut self, entries: &str) -> Self {
        self.info.push_str(entries);
        self
    }

    /// Adds an object. The first one has the number [`PdfFixture::first_object`].
    pub(super) fn object(mut self, body: &str) -> Self {
        self.objects.push(body.as_bytes().to_vec());
        self
    }

    /// Adds a bitmap font `/T3` as made by TeX printer drivers: glyphs named by their codes, one unit per dot, and no
    /// meaningful font size. Glyphs are code, advance, lower and upper edge.
    pub(super) fn bitmap_font(
        mut self,
        name: impl Fn(u8) -> String,
        glyphs: &[(u8, i32, i32, i32)],
    ) -> Self {
        let font = self.first_object() + self.objects.len();
        let _ = write!(self.fonts, "/T3 {font} 0 R");
        let mut procs = String::new();
        let mut differences = String::new();
        let mut widths = vec![0; 256];
        let mut programs = Vec::new();
        for (at, (code, advance, low, high)) in glyphs.iter().enumerate() {
            let _ = write!(procs, "/{} {} 0 R", name(*code), font + 1 + at);
            let _ = write!(differences, "{code}/{} ", name(*code));
            widths[usize::from(*code)] = *advance;
            let program = format!("{advance} 0 0 {low} {advance} {high} d1\n");
            programs.push(format!(
                "<</Length {}>>stream\n{program}\nendstream",
                program.len()
            ));
        }
        let widths: String = widths.iter().map(|width| format!("{width} ")).collect();
        let font = format!(
            "<</Type/Font/Subtype/Type3/FontMatrix[1 0 0 1 0 0]/FontBBox[0 0 1 1]/FirstChar 0/LastChar 255\
             /Widths[{widths}]/CharProcs<<{procs}>>/Encoding<</Type/Encoding/Differences[{differences}]>>>>"
        );
        programs
            .iter()
            .fold(self.object(&font), |fixture, program| {
                fixture.object(program)
            })
    }

    /// Object number of a 0-based page.
    pub(super) fn page_object(index: usize) -> usize {
        6 + 2 * index
    }

    /// Number of the first added object; valid once all pages are added.
    pub(super) fn first_object(&self) -> usize {
        Self::page_object(self.pages.len())
    }

    pub(super) fn build(&self) -> Vec<u8> {
        let kids: String = (0..self.pages.len())
            .map(|index| format!("{} 0 R ", Self::page_object(index)))
            .collect();
        let mut bodies: Vec<Vec<u8>> = vec![
            format!("<</Type/Catalog/Pages 2 0 R{}>>", self.catalog).into_bytes(),
            format!("<</Type/Pages/Count {}/Kids[{kids}]>>", self.pages.len()).into_bytes(),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".to_vec(),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold/Encoding/WinAnsiEncoding>>"
                .to_vec(),
            format!("<<{}>>", self.info).into_bytes(),
        ];
        for (index, (entries, stream)) in self.pages.iter().enumerate() {
            let sizes = if entries.contains("MediaBox") {
                ""
            } else {
                "/MediaBox[0 0 612 792]"
            };
            let contents = if entries.contains("/Contents") {
                String::new()
            } else {
                format!("/Contents {} 0 R", Self::page_object(index) + 1)
            };
            let page = format!(
                "<</Type/Page/Parent 2 0 R{sizes}/Resources<</Font<</F1 3 0 R/F2 4 0 R{}>>{}>>{contents}{entries}>>",
                self.fonts, self.resources
            );
            bodies.extend([page.into_bytes(), stream.clone()]);
        }
        bodies.extend(self.objects.iter().cloned());
        write(&bodies)
    }
}

pub(super) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

fn write(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut out = b"%PDF-1.7\n".to_vec();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", bodies.len() + 1);
    for (index, body) in bodies.iter().enumerate() {
        writeln!(table, "{:010} 00000 n ", out.len()).unwrap();
        out.extend_from_slice(format!("{} 0 obj\n", index + 1).as_bytes());
        out.extend_from_slice(body);
        out.extend_from_slice(b"\nendobj\n");
    }
    let start = out.len();
    let trailer = format!(
        "trailer\n<</Size {}/Root 1 0 R/Info 5 0 R/ID[<00112233445566778899aabbccddeeff><00112233445566778899aabbccddeeff>]>>\nstartxref\n{start}\n%%EOF\n",
        bodies.len() + 1
    );
    out.extend_from_slice(table.as_bytes());
    out.extend_from_slice(trailer.as_bytes());
    out
}

pub(super) fn text_at(x: f32, y: f32, text: &str) -> String {
    styled_text_at(x, y, "F1", 10.0, text)
}

pub(super) fn styled_text_at(x: f32, y: f32, font: &str, size: f32, text: &str) -> String {
    format!("BT /{font} {size} Tf 1 0 0 1 {x} {y} Tm ({text}) Tj ET\n")
}

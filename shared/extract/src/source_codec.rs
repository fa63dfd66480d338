//! Stored form of a [`Source`]: a header, and the text in chunks that can be decoded separately.
//!
//! `version (1 byte) · length of the header (u32, little-endian) · header · chunks`. The header and each chunk are
//! postcard in a zstd frame of their own. Equal sources give equal bytes. Sources whose lines know their bytes in the file have
//! a version of their own, in which these stand beside the pages of a chunk, and so have those with the cells of tables, and
//! those with pages that text recognition read, once or twice.

mod grids;

use std::collections::BTreeMap;
use std::io::Read;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stemma_document::{
    ByteSpan, Defect, Extent, Heading, Link, OutlineItem, Page, PageOrigin, PageSpan, Recognition,
    Source, SourceBody, SourceFormat, TextLines,
};

// Increment when the layout or the content types change.
const VERSION: u8 = 3;
// The same with the bytes of lines.
const VERSION_WITH_BYTES: u8 = 4;
// The same with the bytes of lines and the cells of tables.
const VERSION_WITH_GRIDS: u8 = 5;
// With what text recognition says about pages.
const VERSION_WITH_RECOGNITION: u8 = 6;
// The same with the words of which two readers read different figures.
const VERSION_WITH_DISPUTED: u8 = 7;
// The skew and the confidences of a page.
type UndisputedRecognition = (i16, Vec<u8>);
/// Pages per chunk.
pub const PAGES_PER_CHUNK: usize = 64;
const LINES_PER_CHUNK: usize = 4_096;
// Larger frames are rejected.
const MAX_FRAME_BYTES: u32 = 1 << 30;
// Initial allocation for a frame, since the declared size is untrusted.
const MAX_RESERVE_BYTES: u32 = 16 << 20;

/// Invalid encoded source. The input comes from stores and child processes and is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error(
        "the packed source has version {0}, this program reads version {VERSION_WITH_DISPUTED}"
    )]
    Version(u8),
    /// Truncated, altered, or larger than declared.
    #[error("the packed source is damaged: {0}")]
    Damaged(&'static str),
    #[error("pages or lines {0} to {1} are not in the packed source")]
    OutOfRange(u32, u32),
}

/// A source without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceHeader {
    pub format: SourceFormat,
    /// Pages or lines.
    pub extent: Extent,
    /// PDF bookmarks.
    pub outline: Vec<OutlineItem>,
    pub links: Vec<Link>,
    /// Empty for documents with pages.
    pub headings: Vec<Heading>,
    pub metadata: BTreeMap<String, String>,
    pub defects: Vec<Defect>,
    pub encrypted: bool,
    chunks: Vec<ChunkEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct ChunkEntry {
    packed_bytes: u32,
    raw_bytes: u32,
}

/// Encodes a source.
///
/// # Errors
///
/// [`CodecError::Damaged`] for a chunk over 1 GiB, which the extraction limits prevent.
pub fn encode_source(source: &Source) -> Result<Vec<u8>, CodecError> {
    let mut chunks = Vec::new();
    let mut text = Vec::new();
    let mut headings = Vec::new();
    let mut version = VERSION;
    match &source.body {
        SourceBody::Pages(pages) => {
            let lines = || pages.iter().flat_map(|page| &page.lines);
            let mut recognitions = pages.iter().filter_map(Page::recognition).peekable();
            if recognitions.peek().is_some() {
                version = match recognitions.all(|read| read.disputed.is_empty()) {
                    true => VERSION_WITH_RECOGNITION,
                    false => VERSION_WITH_DISPUTED,
                };
            } else if lines().any(|line| line.grid.is_some()) {
                version = VERSION_WITH_GRIDS;
            } else if lines().any(|line| line.bytes.is_some()) {
                version = VERSION_WITH_BYTES;
            }
            for pages in pages.chunks(PAGES_PER_CHUNK) {
                let (entry, frame) = match version {
                    VERSION => encode_frame(&pages)?,
                    VERSION_WITH_BYTES => encode_frame(&(pages, line_steps(pages)))?,
                    VERSION_WITH_RECOGNITION => {
                        let read = pages.iter().map(Page::recognition);
                        let read = read.map(|read| Some((read?.skew, &read?.confidences)));
                        encode_frame(&(pages, read.collect::<Vec<_>>()))?
                    }
                    VERSION_WITH_DISPUTED => {
                        let read = pages.iter().map(Page::recognition);
                        encode_frame(&(pages, read.collect::<Vec<_>>()))?
                    }
                    _ => encode_frame(&(pages, line_steps(pages), grids::stored(pages)))?,
                };
                chunks.push(entry);
                text.extend(frame);
            }
        }
        SourceBody::Lines(body) => {
            headings.clone_from(&body.headings);
            let mut tokens = body.tokens.chunks(LINES_PER_CHUNK);
            for lines in body.lines.chunks(LINES_PER_CHUNK) {
                let (entry, frame) = encode_frame(&(lines, tokens.next().unwrap_or_default()))?;
                chunks.push(entry);
                text.extend(frame);
            }
        }
    }
    let header = SourceHeader {
        format: source.format,
        extent: source.extent(),
        outline: source.outline.clone(),
        links: source.links.clone(),
        headings,
        metadata: source.metadata.clone(),
        defects: source.defects.clone(),
        encrypted: source.encrypted,
        chunks,
    };
    let (size, header) = encode_frame(&header)?;
    Ok([
        &[version][..],
        &size.packed_bytes.to_le_bytes(),
        &header,
        &text,
    ]
    .concat())
}

/// For each line the bytes from the end of the line before to its start, and its length plus one; 0 if it has none.
fn line_steps(pages: &[Page]) -> Vec<(i64, u32)> {
    let mut last = 0;
    let lines = pages.iter().flat_map(|page| &page.lines);
    let steps = lines.map(|line| match line.bytes {
        Some(bytes) => {
            let step = i64::from(bytes.start) - last;
            last = i64::from(bytes.end);
            (
                step,
                bytes.end.saturating_sub(bytes.start).saturating_add(1),
            )
        }
        None => (0, 0),
    });
    steps.collect()
}

fn set_line_bytes(pages: &mut [Page], steps: &[(i64, u32)]) -> Result<(), CodecError> {
    let lines = || CodecError::Damaged("the bytes of lines do not fit its lines");
    let mut steps = steps.iter();
    let mut last = 0_i64;
    for line in pages.iter_mut().flat_map(|page| &mut page.lines) {
        let (step, length) = steps.next().ok_or_else(lines)?;
        let Some(length) = length.checked_sub(1) else {
            continue;
        };
        let start = last.saturating_add(*step);
        last = start.saturating_add(i64::from(length));
        let offset = |at: i64| u32::try_from(at).map_err(|_| lines());
        line.bytes = Some(ByteSpan {
            start: offset(start)?,
            end: offset(last)?,
        });
    }
    match steps.next() {
        None => Ok(()),
        Some(_) => Err(lines()),
    }
}

fn set_recognitions(
    pages: &mut [Page],
    recognitions: Vec<Option<Recognition>>,
) -> Result<(), CodecError> {
    if recognitions.len() != pages.len() {
        return Err(CodecError::Damaged("its recognitions do not fit its pages"));
    }
    for (page, recognition) in pages.iter_mut().zip(recognitions) {
        let Some(recognition) = recognition else {
            continue;
        };
        let words: usize = page.lines.iter().map(|line| line.words.len()).sum();
        if recognition.confidences.len() != words {
            return Err(CodecError::Damaged("its confidences do not fit its words"));
        }
        let places = recognition.disputed.iter().map(|one| one.word as usize);
        let last = places.clone().next_back();
        if last.is_some_and(|last| last >= words) || !places.is_sorted_by(|one, next| one < next) {
            return Err(CodecError::Damaged(
                "its disputed words do not fit its words",
            ));
        }
        page.origin = PageOrigin::Recognized(Box::new(recognition));
    }
    Ok(())
}

fn frame_bytes(bytes: &[u8]) -> Option<u32> {
    u32::try_from(bytes.len())
        .ok()
        .filter(|size| *size <= MAX_FRAME_BYTES)
}

fn encode_frame<T: Serialize>(value: &T) -> Result<(ChunkEntry, Vec<u8>), CodecError> {
    let raw =
        postcard::to_stdvec(value).map_err(|_| CodecError::Damaged("it cannot be encoded"))?;
    let packed = zstd::bulk::compress(&raw, 3)
        .map_err(|_| CodecError::Damaged("it cannot be compressed"))?;
    let too_large = CodecError::Damaged("a chunk is too large");
    let (Some(packed_bytes), Some(raw_bytes)) = (frame_bytes(&packed), frame_bytes(&raw)) else {
        return Err(too_large);
    };
    let entry = ChunkEntry {
        packed_bytes,
        raw_bytes,
    };
    Ok((entry, packed))
}

/// An encoded source with a decoded header.
#[derive(Debug, Clone)]
pub struct EncodedSource {
    header: SourceHeader,
    version: u8,
    // All chunks, concatenated.
    text: Bytes,
    chunk_offsets: Vec<usize>,
}

impl EncodedSource {
    /// Decodes the header.
    ///
    /// # Errors
    ///
    /// [`CodecError::Version`] and [`CodecError::Damaged`].
    pub fn open(bytes: impl Into<Bytes>) -> Result<Self, CodecError> {
        let bytes: Bytes = bytes.into();
        let version = match bytes.first() {
            None => return Err(CodecError::Damaged("it is empty")),
            Some(version @ VERSION..=VERSION_WITH_DISPUTED) => *version,
            Some(other) => return Err(CodecError::Version(*other)),
        };
        let cut_short = CodecError::Damaged("its head is cut short");
        let (size, _) = bytes[1..]
            .split_first_chunk::<4>()
            .ok_or(cut_short.clone())?;
        let head_end = usize::try_from(u32::from_le_bytes(*size))
            .ok()
            .and_then(|size| size.checked_add(5));
        let head_end = head_end
            .filter(|end| *end <= bytes.len())
            .ok_or(cut_short)?;
        let header: SourceHeader = decode_frame(&bytes[5..head_end], MAX_FRAME_BYTES)?;
        let text = bytes.slice(head_end..);
        let chunk_offsets = chunk_offsets(&header, text.len())?;
        Ok(Self {
            header,
            version,
            text,
            chunk_offsets,
        })
    }

    pub fn header(&self) -> &SourceHeader {
        &self.header
    }

    /// Pages or lines.
    pub fn extent(&self) -> Extent {
        self.header.extent
    }

    /// Decodes the pages of `span`, and only the chunks that contain them.
    ///
    /// # Errors
    ///
    /// [`CodecError::OutOfRange`], also for a document of lines; [`CodecError::Damaged`].
    pub fn pages(&self, span: PageSpan) -> Result<Vec<Page>, CodecError> {
        let first = span.start().index();
        let last = span.end().index();
        match self.header.extent {
            Extent::Pages(count) if last < count as usize => {}
            _ => return Err(CodecError::OutOfRange(span.start().get(), span.end().get())),
        }
        let mut pages = Vec::with_capacity(span.len());
        for index in first / PAGES_PER_CHUNK..=last / PAGES_PER_CHUNK {
            let chunk = self.page_chunk(index)?;
            let start = index * PAGES_PER_CHUNK;
            pages.extend(
                chunk
                    .into_iter()
                    .skip(first.saturating_sub(start))
                    .take(last + 1 - start.max(first)),
            );
        }
        Ok(pages)
    }

    /// Decodes lines `start..=end` (1-based), and only the chunks that contain them.
    ///
    /// # Errors
    ///
    /// [`CodecError::OutOfRange`], also for a document of pages and if `end < start`; [`CodecError::Damaged`].
    pub fn lines(&self, start: u32, end: u32) -> Result<Vec<String>, CodecError> {
        match self.header.extent {
            Extent::Lines(count) if 1 <= start && start <= end && end <= count => {}
            _ => return Err(CodecError::OutOfRange(start, end)),
        }
        let first = start as usize - 1;
        let last = end as usize - 1;
        let mut lines = Vec::new();
        for index in first / LINES_PER_CHUNK..=last / LINES_PER_CHUNK {
            let (chunk, _) = self.line_chunk(index)?;
            let start = index * LINES_PER_CHUNK;
            lines.extend(
                chunk
                    .into_iter()
                    .skip(first.saturating_sub(start))
                    .take(last + 1 - start.max(first)),
            );
        }
        Ok(lines)
    }

    /// Decodes the whole source, chunk by chunk to limit memory.
    ///
    /// # Errors
    ///
    /// [`CodecError::Damaged`].
    pub fn decode(self) -> Result<Source, CodecError> {
        let body = match self.header.extent {
            Extent::Pages(count) => {
                let mut pages = Vec::with_capacity(
                    (count as usize).min(PAGES_PER_CHUNK * self.chunk_offsets.len()),
                );
                for index in 0..self.chunk_offsets.len() {
                    pages.append(&mut self.page_chunk(index)?);
                }
                SourceBody::Pages(pages)
            }
            Extent::Lines(_) => SourceBody::Lines(self.text_lines()?),
        };
        let head = self.header;
        Ok(Source {
            format: head.format,
            body,
            outline: head.outline,
            links: head.links,
            metadata: head.metadata,
            defects: head.defects,
            encrypted: head.encrypted,
        })
    }

    fn text_lines(&self) -> Result<TextLines, CodecError> {
        let mut text = TextLines {
            headings: self.header.headings.clone(),
            ..TextLines::default()
        };
        for index in 0..self.chunk_offsets.len() {
            let (lines, tokens) = self.line_chunk(index)?;
            text.lines.extend(lines);
            text.tokens.extend(tokens);
        }
        if text.tokens.is_empty() || text.tokens.len() == text.lines.len() {
            Ok(text)
        } else {
            Err(CodecError::Damaged("its tokens do not fit its lines"))
        }
    }

    fn page_chunk(&self, index: usize) -> Result<Vec<Page>, CodecError> {
        let pages: Vec<Page> = match self.version {
            VERSION => self.chunk(index)?,
            VERSION_WITH_BYTES => {
                let (mut pages, steps): (Vec<Page>, Vec<(i64, u32)>) = self.chunk(index)?;
                set_line_bytes(&mut pages, &steps)?;
                pages
            }
            VERSION_WITH_RECOGNITION => {
                let (mut pages, read): (Vec<Page>, Vec<Option<UndisputedRecognition>>) =
                    self.chunk(index)?;
                let undisputed = |(skew, confidences)| Recognition {
                    skew,
                    confidences,
                    disputed: Vec::new(),
                };
                let read = read.into_iter().map(|read| read.map(undisputed));
                set_recognitions(&mut pages, read.collect())?;
                pages
            }
            VERSION_WITH_DISPUTED => {
                let (mut pages, read): (Vec<Page>, Vec<Option<Recognition>>) = self.chunk(index)?;
                set_recognitions(&mut pages, read)?;
                pages
            }
            _ => {
                let (mut pages, steps, grids): (
                    Vec<Page>,
                    Vec<(i64, u32)>,
                    Vec<grids::StoredGrid>,
                ) = self.chunk(index)?;
                set_line_bytes(&mut pages, &steps)?;
                grids::set(&mut pages, grids)?;
                pages
            }
        };
        self.check_length(index, pages.len(), PAGES_PER_CHUNK)?;
        Ok(pages)
    }

    fn line_chunk(&self, index: usize) -> Result<(Vec<String>, Vec<u32>), CodecError> {
        let chunk: (Vec<String>, Vec<u32>) = self.chunk(index)?;
        self.check_length(index, chunk.0.len(), LINES_PER_CHUNK)?;
        Ok(chunk)
    }

    fn chunk<T: DeserializeOwned>(&self, index: usize) -> Result<T, CodecError> {
        let chunk = self.header.chunks.get(index);
        let start = self.chunk_offsets.get(index);
        let (Some(chunk), Some(start)) = (chunk, start) else {
            return Err(CodecError::Damaged("a chunk is missing"));
        };
        decode_frame(
            &self.text[*start..*start + chunk.packed_bytes as usize],
            chunk.raw_bytes,
        )
    }

    fn check_length(
        &self,
        index: usize,
        length: usize,
        per_chunk: usize,
    ) -> Result<(), CodecError> {
        let expected = (self.header.extent.size() as usize)
            .saturating_sub(index * per_chunk)
            .min(per_chunk);
        if length == expected {
            Ok(())
        } else {
            Err(CodecError::Damaged("a chunk has the wrong length"))
        }
    }
}

// Validates the chunk table against the extent and the bytes.
fn chunk_offsets(head: &SourceHeader, text_bytes: usize) -> Result<Vec<usize>, CodecError> {
    let per_chunk = if matches!(head.extent, Extent::Pages(_)) {
        PAGES_PER_CHUNK
    } else {
        LINES_PER_CHUNK
    };
    if head.chunks.len() != (head.extent.size() as usize).div_ceil(per_chunk) {
        return Err(CodecError::Damaged("its table does not fit its extent"));
    }
    let mut end = 0usize;
    let mut starts = Vec::with_capacity(head.chunks.len());
    for chunk in &head.chunks {
        starts.push(end);
        end = end.saturating_add(chunk.packed_bytes as usize);
    }
    if end == text_bytes {
        Ok(starts)
    } else {
        Err(CodecError::Damaged("its text is cut short or too long"))
    }
}

// Memory grows with the actual content, not with the declared size.
fn decode_frame<T: DeserializeOwned>(packed: &[u8], max_bytes: u32) -> Result<T, CodecError> {
    let limit = max_bytes.min(MAX_FRAME_BYTES);
    let mut raw = Vec::with_capacity(limit.min(MAX_RESERVE_BYTES) as usize);
    zstd::stream::read::Decoder::with_buffer(packed)
        .and_then(|decoder| {
            decoder
                .single_frame()
                .take(u64::from(limit) + 1)
                .read_to_end(&mut raw)
        })
        .map_err(|_| CodecError::Damaged("a frame cannot be unpacked"))?;
    if raw.len() > limit as usize {
        return Err(CodecError::Damaged("a frame is larger than declared"));
    }
    match postcard::take_from_bytes(&raw) {
        Ok((value, [])) => Ok(value),
        _ => Err(CodecError::Damaged("a frame has the wrong content")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stemma_document::{
        DisputedWord, Emphasis, GridCell, GridLine, Line, LineRole, PageLabel, Pt, Rect, StyleRun,
        Turn, Word,
    };

    use super::*;

    fn paged(pages: usize) -> Source {
        let line = |n: usize| Line {
            text: format!("page {n}"),
            rect: Rect::new(1.0, 2.0, 3.0, 4.0),
            runs: vec![StyleRun {
                end: 6,
                size: Pt::new(9.5),
                bold: true,
                emphasis: Emphasis::Italic,
            }],
            words: vec![Word {
                start: 0,
                end: 4,
                x0: Pt(-100),
                x1: Pt(200),
            }],
            tokens: 3,
            role: LineRole::Foot,
            bytes: None,
            grid: None,
        };
        let body = SourceBody::Pages(
            (1..=pages)
                .map(|n: usize| Page {
                    width: Pt(61200),
                    height: Pt(79200),
                    turn: Turn::Quarter,
                    label: Some(PageLabel(n.to_string())),
                    lines: vec![line(n)],
                    origin: PageOrigin::File,
                })
                .collect(),
        );
        Source {
            body,
            ..crate::markdown::read(b"---\na: b\n---\n".to_vec(), &crate::Limits::default())
                .unwrap()
        }
    }

    fn lined(lines: usize) -> Source {
        crate::markdown::read(
            "# \u{5e74}\n".repeat(lines).into_bytes(),
            &crate::Limits::default(),
        )
        .unwrap()
    }

    #[test]
    fn sources_round_trip() {
        for source in [
            paged(0),
            paged(1),
            paged(64),
            paged(200),
            lined(1),
            lined(4_096),
            lined(10_000),
        ] {
            let bytes = encode_source(&source).unwrap();
            assert_eq!(bytes, encode_source(&source).unwrap());
            let packed = EncodedSource::open(bytes).unwrap();
            assert_eq!(packed.extent(), source.extent());
            assert_eq!(packed.decode().unwrap(), source);
        }
    }

    #[test]
    fn emphasis_is_stored_where_a_flag_for_italics_was() {
        let run = |emphasis| StyleRun {
            end: 6,
            size: Pt(950),
            bold: true,
            emphasis,
        };
        for (emphasis, is_italic) in [(Emphasis::None, false), (Emphasis::Italic, true)] {
            let flagged = (6_u32, 950_i32, true, is_italic);
            assert_eq!(
                postcard::to_allocvec(&run(emphasis)),
                postcard::to_allocvec(&flagged)
            );
        }
        let mut source = paged(1);
        let SourceBody::Pages(pages) = &mut source.body else {
            unreachable!()
        };
        pages[0].lines[0].runs = vec![run(Emphasis::Decoration)];
        let packed = EncodedSource::open(encode_source(&source).unwrap()).unwrap();
        assert_eq!(packed.decode().unwrap(), source);
    }

    #[test]
    fn bytes_of_lines_round_trip() {
        let mut source = paged(130);
        let SourceBody::Pages(pages) = &mut source.body else {
            panic!("no pages")
        };
        for (n, page) in (0..).zip(pages.iter_mut()) {
            page.lines.push(page.lines[0].clone());
            // The second line begins before the first ends, as in a row of a table.
            for (line, start) in page.lines.iter_mut().zip([n * 40, n * 40 + 7]) {
                line.bytes = (n % 5 > 0).then_some(ByteSpan {
                    start,
                    end: start + n % 7,
                });
            }
        }
        let packed = EncodedSource::open(encode_source(&source).unwrap()).unwrap();
        assert_eq!(packed.clone().decode().unwrap(), source);
        let pages = packed.pages(PageSpan::new(64, 65).unwrap()).unwrap();
        assert_eq!(
            pages[1].lines[0].bytes.map(|bytes| bytes.start),
            Some(64 * 40)
        );
    }

    #[test]
    fn cells_of_tables_round_trip() {
        let mut source = paged(130);
        let SourceBody::Pages(pages) = &mut source.body else {
            panic!("no pages")
        };
        for (n, page) in (0..).zip(pages.iter_mut()) {
            page.lines.push(page.lines[0].clone());
            let cell = |start: u32, column: u16| GridCell {
                start,
                end: start + 2,
                column,
                columns: 1 + column % 3,
                rows: column,
                // The second cell stands before the first in the file.
                bytes: (n % 5 > 0).then_some(ByteSpan {
                    start: n * 40 + 30 - start,
                    end: n * 40 + 33,
                }),
            };
            page.lines[1].grid = (n % 3 > 0).then(|| {
                Box::new(GridLine {
                    table: n / 2,
                    row: n % 7,
                    cells: vec![cell(0, 0), cell(3, 4)],
                })
            });
        }
        let bytes = encode_source(&source).unwrap();
        assert_eq!(bytes[0], VERSION_WITH_GRIDS);
        let packed = EncodedSource::open(bytes).unwrap();
        assert_eq!(packed.clone().decode().unwrap(), source);
        let pages = packed.pages(PageSpan::new(65, 66).unwrap()).unwrap();
        assert!(pages[0].lines[1].grid.is_some() && pages[0].lines[0].grid.is_none());
    }

    #[test]
    fn cells_outside_of_their_line_are_damage() {
        let mut source = paged(1);
        let SourceBody::Pages(pages) = &mut source.body else {
            panic!("no pages")
        };
        pages[0].lines[0].grid = Some(Box::new(GridLine {
            cells: vec![GridCell {
                end: 90,
                ..GridCell::default()
            }],
            ..GridLine::default()
        }));
        let packed = EncodedSource::open(encode_source(&source).unwrap()).unwrap();
        assert!(matches!(packed.decode(), Err(CodecError::Damaged(_))));
    }

    // Stored sources of the versions before stay readable, byte for byte.
    #[test]
    fn sources_without_bytes_keep_their_form() {
        assert_eq!(encode_source(&paged(3)).unwrap()[0], VERSION);
        assert_eq!(encode_source(&lined(3)).unwrap()[0], VERSION);
    }

    #[test]
    fn page_and_line_ranges_decode_alone() {
        let packed = EncodedSource::open(encode_source(&paged(200)).unwrap()).unwrap();
        let pages = packed.pages(PageSpan::new(60, 130).unwrap()).unwrap();
        assert_eq!(
            (
                pages.len(),
                pages[0].text().as_str(),
                pages[70].text().as_str()
            ),
            (71, "page 60", "page 130")
        );
        assert_eq!(
            packed.pages(PageSpan::new(200, 201).unwrap()),
            Err(CodecError::OutOfRange(200, 201))
        );
        assert!(packed.lines(1, 1).is_err());
        let mut source = lined(9_000);
        let SourceBody::Lines(text) = &mut source.body else {
            panic!("no lines")
        };
        text.lines
            .iter_mut()
            .zip(1..)
            .for_each(|(line, n)| *line = format!("{n}"));
        text.tokens = (0..9_000).collect();
        let packed = EncodedSource::open(encode_source(&source).unwrap()).unwrap();
        assert_eq!(
            packed.lines(4_096, 4_098).unwrap(),
            ["4096", "4097", "4098"]
        );
        assert_eq!(packed.lines(8_999, 9_000).unwrap(), ["8999", "9000"]);
        assert!(
            packed.lines(0, 1).is_err()
                && packed.lines(2, 1).is_err()
                && packed.lines(9_000, 9_001).is_err()
        );
        assert_eq!(packed.decode().unwrap(), source);
    }

    #[test]
    fn decompression_bombs_are_rejected() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 3).unwrap();
        assert_eq!(
            decode_frame::<Vec<u8>>(&bomb, 1_000),
            Err(CodecError::Damaged("a frame is larger than declared"))
        );
        // A length that promises more elements than there are bytes reserves nothing.
        let promise = zstd::bulk::compress(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F], 3).unwrap();
        assert!(decode_frame::<Vec<Page>>(&promise, 1_000).is_err());
    }

    #[test]
    fn truncated_and_other_versions_are_errors() {
        let bytes = encode_source(&paged(70)).unwrap();
        assert!((0..bytes.len()).all(|end| EncodedSource::open(bytes[..end].to_vec()).is_err()));
        assert_eq!(
            EncodedSource::open(vec![9, 9, 9]).unwrap_err(),
            CodecError::Version(9)
        );
    }

    proptest! {
        #[test]
        fn altered_packs_never_panic(at in 1usize..2_000, byte: u8, pages in 1usize..100) {
            let mut bytes = encode_source(&paged(pages)).unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(packed) = EncodedSource::open(bytes) {
                let _ = packed.decode();
            }
        }
    }

    #[test]
    fn recognized_pages_keep_their_readings() {
        let recognized = |disputed: &[(u32, &str)]| {
            let mut source = paged(2);
            let SourceBody::Pages(pages) = &mut source.body else {
                panic!("no pages");
            };
            let words = pages[1].lines[0].words.len();
            let disputed = disputed.iter().map(|(word, other)| DisputedWord {
                word: *word,
                other: (*other).into(),
            });
            pages[1].origin = PageOrigin::Recognized(Box::new(Recognition {
                skew: -302,
                confidences: vec![91; words],
                disputed: disputed.collect(),
            }));
            source
        };
        for (disputed, version) in [
            (&[][..], VERSION_WITH_RECOGNITION),
            (&[(0, "1,284")], VERSION_WITH_DISPUTED),
        ] {
            let source = recognized(disputed);
            let packed = encode_source(&source).unwrap();
            assert_eq!(packed[0], version);
            let decoded = EncodedSource::open(packed).unwrap().decode().unwrap();
            assert_eq!(decoded, source);
        }
        for damaged in [&[(1, "")][..], &[(0, ""), (0, "")]] {
            let packed = encode_source(&recognized(damaged)).unwrap();
            let decoded = EncodedSource::open(packed).unwrap().decode();
            assert!(matches!(decoded, Err(CodecError::Damaged(_))));
        }
    }
}

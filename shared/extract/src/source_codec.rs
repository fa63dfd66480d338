//! Stored form of a [`Source`]: a header, and the text in chunks that can be decoded separately.
//!
//! `version (1 byte) · length of the header (u32, little-endian) · header · chunks`. The header and each chunk are
//! postcard in a zstd frame of their own. Equal sources give equal bytes. Sources whose lines know their bytes in the file have
//! a version of their own, which stores these with the pages of a chunk, and so have those with the cells of tables, and
//! those with pages that text recognition read, once or twice. A flag in the version says that the texts that nobody sees
//! are stored in a frame after the header, which begins with its length.

mod grids;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stemma_document::packed::{PackedError, pack, unpack};
use stemma_document::{
    ByteSpan, Defect, Extent, Heading, HiddenText, Link, OutlineItem, Page, PageOrigin, PageSpan,
    Recognition, Source, SourceBody, SourceFormat, TextLines,
};

// Increment when the layout or the content types change.
const VERSION: u8 = 3;
// The same with the bytes of lines.
const VERSION_WITH_BYTES: u8 = 4;
// The same with the bytes of lines and the cells of tables.
const VERSION_WITH_GRIDS: u8 = 5;
// With what text recognition says about pages.
const VERSION_WITH_RECOGNITION: u8 = 6;
// The same, with the words whose figures two readers read differently.
const VERSION_WITH_DISPUTED: u8 = 7;
// Added to a version.
const WITH_HIDDEN: u8 = 0x80;
// The skew and the confidences of a page.
type UndisputedRecognition = (i16, Vec<u8>);
pub const PAGES_PER_CHUNK: usize = 64;
const LINES_PER_CHUNK: usize = 4_096;
// Larger frames are rejected.
const MAX_FRAME_BYTES: u32 = 1 << 30;

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

impl From<PackedError> for CodecError {
    fn from(PackedError(reason): PackedError) -> Self {
        Self::Damaged(reason)
    }
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
    let mut encoded = vec![version];
    let mut append = |(size, frame): (ChunkEntry, Vec<u8>)| {
        encoded.extend(size.packed_bytes.to_le_bytes());
        encoded.extend(frame);
    };
    append(encode_frame(&header)?);
    if !source.hidden.is_empty() {
        append(encode_frame(&source.hidden)?);
        encoded[0] |= WITH_HIDDEN;
    }
    encoded.extend(text);
    Ok(encoded)
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

fn encode_frame<T: Serialize>(value: &T) -> Result<(ChunkEntry, Vec<u8>), CodecError> {
    let raw =
        postcard::to_stdvec(value).map_err(|_| CodecError::Damaged("it cannot be encoded"))?;
    let packed = pack(&raw, MAX_FRAME_BYTES)?;
    let size = |bytes: &[u8]| {
        u32::try_from(bytes.len()).map_err(|_| CodecError::Damaged("a chunk is too large"))
    };
    let entry = ChunkEntry {
        packed_bytes: size(&packed)?,
        raw_bytes: size(&raw)?,
    };
    Ok((entry, packed))
}

/// An encoded source with a decoded header.
#[derive(Debug, Clone)]
pub struct EncodedSource {
    header: SourceHeader,
    version: u8,
    hidden: Vec<HiddenText>,
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
        let Some(first) = bytes.first() else {
            return Err(CodecError::Damaged("it is empty"));
        };
        let version = first & !WITH_HIDDEN;
        if !(VERSION..=VERSION_WITH_DISPUTED).contains(&version) {
            return Err(CodecError::Version(*first));
        }
        let (header, mut start): (SourceHeader, usize) = decode_sized(&bytes, 1)?;
        let mut hidden = Vec::new();
        if version != *first {
            (hidden, start) = decode_sized(&bytes, start)?;
        }
        let text = bytes.slice(start..);
        let chunk_offsets = chunk_offsets(&header, text.len())?;
        Ok(Self {
            header,
            version,
            hidden,
            text,
            chunk_offsets,
        })
    }

    pub fn header(&self) -> &SourceHeader {
        &self.header
    }

    /// Text of its pages that the eye does not see.
    pub fn hidden(&self) -> &[HiddenText] {
        &self.hidden
    }

    /// Pages or lines.
    pub fn extent(&self) -> Extent {
        self.header.extent
    }

    /// The size of the text and its positions before compression.
    pub fn raw_bytes(&self) -> usize {
        self.header
            .chunks
            .iter()
            .map(|chunk| chunk.raw_bytes as usize)
            .sum()
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
            hidden: self.hidden,
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
                let read = read.into_iter().map(|read| {
                    read.map(|(skew, confidences)| Recognition {
                        skew,
                        confidences,
                        disputed: Vec::new(),
                    })
                });
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

// A frame that begins with its length, and where it ends.
fn decode_sized<T: DeserializeOwned>(bytes: &[u8], start: usize) -> Result<(T, usize), CodecError> {
    let cut_short = CodecError::Damaged("its head is cut short");
    let rest = bytes.get(start..).unwrap_or_default();
    let (size, rest) = rest.split_first_chunk::<4>().ok_or(cut_short.clone())?;
    let size = usize::try_from(u32::from_le_bytes(*size)).ok();
    let frame = size.and_then(|size| rest.get(..size)).ok_or(cut_short)?;
    Ok((
        decode_frame(frame, MAX_FRAME_BYTES)?,
        start + 4 + frame.len(),
    ))
}

fn decode_frame<T: DeserializeOwned>(packed: &[u8], max_bytes: u32) -> Result<T, CodecError> {
    let raw = unpack(packed, max_bytes.min(MAX_FRAME_BYTES))?;
    match postcard::take_from_bytes(&raw) {
        Ok((value, [])) => Ok(value),
        _ => Err(CodecError::Damaged("a frame has the wrong content")),
    }
}

#[cfg(test)]
mod tests;

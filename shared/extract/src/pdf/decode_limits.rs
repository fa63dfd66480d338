//! Limits for decoding hostile PDFs: time, decompressed size, nesting.
//!
//! The parser decodes object streams, cross-reference streams and fonts without limits, so those are measured first.
//! Content streams are decoded only here.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flate2::{Decompress, FlushDecompress, Status};
use hayro_syntax::Filter;
use hayro_syntax::object::{Dict, Object, Stream};

use crate::{ExtractError, Limits};

// Maximum expansion of deflate: 258 bytes for two bits (RFC 1951).
const DEFLATE_RATIO: u64 = 1032;
// A code of at least nine bits yields at most 4,096 bytes.
const LZW_RATIO: u64 = 3700;
// A pair yields at most 128 bytes.
const RUN_LENGTH_RATIO: u64 = 64;

// The CPU time of this process: how long a document may take must not depend on what else the machine does.
#[cfg(unix)]
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(not(unix))]
fn cpu_time() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;

    static STARTED: OnceLock<Instant> = OnceLock::new();
    STARTED.get_or_init(Instant::now).elapsed()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamError {
    /// Damaged, or not text.
    Undecodable,
    /// Exceeds a limit.
    TooLarge,
}

pub(super) struct DecodedStream {
    pub(super) bytes: Vec<u8>,
    /// The stream is truncated or corrupt after these bytes.
    pub(super) damaged: bool,
}

/// The remaining budget of a document, shared by all threads.
pub(super) struct DecodeBudget {
    /// In CPU time of this process.
    deadline: Duration,
    remaining_bytes: AtomicU64,
    per_stream_bytes: u64,
    charged: Mutex<HashSet<usize>>,
    is_expired: AtomicBool,
    exhausted: AtomicBool,
}

impl DecodeBudget {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            deadline: cpu_time() + Duration::from_secs(limits.max_seconds.into()),
            remaining_bytes: AtomicU64::new(limits.max_decompressed_bytes),
            per_stream_bytes: limits.max_content_bytes,
            charged: Mutex::default(),
            is_expired: AtomicBool::new(false),
            exhausted: AtomicBool::new(false),
        }
    }

    /// Whether the limit of CPU time has been reached. The document then fails as a whole, since a result that depends on the clock
    /// would not be reproducible.
    pub(super) fn is_expired(&self) -> bool {
        if !self.is_expired.load(Relaxed) && cpu_time() >= self.deadline {
            self.is_expired.store(true, Relaxed);
        }
        self.is_expired.load(Relaxed)
    }

    /// Whether a stream was rejected because others used up the budget. Which one depends on the order of reading, so
    /// the caller must reread in order.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Relaxed)
    }

    /// Decodes a stream, charging its size once per document.
    pub(super) fn decode(&self, stream: &Stream<'_>) -> Result<DecodedStream, StreamError> {
        // Drawing the same stream repeatedly costs time, not budget.
        if self.is_expired() {
            return Err(StreamError::TooLarge);
        }
        let raw = stream.raw_data();
        if raw.is_empty() {
            // The parser strips NUL bytes as white space. If a length was declared, the stream consisted of them.
            let declares_data = stream
                .dict()
                .get::<u32>("Length")
                .is_some_and(|length| length > 0);
            return if declares_data {
                Err(StreamError::Undecodable)
            } else {
                Ok(DecodedStream {
                    bytes: Vec::new(),
                    damaged: false,
                })
            };
        }
        let limit = self.stream_limit();
        let filters = stream.filters();
        let decoded = if let Some(DeflateLayers { layers, data }) =
            strip_ascii_layers(stream, &filters, &raw, limit)?
        {
            let mut decoded = DecodedStream {
                bytes: data.into_owned(),
                damaged: false,
            };
            for _ in 0..layers {
                let next = inflate(&decoded.bytes, limit)?;
                decoded = DecodedStream {
                    damaged: decoded.damaged || next.damaged,
                    ..next
                };
            }
            decoded
        } else {
            self.decoded_size(stream)?;
            let bytes = stream
                .decoded_data()
                .map_err(|_| StreamError::Undecodable)?
                .into_owned();
            DecodedStream {
                bytes,
                damaged: false,
            }
        };
        self.charge(stream, decoded.bytes.len() as u64)?;
        Ok(decoded)
    }

    /// Checks that the parser may decode the stream itself.
    pub(super) fn check(&self, stream: &Stream<'_>) -> Result<(), StreamError> {
        let size = self.decoded_size(stream)?;
        self.charge(stream, size)
    }

    fn decoded_size(&self, stream: &Stream<'_>) -> Result<u64, StreamError> {
        let limit = self.stream_limit();
        let raw = stream.raw_data();
        let filters = stream.filters();
        // The parser could decode them, because drawing pages needs that. Text and fonts are never images.
        if filters.iter().any(|filter| is_image_filter(*filter)) {
            return Err(StreamError::Undecodable);
        }
        if let [Filter::FlateDecode] = filters.as_slice() {
            return inflated_size(&raw, limit);
        }
        if let Some(DeflateLayers { layers: 1, data }) =
            strip_ascii_layers(stream, &filters, &raw, limit)?
        {
            return inflated_size(&data, limit);
        }
        let ratio = filters.iter().fold(1u64, |ratio, filter| {
            ratio.saturating_mul(worst_ratio(*filter))
        });
        let size = (raw.len() as u64).saturating_mul(ratio);
        if size <= limit {
            return Ok(raw.len() as u64);
        }
        // Large streams with rare filters are rejected unless their size is bounded.
        match filters.as_slice() {
            [Filter::LzwDecode] if (raw.len() as u64) < limit / 64 => Ok(raw.len() as u64),
            _ => Err(StreamError::TooLarge),
        }
    }

    fn charge(&self, stream: &Stream<'_>, size: u64) -> Result<(), StreamError> {
        // A dictionary's address in memory identifies its stream.
        let mut charged = self.charged.lock().unwrap_or_else(PoisonError::into_inner);
        if !charged.insert(stream.dict().data().as_ptr() as usize) {
            return Ok(());
        }
        // The lock is held, so there are no concurrent writes.
        match self.remaining_bytes.load(Relaxed).checked_sub(size) {
            Some(remaining) => {
                self.remaining_bytes.store(remaining, Relaxed);
                Ok(())
            }
            None => {
                self.exhausted.store(true, Relaxed);
                Err(StreamError::TooLarge)
            }
        }
    }

    fn stream_limit(&self) -> u64 {
        let remaining = self.remaining_bytes.load(Relaxed);
        if remaining < self.per_stream_bytes {
            // A stream that is rejected from now on may fit if it were read before others.
            self.exhausted.store(true, Relaxed);
        }
        remaining.min(self.per_stream_bytes)
    }
}

fn is_image_filter(filter: Filter) -> bool {
    matches!(
        filter,
        Filter::DctDecode | Filter::CcittFaxDecode | Filter::Jbig2Decode | Filter::JpxDecode
    )
}

fn worst_ratio(filter: Filter) -> u64 {
    match filter {
        Filter::FlateDecode => DEFLATE_RATIO,
        Filter::LzwDecode => LZW_RATIO,
        Filter::RunLengthDecode => RUN_LENGTH_RATIO,
        Filter::Ascii85Decode => 4,
        _ => 1,
    }
}

struct DeflateLayers<'r> {
    layers: usize,
    data: Cow<'r, [u8]>,
}

// Removes ASCII filters around deflate. `None` for other filters and for decode parameters: content streams with a
// predictor are legal but practically unused.
fn strip_ascii_layers<'r>(
    stream: &Stream<'_>,
    filters: &[Filter],
    raw: &'r [u8],
    limit: u64,
) -> Result<Option<DeflateLayers<'r>>, StreamError> {
    let dict: &Dict<'_> = stream.dict();
    let external = matches!(
        dict.get::<Object<'_>>("F"),
        Some(Object::String(_) | Object::Dict(_))
    );
    if external || dict.contains_key("DecodeParms") || dict.contains_key("DP") || filters.len() > 4
    {
        return Ok(None);
    }
    let mut data = Cow::Borrowed(raw);
    let mut filters = filters;
    while let [
        filter @ (Filter::AsciiHexDecode | Filter::Ascii85Decode),
        rest @ ..,
    ] = filters
    {
        data = if *filter == Filter::AsciiHexDecode {
            decode_hex(&data)
        } else {
            decode_base85(&data)
        }
        .into();
        if data.len() as u64 > limit {
            return Err(StreamError::TooLarge);
        }
        filters = rest;
    }
    let only_deflate = filters.iter().all(|filter| *filter == Filter::FlateDecode);
    Ok(only_deflate.then_some(DeflateLayers {
        layers: filters.len(),
        data,
    }))
}

/// Decodes ASCIIHex (PDF 1.7, 7.4.2). Invalid characters are skipped.
pub(super) fn decode_hex(text: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = text
        .iter()
        .take_while(|byte| **byte != b'>')
        .filter_map(|byte| char::from(*byte).to_digit(16))
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or(0))
        .collect()
}

/// Decodes ASCII85 (PDF 1.7, 7.4.3): five digits are four bytes, `z` is four zeros, `~` ends the data.
pub(super) fn decode_base85(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 5 * 4);
    let mut value = 0u32;
    let mut count = 0;
    for digit in text.iter().take_while(|byte| **byte != b'~') {
        match digit {
            b'z' if count == 0 => bytes.extend([0; 4]),
            b'!'..=b'u' => {
                value = value.wrapping_mul(85).wrapping_add(u32::from(digit - b'!'));
                count += 1;
            }
            _ => {}
        }
        if count == 5 {
            bytes.extend(value.to_be_bytes());
            value = 0;
            count = 0;
        }
    }
    if count > 1 {
        let filled = (count..5).fold(value, |value, _| value.wrapping_mul(85).wrapping_add(84));
        bytes.extend(filled.to_be_bytes().iter().take(count - 1));
    }
    bytes
}

/// Inflates zlib or raw deflate data up to `limit` bytes. Checksums are ignored; corruption ends the data.
pub(super) fn inflate(data: &[u8], limit: u64) -> Result<DecodedStream, StreamError> {
    let mut bytes = Vec::with_capacity(data.len().saturating_mul(4).min(1 << 20));
    let damaged = inflate_into(data, limit, |chunk| bytes.extend_from_slice(chunk))?;
    if bytes.is_empty() && damaged {
        Err(StreamError::Undecodable)
    } else {
        Ok(DecodedStream { bytes, damaged })
    }
}

/// Returns the inflated size, up to the first corruption.
pub(super) fn inflated_size(data: &[u8], limit: u64) -> Result<u64, StreamError> {
    let mut size = 0u64;
    inflate_into(data, limit, |chunk| size += chunk.len() as u64)?;
    Ok(size)
}

fn inflate_into(data: &[u8], limit: u64, mut take: impl FnMut(&[u8])) -> Result<bool, StreamError> {
    let body = without_zlib_header(data);
    let mut inflater = Decompress::new(false);
    let mut chunk = vec![0u8; 32 << 10];
    loop {
        let before_in = inflater.total_in();
        let before_out = inflater.total_out();
        let rest = body.get(before_in as usize..).unwrap_or_default();
        let status = inflater.decompress(rest, &mut chunk, FlushDecompress::None);
        let produced = (inflater.total_out() - before_out) as usize;
        if inflater.total_out() > limit {
            return Err(StreamError::TooLarge);
        }
        take(chunk.get(..produced).unwrap_or_default());
        match status {
            Ok(Status::StreamEnd) => return Ok(false),
            Ok(_) if produced > 0 || inflater.total_in() > before_in => {}
            Ok(_) | Err(_) => return Ok(true),
        }
    }
}

// RFC 1950: method 8, header divisible by 31, no preset dictionary.
fn without_zlib_header(data: &[u8]) -> &[u8] {
    match data {
        [cmf, flags, rest @ ..]
            if cmf & 0x0f == 8
                && (u16::from(*cmf) << 8 | u16::from(*flags)) % 31 == 0
                && flags & 0x20 == 0 =>
        {
            rest
        }
        _ => data,
    }
}

/// Checks a file before any parser sees it, and returns it from the PDF header on.
pub(super) fn check_file<'b>(bytes: &'b [u8], limits: &Limits) -> Result<&'b [u8], ExtractError> {
    if bytes.is_empty() {
        return Err(ExtractError::new(
            "input.empty",
            "the file is empty",
            "check that the file was copied completely",
        ));
    }
    if bytes.len() as u64 > limits.max_bytes {
        return Err(ExtractError::new(
            "limits.bytes",
            format!(
                "the file has {} bytes, more than the limit of {}",
                bytes.len(),
                limits.max_bytes
            ),
            "raise the limit or split the file",
        ));
    }
    let start = find_bytes(
        bytes.get(..bytes.len().min(1024 + 5)).unwrap_or_default(),
        b"%PDF-",
    )
    .ok_or_else(not_a_pdf_error)?;
    let body = bytes.get(start..).unwrap_or_default();
    if exceeds_inflate_limit(body, limits) {
        return Err(ExtractError::new(
            "limits.decompressed_bytes",
            format!(
                "the file's object tables inflate to more than {} bytes",
                limits.max_decompressed_bytes
            ),
            "raise the limit if the file is trusted",
        ));
    }
    Ok(body)
}

/// Whether the file is truncated: a complete one ends with `startxref` and no object follows (PDF 1.7, 7.5.5).
pub(super) fn is_truncated(bytes: &[u8]) -> bool {
    rfind_bytes(bytes, b"startxref")
        .is_none_or(|end| rfind_bytes(bytes, b"endobj").is_some_and(|object| object > end))
}

pub(super) fn not_a_pdf_error() -> ExtractError {
    ExtractError::new(
        "pdf.not_a_pdf",
        "the file is not a PDF: it has no PDF header in its first 1,024 bytes",
        "check the file's format, or correct its extension",
    )
}

// Sums the sizes of object and cross-reference streams, which the parser inflates in full. Small files cannot exceed
// the limit and are skipped; encrypted streams cannot be measured.
fn exceeds_inflate_limit(bytes: &[u8], limits: &Limits) -> bool {
    let mut unmeasured = 0u64;
    let mut measured = 0u64;
    let mut position = 0;
    while let Some(offset) = find_bytes(bytes.get(position..).unwrap_or_default(), b"stream") {
        let keyword = position + offset;
        position = keyword + 6;
        if keyword >= 3 && bytes.get(keyword - 3..keyword) == Some(b"end") {
            continue;
        }
        let head = bytes
            .get(keyword.saturating_sub(512)..keyword)
            .unwrap_or_default();
        let head =
            rfind_bytes(head, b"obj").map_or(head, |start| head.get(start..).unwrap_or_default());
        if find_bytes(head, b"/ObjStm").is_none() && find_bytes(head, b"/XRef").is_none() {
            continue;
        }
        let data = bytes.get(position..).unwrap_or_default();
        let data = data.strip_prefix(b"\r").unwrap_or(data);
        let data = data.strip_prefix(b"\n").unwrap_or(data);
        let length = find_bytes(data, b"endstream").unwrap_or(data.len());
        let data = data.get(..length).unwrap_or_default();
        unmeasured += length as u64;
        position += length;
        if unmeasured.saturating_mul(DEFLATE_RATIO) < limits.max_decompressed_bytes
            && is_one_deflate(head)
        {
            continue;
        }
        match nested_size(
            data,
            head,
            limits.max_decompressed_bytes.saturating_sub(measured),
        ) {
            Ok(size) => measured += size,
            Err(_) => return true,
        }
    }
    false
}

fn is_one_deflate(head: &[u8]) -> bool {
    count_occurrences(head, b"/FlateDecode") + count_occurrences(head, b"/Fl ") <= 1
}

fn nested_size(data: &[u8], head: &[u8], limit: u64) -> Result<u64, StreamError> {
    let mut layers = count_occurrences(head, b"/FlateDecode").max(1);
    let mut current = Cow::Borrowed(data);
    while layers > 1 {
        match inflate(&current, limit) {
            Ok(decoded) => current = decoded.bytes.into(),
            Err(StreamError::TooLarge) => return Err(StreamError::TooLarge),
            Err(StreamError::Undecodable) => return Ok(0),
        }
        layers -= 1;
    }
    inflated_size(&current, limit)
}

fn count_occurrences(haystack: &[u8], needle: &[u8]) -> usize {
    haystack
        .windows(needle.len())
        .filter(|window| *window == needle)
        .count()
}

pub(super) fn find_bytes(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut start = 0;
    while let Some(offset) = haystack
        .get(start..)?
        .iter()
        .position(|byte| *byte == first)
    {
        let at = start + offset;
        if haystack.get(at..at + needle.len())? == needle {
            return Some(at);
        }
        start = at + 1;
    }
    None
}

fn rfind_bytes(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .rposition(|window| window == needle)
}

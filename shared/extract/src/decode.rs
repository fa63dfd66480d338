//! Decodes text files: encodings, byte order marks and line ends.

use stemma_document::Defect;

use crate::{ExtractError, Limits};

/// A decoded text file without NUL, with `\n` as its only line end.
pub(crate) struct DecodedText {
    /// Without byte order mark.
    pub(crate) text: String,
    pub(crate) defects: Vec<Defect>,
}

impl DecodedText {
    /// Decodes UTF-8, or UTF-16 after a byte order mark. Invalid sequences become U+FFFD and are recorded. NUL becomes
    /// U+FFFD, and CR and CRLF become LF, as CommonMark specifies.
    ///
    /// # Errors
    ///
    /// `limits.bytes` and `limits.lines`.
    pub(crate) fn read(bytes: Vec<u8>, limits: &Limits) -> Result<Self, ExtractError> {
        check_size(bytes.len(), limits)?;
        let (text, replaced) = match bytes.get(..2) {
            Some([0xFF, 0xFE]) => utf16(&bytes[2..], u16::from_le_bytes),
            Some([0xFE, 0xFF]) => utf16(&bytes[2..], u16::from_be_bytes),
            _ => utf8(bytes),
        };
        let text = normalize(text);
        check_lines(text.bytes().filter(|byte| *byte == b'\n').count(), limits)?;
        Ok(Self {
            text,
            defects: replaced.into_iter().collect(),
        })
    }

    /// The lines without line ends. A final line end starts no new line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = self.text.strip_suffix('\n').unwrap_or(&self.text);
        if self.text.is_empty() {
            Vec::new()
        } else {
            text.split('\n').map(str::to_owned).collect()
        }
    }
}

pub(crate) fn check_size(length: usize, limits: &Limits) -> Result<(), ExtractError> {
    if length as u64 <= limits.max_bytes {
        return Ok(());
    }
    let message = format!(
        "the file has {length} bytes, more than the limit of {}",
        limits.max_bytes
    );
    Err(ExtractError::new(
        "limits.bytes",
        message,
        "split the file, or raise limits.max_bytes",
    ))
}

/// Checks the number of line ends of a file.
pub(crate) fn check_lines(line_ends: usize, limits: &Limits) -> Result<(), ExtractError> {
    if line_ends < limits.max_lines as usize {
        return Ok(());
    }
    let message = format!(
        "the file has {} lines, more than the limit of {}",
        line_ends + 1,
        limits.max_lines
    );
    Err(ExtractError::new(
        "limits.lines",
        message,
        "split the file, or raise limits.max_lines",
    ))
}

fn utf8(bytes: Vec<u8>) -> (String, Option<Defect>) {
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let bytes = error.as_bytes();
            let first = error.utf8_error().valid_up_to();
            let count = bytes
                .utf8_chunks()
                .filter(|chunk| !chunk.invalid().is_empty())
                .count();
            let text = String::from_utf8_lossy(bytes).into_owned();
            let detail = format!(
                "{count} stretches that are not UTF-8 were replaced, the first at byte {first}"
            );
            return (
                text.trim_start_matches('\u{FEFF}').to_owned(),
                Some(invalid(detail)),
            );
        }
    };
    let text = if text.starts_with('\u{FEFF}') {
        text.trim_start_matches('\u{FEFF}').to_owned()
    } else {
        text
    };
    (text, None)
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> (String, Option<Defect>) {
    let pairs = bytes.as_chunks::<2>();
    let decoded = char::decode_utf16(pairs.0.iter().map(|pair| unit(*pair)));
    let mut broken = pairs.1.len();
    let text: String = decoded
        .map(|c| {
            c.unwrap_or_else(|_| {
                broken += 1;
                '\u{FFFD}'
            })
        })
        .collect();
    (
        text,
        (broken > 0).then(|| invalid(format!("{broken} units that are not UTF-16 were replaced"))),
    )
}

fn invalid(detail: String) -> Defect {
    Defect {
        code: "text.invalid_utf8".into(),
        page: None,
        detail,
    }
}

fn normalize(text: String) -> String {
    if !text.contains(['\r', '\0']) {
        return text;
    }
    let mut normal = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['\r', '\0']) {
        normal.push_str(&rest[..at]);
        let is_nul = rest.as_bytes()[at] == 0;
        normal.push(if is_nul { '\u{FFFD}' } else { '\n' });
        rest = &rest[at + 1..];
        if !is_nul {
            rest = rest.strip_prefix('\n').unwrap_or(rest);
        }
    }
    normal.push_str(rest);
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> DecodedText {
        DecodedText::read(bytes.to_vec(), &Limits::default()).unwrap()
    }

    #[test]
    fn every_line_end_ends_a_line_once() {
        assert_eq!(
            read(b"a\r\nb\rc\nd\r\r\n").lines(),
            ["a", "b", "c", "d", ""]
        );
        assert_eq!(read(b"\n").lines(), [""]);
        assert!(read(b"").lines().is_empty());
    }

    #[test]
    fn nul_and_invalid_bytes_are_replaced() {
        let nul = read(b"a\0b");
        assert_eq!((nul.text.as_str(), nul.defects.len()), ("a\u{FFFD}b", 0));
        let bad = read(b"\xEF\xBB\xBFCaf\xE9 \xFF!");
        assert_eq!(bad.text, "Caf\u{FFFD} \u{FFFD}!");
        assert_eq!(bad.defects[0].code, "text.invalid_utf8");
        assert!(
            bad.defects[0].detail.starts_with("2 stretches"),
            "{}",
            bad.defects[0].detail
        );
    }

    #[test]
    fn utf16_is_detected_by_its_byte_order_mark() {
        assert_eq!(read(b"\xFF\xFE#\0 \0A\0").text, "# A");
        assert_eq!(read(b"\xFE\xFF\0#\0 \0A").text, "# A");
        let broken = read(b"\xFF\xFEA\0\x00\xD8B\0!");
        assert_eq!(
            (broken.text.as_str(), broken.defects.len()),
            ("A\u{FFFD}B", 1)
        );
    }

    #[test]
    fn limits_are_errors_that_name_the_limit() {
        let limits = Limits {
            max_bytes: 10,
            max_lines: 3,
            ..Limits::default()
        };
        assert_eq!(
            DecodedText::read(vec![b'x'; 11], &limits)
                .err()
                .unwrap()
                .code,
            "limits.bytes"
        );
        assert_eq!(
            DecodedText::read(b"a\nb\nc\nd".to_vec(), &limits)
                .err()
                .unwrap()
                .code,
            "limits.lines"
        );
        assert!(
            DecodedText::read(b"a\nb\nc\n".to_vec(), &limits).is_err(),
            "the limit is not reached by a last line end"
        );
    }
}

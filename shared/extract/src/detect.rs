//! Format detection by content and file name, and extraction of any format.

use stemma_document::{Source, SourceFormat};

use crate::{ExtractError, ExtractJob, Task, decode, edgar, html, markdown, pdf, text, xml};

// The PDF signature is within the first 1,024 bytes (PDF 1.7, annex H, note 13).
const PDF_WINDOW_BYTES: usize = 1_024;
const OTHER_ENCODING: &str = "text in an encoding other than UTF-8, or binary data";
// Prefix that is checked for binary data.
const SAMPLE_BYTES: usize = 16 * 1024;

/// Extracts the text of a document of any supported format.
///
/// # Errors
///
/// Those of [`detect_format`], `limits.bytes`, and those of the format.
pub fn extract(job: ExtractJob) -> Result<Source, ExtractError> {
    let ExtractJob {
        name,
        bytes,
        companion: _,
        password,
        limits,
        threads,
        alone: _,
        task,
    } = job;
    decode::check_size(bytes.len(), &limits)?;
    if stemma_edgar::is_submission(&bytes) {
        return edgar::read(&bytes, &limits);
    }
    match detect_format(&bytes, &name)? {
        SourceFormat::Pdf => {
            let pictures = match task {
                Task::TextAndPictures => pdf::Pictures::Accepted,
                _ => pdf::Pictures::Refused,
            };
            pdf::read_with(&bytes, password.as_deref(), &limits, threads, pictures)
        }
        SourceFormat::Markdown => markdown::read(bytes, &limits),
        SourceFormat::Text => text::read(bytes, &limits),
        SourceFormat::Html => html::read(&bytes, &limits),
        SourceFormat::Xml => xml::read(&bytes, &limits, html::read_made),
    }
}

/// Detects the format of a file. PDFs and submissions of EDGAR are detected by content under any name, and so is text that
/// begins with the tag or document type of HTML; other HTML, XML, Markdown and text by extension ([`SourceFormat::from_extension`]).
///
/// # Errors
///
/// `input.empty`: no content, or only a byte order mark. `pdf.not_a_pdf`: named `.pdf` with other content.
/// `input.unsupported`: binary data, an unknown encoding, or an unknown extension.
pub fn detect_format(bytes: &[u8], name: &str) -> Result<SourceFormat, ExtractError> {
    if matches!(bytes, [] | [0xEF, 0xBB, 0xBF] | [0xFF, 0xFE] | [0xFE, 0xFF]) {
        return Err(ExtractError::new(
            "input.empty",
            "the file is empty",
            "check how the file was made or copied",
        ));
    }
    if stemma_edgar::is_submission(bytes) {
        return Ok(SourceFormat::Text);
    }
    let extension = name
        .rsplit_once('.')
        .map(|(_, extension)| extension.to_ascii_lowercase())
        .unwrap_or_default();
    let format = SourceFormat::from_extension(&extension);
    let is_pdf_name = format == Some(SourceFormat::Pdf);
    if let Some(at) = pdf_signature(bytes)
        && (is_pdf_name
            || bytes[..at].iter().all(u8::is_ascii_whitespace)
            || binary_kind(bytes).is_some())
    {
        return Ok(SourceFormat::Pdf);
    }
    if is_pdf_name {
        let message = format!("the file is not a PDF: it looks like {}", looks_like(bytes));
        return Err(ExtractError::new(
            "pdf.not_a_pdf",
            message,
            "fetch the document again, or correct its extension",
        ));
    }
    let is_html = format == Some(SourceFormat::Html) || starts_html(bytes);
    // The HTML reader knows more encodings.
    if let Some(what) = binary_kind(bytes).filter(|what| !(is_html && *what == OTHER_ENCODING)) {
        let message = format!("the file is {what}, not text");
        return Err(ExtractError::new(
            "input.unsupported",
            message,
            "convert it to PDF, HTML, Markdown or UTF-8 text",
        ));
    }
    if is_html {
        return Ok(SourceFormat::Html);
    }
    format.ok_or_else(|| unknown_extension(&extension))
}

fn unknown_extension(extension: &str) -> ExtractError {
    let printable: String = extension
        .chars()
        .filter(|c| c.is_alphanumeric())
        .take(12)
        .collect();
    let message = match printable.as_str() {
        "" => "the file has no extension and is not a PDF".into(),
        _ => format!("files of type .{printable} are not supported"),
    };
    ExtractError::new(
        "input.unsupported",
        message,
        "supported are .pdf, .htm, .html, .xhtml, .md, .markdown, .txt, .text and .xml",
    )
}

fn pdf_signature(bytes: &[u8]) -> Option<usize> {
    let window = &bytes[..bytes.len().min(PDF_WINDOW_BYTES)];
    window
        .windows(5)
        .position(|five| five == b"%PDF-")
        .or_else(|| window.starts_with(b"%PDF").then_some(0))
}

// An XML declaration may come first, as in filings in iXBRL.
fn starts_html(bytes: &[u8]) -> bool {
    let head = bytes[..bytes.len().min(SAMPLE_BYTES)].to_ascii_lowercase();
    let mut head = head
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(&head)
        .trim_ascii_start();
    while head.starts_with(b"<?") || head.starts_with(b"<!--") {
        let Some(end) = head.iter().position(|byte| *byte == b'>') else {
            return false;
        };
        head = head[end + 1..].trim_ascii_start();
    }
    let tag: &[u8] = b"<html";
    head.starts_with(b"<!doctype html")
        || head.starts_with(tag)
            && head
                .get(tag.len())
                .is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'>')
}

fn looks_like(bytes: &[u8]) -> &'static str {
    if let Some(what) = binary_kind(bytes) {
        return what;
    }
    let head =
        String::from_utf8_lossy(&bytes[..bytes.len().min(SAMPLE_BYTES)]).to_ascii_lowercase();
    let head = head.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{FEFF}');
    match head {
        "" => "blank text",
        _ if head.starts_with("<!doctype html")
            || head.contains("<html")
            || head.contains("<body") =>
        {
            "HTML"
        }
        _ if head.starts_with("<?xml") => "XML",
        _ if head.starts_with('{') || head.starts_with('[') => "JSON",
        _ if head.lines().any(|line: &str| {
            line.starts_with("# ") || line.starts_with("## ") || line.starts_with("```")
        }) =>
        {
            "Markdown"
        }
        _ => "plain text",
    }
}

// `None` for text, even with a few invalid bytes.
fn binary_kind(bytes: &[u8]) -> Option<&'static str> {
    const SIGNATURES: [(&[u8], &str); 14] = [
        (b"PK\x03\x04", "a ZIP archive or an office document"),
        (b"\x1F\x8B", "gzip-compressed data"),
        (b"\x28\xB5\x2F\xFD", "zstd-compressed data"),
        (b"7z\xBC\xAF\x27\x1C", "a 7z archive"),
        (b"Rar!", "a RAR archive"),
        (b"\xD0\xCF\x11\xE0", "an old office document"),
        (b"{\\rtf", "rich text (RTF)"),
        (b"\x89PNG", "a PNG image"),
        (b"\xFF\xD8\xFF", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"II*\0", "a TIFF image"),
        (b"MM\0*", "a TIFF image"),
        (b"\x7FELF", "a program"),
        (b"%!PS", "PostScript"),
    ];
    let signature = SIGNATURES
        .iter()
        .find(|(signature, _)| bytes.starts_with(signature));
    signature
        .map(|(_, what)| *what)
        .or_else(|| non_text_kind(bytes))
}

// Classifies bytes without a known signature by the share of control and invalid bytes.
fn non_text_kind(bytes: &[u8]) -> Option<&'static str> {
    if matches!(bytes, [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..]) {
        return None;
    }
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let nul = sample.iter().filter(|byte| **byte == 0).count();
    let control = sample
        .iter()
        .filter(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
        .count();
    let invalid: usize = sample
        .utf8_chunks()
        .map(|chunk| chunk.invalid().len())
        .sum();
    match () {
        () if is_above(nul, 30, sample) && !is_above(invalid, 5, sample) => {
            Some("UTF-16 text without a byte order mark")
        }
        () if is_above(control, 10, sample) => Some("binary data"),
        () if is_above(invalid, 30, sample) => Some(OTHER_ENCODING),
        () => None,
    }
}

fn is_above(count: usize, percent: usize, sample: &[u8]) -> bool {
    count * 100 > sample.len() * percent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn check(bytes: &[u8], name: &str, expected: Result<SourceFormat, (&str, &str)>) {
        match (detect_format(bytes, name), expected) {
            (Ok(format), Ok(want)) => assert_eq!(format, want, "{name}"),
            (Err(error), Err((code, part))) => {
                assert_eq!(error.code, code, "{name}");
                assert!(error.message.contains(part), "{}", error.message);
            }
            (got, want) => panic!("{name}: {got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn content_takes_precedence_over_the_name() {
        check(b"%PDF-1.7\n", "a.pdf", Ok(SourceFormat::Pdf));
        check(b"junk\n%PDF-1.4", "a.pdf", Ok(SourceFormat::Pdf));
        check(b"\n%PDF-1.4\n%\xE2\xE3", "notes.md", Ok(SourceFormat::Pdf));
        check(
            b"# A PDF starts with %PDF-1.7\n",
            "notes.md",
            Ok(SourceFormat::Markdown),
        );
        check(b"# A", "A.MarkDown", Ok(SourceFormat::Markdown));
        check("年报".as_bytes(), "年报.TXT", Ok(SourceFormat::Text));
    }

    #[test]
    fn html_is_detected_by_name_or_by_its_first_tag() {
        let html = Ok(SourceFormat::Html);
        check(b"<P>text", "a.htm", html);
        check(b"text", "A.HTML", html);
        check(b"<HTML>\n<BODY>", "0000320193-24-000123.txt", html);
        check(
            b"\xEF\xBB\xBF<?xml version='1.0'?><!-- made by x -->\n<!DOCTYPE HTML>",
            "a",
            html,
        );
        check(b"<?xml version='1.0'?><html xmlns='x'>", "filing.xml", html);
        check(
            b"<?xml version='1.0'?><ownershipDocument>",
            "form4.xml",
            Ok(SourceFormat::Xml),
        );
        check(b"<p>\xC4\xEA\xB1\xA8\xB8\xE6", "a.html", html);
        check(b"<htmlx>", "a.txt", Ok(SourceFormat::Text));
        check(b"# On <html>", "a.md", Ok(SourceFormat::Markdown));
        check(b"<SEC-DOCUMENT>", "a.txt", Ok(SourceFormat::Text));
        check(b"\x89PNG\r\n", "a.htm", Err(("input.unsupported", "PNG")));
    }

    #[test]
    fn non_pdf_content_is_described() {
        check(
            b" <!DOCTYPE html><p>",
            "a.pdf",
            Err(("pdf.not_a_pdf", "HTML")),
        );
        check(b"# Title\n", "a.pdf", Err(("pdf.not_a_pdf", "Markdown")));
        check(
            b"\x01\x02\x03\xFF\x9A\x00\x01",
            "a.pdf",
            Err(("pdf.not_a_pdf", "binary data")),
        );
        check(b"PK\x03\x04", "a.PDF", Err(("pdf.not_a_pdf", "ZIP")));
    }

    #[test]
    fn empty_binary_and_unknown_files_are_errors() {
        check(b"", "a.pdf", Err(("input.empty", "the file is empty")));
        check(b"\xEF\xBB\xBF", "a.md", Err(("input.empty", "")));
        check(b"\x89PNG\r\n", "a.md", Err(("input.unsupported", "PNG")));
        check(
            b"a\0b\0c\0d\0",
            "a.txt",
            Err(("input.unsupported", "UTF-16")),
        );
        check(
            b"\xC4\xEA\xB1\xA8\xB8\xE6 ok",
            "a.txt",
            Err(("input.unsupported", "encoding")),
        );
        check(b"text", "a.docx", Err(("input.unsupported", ".docx")));
        check(
            b"text",
            "README",
            Err(("input.unsupported", "no extension")),
        );
    }

    #[test]
    fn a_few_invalid_bytes_are_still_text() {
        check(
            b"One\0Two three four five\n",
            "a.md",
            Ok(SourceFormat::Markdown),
        );
        check(
            b"Caf\xE9 au lait, s'il vous pla\xEEt",
            "a.md",
            Ok(SourceFormat::Markdown),
        );
        check(b"\xFF\xFE#\0 \0A\0", "a.md", Ok(SourceFormat::Markdown));
    }

    #[test]
    fn a_file_of_unknown_type_is_told_every_supported_extension() {
        let error = detect_format(b"x", "a.docx").unwrap_err();
        let named: Vec<&str> = error
            .next
            .split([' ', ','])
            .filter_map(|word| word.strip_prefix('.'))
            .collect();
        assert_eq!(named, SourceFormat::extensions().collect::<Vec<_>>());
    }

    #[test]
    fn extract_dispatches_by_format() {
        let limits = Limits::default();
        let job = |name: &str, bytes: &[u8]| {
            ExtractJob::new(name.into(), bytes.to_vec(), None, limits.clone())
        };
        assert_eq!(
            extract(job("a.md", b"# A")).unwrap().format,
            SourceFormat::Markdown
        );
        assert_eq!(
            extract(job("a.txt", b"1. A")).unwrap().format,
            SourceFormat::Text
        );
        let small = ExtractJob {
            limits: Limits {
                max_bytes: 2,
                ..limits.clone()
            },
            ..job("a.pdf", b"%PDF-1.7")
        };
        assert_eq!(extract(small).unwrap_err().code, "limits.bytes");
    }
}

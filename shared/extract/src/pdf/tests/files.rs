//! Whole files: damaged, encrypted, read twice.

use super::*;

#[test]
fn thread_count_does_not_change_the_result() {
    let contents: Vec<String> = (0..150)
        .map(|page| text_at(72.0, 700.0, &format!("page {page}")).repeat(page + 1))
        .collect();
    let contents: Vec<&str> = contents.iter().map(String::as_str).collect();
    let bytes = PdfFixture::with_pages(&contents).build();
    // The second budget ends in the middle of the file: which pages lose their text must not depend on threads.
    for max_decompressed_bytes in [Limits::default().max_decompressed_bytes, 100_000] {
        let limits = Limits {
            max_decompressed_bytes,
            ..Limits::default()
        };
        let one = read(&bytes, None, &limits, 1).unwrap();
        assert_eq!(read(&bytes, None, &limits, 8).unwrap(), one);
        assert_eq!(one.defects.is_empty(), max_decompressed_bytes > 100_000);
    }
}

#[test]
fn non_pdf_input_is_an_error() {
    assert_eq!(error(b"").code, "input.empty");
    assert_eq!(
        error(b"<html><body>%PDF</body></html>").code,
        "pdf.not_a_pdf"
    );
    assert_eq!(error(b"%PDF-1.4\n%%EOF").code, "pdf.no_pages");
    assert_eq!(error(&PdfFixture::default().build()).code, "pdf.no_pages");
}

#[test]
fn truncated_file_yields_the_remaining_pages() {
    let text = text_at(72.0, 700.0, "text");
    let bytes = PdfFixture::with_pages(&[&text, &text, &text]).build();
    let source = source(&bytes[..bytes.len() - 400]);
    assert_eq!(pages(&source).len(), 3);
    for length in (0..bytes.len()).step_by(97) {
        let _ = read(&bytes[..length], None, &Limits::default(), 1);
    }
}

#[test]
fn truncated_file_has_a_defect() {
    let text = text_at(72.0, 700.0, "text");
    let bytes = PdfFixture::with_pages(&[&text, &text, &text, &text]).build();
    assert!(source(&bytes).defects.is_empty());
    assert!(
        source(&[&bytes[..], &[0; 5_000]].concat())
            .defects
            .is_empty(),
        "what follows the end does not matter"
    );
    let cut = source(&bytes[..bytes.len() * 6 / 10]);
    assert!(
        cut.defects[0].code == "pdf.truncated" && cut.defects[0].page.is_none(),
        "{:?}",
        cut.defects
    );
}

#[test]
fn a_truncated_file_without_text_is_no_scan() {
    let bytes = PdfFixture::with_pages(&["0 0 m 9 9 l S", ""]).build();
    assert_eq!(error(&bytes).code, "pdf.no_text");
    let end = bytes.windows(9).position(|part| part == b"startxref");
    let end = end.unwrap();
    assert_eq!(error(&bytes[..end]).code, "pdf.truncated");
}

#[test]
fn junk_before_the_header_is_skipped() {
    let mut bytes = b"junk\n".repeat(40);
    bytes.extend(PdfFixture::with_pages(&[&text_at(72.0, 700.0, "text")]).build());
    assert_eq!(pages(&source(&bytes)).len(), 1);
}

fn encrypted(user: &str) -> Vec<u8> {
    use lopdf::{Document, EncryptionState, EncryptionVersion, Permissions};
    let mut document = Document::load_mem(
        &PdfFixture::with_pages(&[&text_at(72.0, 700.0, "secret text")]).build(),
    )
    .unwrap();
    let version = EncryptionVersion::V2 {
        document: &document,
        owner_password: "owner",
        user_password: user,
        key_length: 128,
        permissions: Permissions::all(),
    };
    let state = EncryptionState::try_from(version).unwrap();
    document.encrypt(&state).unwrap();
    let mut out = Vec::new();
    document.save_to(&mut out).unwrap();
    out
}

#[test]
fn encrypted_files_need_the_right_password() {
    let open = source(&encrypted(""));
    assert!(open.encrypted && pages(&open)[0].lines[0].text == "secret text");
    let closed = encrypted("sesame");
    let missing = error(&closed);
    assert_eq!(missing.code, "pdf.encrypted_password");
    let wrong = read(&closed, Some("guess"), &Limits::default(), 1).unwrap_err();
    assert!(wrong.code == missing.code && wrong.message.contains("does not open"));
    let opened = read(&closed, Some("sesame"), &Limits::default(), 1).unwrap();
    assert_eq!(pages(&opened)[0].lines[0].text, "secret text");
}

#[test]
fn reading_is_deterministic() {
    let bytes =
        PdfFixture::with_pages(&[&text_at(72.0, 700.0, "one"), &text_at(72.0, 650.0, "two")])
            .build();
    assert_eq!(source(&bytes), source(&bytes));
}

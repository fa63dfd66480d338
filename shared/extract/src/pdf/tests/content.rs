//! Content streams, and pages that lack content.

use super::*;

#[test]
fn invisible_text_is_used_only_without_visible_text() {
    let picture = SCAN.replace("612 0 0 792 0 0", "200 0 0 40 60 640");
    let hidden = &(picture + "BT /F1 10 Tf 3 Tr 72 650 Td (hidden) Tj ET 0 Tr\n");
    let both = hidden.clone() + "BT 0 Tr ET " + &text_at(72.0, 700.0, "seen");
    assert_eq!(texts(hidden), ["hidden"]);
    assert_eq!(texts(&both), ["seen"]);
    let pdf = PdfFixture::with_pages(&[hidden, &both]).build();
    assert_eq!(
        defects(&source(&pdf)),
        [("pdf.text_invisible", 1), ("pdf.hidden_text", 2)]
    );
}

#[test]
fn forms_are_read_and_recursion_is_bounded() {
    let mut fixture = PdfFixture::with_pages(&["q 1 0 0 1 72 700 cm /X Do Q"]);
    let number = fixture.first_object();
    fixture.resources = format!("/XObject<</X {number} 0 R>>");
    let body = "BT /F1 10 Tf (inside) Tj ET /X Do";
    let fixture = fixture.object(&format!(
        "<</Subtype/Form/BBox[0 0 99 9]/Length {}>>stream\n{body}\nendstream",
        body.len()
    ));
    let source = source(&fixture.build());
    assert_eq!(pages(&source)[0].lines[0].text, "inside");
    assert_eq!(defects(&source), [("limits.page", 1)]);
}

#[test]
fn operands_and_saved_states_carry_over_content_streams() {
    let fixture = PdfFixture::with_streams(&[
        "q 2 0 0 2 10 10 cm q 3 0 0",
        "3 0 0 cm",
        "Q Q BT /F1 10",
        "Tf 72 700 Td (one page) Tj ET",
    ]);
    let source = source(&fixture.build());
    let line = &pages(&source)[0].lines[0];
    assert_eq!((line.text.as_str(), line.rect.x0), ("one page", Pt(7200)));
    assert_eq!(line.style().size, Pt(1000));
    assert!(source.defects.is_empty());
}

#[test]
fn saved_states_beyond_the_limit_stay_in_pairs() {
    let content = "q ".repeat(600)
        + "1 0 0 1 100 100 cm "
        + &"Q ".repeat(599)
        + &text_at(72.0, 500.0, "moved")
        + "Q 1 0 0 1 10 10 cm "
        + &text_at(72.0, 500.0, "moved back");
    let source = source(&PdfFixture::with_pages(&[&content]).build());
    let lefts: Vec<Pt> = pages(&source)[0]
        .lines
        .iter()
        .map(|line| line.rect.x0)
        .collect();
    assert!(lefts.contains(&Pt(8200)), "{lefts:?}");
}

#[test]
fn lost_operands_and_unparsed_content_are_defects() {
    let text = text_at(72.0, 700.0, "text");
    let pages = [
        format!("{text} BT Td ET"),
        format!("{text} (never closed"),
        format!("{text} BX unknown EX"),
    ];
    let contents: Vec<&str> = pages.iter().map(String::as_str).collect();
    let source = source(&PdfFixture::with_pages(&contents).build());
    assert_eq!(
        defects(&source),
        [("pdf.page_damaged", 1), ("pdf.page_damaged", 2)]
    );
    assert!(source.defects[0].detail.contains("operands"));
}

#[test]
fn missing_text_is_a_page_defect_or_a_document_error() {
    let text = text_at(72.0, 700.0, "text");
    let source = source(&PdfFixture::with_pages(&["", SCAN, &text]).build());
    assert_eq!(defects(&source), [("pdf.no_text", 2)], "page 1 is blank");
    let error = error(&PdfFixture::with_pages(&["", ""]).build());
    assert_eq!(error.code, "pdf.no_text");
    assert!(error.message.contains("no text layer") && error.next.contains("OCR"));
}

#[test]
fn missing_content_is_a_defect_and_empty_content_is_blank() {
    let text = text_at(72.0, 700.0, "text");
    let bytes = PdfFixture::with_pages(&[&text, &text, &text]).build();
    let with = |contents: &str| {
        let second = format!("/Contents {} 0 R", PdfFixture::page_object(1) + 1);
        let bytes = String::from_utf8(bytes.clone())
            .unwrap()
            .replace(&second, contents);
        defects(&source(bytes.as_bytes()))
            .into_iter()
            .map(|(code, page)| (code.to_string(), page))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        with("/Contents 99 0 R"),
        [("pdf.page_unreadable".to_string(), 2)]
    );
    assert_eq!(with("/Contents [      ]"), []);
    let of = |data: &[u8]| {
        PdfFixture::with_pages(&[&text])
            .encoded_page("/FlateDecode", data)
            .build()
    };
    let zeros = String::from_utf8(of(&[0; 10]))
        .unwrap()
        .replace("/Length 10>>", "/Length 99999>>");
    assert_eq!(
        defects(&source(zeros.as_bytes())),
        [("pdf.page_unreadable", 2)]
    );
    assert_eq!(defects(&source(&of(b""))), []);
}

#[test]
fn pages_with_few_words_and_much_ink_are_defects() {
    let text = text_at(72.0, 700.0, "A title");
    let prose = text_at(72.0, 700.0, "some words of prose")
        + &(0..10)
            .map(|row| {
                text_at(
                    72.0,
                    600.0 - 12.0 * row as f32,
                    "more words of the same prose",
                )
            })
            .collect::<String>();
    let curves = "0 0 m 1 1 2 2 3 3 c S\n".repeat(3_000);
    let pages = [
        format!("{SCAN}{text}"),
        format!("{SCAN}{prose}"),
        format!("{curves}{text}"),
        curves,
        text,
        "0 0 m 612 792 l S".to_owned(),
    ];
    let contents: Vec<&str> = pages.iter().map(String::as_str).collect();
    let source = source(&PdfFixture::with_pages(&contents).build());
    assert_eq!(
        defects(&source),
        [
            ("pdf.little_text", 1),
            ("pdf.little_text", 3),
            ("pdf.no_text", 4)
        ]
    );
}

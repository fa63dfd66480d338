//! Limits, and files that are made to exceed them.

use super::*;

#[test]
fn defects_are_capped_and_counted() {
    let mut contents = vec![SCAN; 6];
    let text = text_at(72.0, 700.0, "text");
    contents.push(&text);
    let limits = Limits {
        max_defects: 3,
        ..Limits::default()
    };
    let source = read(&PdfFixture::with_pages(&contents).build(), None, &limits, 1).unwrap();
    assert_eq!(source.defects.len(), 4);
    assert!(source.defects[3].detail.starts_with("3 more"));
}

#[test]
fn every_document_limit_is_enforced_and_reported() {
    let text = text_at(72.0, 700.0, "text");
    let first = PdfFixture::with_pages(&[&text, &text]).first_object();
    let annotation = "<</Subtype/Link/Rect[72 690 200 710]/Dest[0/Fit]>>";
    let fixture = PdfFixture::with_pages(&[&text])
        .page(
            &format!("/Annots[{annotation}{annotation}{annotation}]"),
            text.as_bytes(),
        )
        .catalog(&format!("/Outlines {first} 0 R"))
        .object(&format!("<</First {} 0 R>>", first + 1))
        .object(&format!("<</Title(One)/First {} 0 R>>", first + 2))
        .object(&format!("<</Title(Two)/First {} 0 R>>", first + 3))
        .object("<</Title(Three)>>");
    let bytes = fixture.build();
    let with = |limits: Limits| read(&bytes, None, &limits, 1).unwrap();
    let codes = |source: &Source| {
        source
            .defects
            .iter()
            .map(|defect| defect.code.clone())
            .collect::<Vec<_>>()
    };
    let free = with(Limits::default());
    assert_eq!(
        (free.outline.len(), free.links.len(), codes(&free).len()),
        (3, 3, 0)
    );
    let links = with(Limits {
        max_links: 2,
        ..Limits::default()
    });
    assert_eq!(
        (links.links.len(), codes(&links)),
        (2, vec!["limits.links".to_string()])
    );
    let outline = with(Limits {
        max_outline_items: 2,
        ..Limits::default()
    });
    assert_eq!(
        (outline.outline.len(), codes(&outline)),
        (2, vec!["limits.outline".to_string()])
    );
    let levels = with(Limits {
        max_outline_depth: 2,
        ..Limits::default()
    });
    assert_eq!(
        levels
            .outline
            .iter()
            .map(|item| item.level)
            .collect::<Vec<_>>(),
        [1, 2, 2]
    );
    let glyphs = with(Limits {
        max_glyphs_per_page: 2,
        ..Limits::default()
    });
    assert_eq!(codes(&glyphs), ["limits.page", "limits.page"]);
    // The budget covers all streams together: each page alone is within it.
    let page = format!("{text}{}", " ".repeat(1 << 20));
    let bytes = PdfFixture::default()
        .deflated_page(page.as_bytes())
        .deflated_page(page.as_bytes())
        .build();
    let limits = Limits {
        max_decompressed_bytes: 3 << 19,
        ..Limits::default()
    };
    assert_eq!(
        defects(&read(&bytes, None, &limits, 1).unwrap()),
        [("pdf.page_unreadable", 2)]
    );
}

#[test]
fn ascii_filters_are_decoded_within_limits() {
    let text = text_at(72.0, 700.0, "text");
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
            + ">"
    };
    assert_eq!(
        decode_limits::decode_base85(b"9jqo^BlbD-Ble\nB1DJ+*+F(f,q/0JhKF<G#~>"),
        b"Man is distinguished, not b"
    );
    assert_eq!(
        (
            decode_limits::decode_base85(b"zz~>"),
            decode_limits::decode_base85(b"~>"),
            decode_limits::decode_hex(b"4 1zB>43")
        ),
        (vec![0; 8], vec![], vec![0x41, 0xb0])
    );
    let bomb = deflate(&vec![b' '; 80 << 20]);
    let fixture = PdfFixture::with_pages(&[&text])
        .encoded_page(
            "[/ASCIIHexDecode/FlateDecode]",
            hex(&deflate(text.as_bytes())).as_bytes(),
        )
        .encoded_page("[/ASCIIHexDecode/FlateDecode]", hex(&bomb).as_bytes());
    let source = source(&fixture.build());
    assert_eq!(pages(&source)[1].lines[0].text, "text");
    assert_eq!(defects(&source), [("pdf.page_unreadable", 3)]);
}

#[test]
fn decompression_bomb_loses_only_its_page() {
    let text = text_at(72.0, 700.0, "text");
    let bytes = PdfFixture::with_pages(&[&text])
        .deflated_page(&vec![b' '; 4 << 20])
        .page("", text.as_bytes())
        .build();
    let limits = Limits {
        max_content_bytes: 1 << 20,
        ..Limits::default()
    };
    let source = read(&bytes, None, &limits, 1).unwrap();
    assert_eq!(defects(&source), [("pdf.page_unreadable", 2)]);
    assert_eq!(pages(&source).len(), 3);
}

#[test]
fn huge_width_ranges_lose_only_their_font() {
    let mut fixture = PdfFixture::with_pages(&["BT /F9 10 Tf 72 700 Td <0041> Tj ET"]);
    let number = fixture.first_object();
    // The page's own fonts come first; a second /Font entry would not count, so the font hides in a form.
    fixture.resources = format!("/XObject<</X {number} 0 R>>");
    let body = "BT /F9 10 Tf 72 700 Td <0041> Tj ET";
    let font = "<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/DescendantFonts[<</Type/Font\
        /Subtype/CIDFontType2/BaseFont/X/W[0 2147483647 500]>>]>>";
    let fixture = fixture
        .object(&format!(
            "<</Subtype/Form/BBox[0 0 9 9]/Resources<</Font<</F9 {font}>>>>/Length {}>>stream\n{body}\nendstream",
            body.len()
        ))
        .page("", (text_at(72.0, 700.0, "text") + "/X Do").as_bytes());
    // The added page moved the form behind it.
    let bytes = String::from_utf8(fixture.build()).unwrap();
    let bytes = bytes.replace(
        &format!("/X {number} 0 R"),
        &format!("/X {} 0 R", number + 2),
    );
    assert_eq!(pages(&source(bytes.as_bytes())).len(), 2);
}

#[test]
fn document_limits_have_their_own_errors() {
    let text = text_at(72.0, 700.0, "text");
    let bytes = PdfFixture::with_pages(&[&text, &text]).build();
    let code = |limits: Limits| read(&bytes, None, &limits, 1).unwrap_err().code;
    assert_eq!(
        code(Limits {
            max_pages: 1,
            ..Limits::default()
        }),
        "limits.pages"
    );
    assert_eq!(
        code(Limits {
            max_bytes: 100,
            ..Limits::default()
        }),
        "limits.bytes"
    );
    assert_eq!(
        code(Limits {
            max_seconds: 0,
            ..Limits::default()
        }),
        "limits.time"
    );
}

#[test]
fn repeated_streams_are_cut_at_the_limit_of_a_page() {
    let text = text_at(72.0, 700.0, "text");
    let stream = format!("{} 0 R ", PdfFixture::page_object(1));
    let fixture = PdfFixture::default()
        .page(&format!("/Contents[{}]", stream.repeat(1000)), b"")
        .object(&format!(
            "<</Length {}>>stream\n{text}\nendstream",
            text.len()
        ));
    let limits = Limits {
        max_content_bytes: 5_000,
        ..Limits::default()
    };
    let source = read(&fixture.build(), None, &limits, 1).unwrap();
    assert_eq!(defects(&source), [("pdf.page_unreadable", 1)]);
    assert_eq!(pages(&source)[0].text(), "text");
}

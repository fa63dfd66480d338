//! Fonts, and characters without a meaning.

use super::*;

// A face of 10 pt drawn in dots of a tenth of a point.
const BITMAPS: &[(u8, i32, i32, i32)] = &[
    (b'1', 50, 0, 65),
    (b'A', 75, 0, 69),
    (b'e', 44, -1, 44),
    (b'l', 28, 0, 69),
    (b't', 39, -1, 61),
    (0x0c, 56, 0, 70),
    (b'd', 56, -1, 69),
];

#[test]
fn bitmap_fonts_are_sized_and_decoded() {
    // The second word is drawn in pieces, separated by a kern that is not a space.
    let content =
        "BT /T3 0.1 Tf 1 0 0 1 72 700 Tm (1) Tj 8 0 Td [(A)-3000(l)] TJ 14 0 Td (\\014led) Tj ET\n";
    let names: [fn(u8) -> String; 3] = [
        |code| {
            if code == 0x0c {
                "#0C".into()
            } else {
                char::from(code).to_string()
            }
        },
        |code| format!("a{code}"),
        |code| format!("G{code:02X}"),
    ];
    for name in names {
        let source = source(
            &PdfFixture::with_pages(&[content])
                .bitmap_font(name, BITMAPS)
                .build(),
        );
        let line = &pages(&source)[0].lines[0];
        assert_eq!(line.text, "1 Al filed");
        assert!(
            (line.style().size.points() - 10.0).abs() < 0.3,
            "{:?}",
            line.style()
        );
        assert!((9.0..12.0).contains(&line.rect.height()));
        assert!(source.defects.is_empty());
    }
}

// Helvetica whose digit 0 has a name without a meaning.
fn with_unknown_zero(content: &str) -> Source {
    let mut fixture = PdfFixture::with_pages(&[content]);
    fixture.fonts =
        "/F3<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding<</Differences[48/mystery]>>>>"
            .into();
    source(&fixture.build())
}

#[test]
fn fonts_that_call_their_bold_cut_medi_are_bold() {
    for (name, bold) in [
        ("NimbusRomNo9L-Medi", true),
        ("ABCDEF+NimbusRomNo9L-MediItal", true),
        ("NimbusRomNo9L-Regu", false),
        ("Medici-Regular", false),
    ] {
        let mut fixture = PdfFixture::with_pages(&[&styled_text_at(72.0, 700.0, "F3", 10.0, "x")]);
        fixture.fonts = format!("/F3<</Type/Font/Subtype/Type1/BaseFont/{name}>>");
        let source = source(&fixture.build());
        assert_eq!(pages(&source)[0].lines[0].runs[0].bold, bold, "{name}");
    }
}

#[test]
fn characters_that_cannot_be_read_are_shown_and_counted() {
    let source = with_unknown_zero(&styled_text_at(
        72.0,
        700.0,
        "F3",
        10.0,
        "In 2003 it was 1.6",
    ));
    assert_eq!(pages(&source)[0].text(), "In 2\u{fffd}\u{fffd}3 it was 1.6");
    assert_eq!(defects(&source), [("pdf.text_unreadable", 1)]);
    assert!(source.defects[0].detail.starts_with("1 words"));
    // An ornament in front of a line is not a defect.
    let source = with_unknown_zero(&styled_text_at(72.0, 700.0, "F3", 10.0, "0 In the year"));
    assert_eq!(pages(&source)[0].text(), "\u{fffd} In the year");
    assert!(source.defects.is_empty());
}

#[test]
fn control_codes_without_a_glyph_are_blanks() {
    assert_eq!(
        texts("BT /F1 10 Tf 72 700 Td (one\\ttwo) Tj ET"),
        ["onetwo"]
    );
    assert_eq!(
        texts("BT /F1 10 Tf 72 700 Td (one \\rtwo) Tj ET"),
        ["one two"]
    );
}

#[test]
fn a_hyphen_that_is_drawn_is_one_whatever_its_font_calls_it() {
    let map = "1 begincodespacerange <00> <FF> endcodespacerange\n2 beginbfchar <2D> <00AD> <20> <00AD> endbfchar";
    let map = format!(
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def\n{map}\nendcmap end end"
    );
    let content = styled_text_at(72.0, 700.0, "F3", 10.0, "a three-story house, co-");
    let mut fixture = PdfFixture::with_pages(&[&content]);
    let map_object = fixture.first_object();
    fixture.fonts =
        format!("/F3<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode {map_object} 0 R>>");
    let stream = format!("<</Length {}>>stream\n{map}\nendstream", map.len());
    let source = source(&fixture.object(&stream).build());
    assert_eq!(pages(&source)[0].text(), "a three-story house, co-");
}

#[test]
fn actual_text_replaces_unmapped_glyphs() {
    let content = "/Span<</ActualText<FEFF00740069>>> BDC BT /F1 10 Tf 72 700 Td (\\001) Tj ET EMC";
    assert_eq!(texts(content), ["ti"]);
    // Replacement text is normalized like all text: a ligature, a soft hyphen, a radical.
    let content =
        "/Span<</ActualText<FEFFFB0100AD2F08>>> BDC BT /F1 10 Tf 72 700 Td (\\001) Tj ET EMC";
    assert_eq!(texts(content), ["fi\u{4eba}"]);
}

#[test]
fn images_are_read_by_their_replacement_text() {
    let draw = "q 100 0 0 10 72 700 cm BI /W 1 /H 1 /CS /G /BPC 8 ID 0 EI Q";
    let inline = format!("/Span<</ActualText(Inline text)>> BDC {draw} EMC");
    assert_eq!(texts(&inline), ["Inline text"]);
    let marked = format!("/P<</MCID 1>> BDC {draw} EMC /P<</MCID 0>> BDC {draw} EMC");
    let fixture = PdfFixture::default().page("/StructParents 3", marked.as_bytes());
    let first = fixture.first_object();
    let fixture = fixture
        .catalog(&format!(
            "/StructTreeRoot<</ParentTree<</Kids[{first} 0 R]>>>>"
        ))
        .object(&format!(
            "<</Limits[2 9]/Nums[2[]3[null {} 0 R]]>>",
            first + 1
        ))
        .object("<</S/Span/ActualText(A heading)>>");
    let source = source(&fixture.build());
    let line = &pages(&source)[0].lines[0];
    assert_eq!((line.text.as_str(), line.rect.x0), ("A heading", Pt(7200)));
    assert_eq!(pages(&source)[0].lines.len(), 1);
}

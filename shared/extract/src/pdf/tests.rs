//! Whole files through [`read`].

use stemma_document::{LineRole, Page, PageNo, Pt, Source, SourceBody, Turn};

use super::fixture::{PdfFixture, deflate, styled_text_at, text_at};
use super::{decode_limits, read};
use crate::{ExtractError, Limits};

fn source(bytes: &[u8]) -> Source {
    read(bytes, None, &Limits::default(), 1).unwrap()
}

fn error(bytes: &[u8]) -> ExtractError {
    read(bytes, None, &Limits::default(), 1).unwrap_err()
}

fn pages(source: &Source) -> &[Page] {
    match &source.body {
        SourceBody::Pages(pages) => pages,
        SourceBody::Lines(_) => panic!("a PDF has pages"),
    }
}

fn texts(content: &str) -> Vec<String> {
    let source = source(&PdfFixture::with_pages(&[content]).build());
    pages(&source)[0]
        .lines
        .iter()
        .map(|line| line.text.clone())
        .collect()
}

fn defects(source: &Source) -> Vec<(&str, u32)> {
    source
        .defects
        .iter()
        .map(|d| (d.code.as_str(), d.page.map_or(0, PageNo::get)))
        .collect()
}

// An image that fills the page.
const SCAN: &str = "q 612 0 0 792 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID 0 EI Q\n";

#[test]
fn a_line_has_text_words_styles_and_a_box() {
    let content =
        text_at(72.0, 700.0, "Net sales") + &styled_text_at(140.0, 700.0, "F2", 10.0, "rose");
    let source = source(&PdfFixture::with_pages(&[&content]).build());
    let line = &pages(&source)[0].lines[0];
    assert_eq!(line.text, "Net sales rose");
    assert_eq!(line.words.len(), 3);
    assert_eq!((line.words[0].x0, line.words[2].x0), (Pt(7200), Pt(14000)));
    let runs: Vec<(u32, bool)> = line.runs.iter().map(|run| (run.end, run.bold)).collect();
    assert_eq!(runs, [(10, false), (14, true)]);
    assert!(
        line.rect.y0 < line.rect.y1 && line.rect.y0.points() > 80.0 && line.rect.y1.points() < 95.0
    );
}

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

#[test]
fn narrow_gutters_split_columns() {
    let mut content = String::new();
    for row in 0..10 {
        let y = 700.0 - 12.0 * row as f32;
        // Helvetica at 10 pt; the left column ends 7 pt before the right one starts.
        content += &text_at(
            72.0,
            y,
            &format!("left line {row} with some more words of prose i"),
        );
        content += &text_at(
            268.0,
            y,
            &format!("right line {row} with some more words of prose"),
        );
    }
    let lines = texts(&content);
    assert!(
        lines[..10].iter().all(|line| line.starts_with("left")),
        "{lines:?}"
    );
    assert!(
        lines[10..].iter().all(|line| line.starts_with("right")),
        "{lines:?}"
    );
}

#[test]
fn two_columns_of_prose_are_read_one_after_the_other() {
    let mut content = text_at(
        72.0,
        760.0,
        "A heading that runs across both of the columns of this page from side to side",
    );
    for row in 0..8 {
        let y = 700.0 - 12.0 * row as f32;
        content += &text_at(
            72.0,
            y,
            &format!("left column line {} with words of prose", word(row)),
        );
        content += &text_at(
            320.0,
            y,
            &format!("right column line {} with words of prose", word(row)),
        );
    }
    let lines = texts(&content);
    assert_eq!(lines.len(), 17);
    assert!(
        lines[1..9].iter().all(|line| line.starts_with("left")),
        "{lines:?}"
    );
    assert!(
        lines[9..].iter().all(|line| line.starts_with("right")),
        "{lines:?}"
    );
}

fn word(index: usize) -> &'static str {
    [
        "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta",
    ][index]
}

#[test]
fn a_table_row_stays_one_line() {
    let mut content = String::new();
    for row in 0..8 {
        let y = 700.0 - 12.0 * row as f32;
        content += &text_at(72.0, y, &format!("Revenue of the {} segment", word(row)));
        content += &text_at(320.0, y, "1,234");
        content += &text_at(420.0, y, "(5.6)");
    }
    let lines = texts(&content);
    assert_eq!(lines.len(), 8);
    assert_eq!(lines[0], "Revenue of the alpha segment 1,234 (5.6)");
}

#[test]
fn letter_spaced_words_are_joined() {
    assert_eq!(
        texts("BT /F2 12 Tf 4 Tc 72 700 Td (OVERVIEW) Tj ET"),
        ["OVERVIEW"]
    );
    assert_eq!(
        texts("BT /F2 12 Tf 72 700 Td (O V E R V I E W) Tj ET"),
        ["OVERVIEW"]
    );
    assert_eq!(
        texts("BT /F1 12 Tf 72 700 Td (We sell it.) Tj ET"),
        ["We sell it."]
    );
}

#[test]
fn leader_dots_are_separate_words() {
    assert_eq!(
        texts(&text_at(72.0, 700.0, "Business..........4")),
        ["Business .......... 4"]
    );
}

#[test]
fn bullets_and_superscripts_join_their_line() {
    let bullet = text_at(72.0, 700.0, "\\225") + &text_at(90.0, 700.0, "First point of the list");
    assert_eq!(texts(&bullet), ["• First point of the list"]);
    let note = text_at(72.0, 700.0, "Sales") + &styled_text_at(98.5, 704.0, "F1", 6.0, "1");
    assert_eq!(texts(&note).len(), 1);
}

#[test]
fn double_struck_text_is_read_once() {
    assert_eq!(
        texts(&(text_at(72.0, 700.0, "Risk Factors") + &text_at(72.3, 700.0, "Risk Factors"))),
        ["Risk Factors"]
    );
}

#[test]
fn rotation_and_crop_box_are_applied() {
    let turned = "BT /F1 10 Tf 0 1 -1 0 300 100 Tm (turned) Tj ET";
    let fixture = PdfFixture::default().page("/Rotate 90", turned.as_bytes());
    let source_ = source(&fixture.build());
    let page = &pages(&source_)[0];
    assert_eq!((page.width, page.height), (Pt(79200), Pt(61200)));
    let line = &page.lines[0];
    // x runs up the page, which is to the right after the rotation by 90 degrees.
    assert_eq!((line.text.as_str(), line.rect.x0), ("turned", Pt(10000)));
    let content = text_at(10.0, 10.0, "outside") + &text_at(150.0, 150.0, "inside");
    let cropped = PdfFixture::default()
        .page("/CropBox[100 100 300 300]", content.as_bytes())
        .build();
    let source_ = source(&cropped);
    let page = &pages(&source_)[0];
    assert_eq!((page.lines.len(), page.lines[0].rect.x0), (1, Pt(5000)));
}

// A link on the first line, which leads there.
const ENTRY: &str =
    "/Annots[<</Type/Annot/Subtype/Link/Rect[72 690 200 712]/Dest[0/XYZ 0 712 0]>>]";

#[test]
fn page_rotated_as_a_whole_is_read_upright() {
    let content = styled_text_at(72.0, 700.0, "F2", 14.0, "Section 2. Business")
        + &text_at(72.0, 680.0, "Our products are sold worldwide.");
    let read_rotated = |degrees: u32| {
        let entries = format!("{ENTRY}/Rotate {degrees}");
        source(
            &PdfFixture::default()
                .page(&entries, content.as_bytes())
                .build(),
        )
    };
    let upright = read_rotated(0);
    let expected = &pages(&upright)[0];
    for (degrees, turn, size) in [
        (90, Turn::Quarter, (Pt(79200), Pt(61200))),
        (180, Turn::Half, (Pt(61200), Pt(79200))),
        (270, Turn::ThreeQuarters, (Pt(79200), Pt(61200))),
    ] {
        let rotated = read_rotated(degrees);
        let page = &pages(&rotated)[0];
        assert_eq!(page.lines, expected.lines);
        assert_eq!((page.width, page.height), (expected.width, expected.height));
        assert_eq!((page.turn, page.displayed_size()), (turn, size));
        assert_eq!(rotated.links[0].rect, upright.links[0].rect);
        assert_eq!(
            (upright.links[0].target.y, rotated.links[0].target.y),
            (Some(Pt(8000)), None)
        );
    }
    let heading = pages(&read_rotated(90))[0].lines[0].rect;
    // Clockwise by 90 degrees, the first line runs down the right edge.
    let displayed = pages(&read_rotated(90))[0].displayed(heading);
    assert_eq!((displayed.y0, displayed.y1), (heading.x0, heading.x1));
    assert!(displayed.x0.points() > 680.0 && displayed.width() < 20.0);
}

#[test]
fn sideways_table_between_upright_head_and_foot_is_read_upright() {
    let table: String = (0..12)
        .map(|row| {
            let x = 150 + 20 * row;
            format!("BT /F1 10 Tf 0 1 -1 0 {x} 100 Tm (Revenue of region {row}) Tj ET\nBT /F1 10 Tf 0 1 -1 0 {x} 400 Tm (1,{row}45) Tj ET\n")
        })
        .collect();
    let running =
        text_at(72.0, 760.0, "Annual report of Example Corp") + &text_at(300.0, 30.0, "12");
    let upright = text_at(72.0, 600.0, "The regions are listed on the next page.");
    let portrait = running.clone() + &upright;
    let landscape = running + &table;
    let source = source(&PdfFixture::with_pages(&[&portrait, &landscape, &portrait]).build());
    let page = &pages(&source)[1];
    assert_eq!(
        (page.turn, page.width, page.height),
        (Turn::ThreeQuarters, Pt(79200), Pt(61200))
    );
    let first = &page.lines[0];
    assert_eq!(
        (first.text.as_str(), first.words[4].x0),
        ("Revenue of region 0 1,045", Pt(40000))
    );
    assert!(
        page.lines[..12]
            .iter()
            .all(|line| line.role == LineRole::Body && line.rect.height() < 12.0)
    );
    let roles: Vec<_> = page.lines[12..]
        .iter()
        .map(|line| (line.text.as_str(), line.role))
        .collect();
    assert_eq!(
        roles,
        [
            ("Annual report of Example Corp", LineRole::Head),
            ("12", LineRole::Foot)
        ]
    );
}

#[test]
fn text_in_another_direction_than_its_page_lies_across() {
    let note = "BT /F2 14 Tf 0 1 -1 0 30 300 Tm (Risk Factors) Tj ET\n";
    let mark = "BT /F2 60 Tf .7 .7 -.7 .7 150 250 Tm (DRAFT) Tj ET\n";
    let content =
        note.to_owned() + mark + &text_at(72.0, 700.0, "Most of the text runs to the right.");
    let source = source(&PdfFixture::with_pages(&[&content]).build());
    let page = &pages(&source)[0];
    let roles: Vec<_> = page
        .lines
        .iter()
        .map(|line| (line.text.as_str(), line.role))
        .collect();
    let across = LineRole::Across;
    assert_eq!(page.turn, Turn::None);
    assert_eq!(
        roles,
        [
            ("Most of the text runs to the right.", LineRole::Body),
            ("Risk Factors", across),
            ("DRAFT", across)
        ]
    );
}

#[test]
fn invisible_text_is_used_only_without_visible_text() {
    let hidden = "BT /F1 10 Tf 3 Tr 72 650 Td (hidden) Tj ET 0 Tr\n";
    let both = hidden.to_owned() + "BT 0 Tr ET " + &text_at(72.0, 700.0, "seen");
    assert_eq!(texts(hidden), ["hidden"]);
    assert_eq!(texts(&both), ["seen"]);
    let pdf = PdfFixture::with_pages(&[hidden, &both]).build();
    assert_eq!(defects(&source(&pdf)), [("pdf.text_invisible", 1)]);
}

#[test]
fn forms_are_read_and_recursion_is_bounded() {
    let mut fixture = PdfFixture::with_pages(&["q 1 0 0 1 72 700 cm /X Do Q"]);
    let number = fixture.first_object();
    fixture.resources = format!("/XObject<</X {number} 0 R>>");
    let body = "BT /F1 10 Tf (inside) Tj ET /X Do";
    let fixture = fixture.object(&format!(
        "<</Subtype/Form/BBox[0 0 9 9]/Length {}>>stream\n{body}\nendstream",
        body.len()
    ));
    let source = source(&fixture.build());
    assert_eq!(pages(&source)[0].lines[0].text, "inside");
    assert_eq!(defects(&source), [("limits.page", 1)]);
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
fn outline_cycles_and_bad_targets_are_handled() {
    let first = PdfFixture::with_pages(&["", ""]).first_object();
    let page = PdfFixture::page_object(1);
    let fixture =
        PdfFixture::with_pages(&[&text_at(72.0, 700.0, "one"), &text_at(72.0, 700.0, "two")])
            .catalog(&format!("/Outlines {first} 0 R"))
            .object(&format!("<</First {} 0 R>>", first + 1))
            .object(&format!(
                "<</Title(Part I)/First {} 0 R/Next {} 0 R/Dest[{page} 0 R/XYZ 0 692 0]>>",
                first + 2,
                first + 3
            ))
            .object(&format!(
                "<</Title<FEFF4E2D>/Dest[99 0 R/Fit]/First {} 0 R>>",
                first + 2
            ))
            .object(&format!(
                "<</Title()/A<</S/GoTo/D[7/Fit]>>/Next {} 0 R>>",
                first + 1
            ));
    let outline = source(&fixture.build()).outline;
    let entries: Vec<(&str, u16, bool)> = outline
        .iter()
        .map(|item| (item.title.as_str(), item.level, item.target.is_some()))
        .collect();
    assert_eq!(
        entries,
        [
            ("Part I", 1, true),
            ("中", 2, false),
            ("Untitled", 1, false)
        ]
    );
    let target = outline[0].target.unwrap();
    assert_eq!((target.page.get(), target.y), (2, Some(Pt(10000))));
}

#[test]
fn only_internal_links_are_read() {
    let annotations = "/Annots[<</Subtype/Link/Rect[72 690 200 710]/Dest(two)>>\
        <</Subtype/Link/Rect[72 660 200 680]/A<</S/GoTo/D/old>>>>\
        <</Subtype/Link/Rect[72 630 200 650]/A<</S/URI/URI(http://example.invalid)>>>>\
        <</Subtype/Link/Rect[72 600 200 620]/A<</S/Launch/F(x)>>>>\
        <</Subtype/Link/Rect[72 570 200 590]/Dest[9/Fit]>>]";
    let page = PdfFixture::page_object(1);
    let fixture = PdfFixture::default()
        .page(annotations, text_at(72.0, 700.0, "Contents").as_bytes())
        .page("", text_at(72.0, 700.0, "two").as_bytes())
        .catalog(&format!(
            "/Names<</Dests<</Kids[<</Names[(two)<</D[{page} 0 R/FitH 392]>>]>>]>>>>/Dests<</old[1/Fit]>>"
        ));
    let links = source(&fixture.build()).links;
    let targets: Vec<(u32, u32, Option<Pt>)> = links
        .iter()
        .map(|l| (l.page.get(), l.target.page.get(), l.target.y))
        .collect();
    assert_eq!(targets, [(1, 2, Some(Pt(40000))), (1, 2, None)]);
    assert_eq!(links[0].rect.y0, Pt(8200));
}

#[test]
fn labels_and_info_are_read() {
    let text = text_at(72.0, 700.0, "text");
    let fixture = PdfFixture::with_pages(&[&text, &text, &text])
        .catalog("/PageLabels<</Nums[0<</S/r>>2<</S/D/P(F-)/St 4>>]>>")
        .info("/Title(Annual report)/Author<FEFF00C5>/CreationDate(D:20230203040506+01'00')");
    let source = source(&fixture.build());
    let labels: Vec<&str> = pages(&source)
        .iter()
        .map(|page| page.label.as_ref().unwrap().0.as_str())
        .collect();
    assert_eq!(labels, ["i", "ii", "F-4"]);
    assert_eq!(source.metadata["title"], "Annual report");
    assert_eq!(source.metadata["author"], "Å");
    assert_eq!(source.metadata["creationdate"], "2023-02-03T04:05:06+01:00");
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
fn junk_before_the_header_is_skipped() {
    let mut bytes = b"junk\n".repeat(40);
    bytes.extend(PdfFixture::with_pages(&[&text_at(72.0, 700.0, "text")]).build());
    assert_eq!(pages(&source(&bytes)).len(), 1);
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
fn truncated_file_has_a_defect() {
    let text = text_at(72.0, 700.0, "text");
    let bytes = PdfFixture::with_pages(&[&text, &text, &text, &text]).build();
    assert!(source(&bytes).defects.is_empty());
    assert!(
        source(&[&bytes[..], &[0; 5_000]].concat())
            .defects
            .is_empty(),
        "what follows the end is no matter"
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
    // An ornament in front of a line is no defect.
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

// Lines in the direction of `degrees`, counterclockwise.
fn tilted(degrees: f32, lines: &[&str]) -> String {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let lines: String = lines
        .iter()
        .map(|line| format!("({line}) Tj 0 -12 Td "))
        .collect();
    format!(
        "BT /F1 10 Tf {cos} {sin} {} {cos} 300 400 Tm {lines}ET\n",
        -sin
    )
}

#[test]
fn tilted_lines_are_read_along_their_direction() {
    let lines = ["A first line that rises", "and a second line below it"];
    for degrees in [-40.0, -7.5, -3.0, 2.0, 3.0, 12.0, 89.0, 93.0, 177.0, 200.0] {
        assert_eq!(texts(&tilted(degrees, &lines)), lines, "{degrees}");
    }
    let source = source(&PdfFixture::with_pages(&[&tilted(30.0, &["word"])]).build());
    let line = &pages(&source)[0].lines[0];
    assert_eq!(line.rect.x0, line.words[0].x0);
    assert!(
        line.rect.height() > 10.0 && line.rect.height() < 25.0,
        "{:?}",
        line.rect
    );
}

#[test]
fn letters_along_a_curve_are_one_line() {
    let letters = "bound do bun on";
    let mut content = String::new();
    let mut x = 200.0f32;
    let mut y = 400.0f32;
    for (index, letter) in letters.chars().enumerate() {
        let (sin, cos) = (80.0 - 8.0 * index as f32).to_radians().sin_cos();
        content += &format!(
            "BT /F2 10 Tf {cos} {sin} {} {cos} {x} {y} Tm ({letter}) Tj ET\n",
            -sin
        );
        let width = if letter == ' ' { 2.78 } else { 6.11 };
        (x, y) = (x + width * cos, y + width * sin);
    }
    assert_eq!(texts(&content), [letters]);
}

#[test]
fn text_drawn_over_other_text_is_not_mixed_with_it() {
    let first = "BT /F1 10 Tf 72 700 Td (As of December 31, 2022,) Tj ET\n";
    let second = "BT /F1 10 Tf 184.5 700 Td (3,350 lawsuits) Tj ET\n";
    assert_eq!(
        texts(&format!("{second}{first}")),
        ["As of December 31, 2022, 3,350 lawsuits"]
    );
    let over = "BT /F1 10 Tf 73.5 700 Td (Policy on pay) Tj ET\n";
    assert_eq!(
        texts(&format!("{first}{over}")),
        ["As of December 31, 2022, Policy on pay"]
    );
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

//! Turned pages, and text that does not run to the right.

use super::*;

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

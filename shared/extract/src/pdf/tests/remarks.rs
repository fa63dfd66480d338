//! Remarks and stamps on pages.

use super::*;

const TEXT: &str =
    "BT /F1 10 Tf 72 700 Td (Name of the registrant) Tj 0 -30 Td (The fund paid 12.) Tj ET";

// Its number, whatever the number of pages.
const LIST_OF_ANNOTATIONS: usize = 20;

fn annotated(annotations: &str) -> PdfFixture {
    annotated_page(PdfFixture::default(), TEXT, annotations)
}

fn annotated_page(before: PdfFixture, content: &str, annotations: &str) -> PdfFixture {
    let list = LIST_OF_ANNOTATIONS;
    let page = before.page(&format!("/Annots {list} 0 R"), content.as_bytes());
    (page.first_object()..list)
        .fold(page, |fixture, _| fixture.object("null"))
        .object(&format!("[{annotations}]"))
}

fn lines_and_roles(fixture: &PdfFixture) -> Vec<(String, LineRole)> {
    let source = source(&fixture.build());
    let lines = pages(&source)[0].lines.iter();
    lines.map(|line| (line.text.clone(), line.role)).collect()
}

fn remark_lines(annotations: &str) -> Vec<String> {
    lines_and_roles(&annotated(annotations))
        .into_iter()
        .filter(|(_, role)| *role == LineRole::Across)
        .map(|(text, _)| text)
        .collect()
}

fn details(fixture: &PdfFixture) -> Vec<(String, String)> {
    let found = source(&fixture.build()).defects;
    found
        .into_iter()
        .map(|defect| (defect.code, defect.detail))
        .collect()
}

#[test]
fn remarks_are_lines_apart_in_brackets() {
    for kind in ["Text", "FreeText", "Highlight", "StrikeOut", "Ink"] {
        let remark = format!(
            "<</Subtype/{kind}/Rect[70 665 200 712]/Contents(Check this figure.\nIt moved)>>"
        );
        let [first, second, remark] = &lines_and_roles(&annotated(&remark))[..] else {
            panic!("{kind}: three lines are expected");
        };
        assert_eq!(first.0, "Name of the registrant", "{kind}");
        assert_eq!(second.0, "The fund paid 12.", "{kind}");
        let expected = "[remark: Check this figure. It moved]".to_owned();
        assert_eq!(*remark, (expected, LineRole::Across), "{kind}");
    }
    let two = "<</Subtype/Text/Rect[9 9 19 19]/Contents(a)>><</Subtype/Stamp/Rect[9 9 19 19]/Contents(b)>>";
    let said = "2 remarks and stamps are in brackets, on page 1";
    assert_eq!(
        details(&annotated(two)),
        [("pdf.remarks".to_owned(), said.to_owned())]
    );
}

#[test]
fn text_typed_into_a_blank_place_is_on_its_line() {
    let typed = "<</Subtype/FreeText/Rect[190 695 400 712]/Contents(ACME LLC)>>";
    let lines = lines_and_roles(&annotated(typed));
    assert_eq!(lines[0].0, "Name of the registrant ACME LLC");
    assert_eq!(lines.len(), 2);
    assert!(details(&annotated(typed)).is_empty());
}

#[test]
fn what_nobody_can_open_is_no_remark() {
    for hidden in [
        "<</Subtype/Text/F 2/Rect[9 9 19 19]/Contents(hidden)>>",
        "<</Subtype/FreeText/F 32/Rect[9 9 19 19]/Contents(not on the screen)>>",
        "<</Subtype/Text/Rect[9 9 19 19]/Contents( )>>",
        "<</Subtype/Link/Rect[9 9 19 19]/Contents(what a link is for)>>",
        "<</Subtype/Popup/Rect[9 9 19 19]/Contents(its parent has the text)>>",
    ] {
        assert_eq!(remark_lines(hidden), [] as [&str; 0], "{hidden}");
        assert!(details(&annotated(hidden)).is_empty(), "{hidden}");
    }
}

fn stamped(drawing: &str, contents: &str) -> PdfFixture {
    let form = LIST_OF_ANNOTATIONS + 1;
    let stamp = format!("<</Subtype/Stamp/Rect[300 500 500 560]{contents}/AP<</N {form} 0 R>>>>");
    let length = drawing.len();
    annotated(&stamp).object(&format!(
        "<</Subtype/Form/BBox[0 0 200 60]/Resources<</Font<</F9<</Type/Font/Subtype/Type1\
         /BaseFont/Helvetica-Bold>>>>>>/Length {length}>>stream\n{drawing}\nendstream"
    ))
}

#[test]
fn stamps_are_read_by_their_drawing() {
    let drawing = "1 0 0 rg 0 0 200 60 re f 1 g BT /F9 24 Tf 10 20 Td (APPROVED) Tj ET";
    let marks = |fixture: &PdfFixture| lines_and_roles(fixture)[2..].to_vec();
    let mark = |text: &str| [(text.to_owned(), LineRole::Across)];
    assert_eq!(marks(&stamped(drawing, "")), mark("[stamp: APPROVED]"));
    let with_comment = stamped(drawing, "/Contents(by the board)");
    assert_eq!(
        marks(&with_comment),
        mark("[stamp: APPROVED: by the board]")
    );
    // A picture of a stamp.
    let picture = stamped("0 0 200 60 re f", "");
    assert!(marks(&picture).is_empty());
    let said = "1 stamp or remark is not read, on page 1";
    assert_eq!(
        details(&picture),
        [("pdf.annotations".to_owned(), said.to_owned())]
    );
}

#[test]
fn remarks_on_pictures_of_pages_are_a_gap() {
    let annotation = "<</Subtype/Text/Rect[9 9 19 19]/Contents(see me)>>";
    let fixture = annotated_page(PdfFixture::with_pages(&[TEXT]), SCAN, annotation);
    let found = details(&fixture);
    let said = "1 stamp or remark is not read, on page 2".to_owned();
    assert!(
        found.contains(&("pdf.annotations".to_owned(), said)),
        "{found:?}"
    );
}

#[test]
fn remarks_are_bounded() {
    let long = format!(
        "<</Subtype/Text/Rect[9 9 19 19]/Contents({})>>",
        "a ".repeat(100_000)
    );
    let [line] = &remark_lines(&long)[..] else {
        panic!("one line is expected");
    };
    assert!(line.len() < 5_000, "{}", line.len());
    let many = "<</Subtype/Text/Rect[9 9 19 19]/Contents(a)>>".repeat(30_000);
    assert_eq!(remark_lines(&many).len(), 20_000);
    // A stamp that draws itself.
    let form = LIST_OF_ANNOTATIONS + 1;
    let own = format!("/Resources<</XObject<</X {form} 0 R>>>>");
    let circle = annotated(&format!(
        "<</Subtype/Stamp/Rect[9 9 99 99]/AP<</N {form} 0 R>>>>"
    ))
    .object(&format!(
        "<</Subtype/Form/BBox[0 0 9 9]{own}/Length 5>>stream\n/X Do\nendstream"
    ));
    assert_eq!(lines_and_roles(&circle).len(), 2);
}

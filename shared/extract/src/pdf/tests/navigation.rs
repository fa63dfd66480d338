//! Outline, links, page labels and metadata.

use super::*;

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

//! Text that the eye does not see, and text that only looks as if.

use stemma_document::HiddenReason;

use super::*;

const SEEN: &str = "BT /F1 10 Tf 1 0 0 1 72 750 Tm (seen) Tj ET\n";
// At the place of the text under test.
const DARK_BAND: &str = "0 0 0.5 rg 60 395 400 20 re f\n";
const TEXT: &str = "BT /F1 10 Tf 1 0 0 1 72 400 Tm (some words) Tj ET\n";
const WHITE_TEXT: &str = "1 g BT /F1 10 Tf 1 0 0 1 72 400 Tm (some words) Tj ET 0 g\n";
const IMAGE: &str = "q 400 0 0 40 60 390 cm BI /W 1 /H 1 /CS /G /BPC 8 ID 0 EI Q\n";
// Objects of every fixture: a form, a group and its membership, states, a stencil.
const FORM: usize = 0;
const OFF: usize = 1;
const MEMBERSHIP: usize = 2;
const OFF_FORM: usize = 3;
const FADED_FORM: usize = 4;
const SEPARATION: usize = 5;
const ON: usize = 6;
const NARROW_FORM: usize = 7;

fn fixture(content: &str, entries: &str) -> PdfFixture {
    let mut fixture = PdfFixture::default().page(entries, format!("{SEEN}{content}").as_bytes());
    let first = fixture.first_object();
    let of = |object: usize| format!("{} 0 R", first + object);
    fixture.resources = format!(
        "/XObject<</Form {}/OffForm {}/FadedForm {}/NarrowForm {}>>/Properties<</Off {}/Member {}/On {}>>\
         /ColorSpace<</Spot {}/Pattern[/Pattern/DeviceRGB]>>\
         /ExtGState<</Faded<</ca 0.4/CA 0.4>>/Clear<</ca 0/CA 0>>/Multiply<</BM/Multiply>>\
         /Masked<</SMask<</S/Luminosity>>>>/Plain<</ca 1/CA 1/BM/Normal/SMask/None>>>>",
        of(FORM),
        of(OFF_FORM),
        of(FADED_FORM),
        of(NARROW_FORM),
        of(OFF),
        of(MEMBERSHIP),
        of(ON),
        of(SEPARATION),
    );
    let form = |entries: &str, body: &str| {
        format!(
            "<</Subtype/Form/BBox[0 0 612 410]{entries}/Length {}>>stream\n{body}\nendstream",
            body.len()
        )
    };
    fixture
        .catalog(&format!(
            "/OCProperties<</OCGs[{0} {1}]/D<</OFF[{0}]/ON[{1}]>>>>",
            of(OFF),
            of(ON)
        ))
        .object(&form("", TEXT))
        .object("<</Type/OCG/Name(Off)>>")
        .object(&format!("<</Type/OCMD/P/AllOn/OCGs[{} {}]>>", of(OFF), of(ON)))
        .object(&form(&format!("/OC {}", of(OFF)), TEXT))
        .object(&form("/Group<</S/Transparency>>", TEXT))
        .object("[/Separation/Spot/DeviceCMYK<</FunctionType 2/Domain[0 1]/N 1/C0[0 0 0 0]/C1[0 1 1 0]>>]")
        .object("<</Type/OCG/Name(On)>>")
        .object(&form("", TEXT).replace("0 0 612 410", "0 0 60 410"))
}

fn read_with(content: &str, entries: &str) -> Source {
    source(&fixture(content, entries).build())
}

fn lines_of(source: &Source) -> Vec<&str> {
    pages(source)[0]
        .lines
        .iter()
        .map(|line| line.text.as_str())
        .collect()
}

// The words are kept out of the lines, and a gap and the source say so.
fn assert_hidden(content: &str, reason: HiddenReason) {
    let source = read_with(content, "");
    assert_eq!(lines_of(&source), ["seen"], "{content}");
    let hidden = &source.hidden[0];
    assert_eq!(
        (hidden.text.as_str(), hidden.reason),
        ("some words", reason),
        "{content}"
    );
    let [defect] = source.defects.as_slice() else {
        panic!("{content}: {:?}", source.defects)
    };
    assert_eq!(defect.code, "pdf.hidden_text");
    assert!(
        defect
            .detail
            .starts_with("2 words are hidden and not read: 2 "),
        "{}",
        defect.detail
    );
}

fn assert_seen(content: &str) {
    let source = read_with(content, "");
    let lines = lines_of(&source);
    assert!(lines.contains(&"some words"), "{content}: {lines:?}");
    assert_eq!(
        (source.hidden.len(), source.defects.len()),
        (0, 0),
        "{content}"
    );
}

#[test]
fn text_in_the_color_of_its_ground_is_hidden() {
    for content in [
        WHITE_TEXT.to_owned(),
        // In other color spaces, and nearly white.
        WHITE_TEXT.replace("1 g", "0.99 1 0.98 rg"),
        WHITE_TEXT.replace("1 g", "0 0 0 0 k"),
        WHITE_TEXT.replace("1 g", "/Spot cs 0 scn"),
        // On a white box on a dark band, and dark on dark.
        format!("{DARK_BAND}1 g 65 397 200 16 re f {WHITE_TEXT}"),
        format!("{DARK_BAND}{TEXT}"),
        // Only its outline is drawn, in white; white letters with a white outline.
        format!("1 G BT 1 Tr ET {TEXT} 0 Tr 0 G"),
        format!("1 G BT 2 Tr ET {WHITE_TEXT}"),
        // A rule below and a dark box next to it do not set it off.
        format!("0 g 60 397 400 0.5 re f 300 300 100 95 re f {WHITE_TEXT}"),
        // In a form.
        "1 g /Form Do".to_owned(),
        // Nothing is left of what the curves and the thin lines around it paint.
        format!("q 0 G 50 390 m 50 420 l 500 420 l S Q {WHITE_TEXT}"),
    ] {
        assert_hidden(&content, HiddenReason::SameColor);
    }
}

#[test]
fn text_that_its_ground_sets_off_is_seen() {
    let strips: String = (0..40)
        .map(|row| format!("60 {} 400 0.5 re f\n", 395.0 + f64::from(row) / 2.0))
        .collect();
    for content in [
        format!("{DARK_BAND}{WHITE_TEXT}"),
        // Bands of small rectangles, strips, a thick line, cells of one path.
        format!("0 g 60 395 40 20 re f 99.9 395 60 20 re f {WHITE_TEXT}"),
        format!("0 g {strips}{WHITE_TEXT}"),
        format!("0 G 20 w 60 405 m 460 405 l S {WHITE_TEXT}"),
        format!("0 g 60 395 400 20 re 60 430 400 20 re 60 460 400 20 re f {WHITE_TEXT}"),
        // Grounds that are not known: images, shadings, patterns, curves, masks, blends, faded fills.
        format!("{IMAGE}{WHITE_TEXT}"),
        format!("q 60 390 400 40 re W n /Sh sh Q {WHITE_TEXT}"),
        format!("/Pattern cs /P scn 60 395 400 20 re f {WHITE_TEXT}"),
        format!("0 g 60 395 m 60 500 460 500 460 395 c f {WHITE_TEXT}"),
        format!("/Masked gs {DARK_BAND}/Plain gs {WHITE_TEXT}"),
        format!("/Multiply gs {DARK_BAND}/Plain gs {WHITE_TEXT}"),
        format!("/Faded gs {DARK_BAND}/Plain gs {WHITE_TEXT}"),
        // A white fill with a hole, through which a dark band is seen.
        format!("{DARK_BAND}1 g 50 380 500 60 re 60 395 400 20 re f* {WHITE_TEXT}"),
        // White letters with a black outline; colors that are not known.
        format!("0 G BT 2 Tr ET {WHITE_TEXT}"),
        format!("/Spot cs 0.2 scn {TEXT}"),
        format!("0.92 g {TEXT}"),
        // A glyph below, such as a disk around a number.
        "BT /F1 120 Tf 1 0 0 1 60 380 Tm (MMM) Tj ET 1 g BT /F1 10 Tf 1 0 0 1 85 400 Tm (some words) Tj ET"
            .to_owned(),
        // Drawn white, then black, with a shift.
        format!("{WHITE_TEXT}{}", TEXT.replace("72 400", "72.5 399.5")),
        // Black on white paper and on a white fill.
        format!("1 g 0 300 612 200 re f 0 g {TEXT}"),
    ] {
        let source = read_with(&content, "");
        let lines = lines_of(&source).join(" ");
        assert!(lines.contains("some words"), "{content}: {lines}");
        assert_eq!(source.hidden, [], "{content}");
    }
}

#[test]
fn tiny_text_is_hidden_unless_its_page_is_tiny() {
    let tiny = TEXT.replace("10 Tf", "1.5 Tf");
    assert_hidden(&tiny, HiddenReason::Tiny);
    assert_hidden(
        &format!("q 0.1 0 0 0.1 100 100 cm {TEXT} Q"),
        HiddenReason::Tiny,
    );
    assert_seen(&TEXT.replace("10 Tf", "2.5 Tf"));
    // A raised mark on a page that is scaled down.
    let scaled = text_at(72.0, 400.0, "scaled").replace("10 Tf", "3.5 Tf")
        + &text_at(85.0, 400.5, "1").replace("10 Tf", "1.8 Tf");
    let source_ = source(&PdfFixture::with_pages(&[&scaled]).build());
    assert!(lines_of(&source_).contains(&"1"));
    assert_eq!(source_.hidden, []);
    assert_seen("q 10 0 0 10 0 0 cm BT /F1 1 Tf 1 0 0 1 7.2 40 Tm (some words) Tj ET Q");
    let fixture = PdfFixture::default().page(
        "/MediaBox[0 0 60 80]",
        b"BT /F1 1.5 Tf 1 0 0 1 7 40 Tm (some words) Tj ET",
    );
    assert_eq!(lines_of(&source(&fixture.build())), ["some words"]);
}

#[test]
fn text_off_the_page_is_hidden() {
    let outside = TEXT.replace("72 400", "72 -40");
    assert_hidden(&outside, HiddenReason::OffPage);
    assert_hidden(&TEXT.replace("72 400", "700 400"), HiddenReason::OffPage);
    let cropped = read_with(TEXT, "/CropBox[0 500 612 792]");
    assert_eq!(lines_of(&cropped), ["seen"]);
    assert_eq!(cropped.hidden[0].reason, HiddenReason::OffPage);
    let turned = read_with(TEXT, "/CropBox[0 300 300 792]/Rotate 90");
    assert_eq!(lines_of(&turned), ["seen", "some words"]);
    assert_eq!(turned.hidden, []);
}

#[test]
fn text_outside_of_its_clip_is_hidden() {
    for clip in [
        "100 500 50 50 re W n",
        "300 395 200 30 re W* n",
        // Two clips that have nothing in common, a triangle, no area.
        "60 390 200 40 re W n 300 390 200 40 re W n",
        "300 500 m 400 500 l 350 550 l h W n",
        "0 0 0 0 re W n",
    ] {
        assert_hidden(&format!("q {clip} {TEXT} Q"), HiddenReason::Clipped);
    }
    for clip in [
        "60 390 200 40 re W n",
        "60 430 200 -40 re W n",
        // Letters are cut off only a little, or not the first letters of each word.
        "60 401 200 40 re W n",
        "60 390 20 40 re 100 390 12 40 re W n",
        "0 0 m 612 0 l 0 792 l h W n",
        "100 500 50 50 re W n Q q",
        "q 100 500 50 50 re W n Q",
        // No path to clip with.
        "W n",
    ] {
        assert_seen(&format!("q {clip} {TEXT} Q"));
    }
    // The box of a form clips it.
    assert_hidden("/NarrowForm Do", HiddenReason::Clipped);
}

#[test]
fn text_under_a_later_fill_is_hidden() {
    let cover = "1 1 0 rg 60 390 300 40 re f 0 g\n";
    for content in [
        format!("{TEXT}{cover}"),
        format!("{TEXT}{IMAGE}"),
        format!("{TEXT}0 G 40 w 60 405 m 360 405 l S"),
        format!("{TEXT}/Pattern cs /P scn 0 300 612 200 re f {cover}"),
    ] {
        assert_hidden(&content, HiddenReason::Covered);
    }
    for content in [
        format!("{cover}{TEXT}"),
        // Highlights and faded fills.
        format!("{TEXT}/Multiply gs {cover}/Plain gs"),
        format!("{TEXT}/Faded gs {cover}/Plain gs"),
        format!("{TEXT}/Clear gs {cover}/Plain gs"),
        // Above, below, a part of its height, a frame around it, a curve, a pattern, a clip that leaves it open.
        format!("{TEXT}0 g 60 410 300 40 re f 60 360 300 36 re f"),
        format!("{TEXT}0 g 60 399 300 4 re f"),
        format!("{TEXT}0 G 2 w 60 390 300 40 re S"),
        format!("{TEXT}0 g 50 380 400 60 re 60 390 300 40 re f*"),
        format!("{TEXT}0 g 60 390 m 60 500 460 500 460 390 c f"),
        format!("{TEXT}/Pattern cs /P scn 60 390 300 40 re f"),
        format!("{TEXT}q 60 500 300 40 re W n {cover} Q"),
        format!("{TEXT}q 60 390 m 360 390 l 360 430 l h W n {cover} Q"),
        format!("{TEXT}/Off gs 1 G 0.5 w 60 403 m 360 403 l S"),
        // The text is painted again.
        format!("{TEXT}{cover}{TEXT}"),
        // A stencil and an image with a mask.
        format!("{TEXT}{}", IMAGE.replace("/CS /G /BPC 8", "/IM true")),
        // A layer that is off.
        format!("{TEXT}/OC /Off BDC {cover} EMC"),
    ] {
        assert_seen(&content);
    }
}

#[test]
fn text_in_a_layer_that_is_off_is_hidden() {
    for content in [
        format!("/OC /Off BDC {TEXT} EMC"),
        format!("/OC /Member BDC /Span BMC {TEXT} EMC EMC"),
        "/OffForm Do".to_owned(),
        "/OC /Off BDC /Form Do EMC".to_owned(),
    ] {
        assert_hidden(&content, HiddenReason::LayerOff);
    }
    for content in [
        format!("/OC /On BDC {TEXT} EMC"),
        format!("/OC /Unknown BDC {TEXT} EMC"),
        format!("/Span /Off BDC {TEXT} EMC"),
        format!("/OC /Off BDC EMC {TEXT}"),
        format!("/OC /Off BDC /Span BMC EMC EMC {TEXT}"),
    ] {
        assert_seen(&content);
    }
}

#[test]
fn text_that_paints_nothing_is_hidden() {
    let mode = |mode: u8| format!("BT {mode} Tr ET {TEXT} BT 0 Tr ET");
    assert_hidden(&mode(3), HiddenReason::Unpainted);
    assert_hidden(&format!("q {} Q", mode(7)), HiddenReason::Unpainted);
    // An image seen through the letters.
    assert_seen(&format!("q BT 7 Tr ET {TEXT}{IMAGE} Q"));
    assert_seen(&format!("q BT 4 Tr ET {TEXT} Q"));
    assert_hidden(&format!("/Clear gs {TEXT}"), HiddenReason::Transparent);
    assert_hidden("/Clear gs /FadedForm Do", HiddenReason::Transparent);
    // Letters that are drawn, with invisible text over them.
    let drawn: String = (0..5)
        .map(|at| {
            let x = 73 + 11 * at;
            format!("{x} 400 m {x} 407 {} 407 {} 400 c f\n", x + 8, x + 8)
        })
        .collect();
    assert_seen(&format!("{drawn}/Clear gs {TEXT}"));
    assert_seen(&format!("{drawn}{}", mode(3)));
    assert_seen("/Faded gs /FadedForm Do");
    assert_seen(&format!("/Faded gs {TEXT}"));
}

#[test]
fn the_text_of_a_scan_is_read_if_the_page_shows_no_other() {
    let invisible = format!("BT 3 Tr ET {TEXT}");
    for content in [
        format!("{SCAN}{invisible}"),
        format!("{invisible}{SCAN}"),
        format!("{TEXT}{SCAN}"),
        // Letters that are drawn.
        format!("0 g 60 390 m 60 430 360 430 360 390 c f {invisible}"),
    ] {
        let source = source(&PdfFixture::with_pages(&[&content]).build());
        assert_eq!(lines_of(&source), ["some words"], "{content}");
        assert_eq!(source.hidden, [], "{content}");
    }
    // The blanks of the layer part its words.
    let layer =
        format!("BT 3 Tr /F1 10 Tf 72 400 Td (1) Tj -2.4 Tc ( ) Tj 0 Tc (O-watt) Tj ET {SCAN}");
    let layer = source(&PdfFixture::with_pages(&[&layer]).build());
    assert_eq!(lines_of(&layer), ["1 O-watt"]);
    let source = read_with(&format!("{IMAGE}{invisible}"), "");
    assert_eq!(lines_of(&source), ["seen"]);
    assert_eq!(source.hidden[0].reason, HiddenReason::Unpainted);
    // Without a picture nobody sees any of it.
    let error = error(&PdfFixture::with_pages(&[&invisible]).build());
    assert_eq!(error.code, "pdf.no_text");
}

#[test]
fn a_gap_counts_the_ways_of_a_page() {
    let tiny = text_at(72.0, 300.0, "three tiny words").replace("10 Tf", "0.4 Tf");
    let source = read_with(
        &format!("{WHITE_TEXT}{tiny}1 g {}", text_at(72.0, 200.0, "....")),
        "",
    );
    let ways: Vec<_> = source
        .hidden
        .iter()
        .map(|hidden| hidden.text.as_str())
        .collect();
    assert_eq!(ways, ["some words ....", "three tiny words"]);
    assert_eq!(
        source.defects[0].detail,
        "5 words are hidden and not read: 2 in the color of what is below, 3 too small to read"
    );
}

#[test]
fn pages_with_very_many_fills_are_read_in_bounded_time() {
    let text: String = (0..60)
        .map(|row| text_at(72.0, 60.0 + 10.0 * row as f32, "white words in rows"))
        .collect();
    let fills = |shape: &str| {
        (0..60_000)
            .map(|at| format!("{} {} {shape} re f\n", at % 600, at % 780))
            .collect::<String>()
    };
    let content = format!("1 g {} 1 g {text} 0 g {}", fills("500 0.1"), fills("3 3"));
    let source = read_with(&content, "");
    assert_eq!(lines_of(&source)[0], "seen");
}

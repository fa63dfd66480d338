//! Form fields, and what is not read: attachments, dynamic forms.

use super::*;

// A page with widgets. `@` in an entry is the number of the first object.
fn form(content: &str, widgets: &[&str], objects: &[&str]) -> PdfFixture {
    let annotations = format!("/Annots[{}]", widgets.join(" "));
    let fixture = PdfFixture::default().page("", content.as_bytes());
    let first = fixture.first_object().to_string();
    let page = annotations.replace('@', &first);
    let fixture = PdfFixture::default()
        .page(&page, content.as_bytes())
        .catalog("/AcroForm<</DA(/Helv 9 Tf)/Fields[null]>>");
    objects.iter().fold(fixture, |fixture, object| {
        fixture.object(&object.replace('@', &first))
    })
}

fn widget(rect: &str, entries: &str) -> String {
    format!("<</Type/Annot/Subtype/Widget/Rect[{rect}]{entries}>>")
}

#[test]
fn values_of_fields_are_on_the_lines_of_their_labels() {
    let content = text_at(72.0, 690.0, "Name of registrant")
        + &text_at(72.0, 660.0, "State")
        + &text_at(72.0, 630.0, "Exchange")
        + &text_at(72.0, 600.0, "Secret");
    let widgets = [
        widget("220 685 440 703", "/FT/Tx/DA(/Helv 10 Tf 0 g)/V(ACME LLC)"),
        // Inherited from the parent.
        widget("220 655 440 673", "/Parent @ 0 R"),
        widget(
            "220 625 440 643",
            "/FT/Ch/Opt[[(n)(NYSE)][(q)(Nasdaq)]]/V(q)",
        ),
        widget("220 595 440 613", "/FT/Tx/Ff 8192/V(password)"),
        // Not on the screen.
        widget("220 565 440 583", "/FT/Tx/F 2/V(hidden)"),
        widget("220 565 440 583", "/FT/Tx/F 32/V(hidden)"),
        widget("220 535 440 553", "/FT/Btn/Ff 65536/V(Submit)"),
    ];
    let widgets: Vec<&str> = widgets.iter().map(String::as_str).collect();
    let fixture = form(&content, &widgets, &["<</FT/Tx/V<feff00440045>/T(state)>>"]);
    assert_eq!(
        first_page(&fixture),
        [
            "Name of registrant ACME LLC",
            "State DE",
            "Exchange Nasdaq",
            "Secret"
        ]
    );
}

#[test]
fn boxes_say_whether_they_are_checked() {
    let content = text_at(72.0, 570.0, "Audited")
        + &text_at(72.0, 540.0, "Exempt")
        + &text_at(100.0, 510.0, "Yes")
        + &text_at(200.0, 510.0, "No")
        + &text_at(300.0, 480.0, "Large filer:");
    let on = "/FT/Btn/AP<</N<</On null/Off null>>>>/AS/On";
    let off = "/FT/Btn/AS/Off/V/Off";
    let widgets = [
        widget("220 565 234 579", on),
        widget("220 535 234 549", off),
        widget("84 506 96 518", on),
        widget("184 506 196 518", off),
        // The state of a radio button that only its group states.
        widget("400 475 412 487", "/Parent @ 0 R"),
    ];
    let widgets: Vec<&str> = widgets.iter().map(String::as_str).collect();
    let fixture = form(&content, &widgets, &["<</FT/Btn/Ff 32768/V/Other>>"]);
    let lines = first_page(&fixture);
    assert_eq!(lines[..2], ["Audited: checked", "Exempt: not checked"]);
    let text = lines.join(" ");
    assert!(
        text.contains("checked: Yes") && text.contains("not checked: No"),
        "{text}"
    );
    assert!(text.contains("Large filer: checked"), "{text}");
}

#[test]
fn long_values_are_wrapped_and_printed_ones_are_not_repeated() {
    let words = "several words of a remark ".repeat(20);
    let widgets = [
        widget(
            "72 300 272 600",
            &format!("/FT/Tx/Ff 4096/V(First line\\n{words})"),
        ),
        widget("72 685 272 703", "/FT/Tx/V(Already printed)"),
    ];
    let widgets: Vec<&str> = widgets.iter().map(String::as_str).collect();
    let lines = first_page(&form(
        &text_at(74.0, 690.0, "Already printed"),
        &widgets,
        &[],
    ));
    assert_eq!(lines[..2], ["Already printed", "First line"]);
    assert_eq!(lines[2..].join(" "), words.trim_end());
    assert!(lines.len() > 10);
}

#[test]
fn fields_in_circles_and_in_great_numbers_are_bounded() {
    let text = text_at(72.0, 690.0, "Label");
    let circle = widget("220 685 440 703", "/Parent @ 0 R");
    let fixture = form(&text, &[&circle], &["<</Parent @ 0 R/T(circle)>>"]);
    assert_eq!(first_page(&fixture), ["Label"]);
    let many = widget("220 685 440 703", "/FT/Tx/V(a value)").repeat(30_000);
    let limits = Limits {
        max_glyphs_per_page: 1_000,
        ..Limits::default()
    };
    let read = read(&form(&text, &[&many], &[]).build(), None, &limits, 1).unwrap();
    let characters: usize = pages(&read)[0]
        .lines
        .iter()
        .map(|line| line.text.len())
        .sum();
    assert!(characters <= 2_000, "{characters}");
    assert_eq!(defects(&read), [("limits.page", 1)]);
}

// The code and the detail of the only defect.
fn only_defect(fixture: &PdfFixture) -> (String, String) {
    let mut source = source(&fixture.build());
    assert_eq!(source.defects.len(), 1, "{:?}", source.defects);
    let defect = source.defects.remove(0);
    (defect.code, defect.detail)
}

fn page_with(annotations: &str) -> PdfFixture {
    let page = |entries: &str| {
        PdfFixture::default().page(entries, text_at(72.0, 700.0, "text").as_bytes())
    };
    let number = page("").first_object();
    page(&format!("/Annots {number} 0 R")).object(&format!("[{annotations}]"))
}

#[test]
fn attached_files_are_a_gap() {
    let attached = "<</Subtype/FileAttachment/Rect[0 0 9 9]/FS<</F(note.xls)>>>>";
    let tree = "/Names<</EmbeddedFiles<</Kids[<</Names[(a)<</UF(annex.pdf)>>(b.txt)<<>>]>>]>>>>";
    let (code, detail) = only_defect(&page_with(attached).catalog(tree));
    assert_eq!(code, "pdf.attachments");
    assert_eq!(
        detail,
        "3 attached files are not read: annex.pdf, b.txt, note.xls"
    );
    let many: String = (0..50).map(|at| format!("(f{at:02})<<>>")).collect();
    let tree = format!("/Names<</EmbeddedFiles<</Names[{many}]>>>>");
    let (_, detail) = only_defect(&page_with("").catalog(&tree));
    assert!(detail.starts_with("50 attached files are not read: f00, f01,"));
    assert!(detail.ends_with("f09, …"), "{detail}");
}

#[test]
fn trees_of_files_in_circles_end() {
    let first = page_with("").first_object() + 1;
    let tree = format!("/Names<</EmbeddedFiles {first} 0 R>>");
    let node = format!("<</Kids[{first} 0 R {first} 0 R]/Names[(x.pdf)<<>>]>>");
    let (_, detail) = only_defect(&page_with("").catalog(&tree).object(&node));
    assert_eq!(detail, "1 attached file is not read: x.pdf");
}

#[test]
fn dynamic_forms_are_a_gap_unless_they_state_their_fields() {
    let of = |entries: &str| {
        let catalog = format!("/AcroForm<</XFA[(template)null]{entries}>>");
        source(&page_with("").catalog(&catalog).build())
    };
    assert_eq!(defects(&of("/Fields[]")), [("pdf.xfa_form", 0)]);
    assert_eq!(defects(&of("/Fields[<<>>]")), []);
}

use super::*;

fn look(css: &str, html: &str) -> (String, f32, bool) {
    let source = source(&format!("<style>{css}</style><p>{html}</p>"));
    let line = lines(&source)[0];
    let run = line.runs[0];
    (line.text.clone(), run.size.points(), run.bold)
}

#[test]
fn rules_style_the_elements_that_their_selectors_match() {
    for css in [
        "b{font-size:20pt}",
        "B { FONT-SIZE: 20pt }",
        ".note{font-size:20pt}",
        "#one{font-size:20pt}",
        "p .note{font-size:20pt}",
        "p > b{font-size:20pt}",
        "p b.note.wide#one{font-size:20pt}",
        "[data-kind]{font-size:20pt}",
        "b[data-kind=head]{font-size:20pt}",
        "b[data-kind^='he']{font-size:20pt}",
        "b[class~='wide']{font-size:20pt}",
        "h6, .note , h5{font-size:20pt}",
        "* b{font-size:20pt}",
        "<!-- b{font-size:20pt} -->",
        "@media screen, print{b{font-size:20pt}}",
        "@media all { @media screen { b{font-size:20pt} } }",
        "/* b{} */ b{color:red;;font-size : 20pt ! important}",
        "@import 'x.css'; @font-face{font-family:x;src:url(data:font;base64,AA)} b{font-size:20pt}",
        "nonsense { ] } b{font-size:20pt}",
        "@supports (display:grid){b{font-size:20pt}}",
        "b:not(.other){font-size:20pt}",
        "p :not(i, .other):not(#two){font-size:20pt}",
        "b:is(h1, .note){font-size:20pt}",
        ":where(b.wide){font-size:20pt}",
        "b{font-size:20pt",
    ] {
        let found = look(css, "<b class='note wide' id=one data-kind=head>text</b>");
        assert_eq!(found, ("text".into(), 20.0, true), "{css}");
    }
    for css in [
        ".not{font-size:20pt}",
        ".no{font-size:20pt}",
        "div b{font-size:20pt}",
        "html > b{font-size:20pt}",
        "b:hover{font-size:20pt}",
        "b::first-letter{font-size:20pt}",
        "i + b{font-size:20pt}",
        "b:nth-child(1){font-size:20pt}",
        "@media print{b{font-size:20pt}}",
        "@media (max-width:600px){b{font-size:20pt}}",
        "@supports not (display:grid){b{font-size:20pt}}",
        "b:not(.note){font-size:20pt}",
        "b:not(i, #one){font-size:20pt}",
        "b:is(i, .other){font-size:20pt}",
        "b:not(:not(i)){font-size:20pt}",
        "b:not(p i){font-size:20pt}",
        "b:not(){font-size:20pt}",
        "b:has(i){font-size:20pt}",
    ] {
        let found = look(css, "<b class='note wide' id=one data-kind=head>text</b>");
        assert_eq!(found, ("text".into(), 12.0, true), "{css}");
    }
}

#[test]
fn the_strongest_declaration_wins() {
    for (css, style, size) in [
        (".a{font-size:20pt} b{font-size:9pt}", "", 20.0),
        ("b{font-size:9pt} b{font-size:20pt}", "", 20.0),
        ("#i{font-size:20pt} .a.a.a{font-size:9pt}", "", 20.0),
        ("p b.a{font-size:20pt} b.a{font-size:9pt}", "", 20.0),
        ("#i{font-size:9pt}", "font-size:20pt", 20.0),
        ("b{font-size:20pt!important}", "font-size:9pt", 20.0),
        (
            "b{font-size:9pt !important}",
            "font-size:20pt!important",
            20.0,
        ),
        ("", "font-size:20pt!important;font-size:9pt", 20.0),
        ("b{font-size:20pt} b{font-size:unknown}", "", 20.0),
        ("b:is(i, #i){font-size:20pt} .a.a{font-size:9pt}", "", 20.0),
        (":where(#i){font-size:9pt} b{font-size:20pt}", "", 20.0),
    ] {
        let html = format!("<b class=a id=i style='{style}'>text</b>");
        assert_eq!(look(css, &html).1, size, "{css} {style}");
    }
    // Attributes of HTML are weaker than any rule.
    assert_eq!(
        look("font{font-size:20pt}", "<font size=1>text</font>").1,
        20.0
    );
}

#[test]
fn style_elements_count_wherever_they_are() {
    let late = source(
        "<p class=a>text</p><style>.a{font-weight:bold}</style><style media=print>.a{font-size:5pt}</style>",
    );
    assert!(lines(&late)[0].runs[0].bold);
    assert_eq!(lines(&late)[0].runs[0].size.points(), 12.0);
    let xhtml = source(
        "<html><head><style type='text/css'><![CDATA[ p > i {font-weight:bold} ]]></style>\
         <STYLE>p &gt; i {font-size:20pt}</STYLE></head><body><p><i>text</i></p></body></html>",
    );
    let run = lines(&xhtml)[0].runs[0];
    assert_eq!((run.bold, run.size.points()), (true, 20.0));
}

#[test]
fn page_breaks_of_printed_pages_are_read() {
    let source = source(
        "<style>@media print{.page{page-break-after:always;display:none}}</style>\
         <div class=page><p>one</p></div><div class=page><p>two</p></div>",
    );
    assert_eq!(pages(&source).len(), 2);
    assert_eq!(codes(&source), [] as [&str; 0]);
}

#[test]
fn a_raised_mark_is_a_superscript_and_other_small_text_is_not() {
    for (html, expected) in [
        ("8<sup>3</sup> percent", "8³ percent"),
        ("Revenue<sup>(1)</sup>", "Revenue⁽¹⁾"),
        (
            "Costs<span style='font-size:6pt;position:relative;top:-3.15pt'>(a)</span>",
            "Costs⁽ᵃ⁾",
        ),
        (
            "Costs<span style='vertical-align:super;font-size:6pt'>1,2</span>",
            "Costs¹˒²",
        ),
        ("the 1<sup>st</sup> and 2<sup>nd</sup>", "the 1st and 2nd"),
        ("Acme<sup>®</sup>", "Acme®"),
        ("CO<sub>2</sub>", "CO2"),
        ("<span style='position:relative;top:-2pt'>5</span>", "5"),
    ] {
        assert_eq!(text(html), [expected], "{html}");
    }
}

#[test]
fn linked_style_sheets_are_a_note() {
    let note = |html: &str| {
        let defects = source(html).defects.into_iter();
        let mut notes = defects.filter(|defect| defect.code == "html.style_sheets");
        notes.next().map(|note| note.detail)
    };
    let one = "<link rel=stylesheet href=a.css><p>text</p>";
    let several = "<?xml-stylesheet href='a.css'?><link rel='Stylesheet x'><p>text</p>";
    assert_eq!(note(one).unwrap(), "1 linked style sheet was not read");
    assert_eq!(
        note(several).unwrap(),
        "2 linked style sheets were not read"
    );
    assert_eq!(note("<link rel=icon href=a.png><p>text</p>"), None);
}

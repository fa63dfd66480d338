use super::*;

const SECRET: &str = "secret words here";

/// Each way to hide text: style sheet, and markup with `$` for the text.
const WAYS: [(&str, &str, &str); 30] = [
    ("not displayed", "", "<p hidden>$</p>"),
    (
        "not displayed",
        "",
        "<div style='display:none'><p>$</p></div>",
    ),
    (
        "not displayed",
        ".x{display:none}",
        "<div class='a x'><p>$</p></div>",
    ),
    (
        "not displayed",
        "#i > span{display:none!important}",
        "<p id=i><span style='display:inline'>$</span></p>",
    ),
    ("not displayed", "", "<p style='visibility:hidden'>$</p>"),
    (
        "not displayed",
        "",
        "<table><tr style='visibility:collapse'><td>$</td></tr></table>",
    ),
    ("marked as decoration", "", "<p aria-hidden=true>$</p>"),
    ("too small to read", "", "<p style='font-size:0'>$</p>"),
    ("too small to read", ".x{font-size:1px}", "<p class=x>$</p>"),
    ("transparent", "", "<p style='opacity:0'>$</p>"),
    (
        "off the page",
        "",
        "<p style='position:absolute;left:-9999px'>$</p>",
    ),
    (
        "off the page",
        "",
        "<p style='position:absolute;top:-2000px'>$</p>",
    ),
    ("off the page", "", "<p style='text-indent:-999px'>$</p>"),
    ("off the page", "", "<p style='margin-left:-5000px'>$</p>"),
    (
        "outside of a clip",
        "",
        "<p style='position:absolute;clip:rect(0,0,0,0)'>$</p>",
    ),
    (
        "outside of a clip",
        ".sr{position:absolute!important;clip:rect(1px 1px 1px 1px)}",
        "<span class=sr>$</span>",
    ),
    (
        "outside of a clip",
        "",
        "<p style='clip-path:inset(100%)'>$</p>",
    ),
    (
        "outside of a clip",
        "",
        "<p style='clip-path: inset(50%)'>$</p>",
    ),
    (
        "outside of a clip",
        "",
        "<div style='height:0;overflow:hidden'>$</div>",
    ),
    (
        "outside of a clip",
        "",
        "<div style='width:1px;overflow:hidden'>$</div>",
    ),
    (
        "outside of a clip",
        ".x{max-height:0;overflow:hidden}",
        "<div class=x>$</div>",
    ),
    (
        "in the color of what is below",
        "",
        "<font color=white>$</font>",
    ),
    (
        "in the color of what is below",
        "",
        "<font color=#FFFFFF>$</font>",
    ),
    (
        "in the color of what is below",
        ".x{color:rgb(254,254,254)}",
        "<p class=x>$</p>",
    ),
    (
        "in the color of what is below",
        "body{background:#036}",
        "<p style='color:#003366'>$</p>",
    ),
    (
        "in the color of what is below",
        "",
        "<table><tr bgcolor=black><td><font color='#000000'>$</font></td></tr></table>",
    ),
    (
        "in the color of what is below",
        "",
        "<p style='color:transparent'>$</p>",
    ),
    (
        "outside of a clip",
        "",
        "<p style='transform:scale(0)'>$</p>",
    ),
    ("not displayed", "", "<template>$</template>"),
    ("not displayed", "", "<noscript>$</noscript>"),
];

/// What is displayed although it looks like one of the ways.
const SEEN: [(&str, &str); 33] = [
    ("", "<details><summary>more</summary>$</details>"),
    ("", "<p style='display:block'>$</p>"),
    (".y{display:none}", "<p class=x>$</p>"),
    ("@media print{.x{display:none}}", "<p class=x>$</p>"),
    (".x:hover{display:none}", "<p class=x>$</p>"),
    (
        ".x{display:none}",
        "<p class=x style='display:block!important'>$</p>",
    ),
    (
        "",
        "<div style='visibility:hidden'><p style='visibility:visible'>$</p></div>",
    ),
    ("", "<p aria-hidden=false>$</p>"),
    (
        "",
        "<div style='font-size:0'><p style='font-size:10pt'>$</p></div>",
    ),
    ("", "<p style='font-size:2pt'>$</p>"),
    ("", "<p style='opacity:0.5'>$</p>"),
    ("", "<p style='text-indent:-36pt;margin-left:36pt'>$</p>"),
    ("", "<p style='left:-9999px'>$</p>"),
    ("", "<p style='clip:rect(0,0,0,0)'>$</p>"),
    (
        "",
        "<p style='position:absolute;clip:rect(0,400px,100px,0)'>$</p>",
    ),
    ("", "<p style='clip-path:inset(5%)'>$</p>"),
    ("", "<div style='height:0'>$</div>"),
    ("", "<span style='width:0;overflow:hidden'>$</span>"),
    (
        "",
        "<table><tr><td style='height:0;width:1px;overflow:hidden'>$</td></tr></table>",
    ),
    ("", "<p style='transform:scale(0.5)'>$</p>"),
    (
        "",
        "<table><tr><td bgcolor=navy><font color=white>$</font></td></tr></table>",
    ),
    (
        "",
        "<table><tr style='background-color:#003366'><td style='color:#fff'>$</td></tr></table>",
    ),
    (
        "",
        "<table style='background:#036 none'><tr><td><p style='color:white'>$</p></td></tr></table>",
    ),
    (
        "th{background:rgb(0,51,102);color:white}",
        "<table><tr><th>$</th></tr></table>",
    ),
    (
        ".bar{background:url(bar.png)}",
        "<div class=bar><p style='color:white'>$</p></div>",
    ),
    (
        "",
        "<table background=bar.gif><tr><td><font color=white>$</font></td></tr></table>",
    ),
    (
        ".bar{background:linear-gradient(#036,#069);color:#fff}",
        "<div class=bar>$</div>",
    ),
    (
        "tr:nth-child(1){background:navy}",
        "<table><tr><td style='color:white'>$</td></tr></table>",
    ),
    (
        "@import url(more.css);",
        "<p class=head style='color:white'>$</p>",
    ),
    (
        "",
        "<link rel=stylesheet href=a.css><p class=head style='color:white'>$</p>",
    ),
    (
        "",
        "<img style='position:absolute' src=a.png><p style='position:absolute;left:9pt;color:white'>$</p>",
    ),
    (
        "body{background:black;color:#ccc}",
        "<p style='color:white'>$</p>",
    ),
    ("", "<font color=white><a href='#x'>$</a></font>"),
];

fn page(css: &str, markup: &str) -> Source {
    let markup = markup.replace('$', SECRET);
    source(&format!(
        "<html><head><style>{css}</style></head><body><p><span>first</span></p>{markup}<p><span>last</span></p></body></html>"
    ))
}

fn page_text(source: &Source) -> String {
    pages(source).iter().map(Page::text).collect()
}

#[test]
fn hidden_text_is_left_out_and_counted() {
    for (way, css, markup) in WAYS {
        // What the rules paint may hide the other words, too.
        let source = page(css, markup);
        assert!(!page_text(&source).contains("secret"), "{css} {markup}");
        let gap = source
            .defects
            .iter()
            .find(|defect| defect.code == "html.hidden_text");
        let gap = gap.unwrap_or_else(|| panic!("no gap: {css} {markup}"));
        assert_eq!(gap.page.map(|page| page.get()), Some(1), "{markup}");
        let words = format!("3 words are hidden and not read: 3 {way}");
        assert_eq!(gap.detail, words, "{markup}");
        let [text] = source.hidden.as_slice() else {
            panic!("{:?}", source.hidden)
        };
        assert_eq!(
            (text.text.as_str(), text.page.get()),
            (SECRET, 1),
            "{markup}"
        );
    }
}

#[test]
fn text_that_is_seen_is_read() {
    for (css, markup) in SEEN {
        let source = page(css, markup);
        assert!(page_text(&source).contains(SECRET), "{css} {markup}");
        assert!(
            !codes(&source).contains(&"html.hidden_text"),
            "{css} {markup}"
        );
    }
}

#[test]
fn data_for_machines_and_spacers_are_not_counted() {
    for markup in [
        "<div style='display:none'><ix:header><ix:hidden>$</ix:hidden><ix:resources>$</ix:resources></ix:header></div>",
        "<script>$</script><style>$</style><title>$</title>",
        "<p style='font-size:1pt'>&nbsp; . ___ 4</p>",
        "<font color=white>-- 1 --</font>",
        "<span aria-hidden=true>★ x</span>",
    ] {
        let source = page("", markup);
        assert_eq!(codes(&source), [] as [&str; 0], "{markup}");
    }
}

#[test]
fn hidden_text_is_counted_by_page_and_way() {
    let part = "<p>text</p><p hidden>one two</p><font color=white>three</font><hr style='page-break-after:always'>";
    let source = source(&format!("{part}<p>no</p>{part}"));
    let gaps: Vec<_> = source
        .defects
        .iter()
        .map(|defect| {
            (
                defect.page.map_or(0, |page| page.get()),
                defect.detail.as_str(),
            )
        })
        .collect();
    let detail =
        "3 words are hidden and not read: 2 not displayed, 1 in the color of what is below";
    assert_eq!(gaps, [(1, detail), (2, detail)]);
}

#[test]
fn a_file_of_hidden_text_displays_no_text() {
    let html = b"<div style='display:none'><p>some text</p></div>";
    let error = read(html, &Limits::default()).unwrap_err();
    assert_eq!(error.code, "html.no_text");
    assert!(error.message.contains("2 words"), "{}", error.message);
    // Scripts display a page that hides all of itself.
    assert_eq!(text("<body style='opacity:0'><p>text</p></body>"), ["text"]);
}

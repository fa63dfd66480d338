use proptest::prelude::*;

use super::*;

fn read_large(name: &str, html: &str) -> Source {
    read(html.as_bytes(), &Limits::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn deep_nesting_is_read_to_its_end() {
    for tag in [
        "div",
        "b",
        "table><tr><td",
        "ul><li",
        "font size=+1",
        "ix:nonNumeric",
    ] {
        let html = format!(
            "{}deep{}<p>end</p>",
            format!("<{tag}>").repeat(100_000),
            "</div>".repeat(100_000)
        );
        let source = read_large(tag, &html);
        let all = lines(&source);
        // What follows stays inside elements that are not closed.
        for text in ["deep", "end"] {
            assert!(
                all.iter().any(|line| line.text.contains(text)),
                "{tag}: no {text}"
            );
        }
        assert!(codes(&source).contains(&"limits.html_depth"), "{tag}");
    }
}

// So many that work which grows with the square takes longer than a test may.
#[test]
fn floods_of_markup_are_read_in_linear_time() {
    let many = 200_000;
    // For what only divides the text into tags, because that is quick.
    let most = 2_000_000;
    for (name, part, n) in [
        ("cells", "<td>", many),
        ("spans", "<td colspan=1000 rowspan=65534>x", many),
        ("rows", "<tr><td rowspan=65534 colspan=400>", many),
        ("tables", "<table>", many),
        ("references", "&nbsp;&amp;&#x110000;", many),
        ("ends", "</b></p></td></table>", many),
        ("overlap", "<b><p></b>", many),
        ("anchors", "<a name=x href=#x>y", many),
        ("quotes", "<a href=\"x", most),
        ("comments", "<!-- x", most),
        ("attributes", "<p a=1 b='2' c d = ", most),
        ("breaks", "<br>", many),
        ("pages", "<hr style='page-break-after:always'>", many),
    ] {
        let html = format!("<p>start</p><table><tr>{}", part.repeat(n));
        let source = read_large(name, &html);
        assert_eq!(lines(&source)[0].text, "start", "{name}");
    }
}

// As `floods_of_markup_are_read_in_linear_time`, for style sheets.
#[test]
fn floods_of_rules_are_read_in_linear_time() {
    let many = 50_000;
    for (name, css, body) in [
        (
            "rules",
            "b{color:red}".repeat(5 * many),
            "<b>x</b>".to_owned(),
        ),
        ("nested", "@media all{".repeat(many), "<b>x</b>".to_owned()),
        ("braces", "{".repeat(many), "<b>x</b>".to_owned()),
        ("brackets", "[(".repeat(many), "<b>x</b>".to_owned()),
        (
            "list",
            format!("{}c{{color:red}}", "b,".repeat(5 * many)),
            "<b>x</b>".to_owned(),
        ),
        (
            "parts",
            format!("{}{{color:red}}", "b ".repeat(many)),
            "<b>x</b>".to_owned(),
        ),
        (
            "declarations",
            format!("b{{{}}}", "color:red;".repeat(many)),
            "<b>x</b>".to_owned(),
        ),
        (
            "value",
            format!("b{{color:{}}}", "x ".repeat(many)),
            "<b>x</b>".to_owned(),
        ),
        // Each element is compared with each rule.
        (
            "product",
            ".a{color:red}".repeat(2_000),
            "<b class=a>x</b>".repeat(2_000),
        ),
        (
            "depth",
            format!("{}p{{color:red}}", "b ".repeat(20)).repeat(100),
            format!("{}{}", "<b>".repeat(400), "<p>x</p>".repeat(2_000)),
        ),
        (
            "classes",
            ".a.b{color:red}".repeat(100),
            format!("<b class='{}'>x</b>", "a ".repeat(many)),
        ),
    ] {
        let html = format!("<style>{css}</style><p>start</p>{body}");
        let source = read_large(name, &html);
        assert_eq!(lines(&source)[0].text, "start", "{name}");
    }
}

#[test]
fn too_many_rules_are_recorded() {
    let html = format!(
        "<style>{}</style><p>text</p>",
        "b{color:red}".repeat(300_000)
    );
    assert_eq!(codes(&source(&html)), ["limits.html_rules"]);
}

#[test]
fn one_line_of_many_megabytes_is_divided() {
    let html = format!("<p>{}</p>", "word ".repeat(4 << 20));
    let source = read_large("one line", &html);
    assert!(lines(&source).iter().all(|line| line.text.len() < 50_000));
    let unbroken = format!("<p>{}</p>", "x".repeat(8 << 20));
    let source = read_large("one word", &unbroken);
    assert!(lines(&source).iter().all(|line| line.text.len() < 50_000));
}

#[test]
fn limits_of_lines_pages_and_links_are_recorded() {
    let limits = Limits {
        max_lines: 10,
        max_pages: 3,
        max_links: 2,
        max_destinations: 1,
        ..Limits::default()
    };
    let page = "<p id=a>text <a href=#a>x</a></p><hr style='page-break-after:always'>";
    let source = read(page.repeat(20).as_bytes(), &limits).unwrap();
    let codes = codes(&source);
    assert_eq!(pages(&source).len(), 3);
    assert_eq!(codes, ["limits.lines", "limits.pages", "limits.links"]);
}

#[test]
fn a_file_without_text_is_an_error() {
    for html in ["<p></p>", "<script>x</script>", "&nbsp;", "<!-- x"] {
        let error = read(html.as_bytes(), &Limits::default()).unwrap_err();
        assert_eq!(error.code, "html.no_text", "{html}");
    }
    let limits = Limits {
        max_bytes: 3,
        ..Limits::default()
    };
    assert_eq!(read(b"<p>x", &limits).unwrap_err().code, "limits.bytes");
}

#[test]
fn text_behind_an_unclosed_tag_is_a_defect() {
    let source = source("<p>text</p><a href=\"x> more");
    assert_eq!(codes(&source), ["html.unclosed"]);
}

proptest! {
    #[test]
    fn bytes_never_panic_and_lines_are_sound(
        bytes in "(<style>([.#>*:@ a{}();!\"]|color:white|display:none|transform:scale\\(){0,20}</style>)?(<(/?(p|div|b|i|a|table|tr|td|br|hr|pre|ul|li|span|font|ix:x)( (id|name|href|style|colspan|align)=('#?a'|center|\"font-size:9e9pt;margin:-1in\"))?)>|&[a-z#0-9]{0,4};|[ a-zé\u{a0}<>&\"']){0,120}"
    ) {
        let Ok(source) = read(bytes.as_bytes(), &Limits::default()) else { return Ok(()) };
        for page in pages(&source) {
            for line in &page.lines {
                prop_assert!(!line.text.is_empty());
                prop_assert_eq!(line.runs.last().map(|run| run.end as usize), Some(line.text.len()));
                prop_assert!(line.words.iter().all(|word| word.start < word.end && line.text.get(word.start as usize..word.end as usize).is_some()));
                let span = line.bytes.unwrap();
                prop_assert!(span.start < span.end && span.end as usize <= bytes.len());
            }
        }
        prop_assert!(source.links.iter().all(|link| link.target.page.index() < pages(&source).len()));
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Err(error) = read(&bytes, &Limits::default()) {
            prop_assert_eq!(error.code, "html.no_text");
        }
    }
}

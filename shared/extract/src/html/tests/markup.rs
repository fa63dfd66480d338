use super::*;

#[test]
fn blocks_and_breaks_make_lines() {
    assert_eq!(
        text("<p>One\n two<p>Three<br>Four<div>Five<span>six</span></div>seven<h2>Eight</h2>"),
        ["One two", "Three", "Four", "Fivesix", "seven", "Eight"]
    );
    assert_eq!(
        text("<span style='display:block'>a</span><div style='display:inline'>b</div>c"),
        ["a", "bc"]
    );
    assert_eq!(text("<ul><li>a<li>b</ul>c"), ["a", "b", "c"]);
}

#[test]
fn references_and_spaces_are_normalized() {
    assert_eq!(
        text("<p>Item&nbsp;1.&#160;\u{a0} A&amp;B &#146;s&zwnj;x\u{200b}y &rsquo; co\u{ad}op</p>"),
        ["Item 1. A&B ’sxy ’ coop"]
    );
}

#[test]
fn hidden_content_is_left_out() {
    assert_eq!(
        text(
            "<html><head><title>T</title><style>p{}</style></head><body><script>x()</script><ix:header><ix:hidden>h</ix:hidden></ix:header>\
             <div style='display:none'><p>no</p></div><p hidden>no</p><p>yes<span style='visibility:hidden'>no</span></p></body></html>"
        ),
        ["yes"]
    );
    // The end tags of the head and of the title are often missing.
    assert_eq!(text("<HTML><HEAD><TITLE>x</TITLE><P>text"), ["text"]);
    assert_eq!(
        text("<html><head><meta charset=utf-8><title/><body>text"),
        ["text"]
    );
}

#[test]
fn preformatted_text_keeps_its_lines_and_columns() {
    let source = source("<PRE>\nItem 1.     Business         3\n\n  Text\n<PAGE>\nNext\n</PRE>");
    let all = lines(&source);
    let texts: Vec<&str> = all.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts, ["Item 1. Business 3", "Text", "Next"]);
    let words = &all[0].words;
    assert!(words[2].x0.points() - words[1].x1.points() > 25.0);
    assert!(all[1].rect.x0 > all[0].rect.x0);
    assert_eq!(pages(&source).len(), 2);
}

#[test]
fn tags_that_overlap_style_what_they_hold() {
    let source = source("<p><b><i>both</b>italic</i>plain<div><b><p>bold</b>not</p></div>");
    let runs: Vec<(String, bool, bool)> = lines(&source)
        .iter()
        .flat_map(|line| {
            let mut start = 0;
            line.runs.iter().map(move |run| {
                let text = line.text[start as usize..run.end as usize].to_string();
                start = run.end;
                (text, run.bold, run.emphasis == Emphasis::Italic)
            })
        })
        .collect();
    let run = |text: &str, bold, italic| (text.to_string(), bold, italic);
    assert_eq!(
        runs,
        [
            run("both", true, true),
            run("italic", false, true),
            run("plain", false, false),
            run("bold", true, false),
            run("not", false, false)
        ]
    );
}

#[test]
fn each_line_knows_its_bytes() {
    let html = "<p> <b>Item 1.</b>\n Business <span style='display:none'>x</span></p><p>caf\u{e9}&nbsp;&rsquo;s </p>";
    let source = source(html);
    let shown: Vec<&str> = lines(&source)
        .iter()
        .map(|line| {
            let bytes = line.bytes.unwrap();
            &html[bytes.start as usize..bytes.end as usize]
        })
        .collect();
    assert_eq!(shown, ["Item 1.</b>\n Business", "caf\u{e9}&nbsp;&rsquo;s"]);
    // In windows-1252 each character is one byte.
    let old = read(b"<p>\x93Caf\xE9\x94 now</p>", &Limits::default()).unwrap();
    let line = lines(&old)[0];
    assert_eq!(line.text, "“Café” now");
    let bytes = line.bytes.unwrap();
    assert_eq!((bytes.start, bytes.end), (3, 13));
}

#[test]
fn links_lead_to_the_line_behind_their_anchor() {
    let html = "<p><a href='#i1'>Item 1. Business</a> <a href='#gone'>x</a> <a href='http://e.x'>y</a></p>\
                <p>text</p><div id='i1'></div><hr style='page-break-after:always'><p>Head</p><p><a name=i2></a>Item 2</p>";
    let source = source(html);
    let link = &source.links[0];
    assert_eq!(source.links.len(), 1);
    assert_eq!((link.page.get(), link.target.page.get()), (1, 2));
    let pages = pages(&source);
    assert_eq!(link.target.y, Some(pages[1].lines[0].rect.y0));
    assert!(link.rect.x1 < pages[0].lines[0].rect.x1);
    assert_eq!(link.rect.y0, pages[0].lines[0].rect.y0);
}

#[test]
fn a_link_ends_where_another_begins() {
    let html = "<table><tr><td>x</td><td><a href='#i1'>one <a href='#i2'>two</td></tr></table>\
                <p id=i1>First</p><p id=i2>Second</p>";
    let source = source(html);
    let [first, second] = source.links.as_slice() else {
        panic!("{:?}", source.links)
    };
    assert!(first.rect.x1 < second.rect.x0, "{first:?} {second:?}");
}

#[test]
fn a_link_around_a_block_covers_its_text() {
    let source = source("<a href='#i1'><div>Item 1</div></a><div>text</div><p id=i1>Item 1</p>");
    let link = &source.links[0];
    let line = &pages(&source)[0].lines[0];
    assert_eq!((link.rect, source.links.len()), (line.rect, 1));
}

#[test]
fn space_around_inline_elements_separates_words() {
    for html in [
        "<div><span>1.</span><span style='padding-left:20pt'>Basis</span></div>",
        "<div><span style='margin-right:1em'>1.</span><span>Basis</span></div>",
    ] {
        assert_eq!(text(html), ["1. Basis"], "{html}");
    }
    assert_eq!(
        text("<div>B<span style='padding-left:1pt'>asis</span></div>"),
        ["Basis"]
    );
}

use std::fmt::Write;

use super::*;

// The base sheet of converters: text is drawn four times as large and scaled down.
const BASE: &str = "\
    .pf{position:relative;background-color:white;overflow:hidden;margin:0;border:0}\
    .pc{position:absolute;top:0;left:0;width:100%;height:100%;overflow:hidden}\
    .t{position:absolute;white-space:pre;font-size:1px;transform-origin:0 100%}\
    .t:after{content:''} ._{display:inline-block;color:transparent}\
    @media print{.pf{page-break-after:always} #sidebar{display:none} .t{display:none}}\
    .m0{transform:matrix(0.25,0,0,0.25,0,0)} .m1{transform:matrix(0,0.25,-0.25,0,0,0)}\
    .w0{width:800px} .h0{height:1000px} .fs0{font-size:80px} .fs1{font-size:48px} .ff2{font-weight:bold} .fc1{color:#fff}";

/// Texts with the classes of their looks, and the left and bottom edge in pixels.
type Texts<'t> = &'t [(&'t str, &'t str, f32, f32)];

fn converted(pages: &[Texts<'_>]) -> String {
    let mut css = BASE.to_owned();
    let mut body = String::new();
    let mut number = 0;
    for (page, texts) in (1..).zip(pages) {
        write!(body, "<div id='pf{page:x}' class='pf w0 h0' data-page-no='{page:x}'><div class='pc pc{page} w0 h0'>").unwrap();
        for (text, looks, left, bottom) in *texts {
            number += 1;
            write!(
                css,
                ".x{number}{{left:{left}px}}.y{number}{{bottom:{bottom}px}}"
            )
            .unwrap();
            write!(
                body,
                "<div class='t m0 x{number} y{number} {looks}'>{text}</div>"
            )
            .unwrap();
        }
        body.push_str("</div></div>");
    }
    format!(
        "<html><head><style type='text/css'>{css}</style></head><body><div id=page-container>{body}</div></body></html>"
    )
}

const HEAD: &str = "ff2 fs0";
const TEXT: &str = "fs1";

#[test]
fn boxes_of_pages_are_pages_and_their_text_is_placed() {
    let html = converted(&[
        &[
            ("Income statement", HEAD, 60.0, 900.0),
            ("2024", TEXT, 500.0, 860.0),
            ("2023", TEXT, 600.0, 860.0),
            ("Revenue", TEXT, 60.0, 840.0),
            ("1,234", TEXT, 500.0, 840.0),
            ("1,100", TEXT, 600.0, 840.0),
            ("Cost of sales", TEXT, 60.0, 820.0),
            ("(700)", TEXT, 600.0, 820.0),
            ("(800)", TEXT, 500.0, 820.0),
            ("7", TEXT, 400.0, 20.0),
        ],
        &[("Notes", HEAD, 60.0, 900.0)],
    ]);
    let source = source(&html);
    let [first, second] = pages(&source) else {
        panic!("{} pages", pages(&source).len())
    };
    assert_eq!(
        first.text(),
        "Income statement\n2024 2023\nRevenue 1,234 1,100\nCost of sales (800) (700)\n7"
    );
    assert_eq!(second.text(), "Notes");
    assert_eq!(
        (first.width.points(), first.height.points()),
        (600.0, 750.0)
    );
    let title = &first.lines[0];
    assert_eq!(
        (title.runs[0].size.points(), title.runs[0].bold),
        (15.0, true)
    );
    assert_eq!(title.rect.x0.points(), 45.0);
    let row = &first.lines[2];
    assert_eq!(row.words[1].x0.points(), 375.0);
    let bytes = row.bytes.unwrap();
    assert!(html[bytes.start as usize..bytes.end as usize].starts_with("Revenue<"));
    assert!(html[bytes.start as usize..bytes.end as usize].ends_with(">1,100"));
    assert_eq!(codes(&source), [] as [&str; 0]);
}

#[test]
fn columns_are_read_one_after_the_other() {
    let left = "words of a left column that tells a story";
    let right = "and other words in a column on the right";
    let mut texts = Vec::new();
    for row in 0..20_u8 {
        let bottom = 900.0 - 20.0 * f32::from(row);
        texts.push((left, TEXT, 40.0, bottom));
        texts.push((right, TEXT, 420.0, bottom));
    }
    let source = source(&converted(&[&texts]));
    let all: Vec<&str> = lines(&source)
        .iter()
        .map(|line| line.text.as_str())
        .collect();
    assert_eq!(all.len(), 40);
    assert_eq!((all[0], all[19], all[20]), (left, left, right));
}

#[test]
fn inner_boxes_gaps_and_turned_text_have_their_places() {
    let html = format!(
        "<style>{BASE}</style><div class='pf w0 h0' data-page-no=1><div class='pc w0 h0'>\
         <div style='position:absolute;left:100px;top:200px;width:300px;height:100px'>\
         <div class='t m0 fs1' style='left:20px;bottom:40px'>Cash<span class=_ style='width:800px'> </span>12</div></div>\
         <div class='t m0 fs1' style='left:100px;top:400px'>one<br>two</div>\
         <div class='t m1 fs1' style='left:10px;bottom:500px'>turned</div></div></div>"
    );
    let source = source(&html);
    let all = lines(&source);
    let texts: Vec<&str> = all.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts, ["Cash 12", "one", "two", "turned"]);
    let words = &all[0].words;
    assert_eq!(words[0].x0.points(), 90.0);
    assert!(
        (words[1].x0.points() - words[0].x1.points() - 150.0).abs() < 5.0,
        "{words:?}"
    );
    // 260 pixels from the top.
    let baseline = all[0].rect.y1.points();
    assert!((190.0..=197.0).contains(&baseline), "{baseline}");
    assert_eq!(all[3].role, stemma_document::LineRole::Across);
}

#[test]
fn links_without_text_lead_from_their_boxes() {
    let html = format!(
        "<style>{BASE}</style><div id=pf1 class='pf w0 h0' data-page-no=1><div class=pc><div class='t m0 fs1' style='left:50px;bottom:900px'>Contents</div>\
         <a href='#pf2'><div style='position:absolute;left:40px;bottom:880px;width:200px;height:20px'></div></a></div></div>\
         <div id=pf2 class='pf w0 h0' data-page-no=2><div class=pc><div class='t m0 fs1' style='left:50px;bottom:900px'>Report</div></div></div>"
    );
    let source = source(&html);
    let link = &source.links[0];
    assert_eq!((link.page.get(), link.target.page.get()), (1, 2));
    assert_eq!((link.rect.x0.points(), link.rect.y1.points()), (30.0, 90.0));
}

#[test]
fn text_over_a_picture_is_seen_and_text_of_the_color_of_the_page_is_not() {
    let text = |picture: &str| {
        format!(
            "<style>{BASE}</style><div class='pf w0 h0' data-page-no=1><div class='pc w0 h0'>{picture}\
             <div class='t m0 fs1' style='left:50px;bottom:900px'>Report</div>\
             <div class='t m0 fs1 fc1' style='left:50px;bottom:600px'>white words</div></div></div>"
        )
    };
    let picture = "<img style='position:absolute;left:0;bottom:0' src='bg.png'>";
    assert_eq!(
        pages(&source(&text(picture)))[0].text(),
        "Report\nwhite words"
    );
    assert_eq!(pages(&source(&text("")))[0].text(), "Report");
}

#[test]
fn boxes_of_pages_that_flow_are_pages() {
    let page = "<div style='position:relative;width:800px;height:1100px'><p>text</p><table><tr><td>a</td><td>b</td></tr></table></div>";
    let source = source(&page.repeat(3));
    let texts: Vec<String> = pages(&source).iter().map(Page::text).collect();
    assert_eq!(texts, ["text\na b", "text\na b", "text\na b"]);
    assert_eq!(codes(&source), [] as [&str; 0]);
}

#[test]
fn a_page_of_more_words_than_a_page_has_is_read() {
    let html = format!(
        "<style>{BASE}</style><div class='pf w0 h0' data-page-no=1>{}",
        "<div class='t m0 fs1' style='left:5px;top:9px'>a b c</div>".repeat(20_000)
    );
    assert_eq!(lines(&source(&html)).len(), 20_000);
}

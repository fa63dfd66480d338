use super::*;

fn gaps(html: &str) -> Vec<(String, u32, String)> {
    let defects = source(html).defects.into_iter();
    let all = defects.map(|defect| {
        let page = defect.page.map_or(0, |page| page.get());
        (defect.code, page, defect.detail)
    });
    all.collect()
}

const BREAK: &str = "<hr style='page-break-after:always'>";

#[test]
fn pictures_are_counted_and_pages_of_pictures_are_a_warning() {
    let mut html = String::from("<p>Exhibit 99.2</p>");
    for number in 1..=8 {
        html.push_str(&format!(
            "<div><img src='s{number}.jpg' alt='slide{number}'></div>{BREAK}"
        ));
    }
    let few = "8 pictures were not read, and there are hardly any words around them";
    assert_eq!(
        gaps(&html),
        [
            (
                "html.pictures".to_owned(),
                0,
                "8 pictures were not read".to_owned()
            ),
            ("html.little_text".to_owned(), 0, few.to_owned()),
        ]
    );
}

#[test]
fn a_picture_in_a_text_is_a_note_and_spacers_are_nothing() {
    let text = format!("<p>{}</p>", "many words of a page ".repeat(30));
    let note = |html: &str| {
        let html = format!("{text}{html}");
        let codes: Vec<String> = gaps(&html).into_iter().map(|(code, ..)| code).collect();
        codes
    };
    assert_eq!(note("<img src=chart.png>"), ["html.pictures"]);
    assert_eq!(
        note("<table><tr><td><img src=chart.png width=400 height=300></td></tr></table>"),
        ["html.pictures"]
    );
    for spacer in [
        "<img src=a.gif width=1 height=1>",
        "<img src=a.gif style='width:600px;height:2px'>",
        "<img src=a.gif style='width:70px;height:13px'>",
        "<img src=a.gif width=20 height=20>",
        "<p hidden><img src=a.gif></p>",
        "<img src=a.gif style='display:none'>",
        "<img>",
    ] {
        assert_eq!(note(spacer), [] as [&str; 0], "{spacer}");
    }
    // A logo on each page is one picture.
    let logo = format!("{text}<img src=logo.png width=100 height=50>{BREAK}").repeat(3);
    assert_eq!(
        gaps(&logo),
        [(
            "html.pictures".to_owned(),
            0,
            "1 picture was not read".to_owned()
        )]
    );
}

#[test]
fn a_page_of_a_picture_between_pages_of_text_is_named() {
    let text = format!("<p>{}</p>{BREAK}", "many words of a page ".repeat(30));
    let html =
        format!("{text}<p>Performance</p><img src=chart.png width=600 height=400>{BREAK}{text}");
    let detail = "1 picture was not read, and there are hardly any words around it";
    assert_eq!(
        gaps(&html)[1],
        ("html.little_text".to_owned(), 2, detail.to_owned())
    );
}

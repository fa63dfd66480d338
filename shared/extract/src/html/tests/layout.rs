use super::*;

#[test]
fn styles_of_a_line_come_from_its_elements() {
    let source = source(
        "<div style='text-align:center'><font size=2><b>Item 1. Business</b></font></div>\
         <p style='font-size:10pt;margin-left:36pt'>Overview</p><p style='font-size:10pt'>Text</p>",
    );
    let all = lines(&source);
    assert!(all[0].style().bold && all[0].style().size.points() == 10.0);
    let middle = (all[0].rect.x0.points() + all[0].rect.x1.points()) / 2.0;
    assert!((middle - 306.0).abs() < 1.0, "{middle}");
    assert_eq!(all[1].rect.x0.points() - all[2].rect.x0.points(), 36.0);
    assert!(all[1].rect.y0 >= all[0].rect.y1);
}

// Text that no other page has: what recurs at the top of pages is a running head.
fn own_words(n: usize) -> String {
    (0..9)
        .map(|bit| {
            if n >> bit & 1 == 0 {
                "alpha "
            } else {
                "omega "
            }
        })
        .collect()
}

#[test]
fn page_breaks_make_pages_with_their_feet_at_the_bottom() {
    let page = |n: usize| {
        format!(
            "<div>Table of Contents</div><p>{}</p><p>{}</p><p>Acme Corp. | {n}</p>\
             <hr style='page-break-after:always'/>",
            own_words(2 * n),
            own_words(2 * n + 1)
        )
    };
    let html: String = (1..=6).map(page).collect();
    let source = source(&html);
    let all = pages(&source);
    assert_eq!(all.len(), 6);
    for page in all {
        let roles: Vec<bool> = page.lines.iter().map(|line| line.is_furniture()).collect();
        assert_eq!(roles, [true, false, false, true], "{}", page.text());
    }
    assert_eq!(codes(&source), Vec::<&str>::new());
}

#[test]
fn text_at_the_bottom_by_its_style_is_a_foot_on_pages_of_any_length() {
    let page = |n: usize| {
        let text: String = (0..5 + 20 * (n % 3))
            .map(|line| format!("<p>{}</p>", own_words(n * 50 + line)))
            .collect();
        format!(
            "{text}<div style='height:40pt;position:relative'><div style='bottom:0;position:absolute'><div>Acme</div><div>Form 10-K {n}</div></div></div>\
             <hr style='page-break-after:always'/>"
        )
    };
    let html: String = (1..=6).map(page).collect();
    let source = source(&html);
    for page in pages(&source) {
        let feet = page.lines.iter().filter(|line| line.is_furniture());
        assert_eq!(feet.count(), 2, "{}", page.text());
    }
}

#[test]
fn a_file_without_breaks_gets_pages_and_says_so() {
    let source = source(&"<p>A line of text</p>".repeat(200));
    assert!(pages(&source).len() > 3);
    assert_eq!(codes(&source), ["html.no_page_breaks"]);
}

#[test]
fn rules_over_the_page_separate_pages_where_nothing_else_does() {
    let old =
        source("<p>One</p><hr width='30%'><p>still one</p><HR SIZE=1 WIDTH='100%'><p>Two</p>");
    assert_eq!(pages(&old).len(), 2);
    let modern =
        source("<p>One</p><hr><p>still one</p><p style='page-break-before:always'>Two</p>");
    assert_eq!(pages(&modern).len(), 2);
}

#[test]
fn pages_have_the_numbers_that_are_printed_on_them() {
    let page = |n: usize, foot: &str| {
        let text = format!(
            "<p>{}</p><p>{}</p><p>{}</p>",
            own_words(3 * n),
            own_words(3 * n + 1),
            own_words(3 * n + 2)
        );
        format!("{text}<p>{foot}</p><hr style='page-break-after:always'/>")
    };
    let front = ["", "ii", "iii", "iv"];
    let feet = front.iter().map(|foot| (*foot).to_owned());
    let feet = feet.chain((1..=5).map(|n| format!("Acme 2024 Form 10-K | {n}")));
    let feet = feet.chain((1..=4).map(|n| format!("F-{n}")));
    let html: String = feet.enumerate().map(|(at, foot)| page(at, &foot)).collect();
    let source = source(&html);
    let labels: Vec<&str> = pages(&source)
        .iter()
        .map(|page| page.label.as_ref().map_or("", |label| label.0.as_str()))
        .collect();
    assert_eq!(
        labels,
        [
            "", "ii", "iii", "iv", "1", "2", "3", "4", "5", "F-1", "F-2", "F-3", "F-4"
        ]
    );
}

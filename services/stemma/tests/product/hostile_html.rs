//! Hostile HTML: each file is read with a recorded defect, or is one clear error that names it.

use serde_json::Value;

use crate::support::{TestEnv, codes, trees};

const GOOD: &str = "<html><body><p>We make anvils and hammers, and sell them.</p></body></html>";
const LAST: &str = "The end of the matter.";

/// A page that begins and ends as any other.
fn page(body: &str) -> Vec<u8> {
    format!("<html><body><p>Overview of the company</p>{body}<p>{LAST}</p></body></html>")
        .into_bytes()
}

fn text(lab: &TestEnv, name: &str) -> String {
    let shown = lab.stemma("store", ["cat", name]).run();
    assert_eq!(shown.code, Some(0), "{name}: {shown:?}");
    shown.out
}

#[test]
fn nesting_is_bounded_and_recorded() {
    let lab = TestEnv::new();
    let nested = |n: usize, start: &str, end: &str| {
        page(&format!(
            "{}<p>buried words</p>{}",
            start.repeat(n),
            end.repeat(n)
        ))
    };
    let cell = "<table><tr><td>";
    let wide = format!(
        "<table><tr><td>buried words</td></tr>{}</table>",
        "<tr><td colspan=1000 rowspan=65534>x</td><td colspan=1000>y</td></tr>".repeat(2_000)
    );
    let files = [
        ("deep.htm", nested(100_000, "<div>", "</div>"), "html_depth"),
        ("open.htm", nested(100_000, "<div>", ""), "html_depth"),
        (
            "tables.htm",
            nested(100_000, cell, "</td></tr></table>"),
            "html_tables",
        ),
        ("lists.htm", nested(100_000, "<ul><li>", ""), "html_depth"),
        ("wide.htm", page(&wide), ""),
    ];
    lab.put("good.htm", GOOD);
    for (name, bytes, _) in &files {
        lab.put(name, bytes);
    }
    let summary = lab.ingest("store", &[]);
    assert_eq!(summary["counts"]["failed"], 0, "{summary:#}");
    let trees = trees(&lab.path("store"));
    for (name, _, limit) in &files {
        let gaps = codes(&trees[*name].tree.gaps);
        let code = format!("limits.{limit}");
        let is_recorded = gaps.iter().any(|(gap, _)| *gap == code);
        assert_eq!(is_recorded, !limit.is_empty(), "{name}: {gaps:?}");
        // Nothing before, in or after the nesting is lost.
        let text = text(&lab, name);
        for words in ["Overview of the company", "buried words", LAST] {
            assert_eq!(text.matches(words).count(), 1, "{name}: {words}");
        }
    }
}

#[test]
fn a_line_of_entities_is_read_to_its_end() {
    let lab = TestEnv::new();
    const RUNS: usize = 100_000;
    let entities = "&amp;&#38;&#x41;&lt;";
    let flood = format!("<p>{}</p>", entities.repeat(RUNS));
    lab.put("entities.htm", page(&flood));
    lab.put("good.htm", GOOD);
    let summary = lab.ingest("store", &[]);
    let trees = trees(&lab.path("store"));
    assert!(trees.contains_key("good.htm"), "{summary:#}");
    let gaps = codes(&trees["entities.htm"].tree.gaps);
    assert!(gaps.contains(&("html.no_page_breaks", None)), "{gaps:?}");
    let text = text(&lab, "entities.htm");
    assert!(text.contains(LAST), "the end is not read");
    let decoded = text.matches("&&A<").count();
    // Some are divided between two lines.
    assert!(decoded * 10 > RUNS * 9, "{decoded} runs of entities");
    assert!(!text.contains("&amp;") && !text.contains("&#"));
}

#[test]
fn scripts_and_event_handlers_are_no_text() {
    let lab = TestEnv::new();
    let body = "<p onclick=\"stolen()\">Anvils<script>document.write('stolen words')</script> are good.</p>\
        <script>if (1 < 2) { stolen('<p>stolen</p>') }</script><style>.stolen { content: 'stolen' }</style>\
        <a href='javascript:stolen()' onmouseover=stolen()>More of them</a><img src=x onerror='stolen()' alt=''>\
        <svg onload=stolen()><script>stolen()</script></svg><template><p>stolen template</p></template>\
        <iframe srcdoc='<p>stolen frame</p>'>stolen frame</iframe><!-- stolen --><p>We sell hammers.</p>";
    let head =
        "<head><script src=stolen.js></script><script type='text/plain'>stolen</script></head>";
    let html = format!("<html>{head}<body onload='stolen()'><p>Overview</p>{body}</body></html>");
    lab.put("script.htm", html);
    let summary = lab.ingest("store", &[]);
    assert_eq!(summary["counts"]["failed"], 0, "{summary:#}");
    let lines = text(&lab, "script.htm");
    let lines: Vec<&str> = lines.lines().collect();
    let expected = [
        "Overview",
        "Anvils are good.",
        "More of them",
        "We sell hammers.",
    ];
    assert_eq!(lines, expected);
    for command in ["cat", "tree", "stat"] {
        let arguments = ["--json", command, "script.htm"];
        let shown = lab.stemma("store", arguments).run();
        assert_eq!(shown.code, Some(0), "{shown:?}");
        assert!(!shown.out.contains("stolen"), "{shown:?}");
    }
    let arguments = ["--json", "search", "stolen"];
    let answer = lab.stemma("store", arguments).run().json();
    assert_eq!(answer["hits"], Value::Array(Vec::new()), "{answer:#}");
}

#[test]
fn broken_encodings_are_recorded() {
    let lab = TestEnv::new();
    let false_utf8 = b"<html><head><meta charset='utf-8'></head><body><p>Overview</p><p>The caf\xe9 sells \x80 9 anvils.</p><p>Then \xc3\x28 too.</p></body></html>";
    let text_16 = "<html><body><p>Overview</p><p>The café sells anvils.</p></body></html>";
    let half_unit: Vec<u8> = [0xFF, 0xFE]
        .into_iter()
        .chain(text_16.encode_utf16().flat_map(u16::to_le_bytes))
        .chain([0x0A])
        .collect();
    let unpaired = b"<html><head><meta charset='shift_jis'></head><body><p>Overview</p><p>\x83A\x83\x93\x83r\x83\x8b and \xff too.</p></body></html>";
    let unknown = b"<html><head><meta charset='klingon'></head><body><p>Overview</p><p>The caf\xe9 sells anvils.</p></body></html>";
    lab.put("false.htm", false_utf8);
    lab.put("half.htm", half_unit);
    lab.put("unpaired.htm", unpaired);
    lab.put("unknown.htm", unknown);
    let summary = lab.ingest("store", &[]);
    assert_eq!(summary["counts"]["failed"], 0, "{summary:#}");
    let trees = trees(&lab.path("store"));
    for (name, words) in [
        ("false.htm", "The café sells € 9 anvils."),
        ("half.htm", "The café sells anvils."),
        ("unpaired.htm", "アンビル and"),
    ] {
        let gaps = codes(&trees[name].tree.gaps);
        assert!(gaps.contains(&("html.encoding", None)), "{name}: {gaps:?}");
        let text = text(&lab, name);
        assert!(text.contains(words), "{name}: {text}");
    }
    // An unknown name says nothing about the bytes, which then are windows-1252.
    let text = text(&lab, "unknown.htm");
    assert!(text.contains("The café sells anvils."), "{text}");
}

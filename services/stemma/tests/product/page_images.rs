//! Pictures of pages: drawn from the ingested files, in child processes with limits.

use std::fs;

use stemma_filings::{FilingKind, Spec, generate, markdown};

use crate::support::TestEnv;

/// A PDF of one page with this content and these further objects, from the fourth on.
fn one_page_pdf(content: &str, resources: &str) -> String {
    format!(
        "%PDF-1.7\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n\
         2 0 obj\n<</Type/Pages/Count 1/Kids[3 0 R]>>\nendobj\n\
         3 0 obj\n<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>{resources}>>>>\nendobj\n\
         4 0 obj\n<</Length {}>>stream\n{content}\nendstream\nendobj\ntrailer\n<</Root 1 0 R>>\n%%EOF\n",
        content.len()
    )
}

// Width and height of the header of a PNG (PNG 1.2, 11.2.2).
fn size(png: &[u8]) -> (u32, u32) {
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"), "{png:?}");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn a_page_and_a_part_of_it_are_drawn() {
    let lab = TestEnv::new();
    let spec = Spec {
        pages: 6,
        ..Spec::new(FilingKind::TenQ, 61)
    };
    lab.put("report.pdf", generate(&spec).pdf);
    lab.put("guide.md", markdown(1, 3).0);
    lab.ingest("store", &[]);
    let draw = |more: &[&str]| {
        let command = lab.stemma("store", ["--json", "cat", "--image", "-o", "page.png"]);
        command.args(more).run()
    };
    let drawn = draw(&["report#p=2", "--width", "612"]);
    assert_eq!(drawn.code, Some(0), "{drawn:?}");
    let page = fs::read(lab.path("page.png")).unwrap();
    assert_eq!(size(&page), (612, 792));
    let part = draw(&["report#p=2", "--width", "612", "--region", "0,0.5,1,0.5"]);
    assert_eq!(part.code, Some(0), "{part:?}");
    assert_eq!(size(&fs::read(lab.path("page.png")).unwrap()), (612, 396));
    for (question, code) in [
        (&["report"][..], "image.one_page_only"),
        (&["report#p=2-3"], "image.one_page_only"),
        (&["report#p=90"], "locator.no_page"),
    ] {
        let refused = draw(question);
        assert_eq!(refused.code, Some(2), "{question:?}: {refused:?}");
        assert_eq!(refused.json()["error"]["code"], code, "{question:?}");
    }
    // A folder's files are not copied into the store, and what is there now is another file.
    lab.put("report.pdf", generate(&Spec { seed: 62, ..spec }).pdf);
    let changed = draw(&["report#p=2"]);
    assert_eq!(
        changed.json()["error"]["code"],
        "source.changed",
        "{changed:?}"
    );
}

#[test]
fn hostile_pages_are_bounded_in_time_and_memory() {
    let lab = TestEnv::new();
    let text = "BT /F1 12 Tf 72 700 Td (Overview) Tj ET";
    let dashes = format!("{text} [0.00001] 0 d 0 0 m 1000000 1000000 l S");
    // Each form draws the next one ten times.
    let forms: String = (0..9)
        .map(|at| {
            let content = format!("/X{} Do ", at + 1).repeat(10);
            format!(
                "{} 0 obj\n<</Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources<</XObject<</X{} {} 0 R>>>>/Length {}>>stream\n{content}\nendstream\nendobj\n",
                5 + at, at + 1, 6 + at, content.len()
            )
        })
        .collect();
    let leaf = "14 0 obj\n<</Type/XObject/Subtype/Form/BBox[0 0 612 792]/Length 27>>stream\n0 0 m 600 700 l 10 700 l f \nendstream\nendobj\n";
    let nested = one_page_pdf(&format!("{text} /X0 Do"), "/XObject<</X0 5 0 R>>")
        .replace("trailer\n", &format!("{forms}{leaf}trailer\n"));
    let image = "/XObject<</I<</Type/XObject/Subtype/Image/Width 60000/Height 60000/BitsPerComponent 8/ColorSpace/DeviceRGB/Length 0>>>>";
    lab.put("dashes.pdf", one_page_pdf(&dashes, ""));
    lab.put("nested.pdf", nested);
    lab.put("image.pdf", one_page_pdf(&format!("{text} /I Do"), image));
    lab.ingest("store", &[]);
    let listed = lab.stemma("store", ["--json", "ls"]).run().json();
    for name in ["dashes", "nested", "image"] {
        if !listed.to_string().contains(&format!("\"{name}\"")) {
            continue;
        }
        let arguments = [
            "--json",
            "cat",
            &format!("{name}#p=1"),
            "--image",
            "-o",
            "page.png",
        ];
        let ended = lab.stemma("store", arguments).run();
        if ended.code != Some(0) {
            let code = &ended.json()["error"]["code"];
            // On a machine that gives the process no CPU, waiting is bounded as well.
            let is_known = [
                "limits.time",
                "limits.memory",
                "image.not_drawable",
                "document.no_tree",
                "extract.stalled",
            ];
            assert!(
                is_known.iter().any(|known| code == known),
                "{name}: {ended:?}"
            );
        }
    }
}

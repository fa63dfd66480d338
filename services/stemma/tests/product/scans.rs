//! Scans: pages that are pictures become text through text recognition. Skipped where tesseract is not installed.

use std::collections::BTreeSet;
use std::io::Write;

use rustix::process::Signal;
use stemma_document::PageNo;
use stemma_extract::{ImageColor, ImageRequest, ImageScale, Limits, PageRegion};
use stemma_filings::{Filing, FilingKind, Spec, generate};
use stemma_render::Pixels;

use crate::crash::{assert_untouched, stored_files};
use crate::support::{StemmaCommand, TestEnv, codes, start_position, trees};

const PAGES: u32 = 4;
const DPI: u32 = 150;

/// A page of a scan.
enum Sheet {
    Straight(u32),
    UpsideDown(u32),
    Blank,
}

fn filing() -> Filing {
    generate(&Spec {
        pages: PAGES,
        ..Spec::new(FilingKind::TenQ, 7)
    })
}

/// A PDF whose pages are images of pages of another.
fn scan(pdf: &[u8], sheets: &[Sheet]) -> Vec<u8> {
    let mut objects = vec![b"<</Type/Catalog/Pages 2 0 R>>".to_vec(), Vec::new()];
    let mut kids = String::new();
    for sheet in sheets {
        let (width, height, pixels) = match sheet {
            Sheet::Straight(page) | Sheet::UpsideDown(page) => draw(pdf, *page),
            Sheet::Blank => (100, 130, vec![250; 13_000]),
        };
        let [w, h] = [width, height].map(|side| f64::from(side) * 72.0 / f64::from(DPI));
        let placed = match sheet {
            Sheet::UpsideDown(_) => format!("q -{w} 0 0 -{h} {w} {h} cm /I Do Q"),
            Sheet::Straight(_) | Sheet::Blank => format!("q {w} 0 0 {h} 0 0 cm /I Do Q"),
        };
        let mut image = format!(
            "<</Type/XObject/Subtype/Image/Width {width}/Height {height}/ColorSpace/DeviceGray/BitsPerComponent 8/Length {}>>stream\n",
            pixels.len()
        )
        .into_bytes();
        image.extend(pixels);
        image.extend(b"\nendstream");
        objects.push(image);
        let length = placed.len();
        objects.push(format!("<</Length {length}>>stream\n{placed}\nendstream").into_bytes());
        let content = objects.len();
        let image = content - 1;
        let page = format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 {w} {h}]/Resources<</XObject<</I {image} 0 R>>>>/Contents {content} 0 R>>"
        );
        objects.push(page.into_bytes());
        kids += &format!("{} 0 R ", objects.len());
    }
    objects[1] = format!("<</Type/Pages/Count {}/Kids[{kids}]>>", sheets.len()).into_bytes();
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut table = String::from("0000000000 65535 f \n");
    for (index, object) in objects.iter().enumerate() {
        table += &format!("{:010} 00000 n \n", out.len());
        write!(out, "{} 0 obj", index + 1).unwrap();
        out.extend(object);
        out.extend(b" endobj\n");
    }
    let start = out.len();
    let size = objects.len() + 1;
    write!(
        out,
        "xref\n0 {size}\n{table}trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n"
    )
    .unwrap();
    out
}

fn draw(pdf: &[u8], page: u32) -> (u16, u16, Vec<u8>) {
    let request = ImageRequest {
        page: PageNo::new(page).unwrap(),
        scale: ImageScale::Dpi(DPI),
        region: PageRegion::WHOLE,
        color: ImageColor::Gray,
    };
    let drawn = stemma_render::draw(pdf, None, &Limits::default(), &request).unwrap();
    let (Pixels::Gray(pixels) | Pixels::Rgb(pixels)) = drawn.pixels;
    (drawn.width, drawn.height, pixels)
}

fn has_tesseract() -> bool {
    let found = stemma_ocr::find_program(std::env::var_os("PATH").as_deref()).is_some();
    if !found {
        println!("skipped: tesseract is not installed");
    }
    found
}

fn all_straight() -> Vec<Sheet> {
    (1..=PAGES).map(Sheet::Straight).collect()
}

#[test]
fn scan_has_the_sections_of_its_original() {
    if !has_tesseract() {
        return;
    }
    let lab = TestEnv::new();
    let filing = filing();
    lab.put("scan.pdf", scan(&filing.pdf, &all_straight()));
    lab.put("original.pdf", &filing.pdf);
    let summary = lab.ingest("store", &[]);
    assert_eq!(summary["counts"]["failed"], 0, "{summary}");
    let trees = trees(&lab.path("store"));
    let titles = |name: &str| {
        let tree = &trees[name].tree;
        let sections = tree.walk();
        let titles = sections.map(|(_, section)| (section.title.clone(), start_position(section)));
        titles.collect::<BTreeSet<_>>()
    };
    let expected = titles("original.pdf");
    let found = titles("scan.pdf");
    let common = expected.intersection(&found).count();
    assert!(
        common * 10 >= expected.len() * 9,
        "{expected:#?}\n{found:#?}"
    );
    let gaps = &trees["scan.pdf"].tree.gaps;
    assert_eq!(codes(gaps), [("ocr.recognized", None)], "{gaps:?}");
    let page = lab.stemma("store", ["--json", "cat", "scan.pdf#p=1"]).run();
    let page = page.json();
    assert!(
        page["pages"][0]["ocr"]["confidence"].as_u64() > Some(80),
        "{page}"
    );
    let again = lab.ingest("store", &[]);
    assert_eq!(again["counts"]["unchanged"], 2, "{again}");
}

#[test]
fn scan_without_recognition_fails_as_before() {
    let lab = TestEnv::new();
    lab.put("scan.pdf", scan(&filing().pdf, &[Sheet::Straight(1)]));
    let summary = lab.ingest("store", &["--ocr", "never"]);
    assert_eq!(summary["counts"]["failed"], 1, "{summary}");
    assert!(summary.to_string().contains("pdf.no_text"), "{summary}");
}

#[test]
fn pages_upside_down_and_blank_pages_are_read_as_they_are() {
    if !has_tesseract() {
        return;
    }
    let lab = TestEnv::new();
    let sheets = [Sheet::UpsideDown(2), Sheet::Blank, Sheet::Straight(2)];
    lab.put("scan.pdf", scan(&filing().pdf, &sheets));
    let summary = lab.ingest("store", &[]);
    assert_eq!(summary["counts"]["failed"], 0, "{summary}");
    let pages = lab.stemma("store", ["--json", "cat", "scan.pdf"]).run();
    let pages = pages.json();
    let words = |page: usize| {
        let text = pages["pages"][page]["text"].as_str().unwrap_or_default();
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    };
    let turned = words(0);
    let straight = words(2);
    let common = turned.intersection(&straight).count();
    assert!(
        common * 10 >= straight.len() * 9,
        "{turned:?}\n{straight:?}"
    );
    assert!(words(1).is_empty());
}

/// An ingest that says which stages it begins.
fn ingest(lab: &TestEnv) -> StemmaCommand {
    lab.stemma("store", ["--json", "ingest", "filings"])
        .env("STEMMA_LOG", "stemma_engine=debug")
}

#[test]
fn killed_ingest_recognizes_no_page_again() {
    if !has_tesseract() {
        return;
    }
    let lab = TestEnv::new();
    lab.put("scan.pdf", scan(&filing().pdf, &all_straight()));
    let mut running = ingest(&lab).args(&["--jobs", "1"]).start();
    // The text of the file, and the first page.
    while stored_files(&lab.path("store")).len() < 2 && !running.has_ended() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running.signal(Signal::KILL);
    running.end();
    let before = stored_files(&lab.path("store"));
    let again = ingest(&lab).run();
    assert_untouched(&before, &lab.path("store"), &again, "after the kill");
    assert_eq!(again.json()["counts"]["failed"], 0);
}

//! Scans: pages that are pictures become text through text recognition. Skipped where tesseract is not installed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use sha2::{Digest, Sha256};
use stemma_document::{Page, Pt, Recognition, Rect, Word};
use stemma_engine_testing::wait::block_until;
use stemma_filings::{FilingKind, Spec, generate};

use crate::crash::{assert_untouched, stored_files};
use crate::scan_fixture::{Sheet, filing, has_tesseract, read, read_twice, scan, tesseract};
use crate::support::{StemmaCommand, TestEnv, codes, start_position, started_tasks, trees};

#[test]
fn scan_has_the_items_of_its_original() {
    if !has_tesseract() {
        return;
    }
    let lab = TestEnv::new();
    let filing = filing();
    let pages = [3, 6, 7];
    lab.put("scan.pdf", scan(&filing.pdf, &pages.map(Sheet::Whole)));
    lab.put("original.pdf", &filing.pdf);
    let summary = lab.ingest("store", &[]);
    assert_eq!(summary["counts"]["failed"], 0, "{summary}");
    let trees = trees(&lab.path("store"));
    let items = |name: &str| {
        let sections = trees[name].tree.walk();
        let titles = sections.map(|(_, section)| (section.title.clone(), start_position(section)));
        let is_item = |title: &str| title.starts_with("PART ") || title.starts_with("Item ");
        titles
            .filter(|(title, _)| is_item(title))
            .collect::<BTreeSet<_>>()
    };
    // The pages of the original that were scanned, counted as those of the scan.
    let expected = items("original.pdf")
        .into_iter()
        .filter_map(|(title, page)| {
            let at = pages.iter().position(|scanned| *scanned == page)?;
            Some((title, u32::try_from(at).unwrap() + 1))
        });
    let expected: BTreeSet<_> = expected.collect();
    assert!(expected.len() > 3, "{expected:?}");
    let found = items("scan.pdf");
    // F1 of .95 (issue 20).
    let common = expected.intersection(&found).count();
    assert!(
        200 * common >= 95 * (expected.len() + found.len()),
        "{found:#?}\n{expected:#?}"
    );
    let gaps = &trees["scan.pdf"].tree.gaps;
    assert_eq!(codes(gaps), [("ocr.recognized", None)], "{gaps:?}");
    let revisions = &trees["scan.pdf"].tree.provenance.revisions;
    assert!(revisions.contains_key("recognize"), "{revisions:?}");
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
fn sections_of_scans_say_how_many_words_are_in_doubt() {
    if !has_tesseract() {
        return;
    }
    let lab = TestEnv::new();
    let pdf = scan(&filing().pdf, &[Sheet::Straight(3), Sheet::Coarse(3)]);
    lab.put("scan.pdf", pdf);
    lab.put("guide.md", "# One\n\nText of one.\n");
    lab.ingest("store", &[]);
    let json = |arguments: &[&str]| {
        let command = lab.stemma("store", ["--json"]).args(arguments);
        command.run().json()
    };
    let in_doubt = |page: &str| {
        let page = json(&["cat", page]);
        page["pages"][0]["ocr"]["doubtful"]
            .as_array()
            .unwrap()
            .len() as u64
    };
    let doubtful = in_doubt("scan.pdf#p=1") + in_doubt("scan.pdf#p=2");
    assert!(doubtful > 0);
    let trees = trees(&lab.path("store"));
    let tree = &trees["scan.pdf"].tree;
    let words: u32 = tree.recognized.iter().map(|page| page.words).sum();
    let sections = json(&["tree", "scan.pdf"])["sections"].clone();
    for (section, (_, expected)) in sections.as_array().unwrap().iter().zip(tree.walk()) {
        let pages = section["pages"].as_array().unwrap();
        let count = pages[1].as_u64().unwrap() - pages[0].as_u64().unwrap() + 1;
        assert_eq!(section["ocr"]["pages"], count, "{section}");
        let read = tree.recognized_pages(expected);
        let doubtful: u32 = read.iter().map(|page| page.doubtful).sum();
        assert_eq!(section["ocr"]["doubtful"], doubtful, "{section}");
        if count == 2 {
            assert_eq!(section["ocr"]["words"], words, "{section}");
        }
    }
    let all: u64 = tree
        .recognized
        .iter()
        .map(|page| u64::from(page.doubtful))
        .sum();
    assert_eq!(all, doubtful);
    let guide = json(&["tree", "guide.md"]);
    assert!(guide["sections"][0]["ocr"].is_null(), "{guide}");
    let text = |arguments: &[&str]| lab.stemma("store", arguments).run();
    let shown = text(&["tree", "scan.pdf"]);
    assert!(shown.out.contains(" in doubt"), "{shown:?}");
    let first = sections[0]["locator"].as_str().unwrap();
    for shown in [text(&["stat", first]).out, text(&["cat", first]).err] {
        assert!(shown.contains("text recognition read "), "{shown}");
    }
    let shown = text(&["cat", "scan.pdf#p=1-2"]).err;
    assert!(
        shown.contains(&format!("read 2 pages; {doubtful} words in doubt")),
        "{shown}"
    );
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
fn scans_fail_and_mixed_files_have_gaps_without_tesseract() {
    let lab = TestEnv::new();
    lab.put("scan.pdf", scan(&filing().pdf, &[Sheet::Straight(1)]));
    let mixed = generate(&Spec {
        scanned_page: Some(4),
        ..Spec::new(FilingKind::TenQ, 1)
    });
    lab.put("mixed.pdf", &mixed.pdf);
    let ingest = |more: &[&str]| {
        let command = lab.stemma("store", ["--json", "ingest", "filings"]);
        command.args(more).env("PATH", "/nonexistent").run().json()
    };
    let summary = ingest(&[]);
    assert_eq!(summary["failures"][0]["code"], "ocr.no_engine", "{summary}");
    assert_eq!(summary["counts"]["done_with_gaps"], 1, "{summary}");
    let trees = trees(&lab.path("store"));
    let found = codes(&trees["mixed.pdf"].tree.gaps);
    assert!(found.contains(&("pdf.no_text", Some(4))), "{found:?}");
    assert!(found.contains(&("ocr.no_engine", None)), "{found:?}");
    let why = |name: &str| {
        let why = lab.stemma("store", ["--json", "why", name]).run().json();
        let text = |field: &str| why[field].as_str().unwrap().to_owned();
        (text("cause"), text("next"))
    };
    let (cause, next) = why("scan.pdf");
    assert!(cause.starts_with("ocr.no_engine: "), "{cause}");
    assert!(cause.contains("the worker does not have tesseract"));
    assert!(next.contains("tesseract-ocr") && next.contains("--rerun-failed"));
    let (cause, _) = why("mixed.pdf");
    let reason = "ocr.no_engine: 1 pages were not read";
    assert!(cause.contains(reason), "{cause}");
    if has_tesseract() {
        let again = lab.ingest("store", &["--rerun-failed"]);
        assert_eq!(again["counts"]["failed"], 0, "{again}");
    }
}

#[test]
fn image_that_needs_too_much_memory_is_a_gap() {
    if !has_tesseract() {
        return;
    }
    let lab = TestEnv::new();
    let sheets = [Sheet::Straight(2), Sheet::Huge];
    lab.put("scan.pdf", scan(&filing().pdf, &sheets));
    let summary = lab.ingest("store", &[]);
    assert_eq!(summary["counts"]["done_with_gaps"], 1, "{summary}");
    let trees = trees(&lab.path("store"));
    let found = codes(&trees["scan.pdf"].tree.gaps);
    for gap in [("pdf.no_text", Some(2)), ("limits.memory", None)] {
        assert!(found.contains(&gap), "{found:?}");
    }
}

#[test]
fn turned_pages_and_blank_pages_are_read_as_they_are_displayed() {
    let Some(program) = tesseract() else { return };
    let sheets = [
        Sheet::Straight(2),
        Sheet::UpsideDown(2),
        Sheet::Right(2),
        Sheet::Left(2),
        Sheet::Blank,
    ];
    let pdf = scan(&filing().pdf, &sheets);
    let pages = [1, 2, 3, 4, 5].map(|number| read(&pdf, number, &program));
    let lines = |page: &Page| -> BTreeSet<String> {
        page.lines.iter().map(|line| line.text.clone()).collect()
    };
    let straight = lines(&pages[0]);
    assert!(straight.len() > 10, "{straight:?}");
    for page in &pages[1..4] {
        let turned = lines(page);
        let common = turned.intersection(&straight).count();
        assert!(
            common * 10 >= straight.len() * 9,
            "{turned:#?}\n{straight:#?}"
        );
    }
    assert!(lines(&pages[4]).is_empty());
    let places = |page: &Page| {
        let (width, height) = page.displayed_size();
        let words = page.lines.iter().flat_map(|line| {
            let rect = |word: &Word| Rect {
                x0: word.x0,
                x1: word.x1,
                ..line.rect
            };
            line.words.iter().map(move |word| {
                (
                    line.text[word.start as usize..word.end as usize].to_owned(),
                    rect(word),
                )
            })
        });
        // Words that occur once, with the middles of their boxes in fractions of the displayed page.
        let mut places = BTreeMap::new();
        for (text, rect) in words {
            let at = page.displayed(rect);
            let middle = |one: Pt, other: Pt, whole: Pt| {
                (one.points() + other.points()) / 2.0 / whole.points()
            };
            let place = (middle(at.x0, at.x1, width), middle(at.y0, at.y1, height));
            places
                .entry(text)
                .and_modify(|place| *place = None)
                .or_insert(Some(place));
        }
        places
    };
    let straight = places(&pages[0]);
    type Turned = fn((f32, f32)) -> (f32, f32);
    let turns: [Turned; 3] = [
        |(x, y)| (1.0 - x, 1.0 - y),
        |(x, y)| (1.0 - y, x),
        |(x, y)| (y, 1.0 - x),
    ];
    for (number, turn) in (1..).zip(turns) {
        let mut seen = 0;
        for (text, found) in places(&pages[number]) {
            let expected = straight.get(&text).copied().flatten().map(turn);
            let Some(((x, y), (found_x, found_y))) = expected.zip(found) else {
                continue;
            };
            assert!(
                (x - found_x).abs() < 0.01 && (y - found_y).abs() < 0.01,
                "page {number}, {text}: {x} {y}, found {found_x} {found_y}"
            );
            seen += 1;
        }
        assert!(seen > 20, "page {number}: {seen} words");
    }
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
    let sheets = [1, 2, 3].map(Sheet::Straight);
    lab.put("scan.pdf", scan(&filing().pdf, &sheets));
    let mut running = ingest(&lab).args(&["--jobs", "1"]).start();
    running.wait_until("the text of the file and the first page are stored", || {
        stored_files(&lab.path("store")).len() >= 2
    });
    running.signal(Signal::KILL);
    running.end();
    let before = stored_files(&lab.path("store"));
    assert!(before.len() > 1, "a page was read");
    let again = ingest(&lab).run();
    assert_untouched(&before, &lab.path("store"), &again, "after the kill");
    assert_eq!(again.json()["counts"]["failed"], 0);
    let tasks = started_tasks(&again);
    let pages = tasks
        .iter()
        .filter(|(stage, _)| stage == "recognize")
        .count();
    assert!(pages < sheets.len(), "{tasks:?}");
}

#[test]
fn recognition_ends_with_the_ingest_that_started_it() {
    let lab = TestEnv::new();
    lab.put("scan.pdf", scan(&filing().pdf, &[Sheet::Straight(1)]));
    // Reads for ever. The name of the folder, which only this test has, tells it from other processes.
    let tools = lab.path("tools");
    std::fs::create_dir(&tools).unwrap();
    let script = tools.join("tesseract");
    std::fs::write(&script, "#!/bin/sh\nwhile :; do sleep 1; done\n").unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let is_running = || {
        std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .any(|process| {
                let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&command).contains(script.to_str().unwrap())
            })
    };
    let mut running = ingest(&lab).env("PATH", tools.to_str().unwrap()).start();
    block_until("recognition runs", is_running);
    running.signal(Signal::KILL);
    running.end();
    block_until("recognition has ended", || !is_running());
}

/// A model that reads `1` for each dark stripe, so it disputes most numbers.
fn stripes_model(lab: &TestEnv) -> (String, String) {
    let path = lab.path("model.onnx");
    let model = stemma_filings::line_model("1");
    std::fs::write(&path, &model).unwrap();
    let digest = hex::encode(Sha256::digest(&model));
    (path.to_str().unwrap().into(), digest)
}

#[test]
fn numbers_that_a_second_reader_reads_differently_keep_both_readings() {
    if !has_tesseract() {
        return;
    }
    let lab = TestEnv::new();
    lab.put("scan.pdf", scan(&filing().pdf, &[Sheet::Straight(3)]));
    let (path, digest) = stripes_model(&lab);
    let stemma = |arguments: &[&str]| {
        lab.stemma("store", ["--json"])
            .args(arguments)
            .env("STEMMA_LOCAL__SECOND_READER", &path)
            .env("STEMMA_OCR__SECOND_READER", &digest)
    };
    let page = |pages: &serde_json::Value| pages["pages"][0]["ocr"].clone();
    lab.ingest("store", &[]);
    let once = page(
        &lab.stemma("store", ["--json", "cat", "scan.pdf#p=1"])
            .run()
            .json(),
    );
    assert!(once["disputed"].is_null(), "{once}");
    let summary = stemma(&["ingest", "filings"]).run().json();
    assert_eq!(summary["counts"]["failed"], 0, "{summary}");
    let twice = page(&stemma(&["cat", "scan.pdf#p=1"]).run().json());
    let disputed = twice["disputed"].as_array().unwrap();
    assert!(disputed.len() > 3, "{twice}");
    for word in disputed {
        let text = word["text"].as_str().unwrap();
        assert!(text.contains(|c: char| c.is_ascii_digit()), "{word}");
        let other = word["other"].as_str().unwrap();
        assert!(other.chars().all(|c| c == '1'), "{word}");
        let doubtful = twice["doubtful"].as_array().unwrap();
        assert!(doubtful.contains(&word["text"]), "{twice}");
    }
    let gaps = &trees(&lab.path("store"))["scan.pdf"].tree.gaps;
    let note = gaps
        .iter()
        .find(|gap| gap.code == "ocr.recognized")
        .unwrap();
    assert!(note.detail.contains("a second reader"), "{note:?}");
}

#[test]
fn pages_are_not_read_without_the_second_reader_that_the_settings_name() {
    if !has_tesseract() {
        return;
    }
    let lab = TestEnv::new();
    lab.put("scan.pdf", scan(&filing().pdf, &[Sheet::Straight(2)]));
    let (path, digest) = stripes_model(&lab);
    let run = |command: &str, path: &str, digest: &str| {
        lab.stemma("store", ["--json", command])
            .args(if command == "ingest" {
                &["filings"]
            } else {
                &[]
            })
            .env("STEMMA_LOCAL__SECOND_READER", path)
            .env("STEMMA_OCR__SECOND_READER", digest)
            .run()
    };
    let summary = run("ingest", "", &digest).json();
    assert_eq!(summary["failures"][0]["code"], "ocr.no_model", "{summary}");
    let why = lab.stemma("store", ["--json", "why", "scan.pdf"]).run();
    let cause = why.json()["cause"].as_str().unwrap().to_owned();
    assert!(cause.contains("the worker does not have the model"));
    assert!(cause.contains(&digest), "{cause}");
    for (path, digest) in [
        (path.as_str(), "0a".repeat(32)),
        ("missing.onnx", digest.clone()),
    ] {
        let refused = run("ingest", path, &digest);
        assert_eq!(
            refused.json()["error"]["code"],
            "ocr.no_model",
            "{refused:?}"
        );
    }
    let doctor_result = |path: &str, digest: &str| {
        let checks = run("doctor", path, digest).json();
        let check = checks.as_array().unwrap().iter().find(|check| {
            let what = check["what"].as_str().unwrap();
            what.contains("second reader") || what.contains("model.onnx")
        });
        check.map(|check| check["result"].as_str().unwrap().to_owned())
    };
    assert_eq!(doctor_result("", ""), None);
    assert_eq!(doctor_result("", &digest).as_deref(), Some("attention"));
    assert_eq!(doctor_result(&path, "").as_deref(), Some("attention"));
    assert_eq!(doctor_result(&path, &digest).as_deref(), Some("ok"));
    assert_eq!(
        doctor_result(&path, &"0a".repeat(32)).as_deref(),
        Some("failed")
    );
}

#[test]
fn numbers_that_two_readers_read_alike_are_sure() {
    let Some(program) = tesseract() else { return };
    let Some(path) = std::env::var_os("STEMMA_TEST_OCR_MODEL") else {
        println!("skipped: no model (STEMMA_TEST_OCR_MODEL)");
        return;
    };
    let pdf = scan(&filing().pdf, &[Sheet::Straight(3)]);
    let model = stemma_ocr::model_file(path.into()).unwrap();
    let page = read_twice(&pdf, 1, &program, Some(model));
    let read = page.recognition().unwrap();
    let words = page.lines.iter().flat_map(|line| {
        let text = |word: &Word| &line.text[word.start as usize..word.end as usize];
        line.words.iter().map(text)
    });
    let numbers = words.zip(read.words());
    let numbers: Vec<_> = numbers
        .filter(|(word, _)| word.contains(|c: char| c.is_ascii_digit()))
        .collect();
    let sure = numbers
        .iter()
        .filter(|(_, read)| read.confidence >= Recognition::SURE);
    let sure: Vec<&str> = sure.map(|(word, _)| *word).collect();
    assert!(numbers.len() > 10, "{numbers:?}");
    assert!(sure.len() * 10 >= numbers.len() * 9, "{numbers:?}");
}

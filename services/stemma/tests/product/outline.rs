//! `stemma outline` and `stemma diff --trees`: a person corrects the structure of documents.

use serde_json::Value;
use stemma_filings::{ContentsMode, FilingKind, Spec, generate};

use crate::support::{CommandOutput, TestEnv, trees};

const REPORT: &str =
    "# Report\n\nAll about it.\n\n## Results\n\nWe sold more.\n\nCosts\n\nThey fell.\n";

fn report() -> TestEnv {
    let lab = TestEnv::new();
    lab.put("report.md", REPORT);
    lab.ingest("store", &[]);
    lab
}

fn run(lab: &TestEnv, arguments: &str) -> CommandOutput {
    lab.stemma("store", arguments.split(' ')).run()
}

fn export(lab: &TestEnv, document: &str) -> String {
    let exported = run(lab, &format!("outline export {document}"));
    assert_eq!(exported.code, Some(0), "{exported:?}");
    exported.out
}

fn import(lab: &TestEnv, document: &str, text: &str) -> CommandOutput {
    std::fs::write(lab.path("outline.txt"), text).unwrap();
    run(lab, &format!("outline import {document} outline.txt"))
}

// Version, method and titles with their depths.
fn tree(lab: &TestEnv, document: &str) -> (u64, String, Vec<(u64, String)>) {
    let tree = run(lab, &format!("tree {document} --json")).json();
    let about = &tree["document"];
    let titles = tree["sections"].as_array().unwrap().iter().map(|row| {
        let title = row["title"].as_str().unwrap().to_owned();
        (row["depth"].as_u64().unwrap(), title)
    });
    (
        about["version"].as_u64().unwrap(),
        about["method"].as_str().unwrap().to_owned(),
        titles.collect(),
    )
}

fn gaps(lab: &TestEnv, document: &str) -> Vec<Value> {
    let tree = run(lab, &format!("tree {document} --json")).json();
    let gaps = tree["gaps"].as_array().unwrap().iter();
    gaps.map(|gap| gap["code"].clone()).collect()
}

#[test]
fn exports_of_filings_are_imported_without_a_change() {
    let lab = TestEnv::new();
    for (n, contents) in (0_u64..).zip(ContentsMode::ALL) {
        let spec = Spec {
            pages: 12,
            contents,
            ..Spec::new(FilingKind::ALL[n as usize % 7], 90 + n)
        };
        lab.put(&format!("f{n}.pdf"), generate(&spec).pdf);
    }
    lab.ingest("store", &[]);
    let before = trees(&lab.path("store"));
    for path in before.keys() {
        let document = path.trim_end_matches(".pdf");
        let text = export(&lab, document);
        let unchanged = import(&lab, document, &text);
        assert_eq!(unchanged.code, Some(0), "{unchanged:?}");
        assert!(
            unchanged.out.contains("no change: no new version"),
            "{unchanged:?}"
        );

        // The same outline by a person has the same sections.
        let first = text
            .lines()
            .find(|line| line.trim_start().starts_with("p. ") && !line.contains(" ("))
            .unwrap();
        let (place, title) = first.split_once(' ').unwrap();
        let (page, title) = title.split_once(' ').unwrap();
        let own = text.replacen(first, &format!("{place} {page} (?) {title}"), 1);
        let corrected = import(&lab, document, &own);
        assert_eq!(corrected.code, Some(0), "{corrected:?}\n{own}");
        let after = &trees(&lab.path("store"))[path];
        let sections = |tree: &stemma_document::PublishedTree| {
            let sections = tree.tree.walk().map(|(depth, section)| {
                (depth, section.title.clone(), section.span, section.tokens)
            });
            sections.collect::<Vec<_>>()
        };
        assert_eq!(after.version.seq, 2);
        assert_eq!(sections(after), sections(&before[path]), "{path}");
        assert_eq!(after.tree.facts, before[path].tree.facts);
    }
}

#[test]
fn ingests_keep_a_correction_while_the_file_is_unchanged() {
    let lab = report();
    let text = export(&lab, "report");
    assert!(
        text.contains("\nline 1 Report\n  line 5 Results\n"),
        "{text}"
    );
    let own = text.replace("  line 5 Results\n", "line 5 Results\n  line 9 Costs\n");
    let corrected = import(&lab, "report", &own);
    assert_eq!(corrected.code, Some(0), "{corrected:?}");
    assert!(
        corrected
            .out
            .contains("report: corrected · version 2 · 3 sections"),
        "{corrected:?}"
    );
    let expected = vec![
        (1, "Report".to_owned()),
        (1, "Results".to_owned()),
        (2, "Costs".to_owned()),
    ];
    assert_eq!(tree(&lab, "report"), (2, "person".into(), expected.clone()));
    let stat = run(&lab, "stat report");
    assert!(stat.out.contains("person"), "{stat:?}");
    let found = run(&lab, "search fell --json");
    assert!(found.out.contains("Costs"), "{found:?}");

    let again = lab.ingest("store", &["--rerun-failed"]);
    assert_eq!(again["counts"]["unchanged"], 1);
    // Other settings make a new version, like newer rules.
    std::fs::write(
        lab.path("stemma.toml"),
        "[sections]\nsummary_max_words = 40\n",
    )
    .unwrap();
    let newer = lab.ingest("store", &["--config", "stemma.toml"]);
    assert_eq!(newer["counts"]["unchanged"], 0, "{newer:#}");
    assert_eq!(tree(&lab, "report"), (3, "person".into(), expected.clone()));

    lab.put("report.md", format!("{REPORT}\nMore.\n"));
    lab.ingest("store", &[]);
    let (version, method, titles) = tree(&lab, "report");
    assert_eq!((version, method.as_str(), titles.len()), (4, "markup", 2));
    assert_eq!(gaps(&lab, "report"), ["outline.correction_dropped"]);

    lab.put("report.md", REPORT);
    lab.ingest("store", &[]);
    assert_eq!(tree(&lab, "report"), (5, "person".into(), expected));
    assert_eq!(gaps(&lab, "report"), [""; 0]);

    let asked = run(&lab, "outline reset report");
    assert_eq!(asked.code, Some(2), "needs --yes: {asked:?}");
    let reset = run(&lab, "outline reset report --yes --json").json();
    assert_eq!(
        (&reset["version"], &reset["changed"]),
        (&6.into(), &true.into())
    );
    assert_eq!(tree(&lab, "report").1, "markup");
    assert_eq!(run(&lab, "outline reset report").code, Some(1));
}

#[test]
fn imports_that_are_wrong_or_outdated_change_nothing() {
    let lab = report();
    let text = export(&lab, "report");
    let line = text.lines().count();
    let wrong = import(&lab, "report", &text.replace("line 5", "line 3"));
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.err.contains(&format!(
            "line {line}: `Results` is not on line 3; line 5 has it"
        )),
        "{wrong:?}"
    );
    for (own, expected) in [
        (text.replace("line 5", "line 99"), "no line 99"),
        (
            text.replace("  line 5", "    line 5"),
            "a level is left out",
        ),
        (text.replace("# version: ", "# "), "is missing or changed"),
        (
            text.replace("# version: 1", "# version: 7"),
            "from version 7",
        ),
    ] {
        let refused = import(&lab, "report", &own);
        assert_eq!(refused.code, Some(2));
        assert!(refused.err.contains(expected), "{refused:?}");
    }
    assert_eq!(tree(&lab, "report").0, 1);

    let first = import(&lab, "report", &text.replace("  line 5", "line 5"));
    assert_eq!(first.code, Some(0), "{first:?}");
    let second = import(
        &lab,
        "report",
        &text.replace("line 1 Report", "line 1 (?) Year"),
    );
    assert_eq!(second.code, Some(2));
    assert!(second.err.contains("version 2 is the newest"), "{second:?}");
    assert_eq!(tree(&lab, "report").0, 2);
}

#[test]
fn an_edit_that_fails_keeps_the_file() {
    let lab = report();
    let edit = |editor: &str| {
        lab.stemma("store", ["outline", "edit", "report"])
            .env("EDITOR", editor)
            .env("VISUAL", "")
            .env("TMPDIR", lab.path("").to_str().unwrap())
            .run()
    };
    let kept = || {
        let files = std::fs::read_dir(lab.path("")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.starts_with("stemma-outline-"))
            .count()
    };
    let unchanged = edit("true");
    assert_eq!(unchanged.code, Some(0), "{unchanged:?}");
    assert!(unchanged.out.contains("no change"), "{unchanged:?}");
    let edited = edit("sed -i s/Results/Findings/");
    assert_eq!(edited.code, Some(2), "{edited:?}");
    assert!(
        edited.err.contains("`Findings` is not on line 5"),
        "{edited:?}"
    );
    assert!(edited.err.contains("kept in "), "{edited:?}");
    assert_eq!((kept(), tree(&lab, "report").0), (1, 1));
    let failed = edit("false");
    assert!(
        failed.err.contains("the editor `false` failed"),
        "{failed:?}"
    );
    let done = edit("sed -i 's/line 5 Results/line 5 (?) Findings/'");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("1 not verified"), "{done:?}");
    assert_eq!((kept(), tree(&lab, "report").0), (2, 2));
}

#[test]
fn trees_of_versions_and_stores_are_compared() {
    let lab = report();
    lab.stemma("other", ["ingest", "filings"]).run();
    let text = export(&lab, "report");
    let own = text.replace(
        "  line 5 Results\n",
        "line 5 (?) Findings\n  line 9 Costs\n",
    );
    assert_eq!(import(&lab, "report", &own).code, Some(0));
    let compared = run(&lab, "diff --trees report --json").json();
    let summary = &compared["summary"];
    assert_eq!(summary["added"], 1, "{compared:#}");
    assert_eq!(summary["retitled"], 1, "{compared:#}");
    assert_eq!(summary["relevelled"], 1, "{compared:#}");
    assert_eq!(compared["documents"][0]["new"]["method"], "person");
    let same = run(&lab, "diff --trees report@2 report@2");
    assert_eq!(same.code, Some(0));
    assert!(same.out.starts_with("1 document · 0 changed"), "{same:?}");

    let stores = run(&lab, "diff --trees other store");
    assert_eq!(stores.code, Some(0), "{stores:?}");
    assert!(
        stores.out.contains("+ line 9") && stores.out.contains("was “Results” · level 2 → 1"),
        "{stores:?}"
    );
    for (arguments, code) in [
        ("diff --trees report@1 report@9", "document.no_version"),
        ("diff --trees report@1 other", "usage.trees"),
        ("diff --trees report@1 nowhere@2", "usage.trees"),
        ("diff --trees other nowhere", "store.missing"),
    ] {
        let refused = run(&lab, &format!("{arguments} --json"));
        assert_eq!(refused.code, Some(2));
        assert_eq!(refused.json()["error"]["code"], code, "{arguments}");
    }
}

#[test]
fn a_document_that_fails_in_the_new_store_is_listed() {
    let lab = report();
    let spec = Spec {
        pages: 3,
        ..Spec::new(FilingKind::ALL[0], 7)
    };
    lab.put("lost.pdf", generate(&spec).pdf);
    lab.ingest("store", &[]);
    lab.put("lost.pdf", "no document");
    lab.stemma("other", ["ingest", "filings"]).run();
    let compared = run(&lab, "diff --trees store other --json").json();
    assert_eq!(compared["only_old"], serde_json::json!(["lost"]));
    let compared = run(&lab, "diff --trees other store --json").json();
    assert_eq!(compared["only_new"], serde_json::json!(["lost"]));
}

#[test]
fn lines_of_a_page_say_why_they_are_sections_or_not() {
    let lab = TestEnv::new();
    let spec = Spec {
        pages: 12,
        ..Spec::new(FilingKind::TenK, 21)
    };
    lab.put("annual.pdf", generate(&spec).pdf);
    lab.put("report.md", REPORT);
    lab.ingest("store", &[]);
    let tree = run(&lab, "tree annual --json").json();
    let sections = tree["sections"].as_array().unwrap().iter().map(|row| {
        let title = row["title"].as_str().unwrap().to_owned();
        (row["pages"][0].clone(), row["depth"].clone(), title)
    });
    let mut kept = Vec::new();
    let mut rules = Vec::new();
    for page in 1..=13 {
        let why = run(&lab, &format!("tree annual --why p{page} --json"));
        if why.code == Some(1) {
            continue;
        }
        for heading in why.json()["headings"].as_array().unwrap() {
            let title = heading["title"].as_str().unwrap().to_owned();
            match heading["decision"].as_str().unwrap() {
                "kept" => kept.push((Value::from(page), heading["level"].clone(), title)),
                _ => rules.push(heading["rule"].as_str().unwrap().to_owned()),
            }
        }
    }
    // Text before the first heading is a section without one.
    let with_heading = sections.filter(|(.., title)| title != "Preface" && !title.starts_with('('));
    assert_eq!(kept, with_heading.collect::<Vec<_>>());
    assert!(!rules.is_empty());

    let text = run(&lab, "tree annual --why 3");
    assert!(text.out.starts_with("annual#p=3"), "{text:?}");
    let without_pages = run(&lab, "tree report --why p1");
    assert!(
        without_pages.err.contains("a text without pages"),
        "{without_pages:?}"
    );
}

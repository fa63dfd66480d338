//! Behavior that people meet first: names, paths, filters, fields and confirmations.

use serde_json::Value;

use crate::support::TestEnv;

fn notes() -> TestEnv {
    let env = TestEnv::new();
    env.put("a/x/note.md", "# First\n\nThe interest rate rose.\n");
    env.put("b/x/note.md", "# Second\n\nThe interest rate fell.\n");
    env.put("other.txt", "OTHER\n\nNothing to see.\n");
    env
}

#[test]
fn a_missing_path_does_not_stop_the_others() {
    let env = notes();
    let output = env
        .stemma("store", ["--json", "ingest", "nowhere.pdf", "filings"])
        .run();
    assert_eq!(output.code, Some(3), "{output:?}");
    let summary = output.json();
    assert_eq!(summary["counts"]["done"], 3, "{summary}");
    assert_eq!(summary["failures"][0]["path"], "nowhere.pdf", "{summary}");
    assert_eq!(summary["failures"][0]["code"], "input.not_found");
}

#[test]
fn folders_with_equal_names_stay_apart() {
    let env = notes();
    env.stemma("store", ["ingest", "filings/a", "filings/b"])
        .run();
    let output = env.stemma("store", ["--json", "ls"]).run().json();
    let folders: Vec<&str> = output["folders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|folder| folder["locator"].as_str().unwrap())
        .collect();
    assert_eq!(folders, ["/a", "/b"]);
    let cat = env.stemma("store", ["cat", "/b/x/note.md"]).run();
    assert!(cat.out.contains("fell"), "{cat:?}");
}

#[test]
fn the_nearest_store_above_is_used_and_named() {
    let env = notes();
    env.ingest(".stemma", &[]);
    let output = env.stemma_in("filings/a", ["ls", "-R"]).run();
    assert!(output.out.contains("other"), "{output:?}");
    assert!(
        output.err.contains("store: ") && output.err.contains("/.stemma"),
        "{output:?}"
    );
    let named = env.stemma_in("filings/a", ["--store", "unused", "ls", "-R"]);
    assert_eq!(named.run().code, Some(2));

    // The configuration next to the store is the configuration of its folder.
    let file = env.filings().parent().unwrap().join("stemma.toml");
    std::fs::write(&file, "[limits]\nmax_pages = 7\n").unwrap();
    let config = env.stemma_in("filings/a", ["config", "--json"]);
    let shown = config.run().out;
    let file = file.display().to_string();
    assert!(shown.contains(&file), "{shown}");
}

#[test]
fn removing_without_a_terminal_needs_yes() {
    let env = notes();
    env.ingest("store", &[]);
    let refused = env.stemma("store", ["rm", "other"]).run();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("--yes"), "{refused:?}");
    assert_eq!(env.stemma("store", ["stat", "other"]).run().code, Some(0));
    let removed = env.stemma("store", ["rm", "other", "--yes"]).run();
    assert_eq!(
        (removed.code, removed.out.trim()),
        (Some(0), "removed other")
    );
}

#[test]
fn grep_searches_all_documents_by_default() {
    let env = notes();
    env.ingest("store", &[]);
    let output = env.stemma("store", ["grep", "interest rate"]).run();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.out.contains("rose") && output.out.contains("fell"));
}

#[test]
fn fields_select_from_rows_and_unknown_ones_fail() {
    let env = notes();
    env.ingest("store", &[]);
    let rows = env
        .stemma("store", ["ls", "-R", "--fields", "locator"])
        .run();
    let rows = rows.json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows.iter().all(|row| row["locator"].is_string()));
    let total = env.stemma("store", ["ls", "-R", "--fields", "total"]).run();
    assert_eq!(total.json(), serde_json::json!({ "total": 3 }));
    let unknown = env.stemma("store", ["ls", "-R", "--fields", "nope"]).run();
    assert_eq!((unknown.code, unknown.out.as_str()), (Some(2), ""));
    assert!(unknown.err.contains("no field `nope`"), "{unknown:?}");
}

#[test]
fn filters_join_conditions_by_or() {
    let env = notes();
    env.ingest("store", &[]);
    let filter = "(name=other.txt or name=note.md) and status=done";
    let listed = env
        .stemma("store", ["--json", "ls", "--where", filter])
        .run();
    assert_eq!(listed.json()["total"], 3);
    let filter = "name=other.txt or name=none";
    let found = env
        .stemma("store", ["--json", "search", "see", "--where", filter])
        .run();
    assert_eq!(found.json()["hits"].as_array().map(Vec::len), Some(1));
    let wrong = env
        .stemma("store", ["ls", "--where", "name=other.txt or note.md"])
        .run();
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    let filter = "status=done and form=10-K, 10-Q";
    for words in [["ls", "/"], ["search", "see"]] {
        let none = env.stemma("store", words).args(&["--where", filter]).run();
        assert_eq!(none.code, Some(1), "{none:?}");
        assert!(none.err.contains("no document has form=10-k, 10-q"));
        assert!(!none.err.contains("has status"), "{none:?}");
    }
}

#[test]
fn no_failures_are_a_success() {
    let env = notes();
    env.ingest("store", &[]);
    assert_eq!(env.stemma("store", ["failures"]).run().code, Some(0));
}

#[test]
fn a_new_key_comes_with_its_digest() {
    let env = TestEnv::new();
    let key = |scopes| -> Value {
        env.stemma("store", ["--json", "key", "web", "--scopes", scopes])
            .run()
            .json()
    };
    let first = key("read,ask");
    assert_eq!(first["scopes"], serde_json::json!(["read", "ask"]));
    assert_eq!(first["key"].as_str().map(str::len), Some(64));
    assert_eq!(first["blake3"].as_str().map(str::len), Some(64));
    assert_ne!(first["key"], key("read")["key"]);
    let refused = env.stemma("store", ["key", "web", "--scopes", "all"]).run();
    assert_eq!(refused.code, Some(2));
}

#[test]
fn questions_without_a_model_show_excerpts_and_how_to_set_one() {
    let env = notes();
    env.ingest("store", &[]);
    let output = env
        .stemma("store", ["ask", "Did the interest rate rise?"])
        .run();
    assert_eq!(output.code, Some(5), "{output:?}");
    assert!(output.out.contains("interest rate rose"), "{output:?}");
    assert!(output.err.contains("model.name"), "{output:?}");
}

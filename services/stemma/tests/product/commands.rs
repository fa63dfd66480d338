//! Output of commands: JSON shapes, exit codes, errors with a next step, and closed pipes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use stemma_filings::{Encryption, FilingKind, Spec, generate, markdown};

use crate::gate::Gate;
use crate::support::{CommandOutput, TestEnv, has_object};

/// Two filings, a text, and one document that does not open; ingested.
fn library() -> (TestEnv, Value) {
    let lab = TestEnv::new();
    lab.put(
        "10-K/annual.pdf",
        generate(&Spec {
            pages: 12,
            ..Spec::new(FilingKind::TenK, 21)
        })
        .pdf,
    );
    lab.put(
        "10-Q/scanned.pdf",
        generate(&Spec {
            pages: 8,
            scanned_page: Some(4),
            ..Spec::new(FilingKind::TenQ, 22)
        })
        .pdf,
    );
    lab.put("guide.md", markdown(1, 8).0);
    let encryption = Some(Encryption::Password("sesame".into()));
    lab.put(
        "locked.pdf",
        generate(&Spec {
            pages: 6,
            encryption,
            ..Spec::new(FilingKind::TenQ, 23)
        })
        .pdf,
    );
    let ingested = lab.ingest("store", &[]);
    (lab, ingested)
}

/// Every path in a JSON value with the kinds of values it has: `documents[].pages: null number`.
fn shape(value: &Value) -> String {
    let mut shapes: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut stack = vec![(String::new(), value)];
    while let Some((path, value)) = stack.pop() {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(items) => {
                stack.extend(items.iter().map(|item| (format!("{path}[]"), item)));
                "array"
            }
            Value::Object(fields) => {
                let dot = if path.is_empty() { "" } else { "." };
                stack.extend(
                    fields
                        .iter()
                        .map(|(name, value)| (format!("{path}{dot}{name}"), value)),
                );
                "object"
            }
        };
        shapes.entry(path).or_default().insert(kind);
    }
    shapes
        .into_iter()
        .map(|(path, kinds): (String, BTreeSet<&str>)| {
            let kinds: Vec<&str> = kinds.into_iter().collect();
            format!(
                "  {}: {}\n",
                if path.is_empty() { "." } else { &path },
                kinds.join(" ")
            )
        })
        .collect()
}

#[test]
fn json_answers_have_these_shapes() {
    let (lab, ingested) = library();
    let mut shapes = format!("ingest → 3\n{}", shape(&ingested));
    std::fs::write(lab.path("tree.json"), IMPORTED).unwrap();
    for (name, truth) in TRUTHS {
        std::fs::write(lab.path(name), truth).unwrap();
    }
    let questions: [&[&str]; 32] = [
        &["status"],
        &["ls"],
        &["ls", "-R"],
        &["tree", "annual", "-L", "2"],
        &["tree", "scanned"],
        &["stat", "annual"],
        &["stat", "annual#item-1A"],
        &["items", "annual"],
        &["cat", "annual#item-1A"],
        &["cat", "annual#p=2-3"],
        &["tree", "/", "-L", "2"],
        &["ls", "/", "--where", "form=10-K and doubt<=1"],
        &["grep", "risk", "annual", "-i"],
        &["grep", "-r", "risk", "/10-K", "-i"],
        &["browse", "/10-K", "risk factors"],
        &["search", "risk factors"],
        &["diff", "annual", "scanned", "--item", "1A"],
        &["diff", "--trees", "annual@1", "annual@1"],
        &["outline", "export", "guide"],
        &["outline", "reset", "guide"],
        &["why", "scanned"],
        &["why", "locked"],
        &["failures"],
        &["eval", "structure", "structure.json", "--details"],
        &["eval", "text", "text.jsonl", "--count-missing"],
        &["eval", "metadata", "metadata.json"],
        &["eval", "retrieval", "questions.jsonl"],
        &["ask", "What are the risk factors?"],
        &["export", "--out", "out"],
        &["import", "tree.json"],
        &["prompts"],
        &["rm", "guide", "--yes"],
    ];
    for question in questions {
        let answer = lab.stemma("store", ["--json"]).args(question).run();
        let code = answer.code.unwrap();
        shapes.push_str(&format!(
            "\n{} → {code}\n{}",
            question.join(" "),
            shape(&answer.json())
        ));
    }
    for question in [["config"], ["doctor"]] {
        let answer = lab.stemma("store", ["--json"]).args(&question).run();
        let code = answer.code.unwrap();
        shapes.push_str(&format!(
            "\n{} → {code}\n{}",
            question[0],
            shape(&answer.json()[0])
        ));
    }
    insta::assert_snapshot!(shapes);
}

const IMPORTED: &str = r#"{"doc_name": "other.pdf", "structure": [
    {"title": "Part one", "start_index": 1, "end_index": 4, "nodes": [{"title": "Scope", "start_index": 2, "end_index": 4}]}]}"#;

const TRUTHS: [(&str, &str); 4] = [
    (
        "structure.json",
        r#"{"doc": "annual", "pages": 12, "source": "hand", "scope": "recall-only", "nodes": [
            {"title": "PART I", "level": 1, "page": 9}, {"title": "No such title", "level": 1, "page": 2}]}
           {"doc": "scanned.pdf", "nodes": []}
           {"doc": "locked", "nodes": []}"#,
    ),
    (
        "questions.jsonl",
        r#"{"id": "q1", "question": "What are the risk factors?", "doc": "annual", "gold_pages": [2]}
           {"id": "q2", "question": "???", "doc": "annual", "gold_pages": [2]}
           {"id": "q3", "question": "Which risks?", "doc": "annual", "gold_pages": [9999]}
           {"id": "q4", "question": "Which risks?", "doc": "nobody", "gold_pages": [2]}"#,
    ),
    (
        "text.jsonl",
        "{\"doc\": \"annual\", \"page\": 2, \"text\": \"words\"}\n{\"doc\": \"nobody\", \"text\": \"\"}\n",
    ),
    (
        "metadata.json",
        r#"[{"doc": "annual", "form": "10-Q", "cik": null, "tickers": ["NONE"]}, {"doc": "nobody"}]"#,
    ),
];

#[test]
fn failing_batch_lines_do_not_stop_the_batch() {
    let (lab, _) = library();
    let lines = concat!(
        "{\"id\": 1, \"query\": \"risk factors\", \"doc\": \"nobody\"}\n\nnonsense\n",
        "{\"id\": 2, \"query\": \"???\"}\n{\"id\": 3, \"query\": \"risk factors\", \"doc\": \"annual\"}\n"
    );
    std::fs::write(lab.path("batch.jsonl"), lines).unwrap();
    let answer = lab
        .stemma("store", ["search", "--batch", "batch.jsonl"])
        .run();
    assert_eq!(answer.code, Some(3), "{answer:?}");
    let replies: Vec<Value> = answer
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let summary: Vec<_> = replies
        .iter()
        .map(|line| (&line["id"], &line["error"]["code"], &line["error"]["line"]))
        .collect();
    let none = Value::Null;
    let code = |value: &str| serde_json::from_str::<Value>(value).unwrap_or_else(|_| value.into());
    assert_eq!(
        summary,
        [
            (&code("1"), &code("locator.not_found"), &code("1")),
            (&none, &code("search.batch_invalid"), &code("3")),
            (&code("2"), &code("search.no_words"), &code("4")),
            (&code("3"), &none, &none),
        ]
    );
    assert!(
        !replies[3]["ranked_pages"].as_array().unwrap().is_empty()
            && replies[0]["ranked_pages"] == Value::Array(Vec::new())
    );
    assert!(
        answer.err.contains("line 3 of batch.jsonl"),
        "{}",
        answer.err
    );
    std::fs::write(
        lab.path("batch.jsonl"),
        "{\"id\": 3, \"query\": \"risk factors\"}\n",
    )
    .unwrap();
    assert_eq!(
        lab.stemma("store", ["search", "--batch", "batch.jsonl"])
            .run()
            .code,
        Some(0)
    );
}

#[test]
fn evaluations_exit_by_their_thresholds() {
    let (lab, _) = library();
    for (name, truth) in TRUTHS {
        std::fs::write(lab.path(name), truth).unwrap();
    }
    std::fs::write(lab.path("empty.jsonl"), "").unwrap();
    std::fs::write(
        lab.path("wrong.json"),
        "[{\"doc\": \"annual\",\n \"nodes\": [{\"title\": 7}]}]",
    )
    .unwrap();
    let eval = |arguments: &str| {
        let words = ["--json", "eval"].into_iter().chain(arguments.split(' '));
        lab.stemma("store", words).run()
    };
    let codes = [
        ("metadata metadata.json", 0),
        ("metadata metadata.json --min cik=1", 0),
        ("metadata metadata.json --min form=0.1", 1),
        ("structure structure.json --min locF1=1", 1),
        ("structure structure.json --min nonsense=1", 2),
        ("structure wrong.json", 2),
        ("structure nowhere", 2),
        ("retrieval empty.jsonl", 2),
        ("answers questions.jsonl", 2),
    ];
    for (arguments, code) in codes {
        assert_eq!(
            eval(arguments).code,
            Some(code),
            "{arguments}: {:?}",
            eval(arguments)
        );
    }
    // An invalid question, an invalid page and an unknown document do not stop the batch.
    let of = |more: &str| eval(&format!("retrieval questions.jsonl{more}")).json();
    let plain = of("");
    let missing = of(" --count-missing");
    assert_eq!(
        (
            plain["means"][0]["questions"].clone(),
            plain["unscored"].as_array().map(Vec::len)
        ),
        (1.into(), Some(3))
    );
    assert_eq!(missing["means"][0]["questions"], 3, "{missing}");
    assert_eq!(
        eval("answers questions.jsonl").json()["error"]["code"],
        "config.no_model"
    );
    let wrong = eval("structure wrong.json").json()["error"].clone();
    assert_eq!(wrong["code"], "eval.truth_invalid");
    assert!(
        wrong["message"]
            .as_str()
            .unwrap()
            .contains("wrong.json: line 2: invalid type"),
        "{wrong}"
    );
    let output = lab
        .stemma(
            "store",
            ["eval", "structure", "structure.json", "--details"],
        )
        .run();
    assert!(
        output.out.contains("mean of all (2)")
            && output.out.contains("missed          2  No such title"),
        "{}",
        output.out
    );
    assert!(
        output.err.contains("not scored: locked (it has no tree: "),
        "{}",
        output.err
    );
}

#[test]
fn errors_name_a_reason_and_a_next_step() {
    let (lab, _) = library();
    lab.put(
        "other/annual.pdf",
        generate(&Spec {
            pages: 8,
            ..Spec::new(FilingKind::TenQ, 24)
        })
        .pdf,
    );
    lab.ingest("store", &[]);
    let refused: [(&[&str], &str); 21] = [
        (&["tree", "nothing"], "locator.not_found"),
        (&["tree", "annual"], "locator.ambiguous"),
        (&["cat", "scanned#item-99"], "locator.no_item"),
        (&["cat", "scanned#p=900"], "locator.no_page"),
        (&["stat", "scanned#9999"], "locator.no_section"),
        (&["ls", "/@nope"], "scope.facet_unknown"),
        (&["ls", "/@company/Nobody"], "scope.not_found"),
        (&["grep", "("], "grep.pattern_invalid"),
        (&["cat", "scanned#p=abc"], "locator.invalid"),
        (&["cat", "/"], "locator.folder"),
        (&["stat", "/@company"], "locator.folder"),
        (&["ls", "/", "--where", "color=red"], "filter.invalid"),
        (&["browse", "/", "?!"], "search.no_words"),
        (&["search", "?!"], "search.no_words"),
        (&["search", "risk", "--strategy", "beam"], "config.no_model"),
        (
            &["search", "risk", "--strategy", "beam", "--skip", "5"],
            "search.skip_unsupported",
        ),
        (&["ingest", "nowhere.pdf"], "input.not_found"),
        (&["rm", "/"], "rm.not_confirmed"),
        (&["export"], "export.one_document_only"),
        (&["status", "j-0"], "job.unknown"),
        (&["--config", "none.toml", "config"], "config.invalid"),
    ];
    for (question, code) in refused {
        let answer = lab.stemma("store", ["--json"]).args(question).run();
        assert_eq!(answer.code, Some(2), "{question:?}: {answer:?}");
        let error = &answer.json()["error"];
        assert_eq!(error["code"], code, "{question:?}");
        assert!(
            !error["message"].as_str().unwrap().is_empty(),
            "{question:?}: {error}"
        );
        assert!(
            error["next"].as_str().is_some_and(|next| !next.is_empty()),
            "{question:?}: {error}"
        );
        let text = lab.stemma("store", question.iter().copied()).run();
        assert_eq!(
            (text.code, text.out.as_str()),
            (Some(2), ""),
            "{question:?}"
        );
        assert!(
            text.err.starts_with("error: ") && text.err.contains("\nnext:  "),
            "{question:?}: {}",
            text.err
        );
    }
    let missing = lab.stemma("no-store", ["--json", "ls"]).run();
    assert_eq!(
        (missing.code, &missing.json()["error"]["code"]),
        (Some(2), &Value::from("store.missing"))
    );
    assert!(!lab.path("no-store").exists(), "asking made a store");
    for nothing in [
        &["search", "zzzqqq"][..],
        &["grep", "-r", "zzzqqq"],
        &["config", "zzzqqq"],
    ] {
        assert_eq!(
            lab.stemma("store", nothing.iter().copied()).run().code,
            Some(1),
            "{nothing:?}"
        );
    }
    assert_eq!(lab.stemma("store", ["no-command"]).run().code, Some(2));
}

#[test]
fn unknown_settings_suggest_the_nearest_key() {
    let lab = TestEnv::new();
    lab.put("a.md", markdown(1, 3).0);
    std::fs::write(lab.path("stemma.toml"), "[limits]\nmax_page = 3\n").unwrap();
    for command in [vec!["ingest", "filings"], vec!["config"]] {
        let answer = lab.stemma("store", ["--json"]).args(&command).run();
        assert_eq!(answer.code, Some(2));
        let message = answer.json()["error"]["message"].to_string();
        assert!(
            message.contains("`limits.max_page`") && message.contains("`limits.max_pages`"),
            "{message}"
        );
    }
    assert!(
        !lab.path("store").exists(),
        "a store was made under settings that are wrong"
    );
    // One answer, whatever is wrong.
    let doctor = lab.stemma("store", ["--json", "doctor"]).run();
    assert_eq!(doctor.code, Some(2), "{doctor:?}");
    let failed = doctor
        .json()
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["result"] == "failed")
        .count();
    assert_eq!(failed, 1, "{doctor:?}");
    std::fs::remove_file(lab.path("stemma.toml")).unwrap();
    let variable = lab
        .stemma("store", ["config"])
        .env("STEMMA_LIMITS__MAX_PAGE", "3")
        .run();
    assert!(
        variable.code == Some(2) && variable.err.contains("limits.max_pages"),
        "{variable:?}"
    );
}

#[test]
fn variables_of_settings_that_are_texts_keep_their_digits() {
    let lab = TestEnv::new();
    let digest = "0".repeat(64);
    let settings = lab
        .stemma("store", ["--json", "config"])
        .env("STEMMA_OCR__SECOND_READER", &digest)
        .env("STEMMA_MODEL__NAME", "4.10")
        .env("STEMMA_MODEL__BASE_URL", "true")
        .env("STEMMA_LIMITS__MAX_PAGES", "30")
        .run()
        .json();
    let setting = |key: &str| {
        let all = settings.as_array().unwrap();
        let found = all.iter().find(|setting| setting["key"] == key).unwrap();
        (found["value"].clone(), found["source"].clone())
    };
    let read = |value: serde_json::Value, name: &str| (value, name.into());
    for (key, expected) in [
        (
            "ocr.second_reader",
            read(digest.into(), "STEMMA_OCR__SECOND_READER"),
        ),
        ("model.name", read("4.10".into(), "STEMMA_MODEL__NAME")),
        (
            "model.base_url",
            read("true".into(), "STEMMA_MODEL__BASE_URL"),
        ),
        (
            "limits.max_pages",
            read(30.into(), "STEMMA_LIMITS__MAX_PAGES"),
        ),
    ] {
        assert_eq!(setting(key), expected, "{key}");
    }
}

#[test]
fn piped_output_has_no_color_and_tolerates_a_closed_pipe() {
    let (lab, _) = library();
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "xterm-256color")] {
        for command in [
            &["ls", "-R"][..],
            &["tree", "annual"],
            &["stat", "annual"],
            &["search", "risk"],
        ] {
            let answer = lab
                .stemma("store", command.iter().copied())
                .env(name, value)
                .run();
            assert_eq!(answer.code, Some(0), "{command:?}: {answer:?}");
            assert!(
                !answer.out.contains('\u{1b}') && !answer.err.contains('\u{1b}'),
                "{command:?}: {answer:?}"
            );
        }
    }
    for command in [
        "ls -R",
        "tree annual",
        "cat annual",
        "export --format pages",
        "--json tree annual",
    ] {
        let answer = closed_pipe(&lab, command);
        assert!(
            !answer.err.contains("panic") && !answer.err.contains("roken pipe"),
            "{command}: {answer:?}"
        );
        assert!(answer.out.lines().count() <= 1, "{command}: {answer:?}");
    }
}

/// Runs `stemma … | head -1` in a shell.
fn closed_pipe(lab: &TestEnv, command: &str) -> CommandOutput {
    let script = r#""$0" --store "$1" $2 | head -1"#;
    let store = lab.path("store");
    lab.shell(
        script,
        [
            env!("CARGO_BIN_EXE_stemma"),
            store.to_str().unwrap(),
            command,
        ],
    )
}

#[test]
fn readers_work_next_to_a_writer_but_a_second_writer_fails() {
    let lab = TestEnv::new();
    lab.put_twelve();
    let gate = Gate::close(&lab);
    let writer = lab.stemma("store", ["ingest", "filings"]);
    let mut writer = gate.before(writer).start();
    let pid = writer.pid();
    writer.wait_until("a document is published", || {
        has_object(&lab.path("store"), "/changes/")
    });
    writer.suspend();
    let second = lab.stemma("store", ["--json", "ingest", "filings"]).run();
    let reader = lab.stemma("store", ["--json", "ls", "-R"]).run();
    let status = lab.stemma("store", ["--json", "status"]).run();
    writer.signal(rustix::process::Signal::CONT);
    gate.open();
    assert_eq!(second.code, Some(2), "{second:?}");
    let error = &second.json()["error"];
    assert_eq!(error["code"], "store.locked");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains(&format!("process {pid} ")),
        "{error}"
    );
    assert!(
        reader.code == Some(0) && reader.json()["total"].as_u64() > Some(0),
        "{reader:?}"
    );
    assert_eq!(status.json()["writer"]["pid"], pid);
    assert_eq!(status.json()["jobs"][0]["state"], "running");
    assert_eq!(writer.end().code, Some(0));
}

#[test]
fn hostile_file_names_are_escaped() {
    let lab = TestEnv::new();
    let long = format!("{}.md", "n".repeat(252));
    let chinese = format!("{}.md", "年".repeat(84));
    let names = [
        "two words.md",
        "red\u{1b}[31m.md",
        "bidi\u{202e}fdp.md",
        "new\nline.md",
        "x..secret..md",
        "-rf.md",
        "a#b@c.md",
        "100%.md",
        &long,
        &chinese,
    ];
    for (n, name) in names.iter().enumerate() {
        lab.put(
            &format!("deep/{name}"),
            format!("# Title {n}\n\nWords of number {n}.\n"),
        );
    }
    let ingested = lab.stemma("store", ["ingest", "filings"]).run();
    assert_eq!(ingested.code, Some(0), "{ingested:?}");
    let listed = lab.stemma("store", ["ls", "-R"]).run();
    let lines = listed.out.lines().count();
    assert_eq!(lines, names.len() + 1, "{}", listed.out); // and the heads
    for answer in [&ingested, &listed] {
        let output = format!("{}{}", answer.out, answer.err);
        assert!(!output.contains(['\u{1b}', '\u{202e}']), "{output:?}");
    }
    // Listed locators are accepted as input.
    let json = lab.stemma("store", ["--json", "ls", "-R"]).run().json();
    for document in json["documents"].as_array().unwrap() {
        let locator = document["locator"].as_str().unwrap();
        let stat = lab.stemma("store", ["--json", "stat", "--", locator]).run();
        assert_eq!(stat.code, Some(0), "{locator:?}: {stat:?}");
        assert_eq!(
            stat.json()["document"]["doc_id"],
            document["doc_id"],
            "{locator:?}"
        );
    }
    // Document names are never used as paths, neither in the store nor by export.
    assert!(
        crate::support::objects(&lab.path("store"))
            .keys()
            .all(|key| !key.contains("secret"))
    );
    let exported = lab.stemma("store", ["export", "--out", "out/below"]).run();
    assert_eq!(exported.code, Some(0), "{exported:?}");
    assert_eq!(
        crate::support::files(&lab.path("out/below")).len(),
        names.len()
    );
    assert_eq!(
        crate::support::files(&lab.path("out")).len(),
        names.len(),
        "something was written next to the folder"
    );
}

#[test]
fn outside_links_and_special_files_are_skipped() {
    let lab = TestEnv::new();
    lab.put("a.md", markdown(1, 3).0);
    std::fs::write(lab.path("outside.md"), "# Outside\n").unwrap();
    std::os::unix::fs::symlink(lab.path("outside.md"), lab.filings().join("link.md")).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all.md", lab.filings().join("dangling.md")).unwrap();
    assert_eq!(
        lab.shell(
            r#"mkfifo "$0""#,
            [lab.filings().join("pipe.pdf").to_str().unwrap()]
        )
        .code,
        Some(0)
    );
    let ingested = lab.ingest("store", &[]);
    assert_eq!(ingested["counts"]["total"], 1, "{ingested:#}");
    let refused = ingested["refused"].as_array().unwrap();
    for (name, reason) in [
        ("link.md", "out of the folder"),
        ("dangling.md", "broken link"),
        ("pipe.pdf", "regular"),
    ] {
        let row = refused
            .iter()
            .find(|row| row["path"].as_str().unwrap().ends_with(name));
        assert!(
            row.unwrap()["reason"].as_str().unwrap().contains(reason),
            "{name}: {refused:?}"
        );
    }
    let direct = lab
        .stemma("store", ["--json", "ingest", "filings/pipe.pdf"])
        .run();
    assert_eq!(
        direct.code,
        Some(2),
        "a pipe that is named is not read either: {direct:?}"
    );
}

#[test]
fn pages_of_a_tree_have_200_sections() {
    let lab = TestEnv::new();
    let text: String = (0..250)
        .map(|number| format!("# Section {number}\n\ntext\n\n"))
        .collect();
    lab.put("long.md", text);
    lab.ingest("store", &[]);
    let rows = |arguments: &[&str]| {
        let command = [&["--json", "tree", "long"], arguments].concat();
        let tree = lab.stemma("store", command.iter().copied()).run().json();
        (
            tree["sections"].as_array().unwrap().len(),
            tree["total"].clone(),
        )
    };
    assert_eq!(rows(&[]), (250, 250.into()));
    assert_eq!(rows(&["--page", "1"]), (200, 250.into()));
    assert_eq!(rows(&["--page", "2"]), (50, 250.into()));
    let first = lab.stemma("store", ["tree", "long", "--page", "1"]).run();
    assert!(
        first.err.contains("rows 1–200 of 250; more with --page 2"),
        "{first:?}"
    );
}

//! `stemma ask` and `stemma chat` against a simulated provider.

use serde_json::{Value, json};
use stemma_sim::{Behavior, Provider};
use tokio::runtime::Runtime;

use crate::support::{CommandOutput, TestEnv, objects};

const REPORT: &str = "# Business\n\nWe make anvils for coyotes.\n\n# Spending\n\nSpending on anvils was $1,577 million in 2022.\n";

/// An archive of one text, and a provider that quotes what it is shown.
struct AskEnv {
    lab: TestEnv,
    provider: Provider,
    /// Runs the provider.
    _runtime: Runtime,
}

impl AskEnv {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let provider = runtime
            .block_on(Provider::start(Behavior::default()))
            .unwrap();
        let lab = TestEnv::new();
        lab.put("report.md", REPORT);
        lab.ingest("store", &[]);
        Self {
            lab,
            provider,
            _runtime: runtime,
        }
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        let command = self
            .lab
            .stemma("store", arguments.iter().copied())
            .env("STEMMA_MODEL__NAME", "sim");
        command
            .env("STEMMA_MODEL__BASE_URL", &self.provider.base_url("cli"))
            .run()
    }
}

/// The lines that `stemma chat` prints for some questions, and its output.
fn chat(hall: &AskEnv, questions: &str, options: &str) -> (Vec<Value>, CommandOutput) {
    let script = r#"printf "$3" | STEMMA_MODEL__NAME=sim STEMMA_MODEL__BASE_URL="$2" "$0" --store "$1" chat --jsonl $4"#;
    let store = hall.lab.path("store");
    let url = hall.provider.base_url("chat");
    let program = env!("CARGO_BIN_EXE_stemma");
    let arguments = [program, store.to_str().unwrap(), &url, questions, options];
    let output = hall.lab.shell(script, arguments);
    let lines = output.out.lines();
    (
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
        output,
    )
}

fn text(answer: &CommandOutput) -> String {
    answer.out.clone()
}

#[test]
fn answers_cite_sources_and_are_cached() {
    let hall = AskEnv::new();
    let question = "How much was spending on anvils?";
    let answer = hall.run(&["ask", question]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(
        text(&answer).contains("[1] ✓ report line 7 · Spending"),
        "{answer:?}"
    );
    assert!(
        text(&answer).contains("Spending on anvils was $1,577 million in 2022 [1]."),
        "{answer:?}"
    );
    let again = hall.run(&["--json", "ask", question]).json();
    assert_eq!(
        (&again["replayed"], &again["citations"][0]["verified"]),
        (&true.into(), &"exact".into())
    );
    let explained = text(&hall.run(&["ask", question, "--explain", "--show-context"]));
    assert!(
        explained.contains("search")
            && explained.contains("cited")
            && explained.contains("── report#"),
        "{explained}"
    );
    assert_eq!(hall.provider.report().calls, 1);
}

#[test]
fn exit_codes_reflect_the_outcome() {
    let hall = AskEnv::new();
    let none = hall.run(&["ask", "Which spacecraft visited Neptune?"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(text(&none).contains("Not in these documents"), "{none:?}");
    assert_eq!(
        hall.run(&["ask", "anvils?", "--budget-calls", "0"]).code,
        Some(4)
    );
    assert_eq!(
        hall.run(&["ask", "anvils?", "--in", "NOBODY"]).code,
        Some(2)
    );
    assert_eq!(hall.run(&["ask", "  "]).code, Some(2));
    let without = hall
        .lab
        .stemma("store", ["ask", "spending on anvils"])
        .run();
    assert_eq!(without.code, Some(5), "{without:?}");
    assert!(text(&without).contains("report#"), "{without:?}");
    let away = hall
        .lab
        .stemma("store", ["ask", "spending on anvils"])
        .env("STEMMA_MODEL__NAME", "sim");
    let away = away
        .env("STEMMA_MODEL__BASE_URL", "http://127.0.0.1:9/v1")
        .run();
    assert_eq!(away.code, Some(5), "{away:?}");
    assert!(
        !away.err.contains("ERROR") && away.err.contains("model."),
        "no log on a terminal: {away:?}"
    );
    // Cached replies count as answered by a model, but cost nothing.
    hall.run(&["ask", "How much was spending on anvils?", "--sections", "4"]);
    let remembered = hall.run(&["ask", "How much was spending on anvils?", "--sections", "5"]);
    assert!(
        remembered.err.contains("cached replies, 0 calls"),
        "{remembered:?}"
    );
    let long =
        "Background about markets. ".repeat(200) + "QUESTION: how much was spending on anvils?";
    let refused = hall.run(&["ask", &long]);
    assert!(
        refused.code == Some(2) && refused.err.contains("at most 4000"),
        "{refused:?}"
    );
    assert_eq!(hall.run(&["ask", "anvils?", "--item", "99"]).code, Some(2));
    assert_eq!(
        hall.run(&["--collection", "other", "ask", "anvils?"]).code,
        Some(2)
    );
    assert!(!hall.lab.path("store").join("c/other/answers").exists());
}

#[test]
fn chat_answers_each_line() {
    let hall = AskEnv::new();
    let script = r#"{ printf '%s\n' 'How much was spending on anvils?' '' '/in NOBODY' '/info what' '???'; printf 'caf\351?\n';
        printf '%s\n' '/in' 'And for whom?' '/new' '/quit' 'never asked'; } |
        STEMMA_MODEL__NAME=sim STEMMA_MODEL__BASE_URL="$2" "$0" --store "$1" chat --jsonl"#;
    let store = hall.lab.path("store");
    let url = hall.provider.base_url("chat");
    let answer = hall.lab.shell(
        script,
        [env!("CARGO_BIN_EXE_stemma"), store.to_str().unwrap(), &url],
    );
    assert_eq!(answer.code, Some(2), "{answer:?}");
    let lines: Vec<Value> = text(&answer)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // A line for each question, also for those that could not be asked; `/info` is not a question, and `/in NOBODY` changes nothing.
    assert_eq!(lines.len(), 4, "{answer:?}");
    assert!(
        lines[1]["question"] == "???" && lines[1]["error"]["code"].is_string(),
        "{answer:?}"
    );
    assert_eq!(lines[2]["error"]["code"], "input.encoding");
    assert!(
        answer.err.contains("use /in SCOPE") && answer.err.contains("NOBODY"),
        "{answer:?}"
    );
    assert_eq!(lines[3]["question"], "And for whom?");
    // It was understood from the question before.
    assert_eq!(
        lines[3]["searched"]["queries"][0],
        "And for whom? (How much was spending on anvils?)"
    );
}

#[test]
fn chats_are_stored_resumed_listed_and_deleted() {
    let hall = AskEnv::new();
    let list = || hall.run(&["--json", "chat", "--list"]);
    assert_eq!(list().code, Some(1));
    let none = chat(&hall, "and?\\n", "--resume").1;
    assert!(
        none.code == Some(2) && none.out.contains("no conversation is stored"),
        "{none:?}"
    );
    let first = "How much was spending on anvils?";
    let (lines, output) = chat(
        &hall,
        &format!("{first}\\n/new\\nWho buys?\\n"),
        "--in report",
    );
    let ids: Vec<&str> = lines
        .iter()
        .map(|line| line["conversation"].as_str().unwrap())
        .collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{output:?}");
    for id in &ids {
        let ending = format!("stemma chat --resume {id}");
        assert!(output.err.contains(&ending), "{output:?}");
    }
    // The newest, or the one with this id; within the scope that it was started with.
    let (newest, _) = chat(&hall, "And for whom?\\n", "--resume");
    assert_eq!(newest[0]["conversation"], ids[1]);
    let (lines, output) = chat(&hall, "And for whom?\\n", &format!("--resume {}", ids[0]));
    assert_eq!(lines[0]["conversation"], ids[0], "{output:?}");
    assert_eq!(
        lines[0]["searched"]["queries"][0],
        format!("And for whom? ({first})")
    );
    let listed = list().json();
    let listed = listed["conversations"].as_array().unwrap();
    assert_eq!(
        (&listed[0]["id"], &listed[1]["id"]),
        (&json!(ids[1]), &json!(ids[0]))
    );
    assert_eq!(
        (
            &listed[1]["title"],
            &listed[1]["length"],
            &listed[1]["scopes"]
        ),
        (&json!(first), &json!(2), &json!(["report"]))
    );
    let shown = hall.run(&["chat", "--list", "--limit", "1"]);
    assert!(
        shown.out.contains("Who buys?") && !shown.out.contains(first),
        "{shown:?}"
    );
    assert_eq!(hall.run(&["chat", "--delete", ids[1]]).code, Some(0));
    for name in [ids[1], "../answers", "new"] {
        let unknown = hall.run(&["--json", "chat", "--delete", name]);
        assert_eq!(
            unknown.json()["error"]["code"],
            "conversation.not_found",
            "{unknown:?}"
        );
    }
    assert_eq!(list().json()["conversations"].as_array().unwrap().len(), 1);
}

#[test]
fn a_chat_that_cannot_be_stored_goes_on_and_says_so_once() {
    let hall = AskEnv::new();
    // A file where the folder of conversations would be, since tests may run as root.
    let blocked = hall.lab.path("store/objects/c/default/conversations");
    std::fs::write(blocked, "").unwrap();
    let questions = "How much was spending on anvils?\\nAnd for whom?\\n";
    let (lines, output) = chat(&hall, questions, "");
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(lines.len(), 2);
    assert!(lines[1].get("conversation").is_none(), "{output:?}");
    assert_eq!(
        lines[1]["searched"]["queries"][0],
        "And for whom? (How much was spending on anvils?)"
    );
    assert_eq!(output.err.matches("are not kept").count(), 1, "{output:?}");
    assert!(!output.err.contains("--resume"), "{output:?}");
}

#[test]
fn answer_evaluation_resumes_from_its_output_file() {
    let hall = AskEnv::new();
    let question = |id: u32, text: &str| {
        json!({ "id": id, "question": text, "doc": "report", "answer": "$1,577 million" })
            .to_string()
            + "\n"
    };
    let first = question(1, "How much was spending on anvils?");
    let second = question(2, "What did anvils cost?");
    std::fs::write(hall.lab.path("one.jsonl"), &first).unwrap();
    std::fs::write(
        hall.lab.path("all.jsonl"),
        first + &question(3, "???") + &second,
    )
    .unwrap();
    let lines = || {
        std::fs::read_to_string(hall.lab.path("answers.jsonl"))
            .unwrap()
            .lines()
            .count()
    };
    let command = |file| {
        [
            "--json",
            "eval",
            "answers",
            file,
            "--out",
            "answers.jsonl",
            "--no-judge",
        ]
    };
    // A question without a model's answer leaves no row, so it is asked again.
    let away = hall
        .lab
        .stemma("store", command("one.jsonl"))
        .env("STEMMA_MODEL__NAME", "sim");
    let away = away
        .env("STEMMA_MODEL__BASE_URL", "http://127.0.0.1:9/v1")
        .run();
    assert_eq!(
        (away.code, &away.json()["unscored"][0]["doc"], lines()),
        (Some(1), &json!("1"), 0),
        "{away:?}"
    );
    let one = hall.run(&command("one.jsonl"));
    assert_eq!(one.code, Some(0), "{one:?}");
    let one = one.json();
    assert_eq!(
        (&one["questions"][0]["outcome"], lines()),
        (&json!("answered"), 1)
    );
    assert_eq!(
        (&one["means"][0]["numbers"], &one["means"][0]["numbers_of"]),
        (&json!(1.0), &json!(1))
    );
    // Simulate a run that was killed while it wrote a line.
    let torn =
        std::fs::read_to_string(hall.lab.path("answers.jsonl")).unwrap() + "{\"id\": \"2\", \"ques";
    std::fs::write(hall.lab.path("answers.jsonl"), torn).unwrap();
    let all = hall.run(&command("all.jsonl"));
    assert!(all.err.contains("1 already answered, 2 to go"), "{all:?}");
    let report = all.json();
    assert_eq!(
        (&report["means"][0]["questions"], &report["questions"][0]),
        (&json!(2), &one["questions"][0])
    );
    assert_eq!(
        (
            &report["unscored"][0]["doc"],
            report["unscored"].as_array().map(Vec::len)
        ),
        (&json!("3"), Some(1))
    );
    let again = hall.run(&command("all.jsonl"));
    assert!(
        again.err.contains("2 already answered, 1 to go"),
        "{again:?}"
    );
    let stopped = hall.run(&[
        "eval",
        "answers",
        "all.jsonl",
        "--jobs",
        "1",
        "--budget-tokens",
        "0",
    ]);
    assert_eq!(stopped.code, Some(4), "{stopped:?}");
}

#[test]
fn evaluation_budget_covers_answers_and_judgements() {
    const BUDGET: u64 = 12_000;
    let hall = AskEnv::new();
    std::fs::write(
        hall.lab.path("questions.jsonl"),
        (0..16).map(|n: usize| {
        format!(
            "{{\"id\": {n}, \"question\": \"How much was spending on anvils, time {n}?\", \"answer\": \"$1,577 million\"}}\n"
        )
    }).collect::<String>(),
    )
    .unwrap();
    let measure = |more: &[&str]| {
        let command = [
            "--json",
            "eval",
            "answers",
            "questions.jsonl",
            "--out",
            "rows.jsonl",
        ];
        hall.run(&[&command[..], more].concat())
    };
    let total_tokens = || {
        let all = hall.provider.report().all;
        all.prompt_tokens + all.output_tokens
    };
    let unpriced = measure(&["--budget", "1"]);
    assert_eq!(
        (unpriced.code, &unpriced.json()["error"]["code"]),
        (Some(2), &"config.no_price".into())
    );
    let stopped = measure(&["--budget-tokens", &BUDGET.to_string()]);
    assert_eq!(stopped.code, Some(4), "{stopped:?}");
    let first = stopped.json();
    let rows = first["questions"].as_array().unwrap();
    assert!(
        (2..16).contains(&rows.len())
            && rows.iter().all(|row| row["judged"]["verdict"].is_string()),
        "{first}"
    );
    let judge = &hall.provider.report().stages["judge"];
    assert!(
        total_tokens() <= BUDGET && judge.calls >= rows.len(),
        "{} tokens: {judge:?}",
        total_tokens()
    );
    let sum: u64 = rows
        .iter()
        .flat_map(|row: &Value| {
            ["prompt_tokens", "output_tokens", "judge_tokens"]
                .map(|name| row[name].as_u64().unwrap())
        })
        .sum();
    assert!(
        sum <= total_tokens() && sum > total_tokens() / 2,
        "{sum} of {}",
        total_tokens()
    );
    // The budget includes earlier rows: the same budget does nothing, a larger one resumes.
    let before = total_tokens();
    assert_eq!(
        measure(&["--budget-tokens", &sum.to_string()]).code,
        Some(4)
    );
    assert_eq!(total_tokens(), before);
    let all = measure(&[]);
    assert_eq!(
        (all.code, all.json()["questions"].as_array().unwrap().len()),
        (Some(0), 16),
        "{all:?}"
    );
    assert_eq!(hall.provider.report().repeated, 0, "nothing is paid twice");
}

#[test]
fn removing_a_document_removes_its_cached_answers() {
    let hall = AskEnv::new();
    hall.lab.put(
        "other.md",
        "# Loans\n\nLoans of crates were 42 in number.\n",
    );
    hall.lab.ingest("store", &[]);
    let ask =
        |question: &str, doc: &str| hall.run(&["--json", "ask", question, "--in", doc]).json();
    let spending = ask("How much was spending on anvils?", "report");
    let loans = ask("How many loans of crates were there?", "other");
    let stored_with = |text: &str| {
        let of_answers = |key: &str| key.contains("/answers/") || key.contains("/replies/");
        let holds = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(text);
        objects(&hall.lab.path("store"))
            .into_iter()
            .filter(|(key, bytes)| of_answers(key) && holds(bytes))
            .count()
    };
    assert!(
        stored_with("1,577") >= 2 && stored_with("crates") >= 2,
        "the answer, and the reply of the model: {spending} {loans}"
    );
    let none = hall.run(&["--json", "gc", "--dry-run"]);
    assert_eq!(
        (none.code, &none.json()["objects"]),
        (Some(0), &0.into()),
        "{none:?}"
    );
    assert_eq!(hall.run(&["rm", "report", "--yes"]).code, Some(0));
    let swept = hall.run(&["--json", "--yes", "gc"]).json();
    assert_eq!(
        swept["by_kind"]["answer without its documents"], 1,
        "{swept}"
    );
    assert_eq!(stored_with("1,577"), 0, "{swept}");
    let calls = hall.provider.report().calls;
    assert_eq!(
        ask("How many loans of crates were there?", "other")["id"],
        loans["id"]
    );
    assert_eq!(
        hall.provider.report().calls,
        calls,
        "what rests on others is kept"
    );
}

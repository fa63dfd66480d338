//! `stemma ask` and `stemma chat`, before a simulated provider on this machine.

use serde_json::Value;
use stemma_sim::{Behavior, Provider};
use tokio::runtime::Runtime;

use crate::support::{Answer, Lab};

const REPORT: &str =
    "# Business\n\nWe make anvils for coyotes.\n\n# Spending\n\nSpending on anvils was $1,577 million in 2022.\n";

/// An archive of one text, and a provider that quotes what it is shown.
struct Hall {
    lab: Lab,
    provider: Provider,
    /// What the provider lives in.
    _runtime: Runtime,
}

impl Hall {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let provider = runtime.block_on(Provider::start(Behavior::default())).unwrap();
        let lab = Lab::new();
        lab.put("report.md", REPORT);
        lab.ingest("store", &[]);
        Self { lab, provider, _runtime: runtime }
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        let command = self.lab.stemma("store", arguments.iter().copied()).env("STEMMA_MODEL__NAME", "sim");
        command.env("STEMMA_MODEL__BASE_URL", &self.provider.base_url("cli")).run()
    }
}

fn text(answer: &Answer) -> String {
    answer.out.clone()
}

#[test]
fn an_answer_shows_what_it_rests_on_and_costs_nothing_again() {
    let hall = Hall::new();
    let question = "How much was spending on anvils?";
    let answer = hall.run(&["ask", question]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(text(&answer).contains("[1] ✓ report line 7 · Spending"), "{answer:?}");
    assert!(text(&answer).contains("Spending on anvils was $1,577 million in 2022 [1]."), "{answer:?}");
    let again = hall.run(&["--json", "ask", question]).json();
    assert_eq!((&again["replayed"], &again["citations"][0]["verified"]), (&true.into(), &"exact".into()));
    let explained = text(&hall.run(&["ask", question, "--explain", "--show-context"]));
    assert!(
        explained.contains("search") && explained.contains("cited") && explained.contains("── report#"),
        "{explained}"
    );
    assert_eq!(hall.provider.report().calls, 1);
}

#[test]
fn the_exit_code_says_what_came_of_it() {
    let hall = Hall::new();
    let none = hall.run(&["ask", "Which spacecraft visited Neptune?"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(text(&none).contains("Not in these documents"), "{none:?}");
    assert_eq!(hall.run(&["ask", "anvils?", "--budget-calls", "0"]).code, Some(4));
    assert_eq!(hall.run(&["ask", "anvils?", "--in", "NOBODY"]).code, Some(2));
    assert_eq!(hall.run(&["ask", "  "]).code, Some(2));
    let without = hall.lab.stemma("store", ["ask", "spending on anvils"]).run();
    assert_eq!(without.code, Some(0), "{without:?}");
    assert!(text(&without).contains("report#"), "{without:?}");
}

#[test]
fn a_chat_goes_on_line_by_line() {
    let hall = Hall::new();
    let script = r#"printf '%s\n' 'How much was spending on anvils?' '' '/in NOBODY' 'x' '/in' 'And for whom?' '/new' '/quit' 'never asked' |
        STEMMA_MODEL__NAME=sim STEMMA_MODEL__BASE_URL="$2" "$0" --store "$1" chat --jsonl"#;
    let (store, url) = (hall.lab.path("store"), hall.provider.base_url("chat"));
    let answer = hall.lab.shell(script, [env!("CARGO_BIN_EXE_stemma"), store.to_str().unwrap(), &url]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let lines: Vec<Value> = text(&answer).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{answer:?}");
    assert_eq!(lines[1]["question"], "And for whom?");
    // It was understood from the question before.
    assert_eq!(lines[1]["searched"]["queries"][0], "And for whom? (How much was spending on anvils?)");
}

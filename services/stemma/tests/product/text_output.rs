//! Text that people read: output, help and errors of the most used commands, as snapshots.

use regex::Regex;
use stemma_filings::{FilingKind, Spec, generate, markdown};

use crate::support::TestEnv;

/// The 10-Ks of two years, a text, a file that is not a PDF and one of an unsupported type.
fn put_documents(env: &TestEnv) {
    for year in [2021, 2022] {
        let spec = Spec {
            pages: 10,
            ..Spec::new(FilingKind::TenK, year)
        };
        env.put(&format!("10-K/annual-{year}.pdf"), generate(&spec).pdf);
    }
    let guide = markdown(1, 6).0;
    env.put("guide.md", &guide);
    env.put("guide-copy.md", &guide);
    env.put("broken.pdf", "not a PDF");
    env.put("notes.docx", "x");
}

fn ingested() -> TestEnv {
    let env = TestEnv::new();
    put_documents(&env);
    env.ingest("store", &[]);
    env
}

/// A terminal session: commands with their output, and exit codes other than 0.
fn transcript(env: &TestEnv, commands: &[&[&str]]) -> String {
    let mut text = String::new();
    for arguments in commands {
        let output = env.stemma("store", *arguments).run();
        text.push_str(&format!("$ stemma {}\n", arguments.join(" ")));
        text.push_str(&output.out);
        text.push_str(&output.err);
        if output.code != Some(0) {
            text.push_str(&format!("exit code {:?}\n", output.code));
        }
        text.push('\n');
    }
    without_variable_parts(&text.replace(&env.path("").display().to_string(), "/tmp/test/"))
}

/// The text without times, rates and ids, which differ from run to run.
fn without_variable_parts(text: &str) -> String {
    let variable_parts = [
        (r"\d+\.\d s\b", "[seconds]"),
        (r"\d+/s\b", "[rate]/s"),
        (r"\d+ ms\b", "[ms]"),
        (r"answer a-[0-9a-f]{16}", "answer [id]"),
    ];
    let mut text = text.to_owned();
    // The same for all commands.
    if let Some((before, rest)) = text.split_once("Options of all commands:") {
        let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
        text = format!("{before}{after}");
    }
    for (pattern, name) in variable_parts {
        text = Regex::new(pattern)
            .unwrap()
            .replace_all(&text, name)
            .into_owned();
    }
    text
}

const BEFORE: &str = "\
# Leave policy

## Scope

This policy applies to all employees of the company in every country.

## Annual leave

Every employee has twenty days of paid leave in each calendar year. Unused days expire in March.

## Contact

Questions are answered by the personnel department on the second floor.
";

const AFTER: &str = "\
# Leave policy

## Scope

This policy applies to all employees of the company in every country.

## Paid leave

Every employee has twenty-five days of paid leave in each calendar year. Unused days expire in March.

## Remote work

Employees may work from another country for at most thirty days after they have told their manager.
";

#[test]
fn ingest_prints_a_summary() {
    let env = TestEnv::new();
    put_documents(&env);
    let commands: [&[&str]; 2] = [&["ingest", "filings"], &["ingest", "filings", "--dry-run"]];
    insta::assert_snapshot!(transcript(&env, &commands));
}

#[test]
fn documents_and_their_structure_are_listed() {
    let env = ingested();
    let commands: [&[&str]; 4] = [
        &["ls"],
        &["ls", "-R"],
        &["tree", "annual-2022", "-L", "2"],
        &["failures"],
    ];
    insta::assert_snapshot!(transcript(&env, &commands));
}

#[test]
fn searches_and_questions_without_a_model_print_excerpts() {
    let env = ingested();
    let commands: [&[&str]; 2] = [
        &["search", "competition and prices", "-n", "3"],
        &["ask", "What are the risk factors?", "--in", "annual-2022"],
    ];
    insta::assert_snapshot!(transcript(&env, &commands));
}

#[test]
fn diff_prints_changes_by_section() {
    let env = TestEnv::new();
    env.put("before.md", BEFORE);
    env.put("after.md", AFTER);
    env.ingest("store", &[]);
    let commands: [&[&str]; 2] = [
        &["diff", "before", "after"],
        &["diff", "before", "after", "--all", "--sentences", "3"],
    ];
    insta::assert_snapshot!(transcript(&env, &commands));
}

#[test]
fn help_lists_commands_and_examples() {
    let env = TestEnv::new();
    insta::assert_snapshot!(transcript(&env, &[&["--help"]]));
}

#[test]
fn help_of_ingest_explains_its_options() {
    let env = TestEnv::new();
    insta::assert_snapshot!(transcript(&env, &[&["ingest", "--help"]]));
}

#[test]
fn errors_say_what_is_wrong_and_what_to_do() {
    let env = ingested();
    let commands: [&[&str]; 11] = [
        &["ingest", "no-such-folder"],
        &["ingest", "filings/notes.docx"],
        &["tree", "anual-2022"],
        &["cat", "annual-2022#p=abc"],
        &["cat", "annual-2022#item-99"],
        &["ls", "--where", "years=2022"],
        &["search", "risk", "--where", "form="],
        &["grep", "risk", "/"],
        &["status", "j-0"],
        &["ls", "--collection", "Not Valid"],
        &["ingest", "filings", "--budget", "5", "--max-failed", "many"],
    ];
    insta::assert_snapshot!(transcript(&env, &commands));
}

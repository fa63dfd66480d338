//! Fixed sleeps in tests: a test polls for its condition with a limit, or its clock is paused.

use regex::Regex;

use crate::File;
use crate::names::without_tests;

/// Where time has to pass in a test, and why.
const ALLOWED: &[(&str, &str)] = &[
    ("services/stemma/tests/product/crash.rs", "a random moment"),
    (
        "shared/adapters/tests/rabbit/connection_loss.rs",
        "work takes time",
    ),
    (
        "shared/adapters/tests/rabbit/faults.rs",
        "longer than a broker may be silent",
    ),
    ("shared/extract/tests/pool.rs", "a child hangs"),
    ("tests/cluster/tests/fleet/procedures/", "a fault lasts"),
    ("tests/pipeline-tests/", "simulated clock"),
];

/// Sleeps in tests that are not a step of a loop and not on a paused clock.
pub fn violations(file: &File) -> Result<Vec<String>, regex::Error> {
    // A method `sleep` is that of an environment, which tests simulate.
    let sleep = Regex::new(r"(?:^|[^\w.:])(?:\w+::)*sleep\(")?;
    let is_loop = Regex::new(r"^\s*(?:'\w+: )?(?:.*(?: = |=> ))?(?:loop|while|for)\b")?;
    let is_allowed = ALLOWED.iter().any(|(path, _)| file.path.starts_with(path));
    let (before, tests) = tests(file);
    if is_allowed || tests.contains("start_paused") {
        return Ok(Vec::new());
    }
    let lines: Vec<&str> = tests.lines().collect();
    let is_fixed = |at: usize| {
        let line = lines[at];
        let is_comment = line.trim_start().starts_with("//");
        !is_comment
            && sleep.is_match(line)
            && !line.contains("fn sleep")
            && !enclosing(&lines, at).any(|line| is_loop.is_match(line))
    };
    Ok((0..lines.len())
        .filter(|at| is_fixed(*at))
        .map(|at| {
            format!(
                "{}:{}: `{}`: poll for the condition with a limit (stemma_engine_testing::wait)",
                file.path,
                before + at + 1,
                lines[at].trim()
            )
        })
        .collect())
}

// The tests in a file, and the number of lines before them.
fn tests(file: &File) -> (usize, &str) {
    if !file.path.ends_with(".rs") {
        return (0, "");
    }
    if file.path.contains("/tests/") || file.path.ends_with("tests.rs") {
        return (0, &file.text);
    }
    let product = without_tests(&file.text);
    (product.lines().count(), &file.text[product.len()..])
}

// The lines that begin the blocks around a line, from within, up to a function. Where a head has several lines its last is a brace.
fn enclosing<'l>(lines: &'l [&str], at: usize) -> impl Iterator<Item = &'l str> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut depth = indent(lines[at]);
    let mut in_head = false;
    let outer = lines[..at].iter().rev().filter(move |line| {
        let is_outer =
            !line.trim().is_empty() && (indent(line) < depth || (in_head && indent(line) == depth));
        if is_outer {
            depth = indent(line);
            in_head = line.trim() == "{";
        }
        is_outer
    });
    outer.copied().take_while(|line| !line.contains("fn "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files, root};

    fn check(path: &str, text: &str) -> usize {
        let file = File {
            path: path.into(),
            text: text.into(),
        };
        violations(&file).unwrap().len()
    }

    #[test]
    fn tests_have_no_fixed_sleeps() {
        let files = files(&root()).unwrap();
        let complaints = files.iter().flat_map(|file| violations(file).unwrap());
        assert_eq!(complaints.collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn allowed_paths_have_sleeps() {
        let files = files(&root()).unwrap();
        for (path, _) in ALLOWED {
            let mut texts = files.iter().filter(|file| file.path.starts_with(path));
            assert!(texts.any(|file| file.text.contains("sleep(")), "{path}");
        }
    }

    #[test]
    fn sleeps_outside_of_loops_are_violations() {
        let test = |body: &str| format!("fn loop_ends() {{\n{body}\n}}\n");
        let fixed = test(concat!("    tokio::time::sl", "eep(LONG).await;"));
        assert_eq!(check("shared/x/tests/a.rs", &fixed), 1);
        assert_eq!(check("shared/x/src/a.rs", &fixed), 0);
        let inline = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{fixed}}}\n");
        assert_eq!(check("shared/x/src/a.rs", &inline), 1);
        for polled in [
            "    while !done() {\n        sleep(STEP);\n    }",
            "    let end = loop {\n        if done() {\n            break;\n        }\n        std::thread::sleep(STEP);\n    };",
            "    while one()\n        .is_none()\n    {\n        sleep(STEP);\n    }",
            "    env.sleep(LONG).await;",
            "    // sleep(LONG)",
        ] {
            assert_eq!(check("shared/x/tests/a.rs", &test(polled)), 0, "{polled}");
        }
        let paused = format!("#[tokio::test(start_paused = true)]\n{fixed}");
        assert_eq!(check("shared/x/tests/a.rs", &paused), 0);
    }
}

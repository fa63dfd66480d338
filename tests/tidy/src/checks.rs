//! What CI runs: every check of `tests/run`, for each change or at night, among them the one for known vulnerabilities.

use crate::File;

const RUN: &str = "tests/run";
const CI: &str = ".ci/run";

/// Checks that exist and that CI does not run.
pub fn violations(files: &[File]) -> Vec<String> {
    let text = |path: &str| {
        let file = files.iter().find(|file| file.path == path);
        file.map(|file| file.text.as_str()).unwrap_or_default()
    };
    let run = text(RUN);
    let listed: Vec<&str> = run
        .lines()
        .filter_map(|line| {
            ["CHANGE=(", "NIGHTLY=("]
                .iter()
                .find_map(|list| line.strip_prefix(list))
        })
        .flat_map(|names| names.split(['"', ' ', ')']))
        .collect();
    let mut complaints: Vec<String> = run
        .lines()
        .filter_map(|line| line.strip_prefix("check_")?.strip_suffix("() {"))
        .filter(|check| !listed.contains(check))
        .map(|check| format!("{RUN} runs {check} neither for a change nor at night"))
        .collect();
    if !run.contains(
        "cargo deny --locked --offline --all-features check --hide-inclusion-graph advisories",
    ) {
        complaints.push(format!("{RUN} does not look for known vulnerabilities"));
    }
    if !text(CI).lines().any(|line| line == "exec tests/run \"$@\"") {
        complaints.push(format!("{CI} does not run {RUN} with all its checks"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files, root};

    /// D23 of the engine review: advisories were never checked.
    #[test]
    fn ci_runs_every_check() {
        let mut files = files(&root()).unwrap();
        assert_eq!(violations(&files), [""; 0]);
        let run = files.iter_mut().find(|file| file.path == RUN).unwrap();
        let whole = run.text.clone();
        run.text = whole.replace("(\"advisories ", "(\"");
        assert_eq!(violations(&files).len(), 1);
        files.retain(|file| file.path != CI);
        assert_eq!(violations(&files).len(), 2);
    }
}

//! What CI runs: every check of `tests/run`, among them the one for known vulnerabilities.

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
    let default = run
        .lines()
        .find_map(|line| line.split_once("then checks=(")?.1.split_once(')'))
        .map(|(names, _)| names.split(' ').collect::<Vec<_>>());
    let default = default.unwrap_or_default();
    let checks = run
        .lines()
        .filter_map(|line| line.strip_prefix("check_")?.strip_suffix("() {"));
    let mut complaints: Vec<String> = checks
        .filter(|check| !default.contains(check))
        .map(|check| format!("{RUN} without arguments does not run {check}"))
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
        run.text = whole.replace(" advisories); fi", "); fi");
        assert_eq!(violations(&files).len(), 1);
        files.retain(|file| file.path != CI);
        assert_eq!(violations(&files).len(), 2);
    }
}

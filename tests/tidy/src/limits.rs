//! Counts of what product code has too much of. `limits.toml` says how much there may be, and only falls.

use regex::Regex;

use crate::File;
use crate::names::{is_product, without_tests};

const LIMITS: &str = "tests/tidy/limits.toml";
// In a list. Fewer words are a choice in code.
const MIN_LIST: usize = 3;

/// Counts by name, in the order of the file of limits.
pub fn counts(files: &[File]) -> Result<Vec<(&'static str, usize)>, regex::Error> {
    let counter = Counter::new()?;
    let code: Vec<String> = files
        .iter()
        .filter(|file| is_product(&file.path))
        .map(|file| without_comments(&without_tests(&file.text)))
        .collect();
    let sum = |count: &dyn Fn(&str) -> usize| code.iter().map(|text| count(text)).sum();
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    Ok(vec![
        ("word_lists", sum(&|text| counter.word_lists(text).len())),
        ("words", sum(&|text| counter.word_lists(text).iter().sum())),
        ("words_in_code", sum(&|text| counter.words_in_code(text))),
        ("float_literals", sum(&|text| counter.floats(text))),
        ("closures_used_once", sum(&|text| counter.closures(text))),
        (
            "cut_iterators",
            sum(&|text| counter.cut_iterator.find_iter(text).count()),
        ),
        (
            "lines_with_stand_or_beside",
            sources.map(|file| counter.odd_lines(&file.text)).sum(),
        ),
    ])
}

/// Counts above their limits, or so far below that the limit has to fall. Merges of branches get a little room.
pub fn violations(limits: &str, counts: &[(&str, usize)]) -> Vec<String> {
    let limit = |name: &str| -> Option<usize> {
        limits.lines().find_map(|line| {
            let (found, value) = line.split_once(" = ")?;
            (found == name).then(|| value.parse().ok()).flatten()
        })
    };
    counts
        .iter()
        .filter_map(|&(name, count)| match limit(name) {
            None => Some(format!("{LIMITS} has no limit `{name}`; there are {count}")),
            Some(limit) if count > limit => {
                Some(format!("{name}: {count}, and {LIMITS} allows {limit}"))
            }
            Some(limit) if count + limit / 50 < limit => Some(format!(
                "{name}: {count}; lower its limit in {LIMITS} from {limit}"
            )),
            Some(_) => None,
        })
        .collect()
}

struct Counter {
    list: Regex,
    alternatives: Regex,
    literal: Regex,
    word: Regex,
    float: Regex,
    closure: Regex,
    cut_iterator: Regex,
    odd_word: Regex,
}

impl Counter {
    fn new() -> Result<Self, regex::Error> {
        Ok(Self {
            list: Regex::new(
                r"(?s)(?:const|static)\s+\w+\s*:\s*&?\[[^=;]*?&(?:'static )?str[^=]*?=\s*(.*?);\n",
            )?,
            // In a pattern, in an array, or compared with something.
            alternatives: Regex::new(
                r#""[^"\\]*"(?:\s*\|\s*"[^"\\]*")+|\[\s*"[^"\\]*"(?:\s*,\s*"[^"\\]*")+,?\s*\]|[=!]= "[^"\\]*""#,
            )?,
            literal: Regex::new(r#""(?:[^"\\]|\\.)*""#)?,
            word: Regex::new(r#""[A-Za-z][A-Za-z' ]*""#)?,
            float: Regex::new(r"[\w.]*\d\.\d[\w.]*")?,
            closure: Regex::new(r"^\s*let (\w+) = (?:move )?\|")?,
            cut_iterator: Regex::new(
                r"(?m)^\s*let (?:mut )?\w+ = [\w.&]+\.(?:iter|into_iter|chars|lines|values|keys|iter_mut|split_whitespace)\(\);",
            )?,
            odd_word: Regex::new(r"\b(?:stands?|besides?)\b")?,
        })
    }

    // The number of words in each constant list of strings.
    fn word_lists(&self, text: &str) -> Vec<usize> {
        self.list
            .captures_iter(text)
            .map(|list| self.literal.find_iter(&list[1]).count())
            .filter(|words| *words >= MIN_LIST)
            .collect()
    }

    // English words that code compares with, outside of the lists.
    fn words_in_code(&self, text: &str) -> usize {
        self.alternatives
            .find_iter(&self.list.replace_all(text, ""))
            .map(|found| self.word.find_iter(found.as_str()).count())
            .sum()
    }

    // Not of versions and of fields of tuples.
    fn floats(&self, text: &str) -> usize {
        self.float
            .find_iter(text)
            .filter(|found| {
                let (whole, fraction) = found.as_str().split_once('.').unwrap_or_default();
                let is_number = |part: &str| part.chars().all(|c| c.is_ascii_digit());
                is_number(whole) && is_number(fraction)
            })
            .count()
    }

    // Closures with a name that the rest of their block uses once at most.
    fn closures(&self, text: &str) -> usize {
        let lines: Vec<&str> = text.lines().collect();
        let is_used_once = |(at, line): (usize, &&str)| {
            let name = self.closure.captures(line)?.get(1)?.as_str();
            let block = lines[at + 1..]
                .iter()
                .take_while(|other| other.trim().is_empty() || indent(other) >= indent(line));
            let uses = block.map(|other| uses(other, name)).sum::<usize>();
            (uses <= 1).then_some(())
        };
        lines.iter().enumerate().filter_map(is_used_once).count()
    }

    fn odd_lines(&self, text: &str) -> usize {
        text.lines()
            .filter(|line| self.odd_word.is_match(line))
            .count()
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn uses(line: &str, name: &str) -> usize {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| *word == name)
        .count()
}

fn without_comments(text: &str) -> String {
    text.split_inclusive('\n')
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files, root};

    fn count(name: &str, text: &str) -> usize {
        let file = File {
            path: "shared/x/src/a.rs".into(),
            text: text.into(),
        };
        let counts = counts(&[file]).unwrap();
        counts.iter().find(|(other, _)| *other == name).unwrap().1
    }

    #[test]
    fn counts_stay_within_their_limits() {
        let limits = std::fs::read_to_string(root().join(LIMITS)).unwrap();
        let counts = counts(&files(&root()).unwrap()).unwrap();
        for (name, count) in &counts {
            println!("{name} = {count}");
        }
        assert_eq!(violations(&limits, &counts), [""; 0]);
    }

    #[test]
    fn limits_only_fall() {
        let limits = "words = 200\nfloat_literals = 3\n";
        assert_eq!(
            violations(limits, &[("words", 200), ("words", 196)]),
            [""; 0]
        );
        assert_eq!(violations(limits, &[("words", 201)]).len(), 1);
        assert_eq!(violations(limits, &[("words", 195)]).len(), 1);
        assert_eq!(violations(limits, &[("float_literals", 2)]).len(), 1);
        assert_eq!(violations(limits, &[("closures", 0)]).len(), 1);
    }

    #[test]
    fn words_are_counted_in_lists_and_in_code() {
        let list = "const FORMS: &[&str] = &[\n    \"inc\",\n    \"ltd\",\n    \"llc\",\n];\n";
        assert_eq!((count("word_lists", list), count("words", list)), (1, 3));
        assert_eq!(count("words_in_code", list), 0);
        let code = r#"matches!(word, "of" | "by") || ["less", "minus", "a-b"].contains(&word) || word != "net""#;
        assert_eq!((count("words", code), count("words_in_code", code)), (0, 5));
        assert_eq!(count("words", &format!("// {code}\n{list}")), 3);
    }

    #[test]
    fn numbers_with_fractions_are_counted() {
        assert_eq!(
            count("float_literals", "a < 0.5 && b.0.1 > 12.25 && \"1.2.3\""),
            2
        );
    }

    #[test]
    fn closures_and_iterators_with_needless_names_are_counted() {
        let once = "{\n    let is_a = |c| c == a;\n    all(is_a)\n}\nfn is_a() {}\n";
        assert_eq!(count("closures_used_once", once), 1);
        let twice = "{\n    let is_a = |c| c == a;\n    all(is_a) || any(is_a)\n}\n";
        assert_eq!(count("closures_used_once", twice), 0);
        let cut = "    let words = text.lines();\n    let more = text.lines().map(len);\n";
        assert_eq!(count("cut_iterators", cut), 1);
        let odd = "// It stands beside it.\n// It is outstanding.\n";
        assert_eq!(count("lines_with_stand_or_beside", odd), 1);
    }
}

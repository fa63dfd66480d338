//! Front matter of Markdown files: the YAML or TOML block before the text.

use std::collections::BTreeMap;

use stemma_reading::title;

// A fence that is not closed within these limits does not open front matter.
const MAX_LINES: usize = 2_000;
const MAX_BYTES: usize = 256 * 1024;
const MAX_ENTRIES: usize = 200;
const MAX_KEY_BYTES: usize = 64;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontMatter {
    /// Flat scalars with lower-case keys. Lists, tables and block scalars are skipped.
    pub(crate) entries: BTreeMap<String, String>,
    /// Length in bytes including the fences; 0 without front matter.
    pub(crate) bytes: usize,
    /// Number of lines including the fences.
    pub(crate) lines: usize,
}

impl FrontMatter {
    /// Parses the block at the start of `text`.
    ///
    /// A leading `---` is a thematic break instead if a blank line follows, nothing closes it, or the first line inside
    /// is not `key: value`.
    pub(crate) fn parse(text: &str) -> Self {
        Self::parse_fenced(text).unwrap_or_default()
    }

    fn parse_fenced(text: &str) -> Option<Self> {
        let mut lines = text.split_inclusive('\n');
        let fence = lines.next()?;
        let (separator, ends): (char, &[&str]) = match fence.trim_end() {
            "---" => (':', &["---", "..."]),
            "+++" => ('=', &["+++"]),
            _ => return None,
        };
        let mut matter = Self {
            bytes: fence.len(),
            lines: 1,
            ..Self::default()
        };
        let mut content = Vec::new();
        for line in lines.take(MAX_LINES) {
            matter.bytes += line.len();
            matter.lines += 1;
            if ends.contains(&line.trim_end()) {
                matter.entries = entries(&content, separator)?;
                return Some(matter);
            }
            if matter.bytes > MAX_BYTES {
                return None;
            }
            content.push(line.trim_end());
        }
        None
    }
}

// `None` if the content is not front matter.
fn entries(content: &[&str], separator: char) -> Option<BTreeMap<String, String>> {
    if content.first().is_none_or(|line| line.is_empty()) {
        return None;
    }
    let first = content
        .iter()
        .find(|line| !line.is_empty() && !line.starts_with('#'))?;
    if key_value(first, separator).is_none() && !is_toml_table(first, separator) {
        return None;
    }
    let scalars = content
        .iter()
        .take_while(|line| !is_toml_table(line, separator))
        .filter_map(|line| key_value(line, separator))
        .filter_map(|(key, value)| Some((key, scalar(value)?)));
    Some(scalars.take(MAX_ENTRIES).collect())
}

// Tables follow the scalars of a document.
fn is_toml_table(line: &str, separator: char) -> bool {
    separator == '=' && line.starts_with('[')
}

fn key_value(line: &str, separator: char) -> Option<(String, &str)> {
    let (key, value) = line.split_once(separator)?;
    let key = key.trim_end().trim_matches(['"', '\'']);
    let has_valid_key = !key.is_empty()
        && key.len() <= MAX_KEY_BYTES
        && !key.starts_with([' ', '-'])
        && key
            .chars()
            .all(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' '));
    // YAML requires a space after the colon; without this check, `http://…` would be a key.
    let separated = value.is_empty() || separator == '=' || value.starts_with([' ', '\t']);
    (has_valid_key && separated).then(|| (key.to_lowercase(), value.trim()))
}

// The value of a flat scalar without quotes and comments.
fn scalar(value: &str) -> Option<String> {
    let quoted = ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.split(quote).next());
    let plain = quoted.unwrap_or_else(|| value.split(" #").next().unwrap_or(value).trim_end());
    let is_empty = quoted.is_none()
        && (matches!(plain, "" | "~" | "null")
            || plain.starts_with(['[', '{', '|', '>', '&', '#']));
    Some(title::clean(plain)).filter(|text| !is_empty && !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Vec<String>, usize) {
        let matter = FrontMatter::parse(text);
        assert_eq!(
            text[..matter.bytes]
                .matches('\n')
                .count()
                .max(matter.lines.saturating_sub(1)),
            matter.lines
        );
        (
            matter
                .entries
                .into_iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect(),
            matter.lines,
        )
    }

    #[test]
    fn yaml_flat_scalars_are_read() {
        let text = "---\nTitle: \"A: b\"  # x\n# note\nyear: 2023 # fiscal\nlist:\n  - a\nbody: |\n  ## no\nurl: http://x.y/z\n---\n# Real\n";
        assert_eq!(
            parsed(text),
            (
                vec![
                    "title=A: b".into(),
                    "url=http://x.y/z".into(),
                    "year=2023".into()
                ],
                10
            )
        );
    }

    #[test]
    fn toml_entries_before_tables_are_read() {
        assert_eq!(
            parsed("+++\ntitle = 'A'\n[x]\ny = 1\n+++\n"),
            (vec!["title=A".into()], 5)
        );
    }

    #[test]
    fn a_thematic_break_opens_no_front_matter() {
        for text in [
            "---\n\n# A\n\n---\n",
            "---\n# A\ntext\n---\n",
            "---\ntitle: x\n",
            "---",
            "",
            "text\n---\na: b\n---\n",
        ] {
            assert_eq!(parsed(text), (vec![], 0), "{text:?}");
        }
    }
}

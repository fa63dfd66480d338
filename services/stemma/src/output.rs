//! Output: results on standard output, everything else on standard error.
//!
//! Text from documents and file names is printed with control and bidirectional characters escaped.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::Value;

use crate::error::CommandError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputFormat {
    #[default]
    Text,
    Json,
    /// One JSON object per line.
    JsonLines,
}

/// How results are printed.
#[derive(Debug, Clone)]
pub struct Output {
    pub format: OutputFormat,
    /// Fields to keep in JSON results; empty: all.
    pub fields: Vec<String>,
    /// 1: no notes; 2: no errors either.
    pub quiet: u8,
    pub color: bool,
    /// Columns of the terminal; `None` for files and pipes.
    pub width: Option<u16>,
    // Set when a result has none of `fields`.
    pub(crate) lacks_fields: Arc<AtomicBool>,
}

impl Output {
    /// Output for this process. Color needs a terminal and is off under `NO_COLOR` (no-color.org).
    pub fn new(format: OutputFormat, fields: Vec<String>, quiet: u8, no_color: bool) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let refused =
            no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            format,
            fields,
            quiet,
            color: terminal && !refused && format == OutputFormat::Text,
            width: terminal.then(terminal_width),
            lacks_fields: Arc::default(),
        }
    }

    /// Whether a result was not printed because it has none of the requested fields.
    pub fn lacks_fields(&self) -> bool {
        self.lacks_fields.load(Ordering::Relaxed)
    }

    /// Whether the output is text for people.
    pub fn is_text(&self) -> bool {
        self.format == OutputFormat::Text
    }

    /// Writes a line of the result.
    pub fn line(&self, line: &str) {
        write(&mut std::io::stdout().lock(), line);
    }

    /// Writes a result as JSON, with the requested fields.
    pub fn json(&self, value: &impl Serialize) {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        if !self.fields.is_empty() && !self.has_known_fields(&value) {
            return;
        }
        match (self.format, self.select(value)) {
            (OutputFormat::JsonLines, Value::Array(items)) => {
                items.iter().for_each(|item| self.line(&item.to_string()));
            }
            (OutputFormat::JsonLines, value) => self.line(&value.to_string()),
            (_, value) => self.line(&serde_json::to_string_pretty(&value).unwrap_or_default()),
        }
    }

    /// Writes a result: one JSON value, one line for each of its `rows`, or text through `show_text`. `--fields` may name
    /// fields of the rows, which are then printed alone.
    pub fn print(&self, value: &impl Serialize, rows: &impl Serialize, show_text: impl FnOnce()) {
        match self.format {
            OutputFormat::Text => show_text(),
            OutputFormat::Json if self.names_row_fields(value, rows) => self.json(rows),
            OutputFormat::Json => self.json(value),
            OutputFormat::JsonLines => self.json(rows),
        }
    }

    /// Writes a result without rows.
    pub fn show(&self, value: &impl Serialize, show_text: impl FnOnce()) {
        self.print(value, value, show_text);
    }

    /// Writes progress, hints and other notes to standard error.
    pub fn note(&self, line: &str) {
        if self.quiet == 0 {
            write(&mut std::io::stderr().lock(), line);
        }
    }

    pub fn error(&self, line: &str) {
        if self.quiet < 2 {
            write(&mut std::io::stderr().lock(), line);
        }
    }

    /// An error as text: what happened, what can be meant, what to do.
    pub fn command_error(&self, error: &CommandError) {
        let message: Vec<String> = error.message.lines().map(clean).collect();
        self.error(&format!("error: {}", message.join("\n       ")));
        if !error.candidates.is_empty() {
            self.error(&format!("       {}", clean(&error.candidates.join("  "))));
        }
        if let Some(next) = &error.next {
            self.error(&format!("next:  {}", clean(next)));
        }
    }

    pub fn bold(&self, text: &str) -> String {
        self.styled(1, text)
    }

    pub fn dim(&self, text: &str) -> String {
        self.styled(2, text)
    }

    /// For additions.
    pub fn green(&self, text: &str) -> String {
        self.styled(32, text)
    }

    /// For removals.
    pub fn red(&self, text: &str) -> String {
        self.styled(31, text)
    }

    // `code` is a parameter of the ANSI sequence `ESC [ … m`.
    fn styled(&self, code: u8, text: &str) -> String {
        if self.color {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.into()
        }
    }

    fn names_row_fields(&self, value: &impl Serialize, rows: &impl Serialize) -> bool {
        !self.fields.is_empty() && !self.has_field(value) && self.has_field(rows)
    }

    fn has_field(&self, value: &impl Serialize) -> bool {
        let names = field_names(&serde_json::to_value(value).unwrap_or(Value::Null));
        self.fields.iter().any(|field| names.contains(field))
    }

    // Reports unknown fields, and whether any is known. A result without rows has no fields to compare with.
    fn has_known_fields(&self, value: &Value) -> bool {
        let names = field_names(value);
        let unknown: Vec<&String> = self
            .fields
            .iter()
            .filter(|field| !names.contains(*field) && !names.is_empty())
            .collect();
        let names = names.iter().cloned().collect::<Vec<_>>().join(", ");
        for field in &unknown {
            self.error(&format!("no field `{}`; fields are {names}", clean(field)));
        }
        let has_one = unknown.len() < self.fields.len();
        if !has_one {
            self.lacks_fields.store(true, Ordering::Relaxed);
        }
        has_one
    }

    fn select(&self, value: Value) -> Value {
        if self.fields.is_empty() {
            return value;
        }
        match value {
            Value::Array(items) => items.into_iter().map(|item| self.select(item)).collect(),
            Value::Object(mut fields) => {
                fields.retain(|name, _| self.fields.contains(name));
                Value::Object(fields)
            }
            other => other,
        }
    }
}

// Optional fields may be missing in some rows, so all rows count.
fn field_names(value: &Value) -> BTreeSet<String> {
    let rows = value
        .as_array()
        .map_or(std::slice::from_ref(value), Vec::as_slice);
    rows.iter()
        .filter_map(Value::as_object)
        .flat_map(|row| row.keys().cloned())
        .collect()
}

/// Untrusted text, safe to print: control and bidirectional characters are escaped.
pub fn clean(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        let bidi = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}');
        if c.is_control() || bidi {
            escaped.extend(c.escape_unicode());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

// If the reader of a pipe is gone (`stemma ls | head`), end the program without an error.
fn write(to: &mut impl Write, line: &str) {
    if let Err(error) = writeln!(to, "{line}")
        && error.kind() == std::io::ErrorKind::BrokenPipe
    {
        std::process::exit(0);
    }
}

// Some terminals report 0 columns.
fn terminal_width() -> u16 {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| size.ws_col)
        .filter(|columns| *columns >= 40)
        .unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(
            clean("a\u{1b}[31mb\u{202e}c\n"),
            "a\\u{1b}[31mb\\u{202e}c\\u{a}"
        );
        assert_eq!(clean("第一章 – ünï"), "第一章 – ünï");
    }

    #[test]
    fn field_selection_applies_to_lists_and_objects() {
        let output = Output {
            format: OutputFormat::Json,
            fields: vec!["a".into()],
            quiet: 0,
            color: false,
            width: None,
            lacks_fields: Arc::default(),
        };
        let value = serde_json::json!([{"a": 1, "b": 2}]);
        assert_eq!(output.select(value), serde_json::json!([{"a": 1}]));
    }
}

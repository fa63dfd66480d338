//! The text form of an outline: one heading per line, indentation for its level.

use std::fmt::Write;

use stemma_document::{DocId, Extent, MAX_LEVELS};

use super::{CorrectedHeading, Correction, HeadingClaim};

const MAX_BYTES: usize = 16 << 20;
const MAX_LINES: usize = 50_000;
const MAX_TITLE_BYTES: usize = 2_000;
const INDENT: usize = 2;
// A file of another kind has an error on each line.
const MAX_ERRORS: usize = 20;

const MARKS: [(&str, HeadingClaim); 3] = [
    ("(?)", HeadingClaim::Unverified),
    ("(preface)", HeadingClaim::Preface),
    ("(window)", HeadingClaim::Window),
];

const HELP: &str = "\
# One heading per line: two spaces per level, then the page, then the title as it is printed.
#   p. 12 Title          the title is on page 12
#   p. 12:34 Title       on line 34 of the page, if it is there more than once
#   p. 12 (?) Title      not printed as written here: not verified, and shown as doubtful
#   p. 12 (window) Name  pages without a heading; (preface): text before the first heading
# Change, add, remove or indent lines. Lines that begin with # are comments. The lines
# `document` and `version` must stay.
";

/// A mistake in an outline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineError {
    /// From 1.
    pub line: usize,
    pub message: String,
}

impl LineError {
    pub(super) fn new(line: usize, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineText {
    /// The document that it was exported from.
    pub doc: DocId,
    /// The version that it was exported from.
    pub seq: u64,
    pub correction: Correction,
    /// The line (from 1) of each heading.
    pub lines: Vec<usize>,
}

/// The text of an outline. `name` is shown only.
pub fn print(correction: &Correction, extent: Extent, name: &str, doc: DocId, seq: u64) -> String {
    let name = clean_title(name);
    let (unit, help) = match extent {
        Extent::Pages(_) => ("p.", HELP.to_owned()),
        Extent::Lines(_) => ("line", text_help()),
    };
    let mut text = format!("# Outline of {name}\n# document: {doc}\n# version: {seq}\n#\n{help}\n");
    for heading in &correction.headings {
        let CorrectedHeading {
            level,
            at,
            line,
            claim,
            title,
        } = heading;
        let indent = INDENT * usize::from(level.saturating_sub(1));
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        let mark = MARKS
            .iter()
            .find(|(_, marked)| marked == claim)
            .map(|(mark, _)| format!(" {mark}"))
            .unwrap_or_default();
        // A title may itself begin like a mark.
        let escape = if title.starts_with(['(', '\\']) {
            "\\"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "{:indent$}{unit} {at}{line}{mark} {escape}{title}",
            ""
        );
    }
    text
}

// Without the forms that only pages have.
fn text_help() -> String {
    HELP.lines()
        .filter(|line| !line.contains("12:34"))
        .map(|line| {
            format!(
                "{}\n",
                line.replace("p. 12", "line 12").replace("page", "line")
            )
        })
        .collect()
}

/// Reads an outline of a document of this extent.
///
/// # Errors
/// The mistakes, at most twenty, in the order of their lines.
pub fn parse(bytes: &[u8], extent: Extent) -> Result<OutlineText, Vec<LineError>> {
    let one = |line: usize, message: String| vec![LineError::new(line, message)];
    if bytes.len() > MAX_BYTES {
        return Err(one(1, format!("the file has more than {MAX_BYTES} bytes")));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = &bytes[..error.valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        one(line, "not UTF-8".into())
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut doc = None;
    let mut seq = None;
    let mut headings: Vec<CorrectedHeading> = Vec::new();
    let mut lines = Vec::new();
    let mut errors = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if errors.len() >= MAX_ERRORS {
            break;
        }
        if number > MAX_LINES {
            errors.push(LineError::new(
                number,
                format!("more than {MAX_LINES} lines"),
            ));
            break;
        }
        let line = line.trim_end();
        if line.is_empty() {
            continue;
        }
        if let Some(comment) = line.trim_start().strip_prefix('#') {
            let comment = comment.trim();
            let doc_text = comment.strip_prefix("document:").map(str::trim);
            let seq_text = comment.strip_prefix("version:").map(str::trim);
            doc = doc.or_else(|| doc_text?.parse::<DocId>().ok());
            seq = seq.or_else(|| seq_text?.parse::<u64>().ok());
            continue;
        }
        let above = headings.last().map_or(0, |above| above.level);
        match parse_heading(line, above, extent) {
            Ok(heading) => {
                headings.push(heading);
                lines.push(number);
            }
            Err(message) => errors.push(LineError::new(number, message)),
        }
    }
    let header = "the comment `# document: …` or `# version: …` is missing or changed";
    match (doc, seq) {
        _ if !errors.is_empty() => Err(errors),
        _ if headings.is_empty() => Err(one(1, "the outline has no headings".into())),
        (Some(doc), Some(seq)) => Ok(OutlineText {
            doc,
            seq,
            correction: Correction { headings },
            lines,
        }),
        _ => Err(one(1, header.into())),
    }
}

// `above`: the level of the heading before it, 0 for the first.
fn parse_heading(line: &str, above: u16, extent: Extent) -> Result<CorrectedHeading, String> {
    if line.chars().any(char::is_control) {
        return Err("a tab or another control character; indent with two spaces per level".into());
    }
    let text = line.trim_start_matches(' ');
    let spaces = line.len() - text.len();
    if !spaces.is_multiple_of(INDENT) {
        return Err(format!(
            "indented by {spaces} spaces; indent with two spaces per level"
        ));
    }
    let level = spaces / INDENT + 1;
    if level > MAX_LEVELS {
        return Err(format!("level {level}; there are at most {MAX_LEVELS}"));
    }
    let level = u16::try_from(level).unwrap_or(u16::MAX);
    if level > above + 1 {
        return Err(if above == 0 {
            "the first heading must not be indented".into()
        } else {
            format!("level {level} below level {above}: a level is left out")
        });
    }
    let (unit, example) = match extent {
        Extent::Pages(_) => ("p.", "p. 12 Title"),
        Extent::Lines(_) => ("line", "line 12 Title"),
    };
    let form = || format!("expected `{example}`");
    let rest = text.strip_prefix(unit).ok_or_else(form)?.trim_start();
    let (place, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (at, line) = match place.split_once(':') {
        Some((at, line)) if matches!(extent, Extent::Pages(_)) => (at, Some(line)),
        _ => (place, None),
    };
    let at: u32 = at.parse().map_err(|_| form())?;
    let line: Option<u32> = line.map(str::parse).transpose().map_err(|_| form())?;
    let size = extent.size();
    if at == 0 || at > size {
        let unit = super::unit(extent);
        return Err(format!("no {unit} {at}: the document has {size} {unit}s"));
    }
    if line == Some(0) {
        return Err("lines of a page are counted from 1".into());
    }
    let rest = rest.trim();
    let marked = MARKS.iter().find_map(|(mark, claim)| {
        let title = rest.strip_prefix(mark)?;
        (title.is_empty() || title.starts_with(' ')).then_some((*claim, title.trim()))
    });
    let (claim, title) = marked.unwrap_or((HeadingClaim::Printed, rest));
    let title = title.strip_prefix('\\').unwrap_or(title);
    if title.is_empty() {
        return Err("no title".into());
    }
    if title.len() > MAX_TITLE_BYTES {
        return Err(format!("a title of more than {MAX_TITLE_BYTES} bytes"));
    }
    Ok(CorrectedHeading {
        level,
        at,
        line,
        claim,
        title: title.into(),
    })
}

/// A title on one line, in a form that is read back unchanged.
pub(super) fn clean_title(title: &str) -> String {
    let spaced = title.replace(char::is_control, " ").replace(reorders, "");
    let cleaned = spaced[..spaced.floor_char_boundary(MAX_TITLE_BYTES)].trim();
    if cleaned.is_empty() { "-" } else { cleaned }.into()
}

// Characters that reorder text show a title in an editor as something else.
fn reorders(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}')
}

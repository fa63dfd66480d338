//! The text of one part of a submission: without tags and page marks, and with the lines that may be headings.

// `<HTML>` or a doctype within these first lines marks a document as HTML.
const HTML_WINDOW_LINES: usize = 20;

/// Cleans the lines of one part, from the first to the last.
#[derive(Debug, Default)]
pub(super) struct PartCleaner {
    in_table: bool,
    stripper: TagStripper,
    lines: usize,
}

impl PartCleaner {
    /// Removes tags from a line. Returns whether the line may be a heading.
    pub(super) fn clean(&mut self, line: &mut String) -> bool {
        self.lines += 1;
        let upper: String = line
            .trim_start()
            .chars()
            .take(16)
            .flat_map(char::to_uppercase)
            .collect();
        if upper.starts_with("<PAGE>") {
            line.clear();
            return false;
        }
        if self.lines <= HTML_WINDOW_LINES
            && (upper.starts_with("<HTML") || upper.starts_with("<!DOCTYPE HTML"))
        {
            self.stripper.html = true;
        }
        let was_in_table = self.in_table;
        if line.contains('<') || self.stripper.state != StripState::Text {
            *line = self.stripper.strip_line(line, &mut self.in_table);
        }
        if self.stripper.html && line.contains('&') {
            *line = decode_entities(line);
        }
        !was_in_table && !self.in_table
    }
}

// Removes tags, which may span lines.
#[derive(Debug, Default)]
struct TagStripper {
    // In HTML everything that looks like a tag is one; in plain text only the tags used by EDGAR.
    html: bool,
    state: StripState,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum StripState {
    #[default]
    Text,
    Tag,
    Comment,
    // The content of `<script>` and `<style>`.
    Code,
}

impl TagStripper {
    fn strip_line(&mut self, line: &str, in_table: &mut bool) -> String {
        let mut text = String::with_capacity(line.len());
        let mut rest = line;
        while !rest.is_empty() {
            rest = match self.state {
                StripState::Text => self.copy_text(rest, &mut text, in_table),
                StripState::Tag => self.skip(rest, ">"),
                StripState::Comment => self.skip(rest, "-->"),
                StripState::Code => self.skip_code(rest),
            };
        }
        text.trim_end().to_owned()
    }

    fn copy_text<'a>(&mut self, rest: &'a str, text: &mut String, in_table: &mut bool) -> &'a str {
        let Some(at) = rest.find('<') else {
            text.push_str(rest);
            return "";
        };
        text.push_str(&rest[..at]);
        let tag = &rest[at + 1..];
        let name: String = tag
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '/')
            .take(12)
            .collect();
        let name = name.to_ascii_lowercase();
        if self.html && tag.starts_with("!--") {
            self.state = StripState::Comment;
        } else if self.is_tag(&name, tag) {
            match name.as_str() {
                "table" => *in_table = !self.html,
                "/table" => *in_table = false,
                _ => {}
            }
            let code = self.html && matches!(name.as_str(), "script" | "style");
            self.state = if code {
                StripState::Code
            } else {
                StripState::Tag
            };
        } else {
            text.push('<');
        }
        tag
    }

    fn is_tag(&self, name: &str, tag: &str) -> bool {
        if self.html {
            return name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
                || tag.starts_with(['!', '?']);
        }
        let plain_text_tags = [
            "table", "caption", "s", "c", "fn", "page", "b", "i", "u", "r",
        ];
        let name = name.strip_prefix('/').unwrap_or(name);
        // Footnotes are numbered: `<F1>`, `<F2>`.
        let is_footnote = name
            .strip_prefix('f')
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        (plain_text_tags.contains(&name) || is_footnote) && tag.contains('>')
    }

    fn skip<'a>(&mut self, rest: &'a str, end: &str) -> &'a str {
        match rest.find(end) {
            Some(at) => {
                self.state = StripState::Text;
                &rest[at + end.len()..]
            }
            None => "",
        }
    }

    fn skip_code<'a>(&mut self, rest: &'a str) -> &'a str {
        let Some(at) = rest.find("</") else { return "" };
        let closes = rest[at + 2..]
            .get(..2)
            .is_some_and(|start| matches!(&*start.to_ascii_lowercase(), "sc" | "st"));
        self.state = if closes {
            StripState::Tag
        } else {
            StripState::Code
        };
        &rest[at + 2..]
    }
}

// Decodes the entities that affect reading; others stay.
fn decode_entities(line: &str) -> String {
    const NAMED: [(&str, &str); 12] = [
        ("&nbsp;", " "),
        ("&#160;", " "),
        ("&#xa0;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#8217;", "’"),
        ("&#8220;", "“"),
        ("&#8221;", "”"),
        ("&#8211;", "–"),
        ("&#8212;", "—"),
        ("&amp;", "&"),
    ];
    NAMED
        .iter()
        .fold(line.to_owned(), |line, (entity, text)| {
            line.replace(entity, text)
        })
        .trim_end()
        .to_owned()
}

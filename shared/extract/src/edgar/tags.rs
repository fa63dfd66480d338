//! The text of one part of a submission: without tags and page marks, and with the lines that may be headings.

// The tags of tables have few attributes. A search to the end of the line would be quadratic in a line of `<`.
const MAX_TAG_BYTES: usize = 256;

/// Cleans the lines of one part, from the first to the last.
#[derive(Debug, Default)]
pub(crate) struct PartCleaner {
    in_table: bool,
}

impl PartCleaner {
    /// Removes tags from a line. Returns whether the line may be a heading.
    pub(crate) fn clean(&mut self, line: &mut String) -> bool {
        if is_page_mark(line) {
            line.clear();
            return false;
        }
        let was_in_table = self.in_table;
        if line.contains('<') {
            *line = self.strip_line(line);
        }
        !was_in_table && !self.in_table
    }

    fn strip_line(&mut self, line: &str) -> String {
        let mut text = String::with_capacity(line.len());
        let mut rest = line;
        while let Some((before, behind)) = rest.split_once('<') {
            text.push_str(before);
            rest = behind;
            let window = &behind[..behind.floor_char_boundary(MAX_TAG_BYTES)];
            match window.find('>') {
                Some(end) if self.is_tag(&window[..end]) => {
                    rest = &behind[end + 1..];
                    // Heads may be on the line of a caption.
                    let columns = if text.is_empty() { end + 2 } else { 0 };
                    text.extend(std::iter::repeat_n(' ', columns));
                }
                _ => text.push('<'),
            }
        }
        text.push_str(rest);
        text.trim_end().to_owned()
    }

    // Only the tags that EDGAR uses in plain text are tags.
    fn is_tag(&mut self, tag: &str) -> bool {
        const TAGS: [&str; 10] = [
            "table", "caption", "s", "c", "fn", "page", "b", "i", "u", "r",
        ];
        let name: String = tag
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '/')
            .take(12)
            .collect();
        let name = name.to_ascii_lowercase();
        let bare = name.strip_prefix('/').unwrap_or(&name);
        // Footnotes are numbered: `<F1>`, `<F2>`.
        let is_footnote = bare
            .strip_prefix('f')
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        if !TAGS.contains(&bare) && !is_footnote {
            return false;
        }
        match name.as_str() {
            "table" => self.in_table = true,
            "/table" => self.in_table = false,
            _ => {}
        }
        true
    }
}

/// Whether a page of a printed text ends here.
pub(crate) fn is_page_mark(line: &str) -> bool {
    let line = line.trim_start();
    line.get(..6)
        .is_some_and(|tag| tag.eq_ignore_ascii_case("<PAGE>"))
}

/// Whether a table begins here.
pub(crate) fn is_table_mark(line: &str) -> bool {
    line.trim().eq_ignore_ascii_case("<TABLE>")
}

//! Markdown and plain text with known headings.

use serde_json::{Value, json};

use crate::random::Rng;
use crate::words::{self, UniqueTitles};

/// The headings of a generated text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GeneratedTextTruth {
    /// In reading order.
    pub nodes: Vec<HeadingLine>,
    /// Number of lines.
    pub lines: u32,
}

/// A heading of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadingLine {
    /// Without markup.
    pub title: String,
    /// 1 is the highest; levels may be skipped.
    pub level: u16,
    /// 1-based line on which it starts.
    pub line: u32,
}

impl GeneratedTextTruth {
    /// The truth in the format of the scoring tool, with `line` instead of `page`.
    pub fn to_json(&self, doc: &str) -> Value {
        let nodes: Vec<Value> = self
            .nodes
            .iter()
            .map(|node| json!({"title": node.title, "level": node.level, "line": node.line}))
            .collect();
        json!({"doc": doc, "kind": "markdown", "lines": self.lines, "source": "generated", "scope": "full", "nodes": nodes})
    }
}

/// How headings look in a plain text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextKind {
    /// `1. Pricing`, `1.1 Supply`.
    Numbered,
    /// `PRICING`, alone between blank lines; all of level 1.
    Capitals,
    /// A line of `=` or `-` below the title.
    Underlined,
    /// An EDGAR full submission: SGML header, one `<DOCUMENT>`, `PART` and `Item` headings, `<PAGE>` marks.
    EdgarSubmission,
}

impl TextKind {
    /// All kinds with names for files.
    pub const ALL: [(TextKind, &str); 4] = [
        (TextKind::Numbered, "numbered"),
        (TextKind::Capitals, "capitals"),
        (TextKind::Underlined, "underlined"),
        (TextKind::EdgarSubmission, "edgar"),
    ];
}

/// A Markdown document with about `sections` headings.
///
/// It has front matter, a preface, ATX and setext headings, inline markup in titles, skipped levels, and
/// false headings: in fenced and indented code, in an HTML block, and a `#` without a space after it.
pub fn markdown(seed: u64, sections: u32) -> (String, GeneratedTextTruth) {
    let rng = &mut Rng::new(seed, "markdown");
    let mut titles = UniqueTitles::default();
    let mut page = TextBuilder::default();
    page.push_line("---\ntitle: Generated guide\nissuer: Example Registrant\n---\n");
    page.paragraph(rng, "this guide");
    let mut level = 1;
    for n in 0..sections {
        level = next_level(level, n, rng);
        let title = titles.short(rng);
        page.markdown_heading(&title, level, rng);
        for _ in 0..rng.between(1, 3) {
            page.paragraph(rng, &title.to_lowercase());
        }
        if rng.chance(30) {
            page.add_false_heading(rng);
        }
    }
    page.finish()
}

/// A plain text with about `sections` headings.
pub fn plain_text(seed: u64, kind: TextKind, sections: u32) -> (String, GeneratedTextTruth) {
    let rng = &mut Rng::new(seed, "plain text");
    let mut titles = UniqueTitles::default();
    let mut page = TextBuilder::default();
    if kind == TextKind::EdgarSubmission {
        return edgar(page, sections, rng);
    }
    page.wrapped(rng, "this memorandum");
    let mut chapter = 0;
    let mut section = 0;
    for n in 0..sections {
        let top = n == 0 || rng.chance(35) || kind == TextKind::Capitals;
        (chapter, section) = if top {
            (chapter + 1, 0)
        } else {
            (chapter, section + 1)
        };
        let title = titles.short(rng);
        let level = if top { 1 } else { 2 };
        match kind {
            TextKind::Numbered if top => page.node(&format!("{chapter}. {title}"), level, ""),
            TextKind::Numbered => page.node(&format!("{chapter}.{section} {title}"), level, ""),
            TextKind::Underlined => {
                let rule = if top { "=" } else { "-" }.repeat(title.len());
                page.node(&title, level, &rule);
            }
            _ => page.node(&title.to_uppercase(), level, ""),
        }
        for _ in 0..rng.between(1, 3) {
            page.wrapped(rng, &title.to_lowercase());
        }
    }
    page.finish()
}

fn next_level(level: u16, n: u32, rng: &mut Rng) -> u16 {
    match rng.below(10) {
        _ if n == 0 => 1,
        0..=3 => level,
        4..=6 => (level + 1).min(5),
        // A skipped level.
        7 => (level + 2).min(6),
        _ => level.saturating_sub(1).max(1),
    }
}

fn edgar(mut page: TextBuilder, sections: u32, rng: &mut Rng) -> (String, GeneratedTextTruth) {
    const ITEMS: [(&str, &str); 8] = [
        ("PART I", "Item 1. Business"),
        ("", "Item 1A. Risk Factors"),
        ("", "Item 2. Properties"),
        ("", "Item 3. Legal Proceedings"),
        ("PART II", "Item 7. Management's Discussion and Analysis"),
        ("", "Item 8. Financial Statements"),
        ("PART III", "Item 10. Directors and Executive Officers"),
        ("PART IV", "Item 15. Exhibits"),
    ];
    let name = words::company(rng).to_uppercase();
    page.push_line("<SEC-DOCUMENT>0000000000-00-000000.txt : 20000101\n<SEC-HEADER>\nACCESSION NUMBER: 0000000000-00-000000\nCONFORMED SUBMISSION TYPE: 10-K");
    page.push_line(&format!("COMPANY CONFORMED NAME: {name}\n</SEC-HEADER>\n<DOCUMENT>\n<TYPE>10-K\n<SEQUENCE>1\n<TEXT>\n"));
    page.push_line(&format!(
        "                    {name}\n                    FORM 10-K\n"
    ));
    let paragraphs = (sections as usize / ITEMS.len()).max(1);
    for (n, (part, item)) in ITEMS.iter().enumerate() {
        if !part.is_empty() {
            page.node(part, 1, "");
        }
        page.node(item, 2, "");
        (0..paragraphs).for_each(|_| page.wrapped(rng, "the business"));
        page.push_line(&format!(
            "<PAGE>\n                                     {}\n",
            n + 2
        ));
    }
    page.push_line("</TEXT>\n</DOCUMENT>\n</SEC-DOCUMENT>");
    page.finish()
}

#[derive(Default)]
struct TextBuilder {
    text: String,
    truth: GeneratedTextTruth,
}

impl TextBuilder {
    fn push_line(&mut self, text: &str) {
        self.text.extend([text, "\n"]);
        self.truth.lines += text.matches('\n').count() as u32 + 1;
    }

    fn record(&mut self, title: &str, level: u16) {
        self.truth.nodes.push(HeadingLine {
            title: title.to_owned(),
            level,
            line: self.truth.lines + 1,
        });
    }

    // A heading of a plain text, underlined if `rule` is not empty.
    fn node(&mut self, title: &str, level: u16, rule: &str) {
        self.record(title, level);
        self.push_line(title);
        if !rule.is_empty() {
            self.push_line(rule);
        }
        self.push_line("");
    }

    fn markdown_heading(&mut self, title: &str, level: u16, rng: &mut Rng) {
        self.record(title, level);
        let marked = match rng.below(5) {
            0 => format!("**{title}**"),
            1 => title
                .split_once(' ')
                .map_or_else(|| title.to_owned(), |(a, b)| format!("{a} *{b}*")),
            2 => format!("[{title}](https://example.com/)"),
            _ => title.to_owned(),
        };
        match (level, rng.chance(30)) {
            (1, true) => self.push_line(&format!("{marked}\n{}", "=".repeat(marked.len()))),
            (2, true) => self.push_line(&format!("{marked}\n{}", "-".repeat(marked.len()))),
            _ => {
                let closing = if rng.chance(20) { " ##" } else { "" };
                self.push_line(&format!(
                    "{} {marked}{closing}",
                    "#".repeat(usize::from(level))
                ));
            }
        }
        self.push_line("");
    }

    // A line that looks like a heading.
    fn add_false_heading(&mut self, rng: &mut Rng) {
        match rng.below(4) {
            0 => self.push_line("```sh\n# not a heading\nmake install\n```\n"),
            1 => self.push_line("    # indented code, not a heading\n"),
            2 => self.push_line("<div>\n# inside an HTML block\n</div>\n"),
            _ => self.push_line("#hashtag without a blank\n"),
        }
    }

    fn paragraph(&mut self, rng: &mut Rng, topic: &str) {
        let text = words::paragraph(rng, topic);
        self.push_line(&format!("{text}\n"));
    }

    // A paragraph in lines of at most 76 characters.
    fn wrapped(&mut self, rng: &mut Rng, topic: &str) {
        let mut line = String::new();
        for word in words::paragraph(rng, topic).split(' ') {
            if line.len() + word.len() > 75 {
                self.push_line(line.trim_end());
                line.clear();
            }
            line.extend([word, " "]);
        }
        self.push_line(line.trim_end());
        self.push_line("");
    }

    fn finish(self) -> (String, GeneratedTextTruth) {
        (self.text, self.truth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_title_is_on_its_line(text: &str, truth: &GeneratedTextTruth) {
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), truth.lines as usize);
        assert!(!truth.nodes.is_empty());
        for node in &truth.nodes {
            let line = lines[node.line as usize - 1].replace('*', "");
            assert!(
                line.contains(&node.title),
                "{line:?} is not {:?}",
                node.title
            );
        }
    }

    #[test]
    fn headings_appear_on_their_lines() {
        for seed in 0..20 {
            let (text, truth) = markdown(seed, 30);
            every_title_is_on_its_line(&text, &truth);
            for (kind, _) in TextKind::ALL {
                let (text, truth) = plain_text(seed, kind, 30);
                every_title_is_on_its_line(&text, &truth);
            }
        }
    }
}

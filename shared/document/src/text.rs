//! The text of sections, as exact slices of a body.

use crate::{Line, PageNo, Section, SectionSpan, SourceBody};

/// A line of a body with its location.
#[derive(Debug, Clone, Copy)]
pub struct BodyLine<'a> {
    /// Without line end.
    pub text: &'a str,
    /// o200k tokens; 0 before the paginate stage.
    pub tokens: u32,
    /// `None` in texts without pages.
    pub page: Option<PageNo>,
    /// 1-based line on the page or in the text.
    pub number: u32,
    /// Position and style; `None` in texts without pages.
    pub layout: Option<&'a Line>,
}

// 0-based page (0 in a text) and line.
type LineCursor = (usize, usize);

/// The section's own text, from its start to its first child. Lines are joined by `\n`, without running heads and feet.
///
/// The own texts of all sections of a tree contain each of these lines exactly once.
pub fn own_text(section: &Section, body: &SourceBody) -> String {
    join(&own_lines(section, body))
}

/// The section's text including its descendants.
pub fn full_text(section: &Section, body: &SourceBody) -> String {
    join(&full_lines(section, body))
}

pub fn own_lines<'a>(section: &Section, body: &'a SourceBody) -> Vec<BodyLine<'a>> {
    let end = section
        .children
        .first()
        .map_or_else(|| end(section), |child| Some(start(child)));
    without_furniture(section, lines_between(body, start(section), end))
}

pub fn full_lines<'a>(section: &Section, body: &'a SourceBody) -> Vec<BodyLine<'a>> {
    without_furniture(section, lines_between(body, start(section), end(section)))
}

/// The own or `full` text of a section from an excerpt of the document whose first page is `first`.
pub fn text_in_excerpt(section: &Section, body: &SourceBody, first: PageNo, full: bool) -> String {
    let child = section.children.first().filter(|_| !full);
    let end = child.map_or_else(|| end(section), |child| Some(start(child)));
    let start = relative_to(first, start(section));
    let end = end.map(|end| relative_to(first, end));
    join(&without_furniture(section, lines_between(body, start, end)))
}

// The cursor in an excerpt that begins with page `first`.
fn relative_to(first: PageNo, (page, line): LineCursor) -> LineCursor {
    (page.saturating_sub(first.index()), line)
}

/// All lines in reading order, including running heads and feet.
pub fn all_lines(body: &SourceBody) -> Vec<BodyLine<'_>> {
    lines_between(body, (0, 0), None)
}

// Removes running heads and feet. On the first page of a chapter, the running head is its title and stays.
fn without_furniture<'a>(section: &Section, mut lines: Vec<BodyLine<'a>>) -> Vec<BodyLine<'a>> {
    let mut first = true;
    lines.retain(|line| {
        // Only the first line of a section can be its title.
        let is_title = std::mem::take(&mut first) && matches_title(line.text, &section.title);
        is_title || !line.layout.is_some_and(Line::is_furniture)
    });
    lines
}

// Whether one is a prefix of the other, ignoring spaces and punctuation.
fn matches_title(line: &str, title: &str) -> bool {
    let line = normalize_key(line);
    let title = normalize_key(title);
    line.contains(char::is_alphabetic)
        && !title.is_empty()
        && (title.starts_with(&line) || line.starts_with(&title))
}

/// Lower-case letters and digits without spaces, so that letter-spaced and hyphenated copies of a text compare equal.
pub fn normalize_key(text: &str) -> String {
    let mut key = String::with_capacity(text.len());
    if text.is_ascii() {
        let letters = text.bytes().filter(u8::is_ascii_alphanumeric);
        key.extend(letters.map(|byte| byte.to_ascii_lowercase() as char));
    } else {
        let letters = text.chars().filter(|c| c.is_alphanumeric());
        key.extend(letters.flat_map(char::to_lowercase));
    }
    key
}

fn join(lines: &[BodyLine<'_>]) -> String {
    lines
        .iter()
        .map(|line| line.text)
        .collect::<Vec<_>>()
        .join("\n")
}

fn start(section: &Section) -> LineCursor {
    match section.span {
        SectionSpan::Pages { from, .. } => (from.page.index(), from.line as usize),
        SectionSpan::Lines { start, .. } => (0, start.saturating_sub(1) as usize),
    }
}

// `None` is the end of the document.
fn end(section: &Section) -> Option<LineCursor> {
    match section.span {
        SectionSpan::Pages { to, .. } => to.map(|to| (to.page.index(), to.line as usize)),
        SectionSpan::Lines { end, .. } => Some((0, end as usize)),
    }
}

// `end` is exclusive. Positions outside of the body are clamped.
fn lines_between(
    body: &SourceBody,
    start: LineCursor,
    end: Option<LineCursor>,
) -> Vec<BodyLine<'_>> {
    let end = end.unwrap_or((usize::MAX, 0));
    let within = |page: usize, lines: usize| {
        let first = if page == start.0 {
            start.1.min(lines)
        } else {
            0
        };
        let last = if page == end.0 {
            end.1.min(lines)
        } else {
            lines
        };
        first..last.max(first)
    };
    match body {
        SourceBody::Lines(text) => within(0, text.lines.len())
            .map(|index| {
                let tokens = text.tokens.get(index).copied().unwrap_or(0);
                BodyLine {
                    text: &text.lines[index],
                    tokens,
                    page: None,
                    number: line_number(index),
                    layout: None,
                }
            })
            .collect(),
        SourceBody::Pages(pages) => (start.0..pages.len().min(end.0.saturating_add(1)))
            .flat_map(|page| {
                let lines = &pages[page].lines;
                within(page, lines.len()).map(move |index| {
                    let line = &lines[index];
                    let page = Some(PageNo::from_index(page));
                    BodyLine {
                        text: &line.text,
                        tokens: line.tokens,
                        page,
                        number: line_number(index),
                        layout: Some(line),
                    }
                })
            })
            .collect(),
    }
}

fn line_number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DraftEntry, EntryVerdict, EvidenceSource, Extent, LocatedEntry, Method, SectionStart,
        SectionTree, TextLines, VerifiedOutline,
    };

    #[test]
    fn running_heads_are_excluded_from_section_text() {
        let line = |text: &str, role| Line {
            text: text.into(),
            role,
            ..Line::default()
        };
        let head = crate::LineRole::Head;
        let foot = crate::LineRole::Foot;
        let page = |lines: Vec<Line>| crate::Page {
            lines,
            ..crate::Page::default()
        };
        let body = SourceBody::Pages(vec![
            page(vec![
                line("NOTES", head),
                line("first half", Default::default()),
                line("1", foot),
            ]),
            page(vec![
                line("NOTES", head),
                line("second half", Default::default()),
                line("2", foot),
            ]),
        ]);
        let at = |page| crate::Position {
            page: PageNo::from_index(page),
            line: 0,
            y: crate::Pt(0),
        };
        let entry = DraftEntry {
            number: None,
            title: "Notes".into(),
            label: None,
            target: None,
            level: 1,
            evidence: EvidenceSource::Layout,
        };
        let located = LocatedEntry {
            entry,
            place: SectionStart::Page(at(0)),
        };
        let outline = VerifiedOutline::new(
            Extent::Pages(2),
            vec![(located, EntryVerdict::Confirmed { starts_page: true })],
        )
        .unwrap();
        let tree = SectionTree::build(&outline, Method::Layout, Vec::new());
        assert_eq!(
            own_text(&tree.sections[0], &body),
            "NOTES\nfirst half\nsecond half"
        );
        assert_eq!(all_lines(&body).len(), 6);
    }

    #[test]
    fn own_texts_cover_every_line_once() {
        let lines: Vec<String> = ["# A", "about a", "## A.1", "first", "# B"]
            .map(String::from)
            .to_vec();
        let located = |title: &str, line, level| {
            let entry = DraftEntry {
                number: None,
                title: title.into(),
                label: None,
                target: None,
                level,
                evidence: EvidenceSource::Markup,
            };
            (
                LocatedEntry {
                    entry,
                    place: SectionStart::Line(line),
                },
                EntryVerdict::Confirmed { starts_page: true },
            )
        };
        let entries = vec![located("A", 1, 1), located("A.1", 3, 2), located("B", 5, 1)];
        let outline = VerifiedOutline::new(Extent::Lines(5), entries).unwrap();
        let tree = SectionTree::build(&outline, Method::Markup, Vec::new());
        let body = SourceBody::Lines(TextLines {
            lines,
            tokens: vec![],
            headings: vec![],
        });
        let own: Vec<String> = tree
            .walk()
            .map(|(_, section)| own_text(section, &body))
            .collect();
        assert_eq!(own, ["# A\nabout a", "## A.1\nfirst", "# B"]);
        assert_eq!(full_text(&tree.sections[0], &body), own[..2].join("\n"));
        assert_eq!(all_lines(&body).last().map(|line| line.number), Some(5));
    }
}

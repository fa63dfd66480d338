//! Markdown to [`Source`]: CommonMark headings, found by pulldown-cmark, and all lines of the file.
//!
//! Headings inside block quotes and lists are not sections; their text stays in the lines.

mod bold_titles;

use std::borrow::Cow;

use pulldown_cmark::{Event, OffsetIter, Options, Parser, Tag, TagEnd};
use stemma_document::{Heading, Source, SourceFormat};
use stemma_reading::title;

use crate::decode::DecodedText;
use crate::front_matter::FrontMatter;
use crate::{ExtractError, Limits};

// Maximum nesting of block quotes and lists, counted as markers on one line. Deeper content is text.
const MAX_MARKERS: usize = 100;
// Markers after this column do not open lists. Together with `MAX_MARKERS` this bounds the work per line, which grows
// with the number of open containers.
const MAX_MARKER_COLUMN: usize = 200;

/// Extracts Markdown (CommonMark with strikethrough).
///
/// Titles lose their inline markup (see [`title::clean`]); empty ones become [`title::UNTITLED`]. Front matter becomes
/// metadata and has no headings. Invalid UTF-8 is replaced and recorded as `text.invalid_utf8`.
///
/// # Errors
///
/// `limits.bytes` and `limits.lines`.
pub fn read(bytes: Vec<u8>, limits: &Limits) -> Result<Source, ExtractError> {
    let decoded = DecodedText::read(bytes, limits)?;
    let front = FrontMatter::parse(&decoded.text);
    let body = limit_nesting(&decoded.text[front.bytes..]);
    let mut headings: Vec<Heading> = HeadingIter::new(&body, front.lines).collect();
    if headings.len() <= 1 {
        bold_titles::add(&mut headings, &body, front.lines);
    }
    let mut lines = decoded.lines();
    // Front matter is cleared rather than removed, so that line numbers stay valid.
    lines.iter_mut().take(front.lines).for_each(String::clear);
    Ok(limits.source_of_lines(
        SourceFormat::Markdown,
        lines,
        headings,
        front.entries,
        decoded.defects,
    ))
}

struct HeadingIter<'a> {
    text: &'a str,
    events: OffsetIter<'a>,
    // Number of open block quotes and list items.
    containers: usize,
    // Lines are counted incrementally: byte offset counted so far, and its 1-based line.
    counted_to: usize,
    line: usize,
}

impl<'a> HeadingIter<'a> {
    fn new(text: &'a str, lines_before: usize) -> Self {
        let events = Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH).into_offset_iter();
        Self {
            text,
            events,
            containers: 0,
            counted_to: 0,
            line: lines_before + 1,
        }
    }

    fn line_at(&mut self, offset: usize) -> u32 {
        self.line += self.text.as_bytes()[self.counted_to..offset]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        self.counted_to = offset;
        u32::try_from(self.line).unwrap_or(u32::MAX)
    }

    // Consumes the events of the heading that just started.
    fn title(&mut self) -> String {
        let mut text = String::new();
        for (event, _) in self.events.by_ref() {
            match event {
                Event::End(TagEnd::Heading(_)) => break,
                Event::Text(part) | Event::Code(part) => text.push_str(&part),
                Event::SoftBreak | Event::HardBreak => text.push(' '),
                _ => {}
            }
        }
        let title = title::clean(&text);
        if title.is_empty() {
            title::UNTITLED.into()
        } else {
            title
        }
    }
}

impl Iterator for HeadingIter<'_> {
    type Item = Heading;

    fn next(&mut self) -> Option<Heading> {
        while let Some((event, range)) = self.events.next() {
            match event {
                Event::Start(Tag::BlockQuote(_) | Tag::Item) => self.containers += 1,
                Event::End(TagEnd::BlockQuote(_) | TagEnd::Item) => self.containers -= 1,
                Event::Start(Tag::Heading { level, .. }) if self.containers == 0 => {
                    let line = self.line_at(range.start);
                    return Some(Heading {
                        line,
                        level: level as u16,
                        title: self.title(),
                    });
                }
                _ => {}
            }
        }
        None
    }
}

// Limits nesting by replacing the first marker that is too deep with a letter. Byte offsets stay valid.
fn limit_nesting(text: &str) -> Cow<'_, str> {
    let mut shallow = Cow::Borrowed(text);
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if let Some(at) = first_marker_too_deep(line.as_bytes()) {
            shallow.to_mut().replace_range(start + at..=start + at, "x");
        }
        start += line.len();
    }
    shallow
}

fn first_marker_too_deep(line: &[u8]) -> Option<usize> {
    let mut markers = 0;
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        let space_behind = line.get(at + 1).is_none_or(u8::is_ascii_whitespace);
        let digits_before = at > 0 && line[at - 1].is_ascii_digit();
        match byte {
            b' ' | b'\t' | b'0'..=b'9' => {}
            b'>' => markers += 1,
            b'-' | b'+' | b'*' if space_behind => markers += 1,
            b'.' | b')' if space_behind && digits_before => markers += 1,
            _ => return None,
        }
        let is_marker = !byte.is_ascii_digit() && !byte.is_ascii_whitespace();
        if is_marker && (markers > MAX_MARKERS || at > MAX_MARKER_COLUMN) {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stemma_document::SourceBody;

    use super::*;

    fn headings(text: &str) -> Vec<String> {
        let source = read(text.as_bytes().to_vec(), &Limits::default()).unwrap();
        let SourceBody::Lines(body) = source.body else {
            panic!("no lines")
        };
        body.headings
            .iter()
            .map(|h| format!("{}:{}:{}", h.line, h.level, h.title))
            .collect()
    }

    #[test]
    fn bold_lines_are_titles_where_no_other_headings_are() {
        let bold = "**Summary**\n\nText.\n\n**1. Introduction**\n\nSome **bold** words.\n\n**1.1 Scope**\n\n**Note: all of this.**\n\nText.\n\n<h2>Annex</h2>\n\nText.\n";
        assert_eq!(
            headings(bold),
            [
                "1:1:Summary",
                "5:1:1. Introduction",
                "9:2:1.1 Scope",
                "15:1:Annex"
            ]
        );
        let below = format!("# Report\n\n{bold}");
        assert_eq!(headings(&below)[..2], ["1:1:Report", "3:2:Summary"]);
        let others = format!("# Report\n\n## Part\n\n{bold}");
        assert_eq!(headings(&others), ["1:1:Report", "3:2:Part"]);
        assert_eq!(headings("**Only one**\n\nText.\n\n- **Item**\n"), [""; 0]);
    }

    #[test]
    fn atx_and_setext_headings_have_levels_and_lines() {
        let text = "# One #\n\ntext\n\nTwo\n---\n\nOver two\nlines\n===\n\n####### seven\n#nospace\n\n   ### Three\n\n    # code\n";
        assert_eq!(
            headings(text),
            ["1:1:One", "5:2:Two", "8:1:Over two lines", "15:3:Three"]
        );
    }

    #[test]
    fn code_html_quotes_and_lists_hold_no_headings() {
        let text = "```\n# a\n```\n~~~~\n# b\n~~~\n~~~~\n<div>\n# c\n</div>\n\n<!--\n# d\n\n# d\n-->\n> # e\n\n- # f\n\n1. g\n\n   ## h\n\n# Real\n";
        assert_eq!(headings(text), ["25:1:Real"]);
        assert_eq!(headings("# A\n\n```\n# never closed\n"), ["1:1:A"]);
    }

    #[test]
    fn inline_markup_is_removed_from_titles() {
        let text = "# **B** `c # d` [l](http://e.x/#a) ![i](x.png) &amp; \\*s\\* ~~g~~ <b>h</b> [ref]\n\n##\n\n[ref]: /x\n";
        assert_eq!(
            headings(text),
            ["1:1:B c # d l i & *s* g h ref", "3:2:Untitled"]
        );
    }

    #[test]
    fn front_matter_becomes_metadata_and_shifts_no_line() {
        let source = read(
            b"\xEF\xBB\xBF---\r\nTitle: R\r\n# no\r\n---\r\n# A\r\n".to_vec(),
            &Limits::default(),
        )
        .unwrap();
        assert_eq!(source.metadata["title"], "R");
        let SourceBody::Lines(body) = &source.body else {
            panic!("no lines")
        };
        assert_eq!((body.headings[0].line, body.lines.len()), (5, 5));
        assert_eq!(body.lines.concat(), "# A");
    }

    #[test]
    fn too_many_headings_are_a_defect() {
        let source = read(
            "# x\n".repeat(30).into_bytes(),
            &Limits {
                max_headings: 10,
                ..Limits::default()
            },
        )
        .unwrap();
        let SourceBody::Lines(body) = &source.body else {
            panic!("no lines")
        };
        assert_eq!(
            (body.headings.len(), source.defects[0].code.as_str()),
            (10, "limits.headings")
        );
    }

    #[test]
    fn only_absurd_nesting_is_limited() {
        assert!(matches!(
            limit_nesting("> - 1. a\n--------\n* * *\n"),
            Cow::Borrowed(_)
        ));
        assert!(matches!(
            limit_nesting(&format!("A\n{}\n", "-".repeat(500))),
            Cow::Borrowed(_)
        ));
        assert!(matches!(limit_nesting(&">".repeat(101)), Cow::Owned(_)));
        assert!(matches!(
            limit_nesting(&format!("{}- a", " ".repeat(201))),
            Cow::Owned(_)
        ));
    }

    // Patterns known to cause quadratic time or stack overflows in CommonMark parsers. So long that work which grows with
    // the square takes longer than a test may.
    #[test]
    fn hostile_patterns_parse_in_linear_time() {
        let n = 500_000;
        let stairs: String = (0..200)
            .map(|depth| format!("{}- a\n", "  ".repeat(depth)))
            .collect();
        let patterns = [
            ">".repeat(n),
            "- ".repeat(n),
            "1) ".repeat(n),
            format!("{}a", "[".repeat(n)),
            format!("{}a{}", "[".repeat(n), "]".repeat(n)),
            "[a](<b".repeat(n),
            "[a](b".repeat(n),
            "![[]()".repeat(n),
            "*a_ ".repeat(n),
            "**x [a*b**c*](d)".repeat(n),
            "a**b".repeat(n) + &"c* ".repeat(n),
            "<!--".repeat(n),
            "<?".repeat(n),
            "<!A".repeat(n),
            "<![CDATA[".repeat(n),
            "a <a b=\"".repeat(n),
            (1..10_000)
                .map(|length| format!("e{}", "`".repeat(length)))
                .collect(),
            "[a]: b\n".repeat(n),
            "[a]: <b\n\"".repeat(n),
            "a\n===\n".repeat(n),
            "&".repeat(n),
            "\\[".repeat(n),
            "~~a ~".repeat(n),
            stairs + &"\n".repeat(n),
            format!("{}\n{}", "- ".repeat(n), "\n".repeat(n)),
        ];
        for pattern in patterns {
            let headings = headings(&format!("{pattern}\n\n# End\n"));
            let name: String = pattern.chars().take(12).collect();
            assert!(headings.len() <= n + 1, "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn heading_lines_rise_and_exist(text in "([#>*`~=\\-+ \\[\\]()<>!a\u{202e}\r\n\0]|\\PC){0,200}") {
            let source = read(text.into_bytes(), &Limits::default()).unwrap();
            let SourceBody::Lines(body) = source.body else { panic!("no lines") };
            let lines: Vec<u32> = body.headings.iter().map(|heading| heading.line).collect();
            prop_assert!(lines.is_sorted_by(|a, b| a < b));
            prop_assert!(lines.iter().all(|line| (1..=body.lines.len()).contains(&(*line as usize))));
            prop_assert!(body.headings.iter().all(|h| (1..=6).contains(&h.level) && title::clean(&h.title) == h.title));
        }

        #[test]
        fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(read(bytes, &Limits::default()).is_ok());
        }
    }
}

//! Titles of a text without headings: bold lines alone in their paragraph, and headings written in HTML.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use stemma_document::Heading;
use stemma_reading::letters::plain_digits;
use stemma_reading::title;

// One bold line is a remark.
const MIN_TITLES: usize = 2;
// A longer bold paragraph is text.
const MAX_CHARS: usize = 120;

/// Adds the bold titles of a text below `headings`, which has one heading at most. Their numbers tell their levels.
pub(super) fn add(headings: &mut Vec<Heading>, text: &str, lines_before: usize) {
    let outer = headings.first().map_or(0, |heading| heading.level);
    let mut titles: Vec<Heading> = Vec::new();
    // The text of a paragraph that is bold so far, and where it begins.
    let mut open: Option<(usize, String)> = None;
    let mut is_bold = false;
    let mut depth = 0_usize;
    let mut counted_to = 0;
    let mut line = lines_before + 1;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH).into_offset_iter() {
        let found = match event {
            Event::Start(Tag::BlockQuote(_) | Tag::Item) => {
                depth += 1;
                None
            }
            Event::End(TagEnd::BlockQuote(_) | TagEnd::Item) => {
                depth -= 1;
                None
            }
            Event::Start(Tag::Paragraph) if depth == 0 => {
                open = Some((range.start, String::new()));
                None
            }
            Event::Start(Tag::Strong) => {
                is_bold = true;
                None
            }
            Event::End(TagEnd::Strong) => {
                is_bold = false;
                None
            }
            Event::End(TagEnd::Paragraph) => open.take(),
            Event::Text(part) if is_bold => {
                if let Some((_, title)) = &mut open {
                    title.push_str(&part);
                }
                None
            }
            Event::Html(html) => html_title(&html).map(|title| (range.start, title)),
            Event::Start(Tag::Emphasis) | Event::End(TagEnd::Emphasis) => None,
            // The paragraph has other text, or a second line.
            _ => {
                open = None;
                None
            }
        };
        let Some((start, title)) = found else {
            continue;
        };
        let title = title::clean(&title);
        if title.is_empty() || title.chars().count() > MAX_CHARS || title.ends_with(['.', ',', ';'])
        {
            continue;
        }
        let passed = text.as_bytes().get(counted_to..start).unwrap_or_default();
        line += passed.iter().filter(|byte| **byte == b'\n').count();
        counted_to = start;
        titles.push(Heading {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            level: outer + level_of_number(&title),
            title,
        });
    }
    if titles.len() >= MIN_TITLES {
        headings.extend(titles);
        headings.sort_by_key(|heading| heading.line);
    }
}

// `<h2>Annex</h2>`
fn html_title(html: &str) -> Option<String> {
    let html = html.trim();
    let rest = html
        .strip_prefix("<h")
        .or_else(|| html.strip_prefix("<H"))?;
    let level = rest.chars().next()?;
    if !('1'..='6').contains(&level) {
        return None;
    }
    let (_, inside) = rest.split_once('>')?;
    let (title, _) = inside.split_once("</")?;
    (!title.contains('<')).then(|| title.to_owned())
}

// `1.1 Scope` is below `1. Introduction`.
fn level_of_number(title: &str) -> u16 {
    let number = plain_digits(title.split_whitespace().next().unwrap_or_default());
    let parts = number.split('.').filter(|part| !part.is_empty());
    let is_number = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    match is_number {
        true => u16::try_from(parts.count()).unwrap_or(1).clamp(1, 6),
        false => 1,
    }
}

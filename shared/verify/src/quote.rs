//! Locates quotes on their pages and rates how well they match.

use stemma_reading::numbers::{NumberRole, numbers};

use super::claim::one_line;
use super::normalize::{CharPosition, NormalizedText};
use super::quote_match::QuoteMatch;
use super::quote_target::{CitedRect, QuoteTarget};

// A quote with more omissions (`…`) is not looked for.
const MAX_PARTS: usize = 8;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuoteCheck {
    pub matched: QuoteMatch,
    /// The words as they are on the page; as quoted when they were not found.
    pub quote: String,
    /// Index of the target and of its line where the quote begins; `None` when it was not found.
    pub start: Option<(usize, usize)>,
    /// In reading order.
    pub rects: Vec<CitedRect>,
    /// The confidence of its least sure word in percent, if text recognition read it.
    pub ocr_confidence: Option<u8>,
    /// The first of its words with figures that two readers read differently.
    pub disputed: Option<DisputedQuote>,
    /// The whole lines that the quote is on: in a table, the row with its label.
    pub lines: String,
    /// Where the quote is, one range per line.
    pub spans: Vec<CharPosition>,
}

/// A quoted word with both readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisputedQuote {
    pub text: String,
    /// Empty if the second reader read nothing.
    pub other: String,
}

/// Searches the first target, and the border to the second when there is one. A quote with omissions (`…`) matches where its
/// parts are found in order.
pub fn check_quote(quote: &str, targets: &[QuoteTarget<'_>]) -> QuoteCheck {
    let bare = quote.trim_matches(is_around_quote);
    let bare = bare.strip_prefix("...").unwrap_or(bare);
    let bare = bare.trim_end_matches("...").trim_matches(is_around_quote);
    let as_quoted = QuoteCheck {
        quote: bare.to_owned(),
        ..QuoteCheck::default()
    };
    // A page may print the dots: leaders between a label and its figures.
    let whole = [NormalizedText::from_text(bare)];
    let parts = bare.split('…').flat_map(|part| part.split("..."));
    let parts = parts.flat_map(|part| part.split("[]"));
    let parts: Vec<NormalizedText> = parts
        .map(NormalizedText::from_text)
        .filter(|part| !part.is_empty())
        .collect();
    let is_quote = parts.len() <= MAX_PARTS && parts.iter().any(NormalizedText::has_words);
    let located = locate_parts(&whole, targets).or_else(|| locate_parts(&parts, targets));
    if let Some(located) = located.filter(|_| is_quote) {
        let read = located.iter().map(|part| text_at(part, targets));
        let is_exact = located.len() == 1 && written(&located[0], targets).join("\n") == bare;
        return QuoteCheck {
            quote: read.collect::<Vec<_>>().join(" … "),
            ..located_quote(
                match is_exact {
                    true => QuoteMatch::Exact,
                    false => QuoteMatch::Normalized,
                },
                &located.concat(),
                targets,
            )
        };
    }
    // The position of each amount in the quote, when all are found.
    let page = NormalizedText::from_targets(targets.get(..1).unwrap_or_default(), false);
    let mut amounts = numbers(bare);
    amounts.retain(|number| number.role == NumberRole::Amount);
    let found = amounts.iter().map(|number| {
        let range = page.find(&NormalizedText::from_text(&number.digits), 0)?;
        Some(page.by_line(&range))
    });
    match found.collect::<Option<Vec<_>>>() {
        Some(found) if !found.is_empty() => QuoteCheck {
            quote: as_quoted.quote,
            ..located_quote(QuoteMatch::Number, &found.concat(), targets)
        },
        _ => as_quoted,
    }
}

fn is_around_quote(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '…' | '“' | '”' | '*' | '`')
}

// Where each part is, in order: in the first target, or from there across the border to the next.
fn locate_parts(
    parts: &[NormalizedText],
    targets: &[QuoteTarget<'_>],
) -> Option<Vec<Vec<CharPosition>>> {
    let tries = [(targets.get(..1)?, false), (targets, true)];
    let mut tries = tries.into_iter().take(targets.len());
    tries.find_map(|(targets, body)| {
        let page = NormalizedText::from_targets(targets, body);
        let mut from = 0;
        let mut located = Vec::new();
        for part in parts {
            let range = page.find(part, from)?;
            from = range.end;
            located.push(page.by_line(&range));
        }
        (located.first()?.first()?.target == 0).then_some(located)
    })
}

fn located_quote(
    matched: QuoteMatch,
    spans: &[CharPosition],
    targets: &[QuoteTarget<'_>],
) -> QuoteCheck {
    let placed = || {
        spans
            .iter()
            .map(|at| (targets[at.target], at.line, at.start..at.end))
    };
    let rects = placed().flat_map(|(target, line, bytes)| target.rects(line, &bytes));
    let readings = placed().flat_map(|(target, line, bytes)| target.readings(line, &bytes));
    let readings: Vec<_> = readings.collect();
    let mut lines: Vec<&str> = placed()
        .map(|(target, line, _)| target.line(line))
        .collect();
    lines.dedup();
    QuoteCheck {
        matched,
        quote: String::new(),
        start: spans.first().map(|at| (at.target, at.line)),
        rects: rects.collect(),
        ocr_confidence: readings.iter().map(|(_, read)| read.confidence).min(),
        disputed: readings.into_iter().find_map(|(text, read)| {
            Some(DisputedQuote {
                text: text.to_owned(),
                other: read.other?,
            })
        }),
        lines: lines.join("\n"),
        spans: spans.to_vec(),
    }
}

fn written<'t>(places: &[CharPosition], targets: &[QuoteTarget<'t>]) -> Vec<&'t str> {
    let lines = places
        .iter()
        .map(|at| targets[at.target].line(at.line).get(at.start..at.end));
    lines.map(Option::unwrap_or_default).collect()
}

// The text at the positions, lines joined.
fn text_at(places: &[CharPosition], targets: &[QuoteTarget<'_>]) -> String {
    let mut text = String::new();
    for (at, part) in places.iter().zip(written(places, targets)) {
        text.push_str(part.trim());
        // A word hyphenated at the end of a line goes on in the next.
        let rest = targets[at.target]
            .line(at.line)
            .get(at.end..)
            .unwrap_or_default();
        if !matches!(rest.trim(), "-" | "\u{2010}" | "\u{AD}") {
            text.push(' ');
        }
    }
    one_line(&text)
}

#[cfg(test)]
mod tests {
    use stemma_document::{Line, LineRole, Page, Pt, Rect, Word};

    use super::*;

    /// Page size 600 × 800; each letter is 5 points wide and 10 high.
    pub(crate) fn page(lines: &[&str]) -> Page {
        let lines = lines
            .iter()
            .enumerate()
            .map(|(at, text): (usize, &&str)| {
                let y = 20.0 * (at as f32 + 1.0);
                let mut words = Vec::new();
                let mut start = 0;
                for word in text.split(' ') {
                    let end = start + word.len();
                    let x = |byte: usize| Pt::new(50.0 + 5.0 * text[..byte].chars().count() as f32);
                    if !word.is_empty() {
                        words.push(Word {
                            start: start as u32,
                            end: end as u32,
                            x0: x(start),
                            x1: x(end),
                        });
                    }
                    start = end + 1;
                }
                let right = 50.0 + 5.0 * text.chars().count() as f32;
                Line {
                    text: (*text).to_owned(),
                    rect: Rect::new(50.0, y, right, y + 10.0),
                    words,
                    ..Line::default()
                }
            })
            .collect();
        Page {
            width: Pt::new(600.0),
            height: Pt::new(800.0),
            lines,
            ..Page::default()
        }
    }

    #[test]
    fn quotes_match_exactly_normalized_by_number_or_not() {
        let page = page(&[
            "Purchases of property, plant and equip-",
            "ment (PP&E)   (1,749)   (1,603)",
            "The Company’s sales rose 5 %.",
        ]);
        let targets = [QuoteTarget::page(60, &page)];
        for (quote, verified) in [
            ("(1,749)", QuoteMatch::Exact),
            ("“Purchases of property, plant”", QuoteMatch::Exact),
            (
                "purchases of property, plant and equipment (PP&E) (1,749)",
                QuoteMatch::Normalized,
            ),
            ("The Company's sales rose 5%", QuoteMatch::Normalized),
            ("Purchases of property … (1,749)", QuoteMatch::Normalized),
            ("capital expenditure was 1,749", QuoteMatch::Number),
            ("capital expenditure was 1,849", QuoteMatch::None),
            ("purchases of plant", QuoteMatch::None),
            ("(1,749) … Purchases of property", QuoteMatch::Number),
            ("749", QuoteMatch::None),
            ("...", QuoteMatch::None),
            ("", QuoteMatch::None),
        ] {
            let checked = check_quote(quote, &targets);
            assert_eq!(checked.matched, verified, "{quote}");
            assert_eq!(
                checked.rects.is_empty(),
                verified == QuoteMatch::None,
                "{quote}"
            );
        }
        let checked = check_quote("plant and equipment (PP&E) (1,749)", &targets);
        assert_eq!(checked.quote, "plant and equipment (PP&E) (1,749)");
        // Each column has its own rectangle.

        assert_eq!(checked.start, Some((0, 0)));
        assert_eq!(checked.rects.len(), 3);
    }

    #[test]
    fn quotes_may_span_pages_across_running_heads() {
        let mut first = page(&["We may fail to", "12"]);
        let mut second = page(&["3M COMPANY", "retain our people."]);
        first.lines[1].role = LineRole::Foot;
        second.lines[0].role = LineRole::Head;
        let targets = [
            QuoteTarget::page(12, &first),
            QuoteTarget::page(13, &second),
        ];
        let checked = check_quote("may fail to retain our people", &targets);
        assert_eq!(checked.matched, QuoteMatch::Normalized);
        assert_eq!(checked.quote, "may fail to retain our people");
        let pages: Vec<u32> = checked.rects.iter().map(|rect| rect.page).collect();

        assert_eq!(pages, [12, 13]);
        assert_eq!(checked.start, Some((0, 0)));
        // Text of the second page alone is not a quote of the first.
        assert_eq!(
            check_quote("retain our people", &targets).matched,
            QuoteMatch::None
        );
        assert_eq!(
            check_quote("retain our people", &targets[1..]).matched,
            QuoteMatch::Exact
        );
    }

    #[test]
    fn leaders_of_a_table_are_no_omissions() {
        let row = format!(
            "Net sales {} $ 1,749 {} 1,603",
            ".".repeat(70),
            ".".repeat(20)
        );
        let page = page(&[&row, "Cost of sales ..... 900"]);
        let targets = [QuoteTarget::page(1, &page)];
        let checked = check_quote(&row, &targets);
        assert_eq!(checked.matched, QuoteMatch::Exact);
        assert_eq!(checked.spans[0].end, row.len());
        // As a reader shortens them.
        let short = check_quote("Net sales ... $ 1,749 ... 1,603", &targets);
        assert_eq!(short.matched, QuoteMatch::Normalized);
        assert_eq!(short.spans.len(), 3);
        // No part of a quote is left out.
        let parts = "Net sales ... $ 1,749 ".repeat(6);
        assert!(!check_quote(&parts, &targets).matched.is_verbatim());
        let invented = format!("{row} were stolen");
        assert!(!check_quote(&invented, &targets).matched.is_verbatim());
    }

    #[test]
    fn texts_have_lines_and_no_rectangles() {
        let lines = vec![
            "# Notes".to_owned(),
            "net sales".to_owned(),
            "rose".to_owned(),
        ];
        let checked = check_quote("Net sales rose", &[QuoteTarget::text(7, &lines)]);
        assert_eq!(checked.matched, QuoteMatch::Normalized);
        assert_eq!(checked.start, Some((0, 1)));
        assert!(checked.rects.is_empty());
    }

    // Intersection over union of areas.
    fn iou(rects: &[CitedRect], words: &[CitedRect]) -> f64 {
        let cells = |all: &[CitedRect]| {
            let mut cells = std::collections::BTreeSet::new();
            for rect in all {
                let left_edge = (rect.x * 10_000.0).round() as u64;
                let right = ((rect.x + rect.w) * 10_000.0).round() as u64;
                cells.extend(
                    (left_edge..right).map(|x| (rect.page, (rect.y * 10_000.0).round() as u64, x)),
                );
            }
            cells
        };
        let one = cells(rects);
        let other = cells(words);
        one.intersection(&other).count() as f64 / one.union(&other).count().max(1) as f64
    }

    proptest::proptest! {
        #[test]
        fn rectangles_cover_the_words_of_the_quote(
            words in proptest::collection::vec("[a-zA-Z]{4,12}", 12..60),
            split in 1usize..59,
            from in 0usize..50,
            length in 1usize..20,
            is_upper_case in proptest::bool::ANY,
        ) {
            let split = split.min(words.len() - 1);
            let from = from.min(words.len() - 1);
            let to = (from + length).min(words.len());
            let lines = |words: &[String]| words.chunks(7).map(|line| line.join(" ")).collect::<Vec<_>>();
            let pages = [lines(&words[..split]), lines(&words[split..])].map(|lines| page(&lines.iter().map(String::as_str).collect::<Vec<_>>()));
            let targets = if from < split { vec![QuoteTarget::page(1, &pages[0]), QuoteTarget::page(2, &pages[1])] } else { vec![QuoteTarget::page(2, &pages[1])] };
            let quote = words[from..to].join(if is_upper_case { "\n" } else { "  " });
            let checked = check_quote(&if is_upper_case { quote.to_uppercase() } else { quote }, &targets);
            proptest::prop_assert!(checked.matched.is_verbatim());
            // The same words may occur further up; then that place is reported.
            let begins = checked.start.unwrap();
            let first = targets[begins.0].number;
            let mut number = if from < split { 0 } else { split };
            let mut boxes = Vec::new();
            for (index, page) in pages.iter().enumerate().filter(|(index, _)| from < split || *index == 1) {
                let target = QuoteTarget::page(index as u32 + 1, page);
                for (at, line) in page.lines.iter().enumerate() {
                    for word in &line.words {
                        if (from..to).contains(&number) {
                            boxes.extend(target.rects(at, &(word.start as usize..word.end as usize)));
                        }
                        number += 1;
                    }
                }
            }
            let elsewhere = boxes.first().is_none_or(|place| (place.page, place.x, place.y) != (first, checked.rects[0].x, checked.rects[0].y));
            proptest::prop_assert!(elsewhere || iou(&checked.rects, &boxes) >= 0.8, "{} {:?} {:?}", iou(&checked.rects, &boxes), checked.rects, boxes);
        }

        #[test]
        fn no_quote_panics(quote in ".{0,60}", text in ".{0,120}") {
            let page = page(&text.lines().collect::<Vec<_>>());
            let checked = check_quote(&quote, &[QuoteTarget::page(1, &page)]);
            proptest::prop_assert!(checked.matched == QuoteMatch::None || checked.start.is_some());
        }
    }
}

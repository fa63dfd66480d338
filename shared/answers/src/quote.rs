//! Whether a quote stands on its page, how surely, and where.

use super::citation::{CitedRect, Verified};
use super::fold::{At, Folded, Found};
use super::numbers::{Role, numbers};
use super::sheet::Sheet;

/// Parts of a quote that leaves something out; more are ignored.
const MAX_PARTS: usize = 8;

/// What the check of a quote says.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// How surely it stands there.
    pub verified: Verified,
    /// The words as they stand there; as quoted where they do not.
    pub quote: String,
    /// Index of the sheet, and of its line, where it begins; `None` where it stands nowhere.
    pub begins: Option<(usize, usize)>,
    /// Where it stands, in reading order.
    pub rects: Vec<CitedRect>,
    /// The lines it stands on, whole: of a table the row with its label.
    pub lines: String,
}

/// Looks for a quote on the first of `sheets`; where there is a second, also across the border between them. A quote that leaves
/// something out (`…`) stands where its parts do, in order.
pub fn check(quote: &str, sheets: &[Sheet<'_>]) -> Checked {
    let trimmed = bare(quote);
    let parts: Vec<Folded> = parts(trimmed)
        .map(Folded::of_text)
        .filter(|part| !part.is_empty())
        .collect();
    let found = if parts.iter().any(Folded::has_words) {
        stands(&parts, sheets)
    } else {
        None
    };
    if let Some((page, found)) = found {
        let read: Vec<String> = found
            .iter()
            .map(|range| as_written(page.places(range), sheets))
            .collect();
        let exact = found.len() == 1 && is_exact(trimmed, page.places(&found[0]), sheets);
        let verified = if exact {
            Verified::Exact
        } else {
            Verified::Normalised
        };
        return placed(verified, read.join(" … "), &page, &found, sheets);
    }
    let Some(first) = sheets.get(..1) else {
        return nowhere(trimmed);
    };
    let page = Folded::of_sheets(first, false);
    match number_places(trimmed, &page) {
        Some(found) => placed(Verified::Number, trimmed.to_owned(), &page, &found, sheets),
        None => nowhere(trimmed),
    }
}

/// The quote without the marks and dots that stand around it.
fn bare(quote: &str) -> &str {
    let around = |c: char| c.is_whitespace() || matches!(c, '"' | '…' | '“' | '”' | '*' | '`');
    let bare = quote.trim_matches(around);
    bare.strip_prefix("...")
        .unwrap_or(bare)
        .trim_end_matches("...")
        .trim_matches(around)
}

fn parts(quote: &str) -> impl Iterator<Item = &str> {
    let dots = quote.split('…').flat_map(|part| part.split("..."));
    dots.flat_map(|part| part.split("[]")).take(MAX_PARTS)
}

/// Where all parts stand, one behind the other: on the first sheet, or from there across the border to the second.
fn stands(parts: &[Folded], sheets: &[Sheet<'_>]) -> Option<(Folded, Vec<Found>)> {
    let first = sheets.get(..1)?;
    let tries = [(first, false), (sheets, true)];
    tries
        .into_iter()
        .filter(|(sheets, body)| !body || sheets.len() > 1)
        .find_map(|(sheets, body)| {
            let page = Folded::of_sheets(sheets, body);
            let mut from = 0;
            let mut found: Vec<Found> = Vec::new();
            for part in parts {
                let range = page.find(part, from)?;
                from = range.end;
                found.push(range);
            }
            let begins = found
                .first()
                .and_then(|range| page.places(range).first())
                .map(|at| at.sheet);
            (begins == Some(0)).then_some((page, found))
        })
}

/// Where each number of the quote stands, when all do.
fn number_places(quote: &str, page: &Folded) -> Option<Vec<Found>> {
    let wanted: Vec<String> = numbers(quote)
        .into_iter()
        .filter(|number| number.role == Role::Amount)
        .map(|number| number.digits)
        .collect();
    let found: Option<Vec<Found>> = wanted
        .iter()
        .map(|digits| page.find(&Folded::of_text(digits), 0))
        .collect();
    found.filter(|found| !found.is_empty())
}

fn nowhere(quote: &str) -> Checked {
    Checked {
        verified: Verified::None,
        quote: quote.to_owned(),
        begins: None,
        rects: Vec::new(),
        lines: String::new(),
    }
}

fn placed(
    verified: Verified,
    quote: String,
    page: &Folded,
    found: &[Found],
    sheets: &[Sheet<'_>],
) -> Checked {
    let begins = found
        .first()
        .and_then(|range| page.places(range).first())
        .map(|at| (at.sheet, at.line));
    let stretches: Vec<At> = found
        .iter()
        .flat_map(|range| by_line(page.places(range)))
        .collect();
    let rects = stretches
        .iter()
        .flat_map(|at| sheets[at.sheet].rects(at.line, at.start, at.end))
        .collect();
    let mut lines: Vec<&str> = stretches
        .iter()
        .map(|at| sheets[at.sheet].line(at.line))
        .collect();
    lines.dedup();
    Checked {
        verified,
        quote,
        begins,
        rects,
        lines: lines.join("\n"),
    }
}

/// The stretch of each line.
fn by_line(places: &[At]) -> Vec<At> {
    let mut lines: Vec<At> = Vec::new();
    for at in places.iter().filter(|at| at.start < at.end) {
        match lines.last_mut() {
            Some(last) if (last.sheet, last.line) == (at.sheet, at.line) => {
                (last.start, last.end) = (last.start.min(at.start), last.end.max(at.end));
            }
            _ => lines.push(*at),
        }
    }
    lines
}

/// The words as they stand there, lines put together.
fn as_written(places: &[At], sheets: &[Sheet<'_>]) -> String {
    let mut written = String::new();
    let mut hyphen = false;
    for at in by_line(places) {
        let line = sheets[at.sheet].line(at.line);
        if !hyphen {
            written.push(' ');
        }
        written.push_str(line.get(at.start..at.end).unwrap_or_default().trim());
        // A word that was cut at the line's end goes on in the next.
        hyphen = line
            .get(at.end..)
            .is_some_and(|rest| matches!(rest.trim(), "-" | "\u{2010}" | "\u{AD}"));
    }
    written.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the quote is what stands there, letter for letter.
fn is_exact(quote: &str, places: &[At], sheets: &[Sheet<'_>]) -> bool {
    let lines: Vec<&str> = by_line(places)
        .iter()
        .map(|at: &At| {
            sheets[at.sheet]
                .line(at.line)
                .get(at.start..at.end)
                .unwrap_or_default()
        })
        .collect();
    lines.join("\n") == quote
}

#[cfg(test)]
mod tests {
    use stemma_document::{Line, LineRole, Page, Pt, Rect, Word};

    use super::*;

    /// A page of these lines, each letter 5 points wide and 10 high, on 600 × 800.
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
    fn a_quote_stands_exactly_nearly_by_its_numbers_or_not() {
        let page = page(&[
            "Purchases of property, plant and equip-",
            "ment (PP&E)   (1,749)   (1,603)",
            "The Company’s sales rose 5 %.",
        ]);
        let sheets = [Sheet::page(60, &page)];
        for (quote, verified) in [
            ("(1,749)", Verified::Exact),
            ("“Purchases of property, plant”", Verified::Exact),
            (
                "purchases of property, plant and equipment (PP&E) (1,749)",
                Verified::Normalised,
            ),
            ("The Company's sales rose 5%", Verified::Normalised),
            ("Purchases of property … (1,749)", Verified::Normalised),
            ("capital expenditure was 1,749", Verified::Number),
            ("capital expenditure was 1,849", Verified::None),
            ("purchases of plant", Verified::None),
            ("(1,749) … Purchases of property", Verified::Number),
            ("749", Verified::None),
            ("...", Verified::None),
            ("", Verified::None),
        ] {
            let checked = check(quote, &sheets);
            assert_eq!(checked.verified, verified, "{quote}");
            assert_eq!(
                checked.rects.is_empty(),
                verified == Verified::None,
                "{quote}"
            );
        }
        let checked = check("plant and equipment (PP&E) (1,749)", &sheets);
        assert_eq!(checked.quote, "plant and equipment (PP&E) (1,749)");
        // Columns have rectangles of their own.
        assert_eq!((checked.begins, checked.rects.len()), (Some((0, 0)), 3));
    }

    #[test]
    fn a_quote_may_run_over_to_the_next_page_past_its_running_head() {
        let mut first = page(&["We may fail to", "12"]);
        let mut second = page(&["3M COMPANY", "retain our people."]);
        first.lines[1].role = LineRole::Foot;
        second.lines[0].role = LineRole::Head;
        let sheets = [Sheet::page(12, &first), Sheet::page(13, &second)];
        let checked = check("may fail to retain our people", &sheets);
        assert_eq!(
            (checked.verified, checked.quote.as_str()),
            (Verified::Normalised, "may fail to retain our people")
        );
        let pages: Vec<u32> = checked.rects.iter().map(|rect| rect.page).collect();
        assert_eq!((pages, checked.begins), (vec![12, 13], Some((0, 0))));
        // What stands on the second page alone is no quote of the first.
        assert_eq!(check("retain our people", &sheets).verified, Verified::None);
        assert_eq!(
            check("retain our people", &sheets[1..]).verified,
            Verified::Exact
        );
    }

    #[test]
    fn a_text_has_lines_and_no_rectangles() {
        let lines = vec![
            "# Notes".to_owned(),
            "net sales".to_owned(),
            "rose".to_owned(),
        ];
        let checked = check("Net sales rose", &[Sheet::text(7, &lines)]);
        assert_eq!(
            (checked.verified, checked.begins),
            (Verified::Normalised, Some((0, 1)))
        );
        assert!(checked.rects.is_empty());
    }

    /// Area that both cover, over area that either covers; along one line, whose height they share.
    fn iou(rects: &[CitedRect], words: &[CitedRect]) -> f64 {
        let cells = |all: &[CitedRect]| {
            let mut cells = std::collections::BTreeSet::new();
            for rect in all {
                let left = (rect.x * 10_000.0).round() as u64;
                let right = ((rect.x + rect.w) * 10_000.0).round() as u64;
                cells.extend(
                    (left..right).map(|x| (rect.page, (rect.y * 10_000.0).round() as u64, x)),
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
            loud in proptest::bool::ANY,
        ) {
            let (split, from) = (split.min(words.len() - 1), from.min(words.len() - 1));
            let to = (from + length).min(words.len());
            let lines = |words: &[String]| words.chunks(7).map(|line| line.join(" ")).collect::<Vec<_>>();
            let (one, two) = (lines(&words[..split]), lines(&words[split..]));
            let pages = [one, two].map(|lines| page(&lines.iter().map(String::as_str).collect::<Vec<_>>()));
            let sheets = if from < split { vec![Sheet::page(1, &pages[0]), Sheet::page(2, &pages[1])] } else { vec![Sheet::page(2, &pages[1])] };
            let quote = words[from..to].join(if loud { "\n" } else { "  " });
            let checked = check(&if loud { quote.to_uppercase() } else { quote }, &sheets);
            proptest::prop_assert!(checked.verified.stands());
            // The same words may stand further up: then those are shown.
            let begins = checked.begins.unwrap();
            let first = sheets[begins.0].number;
            let mut number = if from < split { 0 } else { split };
            let mut boxes = Vec::new();
            for (index, page) in pages.iter().enumerate().filter(|(index, _)| from < split || *index == 1) {
                let sheet = Sheet::page(index as u32 + 1, page);
                for (at, line) in page.lines.iter().enumerate() {
                    for word in &line.words {
                        if (from..to).contains(&number) {
                            boxes.extend(sheet.rects(at, word.start as usize, word.end as usize));
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
            let checked = check(&quote, &[Sheet::page(1, &page)]);
            proptest::prop_assert!(checked.verified == Verified::None || checked.begins.is_some());
        }
    }
}

//! Finds lines that may be headings by their layout: size, weight, capitals, emphasis, numbers and space.

use stemma_reading::heading_look::SMALLER;
use stemma_reading::letters::{digit_value, is_small, opens_title};
use stemma_reading::numerals::parse_roman;
use stemma_reading::sentences::is_stop;

use super::false_headings::{ends_with_connector, is_boilerplate, is_dateline};
use super::heading_candidate::{HeadingCandidate, Verdict};
use super::heading_style::{style_of, style_of_run_in};
use super::line_features::{LineFeatures, LineTable, is_finished};
use super::line_rules::{opens_text, rule_against_line, stands_out};
use super::numbering::{self, NumberClass};
use super::statements::{is_statement_title, names_notes};
use super::titles;
use super::weights::{
    DISPLAY_TYPE, JOINED, NARROW, RAGGED_EDGE, RIGHT_EDGE, SAME_PARAGRAPH, SENTENCE_WORDS, TIGHT,
    WIDE, WRAPPED, WRAPPED_WORDS,
};

/// The candidates outside `excluded` rows, in reading order, judged by their lines.
pub(super) fn find_candidates(lines: &LineTable<'_>, excluded: &[bool]) -> Vec<HeadingCandidate> {
    let mut candidates: Vec<HeadingCandidate> = Vec::new();
    let mut at = 0;
    while at < lines.rows.len() {
        let candidate = if excluded[at] {
            None
        } else {
            run_in_heading(lines, at).or_else(|| read_candidate(lines, excluded, at))
        };
        at = candidate.as_ref().map_or(at, |found| found.rows.1) + 1;
        candidates.extend(candidate);
    }
    candidates
}

/// The candidate that begins in a row.
fn read_candidate(lines: &LineTable<'_>, excluded: &[bool], at: usize) -> Option<HeadingCandidate> {
    let is_statement = is_statement_title(lines, at);
    if !is_statement && !stands_out(lines, at) {
        return None;
    }
    let rule = Some(at)
        .filter(|_| !is_statement)
        .and_then(|at| rule_against_line(lines, at));
    let style = style_of(lines, &lines.rows[at]);
    if let Some(rule) = rule {
        let title = titles::fold_whitespace(lines.rows[at].text);
        return Some(HeadingCandidate {
            verdict: Verdict::NotHeading(rule),
            ..HeadingCandidate::new((at, at), title, style)
        });
    }
    let last = last_wrapped_row(lines, excluded, at);
    let title = heading_title(lines, at, last);
    let mut candidate = HeadingCandidate {
        statement: is_statement,
        ..HeadingCandidate::new((at, last), title, style)
    };
    // Headings of risk factors are whole sentences, so sentences are collected here and compared with each other later.
    candidate.style.sentence =
        candidate.is_closed() && candidate.words >= SENTENCE_WORDS && opens_text(lines, at, last);
    Some(candidate)
}

/// The heading that a bold or emphasized phrase at the start of a paragraph is; it may fill the first row and end in the next.
fn run_in_heading(lines: &LineTable<'_>, at: usize) -> Option<HeadingCandidate> {
    let row = &lines.rows[at];
    let (phrase, last) = match (row.run_in, lines.next_on_page(at)) {
        (Some(phrase), _) => (phrase, at),
        (None, Some(next)) if is_full(row, next) => (next.run_in?, at + 1),
        _ => return None,
    };
    let is_marked = lines.body.is_bold(phrase.bold) || lines.body.is_emphasized(phrase.emphasis);
    if !is_marked
        || !row.text.starts_with(|c: char| {
            opens_title(c) || digit_value(c).is_some() || c == '(' && row.words > 1
        })
    {
        return None;
    }
    let above = lines
        .above_on_page(at)
        .filter(|_| row.gap < TIGHT + lines.leading);
    let opens = above.is_none_or(|above| above.running || is_finished(above.text));
    let fits = !row.running && !row.table && (row.size - lines.body.size()).abs() < SMALLER;
    let title = if last == at {
        phrase.text.to_string()
    } else {
        format!("{} {}", row.text, phrase.text)
    };
    let is_caption =
        numbering::first_number(&title).is_some_and(|number| number.class == NumberClass::Figure);
    let is_text = is_boilerplate(row) || is_dateline(phrase.text);
    (opens && fits && !is_caption && !is_text).then(|| {
        let title = titles::fold_whitespace(&title);
        HeadingCandidate::new((at, last), title, style_of_run_in(lines, row, &phrase))
    })
}

/// Whether a bold or emphasized phrase fills the row and goes on in the next one, before regular text.
fn is_full(row: &LineFeatures<'_>, next: &LineFeatures<'_>) -> bool {
    let is_alike = next
        .run_in
        .is_some_and(|phrase| (phrase.bold, phrase.emphasis) == (row.bold, row.emphasis));
    is_alike
        && next.gap < SAME_PARAGRAPH
        && row.cells == 1
        && row.x1 > next.x1 - RAGGED_EDGE * row.size
        && !is_finished(row.text)
}

/// The text of a heading, or only its first cell if it heads a table.
fn heading_title(lines: &LineTable<'_>, first: usize, last: usize) -> String {
    let row = &lines.rows[first];
    let below = lines.rows[first + 1..]
        .iter()
        .take(4)
        .any(|next| next.page == row.page && next.cells > 1);
    let heads_table = first == last && (row.titled || row.cells == 2 && below);
    let number = numbering::first_number(row.first_cell)
        .is_some_and(|number| number.rest.is_empty())
        || parse_roman(row.first_cell.trim_end_matches(['.', ')'])).is_some();
    if heads_table && row.first_cell.len() >= 4 && !number {
        return titles::fold_whitespace(row.first_cell);
    }
    lines.title((first, last))
}

/// The last row of a heading that wraps over rows.
// Joining too little gives two sections for one title; joining too much swallows the first sub-heading. Rows are joined only
// if they share style and case, are close, and the upper one shows that it is unfinished: it is centered, reaches the
// right edge, ends with a connector, or the next row starts in lower case.
fn last_wrapped_row(lines: &LineTable<'_>, excluded: &[bool], first: usize) -> usize {
    let mut last = first;
    while last + 1 < lines.rows.len() && last < first + 4 {
        let row = &lines.rows[last];
        let next = &lines.rows[last + 1];
        if last == first && !excluded[last + 1] && is_number_over_title(lines, first) {
            last += 1;
            continue;
        }
        let statement = is_statement_title(lines, last)
            || is_statement_title(lines, last + 1)
            || names_notes(next.text);
        let near = next.page == row.page && next.gap < WRAPPED + lines.leading;
        let close = near && LineTable::same_style(row, next) && row.caps == next.caps;
        // A numbered row starts a new heading, except in `… AS ADOPTED PURSUANT TO` / `SECTION 906 …`.
        let numbered =
            numbering::first_number(next.text).is_some() && !ends_with_connector(row.text);
        if excluded[last + 1]
            || !close
            || numbered
            || statement
            || next.running
            || next.table
            || next.prose
            || next.words > WRAPPED_WORDS
            || next.words == 0
        {
            break;
        }
        let centered = row.centered && next.centered;
        // In a narrow column a title wraps early. Rows without extra space between them are one title there.
        let wide = if next.gap < SAME_PARAGRAPH {
            NARROW
        } else {
            WIDE
        };
        let full = row.x1 > next.x1 - RIGHT_EDGE && row.x1 - row.x0 > wide;
        let lower = next.text.starts_with(is_small);
        // Lines of display type without extra space between them are one title, wherever it breaks.
        let display = row.size > lines.body.size() + DISPLAY_TYPE && next.gap < TIGHT;
        let finished = row.text.ends_with(is_stop) || row.text.ends_with(':') && !display;
        if finished
            || is_boilerplate(next)
            || !(centered || full || lower || display || ends_with_connector(row.text))
        {
            break;
        }
        last += 1;
    }
    last
}

/// Whether the row is a number alone (`NOTE 1`) above its title, which may have another style.
fn is_number_over_title(lines: &LineTable<'_>, at: usize) -> bool {
    let number =
        numbering::first_number(lines.rows[at].text).is_some_and(|number| number.rest.is_empty());
    number
        && lines.next_on_page(at).is_some_and(|next| {
            let marked = next.caps || next.bold || lines.body.is_large(next.size);
            let title = !next.prose
                && !next.table
                && !next.running
                && next.words <= WRAPPED_WORDS
                && !is_boilerplate(next);
            marked && title && next.gap < JOINED && numbering::first_number(next.text).is_none()
        })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line};
    use super::super::heading_candidate::Document;
    use super::super::heading_rules::judge_candidates;
    use super::*;

    fn titles_of(doc: &Doc) -> Vec<String> {
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        let excluded = vec![false; lines.rows.len()];
        let document = Document {
            lines: &lines,
            announced: &[],
            is_filing: false,
        };
        judge_candidates(&document, &excluded)
            .into_iter()
            .filter(HeadingCandidate::is_kept)
            .map(|heading| heading.title)
            .collect()
    }

    #[test]
    fn headings_differ_from_prose_tables_and_units() {
        let mut doc = Doc::new(2);
        doc.section(0, "Overview");
        doc.add(0, line("(in millions)").bold());
        doc.add(0, line("Revenue").bold().cells(&["1,000", "900"]));
        doc.add(0, line("Cost").bold().cells(&["500", "400"]));
        doc.prose(0, 10.0, 4);
        doc.section(1, "Liquidity");
        doc.add(
            1,
            line("A bold sentence that goes on for quite a while and that ends in a full stop.")
                .bold(),
        );
        assert_eq!(titles_of(&doc), ["Overview", "Liquidity"]);
    }

    #[test]
    fn title_of_the_notes_does_not_continue_the_name_above() {
        let mut doc = Doc::new(1);
        let notes = "Notes to Consolidated Financial Statements";
        doc.add(
            0,
            line("Example Company and Subsidiaries")
                .bold()
                .at(220.0, 60.0),
        );
        doc.add(0, line(notes).bold().at(200.0, 72.0));
        doc.prose(0, 10.0, 4);
        let titles = titles_of(&doc);
        assert!(titles.iter().any(|title| title == notes), "{titles:?}");
    }

    #[test]
    fn repeated_sentence_headings_are_kept() {
        let risks = [
            "Weak demand in our end markets may harm the results of our operations.",
            "We may lose a customer.",
        ];
        let mut doc = Doc::new(3);
        for page in 0..2 {
            doc.prose(page, 10.0, 4);
            doc.section(page, risks[0]);
        }
        doc.section(2, risks[1]);
        assert_eq!(titles_of(&doc), [risks[0], risks[0], risks[1]]);
        let mut doc = Doc::new(1);
        doc.section(0, "Overview");
        doc.section(0, risks[0]);
        assert_eq!(
            titles_of(&doc),
            ["Overview"],
            "a single sentence is emphasis"
        );
    }

    #[test]
    fn spaced_numbered_lines_are_headings() {
        let mut doc = Doc::new(1);
        doc.prose(0, 10.0, 4);
        doc.add(0, line("2.1 Scope of the Rule"));
        doc.prose(0, 10.0, 4);
        doc.add(0, line("2.2 Data with Few Rows"));
        doc.prose(0, 10.0, 4);
        doc.add(0, line("2.3 Discussion: Why Rules Fail"));
        doc.add(0, line("Reaching All Rows").indent(18.0));
        doc.prose(0, 10.0, 4);
        assert_eq!(
            titles_of(&doc),
            [
                "2.1 Scope of the Rule",
                "2.2 Data with Few Rows",
                "2.3 Discussion: Why Rules Fail Reaching All Rows"
            ]
        );
    }

    #[test]
    fn series_of_phrases_before_paragraphs_are_headings() {
        let paragraph = |doc: &mut Doc, page: usize, phrase: &str| {
            let text = format!("{phrase} is tested every year for a loss of value and the");
            doc.add(page, line(&text).run_in(phrase));
            doc.prose(page, 10.0, 3);
        };
        let mut doc = Doc::new(2);
        doc.section(0, "Policies");
        for phrase in ["Goodwill.", "Leases —", "Income taxes:"] {
            paragraph(&mut doc, 1, phrase);
        }
        assert_eq!(
            titles_of(&doc),
            ["Policies", "Goodwill", "Leases", "Income taxes"]
        );
        let mut doc = Doc::new(2);
        doc.section(0, "Policies");
        paragraph(&mut doc, 1, "Goodwill.");
        paragraph(&mut doc, 1, "Leases");
        paragraph(&mut doc, 1, "Income taxes:");
        assert_eq!(titles_of(&doc), ["Policies"], "two phrases only emphasize");
        let mut doc = Doc::new(2);
        doc.section(0, "Policies");
        for phrase in ["Algorithm 1", "Algorithm 2.", "Algorithm 3:"] {
            paragraph(&mut doc, 1, phrase);
        }
        assert_eq!(titles_of(&doc), ["Policies"], "captions are not headings");
    }

    #[test]
    fn phrase_of_two_rows_before_a_paragraph_is_a_heading() {
        let first =
            "The failure to complete our program in the expected time frame and at the expected";
        let mut doc = Doc::new(3);
        for page in 0..3 {
            doc.prose(page, 10.0, 3);
            doc.add(page, line(first).run_in(first));
            let text =
                "cost may harm us. In the first quarter of the year we announced the program which";
            doc.add(page, line(text).run_in("cost may harm us."));
            doc.prose(page, 10.0, 3);
        }
        assert_eq!(
            titles_of(&doc),
            vec![format!("{first} cost may harm us"); 3]
        );
    }

    #[test]
    fn labels_footnotes_and_fragments_are_no_headings() {
        let mut doc = Doc::new(1);
        doc.section(0, "Overview");
        for text in [
            "Three Months Ended",
            "Page",
            "By email:",
            "(a) Refer to Note 5",
            "Georgia.",
            "Revolving loan 1,500.0",
            "BY AND BETWEEN",
            "Springfield, Ill. - May 31, 2023",
            "Execution Version",
            "Signature page to follow",
        ] {
            doc.add(0, line(text).bold());
            doc.add(0, line("x"));
        }
        assert_eq!(titles_of(&doc), ["Overview"]);
    }

    #[test]
    fn two_line_title_is_one_heading() {
        let mut doc = Doc::new(1);
        doc.add(
            0,
            line("COMPANY REPORTS FOURTH QUARTER")
                .size(14.0)
                .bold()
                .at(196.0, 100.0),
        );
        doc.add(
            0,
            line("AND FULL YEAR RESULTS")
                .size(14.0)
                .bold()
                .at(226.0, 116.0),
        );
        doc.prose(0, 10.0, 4);
        assert_eq!(
            titles_of(&doc),
            ["COMPANY REPORTS FOURTH QUARTER AND FULL YEAR RESULTS"]
        );
    }

    #[test]
    fn table_title_is_a_heading() {
        let mut doc = Doc::new(1);
        doc.prose(0, 10.0, 6);
        doc.add(
            0,
            line("Flexible Packaging")
                .size(12.0)
                .bold()
                .cells(&["2022", "2023"])
                .cells_smaller(3.0),
        );
        doc.add(0, line("Net sales").size(9.0).cells(&["100", "120"]));
        doc.add(0, line("Earnings").size(9.0).cells(&["10", "12"]));
        assert_eq!(titles_of(&doc), ["Flexible Packaging"]);
    }

    #[test]
    fn years_begin_titles_but_exhibit_lists_do_not() {
        let mut doc = Doc::new(2);
        doc.section(0, "2023 Financial Results");
        doc.section(0, "17 Fields of Use");
        doc.section(0, "Year 1999");
        doc.prose(1, 10.0, 6);
        for exhibit in ["Exhibit 10.1 Credit Agreement", "Exhibit 10.2 Lease"] {
            doc.add(1, line(exhibit).bold());
        }
        doc.section(1, "Lemma 3 (Bound)");
        assert_eq!(
            titles_of(&doc),
            ["2023 Financial Results", "17 Fields of Use"]
        );
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        let row = lines
            .rows
            .iter()
            .find(|row| row.text.starts_with("17"))
            .unwrap();
        assert!(
            !style_of(&lines, row).is_numbered(),
            "it has no sixteenth or eighteenth next to it"
        );
    }

    #[test]
    fn headings_wrap_in_double_spaced_text() {
        let mut doc = Doc::new(1);
        for at in 0..12_u8 {
            doc.add(
                0,
                line("the quick company sold more goods in the second year than before")
                    .at(72.0, 60.0 + 24.0 * f32::from(at)),
            );
        }
        doc.add(
            0,
            line("GENERAL RULES FOR THE USE OF FORMS AND OF THEIR MANY AND VARIED")
                .bold()
                .at(72.0, 348.0),
        );
        doc.add(0, line("SCHEDULES").bold().at(72.0, 372.0));
        assert_eq!(
            titles_of(&doc),
            ["GENERAL RULES FOR THE USE OF FORMS AND OF THEIR MANY AND VARIED SCHEDULES"]
        );
    }

    #[test]
    fn lone_number_joins_title_below() {
        let mut doc = Doc::new(1);
        for (number, title) in [("NOTE 1", "SUMMARY OF POLICIES"), ("NOTE 2", "LOANS")] {
            let above = doc.add(0, line(number).bold());
            doc.add(
                0,
                line(title)
                    .size(12.0)
                    .bold()
                    .at(72.0, above.y1.points() + 5.0),
            );
            doc.add(0, line(""));
            doc.prose(0, 10.0, 4);
        }
        doc.add(0, line("By: /s/ Jane Roe").bold());
        doc.add(0, line("Jane Roe").bold());
        doc.add(0, line("“Plan” means this Savings Plan").bold());
        assert_eq!(
            titles_of(&doc),
            ["NOTE 1 SUMMARY OF POLICIES", "NOTE 2 LOANS"]
        );
    }
}

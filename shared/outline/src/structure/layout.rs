//! Finds headings by layout: size, weight, capitals, emphasis, numbers and space.
//!
//! First each row is judged by itself and its neighbors (`is_candidate`), then headings are compared with each other
//! (`heading_filters`). The filters need the full list, so nothing is dropped early for being too frequent.

use stemma_reading::vocabulary::SMALL_TITLE_WORDS;

use super::false_headings::{
    ends_mid_sentence, ends_with_connector, inside_paragraph, is_boilerplate, is_dateline,
    is_label, stands_on_table,
};
use super::heading_filters::{self, OPEN_WORDS, PAGE_TOP};
use super::heading_style::{LayoutHeading, style_of, style_of_run_in};
use super::line_features::{LineFeatures, LineTable, is_finished};
use super::numbering::{self, NumberClass};
use super::outline_head::LAYOUT_RANK;
use super::statements::{is_statement_title, names_notes};
use super::titles;

// Shorter titles with a full stop are run-in labels rather than sentences.
const SENTENCE_WORDS: usize = 6;
// Titles set larger than the text by more points are display type.
const DISPLAY_TYPE: f32 = 4.0;

/// All headings outside `excluded` rows. `other_sections` are rows and titles of announced sections.
pub(super) fn find_headings(
    lines: &LineTable<'_>,
    excluded: &[bool],
    other_sections: &[(usize, &str)],
) -> Vec<LayoutHeading> {
    let mut headings: Vec<LayoutHeading> = Vec::new();
    let mut at = 0;
    while at < lines.rows.len() {
        let run_in = run_in_heading(lines, at).filter(|_| !excluded[at]);
        if excluded[at] || run_in.is_some() || !is_candidate(lines, at) {
            at = run_in.as_ref().map_or(at, |heading| heading.rows.1) + 1;
            headings.extend(run_in);
            continue;
        }
        let last = last_wrapped_row(lines, excluded, at);
        let title = heading_title(lines, at, last);
        let words = titles::word_count(&title);
        let numbered = !numbering::parse_numbers(&title).is_empty();
        let listed = ["; and", "; or", ";"]
            .iter()
            .any(|end| title.ends_with(end));
        let closed = title.ends_with('.') && !numbered;
        // Headings of risk factors are whole sentences, so sentences are collected here and judged in company later.
        let sentence = closed && words >= SENTENCE_WORDS && opens_text(lines, at, last);
        let most = if numbered || sentence { 55 } else { 32 };
        let label = is_label(lines, last, &title);
        if !listed && !label && words <= most && (sentence || !closed || words <= OPEN_WORDS) {
            let mut style = style_of(lines, &lines.rows[at]);
            style.sentence = sentence;
            headings.push(LayoutHeading {
                rows: (at, last),
                title,
                style,
                rank: LAYOUT_RANK,
                dense: false,
                over_text: false,
                statement: is_statement_title(lines, at),
            });
        }
        at = last + 1;
    }
    // Each filter counts what the ones before it left. Sentences go first, so that they do not inflate the counts of styles.
    heading_filters::filter_sentences(&mut headings);
    heading_filters::filter_run_ins(&mut headings, other_sections);
    heading_filters::drop_contents_lists(&mut headings, other_sections);
    heading_filters::drop_labels(lines, &mut headings);
    heading_filters::drop_repeated(lines, &mut headings);
    heading_filters::filter_styles(lines, &mut headings);
    headings
}

/// The heading that a bold or emphasized phrase at the start of a paragraph is; it may fill the first row and end in the next.
fn run_in_heading(lines: &LineTable<'_>, at: usize) -> Option<LayoutHeading> {
    let row = &lines.rows[at];
    let (phrase, last) = match (row.run_in, lines.next_on_page(at)) {
        (Some(phrase), _) => (phrase, at),
        (None, Some(next)) if is_full(row, next) => (next.run_in?, at + 1),
        _ => return None,
    };
    let is_marked = phrase.bold && !lines.body_bold || lines.is_emphasized(phrase.emphasis);
    let starts = |c: char| c.is_uppercase() || c.is_ascii_digit() || c == '(' && row.words > 1;
    if !is_marked || !row.text.starts_with(starts) {
        return None;
    }
    let above = at
        .checked_sub(1)
        .map(|above| &lines.rows[above])
        .filter(|above| above.page == row.page && row.gap < 0.5 + lines.leading);
    let opens = above.is_none_or(|above| above.running || is_finished(above.text));
    let fits = !row.running && !row.table && (row.size - lines.body).abs() < 1.3;
    let title = if last == at {
        phrase.text.to_string()
    } else {
        format!("{} {}", row.text, phrase.text)
    };
    let is_caption = numbering::parse_numbers(&title)
        .first()
        .is_some_and(|number| number.class == NumberClass::Figure);
    let is_text = is_boilerplate(row) || is_dateline(phrase.text);
    (opens && fits && !is_caption && !is_text).then(|| LayoutHeading {
        rows: (at, last),
        title: titles::fold_whitespace(&title),
        style: style_of_run_in(lines, row, &phrase),
        rank: LAYOUT_RANK,
        dense: false,
        over_text: false,
        statement: false,
    })
}

/// Whether a bold or emphasized phrase fills the row and goes on in the next one, before regular text.
fn is_full(row: &LineFeatures<'_>, next: &LineFeatures<'_>) -> bool {
    let is_alike = next
        .run_in
        .is_some_and(|phrase| (phrase.bold, phrase.emphasis) == (row.bold, row.emphasis));
    is_alike
        && next.gap < 0.4
        && row.cells == 1
        && row.x1 > next.x1 - 5.0 * row.size
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
    let number = numbering::parse_numbers(row.first_cell)
        .first()
        .is_some_and(|number| number.rest.is_empty())
        || numbering::roman(row.first_cell.trim_end_matches(['.', ')'])).is_some();
    if heads_table && row.first_cell.len() >= 4 && !number {
        return titles::fold_whitespace(row.first_cell);
    }
    let text: Vec<&str> = lines.rows[first..=last]
        .iter()
        .map(|row| row.text)
        .collect();
    titles::fold_whitespace(&text.join(" "))
}

// The checks go from cheap to expensive. First everything that is certainly text, table or page furniture is rejected, then
// lines that cannot start or end a title, then lines whose neighbors show that they belong to a paragraph or table. Only
// what remains must differ from the body text in size, weight, case or slant.
fn is_candidate(lines: &LineTable<'_>, at: usize) -> bool {
    let row = &lines.rows[at];
    if is_statement_title(lines, at) {
        return true;
    }
    let letters = row
        .text
        .chars()
        .take(300)
        .filter(|c| c.is_alphabetic())
        .count();
    let cjk = row.text.chars().next().is_some_and(numbering::is_cjk);
    let tabular = (row.table || row.declared_row || row.cells >= 3 || row.figures) && !row.titled;
    if row.running
        || row.prose
        || row.marked
        || tabular
        || heads_exhibits(row)
        || (letters < 3 && !(cjk && letters >= 2))
        || row.words > 24
        || row.words == 0
    {
        return false;
    }
    let number = numbering::parse_numbers(row.text).first().copied();
    // A numbered figure is a caption. An exhibit heading begins a page; elsewhere the line is an entry of a list.
    let listed = at > lines.rows_on(row.page as usize).start + PAGE_TOP;
    if number.is_some_and(|number| {
        number.class == NumberClass::Figure || number.class == NumberClass::Exhibit && listed
    }) {
        return false;
    }
    let first = row.text.chars().next().unwrap_or(' ');
    let starts = first.is_uppercase()
        || cjk
        || number.is_some()
        || matches!(first, '“' | '"' | '‘')
        || is_yeared(row.text);
    let wraps = lines
        .next_on_page(at)
        .is_some_and(|next| next.gap < 0.75 + lines.leading && LineTable::same_style(row, next));
    let emphasized = lines.is_emphasized(row.emphasis);
    let marked = row.bold || emphasized || row.caps;
    if !starts
        || (ends_mid_sentence(row)
            && !(wraps && (row.bold || emphasized))
            && !(marked && opens_text(lines, at, at)))
        || is_boilerplate(row)
        || is_below_signature(lines, at)
        || inside_paragraph(lines, at)
    {
        return false;
    }
    // Reject the first line of a paragraph set in another size, and cells in the head of a table.
    let next = lines.next_on_page(at);
    let opens_paragraph = !marked
        && next
            .is_some_and(|next| next.prose && next.gap < 0.4 && LineTable::same_style(row, next));
    let overlapped = next.is_some_and(|next| next.gap < -0.3 && next.table && next.x0 < row.x0);
    if opens_paragraph || overlapped {
        return false;
    }
    let large = row.size > lines.body + 0.8;
    // A heading may be smaller than the body text if it stands above small print of its own size.
    let sized = row.size > lines.body - 1.3
        || next.is_some_and(|next| next.prose && !next.bold && next.size < row.size + 0.6);
    let bold = row.bold && !lines.body_bold && sized;
    let caps = row.caps && row.size > lines.body - 1.3 && row.gap > 0.3 && letters >= 5;
    let emphasized = emphasized
        && (row.words <= 14 || number.is_some())
        && row.gap > 0.35
        && row.size > lines.body - 1.3;
    let over_table = row.size <= lines.body + 0.8 && number.is_none() && stands_on_table(lines, at);
    !over_table && (large || bold || caps || emphasized) || is_plain_numbered(lines, at, number)
}

/// Whether the row is the name below a signature, or the office close below the name.
fn is_below_signature(lines: &LineTable<'_>, at: usize) -> bool {
    let page = lines.rows_on(lines.rows[at].page as usize);
    let rows = &lines.rows[page.start..=at];
    let is_name = |signature: &LineFeatures<'_>, row: &LineFeatures<'_>| {
        let signer = signature
            .text
            .rsplit_once("/s/")
            .map(|(_, name)| titles::normalize_key(name));
        signer.is_some_and(|signer| !signer.is_empty() && row.key.starts_with(&signer))
    };
    match rows {
        [.., signature, row] if is_name(signature, row) => true,
        [.., signature, name, row] => is_name(signature, name) && row.gap < 0.75 + lines.leading,
        _ => false,
    }
}

/// Whether the row is the head of a list of exhibits: `Exhibit No.` and `Description`.
fn heads_exhibits(row: &LineFeatures<'_>) -> bool {
    let is_column = |key: &str| matches!(key, "exhibit" | "exhibitno" | "exhibitnumber");
    row.cells >= 2 && is_column(&titles::normalize_key(row.first_cell))
}

/// Whether a bold or emphasized sentence stands by itself above a paragraph of another style.
fn opens_text(lines: &LineTable<'_>, first: usize, last: usize) -> bool {
    let row = &lines.rows[last];
    let has_paragraph_below = lines.next_on_page(last).is_some_and(|next| {
        let is_apart =
            (next.prose || next.words >= 8) && next.cells == 1 && next.gap > 0.3 + lines.leading;
        is_apart && !LineTable::same_style(row, next)
    });
    has_paragraph_below
        && (row.bold || lines.is_emphasized(row.emphasis))
        && row.text.ends_with('.')
        && lines.rows[first].gap > 0.5 + lines.leading
}

/// `2023 financial results`: a year and words.
fn is_yeared(text: &str) -> bool {
    let year = text.get(..4).is_some_and(|year| {
        year.starts_with(['1', '2']) && year.bytes().all(|b| b.is_ascii_digit())
    });
    year && text[4..].starts_with(' ') && text[4..].trim_start().starts_with(char::is_alphabetic)
}

/// Whether a line set like the text is a numbered heading.
// Rules and contracts set headings like their text. A number alone would admit every list, so the line must also be short,
// in title case, without closing punctuation and with space above (and below, unless a word like `Chapter` precedes).
fn is_plain_numbered(
    lines: &LineTable<'_>,
    at: usize,
    number: Option<numbering::TitleNumber<'_>>,
) -> bool {
    let row = &lines.rows[at];
    let Some(number) = number.filter(|number| !number.rest.is_empty()) else {
        return false;
    };
    let next_gap = lines.next_on_page(at).map_or(9.0, |next| next.gap);
    // `3.6 Why Models Fail` may go on in the next line; the space comes below that one.
    let wraps = matches!(number.class, NumberClass::Decimal(2..))
        && lines.next_on_page(at).is_some_and(|next| {
            let is_full = row.x1 > next.x1 - 5.0 && row.x1 - row.x0 > 110.0;
            is_full && next.gap < 0.4 && next.words <= 8 && next.x0 >= row.x0 - 1.0
        })
        && lines
            .next_on_page(at + 1)
            .is_some_and(|after| after.gap > 0.45);
    let worded = matches!(
        number.class,
        NumberClass::Chapter
            | NumberClass::Article
            | NumberClass::Appendix
            | NumberClass::CjkChapter
            | NumberClass::CjkSection
    );
    let size_fits = row.size > lines.body - 0.8;
    let first = number.rest.chars().next().unwrap_or(' ');
    let titled = first.is_uppercase() || numbering::is_cjk(first);
    let closed = row.text.ends_with(['.', ';', ':', ',']);
    size_fits
        && titled
        && !closed
        && row.words <= 14
        && row.gap > 0.45
        && (worded || wraps || next_gap > 0.45)
        && is_title_case(number.rest)
}

/// Whether at least 60 % of the words of four and more letters, prepositions apart, start with a capital.
fn is_title_case(text: &str) -> bool {
    let long = text
        .split_whitespace()
        .filter(|word| word.chars().count() >= 4 && !SMALL_TITLE_WORDS.contains(word));
    let mut all = 0;
    let mut capital = 0;
    for word in long.take(30) {
        all += 1;
        let first = word.chars().next().unwrap_or(' ');
        capital += usize::from(first.is_uppercase() || numbering::is_cjk(first));
    }
    capital * 10 >= all * 6
}

/// The last row of a heading that wraps over rows.
// Joining too little gives two sections for one title; joining too much swallows the first sub-heading. Rows are joined only
// if they share style and case, stand close, and the upper one shows that it is unfinished: it is centered, reaches the
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
        let near = next.page == row.page && next.gap < 0.75 + lines.leading;
        let close = near && LineTable::same_style(row, next) && row.caps == next.caps;
        // A numbered row starts a new heading, except in `… AS ADOPTED PURSUANT TO` / `SECTION 906 …`.
        let numbered =
            !numbering::parse_numbers(next.text).is_empty() && !ends_with_connector(row.text);
        if excluded[last + 1]
            || !close
            || numbered
            || statement
            || next.running
            || next.table
            || next.prose
            || next.words > 22
            || next.words == 0
        {
            break;
        }
        let centered = row.centered && next.centered;
        // In a narrow column a title wraps early. Rows without extra space between them are one title there.
        let wide = if next.gap < 0.4 { 110.0 } else { 250.0 };
        let full = row.x1 > next.x1 - 5.0 && row.x1 - row.x0 > wide;
        let lower = next.text.starts_with(char::is_lowercase);
        // Lines of display type without extra space between them are one title, wherever it breaks.
        let display = row.size > lines.body + DISPLAY_TYPE && next.gap < 0.5;
        let finished = row.text.ends_with(['.', '?', '!']) || row.text.ends_with(':') && !display;
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
    let number = numbering::parse_numbers(lines.rows[at].text)
        .first()
        .is_some_and(|number| number.rest.is_empty());
    number
        && lines
            .next_on_page(at)
            .is_some_and(|next: &LineFeatures<'_>| {
                let marked = next.caps || next.bold || next.size > lines.body + 0.8;
                let title = !next.prose
                    && !next.table
                    && !next.running
                    && next.words <= 22
                    && !is_boilerplate(next);
                marked && title && next.gap < 1.2 && numbering::parse_numbers(next.text).is_empty()
            })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line};
    use super::*;

    fn titles_of(doc: &Doc) -> Vec<String> {
        let source = doc.source();
        let lines = LineTable::new(doc.pages(&source));
        find_headings(&lines, &vec![false; lines.rows.len()], &[])
            .into_iter()
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
        assert_eq!(titles_of(&doc), ["Policies"], "captions are no headings");
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
        doc.section(0, "Year 2000");
        doc.section(0, "Year 1999");
        doc.prose(1, 10.0, 6);
        for exhibit in ["Exhibit 10.1 Credit Agreement", "Exhibit 10.2 Lease"] {
            doc.add(1, line(exhibit).bold());
        }
        doc.section(1, "Lemma 3 (Bound)");
        assert_eq!(
            titles_of(&doc),
            ["2023 Financial Results", "17 Fields of Use", "Year 2000"]
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
            "no sixteenth or eighteenth stands beside it"
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
        let name = doc.add(0, line("Jane Roe").bold());
        let office = line("Chief Financial Officer").bold();
        doc.add(0, office.at(72.0, name.y1.points() + 2.0));
        doc.add(0, line("“Plan” means this Savings Plan").bold());
        assert_eq!(
            titles_of(&doc),
            ["NOTE 1 SUMMARY OF POLICIES", "NOTE 2 LOANS"]
        );
    }
}

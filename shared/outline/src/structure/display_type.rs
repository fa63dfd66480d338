//! Rules against display type in documents that are not filings: captions of charts, call-outs, labels of maps and diagrams,
//! running heads and lists of a chapter's sections.
//!
//! Brochures, reports and manuals set all of these like headings. What tells them apart is their place: a heading has
//! text of the body size below it, and no other heading repeats it.

use std::collections::{BTreeMap, BTreeSet};

use stemma_reading::heading_look::SAME_SIZE;
use stemma_reading::letters::{is_small, opens_title};
use stemma_reading::sentences::{is_full_stop, is_pause};

use super::heading_candidate::{Document, HeadingCandidate};
use super::heading_style::HeadingStyle;
use super::line_features::{LineFeatures, LineTable, is_finished};
use super::numbering::{self, NumberClass};
use super::titles;
use super::weights::{
    MIN_CAPTIONS, MIN_LABELS, MIN_TEXT, OPEN_WORDS, ROWS_BETWEEN, SHORT_TITLE, TEXT_WORDS, TIGHT,
};

/// Headings that repeat an announced one: running heads with a page number, and contents of a chapter.
pub(super) fn echoes(headings: &[&HeadingCandidate], document: &Document<'_>) -> Vec<bool> {
    let lines = document.lines;
    let numbers: BTreeSet<(NumberClass, u32)> = document
        .announced
        .iter()
        .filter_map(|head| numbering::first_number(&head.title).map(|n| (n.class, n.value)))
        .collect();
    let announced: BTreeSet<String> = document
        .announced
        .iter()
        .map(|head| titles::normalize_key(&head.title))
        .collect();
    let is_label =
        |c: char| c.is_ascii_digit() || c.is_whitespace() || matches!(c, '|' | '-' | '–');
    headings
        .iter()
        .map(|heading| {
            let at_edge =
                lines.starts_page(heading.rows.0) || lines.next_on_page(heading.rows.1).is_none();
            // `Section 1` begins anew in each article.
            let is_named = numbering::first_number(&heading.title)
                .is_none_or(|number| !number.rest.is_empty());
            let repeats = is_named && announced.contains(&titles::normalize_key(&heading.title));
            let unlabeled = titles::normalize_key(heading.title.trim_matches(is_label));
            let runs = unlabeled.len() >= 4 && announced.contains(&unlabeled);
            // `Appendix A` on its own page comes before `Appendix A: Participants`.
            let divides =
                bare_word_number(&heading.title).is_some_and(|number| numbers.contains(&number));
            divides || repeats && heading.style.is_numbered() || at_edge && (repeats || runs)
        })
        .collect()
}

/// The class and value of a title that is only a word and its number.
fn bare_word_number(title: &str) -> Option<(NumberClass, u32)> {
    let number = numbering::first_number(title)?;
    let is_worded = matches!(
        number.class,
        NumberClass::Appendix | NumberClass::Chapter | NumberClass::Schedule
    );
    (is_worded && number.rest.is_empty()).then_some((number.class, number.value))
}

/// Whether a heading is in the margin of a paragraph: the lines before and after it are lines of that paragraph.
pub(super) fn is_beside_paragraph(heading: &HeadingCandidate, document: &Document<'_>) -> bool {
    let lines = document.lines;
    let row = &lines.rows[heading.rows.0];
    let above = lines.above_on_page(heading.rows.0);
    let Some((above, below)) = above.zip(lines.next_on_page(heading.rows.1)) else {
        return false;
    };
    let is_apart = |text: &LineFeatures<'_>| text.x0 >= row.x1 || text.x1 <= row.x0;
    is_apart(above)
        && is_apart(below)
        && above.words.min(below.words) >= TEXT_WORDS - 2
        && LineTable::same_style(above, below)
        && (above.x0 - below.x0).abs() < row.size
        && below.y0 - above.y1 < 0.8 * below.size
}

/// Whether a numbered line in the size of the text is a step of a procedure: a sentence, or directly before the next step.
pub(super) fn is_step(heading: &HeadingCandidate, document: &Document<'_>) -> bool {
    let lines = document.lines;
    let row = &lines.rows[heading.rows.0];
    let Some(number) = numbering::first_number(row.text) else {
        return false;
    };
    let counted = matches!(
        number.class,
        NumberClass::Decimal(1)
            | NumberClass::UpperAlpha
            | NumberClass::LowerAlpha
            | NumberClass::ParenDigit
            | NumberClass::ParenAlpha
    );
    let is_sentence = heading.title.ends_with(|c| is_full_stop(c) || is_pause(c)) && !row.caps;
    let is_listed = lines.next_on_page(heading.rows.1).is_some_and(|next| {
        numbering::first_number(next.text)
            .is_some_and(|next| next.class == number.class && next.value == number.value + 1)
    });
    counted && !lines.body.is_large(row.size) && (is_sentence || is_listed)
}

/// Whether lines of the same paragraph are above or below: a quotation, a letterhead, a sentence with bold words.
pub(super) fn is_in_block(heading: &HeadingCandidate, document: &Document<'_>) -> bool {
    if heading.style.run_in {
        return false;
    }
    let lines = document.lines;
    let is_plain = !heading.style.is_numbered();
    let first = &lines.rows[heading.rows.0];
    let last = &lines.rows[heading.rows.1];
    let tight = TIGHT + lines.leading;
    let is_alike = |a: &LineFeatures<'_>, b: &LineFeatures<'_>| {
        let is_aligned = (a.x0 - b.x0).abs() < a.size || a.centered && b.centered;
        is_aligned
            && LineTable::same_style(a, b)
            && a.caps == b.caps
            && numbering::first_number(b.text).is_none()
    };
    let goes_on = lines.next_on_page(heading.rows.1).is_some_and(|next| {
        // The title at the start of a paragraph may go on in its second line.
        let is_text = next.run_in.is_none() && next.x0 < last.x1;
        let is_flowing = is_text && next.text.starts_with(is_small);
        next.gap < tight && (is_plain && is_alike(last, next) || is_flowing)
    });
    let is_tail = lines
        .above_on_page(heading.rows.0)
        .filter(|_| first.gap < tight)
        .is_some_and(|above| {
            // Bold words inside a sentence may begin a line.
            let is_open =
                !is_finished(above.text) && above.words >= 6 && above.x0 <= first.x0 + 1.0;
            is_alike(first, above) || is_open && (above.size - first.size).abs() < SAME_SIZE
        });
    goes_on || is_plain && is_tail
}

/// Whether a heading in the size of the text is a sentence.
pub(super) fn is_sentence(heading: &HeadingCandidate, document: &Document<'_>) -> bool {
    let lines = document.lines;
    let is_long = heading.words > OPEN_WORDS;
    // `Sampling Algorithm.` may fill the first line of its paragraph.
    let last = &lines.rows[heading.rows.1];
    let opens_text = lines.next_on_page(heading.rows.1).is_some_and(|next| {
        let is_tight = next.gap < TIGHT + lines.leading && !LineTable::same_style(last, next);
        is_tight && next.text.starts_with(opens_title)
    });
    let is_closed = heading.title.ends_with(is_full_stop) && (is_long || !opens_text)
        || is_long && heading.title.ends_with(':');
    // A long series of sentences only divides what is too large.
    let is_exempt = heading.style.run_in || heading.style.is_numbered() || heading.dense;
    !is_exempt && is_closed && !lines.body.is_large(lines.rows[heading.rows.0].size)
}

/// Whether the text of the page is set in the style of the heading: a letter in a larger size.
pub(super) fn is_page_text(heading: &HeadingCandidate, document: &Document<'_>) -> bool {
    let lines = document.lines;
    let row = &lines.rows[heading.rows.0];
    let alike = lines.rows[lines.rows_on(row.page as usize)]
        .iter()
        .filter(|text| text.prose && LineTable::same_style(text, row));
    !row.caps && !heading.style.run_in && !heading.style.is_numbered() && alike.count() >= MIN_TEXT
}

/// Whether the line has columns, as the head of a table has.
pub(super) fn has_columns(heading: &HeadingCandidate, document: &Document<'_>) -> bool {
    let row = &document.lines.rows[heading.rows.0];
    row.cells > 1 && !row.titled && !heading.style.is_numbered()
}

/// Styles that have no text below them: captions over charts, maps and tables.
pub(super) fn caption_styles(headings: &[&HeadingCandidate], document: &Document<'_>) -> Vec<bool> {
    let lines = document.lines;
    // By style: all headings, those above text.
    let mut counts: BTreeMap<HeadingStyle, (usize, usize)> = BTreeMap::new();
    for heading in headings
        .iter()
        .filter(|heading| !heading.style.is_numbered())
    {
        let count = counts.entry(heading.style.unplaced()).or_default();
        count.0 += 1;
        count.1 += usize::from(is_over_text(lines, heading.rows));
    }
    headings
        .iter()
        .map(|heading| {
            let count = counts.get(&heading.style.unplaced());
            let (all, over_text) = count.copied().unwrap_or_default();
            let is_text_size = !lines.body.is_large(lines.rows[heading.rows.0].size);
            // In the size of the text, frequent bold lines are labels as well as headings; only those over text are sure.
            let is_label = heading.dense && is_text_size && !is_over_paragraph(lines, heading);
            let is_caption = all >= MIN_CAPTIONS && over_text * 4 <= all;
            !heading.style.is_numbered() && (is_label || is_caption)
        })
        .collect()
}

/// Runs of headings on one page with no text between them: labels, call-outs, addresses.
pub(super) fn label_runs(headings: &[&HeadingCandidate], document: &Document<'_>) -> Vec<bool> {
    let lines = document.lines;
    headings
        .chunk_by(|above, below| is_stacked(lines, above, below))
        .flat_map(|run| {
            let mut dropped = vec![false; run.len()];
            if let [first, labels @ .., last] = run
                && run.len() >= MIN_LABELS
            {
                let is_titled = labels
                    .iter()
                    .chain([last])
                    .all(|label| label.style > first.style);
                // Behind the names on a cover, the last line may be the first heading.
                let is_opened = is_over_paragraph(lines, last);
                dropped[usize::from(is_titled)..run.len() - usize::from(is_opened)].fill(true);
            }
            dropped
        })
        .collect()
}

/// Whether the next line in the column of the heading is text of the body size.
fn is_over_text(lines: &LineTable<'_>, (first, last): (usize, usize)) -> bool {
    let own = &lines.rows[last];
    let left = lines.rows[first].x0.min(own.x0);
    let end = lines
        .rows_on(own.page as usize)
        .end
        .min(last + 1 + ROWS_BETWEEN);
    let below = lines.rows[last + 1..end]
        .iter()
        .find(|row| row.x0 < own.x1.max(left + SHORT_TITLE) && row.x1 > left);
    below.is_none_or(|row| !lines.body.is_small(row.size) && !row.table)
}

fn is_over_paragraph(lines: &LineTable<'_>, heading: &HeadingCandidate) -> bool {
    let row = &lines.rows[heading.rows.1];
    let below = lines.rows_on(row.page as usize).end.min(heading.rows.1 + 3);
    let rows = &lines.rows[heading.rows.1 + 1..below];
    rows.iter().enumerate().any(|(at, next)| {
        // In a narrow column two lines are a paragraph.
        let goes_on = rows.get(at + 1).is_some_and(|more| {
            more.gap < TIGHT + lines.leading && LineTable::same_style(next, more) && !more.table
        });
        let is_text = next.prose || next.words >= if goes_on { 4 } else { TEXT_WORDS };
        is_text
            && (next.prose || !next.table)
            && next.x0 < row.x1.max(row.x0 + SHORT_TITLE)
            && next.x1 > row.x0
    })
}

fn is_stacked(lines: &LineTable<'_>, above: &HeadingCandidate, below: &HeadingCandidate) -> bool {
    let between = lines
        .rows
        .get(above.rows.1 + 1..below.rows.0)
        .unwrap_or_default();
    let cells = between.iter().filter(|row| row.table).count();
    lines.rows[above.rows.0].page == lines.rows[below.rows.0].page
        && !above.style.is_numbered()
        && !below.style.is_numbered()
        && cells < 2
        && between.iter().all(|row| row.words < TEXT_WORDS)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line, outline_of};

    fn titles(doc: &Doc) -> Vec<(u16, String)> {
        outline_of(doc)
            .into_iter()
            .map(|entry| (entry.1, entry.2))
            .collect()
    }

    const SECTIONS: [&str; 4] = ["Findings", "Adoption", "Barriers", "Methods"];

    /// Sections, one a page, and a caption over a chart on each.
    #[test]
    fn captions_over_charts_are_not_sections() {
        let mut doc = Doc::new(4);
        for (page, title) in SECTIONS.iter().enumerate() {
            doc.section(page, title);
            doc.add(
                page,
                line(&format!("Use of phones, chart {title}"))
                    .size(13.0)
                    .bold(),
            );
            doc.add(page, line("share of each age group").size(8.0).italic());
            doc.prose(page, 10.0, 5);
        }
        assert_eq!(titles(&doc), SECTIONS.map(|title| (1, title.to_string())));
    }

    #[test]
    fn numbers_without_a_title_may_repeat() {
        let mut doc = Doc::new(3);
        for (page, article) in ["Article I", "Article II", "Article III"]
            .iter()
            .enumerate()
        {
            doc.section(page, article);
            doc.bookmark(article, 1, page as u32 + 1);
            for section in ["Section 1", "Section 2"] {
                doc.section(page, section);
            }
        }
        doc.bookmark("Section 1", 2, 3);
        let sections = titles(&doc)
            .iter()
            .filter(|(_, title)| title.starts_with("Section"))
            .count();
        assert_eq!(sections, 6);
    }

    #[test]
    fn labels_in_a_row_are_not_sections() {
        let mut doc = Doc::new(4);
        for (page, title) in SECTIONS.iter().enumerate() {
            doc.section(page, title);
        }
        for label in ["NORTH HARBOR", "UPPER TOWN", "OLD MARKET", "RAILWAY BRIDGE"] {
            doc.add(2, line(label).size(12.0).bold());
        }
        assert_eq!(titles(&doc), SECTIONS.map(|title| (1, title.to_string())));
    }

    #[test]
    fn last_line_of_a_cover_over_text_is_a_heading() {
        let mut doc = Doc::new(5);
        for name in ["ANN AUTHOR", "BEN AUTHOR", "CLEO AUTHOR"] {
            doc.add(0, line(name).size(14.0).bold());
        }
        doc.section(0, "Abstract");
        for (page, title) in SECTIONS.iter().enumerate() {
            doc.section(page + 1, title);
        }
        assert_eq!(titles(&doc)[0], (1, "Abstract".to_string()));
        assert_eq!(titles(&doc).len(), 5);
    }

    #[test]
    fn call_out_in_the_margin_of_a_paragraph_is_no_section() {
        let mut doc = Doc::new(4);
        for (page, title) in SECTIONS.iter().enumerate() {
            doc.section(page, title);
        }
        for at in 0..8_u8 {
            let y = 400.0 + 16.0 * f32::from(at);
            let text = "the company sold more goods in the second year than before";
            doc.add(2, line(text).at(250.0, y));
            if at % 3 == 0 {
                doc.add(2, line("SOLD IN A DAY").bold().at(80.0, y + 8.0));
            }
        }
        assert_eq!(titles(&doc), SECTIONS.map(|title| (1, title.to_string())));
    }

    #[test]
    fn steps_of_a_procedure_are_not_sections() {
        let mut doc = Doc::new(4);
        for (page, title) in SECTIONS.iter().enumerate() {
            doc.section(page, title);
            for step in [
                "1. Press the Upper Button",
                "2. Hold the Lower Button",
                "3. Go to Alarm and touch it.",
            ] {
                doc.add(page, line(step).bold());
            }
        }
        let levels = titles(&doc);
        assert_eq!(levels, SECTIONS.map(|title| (1, title.to_string())));
    }

    #[test]
    fn running_heads_with_page_numbers_are_not_sections() {
        let mut doc = Doc::new(5);
        for (page, title) in SECTIONS.iter().enumerate() {
            doc.section(page, title);
            doc.bookmark(title, 1, page as u32 + 1);
        }
        doc.add(4, line("Methods 12").size(14.0).bold().at(72.0, 60.0));
        doc.prose(4, 10.0, 8);
        assert_eq!(titles(&doc), SECTIONS.map(|title| (1, title.to_string())));
    }

    #[test]
    fn lines_of_a_quotation_are_not_sections() {
        let mut doc = Doc::new(4);
        for (page, title) in SECTIONS.iter().enumerate() {
            doc.section(page, title);
        }
        for (at, text) in [
            "Trees reduce costs",
            "And simplify reading for",
            "All of us",
        ]
        .iter()
        .enumerate()
        {
            doc.add(2, line(text).size(12.0).at(90.0, 500.0 + 15.0 * at as f32));
        }
        assert_eq!(titles(&doc), SECTIONS.map(|title| (1, title.to_string())));
    }

    #[test]
    fn heads_of_tables_are_not_sections() {
        let mut doc = Doc::new(4);
        for (page, title) in SECTIONS.iter().enumerate() {
            doc.section(page, title);
            doc.add(page, line("Operation").bold().cells(&["Function"]));
            doc.prose(page, 10.0, 2);
        }
        assert_eq!(titles(&doc), SECTIONS.map(|title| (1, title.to_string())));
    }

    #[test]
    fn lines_of_a_letter_in_larger_type_are_not_sections() {
        let mut doc = Doc::new(5);
        doc.prose(0, 10.0, 6);
        doc.add(0, line("Ann Author"));
        for (page, title) in SECTIONS.iter().enumerate() {
            doc.add(page + 1, line(title).size(14.0).bold());
            doc.prose(page + 1, 8.0, 12);
        }
        let all: Vec<String> = titles(&doc).into_iter().map(|entry| entry.1).collect();
        assert!(all.ends_with(&SECTIONS.map(String::from)));
        assert!(!all.contains(&"Ann Author".to_string()));
    }

    #[test]
    fn frequent_headings_in_larger_type_are_sections_of_a_manual() {
        let mut doc = Doc::new(15);
        for page in 0..15 {
            doc.section(page, &doc_title(page));
            doc.bookmark(&doc_title(page), 1, page as u32 + 1);
            for step in ["Charging", "Wearing"] {
                let title = format!("{step} the {}", doc_title(page));
                doc.add(page, line(&title).size(12.0).bold());
                doc.prose(page, 10.0, 4);
            }
        }
        assert_eq!(titles(&doc).len(), 45);
    }

    fn doc_title(page: usize) -> String {
        format!("Model {}", ["Alder", "Birch", "Cedar"][page % 3]) + &"x".repeat(page / 3)
    }

    // Fifteen pages with two bold labels above these lines each.
    fn labels_above(lines: &[&str]) -> Doc {
        let mut doc = Doc::new(15);
        for page in 0..15 {
            doc.section(page, &doc_title(page));
            for label in ["Brightness", "Contrast"] {
                let label = format!("{label} of {}", doc_title(page));
                doc.add(page, line(&label).bold());
                for text in lines {
                    doc.add(page, line(text));
                }
            }
        }
        doc
    }

    #[test]
    fn frequent_labels_without_text_are_not_sections() {
        assert_eq!(titles(&labels_above(&["from low to high"])).len(), 15);
    }

    #[test]
    fn frequent_bold_headings_in_a_narrow_column_are_sections() {
        let doc = labels_above(&["The screen is dark", "or bright as set"]);
        assert_eq!(titles(&doc).len(), 45);
    }
}

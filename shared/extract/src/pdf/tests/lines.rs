//! Lines, words and columns.

use super::*;

#[test]
fn a_line_has_text_words_styles_and_a_box() {
    let content =
        text_at(72.0, 700.0, "Net sales") + &styled_text_at(140.0, 700.0, "F2", 10.0, "rose");
    let source = source(&PdfFixture::with_pages(&[&content]).build());
    let line = &pages(&source)[0].lines[0];
    assert_eq!(line.text, "Net sales rose");
    assert_eq!(line.words.len(), 3);
    assert_eq!((line.words[0].x0, line.words[2].x0), (Pt(7200), Pt(14000)));
    let runs: Vec<(u32, bool)> = line.runs.iter().map(|run| (run.end, run.bold)).collect();
    assert_eq!(runs, [(10, false), (14, true)]);
    assert!(
        line.rect.y0 < line.rect.y1 && line.rect.y0.points() > 80.0 && line.rect.y1.points() < 95.0
    );
}

#[test]
fn narrow_gutters_split_columns() {
    let mut content = String::new();
    for row in 0..10 {
        let y = 700.0 - 12.0 * row as f32;
        // Helvetica at 10 pt; the left column ends 7 pt before the right one starts.
        content += &text_at(
            72.0,
            y,
            &format!("left line {row} with some more words of prose i"),
        );
        content += &text_at(
            268.0,
            y,
            &format!("right line {row} with some more words of prose"),
        );
    }
    let lines = texts(&content);
    assert!(
        lines[..10].iter().all(|line| line.starts_with("left")),
        "{lines:?}"
    );
    assert!(
        lines[10..].iter().all(|line| line.starts_with("right")),
        "{lines:?}"
    );
}

#[test]
fn two_columns_of_prose_are_read_one_after_the_other() {
    let mut content = text_at(
        72.0,
        760.0,
        "A heading that runs across both of the columns of this page from side to side",
    );
    for row in 0..8 {
        let y = 700.0 - 12.0 * row as f32;
        content += &text_at(
            72.0,
            y,
            &format!("left column line {} with words of prose", word(row)),
        );
        content += &text_at(
            320.0,
            y,
            &format!("right column line {} with words of prose", word(row)),
        );
    }
    let lines = texts(&content);
    assert_eq!(lines.len(), 17);
    assert!(
        lines[1..9].iter().all(|line| line.starts_with("left")),
        "{lines:?}"
    );
    assert!(
        lines[9..].iter().all(|line| line.starts_with("right")),
        "{lines:?}"
    );
}

#[test]
fn a_table_row_stays_one_line() {
    let mut content = String::new();
    for row in 0..8 {
        let y = 700.0 - 12.0 * row as f32;
        content += &text_at(72.0, y, &format!("Revenue of the {} segment", word(row)));
        content += &text_at(320.0, y, "1,234");
        content += &text_at(420.0, y, "(5.6)");
    }
    let lines = texts(&content);
    assert_eq!(lines.len(), 8);
    assert_eq!(lines[0], "Revenue of the alpha segment 1,234 (5.6)");
}

#[test]
fn letter_spaced_words_are_joined() {
    assert_eq!(
        texts("BT /F2 12 Tf 4 Tc 72 700 Td (OVERVIEW) Tj ET"),
        ["OVERVIEW"]
    );
    assert_eq!(
        texts("BT /F2 12 Tf 72 700 Td (O V E R V I E W) Tj ET"),
        ["OVERVIEW"]
    );
    assert_eq!(
        texts("BT /F1 12 Tf 72 700 Td (We sell it.) Tj ET"),
        ["We sell it."]
    );
}

#[test]
fn leader_dots_are_separate_words() {
    assert_eq!(
        texts(&text_at(72.0, 700.0, "Business..........4")),
        ["Business .......... 4"]
    );
}

#[test]
fn bullets_and_superscripts_join_their_line() {
    let bullet = text_at(72.0, 700.0, "\\225") + &text_at(90.0, 700.0, "First point of the list");
    assert_eq!(texts(&bullet), ["• First point of the list"]);
    let note = text_at(72.0, 700.0, "Sales") + &styled_text_at(98.5, 704.0, "F1", 6.0, "1");
    assert_eq!(texts(&note), ["Sales¹"]);
}

#[test]
fn a_raised_mark_is_a_superscript_and_other_small_text_is_not() {
    let behind = |raise: f32, text: &str| {
        let mark = styled_text_at(97.2, 700.0 + raise, "F1", 6.0, text);
        texts(&(text_at(72.0, 700.0, "1,234") + &mark))
    };
    assert_eq!(behind(4.0, "2"), ["1,234²"]);
    assert_eq!(behind(4.0, "\\(a\\)"), ["1,234⁽ᵃ⁾"]);
    assert_eq!(behind(4.0, "st"), ["1,234st"]);
    assert_eq!(behind(-1.5, "2"), ["1,2342"]);
    let operator =
        "BT /F1 12 Tf 72 700 Td (Costs) Tj /F1 7 Tf 4 Ts (3) Tj 0 Ts /F1 12 Tf ( rose) Tj ET";
    assert_eq!(texts(operator), ["Costs³ rose"]);
}

#[test]
fn double_struck_text_is_read_once() {
    assert_eq!(
        texts(&(text_at(72.0, 700.0, "Risk Factors") + &text_at(72.3, 700.0, "Risk Factors"))),
        ["Risk Factors"]
    );
}

#[test]
fn text_drawn_over_other_text_is_not_mixed_with_it() {
    let first = "BT /F1 10 Tf 72 700 Td (As of December 31, 2022,) Tj ET\n";
    let second = "BT /F1 10 Tf 184.5 700 Td (3,350 lawsuits) Tj ET\n";
    assert_eq!(
        texts(&format!("{second}{first}")),
        ["As of December 31, 2022, 3,350 lawsuits"]
    );
    let over = "BT /F1 10 Tf 73.5 700 Td (Policy on pay) Tj ET\n";
    assert_eq!(
        texts(&format!("{first}{over}")),
        ["As of December 31, 2022, Policy on pay"]
    );
}

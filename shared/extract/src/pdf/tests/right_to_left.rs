//! Text that runs to the left, as programs draw it.

use super::*;

// Codes are those of Unicode, each half an em wide; points of Hebrew and Arabic and marks of direction have no width.
fn fixture(content: &str) -> PdfFixture {
    let mut fixture = PdfFixture::with_pages(&[content]);
    let font = fixture.first_object();
    fixture.fonts = format!("/U {font} 0 R");
    let descendant = font + 1;
    let map = font + 2;
    let cmap = "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName/U def /CMapType 2 def \
                1 begincodespacerange <0000> <FFFF> endcodespacerange \
                2 beginbfrange <0020> <D7FF> <0020> <F900> <FFFD> <F900> endbfrange \
                1 beginbfchar <E000> <06440627> endbfchar endcmap end end";
    fixture
        .object(&format!(
            "<</Type/Font/Subtype/Type0/BaseFont/U/Encoding/Identity-H/DescendantFonts[{descendant} 0 R]/ToUnicode {map} 0 R>>"
        ))
        .object(
            "<</Type/Font/Subtype/CIDFontType2/BaseFont/U/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>\
             /DW 500/W[1425 1479 0 1611 1631 0 8206 8207 0 8234 8238 0 8294 8297 0 1564 1564 0]>>",
        )
        .object(&format!("<</Length {}>>stream\n{cmap}\nendstream", cmap.len()))
}

fn draw(x: f32, text: &str) -> String {
    draw_at(x, 700.0, text)
}

fn draw_at(x: f32, y: f32, text: &str) -> String {
    let codes: String = text
        .encode_utf16()
        .map(|code| format!("{code:04X}"))
        .collect();
    format!("BT /U 10 Tf 1 0 0 1 {x} {y} Tm <{codes}> Tj ET\n")
}

// Each letter where a pen that moves to the left is.
fn draw_to_the_left(right: f32, text: &str) -> String {
    let letters = (1_u16..).zip(text.chars());
    letters
        .map(|(at, c)| draw(right - 5.0 * f32::from(at), &c.to_string()))
        .collect()
}

fn lines(content: &str) -> Vec<String> {
    first_page(&fixture(content))
}

#[test]
fn lines_are_read_in_logical_order() {
    for (content, expected) in [
        (draw(100.0, "םולש"), "שלום"),
        (draw(100.0, "יארשא ןוכיס"), "סיכון אשראי"),
        (draw_to_the_left(200.0, "סיכון אשראי"), "סיכון אשראי"),
        // Words in any order.
        (draw(130.0, "ןוכיס") + &draw(100.0, "יארשא"), "סיכון אשראי"),
        (draw(100.0, "עקר 1.1"), "1.1 רקע"),
        (draw(100.0, "אובמ .1"), "1. מבוא"),
        (
            draw(100.0, "לקש 1,234.5 ךס 2023 תנשב"),
            "בשנת 2023 סך 1,234.5 שקל",
        ),
        (draw(100.0, "רועיש 15.5%"), "15.5% שיעור"),
        (draw(100.0, "דספה -5"), "-5 הפסד"),
        (
            draw(100.0, "הרבחה תא Acme Ltd תצובק השכר"),
            "רכשה קבוצת Acme Ltd את החברה",
        ),
        // Brackets by their look, and by their meaning.
        (draw(100.0, "ןוה (רוכינב) ינולכ"), "כלוני (בניכור) הון"),
        (draw(100.0, "ןוה )רוכינב( ינולכ"), "כלוני (בניכור) הון"),
        // Points on their letters, drawn before and behind them.
        (
            draw(100.0, "\u{5DD}\u{5D5}\u{5DC}\u{5B8}\u{5E9}"),
            "ש\u{5B8}לום",
        ),
        (
            draw(100.0, "םול") + &draw(115.0, "ש") + &draw(117.0, "\u{5B8}"),
            "ש\u{5B8}לום",
        ),
        (draw(100.0, "ةكرش"), "شركة"),
        // Forms of letters within words, and glyphs of two letters.
        (draw(100.0, "\u{FE94}\u{FEDB}\u{FEAE}\u{FEB7}"), "شركة"),
        (draw(100.0, "م\u{E000}س"), "سلام"),
        (draw(100.0, "م\u{FEFB}س"), "سلام"),
        (draw(100.0, "٢٠٢٣ ةنس"), "سنة ٢٠٢٣"),
        (draw(100.0, "31-12-2023 خيرات"), "تاريخ 2023-12-31"),
        // A name in a line that runs to the right.
        (
            draw(100.0, "The company Acme (קנב) is in Israel"),
            "The company Acme (בנק) is in Israel",
        ),
        (
            draw(100.0, "Notes of יארשא ןוכיס in the report of 2023"),
            "Notes of סיכון אשראי in the report of 2023",
        ),
    ] {
        assert_eq!(lines(&content), [expected]);
    }
}

#[test]
fn cells_follow_their_label_from_right_to_left() {
    let row = |y: f32, cells: [&str; 3]| -> String {
        let places = [500.0, 300.0, 150.0];
        let drawn = places.iter().zip(cells);
        drawn.map(|(x, cell)| draw_at(*x, y, cell)).collect()
    };
    let content = row(700.0, ["", "2023", "2022"])
        + &row(686.0, ["תוסנכה", "1,234", "1,100"])
        + &row(672.0, ["חוור", "(25)", "314"]);
    assert_eq!(
        lines(&content),
        ["2023 2022", "הכנסות 1,234 1,100", "רווח (25) 314"]
    );
}

#[test]
fn the_right_column_is_read_first() {
    let column = |x: f32, word: &str| -> String {
        let rows = (0_u8..12).map(|row| {
            // Words at the same places in all rows would be columns of their own.
            let mut words: Vec<&str> = "הקולחה תוינידמב הלח אל יוניש לכ יכ הנייצ הלהנהה"
                .split(' ')
                .collect();
            words.rotate_left(usize::from(row % 9));
            let text = format!("{} {word}", words.join(" "));
            draw_at(x, 700.0 - 12.0 * f32::from(row), &text)
        });
        rows.collect()
    };
    let lines = lines(&(column(36.0, "יאמש") + &column(330.0, "ינמי")));
    assert!(
        lines[..12].iter().all(|line| line.starts_with("ימני")),
        "{lines:?}"
    );
    assert!(
        lines[12..].iter().all(|line| line.starts_with("שמאי")),
        "{lines:?}"
    );
}

#[test]
fn marks_of_direction_neither_hide_nor_turn_text() {
    let controls = "\u{202E}\u{2066}\u{200F}\u{61C}".repeat(10_000);
    assert_eq!(lines(&draw(100.0, &format!("{controls}Total"))), ["Total"]);
    assert_eq!(lines(&draw(100.0, &format!("{controls}םולש"))), ["שלום"]);
    // As many points on one letter.
    let points = "\u{5B8}".repeat(20_000);
    let read = lines(&draw(100.0, &format!("{points}ש")));
    assert!(read[0].starts_with('ש'), "{}", read[0].len());
}

#[test]
fn replacement_text_that_runs_to_the_left_is_read_in_order() {
    let text: String = "שלום 25"
        .encode_utf16()
        .map(|code| format!("{code:04X}"))
        .collect();
    let content = format!(
        "/Span<</ActualText<FEFF{text}>>> BDC {} EMC",
        draw(100.0, "\u{E001}\u{E002}\u{E003}\u{E004}")
    );
    assert_eq!(lines(&content), ["שלום 25"]);
}

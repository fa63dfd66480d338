use stemma_document::{DisputedWord, Pt, Turn};
use stemma_document::{Rect, SourceFormat, StyleRun, Word};

use super::*;

fn line(text: &str, y: f32) -> Line {
    let end = text.len() as u32;
    Line {
        text: text.into(),
        rect: Rect::new(72.0, y, 300.0, y + 10.0),
        runs: vec![StyleRun {
            end,
            ..StyleRun::default()
        }],
        words: vec![Word {
            start: 0,
            end,
            x0: Pt::new(72.0),
            x1: Pt::new(300.0),
        }],
        ..Line::default()
    }
}

fn page(lines: Vec<Line>) -> Page {
    Page {
        width: Pt::new(612.0),
        height: Pt::new(792.0),
        turn: Turn::None,
        lines,
        ..Page::default()
    }
}

fn read(lines: Vec<Line>, confidences: Vec<u8>) -> Page {
    let recognition = Recognition {
        confidences,
        ..Recognition::default()
    };
    Page {
        origin: PageOrigin::Recognized(Box::new(recognition)),
        ..page(lines)
    }
}

fn merged(before: Page, code: &str, after: Page) -> Source {
    let defect = Defect {
        code: code.into(),
        page: Some(PageNo::FIRST),
        detail: String::new(),
    };
    let mut source = Source {
        format: SourceFormat::Pdf,
        body: SourceBody::Pages(vec![before]),
        outline: Vec::new(),
        links: Vec::new(),
        metadata: Default::default(),
        defects: vec![defect],
        hidden: Vec::new(),
        encrypted: false,
    };
    put(&mut source, PageNo::FIRST, after, OcrMode::Auto);
    source
}

#[test]
fn words_of_the_file_stay_next_to_recognized_ones() {
    let stamp = page(vec![line("RECEIVED", 400.0)]);
    let lines = vec![
        line("Title", 100.0),
        line("RECEIVFD", 401.0),
        line("End", 700.0),
    ];
    let mut after = read(lines, vec![96, 40, 60]);
    if let PageOrigin::Recognized(read) = &mut after.origin {
        read.disputed = vec![DisputedWord {
            word: 2,
            other: "3nd".into(),
        }];
    }
    let source = merged(stamp, "pdf.little_text", after);
    assert_eq!(source.defects, []);
    let page = only_page(source).unwrap();
    assert_eq!(page.text(), "Title\nRECEIVED\nEnd");
    let read = page.recognition().unwrap();
    assert_eq!(read.confidences, [96, 100, 60]);
    let places: Vec<u32> = read.disputed.iter().map(|one| one.word).collect();
    assert_eq!(places, [2]);
    let marks = recognition_marks(std::slice::from_ref(&page), &TranscriptTally::default());
    assert!(marks[0].detail.ends_with("another figure"), "{marks:?}");
}

#[test]
fn garbled_text_is_replaced() {
    let garbled = page(vec![line("\u{e001}\u{e002}", 100.0)]);
    let after = read(vec![line("Title", 300.0)], vec![96]);
    let source = merged(garbled, "pdf.text_garbled", after);
    assert_eq!(only_page(source).unwrap().text(), "Title");
}

#[test]
fn pictures_without_words_stay_pictures() {
    let source = merged(page(vec![]), "pdf.no_text", read(vec![], vec![]));
    assert_eq!(source.defects.len(), 1);
    let page = only_page(source).unwrap();
    assert_eq!(page.recognition(), Some(&Recognition::default()));
}

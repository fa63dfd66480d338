use proptest::prelude::*;
use stemma_document::{
    DisputedWord, Emphasis, GridCell, GridLine, HiddenReason, Line, LineRole, PageLabel, Pt, Rect,
    StyleRun, Turn, Word,
};

use super::*;

fn paged(pages: usize) -> Source {
    let line = |n: usize| Line {
        text: format!("page {n}"),
        rect: Rect::new(1.0, 2.0, 3.0, 4.0),
        runs: vec![StyleRun {
            end: 6,
            size: Pt::new(9.5),
            bold: true,
            emphasis: Emphasis::Italic,
        }],
        words: vec![Word {
            start: 0,
            end: 4,
            x0: Pt(-100),
            x1: Pt(200),
        }],
        tokens: 3,
        role: LineRole::Foot,
        bytes: None,
        grid: None,
    };
    let body = SourceBody::Pages(
        (1..=pages)
            .map(|n: usize| Page {
                width: Pt(61200),
                height: Pt(79200),
                turn: Turn::Quarter,
                label: Some(PageLabel(n.to_string())),
                lines: vec![line(n)],
                origin: PageOrigin::File,
            })
            .collect(),
    );
    Source {
        body,
        ..crate::markdown::read(b"---\na: b\n---\n".to_vec(), &crate::Limits::default()).unwrap()
    }
}

fn lined(lines: usize) -> Source {
    crate::markdown::read(
        "# \u{5e74}\n".repeat(lines).into_bytes(),
        &crate::Limits::default(),
    )
    .unwrap()
}

#[test]
fn sources_round_trip() {
    for source in [
        paged(0),
        paged(1),
        paged(64),
        paged(200),
        lined(1),
        lined(4_096),
        lined(10_000),
    ] {
        let bytes = encode_source(&source).unwrap();
        assert_eq!(bytes, encode_source(&source).unwrap());
        let packed = EncodedSource::open(bytes).unwrap();
        assert_eq!(packed.extent(), source.extent());
        assert_eq!(packed.decode().unwrap(), source);
    }
}

#[test]
fn hidden_texts_are_stored_with_sources_of_every_version() {
    let hidden = vec![HiddenText {
        page: stemma_document::PageNo::new(1).unwrap(),
        text: "nobody sees this".into(),
        reason: HiddenReason::SameColor,
    }];
    for source in [paged(1), lined(2)] {
        let plain = encode_source(&source).unwrap();
        let source = Source {
            hidden: hidden.clone(),
            ..source
        };
        let bytes = encode_source(&source).unwrap();
        let packed = EncodedSource::open(bytes.clone()).unwrap();
        assert_eq!(packed.hidden(), hidden);
        assert_eq!(packed.decode().unwrap(), source);
        // Without them a source is stored as before.
        assert_eq!(bytes[0], plain[0] | WITH_HIDDEN);
        assert_eq!(EncodedSource::open(plain).unwrap().hidden(), []);
        for length in 0..bytes.len().min(200) {
            let cut = EncodedSource::open(bytes[..length].to_vec());
            assert!(cut.is_err(), "{length}");
        }
    }
}

#[test]
fn emphasis_is_stored_where_a_flag_for_italics_was() {
    let run = |emphasis| StyleRun {
        end: 6,
        size: Pt(950),
        bold: true,
        emphasis,
    };
    for (emphasis, is_italic) in [(Emphasis::None, false), (Emphasis::Italic, true)] {
        let flagged = (6_u32, 950_i32, true, is_italic);
        assert_eq!(
            postcard::to_allocvec(&run(emphasis)),
            postcard::to_allocvec(&flagged)
        );
    }
    let mut source = paged(1);
    let SourceBody::Pages(pages) = &mut source.body else {
        unreachable!()
    };
    pages[0].lines[0].runs = vec![run(Emphasis::Decoration)];
    let packed = EncodedSource::open(encode_source(&source).unwrap()).unwrap();
    assert_eq!(packed.decode().unwrap(), source);
}

#[test]
fn bytes_of_lines_round_trip() {
    let mut source = paged(130);
    let SourceBody::Pages(pages) = &mut source.body else {
        panic!("no pages")
    };
    for (n, page) in (0..).zip(pages.iter_mut()) {
        page.lines.push(page.lines[0].clone());
        // The second line begins before the first ends, as in a row of a table.
        for (line, start) in page.lines.iter_mut().zip([n * 40, n * 40 + 7]) {
            line.bytes = (n % 5 > 0).then_some(ByteSpan {
                start,
                end: start + n % 7,
            });
        }
    }
    let packed = EncodedSource::open(encode_source(&source).unwrap()).unwrap();
    assert_eq!(packed.clone().decode().unwrap(), source);
    let pages = packed.pages(PageSpan::new(64, 65).unwrap()).unwrap();
    assert_eq!(
        pages[1].lines[0].bytes.map(|bytes| bytes.start),
        Some(64 * 40)
    );
}

#[test]
fn cells_of_tables_round_trip() {
    let mut source = paged(130);
    let SourceBody::Pages(pages) = &mut source.body else {
        panic!("no pages")
    };
    for (n, page) in (0..).zip(pages.iter_mut()) {
        page.lines.push(page.lines[0].clone());
        let cell = |start: u32, column: u16| GridCell {
            start,
            end: start + 2,
            column,
            columns: 1 + column % 3,
            rows: column,
            // The second cell is before the first in the file.
            bytes: (n % 5 > 0).then_some(ByteSpan {
                start: n * 40 + 30 - start,
                end: n * 40 + 33,
            }),
        };
        page.lines[1].grid = (n % 3 > 0).then(|| {
            Box::new(GridLine {
                table: n / 2,
                row: n % 7,
                cells: vec![cell(0, 0), cell(3, 4)],
            })
        });
    }
    let bytes = encode_source(&source).unwrap();
    assert_eq!(bytes[0], VERSION_WITH_GRIDS);
    let packed = EncodedSource::open(bytes).unwrap();
    assert_eq!(packed.clone().decode().unwrap(), source);
    let pages = packed.pages(PageSpan::new(65, 66).unwrap()).unwrap();
    assert!(pages[0].lines[1].grid.is_some() && pages[0].lines[0].grid.is_none());
}

#[test]
fn cells_outside_of_their_line_are_damage() {
    let mut source = paged(1);
    let SourceBody::Pages(pages) = &mut source.body else {
        panic!("no pages")
    };
    pages[0].lines[0].grid = Some(Box::new(GridLine {
        cells: vec![GridCell {
            end: 90,
            ..GridCell::default()
        }],
        ..GridLine::default()
    }));
    let packed = EncodedSource::open(encode_source(&source).unwrap()).unwrap();
    assert!(matches!(packed.decode(), Err(CodecError::Damaged(_))));
}

// Stored sources of the versions before stay readable, byte for byte.
#[test]
fn sources_without_bytes_keep_their_form() {
    assert_eq!(encode_source(&paged(3)).unwrap()[0], VERSION);
    assert_eq!(encode_source(&lined(3)).unwrap()[0], VERSION);
}

#[test]
fn page_and_line_ranges_decode_alone() {
    let packed = EncodedSource::open(encode_source(&paged(200)).unwrap()).unwrap();
    let pages = packed.pages(PageSpan::new(60, 130).unwrap()).unwrap();
    assert_eq!(
        (
            pages.len(),
            pages[0].text().as_str(),
            pages[70].text().as_str()
        ),
        (71, "page 60", "page 130")
    );
    assert_eq!(
        packed.pages(PageSpan::new(200, 201).unwrap()),
        Err(CodecError::OutOfRange(200, 201))
    );
    assert!(packed.lines(1, 1).is_err());
    let mut source = lined(9_000);
    let SourceBody::Lines(text) = &mut source.body else {
        panic!("no lines")
    };
    text.lines
        .iter_mut()
        .zip(1..)
        .for_each(|(line, n)| *line = format!("{n}"));
    text.tokens = (0..9_000).collect();
    let packed = EncodedSource::open(encode_source(&source).unwrap()).unwrap();
    assert_eq!(
        packed.lines(4_096, 4_098).unwrap(),
        ["4096", "4097", "4098"]
    );
    assert_eq!(packed.lines(8_999, 9_000).unwrap(), ["8999", "9000"]);
    assert!(
        packed.lines(0, 1).is_err()
            && packed.lines(2, 1).is_err()
            && packed.lines(9_000, 9_001).is_err()
    );
    assert_eq!(packed.decode().unwrap(), source);
}

#[test]
fn decompression_bombs_are_rejected() {
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 3).unwrap();
    assert_eq!(
        decode_frame::<Vec<u8>>(&bomb, 1_000),
        Err(CodecError::Damaged("it is larger than declared"))
    );
    // A length that promises more elements than there are bytes reserves nothing.
    let promise = zstd::bulk::compress(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F], 3).unwrap();
    assert!(decode_frame::<Vec<Page>>(&promise, 1_000).is_err());
}

#[test]
fn truncated_and_other_versions_are_errors() {
    let bytes = encode_source(&paged(70)).unwrap();
    assert!((0..bytes.len()).all(|end| EncodedSource::open(bytes[..end].to_vec()).is_err()));
    assert_eq!(
        EncodedSource::open(vec![9, 9, 9]).unwrap_err(),
        CodecError::Version(9)
    );
}

proptest! {
    #[test]
    fn altered_packs_never_panic(at in 1usize..2_000, byte: u8, pages in 1usize..100) {
        let mut bytes = encode_source(&paged(pages)).unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(packed) = EncodedSource::open(bytes) {
            let _ = packed.decode();
        }
    }
}

#[test]
fn recognized_pages_keep_their_readings() {
    let recognized = |disputed: &[(u32, &str)]| {
        let mut source = paged(2);
        let SourceBody::Pages(pages) = &mut source.body else {
            panic!("no pages");
        };
        let words = pages[1].lines[0].words.len();
        let disputed = disputed.iter().map(|(word, other)| DisputedWord {
            word: *word,
            other: (*other).into(),
        });
        pages[1].origin = PageOrigin::Recognized(Box::new(Recognition {
            skew: -302,
            confidences: vec![91; words],
            disputed: disputed.collect(),
        }));
        source
    };
    for (disputed, version) in [
        (&[][..], VERSION_WITH_RECOGNITION),
        (&[(0, "1,284")], VERSION_WITH_DISPUTED),
    ] {
        let source = recognized(disputed);
        let packed = encode_source(&source).unwrap();
        assert_eq!(packed[0], version);
        let decoded = EncodedSource::open(packed).unwrap().decode().unwrap();
        assert_eq!(decoded, source);
    }
    for damaged in [&[(1, "")][..], &[(0, ""), (0, "")]] {
        let packed = encode_source(&recognized(damaged)).unwrap();
        let decoded = EncodedSource::open(packed).unwrap().decode();
        assert!(matches!(decoded, Err(CodecError::Damaged(_))));
    }
}

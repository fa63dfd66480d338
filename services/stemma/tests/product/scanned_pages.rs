//! Pages between printed ones that are scans, a photograph or handwriting. Skipped where tesseract is not installed.

use serde_json::Value;

use crate::scan_fixture::{PICTURE, Sheet, has_tesseract, scan};
use crate::support::{TestEnv, codes, trees};

const TOPICS: [&str; 6] = [
    "harbors",
    "bridges",
    "lanterns",
    "orchards",
    "windmills",
    "quarries",
];

/// The lines of a page; its topic is on no other page.
fn lines(page: usize) -> Vec<String> {
    let divisions = ["alpha", "bravo", "delta", "gamma", "kappa", "omega"];
    let sentence = |n: usize| {
        format!(
            "In year {} the {} division sold {},{} anvils to the {} smiths.",
            2_000 + 7 * page + n,
            divisions[(page + n) % 6],
            20 * page + n + 1,
            (137 * n + 11 * page) % 900 + 100,
            divisions[(page + 5 * n) % 6]
        )
    };
    let first = format!("Page of chapter {page} about {}", TOPICS[page]);
    std::iter::once(first).chain((0..9).map(sentence)).collect()
}

fn pages(lab: &TestEnv, store: &str, name: &str) -> Vec<Value> {
    let answer = lab.stemma(store, ["--json", "cat", name]).run().json();
    answer["pages"].as_array().unwrap().clone()
}

fn text_lines(page: &Value) -> Vec<&str> {
    page["text"].as_str().unwrap().lines().collect()
}

#[test]
fn every_third_page_is_read_and_the_others_stay_as_they_are() {
    if !has_tesseract() {
        return;
    }
    let printed = || (0..TOPICS.len()).map(|page| Sheet::Printed(lines(page)));
    let original = scan(&[], &printed().collect::<Vec<_>>());
    let sheets: Vec<Sheet> = (1..)
        .zip(printed())
        .map(|(number, sheet)| match number % 3 {
            0 => Sheet::Straight(number),
            _ => sheet,
        })
        .collect();
    let lab = TestEnv::new();
    lab.put("mixed.pdf", scan(&original, &sheets));
    for (store, mode) in [("store", "auto"), ("unread", "never")] {
        let summary = lab.ingest(store, &["--ocr", mode]);
        assert_eq!(summary["counts"]["done_with_gaps"], 1, "{summary}");
    }
    let unread = pages(&lab, "unread", "mixed.pdf");
    let read = pages(&lab, "store", "mixed.pdf");
    assert_eq!(read.len(), TOPICS.len());
    for (index, page) in read.iter().enumerate() {
        let expected = lines(index);
        if index % 3 < 2 {
            assert_eq!(text_lines(page), expected, "page {index}");
            assert_eq!(page, &unread[index]);
            continue;
        }
        assert_eq!(text_lines(&unread[index]), [""; 0]);
        assert!(page["ocr"]["confidence"].as_u64() > Some(80), "{page}");
        let found = text_lines(page);
        let same = expected
            .iter()
            .filter(|line| found.contains(&line.as_str()));
        assert!(same.count() * 10 >= expected.len() * 9, "{page:#}");
    }
    for (number, topic) in (1..).zip(TOPICS) {
        let arguments = ["--json", "search", topic];
        let answer = lab.stemma("store", arguments).run().json();
        let best = &answer["hits"][0]["best_pages"][0]["page"];
        assert_eq!(*best, number, "{topic}: {answer:#}");
    }
    let gaps = &trees(&lab.path("store"))["mixed.pdf"].tree.gaps;
    let note = gaps.iter().find(|gap| gap.code == "ocr.recognized");
    let detail = &note.unwrap().detail;
    let expected = "text recognition read 2 of 6 pages";
    assert!(detail.starts_with(expected), "{detail}");
    let is_unread = |(code, _): &(&str, Option<u32>)| *code == "pdf.no_text";
    assert!(!codes(gaps).iter().any(is_unread), "{gaps:?}");
}

/// Words of the picture behind a printed page, and those of them that are not in doubt. The page is recorded as one without
/// text, or as one that was read badly.
fn picture_words(pixels: Vec<u8>) -> (usize, usize) {
    let sheets = [Sheet::Printed(lines(0)), Sheet::Picture(pixels)];
    let lab = TestEnv::new();
    lab.put("report.pdf", scan(&[], &sheets));
    let summary = lab.ingest("store", &[]);
    assert_eq!(summary["counts"]["done_with_gaps"], 1, "{summary}");
    let pages = pages(&lab, "store", "report.pdf");
    assert_eq!(text_lines(&pages[0]), lines(0));
    let gaps = &trees(&lab.path("store"))["report.pdf"].tree.gaps;
    let found = codes(gaps);
    assert!(found.contains(&("ocr.recognized", None)), "{gaps:?}");
    let words = pages[1]["text"].as_str().unwrap().split_whitespace();
    let words = words.count();
    let mark = match words {
        0 => "pdf.no_text",
        _ => "ocr.doubtful",
    };
    assert!(found.contains(&(mark, Some(2))), "{gaps:?}");
    let doubtful = pages[1]["ocr"]["doubtful"].as_array().unwrap().len();
    (words, words - doubtful)
}

/// Numbers that look random and are the same in each run.
struct Noise(u32);

impl Noise {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) % bound
    }
}

/// A grainy sky with a sun above dark hills.
fn photograph() -> Vec<u8> {
    let width = u32::from(PICTURE.0);
    let height = u32::from(PICTURE.1);
    let mut noise = Noise(1);
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let grain = noise.below(40);
            let sky = 60 + 90 * x / width + 60 * y / height + grain;
            let hills = 600 + (x % 300).abs_diff(150) / 4;
            let from_sun = x.abs_diff(600).pow(2) + y.abs_diff(250).pow(2);
            let shade = match (from_sun < 90 * 90, y > hills) {
                (true, _) => 235,
                (_, true) => sky / 2,
                _ => sky,
            };
            pixels.push(u8::try_from(shade).unwrap());
        }
    }
    pixels
}

/// Rows of words of up and down strokes, joined or in letters.
fn handwriting(is_joined: bool) -> Vec<u8> {
    let mut noise = Noise(3);
    let mut below = |bound: u32| i32::try_from(noise.below(bound)).unwrap();
    let mut pixels = vec![250; usize::from(PICTURE.0) * usize::from(PICTURE.1)];
    for row in 0..7 {
        let base = 130 + 60 * row;
        let mut x = 80;
        while x < 480 {
            let mut pen = (x, base);
            for _ in 0..8 + below(12) {
                let height = below(14) * if below(5) == 0 { 2 } else { 1 };
                let top = (pen.0 + 2 + below(7), base - height);
                draw_stroke(&mut pixels, pen, top);
                let tail = if below(12) == 0 { 7 } else { 0 };
                pen = (top.0 + below(5) - 1, base + below(4) + tail);
                draw_stroke(&mut pixels, top, pen);
                if !is_joined && below(3) == 0 {
                    pen = (pen.0 + 6, base);
                }
            }
            x = pen.0 + 24 + below(16);
        }
    }
    pixels
}

/// A line of three pixels' width.
fn draw_stroke(pixels: &mut [u8], from: (i32, i32), to: (i32, i32)) {
    let across = to.0 - from.0;
    let down = to.1 - from.1;
    let steps = across.abs().max(down.abs()).max(1);
    for step in 0..=steps {
        let x = from.0 + across * step / steps;
        let y = from.1 + down * step / steps;
        for row in y - 1..=y + 1 {
            let start = usize::try_from(row * i32::from(PICTURE.0) + x - 1).unwrap();
            pixels[start..start + 3].fill(40);
        }
    }
}

#[test]
fn photograph_has_no_words_but_doubtful_ones() {
    if !has_tesseract() {
        return;
    }
    let (_, sure) = picture_words(photograph());
    assert_eq!(sure, 0);
}

#[test]
fn words_of_handwriting_are_in_doubt() {
    if !has_tesseract() {
        return;
    }
    for is_joined in [true, false] {
        let (words, sure) = picture_words(handwriting(is_joined));
        assert!(
            sure * 10 <= words,
            "joined: {is_joined}: {sure} of {words} words are sure"
        );
    }
}

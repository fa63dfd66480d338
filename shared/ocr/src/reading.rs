//! Reads an image of a page: upright, straight, and with the sizes of its fonts.

use std::borrow::Cow;

use stemma_document::{Page, Turn, WordReading};
use stemma_extract::pdf::{PlacedWord, lay_out_words};
use stemma_extract::{ExtractError, RecognizeRequest};

use crate::cpu_budget::CpuBudget;
use crate::gray::Gray;
use crate::hocr::ReadWord;
use crate::second_reader::{self, LineReader};
use crate::tesseract::{self, Segmentation, TextImage};
use crate::unread::UnreadRows;
use crate::words::{READABLE, length, read_words};
use crate::{blur, orientation, rows, skew, type_style};

const POINTS_PER_INCH: f32 = 72.0;

// Of the characters. An upright page of bad print has more that are readable, one upside down hardly any.
const MIN_READABLE: f32 = 0.6;
// From the highest to the lowest letter of a line, in ems of its font (Times and Helvetica: 0.68 to 0.72 above the
// baseline, 0.21 below).
const LINE_HEIGHT: f32 = 0.92;
// Fonts whose measured size differs by less have the size of most of the page: the heights of a line vary with its letters.
const SAME_SIZE: f32 = 0.15;
const MIN_SIZE: f32 = 3.0;
// Points. A4 and Letter are 595 and 612 wide; a landscape page of that size has room for one page only.
const SMALLEST_PAGE: f32 = 500.0;
// Points, in the middle of two pages: half an inch.
const GUTTER: f32 = 36.0;
// Of the characters. Where fewer were read well, print is bad rather than left out, and reading it again takes as long and finds as little.
const MIN_CLEAR: f32 = 0.8;

/// Reads an image that was drawn with `scale` pixels for a point, and its numbers again with a second reader.
pub(crate) fn read(
    image: &Gray,
    scale: f32,
    request: &RecognizeRequest,
    second: Option<&dyn LineReader>,
    budget: &CpuBudget,
) -> Result<Page, ExtractError> {
    if skew::is_blank(image) {
        return Ok(Reading::blank(image).page(scale));
    }
    let reading = |image, turn| Reading::new(PageScan::new(image, turn), scale, request, budget);
    let finished = |mut reading: Reading<'_>| {
        reading.read_rest(scale, request, budget)?;
        if let Some(second) = second {
            let words = &mut reading.words;
            second_reader::confirm_numbers(words, &reading.scan.straight, second, budget)?;
        }
        Ok(reading.page(scale))
    };
    if let Some(turn) = orientation::suspected_turn(image) {
        let upright = image.clone().turned(turn.inverse());
        let scan = PageScan::new(&upright, turn);
        if let Some(sample) = orientation::sample(&scan.straight) {
            // Takes a tenth of the time of a page. Tesseract's search for the orientation takes half of it.
            let sample = Reading::new(PageScan::new(&sample, turn), scale, request, budget)?;
            if sample.is_legible() {
                let turned = Reading::new(scan, scale, request, budget)?;
                if turned.is_legible() {
                    return finished(turned);
                }
            }
        }
    }
    let first = reading(image, Turn::None)?;
    // A page upside down is read as other letters, not as none.
    if first.words.is_empty() || first.is_legible() {
        return finished(first);
    }
    let turn = match first.sideways_turn() {
        Some(turn) => Some(turn),
        None => tesseract::upright_turn(image, request, budget)?.and_then(turn_to_undo),
    };
    let Some(turn) = turn else {
        return finished(first);
    };
    let upright = image.clone().turned(turn.inverse());
    // If this fails, the page is a gap: what was read of it upside down is not text.
    let second = reading(&upright, turn)?;
    if second.readable() > first.readable() {
        finished(second)
    } else {
        finished(first)
    }
}

// The page's rotation, given the clockwise turn that makes it upright.
fn turn_to_undo(degrees: u16) -> Option<Turn> {
    match degrees {
        90 => Some(Turn::ThreeQuarters),
        180 => Some(Turn::Half),
        270 => Some(Turn::Quarter),
        _ => None,
    }
}

// An image that is read.
struct PageScan<'i> {
    straight: Cow<'i, Gray>,
    // Degrees.
    skew: f32,
    // The rotation of the page; this image is upright.
    turn: Turn,
    is_blurred: bool,
}

struct Reading<'i> {
    scan: PageScan<'i>,
    words: Vec<ReadWord>,
}

impl<'i> PageScan<'i> {
    fn new(image: &'i Gray, turn: Turn) -> Self {
        let skew = skew::measure(image);
        let straight = match skew {
            0.0 => Cow::Borrowed(image),
            _ => Cow::Owned(image.straightened(skew)),
        };
        Self {
            is_blurred: blur::is_blurred(&straight),
            straight,
            skew,
            turn,
        }
    }

    fn text_image<'p>(
        &self,
        pixels: &'p Gray,
        scale: f32,
        segmentation: Segmentation,
    ) -> TextImage<'p> {
        TextImage {
            pixels,
            dpi: (scale * POINTS_PER_INCH).round() as u32,
            segmentation,
            is_blurred: self.is_blurred,
        }
    }
}

impl<'i> Reading<'i> {
    fn blank(image: &'i Gray) -> Self {
        Self {
            scan: PageScan::new(image, Turn::None),
            words: Vec::new(),
        }
    }

    fn new(
        scan: PageScan<'i>,
        scale: f32,
        request: &RecognizeRequest,
        budget: &CpuBudget,
    ) -> Result<Self, ExtractError> {
        let segmentation = if rows::are_separate(&scan.straight) {
            Segmentation::Lines
        } else {
            Segmentation::Blocks
        };
        let image = scan.text_image(&scan.straight, scale, segmentation);
        let words = read_words(image, request, budget)?;
        Ok(Self { scan, words })
    }

    // Reads what tesseract left out, or read as something that is hardly text.
    fn read_rest(
        &mut self,
        scale: f32,
        request: &RecognizeRequest,
        budget: &CpuBudget,
    ) -> Result<(), ExtractError> {
        let clear: Vec<&ReadWord> = self.words.iter().filter(is_clear).collect();
        if self.share(self.readable()) < MIN_CLEAR || budget.is_nearly_used_up() {
            return Ok(());
        }
        let Some(unread) = UnreadRows::find(&self.scan.straight, &clear) else {
            return Ok(());
        };
        let scan = &self.scan;
        let image = scan.text_image(&unread.image, scale, Segmentation::Sparse);
        let mut found = read_words(image, request, budget)?;
        found.retain(|word| is_clear(&word));
        for word in &mut found {
            word.top += unread.first as f32;
            word.baseline += unread.first as f32;
        }
        self.words
            .retain(|word| is_clear(&word) || !found.iter().any(|other| word.overlaps(other)));
        self.words.append(&mut found);
        Ok(())
    }

    // Characters of upright words that were read well.
    fn readable(&self) -> usize {
        self.read_well(false)
    }

    fn read_well(&self, sideways: bool) -> usize {
        self.words
            .iter()
            .filter(|word| word.confidence >= READABLE && word.is_sideways == sideways)
            .map(length)
            .sum()
    }

    fn is_legible(&self) -> bool {
        self.share(self.readable()) >= MIN_READABLE
    }

    // Tesseract reads lines that run down the page as well, but says nothing about their baselines. It does not read those that
    // run up.
    fn sideways_turn(&self) -> Option<Turn> {
        (self.share(self.read_well(true)) >= MIN_READABLE).then_some(Turn::Quarter)
    }

    // Share of all characters.
    fn share(&self, characters: usize) -> f32 {
        let all: usize = self.words.iter().map(length).sum();
        characters as f32 / all.max(1) as f32
    }

    fn page(&self, scale: f32) -> Page {
        let heights = self.words.iter().map(|word| (word.line_height, word));
        // In pixels.
        let usual = median_of_characters(heights).unwrap_or(0.0);
        let styles = type_style::type_styles(&self.scan.straight, &self.words);
        // In a picture without letters, tesseract takes lines and stains for words, and is sure of none.
        let has_letters = self.words.iter().any(|word| word.confidence >= READABLE);
        let placed: Vec<PlacedWord> = self
            .words
            .iter()
            .zip(styles)
            .filter(|_| has_letters)
            .map(|(word, style)| PlacedWord {
                text: word.text.clone(),
                x0: word.x0 / scale,
                x1: word.x1 / scale,
                baseline: word.baseline / scale,
                size: font_size(word.line_height, usual, scale),
                bold: style.bold,
                italic: style.italic,
                reading: WordReading {
                    confidence: word.confidence,
                    other: word.other.clone(),
                },
            })
            .collect();
        let width = self.scan.straight.width as f32 / scale;
        let height = self.scan.straight.height as f32 / scale;
        let skew = (self.scan.skew * 100.0).round() as i16;
        let mut page = lay_out_words(width, height, skew, &printed_pages(placed, width, height));
        page.turn = self.scan.turn;
        page
    }
}

fn is_clear(word: &&ReadWord) -> bool {
    word.confidence >= READABLE && !word.is_sideways
}

// The words of each printed page, two side by side where an image is as large as both and nothing is printed between.
fn printed_pages(words: Vec<PlacedWord>, width: f32, height: f32) -> Vec<Vec<PlacedWord>> {
    let middle = width / 2.0;
    let is_page = middle >= SMALLEST_PAGE && middle < height;
    let is_across =
        |word: &PlacedWord| word.x0 < middle + GUTTER / 2.0 && word.x1 > middle - GUTTER / 2.0;
    if !is_page || words.iter().any(is_across) {
        return vec![words];
    }
    let (left, right): (Vec<_>, Vec<_>) = words.into_iter().partition(|word| word.x1 < middle);
    vec![left, right]
}

/// The median of a measure of words, weighted by their characters.
pub(crate) fn median_of_characters<'w>(
    measured: impl Iterator<Item = (f32, &'w ReadWord)>,
) -> Option<f32> {
    let counted = measured.map(|(value, word)| (value, length(word)));
    let mut counted: Vec<(f32, usize)> = counted.collect();
    counted.sort_by(|left, right| left.0.total_cmp(&right.0));
    let half = counted.iter().map(|(_, count)| count).sum::<usize>() / 2;
    let mut before = 0;
    let median = counted.iter().find(|(_, count)| {
        before += count;
        before > half
    });
    median.map(|(value, _)| *value)
}

// In points, rounded to halves, as sizes are set.
fn font_size(height: f32, usual: f32, scale: f32) -> f32 {
    let height = if (height - usual).abs() < SAME_SIZE * usual {
        usual
    } else {
        height
    };
    let points = height / LINE_HEIGHT / scale;
    ((points * 2.0).round() / 2.0).max(MIN_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::tests::word;

    #[test]
    fn wide_sheets_show_two_pages_unless_words_are_in_the_middle() {
        let placed = |x0: f32, x1: f32| PlacedWord {
            text: "word".into(),
            x0,
            x1,
            baseline: 100.0,
            size: 10.0,
            bold: false,
            italic: false,
            reading: WordReading {
                confidence: 95,
                other: None,
            },
        };
        let counts = |words: &[(f32, f32)], width, height| -> Vec<usize> {
            let words = words.iter().map(|(x0, x1)| placed(*x0, *x1)).collect();
            let pages = printed_pages(words, width, height);
            pages.iter().map(Vec::len).collect()
        };
        let both = [(72.0, 90.0), (684.0, 700.0), (72.0, 500.0)];
        assert_eq!(counts(&both, 1224.0, 792.0), [2, 1]);
        assert_eq!(counts(&both, 842.0, 595.0), [3], "one landscape page");
        assert_eq!(counts(&both, 1224.0, 600.0), [3], "a wide scan");
        let title = [(72.0, 90.0), (580.0, 640.0)];
        assert_eq!(counts(&title, 1224.0, 792.0), [2]);
    }

    const GARBAGE: &str = "<span class=\"ocr_line\" title=\"bbox 10 90 300 140; baseline 0 -10; x_size 40\"><span class=\"ocrx_word\" title=\"bbox 10 90 90 130; x_wconf 20\">suqiyxg</span></span>";

    // Reads with a shell script in the place of tesseract.
    #[cfg(target_os = "linux")]
    fn read_with(script: &str, image: &Gray, seconds: u64) -> Result<Page, &'static str> {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("tesseract");
        let script = script.replace("$FOLDER", folder.path().to_str().unwrap());
        std::fs::write(&program, format!("#!/bin/sh\n{script}")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let request = RecognizeRequest {
            page: stemma_document::PageNo::FIRST,
            program,
            languages: vec!["eng".into()],
            second_reader: None,
        };
        let budget = CpuBudget::for_seconds(seconds);
        read(image, 300.0 / 72.0, &request, None, &budget).map_err(|error| error.code)
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn turned_page_that_cannot_be_read_upright_in_time_is_an_error() {
        let mut pixels = vec![255; 160_000];
        pixels[40_000..60_000].fill(0);
        let image = Gray::new(400, 400, pixels).unwrap();
        let code = |orientation: &str, upright: &str| {
            let script = format!(
                "case \"$*\" in
                 *'--psm 0'*) {orientation};;
                 *'--psm 11'*) ;;
                 *) if [ -e $FOLDER/read ]; then {upright}; else : > $FOLDER/read; echo '{GARBAGE}'; fi;;
                 esac"
            );
            read_with(&script, &image, 1).map(|_| ())
        };
        let spin = "while :; do :; done";
        assert_eq!(code(spin, spin), Err("ocr.timeout"));
        assert_eq!(code("echo Rotate: 180", spin), Err("ocr.timeout"));
        // Too few letters to see their orientation.
        assert_eq!(code("exit 1", spin), Ok(()));
    }

    // Each run but the one in `garbage` reads its own number.
    #[cfg(target_os = "linux")]
    fn turn_and_run(image: &Gray, garbage: u32) -> (Turn, String) {
        let word = "<span class=\"ocrx_word\" title=\"bbox 10 90 90 130; x_wconf 95\">run";
        let line = GARBAGE.split_once("<span class=\"ocrx_word\"").unwrap().0;
        let script = format!(
            "case \"$*\" in *'--psm 0'*) exit 1;; *'--psm 11'*) exit 0;; esac
             echo >> $FOLDER/runs
             runs=$(wc -l < $FOLDER/runs)
             if [ $runs -eq {garbage} ]; then echo '{GARBAGE}'; else echo '{line}{word}'$runs'</span></span>'; fi"
        );
        let page = read_with(&script, image, 10).unwrap();
        (page.turn, page.text().trim().to_owned())
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn turned_pages_are_read_once_after_a_sample() {
        let page = orientation::tests::page(2);
        for turn in [Turn::Quarter, Turn::Half, Turn::ThreeQuarters] {
            let turned = page.clone().turned(turn);
            assert_eq!(turn_and_run(&turned, 0), (turn, "run2".into()));
        }
        assert_eq!(turn_and_run(&page, 0), (Turn::None, "run1".into()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn pages_that_are_illegible_when_turned_are_read_as_they_are() {
        let page = orientation::tests::page(2).turned(Turn::Half);
        let sample_is_illegible = turn_and_run(&page, 1);
        assert_eq!(sample_is_illegible, (Turn::None, "run2".into()));
        let page_is_illegible = turn_and_run(&page, 2);
        assert_eq!(page_is_illegible, (Turn::None, "run3".into()));
    }

    #[test]
    fn picture_of_which_no_word_is_sure_has_no_text() {
        let image = Gray::new(400, 400, vec![255; 160_000]).unwrap();
        let lines = |confidences: [u8; 2]| {
            let words = confidences.map(|confidence| word("ip", 29.0, confidence));
            let reading = Reading {
                words: words.to_vec(),
                ..Reading::blank(&image)
            };
            reading.page(300.0 / 72.0).lines.len()
        };
        assert_eq!(lines([11, 26]), 0);
        assert!(lines([11, READABLE]) > 0);
    }

    #[test]
    fn lines_of_nearly_the_same_height_have_one_font_size() {
        let scale = 300.0 / 72.0;
        let size = |height| font_size(height, 40.0, scale);
        assert_eq!(size(40.0), 10.5);
        assert_eq!(size(43.0), size(37.0));
        assert_eq!(size(60.0), 15.5);
        assert_eq!(size(1.0), MIN_SIZE);
    }
}

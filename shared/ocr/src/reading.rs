//! Reads an image of a page: upright, straight, and with the sizes of its fonts.

use std::borrow::Cow;

use stemma_document::{Page, Turn, WordReading};
use stemma_extract::pdf::{PlacedWord, lay_out_words};
use stemma_extract::{ExtractError, RecognizeRequest};

use crate::cpu_budget::CpuBudget;
use crate::gray::Gray;
use crate::hocr::{self, ReadWord};
use crate::second_reader::{self, LineReader};
use crate::{orientation, skew, tesseract};

const POINTS_PER_INCH: f32 = 72.0;

// In percent. Below, tesseract mostly saw no letters but rules, stains or letters that lie on their side.
const READABLE: u8 = 60;
// Of the characters. An upright page of bad print has more that are readable, one upside down hardly any.
const MIN_READABLE: f32 = 0.6;
// From the highest to the lowest letter of a line, in ems of its font (Times and Helvetica: 0.68 to 0.72 above the
// baseline, 0.21 below).
const LINE_HEIGHT: f32 = 0.92;
// Fonts whose measured size differs by less have the size of most of the page: the heights of a line vary with its letters.
const SAME_SIZE: f32 = 0.15;
const MIN_SIZE: f32 = 3.0;
// Of the height of a line. Letters without ascenders take half of it, dots a tenth.
const LEADER_HEIGHT: f32 = 0.3;

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
    let reading = |image, turn| Reading::new(Sheet::new(image, turn), scale, request, budget);
    let finished = |mut reading: Reading<'_>| {
        if let Some(second) = second {
            let words = &mut reading.words;
            second_reader::confirm_numbers(words, &reading.sheet.straight, second, budget)?;
        }
        Ok(reading.page(scale))
    };
    if let Some(turn) = orientation::suspected_turn(image) {
        let upright = image.clone().turned(turn.inverse());
        let sheet = Sheet::new(&upright, turn);
        if let Some(sample) = orientation::sample(&sheet.straight) {
            // Takes a tenth of the time of a page. Tesseract's search for the orientation takes half of it.
            let sample = Reading::new(Sheet::new(&sample, turn), scale, request, budget)?;
            if sample.is_legible() {
                let turned = Reading::new(sheet, scale, request, budget)?;
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
    // If this fails, the page is a gap: what was read of it upside down is no text.
    let second = reading(&upright, turn)?;
    if second.readable() > first.readable() {
        finished(second)
    } else {
        finished(first)
    }
}

// How a page was turned that is upright after a turn by `degrees` clockwise.
fn turn_to_undo(degrees: u16) -> Option<Turn> {
    match degrees {
        90 => Some(Turn::ThreeQuarters),
        180 => Some(Turn::Half),
        270 => Some(Turn::Quarter),
        _ => None,
    }
}

// An image that is read.
struct Sheet<'i> {
    straight: Cow<'i, Gray>,
    // Degrees.
    skew: f32,
    // How the page was turned, of which this is the upright image.
    turn: Turn,
}

struct Reading<'i> {
    sheet: Sheet<'i>,
    words: Vec<ReadWord>,
}

impl<'i> Sheet<'i> {
    fn new(image: &'i Gray, turn: Turn) -> Self {
        let skew = skew::measure(image);
        let straight = match skew {
            0.0 => Cow::Borrowed(image),
            _ => Cow::Owned(image.straightened(skew)),
        };
        Self {
            straight,
            skew,
            turn,
        }
    }
}

impl<'i> Reading<'i> {
    fn blank(image: &'i Gray) -> Self {
        Self {
            sheet: Sheet::new(image, Turn::None),
            words: Vec::new(),
        }
    }

    fn new(
        sheet: Sheet<'i>,
        scale: f32,
        request: &RecognizeRequest,
        budget: &CpuBudget,
    ) -> Result<Self, ExtractError> {
        let dpi = (scale * POINTS_PER_INCH).round() as u32;
        let hocr = tesseract::recognize(&sheet.straight, dpi, request, budget)?;
        let mut words = hocr::parse(&hocr);
        words.iter_mut().for_each(cut_leader);
        words.retain(is_word);
        Ok(Self { sheet, words })
    }

    // Characters of upright words that were read well.
    fn readable(&self) -> usize {
        self.read_well(false)
    }

    fn read_well(&self, sideways: bool) -> usize {
        let good = |word: &&ReadWord| word.confidence >= READABLE && word.is_sideways == sideways;
        self.words.iter().filter(good).map(length).sum()
    }

    fn is_legible(&self) -> bool {
        self.is_most(self.readable())
    }

    // Tesseract reads lines that run down the page as well, but says nothing about their baselines. It does not read those that
    // run up.
    fn sideways_turn(&self) -> Option<Turn> {
        self.is_most(self.read_well(true)).then_some(Turn::Quarter)
    }

    fn is_most(&self, characters: usize) -> bool {
        let all: usize = self.words.iter().map(length).sum();
        all > 0 && characters as f32 >= MIN_READABLE * all as f32
    }

    fn page(&self, scale: f32) -> Page {
        let usual = self.usual_height();
        // Of a picture without letters tesseract makes words of lines and stains, and is sure of none.
        let has_letters = self.words.iter().any(|word| word.confidence >= READABLE);
        let placed: Vec<PlacedWord> = self
            .words
            .iter()
            .filter(|_| has_letters)
            .map(|word| PlacedWord {
                text: word.text.clone(),
                x0: word.x0 / scale,
                x1: word.x1 / scale,
                baseline: word.baseline / scale,
                size: font_size(word.line_height, usual, scale),
                reading: WordReading {
                    confidence: word.confidence,
                    other: word.other.clone(),
                },
            })
            .collect();
        let width = self.sheet.straight.width as f32 / scale;
        let height = self.sheet.straight.height as f32 / scale;
        let skew = (self.sheet.skew * 100.0).round() as i16;
        let mut page = lay_out_words(width, height, skew, &placed);
        page.turn = self.sheet.turn;
        page
    }

    // The median of all characters, in pixels.
    fn usual_height(&self) -> f32 {
        let mut heights: Vec<(f32, usize)> = self
            .words
            .iter()
            .map(|word| (word.line_height, length(word)))
            .collect();
        heights.sort_by(|one, other| one.0.total_cmp(&other.0));
        let half = heights.iter().map(|(_, count)| count).sum::<usize>() / 2;
        let mut before = 0;
        let median = heights.iter().find(|(_, count)| {
            before += count;
            before > half
        });
        median.map_or(0.0, |(height, _)| *height)
    }
}

fn length(word: &ReadWord) -> usize {
    word.text.chars().count()
}

// Stains and rules are read as punctuation, and the dots between a title and its page number as letters: `..... cece eeees`.
fn is_word(word: &ReadWord) -> bool {
    let has_letters = word.text.contains(char::is_alphanumeric);
    let is_leader = word.height < LEADER_HEIGHT * word.line_height;
    !word.text.is_empty()
        && if has_letters {
            !is_leader
        } else {
            word.confidence >= READABLE
        }
}

// Takes the dots behind a title from its last word, unless a number follows them.
fn cut_leader(word: &mut ReadWord) {
    let Some(at) = word.text.find("...") else {
        return;
    };
    let last = word.text.rsplit('.').next().unwrap_or_default();
    if last.is_empty() || !last.chars().all(|c| c.is_ascii_digit()) {
        word.text.truncate(at);
    }
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

    #[test]
    fn leaders_are_no_words() {
        let word = |text: &str, height, confidence| ReadWord {
            text: text.into(),
            x0: 0.0,
            x1: 90.0,
            height,
            baseline: 40.0,
            line_height: 40.0,
            confidence,
            is_sideways: false,
            other: None,
        };
        let mut words = vec![
            word("Risk", 29.0, 96),
            word("Factors.......ccee", 29.0, 50),
            word("eeeceeee", 6.0, 30),
            word("...........", 6.0, 70),
            word("....12", 28.0, 80),
            word("-", 5.0, 90),
            word("~", 5.0, 20),
            word("sum", 20.0, 95),
        ];
        words.iter_mut().for_each(cut_leader);
        words.retain(is_word);
        let kept: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(kept, ["Risk", "Factors", "....12", "-", "sum"]);
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
            "case \"$*\" in *'--psm 0'*) exit 1;; esac
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
            let words = confidences.map(|confidence| ReadWord {
                text: "ip".into(),
                x0: 10.0,
                x1: 60.0,
                height: 29.0,
                baseline: 80.0,
                line_height: 40.0,
                confidence,
                is_sideways: false,
                other: None,
            });
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

//! A second reader for numbers: what both readers read alike is sure, all else is in doubt, with both readings.
//!
//! It sees each number by itself, cut from the straight page, and knows nothing of what the first reader read.

use stemma_document::figures;
use stemma_extract::ExtractError;

use crate::cpu_budget::CpuBudget;
use crate::gray::{Gray, Window};
use crate::hocr::ReadWord;

/// The height in pixels of the lines that models of PP-OCR read.
pub(crate) const LINE_HEIGHT: usize = 48;
/// Wider ones are not read: no number is, but a row of dots before one may be.
pub(crate) const MAX_LINE_WIDTH: usize = 1024;

// Share of the height of a line, above and below it.
const MARGIN: f32 = 0.15;
// Share of the height of a line, before and after a word, but not beyond the middle of the gap to the next word: digits that the
// first reader cut off are there.
const REACH: f32 = 0.4;
// Share of the height of a line, from its top to the baseline (Times and Helvetica: 0.77).
const ASCENT: f32 = 0.77;

/// Reads the text in an image of one line.
pub(crate) trait LineReader: Send + Sync {
    fn read(&self, line: &Gray) -> Result<String, ExtractError>;
}

/// Reads the numbers among `words` again. Those for which no CPU time is left are in doubt.
pub(crate) fn confirm_numbers(
    words: &mut [ReadWord],
    image: &Gray,
    reader: &dyn LineReader,
    budget: &CpuBudget,
) -> Result<(), ExtractError> {
    for at in 0..words.len() {
        if !figures::has_figure(&words[at].text) {
            continue;
        }
        let other = match line_image(words, at, image) {
            Some(line) if !budget.is_nearly_used_up() => Some(reader.read(&line)?),
            _ => None,
        };
        let word = &mut words[at];
        match other {
            Some(other) => {
                let twice = figures::read_twice(&word.text, word.confidence, &other);
                word.confidence = twice.confidence;
                word.other = twice.other;
            }
            None => word.confidence = word.confidence.min(figures::DOUBTFUL),
        }
    }
    Ok(())
}

// `None` for what is not a line of text across the image, or too wide.
fn line_image(words: &[ReadWord], at: usize, image: &Gray) -> Option<Gray> {
    let word = &words[at];
    let height = word.line_height;
    if word.is_sideways || height < 1.0 {
        return None;
    }
    let neighbors = || words.iter().filter(|other| word.is_on_line_of(other));
    let ends = neighbors().map(|other| other.x1);
    let starts = neighbors().map(|other| other.x0);
    let before = ends.filter(|end| *end <= word.x0).fold(f32::MIN, f32::max);
    let after = starts
        .filter(|start| *start >= word.x1)
        .fold(f32::MAX, f32::min);
    let reach = |gap: f32| (gap / 2.0).min(REACH * height);
    let window = Window {
        x0: word.x0 - reach(word.x0 - before),
        x1: word.x1 + reach(after - word.x1),
        y0: word.baseline - (ASCENT + MARGIN) * height,
        y1: word.baseline + (1.0 - ASCENT + MARGIN) * height,
    };
    image
        .scaled(window, LINE_HEIGHT)
        .filter(|line| line.width <= MAX_LINE_WIDTH)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    // Gives the readings in order, and records the widths of the lines.
    struct ScriptedReader {
        readings: Mutex<Vec<&'static str>>,
        widths: Mutex<Vec<usize>>,
    }

    impl ScriptedReader {
        fn new(readings: &[&'static str]) -> Self {
            let readings = readings.iter().rev().copied().collect();
            Self {
                readings: Mutex::new(readings),
                widths: Mutex::default(),
            }
        }
    }

    impl LineReader for ScriptedReader {
        fn read(&self, line: &Gray) -> Result<String, ExtractError> {
            assert_eq!(line.height, LINE_HEIGHT);
            self.widths.lock().unwrap().push(line.width);
            let reading = self.readings.lock().unwrap().pop();
            Ok(reading.unwrap().into())
        }
    }

    fn word(text: &str, x0: f32, baseline: f32, confidence: u8) -> ReadWord {
        ReadWord {
            text: text.into(),
            x0,
            x1: x0 + 20.0 * text.len() as f32,
            top: baseline - 29.0,
            height: 29.0,
            baseline,
            line_height: 40.0,
            confidence,
            is_sideways: false,
            other: None,
        }
    }

    fn confirm(mut words: Vec<ReadWord>, reader: &ScriptedReader, seconds: u64) -> Vec<ReadWord> {
        let image = Gray::new(2_000, 400, vec![255; 800_000]).unwrap();
        let budget = CpuBudget::for_seconds(seconds);
        confirm_numbers(&mut words, &image, reader, &budget).unwrap();
        words
    }

    #[test]
    fn numbers_are_sure_if_both_readers_agree_and_keep_both_readings_otherwise() {
        let words = vec![
            word("Sales", 100.0, 100.0, 96),
            word("$1,234", 400.0, 100.0, 41),
            word("(567)", 800.0, 100.0, 95),
            word("89", 1_000.0, 100.0, 95),
            // As sure as the first reader is.
            word("8.648", 1_200.0, 100.0, 70),
            word("0.125", 1_500.0, 100.0, 90),
            word("31,2022", 1_700.0, 100.0, 95),
        ];
        let reader = ScriptedReader::new(&["1,234", "56 1", "", "8.648", "0.125", "31,2022"]);
        let words = confirm(words, &reader, 10);
        let found: Vec<_> = words
            .iter()
            .map(|word| (word.confidence, word.other.as_deref()))
            .collect();
        let expected = [
            (96, None),
            (99, None),
            (79, Some("561")),
            (79, Some("")),
            (70, None),
            (90, None),
            (79, None),
        ];
        assert_eq!(found, expected);
        assert!(reader.readings.lock().unwrap().is_empty());
    }

    #[test]
    fn numbers_that_nobody_read_again_are_in_doubt() {
        let sideways = ReadWord {
            is_sideways: true,
            ..word("1,234", 100.0, 100.0, 96)
        };
        let wide = ReadWord {
            x1: 1_900.0,
            ..word("....12", 100.0, 200.0, 96)
        };
        for words in [vec![sideways], vec![wide]] {
            let words = confirm(words, &ScriptedReader::new(&[]), 10);
            assert_eq!((words[0].confidence, &words[0].other), (79, &None));
        }
        let words = confirm(
            vec![word("12", 100.0, 100.0, 96)],
            &ScriptedReader::new(&[]),
            0,
        );
        assert_eq!(words[0].confidence, 79, "no time is left");
    }

    #[test]
    fn a_line_ends_in_the_middle_of_the_gap_to_the_next_word() {
        let alone = ScriptedReader::new(&["12"]);
        confirm(vec![word("12", 100.0, 100.0, 96)], &alone, 10);
        let close = ScriptedReader::new(&["12"]);
        let words = vec![
            word("a", 70.0, 102.0, 96),
            word("12", 100.0, 100.0, 96),
            word("b", 150.0, 98.0, 96),
        ];
        confirm(words, &close, 10);
        // A line of 48 pixels shows 52 of the 40 pixels of the image: 16 more on each side, or 5.
        let [alone, close] = [alone, close].map(|reader| reader.widths.into_inner().unwrap());
        assert_eq!((alone, close), (vec![66], vec![46]));
    }
}

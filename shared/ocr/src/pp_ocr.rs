//! Runs a model for the recognition of lines, as PP-OCR makes them: an ONNX file whose metadata `character` lists its characters.
//!
//! The input is `[1, 3, 48, width]` with values from -1 (black) to 1; the output is `[1, steps, characters + 2]`: for each step
//! the probabilities of a blank, of the characters, and of a space. Equal characters in a row are one (CTC).

use std::sync::Arc;

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value};
use stemma_extract::ExtractError;

use crate::gray::Gray;
use crate::second_reader::LineReader;

const CHARACTERS: &str = "character";
// Shorter lines are filled up with gray, as those are on which these models are trained. They are trained with twice the width, which takes
// twice the time; with no filling they read `①` for `(1)`.
const MIN_WIDTH: usize = 160;
const CHANNELS: usize = 3;

pub(crate) struct PpOcr {
    model: Model,
    input: NodeId,
    output: NodeId,
    // The characters of the output, the blank first.
    characters: Vec<String>,
    threads: Arc<ThreadPool>,
}

impl PpOcr {
    pub(crate) fn load(bytes: Vec<u8>) -> Result<Self, ExtractError> {
        // Packed weights take more memory, and less time for each line.
        let model = ModelOptions::with_all_ops()
            .prepack_weights(true)
            .load(bytes)
            .map_err(|error| invalid(format!("it cannot be loaded: {error}")))?;
        let listed = model.metadata().get(CHARACTERS);
        let listed = listed.ok_or_else(|| invalid("its metadata list no characters"))?;
        let characters = listed.trim_end_matches(['\r', '\n']).split('\n');
        let characters = characters.map(|line| line.trim_end_matches('\r'));
        let all = std::iter::once("").chain(characters).chain([" "]);
        let characters = all.map(str::to_owned).collect();
        let (&[input], &[output]) = (model.input_ids(), model.output_ids()) else {
            return Err(invalid("it has more than one input or output"));
        };
        Ok(Self {
            input,
            output,
            characters,
            model,
            // One page is one task; more threads slow each other down.
            threads: Arc::new(ThreadPool::with_num_threads(1)),
        })
    }
}

impl LineReader for PpOcr {
    fn read(&self, line: &Gray) -> Result<String, ExtractError> {
        let width = line.width.max(MIN_WIDTH);
        let mut channel = Vec::with_capacity(line.height * width);
        for row in line.rows() {
            channel.extend(row.iter().map(|pixel| f32::from(*pixel) / 127.5 - 1.0));
            channel.resize(channel.len() + width - line.width, 0.0);
        }
        let shape = [1, CHANNELS, line.height, width];
        let input = Value::from_shape(shape, channel.repeat(CHANNELS))
            .map_err(|error| invalid(error.to_string()))?;
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&self.threads)));
        let inputs = vec![(self.input, input.into())];
        let [output] = self
            .model
            .run_n(inputs, [self.output], Some(options))
            .map_err(|error| invalid(format!("it does not run: {error}")))?;
        let ([_, _, classes], scores) = output
            .into_shape_vec::<f32, 3>()
            .map_err(|error| invalid(format!("its output is not lines: {error}")))?;
        if classes != self.characters.len() {
            let listed = self.characters.len();
            let message = format!("it has {classes} classes, but lists {listed} characters");
            return Err(invalid(message));
        }
        Ok(self.text(&scores))
    }
}

impl PpOcr {
    fn text(&self, scores: &[f32]) -> String {
        let mut last = 0;
        let mut text = String::new();
        for step in scores.chunks_exact(self.characters.len()) {
            let best = step
                .iter()
                .enumerate()
                .max_by(|left, right| left.1.total_cmp(right.1));
            let best = best.map_or(0, |(class, _)| class);
            if best != last {
                text.push_str(&self.characters[best]);
            }
            last = best;
        }
        text
    }
}

fn invalid(why: impl std::fmt::Display) -> ExtractError {
    ExtractError::new(
        "ocr.model_invalid",
        format!("the model of ocr.second_reader does not recognize lines: {why}"),
        "take a recognition model of PP-OCR in the ONNX format that lists its characters in its metadata",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // A line of white and black columns: `.` and `#` are 20 columns each.
    fn stripes(pattern: &str) -> Gray {
        let shades = pattern.bytes().map(|c| if c == b'#' { 0 } else { 255 });
        let row: Vec<u8> = shades.flat_map(|shade| [shade; 20]).collect();
        Gray::new(row.len(), 48, row.repeat(48)).unwrap()
    }

    fn code(model: &[u8]) -> &'static str {
        PpOcr::load(model.to_vec()).err().unwrap().code
    }

    #[test]
    fn equal_characters_in_a_row_are_one_unless_a_blank_is_between() {
        let reader = PpOcr::load(stemma_filings::line_model("1")).unwrap();
        for (pattern, expected) in [
            ("....", ""),
            (".#.", "1"),
            (".##.", "1"),
            ("#.#..#", "111"),
            // Wider than lines are filled up to.
            (".#.#.#.#.#.#.#.#.#.#.", "1111111111"),
        ] {
            assert_eq!(
                reader.read(&stripes(pattern)).unwrap(),
                expected,
                "{pattern}"
            );
        }
    }

    #[test]
    fn other_models_are_refused() {
        let model = stemma_filings::line_model("1");
        assert_eq!(code(b"no model"), "ocr.model_invalid");
        assert_eq!(code(&model[..model.len() / 2]), "ocr.model_invalid");
        let replaced = |from: &str, to: &str| {
            let mut model = model.clone();
            let at = model
                .windows(from.len())
                .position(|part| part == from.as_bytes());
            model[at.unwrap()..][..from.len()].copy_from_slice(to.as_bytes());
            model
        };
        assert_eq!(
            code(&replaced("character", "Character")),
            "ocr.model_invalid"
        );
        assert_eq!(
            code(&replaced("ReduceMean", "ReduceNone")),
            "ocr.model_invalid"
        );
        let reader = PpOcr::load(stemma_filings::line_model("1\n2")).unwrap();
        let refused = reader.read(&stripes(".#.")).unwrap_err();
        assert_eq!(refused.code, "ocr.model_invalid");
        assert!(refused.message.contains("lists 4"), "{}", refused.message);
    }
}

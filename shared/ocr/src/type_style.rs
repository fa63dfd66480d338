//! Which words are bold or italic, as headings are.
//!
//! Tesseract does not say. Strokes of bold words are thicker than those of most of the page. Strokes of italic words lean, so their columns of pixels are
//! full of ink or empty only when they are sheared upright.

use crate::gray::Gray;
use crate::hocr::ReadWord;
use crate::reading::median_of_characters;

// Of the usual thickness of strokes, in heights of lines. Of the words that are taken for bold, 964 of 965 are on copies of half A with 300 dpi
// and with 150 dpi and JPEG (B: 963 of 963), with blur 453 of 473 (B: 447 of 449). The others are found, but for pages that are mostly bold.
const BOLD: f32 = 1.3;
// How much clearer the columns of a word are when it is sheared. Of 28 italic words of half A all exceed it at 300 dpi, 25 at 150 dpi and JPEG,
// 24 with blur, and of 3,925 upright ones none, one, and six (B: 235 of 238, and none of 2,539).
const ITALIC: f32 = 1.1;
// The tangent of the angle by which italic letters lean: 11 degrees. Times has 15, Helvetica 12.
const SLANT: f32 = 0.2;
// Fewer letters, as those of a number, have too few upright strokes.
const FEWEST_LETTERS: usize = 3;
// Fewer strokes, as those of a dash, say nothing.
const FEWEST_STROKES: usize = 8;
// Of the pixels of a page. Dust has fewer, letters more.
const DARKEST: f32 = 0.005;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TypeStyle {
    pub(crate) bold: bool,
    pub(crate) italic: bool,
}

/// The style of each word.
pub(crate) fn type_styles(image: &Gray, words: &[ReadWord]) -> Vec<TypeStyle> {
    let shades = Shades::for_image(image);
    let inks: Vec<Option<Ink>> = words
        .iter()
        .map(|word| shades.ink_of(image, word))
        .collect();
    let stroke = |(ink, word): (&Option<Ink>, &ReadWord)| {
        Some(ink.as_ref()?.stroke_width()? / word.line_height)
    };
    let strokes: Vec<Option<f32>> = inks.iter().zip(words).map(stroke).collect();
    let measured = strokes.iter().zip(words);
    let measured = measured.filter_map(|(stroke, word)| Some(((*stroke)?, word)));
    let usual = median_of_characters(measured).unwrap_or(0.0);
    let bold: Vec<Option<bool>> = strokes
        .into_iter()
        .map(|stroke| stroke.map(|stroke| stroke >= BOLD * usual))
        .collect();
    let italic: Vec<Option<bool>> = inks
        .iter()
        .zip(words)
        .map(|(ink, word)| {
            let ink = ink.as_ref().filter(|_| {
                word.text.chars().filter(|c| c.is_alphabetic()).count() >= FEWEST_LETTERS
            })?;
            Some(ink.column_contrast(SLANT) > ITALIC * ink.column_contrast(0.0))
        })
        .collect();
    (0..words.len())
        .map(|at| TypeStyle {
            bold: like_neighbors(&bold, words, at),
            italic: like_neighbors(&italic, words, at),
        })
        .collect()
}

// One word that differs from both its neighbors was measured wrong, or was too short to be measured.
fn like_neighbors(measured: &[Option<bool>], words: &[ReadWord], at: usize) -> bool {
    let word = &words[at];
    let neighbor = |other: Option<usize>| {
        let other = other.filter(|other| *other < words.len())?;
        measured[other].filter(|_| word.is_on_line_of(&words[other]))
    };
    match (
        neighbor(at.checked_sub(1)),
        measured[at],
        neighbor(Some(at + 1)),
    ) {
        (Some(before), _, Some(after)) if before == after => before,
        (_, Some(own), _) => own,
        (before, None, after) => before.or(after).unwrap_or(false),
    }
}

struct Shades {
    ink: f32,
    paper: f32,
}

impl Shades {
    fn for_image(image: &Gray) -> Self {
        let dark = f32::from(image.quantile(DARKEST));
        let light = f32::from(image.quantile(1.0 - DARKEST));
        let paper = f32::from(image.quantile(0.5));
        let is_dark_page = light - paper > paper - dark;
        let ink = if is_dark_page { light } else { dark };
        Self { ink, paper }
    }

    // `None` for what is not a line across the image.
    fn ink_of(&self, image: &Gray, word: &ReadWord) -> Option<Ink> {
        if word.is_sideways || word.line_height < 1.0 || self.ink == self.paper {
            return None;
        }
        let columns = clamped(word.x0, word.x1, image.width);
        let rows = clamped(word.top, word.top + word.height, image.height);
        let rows = image.rows().take(rows.end).skip(rows.start).map(|row| {
            row[columns.clone()]
                .iter()
                .map(|pixel| {
                    ((self.paper - f32::from(*pixel)) / (self.paper - self.ink)).clamp(0.0, 1.0)
                })
                .collect()
        });
        Some(Ink {
            rows: rows.collect(),
            width: columns.len(),
        })
    }
}

fn clamped(from: f32, to: f32, end: usize) -> std::ops::Range<usize> {
    let to = (to.max(0.0) as usize).min(end);
    (from.max(0.0) as usize).min(to)..to
}

fn is_ink(shade: f32) -> bool {
    shade > 0.5
}

// The pixels of a word, from 0 for paper to 1 for ink.
struct Ink {
    rows: Vec<Vec<f32>>,
    width: usize,
}

impl Ink {
    // The median width of the strokes that the rows cross, in pixels. Gray edges count in part.
    fn stroke_width(&self) -> Option<f32> {
        let mut strokes = Vec::new();
        for row in &self.rows {
            let mut start = 0;
            for part in row.chunk_by(|left, right| is_ink(*left) == is_ink(*right)) {
                let end = start + part.len();
                if is_ink(part[0]) {
                    let edges = start.saturating_sub(1)..(end + 1).min(row.len());
                    strokes.push(row[edges].iter().sum::<f32>());
                }
                start = end;
            }
        }
        strokes.sort_by(f32::total_cmp);
        let middle = strokes.get(strokes.len() / 2);
        middle.copied().filter(|_| strokes.len() >= FEWEST_STROKES)
    }

    // How much the ink of neighboring columns differs, where each row is moved to the right by `slant` for each row above it.
    fn column_contrast(&self, slant: f32) -> f32 {
        let reach = (slant * self.rows.len() as f32) as usize + 2;
        let mut columns = vec![0.0; self.width + reach];
        for (y, row) in self.rows.iter().enumerate() {
            let shift = slant * y as f32;
            let offset = shift as usize;
            let right = shift.fract();
            for (x, ink) in row.iter().enumerate() {
                columns[x + offset] += ink * (1.0 - right);
                columns[x + offset + 1] += ink * right;
            }
        }
        let steps = columns.windows(2);
        steps.map(|pair| (pair[1] - pair[0]).powi(2)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Columns of ink, as strokes of letters, for each word.
    fn page(widths: &[usize]) -> (Gray, Vec<ReadWord>) {
        let is_ink = |x: usize, y: usize| {
            let width = widths.get(x / 100).copied().unwrap_or(0);
            (100..130).contains(&y) && x % 100 < 80 && x % 20 < width
        };
        let paper = Gray::new(1_000, 200, vec![220; 200_000]).unwrap();
        let image = paper.map(|x, y| if is_ink(x, y) { 30 } else { 220 });
        let word = |at: usize| ReadWord {
            text: "stem".into(),
            x0: at as f32 * 100.0,
            x1: at as f32 * 100.0 + 80.0,
            top: 100.0,
            height: 30.0,
            baseline: 130.0,
            line_height: 40.0,
            confidence: 95,
            is_sideways: false,
            other: None,
        };
        (image, (0..widths.len()).map(word).collect())
    }

    fn bold(widths: &[usize]) -> Vec<bool> {
        let (image, words) = page(widths);
        bold_of(&image, &words)
    }

    fn bold_of(image: &Gray, words: &[ReadWord]) -> Vec<bool> {
        let styles = type_styles(image, words).into_iter();
        styles.map(|style| style.bold).collect()
    }

    #[test]
    fn words_with_thick_strokes_are_bold() {
        assert_eq!(
            bold(&[4, 4, 6, 6, 4, 4, 4]),
            [4, 4, 6, 6, 4, 4, 4].map(|width| width > 4)
        );
        assert_eq!(bold(&[4, 5, 4, 4]), [false; 4], "print is uneven");
        assert_eq!(bold(&[6, 6, 6]), [false; 3], "nothing to compare with");
        assert!(bold(&[]).is_empty());
    }

    #[test]
    fn words_are_like_their_neighbors_where_they_cannot_be_measured() {
        assert_eq!(
            bold(&[4, 4, 4, 4, 6, 0, 6]),
            [4, 4, 4, 4, 6, 6, 6].map(|width| width > 4)
        );
        assert_eq!(bold(&[6, 0, 4, 4, 4]), [true, true, false, false, false]);
    }

    #[test]
    fn large_print_is_not_bold_by_its_size() {
        let (image, mut words) = page(&[4, 4, 4, 8, 8]);
        for word in &mut words[3..] {
            word.line_height = 80.0;
        }
        assert_eq!(bold_of(&image, &words), [false; 5]);
    }

    #[test]
    fn light_print_on_a_dark_page_is_measured_alike() {
        let (image, words) = page(&[4, 4, 4, 6, 6]);
        let rows: Vec<&[u8]> = image.rows().collect();
        let dark = image.map(|x, y| 255 - rows[y][x]);
        assert_eq!(bold_of(&dark, &words), [false, false, false, true, true]);
    }

    #[test]
    fn words_whose_strokes_lean_are_italic() {
        let (image, words) = page(&[4, 4, 4, 4]);
        let rows: Vec<&[u8]> = image.rows().collect();
        // From the third word on, each row is moved by a fifth of its height above the baseline.
        let leaning = image.map(|x, y| {
            let shift = 130_usize.saturating_sub(y) / 5;
            rows[y][if x < 200 { x } else { x.saturating_sub(shift) }]
        });
        let italic = type_styles(&leaning, &words).into_iter();
        let italic: Vec<bool> = italic.map(|style| style.italic).collect();
        assert_eq!(italic, [false, false, true, true]);
        let upright = type_styles(&image, &words);
        assert!(upright.iter().all(|style| !style.italic));
    }
}

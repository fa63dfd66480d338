//! How far the lines of a scan slope.
//!
//! Rows of a straight page are full of ink or empty. So the angle is right at which the ink of neighboring rows differs most
//! (projection profiles; Postl, 1986).

use crate::gray::Gray;

// Degrees. Sheets that slipped further in a feeder are rare, and at larger angles rows of tables look like lines.
const MAX_DEGREES: f32 = 6.0;
// Pixels of the image that is measured. A line of text is some ten pixels high.
const WIDTH: usize = 1_000;
// Differences in lightness from the mean of the page that count as ink: of print, and of anything that may be print.
const CLEAR: usize = 48;
const FAINT: usize = 16;
const MIDDLE: usize = 128;
// The best angle must beat straight lines clearly, because pictures and blank pages have none.
const MIN_GAIN: f64 = 1.05;
// Degrees. Less moves the end of a line by a fifth of its height.
const MIN_DEGREES: f32 = 0.1;
const FEWEST_POINTS: usize = 200;

/// The angle in degrees by which lines fall to the right; 0 if the page is straight or has no lines.
pub(crate) fn measure(image: &Gray) -> f32 {
    let small = image.shrunk(image.width.max(image.height).div_ceil(WIDTH));
    let points = ink(&small, CLEAR);
    if points.len() < FEWEST_POINTS {
        return 0.0;
    }
    let rows = small.width + small.height;
    let score = |degrees: f32| contrast(&points, degrees, small.width, rows);
    let coarse = coarse_best(score).0;
    let fine = best_of(score, coarse, 0.1, 5).0;
    let finest = best_of(score, fine, 0.02, 5).0;
    if finest.abs() < MIN_DEGREES || score(finest) < MIN_GAIN * score(0.0) {
        return 0.0;
    }
    finest
}

/// Whether lines seem to run down or up the image, not across: then its columns are full of ink or empty.
pub(crate) fn lines_run_down(image: &Gray) -> bool {
    let small = image.shrunk(image.width.max(image.height).div_ceil(WIDTH));
    let points = ink(&small, CLEAR);
    let turned: Vec<(f32, f32)> = points.iter().map(|(x, y)| (*y, *x)).collect();
    let rows = small.width + small.height;
    let across = coarse_best(|degrees| contrast(&points, degrees, small.width, rows));
    let down = coarse_best(|degrees| contrast(&turned, degrees, small.height, rows));
    down.1 > across.1
}

/// Whether nothing is printed on a page.
pub(crate) fn is_blank(image: &Gray) -> bool {
    let small = image.shrunk(image.width.max(image.height).div_ceil(WIDTH));
    ink(&small, FAINT).len() < FEWEST_POINTS / 10
}

/// Which pixels, row by row, are print.
pub(crate) fn ink_mask(image: &Gray) -> Vec<bool> {
    let is_ink = ink_test(image, CLEAR);
    let pixels = image.rows().flatten();
    pixels.map(|pixel| is_ink(*pixel)).collect()
}

fn ink(image: &Gray, contrast: usize) -> Vec<(f32, f32)> {
    let is_ink = &ink_test(image, contrast);
    let rows = image.rows().enumerate();
    let points = rows.flat_map(|(y, row)| {
        let pixels = row.iter().enumerate();
        pixels
            .filter(|(_, pixel)| is_ink(**pixel))
            .map(move |(x, _)| (x as f32, y as f32))
    });
    points.collect()
}

// Whether a pixel differs from the page: is dark, or light on a dark page.
fn ink_test(image: &Gray, contrast: usize) -> impl Fn(u8) -> bool {
    let sum: usize = image.rows().flatten().map(|one| usize::from(*one)).sum();
    let mean = sum / (image.width * image.height).max(1);
    let is_dark_page = mean < MIDDLE;
    move |pixel| {
        let pixel = usize::from(pixel);
        if is_dark_page {
            pixel > mean + contrast
        } else {
            pixel + contrast < mean
        }
    }
}

fn coarse_best(score: impl Fn(f32) -> f64) -> (f32, f64) {
    best_of(score, 0.0, 0.5, (MAX_DEGREES * 2.0) as i16)
}

// An angle and its score.
fn best_of(score: impl Fn(f32) -> f64, around: f32, step: f32, count: i16) -> (f32, f64) {
    let angles = (-count..=count).map(|at| around + f32::from(at) * step);
    let scored = angles.map(|angle| (angle, score(angle)));
    scored
        .max_by(|left, right| left.1.total_cmp(&right.1))
        .unwrap_or((around, 0.0))
}

fn contrast(points: &[(f32, f32)], degrees: f32, width: usize, rows: usize) -> f64 {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let mut profile = vec![0_i32; rows];
    for (x, y) in points {
        let row = y * cos - x * sin + width as f32 / 2.0;
        if let Some(count) = profile.get_mut(row.max(0.0) as usize) {
            *count += 1;
        }
    }
    let steps = profile.windows(2);
    steps.map(|pair| f64::from(pair[1] - pair[0]).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Black rules of uneven lengths on white, as lines of text look from afar.
    fn page(degrees: f32) -> Gray {
        let width = 800;
        let height = 1_000;
        let mut pixels = vec![255; width * height];
        for line in 0..30 {
            for y in 0..9 {
                let start = (100 + line * 30 + y) * width;
                let end = start + 500 + (line * 37) % 200;
                pixels[start + 80..end].fill(0);
            }
        }
        let straight = Gray::new(width, height, pixels).unwrap();
        straight.straightened(-degrees)
    }

    #[test]
    fn skew_is_measured_to_a_tenth_of_a_degree() {
        for degrees in [-4.2_f32, -0.7, 0.0, 0.3, 3.0] {
            let measured = measure(&page(degrees));
            assert!((measured - degrees).abs() < 0.1, "{degrees}: {measured}");
        }
    }

    #[test]
    fn blank_pages_have_no_skew() {
        let blank = Gray::new(600, 800, vec![250; 480_000]).unwrap();
        assert_eq!(measure(&blank), 0.0);
        assert!(is_blank(&blank));
        assert!(!is_blank(&page(0.0)));
    }

    #[test]
    fn faint_print_and_light_print_on_black_are_not_blank() {
        for (paper, print) in [(250, 220), (5, 240)] {
            let mut pixels = vec![paper; 480_000];
            pixels[120_000..120_400].fill(print);
            assert!(
                !is_blank(&Gray::new(600, 800, pixels).unwrap()),
                "{print} on {paper}"
            );
        }
    }
}

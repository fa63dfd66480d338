//! Speckles: points that dust, film and copying leave on a page.

use crate::gray::Gray;

// Difference in lightness between a speckle and the paper or ink around it.
const CONTRAST: u8 = 40;
// Speckles in a million pixels from which a page is filtered. Clean pages have up to 100 (150 dpi, JPEG), pages with speckles on
// a thousandth of their pixels 600, on a hundredth 5,500.
const MANY_PER_MILLION: usize = 300;

/// Whether an image has so many speckles that they are better removed.
pub(crate) fn are_many(image: &Gray) -> bool {
    let pixels = image.width * image.height;
    count(image) > pixels / 1_000_000 * MANY_PER_MILLION
}

/// The image without its speckles: each pixel becomes the middle one of the nine around it. Dots, commas and signs are larger than
/// what that takes away, but not by much, so clean pages should be left as they are.
pub(crate) fn removed(image: &Gray) -> Gray {
    let rows: Vec<&[u8]> = image.rows().collect();
    let near = |at: usize, length: usize| [at.saturating_sub(1), at, (at + 1).min(length - 1)];
    image.map(|x, y| {
        let mut around = [0; 9];
        let lines = near(y, image.height);
        let places = lines
            .into_iter()
            .flat_map(|y| near(x, image.width).map(|x| (x, y)));
        for (pixel, (x, y)) in around.iter_mut().zip(places) {
            *pixel = rows[y][x];
        }
        around.sort_unstable();
        around[4]
    })
}

// Points of up to three pixels in each direction that differ from all pixels around them.
fn count(image: &Gray) -> usize {
    let rows: Vec<&[u8]> = image.rows().collect();
    let windows = rows.windows(5);
    windows
        .map(|rows| {
            let columns = 2..image.width.saturating_sub(2);
            columns.filter(|x| is_speckle(rows, *x)).count()
        })
        .sum()
}

// Whether a pixel of the third of five rows is a speckle.
fn is_speckle(rows: &[&[u8]], x: usize) -> bool {
    let [first, second, middle, fourth, last] = rows else {
        return false;
    };
    let center = middle[x];
    // Most pixels are paper, as their neighbors are.
    if center.abs_diff(middle[x - 2]) <= CONTRAST {
        return false;
    }
    let sides = [second, middle, fourth].map(|row| [row[x - 2], row[x + 2]]);
    let ring = first[x - 2..=x + 2].iter().chain(&last[x - 2..=x + 2]);
    let ring = ring.chain(sides.iter().flatten());
    let (low, high) = ring.fold((u8::MAX, 0), |(low, high), pixel| {
        (low.min(*pixel), high.max(*pixel))
    });
    let differs = center.saturating_add(CONTRAST) < low || center > high.saturating_add(CONTRAST);
    high - low < CONTRAST && differs
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDE: usize = 1_000;

    // A page with squares of ink whose sides are as long.
    fn page(sides: &[usize], speckles: usize) -> Gray {
        let mut pixels = vec![230; SIDE * SIDE];
        for (at, side) in sides.iter().enumerate() {
            for y in 0..*side {
                let start = (100 + y) * SIDE + 100 + at * 20;
                pixels[start..start + side].fill(20);
            }
        }
        for speckle in 0..speckles {
            // Below, spread over the page, one or two pixels wide.
            let start = (300 + speckle % 60 * 10) * SIDE + 50 + speckle / 60 * 15;
            pixels[start..=start + speckle % 2].fill(90);
        }
        Gray::new(SIDE, SIDE, pixels).unwrap()
    }

    fn dark(image: &Gray) -> usize {
        image.rows().flatten().filter(|pixel| **pixel < 200).count()
    }

    #[test]
    fn speckles_are_removed_and_dots_stay() {
        // A point of 7-point type is 4 pixels wide at 300 dpi, a stroke of a minus sign 2.
        let dots = [2, 3, 4, 5];
        let speckled = page(&dots, 2_000);
        assert!(are_many(&speckled));
        let clean = removed(&speckled);
        assert_eq!(dark(&clean), dark(&removed(&page(&dots, 0))));
        for (at, side) in dots.iter().enumerate() {
            let middle = clean.rows().nth(100 + side / 2).unwrap()[100 + at * 20 + side / 2];
            assert_eq!(middle < 200, *side > 2, "a dot of {side} pixels");
        }
    }

    #[test]
    fn signs_of_two_pixels_keep_their_length() {
        let mut pixels = vec![230; SIDE * SIDE];
        for row in [100, 101] {
            pixels[row * SIDE + 100..row * SIDE + 120].fill(20);
        }
        let sign = removed(&Gray::new(SIDE, SIDE, pixels).unwrap());
        assert!(dark(&sign) >= 36, "{}", dark(&sign));
    }

    #[test]
    fn few_speckles_are_no_reason_to_filter() {
        assert!(!are_many(&page(&[1, 2, 3, 4], 150)));
    }
}

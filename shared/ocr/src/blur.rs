//! Blur: print without sharp edges, as of a camera or copier out of focus.

use crate::gray::Gray;

// Of the range from ink to paper. Less is not the edge of a letter.
const MIN_STEP: f32 = 0.125;
// Of that range. A fiftieth of the steps is higher than 0.44 on scans with 150 dpi and on skewed ones, and higher than 0.27 on
// blurred ones.
const STEEP: f32 = 0.35;
const FEWEST_STEEP: f32 = 0.02;
// Of the pixels one in so many is lighter, and one darker. A page with few words has not much more ink.
const OUTSIDE_RANGE: usize = 1_000;

/// Whether the edges of letters are blurred: hardly any pixel differs much from the one next to it.
pub(crate) fn is_blurred(image: &Gray) -> bool {
    let mut shades = [0; 256];
    let mut steps = [0; 256];
    for row in image.rows() {
        for pixel in row {
            shades[usize::from(*pixel)] += 1;
        }
        for pair in row.windows(2) {
            steps[usize::from(pair[0].abs_diff(pair[1]))] += 1;
        }
    }
    let range = range(&shades) as f32;
    let at_least = |share: f32| -> usize { steps[(range * share).ceil() as usize..].iter().sum() };
    let edges = at_least(MIN_STEP);
    range > 0.0 && (at_least(STEEP) as f32) < FEWEST_STEEP * edges as f32
}

fn range(shades: &[usize; 256]) -> usize {
    let outside = shades.iter().sum::<usize>() / OUTSIDE_RANGE;
    let darkest = first_inside(shades.iter(), outside);
    let lightest = 255 - first_inside(shades.iter().rev(), outside);
    lightest.saturating_sub(darkest)
}

fn first_inside<'s>(mut shades: impl Iterator<Item = &'s usize>, outside: usize) -> usize {
    let mut seen = 0;
    let found = shades.position(|count| {
        seen += count;
        seen > outside
    });
    found.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gray::Window;
    use crate::orientation::tests::page;

    // The mean of a pixel and its neighbors, often.
    fn blurred(image: &Gray, times: u32) -> Gray {
        (0..times).fold(image.clone(), |image, _| {
            let rows: Vec<&[u8]> = image.rows().collect();
            let near =
                |at: usize, length: usize| [at.saturating_sub(1), at, at, (at + 1).min(length - 1)];
            image.map(|x, y| {
                let lines = near(y, rows.len()).into_iter();
                let sum: u32 = lines
                    .flat_map(|y| near(x, rows[y].len()).map(|x| u32::from(rows[y][x])))
                    .sum();
                u8::try_from(sum / 16).unwrap()
            })
        })
    }

    #[test]
    fn print_without_sharp_edges_is_blurred() {
        let sharp = page(2);
        assert!(!is_blurred(&sharp));
        assert!(is_blurred(&blurred(&sharp, 5)));
    }

    #[test]
    fn coarse_and_skewed_print_is_not_blurred() {
        let page = page(2);
        assert!(!is_blurred(&page.straightened(2.0)));
        let whole = Window {
            x0: 0.0,
            x1: (page.width / 2) as f32,
            y0: 0.0,
            y1: (page.height / 2) as f32,
        };
        let coarse = page.shrunk(2).scaled(whole, page.height).unwrap();
        assert!(!is_blurred(&coarse));
    }

    #[test]
    fn blank_pages_are_not_blurred() {
        let blank = Gray::new(100, 100, vec![250; 10_000]).unwrap();
        assert!(!is_blurred(&blank));
    }
}

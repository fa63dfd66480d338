//! How a page lies, seen from its image before it is read.
//!
//! More letters rise above the small ones (`b`, `d`, `h`, capitals) than fall below them (`g`, `p`, `y`). So a page on which more
//! parts of lines fall than rise may be upside down (Bloomberg, Kopec and Dasari, "Measuring document image skew and
//! orientation", 1995). Not all scripts are like that, so this is a suspicion, which reading a few lines confirms.

use std::ops::Range;

use stemma_document::Turn;

use crate::gray::Gray;
use crate::{rows, skew};

// Pixels of the page for one of the image that is looked at: of 300 dpi 150, where small letters of five points are five high.
const SHRINK: usize = 2;
// Of that image: 0.8 inches. Lines of neighboring columns are seldom at the same height, so a part of a line is looked at alone.
const PART_WIDTH: usize = 120;
// From 4 to 29 points, with what rises and falls. Less are rules, more are pictures.
const PART_HEIGHT: Range<usize> = 8..60;
// Ink in the fullest row of a part. Letters fill a third; specks have less, rules more.
const FULLEST_ROW: Range<usize> = PART_WIDTH / 10..PART_WIDTH * 4 / 5;
const MIN_BODY: usize = 4;
// Of the height of small letters. Ascenders and descenders reach beyond by half of it, round letters and blur by a tenth.
const REACH: f32 = 0.3;
// Share of the height of a page: some five lines.
const SAMPLE_HEIGHT: f32 = 0.08;

/// How the page of an image was probably turned; `None` if it seems to be upright, or nothing is seen.
pub(crate) fn suspected_turn(image: &Gray) -> Option<Turn> {
    let small = image.shrunk(SHRINK);
    if skew::lines_run_down(&small) {
        let parts = line_parts(&small.turned(Turn::Quarter.inverse()));
        return Some(if is_upside_down(&parts) {
            Turn::ThreeQuarters
        } else {
            Turn::Quarter
        });
    }
    is_upside_down(&line_parts(&small)).then_some(Turn::Half)
}

/// The rows of an upright image that have the most text.
pub(crate) fn sample(upright: &Gray) -> Option<Gray> {
    let parts = line_parts(&upright.shrunk(SHRINK));
    let height = (upright.height as f32 * SAMPLE_HEIGHT) as usize / SHRINK;
    let tops = parts.iter().map(|part| part.top);
    let top = tops.max_by_key(|top| {
        parts
            .iter()
            .filter(|part| *top <= part.top && part.bottom <= top + height)
            .count()
    })?;
    // Not on the edges of the letters.
    let margin = PART_HEIGHT.start / 2;
    let rows = top.saturating_sub(margin) * SHRINK..(top + height + margin) * SHRINK;
    upright.rows_between(rows)
}

// What is side by side on a line, between blank rows.
struct LinePart {
    top: usize,
    bottom: usize,
    // Columns of pixels with letters that rise above the small ones, or fall below them.
    rising: usize,
    falling: usize,
}

fn is_upside_down(parts: &[LinePart]) -> bool {
    let rise = parts.iter().filter(|part| part.rising > part.falling);
    let fall = parts.iter().filter(|part| part.falling > part.rising);
    fall.count() > rise.count()
}

fn line_parts(image: &Gray) -> Vec<LinePart> {
    let angle = skew::measure(image);
    if angle != 0.0 {
        return line_parts_of_straight(&image.straightened(angle));
    }
    line_parts_of_straight(image)
}

fn line_parts_of_straight(image: &Gray) -> Vec<LinePart> {
    let ink = skew::ink_mask(image);
    let ink: Vec<&[bool]> = ink.chunks_exact(image.width).collect();
    let lefts = (0..image.width / PART_WIDTH).map(|strip| strip * PART_WIDTH);
    let mut parts = Vec::new();
    for left in lefts {
        let columns = left..left + PART_WIDTH;
        let profile: Vec<usize> = ink
            .iter()
            .map(|row| row[columns.clone()].iter().filter(|ink| **ink).count())
            .collect();
        let found =
            rows::runs(&profile, 0).filter_map(|rows| line_part(&ink, &profile, &columns, rows));
        parts.extend(found);
    }
    parts
}

fn line_part(
    ink: &[&[bool]],
    profile: &[usize],
    columns: &Range<usize>,
    rows: Range<usize>,
) -> Option<LinePart> {
    let fullest = *profile[rows.clone()].iter().max()?;
    if !PART_HEIGHT.contains(&rows.len()) || !FULLEST_ROW.contains(&fullest) {
        return None;
    }
    // The small letters, which have most of the ink.
    let is_full = |row: &usize| profile[*row] * 2 >= fullest;
    let body = rows.clone().find(is_full)?..rows.clone().rfind(is_full)? + 1;
    if body.len() < MIN_BODY {
        return None;
    }
    let reach = (body.len() as f32 * REACH).ceil() as usize;
    let middle = (body.start + body.end) / 2;
    let above = rows.start..(body.start + 1).saturating_sub(reach);
    let below = body.end + reach - 1..rows.end;
    let has_ink = |column: usize, rows: Range<usize>| rows.into_iter().any(|row| ink[row][column]);
    // Accents and commas do not reach the other half of the letters.
    let rises =
        |column: &usize| has_ink(*column, above.clone()) && has_ink(*column, middle..body.end);
    let falls =
        |column: &usize| has_ink(*column, below.clone()) && has_ink(*column, body.start..middle);
    Some(LinePart {
        top: rows.start,
        bottom: rows.end,
        rising: columns.clone().filter(rises).count(),
        falling: columns.clone().filter(falls).count(),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use stemma_document::PageNo;
    use stemma_extract::{ImageColor, ImageRequest, ImageScale, Limits, PageRegion};
    use stemma_filings::{FilingKind, Spec, generate};

    use super::*;

    /// A page of a filing, at 300 dpi.
    pub(crate) fn page(page: u32) -> Gray {
        let filing = generate(&Spec {
            pages: 4,
            ..Spec::new(FilingKind::TenQ, 7)
        });
        let request = ImageRequest {
            page: PageNo::new(page).unwrap(),
            scale: ImageScale::Dpi(300),
            region: PageRegion::WHOLE,
            color: ImageColor::Gray,
        };
        let drawn = stemma_render::draw(&filing.pdf, None, &Limits::default(), &request).unwrap();
        crate::to_gray(drawn).unwrap()
    }

    #[test]
    fn turned_pages_are_suspected_and_upright_ones_are_not() {
        for number in 2..=4 {
            let upright = page(number);
            for turn in [Turn::None, Turn::Quarter, Turn::Half, Turn::ThreeQuarters] {
                for skew in [0.0, 2.0] {
                    let turned = upright.straightened(skew).turned(turn);
                    let expected = (turn != Turn::None).then_some(turn);
                    let suspected = suspected_turn(&turned);
                    assert_eq!(suspected, expected, "page {number}, skew {skew}");
                }
            }
        }
    }

    #[test]
    fn pages_without_letters_are_not_suspected() {
        let mut pixels = vec![255; 1_000_000];
        pixels[400_000..500_000].fill(0);
        let bar = Gray::new(1_000, 1_000, pixels).unwrap();
        assert_eq!(suspected_turn(&bar), None);
        assert_eq!(sample(&bar), None);
    }

    #[test]
    fn sample_is_where_the_text_is() {
        let page = page(2);
        let sample = sample(&page).unwrap();
        assert_eq!(sample.width, page.width);
        assert!(sample.height < page.height / 8, "{}", sample.height);
        assert!(line_parts(&sample.shrunk(SHRINK)).len() > 10);
    }
}

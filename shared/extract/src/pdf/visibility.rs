//! Tells which glyphs of a page the eye does not see, from what is painted below and above them.
//!
//! Text is hidden only if that is sure: a color, a shape or a blend that is not known leaves it visible.

use std::collections::HashSet;

use stemma_document::HiddenReason;

use super::canvas::{Appearance, Area, Canvas, MAX_AREAS, TextMode};
use super::color::Rgb;
use super::glyph::Glyph;
use super::page_box::PageBox;

// A smaller share of a glyph cannot be read, and a smaller share of what is below it does not set it off.
const NOTICEABLE: f32 = 0.15;
// In points. Smaller text cannot be read, and areas as thin neither show nor hide text alone.
const MIN_SIZE: f32 = 2_f32;
// Of a page as small as its text.
const USUAL_PAGE: f32 = 600_f32;
// Raised marks are larger than this part of the text that they belong to.
const MARK: f32 = 3_f32;
// Comparisons of glyphs with areas and with other glyphs, per page. After them all text is visible.
const MAX_STEPS: usize = 20_000_000;
// Different colors of areas. More of them are not told apart.
const MAX_GROUNDS: usize = 256;
const COLUMNS: usize = 32;
const ROWS: usize = 128;
// In points: the steps in which repeated text may be shifted.
const SHIFT: f32 = 2_f32;

/// Sets why glyphs are hidden, and whether they may be the text of a picture that covers them or lies below. Returns
/// whether any is.
pub(super) fn judge(glyphs: &mut [Glyph], canvas: &Canvas) -> bool {
    let mut judge = Judge::new(canvas, readable_size(glyphs, canvas));
    let mut any_hidden = false;
    let mut same_colored = Vec::new();
    let mut index = 0;
    for alike in glyphs.chunk_by_mut(|one, next| one.appearance == next.appearance) {
        let first = alike.first().map(|glyph| glyph.appearance as usize);
        let Some(look) = first.and_then(|first| canvas.appearances.get(first)) else {
            continue;
        };
        let surely_seen = judge.region_of_sight(look);
        let mut before = (None, false);
        for glyph in alike {
            let body = body(glyph, look);
            if surely_seen.contains(body) && glyph.size >= judge.readable_size {
                before = (None, false);
            } else {
                judge.see(glyph, body, look);
                if glyph.text == ' ' && glyph.hidden.is_none() {
                    // It goes with the text before it.
                    (glyph.hidden, glyph.invisible) = before;
                } else if glyph.hidden == Some(HiddenReason::SameColor) {
                    same_colored.push(index);
                }
                before = (glyph.hidden, glyph.invisible);
                any_hidden |= glyph.hidden.is_some();
            }
            index += 1;
        }
    }
    if any_hidden {
        judge.show_on_glyphs(glyphs, &same_colored);
        show_whole_words(glyphs);
    }
    any_hidden
}

// A word that is partly seen is read whole: a part of a number is another number.
fn show_whole_words(glyphs: &mut [Glyph]) {
    let words = glyphs.chunk_by_mut(|one, next| {
        one.text != ' '
            && next.text != ' '
            && one.appearance == next.appearance
            && one.is_followed_by(next)
    });
    for word in words {
        if word.iter().any(|glyph| glyph.hidden.is_none()) {
            for glyph in word {
                glyph.hidden = None;
                glyph.invisible = false;
            }
        }
    }
}

struct Judge<'c> {
    canvas: &'c Canvas,
    // The colors of areas that may hold text; `None` if they are too many.
    grounds: Option<Vec<Rgb>>,
    covers: CoverGrid,
    readable_size: f32,
    steps: usize,
}

impl<'c> Judge<'c> {
    fn new(canvas: &'c Canvas, readable_size: f32) -> Self {
        let mut grounds = vec![Rgb::WHITE];
        let colors = canvas.areas.iter().filter(|area| is_ground(area));
        for color in colors.filter_map(|area| area.color) {
            if grounds.len() <= MAX_GROUNDS && !grounds.contains(&color) {
                grounds.push(color);
            }
        }
        Self {
            canvas,
            grounds: Some(grounds).filter(|grounds| grounds.len() <= MAX_GROUNDS),
            covers: CoverGrid::new(canvas),
            readable_size,
            steps: MAX_STEPS,
        }
    }

    // Where text of this look and of readable size is seen, whatever is around it. Nearly all text is there.
    fn region_of_sight(&self, look: &Appearance) -> PageBox {
        let is_plain = look.hidden.is_none() && look.mode == TextMode::Painted;
        match is_plain && !self.may_have_ground(look) && self.covers.is_empty() {
            true => look.clip.intersection(self.canvas.page),
            false => PageBox::EMPTY,
        }
    }

    fn may_have_ground(&self, look: &Appearance) -> bool {
        look.color.is_some_and(|color| {
            let grounds = self.grounds.as_ref();
            grounds.is_none_or(|grounds| grounds.iter().any(|one| one.is_near(color)))
        })
    }

    fn see(&mut self, glyph: &mut Glyph, body: PageBox, look: &Appearance) {
        if glyph.text == ' ' {
            // A blank shows nothing, but it parts words.
            let is_off = !is_noticeable(body, self.canvas.page);
            glyph.hidden = is_off.then_some(HiddenReason::OffPage);
            return;
        }
        let is_unpainted =
            look.hidden == Some(HiddenReason::Transparent) || look.mode == TextMode::Invisible;
        if is_unpainted && self.is_drawn(body, glyph.size) {
            return;
        }
        // The boxes of text that was recognized may be of any size.
        let is_tiny =
            look.has_size && look.mode == TextMode::Painted && glyph.size < self.readable_size;
        let size = is_tiny.then_some(HiddenReason::Tiny);
        glyph.hidden = look.hidden.or(size).or_else(|| self.clipping(body, look));
        if glyph.hidden.is_some() {
            return;
        }
        match look.mode {
            TextMode::Clips(clip) => {
                let is_seen = self.canvas.is_painted_through(clip);
                glyph.hidden = (!is_seen).then_some(HiddenReason::Unpainted);
            }
            TextMode::Invisible => {
                glyph.hidden = Some(HiddenReason::Unpainted);
                glyph.invisible = self.is_on_picture(body);
            }
            TextMode::Painted => {
                if let Some(cover) = self.find_cover(body, look.areas_before) {
                    glyph.hidden = Some(HiddenReason::Covered);
                    glyph.invisible = cover.is_picture;
                } else if self.is_in_color_of_ground(body, look) {
                    glyph.hidden = Some(HiddenReason::SameColor);
                }
            }
        }
    }

    fn clipping(&self, body: PageBox, look: &Appearance) -> Option<HiddenReason> {
        let page = self.canvas.page;
        let window = look.clip.intersection(page);
        if window.contains(body) {
            return None;
        }
        if !is_noticeable(body, page) {
            return Some(HiddenReason::OffPage);
        }
        (!is_noticeable(body, window)).then_some(HiddenReason::Clipped)
    }

    // Some programs draw a letter, and put invisible text over it.
    fn is_drawn(&mut self, body: PageBox, size: f32) -> bool {
        let around = body.grown(size / 2_f32);
        let is_drawn = self.canvas.areas.iter().any(|area| {
            area.is_picture && around.contains(area.bounds) && is_noticeable(body, area.bounds)
        });
        self.spend(self.canvas.areas.len()) && is_drawn
    }

    fn is_on_picture(&mut self, body: PageBox) -> bool {
        let mut pictures = self.canvas.areas.iter().filter(|area| area.is_picture);
        let mut steps = 0;
        let found = pictures.any(|area| {
            steps += 1;
            is_noticeable(body, area.bounds)
        });
        found || !self.spend(steps)
    }

    fn find_cover(&mut self, body: PageBox, areas_before: usize) -> Option<&'c Area> {
        if self.covers.last_at(body.center()) <= areas_before {
            return None;
        }
        let later = self.canvas.areas.get(areas_before..)?;
        let place = later.iter().rev().position(|area| {
            area.is_solid && area.bounds.thickness() >= MIN_SIZE && area.bounds.contains(body)
        });
        let has_time = self.spend(place.unwrap_or(later.len()));
        later.iter().rev().nth(place.filter(|_| has_time)?)
    }

    fn is_in_color_of_ground(&mut self, body: PageBox, look: &Appearance) -> bool {
        let Some(color) = look.color else {
            return false;
        };
        if look.areas_before >= MAX_AREAS || !self.may_have_ground(look) {
            return false;
        }
        let below = self.canvas.areas.get(..look.areas_before);
        let mut contrast = f32::default();
        for (step, area) in below.unwrap_or_default().iter().rev().enumerate() {
            if area.bounds.intersection(body).is_empty() {
                continue;
            }
            if !area.color.is_some_and(|below| below.is_near(color)) {
                contrast += body.share_in(area.bounds);
                if contrast > NOTICEABLE {
                    return false;
                }
            } else if area.is_solid && area.bounds.contains(body) {
                return self.spend(step);
            }
        }
        self.spend(look.areas_before) && color.is_near(Rgb::WHITE)
    }

    // A glyph of another color below is a ground, such as a disk around a number.
    fn show_on_glyphs(&mut self, glyphs: &mut [Glyph], same_colored: &[usize]) {
        for index in same_colored {
            let Some((earlier, [glyph, ..])) = glyphs.split_at_mut_checked(*index) else {
                continue;
            };
            let appearances = &self.canvas.appearances;
            let Some(look) = appearances.get(glyph.appearance as usize) else {
                continue;
            };
            let own = body(glyph, look);
            let is_on_other = earlier.iter().any(|other| {
                let below = appearances.get(other.appearance as usize);
                other.hidden.is_none()
                    && other.text != ' '
                    && below.is_some_and(|below| {
                        !(below.color.zip(look.color)).is_some_and(|(one, two)| one.is_near(two))
                            && is_noticeable(own, body(other, below))
                    })
            });
            if is_on_other || !self.spend(earlier.len()) {
                glyph.hidden = None;
            }
        }
    }

    // Whether there is time for so many comparisons.
    fn spend(&mut self, steps: usize) -> bool {
        let is_in_time = self.steps >= steps;
        self.steps = self.steps.saturating_sub(steps);
        is_in_time
    }
}

// Smaller text than this cannot be read. In a page that is scaled down marks are smaller than on others.
fn readable_size(glyphs: &[Glyph], canvas: &Canvas) -> f32 {
    let side = canvas.page.thickness();
    let least = MIN_SIZE.min(MIN_SIZE * side / USUAL_PAGE);
    let letters = || glyphs.iter().filter(|glyph| glyph.text != ' ');
    if letters().all(|glyph| glyph.size >= least) {
        return least;
    }
    let mut sizes: Vec<f32> = letters()
        .map(|glyph| glyph.size)
        .filter(|size| *size >= least)
        .collect();
    let middle = sizes.len() / 2;
    sizes.sort_by(f32::total_cmp);
    sizes
        .get(middle)
        .map_or(least, |usual| least.min(usual / MARK))
}

fn is_noticeable(body: PageBox, within: PageBox) -> bool {
    body.share_in(within) > NOTICEABLE
}

fn is_ground(area: &Area) -> bool {
    area.is_solid && area.bounds.thickness() >= MIN_SIZE
}

// The box of a glyph from its baseline to the height of capitals.
fn body(glyph: &Glyph, look: &Appearance) -> PageBox {
    // Marks without an advance are drawn over the letter before them.
    let length = glyph.advance.max(glyph.size * NOTICEABLE);
    let (x, y) = look.frame.along;
    let end = (glyph.x + x * length, glyph.y + y * length);
    let [low, high] = look.frame.edges;
    PageBox {
        x0: glyph.x.min(end.0) + low.0.min(high.0),
        y0: glyph.y.min(end.1) + low.1.min(high.1),
        x1: glyph.x.max(end.0) + low.0.max(high.0),
        y1: glyph.y.max(end.1) + low.1.max(high.1),
    }
}

// For each cell of the page the number of areas painted up to the last one there that may cover text.
struct CoverGrid {
    page: PageBox,
    cells: Vec<usize>,
}

impl CoverGrid {
    fn new(canvas: &Canvas) -> Self {
        let page = canvas.page;
        let first = canvas.appearances.first();
        let first = first.map_or(usize::MAX, |look| look.areas_before);
        let mut grid = Self {
            page,
            cells: Vec::new(),
        };
        let areas = canvas.areas.iter().enumerate().skip(first);
        for (index, area) in areas.filter(|(_, area)| is_ground(area)) {
            grid.cells.resize(COLUMNS * ROWS, 0);
            let (left, top) = grid.cell((area.bounds.x0, area.bounds.y0));
            let (right, bottom) = grid.cell((area.bounds.x1, area.bounds.y1));
            for row in top..=bottom {
                let cells = row * COLUMNS + left..=row * COLUMNS + right;
                grid.cells
                    .get_mut(cells)
                    .unwrap_or_default()
                    .fill(index + 1);
            }
        }
        grid
    }

    fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    fn cell(&self, (x, y): (f32, f32)) -> (usize, usize) {
        let place = |at: f32, from: f32, to: f32, count: usize| {
            // `as` saturates, and maps what is not a number to 0.
            (((at - from) / (to - from) * count as f32) as usize).min(count - 1)
        };
        let page = self.page;
        let column = place(x, page.x0, page.x1, COLUMNS);
        (column, place(y, page.y0, page.y1, ROWS))
    }

    fn last_at(&self, point: (f32, f32)) -> usize {
        let (column, row) = self.cell(point);
        let last = self.cells.get(row * COLUMNS + column);
        last.copied().unwrap_or(0)
    }
}

/// Whether a hidden glyph repeats a visible one at its place, as outlines and shadows do.
pub(super) struct Repeats {
    visible: HashSet<(char, i32, i32)>,
}

impl Repeats {
    pub(super) fn new(glyphs: &[Glyph]) -> Self {
        let visible = glyphs.iter().filter(|glyph| glyph.hidden.is_none());
        Self {
            visible: visible.map(place_of).collect(),
        }
    }

    pub(super) fn contains(&self, glyph: &Glyph) -> bool {
        let (text, x, y) = place_of(glyph);
        (-1..=1).any(|by_x| {
            (-1..=1).any(|by_y| {
                let place = (text, x.saturating_add(by_x), y.saturating_add(by_y));
                self.visible.contains(&place)
            })
        })
    }
}

fn place_of(glyph: &Glyph) -> (char, i32, i32) {
    let step = |at: f32| (at / SHIFT).round() as i32;
    (glyph.text, step(glyph.x), step(glyph.y))
}

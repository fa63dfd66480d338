//! The path that a content stream builds before it paints it or clips with it.

use super::page_box::PageBox;

// Later points only widen the box of their subpath.
const MAX_POINTS: usize = 20_000;
// In points: corners of a rectangle may be rounded.
const CORNER_SLACK: f32 = 0.1;
// Rectangles of one path are compared with each other up to this number.
const MAX_COMPARED: usize = 16;

pub(super) type Point = (f32, f32);

/// Subpaths in points of the displayed page.
#[derive(Default)]
pub(super) struct Path {
    points: Vec<Point>,
    subpaths: Vec<Subpath>,
}

struct Subpath {
    first: usize,
    bounds: PageBox,
    // Of straight lines that are all known.
    is_straight: bool,
    is_closed: bool,
}

/// The area of one subpath.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    pub(super) bounds: PageBox,
    /// Whether it surely fills its bounds.
    pub(super) is_full: bool,
    /// Whether it is drawn, neither a rectangle nor a straight line along an axis.
    pub(super) is_drawing: bool,
}

impl Path {
    pub(super) fn clear(&mut self) {
        self.points.clear();
        self.subpaths.clear();
    }

    pub(super) fn move_to(&mut self, point: Point) {
        self.subpaths.push(Subpath {
            first: self.points.len(),
            bounds: PageBox::EMPTY,
            is_straight: true,
            is_closed: false,
        });
        self.line_to(point);
    }

    pub(super) fn line_to(&mut self, point: Point) {
        let Some(subpath) = self.subpaths.last_mut() else {
            // A path begins with its first point, even if the operator before it is lost.
            return self.move_to(point);
        };
        subpath.bounds.add(point);
        if self.points.len() < MAX_POINTS {
            self.points.push(point);
        } else {
            subpath.is_straight = false;
        }
    }

    /// Adds a curve by its control points, which enclose it.
    pub(super) fn curve_to(&mut self, points: &[Point]) {
        points.iter().for_each(|point| self.line_to(*point));
        if let Some(subpath) = self.subpaths.last_mut() {
            subpath.is_straight = false;
        }
    }

    pub(super) fn close(&mut self) {
        if let Some(subpath) = self.subpaths.last_mut() {
            subpath.is_closed = true;
        }
    }

    /// Adds a closed subpath.
    pub(super) fn add_polygon<const CORNERS: usize>(&mut self, corners: [Point; CORNERS]) {
        for (at, corner) in corners.into_iter().enumerate() {
            match at {
                0 => self.move_to(corner),
                _ => self.line_to(corner),
            }
        }
        self.close();
    }

    pub(super) fn bounds(&self) -> PageBox {
        self.subpaths
            .iter()
            .fold(PageBox::EMPTY, |all, subpath| all.union(subpath.bounds))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.subpaths.is_empty()
    }

    /// Whether it is one rectangle along the axes.
    pub(super) fn is_rectangle(&self) -> bool {
        self.subpaths.len() == 1 && self.fills().all(|shape| shape.is_full)
    }

    /// The areas that filling it paints.
    pub(super) fn fills(&self) -> impl Iterator<Item = Shape> {
        // Rectangles in one another may be holes.
        let may_overlap = self.subpaths.len() > MAX_COMPARED
            || (self.subpaths.iter().enumerate()).any(|(at, one)| {
                let others = self.subpaths.get(..at).unwrap_or_default();
                others
                    .iter()
                    .any(|other| !one.bounds.intersection(other.bounds).is_empty())
            });
        (0..self.subpaths.len()).filter_map(move |at| {
            let bounds = self.subpaths.get(at)?.bounds;
            let is_drawing = !is_rectangle(self.points_of(at)?, bounds);
            Some(Shape {
                bounds,
                is_full: !is_drawing && !may_overlap,
                is_drawing,
            })
        })
    }

    /// The areas that stroking it with a pen of `width` paints.
    pub(super) fn strokes(&self, width: f32) -> impl Iterator<Item = Shape> {
        let radius = width / 2_f32;
        (0..self.subpaths.len()).flat_map(move |at| {
            let straight = self.points_of(at).unwrap_or_default();
            let subpath = self.subpaths.get(at);
            let closing = subpath
                .filter(|subpath| subpath.is_closed)
                .and_then(|_| Some([*straight.last()?, *straight.first()?]));
            let curved = subpath.filter(|subpath| !subpath.is_straight);
            straight
                .array_windows()
                .copied()
                .chain(closing)
                .map(move |line| line_shape(line, radius))
                .chain(curved.map(move |curved| Shape {
                    bounds: curved.bounds.grown(radius),
                    is_full: false,
                    is_drawing: true,
                }))
        })
    }

    // `None` of a subpath with curves.
    fn points_of(&self, at: usize) -> Option<&[Point]> {
        let subpath = self.subpaths.get(at)?;
        let next = self.subpaths.get(at + 1);
        let end = next.map_or(self.points.len(), |next| next.first);
        match subpath.is_straight {
            true => self.points.get(subpath.first..end),
            false => Some(&[]),
        }
    }
}

// A line along an axis is a bar. How its ends look is not known.
fn line_shape([from, to]: [Point; 2], radius: f32) -> Shape {
    let line = PageBox::around([from, to]);
    let is_upright = line.x1 - line.x0 <= CORNER_SLACK;
    let is_level = line.y1 - line.y0 <= CORNER_SLACK;
    let grown = line.grown(radius);
    let bounds = match (is_upright, is_level) {
        (false, true) => PageBox {
            x0: line.x0,
            x1: line.x1,
            ..grown
        },
        (true, false) => PageBox {
            y0: line.y0,
            y1: line.y1,
            ..grown
        },
        _ => grown,
    };
    Shape {
        bounds,
        is_full: is_upright != is_level,
        is_drawing: !is_upright && !is_level,
    }
}

// Four corners in turn; the first may be repeated.
fn is_rectangle(points: &[Point], bounds: PageBox) -> bool {
    let near = |one: f32, other: f32| (one - other).abs() <= CORNER_SLACK;
    let corners = match points {
        [first, .., last]
            if points.len() == 5 && near(first.0, last.0) && near(first.1, last.1) =>
        {
            points.get(..4).unwrap_or_default()
        }
        points => points,
    };
    corners.len() == 4
        && corners.iter().all(|(x, y)| {
            (near(*x, bounds.x0) || near(*x, bounds.x1))
                && (near(*y, bounds.y0) || near(*y, bounds.y1))
        })
        && corners
            .array_windows()
            .all(|[one, next]| near(one.0, next.0) != near(one.1, next.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rectangle(path: &mut Path, x: f32, y: f32, width: f32, height: f32) {
        path.add_polygon([
            (x, y),
            (x + width, y),
            (x + width, y + height),
            (x, y + height),
        ]);
    }

    fn full(path: &Path) -> Vec<bool> {
        path.fills().map(|shape| shape.is_full).collect()
    }

    #[test]
    fn rectangles_fill_their_bounds_unless_one_may_be_a_hole() {
        let mut path = Path::default();
        rectangle(&mut path, 0.0, 0.0, 10.0, 5.0);
        assert!(path.is_rectangle());
        rectangle(&mut path, 20.0, 0.0, 10.0, 5.0);
        assert_eq!(full(&path), [true, true]);
        rectangle(&mut path, 21.0, 1.0, 2.0, 2.0);
        assert_eq!(full(&path), [false, false, false]);
    }

    #[test]
    fn other_shapes_do_not_fill_their_bounds() {
        let mut path = Path::default();
        path.move_to((0.0, 0.0));
        path.line_to((10.0, 0.0));
        path.line_to((5.0, 10.0));
        assert_eq!(full(&path), [false]);
        path.clear();
        path.move_to((0.0, 0.0));
        path.curve_to(&[(0.0, 5.0), (5.0, 10.0), (10.0, 10.0)]);
        assert_eq!(full(&path), [false]);
        assert_eq!(path.bounds().y1, 10.0);
    }

    #[test]
    fn strokes_along_an_axis_are_bars() {
        let mut path = Path::default();
        path.move_to((0.0, 10.0));
        path.line_to((50.0, 10.0));
        path.line_to((60.0, 30.0));
        let strokes: Vec<Shape> = path.strokes(4.0).collect();
        assert_eq!((strokes[0].is_full, strokes[1].is_full), (true, false));
        let PageBox { x0, y0, x1, y1 } = strokes[0].bounds;
        assert_eq!([x0, y0, x1, y1], [0.0, 8.0, 50.0, 12.0]);
    }

    #[test]
    fn points_beyond_the_limit_only_widen_the_bounds() {
        let mut path = Path::default();
        (0..MAX_POINTS + 10).for_each(|at| path.line_to((at as f32, 0.0)));
        assert_eq!(path.bounds().x1, (MAX_POINTS + 9) as f32);
        assert_eq!(path.strokes(1.0).count(), 1);
    }
}

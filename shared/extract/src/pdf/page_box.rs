//! Boxes on the displayed page, in points.

/// A box along the axes of the page; it is empty if an edge lies beyond the opposite one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PageBox {
    pub(super) x0: f32,
    pub(super) y0: f32,
    pub(super) x1: f32,
    pub(super) y1: f32,
}

impl PageBox {
    pub(super) const EMPTY: Self = Self {
        x0: f32::INFINITY,
        y0: f32::INFINITY,
        x1: f32::NEG_INFINITY,
        y1: f32::NEG_INFINITY,
    };

    pub(super) fn around(points: impl IntoIterator<Item = (f32, f32)>) -> Self {
        let mut around = Self::EMPTY;
        points.into_iter().for_each(|point| around.add(point));
        around
    }

    pub(super) fn add(&mut self, (x, y): (f32, f32)) {
        self.x0 = self.x0.min(x);
        self.y0 = self.y0.min(y);
        self.x1 = self.x1.max(x);
        self.y1 = self.y1.max(y);
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self {
            x0: self.x0.min(other.x0),
            y0: self.y0.min(other.y0),
            x1: self.x1.max(other.x1),
            y1: self.y1.max(other.y1),
        }
    }

    pub(super) fn intersection(self, other: Self) -> Self {
        Self {
            x0: self.x0.max(other.x0),
            y0: self.y0.max(other.y0),
            x1: self.x1.min(other.x1),
            y1: self.y1.min(other.y1),
        }
    }

    pub(super) fn grown(self, by: f32) -> Self {
        Self {
            x0: self.x0 - by,
            y0: self.y0 - by,
            x1: self.x1 + by,
            y1: self.y1 + by,
        }
    }

    /// Whether nothing is in it. Boxes with edges that are not numbers are empty.
    pub(super) fn is_empty(self) -> bool {
        !(self.x0 < self.x1 && self.y0 < self.y1)
    }

    pub(super) fn contains(self, other: Self) -> bool {
        self.x0 <= other.x0 && self.y0 <= other.y0 && self.x1 >= other.x1 && self.y1 >= other.y1
    }

    /// The length of the shorter side.
    pub(super) fn thickness(self) -> f32 {
        (self.x1 - self.x0).min(self.y1 - self.y0)
    }

    /// The part of its area that `other` shares, up to 1.
    pub(super) fn share_in(self, other: Self) -> f32 {
        let common = self.intersection(other);
        if common.is_empty() {
            return f32::default();
        }
        common.area() / self.area()
    }

    pub(super) fn center(self) -> (f32, f32) {
        (self.x0.midpoint(self.x1), self.y0.midpoint(self.y1))
    }

    fn area(self) -> f32 {
        (self.x1 - self.x0) * (self.y1 - self.y0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_box(x0: f32, y0: f32, x1: f32, y1: f32) -> PageBox {
        PageBox { x0, y0, x1, y1 }
    }

    #[test]
    fn boxes_share_areas() {
        let whole = page_box(0.0, 0.0, 10.0, 10.0);
        let right = page_box(5.0, 0.0, 20.0, 10.0);
        assert_eq!(whole.share_in(right), 0.5);
        assert_eq!(whole.share_in(page_box(10.0, 0.0, 20.0, 10.0)), 0.0);
        assert!(whole.contains(page_box(0.0, 1.0, 10.0, 9.0)) && !whole.contains(right));
    }

    #[test]
    fn boxes_without_points_or_numbers_are_empty() {
        assert!(PageBox::EMPTY.is_empty());
        assert!(page_box(0.0, 0.0, f32::NAN, 1.0).is_empty());
        assert_eq!(
            PageBox::around([(1.0, 5.0), (3.0, 2.0)]),
            page_box(1.0, 2.0, 3.0, 5.0)
        );
    }
}

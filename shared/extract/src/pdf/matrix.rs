//! Affine maps in PDF notation: `[a b c d e f]`, applied to row vectors.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Matrix(pub(super) [f64; 6]);

impl Matrix {
    pub(super) const IDENTITY: Self = Self([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);

    /// Applies `self`, then `next`.
    pub(super) fn then(self, next: Self) -> Self {
        let [a, b, c, d, e, f] = self.0;
        let n = next.0;
        Self([
            a * n[0] + b * n[2],
            a * n[1] + b * n[3],
            c * n[0] + d * n[2],
            c * n[1] + d * n[3],
            e * n[0] + f * n[2] + n[4],
            e * n[1] + f * n[3] + n[5],
        ])
    }

    /// Translates by `(x, y)` before `self`.
    pub(super) fn shifted(self, x: f64, y: f64) -> Self {
        Self([1.0, 0.0, 0.0, 1.0, x, y]).then(self)
    }

    pub(super) fn apply(self, x: f64, y: f64) -> (f64, f64) {
        let [a, b, c, d, e, f] = self.0;
        (x * a + y * c + e, x * b + y * d + f)
    }

    pub(super) fn x_scale(self) -> f64 {
        self.0[0].hypot(self.0[1])
    }

    pub(super) fn y_scale(self) -> f64 {
        self.0[2].hypot(self.0[3])
    }

    pub(super) fn is_finite(self) -> bool {
        self.0
            .iter()
            .all(|value| value.is_finite() && value.abs() < 1e12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_apply_from_left_to_right() {
        let scale = Matrix([2.0, 0.0, 0.0, 3.0, 0.0, 0.0]);
        let moved = scale.shifted(1.0, 1.0);
        assert_eq!(moved.apply(0.0, 0.0), (2.0, 3.0));
        assert_eq!((moved.x_scale(), moved.y_scale()), (2.0, 3.0));
        assert!(!Matrix([f64::NAN; 6]).is_finite());
    }
}

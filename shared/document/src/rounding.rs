//! Numbers as JSON shows them.

/// A share or score in thousandths: as `f64`, the `f32` 0.973 would print as 0.9729999899864197.
///
/// ```
/// assert_eq!(stemma_document::rounding::rounded_share(0.973_f32), 0.973);
/// ```
pub fn rounded_share(share: impl Into<f64>) -> f64 {
    rounded(share.into(), 3)
}

/// A number with at most this many decimal places.
pub fn rounded(number: f64, places: i32) -> f64 {
    let unit = 10_f64.powi(places);
    (number * unit).round() / unit
}

//! Reproducible randomness: numbers derived from a seed, a question and the decision they are for.

pub(crate) struct SeededRng(blake3::OutputReader);

impl SeededRng {
    /// A generator for one decision (`what`) about one thing.
    pub(crate) fn new(seed: u64, what: &str, about: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&seed.to_le_bytes())
            .update(what.as_bytes())
            .update(&[0])
            .update(about);
        Self(hasher.finalize_xof())
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A number below `sides`; 0 if `sides` is 0.
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        (self.next_u64() % sides.max(1) as u64) as usize
    }

    /// In 0..1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// In `low..high`.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.fraction()
    }

    /// True at this rate.
    pub(crate) fn chance(&mut self, rate: f64) -> bool {
        self.fraction() < rate
    }

    /// A number of the standard normal distribution (Box–Muller transform).
    pub(crate) fn normal(&mut self) -> f64 {
        let u = 1.0 - self.fraction();
        let v = self.fraction();
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_inputs_give_equal_numbers() {
        let numbers = |seed, what, about: &str| {
            let mut rng = SeededRng::new(seed, what, about.as_bytes());
            (0..4).map(|_| rng.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1, "a", "x"), numbers(1, "a", "x"));
        for other in [
            numbers(2, "a", "x"),
            numbers(1, "b", "x"),
            numbers(1, "a", "y"),
        ] {
            assert_ne!(numbers(1, "a", "x"), other);
        }
    }

    #[test]
    fn numbers_follow_their_distributions() {
        let mut rng = SeededRng::new(7, "spread", b"");
        let count = 20_000;
        let hits = (0..count).filter(|_| rng.chance(0.3)).count();
        assert!((5_700..6_300).contains(&hits), "{hits}");
        let normal: Vec<f64> = (0..count).map(|_| rng.normal()).collect();
        let mean = normal.iter().sum::<f64>() / count as f64;
        let variance = normal.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / count as f64;
        assert!(
            mean.abs() < 0.05 && (variance - 1.0).abs() < 0.05,
            "{mean} {variance}"
        );
    }
}

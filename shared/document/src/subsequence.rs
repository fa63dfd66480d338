//! The longest common subsequence of two texts.

use std::collections::HashMap;
use std::hash::Hash;

/// Length of the longest common subsequence, 64 elements of `b` at a time, so that two texts of 100,000 words take a second (Hyyrö
/// 2004). A zero bit of `row` means that the subsequence grows at that element of `b`.
pub fn common_subsequence_len<T: Eq + Hash>(a: &[T], b: &[T]) -> usize {
    let mut positions: HashMap<&T, Vec<usize>> = HashMap::new();
    for (position, element) in b.iter().enumerate() {
        positions.entry(element).or_default().push(position);
    }
    let mut row = vec![u64::MAX; b.len().div_ceil(64)];
    let mut occurrences = vec![0u64; row.len()];
    for positions in a.iter().filter_map(|element| positions.get(element)) {
        for position in positions {
            occurrences[position / 64] |= 1 << (position % 64);
        }
        let mut carry = false;
        for (bits, occurrences) in row.iter_mut().zip(&mut occurrences) {
            let matches = *bits & *occurrences;
            let (sum, overflow) = bits.overflowing_add(matches);
            let (sum, carry_overflow) = sum.overflowing_add(u64::from(carry));
            carry = overflow || carry_overflow;
            *bits = sum | (*bits & !matches);
            *occurrences = 0;
        }
    }
    (0..b.len())
        .filter(|position| row[position / 64] >> (position % 64) & 1 == 0)
        .count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn length_is_that_of_the_textbook_algorithm(
            one in prop::collection::vec(0u32..6, 0..200),
            other in prop::collection::vec(0u32..6, 0..200),
        ) {
            let mut table = vec![vec![0; other.len() + 1]; one.len() + 1];
            for (i, a) in one.iter().enumerate() {
                for (j, b) in other.iter().enumerate() {
                    let diagonal = table[i][j] + usize::from(a == b);
                    table[i + 1][j + 1] = diagonal.max(table[i][j + 1]).max(table[i + 1][j]);
                }
            }
            prop_assert_eq!(common_subsequence_len(&one, &other), table[one.len()][other.len()]);
        }
    }
}

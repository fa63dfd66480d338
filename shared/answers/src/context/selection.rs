//! Chooses pages by worth, and how many tokens of each are read.

use stemma_retrieval::search::SearchHit;

use super::SectionRequest;

// Tokens of a passage's heading and delimiters.
pub(super) const PASSAGE_OVERHEAD_TOKENS: u32 = 55;
// What is read of a page that is not read whole: a paragraph or two, or some rows of a table. Larger extracts leave no room for
// pages that rank low: with 250 tokens .84 of the right pages of general documents reach the prompt, with 150 .89.
const EXTRACT_TOKENS: u32 = 150;
/// Least room for what is read of one filing: a passage of it.
pub(crate) const MIN_PART_TOKENS: u32 = EXTRACT_TOKENS + PASSAGE_OVERHEAD_TOKENS;
// Extracts of many pages take at most this share of the room, and whole pages the rest.
const EXTRACT_SHARE: f32 = 0.6;
// With less room than this no passage is started.
const MIN_TOKENS: u32 = 120;

/// A page, or a section of a document without pages, that may be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadCandidate<'r> {
    pub(super) request: &'r SectionRequest,
    /// `None` in a document without pages.
    pub(super) page: Option<u32>,
}

/// Requests for the pages of hits, one each, best first: a long section has pages that fit less than those of other
/// sections.
pub(crate) fn pages_by_worth(hits: &[SearchHit]) -> Vec<SectionRequest> {
    let mut requests: Vec<SectionRequest> = Vec::new();
    for hit in hits {
        let request = SectionRequest::from_hit(hit);
        let best = hit.best_pages.first().map_or(1.0, |page| page.score);
        if hit.best_pages.is_empty() {
            requests.push(request.clone());
        }
        requests.extend(hit.best_pages.iter().map(|page| SectionRequest {
            pages: vec![page.page],
            // Pages are comparable within a hit, and hits with each other.
            score: (hit.score * page.score / best.max(f64::MIN_POSITIVE)) as f32,
            ..request.clone()
        }));
    }
    requests.sort_by(|a, b| b.score.total_cmp(&a.score));
    requests
}

/// Pages that are looked at for `room` tokens: more than fit, unless most are short.
pub(super) fn most_pages(room: u32) -> usize {
    (room / EXTRACT_TOKENS) as usize + 1
}

/// The tokens of text to read of each page, best first; 0: not read. Every page begins with an extract, as long as these
/// take no more than their share; then pages are read whole, best first.
pub(super) fn allot(sizes: &[u32], room: u32) -> Vec<u32> {
    let mut allotted = vec![0; sizes.len()];
    let mut remaining = room;
    let kept_for_whole_pages = room - (room as f32 * EXTRACT_SHARE) as u32;
    for (at, size) in sizes.iter().enumerate() {
        let extract = (*size).min(EXTRACT_TOKENS);
        let cost = extract + PASSAGE_OVERHEAD_TOKENS;
        let is_within_share = remaining.saturating_sub(cost) >= kept_for_whole_pages;
        if cost <= remaining && (is_within_share || at == 0) {
            allotted[at] = extract;
            remaining -= cost;
        } else if at == 0 && remaining >= MIN_TOKENS {
            allotted[at] = remaining - PASSAGE_OVERHEAD_TOKENS;
            remaining = 0;
        } else {
            break;
        }
    }
    for (at, size) in sizes.iter().enumerate() {
        let more = size.saturating_sub(allotted[at]);
        let overhead = if allotted[at] == 0 {
            PASSAGE_OVERHEAD_TOKENS
        } else {
            0
        };
        if remaining < MIN_TOKENS {
            break;
        }
        let more = more.min(remaining - overhead);
        allotted[at] += more;
        remaining -= more + overhead;
    }
    allotted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_pages_are_read_whole_and_later_ones_in_extracts() {
        let allotted = allot(&[700; 20], 5_000);
        let whole = allotted.iter().filter(|tokens| **tokens == 700).count();
        let extracts = allotted
            .iter()
            .filter(|tokens| **tokens == EXTRACT_TOKENS)
            .count();
        assert!(whole >= 3 && extracts >= 4, "{allotted:?}");
        assert!(allotted.is_sorted_by(|a, b| a >= b), "{allotted:?}");
        let cost: u32 = allotted
            .iter()
            .filter(|tokens| **tokens > 0)
            .map(|tokens| tokens + PASSAGE_OVERHEAD_TOKENS)
            .sum();
        assert!(cost <= 5_000, "{cost}");
    }

    #[test]
    fn pages_that_fit_are_all_read_whole() {
        assert_eq!(allot(&[300, 900, 20], 5_000), [300, 900, 20]);
        assert_eq!(allot(&[4_000], 1_000), [1_000 - PASSAGE_OVERHEAD_TOKENS]);
        assert_eq!(allot(&[4_000], MIN_TOKENS - 1), [0]);
        assert_eq!(allot(&[], 1_000), Vec::<u32>::new());
    }

    proptest::proptest! {
        #[test]
        fn room_is_never_exceeded(sizes in proptest::collection::vec(1u32..3_000, 0..30), room in 0u32..20_000) {
            let allotted = allot(&sizes, room);
            let cost: u32 = allotted.iter().filter(|tokens| **tokens > 0).map(|tokens| tokens + PASSAGE_OVERHEAD_TOKENS).sum();
            proptest::prop_assert!(cost <= room);
            proptest::prop_assert!(allotted.iter().zip(&sizes).all(|(tokens, size)| tokens <= size));
        }
    }
}
